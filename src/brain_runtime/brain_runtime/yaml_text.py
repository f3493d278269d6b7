# SPDX-License-Identifier: Apache-2.0
"""YAML that people wrote: graphs, parameters, profiles. What a file of settings never holds is refused in one line.

PyYAML follows any depth and any number of aliases, and raises whatever its constructors meet. Here there is one
exception, and what is read is small: who walks it needs to fear neither a deep recursion nor an endless text.
"""
from __future__ import annotations

import math
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
    """A safe loader that reads ``5.0e6`` and ``1e5`` as the numbers that ROS 2 takes them for.

    A key that stands twice in a mapping is refused: PyYAML keeps the last, and says nothing of what it drops.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Called by PyYAML."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise YamlProblem(f"the key {key.value[:60]!r} stands twice in a mapping, again in line "
                                      f"{key.start_mark.line + 1}; take one of them away")
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Called by PyYAML; puts what ``<<`` stands for in its place, which aliases may double again and again."""
        super().flatten_mapping(node)
        if len(node.value) > MOST_VALUES:
            raise YamlProblem(f"with its aliases (*) it has more than {MOST_VALUES} values")


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$", re.ASCII),
                              list("-+.0123456789"))


_PLAIN = "!plain"   # tag of a scalar without quotes
_TEXT = "tag:yaml.org,2002:str"
_WORDS = {word: truth for truth, words in ((True, "y yes true on"), (False, "n no false off"))
          for text in words.split() for word in (text, text.capitalize(), text.upper())}
_WHOLE = re.compile(r"[-+]?(0[xX][\da-fA-F]+|0[0-7]*|[1-9]\d*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.?(inf|Inf|INF)|\.?(nan|NaN|NAN)|[iI]nfinity|(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)", re.ASCII)


class _RosLoader(_Loader):
    """Takes what stands without quotes for what ROS 2's own reader of parameters (rcl) takes it for.

    To YAML 1.1 ``y`` is a text, ``12:30`` a number and ``2001-01-01`` a date; to rcl these are true and two texts.
    """

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Called by PyYAML."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return super().resolve(kind, value, implicit)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Called by PyYAML."""
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag == _PLAIN:
                key.tag = _TEXT
        return super().construct_mapping(node, deep)


_RosLoader.add_constructor(_PLAIN, lambda loader, node: plain_scalar(node.value))


def _listed(loader: Any, node: Any) -> Any:
    return loader.construct_sequence(node)


# launch writes lists of parameters so; rcl looks at no tag of a list.
_RosLoader.add_constructor("tag:yaml.org,2002:python/tuple", _listed)


def plain_scalar(text: str) -> bool | int | float | str | None:
    """Reads a text without quotes as ROS 2 does; None where there is none."""
    if not text:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        digits = text.lstrip("+-")
        base = 10 if not digits.startswith("0") else 16 if digits[1:2] in ("x", "X") else 8
        if len(digits) < 30 and -2**63 <= (number := int(text, base)) < 2**63:
            return number
    if _FLOAT.fullmatch(text):
        found = float(text.replace(".i", "i").replace(".I", "I").replace(".n", "n").replace(".N", "N"))
        if math.isfinite(found) or not any(c.isdigit() for c in text):
            return found
    return text


class _RosDumper(yaml.SafeDumper):
    """Quotes the texts that ROS 2 would take for something else."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Called by PyYAML."""
        return self.represent_scalar(_TEXT, data, style=None if plain_scalar(data) == data else "'")


_RosDumper.add_representer(str, _RosDumper.represent_str)


def written(value: Any, **more: Any) -> str:
    """Parameters as text that ROS 2 reads as what they are; ``more`` as ``yaml.safe_dump`` takes it."""
    text: str = yaml.dump(value, Dumper=_RosDumper, sort_keys=False, **more)
    return text


def _check_nesting(text: str, most_aliases: int) -> None:
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
            if aliases > most_aliases:
                raise YamlProblem(f"it has more than {most_aliases} aliases (*); write the values out" if most_aliases
                                  else "it has an alias (*), which ROS 2 does not read; write the values out")


def parse(text: str, *, ros: bool = False) -> Any:
    """Parses a text.

    Args:
        text: YAML.
        ros: it is of a parameter, and read as ROS 2 itself reads it.

    Raises:
        YamlProblem: see there.
    """
    if len(text) > LONGEST:
        raise YamlProblem(f"it is longer than {LONGEST} characters")
    try:
        _check_nesting(text, 0 if ros else MOST_ALIASES)
        found = yaml.load(text, Loader=_RosLoader if ros else _Loader)  # safe ones: they make plain values alone
    except YamlProblem:
        raise
    except Exception as error:  # constructors raise nearly anything: 5000 digits, a 99th month, !!bool of no bool
        words = " ".join(str(error).split())
        raise YamlProblem(words[:300] or type(error).__name__) from error
    _check_size(found)
    return found


def read(path: str | Path, *, ros: bool = False) -> Any:
    """Parses a file.

    Args:
        path: of the file.
        ros: see :func:`parse`.

    Raises:
        OSError: it cannot be read.
        YamlProblem: see there.
    """
    with open(path, "rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise YamlProblem(f"it is longer than {LONGEST} bytes")
    try:
        return parse(data.decode("utf-8"), ros=ros)
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
