# SPDX-License-Identifier: Apache-2.0
"""Results of ``brain bench backends``, in lines for a person."""
from __future__ import annotations

from typing import Any, Iterator


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Of all experiments that were made, in their order."""
    for part, told in (("topology", _topology), ("model", _model), ("faults", _faults), ("joining", _joining),
                       ("performance", _performance), ("scale", _scale), ("data", _data), ("ecosystem", _ecosystem),
                       ("complexity", _complexity), ("pairs", _pairs)):
        if part in found:
            yield from told(found[part])


def _topology(rows: Any) -> Iterator[str]:
    for row in rows:
        open_ones = ", ".join(f"{name} {count['open']} ({count['sockets']} sockets)"
                              for name, count in row["descriptors"].items())
        yield (f"{row['host']}: {row['processes']} processes, whole after {row['took']:.1f} s; open descriptors: "
               f"{open_ones}")


def _model(rows: Any) -> Iterator[str]:
    for row in rows:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in row["rates"].items())
        ages = ", ".join(f"{name} {1e3 * age['p50']:.1f} / {1e3 * age['p99']:.1f} ms"
                         for name, age in row["ages"].items() if age["n"])
        yield f"{row['host']}, relay {1e3 * row['delay']:g} ms late: steps/s {rates}; age p50 / p99: {ages}"


def _faults(rows: Any) -> Iterator[str]:
    for row in rows:
        still = ", ".join(f"{name} {longest:.1f} s" for name, longest in row["still"].items())
        yield (f"{row['host']}, {row['region']} gets {row['signal']}: whole again after {row['back']:.1f} s "
               f"({row['least']:.1f} to {row['most']:.1f}); stood still at most: {still}")


def _joining(rows: Any) -> Iterator[str]:
    for row in rows:
        yield (f"{row['host']}, one region more: at work after {row['took']:.1f} s; started again: "
               f"{', '.join(row['restarted']) or 'none'}")


def _us(seconds: float | None) -> str:
    return "not told" if seconds is None else f"{1e6 * seconds:.0f}"


def _performance(found: Any) -> Iterator[str]:
    for side, about in found["about"].items():
        yield f"{side}: {about}"
    for row in found["left_out"]:
        yield f"{row['side']} is left out: {row['why']}"
    for row in found["trips"]:
        sides = ", ".join(f"{name} {_us(taken['p50'])} / {_us(taken['p99'])} us" for name, taken in row.items()
                          if isinstance(taken, dict) and taken["n"])
        yield f"{row['size']} B there and back{', both cores busy' if row['busy'] else ''}, p50 / p99: {sides}"
    for row in found["over_bare"]:
        if row["more"] is not None:
            low, high = row["more_95"] or (row["more"], row["more"])
            yield (f"{row['size']} B there and back: zenoh-host takes {_us(row['more'])} us "
                   f"({_us(low)} to {_us(high)}) more than bare-zenoh, {row['share']:.0%}: the goal is "
                   f"{'kept' if row['kept'] else 'missed'}")
    for row in found["slowest"]:
        ours, gloos = row["zenoh-host"], row["bare-gloo"]
        share = "not known" if row["share"] is None else f"{row['share']:.2f}"
        yield (f"{row['size']} B there and back, both cores busy, {ours['n']} times: p99 of zenoh-host "
               f"{_us(ours['p99'])} us, of bare-gloo {_us(gloos['p99'])} us: share {share}")
    for row in found["one_way"]:
        sides = ", ".join(f"{name} {taken['rate']:.0f}/s, {taken['mb']:.1f} MB/s" for name, taken in row.items()
                          if isinstance(taken, dict) and taken["rate"] is not None)
        yield f"{row['size']} B one way: {sides}"


def _scale(rows: Any) -> Iterator[str]:
    for row in rows:
        yield row["wrong"] or (
            f"{row['processes']} processes, {row['host']}: up after {row['started']:.1f} s; each has "
            f"{row['connections']:.0f} connections and {row['descriptors']:.0f} descriptors; "
            f"{1e-6 * row['pss']:.0f} MB; {row['lost']} of {row['sent']} lost; "
            f"p50 / p99 {1e3 * row['p50']:.2f} / {1e3 * row['p99']:.1f} ms")


def _data(rows: Any) -> Iterator[str]:
    for row in rows:
        yield (f"{row['content']} as {row['called']}: {row['bytes']} B, encode {_us(row['encode'])} us, decode "
               f"{_us(row['decode'])} us, round trip {_us(row['trip'])} us; says {row['carries']}")


def _ecosystem(found: Any) -> Iterator[str]:
    for row in found["seen"]:
        yield row["wrong"] or (
            f"{row['host']}: {row['nodes']} nodes, {row['topics']} topics seen from outside"
            + ("" if row["echo"] is None else f"; a topic of 50 Hz is heard {row['echo']:.0f} times a second; "
               f"{row['processes']} processes, {row['services']} services; parameters: {', '.join(row['parameters'])}"))
    for row in found["shown"]:
        yield (f"{row['topics']} topics of {row['type']} (as {row['example']}): RViz {row['rviz'] or 'nothing'}, "
               f"Foxglove {row['foxglove']}")


def _complexity(rows: Any) -> Iterator[str]:
    for row in rows:
        yield (f"{row['host']}: {row['step']} lines of the step, {row['rest']} to declare and to wire it, "
               f"{row['graph']} of a graph, {row['others']} that must name it; ran: {row['ran']}")


def _pairs(found: Any) -> Iterator[str]:
    yield f"{found['played']} of {found['asked']} pairs of episodes played, at most {found['time_limit']:g} s each"
    for row in found["hosts"]:
        latency = "not known" if row["p50"] is None else f"{1e3 * row['p50']:.0f} / {1e3 * row['p95']:.0f} ms"
        cores = "not known" if row["cores"] is None else f"{row['cores']:.2f}"
        yield (f"{row['host']}: {row['reached']} of {row['n']} reached ({row['only']} that the other did not); "
               f"camera to wheels p50 / p95 {latency}; {cores} cores, "
               f"{row['memory'] / 1e6:.0f} MB; {row['restarts']} restarts")
    for row in found["hops"]:
        yield f"{row['host']}: {row['hop']}: p50 / p99 {_us(row['p50'])} / {_us(row['p99'])} us, {row['lost']} lost"
