# SPDX-License-Identifier: Apache-2.0
"""The stage of TorchHost: one region as rank 1, and who talks with it as rank 0."""
from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any, Callable

from brain_collectives.hosts.torch import TorchHost
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.contract.stepper import RegionError
from brain_collectives.hosts.torch_ranks import Ranks
from brain_tests.processes import gone
from brain_tests.stages import Stage
from brain_wire import messages
from brain_wire.services import service_type

_made: list[Ranks] = []


def ranks() -> Ranks:
    """One rank for a region, for all tests of this process: it can be another region again and again.

    It is started anew where it has ended: a rank waits for its next region for a while only, and the tests of another
    module may have come between.
    """
    if _made and any(map(gone, _made[-1].processes())):
        _made.pop().end(kill=True)
    if not _made:
        _made.append(Ranks(1))
        atexit.register(_made[-1].end)
    return _made[-1]


class TorchStage(Stage):
    """TorchHost, in lockstep. What is said and heard before the region is there begins with it."""

    def __init__(self, folder: Path) -> None:
        self._host: TorchHost | None = None
        self._ears: dict[str, tuple[list, bool]] = {}
        self._ends: dict[str, Callable[[], None]] = {}
        self._before: list[tuple[str, Any, bool]] = []
        self._error = ""
        self._ended = False

    @property
    def _running(self) -> TorchHost:
        assert self._host is not None, "the region was not started"
        return self._host

    def start(self, cls, state_dir=None, *, manual=False, **parameters):
        region = ResolvedRegion("mirror", cls, parameters=parameters)
        self._ended = False
        try:
            self._host = TorchHost(ranks().group, Resolved("mirror", (region,), host="torch"), manual=manual)
        except RegionError as error:
            self._error = str(error)
            return
        for topic, (heard, latched) in self._ears.items():
            self._ends[topic] = self._host.listen(topic, heard.append, latched=latched)
        for topic, message, latch in self._before:
            self._host.publish(topic, message, latch=latch)

    def _try(self, what: Callable[[], Any]) -> Any:
        """Calls something while the region may have failed; None where it has."""
        if self._host is None:
            return None
        try:
            return what()
        except RegionError as error:
            self._error, self._host = str(error), None
            return None

    def failed(self):
        return self.until(lambda: self._error)

    def kill(self):
        raise AssertionError("a rank that is killed takes all with it; see test_torch_host.py")

    def end(self):
        self._running.leave()
        self._host, self._ended = None, True

    def ended(self):
        if self._host is not None:
            state = self.call("mirror/get_state", "lifecycle_msgs/srv/GetState").current_state.label
            return 0 if state == "finalized" else None
        return 0 if self._ended else 1 if self._error else None

    def say(self, topic, message, qos):
        if self._host is None:
            if qos.latched and not self._ended:
                self._before.append((topic, message, True))
            return
        self._try(lambda: self._running.publish(topic, message, latch=qos.latched))
        self.pause(0.001)

    def hear(self, topic, type_name, qos):
        heard: list = []
        self._ears[topic] = heard, qos.latched
        if self._host is not None:
            self._ends[topic] = self._host.listen(topic, heard.append, latched=qos.latched)
        return heard

    def unhear(self, topic):
        self._ears.pop(topic)
        self._ends.pop(topic)()

    def call(self, service, type_name, request=None):
        request = messages.make(service_type(type_name).request) if request is None else request
        return self._running.call(service, request)

    def ask(self, text):
        return self._running.ask("mirror", "seek", text=text)

    def log(self):
        return ranks().log(1)

    def pause(self, seconds):
        self._try(lambda: self._running.advance(seconds))
