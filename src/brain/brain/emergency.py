# SPDX-License-Identifier: Apache-2.0
"""``brain estop`` and ``brain release``: the emergency stop, confirmed by the brainstem."""
from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain, use_security)

OWN = "USE THE ROBOT'S OWN EMERGENCY STOP"
CONFIRM = 5.0   # s that the brainstem gets to confirm


def _send(stop: bool, as_json: bool, router: str | None, secure: Path | None, domain: int | None,
          namespace: str) -> None:
    use_domain(domain)
    use_security(secure)
    from brain_wire import messages
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node
    from brain_wire.qos import FEATURE, LATCHED

    try:
        with open_node("brain_estop" if stop else "brain_release", namespace or "/", router=router) as node:
            told = node.subscription("estop/status", "std_msgs/msg/Bool", LATCHED)
            if stop:
                out, message = node.publisher("estop", "std_msgs/msg/Bool", LATCHED), messages.make(
                    "std_msgs/msg/Bool", data=True)
            else:
                out, message = node.publisher("estop/release", "std_msgs/msg/Empty", FEATURE), messages.make(
                    "std_msgs/msg/Empty")
            until = time.monotonic() + CONFIRM
            state: bool | None = None
            while (left := until - time.monotonic()) > 0:
                out.publish(message)  # again and again: the brainstem may only just be starting
                for arrival in told.wait(min(left, 0.25)):
                    with suppress(messages.MessageError):   # not the brainstem's; it is not a reason to stop asking
                        state = messages.decode(arrival.data, "std_msgs/msg/Bool").data
                if state is stop:
                    if as_json:
                        tell_json({"stopped": stop}, None)
                    else:
                        tell("stopped; `brain release` ends it" if stop else "released", "red" if stop else "green")
                    return
    except (NoRouter, SessionProblem, NameProblem, messages.MessageError) as error:
        fail(f"{error}" + (f". {OWN}" if stop else ""))
    except KeyboardInterrupt:
        fail("interrupted; the brainstem did not confirm" + (f": {OWN}" if stop else ""), 130)
    heard = "it says nothing" if state is None else f"it says {'stopped' if state else 'released'}"
    fail(f"the brainstem did not confirm within {CONFIRM:g} s ({heard}): "
         + (OWN if stop else "`brain status` shows whether it is well"))


def estop(as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
          namespace: Namespace = "") -> None:
    """Stops the robot until `brain release`, and waits until the brainstem has confirmed it.

    It is not a certified safety function.
    """
    _send(True, as_json, router, secure, domain, namespace)


def release(as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
            namespace: Namespace = "") -> None:
    """Ends the emergency stop, and waits until the brainstem has confirmed it."""
    _send(False, as_json, router, secure, domain, namespace)
