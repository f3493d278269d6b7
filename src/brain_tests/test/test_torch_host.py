# SPDX-License-Identifier: Apache-2.0
"""A brain as a static group of torch.distributed: as LocalHost to the bit, and ended with a name by its first loss."""
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from forked import Forked, forked_modules
from brain_eval.bench.wire import PINGING
from brain_runtime.contract import snapshot
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.local import LocalHost
from brain_collectives.hosts.remote_region import agree
from brain_runtime.hosts.schedule import MAX_CASCADE
from brain_collectives.hosts.torch import TorchHost
from brain_collectives.hosts.torch_snapshot import pack, unpack
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.contract.stepper import RegionError
from brain_collectives.hosts.torch_ranks import Ranks
from brain_tests.processes import gone
from brain_tests.stages import free_port
from brain_wire import messages

NAMES = ("eye", "seer", "doubter")
TOPICS = ("picture", "seen", "told", "doubt")
RESOLVED = Resolved("chain", tuple(ResolvedRegion(name, f"brain_tests.regions:{name.capitalize()}") for name in NAMES),
                    host="torch")


def text(words):
    return messages.make("std_msgs/msg/String", data=words)


def listened(host):
    """Fills with topics and bytes of what comes, in its order."""
    found = []
    for topic in TOPICS:
        host.listen(topic, lambda m, topic=topic: found.append((topic, messages.encode(m))))
    return found


def arrays(states, folder):
    """What snapshots of the regions hold, by region and name, read as a host reads them."""
    found = {}
    for name, region in LocalHost(RESOLVED.make()).regions.items():
        path = folder / f"{name}.safetensors"
        path.write_bytes(states[name])
        found[name] = {key: value.tolist() for key, value in snapshot.read(path, region).items()}
    return found


@pytest.fixture(scope="module", autouse=True)
def _forks():
    """Ranks of this process are forks; where another process starts them, they are as shipped."""
    with forked_modules():
        yield


@pytest.fixture(scope="module")
def ranks():
    with Ranks(len(NAMES)) as made:
        yield made


@pytest.mark.extended(4)
@pytest.mark.parametrize("seed", [3, 4])
def test_it_computes_what_lockstep_computes(ranks, seed):
    host, local = TorchHost(ranks.group, RESOLVED, seed), LocalHost(RESOLVED.make(), seed=seed)
    found, expected = listened(host), listened(local)
    for one in (host, local):
        one.publish("goal", text("look"))
        for _ in range(20):
            one.advance(0.1)
    assert {topic for topic, _ in expected} == set(TOPICS) and len(expected) > 150
    assert found == expected
    assert host.counts() == {name: [0, 0] for name in NAMES}


def test_a_snapshot_is_the_state_of_all_at_one_instant_and_they_go_on_from_it(ranks, tmp_path):
    """Cut at moments between steps: each region's state is what it is in lockstep then, none is a step behind."""
    host, local = TorchHost(ranks.group, RESOLVED, 7), LocalHost(RESOLVED.make(), seed=7)
    for seconds in (0.33, 0.05, 0.41):
        for one in (host, local):
            one.advance(seconds)
        states = host.snapshot()
        assert arrays(states, tmp_path) == {
            name: {key: value.tolist() for key, value in local.stepper(name).state.items()} for name in NAMES}
    assert any(value.any() for value in local.stepper("doubter").state.values())
    path = tmp_path / "all.safetensors"
    snapshot.put(path, pack(states, "chain", host.now), "brain chain")
    again = TorchHost(ranks.group, RESOLVED, 8, states=unpack(path, "chain"))
    assert arrays(again.snapshot(), tmp_path) == arrays(states, tmp_path)
    assert unpack(path, "another") == {} and not path.exists()      # refused, and set aside


def test_a_state_that_does_not_fit_is_left_out(ranks, tmp_path):
    anew = TorchHost(ranks.group, RESOLVED, 9).snapshot()
    host = TorchHost(ranks.group, RESOLVED, 9, states={"seer": b"no snapshot", "eye": anew["doubter"]})
    assert arrays(host.snapshot(), tmp_path) == arrays(anew, tmp_path)


def test_two_that_answer_each_other_for_ever_go_on_in_real_time(ranks):
    """Each of their messages is due at once; between them there is time for others, and in the end all is done."""
    classes = {**PINGING, "eye": "brain_tests.regions:Eye"}
    regions = tuple(ResolvedRegion(*one) for one in classes.items())
    host = TorchHost(ranks.group, Resolved("talk", regions, host="torch"))
    results, moments = [], 0
    host.listen("bench/result", results.append)
    asked = text(json.dumps({"id": 1, "size": 8, "count": 2 * MAX_CASCADE}))
    host.meet(0.0, 0.0, [("bench/go", asked, False)])
    while not results:
        assert moments < MAX_CASCADE and host.schedule.next_due == host.now, "what is left is due now"
        moments += 1
        host.meet(1e-3 * moments, 0.0)
    assert len(json.loads(results[0].data)["times"]) == 2 * MAX_CASCADE
    assert moments > 10


def test_a_region_that_fails_is_named_and_the_group_can_begin_again(ranks):
    host = TorchHost(ranks.group, RESOLVED, 1)
    host.advance(0.2)
    with pytest.raises(RegionError, match="seer failed in step.*told to"):
        host.publish("goal", text("raise"))
    again = TorchHost(ranks.group, RESOLVED, 1)
    again.advance(0.2)
    assert again.now == pytest.approx(0.2)


def test_ranks_that_do_not_fit_the_graph():
    with Ranks(1) as few:
        with pytest.raises(GroupError, match="has 2 ranks, but 3 regions.*eye, seer, doubter.*--nproc-per-node 4"):
            TorchHost(few.group, RESOLVED)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_lost_takes_all_down_and_is_named(number):
    with Ranks(len(NAMES), timeout=4.0) as some:
        host = TorchHost(some.group, RESOLVED)
        host.advance(0.2)
        below = some.processes()
        os.kill(below[1], number)
        with pytest.raises(GroupError) as raised:
            for _ in range(100):
                host.advance(0.1)
        lost = some.why(raised.value)
    assert "lost" in str(lost) and "a static group ends with its first rank" in str(lost)
    assert str(lost).startswith("seer (rank 2) was killed by SIGKILL" if number == signal.SIGKILL else
                                "seer (rank 2) did not answer")
    assert all(gone(process) for process in below)


def test_a_rank_of_which_there_are_two():
    port = free_port()
    said = []
    for rank in (1, 1):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port)}
        said.append(Forked("-m", "brain_collectives.torch_process", "--timeout", "20", environment=environment))
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", port, 3, is_master=True, wait_for_workers=False)     # that of rank 0
    try:
        until = time.monotonic() + 150
        while all(process.poll() is None for process in said) and time.monotonic() < until:
            time.sleep(0.05)
        second = next(process for process in said if process.poll() is not None)
        assert second.returncode == 1
        assert "two processes of the group have rank 1; start each rank once" in second.stdout.read()
    finally:
        for process in said:
            process.kill()
            process.wait()
        del store


def test_ranks_of_other_versions_are_named():
    cards = [{"names": list(NAMES), "seed": 0, "code": "a", "name": name, "types": {"T": "1"}} for name in ("", *NAMES)]
    who = ["the rank outside", *NAMES]
    agree(cards, who)
    with pytest.raises(GroupError, match="doubter has other code than the rank outside"):
        agree([*cards[:3], {**cards[3], "code": "b"}], who)
    with pytest.raises(GroupError, match="doubter and eye have other definitions of T"):
        agree([*cards[:3], {**cards[3], "types": {"T": "2"}}], who)
    with pytest.raises(GroupError, match="doubter runs motor"):
        agree([*cards[:3], {**cards[3], "name": "motor"}], who)


@pytest.mark.extended
@pytest.mark.slow
def test_an_episode_on_a_static_group_is_that_of_lockstep():
    from brain_eval.episodes import resolved_for, run_local
    from brain_eval.group import run_episode
    from brain_sim.suite import episodes

    episode = min(episodes("val", 12, 3), key=lambda e: (e.kind != "stop", e.id))
    resolved = resolved_for(episode)
    with Ranks(len(resolved.regions)) as brain:
        found = run_episode(brain.group, episode, resolved)
    expected = run_local(episode)
    assert found.pop("wall") > 0 and expected.pop("wall") > 0
    assert found == expected


HOLDER = """
import sys
from brain_collectives.hosts.torch_ranks import Ranks
with Ranks(1) as some:
    print(*some.processes(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_whoever_is_interrupted_leaves_no_ranks():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               start_new_session=True)
    with process:
        (rank,) = map(int, process.stdout.readline().split())
        assert not gone(rank)
        process.send_signal(signal.SIGINT)
        assert process.wait(400) not in (0, None)
    until = time.monotonic() + 30
    while not gone(rank):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.extended       # the test before shows it of one rank
@pytest.mark.slow
def test_an_interrupted_evaluation_leaves_no_ranks():
    process = subprocess.Popen([sys.executable, "-m", "brain", "eval", "--host", "torch", "--episodes", "1"],
                               stderr=subprocess.PIPE, start_new_session=True)
    from brain_tests.processes import children

    until = time.monotonic() + 90
    while len(below := children(process.pid)) < 10:
        assert process.poll() is None and time.monotonic() < until, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=400)
    assert process.returncode not in (0, None)
    until = time.monotonic() + 30
    while not all(gone(one) for one in below):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_brain_without_ranks_is_refused_by_the_group_in_one_line(tmp_path):
    path = tmp_path / "brain.json"
    path.write_text(replace(RESOLVED, name="brain", host="zenoh").to_json())
    done = subprocess.run([sys.executable, "-m", "brain_collectives.static_group", str(path)],
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "cannot start: graph brain has no region that could run in a static group, with the host zenoh; write the file "
        "by `brain up --host torch --dry-run --json`"]


def test_a_rank_that_torchrun_starts_alone_has_one_thread():
    script = ("from brain_collectives.torch_process import one_thread\none_thread()\nimport os, torch\n"
              "print(torch.get_num_threads(), os.environ['OPENBLAS_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])")
    untold = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", script], env=untold, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1", "1"], done
