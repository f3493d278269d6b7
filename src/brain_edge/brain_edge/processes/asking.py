# SPDX-License-Identifier: Apache-2.0
"""Asks the cloud, or gives it an order, from a person's terminal."""
from __future__ import annotations

import getpass
import json
import re
from pathlib import Path
from typing import Any

from brain_edge.messages.question import NoAnswer, NotGiven, ask
from brain_edge.processes.settings import ANSWER, CLOUD_AT, CLOUD_VARIABLE, ZENOH, refused, remedy
from brain_edge.schema import FormProblem, read_json
from brain_security.fleet_keys import orders
from brain_wire import NoRouter, Session, open_session
from brain_wire.credentials import OPERATOR
from brain_wire.safe_text import quoted
from brain_wire.session import Elsewhere

PATIENCE = 10.0     # s for an answer


class NoCloud(RuntimeError):
    """The cloud does not answer, or refuses; says why, and the remedy."""


class Asking:
    """A session with the cloud.

    Args:
        cloud: endpoint; None: this machine's.
        credentials: folder or file; None: nothing is secured.

    Attributes:
        credentials: the file that is used; None: nothing is secured.

    Raises:
        NoCloud: nobody is there.
        SessionProblem: the credentials cannot be used.
    """

    def __init__(self, cloud: str | None, credentials: Path | None) -> None:
        self._at = cloud or (CLOUD_AT if credentials is None else CLOUD_AT.replace("tcp/", "tls/"))
        try:
            self._session: Session = open_session(self._at, identity=OPERATOR, more=ZENOH,
                                                  elsewhere=Elsewhere(credentials))
        except NoRouter as problem:
            if refused(problem):
                raise NoCloud(remedy(problem)) from None
            raise NoCloud(f"no cloud at {self._at}; start one with `brain cloud`, or name its endpoint with --cloud or "
                          f"{CLOUD_VARIABLE}") from None
        found = self._session.credentials
        self.credentials: Path | None = None if found is None else found.path
        self._person = _person() if found is None else found.name.rpartition("/")[2]

    def __call__(self, do: str, data: bytes | None = None, **more: Any) -> dict[str, Any]:
        """The answer to an order.

        Args:
            data: bytes that go with it.

        Raises:
            NoCloud: see there.
        """
        try:
            text = ask(self._session, orders(self._person), json.dumps({"do": do, **more}).encode(), PATIENCE,
                       attachment=data, most=ANSWER)
            found = read_json(text, ANSWER, 500_000)
            if not isinstance(found, dict):
                raise FormProblem("it is no object")
            return found
        except NotGiven as problem:
            raise NoCloud(problem.why or str(problem)) from None
        except FormProblem as problem:
            raise NoCloud(f"what the cloud answers cannot be read: {problem}") from None
        except NoAnswer:
            allowed = "" if self._session.credentials is None else f", or does not let {quoted(self._person)} ask"
            raise NoCloud(f"{self._at} is reached, but no cloud answers there{allowed}; start one with `brain cloud`"
                          ) from None

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _person() -> str:
    """Returns the name of who asks, for the log, where no certificate says it."""
    try:
        name = re.sub(r"[^a-zA-Z0-9_]", "_", getpass.getuser())[:40]
    except (OSError, KeyError):     # a user without a name
        return OPERATOR
    return name if name.isidentifier() else OPERATOR
