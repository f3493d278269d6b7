# SPDX-License-Identifier: Apache-2.0
"""`brain bench backends` sees what hosts differ in: who is slowed by one that is late, and who ends with one."""
import json
import signal
import subprocess
import sys

import pytest

from brain_bench import bench_backends, toy_brain
from brain_wire.waking import Flag

pytestmark = pytest.mark.slow


def told(text):
    """What is told of the progress."""
    assert text


@pytest.fixture(scope="module", params=bench_backends.HOSTS)
def brain(request):
    with bench_backends.toys(request.param, Flag()) as made:
        yield made


def test_who_is_slowed_by_a_relay_that_is_late(brain, monkeypatch):
    monkeypatch.setattr(bench_backends, "DELAYS", (0.5,))
    (row,) = bench_backends.late(brain, 4.0, told)
    assert set(row["rates"]) == set(toy_brain.TOYS) and row["delay"] == 0.5
    # only shares are compared: how fast anything is depends on the machine
    share = row["rates"]["aside"] / row["rates"]["relay"]
    assert (share > 4.0) if brain.host == "zenoh" else (share < 2.0)
    assert row["ages"]["sink"]["p50"] > 0.5
    if brain.host == "zenoh":
        assert row["ages"]["aside"]["p50"] < row["ages"]["sink"]["p50"] / 2


def test_who_is_started_again_with_one_that_is_killed(brain):
    found = brain.hurt("relay", signal.SIGKILL)
    assert found["new"] == (["relay"] if brain.host == "zenoh" else list(toy_brain.TOYS))
    assert found["back"] >= found["still"]["relay"] > 0.0


def test_descriptors_are_those_of_the_regions_processes(brain):
    counts = brain.descriptors()
    assert set(counts) == set(toy_brain.TOYS)
    # a region on Zenoh has its router alone; a rank has every other rank
    sockets = {count["sockets"] for count in counts.values()}
    assert min(sockets) >= (1 if brain.host == "zenoh" else len(toy_brain.TOYS))


def test_who_is_started_again_for_one_that_joins(brain):
    found = bench_backends.joined(brain, Flag(), told)
    assert found["restarted"] == ([] if brain.host == "zenoh" else list(toy_brain.TOYS)) and found["took"] > 0.0


def test_round_trips_of_all_sides():
    found = bench_backends.round_trips([300], 1, 20, Flag(), told)
    assert [row["busy"] for row in found] == [False, True]
    for row in found:
        assert {name for name in row if isinstance(row[name], dict)} == {
            "zenoh-host", "torch-host", "bare-zenoh", "bare-gloo"}
        assert all(side["p99"] >= side["p50"] > 0.0 for side in row.values() if isinstance(side, dict) and side["n"])
        assert row["torch-host"]["n"] == row["bare-gloo"]["n"] == 16      # what is sent blocking is not lost


def bench(*options):
    """`brain bench backends` as a process of its own: it takes a domain and signals for itself."""
    command = [sys.executable, "-m", "brain", "bench", "backends", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_experiment_that_there_is_not():
    done = bench("--only", "magic")
    assert done.returncode == 2 and "there is no such experiment" in done.stderr


def test_what_it_tells_is_json():
    done = bench("--quick", "--only", "topology", "--json")
    assert done.returncode == 0, done.stderr
    zenoh, torch = json.loads(done.stdout)["topology"]
    assert (zenoh["host"], torch["host"]) == bench_backends.HOSTS
    assert torch["processes"] == zenoh["processes"] + 1
