# SPDX-License-Identifier: Apache-2.0
"""The robot's own credentials: it makes its key itself, and the one file with key and certificate never leaves it."""
from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Callable

from brain_edge.enrolment import tokens
from brain_edge.enrolment.client import EnrolmentClient, NoDoor, Refused
from brain_edge.enrolment.names import FILE
from brain_security.certificates import CertificateError, Pair, make_request, public_key_of
from brain_security.folder import NOTE, rewrite, robot_file

PENDING = "enrolling.json"  # a key for which a certificate was asked; the answer may have been lost
DONE = "enrolled"           # what is kept of the token that was used
RETRY = 2.0                 # s between attempts to reach the door

log = logging.getLogger("brain.edge")


def enroll(folder: Path, token: tokens.Token, where: tuple[str, int], wait: Callable[[float], bool]) -> Path:
    """The file with the credentials that a token gives, also where the token was used here before.

    Args:
        folder: of the edge.
        where: host and port of the cloud's door.
        wait: waits so many seconds; whether to end.

    Raises:
        Refused: the cloud does not take this robot in, or another one answers.
        NoDoor: it was to end before the door could be reached.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file, note, pending = folder / FILE, folder / DONE, folder / PENDING
    mark = tokens.kept(token.secret)
    if file.is_file() and note.is_file() and note.read_text("ascii", "replace").strip() == mark:
        log.info("%s has enrolled with this token before", token.robot)
        return file
    key, request = _pending(pending, mark)
    if not key:
        key, request = make_request(token.robot)
        rewrite(pending, json.dumps({"token": mark, "key": key.decode(), "request": request.decode()}).encode())
    visit, said = EnrolmentClient(where), ""
    while True:
        try:
            authority = visit.authority(token)
            answer = visit.enroll(token, authority, request)
            break
        except NoDoor as problem:
            if str(problem) != said:
                said = str(problem)
                log.info("%s; trying again", said)
            if wait(RETRY):
                raise
    pair = fitting(key, str(answer.get("certificate", "")).encode(), authority, token.robot)
    rewrite(file, robot_file(pair, authority, token.robot))
    rewrite(note, mark.encode() + b"\n")
    pending.unlink(missing_ok=True)
    log.info("%s has enrolled; its credentials are in %s", token.robot, file)
    return file


def _pending(path: Path, mark: str) -> tuple[bytes, bytes]:
    """Key and request that were made for this token before; empty where there are none."""
    try:
        found = json.loads(path.read_bytes())
        if found["token"] == mark:
            key, request = found["key"].encode(), found["request"].encode()
            public_key_of(request)
            return key, request
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("%s does not read, and is made anew", path)
    return b"", b""


def fitting(key: bytes, certificate: bytes, authority: bytes, robot: str) -> Pair:
    """A certificate together with the key that it is for.

    Raises:
        Refused: it is for another key or name, or of another authority.
    """
    pair = Pair(key, certificate)
    try:
        if pair.fits() and pair.signed_by(Pair(b"", authority)) and pair.name.partition(".")[0] == f"/{robot}":
            return pair
    except CertificateError as error:
        raise Refused(f"the cloud has sent a certificate that does not read ({str(error)[:80]})") from None
    raise Refused("the cloud has sent a certificate for another robot, key or fleet; nothing is changed")


def read_pair(path: Path) -> tuple[Pair, bytes]:
    """Key and certificate, and the authority's certificate (PEM), from a robot's one file.

    Raises:
        Refused: it was not written by ``brain keys`` or an enrolment.
        OSError: it cannot be read.
    """
    try:
        tls = json.loads(path.read_text("utf-8").removeprefix(NOTE))["transport"]["link"]["tls"]
        key, certificate, authority = (base64.b64decode(tls[name], validate=True) for name in (
            "connect_private_key_base64", "connect_certificate_base64", "root_ca_certificate_base64"))
        pair = Pair(key, certificate)
        if pair.name:
            return pair, authority
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"{path} holds no key and certificate of a robot ({str(error)[:60]})") from None
    raise Refused(f"{path} holds a certificate without a name")
