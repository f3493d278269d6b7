# SPDX-License-Identifier: Apache-2.0
"""`brain bench`: that it measures what it says; how fast this machine is, no test asks."""

import pytest

from brain_tests.bench_command import bench

pytestmark = pytest.mark.slow


def test_round_trips_of_each_size_beside_the_bare_wire():
    found, well = bench("wire", "--blocks", "1")
    assert [r["size"] for r in found["round_trips"]] == ["200 B", "12 KiB", "1 MiB"]
    assert all(r["n"] > 100 and 0 < r["bare_p50"] <= r["bare_p99"] and 0 < r["host_p50"] for r in found["round_trips"])
    assert well == all(r["within"] for r in found["round_trips"])


@pytest.mark.extended
def test_a_whole_brain_at_work():
    found, well = bench("brain", "--seconds", "8")
    assert set(found["pss_mb"]) >= {"router", "world", "camera", "vision", "language", "place", "pfc", "motor",
                                    "brainstem"}
    assert all(mb > 5 for mb in found["pss_mb"].values())
    assert [name for name, there in found["torch"].items() if there] == ["vision"]
    assert found["latency"]["n"] > 20 and 0 < found["latency"]["p50"] <= found["latency"]["p95"]
    assert not any(found["restarts"].values()) and found["ready_after"] > 0
    assert well == all(found["within"].values())
