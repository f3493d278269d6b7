# SPDX-License-Identifier: Apache-2.0
"""`brain bench backends` sees what hosts differ in: who is slowed by one that is late, and who ends with one."""
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from brain_wire.wakeup import Flag
from experiments import (backend_complexity, backend_data, backend_ecosystem, backend_pairs, backend_picture,
                         backend_scale, backend_sides, backend_trips, backends, toy_brain)
from experiments.processes import NoPeer, OutsidePeer

pytestmark = pytest.mark.slow
SAVED = Path(__file__).resolve().parents[2] / "results" / "backends.json"


def told(text):
    """What is told of the progress."""
    assert text


@pytest.fixture(scope="module", params=backends.HOSTS)
def brain(request):
    with toy_brain.toys(request.param, Flag()) as made:
        yield made


@pytest.mark.extended
def test_who_is_slowed_by_a_relay_that_is_late(brain, monkeypatch):
    monkeypatch.setattr(backends, "DELAYS", (0.5,))
    (row,) = backends.late(brain, 4.0, told)
    assert set(row["rates"]) == set(toy_brain.TOYS) and row["delay"] == 0.5
    # only shares are compared: how fast anything is depends on the machine
    share = row["rates"]["aside"] / row["rates"]["relay"]
    assert (share > 4.0) if brain.host == "zenoh" else (share < 2.0)
    assert row["ages"]["sink"]["p50"] > 0.5
    if brain.host == "zenoh":
        assert row["ages"]["aside"]["p50"] < row["ages"]["sink"]["p50"] / 2


@pytest.mark.extended
def test_who_is_started_again_with_one_that_is_killed(brain):
    found = brain.hurt("relay", signal.SIGKILL)
    assert found["new"] == (["relay"] if brain.host == "zenoh" else list(toy_brain.TOYS))
    assert found["back"] >= found["still"]["relay"] > 0.0


@pytest.mark.extended
def test_descriptors_are_those_of_the_regions_processes(brain):
    counts = brain.descriptors()
    assert set(counts) == set(toy_brain.TOYS)
    # a region on Zenoh has its router alone; a rank has every other rank
    sockets = {count["sockets"] for count in counts.values()}
    assert min(sockets) >= (1 if brain.host == "zenoh" else len(toy_brain.TOYS))


@pytest.mark.extended
def test_what_is_seen_from_outside(brain):
    found = backend_ecosystem.seen(brain, 1.0)
    assert found["nodes"] == 4 and found["hashes"] and found["decode"] and found["echo"] > 1.0
    assert "late" in found["parameters"] and found["processes"] == (4 if brain.host == "zenoh" else 1)


@pytest.mark.extended
def test_who_is_started_again_for_one_that_joins(brain):
    found = backends.joined(brain, Flag(), told)
    assert found["restarted"] == ([] if brain.host == "zenoh" else list(toy_brain.TOYS)) and found["took"] > 0.0


@pytest.fixture(scope="module")
def sides():
    with backend_sides.Sides(Flag(), told) as made:
        yield made


@pytest.mark.extended
def test_round_trips_of_all_sides(sides):
    found = backend_trips.round_trips(sides.trips, [300], [300], 1, 20, sides.left_out, told)
    assert [row["busy"] for row in found] == [False, True]
    assert set(sides.left_out) <= {"ros-host", "dora"}
    assert set(sides.trips) == set(backend_sides.NAMES) - set(sides.left_out) and all(sides.left_out.values())
    for row in found:
        taken = {name: side for name, side in row.items() if isinstance(side, dict)}
        assert set(taken) == set(sides.trips)
        assert all(side["p50"] > 0.0 and side["p99"] is None for side in taken.values() if side["n"])
        assert row["torch-host"]["n"] == row["bare-gloo"]["n"] == 16      # what is sent blocking is not lost


@pytest.mark.extended
def test_what_goes_one_way(sides):
    flows = {name: sides.flows[name] for name in ("zenoh-peer", "bare-zenoh", "bare-gloo")}
    (row,) = backend_trips.one_way(flows, [4096], 1, 0.2, {}, told)
    assert all(row[name]["rate"] > 1.0 and row[name]["mb"] == pytest.approx(row[name]["rate"] * 4096e-6)
               for name in flows)
    assert row["bare-gloo"]["seen"] == 1.0


class Steady:
    """A side whose round trips take what is known beforehand."""

    def __init__(self, seconds):
        self.seconds = seconds

    def block(self, size, count):
        return [self.seconds * (10.0 if n % 50 == 49 else 1.0) for n in range(count)]


def test_the_goal_is_a_share_of_gloos_99th_percentile():
    found = backend_trips.slowest({"zenoh-host": Steady(1e-4), "bare-gloo": Steady(1e-3)}, 3, {}, told)
    assert [row["size"] for row in found] == list(backend_trips.GOAL_SIZES)
    for row in found:
        assert row["share"] == pytest.approx(0.1) and row["kept"] is True
        # of thousands, one in fifty is slow: the 99th percentile is one of those
        assert row["bare-gloo"]["n"] == 2400 and row["bare-gloo"]["p99"] == pytest.approx(1e-2)
        assert row["bare-gloo"]["p99_95"] == pytest.approx([1e-2, 1e-2])


@pytest.mark.parametrize("ours, kept", [(3.5e-4, True), (3.7e-4, False)])
def test_the_goal_over_bare_zenoh_is_a_fifth(ours, kept):
    found = backend_trips.over_bare({"zenoh-host": Steady(ours), "bare-zenoh": Steady(3e-4)}, 5, {}, told)
    assert [row["size"] for row in found] == list(backend_trips.GOAL_SIZES)
    for row in found:
        assert row["more"] == pytest.approx(ours - 3e-4) and row["share"] == pytest.approx((ours - 3e-4) / 3e-4)
        assert row["kept"] is kept and row["more_95"] == pytest.approx([ours - 3e-4] * 2)
        assert row["bare-zenoh"]["n"] == 5 * 200 and row["bare-zenoh"]["p50"] == pytest.approx(3e-4)


def test_the_goal_over_bare_zenoh_is_40_us_where_that_is_more():
    for row in backend_trips.over_bare({"zenoh-host": Steady(1.3e-4), "bare-zenoh": Steady(1e-4)}, 5, {}, told):
        assert row["share"] == pytest.approx(0.3) and row["kept"] is True


def test_nothing_is_compared_with_a_side_that_is_mute():
    left_out = {}
    for row in backend_trips.over_bare({"zenoh-host": Steady(1e-4), "bare-zenoh": Mute(0)}, 5, left_out, told):
        assert row["more"] is row["more_95"] is row["share"] is row["kept"] is None and row["bare-zenoh"]["n"] == 0
    assert list(left_out) == ["bare-zenoh, there and back"]


class Mute(Steady):
    """A side of which nothing comes back any more after so many blocks."""

    def __init__(self, blocks):
        super().__init__(1e-4)
        self.blocks = blocks

    def block(self, size, count):
        self.blocks -= 1
        return super().block(size, count) if self.blocks >= 0 else []


def test_a_side_that_does_not_answer_is_named_and_not_asked_again():
    class Gone(Steady):
        def block(self, size, count):
            raise NoPeer("it has ended")
    mute, left_out = Mute(2), {}
    sides = {"steady": Steady(1e-4), "mute": mute, "gone": Gone(1e-4)}
    first, second = backend_trips.round_trips(sides, [8, 16], [], 3, 50, left_out, told)
    assert (first["steady"]["n"], first["mute"]["n"]) == (120, 80)
    assert set(left_out) == {"mute, there and back", "gone, there and back"}
    assert all("8 bytes" in why for why in left_out.values()) and "it has ended" in left_out["gone, there and back"]
    assert "mute" not in second and mute.blocks == -1


def test_a_side_that_could_not_be_had_stands_in_each_row():
    (row,) = backend_trips.complete([{"size": 1, "dora": {"n": 5}}], ("dora", "ros-host"), {"n": 0})
    assert row == {"size": 1, "dora": {"n": 5}, "ros-host": {"n": 0}}


def test_medians_are_told_with_how_far_blocks_differ():
    class Slower(Steady):
        def block(self, size, count):
            self.seconds += 1e-3
            return [self.seconds] * count
    (row,) = backend_trips.round_trips({"slower": Slower(0.0)}, [8], [], 3, 50, {}, told)
    assert [row["slower"][name] for name in ("least", "p50", "most")] == pytest.approx([1e-3, 2e-3, 3e-3])


@pytest.mark.parametrize("parts", [None, (), ("model", "pairs")])
def test_a_picture_of_what_was_measured(tmp_path, parts):
    """All that is saved, nothing, and some of it."""
    figures = json.loads(SAVED.read_text())["figures"]
    backend_picture.draw(tmp_path / "one.png", figures if parts is None else {name: figures[name] for name in parts})
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_no_99th_percentile_of_a_few():
    few, many = backend_trips.quantiles([1.0] * 999), backend_trips.quantiles([1.0] * 985 + [2.0] * 15)
    assert few["p99"] is None and many["p99"] == 2.0 and many["p50"] == 1.0
    assert backend_trips.interval([[1.0], [1.0]]) is None


def test_every_form_carries_the_same_numbers():
    for name, form in backend_data.FORMS.items():
        array = backend_data.content(form.content)
        write, read = backend_data.coders(name)
        got = read(write(array))
        assert got.dtype == array.dtype and np.array_equal(got, array), name


@pytest.mark.extended
def test_what_forms_of_data_cost():
    rows = {row["form"]: row for row in backend_data.measure(1, 10, Flag(), told)}
    assert set(rows) == set(backend_data.FORMS)
    assert all(row["encode"] > 0.0 and row["decode"] > 0.0 for row in rows.values())
    assert any(row["trip"] is not None for row in rows.values())
    assert rows["dense_tensor"]["bytes"] < rows["dense_json"]["bytes"] / 2
    assert rows["spikes_tensor"]["bytes"] < rows["spikes_ros"]["bytes"] / 4


def test_lines_with_code_are_counted(tmp_path):
    file = tmp_path / "one.py"
    file.write_text('"""Two\nlines."""\n# none\nimport os\n\nPLACE = 1\n\n\n'
                    'def step(a,\n         b):\n    """None."""\n    return (a,\n            b)\n\n\nprint(PLACE)\n')
    assert backend_complexity.counted(file) == {"step": 4, "rest": 3}
    assert backend_complexity.named(file, "PLACE") == 2
    assert backend_complexity.changed("a\nb\n", "a\nc\nb\n") == 1
    assert backend_complexity.changed("a\nb\n", "a\nc\n") == 2


@pytest.mark.extended
def test_the_examples_that_are_counted_run():
    rows = {row["host"]: row for row in backend_complexity.measure(Flag(), told)}
    assert set(rows) == set(backend_complexity.EXAMPLES)
    ran = {host for host, row in rows.items() if row["ran"] == "yes"}
    assert ran >= {"LocalHost", "ZenohHost", "TorchHost", "bare eclipse-zenoh", "bare torch.distributed"}
    assert rows["ZenohHost"]["graph"] == 1 and rows["ZenohHost"]["rest"] < rows["bare eclipse-zenoh"]["rest"]


def test_types_that_nobody_shows_are_told_too():
    rows = {row["type"]: row for row in backend_ecosystem.shown()}
    assert rows["sensor_msgs/msg/Image"]["rviz"] == "Image" and rows["brain_interfaces/msg/Control"]["rviz"] == ""


@pytest.mark.extended
def test_a_group_of_three_beside_three_nodes():
    rows = {row["host"]: row for row in backend_scale.compared([3], 1.0, told)}
    for row in rows.values():
        assert row["wrong"] == "" and row["sent"] == 30 and row["p99"] >= row["p50"] > 0.0 and row["pss"] > 1e6
    assert rows["zenoh"]["connections"] == 1        # with the router
    assert rows["gloo"]["connections"] >= 2         # with each other rank


def test_an_outside_peer_that_ends_early_costs_what_it_was_asked(tmp_path):
    short = ("import os, socket\n"
             "socket.create_connection(('127.0.0.1', int(os.environ['BENCH_ORDERS']))).sendall(b'{\"about\": 1}\\n')")
    with OutsidePeer("it", [sys.executable, "-c", short], {}, tmp_path / "log") as peer:
        for _ in range(3):      # the first may still be written
            with pytest.raises(NoPeer, match="it "):
                peer.block(8, 1)


def test_an_outside_peer_that_does_not_start_says_why(tmp_path):
    with pytest.raises(NoPeer, match="no such luck"):
        OutsidePeer("it", [sys.executable, "-c", "raise SystemExit('no such luck')"], {}, tmp_path / "log")


def test_without_ros_the_row_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert "make test" in backend_ecosystem.on_ros()["wrong"]


def test_sums_of_pairs_and_their_hops():
    def side(success, p50, hop):
        return {"reached": success, "outcome": "", "time": 9.0, "wall": 12.0, "cores": 1.0,
                "latency": {"n": 5, "p50": p50, "p95": 0.2}, "memory": 5e8, "restarts": 0, "hops": {
                    "/scan /world > /place": {"p50": hop, "p99": None, "lost": 1},
                    "/brain/heartbeat /pfc > /brainstem": {"p50": hop, "p99": hop, "lost": 0}}}
    made = [{"zenoh": side(True, 0.02, 1e-3), "torch": side(False, 0.04, 3e-3)},
            {"zenoh": side(True, 0.03, 2e-3), "torch": side(True, 0.05, 5e-3)}]
    zenoh = backend_pairs._sums("zenoh", made)
    assert (zenoh["n"], zenoh["reached"], zenoh["only"], zenoh["started"]) == (2, 2, 1, 3.0)
    assert zenoh["p50"] == pytest.approx(0.025)
    assert backend_pairs._hops(made) == [
        {"host": "torch", "hop": "/scan /world > /place", "p50": 4e-3, "p99": None, "lost": 2},
        {"host": "zenoh", "hop": "/scan /world > /place", "p50": 1.5e-3, "p99": None, "lost": 2}]


def test_who_watches_counts_processes_and_what_they_start(tmp_path):
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        try:
            while len(backend_pairs.family([process.pid])) < 2:
                assert process.poll() is None
            assert backend_pairs.core_time(process.pid) is not None and backend_pairs.memory_of(process.pid) > 0
        finally:
            process.stdin.close()
    assert backend_pairs.family([process.pid]) == [process.pid] and backend_pairs.core_time(process.pid) is None


def bench(*options):
    """`brain bench backends` as a process of its own: it takes a domain and signals for itself."""
    command = [sys.executable, "-m", "brain", "bench", "backends", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_experiment_that_there_is_not():
    done = bench("--only", "magic")
    assert done.returncode == 2 and "there is no such experiment" in done.stderr


@pytest.mark.extended
def test_what_it_tells_is_json():
    done = bench("--quick", "--only", "topology", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["taken"][0]["part"] == "model" or found["taken"][0]["part"] == "topology"
    zenoh, torch = found["topology"]
    assert (zenoh["host"], torch["host"]) == backends.HOSTS
    assert torch["processes"] == zenoh["processes"] + 1
