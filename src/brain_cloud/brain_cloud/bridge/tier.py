# SPDX-License-Identifier: Apache-2.0
"""The cloud's tier: regions that run where the cloud does, on a net of their own, kept as those of a brain are.

Its router is in this process, and listens at a socket in a folder of this user alone: nobody else hears what robots
let the cloud see, or answers in its place. The cloud's own process needs no torch.
"""
from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any, Sequence

from brain_runtime.contract.heartbeat import UNCONFIGURED
from brain_runtime.graph.command_lines import command
from brain_runtime.graph.resolved import ResolvedRegion
from brain_runtime.run.workload import Event, Workload
from brain_runtime.supervision.supervised_brain import StartError, SupervisedBrain
from brain_runtime.supervision.supervisor import Heartbeats
from brain_wire import NoRouter, Session
from brain_wire.credentials import SECURITY_VARIABLE
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.router import Router
from brain_wire.session import CONFIG_VARIABLE, OVERRIDE_VARIABLE, Elsewhere
from brain_wire.temporary_folder import TemporaryFolder

START = 120.0           # s that regions may take to load what they compute with
PAUSE = 1.0             # s after a look that failed
NET_NAME = "net"        # of the socket in the folder
DOMAIN = 0              # of a net that nobody else is on, so any will do
# What the environment says of a brain's net is not said of this one.
NET = dict.fromkeys((SECURITY_VARIABLE, CONFIG_VARIABLE, OVERRIDE_VARIABLE), "")

limited_log = RateLimitedLog(logging.getLogger("brain.tier"))


class TierProblem(RuntimeError):
    """A region of the tier does not come up; says which, and why."""


class Tier:
    """Regions of the cloud, until it is closed.

    Args:
        regions: that are to run.
        logs: folder for a log of each.

    Attributes:
        session: on their net; ``domain``: of their nodes.
        up: all of them are active now.

    Raises:
        TierProblem: one of them cannot run: its weights, or what it needs, are not there.
        OSError, RouterProblem: the folder, or the socket, cannot be made.
    """

    def __init__(self, regions: Sequence[ResolvedRegion], logs: Path) -> None:
        self.up, self.domain = False, DOMAIN
        self._place = TemporaryFolder("tier")
        endpoint = f"unixsock-stream/{self._place.name}/{NET_NAME}"
        self.session = Session(Router([endpoint], more={}).session, endpoint)
        self._names = {region.node: region.name for region in regions}
        self._brain = SupervisedBrain([Workload(
            region.name, command(region, router=endpoint), NET, restarts_told=True,
            probe=Heartbeats(region.node, region.rate, region.triggers)) for region in regions],
            logs, endpoint, domain=DOMAIN, elsewhere=Elsewhere(), on_event=self._tell)
        self._over, self._begun, self._problem = threading.Event(), threading.Event(), ""
        # The kernel ends the regions with the thread that started them.
        self._thread = threading.Thread(target=self._keep, name="tier", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._problem:
            self.close()
            raise TierProblem(self._problem)

    def close(self) -> None:
        """Ends the regions, then their net."""
        self._over.set()
        self._thread.join()
        self.session.close()
        self._place.cleanup()

    def _keep(self) -> None:
        brain = self._brain
        try:
            brain.start()
            self.up = brain.wait_ready(START)
            if not self.up:
                self._problem = ". ".join(brain.missing()) or f"the cloud's regions are not up after {START:g} s"
                return
            self._begun.set()
            while not self._over.is_set():
                self._look()
        except (NoRouter, StartError) as problem:
            self._problem = str(problem)
        finally:
            self.up = False
            brain.stop()
            self._begun.set()

    def _look(self) -> None:
        try:
            self._brain.round()
            self.up = self._brain.ready() and len(self._own()) == len(self._names)
            self._start_again()
        except Exception:   # whatever it is, regions are looked after again
            limited_log("tier", "the cloud's regions could not be looked after", trace=True, level=logging.ERROR)
            self._over.wait(PAUSE)

    def _own(self) -> dict[str, Any]:
        """Last heartbeats of the processes that run now, by their regions' names."""
        assert self._brain.ear is not None, "it has been started"
        heard = {name: self._brain.ear.regions[node].beat for node, name in self._names.items()}
        return {name: beat for name, beat in heard.items() if beat.pid == self._brain.supervisor.pid(name)}

    def _start_again(self) -> None:
        """Starts again who cannot be configured, since nobody is on this net who could order it: a file may be back."""
        for name, beat in self._own().items():
            if beat.state == UNCONFIGURED and beat.reason:
                self._brain.supervisor.kill(name)

    def _tell(self, event: Event) -> None:
        if event.kind in ("ended", "unhealthy", "warning"):
            limited_log(f"{event.name} {event.kind}", f"{event.name} {event.kind}: {event.text}")


def second(weights: Path) -> ResolvedRegion:
    """The large vision that answers robots about hard pictures, with the weights of a file."""
    return ResolvedRegion("second", "brain_regions.vision.second:SecondVision", triggers=("vision/hard",),
                          own={"weights": str(weights)})
