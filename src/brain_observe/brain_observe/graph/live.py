# SPDX-License-Identifier: Apache-2.0
"""Graph of a running brain as a command sees it: names and types, found as they are asked for."""
from __future__ import annotations

import contextlib
import difflib
import os
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NoReturn

from brain_runtime.command.options import fail, use_domain, use_security
from brain_wire import names
from brain_wire.messages import MessageError, make, type_hash
from brain_wire.node import Node, open_node
from brain_wire.topics import Subscription
from brain_wire.qos import QoS
from brain_wire.watch import Watch

QUIET = 0.3         # s without anything new, after which the graph counts as known
LONGEST = 3.0       # s until it does in any case
NAMED = 1.0         # s as QUIET, where one name is waited for
ANSWER = 3.0        # s to wait for a node's answer
COMPLETION = 0.6    # s in which a shell wants its words
DEPTH = 1000        # messages that wait for a command that is slow
HIDDEN = "_"        # what begins a name that lists leave out, as ros2cli has it


class LiveGraph:
    """A graph as one node sees it.

    Args:
        node: that looks; of it nothing is told.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._watch = Watch(node.session, node.domain)

    def settle(self, longest: float = LONGEST, until: Callable[[], bool] | None = None) -> None:
        """Waits until nothing new comes, or ``until()`` holds."""
        quiet = QUIET if until is None else NAMED
        end = time.monotonic() + longest
        count, since = -1, time.monotonic()
        while (now := time.monotonic()) < end and not (until and until()):
            self._watch.poll()
            if (size := len(self._watch.endpoints()) + len(self._watch.nodes())) != count:
                count, since = size, now
            elif now - since >= quiet:
                return
            time.sleep(0.02)

    def nodes(self, hidden: bool = False) -> list[str]:
        """Full names of the nodes, sorted."""
        return [name for name in self._watch.nodes()
                if name != self.node.fqn and (hidden or not name.rpartition("/")[2].startswith(HIDDEN))]

    def endpoints(self, *kinds: str, topic: str | None = None, node: str | None = None) -> list[names.Endpoint]:
        """Endpoints of these kinds that are not this node's, of a topic or a node or of all."""
        return [one for one in self._watch.endpoints(topic) if one.kind in kinds and one.name != self.node.fqn
                and node in (None, one.name)]

    def topics(self, hidden: bool = False) -> dict[str, list[str]]:
        """Types of each topic by its name, both sorted; those of topics that a name hides only where asked for."""
        return _typed(self.endpoints(names.PUBLISHER, names.SUBSCRIPTION), hidden)

    def full(self, name: str) -> str:
        """Full name of a topic or a node in this namespace. Ends the command where it can be none."""
        try:
            return names.expand(name, self.node.namespace, self.node.name)
        except names.NameProblem as problem:
            fail(str(problem), 2)

    def topic(self, name: str) -> names.Endpoint:
        """A publisher of a topic, else a subscription; waits for it, and ends the command where there is none."""
        name = self.full(name)
        found = lambda: (self.endpoints(names.PUBLISHER, topic=name)     # noqa: E731
                         or self.endpoints(names.SUBSCRIPTION, topic=name))
        self.settle(until=lambda: bool(found()))
        return found()[0] if found() else unknown("topic", name, self.topics(hidden=True))

    def known_node(self, name: str) -> str:
        """Full name of a node; waits for it, and ends the command where there is none."""
        name = self.full(name)
        self.settle(until=lambda: name in self.nodes(hidden=True))
        return name if name in self.nodes(hidden=True) else unknown("node", name, self.nodes())

    def subscribe(self, told: names.Endpoint, *, type_name: str = "", decoded: bool = True) -> Subscription:
        """Subscribes to a topic with the quality of service that its publishers offer.

        Args:
            told: of the topic.
            type_name: of it; "": what is told.
            decoded: its messages will be decoded: a type that is not known here is asked of its node, and the command
                ends where that does not tell.
        """
        same = self.endpoints(names.PUBLISHER, topic=told.topic)
        # the least that any offers, as a subscription that asks for more hears nothing on DDS
        qos = QoS(all(one.qos.reliable for one in same if one.qos), bool(same) and all(
            one.qos.latched for one in same if one.qos), DEPTH)
        if type_name and type_name != told.type:
            fail(f"{told.topic} carries {told.type}, not {type_name}", 1)
        if not decoded:
            return self.node.raw_subscription(told, qos)
        self.learn(told)
        return self.node.subscription(told.topic, told.type, qos)

    def learn(self, told: names.Endpoint) -> None:
        """Asks a node what the messages of its topic consist of, where that is not known here."""
        from brain_wire.type_descriptions import SERVICE, learn

        try:
            ours = type_hash(told.type)
        except MessageError:
            ours = ""
        if ours == told.type_hash:
            return
        if ours:
            fail(f"{told.name} has another version of {told.type}: its hash is {told.type_hash}, ours {ours}; install "
                 f"the same version of its package on both sides")
        request = make(f"{SERVICE}_Request", type_name=told.type, type_hash=told.type_hash)
        with self.asked(f"{told.name}/get_type_description", SERVICE) as call:
            try:
                answer = call(request)
                if not answer.successful:
                    raise MessageError(answer.failure_reason)
                learn(answer.type_description, told.type_hash)
            except (TimeoutError, ValueError) as error:
                fail(f"{told.type} is not known here, and {told.name} does not tell what it consists of ({error}); "
                     f"`brain topic hz` and `brain topic bw` need not know")

    @contextlib.contextmanager
    def asked(self, service: str, kind: str) -> Iterator[Callable[[Any], Any]]:
        """A function that asks a service; it raises TimeoutError or ValueError."""
        client = self.node.client(service, kind)
        try:
            yield lambda request: client.call(request, ANSWER)
        finally:
            self.node.let_go(client)

    def close(self) -> None:
        """Looks no more."""
        self._watch.close()


def _typed(endpoints: Iterable[names.Endpoint], hidden: bool) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for one in endpoints:
        if hidden or not any(part.startswith(HIDDEN) for part in one.topic.split("/")):
            found.setdefault(one.topic, set()).add(one.type)
    return {name: sorted(types) for name, types in sorted(found.items())}


def unknown(what: str, name: str, known: Iterable[str]) -> NoReturn:
    """Ends the command: there is no such name; those that look like it are told."""
    near = difflib.get_close_matches(name, list(known), 3, 0.5)
    fail(f"there is no {what} {name}" + (f"; did you mean {' or '.join(near)}?" if near else
                                         f"; `brain {what} list` tells those that there are"))


@contextlib.contextmanager
def looking(verb: str, domain: int | None, secure: Path | None, namespace: str, router: str | None
            ) -> Iterator[LiveGraph]:
    """Opens a graph to look at, from a node that lists leave out, by the options that its verbs share.

    What keeps it from that ends the command.
    """
    use_domain(domain)
    use_security(secure)
    from brain_wire import NameProblem, NoRouter, SessionProblem

    try:
        with open_node(f"_brain_{verb}_{os.getpid()}", namespace or "/", router=router) as node:
            graph = LiveGraph(node)
            try:
                yield graph
            finally:
                graph.close()
    except (NoRouter, SessionProblem, NameProblem, MessageError) as error:
        fail(str(error))


def completed(of: Callable[[LiveGraph], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion of names from the graph that runs; none where there is no router, or none in time."""
    def complete(incomplete: str) -> list[str]:
        try:
            with open_node(f"_brain_completion_{os.getpid()}", patience=COMPLETION) as node:
                graph = LiveGraph(node)
                graph.settle(COMPLETION)
                found = [name for name in of(graph) if name.startswith(incomplete)]
                graph.close()
                return found
        except (OSError, ValueError):       # whoever presses a key must not get a line of ours between
            return []

    return complete


complete_topic = completed(LiveGraph.topics)
complete_node = completed(LiveGraph.nodes)
