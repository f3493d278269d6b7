# SPDX-License-Identifier: Apache-2.0
"""The cloud's side of who belongs, put together: the authority, its door, and what people order of it."""
from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path
from typing import Any, Iterator

from brain_cloud import audit
from brain_cloud.enrolment.authority import HOURS, Authority, Refusal
from brain_cloud.enrolment.server import DoorProblem, EnrolmentServer
from brain_cloud.enrolment.uploads import Uploads
from brain_cloud.processes.cloud import Cloud
from brain_edge.blobs.carry import CLIPS
from brain_edge.enrolment.client import Refused, door_of
from brain_edge.processes.settings import CLOUD_AT
from brain_edge.schema import FormProblem
from brain_edge.store import StoreProblem
from brain_security.certificates import CertificateError
from brain_security.folder import FolderError
from brain_security.members import read_register
from brain_wire.endpoints import address
from brain_wire.rate_limited_log import RateLimitedLog

NOT_SECURED = "this cloud has no keys, so everybody belongs; start it with --secure FOLDER"

EVERY = 3600.0      # s between two looks at the router's own certificate
SOON = 30.0         # days before its end in which that is told

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class Belonging:
    """Membership of robots in a cloud's fleet, with the orders to enroll and to revoke them.

    Args:
        cloud: that takes robots in.
        authority: None: nothing is secured.
    """

    def __init__(self, cloud: Cloud, authority: Authority | None) -> None:
        self._cloud, self.authority = cloud, authority
        if authority is not None:
            authority.serves(self.event, self._joins)
            cloud.barred = authority.revoked

    def event(self, robot: str, person: str, text: str) -> None:
        """Writes down what has happened."""
        log.info("%s%s", text, f", ordered by {person}" if person else "")
        try:
            with self._cloud.store.change() as db:
                audit.write(db, robot, person, text)
        except StoreProblem as problem:
            limited_log("event", f"an event is not written down: {problem}")

    def _joins(self, robot: str, person: str) -> None:
        """A robot that comes with a new token may come with a new disk: a person has said that it is the one."""
        try:
            with self._cloud.store.change() as db:
                self._cloud.accept(db, robot, person, None)
        except StoreProblem as problem:
            limited_log("joins", f"{robot} is not taken in anew ({problem}); `brain fleet accept {robot}` does it")

    def order(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        """Does what a person orders: ``enroll``, ``revoke``.

        Raises:
            FormProblem: it cannot be done; says why.
        """
        if self.authority is None:
            raise FormProblem(NOT_SECURED)
        robot = order.get("robot", "")
        try:
            if order["do"] == "enroll":
                hours = order.get("hours", HOURS)
                return {"robot": robot, "hours": hours, "token": self.authority.token(robot, person, hours)}
            if not self.authority.revoke(robot, person):
                raise FormProblem(f"no robot {ascii(robot)[:60]} belongs to this fleet; see `brain fleet nodes`")
            return {"robot": robot}
        except (Refusal, FolderError, CertificateError) as problem:
            raise FormProblem(str(problem)) from None
        except OSError as error:
            raise FormProblem(f"{error.filename} cannot be read: {error.strerror}") from None

    def takes_clips(self, uploads: Uploads) -> None:
        """Robots may hand clips in from now on."""
        self._cloud.blobs.collections[CLIPS] = uploads

    def tokens(self) -> list[dict[str, Any]]:
        """Robots that were given a token, and have not come yet."""
        if self.authority is None:
            return []
        return [{"robot": robot, "until": token["until"], "by": token["by"]}
                for robot, token in sorted(read_register(self.authority.folder).tokens.items()) if "key" not in token]


def authority_of(folder: Path | None, days: float) -> Authority | None:
    """The authority of a folder of keys, before its router is opened; None where nothing is secured.

    Raises:
        FolderError: the folder does not read, or cannot be written.
    """
    if folder is None:
        return None
    authority = Authority(folder, days=days)
    try:
        authority.renew_router()
    except CertificateError as problem:
        raise FolderError(f"the router's certificate in {folder} ends soon, and is not renewed: {problem}") from None
    return authority


def _watch(authority: Authority, over: threading.Event) -> None:
    """Says in time that the router's own certificate ends: that is renewed when the cloud starts."""
    while not over.wait(EVERY):
        try:
            left = authority.router_days()
        except (FolderError, FileNotFoundError) as problem:
            limited_log("watch", str(problem))
            continue
        if left < SOON:
            limited_log("ends", f"the certificate of this cloud's router ends in {max(left, 0.0):.0f} days: start the "
                                f"cloud again, which renews it")


@contextlib.contextmanager
def opened(belonging: Belonging, endpoints: list[str], door: str | None, pictures: Path, most: float) -> Iterator[None]:
    """The door, beside the router's endpoints or at ``door`` (HOST:PORT); none where nothing can be signed.

    Args:
        pictures: folder for what robots hand in.
        most: bytes that are kept of each robot; 0: nothing is taken in.

    Raises:
        DoorProblem: it cannot be opened.
    """
    authority = belonging.authority
    if authority is None:
        yield
        return
    if authority.why_mute is not None:
        log.info("no robot can enrol here, and certificates are not renewed: %s", authority.why_mute)
        yield
        return
    try:
        places = [door_of(CLOUD_AT, door)] if door is not None else [
            (address(one)[1], address(one)[2] + 1) for one in endpoints]
    except Refused as problem:
        raise DoorProblem(str(problem)) from None
    with contextlib.ExitStack() as ending:
        over = threading.Event()
        ending.callback(over.set)
        threading.Thread(target=_watch, args=(authority, over), name="watch", daemon=True).start()
        uploads = None
        if most:
            uploads = ending.enter_context(contextlib.closing(Uploads(pictures, most, told=belonging.event)))
            belonging.takes_clips(uploads)
        take_in = None if uploads is None else uploads.take_in
        ending.enter_context(contextlib.closing(EnrolmentServer(authority, places, take_in)))
        log.info("robots enrol, and have certificates renewed, at %s", ", ".join(
            f"{host} port {port}" for host, port in places))
        yield
