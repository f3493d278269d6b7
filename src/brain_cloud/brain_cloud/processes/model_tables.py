# SPDX-License-Identifier: Apache-2.0
"""Tables of models, of their roll-outs and of what a fleet learns together, as ``brain fleet`` shows them."""
from __future__ import annotations

from typing import Any, Mapping

from rich.console import Group
from rich.text import Text

from brain_edge.processes.alone import duration
from brain_edge.processes.tables import new_table
from brain_wire.safe_text import quoted

NONE = "there is no model; add one with `brain fleet models add FILE`"


def short(digest: str) -> str:
    """Shortens a digest for people to what is enough to name a model."""
    return digest.removeprefix("sha256:")[:12]


_STYLES = {"canary": "yellow", "rest": "yellow", "rolling_back": "red", "rolled_back": "red", "done": "green"}


def rollout_line(one: Mapping[str, Any]) -> str:
    """A roll-out in a line."""
    says = {"canary": f"first on {', '.join(one['canaries'])}", "rest": "for all", "done": "all robots have it",
            "rolling_back": "robots get back what they had", "rolled_back": "robots have what they had before",
            "replaced": "another one came after it"}[one["state"]]
    robots = ", ".join(f"{name} {found['state']}" + (f" ({found['goals']} of {one['watch']['goals']} goals)"
                                                     if one["state"] == "canary" else "")
                       for name, found in one["robots"].items())
    why = f"; {one['why']}" if one["why"] else ""
    return (f"roll-out {one['number']}: model {short(one['digest'])} for {one['region']}, {one['state']}: {says}"
            + (f": {robots}" if robots else "") + why)


def expectation(one: Mapping[str, Any]) -> str:
    """Formats what a roll-out is measured against."""
    found = one["watch"]["expected"]
    whence = f"by {found['goals']} goals before" if found["goals"] else "as told or assumed, nothing was measured"
    reflexes = "" if found["reflexes"] is None else f", at most {found['reflexes']} reflexes in {found['calm']:.0%}"
    return f"expected: {found['reached']:.0%} of goals reached{reflexes} ({whence})"


def models_table(found: Mapping[str, Any]) -> Any:
    """Each model in a line, and each roll-out."""
    table = new_table("model", "region", "bytes", "signed by", "added", "by", "roll-out")
    newest = {one["digest"]: one for one in reversed(found["rollouts"])}
    for one in found["models"]:
        state = newest.get(one["digest"], {}).get("state", "")
        table.add_row(short(one["digest"]), one["region"], str(one["size"]), one["signer"] or "nobody",
                      one["added"][:10], one["person"], Text(state, _STYLES.get(state, "")))
    parts: list[Any] = [table if found["models"] else Text(NONE)]
    for one in found["rollouts"][:10]:
        parts.append(Text(rollout_line(one), _STYLES.get(one["state"], "")))
        if one["state"] in ("canary", "rest"):
            parts.append(Text(f"  {expectation(one)}"))
    return Group(*parts)


def learning_table(found: Mapping[str, Any]) -> Any:
    """The open round in a line, and the newest rounds below it."""
    one = found["learning"]
    if one is None:
        return Text("nothing is learned together; start the cloud with `brain cloud --learn PLAN`")
    head = f"{one['name']}: {one['learner']} by {one['strategy']}, {one['version']} of {one['rounds']} rounds done"
    if not one["over"]:
        left = "waits for a robot" if one["left_s"] is None else f"{duration(one['left_s'])} left"
        head += f"; round {one['round']}: {left}, {len(one['answered'])} have answered"
        if one["missing"]:
            head += f", missing {', '.join(one['missing'][:8])}"
    if "privacy" in one:
        head += f"; epsilon {one['privacy']['epsilon']:.2f} at delta {one['privacy']['delta']:g}"
    table = new_table("round", "ended", "lasted", "robots", "missing", "refused, declined, left out")
    for entry in one["history"][-10:]:
        table.add_row(str(entry["round"]), entry["ended"], f"{entry['lasted_s']:.1f} s",
                      ", ".join(entry["robots"]) or "nobody", ", ".join(entry["missing"]),
                      "; ".join([*(f"{robot}: {quoted(why)}" for part in ("refused", "declined")
                                   for robot, why in entry.get(part, {}).items()),
                                 *(f"{robot}: left out, since it was late" for robot in entry.get("left_out", ()))]))
    return Group(Text(head), table) if one["history"] else Text(head)
