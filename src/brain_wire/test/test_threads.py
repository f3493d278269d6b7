# SPDX-License-Identifier: Apache-2.0
"""Zenoh's threads: how many a router and a region have. The pools are a process's, so each is a process of its own."""
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from brain_wire.router import free_port
from brain_wire.threads import VARIABLE

PROGRAM = """
import json, os, sys, time
from pathlib import Path
from brain_wire import open_session
from brain_wire.router import Router
from brain_wire.threads import REGION, threads
what, endpoint = sys.argv[1:]
if what == "region":     # the router is another process
    with threads(REGION):
        first = open_session(endpoint, patience=30.0)
else:
    first = Router([endpoint])
with first, open_session(endpoint, patience=30.0) as second:
    names, before = None, ()
    while names != before:      # a thread gives itself its name, some time after it was started
        time.sleep(0.3)
        names, before = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")], names
print(json.dumps([names, os.environ.get("ZENOH_RUNTIME")]))
"""


@pytest.fixture
def endpoint():
    """Of a router that is another process; for a program that is a router itself nobody needs to be there."""
    at = f"tcp/127.0.0.1:{free_port()}"
    process = subprocess.Popen([sys.executable, "-m", "brain_wire.router", "--listen", at], stderr=subprocess.DEVNULL)
    yield at
    process.terminate()
    process.wait(30.0)


def pools(what, endpoint, **environment):
    """How many threads each of Zenoh's pools has, and what the environment says afterwards."""
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    ran = subprocess.run([sys.executable, "-c", PROGRAM, what, endpoint], capture_output=True, text=True, timeout=120,
                         env={**inherited, **environment})
    assert ran.returncode == 0, ran.stderr
    names, left = json.loads(ran.stdout)
    return Counter(name.partition("-")[0] for name in names), left


def test_a_router_has_threads_for_links_that_wait():
    found, left = pools("router", f"tcp/127.0.0.1:{free_port()}")
    assert found["rx"] == 16 and found["tx"] == 8 and left is None


def test_who_waits_for_a_regions_socket_reads_it(endpoint):
    found, left = pools("region", endpoint)
    assert found["rx"] == 0 and found["app"] and found["tx"] == 1 and left is None


def test_the_environment_wins(endpoint):
    own = "(rx: (worker_threads: 3))"
    for what, at in (("router", f"tcp/127.0.0.1:{free_port()}"), ("region", endpoint)):
        found, left = pools(what, at, **{VARIABLE: own})
        assert found["rx"] == 3 and left == own
