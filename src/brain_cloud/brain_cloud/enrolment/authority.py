# SPDX-License-Identifier: Apache-2.0
"""The authority: gives tokens, certificates for them, and later ones, and takes rights away.

All that it knows is in the fleet's folder, in one file that is written as a whole. Dates are those of this machine's
clock alone: no robot's clock has a say in whether it belongs.
"""
from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
from pathlib import Path
from typing import Any, Callable

from brain_cloud.enrolment.fleet_folder import change, renew_router, write_rules
from brain_edge.enrolment import tokens
from brain_edge.state.events import now
from brain_security.certificates import CertificateError, Pair, fingerprint, public_key_of, sign_request
from brain_security.fleet_keys import FleetNameProblem, check_robot
from brain_security.folder import read_router
from brain_security.members import ENROLLED, REVOKED, Member, Register, common_name, read_register, robots_of
from brain_security.rights import AUTHORITY, ROUTER

DAYS = 30.0             # that a certificate lasts
HOURS, MOST_HOURS = 24.0, 24.0 * 30
ROUTER_DAYS = 365.0     # that the router's own certificate lasts
ROUTER_SOON = 60.0      # days before its end in which it is renewed at the cloud's start
LATE = 90 * 86400.0     # s after its end in which a certificate still is renewed: a robot may have been in a cupboard
MOST_TOKENS = 10_000
RENEWS = 1 / 3          # of its time that a certificate has left when it is renewed

log = logging.getLogger("brain.cloud")


class Refusal(ValueError):
    """Somebody does not get what they ask for; says why, and the remedy, as they may hear it."""


def _nothing(robot: str, person: str, text: str) -> None:
    """Tells nobody."""


class Authority:
    """The authority of the fleet whose keys are in a folder.

    Args:
        folder: made by ``brain keys FOLDER --node ROBOT``.
        days: that a robot's certificate lasts.
        told: called with each thing that happens: robot, who ordered it, and what it is.
        joins: called with a robot that has enrolled, and who ordered it.
        clock: dates (s since the epoch).

    Raises:
        FolderError: the folder does not read, or is no fleet's.
    """

    def __init__(self, folder: Path, *, days: float = DAYS, told: Callable[[str, str, str], None] = _nothing,
                 joins: Callable[[str, str], None] = lambda robot, person: None,
                 clock: Callable[[], float] = time.time) -> None:
        self.folder, self._days, self._told, self._joins, self.clock = Path(folder), days, told, joins, clock
        self._lock = threading.RLock()
        self._revoked: frozenset[str] = frozenset()
        self.settle()

    def serves(self, told: Callable[[str, str, str], None], joins: Callable[[str, str], None]) -> None:
        """Tells of what happens from now on; see the arguments."""
        self._told, self._joins = told, joins

    def settle(self) -> None:
        """Brings the rules to what is known, where a kill came between the two."""
        with self._lock:
            if write_rules(self.folder):
                log.info("the access rules of %s are written anew: %s", self.folder, ", ".join(robots_of(self.folder)))
            members = read_register(self.folder).members
            self._revoked = frozenset(robot for robot, one in members.items() if one.state == REVOKED)

    def revoked(self, robot: str) -> bool:
        """Tells whether a robot was revoked, and has not come back."""
        return robot in self._revoked

    def renew_router(self) -> bool:
        """Renews the router's own certificate where it ends soon; for before the router is opened. Whether it did.

        Raises:
            FolderError, CertificateError: it cannot be renewed.
        """
        if self.why_mute is not None or self.router_days() > ROUTER_SOON:
            return False
        with self._lock:
            pair = renew_router(self.folder, ROUTER_DAYS, self.clock())
        log.info("the certificate of the router is renewed, until %s", pair.ends.date())
        return True

    def router_days(self) -> float:
        """Days until the router's own certificate ends. Raises FolderError, FileNotFoundError."""
        return (read_router(self.folder)["metadata"]["brain"]["valid_until"] - self.clock()) / 86400.0

    @property
    def why_mute(self) -> str | None:
        """Reason that no certificate can be issued here; None where one can."""
        missing = [name for name in (f"{AUTHORITY}.key", f"{AUTHORITY}.crt", f"{ROUTER}.key", f"{ROUTER}.crt")
                   if not (self.folder / name).is_file()]
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in {self.folder}" if missing else \
            None

    def certificate(self) -> bytes:
        """The authority's own (PEM).

        Raises:
            OSError: it cannot be read.
        """
        return (self.folder / f"{AUTHORITY}.crt").read_bytes()

    def token(self, robot: str, person: str, hours: float = HOURS) -> str:
        """A token for one robot, in place of one that it had before.

        Raises:
            Refusal: the robot belongs already, or nobody can be taken in here.
            FolderError, OSError: the folder cannot be written.
        """
        try:
            check_robot(robot)
        except FleetNameProblem as problem:
            raise Refusal(str(problem)) from None
        if self.why_mute is not None:
            raise Refusal(f"this cloud cannot take a robot in: {self.why_mute}. Where the authority's key is kept, "
                          f"`brain keys FOLDER --node {robot}` makes its keys")
        if not 0.0 < hours <= MOST_HOURS:
            raise Refusal(f"a token is good for more than 0 and at most {MOST_HOURS:g} hours, not {hours:g}")
        with self._lock, change(self.folder) as register:
            if robot in robots_of(self.folder):
                raise Refusal(f"{robot} belongs to this fleet already; choose another name, or take that one's rights "
                              f"away first with `brain fleet revoke {robot}`")
            if len(register.tokens) >= MOST_TOKENS and robot not in register.tokens:
                raise Refusal(f"there are {MOST_TOKENS} tokens already")
            drawn = tokens.draw(robot, fingerprint(self.certificate()))
            register.tokens[robot] = {"secret": tokens.kept(drawn.secret), "until": self.clock() + 3600.0 * hours,
                                      "by": person}
        self._told(robot, person, f"gave a token with which {robot} can enrol within {hours:g} h")
        return str(drawn)

    def enroll(self, robot: str, secret: str, request: bytes) -> bytes:
        """The certificate (PEM) for a token; again the same one for the same key.

        Raises:
            Refusal: the token is wrong, too old, or used for another key.
            CertificateError: the request is none.
            FolderError, OSError: the folder cannot be written.
        """
        key = hashlib.sha256(public_key_of(request)).hexdigest()
        with self._lock:
            with change(self.folder) as register:
                token = register.tokens.get(robot)
                known = "" if token is None else str(token["secret"])
                if not hmac.compare_digest(known.encode(), tokens.kept(secret).encode()) or token is None:
                    raise Refusal("the token is wrong, or was replaced; `brain fleet enroll ROBOT` makes another")
                first, person = "key" not in token, str(token["by"])
                if first:
                    self._take_in(register, robot, token, key, request)
                elif token["key"] != key:
                    raise Refusal(f"the token for {robot} was used up with another key. If that was not this "
                                  f"robot, somebody has taken its place: `brain fleet revoke {robot}`, then "
                                  f"`brain fleet enroll {robot}`")
                elif self.revoked(robot):
                    raise Refusal(_revoked(robot))
                certificate, joined = str(token["certificate"]).encode(), token.get("joined", True)
            if first:
                self.settle()
        if first:
            self._told(robot, person, f"{robot} has enrolled")
        if not joined:      # or it had not when this cloud was killed, and the robot asks again
            self._joins(robot, person)
            with self._lock, change(self.folder) as register:
                if register.tokens.get(robot, {}).get("key") == key:
                    register.tokens[robot]["joined"] = True
        return certificate

    def _take_in(self, register: Register, robot: str, token: dict[str, Any], key: str, request: bytes) -> None:
        if self.clock() > token["until"]:
            raise Refusal(f"the token for {robot} is too old; `brain fleet enroll {robot}` makes another")
        before = register.members.get(robot)
        generation = 1 if before is None else before.generation + 1
        certificate = self._sign(request, common_name(robot, generation))
        token.update(key=key, certificate=certificate.decode(), joined=False)
        register.members[robot] = Member(robot, ENROLLED, generation, now(), str(token["by"]))

    def renew(self, certificate: Pair, request: bytes) -> tuple[bytes | None, float]:
        """A later certificate (PEM) for a robot that has one; None where that lasts.

        Args:
            certificate: that it has, and whose key it has shown to have; signed by this authority.
            request: for its next key.

        Returns:
            The certificate, and in how many seconds the robot is to ask again.

        Raises:
            Refusal: it does not belong, or has come too late.
            CertificateError: the request is none.
            OSError: the folder cannot be read.
        """
        robot = self.belongs(certificate)
        left, lasts = certificate.ends.timestamp() - self.clock(), 86400.0 * self._days
        # One that has not begun is from when this clock was wrong.
        if left > lasts * RENEWS and certificate.begins.timestamp() <= self.clock():
            return None, left - lasts * RENEWS
        signed = self._sign(request, certificate.name)
        log.info("%s has another certificate, for %g days", robot, self._days)
        return signed, lasts * (1.0 - RENEWS)

    def belongs(self, certificate: Pair) -> str:
        """The robot that a certificate of this authority is for.

        Raises:
            Refusal: it has no rights any more, is no robot's, or has ended for long.
        """
        name = certificate.name
        robots = robots_of(self.folder)
        robot = name.strip("/").partition(".")[0]
        if robots.get(robot) != name:
            raise Refusal(_revoked(robot) if robot in read_register(self.folder).members else
                          f"{ascii(name)[:80]} is no robot of this fleet")
        if self.clock() > certificate.ends.timestamp() + LATE:
            raise Refusal(f"the certificate of {robot} ended more than {LATE / 86400:g} days ago: `brain fleet revoke "
                          f"{robot}`, then `brain fleet enroll {robot}`")
        return robot

    def revoke(self, robot: str, person: str) -> bool:
        """Takes a robot's rights away, and its token; whether it had any, or was revoked before.

        Raises:
            FolderError: the folder cannot be written.
        """
        with self._lock:
            with change(self.folder) as register:
                had = robot in robots_of(self.folder) or robot in register.tokens
                before = register.members.get(robot)
                if not had:     # whoever orders it twice may have missed the answer: the router is opened anew for it
                    return before is not None and before.state == REVOKED
                register.tokens.pop(robot, None)
                if before is not None or robot in robots_of(self.folder):
                    register.members[robot] = Member(robot, REVOKED, 1 if before is None else before.generation, now(),
                                                     person)
            self.settle()
        self._told(robot, person, f"revoked {robot}")
        return True

    def _sign(self, request: bytes, name: str) -> bytes:
        key = self.folder / f"{AUTHORITY}.key"
        try:
            return sign_request(Pair(key.read_bytes(), self.certificate()), request, name, self._days,
                                self.clock())
        except FileNotFoundError:
            raise CertificateError(f"{key} is not there, so nothing can be signed") from None


def _revoked(robot: str) -> str:
    return f"{robot} was revoked; `brain fleet enroll {robot}` gives it a token to come back with"
