# SPDX-License-Identifier: Apache-2.0
"""`brain bench` of a checkout: that it measures what it says; how fast this machine is, no test asks."""

import pytest

from brain_tests.bench_command import bench

pytestmark = pytest.mark.extended


def test_round_trips_through_a_secured_router_beside_a_plain_one():
    found, well = bench("tls", "--blocks", "3")    # one of which a lost message may end early
    assert well and [r["size"] for r in found["round_trips"]] == ["200 B", "12 KiB", "1 MiB"]
    assert all(r["n"] > 50 and r["ratio"] == r["secured_p50"] / r["plain_p50"] > 0 for r in found["round_trips"])


def test_a_cloud_with_few_robots_and_what_is_made_of_them_for_many():
    found, _ = bench("fleet-scale", "--robots", "2,5", "--idle", "2", "--orders", "2", "--burst", "3")
    assert [(one["robots"], one["burst"]) for one in found["sizes"]] == [(2, 6), (5, 15)]
    for one in found["sizes"]:
        assert 0 < one["applied_p50"] <= one["applied_p99"] <= one["applied_longest"]
        assert one["cloud_pss"] > 1e7 and one["robot_pss"] > 1e5 and one["orders_ran"] > 0 and one["messages_per_s"] > 0
    assert found["check"][0]["applied_p50"]["simulated"] > 0 and found["most_robots"] >= 1
    thousand, ten = found["larger"]
    assert (thousand["robots"], ten["robots"]) == (1000, 10_000) and ten["clouds"] >= thousand["clouds"] >= 1
    assert ten["clouds"] * ten["each"] >= 10_000 and 0 < ten["applied_p50"] <= ten["applied_p99"]
