# SPDX-License-Identifier: Apache-2.0
"""A brain whose regions live on tiers: processes of this machine, a router for each tier, and relays for the links.

Every tier's router is linked to the next one towards the robot through a relay that is as late, uneven, narrow and
lossy as the link; each region is a client of its own tier's router. Nothing goes through shared memory, so that all
bytes go through the relays.
"""
from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from brain_cloud.placement.tiers import ROBOT, Tiers
from brain_runtime.graph.resolved import Resolved
from brain_runtime.interfaces import GoalStatus
from brain_runtime.run.called import Call
from brain_runtime.run.workload import Workload
from brain_runtime.supervision.speaker import Speaker
from brain_runtime.supervision.supervised_brain import ROUTER, SupervisedBrain, StartError, region_children
from brain_wire import messages
from brain_wire.qos import STREAM
from brain_wire.router import free_port
from brain_wire.session import OVERRIDE_VARIABLE
from brain_wire.shared_memory import ENABLED
from experiments import slow_relay
from experiments.processes import variable

READY = 120.0           # s until the robot is under control, at most
SETTLE = 3.0            # s before anything counts
IMAGE = "image"         # in the name of the source of a picture
NEAR = 0.004            # s that a listener may hear a control later than motor does
KEPT = 1024             # messages that may wait between two looks
LEFT = 2.0              # s of controls and commands that are kept
ENDED = (GoalStatus.STATE_REACHED, GoalStatus.STATE_WRONG, GoalStatus.STATE_NOT_FOUND)


class PlacedBrain:
    """Starts a brain that drives in a simulated room.

    Args:
        resolved: what runs, the simulated world too.
        tiers, place: where; regions that are not named live on the robot.
        folder: of the run.
        domain: ROS domain.
        sentences: what it is told, one after the other, again and again.

    Raises:
        StartError: it does not come up.
    """

    def __init__(self, resolved: Resolved, tiers: Tiers, place: Mapping[str, str], folder: Path, domain: int,
                 sentences: list[str]) -> None:
        self._sentences, self._ended = itertools.cycle(sentences), True
        self._stack = ExitStack()
        used = [tier for tier in tiers.names if any(there in tiers.beyond(tier) for there in [ROBOT, *place.values()])]
        ports = {tier: free_port() for tier in used}
        children = [_router(ROUTER, ports[ROBOT])]
        try:
            for number, tier in enumerate(tier for tier in used if tier != ROBOT):
                link, relay = tiers.link(tier), free_port()
                given = ports[link.to], relay, link.way, 100 * number
                children += [Workload(f"relay_{tier}", call=Call(slow_relay.relay, lambda given=given: given),
                                      stop_order=4),
                             _router(f"{ROUTER}_{tier}", ports[tier], relay)]
            for tier in used:
                here = tuple(one for one in resolved.regions if place.get(one.name, ROBOT) == tier)
                (folder / tier).mkdir(parents=True)
                children += region_children(replace(resolved, regions=here), seed=0, folder=folder / tier,
                                            state_dir=folder / "state", router=_endpoint(ports[tier]))
            settings = filter(None, (os.environ.get(OVERRIDE_VARIABLE), f"{ENABLED}=false"))
            self._stack.enter_context(variable(OVERRIDE_VARIABLE, ";".join(settings)))
            self.supervised = SupervisedBrain(children, folder / "logs", _endpoint(ports[ROBOT]), domain=domain)
            self._stack.callback(self.supervised.stop)
            self.supervised.start()
            if not self.supervised.wait_ready(READY):
                raise StartError("not ready: " + ". ".join(self.supervised.missing()))
            self._speaker = Speaker(self.supervised.node)
            self.settle(SETTLE)
        except BaseException:
            self.close()
            raise

    def round(self) -> None:
        """Looks after everything once, and says the next sentence where a goal has ended."""
        self.supervised.round()
        if self._ended:
            self._speaker.say(next(self._sentences))
        self._ended = any(status.state in ENDED for status in self._speaker.hear())

    def settle(self, seconds: float, more: Callable[[], None] = lambda: None) -> None:
        """Goes on for a while, and does ``more`` in each round."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.round()
            more()

    def close(self) -> None:
        """Ends all processes."""
        self._stack.close()


def _router(name: str, port: int, towards: int | None = None) -> Workload:
    connect = () if towards is None else ("--connect", _endpoint(towards))
    return Workload(name, (sys.executable, "-m", "brain_wire.router", "--listen", _endpoint(port), *connect),
                    stop_order=3)


def _endpoint(port: int) -> str:
    return f"tcp/127.0.0.1:{port}"


class Decisions:
    """Times from a picture to the command that was decided with it.

    For each picture: the first ``pfc/control`` that it had influence on; the first ``motor/command`` that motor made
    when that had come to it; the first ``cmd_vel`` that the brainstem made of that. Motor hears what vision sees by
    itself too, and may act on it sooner: that counts for ``brain status``, and not here, where the way by pfc is asked
    for.

    Args:
        node: on the robot's side, which hears controls about when motor does.
    """

    def __init__(self, node: Any) -> None:
        self._heard = {kind: node.subscription(topic, f"brain_interfaces/msg/{kind}", STREAM.with_depth(KEPT))
                       for kind, topic in (("Control", "pfc/control"), ("MotorCommand", "motor/command"),
                                           ("Trace", "brain/trace"))}
        self._newest = -1.0
        self._waiting: list[tuple[float, float]] = []               # capture, and when the control was heard
        self._commands: list[tuple[float, float, tuple[float, float]]] = []     # made at, newest picture, speeds
        self._traces: list[tuple[float, tuple[float, float]]] = []              # made at, speeds wanted
        self.times: list[float] = []

    def take(self) -> None:
        """Takes in what has come."""
        for arrival, control in self._messages("Control"):
            picture = newest_picture(control.origins)
            if picture > self._newest:
                self._newest = picture
                self._waiting.append((picture, time.time() - (time.monotonic() - arrival.received)))
        for _, command in self._messages("MotorCommand"):
            self._commands.append((messages.time_seconds(command.header.stamp), newest_picture(command.origins),
                                   (float(command.twist.linear.x), float(command.twist.angular.z))))
        for _, trace in self._messages("Trace"):
            self._traces.append((messages.time_seconds(trace.header.stamp),
                                 (float(trace.wanted_linear), float(trace.wanted_angular))))
        self._match()

    def _messages(self, kind: str) -> Iterator[tuple[Any, Any]]:
        subscription = self._heard[kind]
        for arrival in subscription.take():
            try:
                yield arrival, messages.decode(arrival.data, subscription.type)
            except messages.MessageError:
                continue    # not the brain's: its messages can be read

    def _match(self) -> None:
        left = []
        for picture, heard in self._waiting:
            command = next((one for one in self._commands if one[0] >= heard - NEAR and one[1] >= picture), None)
            ends = [made for made, speeds in self._traces if command is not None and made >= command[0]
                    and _alike(speeds, command[2])]
            if ends:
                self.times.append(ends[0] - picture)
            elif not self._traces or heard > self._traces[-1][0] - LEFT:
                left.append((picture, heard))
        self._waiting = left
        newest = self._traces[-1][0] if self._traces else 0.0
        self._commands = [one for one in self._commands if one[0] > newest - LEFT]
        self._traces = [one for one in self._traces if one[0] > newest - LEFT]


def newest_picture(origins: Any) -> float:
    """Capture time of the newest picture among origins (s); -1: there is none."""
    return max((messages.time_seconds(one.stamp) for one in origins if IMAGE in one.source), default=-1.0)


def _alike(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return all(abs(a - b) < 1e-5 for a, b in zip(one, other, strict=True))
