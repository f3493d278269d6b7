# SPDX-License-Identifier: Apache-2.0
"""A region spread over processes: equal to the one in a single process, and named and ended whole by its first loss."""
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from forked import forked_modules
from brain_collectives.columns import same_bits
from brain_regions.vision import weights as weight_file
from brain_runtime.graph import GraphError, RegionSpec, parse_graph
from brain_runtime.hosts.local import LocalHost
from brain_runtime.graph.resolve import resolve
from brain_runtime.hosts.shards import ShardError, Shards
from brain_runtime.contract.stepper import RegionError
from brain_tests.processes import children, command, gone
from brain_wire import messages
from brain_wire.parameter_services import value_message

VISION = "brain_regions.vision:Vision"
PATIENCE = 240.0     # s; only against waiting for ever
LOSSES = [(signal.SIGKILL, "was killed by SIGKILL"), (signal.SIGSTOP, "did not answer in time")]
WORK = "brain_tests.shard_works:misbehave"


@pytest.fixture(scope="module", autouse=True)
def _forks():
    """Shards of this process are forks; where a process or a brain of its own starts them, they are as shipped."""
    with forked_modules():
        yield


def image(number):
    """A picture message: patches that move, with noise."""
    base = weight_file.patches().astype(int)
    noise = np.random.default_rng(number).integers(-30, 30, base.shape)
    data = np.clip(np.roll(base, 2 * number, 1) + noise, 0, 255).astype(np.uint8)
    return messages.make("sensor_msgs/msg/Image", height=64, width=96, step=96 * 3, encoding="rgb8",
                         data=data.reshape(-1))


class Seeing:
    """Vision alone in lockstep, over so many processes."""

    def __init__(self, count=1, backend="gloo", timeout=20.0, state=None, **parameters):
        self.region = RegionSpec("vision", VISION, shards=count, backend=backend, shard_timeout=timeout).make()
        self.host = LocalHost({}, seed=3)
        self.told = []
        for topic in ("vision/objects", "brain/spikes"):
            self.host.listen(topic, lambda m, topic=topic: self.told.append((topic, messages.encode(m))))
        try:
            self.host.join("vision", self.region, state, parameters=parameters)
        except BaseException:
            self.end()
            raise

    def see(self, numbers, every=0.05):
        for number in numbers:
            self.host.publish("camera/image_raw", image(number), latch=False)
            self.host.advance(every)

    def state(self):
        """All of it, as a snapshot would hold it."""
        return {name: np.array(value, dtype=np.float32) for name, value in self.host.stepper("vision").state.items()}

    def set(self, **values):
        """Sets parameters as others do; the reason where it is refused."""
        request = messages.make("rcl_interfaces/srv/SetParametersAtomically_Request", parameters=[
            messages.make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value))
            for name, value in values.items()])
        return self.host.call("vision/set_parameters_atomically", request).result.reason

    def shards(self):
        return self.region.shards.processes()

    def end(self):
        if self.region.shards is not None:
            self.region.shards.close()


@pytest.fixture
def seeing():
    made = []

    def make(*arguments, **more):
        made.append(Seeing(*arguments, **more))
        return made[-1]
    yield make
    for one in made:
        one.end()
        assert one.region.shards is None or one.shards() == []


def same(one, other):
    assert one.told == other.told and len(one.told) > 5
    assert (one.region.spikes, one.region.synops) == (other.region.spikes, other.region.synops)
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert same_bits(ours[name], value), name


@pytest.mark.extended(3, 4)
@pytest.mark.parametrize(("count", "backend"), [(3, "gloo"), (4, "gloo"), (2, "zenoh")])
def test_vision_over_processes_is_vision_to_the_bit(seeing, tmp_path, count, backend):
    """With time that varies, parameters that change meanwhile, and a state that another process goes on from."""
    other = tmp_path / "same.safetensors"
    shutil.copy(weight_file.SHIPPED, other)
    split, whole = seeing(count, backend), seeing()
    for one in (split, whole):
        one.see(range(5))
        one.see(range(5, 9), every=0.003)       # too short for a micro-step
        assert one.set(silent=True) == ""
        one.see(range(9, 11))
        assert one.set(silent=False) == ""
        one.see(range(11, 13))
        assert one.set(weights=str(other)) == ""
        one.see(range(13, 16))
        assert "keeps the weights" in one.set(weights=str(tmp_path / "none.safetensors"))
        one.see(range(16, 19))
    same(split, whole)
    kept = split.state()
    processes = split.shards()
    split.host.leave("vision")
    assert len(processes) == count - 1 and all(map(gone, processes))
    after, before = seeing(count, backend, state=kept), seeing(state=kept)
    for one in (after, before):
        one.see(range(19, 23))
    same(after, before)


def test_lesions_over_processes_are_those_of_one(seeing):
    lesions = ("edges=drop:0.3", "wide=noise:0.01")
    split, whole = seeing(2, lesions=lesions), seeing(lesions=lesions)
    for one in (split, whole):
        one.see(range(10))
    same(split, whole)


@pytest.mark.extended("zenoh")
@pytest.mark.parametrize(("number", "words"), LOSSES)
@pytest.mark.parametrize("backend", ["gloo", "zenoh"])
def test_a_shard_that_goes_is_named_and_none_is_left(seeing, backend, number, words):
    split = seeing(2, backend, timeout=3.0)
    split.see(range(3))
    processes = split.shards()
    os.kill(processes[0], number)
    with pytest.raises(RegionError, match=rf"shard 1 of vision \(process {processes[0]}\) {words}"):
        split.see(range(3, 6))
    assert all(map(gone, processes)) and split.shards() == []


def test_a_state_that_went_with_a_shard_is_an_error_too(seeing):
    split = seeing(2)
    split.see(range(3))
    os.kill(split.shards()[0], signal.SIGKILL)
    with pytest.raises(ShardError, match="shard 1 of vision .* was killed"):
        split.state()
    with pytest.raises(ShardError, match="were ended"):
        split.state()


# -- groups that cannot be, or do not stay ---------------------------------------------------------------------------


@pytest.fixture
def shards():
    made = []

    def make(count=2, **more):
        made.append(Shards(WORK, "region", count, **{"timeout": 10.0, **more}))
        return made[-1]
    yield make
    for one in made:
        one.close()


def test_other_code_at_a_shard_is_refused_and_named(shards):
    one = shards()
    one._facts["code"] = "0123456789abcdef"     # as if it had been changed since this process began
    with pytest.raises(ShardError, match="shard 1 of region differs from shard 0 in code .*start the region again"):
        one.exchange()
    assert one.processes() == []


@pytest.mark.extended("zenoh")
@pytest.mark.parametrize("backend", ["gloo", "zenoh"])
def test_other_sizes_at_a_shard_end_in_an_error(shards, backend):
    one = shards(backend=backend, timeout=3.0)
    exchange = one.exchange()
    processes = one.processes()
    exchange.tell(b"all is well")
    assert [part.tolist() for part in exchange.gather(np.zeros(8, np.uint8), [8, 8])] == [[0] * 8, [1] * 8]
    exchange.tell(b"sizes")
    with pytest.raises(ShardError, match="shard 1 of region .* of another size"):
        exchange.gather(np.zeros(8, np.uint8), [8, 8])
    assert all(map(gone, processes))
    with pytest.raises(ValueError, match="where 8 bytes are due"):
        exchange.gather(np.zeros(9, np.uint8), [8, 8])


@pytest.mark.extended(b"raise")
@pytest.mark.parametrize("word", [b"end", b"raise"])
def test_a_shard_that_ends_by_itself_is_named_with_its_status(shards, word):
    one = shards(count=3)
    exchange = one.exchange()
    exchange.tell(word)
    with pytest.raises(ShardError, match=f"shard [12] of region .* ended with status {3 if word == b'end' else 1}"):
        exchange.gather(np.zeros(8, np.uint8), [8, 8, 8])
    again = one.exchange()      # new ones, of which the old group's leftovers are no part
    again.tell(b"all is well")
    assert [part[0] for part in again.gather(np.zeros(8, np.uint8), [8, 8, 8])] == [0, 1, 2]


def test_a_shard_that_cannot_start_is_told_of_at_once(shards):
    one = Shards("brain_tests.shard_works:nothing", "region", 2)
    began = time.monotonic()
    with pytest.raises(ShardError, match="shard 1 of region ended with status 2 before it was there"):
        one.exchange()
    assert time.monotonic() - began < PATIENCE and one.processes() == []


HOLDER = """
import sys
from brain_runtime.hosts.shards import Shards
shards = Shards("brain_tests.shard_works:misbehave", "region", 3)
shards.exchange()
print("up", *shards.processes(), flush=True)
sys.stdin.read()
"""


@pytest.mark.extended(signal.SIGINT, signal.SIGTERM)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_shard_outlives_its_region(number):
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    with process:
        started = [int(word) for word in process.stdout.readline().split()[1:]]
        assert len(started) == 2 and not any(map(gone, started))
        os.kill(started[0], signal.SIGSTOP)     # not even one that stands still
        process.send_signal(number)
        process.wait(PATIENCE)
        until = time.monotonic() + PATIENCE
        while not all(map(gone, started)):
            assert time.monotonic() < until
            time.sleep(0.05)


# -- in a graph ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shards", "words"), [
    ("two", "whole number of processes"), (0, "1 to 64"), (65, "1 to 64"), (True, "1 to 64"), (2.0, "whole number"),
    ([2], "whole number"), ({"count": 2, "ranks": 3}, "unknown keys ranks; known are backend, count, timeout"),
    ({"backend": "gloo"}, "whole number"), ({"count": 2, "backend": 3}, "must be a name"),
    ({"count": 2, "timeout": 0}, "0.1 to 3600"), ({"count": 2, "timeout": float("nan")}, "0.1 to 3600")])
def test_a_graph_that_says_it_wrongly_is_told_so(shards, words):
    with pytest.raises(GraphError, match=f"region vision.*{words}"):
        parse_graph({"regions": {"vision": {"class": VISION, "shards": shards}}}, "here")


@pytest.mark.parametrize(("entry", "words"), [
    ({"class": "brain_regions.motor:Motor", "shards": 2}, "declares no `split`; take `shards` away"),
    ({"class": VISION, "shards": 17}, "columns for 16 at most"),
    ({"class": VISION, "shards": {"count": 2, "backend": "mpi"}}, "no backend 'mpi' .*installed are .*gloo")])
def test_what_cannot_be_spread_is_refused(tmp_path, entry, words):
    path = tmp_path / "odd.graph.yaml"
    path.write_text(str({"name": "odd", "regions": {"region": entry}}))
    with pytest.raises(GraphError, match=words):
        resolve(path, robot=None, edges=False)


def test_an_ablation_that_cannot_be_spread_runs_in_one_process(tmp_path):
    from brain_runtime.contract.ablation import Ablation

    path = tmp_path / "eye.graph.yaml"
    path.write_text(str({"name": "eye", "regions": {"vision": {"class": VISION, "shards": 2}}}))
    found = resolve(path, robot=None, ablation=Ablation({"vision": "brain_eval.baselines.ann_vision:AnnVision"}))
    assert found.regions[0].shards == 1 and "not spread over processes" in found.warnings[0]
    assert resolve(path, robot=None).make()["vision"].shards.count == 2


# -- in a running brain ----------------------------------------------------------------------------------------------

TOYS = """
import numpy as np
from brain_runtime import FEATURE, SENSOR, In, Out, Region
from brain_regions.vision import weights

class Painter(Region):
    rate = 10.0
    image = Out("camera/image_raw", "sensor_msgs/msg/Image", SENSOR)

    def step(self, inbox, state, dt, rng):
        data = np.roll(weights.patches(), int(rng.integers(90)), 1).reshape(-1)
        return {"image": self.image(height=64, width=96, step=288, encoding="rgb8", data=data)}, state
"""


@pytest.mark.extended       # test_a_shard_that_goes_is_named_and_none_is_left, and test_faults of any region that ends
@pytest.mark.slow
@pytest.mark.parametrize(("case", "losses"), [("killed", LOSSES[:1]), ("frozen", LOSSES[1:])])
def test_in_a_brain_a_lost_shard_costs_its_region_alone(tmp_path, case, losses):
    """Vision fails, comes back with its state and new shards; the other region does not notice."""
    from brain_runtime import STREAM
    from brain_runtime.interfaces import Heartbeat
    from brain_wire import open_node
    from brain_wire.router import free_port

    port = free_port()
    (tmp_path / "painting.py").write_text(TOYS)
    graph = tmp_path / "spread.graph.yaml"
    graph.write_text(str({"name": "spread", "regions": {"vision": {"class": VISION, "shards": 2}},
                          "worlds": {"room": {"painter": "painting:Painter"}}}))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
                   "ROS_DOMAIN_ID": str(port % 200), "BRAIN_ROUTER": f"tcp/127.0.0.1:{port}"}
    beats, seen = {}, set()
    with open(tmp_path / "up.out", "wb") as out:
        up = subprocess.Popen(
            [sys.executable, "-m", "brain", "up", str(graph), "--world", "room", "--run-dir",
             str(tmp_path / "run"), "--state-dir", str(tmp_path / "state")], env=environment, stdout=out, stderr=out)
    text = lambda: (tmp_path / "up.out").read_text() + "".join(     # noqa: E731
        path.read_text() for path in (tmp_path / "run").glob("logs/*.log"))
    try:
        with open_node("shard_test", domain=port % 200, router=environment["BRAIN_ROUTER"], patience=PATIENCE) as node:
            heard = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, by_publisher=True)

            def until(condition, what):
                end = time.monotonic() + PATIENCE
                while not (found := condition()):
                    assert up.poll() is None and time.monotonic() < end, f"never: {what}\n{text()[-4000:]}"
                    time.sleep(0.05)
                    for arrival in heard.take():
                        beat = messages.decode(arrival.data, heard.type)
                        beats[beat.name.strip("/")] = beat
                return found

            def looking(not_pid=0, steps=0):
                beat = beats.get("vision")
                return (beat is not None and beat.state == Heartbeat.STATE_ACTIVE and beat.pid != not_pid
                        and beat.step > steps and beat.pid)

            vision = until(lambda: looking(steps=5), "vision to step")
            painter = until(lambda: beats.get("painter"), "a painter").pid
            for number, words in losses:
                until(lambda: list((tmp_path / "state").glob("**/vision.safetensors")), "a snapshot")
                (shard,) = [child for child in children(vision) if "brain_collectives.shard_process" in command(child)]
                seen |= {vision, shard}
                steps = beats["painter"].step
                os.kill(shard, number)
                before = vision
                vision = until(lambda: looking(not_pid=before, steps=5), f"vision to be back after {number.name}")
                assert f"shard 1 of vision (process {shard}) {words}" in text()
                assert beats["painter"].pid == painter and beats["painter"].step > steps
                assert all(map(gone, (before, shard)))
                assert text().count("restored the state of") == beats["vision"].restarts
            seen |= {vision, painter, *children(vision)}
            assert beats["vision"].restarts >= 1 and beats["painter"].restarts == 0
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(PATIENCE)
    assert up.returncode == 0, text()[-3000:]
    assert all(map(gone, seen))
