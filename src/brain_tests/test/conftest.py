# SPDX-License-Identifier: Apache-2.0
"""What several modules of these tests start: routers, plain and secured, and sessions of them."""
import os
from pathlib import Path

import pytest

from forked import Forked
from brain_tests.secured import Secured, make_keys
from brain_tests.stages import ProcessStage
from brain_wire import open_session
from brain_wire.router import Router, free_port

# Tests kill processes, and with shared memory that ended this one, too, when it closed: Fast DDS 3.2.3, in a lock of
# SharedMemTransport::CloseInputChannel (4 of some hundred runs). With the range LOCALHOST rmw_fastrtps_cpp brings its
# own shared memory whatever FASTDDS_BUILTIN_TRANSPORTS says, so that the profile must say both: no shared memory, and
# nothing that leaves this machine.
if os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") == "rmw_fastrtps_cpp":
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SYSTEM_DEFAULT"
    for name in ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"):    # Jazzy knows the second
        os.environ[name] = str(Path(__file__).with_name("loopback.xml"))

ProcessStage.forked = Forked


@pytest.fixture
def sessions():
    """Two sessions of one router: ours, and the hostile peer's."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=10) as ours, open_session(endpoint, patience=10) as theirs:
        yield ours, theirs


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Folder of the keys of a brain, its domain, port and namespace; a router runs with them."""
    with make_keys(tmp_path_factory.mktemp("keys") / "k") as made:
        yield made


@pytest.fixture
def secured(keys, monkeypatch):
    """The secured brain; what a test opened is closed after it."""
    for variable in ("ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE", "BRAIN_ROUTER"):
        monkeypatch.delenv(variable, raising=False)
    found = Secured(*keys, monkeypatch)
    yield found
    found.close()
