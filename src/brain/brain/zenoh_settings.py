# SPDX-License-Identifier: Apache-2.0
"""Environment of rmw_zenoh: where its sessions look for a router, and where a router would listen.

Read without Zenoh, since under ROS 2 Python has none; what ``rmw_zenoh_cpp`` makes of these variables is its own.
"""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

import yaml

SESSION_VARIABLE, ROUTER_VARIABLE = "ZENOH_SESSION_CONFIG_URI", "ZENOH_ROUTER_CONFIG_URI"
OVERRIDE_VARIABLE, CHECK_VARIABLE = "ZENOH_CONFIG_OVERRIDE", "ZENOH_ROUTER_CHECK_ATTEMPTS"
SESSION_ENDPOINTS = ["tcp/localhost:7447"]      # rmw_zenoh's own
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"""|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"|(?P<word>[A-Za-z_$][\w$]*)"
    r"|(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|[\d.][\w.]*(?:(?<=[eE])[-+]\d+)?))"
    r"|(?P<mark>[{}\[\],:])|(?P<space>\s+)", re.S)
_CONSTANTS = ("true", "false", "null")


class ZenohSettingsProblem(RuntimeError):
    """A variable or file that Zenoh would not take; names it and the remedy."""


@dataclass(frozen=True)
class ZenohSettings:
    """Settings that decide whether a router is needed, and which.

    Attributes:
        sessions: endpoints at which rmw_zenoh's sessions look for their router.
        listen: endpoints at which a router would listen, as its user wants it; empty: nothing was said.
        attempts: how often a session looks for a router: 0 for ever, below 0 not at all.
        override: ``ZENOH_CONFIG_OVERRIDE`` as it stands.
        router_file: ``ZENOH_ROUTER_CONFIG_URI`` as it stands.
    """

    sessions: tuple[str, ...]
    listen: tuple[str, ...]
    attempts: int
    override: str
    router_file: str


def read(environment: Mapping[str, str]) -> ZenohSettings:
    """Reads the settings from the environment.

    Raises:
        ZenohSettingsProblem: see there.
    """
    text = {name: environment.get(name, "").strip()
            for name in (SESSION_VARIABLE, ROUTER_VARIABLE, OVERRIDE_VARIABLE, CHECK_VARIABLE)}
    session = _file(text[SESSION_VARIABLE], SESSION_VARIABLE)
    if session is None:
        session = {"mode": "peer", "connect": {"endpoints": SESSION_ENDPOINTS}}
    router = _file(text[ROUTER_VARIABLE], ROUTER_VARIABLE) or {}
    for path, value in _overrides(text[OVERRIDE_VARIABLE]):
        for settings in (session, router):
            _insert(settings, path, value)
    try:
        attempts = int(text[CHECK_VARIABLE] or "1")
    except ValueError:
        raise ZenohSettingsProblem(f"{CHECK_VARIABLE} is {text[CHECK_VARIABLE]!r}; it must be a whole number: how "
                                   f"often a router is looked for, 0 for ever, below 0 not at all") from None
    return ZenohSettings(_endpoints(session, "connect", str(session.get("mode", "peer"))),
                         _endpoints(router, "listen", "router"), attempts, text[OVERRIDE_VARIABLE],
                         text[ROUTER_VARIABLE])


def json5(text: str) -> Any:
    """The value of a JSON5 text: JSON with comments, bare keys, single quotes and commas at the end.

    Raises:
        ValueError: it is none.
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at:at + 10]!r} is not JSON5")
        at, kind, found = token.end(), token.lastgroup, token.group()
        if kind in ("comment", "space"):
            continue
        if kind == "text":
            found = '"' + re.sub(r'\\(\r?\n|.)|"', _escape, found[1:-1], flags=re.S) + '"'
        elif kind == "word" and found not in _CONSTANTS:
            found = json.dumps(found)
        elif kind == "number":
            found = json.dumps(int(found, 16) if "x" in found.lower() else float(found) if
                               re.search(r"[.eE]", found) else int(found))
        elif found in "}]" and parts and parts[-1] == ",":
            parts.pop()
        parts.append(found)
    return json.loads(" ".join(parts))


def _escape(found: re.Match) -> str:
    """An escape sequence, or a double quote between single ones, as JSON has it."""
    if found.group() == '"':
        return '\\"'
    return found.group() if found[1] in '"\\/bfnrtu' else found[1].strip("\r\n")


def _file(uri: str, variable: str) -> dict | None:
    if not uri:
        return None
    path = Path(uri.removeprefix("file://"))
    try:
        text = path.read_text(encoding="utf-8")
        found = yaml.safe_load(text) if path.suffix in (".yaml", ".yml") else json5(text)
    except OSError as error:
        raise ZenohSettingsProblem(f"{variable}: cannot read {path}: {error.strerror}; name a file that is there, or "
                                   f"unset it") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ZenohSettingsProblem(f"{variable}: {path} is not a configuration of Zenoh: "
                                   f"{' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ZenohSettingsProblem(f"{variable}: {path} is not a configuration of Zenoh: it must be a mapping")
    return found


def _overrides(text: str) -> list[tuple[list[str], Any]]:
    found = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = item.partition("=")
        try:
            if not equals:
                raise ValueError("there is no =")
            found.append((key.strip().strip("/").split("/"), json5(value)))
        except (ValueError, RecursionError) as error:
            raise ZenohSettingsProblem(f"{OVERRIDE_VARIABLE}: {item!r} must read key=value, with a value in JSON5 and "
                                       f"several separated by ; ({error})") from error
    return found


def _insert(settings: dict, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = settings.get(key)
        if not isinstance(inner, dict):
            inner = settings[key] = {}
        settings = inner
    settings[path[-1]] = value


def _endpoints(settings: Mapping[str, Any], what: str, mode: str) -> tuple[str, ...]:
    """Endpoints of ``connect`` or ``listen``, which may be given for each mode by itself."""
    section = settings.get(what)
    found = section.get("endpoints") if isinstance(section, dict) else None
    if isinstance(found, dict):
        found = found.get(mode)
    return tuple(e for e in found if isinstance(e, str)) if isinstance(found, list) else ()
