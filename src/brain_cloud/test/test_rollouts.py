# SPDX-License-Identifier: Apache-2.0
"""Roll-outs: what the trial finds and how often it errs, a kill at every commit, and a bad model in a fleet."""
from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brain_cloud.models import rollout_test
from brain_cloud.models.registry import Registry
from brain_cloud.models.rollout_test import Expected, Goal
from brain_cloud.models.rollouts import Rollouts
from brain_cloud.state import desired
from brain_cloud.state.desired import FROM_CLOUD, Desired, hear
from brain_edge.messages.inbox import Message
from brain_edge.messages.outbox import Outbox
from brain_edge.models.model_file import ModelProblem
from brain_cloud.models.signing import state
from brain_edge.store import Store
from brain_regions.motor import weights
from brain_wire.router import free_port

from model_stage import at, big_model, make_model, motor, mouth, order, verb

PROGRAMS = Path(__file__).parent / "programs"
TOUR = 0.122        # of the policy `tour`, which knows no model at all: see the README


def test_the_trials_errors_are_those_that_are_told_exactly():
    for share in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.999):
        assert rollout_test.found_within(200, share, share) <= rollout_test.LEVEL, share
        assert rollout_test.found_within(200, min(1.0, share + 0.05), share) <= rollout_test.LEVEL, share
    # A planted bad model is found within ten goals, where most goals are reached without it.
    found = {share: rollout_test.found_within(10, TOUR, share) for share in (0.8, 0.9, 0.95, 0.98)}
    assert min(found.values()) > 0.98 and rollout_test.found_within(10, 0.0, 0.6) == 1.0
    assert rollout_test.found_within(10, 0.3, 0.95) > 0.99
    # The exact figures agree with what verdict() does.
    rng, runs = random.Random(1), 2000
    hits = sum(bool(rollout_test.verdict([Goal(rng.random() < 0.3, 0) for _ in range(10)], Expected(0.9, None, 0.0, 0)))
               for _ in range(runs))
    assert abs(hits / runs - rollout_test.found_within(10, 0.3, 0.9)) < 0.02


def test_the_table_of_the_documentation_is_what_is_computed():
    text = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text(encoding="utf-8")
    table = text.partition("<!-- trial -->")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines() if "%" in line][1:]
    assert len(rows) == 5
    for share, wrongly, *found in rows:
        expected = float(share.rstrip("%")) / 100
        assert wrongly == f"{rollout_test.found_within(400, expected, expected):.1%}"
        assert found == [f"{rollout_test.found_within(10, true, expected):.0%}"
                         for true in (0.0, TOUR, 0.3, 0.5)], share


def test_a_model_that_changes_nothing_is_taken_back_in_at_most_one_of_twenty_roll_outs():
    """What is expected is measured too: both errors together, over goals with reflexes as they come."""
    rng, runs, alarms = random.Random(2), 600, 0
    for number in range(runs):
        share = rng.choice((0.6, 0.8, 0.9, 0.98))

        def goal():
            return Goal(rng.random() < share, int(rng.expovariate(0.5)))

        expected = rollout_test.expect([goal() for _ in range(rng.choice((25, 60, 200)))])
        assert expected.goals and expected.reached < 1.0
        alarms += bool(rollout_test.verdict([goal() for _ in range(60)], expected))
    assert alarms / runs <= 0.05, alarms
    # One that makes the robot brake for everything is found by that alone.
    calm = rollout_test.expect([Goal(True, rng.randrange(3)) for _ in range(200)])
    assert calm.reflexes == 2 and "had more than 2 reflexes" in rollout_test.verdict([Goal(True, 9)] * 10, calm)
    assert rollout_test.verdict([Goal(True, 2)] * 400, calm) == ""
    # Where little is known, it is said; and bounds are those of Clopper and Pearson.
    assert rollout_test.expect([Goal(True, 0)] * 19) == Expected(rollout_test.ASSUMED, None, 0.0, 0)
    assert rollout_test.expect([], 0.9) == Expected(0.9, None, 0.0, 0)
    assert rollout_test.at_least(20, 20, 0.01) == pytest.approx(0.01 ** (1 / 20), abs=1e-9)
    assert rollout_test.at_least(98, 100, 0.01) == pytest.approx(0.9186, abs=1e-4)
    assert rollout_test.at_least(0, 9, 0.01) == 0.0


@pytest.mark.slow
def test_a_roll_out_goes_on_rightly_after_a_kill_at_every_commit(tmp_path):
    words = ["all"] if "BRAIN_TEST_EXTENDED" in os.environ else []
    done = subprocess.run([sys.executable, PROGRAMS / "rollout_killed.py", tmp_path, *words], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 5 and all(one["wrong"] == [] for one in found), found
    assert all(one["kills"] > 40 for one in found)


def test_a_model_that_is_worse_in_other_rooms_is_taken_back_from_all(tmp_path):
    from rollout_killed import World

    world = World(tmp_path / "cloud")
    old, new = world.prepare(tmp_path, None)
    world.rollouts.begin(new, None, ["robot2"], goals=2, when="idle", expect=0.9, person="ann")
    while world.rollouts.told()[0]["state"] == "canary":
        world.turn(new, good=True)
    goal = {"outcome": "timeout", "reflexes": 0, "seconds": 120.0, "weights": {"motor": new[7:23], "vision": "0" * 16}}
    for number, weights_then in enumerate(("f" * 16, new[7:23], new[7:23], new[7:23], new[7:23])):
        assert world.rollouts.told()[0]["state"] == "rest"
        with world.store.change() as db:    # robot1's rooms are other ones; the first goal was with other weights
            hear(db, Message("robot1", "goals", number, "goal", {**goal, "weights": {"motor": weights_then}}))
        told = world.rollouts.look()
    (one,) = world.rollouts.told()
    assert one["state"] == "rolling_back" and "4 of 6 goals were not reached in time" in one["why"]
    assert told == {"robot1", "robot2", "robot3"} and {world.effective(robot) for robot in told} == {old}
    with pytest.raises(ModelProblem, match="roll-out 1 of motor is being taken back, and not all robots have said so"):
        world.rollouts.begin(new, None, [], goals=2, when="idle", expect=0.9, person="ann")
    world.turn(new, good=True)
    assert world.rollouts.told()[0]["state"] == "rolled_back"
    # What a bad model did is not what is expected of the next one.
    with world.store.change() as db:
        for _ in range(30):
            hear(db, Message("robot1", "goals", 1, "goal", goal))
            hear(db, Message("robot1", "goals", 1, "goal", {**goal, "outcome": "reached", "weights": {
                "motor": old[7:23]}}))
    again, _ = world.rollouts.begin(new, None, ["robot2"], goals=2, when="idle", expect=None, person="ann")
    assert again.expected.goals >= 30 and again.expected.reached > 0.8
    world.store.close()


def test_a_trial_forgets_no_goal_though_the_cloud_keeps_the_newest_alone(tmp_path, monkeypatch):
    """Else it would begin anew again and again, and take any model back in the end."""
    from rollout_killed import World

    monkeypatch.setattr(desired, "GOALS", 10)
    world = World(tmp_path / "cloud")
    _, new = world.prepare(tmp_path, None)
    world.rollouts.begin(new, None, ["robot2"], goals=400, when="idle", expect=0.8, person="ann")
    reported = {"kind": "Model", "name": "motor-canary", "version": 2, "status": {"state": "applied"}}
    with world.store.change() as db:
        (reported["version"],) = db.execute("SELECT version FROM desired WHERE robot = 'robot2' AND name = ?",
                                            ("motor-canary",)).fetchone()
        hear(db, Message("robot2", "reports", 1, "report", reported))
    for number in range(400):
        assert world.rollouts.told()[0]["state"] == "canary", number
        goal = {"outcome": "timeout" if number % 40 >= 32 else "reached", "reflexes": 0, "seconds": 9.0,
                "weights": {"motor": new[7:23]}}
        with world.store.change() as db:    # eight in a row are enough to take a model back that begins with them
            hear(db, Message("robot2", "goals", number, "goal", goal))
        world.rollouts.look()
    assert rollout_test.verdict([Goal(False, 0)] * 8, Expected(0.8, None, 0.0, 0))
    assert len(world.store.read("SELECT 1 FROM goals")) < 40
    (one,) = world.rollouts.told()
    assert one["state"] == "rest" and "seen" not in one["watch"]
    world.store.close()


def test_a_model_that_nobody_needs_can_be_removed(tmp_path):
    from rollout_killed import World

    world = World(tmp_path / "cloud")
    old, new = world.prepare(tmp_path, None)
    files = tmp_path / "cloud" / "models"
    with pytest.raises(ModelProblem, match="is what the order motor of kind Model wants; roll another model out"):
        world.rollouts.remove(old, "ann")
    world.rollouts.begin(new, None, ["robot2"], goals=2, when="idle", expect=0.9, person="ann")
    while world.rollouts.told()[0]["state"] != "done":
        world.turn(new, good=True)
    with pytest.raises(ModelProblem, match="is what `brain fleet rollback motor` would go back to"):
        world.rollouts.remove(old, "ann")
    with pytest.raises(ModelProblem, match="is what the order motor of kind Model wants"):
        world.rollouts.remove(new, "ann")
    with pytest.raises(ModelProblem, match="is no digest"):
        world.rollouts.remove("../" + old, "ann")
    # Once it was taken back, nobody needs it.
    world.rollouts.back("motor", "ann")
    while world.rollouts.told()[0]["state"] != "rolled_back":
        world.turn(new, good=True)
    before = len(list(files.glob("*.safetensors")))
    assert world.rollouts.remove(new[7:23], "ann") == {"digest": new, "region": "motor"}
    assert len(list(files.glob("*.safetensors"))) == before - 1 and not world.registry.known(new)
    with pytest.raises(ModelProblem, match="there is no model"):
        world.rollouts.remove(new, "ann")
    world.store.close()


def test_what_cannot_be_rolled_out_is_said(tmp_path):
    with Store(tmp_path / "cloud", "cloud") as store:
        desired = Desired(Outbox(store, FROM_CLOUD))
        registry = Registry(store)
        rollouts = Rollouts(store, desired, registry)
        digests = []
        for number in range(2):
            path = tmp_path / f"{number}.safetensors"
            digests.append(big_model(path, 100, number))
            registry.put(digests[-1], 0, path.read_bytes())
            registry.add(state(digests[-1], "motor", path.stat().st_size, "", "", None), "ann")

        def begin(model, canaries=("robot1",)):
            return rollouts.begin(model, None, canaries, goals=1, when="idle", expect=None, person="ann")

        for wrong, why in (("ff0", "there is no model 'ff0'"), ("", "is no digest"), ("' OR 1", "is no digest"),
                           ("sha256:", "is no digest")):
            with pytest.raises(ModelProblem, match=why):
                begin(wrong)
        with pytest.raises(ModelProblem, match="there is no roll-out that could be taken back"):
            rollouts.back(None, "ann")
        one, told = begin(digests[0][7:20])
        assert one.state == "canary" and told == {"robot1"}
        with pytest.raises(ModelProblem, match="roll-out 1 of motor is under way; see"):
            begin(digests[1])
        with pytest.raises(ModelProblem, match="is there already, for motor; a file is one region's"):
            registry.add(state(digests[0], "vision", (tmp_path / "0.safetensors").stat().st_size, "", "", None), "ann")
        torn = tmp_path / "torn"
        digest = big_model(torn, 50, 7)
        with pytest.raises(ModelProblem, match="of model .* 0 of .* bytes have come"):
            registry.add(state(digest, "motor", torn.stat().st_size, "", "", None), "ann")


def pursued(fleet, brain, reached):
    """The state of the newest roll-out after one more goal."""
    brain.begin()
    brain.end(reached)
    return fleet.ask("models")["rollouts"][0]["state"]


@pytest.mark.slow
def test_a_bad_model_is_found_on_the_first_robot_and_taken_back_a_good_one_goes_to_all(
        fleet, tmp_path, until, request):
    own = weights.load().digest
    bad, good = (make_model(tmp_path / f"{n}.safetensors", n) for n in (1, 2))
    fleet.brain_router()
    motor(fleet)
    fleet.cloud()
    fleet.edge("robot1")
    here, there = fleet.brain_port, free_port()

    def second() -> None:
        """The other robot, without its brain."""
        fleet.brain_port = there
        fleet.edge("robot2", cut=False)
        fleet.brain_port = here

    second()
    fleet.until_robot("robot1", state="connected")
    fleet.until_robot("robot2", state="connected")
    for name in "12":
        assert verb("models", "add", tmp_path / f"{name}.safetensors", *at(fleet))[0] == 0
    fleet.end("robot2")                                     # away until the rest is to have it
    computes = request.getfixturevalue("computing")
    status, told = verb("rollout", bad[7:17], "--on", "robot1", "--expect", 0.9, *at(fleet))
    assert status == 0 and "roll-out 1" in told and "first on robot1" in told, told
    with mouth(fleet) as brain:
        brain.begin()
        brain.end()
        until(lambda: computes() == bad[7:23], lambda: fleet.said("robot1"))
        # Goals that begin too soon after it was loaded do not count.
        until(lambda: pursued(fleet, brain, reached=False) != "canary", lambda: fleet.ask("models"))
        brain.begin()               # it is taken back at once, whatever goal there is
        began = time.monotonic()
        until(lambda: computes() == own, lambda: (fleet.ask("models"), fleet.said("robot1")))
        print(f"back {time.monotonic() - began:.1f} s after it was seen to be bad")
        one = until(lambda: (one := fleet.ask("models")["rollouts"][0])["state"] == "rolled_back" and one)
        assert re.search(r"3 of 3 goals were not reached in time, and at least 90% were expected", one["why"])
        assert fleet.ask("resources")["resources"] == []
        brain.end()
        # A good one: first there, then for all, one that comes later too; and back, ordered by a person.
        status, told = verb("rollout", good[7:17], "--on", "robot1", "--goals", 2, "--expect", 0.9, *at(fleet))
        assert status == 0, told
        until(lambda: computes() == good[7:23])
        until(lambda: pursued(fleet, brain, reached=True) == "rest", lambda: fleet.ask("models"))
        table = verb("models", *at(fleet))[1]
        assert "rest" in table and "robot2 ordered" in table and "expected: 90% of goals reached" in table
        second()
        fleet.brain_port = there
        fleet.brain_router()
        motor(fleet, "motor2")
        fleet.brain_port = here
        until(lambda: fleet.ask("models")["rollouts"][0]["state"] == "done", lambda: fleet.ask("models"))
        brain.begin()
        status, told = verb("rollback", "motor", "--watch", *at(fleet))
        assert status == 0 and "rolled_back" in told, told
        assert computes() == own
    assert "there is no roll-out of 'vision'" in verb("rollback", "vision", *at(fleet))[1]
    # One that the region does not take is taken back for that alone.
    unfit = big_model(tmp_path / "unfit.safetensors", 100)
    assert verb("models", "add", tmp_path / "unfit.safetensors", *at(fleet))[0] == 0
    status, told = verb("rollout", unfit[7:17], "--on", "robot1", "--now", "--watch", *at(fleet))
    assert status == 1 and "robot1: motor keeps the weights that it has" in told, told
    order(fleet, good)
    assert "the order Model legs says already which weights motor has" in verb("rollout", good[7:17], *at(fleet))[1]
    assert any("took it back" in one["text"] for one in fleet.ask("logs")["events"])


def cloud_with_two(tmp_path):
    """A cloud that has two models, and their digests."""
    from rollout_killed import World

    made = World(tmp_path / "cloud")
    return made, made.prepare(tmp_path, ())


def through(made, digest: str) -> None:
    """A model is rolled out, to the end."""
    made.rollouts.begin(digest, None, [], goals=0, when="idle", expect=0.9, person="ann")
    for _ in range(10):
        made.turn(digest, True)
        if made.rollouts.told()[0]["state"] == "done":
            return
    raise AssertionError(made.rollouts.told())


def test_a_second_rollback_while_one_is_under_way_is_refused(tmp_path):
    """Robots are cut off; who sees nothing happen asks again."""
    made, (first, second) = cloud_with_two(tmp_path)
    through(made, first)
    through(made, second)
    made.rollouts.back("motor", "ann")
    try:
        made.rollouts.back("motor", "bob")
    except ModelProblem as problem:
        assert "is being taken back" in str(problem)
    for _ in range(5):
        made.turn(second, True)
    told = {one["digest"]: one["state"] for one in made.rollouts.told()}
    wanted = made.store.read("SELECT json_extract(spec, '$.digest') FROM resources")
    # What is said to be taken back is not wanted any more.
    assert not wanted or told[wanted[0][0]] != "rolled_back", (told, wanted)


def test_a_model_that_a_rollback_would_go_back_to_cannot_be_removed(tmp_path):
    from model_stage import big_model

    made, (first, second) = cloud_with_two(tmp_path)
    path = tmp_path / "third.safetensors"
    third = big_model(path, 100, 3)
    made.registry.put(third, 0, path.read_bytes())
    made.registry.add(state(third, "motor", path.stat().st_size, "", "", None), "ann")
    through(made, first)
    through(made, second)                       # a rollback goes back to the first
    made.rollouts.begin(third, None, ["robot1"], goals=0, when="idle", expect=0.9, person="ann")
    made.rollouts.back("motor", "ann")
    for _ in range(5):
        made.turn(third, True)
    assert [one["state"] for one in made.rollouts.told()] == ["rolled_back", "done", "done"]
    with pytest.raises(ModelProblem, match="rollback"):
        made.rollouts.remove(first[7:], "ann")


def test_a_canary_that_was_revoked_does_not_lock_the_models_of_its_region(tmp_path, monkeypatch):
    """It can never report that it has what it had before, so nobody may wait for that."""
    import rollout_killed

    made, (first, second) = cloud_with_two(tmp_path)
    through(made, first)
    made.rollouts.begin(second, None, ["robot2"], goals=2, when="idle", expect=0.9, person="ann")
    made.rollouts.gone = lambda robot: robot == "robot2"        # it was stolen: `brain fleet revoke robot2`
    monkeypatch.setattr(rollout_killed, "ROBOTS", ("robot1", "robot3"))
    made.rollouts.back("motor", "ann")
    for _ in range(5):
        made.turn(second, True)
    assert made.rollouts.told()[0]["state"] == "rolled_back"
    made.rollouts.begin(second, None, ["robot1"], goals=2, when="idle", expect=0.9, person="ann")
