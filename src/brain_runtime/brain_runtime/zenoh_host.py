# SPDX-License-Identifier: Apache-2.0
"""ZenohHost: one region as a process, which is a ROS 2 node to every rmw_zenoh node on the same router.

None of its threads is Zenoh's: there is one that receives for each topic. Where steps are quick and nobody is at one,
the thread that received makes the step at once, since to wake the worker would take longer than the step.
"""
from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_runtime import heartbeat as beat
from brain_runtime import messages
from brain_runtime.process_host import ProcessHost
from brain_runtime.region import Region
from brain_runtime.wire import Arrival, Node, Session, Subscription, Watch
from brain_runtime.wire.attachment import AttachmentProblem

QUICK = 0.002           # s; steps that usually take no longer are made by the thread that received


class ZenohHost(ProcessHost):
    """Runs one region on a Zenoh session. Make it, then call :meth:`run`.

    Args:
        region: not configured yet.
        session: open session; stays open.
        name, namespace: of the node.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        parameters: of the region.
        topic: from a port's topic to the name that is used, for remapping; None: as declared.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again by its supervisor.

    Raises:
        ParameterError: the parameters do not fit.
        NameProblem: a name that ROS 2 does not allow.
    """

    kind = "zenoh"

    def __init__(self, region: Region, session: Session, *, name: str | None = None, namespace: str = "/",
                 domain: int | None = None, parameters: Mapping[str, Any] | None = None,
                 topic: Callable[[str], str] | None = None, seed: int = 0, state_dir: Path | None = None,
                 critical: bool = False, restarts: int = 0) -> None:
        self.node = Node(session, name or region.name, namespace, domain)
        super().__init__(region, name=name, namespace=self.node.namespace, seed=seed, state_dir=state_dir,
                         critical=critical, restarts=restarts)
        topic = topic or (lambda declared: declared)
        self.configure(parameters or {})
        self._heartbeat = self.node.publisher(topic(beat.PORT.topic), beat.TYPE, beat.PORT.qos)
        self._senders = {port.topic: self.node.publisher(topic(port.topic), port.type, port.qos).publish
                         for port in region.outputs().values()}
        self._subscriptions: dict[str, Subscription] = {}
        for port_name, port in region.inputs().items():
            take = self._taker(port_name, functools.partial(self._arrivals, port_name))
            # What does not trigger waits for the next step, and what is kept apart by publisher is sorted first.
            self._subscriptions[port_name] = self.node.subscription(
                topic(port.topic), port.type, port.qos, wake=self._wake, by_publisher=bool(port.key),
                arrived=functools.partial(self._arrived if port.trigger else self._note, take),
                at_once=functools.partial(self._at_once, port_name, messages.decoder(port.type))
                if port.trigger and not port.key else None)
        self._watch = Watch(session, self.node.domain, own=lambda: self.node.endpoints)

    # -- arrivals --------------------------------------------------------------------------------------------------

    def _at_once(self, port_name: str, decode: Callable[[bytes], Any], arrival: Arrival) -> bool:
        """Makes the step that an arrival triggers in the thread that received it.

        Only where steps are quick, nobody is at one, and nothing else waits to be taken in. Returns False where it is
        not so.
        """
        if self._usual_step > QUICK or not self._turn.acquire(False):
            return False
        try:
            if self._ready or self._idle:
                return False
            try:
                message = decode(arrival.payload.to_bytes())
            except messages.MessageError as error:
                self._complain(port_name, self._sender(arrival), str(error))
                return True
            self.stepper.slots[port_name].offer(message, arrival.received)
            self._step(time.monotonic())
        except BaseException as error:
            self._give_up(error)
        finally:
            self._turn.release()
        return True

    def _arrived(self, take: Callable[[], None]) -> None:
        """Notes an arrival that triggers, in the thread that received it, which steps itself where that is quick."""
        self._note(take)
        if self._usual_step > QUICK or not self._turn.acquire(False):
            self._wake.set()
            return
        try:
            self._round()
        finally:
            self._turn.release()

    def _arrivals(self, port_name: str) -> list[Arrival]:
        subscription = self._subscriptions[port_name]
        while subscription.refused:
            self._complain(port_name, "", subscription.refused.popleft())
        return subscription.take()

    def _sender(self, arrival: Arrival) -> str:
        try:
            gid = arrival.attachment.gid
        except AttachmentProblem:
            return " of a publisher without a ROS 2 attachment"
        publisher = self._watch.publisher(gid)
        return f" of {publisher.name}" if publisher is not None else f" of publisher {gid.hex()}"

    # -- hooks -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.fqn

    def _topic(self, port_name: str) -> str:
        return self._subscriptions[port_name].endpoint.topic

    def _tell(self, heartbeat: Any) -> None:
        self._heartbeat.publish(heartbeat)

    def _look_about(self) -> None:
        self._watch.poll()

    def _close(self) -> None:
        self._watch.close()
        self.node.close()
