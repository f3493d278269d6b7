# SPDX-License-Identifier: Apache-2.0
"""The router that launch starts: whether one is needed, where it listens, and with which program. Plain data.

A router of ours listens on this machine only, unless its user said otherwise: rmw_zenohd by itself listens to every
network.
"""
from __future__ import annotations

import json
import socket
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Mapping

from brain.preflight import LaunchProblem, find_executable, install
from brain.zenoh_probe import NOBODY, OTHER, ROUTER, who
from brain.zenoh_settings import OVERRIDE_VARIABLE, ROUTER_VARIABLE, ZenohSettings, read
from brain_wire.endpoints import LOOPBACK, address, loopback_endpoints

PACKAGE, EXECUTABLE = "rmw_zenoh_cpp", "rmw_zenohd"
RMW_VARIABLE = "RMW_IMPLEMENTATION"
OTHER_PORT = f"""{OVERRIDE_VARIABLE}='connect/endpoints=["tcp/localhost:PORT"]' for all of them"""
WITHOUT = "or say router:=false"


@dataclass(frozen=True)
class RouterPlan:
    """Plan for a router: whether one is started, and how.

    Attributes:
        says: a line for whoever started launch; empty: nothing.
        command: of the router; empty: none is started.
        environment: of the router, over that of launch.
    """

    says: str = ""
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def plan(wanted: str, environment: Mapping[str, str]) -> RouterPlan:
    """Decides what to do where a router is ``wanted`` (``auto``, ``true`` or ``false``).

    Raises:
        LaunchProblem: one is needed and cannot be started from here.
        ZenohSettingsProblem: the environment's settings are wrong.
    """
    if wanted == "false" or (wanted == "auto" and environment.get(RMW_VARIABLE) != PACKAGE):
        return RouterPlan()
    settings = read(environment)
    if wanted == "auto" and settings.attempts < 0:
        return RouterPlan("no router is started, since ZENOH_ROUTER_CHECK_ATTEMPTS says that none is looked for")
    places = {address(e): e for e in settings.sessions if address(e)[0] in ("tcp", "tls") and address(e)[2]}
    seen = {}
    for place, endpoint in places.items():
        seen[place] = who(*place)
        if seen[place] == ROUTER:
            return RouterPlan(f"a Zenoh router answers at {endpoint} already")
    if not places:
        return RouterPlan("no router is started, since the sessions' settings name no endpoint of one")
    here = [place for place in places if place[1].startswith(LOOPBACK)]
    if not here and not (settings.listen and any(_meets(place, settings.listen) for place in places)):
        return _elsewhere(settings, list(places))
    listen = settings.listen or _loopback(here, settings)
    if not any(_meets(place, listen) for place in places):
        raise LaunchProblem(f"the router would listen at {', '.join(listen)}, but sessions look for it at "
                            f"{', '.join(settings.sessions)}; make {ROUTER_VARIABLE} and the sessions' settings agree, "
                            f"{WITHOUT}")
    taken = {port for (_, host, port), found in seen.items() if found != NOBODY and _is_here(host)}
    for endpoint in listen:
        _check_free(endpoint, taken)
    return RouterPlan("", _command(listen, settings), _environment(listen, settings))


def _elsewhere(settings: ZenohSettings, places: list[tuple[str, str, int]]) -> RouterPlan:
    where = ", ".join(settings.sessions)
    if settings.attempts == 0:
        return RouterPlan(f"no router answers at {where} yet; the nodes wait for it")
    protocol, _, port = places[0]
    raise LaunchProblem(f"no Zenoh router answers at {where}, and it cannot be started from here, since that is not "
                        f"this machine's loopback; start it there, or name its endpoint with {ROUTER_VARIABLE}, as "
                        f"{protocol}/[::]:{port}, {WITHOUT}")


def _meets(place: tuple[str, str, int], listen: tuple[str, ...]) -> bool:
    """Tells whether a session that looks at a place comes to one that listens at one of the endpoints."""
    protocol, host, port = place
    for other_protocol, other_host, other_port in map(address, listen):
        everywhere = other_host in ("0.0.0.0", "::") and _is_here(host)
        both_here = host.startswith(LOOPBACK) and other_host.startswith(LOOPBACK)
        if (protocol, port) == (other_protocol, other_port) and (everywhere or both_here or host == other_host):
            return True
    return False


def _is_here(host: str) -> bool:
    """Tells whether an address, or one that a name stands for, is this machine's."""
    if host.startswith(LOOPBACK):
        return True
    try:
        for family, kind, number, _, where in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, number) as probe:
                probe.bind(where)
                return True
    except OSError:
        return False
    return False


def _loopback(here: list[tuple[str, str, int]], settings: ZenohSettings) -> tuple[str, ...]:
    protocol, _, port = here[0]
    if protocol == "tls":
        raise LaunchProblem(f"no router answers at {', '.join(settings.sessions)}, and one that speaks TLS needs its "
                            f"credentials; set {ROUTER_VARIABLE} to the router.json5 that `brain keys` made, {WITHOUT}")
    return tuple(loopback_endpoints(port))


def _check_free(endpoint: str, taken: set[int]) -> None:
    """Raises LaunchProblem if somebody else has the port, as those that are taken, or this user may not have it."""
    protocol, host, port = address(endpoint)
    if protocol not in ("tcp", "tls") or not port:
        return
    near = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(host, host)
    found = OTHER if port in taken else who(protocol, near, port)
    if found == ROUTER:
        raise LaunchProblem(f"a Zenoh router listens at {endpoint} already, but the sessions look for theirs "
                            f"elsewhere; make {ROUTER_VARIABLE} and the sessions' settings agree, {WITHOUT}")
    if found != NOBODY:
        raise LaunchProblem(f"port {port} is taken by a program that is no Zenoh router; end it, choose another port "
                            f"with {OTHER_PORT}, {WITHOUT}")
    try:
        family, kind, number, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        raise LaunchProblem(f"a router cannot listen at {endpoint} ({error.strerror or error}); choose another port "
                            f"with {OTHER_PORT}, {WITHOUT}") from error


def _command(listen: tuple[str, ...], settings: ZenohSettings) -> tuple[str, ...]:
    try:
        return (str(find_executable(PACKAGE, EXECUTABLE)),)
    except LaunchProblem:
        if find_spec("zenoh") is None:
            raise LaunchProblem(f"there is no program for a Zenoh router: {install(PACKAGE)}, or `pip install "
                                f"eclipse-zenoh`, {WITHOUT}") from None
    arguments = [] if settings.router_file else [item for endpoint in listen for item in ("--listen", endpoint)]
    return (sys.executable, "-m", "brain_wire.router", *arguments)


def _environment(listen: tuple[str, ...], settings: ZenohSettings) -> tuple[tuple[str, str], ...]:
    """The router's own override: what sessions connect to is the router itself, which must not do so."""
    own = [settings.override.strip().rstrip(";")] if settings.override else []
    if not settings.listen:
        own.append(f"listen/endpoints={json.dumps(list(listen))}")
    if any(_meets(address(e), listen) for e in settings.sessions) and "connect" in settings.override:
        own.append("connect/endpoints=[]")
    if "mode" in settings.override:     # it may say that sessions are clients
        own.append('mode="router"')
    return ((OVERRIDE_VARIABLE, ";".join(own)),) if own else ()
