# SPDX-License-Identifier: Apache-2.0
"""`brain bench ros`: that it measures what it says, and leaves nothing; how fast this machine is, no test asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rclpy.utilities import get_rmw_implementation_identifier


@pytest.mark.extended       # a bench's harness; `brain bench ros` itself says what it cannot measure
def test_it_takes_all_its_figures_and_leaves_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brain", "bench", "ros", "--blocks", "1", "--count", "10", "--idle", "1", "--ticks",
         "10", "--json"], env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["rmw"] == get_rmw_implementation_identifier()
    assert [trip["size"] for trip in found["round_trips"]] == ["200 B", "12 KiB", "1 MiB"] == list(found["typed"])
    for trip in (*found["round_trips"], *found["typed"].values()):
        values = [value for key, value in trip.items() if key.endswith(("p50", "p99"))]
        assert all(0 < value < 5 for value in values) and len(values) in (2, 4)
    assert list(found["p95"]) == list(found["typed"])
    assert all(0 < side[of] < 5 for side in found["p95"].values() for of in ("bare", "host"))
    assert 0 <= found["idle"] < 1
    for side in found["memory"].values():   # not a matter of the clock: what regions without torch may take
        assert 10e6 < side["bare"] < side["host"] <= side["bare"] + 15e6, found["memory"]
    assert set(found["memory"]) == {"brainstem", "goals", "place"}
    assert all(off["n"] > 20 and 0 <= off["p50"] <= off["p99.9"] for off in found["jitter"].values())
    assert (done.returncode == 0) == all(found["within"].values())
    left = [pid for pid in Path("/proc").iterdir() if pid.name.isdecimal() and b"experiments.ros_bench" in command(pid)]
    assert left == []


def command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it has ended
