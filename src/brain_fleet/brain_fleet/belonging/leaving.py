# SPDX-License-Identifier: Apache-2.0
"""The one way in which pictures and recordings leave a robot for its cloud: with consent, over the cloud's door."""
from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from brain_fleet.belonging.consent import Consent
from brain_fleet.belonging.credentials import read_pair
from brain_fleet.belonging.visit import Visit

PART = 1 << 20


def send(folder: Path, credentials: Path, where: tuple[str, int], kind: str, file: Path) -> dict[str, Any]:
    """Hands a file to the cloud; again and again the same one leaves once.

    Args:
        folder: of the edge, where the owner's consent is.
        credentials: the robot's one file.
        where: the cloud's door.
        kind: ``pictures`` or ``recordings``.
        file: what is sent.

    Returns:
        ``until`` (s since the epoch): how long the cloud keeps it.

    Raises:
        NoConsent: it may not leave.
        ConsentProblem, ValueError: see :class:`Consent`.
        NoDoor, Refused: the cloud does not take it.
        OSError: the file cannot be read.
    """
    pair, authority = read_pair(credentials)
    consent = Consent(folder)
    with file.open("rb") as opened:
        digest, size = hashlib.sha256(), 0
        while part := opened.read(PART):
            digest.update(part)
            size += len(part)
        opened.seek(0)
        with consent.leaving(kind, size, file.name, f"cloud at {where[0]}") as answer:
            return Visit(where).upload(pair, authority, {
                "kind": kind, "name": re.sub(r"[^A-Za-z0-9_.-]", "_", file.name)[-80:].lstrip("-.") or "unnamed",
                "bytes": size, "sha256": digest.hexdigest(), "days": answer.keep}, opened)
