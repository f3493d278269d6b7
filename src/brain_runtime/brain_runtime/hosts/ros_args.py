# SPDX-License-Identifier: Apache-2.0
"""ROS 2's command line without ROS: ``--ros-args -r a:=b -r __ns:=/x -p name:=value --params-file f.yaml``.

Parameters win in this order, the last the most: files before ``-p``; within the files ``/**``, then other wildcards,
then the node's full name; among equals the later file.
"""
from __future__ import annotations

import logging
import re
import string
from dataclasses import dataclass, field
from typing import Any, Container, Mapping, Sequence

from brain_wire import names
from brain_wire.safe_text import plain, quoted

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING,
           "error": logging.ERROR, "fatal": logging.CRITICAL}
_FLAGS = ("--enable-rosout-logs", "--disable-rosout-logs", "--enable-stdout-logs", "--disable-stdout-logs",
          "--enable-external-lib-logs", "--disable-external-lib-logs")
LONGEST_PATTERN = 512   # characters, of a node's name
_PART = re.compile(r"\*{1,2}|[A-Za-z_]\w*", re.ASCII)     # of a pattern of nodes' names
_WORD = string.ascii_letters + string.digits + "_"
_TAKES_VALUE = ("--log-config-file", "--log-file-name", "-e", "--enclave")


class RosArgsError(ValueError):
    """The command line or a parameter file is wrong; says where and how to write it."""


@dataclass(frozen=True)
class _Remap:
    node: str | None
    source: str
    target: str


@dataclass
class RosArgs:
    """Arguments that stood behind ``--ros-args``.

    Attributes:
        log_level: of ``logging``, or None.
    """

    log_level: int | None = None
    _remaps: list[_Remap] = field(default_factory=list)
    _sections: dict[str, dict[str, Any]] = field(default_factory=dict)   # parameters by node pattern
    _of_many: set[tuple[str, str]] = field(default_factory=set)     # pattern and name of what files say of many nodes

    def node_name(self, name: str) -> str:
        """Name of a node after ``__node:=``.

        Raises:
            RosArgsError: it is no ROS 2 name.
        """
        found = self._special(("__node", "__name"), name, name)
        try:
            return names.check_name(found, "node name")
        except names.NameProblem as problem:
            raise RosArgsError(str(problem)) from problem

    def namespace(self, name: str, default: str = "/") -> str:
        """Absolute namespace of the node called ``name`` before remapping, after ``__ns:=``.

        Raises:
            RosArgsError: it is no ROS 2 name.
        """
        found = self._special(("__ns",), name, default)
        try:
            return names.absolute(found)
        except names.NameProblem as problem:
            raise RosArgsError(f"__ns:={plain(found)}: {problem}") from problem

    def _special(self, sources: Sequence[str], name: str, default: str) -> str:
        for rule in self._remaps:
            if rule.source in sources and rule.node in (None, name):
                return rule.target
        return default

    def topic(self, topic: str, node: str, namespace: str) -> str:
        """Fully qualified name of a topic after the first remap rule that fits.

        Args:
            topic: as the node declares it.
            node, namespace: of the node, after remapping.

        Raises:
            RosArgsError: a rule leads to what is no ROS 2 name.
        """
        full = names.expand(topic, namespace, node)
        for rule in self._remaps:
            if rule.source.startswith("__") or rule.node not in (None, node):
                continue
            try:
                if names.expand(rule.source, namespace, node) == full:
                    return names.expand(rule.target, namespace, node)
            except names.NameProblem as problem:
                raise RosArgsError(f"remap {plain(rule.source)}:={plain(rule.target)}: {problem}") from problem
        return full

    def remaps(self, node: str) -> list[str]:
        """Rules for topics of a node of that name, after remapping: ``from:=to``, in their order."""
        return [f"{rule.source}:={rule.target}" for rule in self._remaps
                if rule.node in (None, node) and not rule.source.startswith("__")]

    def parameters(self, node: str, namespace: str, known: Container[str] | None = None) -> dict[str, Any]:
        """Parameters of a node, by name; nested ones joined with dots.

        As in ROS 2, patterns count in the order in which the command line first names them, later ones win, and what
        comes later for a pattern takes the place of what it said before, where it stood before. ``-p`` stands for
        ``/**``.

        Args:
            node, namespace: of the node, after remapping.
            known: names of the parameters that the node has: what a file says of many nodes, as below ``/**``, need not
                be for this one. None: all are wanted.
        """
        fqn = f"{namespace.rstrip('/')}/{node}"
        found: dict[str, Any] = {}
        for pattern, values in self._sections.items():
            if fits(pattern, fqn) or pattern == f"/{node}":
                found.update((name, value) for name, value in values.items()
                             if known is None or name in known or (pattern, name) not in self._of_many)
        return found

    def patterns(self) -> Mapping[str, Mapping[str, Any]]:
        """Parameters by the absolute names of nodes that they are for; ``*`` and ``**`` stand for parts of a name."""
        return self._sections

    def add_values(self, pattern: str, values: Mapping[str, Any]) -> None:
        """Parameters of the nodes whose full name fits a pattern, as a section of a parameter file says them.

        Raises:
            RosArgsError: the pattern is too long.
        """
        if len(pattern) > LONGEST_PATTERN:
            raise RosArgsError(f"{quoted(pattern)} is no pattern of a node's name: it is longer than {LONGEST_PATTERN} "
                               f"characters")
        pattern = "/" + pattern.strip("/")
        self._sections.setdefault(pattern, {}).update(values)
        self._of_many.difference_update((pattern, name) for name in values)

    # -- reading -----------------------------------------------------------------------------------------------------

    def add_remap(self, text: str) -> None:
        """A rule ``from:=to`` or ``node:from:=to``.

        Raises:
            RosArgsError: it does not read so.
        """
        source, assign, target = text.partition(":=")
        node: str | None = None
        if ":" in source and not source.startswith("rostopic:"):
            node, _, source = source.partition(":")
        source, target = source.removeprefix("rostopic://"), target.removeprefix("rostopic://")
        if not assign or not source or not target or node == "":
            raise RosArgsError(f"remap {quoted(text)} must read from:=to, as in -r cmd_vel:=cmd_vel_brain")
        if source in ("__node", "__name"):
            try:
                names.check_name(target, "node name")
            except names.NameProblem as problem:
                raise RosArgsError(f"remap {plain(text)}: {problem}") from problem
        self._remaps.append(_Remap(node, source, target))

    def add_parameter(self, text: str) -> None:
        """An override ``name:=value`` or ``node:name:=value``, the value in YAML.

        Raises:
            RosArgsError: it does not read so.
        """
        name, assign, value = text.partition(":=")
        node, colon, rest = name.rpartition(":")
        name = rest if colon else name
        if not assign or not name or not value:
            raise RosArgsError(f"parameter {quoted(text)} must read name:=value, as in -p rate:=20.0")
        from brain_runtime import yaml_text  # a region that is given no parameters starts without it

        try:
            parsed = yaml_text.parse(value, ros=True)
        except yaml_text.YamlProblem as error:
            raise RosArgsError(f"parameter {plain(text)}: the value is not YAML ({error}); quote text that holds "
                               f"special characters") from error
        self.add_values(node or "/**", _flatten(name, parsed, f"parameter {plain(text)}"))

    def add_file(self, path: str) -> None:
        """A ROS parameter file.

        Raises:
            RosArgsError: it cannot be read or is none.
        """
        from brain_runtime import yaml_text

        try:
            content = yaml_text.read(path, ros=True)
        except OSError as error:
            raise RosArgsError(f"cannot read parameter file {path}: {error.strerror}") from error
        except ValueError as error:     # a path with a zero in it, too
            raise RosArgsError(f"parameter file {path} is not YAML: {error}") from error
        if content is None:
            return
        if not isinstance(content, dict):
            raise RosArgsError(f"parameter file {path} must be a mapping of node names to ros__parameters")
        self._add_sections(path, "", content)

    def _add_sections(self, path: str, prefix: str, content: Mapping[Any, Any]) -> None:
        for key, value in content.items():
            if not isinstance(key, str) or not isinstance(value, dict):
                raise RosArgsError(f"parameter file {path}: {plain(prefix + str(key))} must hold `ros__parameters:` or "
                                   f"namespaces, but is {quoted(repr(value))}")
            if key == "ros__parameters":
                if not prefix:
                    raise RosArgsError(f"parameter file {path}: `ros__parameters` must stand below a node name, or "
                                       f"below /** for all nodes")
                values = _flatten("", value, f"parameter file {path}")
                self.add_values(prefix, values)
                if of_many(prefix):
                    self._of_many.update(("/" + prefix.strip("/"), name) for name in values)
            else:
                parts = (key if prefix else key.removeprefix("/")).split("/")
                if not all(map(_PART.fullmatch, parts)):
                    raise RosArgsError(f"parameter file {path}: {quoted(prefix + key)} is no pattern of a node's name "
                                       f"in ROS 2: names of letters, digits and _, * or **, with / between them")
                self._add_sections(path, f"{prefix}{key.removeprefix('/')}/", value)


def _flatten(prefix: str, value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            found.update(_flatten(f"{prefix}.{key}" if prefix else str(key), inner, where))
        return found
    if value is None or not prefix:
        raise RosArgsError(f"{where}: {plain(prefix) or 'it'} has no value; write one, or leave the line out")
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        if len(kinds) > 1 or kinds - {bool, int, float, str}:
            more = "; write each as 1.0" if kinds == {int, float} else ""
            raise RosArgsError(f"{where}: {plain(prefix)} must be a list of one kind (numbers, texts or booleans), "
                               f"but is {quoted(repr(value))}{more}")
    elif not isinstance(value, (bool, int, float, str)):
        raise RosArgsError(f"{where}: {plain(prefix)} must be a number, a text, a boolean or a list, but is "
                           f"{quoted(repr(value))}")
    return {prefix: value}


def of_many(pattern: str) -> bool:
    """Tells whether a pattern is for nodes of any name, as ``/**``; ``/**/motor`` is for one, in whatever namespace."""
    return "*" in pattern.rstrip("/").rpartition("/")[2]


def fits(pattern: str, fqn: str) -> bool:
    """Checks whether a node's full name fits a pattern: ``*`` is one part of a name, ``**`` any number of parts."""
    pattern = "/" + pattern.strip("/")
    words = [len(fqn[at:]) - len(fqn[at:].lstrip(_WORD)) for at in range(len(fqn) + 1)]     # that begin at each place
    places = {0}    # that may have been reached in the name; a regular expression would try each way to each of them
    at = 0
    while at < len(pattern):
        if pattern.startswith("/**", at):
            at += 3
            waiting = list(places)
            while waiting:
                place = waiting.pop()
                if fqn[place:place + 1] == "/":
                    further = {place + 1 + n for n in range(1, words[place + 1] + 1)} - places
                    places |= further
                    waiting += further
        elif pattern[at] == "*":
            at += 1
            places = {place + n for place in places for n in range(1, words[place] + 1)}
        else:
            places = {place + 1 for place in places if fqn[place:place + 1] == pattern[at]}
            at += 1
    return len(fqn) in places


def parse(argv: Sequence[str], after: RosArgs | None = None) -> tuple[RosArgs, list[str]]:
    """Takes ROS's arguments out of a command line.

    Args:
        argv: without the program's name.
        after: what stood in front of them, to which they are added.

    Returns:
        What they say, and all other arguments in their order.

    Raises:
        RosArgsError: one of them is wrong.
    """
    result, rest = after or RosArgs(), []
    inside = False
    arguments = iter(argv)
    for argument in arguments:
        if not inside or argument == "--ros-args":
            inside = inside or argument == "--ros-args"
            if argument != "--ros-args":
                rest.append(argument)
            continue
        if argument == "--":
            inside = False
            continue
        option, equals, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if option in _FLAGS:
            continue
        if not equals:
            value = next(arguments, "--")
            if value == "--":
                raise RosArgsError(f"{option} needs a value behind it")
        if option in ("-r", "--remap"):
            result.add_remap(value)
        elif option in ("-p", "--param"):
            result.add_parameter(value)
        elif option == "--params-file":
            result.add_file(value)
        elif option == "--log-level":
            level = value.rpartition(":=")[2].lower()
            if level not in _LEVELS:
                raise RosArgsError(f"--log-level {plain(value)}: it must be one of {', '.join(_LEVELS)}")
            result.log_level = _LEVELS[level]
        elif option not in _TAKES_VALUE:
            raise RosArgsError(f"unknown argument {plain(argument)} behind --ros-args; end the ROS arguments with -- "
                               f"before others. Known are -r, -p, --params-file, --log-level")
    return result, rest
