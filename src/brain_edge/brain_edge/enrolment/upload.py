# SPDX-License-Identifier: Apache-2.0
"""Uploads: the one way in which pictures and recordings leave a robot for its cloud, with consent, as blobs."""
from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Any, Iterator, Mapping

from brain_edge.blobs.carry import CLIPS, Carrier
from brain_edge.blobs.store import SHA256, BlobProblem, write_whole
from brain_edge.enrolment.consent import Consent
from brain_edge.enrolment.credentials import read_pair
from brain_edge.messages.question import NoAnswer, NotGiven
from brain_edge.processes.settings import ZENOH, refused, remedy
from brain_wire import NoRouter, Session, open_session
from brain_wire.session import Elsewhere

TRIES = 10          # of each piece, through cuts
PATIENCE = 5.0      # s for the cloud's router
SENT = ".sent"      # in a folder of hard clips: names of those that have left it
CLIP = re.compile(r"hard-(?P<robot>[A-Za-z0-9_.-]{1,64})-(?P<drive>[A-Za-z0-9_]{1,40})-(?P<number>\d{1,9})-"
                  r"[a-z_]{1,20}-\d{1,3}\.mcap")


class NotSent(RuntimeError):
    """The cloud does not take it, or is not there; says why."""


class Uploads:
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

    def __enter__(self) -> Uploads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def send(folder: Path, credentials: Path, cloud: str, kind: str, file: Path) -> Mapping[str, Any]:
    """Hands one file to the cloud; see :class:`Uploads`.

    Raises:
        ValueError: ``cloud`` is the place of its door, which took files in the release before.
        What :class:`Uploads` and :meth:`Uploads.send` raise.
    """
    if not isinstance(cloud, str):
        raise ValueError("files leave by the cloud's router now: give its endpoint, as tls/cloud.example:7460, in "
                         "place of the door's host and port")
    with Uploads(folder, credentials, cloud) as leaving:
        return leaving.send(kind, file)


def in_order(name: str) -> tuple[str, str, int]:
    """Key by which clips are sorted, from the name of one: those of a drive stand together, the oldest first."""
    found = CLIP.fullmatch(name)
    assert found is not None    # else it would not have been taken
    return found["robot"], found["drive"], int(found["number"])


def unsent(clips: Path) -> list[Path]:
    """Clips in a robot's folder that have not left it, the oldest first. Raises OSError."""
    sent = _sent(clips)
    found = [path for path in clips.iterdir() if CLIP.fullmatch(path.name) and path.name not in sent]
    return sorted(found, key=lambda path: in_order(path.name)[2])


def remember(clips: Path, name: str) -> None:
    """A clip has left; those that are not there any more are forgotten. Raises OSError."""
    names = [one for one in sorted(_sent(clips)) if (clips / one).exists()]
    write_whole(clips / SENT, "".join(f"{one}\n" for one in (*names, name)).encode())


def _sent(clips: Path) -> set[str]:
    file = clips / SENT
    return set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()
