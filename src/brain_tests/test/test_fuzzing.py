# SPDX-License-Identifier: Apache-2.0
"""How parsers are tried: what is measured of an example is the time of the parser, not of who draws its numbers."""
import subprocess
import sys

PROGRAM = """
import sys
import brain_eval.evaluate, brain_runtime.graph, brain_wire.messages     # many sources that hypothesis may want to read
from brain_tests.fuzzing import fuzz

inside, read = False, []
sys.addaudithook(lambda event, args: read.append(str(args[0])) if inside and event == "open" else None)

def one(draw):
    global inside
    inside = True
    [draw.randrange(1000) for _ in range(20)]
    inside = False
    return True

fuzz(one)
print(len([name for name in read if name.endswith(".py")]))
"""


def test_no_source_is_read_while_an_example_is_timed():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
