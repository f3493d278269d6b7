# SPDX-License-Identifier: Apache-2.0
"""Rounds of learning: who is asked, what is taken, when they end, and what a kill leaves. The clock is the test's."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from brain_cloud.federated import records
from brain_cloud.federated.plan import Plan, PlanProblem, plan, read_plan
from brain_cloud.federated.records import Records, RecordsProblem
from brain_cloud.federated.rounds import Refused, Rounds, Task, Wait
from brain_edge.blobs import store
from brain_cloud.federated import weights
from brain_cloud.federated.weights import pack
from brain_edge.schema import FormProblem

START = {"w": np.array([0.0, 0.0], np.float32)}


class Machine:
    """A folder, and the machine's count of seconds: processes begin and end on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.boot = folder, 100.0, "one"
        (folder / "start.safetensors").write_bytes(pack(START))
        self.happened: list[str] = []

    def plan(self, **more: object) -> Plan:
        return plan({"name": "line", "learner": "line", "start": str(self.folder / "start.safetensors"), "strategy":
                     "FedAvg", "rounds": 3, "deadline_s": 10, "gather_s": 1, **more})

    def rounds(self, **more: object) -> Rounds:
        return Rounds(self.folder / "line", self.plan(**more), seconds=lambda: self.now, boot=self.boot,
                      happened=lambda robot, text: self.happened.append(text))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def asks(rounds: Rounds, robot: str) -> Task:
    found = rounds.task(robot, ("line",))
    assert isinstance(found, Task), found
    return found


def hands_in(rounds: Rounds, robot: str, task: Task, *values: float, examples: int = 1,
             metrics: dict[str, float] | None = None) -> None:
    rounds.take(robot, task.run, task.attempt, task.version, pack({"w": np.array(values, np.float32)}), examples,
                metrics or {})


def w(rounds: Rounds) -> list[float]:
    return rounds.model["w"].tolist()


def test_a_round_ends_when_all_have_answered_or_at_its_deadline_and_joiners_and_late_ones_are_told(machine):
    rounds = machine.rounds()
    first, second = asks(rounds, "robot1"), asks(rounds, "robot2")
    assert (first.attempt, first.version, first.left_s) == (1, 0, 10.0)
    hands_in(rounds, "robot1", first, 1.0, 0.0)
    assert rounds.task("robot1", ("line",)) == Wait("the others are waited for")
    hands_in(rounds, "robot2", second, 3.0, 0.0, examples=3)
    assert w(rounds) == [0.0, 0.0]      # others have a moment to come
    machine.now += 1.0
    rounds.turn()
    assert w(rounds) == [2.5, 0.0]
    # A straggler holds up the next one to the deadline, and no longer; a joiner in mid-training is a robot like others.
    for robot in ("robot1", "robot2", "robot3"):
        task = asks(rounds, robot)
        if robot != "robot2":
            hands_in(rounds, robot, task, 4.0, 4.0)
    machine.now += 9.9
    rounds.turn()
    assert w(rounds) == [2.5, 0.0] and rounds.status()["missing"] == ["robot2"]
    machine.now += 0.1
    rounds.turn()
    assert w(rounds) == [4.0, 4.0]
    with pytest.raises(Refused, match="late: its round is over"):
        hands_in(rounds, "robot2", task, 9.0, 9.0)
    entry = rounds.status()["history"][-1]
    assert (entry["ended"], entry["missing"], sorted(entry["robots"]), entry["lasted_s"]) == (
        "deadline", ["robot2"], ["robot1", "robot3"], 10.0)
    # Too few: nothing changes, and it is begun anew with who is there then.
    hands_in(rounds, "robot2", asks(rounds, "robot2"), 9.0, 9.0)
    machine.now += 10.0
    assert asks(rounds, "robot2").attempt == 4 and w(rounds) == [4.0, 4.0]
    assert rounds.status()["history"][-1]["ended"] == "too few"
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 5.0, 5.0)
    machine.now += 10.0
    assert rounds.task("robot1", ("line",)) == Wait("the training is over", 60.0, over=True)
    with pytest.raises(Refused, match="training is over"):
        hands_in(rounds, "robot1", task, 9.0, 9.0)


def test_who_declines_or_lets_a_round_pass_stands_in_its_history_and_who_is_always_late_is_left_out(machine):
    rounds, answers = machine.rounds(rounds=20, gather_s=0, late=2), ["robot1", "robot2"]

    def play(*, without: tuple[str, ...] = (), declines: str = "") -> dict[str, object]:
        for robot in ("late", *answers, *filter(None, [declines])):
            task = rounds.task(robot, ("line",))
            if isinstance(task, Wait):
                assert robot == "late" and "it was late in the last 2 rounds, and is left out of" in task.why, task
            elif robot == declines:
                rounds.decline(robot, task.run, task.attempt, "no pictures")
            elif robot not in ("late", *without):
                hands_in(rounds, robot, task, 1.0, 1.0)
        before = machine.now
        machine.now += 10.0
        rounds.turn()
        entry = rounds.status()["history"][-1]
        if entry["ended"] == "all":
            machine.now = before
        return {key: entry[key] for key in ("ended", "missing", "declined", "left_out")}

    def of(ended: str, missing=(), declined: object = None, left_out=()) -> dict[str, object]:
        return {"ended": ended, "missing": list(missing), "declined": declined or {}, "left_out": list(left_out)}

    assert play() == of("deadline", ["late"])
    assert play(declines="robot3") == of("deadline", ["late"], {"robot3": "no pictures"})
    assert [text for text in machine.happened if "left out" in text] == [
        "line: late was late in the last 2 rounds, and is left out of the next 2 if there are enough without it"]
    machine.now += 40.0     # robot3 has gone
    assert play() == of("all", left_out=["late"])
    rounds = machine.rounds(rounds=20, gather_s=0, late=2)     # a cloud that was killed remembers it
    assert play() == of("all", left_out=["late"])
    assert play() == of("deadline", ["late"])                   # it is tried again, and late again
    assert play(without=("robot2",)) == of("too few", ["robot2"], left_out=["late"])
    for robot in ("late", *answers):        # without it there were too few
        hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
    assert rounds.status()["history"][-1]["ended"] == "all" and isinstance(rounds.task("late", ("line",)), Task)


def test_what_lies_is_refused_and_counts_for_no_more_than_the_plan_says(machine):
    rounds = machine.rounds(most_examples=3, gather_s=0)
    tasks = {robot: asks(rounds, robot) for robot in ("robot1", "robot2", "robot3", "robot4")}
    for value in (float("nan"), float("inf")):      # however often, it is told once
        with pytest.raises(Refused, match="not finite"):
            hands_in(rounds, "robot1", tasks["robot1"], value, 0.0)
    with pytest.raises(Refused, match="must be float32"):
        hands_in(rounds, "robot2", tasks["robot2"], 1.0)
    with pytest.raises(Refused, match="another training"):
        rounds.take("robot3", "0" * 16, 1, 0, b"", 1, {})
    hands_in(rounds, "robot3", tasks["robot3"], 4.0, 4.0, examples=10**18)
    hands_in(rounds, "robot3", tasks["robot3"], 8.0, 8.0)       # a second one does not replace the first
    hands_in(rounds, "robot4", tasks["robot4"], 0.0, 0.0, examples=1)
    assert w(rounds) == [3.0, 3.0]      # nobody waited for those that were refused
    entry = rounds.status()["history"][-1]
    assert sorted(entry["refused"]) == ["robot1", "robot2"] and len(machine.happened) == 3


def test_a_kill_in_mid_round_costs_nothing_that_was_acknowledged_and_no_further_time(machine):
    rounds = machine.rounds(strategy="FedAdam", settings={"eta": 0.5})
    tasks = {robot: asks(rounds, robot) for robot in ("robot1", "robot2", "robot3")}
    hands_in(rounds, "robot1", tasks["robot1"], 1.0, 0.0)
    machine.now += 6.0
    del rounds                                                  # a kill: nothing is written at the end
    again = machine.rounds(strategy="FedAdam", settings={"eta": 0.5})
    assert again.status()["answered"] == ["robot1"] and again.left() == 4.0
    hands_in(again, "robot2", tasks["robot2"], 1.0, 0.0)        # it was training all the while
    machine.now += 4.0
    again.turn()
    (machine.folder / "beside").mkdir()
    plain = Machine(machine.folder / "beside")
    whole = plain.rounds(strategy="FedAdam", settings={"eta": 0.5})
    for robot in ("robot1", "robot2"):
        hands_in(whole, robot, asks(whole, robot), 1.0, 0.0)
    plain.now += 10.0
    whole.turn()
    assert w(again) == w(whole) != [0.0, 0.0]
    # What the strategy keeps is there after another kill: the second step has the first one's momentum.
    third = machine.rounds(strategy="FedAdam", settings={"eta": 0.5})
    for rounds, clock in ((third, machine), (whole, plain)):
        for robot in ("robot1", "robot2"):
            hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
        clock.now += 10.0
        rounds.turn()
    assert w(third) == w(whole) and third.status()["version"] == 2
    # On a machine that was started anew nobody knows how long it was off: the open round has its time again.
    hands_in(third, "robot1", asks(third, "robot1"), 1.0, 0.0)
    machine.now, machine.boot = 5.0, "two"
    assert machine.rounds(strategy="FedAdam", settings={"eta": 0.5}).left() == 10.0


def test_a_round_that_waits_for_enough_does_not_end_with_those_who_are_there(machine):
    rounds = machine.rounds(enough=2)
    hands_in(rounds, "robot1", asks(rounds, "robot1"), 1.0, 1.0)
    machine.now += 5.0
    rounds.turn()
    assert rounds.status()["version"] == 0
    hands_in(rounds, "robot2", asks(rounds, "robot2"), 1.0, 1.0)
    rounds.turn()
    assert rounds.status()["history"][-1]["ended"] == "enough"


def test_the_last_thousand_rounds_are_told_of(machine, monkeypatch):
    written = Records(machine.folder / "line", machine.plan())
    written.state.history = [{"round": number} for number in range(1003)]
    written.write_state()
    for path in (machine.folder / "line", *(machine.folder / "line").iterdir()):
        assert not path.stat().st_mode & 0o077, path
    told = Records(machine.folder / "line", machine.plan()).state.history
    assert [entry["round"] for entry in told] == [*range(3, 1003)]
    monkeypatch.setattr(records, "HISTORY", 10)
    written.write_state()
    assert [entry["round"] for entry in written.state.history] == [1002]      # the last one, however long it is


def test_a_folder_is_of_one_plan_and_damage_is_told(machine):
    machine.rounds()
    machine.rounds(rounds=5, deadline_s=99)     # how many and how long may change
    with pytest.raises(RecordsProblem, match="has a training with guard: None, and the plan says FedMedian"):
        machine.rounds(guard="FedMedian", least=3)
    with pytest.raises(RecordsProblem, match="has a training with strategy: FedAvg, and the plan says FedProx"):
        machine.rounds(strategy="FedProx")
    file = machine.folder / "line" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RecordsProblem, match="is damaged .* move its folder away"):
        machine.rounds()
    (machine.folder / "start.safetensors").write_bytes(pack({"w": np.zeros(2)}))
    for name, why in (("other", "only float32 can be averaged"), ("none", "cannot read the first weights")):
        if name == "none":
            (machine.folder / "start.safetensors").unlink()
        with pytest.raises(RecordsProblem, match=why):
            Rounds(machine.folder / name, machine.plan())


def test_a_disk_that_is_full_keeps_the_round_open_and_the_weights_as_they_were(machine):
    rounds = machine.rounds()
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
    blocked = machine.folder / "line" / ".model.safetensors.tmp"
    blocked.mkdir()                             # what is to be written cannot be
    machine.now += 10.0
    rounds.turn()
    assert w(rounds) == [0.0, 0.0] and rounds.status()["answered"] == ["robot1", "robot2"]
    blocked.rmdir()
    rounds.turn()
    assert w(rounds) == [1.0, 1.0] and machine.rounds().status()["version"] == 1


def test_a_round_draws_each_robot_by_itself_and_tells_what_privacy_is_left(machine):
    private = {"strategy": "DPFedAvg", "settings": {"noise": 1.0, "robots": 100, "delta": 1e-3}, "fraction": 0.3,
               "least": 1, "rounds": 50}
    rounds = machine.rounds(**private)
    robots = [f"robot{k}" for k in range(100)]
    drawn, again = [robot for robot in robots if rounds.asked(robot)], machine.rounds(**private)
    assert 10 < len(drawn) < 55 and drawn == [robot for robot in robots if again.asked(robot)]
    out = next(robot for robot in robots if robot not in drawn)
    assert rounds.task(out, ("line",)) == Wait("this round was drawn without this robot")
    task = asks(rounds, drawn[0])
    with pytest.raises(Refused, match="drawn without"):
        hands_in(rounds, out, task, 1.0, 1.0)
    assert rounds.status()["privacy"] == {"epsilon": 0.0, "delta": 1e-3}
    hands_in(rounds, drawn[0], task, 1.0, 1.0)
    machine.now += 10.0
    rounds.turn()
    spent = rounds.status()["privacy"]["epsilon"]
    assert spent > 0.5 and rounds.status()["history"][-1]["epsilon"] == pytest.approx(spent, abs=1e-4)
    assert [robot for robot in robots if rounds.asked(robot)] != drawn
    # A round that came to nothing has asked robots too.
    asks(rounds, next(robot for robot in robots if rounds.asked(robot)))
    machine.now += 10.0
    rounds.turn()
    assert rounds.status()["privacy"]["epsilon"] > spent


def test_without_rounds_each_update_counts_at_once_by_its_age(machine):
    settings = {"strategy": "FedAsync", "settings": {"alpha": 0.5, "power": 0.5, "most_stale": 3}, "rounds": 100}
    rounds = machine.rounds(**settings)
    slow, fast = asks(rounds, "robot1"), asks(rounds, "robot2")
    hands_in(rounds, "robot2", fast, 4.0, 0.0)
    assert w(rounds) == [2.0, 0.0]
    hands_in(rounds, "robot2", fast, 4.0, 0.0)      # its acknowledgement was lost
    assert w(rounds) == [2.0, 0.0]
    again = machine.rounds(**settings)              # a kill, and the same once more
    hands_in(again, "robot2", fast, 4.0, 0.0)
    assert w(again) == [2.0, 0.0] and again.status()["version"] == 1
    for value in (2.0, 2.0):
        hands_in(again, "robot3", asks(again, "robot3"), value, float(again.status()["version"]))
    assert again.status()["version"] == 3
    before = w(again)
    hands_in(again, "robot1", slow, before[0] + 4.0, before[1])
    assert w(again)[0] == pytest.approx(before[0] + 4.0 * 0.5 * 4 ** -0.5)
    with pytest.raises(Refused, match="4 versions ago, and at most 3"):
        hands_in(again, "robot1", slow, 9.0, 9.0)
    assert [entry["staleness"] for entry in again.status()["history"]] == [0, 0, 0, 3]


def test_without_rounds_who_declines_stands_in_the_history_and_nobody_is_missed(machine):
    rounds = machine.rounds(strategy="FedAsync", settings={"most_stale": 3}, rounds=100)
    tasks = {robot: asks(rounds, robot) for robot in ("robot1", "robot2", "robot3")}
    hands_in(rounds, "robot1", tasks["robot1"], 1.0, 0.0)
    rounds.decline("robot2", tasks["robot2"].run, tasks["robot2"].attempt, "no pictures")   # which it began before that
    hands_in(rounds, "robot1", asks(rounds, "robot1"), 2.0, 0.0)
    first, second = rounds.status()["history"]
    assert (first["declined"], second["declined"]) == ({}, {"robot2": "no pictures"})
    assert first["missing"] == second["missing"] == []
    for value in range(3):
        hands_in(rounds, "robot1", asks(rounds, "robot1"), 3.0 + value, 0.0)
    rounds.decline("robot3", tasks["robot3"].run, tasks["robot3"].attempt, "too late")  # its update would be, too
    hands_in(rounds, "robot1", asks(rounds, "robot1"), 9.0, 0.0)
    assert not any("robot3" in entry["declined"] for entry in rounds.status()["history"])


def test_a_plan_that_cannot_be_meant_so_names_the_field(machine, tmp_path):
    for more, why in (({"rounds": 0}, "rounds must be at least 1"), ({"stratgy": 1}, "did you mean strategy"),
                      ({"strategy": "Krum", "settings": {"liars": 1}}, "needs 5 updates at least"),
                      ({"enough": 1}, "enough is 1, below least"), ({"config": {"Rate": 1}}, "must read"),
                      ({"strategy": "DPFedAvg", "enough": 4}, "does not hold"),
                      ({"strategy": "DPFedAvg", "settings": {"share": 1}}, "is the plan's fraction"),
                      ({"deadline_s": float("inf")}, "not finite")):
        with pytest.raises(FormProblem, match=why):
            machine.plan(**more)
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps({"name": "a", "learner": "line", "start": "start.safetensors", "strategy": "FedAvg",
                                "rounds": 1}))
    assert read_plan(file).start == str(tmp_path / "start.safetensors")
    file.write_text("name: [")
    with pytest.raises(PlanProblem, match="plan.yaml"):
        read_plan(file)
    with pytest.raises(PlanProblem, match="cannot read"):
        read_plan(tmp_path / "none.yaml")


@pytest.mark.extended(10)
@pytest.mark.parametrize("robots, number_of, metrics", [
    (10, 1000, {"loss": 0.123456789}),                                          # an honest fleet
    (2, 170, {f"m{i:02}" + "x" * 37: -1.2345678901234567e-300 for i in range(50)}),   # one liar of two
])
def test_a_long_training_outlives_a_restart_of_its_cloud(machine, robots, number_of, metrics, monkeypatch):
    monkeypatch.setattr(store.os, "fsync", lambda number: None)   # for speed only
    rounds = machine.rounds(rounds=2000, gather_s=0)
    for number in range(number_of):
        tasks = [(f"robot{i}", asks(rounds, f"robot{i}")) for i in range(robots)]
        for name, task in tasks:
            hands_in(rounds, name, task, float(number), float(name[5:]), metrics=metrics)
    assert rounds.status()["version"] == number_of
    again = machine.rounds(rounds=2000, gather_s=0)
    assert again.status()["version"] == number_of


def test_an_update_that_is_as_one_of_an_earlier_round_counts_in_its_own(machine):
    """What a learner without chance makes of the same weights, in a round that is begun anew, is the same."""
    rounds = machine.rounds()
    hands_in(rounds, "robot1", asks(rounds, "robot1"), 1.0, 1.0)
    machine.now += 10.0
    rounds.turn()                                   # too few: begun anew, with the weights as they are
    assert rounds.status()["round"] == 2 and rounds.status()["version"] == 0
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
    assert rounds.status()["answered"] == ["robot1", "robot2"]
    machine.now += 1.0
    rounds.turn()
    assert rounds.model["w"].tolist() == [1.0, 1.0]


def test_a_cloud_killed_in_mid_round_waits_for_those_that_are_at_it(machine):
    rounds = machine.rounds()
    tasks = {robot: asks(rounds, robot) for robot in ("robot1", "robot2", "robot3")}
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, tasks[robot], 1.0, 1.0)
    machine.now += 2.0
    rounds.turn()
    assert rounds.status()["version"] == 0          # robot3 is waited for
    rounds = machine.rounds()                       # SIGKILL, and started again
    rounds.turn()
    assert rounds.status()["version"] == 0, "it ended at once, though 8 s are left and robot3 is at it"
    hands_in(rounds, "robot3", tasks["robot3"], 4.0, 4.0)
    rounds.turn()
    assert rounds.model["w"].tolist() == [2.0, 2.0]


def test_a_robot_that_runs_another_learner_is_not_waited_for(machine):
    rounds = machine.rounds()
    assert isinstance(rounds.task("robot9", ("other",)), Wait)
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
    machine.now += 1.0
    rounds.turn()
    assert rounds.status()["version"] == 1, rounds.status()["missing"]


def test_what_is_told_of_a_round_is_what_counted(machine):
    rounds = machine.rounds(strategy="FedAsync", rounds=5)
    rounds.take("robot1", *(lambda t: (t.run, t.attempt, t.version))(asks(rounds, "robot1")),
                pack({"w": np.ones(2, np.float32)}), 10**6, {"examples": 1e18})
    entry = rounds.status()["history"][-1]
    assert entry["robots"]["robot1"]["examples"] == 10_000      # most_examples, not what its metrics say
    assert (entry["round"], entry["version"]) == (1, 1) and rounds.status()["version"] == 1


def test_what_a_strategy_keeps_of_large_weights_is_read_back(machine, monkeypatch):
    """FedAdam keeps two float64 for each float32: five times the weights, which alone may have LARGEST bytes."""
    monkeypatch.setattr(weights, "LARGEST", 400_000)
    monkeypatch.setattr(weights, "HEADER", 10_000)
    (machine.folder / "start.safetensors").write_bytes(pack({"w": np.zeros(50_000, np.float32)}))   # half of LARGEST
    rounds = machine.rounds(strategy="FedAdam", gather_s=0)
    tasks = [(robot, asks(rounds, robot)) for robot in ("robot1", "robot2")]
    for robot, task in tasks:
        hands_in(rounds, robot, task, *[1.0] * 50_000)
    assert rounds.status()["version"] == 1
    assert machine.rounds(strategy="FedAdam", gather_s=0).status()["version"] == 1


def does(rounds: Rounds, value: float) -> None:
    """One round, in which both robots come to the same."""
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), value, -value)
    rounds.turn()


def test_a_training_comes_to_the_mean_of_its_last_rounds_whoever_was_killed_among_them(machine, monkeypatch):
    plan = {"rounds": 5, "average": 3, "gather_s": 0}
    rounds = machine.rounds(**plan)
    for value in (8.0, 1.0, 2.0):
        does(rounds, value)
        assert w(rounds) == [value, -value]     # robots train on from the last weights, not from a mean
    rounds = machine.rounds(**plan)             # SIGKILL, and started again
    does(rounds, 4.0)
    with monkeypatch.context() as full:
        full.setattr(store.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        for robot in ("robot1", "robot2"):
            with pytest.raises(RecordsProblem, match="make room"):
                hands_in(rounds, robot, asks(rounds, robot), 9.0, -9.0)
        assert w(rounds) == [4.0, -4.0]
    does(rounds, 9.0)
    assert rounds.over and w(rounds) == [5.0, -5.0]     # of 2, 4 and 9
    assert w(machine.rounds(**plan)) == [5.0, -5.0]


def test_a_full_disk_at_the_last_round_counts_no_round_twice_in_the_mean(machine, monkeypatch):
    plan = {"rounds": 2, "average": 2, "gather_s": 1}
    rounds = machine.rounds(**plan)
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 1.0, 1.0)
    machine.now += 1.0
    rounds.turn()
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 4.0, 4.0)
    machine.now += 1.0
    with monkeypatch.context() as full:
        full.setattr(store.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        for _ in range(3):
            rounds.turn()
            assert not rounds.over and w(rounds) == [1.0, 1.0]
    rounds.turn()
    assert rounds.over and w(rounds) == [2.5, 2.5]


def test_more_rounds_go_on_from_the_mean_and_have_one_of_their_own(machine):
    rounds = machine.rounds(rounds=2, average=2, gather_s=0)
    for value in (1.0, 3.0):
        does(rounds, value)
    assert rounds.over and w(rounds) == [2.0, -2.0]
    rounds = machine.rounds(rounds=3, average=2, gather_s=0)
    assert asks(rounds, "robot1").version == 2 and w(rounds) == [2.0, -2.0]
    does(rounds, 7.0)
    assert rounds.over and w(rounds) == [7.0, -7.0]     # the last round of the first two is none of these


def test_updates_that_count_at_once_have_a_mean_too(machine):
    rounds = machine.rounds(strategy="FedAsync", settings={"alpha": 1.0}, rounds=3, average=2)
    for value in (5.0, 1.0, 2.0):
        hands_in(rounds, "robot1", asks(rounds, "robot1"), value, 0.0)
    assert rounds.over and w(rounds) == [1.5, 0.0]


def test_an_update_whose_round_is_not_written_down_is_kept_and_what_is_over_is_removed(machine):
    rounds = machine.rounds()
    for robot in ("robot1", "robot2"):
        hands_in(rounds, robot, asks(rounds, robot), 2.0, 4.0)
    (machine.folder / "line" / records.OPEN).unlink()
    again = machine.rounds()    # the round has its whole time again, and is not waited with until somebody asks
    machine.now += 10.0
    again.turn()
    assert w(again) == [2.0, 4.0]
    assert not list((machine.folder / "line" / records.UPDATES).iterdir())


def test_first_weights_that_are_none_are_named(machine):
    for found, why in (({}, "there are none"), ({"probe": START["w"]}, "there are none"),
                       ({"w": np.zeros(2)}, "w is float64, and only float32")):
        (machine.folder / "start.safetensors").write_bytes(pack(found))
        with pytest.raises(RecordsProblem, match=why):
            machine.rounds()
