# SPDX-License-Identifier: Apache-2.0
"""Private names of libraries: found when they are asked for, with one line where a release lacks them."""
from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any


class PrivateNameMissing(ImportError):
    """A library's release lacks a private name; says which, and the remedy."""


def private_name(library: str, module: str, name: str, remedy: str) -> Any:
    """Finds a private name of a library, which another release may lack.

    Args:
        library: as it is installed.
        module: that has it.
        name: within the module; with dots, of a class there.
        remedy: for the message.

    Raises:
        PrivateNameMissing: this release has no such name.
    """
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as problem:
        raise PrivateNameMissing(f"{library} {release(library)} has no {module}.{name}, a private name that is used "
                                 f"here; {remedy}") from problem
    return found


def release(library: str) -> str:
    """The installed release of a library, as text; empty where nobody knows it."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""
