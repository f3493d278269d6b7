# SPDX-License-Identifier: Apache-2.0
"""The token with which a robot enrols: its name, a secret for one use, and by what it knows its fleet's authority."""
from __future__ import annotations

import hashlib
import re
import secrets
from typing import NamedTuple

from brain_security.fleet_keys import FleetNameProblem, check_robot

SECRET = 16     # bytes that nobody guesses
_FORM = re.compile(r"([a-z][a-z0-9_]*)\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")


class TokenProblem(ValueError):
    """A text is no token; says why, and where one comes from."""


class Token(NamedTuple):
    """A token.

    Attributes:
        robot: that it is for.
        secret: that it is known by, once.
        authority: fingerprint of the fleet's authority, so that no other can pose as it.
    """

    robot: str
    secret: str
    authority: str

    def __str__(self) -> str:
        return ".".join(self)


def draw(robot: str, authority: str) -> Token:
    """A new token."""
    return Token(robot, secrets.token_urlsafe(SECRET), authority)


def parse(text: str) -> Token:
    """A token from its text.

    Raises:
        TokenProblem: it is none.
    """
    found = _FORM.fullmatch(text.strip())
    try:
        if found is not None:
            return Token(check_robot(found[1]), found[2], found[3])
    except FleetNameProblem:
        pass    # told below: no token has such a name
    raise TokenProblem("this is no token, which reads ROBOT.SECRET.FINGERPRINT; `brain fleet enroll ROBOT` makes one")


def kept(secret: str) -> str:
    """Hashes a secret for storage: who reads the hash cannot enrol."""
    return hashlib.sha256(secret.encode()).hexdigest()
