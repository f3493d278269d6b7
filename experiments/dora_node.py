# SPDX-License-Identifier: Apache-2.0
"""Nodes of dora dataflows beside which a brain is measured: ``python dora_node.py ping``, ``echo`` or ``numbers``.

``python dora_node.py run FOLDER`` writes the dataflow of ping and echo and runs it with dora's own daemon, ``... double
FOLDER`` that of numbers and ``doubler_dora.py``. It is run by its path, in an environment with dora-rs and without
anything of ours.
"""
import importlib
import json
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np

dora, pa = importlib.import_module("dora"), importlib.import_module("pyarrow")  # of the other environment
LOST = 2.0          # s after which a message counts as lost
QUIET = 0.4         # s in which what was sent last arrives
ANSWER = 30.0       # s for what was counted: it waits behind what was sent before


NUMBERS = """\
nodes:
  - id: numbers
    path: {python}
    args: {folder}/dora_node.py numbers
    inputs: {{doubled: doubler/doubled}}
    outputs: [number]
"""
DOUBLER = """\
  - id: doubler
    path: {python}
    args: {folder}/doubler_dora.py
    inputs: {{number: numbers/number}}
    outputs: [doubled]
"""


def run(folder: str, dataflow: str) -> None:
    """Writes a dataflow and runs it until its nodes end."""
    file = Path(folder) / "dataflow.yml"
    file.write_text(dataflow, encoding="utf-8")
    dora.run(str(file))


def there_and_back() -> str:
    """The dataflow of ping and echo."""
    own = {"path": sys.executable}
    nodes = [{"id": "ping", **own, "args": f"{__file__} ping", "outputs": ["ping", "flood", "asked"],
              "inputs": {name: {"source": f"echo/{name}", "queue_size": 1} for name in ("pong", "counted")}},
             {"id": "echo", **own, "args": f"{__file__} echo", "outputs": ["pong", "counted"],
              "inputs": {name: {"source": f"ping/{name}", "queue_size": 1} for name in ("ping", "flood", "asked")}}]
    return json.dumps({"nodes": nodes})     # JSON is YAML


def doubled() -> str:
    """The dataflow of numbers and the doubler."""
    return (NUMBERS + DOUBLER).format(python=sys.executable, folder=Path(__file__).parent)


def numbers() -> None:
    """Says 21 until the double of it comes."""
    node, until = dora.Node(), time.monotonic() + 20.0
    while time.monotonic() < until:
        node.send_output("number", pa.array([21.0]))
        event = node.next(timeout=1.0)
        if event is not None and event["type"] == "INPUT":
            print("doubled", event["value"][0].as_py(), flush=True)
            return


def echo() -> None:
    """Sends back what comes as ``ping``; counts what comes as ``flood``, and tells when it is ``asked``."""
    node, count, first, last = dora.Node(), 0, 0.0, 0.0
    for event in node:
        if event["type"] != "INPUT":
            continue
        if event["id"] == "ping":
            node.send_output("pong", event["value"])
        elif event["id"] == "flood":
            last = time.monotonic()
            first = first if count else last
            count += 1
        else:
            node.send_output("counted", pa.array([float(count), last - first]))
            count = 0


class Ping:
    """Obeys orders: lines of JSON, as :mod:`experiments.outside_peer` writes them."""

    def __init__(self) -> None:
        self._node = dora.Node()

    def heard(self, name: str, patience: float = LOST) -> object:
        """The next value of an input; None if it does not come."""
        until = time.perf_counter() + patience
        while (left := until - time.perf_counter()) > 0:
            event = self._node.next(timeout=left)
            if event is not None and event["type"] == "INPUT" and event["id"] == name:
                return event["value"]
        return None

    def block(self, size: int, count: int) -> list:
        """Round trip times (s)."""
        data, times = pa.array(np.zeros(size, np.uint8)), []
        for _ in range(count):
            begin = time.perf_counter()
            self._node.send_output("ping", data)
            back = self.heard("pong")
            if back is not None and len(back) == size:
                times.append(time.perf_counter() - begin)
        return times

    def flow(self, size: int, seconds: float) -> dict:
        """Measures one-way throughput for so many seconds."""
        data, sent, until = pa.array(np.zeros(size, np.uint8)), 0, time.monotonic() + seconds
        while time.monotonic() < until:
            self._node.send_output("flood", data)
            sent += 1
        time.sleep(QUIET)
        self._node.send_output("asked", pa.array([0]))
        told = self.heard("counted", ANSWER)
        if told is None:
            return {"sent": 0, "n": 0, "took": 0.0}     # nothing is known of it
        n, took = told.to_pylist()
        return {"sent": sent, "n": int(n), "took": took}


def ping() -> None:
    """Obeys until there are no more orders."""
    orders = importlib.import_module("orders").Orders()     # which is beside this file
    side, until = Ping(), time.monotonic() + 30.0
    while not side.block(64, 1) and time.monotonic() < until:
        pass
    orders.tell(about=f"dora-rs {metadata.version('dora-rs')}")
    for order in orders:
        if order["do"] == "block":
            orders.tell(times=side.block(order["size"], order["count"]))
        else:
            orders.tell(flows=[side.flow(size, order["seconds"]) for size in order["sizes"]])


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run(sys.argv[2], {"run": there_and_back, "double": doubled}[sys.argv[1]]())
    else:
        {"ping": ping, "echo": echo, "numbers": numbers}[sys.argv[1]]()
