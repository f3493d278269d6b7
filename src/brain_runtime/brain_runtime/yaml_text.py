# SPDX-License-Identifier: Apache-2.0
"""YAML that people wrote: graphs, parameters, profiles. What a file of settings never holds is refused in one line.

PyYAML follows any depth and any number of aliases, and raises whatever its constructors meet. Here there is one
exception, and what is read is small: who walks it needs to fear neither a deep recursion nor an endless text.
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

LONGEST = 2**18         # bytes of a text; the largest of ours has 4000
DEEPEST = 40            # of nested lists and mappings
MOST_ALIASES = 32       # of which each may stand for all that there were before
MOST_VALUES = 20_000    # with what aliases stand for


class YamlProblem(ValueError):
    """The text is not YAML, or more than settings need; says what, in one line."""


if TYPE_CHECKING:
    _Base = yaml.SafeLoader
else:   # in C ten times as fast, where PyYAML was built with it
    _Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """A safe loader that reads ``5.0e6`` and ``1e5`` as the numbers that ROS 2 takes them for."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$", re.ASCII),
                              list("-+.0123456789"))


def _check_nesting(text: str) -> None:
    """Raises YamlProblem where the text is nested too deep or refers to itself too often. Looks at nothing else."""
    depth = aliases = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise YamlProblem(f"it is nested more than {DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if aliases > MOST_ALIASES:
                raise YamlProblem(f"it has more than {MOST_ALIASES} aliases (*); write the values out")


def parse(text: str) -> Any:
    """What a text says.

    Raises:
        YamlProblem: see there.
    """
    if len(text) > LONGEST:
        raise YamlProblem(f"it is longer than {LONGEST} characters")
    try:
        _check_nesting(text)
        found = yaml.load(text, Loader=_Loader)     # a safe one: it makes plain values alone
    except YamlProblem:
        raise
    except Exception as error:  # constructors raise nearly anything: 5000 digits, a 99th month, !!bool of no bool
        words = " ".join(str(error).split())
        raise YamlProblem(words[:300] or type(error).__name__) from error
    _check_size(found)
    return found


def read(path: str | Path) -> Any:
    """What a file says.

    Raises:
        OSError: it cannot be read.
        YamlProblem: see there.
    """
    with open(path, "rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise YamlProblem(f"it is longer than {LONGEST} bytes")
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise YamlProblem(f"it is not text in UTF-8 ({error.reason} at byte {error.start})") from error


def _check_size(found: Any) -> None:
    """Raises YamlProblem where aliases make a small text a large value, or one without an end."""
    waiting, values = [(found, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > MOST_VALUES or depth > DEEPEST:
            raise YamlProblem(f"with its aliases (*) it has more than {MOST_VALUES} values, or is nested more than "
                              f"{DEEPEST} deep")
        if isinstance(value, dict):
            waiting += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(item, depth + 1) for item in value]
