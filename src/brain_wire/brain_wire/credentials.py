# SPDX-License-Identifier: Apache-2.0
"""Credentials: the file that lets a session into a secured brain, and what it is allowed there.

``brain keys`` writes one such file for each node: Zenoh's settings with the certificate, the key and the authority
inside, and under ``metadata`` what the router will allow. The router decides; what stands here is for messages, since
a router drops in silence what it refuses.
"""
from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import zenoh

from brain_wire import names

SECURITY_VARIABLE = "BRAIN_SECURITY"
OPERATOR = "operator"       # whose credentials a person's tools take
EDGE = "edge"               # and those of what joins this robot to its fleet
ANY = "*"                   # in a right, one part of a topic's name, whatever it is
LATEST = 253370764800.0     # s since the epoch: the year 9999
SOON = 14 * 86400.0         # s before its end in which a certificate is warned about


class SessionProblem(RuntimeError):
    """The session's settings are wrong; says which and where they come from."""


class CredentialsProblem(SessionProblem):
    """There are no credentials where they should be, or they cannot be used; says which, and the remedy."""


@dataclass(frozen=True)
class Credentials:
    """Metadata of a credentials file: name, rights and end of the certificate.

    Attributes:
        path: of the file.
        name: common name of the certificate: the node's fully qualified name.
        domain: ROS domain in which it has rights.
        namespace: of the brain.
        publishes, hears: topics, fully qualified; a part of a name may be ANY.
        serves, calls: services, fully qualified.
        any_node: tokens of any node but the graph's, not only of the one that ``name`` names.
        valid_until: end of the certificate (s since the epoch).
        renewed: whether a program renews it unasked, long before it ends.
    """

    path: Path
    name: str
    domain: int
    namespace: str
    publishes: frozenset[str]
    hears: frozenset[str]
    serves: frozenset[str]
    calls: frozenset[str]
    any_node: bool
    valid_until: float
    renewed: bool = False

    def missing_right(self, endpoint: names.Endpoint) -> str | None:
        """Returns why the router will refuse a node, publisher, subscription or service; None where it will not."""
        if endpoint.domain != self.domain:
            return f"{self._who()} is for domain {self.domain}, not {endpoint.domain}"
        if endpoint.kind == names.NODE:
            if endpoint.name == self.name or self.any_node:
                return None
            return f"{self._who()} does not allow a node {endpoint.name}"
        verb, allowed = {names.PUBLISHER: ("publish", self.publishes), names.SUBSCRIPTION: ("hear", self.hears),
                         names.SERVER: ("serve", self.serves), names.CLIENT: ("call", self.calls)}[endpoint.kind]
        if endpoint.topic in allowed or any(_fits(endpoint.topic, one) for one in allowed if ANY in one):
            return None
        return f"{self._who()} does not allow {endpoint.name} to {verb} {endpoint.topic}"

    def warning(self) -> str | None:
        """Warns of the certificate's end, or of others who may read the file; None: nothing is to be said."""
        left = self.valid_until - time.time()
        if left < SOON and not self.renewed:
            when = f"{datetime.fromtimestamp(self.valid_until):%Y-%m-%d}"
            return f"the certificate of {self.name} {'ended' if left < 0 else 'ends'} on {when}; renew it with " \
                   f"`brain keys FOLDER --renew`"
        mode = self.path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            return f"{self.path} holds a private key, and others than its owner may read it: chmod 600 {self.path}"
        return None

    def _who(self) -> str:
        return f"the certificate of {self.name}"


def _fits(topic: str, right: str) -> bool:
    parts, allowed = topic.split("/"), right.split("/")
    return len(parts) == len(allowed) and all(one in (ANY, part) for part, one in zip(parts, allowed))


def place() -> Path | None:
    """Returns the path that ``BRAIN_SECURITY`` names: a folder of credentials or one file; None where it is not set."""
    text = os.environ.get(SECURITY_VARIABLE, "").strip()
    return Path(text).expanduser() if text else None


def credentials_file(where: Path, identity: str, variable: str = SECURITY_VARIABLE) -> Path:
    """The file to use.

    Args:
        where: a folder that ``brain keys`` made, or one file of it, which may have been copied elsewhere.
        identity: node name, ``operator`` or ``router``.
        variable: what named ``where``, for messages.

    Raises:
        CredentialsProblem: there is none.
    """
    if where.is_file():
        return where
    if not where.is_dir():
        raise CredentialsProblem(f"{variable}: there is no {where}; `brain keys {where}` makes it")
    path = where / f"{identity}.json5"
    try:
        found = path.is_file()
    except PermissionError:
        raise CredentialsProblem(f"{where} may not be read by this user") from None
    if not found:
        known = ", ".join(sorted(p.stem for p in where.glob("*.json5"))) or "none at all"
        raise CredentialsProblem(f"{where} has no credentials for {identity} (it has {known}); put it in the graph and "
                                 f"run `brain keys {where}` again, or name another file")
    return path


def read_credentials(path: Path, variable: str = SECURITY_VARIABLE) -> Credentials | None:
    """Reads the metadata of a credentials file; None: a Zenoh configuration that ``brain keys`` did not write.

    Args:
        variable: what named the file, for messages.

    Raises:
        CredentialsProblem: it cannot be read.
    """
    try:
        path.open("rb").close()
        config = zenoh.Config.from_file(str(path))
    except PermissionError:
        raise CredentialsProblem(f"{variable}: {path} may not be read by this user; it belongs to another node"
                                 ) from None
    except (OSError, zenoh.ZError) as error:
        raise CredentialsProblem(f"{variable}: cannot use {path}: {str(error).partition(' at /')[0]}") from error
    try:
        found = json.loads(config.get_json("metadata"))["brain"]
        publishes, hears, serves, calls = (frozenset(found[k]) for k in ("publishes", "hears", "serves", "calls"))
        credentials = Credentials(path, found["name"], found["domain"], found["namespace"], publishes, hears, serves,
                                  calls, found["any_node"], found["valid_until"], found.get("renewed") is True)
    except (KeyError, TypeError, ValueError, RecursionError, zenoh.ZError):
        return None
    texts = (credentials.name, credentials.namespace, *credentials.publishes, *credentials.hears, *credentials.serves,
             *credentials.calls)
    if not (all(isinstance(text, str) for text in texts) and type(credentials.domain) is int
            and type(credentials.any_node) is bool and type(credentials.valid_until) in (int, float)
            and 0 <= credentials.valid_until <= LATEST):
        raise CredentialsProblem(f"{variable}: what {path} says of itself under `metadata` does not read; make it anew "
                                 f"with `brain keys`")
    return credentials
