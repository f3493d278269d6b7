# SPDX-License-Identifier: Apache-2.0
"""The edge: on a robot, it keeps the brain as it was last told, and talks with the cloud when that can be reached."""
from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

import zenoh
from zenoh.handlers import Callback

from brain_edge.devices.fleet_devices import FleetDevices
from brain_edge.messages import history
from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.messages.envelope import Request
from brain_edge.messages.history import Standing
from brain_edge.messages.installation import installation
from brain_edge.messages.outbox import Limits, Outbox
from brain_edge.messages.rate_limit import Bucket
from brain_edge.messages.receiver import Desk, Receiver
from brain_edge.messages.sender import Hooks, Sender
from brain_edge.models.fetching import Fetching
from brain_edge.models.loading import Loading
from brain_edge.models.model_cache import QUOTA, ModelCache
from brain_edge.models.model_file import ModelProblem
from brain_edge.processes.alone import Alone
from brain_edge.processes.settings import FROM_ROBOT, ZENOH, refused, remedy, software
from brain_edge.programs.program_manager import Programs
from brain_edge.state.apply import Effects
from brain_edge.state.desired_state import DesiredState
from brain_edge.store import Store, StoreProblem
from brain_security.fleet_keys import CLOUD, alive, down, robot_of, up
from brain_wire import NoRouter, Session, SessionProblem, open_session
from brain_wire.credentials import credentials_file
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.session import Elsewhere
from brain_wire.wakeup import Flag

KEEPALIVE = 5.0     # s between two deliveries, be they empty
LOOK = 1.0          # s between two looks at whether the cloud is there
RETRY = 0.5         # s between attempts to reach a cloud that was not reached yet
AGAIN = 5.0     # s until it is tried again to link with a renewed certificate

log = logging.getLogger("brain.edge")
limited_log = RateLimitedLog(log)


class Edge:
    """Edge of a robot: its link to the cloud, and all that brings about what the cloud wants.

    Args:
        store: its database.
        cloud: endpoint.
        credentials: file or folder that lets it into a secured fleet; None: it is not secured.
        router, namespace: of the brain.
        rate: bytes a second that are sent to the cloud at most; 0: no limit.
        limits: of what may wait for the cloud.
        quota: bytes that models may take.
        stop: ends it.
        door: where the cloud renews certificates, as HOST:PORT; None: beside ``cloud``.
        programs: that the cloud may have run on this robot: the words of each one's command, by name.
        device_files: that the cloud may name for this robot's devices, see :mod:`brain_edge.devices.owned_files`.

    Attributes:
        tally: of its deliveries.
        cloud_here: whether the cloud's token is there.
        losses: times that it vanished.
    """

    def __init__(self, store: Store, cloud: str, *, credentials: Path | None, router: str | None, namespace: str,
                 rate: float = 0.0, limits: Limits = Limits(), quota: int = QUOTA, stop: Flag, door: str | None = None,
                 programs: Mapping[str, Sequence[str]] = MappingProxyType({}),
                 device_files: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.store, self._cloud, self._credentials, self._stop = store, cloud, credentials, stop
        self.outbox = Outbox(store, FROM_ROBOT, limits)
        self.held = DesiredState(store, self.outbox)
        self._installation = installation(store)
        self._bucket = Bucket(rate, 2 * rate) if rate else None
        self._cache = ModelCache(store, quota)
        self._fetching = Fetching(store.member, self._cache, self._authority, self._came)
        self._effects = self._bring_about(router, namespace)
        self._workers = (
            self._effects, FleetDevices(self.held, router, namespace, dict(device_files), self._something, stop),
            Programs(self.held, programs, store.path.parent / "programs", self._something, stop))
        self.tally, self.cloud_here, self.losses = DeliveryCounters(), False, 0
        self._sender: Sender | None = None
        self._alone = Alone(store)
        self._over = threading.Event()      # a Flag wakes one thread; this one, all
        self._turn = threading.Event()      # what the link's thread waits for: the end, or other credentials
        self._door = door
        self._hurry: Callable[[], None] = lambda: None      # has the certificate looked after, where there is one

    def _bring_about(self, router: str | None, namespace: str) -> Effects:
        """Makes the part that brings about what is wanted: the brain on this robot."""
        loading = Loading(self.store, self.held, self._cache, self._fetching)
        return Effects(self.held, loading, router, namespace, self._something, self._stop)

    def run(self) -> None:
        """Runs until ``stop``."""
        # First what needs no cloud, so that a robot that starts without one is as it was last told.
        for worker in self._workers:
            worker.start()
        wanted = self.held.wanted()
        log.info("%s begins with %d resources that are wanted, version %d", self.store.member, len(wanted),
                 self.held.version())
        linking = threading.Thread(target=self._link, name="link", daemon=True)
        linking.start()
        self._keep_credentials()
        while not self._stop.wait(LOOK):
            self._look()
        self._over.set()
        self._turn.set()
        self._hurry()
        linking.join(5.0)
        for worker in self._workers:
            worker.join()
        self._fetching.close()

    def _came(self) -> None:
        self._effects.wake()

    def _authority(self) -> bytes | None:
        """Certificate of the fleet's authority; None where it has no keys. Raises ModelProblem."""
        if self._credentials is None:
            return None
        from brain_security.signing import SigningProblem, authority_of     # only for models

        try:
            return authority_of(credentials_file(self._credentials, self.store.member))
        except (SigningProblem, SessionProblem) as problem:
            raise ModelProblem(str(problem)) from None

    def _look(self) -> None:
        """Says once when the cloud has been away for a while, and once when it is back."""
        try:
            news = self._alone.look()
            if news is not None:
                log.info("%s", news)
                self.held.event(news)
                self._something()
                self._hurry()
        except StoreProblem as problem:
            limited_log("look", str(problem))

    def _keep_credentials(self) -> None:
        """Has the certificate renewed, where it is this robot's own; one in a folder of keys is looked after there."""
        if self._credentials is None or not self._credentials.is_file():
            return
        from brain_edge.enrolment.client import Refused, door_of
        from brain_edge.enrolment.renewal import Renewal   # what costs memory, for those that have a certificate

        try:
            renewal = Renewal(self._credentials, self.store.member, door_of(self._cloud, self._door), self._tell,
                              self._turn.set, self._over)
            renewal.start()
            self._hurry = renewal.hurry
        except Refused as problem:
            log.warning("the certificate is not renewed: %s", problem)

    def _tell(self, text: str) -> None:
        try:
            self.held.event(text)
            self._something()
        except StoreProblem as problem:
            limited_log("event", str(problem))

    def _open(self, patience: float = 0.0) -> Session:
        return open_session(self._cloud, identity=self.store.member, patience=patience, more=ZENOH,
                            elsewhere=Elsewhere(self._credentials))

    def _link(self) -> None:
        """Opens the session with the cloud, however long that takes; Zenoh itself links it again after a cut."""
        said, following = "", None
        while not self._over.is_set():
            try:
                if following is None:
                    self._turn.clear()      # what is opened now is with the newest credentials
                    if self._over.is_set():
                        return
                with following or self._open() as session:
                    following = self._talk(session)
                continue
            except NoRouter as problem:
                why = remedy(problem) if refused(problem) else "nobody listens there"
                if refused(problem):
                    self._hurry()
            except SessionProblem as problem:
                why = str(problem)
            if why != said:
                log.info("no cloud at %s (%s); this robot goes on as it was last told, and tries again", self._cloud,
                         why)
                said = why
            self._over.wait(RETRY)

    def _renewed(self) -> Session | None:
        """Waits until the robot has other credentials: a session with those. None at the end."""
        again: float | None = None
        while True:
            self._turn.wait(again)
            self._turn.clear()
            if self._over.is_set():
                return None
            try:
                return self._open(patience=2.0)
            except (NoRouter, SessionProblem) as problem:
                limited_log("fresh", f"the link stays as it was before the certificate was renewed: {problem}")
                again = AGAIN

    def _talk(self, session: Session) -> Session | None:
        """Exchanges messages until the end, or until there is another session in place of this one."""
        version = software()
        sender = Sender(session, self.store, self.outbox, founds=False, bucket=self._bucket, software=version,
                        tally=self.tally, installation=self._installation, hooks=Hooks(
                            apart=self._apart, begun=self._begun, heard=self._heard, refused=self._refused))
        self._sender = sender
        desk = Desk(sender=self._speaker, standing=self._standing, apply=self.held.hear, applied=self._applied,
                    apart=self._apart, reads=sender.reads,
                    meant=lambda request: request.installation in (None, self._installation))
        Receiver(session, down(self.store.member), self.store, desk, software=version, tally=self.tally)
        cloud = session.zenoh.liveliness().declare_subscriber(
            alive(CLOUD), Callback(self._token, indirect=False), history=True)
        self._say_versions()
        sender.serve(CLOUD, up(self.store.member), KEEPALIVE)
        sender.start()
        own = session.zenoh.liveliness().declare_token(alive(self.store.member))
        log.info("linked with the cloud at %s", self._cloud)
        self._fetching.link(session)
        following = self._renewed()
        self._fetching.link(None)
        sender.stop()
        own.undeclare()
        cloud.undeclare()
        return following

    def _say_versions(self) -> None:
        try:
            with self.store.change() as db:
                self.held.tell_versions(db, software())
        except StoreProblem as problem:
            limited_log("versions", str(problem))

    def _something(self) -> None:
        """There is something for the cloud."""
        if self._sender is not None:
            self._sender.wake(CLOUD)

    def _token(self, sample: zenoh.Sample) -> None:
        here = sample.kind == zenoh.SampleKind.PUT
        self.losses += self.cloud_here and not here
        self.cloud_here = here
        if here:
            self._something()   # the cloud is back
            self._fetching.again()

    def _speaker(self, key: str) -> str | None:
        return CLOUD if robot_of(key, "down") == self.store.member else None

    def _standing(self, db: sqlite3.Connection, request: Request) -> Standing:
        """Decides what the cloud may do: a robot obeys it within their epoch only."""
        known = history.read(db, CLOUD)
        if known is None or known.epoch is None:
            return Standing(None)
        if request.epoch != known.epoch:
            self._something()   # the cloud will say what holds
            return Standing(known.epoch, apart=known.apart)
        if known.apart is not None:
            return Standing(known.epoch, apart=known.apart)
        return Standing(known.epoch, open=True)

    def _applied(self, peer: str) -> None:
        log.info("the cloud has told what it wants: version %d", self.held.version())
        for worker in self._workers:
            worker.wake()

    def _begun(self, db: sqlite3.Connection, peer: str, dropped: int) -> None:
        text = f"{self.store.member} was taken in by its cloud"
        if dropped:
            text += f"; {dropped} messages that waited are let go of, since the cloud may have them already"
        log.info("%s", text)
        self.held.event_within(db, text)
        self.held.tell_versions(db, software(), again=True)     # a cloud that begins anew knows nothing of it

    def _heard(self, peer: str) -> None:
        self._alone.heard()

    def _apart(self, peer: str, why: str) -> None:
        self.tally.apart += 1
        log.warning("the cloud and this robot are apart: %s. The robot goes on as it was last told; "
                    f"{history.REMEDY.format(self.store.member)}", why)

    def _refused(self, peer: str, stream: str, number: int, why: str) -> None:
        limited_log("refused", f"the cloud could not take in message {number} of the stream {stream}: {why}")
