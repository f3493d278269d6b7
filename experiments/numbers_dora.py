# SPDX-License-Identifier: Apache-2.0
"""Says a number until it comes back doubled: beside ``doubler_dora.py``. ``python numbers_dora.py run FOLDER``."""
import importlib
import sys
import time
from pathlib import Path

dora, pa = importlib.import_module("dora"), importlib.import_module("pyarrow")  # of another environment
NUMBERS = """\
nodes:
  - id: numbers
    path: {python}
    args: {folder}/numbers_dora.py
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


def run(folder):
    """Writes the dataflow and runs it until the number has come back."""
    file = Path(folder) / "dataflow.yml"
    file.write_text((NUMBERS + DOUBLER).format(python=sys.executable, folder=Path(__file__).parent), encoding="utf-8")
    dora.run(str(file))


def numbers():
    """Says 21 until the double of it comes."""
    node, until = dora.Node(), time.monotonic() + 20.0
    while time.monotonic() < until:
        node.send_output("number", pa.array([21.0]))
        event = node.next(timeout=1.0)
        if event is not None and event["type"] == "INPUT":
            print("doubled", event["value"][0].as_py(), flush=True)
            return


if __name__ == "__main__":
    run(sys.argv[2]) if len(sys.argv) > 2 else numbers()
