# SPDX-License-Identifier: Apache-2.0
"""Stages: one way to run a region and talk with it, whatever hosts it. For tests that every host must pass."""
from __future__ import annotations

import io
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Callable

from brain_runtime.run.end_with_parent import __file__ as END_WITH_PARENT
from brain_runtime.graph import RegionSpec
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages
from brain_wire.parameter_services import value_message
from brain_wire.qos import QoS
from brain_wire.services import service_type

PATIENCE = 120.0     # s until something that should come is given up


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


_domains = itertools.cycle(range(1, 81))
for _ in range(os.getpid() % 80):   # others that test meanwhile begin elsewhere
    next(_domains)


def free_domain() -> int:
    """Returns a ROS domain for a test, another one than the last 79.

    What was killed before may still be spoken for there: a keeper says a base's last word. DDS derives ports from a
    domain, which must stay below the ephemeral ones.
    """
    return next(_domains)


class Stage(ABC):
    """Runs one region named ``mirror``. Time passes only in :meth:`pause` and :meth:`until`."""

    @abstractmethod
    def start(self, cls: str, state_dir: Path | None = None, *, manual: bool = False, **parameters: Any) -> None:
        """Starts the region ``package.module:Class``; ``manual``: it is neither configured nor activated."""

    @abstractmethod
    def failed(self) -> str:
        """Waits for the region's end by failure; what was said about it."""

    @abstractmethod
    def kill(self) -> None:
        """Ends the region without a word."""

    @abstractmethod
    def ended(self) -> int | None:
        """The exit status of the region, 0 after an end in good order; None while it runs."""

    @abstractmethod
    def end(self) -> None:
        """Ends the region in good order; raises if there was none."""

    @abstractmethod
    def say(self, topic: str, message: Any, qos: QoS) -> None:
        """Publishes a message."""

    @abstractmethod
    def hear(self, topic: str, type_name: str, qos: QoS) -> list:
        """A list that fills with what comes on a topic."""

    @abstractmethod
    def unhear(self, topic: str) -> None:
        """Ends :meth:`hear` on a topic."""

    def change(self, **values: Any) -> str:
        """Changes parameters while the region runs; "" or why not."""
        request = messages.make("rcl_interfaces/srv/SetParametersAtomically_Request", parameters=[
            messages.make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value))
            for name, value in values.items()])
        result = self.call("mirror/set_parameters_atomically", "rcl_interfaces/srv/SetParametersAtomically",
                           request).result
        assert bool(result.reason) != result.successful
        return result.reason

    @abstractmethod
    def call(self, service: str, type_name: str, request: Any = None) -> Any:
        """The answer of a service of the region's node to a request, or to an empty one."""

    @abstractmethod
    def ask(self, text: str) -> Any:
        """Gives the region a goal of its action ``seek``.

        Returns an object with what :class:`brain_runtime.hosts.local.Asked` has; None where it was not accepted.
        """

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Lets time pass."""

    def log(self) -> str:
        """Returns what the region's process wrote."""
        return ""

    def close(self) -> None:
        """Ends everything."""

    def until(self, condition: Callable[[], Any]) -> Any:
        """Lets time pass until ``condition()`` gives something; returns that."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, f"it did not come true; the log ends: {self.log()[-3000:]}"
            self.pause(0.05)
        return found


class LocalStage(Stage):
    """LocalHost, in lockstep and through bytes."""

    def __init__(self, folder: Path) -> None:
        self._host = LocalHost({}, on_error="drop")
        self._kept: dict | None = None
        self._ears: dict[str, Callable[[], None]] = {}
        self._log = io.StringIO()
        self._handler = logging.StreamHandler(self._log)
        logging.getLogger("brain_runtime").addHandler(self._handler)

    def start(self, cls, state_dir=None, *, manual=False, **parameters):
        region = RegionSpec("mirror", cls).load()("mirror")
        try:
            self._host.join("mirror", region, self._kept if state_dir else None, parameters=parameters,
                            autostart=not manual)
        except OSError as error:
            self._host.errors["mirror"] = str(error)

    def failed(self):
        return self.until(lambda: self._host.errors.get("mirror"))

    def kill(self):
        self._kept = self._host.kill("mirror").state

    def end(self):
        self._host.leave("mirror")

    def ended(self):
        return None if "mirror" in self._host.regions else 0

    def say(self, topic, message, qos):
        self._host.publish(topic, message, latch=qos.latched)
        self._host.advance(0.001)

    def hear(self, topic, type_name, qos):
        heard: list = []
        self._ears[topic] = self._host.listen(topic, heard.append, latched=qos.latched)
        return heard

    def unhear(self, topic):
        self._ears.pop(topic)()

    def call(self, service, type_name, request=None):
        types = service_type(type_name)
        request = messages.make(types.request) if request is None else request
        response = self._host.call(service, messages.decode(messages.encode(request), types.request))
        return messages.decode(messages.encode(response), types.response)

    def ask(self, text):
        return self._host.ask("mirror", "seek", text=text)

    def pause(self, seconds):
        self._host.advance(seconds)

    def log(self):
        return self._log.getvalue()

    def close(self):
        logging.getLogger("brain_runtime").removeHandler(self._handler)


class ProcessStage(Stage):
    """A region as a process.

    Attributes:
        module: which runs it.
        forked: starts it in a process forked from one that has imported the module, as the tests' conftest.py says;
            None: in an interpreter of its own.
    """

    module = ""
    forked: type[Any] | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Any] = []
        self.port = free_port()
        self.domain = free_domain()

    def _arguments(self) -> list[str]:
        return []

    def start(self, cls, state_dir=None, *, manual=False, params_file=None, remap=(), **parameters):
        argv = ["-m", self.module, "--class", cls, "--name", "mirror", *self._arguments()]
        argv += ["--state-dir", str(state_dir)] if state_dir else []
        argv += ["--manual"] if manual else []
        files = ["--params-file", str(params_file)] if params_file else []
        own = [item for name, value in parameters.items() for item in ("-p", f"{name}:={value}")]
        argv += ["--ros-args", *files, *own]
        argv += [item for rule in remap for item in ("-r", rule)]
        path, environment = self._folder / f"{len(self._children)}.log", {
            **os.environ, "ROS_DOMAIN_ID": str(self.domain)}
        if self.forked is not None:
            self._children.append(self.forked(*argv, log=path, environment=environment))
            return
        with open(path, "wb") as log:
            self._children.append(subprocess.Popen(
                [sys.executable, END_WITH_PARENT, str(os.getpid()), sys.executable, *argv], stdout=log, stderr=log,
                env=environment))

    def failed(self):
        status = self.until(lambda: self._children[-1].poll())
        assert status in (1, 2), f"status {status}"
        return self.log()

    def kill(self):
        self._children[-1].kill()
        self._children[-1].wait()

    def end(self):
        self._children[-1].send_signal(signal.SIGTERM)
        assert self._children[-1].wait(PATIENCE) == 0, self.log()

    def ended(self):
        return self._children[-1].poll()

    def log(self):
        path = self._folder / f"{len(self._children) - 1}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self):
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()


class ZenohStage(ProcessStage):
    """ZenohHost, with a router of its own."""

    module = "brain_runtime.process"

    def __init__(self, folder: Path) -> None:
        from brain_wire import Node, open_session
        from brain_wire.router import Router

        super().__init__(folder)
        self._endpoint = f"tcp/127.0.0.1:{self.port}"
        self._router = Router([self._endpoint])
        self._session = open_session(self._endpoint, patience=PATIENCE)
        self._node = Node(self._session, "stage", domain=self.domain)
        self._publishers: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self._ears: list[tuple[Any, list]] = []

    def _arguments(self):
        return ["--router", self._endpoint]

    def start(self, cls, state_dir=None, **more):
        # A process may have ended before this session is told so: a request to it would go without an answer.
        self.until(lambda: not any(client.wait(0.0) for client in self._clients.values()))
        super().start(cls, state_dir, **more)

    def say(self, topic, message, qos):
        if topic not in self._publishers:
            self._publishers[topic] = self._node.publisher(topic, message.__msgtype__, qos)
        self._publishers[topic].publish(message)

    def hear(self, topic, type_name, qos):
        heard: list = []
        self._ears.append((self._node.subscription(topic, type_name, qos.with_depth(100)), heard))
        return heard

    def unhear(self, topic):
        for ear in [e for e in self._ears if e[0].endpoint.topic == f"/{topic}"]:
            self._ears.remove(ear)
            self._node.let_go(ear[0])

    def call(self, service, type_name, request=None):
        if service not in self._clients:
            self._clients[service] = self._node.client(service, type_name)
        client = self._clients[service]
        return client.call(messages.make(client.type.request) if request is None else request, PATIENCE)

    def ask(self, text):
        from brain_tests.asking import ask_on_wire
        return ask_on_wire(self._node, text)

    def pause(self, seconds):
        time.sleep(seconds)
        for subscription, heard in self._ears:
            heard += [messages.decode(arrival.data, subscription.type) for arrival in subscription.take()]

    def close(self):
        super().close()
        self._node.close()
        self._session.close()
        self._router.close()
