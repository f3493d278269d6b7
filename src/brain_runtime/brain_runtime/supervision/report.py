# SPDX-License-Identifier: Apache-2.0
"""Status of a brain, for ``brain status`` and the demo: from what was heard on the wire to lines and a table."""
from __future__ import annotations

import math
import time
from datetime import datetime
from typing import Any

from brain_runtime.hosts.edges import NOBODY, Edge
from brain_runtime.run.keeper import keepers

ONCE = ("estop", "goal/", "sim/", "teleop/")     # topics on which nothing comes for long
CELL = 60           # characters of a name in the table
COLORS = {"active": "green", "gone": "red", "silent": "red", "error": "red"}


def region_report(name: str, seen: Any, now: float) -> dict[str, Any]:
    """Reports all that is known of a region, as plain JSON values (SI units; None where it is not known)."""
    from brain_wire.messages import time_seconds

    b = seen.beat
    number = lambda v: round(float(v), 6) if math.isfinite(v) else None  # noqa: E731
    return {"name": name, "state": seen.state(now), "reason": b.reason, "host": b.host, "hostname": b.hostname,
            "pid": int(b.pid), "critical": bool(b.critical), "restarts": int(b.restarts), "step": int(b.step),
            "rate": number(b.rate), "step_p50": number(b.step_p50), "step_p99": number(b.step_p99),
            "step_age": number(b.step_age), "stepping": bool(b.stepping),
            "spikes_per_second": number(b.spikes_per_second), "synops_per_second": number(b.synops_per_second),
            "inputs": {t: number(a) for t, a in zip(b.inputs, b.input_ages, strict=False)},
            "last_heartbeat": round(time_seconds(b.header.stamp), 3), "heartbeat_age": round(now - seen.heard, 3),
            "token": seen.token}


def report(ear: Any, expected: list[str], domain: int, namespace: str) -> dict[str, Any]:
    """Reports the status of a brain.

    Args:
        ear: a :class:`brain_runtime.supervision.listen.Ear` that has listened.
        expected: full names of the regions that ought to be there, if any region is.
    """
    from brain_runtime.contract.constants import trace_action

    now = time.monotonic()
    regions = [region_report(name, seen, now) for name, seen in sorted(ear.regions.items())]
    missing = [n for n in expected if n not in ear.regions] if ear.regions else []
    trace = ear.trace
    return {"domain": domain, "namespace": namespace or "/", "router": ear.linked, "regions": regions,
            "missing": missing, "latency": ear.latency.report(), "unreadable": ear.broken, "here": running_here(),
            "brainstem": None if trace is None else {
                "action": trace_action(trace.action), "reason": trace.reason, "linear": round(float(trace.linear), 4),
                "angular": round(float(trace.angular), 4)}}


def running_here() -> list[dict[str, Any]]:
    """Lists this user's keepers of brains on this machine, in whatever domain: see :func:`.run.keeper.keepers`."""
    return [{"pid": one.process, "command": one.command, "domain": one.domain, "processes": len(one.kept),
             "since": None if math.isnan(one.since) else round(one.since, 1), "ending": not one.lives}
            for one in keepers()]


def here_lines(found: dict[str, Any]) -> str:
    """A line for each of what keeps brains on this machine, and since when; empty where nothing does."""
    from brain_wire.safe_text import line

    return "\n".join(line(
        f"here: {one['command'] or 'a brain that is ending, whose keeper was killed'} (process {one['pid']}, domain "
        f"{one['domain']}, {one['processes']} processes)"
        + ("" if one["since"] is None else f", since {datetime.fromtimestamp(one['since']):%Y-%m-%d %H:%M:%S}"))
        for one in found["here"])


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{1000 * value:.1f}"


def _count(value: float | None) -> str:
    if not value:
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def _inputs(region: dict) -> str:
    return ", ".join(
        f"{t} {'never' if a is None else f'{a:.2f}' if a < 10 else f'{a:.0f}'}" for t, a in region["inputs"].items())


def oldest_input(region: dict[str, Any]) -> str:
    """Age (s) and topic of a region's oldest input; latched topics do not count, since their age means nothing."""
    ages = [(a, t) for t, a in region["inputs"].items() if a is not None and not t.startswith(ONCE)]
    return f"{max(ages)[0]:.2f} {max(ages)[1]}" if ages else ""


def table(found: dict[str, Any], *, live: bool = False) -> Any:
    """A report as a Rich table that fits into 80 columns.

    Args:
        live: with each region's oldest input, in place of process id and host.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from brain_wire.safe_text import line

    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    headings = ["region", "state", *([] if live else ["pid", "host"]), "Hz", "p50", "p99", "spk/s", "syn/s", "rst",
                "beat", *(["oldest input"] if live else [])]
    for heading in headings:
        left = heading in ("region", "state", "host", "oldest input")
        result.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for r in found["regions"]:
        state = Text(r["state"] + ("*" if r["stepping"] and r["state"] != "gone" and (r["step_age"] or 0) > 1 else ""),
                     style=COLORS.get(r["state"], "yellow"))
        result.add_row(line(r["name"], CELL) + (" !" if r["critical"] else ""), state,
                       *([] if live else [str(r["pid"]), line(r["host"], CELL)]),
                       "" if r["rate"] is None else f"{r['rate']:.1f}", _milliseconds(r["step_p50"]),
                       _milliseconds(r["step_p99"]), _count(r["spikes_per_second"]), _count(r["synops_per_second"]),
                       str(r["restarts"]), f"{r['heartbeat_age']:.1f}",
                       *([line(oldest_input(r), CELL)] if live else []))
    for name in found["missing"]:
        result.add_row(name, Text("gone", style="red"))
    return result


def input_lines(found: dict[str, Any]) -> str:
    """A line for each region with its inputs and their ages (s)."""
    from brain_wire.safe_text import line

    return "\n".join(line(f"  {r['name']} hears {_inputs(r)}") for r in found["regions"] if r["inputs"])


def edges_report(told: dict[str, list[Edge]]) -> list[dict[str, Any]]:
    """The edges of a brain as plain JSON values (s; None where it is not known), by receiver, topic and source."""
    number = lambda v: round(v, 9) if math.isfinite(v) else None  # noqa: E731
    return [{"from": e.source, "to": name, "topic": e.topic, "p50": number(e.p50), "p99": number(e.p99),
             "clocks_differ": e.clocks_differ, "loss": None if e.loss is None else round(e.loss, 6), "lost": e.lost,
             "overwritten": e.overwritten, "messages": e.messages, "restarts": e.restarts}
            for name, edges in told.items() for e in edges]


def edges_table(edges: list[dict[str, Any]], namespace: str) -> Any:
    """Edges of :func:`edges_report` as a Rich table: names without the brain's namespace, of an id the beginning."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from brain_wire.safe_text import line

    own = "/" + namespace.strip("/") + "/" if namespace.strip("/") else "/"
    short = lambda name: line(name[:12] if name.startswith(NOBODY) else name.removeprefix(own), CELL)  # noqa: E731
    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("from", "to", "topic", "p50", "p99", "lost", "over", "messages"):
        result.add_column(heading, justify="left" if heading in ("from", "to", "topic") else "right", no_wrap=True)
    for e in edges:
        unknown = "clocks" if e["clocks_differ"] else "-"
        p50, p99 = (unknown if e[q] is None else f"{1e3 * e[q]:.2f}" for q in ("p50", "p99"))
        lost = "?" if e["loss"] is None else f"{e['lost']}" + (f" {e['loss']:.1%}" if e["lost"] else "")
        result.add_row(short(e["from"]), short(e["to"]), short(e["topic"]), p50, p99, lost, str(e["overwritten"]),
                       str(e["messages"]))
    return result


EDGES_FOOTER = (
    "p50, p99: from publishing to receipt, of each publisher's latest messages (ms); clocks: not known, since two "
    "clocks differ\nlost: published, but not received; over: received, but overwritten by a newer one before a step")


def reason_lines(found: dict[str, Any]) -> str:
    """A line for each region that says what is wrong with it or round it; empty where none does."""
    from brain_wire.safe_text import line

    return "\n".join(line(f"{r['name']}: {r['reason']}") for r in found["regions"] if r["reason"])


def footer(found: dict[str, Any]) -> str:
    """One line: latency from camera to cmd_vel, and what the brainstem does."""
    from brain_wire.safe_text import line

    latency, stem = found["latency"], found["brainstem"]
    text = "camera to cmd_vel: " + (f"p50 {1000 * latency['p50']:.0f} ms, p95 {1000 * latency['p95']:.0f} ms "
                                    f"({latency['n']} pictures)" if latency["n"] else "not known yet")
    if stem:
        text += f"; brainstem: {stem['action']}" + (f", {stem['reason']}" if stem["reason"] else "")
        text += f", {stem['linear']:.2f} m/s {stem['angular']:.2f} rad/s"
    if not found["router"]:
        text += "; NO LINK TO THE ROUTER"
    about = ".\n! critical; p50, p99: duration of a step (ms); rst: restarts; beat: age of the last heartbeat (s)"
    return line(text) + about
