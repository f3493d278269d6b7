# SPDX-License-Identifier: Apache-2.0
"""A robot at its cloud's door: it enrols, and has its certificate renewed."""
from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any, Iterator

from brain_edge.enrolment.names import FORMAT, NO_CHECK_TIME, PATIENCE
from brain_edge.enrolment.tokens import Token
from brain_edge.schema import FormProblem, check, read_json
from brain_security.certificates import CertificateError, Pair, fingerprint
from brain_wire.endpoints import address
from brain_wire.safe_text import quoted

LONGEST = 64 * 1024     # bytes of an answer
_FORM = {"type": "object", "required": ["format", "now"], "properties": {
    "format": {"const": FORMAT}, "now": {"type": "number"}, "problem": {"type": "string"},
    "passing": {"type": "boolean"}, "authority": {"type": "string"}, "certificate": {"type": "string"},
    "again": {"type": "number"}}}


class NoDoor(ConnectionError):
    """Nobody answers at the door just now; says where, and why."""


class Refused(RuntimeError):
    """The cloud does not give what is asked for; says why, and the remedy."""


def door_of(endpoint: str, door: str | None = None) -> tuple[str, int]:
    """Host and port of the door of a cloud.

    Args:
        endpoint: of the cloud's router: the door is one port further.
        door: ``HOST:PORT``, where it is elsewhere.

    Raises:
        Refused: neither has a host and a port.
    """
    if door is not None:
        host, _, port = door.rpartition(":")
        if host and port.isdecimal() and 0 < int(port) < 65536:
            return host.strip("[]"), int(port)
        raise Refused(f"--door reads HOST:PORT, not {quoted(door)}")
    protocol, host, number = address(endpoint)
    if protocol != "tls" or not number:
        raise Refused(f"{endpoint} is not secured: a robot enrols where the cloud has keys, as tls/cloud.example:7460")
    return host, int(number) + 1


class EnrolmentClient:
    """Asks at a door.

    Args:
        where: host and port.
    """

    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where

    def authority(self, token: Token) -> bytes:
        """The certificate (PEM) of the fleet's authority, which the token knows.

        Raises:
            NoDoor, Refused: see there; another authority answers, too.
        """
        # Nothing is known yet: whoever answers may say anything, and the token tells whether it is true.
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        found = str(self._ask(blind, {"do": "authority"}).get("authority", "")).encode()
        try:
            same = hmac.compare_digest(fingerprint(found), token.authority)
        except CertificateError:
            same = False
        if not same:
            raise Refused(f"who answers at {self._told} is not the cloud that gave this token: either the address is "
                          f"another cloud's, or somebody poses as it. Nothing was told to it")
        return found

    def enroll(self, token: Token, authority: bytes, request: bytes) -> dict[str, Any]:
        """Answer with ``certificate`` (PEM). Raises NoDoor, Refused."""
        return self._ask(_trusting(authority), {"do": "enroll", "robot": token.robot, "secret": token.secret,
                                                "request": request.decode()})

    def renew(self, pair: Pair, authority: bytes, request: bytes) -> dict[str, Any]:
        """Answer with ``again`` (s) and, where it was time, ``certificate`` (PEM). Raises NoDoor, Refused."""
        with _showing(pair, authority) as tls:
            return self._ask(tls, {"do": "renew", "request": request.decode()})

    @property
    def _told(self) -> str:
        return f"{self._where[0]}, port {self._where[1]}"

    def _ask(self, tls: ssl.SSLContext, question: dict[str, Any]) -> dict[str, Any]:
        try:
            with socket.create_connection(self._where, PATIENCE) as plain, \
                    tls.wrap_socket(plain, server_hostname=self._where[0]) as link, link.makefile("rb") as lines:
                link.sendall(json.dumps({"format": FORMAT, **question}).encode() + b"\n")
                text = lines.readline(LONGEST + 1)
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"who answers at {self._told} has no certificate of this fleet for that name "
                          f"({error.verify_message}); name the cloud as its certificate does, or make that anew with "
                          f"`brain keys FOLDER --renew --host NAME`") from None
        except (OSError, UnicodeError) as error:
            raise NoDoor(f"nobody gives certificates at {self._told} just now "
                         f"({getattr(error, 'strerror', None) or error})") from None
        try:
            if not text:
                raise NoDoor(f"the door at {self._told} ended the link without an answer")
            found = read_json(text, LONGEST)
            check(found, _FORM)
        except FormProblem as problem:
            raise NoDoor(f"what is answered at {self._told} cannot be read: {problem}") from None
        if "problem" in found:
            raise (NoDoor if found.get("passing") else Refused)(str(found["problem"]))
        return found


def _trusting(authority: bytes) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.load_verify_locations(cadata=authority.decode())
    # The robot's clock may be wrong: by the answer it learns that, and it takes certificates for its own key only.
    tls.verify_flags |= NO_CHECK_TIME
    return tls


@contextlib.contextmanager
def _showing(pair: Pair, authority: bytes) -> Iterator[ssl.SSLContext]:
    """The same, with a certificate of one's own; Python reads that from a file only, which is gone at the end."""
    tls = _trusting(authority)
    descriptor, name = tempfile.mkstemp()   # for its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.key + pair.certificate)
        tls.load_cert_chain(name)
        yield tls
    finally:
        Path(name).unlink(missing_ok=True)
