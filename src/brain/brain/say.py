# SPDX-License-Identifier: Apache-2.0
"""``brain say``: tells the brain what to do, and waits for how it went."""
from __future__ import annotations

import time
from typing import Annotated

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)
from brain_runtime.supervision.speaker import Answer, Speaker, checked, clipped

PRESENCE = 2.0      # s in which a brain that is there has been heard
LATCH = 0.5         # s in which the latched goal status of before has come
INTERRUPTED = 130   # exit status after Ctrl-C
STANDS = "interrupted, but the goal still stands and the robot goes on; `brain say stop` (same options) ends it"


def say(text: Annotated[str, typer.Argument(help="What to do, in English or Japanese.")],
        wait: Annotated[float | None, typer.Option(min=0.0, metavar="SECONDS", help="Wait until it is done.")] = None,
        as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
        namespace: Namespace = "") -> None:
    """Tells the brain what to do.

    Exit status: 0 when it was reached (without --wait: taken up), 1 when it was not found, not in time, or something
    else was reached, 2 when it was not understood. The reason is printed. Ctrl-C ends the waiting (exit status 130),
    not the goal.
    """
    number = use_domain(domain)
    use_security(secure)
    try:
        text = checked(text)
    except ValueError as error:
        fail(str(error), 2)
    from brain_runtime.supervision.listen import Ear
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node, safe_text

    speaker: Speaker | None = None
    begin = time.monotonic()
    try:
        with open_node("brain_say", namespace or "/", router=router) as node:
            speaker, ear = Speaker(node), Ear(node)
            if not ear.listen(PRESENCE, lambda e: bool(e.regions)):
                fail(f"no brain is heard in domain {number}" + (f", namespace {namespace}" if namespace else "")
                     + f", at {node.session.endpoint}; start one with `brain up`, or see --domain and --namespace")
            speaker.hear(LATCH)
            answer = speaker.ask(text, wait)
            ear.close()
    except (NoRouter, SessionProblem, NameProblem) as error:
        fail(str(error))
    except KeyboardInterrupt:
        answer = _interrupted(speaker, text, time.monotonic() - begin)
    if as_json:
        tell_json({"text": text, **answer.__dict__}, None)
    else:
        text = f"{answer.state or 'not taken up'} after {answer.seconds:.1f} s" + (
            f": {answer.reason}" if answer.reason else "")
        tell(safe_text.line(text), "green" if answer.status == 0 else "red")
    raise typer.Exit(answer.status)


def _interrupted(speaker: Speaker | None, text: str, seconds: float) -> Answer:
    """The answer after Ctrl-C, which ends the waiting and not the goal."""
    if speaker is None or not speaker.said:
        return Answer(INTERRUPTED, "", "interrupted before anything was said", None, seconds)
    newest = speaker.newest
    ours = newest if newest is not None and newest.text == clipped(text) else None
    from brain_runtime.contract.constants import goal_state

    if ours is None:
        return Answer(INTERRUPTED, "", STANDS, None, seconds)
    return Answer(INTERRUPTED, goal_state(ours.state), STANDS, ours.goal_id, seconds)
