# SPDX-License-Identifier: Apache-2.0
"""Supervisor: the loop that keeps the processes of a brain, and judges regions by their heartbeats.

No wire, no torch: whoever owns a wire hands in what was heard (:meth:`Supervisor.beat`, :meth:`Supervisor.token`,
:meth:`Supervisor.link`) from any thread.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from brain_runtime.run.health import RESTING, Health, Limits
from brain_runtime.contract.heartbeat import ERROR
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import Event, Watching, Workload
from brain_runtime.run.cpu_wait import CpuWait
from brain_wire.logs import Logs, Through

QUIET = 0.5         # s without a heartbeat from anybody, after which the wire is suspected first
ALL_QUIET = 4.0     # s of that with a link, after which the processes are suspected after all
LINK_LOST = 1.0     # s without a link to a router that runs, after which the router is suspected
ROUTER_START = 5.0  # s that a router gets before that
ENOUGH = 0.8        # share of the others' heartbeats that must come, or the wire is doubted and not who is silent
STEADY = 2.0        # s after its first heartbeat from which on a region's count for that
FOREIGN = 64        # foreign processes under a region's name that are told of, at most


@dataclass(frozen=True)
class Heartbeats:
    """Probe of a region: what it says every tenth of a second.

    Attributes:
        node: its name there, as ``/robot1/vision``.
        rate: steps a second that it makes by itself (Hz), or None.
        triggers: topics that make it step.
    """

    node: str
    rate: float | None = None
    triggers: tuple[str, ...] = ()

    @property
    def regions(self) -> tuple[Heartbeats, ...]:
        """Probes of the regions of its process: this one."""
        return (self,)

    def watch(self, workload: Workload, process: int, loop: Supervisor) -> Watching:
        """See :class:`.run.workload.Probe`."""
        return loop.region(workload.name, self, process)


@dataclass(frozen=True)
class Together:
    """Probe of a process with several regions, each of which begins anew by itself after it has failed."""

    regions: tuple[Heartbeats, ...]

    def watch(self, workload: Workload, process: int, loop: Supervisor) -> Watching:
        """See :class:`.run.workload.Probe`."""
        return _Together([loop.region(workload.name, one, process, (*RESTING, ERROR)) for one in self.regions])


@dataclass(frozen=True)
class Link:
    """Probe of the router: the listener's own link to it."""

    def watch(self, workload: Workload, process: int, loop: Supervisor) -> Watching:
        """See :class:`.run.workload.Probe`."""
        return _Router(loop)


class Supervisor(Loop):
    """Keeps a brain's processes running.

    All methods but ``beat``, ``token``, ``link`` and ``kill`` belong to one thread, which must live as long as the
    processes.

    Args:
        workloads: in the order of starting.
        log_dir: gets one ``<name>.log`` for each, and ``supervisor.log``; None: they write where this process does.
        on_event: called with each :class:`Event`, in the supervisor's thread.
        limits: when a region counts as unhealthy.
        environment: added to that of the processes.
    """

    def __init__(self, workloads: Iterable[Workload], log_dir: Path | None, *,
                 on_event: Callable[[Event], None] | None = None, limits: Limits = Limits(),
                 environment: Mapping[str, str] | None = None) -> None:
        self._limits = limits
        self._regions: dict[str, _Region] = {}      # by node
        self._heard: deque[Callable[[], None]] = deque()
        self._linked, self.unlinked = True, 0.0
        self._quiet = 0.0
        self.deaf = self._doubted = False
        self._foreign: set[tuple[str, int]] = set()
        super().__init__(workloads, Through() if log_dir is None else Logs(log_dir, self._complain),
                         on_event=on_event, environment=environment)

    @property
    def nodes(self) -> dict[str, str]:
        """Full node names of those that send heartbeats, each with the name of its workload."""
        return {one.node: workload.name for workload in self._wanted.values()
                if isinstance(workload.probe, (Heartbeats, Together)) for one in workload.probe.regions}

    def start(self) -> None:
        """Starts all."""
        self.round(0.0)

    # -- what others hear ------------------------------------------------------------------------------------------

    def beat(self, message: Any) -> None:
        """A ``brain_interfaces/msg/Heartbeat`` was heard."""
        self._heard.append(lambda: self._take_beat(message))

    def token(self, node: str, alive: bool) -> None:
        """The liveliness token of a node, as ``/robot1/vision``, came or went."""
        self._heard.append(lambda: self._take_token(node, alive))

    def link(self, up: bool) -> None:
        """Takes in whether the listener's own session is linked to a router."""
        self._heard.append(lambda: setattr(self, "_linked", up))

    def _take_beat(self, message: Any) -> None:
        region = self._regions.get(message.name)
        if region is None or self.pid(region.name) is None:
            return
        if region.process == message.pid:
            region.health.beat(message)
            self._quiet = 0.0
        # the last words of the process before this one come late; only a later one is foreign
        elif (message.name, message.pid) not in self._foreign and len(self._foreign) < FOREIGN \
                and region.health.last is not None:
            self._foreign.add((message.name, message.pid))
            self._tell(region.name, "unhealthy", f"another process, {message.pid} on {message.hostname}, also calls "
                       f"itself {message.name}; end it or give it another name")

    def _take_token(self, node: str, alive: bool) -> None:
        if node in self._regions:
            self._regions[node].health.token = alive

    # -- what is seen of it ----------------------------------------------------------------------------------------

    def region(self, name: str, probe: Heartbeats, process: int, resting: tuple[int, ...] = RESTING) -> _Region:
        """Begins to look at a region in a process of a workload of that name; ``resting``: see :class:`Health`."""
        health = Health(self._limits, probe.rate, probe.triggers, resting)
        self._regions[probe.node] = region = _Region(self, name, probe.node, process, health)
        return region

    def _look(self, dt: float) -> None:
        self._quiet += dt
        while self._heard:
            self._heard.popleft()()
        self.unlinked = 0.0 if self._linked else self.unlinked + dt
        self.deaf = self._quiet > QUIET and not (self._linked and self._quiet > ALL_QUIET)
        self._doubt_wire()

    def _doubt_wire(self) -> None:
        """Sees whether those that are silent are hung, or the wire loses heartbeats: then it loses the others' too."""
        heard = [one for one in self._regions.values()
                 if self.pid(one.name) == one.process and one.health.last is not None]
        doubted = []
        for one in heard:
            health = one.health
            others = [other.health.heard for other in heard
                      if other.process != one.process and other.health.known > STEADY]
            health.doubted = (health.silence > QUIET and health.token is not False and bool(others)
                              and sum(others) < ENOUGH * len(others))
            if health.doubted:
                doubted.append(one.node.rpartition("/")[2])
        if doubted and not self._doubted:
            self._complain(f"heartbeats of {', '.join(doubted)} and of others are missing though they are there: the "
                           f"wire may be flooded; they get {Limits.silence_together:g} s")
        self._doubted = bool(doubted)


class _Region:
    """One process of a region, by its heartbeats."""

    def __init__(self, supervisor: Supervisor, name: str, node: str, process: int, health: Health) -> None:
        self.name, self.node, self.process, self.health = name, node, process, health
        self._supervisor, self._cpu_wait = supervisor, CpuWait(process)

    def wrong(self, dt: float) -> str | None:
        """See :class:`Watching`."""
        if self._supervisor.deaf:
            self.health.forgive()
            return None
        return self.health.elapse(self._cpu_wait.counts(dt) if self.health.late else dt)


class _Together:
    """One process of several regions: what is wrong with one of them is wrong with it.

    One that was never heard while others were is not held against them: it could not start, as the log says.
    """

    def __init__(self, regions: list[_Region]) -> None:
        self._regions = regions

    def wrong(self, dt: float) -> str | None:
        """See :class:`Watching`."""
        heard = [one for one in self._regions if one.health.last is not None]
        found = [(one, one.wrong(dt)) for one in heard or self._regions]
        return next((f"{fault} ({one.node})" for one, fault in found if fault), None)


class _Router:
    """The router's process, by the link to it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor, self._ran = supervisor, 0.0

    def wrong(self, dt: float) -> str | None:
        """See :class:`Watching`."""
        self._ran += dt
        if self._supervisor.unlinked <= LINK_LOST or self._ran <= ROUTER_START:
            return None
        self._supervisor.unlinked = 0.0
        return f"hung: no link to it for {LINK_LOST:g} s"
