# SPDX-License-Identifier: Apache-2.0
"""The reference pages, made from the code: regions, messages, launch arguments, words of language."""
from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any, Iterable, Sequence

from brain_regions.language import words_english, words_japanese
from brain_regions.language.lexicon import (
    COLOR_BLUE, COLOR_GREEN, COLOR_RED, COLOR_YELLOW, SHAPE_BALL, SHAPE_BOX, SHAPE_CYLINDER)
from brain_runtime import interfaces
from brain_runtime.contract import heartbeat
from brain_runtime.hosts import diagnostics
from brain_runtime.contract.declared import NUMBER
from brain_runtime.graph import NO_WORLD, load_worlds
from brain_runtime.graph.graphs import find_graph
from brain_runtime.graph.launching import ROUTER_ARGUMENTS, Argument, arguments_of
from brain_runtime.contract.ports import In, Out, Port
from brain_runtime.contract.region import Region
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.resolved import ResolvedRegion
from brain_runtime.share import share_directory
from brain_wire import messages
from brain_wire.goals import Act
from brain_wire.services import action_type, service_type

MADE = "<!-- Written by `brain docs` from the code. Change the code, then run it again. -->"
KINDS = ("msg", "srv", "action")
COLORS = {COLOR_RED: "red", COLOR_GREEN: "green", COLOR_BLUE: "blue", COLOR_YELLOW: "yellow"}
SHAPES = {SHAPE_BALL: "ball", SHAPE_BOX: "box", SHAPE_CYLINDER: "cylinder"}
OF_EVERY_REGION = (heartbeat.PORT, Out(diagnostics.TOPIC.strip("/"), diagnostics.TYPE, diagnostics.QUALITY))


def pages(graph: str = "brain") -> dict[str, str]:
    """The pages' texts by file name.

    Args:
        graph: name or path of a graph; its regions, and the devices of all its worlds, make the page on regions.

    Raises:
        GraphError: there is no such graph, or a class of it cannot be loaded.
    """
    return {"regions.md": regions_page(graph), "messages.md": messages_page(graph), "launch.md": launch_page(),
            "words.md": "\n".join([MADE, "", *words_lines()]) + "\n"}


def _specs(graph: str) -> dict[str, ResolvedRegion]:
    """Regions by name: the brain's, then the devices of each world."""
    found: dict[str, ResolvedRegion] = {}
    for world in (NO_WORLD, *load_worlds(find_graph(graph))):
        found |= {region.name: region for region in resolve(graph, world, None, edges=False).regions
                  if region.device or world == NO_WORLD}
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines."""
    escaped = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {row} |" for row in escaped), ""]


def prose(text: str | None) -> list[str]:
    """A docstring's lines as Markdown."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.cleandoc(text or ""))
    return [*text.replace("``", "`").splitlines(), ""] if text else []


# -- regions -------------------------------------------------------------------------------------------------------


def regions_page(graph: str = "brain") -> str:
    """Topics, and each region's ports and parameters."""
    specs = _specs(graph)
    lines = [MADE, "", "# Regions, topics and parameters", "",
             f"The regions of the graph `{Path(graph).name}`, and the devices that stand in for a robot in its "
             "simulated worlds. Names of topics are relative: a namespace moves them all, a remap one of them.", "",
             "Parameters are ROS 2 parameters on every host. A [robot's profile](../new-robot.md) sets some of them, a "
             "file of yours (`--params-file`, `params_file:=`) others. Each node takes `use_sim_time` and "
             "[`energy_budget`](../architecture.md#the-energy-budget-of-the-wire) beside its own.", "",
             "## Topics", "", *_topics(specs)]
    for spec in specs.values():
        lines += _region(spec)
    return "\n".join(lines).rstrip() + "\n"


def _topic(spec: ResolvedRegion, port: Port | Act) -> str:
    return spec.remap.get(port.topic, port.topic)


def _topics(specs: dict[str, ResolvedRegion]) -> list[str]:
    ends: dict[str, list[tuple[str, Port]]] = {}
    for spec in specs.values():
        for port in spec.load().ports().values():
            ends.setdefault(_topic(spec, port), []).append((spec.name, port))
    for port in OF_EVERY_REGION:
        ends.setdefault(port.topic if port is heartbeat.PORT else diagnostics.TOPIC, []).append(("every region", port))
    rows = []
    for topic, users in sorted(ends.items(), key=lambda item: item[0].strip("/")):
        writers = [name for name, port in users if isinstance(port, Out)]
        readers = [name for name, port in users if isinstance(port, In)]
        outside = ["from outside"] if any(isinstance(p, In) and p.device for _, p in users) and not writers else []
        end = next((p for _, p in users if isinstance(p, Out)), users[0][1])
        rows.append((f"`{topic}`", _type(end.type), _quality(end), ", ".join(writers or outside) or "",
                     ", ".join(readers)))
    return table(("topic", "type", "QoS", "published by", "heard by"), rows)


def _region(spec: ResolvedRegion) -> list[str]:
    cls = spec.load()
    notes = ["a device of the simulated world"] if spec.device else []
    notes += ["critical: the robot must not move without it"] if spec.critical else []
    notes += [f"spread over {spec.shards} processes"] if spec.shards > 1 else []
    notes += [f"a copy of {spec.copies}"] if spec.copies else []
    notes += [] if spec.restart == "always" else [f"restart: {spec.restart}"]
    steps = ([f"{cls.rate:g} times a second"] if cls.rate else []) + [
        f"when `{_topic(spec, p)}` comes" for p in cls.inputs().values() if p.trigger] + [
        f"when a goal of `{act.topic}` comes" for act in cls.actions().values()]
    lines = [f"## {spec.name}", "", f"`{spec.cls}`" + "".join(f"; {note}" for note in notes), "",
             *prose(inspect.getmodule(cls).__doc__), *prose(cls.__doc__),
             "Steps: " + ("; ".join(steps) or "never by itself") + ".", ""]
    ports = [("hears" if isinstance(port, In) else "publishes", f"`{_topic(spec, port)}`", _type(port.type),
              _quality(port), "; ".join(_how(spec, port))) for port in cls.ports().values()]
    ports += [("serves", f"`{_topic(spec, act)}`", _type(act.type), "", "an action") for act in cls.actions().values()]
    lines += table(("", "topic", "type", "QoS", "how"), ports) if ports else []
    lines += _says(cls)
    rows = [_parameter(field) for field in dataclasses.fields(cls.Parameters)]
    if not rows:
        return [*lines, "It has no parameters.", ""]
    return [*lines, *table(("parameter", "type", "default", "unit", "range", "while running", "description"), rows)]


def _says(cls: type[Region]) -> list[str]:
    """Lists what a region declares beside ports and parameters; see :mod:`brain_runtime.contract.declared`."""
    says = []
    if cls.network is not None:
        says.append(("network", f"`{cls.network.definition}`, on {' or '.join(cls.network.devices)}; a step within "
                                f"{cls.network.limit:g} ms"))
    if cls.weights is not None:
        says.append(("weights", f"`{cls.weights.default}`, of {', '.join(f'`{n}`' for n in cls.weights.names())}"))
    says += [("training task", f"`{cls.task}`")] if cls.task else []
    says += [(f"baseline `{name}`", f"`{instead}`") for name, instead in cls.baselines.items()]
    says += [(f"ablation `{name}`", f"`{change}`" if isinstance(change, str) else ", ".join(
        f"`{parameter}` {_written(value)}" for parameter, value in change.items()))
        for name, change in cls.ablations.items()]
    says += [(f"population `{p.name}`", f"{' x '.join(map(str, p.shape))} ({', '.join(p.axes)})"
              + ("" if p.told else "; not on `brain/spikes`")) for p in cls.populations]
    return table(("it declares", ""), says) if says else []


def _written(value: Any) -> str:
    return value.lower() if value == NUMBER else f"`{_value(value)}`"


def _quality(port: Port) -> str:
    return (f"{'reliable' if port.qos.reliable else 'best effort'}, "
            f"{'transient local' if port.qos.latched else 'volatile'}, {port.qos.depth}")


def _how(spec: ResolvedRegion, port: In | Out) -> list[str]:
    return [*([f"codec `{port.codec}`"] if port.codec else []), *_when(spec, port)]


def _when(spec: ResolvedRegion, port: In | Out) -> list[str]:
    if isinstance(port, Out):
        waits = [] if port.gated is None else [
            f"may {'wait or be cut' if port.gated.thin else 'wait'} for an energy budget"]
        if not messages.has_field(port.type, "header"):
            return waits
        if not port.stamp_from:
            return ["stamp of publication", *waits]
        return [f"stamp of `{_topic(spec, spec.load().inputs()[port.stamp_from])}`", *waits]
    return [*(["triggers a step"] if port.trigger else []), *([f"newest of each `{port.key}`"] if port.key else []),
            *(["every message"] if port.every else []), *(["may come from outside"] if port.device else [])]


def _type(name: str) -> str:
    package, _, leaf = name.split("/")
    return f"[{leaf}](messages.md#{leaf.lower()})" if package == interfaces.PACKAGE else f"`{package}/{leaf}`"


def _parameter(field: dataclasses.Field) -> tuple[str, ...]:
    meta, default = field.metadata, field.default
    ends = ["" if end is None else f"{end:.6g}" for end in (meta["low"], meta["high"])]
    span = (f"{ends[0]} to {ends[1]}" if all(ends) else f"from {ends[0]}" if ends[0] else f"up to {ends[1]}" if ends[1]
            else "")
    if meta["choices"]:
        span = ", ".join(f"`{choice}`" for choice in meta["choices"])
    return (f"`{field.name}`", _kind(default), f"`{_value(default)}`", meta["unit"], span,
            "may change" if meta["live"] else "fixed", meta["description"])


def _kind(default: Any) -> str:
    if isinstance(default, tuple):
        return f"list of {type(default[0]).__name__}" if default else "list"
    return type(default).__name__


def _value(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:.6g}" if default % 1 else f"{default:.1f}"
    return str(list(default)).replace("'", '"') if isinstance(default, tuple) else repr(default).replace("'", '"')


# -- messages ------------------------------------------------------------------------------------------------------


def messages_page(graph: str = "brain") -> str:
    """The definitions of brain_interfaces, and the hashes of every type that is used."""
    lines = [MADE, "", "# Messages and actions", "",
             f"The definitions of `{interfaces.PACKAGE}`, and their RIHS01 hashes. The hash is part of the key on the "
             "wire: a definition that changed has another hash, and then old and new do not hear each other.", ""]
    for kind in KINDS:
        for path in sorted((interfaces.definitions() / kind).glob(f"*.{kind}")):
            name = f"{interfaces.PACKAGE}/{kind}/{path.stem}"
            lines += [f"## {path.stem}", "", f"`{name}`", "", *_hashes(name, kind), "",
                      "```", path.read_text(encoding="utf-8").strip(), "```", ""]
    users: dict[str, set[str]] = {}
    for spec in _specs(graph).values():
        for port in spec.load().ports().values():
            users.setdefault(port.type, set()).add(_topic(spec, port))
    users.setdefault(diagnostics.TYPE, set()).add(diagnostics.TOPIC)
    lines += ["## Standard types that are used", "", *table(("type", "hash", "topics"), [
        (f"`{name}`", f"`{messages.type_hash(name)}`", ", ".join(f"`{topic}`" for topic in sorted(topics)))
        for name, topics in sorted(users.items()) if not name.startswith(interfaces.PACKAGE + "/")])]
    return "\n".join(lines).rstrip() + "\n"


def _hashes(name: str, kind: str) -> list[str]:
    """The hashes that stand in keys: a message's, a service's, or those of an action's parts."""
    if kind != "action":
        return [f"`{messages.type_hash(service_type(name).name if kind == 'srv' else name)}`"]
    action = action_type(name)
    return table(("part", "hash"), [
        (f"`{part}`", f"`{messages.type_hash(of)}`") for part, of in (
            ("send_goal", action.send_goal.name), ("get_result", action.get_result.name),
            ("feedback", action.feedback_message))])[:-1]


# -- launch --------------------------------------------------------------------------------------------------------


def launch_files() -> dict[str, tuple[str, dict[str, Argument]]]:
    """By name of each launch file: what it says of itself, and its arguments. Reads the files; launch is not needed."""
    found = {}
    for path in sorted((share_directory("brain") / "launch").glob("*.launch.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        (call,) = [node.value for node in ast.walk(tree)
                   if isinstance(node, ast.Return) and isinstance(node.value, ast.Call)]
        settings = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
        router = ast.unparse(call.func) == "router_description"
        found[path.name] = ast.get_docstring(tree) or "", ROUTER_ARGUMENTS if router else arguments_of(**settings)
    return found


def launch_page() -> str:
    """The launch files and their arguments."""
    files = launch_files()
    lines = [MADE, "", "# Launch files", "",
             "`ros2 launch brain <file> <argument>:=<value>`, once the workspace is built and sourced. Which nodes "
             "there are, and which are started again, stands in the graph alone.", ""]
    lines += table(("file", "what it starts"), [
        (f"`{name}`", " ".join(says.replace("``", "`").split())) for name, (says, _) in files.items()])
    rows: dict[tuple[str, Argument], list[str]] = {}
    for name, (_, arguments) in files.items():
        for argument in arguments.items():
            rows.setdefault(argument, []).append(name.partition(".")[0])
    lines += ["## Arguments", "", *table(("argument", "default", "values", "description", "taken by"), [
        (f"`{name}`", f"`{argument.default}`" if argument.default else "empty",
         ", ".join(f"`{choice}`" for choice in argument.choices), argument.description,
         "all but " + ", ".join(n.partition(".")[0] for n in files if n.partition(".")[0] not in takers)
         if len(files) > len(takers) > len(files) / 2 else ", ".join(takers))
        for (name, argument), takers in sorted(rows.items(), key=lambda item: list(item[0][0]))])]
    return "\n".join(lines).rstrip() + "\n"


# -- words -----------------------------------------------------------------------------------------------------------


def _listed(*texts: str) -> str:
    return ", ".join(dict.fromkeys(word for text in texts if text for word in text.split("|")))


def words_lines() -> list[str]:
    """Lines of the page, without what stands above."""
    lines = ["# Words", "",
             "The colors and shapes that [language](../regions.md#language) knows, and what else they may be called. "
             "English nouns stand in the plural, too. Each Japanese root of a color also makes 赤い, 赤色, 赤くて, "
             "赤っぽい and 赤系; katakana, hiragana and half width are the same. A color or a shape that is not here "
             "is not understood.", "",
             "## Colors", "", "| color | English | Japanese, roots | Japanese, words |", "|---|---|---|---|"]
    lines += [f"| {name} | {_listed(words_english.COLORS[number])} | {_listed(words_japanese.COLORS[number])} | "
              f"{_listed(words_japanese.COLOR_WORDS[number])} |" for number, name in COLORS.items()]
    lines += ["", "## Shapes", "", "| shape | English | English, adjectives | Japanese | Japanese, adjectives |",
              "|---|---|---|---|---|"]
    lines += [f"| {name} | {_listed(words_english.NOUNS[number])} | {_listed(words_english.HINTS[number])} | "
              f"{_listed(words_japanese.NOUNS[number])} | {_listed(words_japanese.HINTS[number])} |"
              for number, name in SHAPES.items()]
    lines += ["", "## Colors that no object has", "",
              "They are known for what they are, and a sentence that asks for one is not understood.", "",
              f"- English: {_listed(words_english.OTHER_COLORS)}",
              f"- Japanese: {_listed(words_japanese.OTHER_COLORS)}"]
    return lines
