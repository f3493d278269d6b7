# SPDX-License-Identifier: Apache-2.0
"""Server: what a node serves, answered in one thread: services, actions, parameters and the lifecycle.

What arrives only wakes that thread, so that no code of the node's runs in a thread of Zenoh's::

    with open_node("adder") as node:
        server = Server(node)
        server.service("add", "my_interfaces/srv/Add", lambda asked: make(..., sum=asked.a + asked.b))
        server.serve()
"""
from __future__ import annotations

import math
import time
from dataclasses import fields
from typing import Any, Callable, Mapping

from brain_wire import lifecycle, parameter_services
from brain_wire.action import ActionServer
from brain_wire.goals import Act, Goal
from brain_wire.lifecycle import Lifecycle, Outcome
from brain_wire.messages import time_message
from brain_wire.node import Node
from brain_wire.parameters import ParameterError, check_parameters, describe
from brain_wire.qos import QoS
from brain_wire.service import Service
from brain_wire.wakeup import Signal

SHARE = 0.05        # s
TRANSITION_EVENTS = QoS(reliable=True, latched=False, depth=10)


class Server:
    """Serves for one node.

    Args:
        node: in whose name.
        wake: woken when there is something to serve; for who waits for more than that.
        share: s; how long answering goes on after the time of :meth:`serve` is up, however many ask.
    """

    def __init__(self, node: Node, wake: Signal | None = None, share: float = SHARE) -> None:
        self.node = node
        self.wake = wake or Signal()
        self._share = share
        self._services: list[tuple[Service, Callable[[Any], Any]]] = []
        self._actions: list[ActionServer] = []
        self._stopped = False

    def service(self, name: str, kind: str, handler: Callable[[Any], Any]) -> None:
        """Serves a service.

        Args:
            name: relative to the node's namespace, or ``~/name`` below the node.
            kind: ``package/srv/Type``.
            handler: makes the response of a request; what it raises is what the client is refused with.
        """
        self._services.append((self.node.service(name, kind, self.wake.set), handler))

    def services(self, handlers: Mapping[str, tuple[str, Callable[[Any], Any]]]) -> None:
        """Serves services below the node, given as type and handler by name."""
        for name, (kind, handler) in handlers.items():
            self.service(f"~/{name}", kind, handler)

    def action(self, act: Act, give: Callable[[Goal], None], *, name: str | None = None,
               ready: Callable[[], bool] = lambda: True) -> ActionServer:
        """Serves an action; what is new of its goals is told to what is returned: ``.tell(act.feedback(goal, ...))``.

        Args:
            act: the action.
            give: takes each goal, and again one that is to be given up (``goal.canceling``).
            name: where it is not the action's own topic.
            ready: whether goals are taken now.
        """
        server = ActionServer(self.node, act, name or act.topic, ready=ready, give=give, arrived=self.wake.set,
                              closed=self._actions.remove)
        self._actions.append(server)
        return server

    def parameters(self, values: Any, changed: Callable[[Any], None] = lambda values: None) -> None:
        """Serves parameters, as ``ros2 param`` asks for them.

        Args:
            values: a frozen dataclass of :func:`brain_wire.parameters.parameter` fields.
            changed: takes the new one after each change; a ParameterError that it raises refuses the change.
        """
        held = [values]
        events = self.node.publisher(parameter_services.EVENTS, parameter_services.EVENT_TYPE,
                                     parameter_services.EVENT_QUALITY)

        def change(wanted: Mapping[str, Any]) -> None:
            new = check_parameters(self.node.name, type(values), wanted, current=held[0])
            changed(new)
            held[0] = new
            told = {name: getattr(new, name) for name in wanted}
            events.publish(parameter_services.changed(self.node.fqn, time_message(time.time()), told))

        access = parameter_services.Access(
            lambda: {field.name: describe(field) for field in fields(values)},
            lambda: {field.name: getattr(held[0], field.name) for field in fields(values)}, change)
        self.services(parameter_services.handlers(access))

    def lifecycle(self, **transitions: Callable[[], Outcome | None]) -> Lifecycle:
        """Serves the life of a managed node, as ``ros2 lifecycle`` asks for it.

        Args:
            transitions: ``configure``, ``activate``, ``deactivate``, ``cleanup``, ``shutdown`` and ``recover`` (from an
                error); each returns an Outcome, or None for success. Those that are left out do nothing.

        Raises:
            ValueError: there is no such transition.
        """
        known = ("configure", "activate", "deactivate", "cleanup", "shutdown", "recover")
        odd = set(transitions) - set(known)
        if odd:
            raise ValueError(f"there is no transition {', '.join(sorted(odd))}; there are {', '.join(known)}")

        def make(label: str) -> Callable[[], Outcome]:
            return lambda: transitions.get(label, lambda: None)() or Outcome.SUCCESS

        events = self.node.publisher("~/transition_event", "lifecycle_msgs/msg/TransitionEvent", TRANSITION_EVENTS)
        life = Lifecycle({label: make(label) for label in known[:-1]}, make("recover"), events.publish)
        self.services(lifecycle.handlers(life))
        return life

    def serve(self, seconds: float = math.inf, also: Callable[[], None] = lambda: None) -> None:
        """Answers what comes, for so long or until :meth:`stop`.

        Args:
            seconds: how long.
            also: what else the thread has to do each time that it was woken, after it has answered.
        """
        until = time.monotonic() + seconds
        while not self._stopped:
            enough = max(until, time.monotonic() + self._share)
            for service, handler in self._services:
                service.answer(handler, enough)
            for action in tuple(self._actions):
                action.serve()
            also()
            left = until - time.monotonic()
            if left <= 0:
                return
            self.wake.wait(left)

    def stop(self) -> None:
        """Ends :meth:`serve`, from any thread or a signal handler."""
        self._stopped = True
        self.wake.set()


__all__ = ["Outcome", "ParameterError", "Server"]
