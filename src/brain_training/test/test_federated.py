# SPDX-License-Identifier: Apache-2.0
"""What a robot of a fleet trains: worlds that are not alike, labels from what it found out, a few steps."""
import dataclasses
import math

import numpy as np
import pytest
import torch
from bags_by_hand import image, noise, told

from brain_observe.bags import BagWriter
from brain_regions.vision import weights
from brain_runtime.interfaces import GoalStatus, LanguageFeatures
from brain_sim.camera import MOUNT
from brain_sim.room import generate_room
from brain_training import looks
from brain_training.federated import _Own, VisionLearner, network_of, vision
from brain_training.looks import KINDS, PLAIN, Look
from brain_training.recordings.bags import RecordingError
from brain_training.recordings.library import find
from brain_training.recordings.outcomes import Outcome, outcomes
from brain_training.recordings.own_labels import LOOKS, Odometry, OwnLabels
from brain_training.recordings.reading import frames
from brain_training.vision_data import Studio
from brain_wire.messages import make


def endless():
    return math.inf


def test_the_look_that_is_none_changes_nothing_and_others_change_what_they_say():
    room = generate_room("train", 7)
    assert PLAIN.over(room) is room
    plain, again = (Studio(1, 1, 1, first_seed=7, **more).take(0) for more in ({}, {"look": Look()}))
    assert np.array_equal(plain.images, again.images)
    dim = Studio(1, 1, 1, first_seed=7, look=Look(light=0.4)).take(0)
    assert dim.images.mean() < 0.5 * plain.images.mean()
    assert all(np.array_equal(a, b) for a, b in zip(dim.labels, plain.labels))
    cold = Studio(1, 1, 1, first_seed=7, look=Look(tint=(0.5, 1.0, 1.0))).take(0)
    ratio = cold.images.astype(float).mean((0, 1, 2)) / plain.images.mean((0, 1, 2))
    assert ratio == pytest.approx([0.5, 1.0, 1.0], abs=0.02)
    few = Look(kinds=(("red", "ball"), ("blue", "cylinder"))).over(room)
    assert {thing.kind for thing in few.objects} <= {("red", "ball"), ("blue", "cylinder")}
    assert [(a.x, a.y) for a in few.objects] == [(a.x, a.y) for a in room.objects]
    assert all(a.radius <= b.radius and a.name == f"object_{b.name.split('_')[1]}_{a.color}_{a.shape}"
               for a, b in zip(few.objects, room.objects))
    assert few == Look(kinds=(("red", "ball"), ("blue", "cylinder"))).over(room)
    for wrong in ({"light": 0.0}, {"tint": (1.0, 1.0, 9.0)}, {"hue": math.nan}):
        with pytest.raises(ValueError, match="is no look"):
            Look(**wrong)
    with pytest.raises(ValueError, match="is no .color, shape."):
        Look(kinds=(("pink", "ball"),))
    fleet = looks.fleet(8, seed=3)
    assert len(set(fleet)) == 8 and set(KINDS) == {kind for look in fleet for kind in look.kinds}
    assert {len(look.kinds) for look in fleet} == {6} and fleet == looks.fleet(8, seed=3)


def test_a_few_steps_from_given_weights_learn_keep_their_shape_and_keep_the_deadline(monkeypatch):
    shipped = dict(weights.load().tensors)
    look = looks.fleet(8)[0]
    learner = VisionLearner(Studio(2, 3, 1, first_seed=50_000, look=look), 5)
    config = {"steps": 4.0, "batch": 4.0, "rate": 1e-3}
    first, examples, told_first = learner.fit(shipped, config, endless)
    second, _, told_second = learner.fit(first, config, endless)
    assert examples == 6 and told_first["steps"] == 4.0 and told_second["loss"] < told_first["loss"]
    assert {name: (value.shape, value.dtype) for name, value in second.items()} == {
        name: (value.shape, np.dtype(np.float32)) for name, value in shipped.items()}
    assert all(value.flags.c_contiguous for value in second.values())

    def fitted(times=1, **more):
        fresh = VisionLearner(Studio(2, 3, 1, first_seed=50_000, look=look), 5)
        found = shipped
        for _ in range(times):
            found, _, _ = fresh.fit(found, {"steps": 2.0, "batch": 2.0, "rate": 1e-3, **more}, endless)
        return found

    def moved(**more):
        found = fitted(**more)
        return sum(float(np.square(found[name] - shipped[name]).sum()) for name in shipped)

    def same(one, other):
        return all(np.array_equal(one[name], other[name]) for name in shipped)

    # The same data, weights and config: the same to the bit, at once or a step at a time.
    free = fitted()
    assert same(fitted(), free) and same(fitted(times=2, steps=1.0), free) and not same(fitted(batch=1.0), free)
    # Two steps are no cycle.
    assert same(fitted(cycle=1.0), free) and not same(fitted(steps=3.0, cycle=1.0), fitted(steps=3.0))
    monkeypatch.setattr(_Own, "clip", 1e9)      # FedProx draws it back by what the first step has moved it, by mu
    free, first_step, drawn = fitted(), fitted(steps=1.0), fitted(proximal_mu=100.0)
    for name in ("readout.weight", "convolutions.0.weight"):
        back = 1e-3 * 100.0 * (first_step[name] - shipped[name])
        assert np.allclose(drawn[name] - free[name], -back, rtol=0.0, atol=0.02 * np.abs(back).max())
    # Plain descent goes as far as its rate times the gradient, of which the task's norm is left at most.
    monkeypatch.setattr(_Own, "clip", 0.01)
    assert moved(steps=1.0, rate=2.0) ** 0.5 == pytest.approx(2.0 * 0.01, rel=1e-2)
    left = iter([100.0, 1e-9])
    assert learner.fit(shipped, config, lambda: next(left))[2]["steps"] == 1.0
    with pytest.raises(ValueError, match="no time for one step"):
        learner.fit(shipped, config, lambda: 0.0)
    with pytest.raises(ValueError, match="not the weights of vision"):
        learner.fit({"w": np.zeros(3, np.float32)}, config, endless)
    with pytest.raises(ValueError, match="no clips"):
        VisionLearner([], 5)
    assert torch.equal(network_of(first).readout.weight, torch.from_numpy(first["readout.weight"]))


def status(number, state):
    return make("brain_interfaces/msg/GoalStatus", goal_id=number, state=state)


def goal(number, color, shape, understood=True):
    return make("brain_interfaces/msg/LanguageFeatures", goal_id=number, understood=understood,
                verb=LanguageFeatures.VERB_GO, target_color=color, target_shape=shape)


def test_outcomes_say_what_a_thing_is_and_what_it_is_not_and_nothing_of_others():
    reached, wrong = GoalStatus.STATE_REACHED, GoalStatus.STATE_WRONG
    heard = [(10, status(1, GoalStatus.STATE_APPROACHING)), (20, status(1, reached)), (30, status(1, reached)),
             (40, status(2, wrong)), (50, status(3, reached)), (60, status(4, reached)), (70, status(9, reached))]
    assert outcomes(heard, [goal(1, 2, 1), goal(2, 1, 1), goal(3, 0, 1), goal(4, 1, 1, understood=False)]) == [
        Outcome(20, True, (1, 0)), Outcome(40, False, (0, 0))]
    # Vision told a red ball ahead at 1 m, and a blue box aside at 3 m, all the while.
    looks_at = {n: told(0.1 * n, (1, 1, 0.9, 0.0, 1.0, 0.4), (3, 2, 0.99, 0.9, 3.0, 0.1)) for n in range(2 * LOOKS)}
    stamps = [round(0.1 * n * 1e9) for n in looks_at]
    odometry = Odometry(stamps, [(0.0, 0.0, 0.0)] * len(stamps))

    def views(ended):
        own = OwnLabels(dict(zip(stamps, looks_at.values())), odometry, ended)
        return [(view.color, view.shape, view.sure) for view in own.views(stamps[3], MOUNT)]

    assert views(None) == [(0, 0, True), (2, 1, True)]
    # It stood before it and had reached a green ball: so it is one. Of the other nothing was found out.
    assert views([Outcome(stamps[5], True, (1, 0))]) == [(1, 0, True), (2, 1, False)]
    # It stood before what is not a red ball; what else it may be nobody has told.
    assert views([Outcome(stamps[5], False, (0, 0))]) == [(0, 0, False), (2, 1, False)]
    assert views([Outcome(stamps[5], False, (3, 2))]) == [(0, 0, True), (2, 1, False)]
    assert views([]) == [(0, 0, False), (2, 1, False)]


def test_a_recording_is_learned_from_by_what_its_robot_found_out(tmp_path):
    pictures = noise(4 * LOOKS)
    (tmp_path / "recordings.json").write_text('{"splits": {"train": ["day", "idle"]}}')
    for name, ends in (("day", True), ("idle", False)):
        with BagWriter(tmp_path / name, "mcap") as bag:
            for topic, kind in (("camera/image_raw", "sensor_msgs/msg/Image"), ("odom", "nav_msgs/msg/Odometry"),
                                ("vision/objects", "brain_interfaces/msg/DetectedObjects"),
                                ("goal/status", "brain_interfaces/msg/GoalStatus"),
                                ("lang/features", "brain_interfaces/msg/LanguageFeatures")):
                bag.declare(topic, kind)
            bag.write("lang/features", 0.0, goal(1, 2, 1))
            for number, picture in enumerate(pictures):
                at = 0.05 * number
                odom = make("nav_msgs/msg/Odometry")
                odom.pose.pose.orientation.w = 1.0
                seen = told(at, (1, 1, 0.9, 0.0, 1.0, 0.4))
                odom.header.stamp = seen.header.stamp
                bag.write("camera/image_raw", at, image(picture if ends else 255 - picture, at))
                bag.write("odom", at, odom)
                bag.write("vision/objects", at, seen)
                now = status(1, GoalStatus.STATE_REACHED if ends and number > LOOKS else GoalStatus.STATE_SEARCHING)
                now.header.stamp = seen.header.stamp
                bag.write("goal/status", at, now)
    day, idle = find([tmp_path])
    assert {(view.color, view.sure) for frame in frames(day, "outcomes") for view in frame.seen} == {(1, True)}
    assert {(view.color, view.sure) for frame in frames(day, "self") for view in frame.seen} == {(0, True)}
    with pytest.raises(RecordingError, match="no goal with a color and a shape was reached in it"):
        list(frames(idle, "outcomes"))
    learner = vision([str(tmp_path / "day")], "outcomes", 0)
    _, examples, _ = learner.fit(dict(weights.load().tensors), {"steps": 1.0, "batch": 1.0}, endless)
    assert examples == 4 * LOOKS - 1
    with pytest.raises(RecordingError, match="is in the split train"):
        (tmp_path / "recordings.json").write_text('{"splits": {"val": ["day", "idle"]}}')
        vision([str(tmp_path)], "self", 0)
    assert dataclasses.replace(PLAIN) == PLAIN
