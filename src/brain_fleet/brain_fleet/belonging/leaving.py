# SPDX-License-Identifier: Apache-2.0
"""The one way in which pictures and recordings leave a robot for its cloud: with consent, as blobs."""
from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Any, Iterator, Mapping

from brain_fleet.belonging.consent import Consent
from brain_fleet.belonging.credentials import read_pair
from brain_fleet.blobs.carry import CLIPS, Carrier
from brain_fleet.blobs.store import SHA256, BlobProblem
from brain_fleet.messages.question import NoAnswer, NotGiven
from brain_fleet.processes.settings import ZENOH, refused, remedy
from brain_wire import NoRouter, Session, open_session
from brain_wire.session import Elsewhere

TRIES = 10          # of each piece, through cuts
PATIENCE = 5.0      # s for the cloud's router


class NotSent(RuntimeError):
    """The cloud does not take it, or is not there; says why."""


class Leaving:
    """A link by which files leave, until it is closed; opened once the owner has let one leave.

    Args:
        folder: of the edge, where the owner's consent is.
        credentials: the robot's one file.
        cloud: endpoint.

    Raises:
        ConsentProblem, Refused: the owner's answers, or the credentials, cannot be used.
        OSError: the credentials cannot be read.
    """

    def __init__(self, folder: Path, credentials: Path, cloud: str) -> None:
        pair, _ = read_pair(credentials)
        self._consent, self._credentials, self._cloud = Consent(folder), credentials, cloud
        self._robot = pair.name.strip("/").partition(".")[0]    # without its generation
        self._session: Session | None = None

    def _linked(self) -> Session:
        if self._session is None:
            try:
                self._session = open_session(self._cloud, identity=self._robot, patience=PATIENCE, more=ZENOH,
                                             elsewhere=Elsewhere(self._credentials))
            except NoRouter as problem:
                raise NotSent(remedy(problem) if refused(problem) else f"no cloud at {self._cloud}; name its endpoint "
                              f"with --cloud") from None
        return self._session

    def send(self, kind: str, file: Path) -> Mapping[str, Any]:
        """Hands a file to the cloud, from where it was cut off; again and again the same one is kept once.

        Args:
            kind: ``pictures`` or ``recordings``.
            file: what is sent.

        Returns:
            ``until`` (s since the epoch): how long the cloud keeps it.

        Raises:
            NoConsent: it may not leave.
            ConsentProblem, ValueError: see :class:`Consent`.
            NotSent: the cloud does not take it, or is away. SessionProblem: the credentials cannot be used.
            OSError: the file cannot be read.
        """
        with file.open("rb") as opened:
            digest, size = SHA256 + hashlib.file_digest(opened, "sha256").hexdigest(), opened.tell()

            @contextlib.contextmanager
            def consented(size: int) -> Iterator[dict[str, Any]]:
                with self._consent.leaving(kind, size, file.name, f"cloud at {self._cloud}") as answer:
                    carrier.session = self._linked()
                    yield {"days": answer.keep}

            carrier = Carrier(self._robot, CLIPS, tries=TRIES, guard=consented)
            try:
                return carrier.hand_in(digest, size, opened, {
                    "kind": kind, "name": re.sub(r"[^A-Za-z0-9_.-]", "_", file.name)[-80:].lstrip("-.") or "unnamed"})
            except (NoAnswer, NotGiven, BlobProblem) as problem:
                raise NotSent(str(problem)) from None

    def close(self) -> None:
        """Ends the link."""
        if self._session is not None:
            self._session.close()

    def __enter__(self) -> Leaving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def send(folder: Path, credentials: Path, cloud: str, kind: str, file: Path) -> Mapping[str, Any]:
    """Hands one file to the cloud; see :class:`Leaving`.

    Raises:
        ValueError: ``cloud`` is the place of its door, which took files in the release before.
        What :class:`Leaving` and :meth:`Leaving.send` raise.
    """
    if not isinstance(cloud, str):
        raise ValueError("files leave by the cloud's router now: give its endpoint, as tls/cloud.example:7460, in "
                         "place of the door's host and port")
    with Leaving(folder, credentials, cloud) as leaving:
        return leaving.send(kind, file)
