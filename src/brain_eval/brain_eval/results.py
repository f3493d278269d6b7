# SPDX-License-Identifier: Apache-2.0
"""Results of an evaluation: shares and differences with 95 % intervals, and what they were measured with."""
from __future__ import annotations

import json
import math
import os
import platform
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any, Iterable, Sequence

from brain_runtime.graph import graphs
from brain_eval.saved import cpu
from brain_sim import hard_suite, suite
from brain_sim.intervals import bootstrap, tango, wilson

VIEWS = {"front": "in view", "behind": "behind", "hidden": "hidden", "none": "no target"}
LANGUAGES = {"en": "English", "ja": "Japanese"}


KEPT = ("id", "kind", "outcome", "time", "spl", "spikes", "synops", "simulated", "not_found")
"""What ``brain eval --save`` keeps of each episode, beside the synaptic operations of each region."""


def kept(results: Sequence[dict]) -> dict[str, Any]:
    """Episodes in few characters: ``columns`` and ``rows``, an array for each episode, for files of ``--save``.

    Columns are those of :data:`KEPT`, then ``synops of REGION`` for each region that counts any.
    """
    regions = sorted({name for r in results for name in r.get("by_region", {})})
    rows = [[*(r.get(name, "") for name in KEPT), *(r.get("by_region", {}).get(name, (0, 0))[1] for name in regions)]
            for r in results]
    return {"columns": [*KEPT, *(f"synops of {name}" for name in regions)],
            "rows": [[round(v, 4) if isinstance(v, float) else v for v in row] for row in rows]}


def unfolded(episodes: dict[str, Any]) -> list[dict]:
    """The episodes of :func:`kept`, with what comparisons need of them."""
    found = []
    for row in episodes["rows"]:
        r = dict(zip(episodes["columns"], row, strict=True))
        by_region = {name.removeprefix("synops of "): [0, r[name]] for name in r if name.startswith("synops of ")}
        found.append({**{name: r[name] for name in KEPT}, "success": r["outcome"] == "success", "by_region": by_region})
    return found


def read(path: Path) -> dict[str, Any]:
    """Reads what `brain eval --out` or `--save` wrote.

    Raises:
        ValueError: the file cannot be read or is nothing of that kind; names it and what helps.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if "figures" in report:
            report = report["figures"]
            report["results"] = unfolded(report["episodes_kept"])
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError):
        report = None
    if not (isinstance(report, dict) and {"policy", "split", "seed", "host", "summary"} <= report.keys() and
            isinstance(report.get("results"), list)):
        raise ValueError(f"{path} is no result of `brain eval --out {path}`, and none of --save with its episodes; "
                         "write it anew")
    return report


def share(count: int, n: int) -> dict[str, Any]:
    """Count, share and Wilson 95 % interval."""
    low, high = wilson(count, n)
    return {"count": count, "share": round(count / n, 4) if n else None, "wilson95": [round(low, 4), round(high, 4)]}


def _mean(values: Iterable[float]) -> float | None:
    found = [v for v in values if v is not None and math.isfinite(v)]
    return round(sum(found) / len(found), 4) if found else None


def group(results: Sequence[dict]) -> dict[str, Any]:
    """Shares of the outcomes of some episodes, SPL, and means of time (s) of the successes and synaptic operations."""
    n = len(results)
    by = {o: share(sum(r["outcome"] == o for r in results), n)
          for o in ("success", "wrong_object", "contact", "timeout")}
    other = sorted({r["outcome"] for r in results} - set(by))
    by |= {o: share(sum(r["outcome"] == o for r in results), n) for o in other}
    driven = [r for r in results if r["kind"] in ("go", "avoid")]
    return {"n": n, **by, "spl": _mean(r["spl"] for r in driven),
            "time": _mean(r["time"] for r in driven if r["success"]),
            "synops": _mean(r["synops"] for r in results), "spikes": _mean(r["spikes"] for r in results)}


def summary(results: Sequence[dict]) -> dict[str, Any]:
    """All episodes, and the same by kind, language, and visibility of the target at the start.

    ``not_found`` counts why the brain said that it did not find something, whether that was right or not.
    """
    found = {"all": group(results)}
    for field in ("kind", "lang", "visibility"):
        values = sorted({r[field] for r in results})
        found[field] = {v: group([r for r in results if r[field] == v]) for v in values}
    told = Counter(r.get("not_found", "") for r in results)
    found["not_found"] = {cause: count for cause, count in sorted(told.items()) if cause}
    simulated, wall = sum(r["simulated"] for r in results), sum(r["wall"] for r in results)
    found["times_real_time"] = round(simulated / wall, 2) if wall else None
    return found


def paired(results: Sequence[dict], before: Sequence[dict]) -> dict[str, Any]:
    """Differences between two runs of the same episodes, with their 95 % intervals.

    Returns:
        ``n`` pairs. ``success`` and ``contact``: ``difference`` of the shares, its ``interval95`` (Tango's), how many
        pairs ``gained`` and ``lost`` the outcome, from which the interval follows, and the share ``before``. ``time``
        (s, of what was driven to in both runs) and ``spl`` (of what was to be driven to, failures count as 0): ``n``,
        mean ``difference``, and its ``interval95`` by bootstrap, None where nothing is known of the spread.

    Raises:
        ValueError: they have no episode in common.
    """
    old = {r["id"]: r for r in before}
    pairs = [(r, old[r["id"]]) for r in results if r["id"] in old]
    if not pairs:
        raise ValueError("the two runs have no episode in common; use the same --suite, --split, --seed and "
                         "--time-limit")
    found: dict[str, Any] = {"n": len(pairs)}
    for outcome in ("success", "contact"):
        gained = sum(a["outcome"] == outcome != b["outcome"] for a, b in pairs)
        lost = sum(a["outcome"] != outcome == b["outcome"] for a, b in pairs)
        found[outcome] = {"difference": round((gained - lost) / len(pairs), 4),
                          "interval95": [round(limit, 6) for limit in tango(gained, lost, len(pairs))],
                          "gained": gained, "lost": lost,
                          "before": share(sum(b["outcome"] == outcome for _, b in pairs), len(pairs))}
    driven = [(a, b) for a, b in pairs if a["kind"] in ("go", "avoid")]
    found["time"] = mean_difference([a["time"] - b["time"] for a, b in driven if a["success"] and b["success"]])
    found["spl"] = mean_difference([a["spl"] - b["spl"] for a, b in driven])
    return found


def mean_difference(steps: Sequence[float]) -> dict[str, Any]:
    """``n``, mean ``difference`` of paired differences and ``interval95`` by bootstrap; None where there is none."""
    interval = bootstrap(steps)
    return {"n": len(steps), "difference": round(sum(steps) / len(steps), 4) if steps else None,
            "interval95": None if interval is None else [round(limit, 4) for limit in interval]}


def traffic(results: Sequence[dict]) -> dict[str, dict[str, float]]:
    """Averages what was sent and saved on each topic, and on all of them (``all``), over the simulated seconds."""
    seconds = sum(r["simulated"] for r in results if "traffic" in r)
    sums: dict[str, Counter[str]] = {"all": Counter()}
    for result in results:
        for topic, counts in result.get("traffic", {}).items():
            sums.setdefault(topic, Counter()).update(counts)
            sums["all"].update(counts)
    return {topic: {name: round(count / seconds, 3) for name, count in counts.items()}
            for topic, counts in sums.items() if seconds}


def saved_share(found: dict[str, dict[str, float]]) -> float | None:
    """Share of the bytes of :func:`traffic` that were not sent; None where nothing was to be sent."""
    offered = found["all"].get("bytes", 0) + found["all"].get("saved", 0) if "all" in found else 0
    return round(found["all"]["saved"] / offered, 4) if offered else None


SUITES = {name: module for module in (suite, hard_suite) for name in (module.SUITE, module.VERSION)}
"""Suites by name, with and without the minor version: modules with ``episodes`` and ``suite_hash``."""


def environment(which: str = suite.SUITE, graph: str = graphs.DEFAULT) -> dict[str, Any]:
    """Versions, machine, the hash of the suite ``which``, and those of the weights of a graph's regions."""
    versions = {}
    for name in ("brain-runtime", "brain-regions", "brain-sim", "torch", "numpy", "mujoco", "eclipse-zenoh", "rosbags"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "source tree"
    return {"suite": SUITES[which].VERSION, "suite_hash": SUITES[which].suite_hash(),
            "python": platform.python_version(), "versions": versions, "weights": weights_hashes(graph), "cpu": cpu(),
            "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}


def weights_hashes(graph: str = graphs.DEFAULT) -> dict[str, str]:
    """SHA-256 of each weight file of brain_regions, and of those that other regions of the graph declare."""
    import hashlib

    import brain_regions

    root = Path(brain_regions.__file__).parent
    found = {str(p.relative_to(root)): p for p in sorted(root.rglob("*.safetensors"))}
    for spec in graphs.load(graph).regions:
        folder = None if spec.lacks_package() else getattr(spec.load().weights, "folder", None)
        if folder is not None and not folder.is_relative_to(root):
            found |= {f"{spec.name}/{p.name}": p for p in sorted(folder.glob("*.safetensors"))}
    return {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in found.items()}


def table(found: dict[str, Any], title: str) -> Any:
    """The summary as a Rich table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    result = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("%", "n", "success (95 %)", "wrong", "contact", "timeout", "SPL", "s", "Msyn"):
        result.add_column(heading, justify="left" if heading == "%" else "right", no_wrap=True)
    rows = [("all", found["all"])]
    rows += [(k, g) for k, g in found["kind"].items()]
    rows += [(LANGUAGES.get(k, k), g) for k, g in found["lang"].items()]
    rows += [(VIEWS.get(k, k), g) for k, g in found["visibility"].items()]
    for label, g in rows:
        low, high = g["success"]["wilson95"]
        percent = lambda o: f"{100 * g[o]['share']:.1f}"  # noqa: B023, E731 - used within the round
        result.add_row(
            label, str(g["n"]), f"{percent('success')} ({100 * low:.1f}-{100 * high:.1f})", percent("wrong_object"),
            percent("contact"), percent("timeout"), "" if g["spl"] is None else f"{g['spl']:.2f}",
            "" if g["time"] is None else f"{g['time']:.1f}", "" if g["synops"] is None else f"{g['synops'] / 1e6:.1f}")
    return result


def traffic_table(found: dict[str, dict[str, float]], budget: float) -> Any:
    """Formats what :func:`traffic` found as a Rich table; topics that sent most come first."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    result = Table(title=f"in each simulated second, with {budget:g} B/s for each region", box=SIMPLE_HEAD,
                   collapse_padding=True, pad_edge=False)
    for heading in ("topic", "messages", "bytes", "not sent", "cut", "bytes saved", "%"):
        result.add_column(heading, justify="left" if heading == "topic" else "right", no_wrap=True)
    for topic, t in sorted(found.items(), key=lambda item: -item[1]["bytes"] - item[1]["saved"]):
        offered = t["bytes"] + t["saved"]
        result.add_row(topic, f"{t['messages']:.1f}", f"{t['bytes']:.0f}", f"{t['gated']:.1f}", f"{t['cut']:.1f}",
                       f"{t['saved']:.0f}", f"{100 * t['saved'] / offered:.1f}" if offered else "")
    return result
