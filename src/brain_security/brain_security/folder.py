# SPDX-License-Identifier: Apache-2.0
"""The folder of a secured brain: keys, certificates, and one Zenoh configuration for each node and for the router.

``NAME.key`` and ``NAME.crt`` are the originals; ``NAME.json5`` has them inside, so that one file is all that another
computer needs. Keys are made once; configurations are written anew each time, since they follow from the graph.
"""
from __future__ import annotations

import base64
import json
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_security.access import access_control
from brain_security.certificates import CertificateError, Pair, make_authority, make_pair
from brain_security.rights import AUTHORITY, MAINTAINS, MEMBER, OPERATES, ROUTER, Rights
from brain_wire import names
from brain_wire.router import settings as router_settings
from brain_wire.session import default_settings

ENDPOINT = "tls/localhost:7447"
LOCAL = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS = 3650.0
OPEN_TIMEOUT = 3000     # ms; a router that does not speak TLS says nothing at all
NOTE = "// Holds a private key. Written by `brain keys`, which writes it anew when the graph changes.\n"


class FolderError(RuntimeError):
    """The folder cannot be used or filled; names the file and the remedy."""


@dataclass
class Done:
    """Changes made to a folder: names by what happened to their keys."""

    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def fill(folder: Path, rights: Iterable[Rights], *, domain: int, namespace: str, about: Mapping[str, Any], days: float,
         hosts: Iterable[str] = (), servers: Iterable[str] = (), renew: bool = False,
         new_authority: bool = False, away: Mapping[str, str] | None = None) -> Done:
    """Makes what is missing in a folder, and writes the configurations.

    Args:
        folder: made if it is not there; only its owner may look into it.
        rights: of all who may connect.
        domain, namespace: of the brain.
        about: what the router's configuration is to say of itself, such as the graph.
        days: until new certificates end.
        hosts: names and addresses of the router's machine beside this one's; of that of ``servers``, where they are
            given.
        servers: names of programs that people connect to and that are no node, as a parameter server, beside those
            that the folder has; the router gives them no rights.
        renew: new keys for all.
        new_authority: a new authority too, so that what it signed before is of no use any more.
        away: nodes that made their keys themselves and have them elsewhere: the common name of each.

    Raises:
        FolderError: a file cannot be read or written, or does not belong to the others.
        CertificateError: a certificate cannot be made.
    """
    rights, servers, away = list(rights), list(servers), away or {}
    here = [one for one in rights if one.node not in away]
    folder = Path(folder)
    done = Done()
    router = f"{names.absolute(namespace).rstrip('/')}/{ROUTER}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            folder.chmod(stat.S_IRWXU)
        authority = _authority(folder, new_authority, done)
        make = _Maker(folder, authority, days, renew or new_authority, done)
        # This machine's name is put in, but one that is there already may have been made on another.
        pairs = {ROUTER: make(ROUTER, router, [*LOCAL, *(() if servers else hosts)], [socket.gethostname()])}
        for one in here:
            pairs[one.node] = make(one.node, one.name, signs=one.role in (OPERATES, MAINTAINS))
        there = _servers(folder, pairs)
        for server in dict.fromkeys([*there, *servers]):
            if server in (*pairs, AUTHORITY):
                raise FolderError(f"the name {server} is another's in this folder; choose another for the server")
            alone = Rights(f"{names.absolute(namespace).rstrip('/')}/{names.check_name(server, 'name')}")
            pairs[server] = make(server, alone.name, [*LOCAL, *(hosts if server in servers else ())],
                                 sorted(there.get(server, {socket.gethostname()})))
            rewrite(folder / f"{server}.json5", _session(pairs[server], authority, alone, domain, namespace))
        about = {**about, "domain": domain, "namespace": namespace, "names": sorted(r.node for r in rights)}
        rewrite(folder / f"{ROUTER}.json5", _router(pairs[ROUTER], authority, rights, domain, router, about, away))
        for one in here:
            rewrite(folder / f"{one.node}.json5", _session(pairs[one.node], authority, one, domain, namespace))
    except OSError as error:
        raise FolderError(f"cannot make {error.filename or folder}: {error.strerror or error}") from error
    done.left = sorted(p.stem for p in folder.glob("*.key") if p.stem not in (*pairs, AUTHORITY))
    for name in done.left:  # no rights any more, so no configuration
        (folder / f"{name}.json5").unlink(missing_ok=True)
    return done


def metadata_of(folder: Path) -> dict[str, Any] | None:
    """Reads the metadata of the router's configuration in a folder; None where there is none yet.

    Raises:
        FolderError: it does not read.
    """
    try:
        return read_router(folder)["metadata"]["brain"]
    except FileNotFoundError:
        return None


def read_router(folder: Path) -> dict[str, Any]:
    """The router's configuration, with what it says of itself under ``metadata``, ``brain``.

    Raises:
        FileNotFoundError: there is none yet.
        FolderError: it does not read.
    """
    path = Path(folder) / f"{ROUTER}.json5"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise FolderError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        tree = json.loads(text.removeprefix(NOTE))
        if isinstance(tree["metadata"]["brain"], dict):
            return tree
    except (ValueError, KeyError, TypeError, RecursionError):
        pass    # told below, as what is no object is
    raise FolderError(f"{path} was not written by `brain keys`; name another folder, or move that file away")


def router_bytes(tree: Mapping[str, Any]) -> bytes:
    """The file of a router's configuration, as :func:`read_router` returned it."""
    return _json5(tree)


def robot_file(pair: Pair, authority: bytes, robot: str) -> bytes:
    """The one file that lets a robot into its fleet, for one that has its certificates renewed by itself.

    Args:
        authority: its certificate, PEM.
    """
    return _session(pair, Pair(b"", authority), Rights(f"/{robot}", MEMBER), 0, "/", renewed=True)


def _servers(folder: Path, known: Mapping[str, Any]) -> dict[str, set[str]]:
    """Certificates of a folder that are a server's, beside ``known``: the hosts of each."""
    found = {}
    for path in sorted(folder.glob("*.crt")):
        if path.stem in known or path.stem == AUTHORITY or not path.with_suffix(".key").exists():
            continue
        try:
            if hosts := Pair(b"", path.read_bytes()).hosts():
                found[path.stem] = hosts
        except CertificateError:
            continue    # it is left, as one that is in no graph any more
    return found


def _authority(folder: Path, anew: bool, done: Done) -> Pair:
    certificate, key = folder / f"{AUTHORITY}.crt", folder / f"{AUTHORITY}.key"
    if certificate.exists() and not anew:
        done.kept.append(AUTHORITY)
        return Pair(key.read_bytes() if key.exists() else b"", certificate.read_bytes())
    if key.exists() and not anew:
        raise FolderError(f"{key} is there, but {certificate} is not; bring it back, or make all anew with "
                          f"--new-authority")
    pair = make_authority(f"brain authority of {socket.gethostname()}"[:64], AUTHORITY_DAYS)
    rewrite(key, pair.key)
    rewrite(certificate, pair.certificate, 0o644)
    done.made.append(AUTHORITY)
    return pair


@dataclass
class _Maker:
    """Takes the keys that are there, and makes those that are not."""

    folder: Path
    authority: Pair
    days: float
    anew: bool
    done: Done

    def __call__(self, file: str, name: str, hosts: Iterable[str] = (), more_hosts: Iterable[str] = (),
                 signs: bool = False) -> Pair:
        key, certificate = self.folder / f"{file}.key", self.folder / f"{file}.crt"
        if not self.anew and key.exists() != certificate.exists():
            raise FolderError(f"of {key.name} and {certificate.name} only one is in {self.folder}; bring the other "
                              f"back, or make all anew with --renew")
        if not self.anew and key.exists():
            pair = Pair(key.read_bytes(), certificate.read_bytes())
            why = _unfit(pair, name, self.authority, set(hosts))
            if why:
                raise FolderError(f"{certificate} {why}; nothing was overwritten. Make all keys anew with --renew, or "
                                  f"use another folder")
            self.done.kept.append(file)
            return pair
        if not self.authority.key:
            raise FolderError(f"{file} needs a certificate, but {AUTHORITY}.key, which signs it, is not in "
                              f"{self.folder}; bring it back, or make all anew with --new-authority")
        pair = make_pair(self.authority, name, self.days, dict.fromkeys([*hosts, *more_hosts]), signs=signs)
        rewrite(key, pair.key)
        rewrite(certificate, pair.certificate, 0o644)
        self.done.made.append(file)
        return pair


def _unfit(pair: Pair, name: str, authority: Pair, hosts: set[str]) -> str | None:
    """Returns the reason why a pair that is there does not serve; None: it serves."""
    try:
        if pair.name != name:
            return f"is for {pair.name}, not for {name}"
        if not pair.signed_by(authority):
            return f"was not signed by {AUTHORITY}.crt"
        missing = hosts - pair.hosts()
    except CertificateError as error:
        return f"cannot be read: {error}"
    return f"does not name {', '.join(sorted(missing))}" if missing else None


def tls_settings(pair: Pair, authority: Pair, side: str) -> dict[str, Any]:
    """Zenoh's settings of TLS for who has a key and certificate; ``side``: ``connect``, or ``listen`` of a router."""
    text = lambda pem: base64.b64encode(pem).decode("ascii")  # noqa: E731
    return {"root_ca_certificate_base64": text(authority.certificate), "enable_mtls": True,
            f"{side}_private_key_base64": text(pair.key), f"{side}_certificate_base64": text(pair.certificate),
            "verify_name_on_connect": True}


def _session(pair: Pair, authority: Pair, rights: Rights, domain: int, namespace: str, renewed: bool = False) -> bytes:
    says = {"name": rights.name, "domain": domain, "namespace": namespace, "any_node": rights.any_node,
            "publishes": sorted(rights.topics_out()), "hears": sorted(rights.topics_in()),
            "serves": sorted(rights.services_served()), "calls": sorted(rights.services_called()),
            "valid_until": pair.ends.timestamp(), **({"renewed": True} if renewed else {})}
    return _json5({**default_settings(ENDPOINT), "transport/link/protocols": ["tls"],
                   "transport/link/tls": tls_settings(pair, authority, "connect"),
                   "transport/unicast/open_timeout": OPEN_TIMEOUT, "metadata": {"brain": says}})


def _router(pair: Pair, authority: Pair, rights: list[Rights], domain: int, name: str,
            about: Mapping[str, Any], common_names: Mapping[str, str]) -> bytes:
    tls: dict[str, Any] = {}
    for side in ("listen", "connect"):      # a linked router is a client too
        tls.update(tls_settings(pair, authority, side))
    says = {**about, "name": name, "any_node": True, "publishes": [], "hears": [], "serves": [], "calls": [],
            "valid_until": pair.ends.timestamp()}
    listen = [ENDPOINT.replace("localhost", "127.0.0.1")]
    return _json5({**router_settings(listen), "transport/link/protocols": ["tls"], "transport/link/tls": tls,
                   "access_control": access_control(rights, domain, [name], common_names), "metadata": {"brain": says}})


def _json5(flat: Mapping[str, Any]) -> bytes:
    """A configuration whose keys may be paths (``a/b``)."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split("/")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return (NOTE + json.dumps(tree, indent=1) + "\n").encode()


def rewrite(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file that nobody else can read at any moment, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)   # of a process that was killed, and had our number
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # whatever the umask is
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
