# SPDX-License-Identifier: Apache-2.0
"""``brain doctor``: says what is missing before the brain may drive, and the remedy."""
from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import Annotated, Any, Iterator

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)

SECONDS, TURNING = 2.0, 30.0    # of listening where nothing else is said, and while the robot is turned
INTERRUPTED = 130   # exit status after Ctrl-C
COLORS = {"stops": "red", "degrades": "yellow", "note": "dim"}


def doctor(robot: Annotated[str, typer.Option(help="The robot's profile: a name, such as turtlebot3_burger, or a path. "
                                              "Default: none, and the brain's own names of topics.")] = "",
           graph: Annotated[str, typer.Option(help="Graph that runs, or is to run: a name or a path.")] = "brain",
           seconds: Annotated[float | None, typer.Option(min=1.0, max=600.0, help="How long to listen. Turn the robot "
                                                         "by hand meanwhile, and more can be judged. Default: 2 s, "
                                                         "with --own 30 s.")] = None,
           measure_timeout: Annotated[bool, typer.Option("--measure-timeout", help="Ask, then let the robot crawl for "
                                                         "half a second, and measure when its base stops without "
                                                         "commands.")] = False,
           own: Annotated[bool, typer.Option("--own", help="Listen for --seconds while you turn the robot once around, "
                                             "ask whether what stays in its scan is the robot itself, and write that "
                                             "into the profile.")] = False,
           as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
           namespace: Namespace = "") -> None:
    """Looks at a live robot, this machine and the graph, and says what is wrong and the remedy.

    It only listens, unless --measure-timeout is given and answered with yes; --own writes a file after a yes. Exit
    status: 0 when nothing is found that stops the robot, 1 when something is, 2 for wrong use, 130 after Ctrl-C.
    """
    seconds = seconds or (TURNING if own else SECONDS)
    variable = os.environ.get("ROS_DOMAIN_ID", "")
    number = use_domain(domain)
    use_security(secure)
    from brain_observe.doctor import base_timeout, examination, machine
    from brain_observe.doctor.finding import STOPS, ordered
    from brain_observe.doctor.listening import listen
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.robots import RobotError
    from brain_runtime.share import state_home
    from brain_runtime.supervision.supervised_brain import router_endpoint
    from brain_wire import NameProblem, NoRouter, SessionProblem, names, open_node

    routed, measured = True, None
    try:
        heard = examination.expect(robot, graph, number, names.absolute(namespace))
        ahead = machine.offset()
        try:
            with open_node("brain_doctor", namespace or "/", router=router) as node:
                listen(node, heard, seconds)
                jumped = machine.offset() - ahead
                if measure_timeout:
                    measured = _measure(node, heard)
        except NoRouter:
            routed, jumped = False, 0.0
    except (RobotError, GraphError, SessionProblem, NameProblem) as error:
        fail(str(error), 2)
    except KeyboardInterrupt:
        fail("interrupted, before all was heard", INTERRUPTED)
    if own and (why := _ask_own(heard)):
        fail(why, 1)
    largest = max((one.size for came in heard.came.values() for one in came), default=0)
    here = machine.look(router_endpoint(router), number, variable, state_home(), router=routed, jumped=jumped,
                        largest=largest)
    found, left = examination.judge(heard, here)
    if isinstance(measured, str):
        left.append(f"the base's command timeout: not measured, since {measured}")
    elif measured is not None:
        found = ordered([*found, *base_timeout.findings(heard, measured)])
    elif routed and heard.robot.command_timeout is None:
        left.append("the base's command timeout: nobody has measured it; --measure-timeout does")
    if as_json:
        tell_json({"robot": heard.robot.name or None, "graph": graph, "domain": number, "namespace": heard.namespace,
                   "router": here.endpoint, "seconds": seconds, "findings": [one._asdict() for one in found],
                   "unjudged": left, **({} if measured is None or isinstance(measured, str) else
                                        {"measured": base_timeout.told(measured)})})
    else:
        _show(found, left)
        if measured is not None and not isinstance(measured, str) and measured.timeout == measured.timeout:
            tell(f"measured: the base stops {measured.timeout:.2f} s after the last command; in the profile, "
                 f"command_timeout: {measured.timeout:.2f}")
    if measured is not None and not isinstance(measured, str) and measured.ended:
        fail("interrupted; zeros were sent", INTERRUPTED)
    raise typer.Exit(1 if any(one.severity == STOPS for one in found) else 0)


def _ask_own(heard: Any) -> str:
    """Writes what of the scan is the robot itself, once a person says so; the reason why not, else empty."""
    from brain_observe.doctor import own_outline
    from brain_runtime.graph.robots import RobotError

    if not heard.robot.path.name:
        return "what is the robot's own goes into its profile: name it as --robot"
    found, path = own_outline.proposed(heard), own_outline.file_of(heard)
    if isinstance(found, str):
        return found
    tell(own_outline.question(found, path), "yellow", err=True)
    if sys.stdin.readline().strip().lower() != "yes":
        return "nobody answered with yes, and nothing is written"
    try:
        own_outline.write(heard, found, path)
    except RobotError as error:
        return str(error)
    tell(f"written into {path}; a brain that runs takes it when it is started again with --robot {path}", err=True)
    return ""


def _measure(node: Any, heard: Any) -> Any:
    """Measures the base's timeout after a question; the reason why not, where it may not or nobody says yes."""
    from brain_observe.doctor import base_timeout
    from brain_wire.wakeup import Flag

    why = base_timeout.refusal(heard)
    if not why and node.session.credentials is not None:
        why = "in a secured brain the router lets nobody but its regions command the base; measure without --secure"
    if why:
        return why
    tell(base_timeout.QUESTION, "yellow", err=True)
    if sys.stdin.readline().strip().lower() != "yes":
        return "nobody answered with yes"
    stop = Flag()
    with _ended_by(stop):
        return base_timeout.measure(node, heard, stop)


@contextmanager
def _ended_by(stop: Any) -> Iterator[None]:
    """Has every signal that ends a process, or stops it (Ctrl-Z), set a flag, so that zeros are sent whatever comes."""
    from brain_wire.endings import ENDINGS, on_ending

    before = {number: signal.getsignal(number) for number in (*ENDINGS, signal.SIGTSTP)}
    on_ending(lambda *_: stop.set())
    signal.signal(signal.SIGTSTP, lambda *_: stop.set())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(found: list[Any], left: list[str]) -> None:
    """Shows findings as a table, then what could not be judged."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from brain_runtime.command.terminal import Terminal
    from brain_wire.safe_text import line

    console = Terminal()
    if found:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_lines=True)
        for heading in ("", "what", "seen", "remedy"):
            table.add_column(heading, overflow="fold")
        for one in found:
            table.add_row(Text(one.severity, style=COLORS[one.severity]), f"{line(one.subject)}\n({one.code})",
                          line(one.text), line(one.remedy))
        console.print(table)
    else:
        console.tell("nothing is wrong with what was heard", style="green")
    for one in left:
        console.tell(f"not judged: {one}", style="dim")
