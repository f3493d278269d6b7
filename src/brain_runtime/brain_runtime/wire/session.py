# SPDX-License-Identifier: Apache-2.0
"""Opening a Zenoh session with this project's settings, or with those that the environment asks for.

By default a session is a client of the router at ``tcp/localhost:7447``: rmw_zenoh's port, so ``rmw_zenohd`` will do
as well as ours. A client outlives its router and is back within about half a second of the router's return.
"""
from __future__ import annotations

import atexit
import itertools
import json
import logging
import math
import os
import threading
import time
import weakref
from typing import Any, Callable

import zenoh

DEFAULT_ROUTER = "tcp/localhost:7447"
ROUTER_VARIABLE = "BRAIN_ROUTER"
CONFIG_VARIABLE = "ZENOH_SESSION_CONFIG_URI"
OVERRIDE_VARIABLE = "ZENOH_CONFIG_OVERRIDE"
CHECK_VARIABLE = "ZENOH_ROUTER_CHECK_ATTEMPTS"

LEASE = 2000            # ms of silence after which the router takes a process for gone; rmw_zenoh waits 60 s
RETRY = 200             # ms between attempts to reach a router
CLOSING = 1.0           # s that a receiving thread gets to end
CHECK_EVERY = 1.0       # s between looks for a router, as rmw_zenoh has it
SAY_EVERY = 5.0         # s between words about a router that is not there
QUERY_TIMEOUT = 600000  # ms; rmw_zenoh's, and the time that a late joiner may take for what is latched

log = logging.getLogger(__name__)


class SessionProblem(RuntimeError):
    """The session's settings are wrong; says which and where they come from."""


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
        "transport/shared_memory/enabled": False,
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


def session_config(router: str | None = None) -> tuple[zenoh.Config, str]:
    """The configuration of a session and, for messages, where it connects.

    A ``router`` given here wins over ``BRAIN_ROUTER``, and that over the file that ``ZENOH_SESSION_CONFIG_URI``
    names, which replaces all our defaults. ``ZENOH_CONFIG_OVERRIDE`` is applied last.

    Raises:
        SessionProblem: one of them is wrong.
    """
    endpoint = router or os.environ.get(ROUTER_VARIABLE, "").strip() or None
    path = os.environ.get(CONFIG_VARIABLE, "").strip()
    if path:
        config = config_from_file(path, CONFIG_VARIABLE)
        if endpoint:
            insert(config, "connect/endpoints", json.dumps([endpoint]), ROUTER_VARIABLE)
    else:
        config = zenoh.Config()
        for key, value in default_settings(endpoint or DEFAULT_ROUTER).items():
            insert(config, key, json.dumps(value), "the router's endpoint" if "endpoints" in key else "our settings")
    override = os.environ.get(OVERRIDE_VARIABLE, "")
    apply_override(config, override)
    return config, endpoint or (f"the endpoints of {path}" if path else DEFAULT_ROUTER)


class Session:
    """A Zenoh session and the numbers that are counted within it.

    Attributes:
        zenoh: the session itself.
        zid: its id as it stands in tokens.
        endpoint: where it connects, for messages.
    """

    def __init__(self, session: zenoh.Session, endpoint: str) -> None:
        self.zenoh = session
        self.zid = str(session.info.zid())
        self.endpoint = endpoint
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        _open.add(self)

    def run(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Starts a thread that receives until the session is closed."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def next_number(self) -> int:
        """Number for the next node, publisher or subscription."""
        return next(self._numbers)

    @property
    def linked(self) -> bool:
        """Whether there is a router or a peer at the other end right now."""
        if self.zenoh.is_closed():
            return False
        info = self.zenoh.info
        return bool(info.routers_zid() or info.peers_zid())

    def close(self) -> None:
        """Ends the session and all threads that receive in it. May be called twice."""
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


def open_session(router: str | None = None, *, patience: float = 2.0, stop: threading.Event | None = None) -> Session:
    """Opens a session, waiting for a router that is not there yet.

    Args:
        router: endpoint such as ``tcp/localhost:7447``; None: from the environment, else that one.
        patience: s to wait for the router; ``inf``: for ever, saying so every few seconds.
        stop: ends the waiting when set.

    Raises:
        NoRouter: none answered within ``patience``, or ``stop`` was set.
        SessionProblem: the settings are wrong.
    """
    config, endpoint = session_config(router)
    stop = stop or threading.Event()
    zenoh.try_init_log_from_env()   # where RUST_LOG is set
    attempts = _check_attempts()
    begin = time.monotonic()
    said = -math.inf
    while True:
        try:
            return _with_router(Session(zenoh.open(config), endpoint), attempts, stop)
        except zenoh.ZError as error:
            reason = _short(error)
        now = time.monotonic()
        if now - begin >= patience:
            break
        if now - said >= SAY_EVERY:
            log.warning("waiting for a Zenoh router at %s; `brain up` or `python -m brain_runtime.router` starts one",
                        endpoint)
            said = now
        if stop.wait(RETRY / 1000):
            raise NoRouter(f"stopped while waiting for a Zenoh router at {endpoint}")
    raise NoRouter(f"no Zenoh router at {endpoint} ({reason}); start a brain with `brain up`, a router alone with "
                   f"`python -m brain_runtime.router`, or name another endpoint with --router or {ROUTER_VARIABLE}")


def _check_attempts() -> int:
    text = os.environ.get(CHECK_VARIABLE, "").strip() or "1"
    try:
        return int(text)
    except ValueError:
        raise SessionProblem(f"{CHECK_VARIABLE} is {text!r}; it must be a whole number: how often a router is looked for, "
                             f"0 for ever, below 0 not at all") from None


def _with_router(session: Session, attempts: int, stop: threading.Event) -> Session:
    """The session, once it has a router or enough was looked for one. A client's has one; a peer's is open without.

    Raises:
        NoRouter: ``stop`` was set while it was looked for.
    """
    tried, said = 0, -math.inf
    while attempts >= 0 and not session.zenoh.info.routers_zid():
        tried += 1
        if tried == attempts:
            log.warning("no Zenoh router after %d looks for one (%s), at %s: until there is one, peers that are not linked yet "
                        "do not find each other; `python -m brain_runtime.router` starts one", tried, CHECK_VARIABLE,
                        session.endpoint)
            break
        if time.monotonic() - said >= SAY_EVERY:
            said = time.monotonic()
            log.warning("looking for a Zenoh router at %s; `python -m brain_runtime.router` starts one", session.endpoint)
        if stop.wait(CHECK_EVERY):
            session.close()
            raise NoRouter(f"stopped while looking for a Zenoh router at {session.endpoint}")
    return session


def _short(error: Exception) -> str:
    """Zenoh's message without the line of its source."""
    return str(error).partition(" at /")[0].strip().rstrip("!")
