# SPDX-License-Identifier: Apache-2.0
"""``brain stop REGION`` and ``brain start REGION``: end a region by order, and begin it again, on every host.

An order is a transition of the region's lifecycle, as ``ros2 lifecycle set`` asks for it. It holds: neither a
supervisor nor launch nor a fleet begins again what was ended so.
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain, use_security)

ASKED = 5.0         # s that a region gets to say how it is
ENDS = 30.0         # s that it gets to come to rest and to end
BEGINS = 60.0       # s that it gets to load what it needs
AGAIN = 0.2         # s between two looks
ACTIVE, FINALIZED = "active", "finalized"
LEADS = {"unconfigured": "configure", "inactive": "activate", FINALIZED: "configure"}
"""By state, the transition that is next on the way to ``active``. One that is finalized begins anew with it."""

Region = Annotated[str, typer.Argument(metavar="REGION", help="Its name, as `brain status` shows it.")]


class _Region:
    """The lifecycle of a region's node, as it is asked for from outside."""

    def __init__(self, node: Any, name: str) -> None:
        self.name = name
        self._state = node.client(f"{name}/get_state", "lifecycle_msgs/srv/GetState")
        self._change = node.client(f"{name}/change_state", "lifecycle_msgs/srv/ChangeState")

    def state(self, patience: float = ASKED) -> str:
        """Asks for its lifecycle state. Raises NoAnswer, MessageError."""
        from brain_wire.messages import make

        return str(self._state.call(make(self._state.type.request), patience).current_state.label)

    def change(self, label: str, patience: float) -> bool:
        """Asks for a transition; whether it was made. Raises NoAnswer, MessageError."""
        from brain_wire.messages import make

        transition = make("lifecycle_msgs/msg/Transition", label=label)
        return bool(self._change.call(make(self._change.type.request, transition=transition), patience).success)


def _order(verb: str, region: str, as_json: bool, router: str | None, secure: Path | None, domain: int | None,
           namespace: str) -> None:
    number = use_domain(domain)
    use_security(secure)
    from brain_wire import NameProblem, NoAnswer, NoRouter, SessionProblem, messages, open_node

    if not region:
        fail(f"name the region to {verb}, as in `brain {verb} vision`"
             + ("; `brain estop` stops the robot" if verb == "stop" else ""), 2)
    try:
        with open_node(f"brain_{verb}", namespace or "/", router=router) as node:
            found = _Region(node, region)
            try:
                state = found.state()
            except NoAnswer as problem:
                fail(f"{region} is not heard in domain {number}" + (f", namespace {namespace}" if namespace else "")
                     + f" ({problem}); `brain status` shows what is there")
            state = _stop(found, state) if verb == "stop" else _start(found, state)
    except (NoAnswer, NoRouter, SessionProblem, NameProblem, messages.MessageError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; `brain status` shows how {region} is", 130)
    if as_json:
        tell_json({"region": region, "state": state}, None)
    elif verb == "stop":
        tell(f"{region} has ended, and stays so; `brain start {region}` begins it", "yellow")
    else:
        tell(f"{region} is active", "green")


def _stop(region: _Region, state: str) -> str:
    from brain_wire import NoAnswer

    if state != FINALIZED and not region.change("shutdown", ENDS):
        fail(f"{region.name} does not end; it is {region.state()}, and its log says why")
    try:
        return region.state()
    except NoAnswer:    # nobody keeps it: its process has ended
        return FINALIZED


def _start(region: _Region, state: str) -> str:
    from brain_wire import NoAnswer

    until = time.monotonic() + BEGINS
    while state != ACTIVE:
        if state in LEADS and not region.change(LEADS[state], BEGINS):
            fail(f"{region.name} does not {LEADS[state]}; it is {region.state()}, and `brain status` says why")
        if time.monotonic() > until:
            fail(f"{region.name} is {state} after {BEGINS:g} s; `brain status` says why")
        time.sleep(AGAIN)
        try:
            state = region.state()
        except NoAnswer:    # it is begun anew as another node
            state = ""
    return state


def stop(region: Region = "", as_json: Json = False, router: Router = None, secure: Secure = None,
         domain: Domain = None, namespace: Namespace = "") -> None:
    """Ends a region, which stays ended until `brain start`, and brings to rest what it moves.

    Nothing begins it again: no supervisor, launch or fleet. To stop the robot, use `brain estop`. On a secured brain it
    takes the credentials of a maintainer.
    """
    _order("stop", region, as_json, router, secure, domain, namespace)


def start(region: Region = "", as_json: Json = False, router: Router = None, secure: Secure = None,
          domain: Domain = None, namespace: Namespace = "") -> None:
    """Begins a region again that was ended or made inactive by order, and waits until it is active.

    On a secured brain it takes the credentials of a maintainer.
    """
    _order("start", region, as_json, router, secure, domain, namespace)
