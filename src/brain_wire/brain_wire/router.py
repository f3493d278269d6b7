# SPDX-License-Identifier: Apache-2.0
"""A Zenoh router as a plain Python process: ``python -m brain_wire.router``.

It takes the place of rmw_zenoh's ``rmw_zenohd``, with the same settings but one: it listens on this machine only
unless it is told to listen to a network. Either serves brains and ROS 2 nodes alike.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence

import zenoh

from brain_wire import shared_memory, safe_text, standby, threads
from brain_wire.credentials import place
from brain_wire.endings import on_ending
from brain_wire.endpoints import PORT, address, loopback_endpoints, open_to_a_network
from brain_wire.logs import survive_full_disk
from brain_wire.sched_slice import ask_for_short_slices
from brain_wire.wakeup import Flag
from brain_wire.session import (LEASE, OVERRIDE_VARIABLE, QUERY_TIMEOUT, SessionProblem, apply_override,
                                config_from_file, insert, security_log, session_config)

CONFIG_VARIABLE = "ZENOH_ROUTER_CONFIG_URI"
PROBE_TIMEOUT = 1000  # ms in which a router answers, if it is one

CLOSING = 3.0       # s that links get to close; who asks a router to end waits for 5
ANOTHER_RUNS = 3    # exit status where a router is there already
ROUTING = "routing at"  # is logged once it is open

log = logging.getLogger("brain.router")


class RouterProblem(RuntimeError):
    """The router cannot run; names the endpoint and the remedy."""


class RouterRuns(RouterProblem):
    """A router is there already."""


def free_port() -> int:
    """A TCP port of this machine that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def settings(listen: Sequence[str], connect: Sequence[str] = ()) -> dict[str, Any]:
    """Zenoh's settings for a router, by key: rmw_zenohd's, but for the addresses and a shorter lease."""
    return {
        "mode": "router",
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": True,
        "timestamping/enabled": {"router": True, "peer": True, "client": True},
        "queries_default_timeout": QUERY_TIMEOUT,
        "routing/router/peers_failover_brokering": False,
        "transport/link/tx/lease": LEASE,
        "transport/unicast/max_sessions": 10000,
        **shared_memory.SETTINGS,
        "adminspace/enabled": True,
        "adminspace/permissions": {"read": True, "write": False},
    }


def is_router(endpoint: str) -> bool:
    """Checks whether a Zenoh router answers at ``endpoint`` (as ``tcp/localhost:7447``) within a second or so.

    By TLS it is asked with the operator's credentials, where ``BRAIN_SECURITY`` is set.

    Raises:
        SessionProblem: the endpoint is not written as Zenoh wants it, or there are no such credentials.
    """
    secured = endpoint.startswith("tls/") and place() is not None
    config = session_config(endpoint)[0] if secured else zenoh.Config()
    for key, value in {"mode": "client", "connect/endpoints": [endpoint], "connect/timeout_ms": 0,
                       "listen/endpoints": [], "scouting/multicast/enabled": False, **shared_memory.UNSHARED,
                       "transport/unicast/open_timeout": PROBE_TIMEOUT}.items():
        insert(config, key, json.dumps(value), "the router's endpoint")
    try:
        with zenoh.open(config) as session:
            return bool(session.info.routers_zid())
    except zenoh.ZError:
        return False


class Router:
    """A router in this process, until it is closed.

    Args:
        listen: endpoints; None: this machine only, at ``port``.
        port: for ``listen=None``.
        connect: endpoints of other routers to link with.
        config_file: all settings but these, as `brain keys` writes it; None: ours, or those of
            ``ZENOH_ROUTER_CONFIG_URI`` where ``listen`` is None.
        more: further settings of Zenoh by key, which win over all others; then no override is taken from the
            environment, which is meant for the brain's own router.

    Raises:
        RouterRuns: another router has the endpoint.
        RouterProblem: something else has it, or it cannot be listened on.
        SessionProblem: the settings, or the environment's, are wrong.
    """

    def __init__(self, listen: Sequence[str] | None = None, *, port: int = PORT, connect: Sequence[str] = (),
                 config_file: Path | None = None, more: Mapping[str, Any] | None = None) -> None:
        self.endpoints = list(listen or loopback_endpoints(port, "tls" if config_file else "tcp"))
        path = os.environ.get(CONFIG_VARIABLE, "").strip()
        if config_file is not None:
            config = config_from_file(str(config_file), "--config")
            insert(config, "listen/endpoints", json.dumps(self.endpoints), "the router's endpoint")
            insert(config, "connect/endpoints", json.dumps(list(connect)), "the other routers' endpoints")
        elif path and listen is None:
            config = config_from_file(path, CONFIG_VARIABLE)
            self.endpoints = [f"the endpoints of {path}"]
        else:
            config = zenoh.Config()
            for key, value in settings(self.endpoints, connect).items():
                insert(config, key, json.dumps(value), "the router's endpoint" if "endpoints" in key else "settings")
        if more is None:
            apply_override(config, os.environ.get(OVERRIDE_VARIABLE, ""))
        for key, value in (more or {}).items():
            insert(config, key, json.dumps(value), "settings")
        if config_file is None:
            for endpoint in filter(open_to_a_network, self.endpoints):
                security_log.warning("the router is open to a network at %s and not secured: whoever reaches it can "
                                     "command this brain; see `brain keys --help`", endpoint)
        try:
            with threads.threads(threads.ROUTER):
                self.session = shared_memory.open_zenoh(config)
        except zenoh.ZError as error:
            raise self._problem(error) from error

    def _problem(self, error: zenoh.ZError) -> RouterProblem:
        for endpoint in self.endpoints:
            protocol, host, port = address(endpoint)
            if protocol not in ("tcp", "tls"):
                continue
            local = endpoint if host not in ("0.0.0.0", "::") else f"{protocol}/localhost:{port}"
            if is_router(local):
                return RouterRuns(f"a Zenoh router is listening at {local} already; use that one, or choose another "
                                  f"port with --port")
            if _answers(host, port):
                return RouterProblem(f"port {port} is taken by a program that is no Zenoh router; end it, or choose "
                                     f"another port with --port (and the same for the others, with --router "
                                     f"tcp/localhost:PORT or BRAIN_ROUTER)")
        return RouterProblem(f"cannot listen at {', '.join(self.endpoints)}: {str(error).partition(' at /')[0]}")

    def close(self) -> None:
        """Stops routing."""
        self.session.close()

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answers(host: str, port: int) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a router until SIGINT or SIGTERM. Returns the exit status: 0; 1 when it cannot run; 3 when one runs."""
    parser = argparse.ArgumentParser(prog="python -m brain_wire.router", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=PORT, help=f"on this machine only (default {PORT})")
    parser.add_argument("--listen", action="append", metavar="ENDPOINT",
                        help="listen here instead; tcp/0.0.0.0:7447 opens the router to every network of this "
                             "machine (may be given several times)")
    parser.add_argument("--connect", action="append", default=[], metavar="ENDPOINT", help="link with this router")
    parser.add_argument("--config", type=Path, metavar="FILE", help="all other settings, such as the router.json5 that "
                        "`brain keys` writes; it listens by TLS then")
    parser.add_argument(standby.OPTION, action="store_true", help="wait on standard input for a number before "
                        "it begins")
    options = parser.parse_args(argv)
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    zenoh.try_init_log_from_env()   # where RUST_LOG is set
    ask_for_short_slices()
    stop = Flag()
    on_ending(lambda *_: stop.set())
    survive_full_disk()
    if options.standby and standby.wait_for_work(stop) is None:
        return 0
    try:
        router = Router(options.listen, port=options.port, connect=options.connect, config_file=options.config)
    except (RouterProblem, SessionProblem) as problem:
        print(safe_text.line(problem), file=sys.stderr)
        return ANOTHER_RUNS if isinstance(problem, RouterRuns) else 1
    log.info("%s %s", ROUTING, ", ".join(router.endpoints))
    stop.wait()
    _close(router)
    return 0


def _close(router: Router) -> None:
    """Stops routing. Where Zenoh does not come to an end with that, it is left: nothing is lost with a router."""
    closing = threading.Thread(target=router.close, name="close", daemon=True)
    closing.start()
    closing.join(CLOSING)
    if closing.is_alive():
        log.warning("the links are not closed within %g s; the router ends without that", CLOSING)


def run() -> NoReturn:
    """Runs a router as this process, which ends with it."""
    ended = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)     # to take the interpreter apart waits for Zenoh's threads again


if __name__ == "__main__":
    run()
