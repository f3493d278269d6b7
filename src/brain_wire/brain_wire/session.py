# SPDX-License-Identifier: Apache-2.0
"""Opening a Zenoh session with this project's settings, or with those that the environment asks for.

By default a session is a client of the router at ``tcp/localhost:7447``: rmw_zenoh's port, so ``rmw_zenohd`` will do
as well as ours. A client outlives its router and is back within about half a second of the router's return.

The regions of a brain are peers, as rmw_zenoh's nodes are, where that router is on their machine and nothing is
secured: they find each other by it, and what they say goes straight from one to the other, which the router's death
does not hold up; a link that breaks is made again (:mod:`.relinking`). All others are clients, so what is linked with
each other stays a brain and not a network.

In a secured brain ``BRAIN_SECURITY`` names the folder with everybody's credentials, or the one file to use.
"""
from __future__ import annotations

import atexit
import functools
import itertools
import json
import logging
import math
import os
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping

import zenoh

from brain_wire import names, shared_memory
from brain_wire.credentials import (OPERATOR, SECURITY_VARIABLE, Credentials, SessionProblem, credentials_file,
                                    place, read_credentials)
from brain_wire.connect_errors import why_not
from brain_wire.endpoints import on_this_machine, open_to_a_network
from brain_wire.owner import owned_thread
from brain_wire.relinking import Relinking
from brain_wire.wakeup import Flag

DEFAULT_ROUTER = "tcp/localhost:7447"
ROUTER_VARIABLE = "BRAIN_ROUTER"
CONFIG_VARIABLE = "ZENOH_SESSION_CONFIG_URI"
OVERRIDE_VARIABLE = "ZENOH_CONFIG_OVERRIDE"
CHECK_VARIABLE = "ZENOH_ROUTER_CHECK_ATTEMPTS"
LINKS_VARIABLE = "BRAIN_LINKS"
LINKS = ("peers", "router")     # what it may say: how the regions of a brain are linked

LEASE = 2000            # ms of silence after which the router takes a process for gone; rmw_zenoh waits 60 s
PEER_LEASE = 10000      # ms; peers are on this machine, where the end of a process is told at once
OPENING = 60000         # ms that a link between peers may take to be made, as rmw_zenoh has it
RETRY = 200             # ms between attempts to reach a router
CLOSING = 1.0           # s that a receiving thread gets to end
CHECK_EVERY = 1.0       # s between looks for a router, as rmw_zenoh has it
SAY_EVERY = 5.0         # s between words about a router that is not there
QUERY_TIMEOUT = 600000  # ms; rmw_zenoh's, and the time that a late joiner may take for what is latched

log = logging.getLogger(__name__)
security_log = logging.getLogger("brain_security")  # of its own: commands show what it says, and nothing else
_warned: set[str] = set()


class NoRouter(ConnectionError):
    """No router answered in the time given; names the endpoint and the remedy."""


def default_settings(router: str) -> dict[str, Any]:
    """Zenoh's settings for a client of the router at ``router``, by key."""
    return {
        "mode": "client",
        "connect/endpoints": [router],
        "connect/timeout_ms": 0,  # waiting is done here, where it can be told and ended
        "connect/retry": {"period_init_ms": RETRY, "period_max_ms": RETRY, "period_increase_factor": 1},
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        "timestamping/enabled": True,
        "queries_default_timeout": QUERY_TIMEOUT,
        "transport/link/tx/lease": LEASE,
        **shared_memory.SETTINGS,
    }


def peer_settings() -> dict[str, Any]:
    """Zenoh's settings for a peer on this machine, by key, beside those of a client: rmw_zenoh's, but for the lease."""
    return {
        "mode": "peer",
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "connect/exit_on_failure": True,    # or it would be open without a router, and nobody would tell
        "transport/link/tx/lease": PEER_LEASE,
        "transport/unicast/open_timeout": OPENING,
        "transport/unicast/accept_timeout": OPENING,
        "scouting/gossip/enabled": True,
        "scouting/gossip/target": {"router": ["router", "peer"], "peer": ["router"]},
        "scouting/gossip/autoconnect": {"router": [], "peer": ["router", "peer"]},
        "scouting/gossip/autoconnect_strategy": {"peer": {"to_router": "always", "to_peer": "greater-zid"}},
    }


def insert(config: zenoh.Config, key: str, value: str, source: str) -> None:
    """Sets one key of a configuration to a JSON5 value.

    Raises:
        SessionProblem: Zenoh does not know the key, or the value does not fit.
    """
    try:
        config.insert_json5(key, value)
    except zenoh.ZError as error:
        raise SessionProblem(f"{source}: Zenoh does not take {key}={value} ({_short(error)})") from error


def apply_override(config: zenoh.Config, text: str) -> None:
    """Applies ``ZENOH_CONFIG_OVERRIDE``, which reads ``key=value;key2=value2`` with JSON5 values.

    Raises:
        SessionProblem: it does not read so, or Zenoh does not take it.
    """
    for item in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = item.partition("=")
        if not equals:
            raise SessionProblem(f"{OVERRIDE_VARIABLE}: {item!r} must read key=value, several separated by ;")
        insert(config, key.strip(), value.strip(), OVERRIDE_VARIABLE)


def config_from_file(path: str, variable: str) -> zenoh.Config:
    """Configuration from a JSON5 file.

    Raises:
        SessionProblem: it cannot be read.
    """
    path = path.removeprefix("file://")
    try:
        return zenoh.Config.from_file(path)
    except zenoh.ZError as error:
        raise SessionProblem(f"{variable}: cannot use {path}: {_short(error)}") from error


def session_config(router: str | None = None, identity: str = OPERATOR, elsewhere: Elsewhere | None = None,
                   direct: bool = False) -> tuple[zenoh.Config, str, Credentials | None]:
    """The configuration of a session; for messages, where it connects; and its credentials, if it has any.

    A ``router`` given here wins over ``BRAIN_ROUTER``, and that over the file that ``ZENOH_SESSION_CONFIG_URI``
    names, which replaces all our defaults. Where that is not set, the credentials of ``identity`` in the folder that
    ``BRAIN_SECURITY`` names do so. ``ZENOH_CONFIG_OVERRIDE`` is applied last. With ``direct`` it is linked straight
    with the others of the brain, where that can be: see :func:`open_session`.

    Raises:
        SessionProblem: one of them is wrong.
    """
    if elsewhere is None:
        endpoint = router or os.environ.get(ROUTER_VARIABLE, "").strip() or None
        path, override = os.environ.get(CONFIG_VARIABLE, "").strip(), os.environ.get(OVERRIDE_VARIABLE, "")
        secured, variable = place(), SECURITY_VARIABLE
    else:
        endpoint, path, override = router, "", ""
        secured, variable = elsewhere.credentials, elsewhere.variable
    if path:
        variable = CONFIG_VARIABLE
    elif secured is not None:
        path = str(credentials_file(secured, identity, variable))
    credentials = None
    if path:
        credentials = read_credentials(Path(path.removeprefix("file://")), variable)
        config = config_from_file(path, variable)
        if endpoint:
            insert(config, "connect/endpoints", json.dumps([endpoint]), ROUTER_VARIABLE)
    else:
        config = zenoh.Config()
        for key, value in default_settings(endpoint or DEFAULT_ROUTER).items():
            insert(config, key, json.dumps(value), "the router's endpoint" if "endpoints" in key else "our settings")
    apply_override(config, override)
    endpoints = _endpoints(config)
    if direct and not path and _links() == "peers" and len(endpoints) == 1 and on_this_machine(endpoints[0]):
        for key, value in peer_settings().items():
            insert(config, key, json.dumps(value), "our settings")
        apply_override(config, override)
    if credentials is not None:
        plain = [e for e in endpoints if not e.startswith("tls/")]
        if plain:
            raise SessionProblem(f"a secured brain is reached by TLS only, as tls/localhost:7447, but the router is "
                                 f"given as {plain[0]}; correct --router or {ROUTER_VARIABLE}")
        _say_once(credentials.warning())
    for open_one in filter(open_to_a_network, endpoints):
        _say_once(f"{open_one} is not secured: what is said there is not encrypted, and whoever reaches it can command "
                  f"this brain; see `brain keys --help`")
    return config, endpoint or ", ".join(endpoints) or f"the endpoints of {path}", credentials


def _links() -> str:
    """Returns how the regions of a brain are to be linked. Raises SessionProblem."""
    text = os.environ.get(LINKS_VARIABLE, "").strip() or LINKS[0]
    if text not in LINKS:
        raise SessionProblem(f"{LINKS_VARIABLE} is {text!r}; it must be {' or '.join(LINKS)}: regions are linked with "
                             f"each other, or with the router only")
    return text


def _endpoints(config: zenoh.Config) -> list[str]:
    """Lists the endpoints to which a configuration connects, whatever form they are written in."""
    found = json.loads(config.get_json("connect/endpoints"))
    lists = list(found.values()) if isinstance(found, dict) else [found]
    return [e if isinstance(e, str) else e.get("endpoint", "") for some in lists for e in some or ()]


def _say_once(text: str | None) -> None:
    if text and text not in _warned:
        _warned.add(text)
        security_log.warning(text)


@dataclass(frozen=True)
class Elsewhere:
    """Says that a session goes to another place than the brain's own router, which the environment tells of.

    Attributes:
        credentials: a folder of them, or a file; None: nothing is secured there.
        variable: what named it, for messages.
    """

    credentials: Path | None = None
    variable: str = "--secure"


class Session:
    """A Zenoh session and the numbers that are counted within it.

    Attributes:
        zenoh: the session itself.
        zid: its id as it stands in tokens.
        endpoint: where it connects, for messages.
        credentials: what it is let in with; None where nothing is secured.
        pool: shared memory for large messages.
    """

    def __init__(self, session: zenoh.Session, endpoint: str, credentials: Credentials | None = None,
                 pool: shared_memory.Pool | None = None) -> None:
        self.zenoh = session
        self.pool = pool or shared_memory.Pool()
        self.zid = str(session.info.zid())
        self.endpoint = endpoint
        self.credentials = credentials
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        _open.add(self)

    def run(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Starts a thread that receives until the session is closed."""
        thread = owned_thread(target, name)
        self._threads.append(thread)
        thread.start()
        return thread

    def watch_links(self) -> None:
        """Starts to make links with other peers again that are away: see :mod:`brain_wire.relinking`."""
        self.run(functools.partial(Relinking(self.zenoh).run, self._ended), "zenoh-links")

    def next_number(self) -> int:
        """Number for the next node, publisher or subscription."""
        return next(self._numbers)

    def missing_right(self, endpoint: names.Endpoint) -> str | None:
        """Returns why the router will refuse a node, publisher, subscription or service; None where it will not."""
        return None if self.credentials is None else self.credentials.missing_right(endpoint)

    def check_right(self, endpoint: names.Endpoint) -> None:
        """Warns of what the router will refuse: it does so in silence."""
        why = self.missing_right(endpoint)
        if why:
            _say_once(f"{why}; the router refuses it. Rights come from the graph: correct that and run `brain keys` "
                      f"again")

    @property
    def linked(self) -> bool:
        """True while there is a router or a peer at the other end."""
        if self.zenoh.is_closed():
            return False
        info = self.zenoh.info
        return bool(info.routers_zid() or info.peers_zid())

    def close(self) -> None:
        """Ends the session and all threads that receive in it. May be called twice."""
        self._ended.set()
        if not self.zenoh.is_closed():
            self.zenoh.close()
        for thread in self._threads:
            thread.join(CLOSING)
        self._threads.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A session that is open when the interpreter ends makes the process hang or abort."""
    for session in list(_open):
        session.close()


def open_session(router: str | None = None, *, identity: str = OPERATOR, patience: float = 2.0,
                 stop: threading.Event | Flag | None = None, more: Mapping[str, Any] | None = None,
                 elsewhere: Elsewhere | None = None, direct: bool = False) -> Session:
    """Opens a session, waiting for a router that is not there yet.

    Args:
        router: endpoint such as ``tcp/localhost:7447``; None: from the environment, else that one.
        identity: whose credentials it takes where the brain is secured: a node's name, or ``operator``.
        patience: s to wait for the router; ``inf``: for ever, saying so every few seconds.
        stop: ends the waiting when set.
        more: further settings of Zenoh by key, which win over all others.
        elsewhere: it goes to another place than the brain's router; then nothing is taken from the environment.
        direct: it is a peer, linked straight with the others that are; where the brain is secured, or its router not on
            this machine alone, or ``BRAIN_LINKS`` says ``router``, a client as ever.

    Raises:
        NoRouter: none answered within ``patience``, or ``stop`` was set.
        SessionProblem: the settings are wrong.
    """
    config, endpoint, credentials = session_config(router, identity, elsewhere, direct)
    for key, value in (more or {}).items():
        insert(config, key, json.dumps(value), "our settings")
    stop = stop or threading.Event()
    zenoh.try_init_log_from_env()   # where RUST_LOG is set
    attempts = _check_attempts()
    begin = time.monotonic()
    said = -math.inf
    while True:
        try:
            opened = shared_memory.open_zenoh(config)
            session = Session(opened, endpoint, credentials, shared_memory.Pool(config))
            if json.loads(config.get_json("mode")) == "peer" and direct:
                session.watch_links()
            return _with_router(session, attempts, stop)
        except zenoh.ZError as error:
            reason = _short(error)
        now = time.monotonic()
        if now - begin >= patience:
            break
        if now - said >= SAY_EVERY:
            refused = why_not(_endpoints(config), credentials)
            log.warning(refused or f"waiting for a Zenoh router at {endpoint}; `brain up` or `python -m "
                                   f"brain_wire.router` starts one")
            said = now
        if stop.wait(RETRY / 1000):
            raise NoRouter(f"stopped while waiting for a Zenoh router at {endpoint}")
    raise NoRouter(why_not(_endpoints(config), credentials) or
                   f"no Zenoh router at {endpoint} ({reason}); start a brain with `brain up`, a router alone with "
                   f"`python -m brain_wire.router`, or name another endpoint with --router or {ROUTER_VARIABLE}")


def _check_attempts() -> int:
    text = os.environ.get(CHECK_VARIABLE, "").strip() or "1"
    try:
        return int(text)
    except ValueError:
        raise SessionProblem(f"{CHECK_VARIABLE} is {text!r}; it must be a whole number: how often a router is looked "
                             f"for, 0 for ever, below 0 not at all") from None


def _with_router(session: Session, attempts: int, stop: threading.Event | Flag) -> Session:
    """The session, once it has a router or enough was looked for one. A client's has one; a peer's is open without.

    Raises:
        NoRouter: ``stop`` was set while it was looked for.
    """
    tried, said = 0, -math.inf
    while attempts >= 0 and not session.zenoh.info.routers_zid():
        tried += 1
        if tried == attempts:
            log.warning("no Zenoh router after %d looks for one (%s), at %s: until there is one, peers that are not "
                        "linked yet do not find each other; `python -m brain_wire.router` starts one", tried,
                        CHECK_VARIABLE, session.endpoint)
            break
        if time.monotonic() - said >= SAY_EVERY:
            said = time.monotonic()
            log.warning("looking for a Zenoh router at %s; `python -m brain_wire.router` starts one",
                        session.endpoint)
        if stop.wait(CHECK_EVERY):
            session.close()
            raise NoRouter(f"stopped while looking for a Zenoh router at {session.endpoint}")
    return session


def _short(error: Exception) -> str:
    """Zenoh's message without the line of its source."""
    return str(error).partition(" at /")[0].strip().rstrip("!")
