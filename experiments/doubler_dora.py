# SPDX-License-Identifier: Apache-2.0
"""Twice what it hears, as a node of a dora dataflow."""
import importlib

dora, pa = importlib.import_module("dora"), importlib.import_module("pyarrow")  # of another environment


def step(node, number):
    node.send_output("doubled", pa.array([2.0 * number[0].as_py()]))


if __name__ == "__main__":
    running = dora.Node()
    for event in running:
        if event["type"] == "INPUT":
            step(running, event["value"])
