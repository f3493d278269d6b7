# SPDX-License-Identifier: Apache-2.0
"""Data of a job's workers: datasets, models and folders that each is given, by variables that tell where they are."""
from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from brain_cloud.jobs.templates import Unfit
from brain_wire.safe_text import quoted

SHA256 = "fleet.brain/sha256"       # annotation of a Dataset or Model

Find = Callable[[str, str, str], Mapping[str, Any]]
"""Finds a Dataset or Model: kind, name, and the field that names it. Raises FormProblem where there is none."""


@dataclass(frozen=True)
class Data:
    """A dataset, a model or another folder that a worker is given.

    Attributes:
        role: of it for the worker, in names: dataset, model, pretrained ...
        variable: by which the worker is told where it is; several of one variable stand in it with ; between them.
        url: of it.
        checked: it must be there before the worker starts.
        sha256: that it must have; empty: any.
        secret: name of one with credentials; None: none is named.
        inside: path of it below the URL, which is then a folder that the worker has as a whole.
        env: variables for what fetches it.
    """

    role: str
    variable: str
    url: str
    checked: bool = False
    sha256: str = ""
    secret: str | None = None
    inside: str = ""
    env: tuple[Mapping[str, Any], ...] = ()


def digest_in(env: Mapping[str, Any], what: str) -> str:
    """Returns the digest that variables of an initializer ask of a dataset or model; empty: any. Raises Unfit."""
    digest = env.get("SHA256") or ""
    if digest and not re.fullmatch("[0-9a-f]{64}", digest):
        raise Unfit("DigestUnfit", f"spec.initializer.{what}.env: SHA256 must be 64 hexadecimal digits, as `brain jobs "
                    f"digest PATH` prints them, but is {quoted(digest)}", final=True)
    return digest


def data(find: Find, kind: str, name: str, place: str, role: str, variable: str, checked: bool = False) -> Data:
    """Returns a Dataset or Model as a part is given it; a digest that one names is always checked. Raises FormProblem.

    Args:
        find: see :data:`Find`.
        place: field that names it.
        checked: it must be there before the part starts.
    """
    found = find(kind, name, place)
    digest = (found["metadata"].get("annotations") or {}).get(SHA256, "")
    return Data(role, variable, found["spec"]["url"], checked, digest, found["spec"].get("credentialName") or None)


def given(parts: Sequence[tuple[Data, str]]) -> dict[str, str]:
    """Returns the variables that tell a part of its data.

    Args:
        parts: data, and the place of each one's URL for the part.
    """
    found: dict[str, str] = {}
    for one, place in parts:
        path = posixpath.join(place, one.inside) if one.inside else place.rstrip("/") or "/"
        found[one.variable] = f"{found[one.variable]};{path}" if one.variable in found else path
    return found
