# SPDX-License-Identifier: Apache-2.0
"""Learning over links: real routers and sessions, cuts in every phase of a round, a cloud that is killed, and liars."""
from __future__ import annotations

import contextlib
import io
import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import numpy as np
import pytest
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.federated import aggregator
from brain_cloud.federated.aggregator import Aggregator
from brain_cloud.federated.plan import plan
from brain_cloud.federated.rounds import Rounds
from brain_edge.blobs import carry
from brain_edge.blobs.store import PIECE, Blobs
from brain_cloud.checks.relay import Relay
from brain_cloud.federated import participant, round_messages
from brain_cloud.federated.learner import LearnerProblem, make
from brain_cloud.federated.participant import Made, Participant, Turned
from brain_cloud.federated.round_messages import CHUNK
from brain_cloud.federated.weights import digest, pack
from brain_edge.messages import question
from brain_edge.messages.question import NoAnswer, NotGiven
from brain_edge.processes.settings import ZENOH
from brain_edge.schema import FormProblem
from brain_security.fleet_keys import learn
from brain_wire import Session, open_session
from brain_wire.router import Router, free_port
from brain_wire.wakeup import Flag

LARGE = CHUNK // 2      # numbers: several pieces, and several chunks of the release before
PATIENCE = 1.0          # s for an answer; what was cut is asked again


class Line:
    """A learner that adds ``by`` to each weight, and does what it is told ``during`` that."""

    def __init__(self, by: float = 1.0) -> None:
        self.by, self.fits, self.during = by, 0, lambda: None

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        self.fits += 1
        self.during()
        by = np.float32(self.by * config.get("step", 1.0))
        return {name: value + by for name, value in weights.items()}, 10, {"loss": 0.5, "left_s": left()}


def write_plan(folder: Path, **more: Any) -> dict[str, Any]:
    """A plan for weights of several chunks, and the file that it is in."""
    (folder / "start.safetensors").write_bytes(pack({"w": np.arange(LARGE, dtype=np.float32)}))
    found = {"name": "line", "learner": "line", "start": str(folder / "start.safetensors"), "strategy": "FedAvg",
             "rounds": 3, "deadline_s": 60, "gather_s": 0, "least": 1, "config": {"step": 2.0}, **more}
    (folder / "plan.yaml").write_text(json.dumps(found))
    return found


class Cloud:
    """An aggregator with a router in this process, and robots behind a link that can be cut."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self._ends = contextlib.ExitStack()
        port = free_port()
        self.rounds = Rounds(folder / "line", plan(write_plan(folder, **more)))
        router = self._ends.enter_context(Router([f"tcp/127.0.0.1:{port}"], more=ZENOH))
        session = self._ends.enter_context(Session(router.session, "here"))
        self.relay = Relay(port)
        self._ends.callback(self.relay.close)
        self.aggregator = Aggregator(session, self.rounds)

    def robot(self, name: str, learner: Line) -> Participant:
        return Participant(self.session(name), name, "line", learner, patience=PATIENCE)

    def session(self, name: str) -> Session:
        found = self._ends.enter_context(open_session(f"tcp/127.0.0.1:{self.relay.port}", identity=name, more=ZENOH))
        while not list(found.zenoh.get(learn(name), timeout=PATIENCE)):
            time.sleep(0.02)    # until its way to the cloud is known, or the test's time is over
        return found

    def close(self) -> None:
        self._ends.close()


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    found = Cloud(tmp_path)
    yield found
    found.close()


def test_robots_that_hand_in_together_wait_for_room_and_do_not_take_it_from_each_other(
        cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregator, "PARTLY", 1)
    tasks = {robot: cloud.rounds.task(robot, ("line",)) for robot in ("robot1", "robot2")}
    data = pack({"w": np.ones(LARGE, dtype=np.float32)})

    def puts(robot: str, offset: int) -> dict[str, Any]:
        task = tasks[robot]
        head = {"from": robot, "do": "put", "run": task.run, "round": task.attempt, "version": task.version,
                "digest": digest(data), "size": len(data), "offset": offset, "examples": 1}
        return cloud.aggregator._answer(robot, round_messages.RoundMessage(head, data[offset:offset + CHUNK], True))[0]

    first = puts("robot1", 0)["have"]
    assert 0 < first < len(data)
    assert "wait_s" in puts("robot2", 0) and puts("robot1", first)["have"] > first     # what has come is kept
    monkeypatch.setattr(aggregator, "SILENT", 0.0)      # it has stopped coming
    assert puts("robot2", 0)["have"] == first and puts("robot1", 2 * first)["have"] == 0


def turned(robot: Participant, what: Turned) -> None:
    """Takes turns until one comes to that."""
    for _ in range(600):
        try:
            found = robot.turn()
        except NoAnswer:
            time.sleep(0.1)     # until the link is there again; without one an answer stays away at once
            continue
        if found is what:
            return
        assert found is Turned.WAITED, (found, robot.why)
    raise AssertionError(robot.why)


def fitted(robot: Participant, learner: Line, times: int) -> None:
    """Takes turns, none of which comes to anything, until the robot has trained so often."""
    for _ in range(600):
        with contextlib.suppress(NoAnswer):
            assert robot.turn() is Turned.WAITED
        if learner.fits >= times:
            break
        time.sleep(0.1)
    assert learner.fits == times


def test_weights_of_several_chunks_come_through_cuts_in_every_phase(cloud):
    learner = Line()
    robot = cloud.robot("robot1", learner)
    # While it trains: the round goes on without a link.
    learner.during = lambda: cloud.relay.cut()
    turned(robot, Turned.TAKEN)
    assert learner.fits == 1 and cloud.rounds.model["w"][:2].tolist() == [2.0, 3.0]
    # While weights are fetched, and while they are handed in: at every question, before it and before its answer.
    ask, asked = question.ask, Counter()

    def cut_often(session: Session, key: str, payload: bytes, *more: Any, **words: Any) -> bytes:
        head = json.loads(payload)
        place = key.rpartition("/")[2], head["do"], head.get("offset")
        asked[place] += 1
        if asked[place] == 1:
            cloud.relay.cut()
        found = ask(session, key, payload, *more, **words)
        if asked[place] == 2:
            cloud.relay.cut()
            raise NoAnswer("the answer was lost on its way")
        return found

    learner.during = lambda: None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question, "ask", cut_often)
        turned(robot, Turned.TAKEN)
    size = len(pack({"w": np.zeros(LARGE, np.float32)}))
    assert {("learn", "task", None), ("learn", "put", None)} <= asked.keys()
    assert {("blobs", do, place) for do in ("get", "put") for place in range(0, size, PIECE)} <= asked.keys()
    assert cloud.relay.cuts >= 5 and cloud.rounds.status()["version"] == 2
    # The cloud cannot be reached at all for a while; the robot's loop waits, and then does its part.
    cloud.relay.cut(stay=True)
    stop = Flag()
    running = threading.Thread(target=robot.run, args=(stop,))
    running.start()
    cloud.relay.mend()
    for _ in range(600):
        if cloud.rounds.over:
            break
        stop.wait(0.1)
    stop.set()
    running.join(30)
    assert not running.is_alive()
    assert cloud.rounds.model["w"][:2].tolist() == [6.0, 7.0] and learner.fits == 3
    assert [entry["robots"]["robot1"]["examples"] for entry in cloud.rounds.status()["history"]] == [10, 10, 10]


def test_a_robot_that_is_cut_off_goes_on_learning_and_what_it_made_is_merged_once(tmp_path, monkeypatch):
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.closing(Cloud(tmp_path, strategy="FedAsync", settings={"alpha": 0.5, "alone": 2})) as cloud:
        learner = Line()
        robot = cloud.robot("robot1", learner)
        learner.during = lambda: cloud.relay.cut(stay=True)
        fitted(robot, learner, 3)       # after the first one as often as the strategy says
        with pytest.raises(NoAnswer):   # and then it waits
            robot.turn()
        assert learner.fits == 3
        cloud.relay.mend()
        turned(robot, Turned.TAKEN)
        assert cloud.rounds.model["w"][:2].tolist() == [3.0, 4.0] and learner.fits == 3     # half of three times 2
        # What was taken, though the word of it was lost, does not count again within what came of it.
        learner.during = lambda: None
        ask, lost, put_off = robot._ask, [], []

        def lose(head: dict[str, Any]) -> Any:
            if head["do"] == "put" and learner.fits == 5 and head["digest"] == lost[0]["digest"] and not put_off:
                put_off.append(head)    # whether it was taken the cloud cannot say just now
                return {"format": 1, "wait_s": 0.01}
            found = ask(head)
            if found.get("taken") and not lost:
                lost.append(head)
                cloud.relay.cut(stay=True)
                raise NoAnswer("the answer was lost on its way")
            return found

        robot._ask = lose
        fitted(robot, learner, 5)
        cloud.relay.mend()
        turned(robot, Turned.TAKEN)
        assert lost and put_off
        assert cloud.rounds.model["w"][:2].tolist() == [4.0, 5.0] and cloud.rounds.status()["version"] == 2


def test_an_update_that_the_cloud_takes_for_no_question_is_not_kept_for_ever(cloud):
    learner = Line()
    fit = learner.fit
    learner.fit = lambda *words: (*fit(*words)[:2], {"a name that is none": 0.5})   # type: ignore[method-assign]
    robot = cloud.robot("robot1", learner)
    turned(robot, Turned.REFUSED)
    assert "the cloud refuses" in robot.why and "a field of metrics must read" in robot.why
    learner.fit = fit       # type: ignore[method-assign]
    turned(robot, Turned.TAKEN)


def test_a_training_that_rests_hands_out_nothing_and_another_takes_its_place(cloud, tmp_path):
    robot = cloud.robot("robot1", Line())
    cloud.rounds.held = True
    assert robot.turn() is Turned.WAITED and robot.why == "the training rests"
    other = Rounds(tmp_path / "other", plan({**json.loads((tmp_path / "plan.yaml").read_text()), "name": "other"}))
    cloud.aggregator.follow(other)
    turned(robot, Turned.TAKEN)
    assert (other.status()["version"], cloud.rounds.status()["version"]) == (1, 0)
    assert not list((tmp_path / "other" / "coming").glob("*")) and not list((tmp_path / "line" / "coming").glob("*"))


def test_a_round_ends_at_its_deadline_though_nobody_asks_any_more(tmp_path):
    with contextlib.closing(Cloud(tmp_path, deadline_s=1)) as cloud:
        assert "digest" in cloud.robot("robot1", Line())._ask({"do": "task", "learners": ["line"]})
        while not (history := cloud.rounds.status()["history"]):
            time.sleep(0.05)    # or the test's time is over
    assert (history[0]["ended"], history[0]["missing"]) == ("too few", ["robot1"])


def test_who_sends_too_much_is_told_to_wait_a_minute_at_most(tmp_path, monkeypatch):
    monkeypatch.setattr(aggregator, "BYTES", 1000.0)
    with contextlib.closing(Cloud(tmp_path)) as cloud:
        robot = cloud.robot("robot1", Line())
        with pytest.raises(NotGiven, match="run is missing"):
            robot._ask({"do": "put", "why": "x" * 200, "digest": "0" * 64})
        cloud.aggregator._buckets.of("robot1").take(10**6)
        assert robot._ask({"do": "put"})["wait_s"] == 60.0


def test_what_is_hostile_costs_at_most_itself(cloud):
    session = cloud.session("robot1")

    def ask(head: Any, data: bytes = b"", key: str = learn("robot1"), raw: bytes | None = None) -> Any:
        payload = round_messages.write(head, data, framed=bool(data)) if raw is None else raw
        for reply in session.zenoh.get(key, payload=payload, timeout=5.0, target=zenoh.QueryTarget.ALL):
            if reply.ok is None:
                return reply.err.payload.to_bytes().decode()
            found = round_messages.read(reply.ok.payload.to_bytes(), "reply")
            assert found.framed == bool(data)
            return found.head
        return None

    me = {"from": "robot1"}
    task = ask({**me, "do": "task", "learners": ["line"]})
    put = {**me, "do": "put", "run": task["run"], "round": task["round"], "version": 0, "digest": "0" * 64, "size":
           task["size"], "offset": 0, "examples": 1}
    for found, why in (
            (ask({"from": "robot2", "do": "task"}), "each speaks for itself only"),
            (ask({**me, "do": "task"}, key="brain_fleet/Robot/learn"), "is no robot's key"),
            (ask(None, raw=b""), "nor a frame"), (ask(None, raw=b"\xff\xff\xff\xff{}"), "nor a frame"),
            (ask(None, raw=b"\0\0\0\2[]"), "must be an object"), (ask({**me, "do": "steal"}), "must be one of"),
            (ask({**me, "do": "task", "format": 2}), "is of format 2"), (ask({**me, "do": "put"}), "run is missing"),
            (ask({**put, "offset": -1}), "at least 0"), (ask(put, bytes(CHUNK + round_messages.HEAD)), "at most"),
            (ask({**put, "metrics": {"a": 10**400}}), "64 bits")):
        assert isinstance(found, str) and why in found, (found, why)
    assert "needs the learner line" in ask({**me, "do": "task", "learners": ["other"]})["why"]
    assert "have" in ask({**put, "size": task["size"]}, bytes(10))
    assert ask({**put, "offset": 10**15}, bytes(10))["have"] == 10      # it is told where it stands
    for head, data, why in (({**put, "size": 5}, b"", "weights of this network have"),
                            ({**put, "round": 99}, b"", "late"), ({**put, "run": "0" * 16}, b"", "another training"),
                            ({**me, "do": "get", "digest": "0" * 64, "offset": 0}, b"", "others meanwhile")):
        assert why in ask(head, data)["refused"]
    for start in range(0, task["size"], CHUNK):
        found = ask({**put, "digest": "1" * 64, "offset": start}, bytes(min(CHUNK, task["size"] - start)))
    assert "not what its digest says" in found["refused"]
    liar = Line(float("inf"))
    robot = Participant(session, "robot1", "line", liar, patience=5.0)
    assert robot.turn() is Turned.DECLINED and "not finite" in robot.why     # an honest robot sees it itself
    broken = Line()
    broken.during = lambda: {}["nothing"]   # a fault of the learner's own
    assert cloud.robot("robot3", broken).turn() is Turned.DECLINED
    assert cloud.rounds.status()["version"] == 0
    assert cloud.robot("robot2", Line()).turn() is Turned.TAKEN              # and the fleet goes on
    declined = cloud.rounds.status()["history"][-1]["declined"]
    assert "not finite" in declined["robot1"] and declined["robot3"] == "KeyError: 'nothing'"


def test_a_cloud_that_is_killed_in_mid_round_goes_on_with_what_it_had_acknowledged(fleet, tmp_path, until):
    write_plan(tmp_path, rounds=2, least=2, enough=2)
    fleet.cloud("--learn", str(tmp_path / "plan.yaml"))
    until(lambda: fleet.ask("learning")["learning"], lambda: fleet.said("cloud"))
    with contextlib.ExitStack() as ends:
        robots, learners = [], [Line(1.0), Line(3.0)]
        for number, learner in enumerate(learners, 1):
            session = ends.enter_context(open_session(f"tcp/127.0.0.1:{fleet.port}", identity=f"robot{number}",
                                                      more=ZENOH))
            robots.append(Participant(session, f"robot{number}", "line", learner, patience=PATIENCE))
        turned(robots[0], Turned.TAKEN)
        # Killed while the second trains: what the first has handed in is on the disk, and the second's part fits.
        learners[1].during = lambda: (fleet.end("cloud", signal.SIGKILL),
                                      fleet.cloud("--learn", str(tmp_path / "plan.yaml")))
        turned(robots[1], Turned.TAKEN)
        found = fleet.ask("learning")["learning"]
        assert found["version"] == 1 and sorted(found["history"][0]["robots"]) == ["robot1", "robot2"]
        assert [learner.fits for learner in learners] == [1, 1]
        learners[1].during = lambda: None
        for robot in robots:
            turned(robot, Turned.TAKEN)
    done = CliRunner().invoke(app, ["fleet", "learning", "--cloud", f"tcp/localhost:{fleet.port}"])
    assert done.exit_code == 0 and "line: line by FedAvg, 2 of 2 rounds done" in done.output, done.output
    fleet.end("cloud", signal.SIGTERM)
    kept = Rounds(fleet.database("cloud") / "learning" / "line", plan(json.loads((tmp_path / "plan.yaml").read_text())))
    assert kept.model["w"][:2].tolist() == [8.0, 9.0]
    (tmp_path / "plan.yaml").write_text("name: Line")
    fleet.cloud("--learn", str(tmp_path / "plan.yaml"))
    assert fleet.ends("cloud") == 1 and "plan.yaml: " in fleet.said("cloud").splitlines()[-1]


@pytest.mark.slow
def test_in_a_secured_fleet_a_robot_learns_for_itself_only(fleet, tmp_path):
    from brain_wire.session import Elsewhere

    keys = tmp_path / "keys"
    done = CliRunner().invoke(app, ["keys", str(keys), "--node", "robot1", "--node", "robot2"])
    assert done.exit_code == 0, done.output
    write_plan(tmp_path)
    fleet.secure = keys
    fleet.cloud("--learn", str(tmp_path / "plan.yaml"))
    fleet.ask("learning")
    with open_session(f"tls/localhost:{fleet.port}", identity="robot2", elsewhere=Elsewhere(keys),
                      more=ZENOH) as session:
        with pytest.raises(NoAnswer, match="no cloud answers"):
            Participant(session, "robot1", "line", Line(), patience=PATIENCE).turn()
        turned(Participant(session, "robot2", "line", Line(), patience=PATIENCE), Turned.TAKEN)
    assert list(fleet.ask("learning")["learning"]["history"][0]["robots"]) == ["robot2"]


def test_a_learner_that_is_not_there_is_named_with_its_remedy():
    with pytest.raises(LearnerProblem, match="'lines' is not installed here; .* brain_training, or without ROS"):
        make("lines", [], "self", 0)


def test_what_is_neither_an_object_nor_a_frame_is_named():
    whole = round_messages.write({"wait_s": 1.0}, b"data", framed=True)
    assert round_messages.read(whole, "reply") == ({"format": 1, "wait_s": 1.0}, b"data", True)
    plain, most = round_messages.write({"wait_s": 1.0}), round_messages.HEAD + 1
    assert round_messages.read(plain, "reply") == ({"format": 1, "wait_s": 1.0}, b"", False)
    for payload in (b"", whole[:3], whole[:10], most.to_bytes(4, "big") + bytes(most)):
        with pytest.raises(FormProblem, match="it is neither an object nor a frame"):
            round_messages.read(payload, "reply")


def asking(*heads: dict[str, Any]) -> Participant:
    """A robot whose cloud answers with these heads, without data."""
    answers = iter(heads)
    robot = object.__new__(Participant)
    robot._insist = lambda *_: next(answers)
    return robot


def test_a_robot_asks_a_cloud_that_can_say_nothing_yet_after_the_wait_that_it_told(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(participant, "rest", lambda seconds, going: waits.append(seconds))
    made = Made({"run": "a", "round": 3, "version": 2, "size": 0}, {}, 7, {})
    for taken in (True, False):
        robot = asking({"wait_s": 2.5}, {"wait_s": 4.0}, {"taken": taken})
        assert robot._was_taken(made, "digest", Flag()) is taken
    assert waits == [2.5, 4.0] * 2


def test_weights_that_are_others_meanwhile_are_said_and_what_has_come_of_them_stays_after_a_kill(cloud, tmp_path):
    session, folder = cloud.session("robot1"), tmp_path / "weights"
    first = Participant(session, "robot1", "line", Line(), patience=PATIENCE, folder=folder)
    head = first._ask({"do": "task", "learners": ["line"]})
    named, data = f"sha256:{head['digest']}", cloud.rounds.weights(head["digest"])
    Blobs(folder).write(named, 0, data[:2 * PIECE])     # of a process that was killed
    asked: list[int] = []
    piece = cloud.aggregator.piece
    cloud.aggregator.piece = lambda robot, digest, offset: asked.append(offset) or piece(robot, digest, offset)
    assert first._fetch(head, Flag())["w"].tolist() == list(range(LARGE))
    assert min(asked) == 2 * PIECE
    assert first._fetch({**head, "digest": "0" * 64}, Flag()) is None and "others meanwhile" in first.why
    assert Blobs(folder).sizes() == {}      # nobody trains from the ones before any more


def test_an_update_goes_on_where_it_was_after_the_cloud_was_killed(tmp_path, monkeypatch):
    monkeypatch.delenv("BRAIN_ROUTER", raising=False)
    data = pack({"w": np.ones(LARGE, dtype=np.float32)})
    with contextlib.closing(Cloud(tmp_path)) as cloud:
        task = cloud.rounds.task("robot1", ("line",))
        about = {"run": task.run, "round": task.attempt, "version": task.version}
        have = cloud.aggregator.take("robot1", f"sha256:{digest(data)}", 0, task.size, data[:PIECE], about)["have"]
        assert have == PIECE
        for wrong, why in (({}, "about.run is missing"), ({**about, "run": 7}, "about.run must be a string")):
            with pytest.raises(FormProblem, match=why):
                cloud.aggregator.take("robot2", f"sha256:{'0' * 64}", 0, task.size, b"", wrong)
        late = {**about, "round": 99}
        for size, what, why in ((5, about, "weights of this network have"), (task.size, late, "late")):
            with pytest.raises(carry.BlobProblem, match=why):
                cloud.aggregator.take("robot2", f"sha256:{'0' * 64}", 0, size, b"", what)
    with contextlib.closing(Cloud(tmp_path)) as cloud:
        head = {"from": "robot1", "do": "put", **about, "digest": digest(data), "size": len(data), "examples": 1}
        assert cloud.aggregator._answer("robot1", round_messages.RoundMessage(head))[0] == {"have": PIECE}
        session = cloud.session("robot1")
        carry.Carrier("robot1", carry.LEARNING, session, tries=60).hand_in(
            f"sha256:{digest(data)}", len(data), io.BytesIO(data), about)
        assert cloud.aggregator._answer("robot1", round_messages.RoundMessage(head))[0]["taken"]
        assert not list(cloud.rounds.folder.glob("coming/*"))
        assert cloud.rounds.status()["history"][0]["updates"] == {"robot1": digest(data)}


def test_a_robot_of_the_release_before_learns_in_frames(cloud):
    """It asks on one key for all, with weights behind the object, and is answered so."""
    session = cloud.session("robot1")

    def ask(head: dict[str, Any], data: bytes = b"") -> round_messages.RoundMessage:
        payload = round_messages.write({"from": "robot1", **head}, data, framed=True)
        return round_messages.read(question.ask(session, learn("robot1"), payload, 30.0), "reply")

    task = ask({"do": "task", "learners": ["line"]}).head
    data = b""
    while len(data) < task["size"]:
        data += ask({"do": "get", "digest": task["digest"], "offset": len(data)}).data
    assert digest(data) == task["digest"]
    new = pack({"w": np.arange(LARGE, dtype=np.float32) + np.float32(2.0)})
    put = {"do": "put", "run": task["run"], "round": task["round"], "version": task["version"], "digest": digest(new),
           "size": len(new), "examples": 10, "metrics": {"loss": 0.5}}
    offset, found = 0, {}
    while not found.get("taken"):
        found = ask({**put, "offset": offset}, new[offset:offset + CHUNK]).head
        offset = found["have"]
    assert cloud.rounds.model["w"][:2].tolist() == [2.0, 3.0]
