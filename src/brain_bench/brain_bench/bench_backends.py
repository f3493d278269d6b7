# SPDX-License-Identifier: Apache-2.0
"""Experiments of ``brain bench backends``: the same small brain on ZenohHost and as a static group of TorchHost.

Each experiment is one of the reasons for which the brain moved from ``torch.distributed`` to Zenoh, as something that
could come out otherwise. Hosts are measured by turns.
"""
from __future__ import annotations

import signal
import statistics
import time
from typing import Any, Callable, Mapping, Sequence

from brain_bench.backend_peers import beside
from brain_bench.toy_brain import TOYS, ToyBrain, toys

HOSTS = ("zenoh", "torch")
DELAYS = (0.0, 0.005, 0.05, 0.5)        # s that a step of the relay takes
JOINED = "brain_bench.backend_regions:Aside"
Tell = Callable[[str], None]


# -- communication model: one region is late -------------------------------------------------------------------------


def late(brain: ToyBrain, seconds: float, tell: Tell) -> list[dict[str, Any]]:
    """For each delay of the relay: rates of all regions (Hz), and ages of what its two kinds of hearers hear (s)."""
    found = []
    for delay in DELAYS:
        brain.delay(delay)
        brain.rest(1.0)
        brain.ages()        # what was before does not count
        rates = brain.rates(seconds)
        found.append({"host": brain.host, "delay": delay, "rates": rates, "ages": brain.ages()})
        tell(f"{brain.host}: relay {delay:g} s late: " + ", ".join(f"{name} {rate:.1f} Hz"
                                                                   for name, rate in rates.items()))
    brain.delay(0.0)
    brain.rest(1.0)
    return found


# -- fault tolerance: one region is killed, or stands still ------------------------------------------------------------


def hurt(brain: ToyBrain, times: int, tell: Tell, whom: Mapping[signal.Signals, Sequence[str]] = {}
         ) -> list[dict[str, Any]]:
    """For each region and signal: s until all are active again (``back`` in the median), and who stood still meanwhile.

    ``still`` is the longest time (s) in which a region made no step. Each region is hurt so many ``times``; or those
    that ``whom`` names for a signal.
    """
    found = []
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for name in whom.get(number, brain.names):
            each = []
            for _ in range(times):
                brain.rest(1.0)
                each.append(brain.hurt(name, number))
            took = [one["back"] for one in each]
            found.append({"host": brain.host, "signal": number.name, "region": name, "new": each[-1]["new"],
                          "back": statistics.median(took), "least": min(took), "most": max(took),
                          "still": {other: max(one["still"][other] for one in each) for other in brain.names}})
            tell(f"{brain.host}: {name} gets {number.name}: whole again after {found[-1]['back']:.1f} s, in new "
                 f"processes: {', '.join(each[-1]['new'])}")
    return found


# -- topology and process management ------------------------------------------------------------------------------


def joined(brain: ToyBrain, stop: Any, tell: Tell) -> dict[str, Any]:
    """One region more: how long until it is active, and which others had to be started again.

    On Zenoh it is one process more beside the brain that runs. A static group has to be ended, and started with a graph
    that has one region more; until it is whole nothing runs.
    """
    before = {name: brain.pid(name) for name in brain.names}
    begin = time.monotonic()
    if brain.host == "torch":
        brain.supervised.stop()
        with toys("torch", stop, {**TOYS, "newcomer": JOINED}) as larger:
            took = time.monotonic() - begin
            restarted = [name for name in before if larger.pid(name) != before[name]]
    else:
        endpoint = brain.node.session.endpoint
        with beside("brain_runtime.process", "--class", JOINED, "--name", "newcomer", "--router", endpoint,
                    environment={"ROS_DOMAIN_ID": str(brain.node.domain)}):
            brain.wait(lambda: (beat := brain.beat("newcomer")) is not None and beat.step > 0, "the newcomer")
            took = time.monotonic() - begin
            restarted = [name for name in before if brain.pid(name) != before[name]]
    tell(f"{brain.host}: one region more after {took:.1f} s; started again: {', '.join(restarted) or 'none'}")
    return {"host": brain.host, "took": took, "restarted": restarted, "again": len(restarted)}
