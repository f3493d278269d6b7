# SPDX-License-Identifier: Apache-2.0
"""Settings from the environment, read once per link."""
from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from brain_collectives.errors import CollectiveError

NAME = "zenoh"          # of the backend

LINK_VARIABLE = "BRAIN_COLLECTIVES_LINK"
HOST_VARIABLE = "BRAIN_COLLECTIVES_HOST"
LEASE_VARIABLE = "BRAIN_COLLECTIVES_LEASE"
LARGE_VARIABLE = "BRAIN_COLLECTIVES_LARGE"
KEEP_VARIABLE = "BRAIN_COLLECTIVES_KEEP"
IDENTITY_VARIABLE = "BRAIN_COLLECTIVES_IDENTITY"
SECRET_VARIABLE = "BRAIN_COLLECTIVES_SECRET"

PEERS, ROUTER = "peers", "router"
SHORTEST = 16           # characters of a secret
LONGEST = 1024
LEASE = 4.5             # s of silence after which a rank is dead, named by 5 s; far above a busy machine's delays
KEEP = 32 << 20         # B of sent messages that are kept in case a link is lost with them
# B from which all_reduce goes by chunks. Below, one hop is quicker than two; above, each rank sends 2 (n-1)/n of the
# tensor and not n-1 of it. Measured, but on a busy machine, where it varied: the whole was quicker up to 1 MiB with two
# ranks, and about equal at 128 KiB with three.
# `torchrun --nproc-per-node 3 src/brain_collectives/test/programs/threshold.py`
LARGE = 256 << 10


@dataclass(frozen=True)
class Settings:
    """Settings that the environment asks for.

    Attributes:
        link: ``peers`` or ``router``.
        host: address at which the other machines reach this one; None: it is found out.
        lease: s of silence after which a rank is dead.
        large: B from which all_reduce goes by chunks.
        keep: B of sent messages that are kept.
        identity: whose credentials are taken in a secured brain; None: the operator's.
        secret: by which ranks that are linked with each other over a network know each other; None: they do not.
    """

    link: str
    host: str | None
    lease: float
    large: int
    keep: int
    identity: str | None
    secret: str | None = field(default=None, repr=False)


def _number(variable: str, default: float, least: float, unit: str) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not least <= value < 1e15:
        raise CollectiveError(f"{variable} is {text!r}; it must be a number of {unit}, {least:g} or more")
    return value


def _secret() -> str | None:
    """The secret, or what is in the file that ``@PATH`` names: ``@/dev/fd/3`` is a descriptor that was inherited."""
    text = os.environ.get(SECRET_VARIABLE, "").strip()
    if text.startswith("@"):
        try:
            with open(text[1:], encoding="ascii") as file:
                text = file.read(LONGEST + 1).strip()
        except (OSError, ValueError) as error:
            raise CollectiveError(f"{SECRET_VARIABLE} names a file that does not read ({error})") from None
    elif not text:
        return None
    if not SHORTEST <= len(text) <= LONGEST or not text.isascii() or not text.isprintable() or ":" in text:
        raise CollectiveError(f"{SECRET_VARIABLE} must have {SHORTEST} to {LONGEST} printable ASCII characters, and no "
                              f"colon; `openssl rand -hex 32` makes one")
    return text


def from_environment() -> Settings:
    """Reads the settings from environment variables.

    Without ``BRAIN_COLLECTIVES_LINK`` ranks are linked by a router where the environment names one, or credentials
    for one (``BRAIN_ROUTER``, ``BRAIN_SECURITY``, ``ZENOH_SESSION_CONFIG_URI``), else with each other.

    Raises:
        CollectiveError: something does not read.
    """
    link = os.environ.get(LINK_VARIABLE, "").strip()
    if not link:
        named = ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI")
        link = ROUTER if any(os.environ.get(name, "").strip() for name in named) else PEERS
    if link not in (PEERS, ROUTER):
        raise CollectiveError(f"{LINK_VARIABLE} is {link!r}; it must be {PEERS} or {ROUTER}")
    return Settings(link, os.environ.get(HOST_VARIABLE, "").strip() or None, _number(LEASE_VARIABLE, LEASE, 0.5, "s"),
                    int(_number(LARGE_VARIABLE, LARGE, 1, "bytes")), int(_number(KEEP_VARIABLE, KEEP, 0, "bytes")),
                    os.environ.get(IDENTITY_VARIABLE, "").strip() or None, _secret())
