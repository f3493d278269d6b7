# SPDX-License-Identifier: Apache-2.0
"""``brain topic``: lists, shows, measures and publishes topics, in the words of `ros2 topic`."""
from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Annotated, Any, Callable, Iterator

import typer

from brain_observe.graph.live import LiveGraph, complete_topic, looking
from brain_observe.graph.plain import LONGEST, as_yaml, field, filled, plain
from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json)
from brain_wire import names
from brain_wire.messages import MessageError, decode
from brain_wire.qos import FEATURE, QoS, incompatibility

EVERY = 1.0         # s between two lines of what is measured
WINDOW = 10_000     # messages that a rate is taken of, as in ros2cli
MEASURED = 5.0      # s, where --json asks for one object
UNITS = ((10 ** 6, "MB"), (10 ** 3, "KB"), (1, "B"))

app = typer.Typer(help="List, show, measure and publish topics, as `ros2 topic` does, without ROS.",
                  no_args_is_help=True)
Topic = Annotated[str, typer.Argument(help="Name of the topic; relative ones are below --namespace.",
                                      autocompletion=complete_topic)]
Seconds = Annotated[float, typer.Option(min=0.0, help="End after so many seconds; 0: at Ctrl-C, with --json after 5.")]


@app.callback()
def topic() -> None:
    """Lists, shows, measures and publishes topics."""


@app.command("list")
def list_topics(types: Annotated[bool, typer.Option("--show-types", "-t", help="Show their types, too.")] = False,
                count: Annotated[bool, typer.Option("--count-topics", "-c", help="Tell only how many there are.")
                                 ] = False,
                hidden: Annotated[bool, typer.Option("--include-hidden-topics", help="Those with a part that begins "
                                                     "with an underscore, too.")] = False,
                as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
                namespace: Namespace = "") -> None:
    """Lists the topics that somebody publishes or hears.

    Example: brain topic list -t
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        graph.settle()
        found = graph.topics(hidden)
    if as_json:
        tell_json({"topics": found})
    elif count:
        tell(str(len(found)))
    else:
        for name, kinds in found.items():
            tell(f"{name} [{', '.join(kinds)}]" if types else name)


@app.command()
def info(topic: Topic,
         verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell of each publisher and subscription.")
                            ] = False,
         as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
         namespace: Namespace = "") -> None:
    """Tells a topic's type and who publishes and hears it; which of them do not hear each other, too.

    Example: brain topic info vision/objects -v
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        name = graph.topic(topic).topic
        graph.settle()
        sides = {what: graph.endpoints(kind, topic=name) for what, kind in (
            ("publishers", names.PUBLISHER), ("subscriptions", names.SUBSCRIPTION))}
    kinds = sorted({one.type for some in sides.values() for one in some})
    deaf = sorted(set(_deaf(*sides.values())))
    if as_json:
        tell_json({"topic": name, "types": kinds, "deaf": deaf, **{what: [_about(one) for one in some]
                                                                   for what, some in sides.items()}})
        return
    tell(f"Type: {kinds[0] if len(kinds) == 1 else kinds}")
    for what, some in (("Publisher", sides["publishers"]), ("Subscription", sides["subscriptions"])):
        tell(f"{what} count: {len(some)}")
        for one in some if verbose else ():
            about = _about(one)
            tell(f"\nNode name: {one.node}\nNode namespace: {one.namespace}\nTopic type: {one.type}\n"
                 f"Topic type hash: {one.type_hash}\nEndpoint type: {what.upper()}\n"
                 f"QoS profile:\n  Reliability: {about['reliability'].upper()}\n"
                 f"  History (Depth): KEEP_LAST ({about['depth']})\n  Durability: {about['durability'].upper()}\n")
    for line in deaf:
        tell(line)


def _about(one: names.Endpoint) -> dict[str, Any]:
    qos = one.qos or FEATURE
    return {"node": one.name, "type": one.type, "hash": one.type_hash, "depth": qos.depth,
            "reliability": "reliable" if qos.reliable else "best_effort",
            "durability": "transient_local" if qos.latched else "volatile"}


def _deaf(publishers: list[names.Endpoint], subscriptions: list[names.Endpoint]) -> Iterator[str]:
    """Pairs that do not hear each other: another type or version of it, or, on DDS, more asked for than is offered."""
    for said in publishers:
        for heard in subscriptions:
            why = "" if said.qos is None or heard.qos is None else incompatibility(said.qos, heard.qos)
            if (said.dds_type, said.type_hash) != (heard.dds_type, heard.type_hash):
                yield f"{heard.name} does not hear {said.name}: {heard.type} is not of the same type and version"
            elif why:
                yield f"{heard.name} would not hear {said.name} on DDS: {why}"


@app.command("type")
def type_of(topic: Topic, as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
            namespace: Namespace = "") -> None:
    """Tells a topic's type.

    Example: brain topic type scan
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        found = graph.topic(topic)
    tell_json({"topic": found.topic, "type": found.type}) if as_json else tell(found.type)


@app.command()
def echo(topic: Topic,
         kind: Annotated[str, typer.Argument(metavar="[TYPE]", help="Its type, if it is not yet published.")] = "",
         path: Annotated[str, typer.Option("--field", help="Show a field alone, as pose.pose.position.x")] = "",
         once: Annotated[bool, typer.Option("--once", help="End after the first message.")] = False,
         full: Annotated[bool, typer.Option("--full-length", "-f", help="Show whole arrays.")] = False,
         most: Annotated[int, typer.Option("--truncate-length", "-l", min=0, help="Elements of an array that are "
                                           "shown.")] = LONGEST,
         as_json: Annotated[bool, typer.Option("--json", help="Print each message as one line of JSON.")] = False,
         router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Shows messages as they come, until Ctrl-C. A type that is not known here is asked of the node that publishes it.

    Example: brain topic echo vision/objects --once
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        told = graph.topic(topic) if not kind else _expected(graph, topic, kind)
        heard = graph.subscribe(told, type_name=kind)
        try:
            for message in _messages(heard, told):
                try:
                    value = plain(field(message, path) if path else message, None if full else most)
                except MessageError as error:
                    fail(str(error), 2)
                if as_json:
                    tell_json(value, None)
                else:
                    tell(as_yaml(value).removesuffix("\n...\n").rstrip("\n") + "\n---")
                if once:
                    return
        except KeyboardInterrupt:
            return


def _expected(graph: LiveGraph, topic: str, kind: str) -> names.Endpoint:
    """A topic that somebody has, or, where nobody does, one of a type that is told."""
    name = graph.full(topic)
    graph.settle(until=lambda: bool(graph.endpoints(names.PUBLISHER, topic=name)))
    found = graph.endpoints(names.PUBLISHER, names.SUBSCRIPTION, topic=name)
    if found:
        return found[0]
    from brain_wire.messages import dds_type, type_hash

    return names.Endpoint(graph.node.domain, "", 0, 0, names.PUBLISHER, "/", "nobody", name, dds_type(kind),
                          type_hash(kind), QoS(reliable=False, latched=False, depth=1))


def _messages(heard: Any, told: names.Endpoint) -> Iterator[Any]:
    """Messages as they come; one that cannot be read is told, and the next one read."""
    while True:
        for arrival in heard.wait(EVERY):
            try:
                yield decode(arrival.data, told.type)
            except MessageError as error:
                tell(f"{told.topic}: a message cannot be read: {error}", err=True)


@app.command()
def hz(topic: Topic, window: Annotated[int, typer.Option("--window", "-w", min=2, help="Messages that the rate is "
                                                         "taken of.")] = WINDOW,
       seconds: Seconds = 0.0, as_json: Json = False, router: Router = None, secure: Secure = None,
       domain: Domain = None, namespace: Namespace = "") -> None:
    """Measures how often a topic's messages come, by the steady clock.

    Example: brain topic hz scan
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        _measured(graph, topic, seconds, as_json, window, _rate, _rate_line)


@app.command()
def bw(topic: Topic, window: Annotated[int, typer.Option("--window", "-w", min=2, help="Messages that the mean is "
                                                         "taken of.")] = 100,
       seconds: Seconds = 0.0, as_json: Json = False, router: Router = None, secure: Secure = None,
       domain: Domain = None, namespace: Namespace = "") -> None:
    """Measures how many bytes of a topic come a second.

    Example: brain topic bw camera/image_raw
    """
    with looking("topic", domain, secure, namespace, router) as graph:
        _measured(graph, topic, seconds, as_json, window, _bandwidth, _bandwidth_line)


Figures = dict[str, Any]


def _measured(graph: LiveGraph, topic: str, seconds: float, as_json: bool, window: int,
              figures: Callable[[list[tuple[float, int]]], Figures | None], line: Callable[[Figures], str]) -> None:
    """Measures a topic: a line each second, or one object at the end."""
    told = graph.topic(topic)
    heard = graph.subscribe(told, decoded=False)
    came: deque[tuple[float, int]] = deque(maxlen=window)
    total, begin = 0, time.monotonic()
    seconds = seconds or (MEASURED if as_json else 0.0)
    try:
        due = begin + EVERY
        while not seconds or time.monotonic() < begin + seconds:
            for arrival in heard.wait(max(min(due, begin + (seconds or 1e9)) - time.monotonic(), 0.0)):
                came.append((arrival.received, arrival.size))
                total += 1
            if time.monotonic() >= due:
                due += EVERY
                if not as_json:
                    if found := figures(list(came)):
                        typer.echo(line(found))     # numbers alone, and a tab, as ros2cli writes them
                    else:
                        tell(f"{'one' if came else 'no'} message of {told.topic} came")
    except KeyboardInterrupt:
        pass
    if as_json:
        tell_json({"topic": told.topic, "messages": total, "seconds": time.monotonic() - begin,
                   **(figures(list(came)) or {})})


def _rate(came: list[tuple[float, int]]) -> Figures | None:
    gaps = [b[0] - a[0] for a, b in zip(came, came[1:])]
    if not gaps or (mean := statistics.fmean(gaps)) <= 0.0:
        return None
    return {"rate": 1.0 / mean, "min": min(gaps), "max": max(gaps), "std_dev": statistics.pstdev(gaps),
            "window": len(came)}


def _rate_line(found: Figures) -> str:
    return ("average rate: {rate:.3f}\n\tmin: {min:.3f}s max: {max:.3f}s std dev: {std_dev:.5f}s window: {window}"
            .format(**found))


def _bandwidth(came: list[tuple[float, int]]) -> Figures | None:
    sizes = [size for _, size in came]
    if len(came) < 2 or came[-1][0] <= came[0][0]:
        return None
    return {"bytes_per_second": sum(sizes[1:]) / (came[-1][0] - came[0][0]), "mean": statistics.fmean(sizes),
            "min": min(sizes), "max": max(sizes), "window": len(came)}


def _bandwidth_line(found: Figures) -> str:
    return (f"{_bytes(found['bytes_per_second'])}/s from {found['window']} messages\n\tMessage size mean: "
            f"{_bytes(found['mean'])} min: {_bytes(found['min'])} max: {_bytes(found['max'])}")


def _bytes(count: float) -> str:
    unit, name = next((one for one in UNITS if count >= one[0]), UNITS[-1])
    return f"{count / unit:.2f} {name}" if unit > 1 else f"{count:.0f} {name}"


@app.command()
def pub(topic: Topic,
        kind: Annotated[str, typer.Argument(metavar="TYPE", help="As std_msgs/msg/String.")],
        values: Annotated[str, typer.Argument(help="Fields in YAML, as \"{data: hello}\"; `header: auto` and `stamp: "
                                              "now` are filled in.")] = "{}",
        rate: Annotated[float, typer.Option("--rate", "-r", min=0.001, help="Messages a second.")] = 1.0,
        once: Annotated[bool, typer.Option("--once", "-1", help="Publish one message.")] = False,
        times: Annotated[int, typer.Option("--times", "-t", min=0, help="Publish so many; 0: until Ctrl-C.")] = 0,
        wait: Annotated[int | None, typer.Option("--wait-matching-subscriptions", "-w", min=0, help="Subscriptions to "
                                                 "wait for. Default: 1 with --once or --times, else 0.")] = None,
        latched: Annotated[bool, typer.Option("--latched", help="Keep the last one for who comes later (transient "
                                              "local).")] = False,
        router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Publishes messages.

    Example: brain topic pub --once goal/text std_msgs/msg/String "{data: find the red ball}"
    """
    import yaml

    with looking("topic", domain, secure, namespace, router) as graph:
        try:
            given = yaml.safe_load(values)
            filled(kind, given)     # before anybody waits
            port = graph.node.publisher(graph.full(topic), kind, QoS(reliable=True, latched=latched, depth=1))
        except (yaml.YAMLError, MessageError, TypeError, ValueError) as error:
            fail(f"{kind} {values!r:.80}: {error}", 2)
        times = 1 if once else times
        wait = int(times > 0) if wait is None else wait
        try:
            _wait_for(graph, port.endpoint.topic, wait)
            tell("publisher: beginning loop")
            number, due = 0, time.monotonic()
            while not times or number < times:
                number, due = number + 1, due + 1.0 / rate
                message = filled(kind, given)
                port.publish(message)
                tell(f"publishing #{number}: {message!r}"[:2000] + "\n")
                if number != times:
                    time.sleep(max(due - time.monotonic(), 0.0))
            time.sleep(0.1)     # what was put last leaves
        except KeyboardInterrupt:
            return


def _wait_for(graph: LiveGraph, topic: str, count: int) -> None:
    told = False
    while len(graph.endpoints(names.SUBSCRIPTION, topic=topic)) < count:
        graph.settle()
        if not told and len(graph.endpoints(names.SUBSCRIPTION, topic=topic)) < count:
            tell(f"Waiting for at least {count} matching subscription(s) to {topic}...")
            told = True
