# SPDX-License-Identifier: Apache-2.0
"""Copies of a region: the same weights, and the mean of what they adapt, in lockstep and as ranks to the bit."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from brain_runtime.contract.ablation import Ablation
from brain_runtime.contract.copies import CopiesError
from brain_runtime.graph import GraphError, parse_graph
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.local import LocalHost
from brain_collectives.hosts.torch import TorchHost
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.contract.stepper import RegionError
from brain_collectives.hosts.torch_gateway import Ticks
from brain_collectives.hosts.torch_ranks import Ranks
from brain_runtime.contract import snapshot
from brain_tests import in_process
from brain_tests.copied_regions import FEATURES
from brain_wire import messages
from brain_wire.services import service_type

USED = "brain_tests.copied_regions:Used"
SIDES = {"left": "left/light", "right": "right/light", "alone": "right/light"}


def three(**weights):
    """Two copies that hear other things, and a third region of their class that is none of them."""
    return Resolved("pair", tuple(ResolvedRegion(
        name, USED, remap={"light": topic, "fresh": f"{name}/fresh"}, parameters={"weights": weights.get(name, "")},
        copies="" if name == "alone" else "eyes", average_every=0.5) for name, topic in SIDES.items()), host="torch")


def made(resolved, seed=0):
    return LocalHost(resolved.make(), seed=seed, parameters=resolved.parameters())


def light(value):
    return messages.make(FEATURES, hazard=np.linspace(0.0, value, 36, dtype=np.float32))


def levels(states, folder):
    """The levels that snapshots of the regions hold."""
    found = {}
    for name, region in made(three()).regions.items():
        path = folder / f"{name}.safetensors"
        path.write_bytes(states[name])
        found[name] = snapshot.read(path, region)["levels"]
    return found


@pytest.fixture(scope="module")
def ranks():
    with Ranks(3) as some:
        yield some


def test_copies_take_the_mean_and_others_do_not():
    host = made(three())
    host.publish("left/light", light(1.0))
    host.publish("right/light", light(0.2))
    host.advance(0.45)
    before = {name: host.stepper(name).state["levels"].copy() for name in SIDES}
    assert not np.array_equal(before["left"], before["right"])
    assert np.array_equal(before["right"], before["alone"])
    host.advance(0.051)     # one more step at 0.5 s, and then the mean
    stepped = {name: before[name] + np.float32(0.1) * (light(value).hazard.reshape(2, 18) - before[name])
               for name, value in (("left", 1.0), ("right", 0.2), ("alone", 0.2))}
    mean = ((stepped["left"].astype(np.float64) + stepped["right"]) / 2).astype(np.float32)
    after = {name: host.stepper(name).state for name in SIDES}
    assert np.array_equal(after["left"]["levels"], mean) and np.array_equal(after["right"]["levels"], mean)
    assert np.array_equal(after["alone"]["levels"], stepped["alone"])
    assert after["left"]["steps"] == 11     # what is not adaptive is each one's own


@pytest.mark.extended(3)
@pytest.mark.parametrize("seed", [2, 3])
def test_ranks_compute_what_lockstep_computes(ranks, tmp_path, seed):
    resolved = three()
    host, local = TorchHost(ranks.group, resolved, seed), made(resolved, seed)
    heard = {one: [] for one in (host, local)}
    for one in (host, local):
        for name in SIDES:
            one.listen(f"{name}/fresh", lambda m, one=one: heard[one].append(messages.encode(m)))
        for value in (1.0, 0.3, 0.7):
            one.publish("left/light", light(value))
            one.publish("right/light", light(value / 3))
            one.advance(0.77)
    assert len(heard[local]) > 100 and heard[host] == heard[local]
    found = levels(host.snapshot(), tmp_path)
    for name in SIDES:
        assert np.array_equal(found[name], local.stepper(name).state["levels"])


def test_one_that_is_not_finite_takes_the_mean_of_the_others_and_does_not_spoil_it(caplog):
    host = made(three())
    host.publish("left/light", light(np.nan))
    host.publish("right/light", light(1.0))
    host.advance(0.501)
    left, right = (host.stepper(name).state["levels"] for name in ("left", "right"))
    assert np.isfinite(right).all() and right.any() and np.array_equal(left, right)
    assert "the adaptive state of left is not finite" in caplog.text


def test_a_copy_that_is_not_configured_is_waited_for_and_counts_nothing(ranks, tmp_path):
    host = TorchHost(ranks.group, three(), 1)
    change = service_type("lifecycle_msgs/srv/ChangeState").request
    for transition in (4, 2):       # deactivate, cleanup
        done = host.call("left/change_state", messages.make(change, transition=messages.make(
            "lifecycle_msgs/msg/Transition", id=transition)))
        assert done.success
    host.publish("right/light", light(1.0))
    host.advance(0.6)
    local = made(three(), 1)
    local.publish("right/light", light(1.0))
    local.advance(0.6)
    states = host.snapshot()
    assert states["left"] == b""
    found = levels({**states, "left": states["right"]}, tmp_path)
    assert np.array_equal(found["right"], local.stepper("alone").state["levels"])


def test_all_copies_have_the_weights_of_the_first(ranks, tmp_path):
    """Where files differ, as on two machines; a name alone would not show it."""
    for name, size in (("left", 3_000), ("right", 900)):
        (tmp_path / f"{name}.safetensors").write_bytes(np.random.default_rng(size).bytes(size))
    files = {name: str(tmp_path / f"{name}.safetensors") for name in ("left", "right")}
    host = TorchHost(ranks.group, three(**files, alone=files["right"]), 0)
    beats = {}
    host.listen("brain/heartbeat", lambda m: beats.update({m.name.rpartition("/")[2]: m.weights}))
    host.advance(0.2)
    of_file = {name: hashlib.sha256(open(path, "rb").read()).hexdigest()[:16] for name, path in files.items()}
    assert beats == {"left": of_file["left"], "right": of_file["left"], "alone": of_file["right"]}
    assert "right has other weights than left" in ranks.log(2)


def test_weights_that_the_first_cannot_read(ranks, tmp_path):
    there = tmp_path / "right.safetensors"
    there.write_bytes(b"something")
    with pytest.raises(RegionError, match=r"left \(rank 1\) could not begin: FileNotFoundError"):
        TorchHost(ranks.group, three(left=str(tmp_path / "none.safetensors"), right=str(there)), 0)


@pytest.mark.extended       # of any rank test_torch_host.py shows it
def test_a_copy_that_is_killed_is_named():
    with Ranks(3, timeout=5.0) as some:
        host = TorchHost(some.group, three(), 0)
        host.advance(0.2)
        os.kill(some.processes()[1], signal.SIGKILL)
        with pytest.raises(GroupError) as raised:
            for _ in range(40):
                host.advance(0.1)
        assert str(some.why(raised.value)).startswith("right (rank 2) was killed by SIGKILL")


def test_an_entry_that_the_state_does_not_have():
    resolved = Resolved("pair", tuple(ResolvedRegion(name, "brain_tests.copied_regions:Listed", copies="eyes")
                                      for name in ("left", "right")))
    with pytest.raises(CopiesError, match="left: Listed.adaptive names gains.*it has levels, steps"):
        made(resolved)


# -- the graph -----------------------------------------------------------------------------------------------------

PAIR = """
regions:
  left: {class: "brain_tests.copied_regions:Used", copies: {name: eyes, every: 0.5}, remap: {fresh: left/fresh}}
  right: {class: "brain_tests.copied_regions:Used", copies: {name: eyes, every: 0.5}, remap: {fresh: right/fresh}}
"""


@pytest.fixture
def graph(tmp_path):
    def write(text=PAIR):
        path = tmp_path / "pair.graph.yaml"
        path.write_text(text)
        return path
    return write


def test_a_graph_with_copies(graph):
    resolved = resolve(graph(), host="torch", robot=None)
    (copies,) = resolved.copies
    assert copies.members == ("left", "right") and copies.every == 0.5 and resolved.warnings == ()
    assert Resolved.from_json(resolved.to_json()) == resolved
    zenoh = resolve(graph(), host="zenoh", robot=None)
    assert any("copies eyes (left, right)" in w and "keeps its own levels" in w for w in zenoh.warnings)


@pytest.mark.parametrize("before, after, why", [
    ("left: {class: \"brain_tests.copied_regions:Used\", copies: {name: eyes, every: 0.5},", "left: {class: "
     "\"brain_tests.copied_regions:Used\",", "copies eyes: right is alone"),
    ("left: {class: \"brain_tests.copied_regions:Used\"", "left: {class: \"brain_tests.copied_regions:Listed\"",
     "right is a Used, and left a Listed"),
    ("right: {class: \"brain_tests.copied_regions:Used\", copies: {name: eyes, every: 0.5}",
     "right: {class: \"brain_tests.copied_regions:Used\", copies: {name: eyes, every: 2}", "every 2 s, and left.*0.5"),
    ("name: eyes, every: 0.5", "name: eyes, every: 0", "`every` of `copies`"),
    ("name: eyes, every: 0.5", "name: 3", "`copies` must be a name"),
    ("name: eyes, every: 0.5", "name: eyes, often: 3", "unknown keys often"),
    ("{name: eyes, every: 0.5}", "[eyes]", "`copies` must be a name"),
])
def test_graphs_that_are_refused(graph, before, after, why):
    assert before in PAIR
    with pytest.raises(GraphError, match=why):
        resolve(graph(PAIR.replace(before, after)), host="torch", robot=None)


def test_other_weights_by_name_are_refused(graph, tmp_path):
    with pytest.raises(GraphError, match="right and left are given other weights"):
        resolve(graph(), host="torch", robot=None, parameters={"left": {"weights": str(tmp_path / "a")}})


def test_what_an_ablation_makes_another_region_is_no_copy(graph):
    resolved = resolve(graph(), host="local", robot=None,
                       ablation=Ablation(classes={"right": "brain_tests.copied_regions:Listed"}))
    assert resolved.copies == ()
    assert any("region right is no copy" in warning for warning in resolved.warnings)


def test_a_dry_run_says_so(graph):
    done = in_process.brain("up", str(graph()), "--world", "none", "--host", "torch", "--robot",
                            "diff_drive_controller", "--dry-run", environment={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a copy of eyes") == 2


def test_topics_by_other_names_in_lockstep():
    """The graph's names count on every host, so that two copies can hear two cameras."""
    content = {"regions": {"left": {"class": USED, "remap": {"light": "lamp", "fresh": "left/fresh"}}}}
    spec = parse_graph(content, "one").regions[0]
    host = LocalHost({"left": spec.make()})
    heard = []
    host.listen("left/fresh", heard.append)
    host.publish("light", light(1.0))
    host.advance(0.2)
    assert not heard
    host.publish("lamp", light(1.0))
    host.advance(0.2)
    assert heard


# -- a synchronous tick ----------------------------------------------------------------------------------------------

NAMES = ("quick", "slow", "other")
TAKES = Resolved("ticking", tuple(ResolvedRegion(name, "brain_tests.copied_regions:Takes") for name in NAMES),
                 host="torch")


def test_a_tick_tells_who_took_long(ranks, caplog):
    host = TorchHost(ranks.group, TAKES, 0)
    ticks = Ticks(host, 50.0)
    ticks.meet()
    before = {"slow": 0, **ticks.late}      # nobody computes; on a busy machine a tick may be late all the same
    host.advance(0.05)
    host.publish("goal", messages.make("std_msgs/msg/Float32", data=0.4))
    host.advance(0.05)
    ticks.meet()
    assert ticks.late == {**before, "slow": before["slow"] + 1} and ticks.number == 2
    assert "slow computed for 0.4" in caplog.text
    host.publish("goal", messages.make("std_msgs/msg/Float32", data=0.0))
    assert host.tick(7).keys() == set(NAMES)


def test_a_tick_names_all_who_have_not_come():
    with Ranks(3, timeout=2.0) as some:
        host = TorchHost(some.group, TAKES, 0)
        host.tick(0)
        frozen = [some.processes()[rank - 1] for rank in (1, 3)]
        freeze = threading.Timer(1.0, lambda: [os.kill(process, signal.SIGSTOP) for process in frozen])
        freeze.start()      # while all wait for the tick
        with pytest.raises(GroupError, match=r"^quick \(rank 1\), other \(rank 3\) did not come to tick 1 within 2 s"):
            host.tick(1, 6.0)


def test_a_group_that_ticks(tmp_path):
    """What `brain up --host torch --tick` starts: it drives, keeps the rate, and ends in good order."""
    from brain_wire import Node, open_session
    from brain_wire.router import Router, free_port

    endpoint = f"tcp/127.0.0.1:{free_port()}"
    (tmp_path / "brain.json").write_text(TAKES.to_json())
    with Router([endpoint]), open_session(endpoint, patience=10) as session:
        process = subprocess.Popen([sys.executable, "-m", "brain_collectives.static_group",
                                    str(tmp_path / "brain.json"), "--router", endpoint, "--tick", "10", "--log-dir",
                                    str(tmp_path)], stderr=subprocess.PIPE, text=True)
        try:
            node = Node(session, "listener")
            done = node.subscription("done", "std_msgs/msg/Float32")
            arrived = [done.wait(90.0) for _ in range(3)]
            assert all(arrived)
        finally:
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=400)
    assert process.returncode == 0, told


@pytest.mark.parametrize("words, why", [(("--tick", "20"), "--tick is for --host torch"),
                                        (("--host", "torch", "--tick", "0"), "'--tick': Input should be greater")])
def test_ticks_that_are_refused(words, why):
    done = in_process.brain("up", *words, "--dry-run", environment={})
    assert done.returncode != 0
    assert why in " ".join(done.stderr.replace("│", " ").split()), json.dumps(done.stderr)
