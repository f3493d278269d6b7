# SPDX-License-Identifier: Apache-2.0
"""Files of a robot that its devices may use, as passwords: its owner names them, and orders say these names only.

So no order reads a file that the owner has not given to devices, nor sends one to another host than it is for.
"""
from __future__ import annotations

from typing import Any, Mapping

from brain_edge.owners_file import NAME
from brain_edge.schema import FormProblem, check
from brain_wire.safe_text import quoted

REMEDY = "see --device-files of `brain edge`"


def check_names(form: Mapping[str, Any], values: Mapping[str, Any], place: str) -> None:
    """Raises FormProblem where an order says a path, and not the name of a file."""
    for name in _files(form, values):
        try:
            check(values[name], NAME)
        except FormProblem:
            raise FormProblem(f"{place}.{name} is {quoted(values[name])}, and an order says the name that the robot's "
                              f"owner gave to a file: {REMEDY}") from None


def with_paths(form: Mapping[str, Any], values: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]],
               settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Values of an order with paths in the place of names.

    Args:
        form: of the values.
        files: as :func:`brain_edge.owners_file.read_files` gives them.
        settings: of the device: where the order has it go, in ``host``, ``port`` and ``tls``.
        place: of the values, for messages.

    Raises:
        FormProblem: the owner has named no such file, or not for that host and port, or not without TLS.
    """
    check_names(form, values, place)
    host = settings.get("host")
    if host is not None and "port" in settings:
        host = f"{host}:{settings['port']}"
    found = dict(values)
    for name in _files(form, values):
        one = files.get(values[name])
        if one is None:
            there = f"there are {', '.join(sorted(files))}" if files else "its owner has named none"
            raise FormProblem(f"{place}.{name}: this robot has no file {quoted(values[name])} for devices; {there}: "
                              f"{REMEDY}")
        if host is not None and host not in one.get("hosts", ()):
            hosts = ", ".join(one.get("hosts", ())) or "no host"
            raise FormProblem(f"{place}.{name}: {quoted(values[name])} is for {hosts}, not for {quoted(str(host))}: "
                              f"{REMEDY}")
        if host is not None and one.get("tls") and not settings.get("tls"):
            raise FormProblem(f"{place}.{name}: {quoted(values[name])} goes to {quoted(str(host))} by TLS only; order "
                              f"tls: true")
        found[name] = one["path"]
    return found


def _files(form: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    return [name for name, about in form.get("properties", {}).items() if about.get("format") == "file"
            and name in values]
