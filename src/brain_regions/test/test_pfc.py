# SPDX-License-Identifier: Apache-2.0
"""The spiking prefrontal cortex: what its sheets hold, how undecided it is, and what its spikes contribute."""
import math
from types import SimpleNamespace

import numpy as np
import pytest

from brain_regions.azimuth import BINS, WIDTH, bump, sound_values, wrap
from brain_regions.pfc import PrefrontalCortex, choice, decision, feedback, heading, memory, polar
from brain_regions.pfc import control as c
from brain_regions.sensed import ways_told
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

SECTOR = (-math.pi / 4, math.pi / 4)
BLUE_BOX = 7        # number of the class


def detection(bearing, distance, color=3, shape=2, confidence=0.9):
    return SimpleNamespace(bearing=bearing, distance=distance, color=color, shape=shape, confidence=confidence)


# -- the sheet -----------------------------------------------------------------------------------------------------


def test_a_bump_tells_its_place():
    places = [(bearing, distance) for bearing in np.linspace(-3.1, 3.1, 9) for distance in (0.45, 1.0, 2.3, 5.0)]
    bumps = [polar.bump(*place) for place in places]
    assert max(map(np.count_nonzero, bumps)) < 64       # of 504: evidence is local
    found = [polar.place(activity, int(np.argmax(activity.sum(1)))) for activity in bumps]
    assert [place for place, told in zip(places, found) if not (
        abs(wrap(told[0] - place[0])) <= 0.03 and told[1] == pytest.approx(place[1], rel=0.06))] == []


def test_peaks_are_told_apart_and_silence_has_none():
    assert polar.peaks(np.zeros((BINS, polar.RINGS)), 0.0, 8) == []
    both = polar.bump(0.5, 1.0) + 0.6 * polar.bump(-1.0, 3.0)
    found = [polar.place(both, column) for column, _ in polar.peaks(both, 0.1, 8)]
    assert len(found) == 2
    assert found[0][0] == pytest.approx(0.5, abs=0.06) and found[1][0] == pytest.approx(-1.0, abs=0.06)


@pytest.mark.parametrize("bearing, distance, turned, ahead", [
    (0.3, 2.0, 0.5, 0.2), (-2.0, 0.6, -0.1, 0.3), (3.0, 4.0, 1, -1)])
def test_carrying_a_place_there_and_back(bearing, distance, turned, ahead):
    there = polar.carried(bearing, distance, turned, ahead)
    assert polar.brought_back(*there, turned, ahead) == pytest.approx((bearing, distance))


def test_what_is_at_a_place_is_weighted_as_a_bump_there():
    sheets = np.random.default_rng(0).random((2, BINS, polar.RINGS)).astype(np.float32) ** 4
    for bearing in np.linspace(-3.1, 3.1, 17):
        for distance in (0.2, 0.33, 1.1, 4.7, 9.0):
            wanted = (sheets * polar.bump(bearing, distance)).sum((1, 2))
            assert polar.nearby(sheets, bearing, distance) == pytest.approx(wanted, rel=0.06)


# -- memory --------------------------------------------------------------------------------------------------------


def remember(seconds, seed, *, see=1.0, how=None):
    """Sees an object for ``see`` s and drives on without seeing; true and remembered (bearing, distance)."""
    net, state = memory.ObjectMemory(), memory.empty()
    rng = np.random.default_rng(seed)
    thing = (rng.uniform(1.2, 3.5), rng.uniform(-0.6, 0.6))
    x = y = yaw = turning = 0.0
    for tick in range(round((see + seconds) * 20)):
        moving = tick >= see * 20
        turning = moving * (0.95 * turning + 0.12 * rng.standard_normal())
        way = 0.3 * 0.05 * moving
        turn = (1.0 if math.hypot(x, y) > 1.5 and moving else turning) * 0.05     # back toward the middle
        net.move(state, turn, way)
        x, y, yaw = x + way * math.cos(yaw + turn / 2), y + way * math.sin(yaw + turn / 2), yaw + turn
        bearing, distance = wrap(math.atan2(thing[1] - y, thing[0] - x) - yaw), math.hypot(thing[0] - x, thing[1] - y)
        if not moving:
            noisy = detection(bearing + 0.02 * rng.standard_normal(), distance * (1 + 0.05 * rng.standard_normal()))
            net.see(state, [noisy], 0.0, SECTOR, None, 0.6, 0.05)
        net.run(state, 10, **(how or {}) if moving else {})
    held = state["trace"][BLUE_BOX]
    if held.max() < 0.01:
        return (bearing, distance), None
    place = polar.place(held, int(np.argmax(held.sum(1))))
    return (bearing, distance), polar.carried(*place, *(float(v) for v in state["owed"]))


@pytest.mark.parametrize("how", [{}, {"rate": True}])
def test_what_was_seen_for_a_second_is_known_after_driving_for_twenty(how):
    errors = []
    for seed in range(16):
        true, found = remember(20.0, seed, how=how)
        errors.append(abs(wrap(found[0] - true[0])))
    assert np.degrees(np.median(errors)) < 10


def test_memory_lives_in_spikes():
    assert remember(3.0, 1)[1] is not None
    assert remember(3.0, 1, how={"silent": True})[1] is None


def test_evidence_at_rest_neither_grows_nor_fades_by_more_than_it_should():
    net, state = memory.ObjectMemory(), memory.empty()
    for _ in range(8):
        net.see(state, [detection(0.2, 1.4)], 0.0, SECTOR, None, 0.6, 0.05)
    for _ in range(40):     # the membranes take their share first
        net.run(state, 10)
    before = state["trace"].sum()
    for _ in range(400):
        net.run(state, 10)
    assert state["trace"].sum() / before == pytest.approx(math.exp(-20.0 / memory.FORGET), rel=0.08)


def test_a_later_look_corrects_an_early_mistake_and_double_detections_do_not_put_each_other_out():
    net, state = memory.ObjectMemory(), memory.empty()
    for _ in range(4):
        net.see(state, [detection(0.2, 2.6)], 0.0, SECTOR, None, 0.6, 0.05)
    for _ in range(30):
        net.see(state, [detection(0.2, 2.0), detection(0.2, 2.4)], 0.0, SECTOR, None, 0.6, 0.05)
        net.see(state, [detection(0.2, 2.0)], 0.0, SECTOR, None, 0.6, 0.05)
        net.run(state, 10)
    held = state["trace"][BLUE_BOX]
    assert polar.place(held, int(np.argmax(held.sum(1))))[1] == pytest.approx(2.1, abs=0.2)
    assert held.max() > 5 * memory.UNIT


def test_whatever_is_detected_the_memorys_numbers_stay_finite_and_no_operation_is_invalid():
    held, rng = memory.ObjectMemory(), np.random.default_rng(0)
    state, pick = held.rest(), lambda *values: values[rng.integers(len(values))]    # noqa: E731
    for _ in range(200):
        looks = [messages.make("brain_interfaces/msg/DetectedObject", color=pick(1, 2, 3, 4), shape=pick(1, 2, 3),
                               confidence=pick(1e-30, 0.5, 1.0), bearing=pick(0.0, math.pi, -math.pi, 1e9, 1e-30),
                               distance=pick(0.051, 1.0, 5.0, 14.9)) for _ in range(pick(0, 1, 4))]
        with np.errstate(all="raise", under="ignore"):
            free = pick(None, rng.choice([0.0, 1.0, np.inf], BINS).astype(np.float32))
            held.see(state, looks, pick(0.0, 0.1, -3.0, 100.0), (-0.8, 0.8), free, 2.0, pick(0.0, 0.05, 1.0),
                     went=(pick(0.0, -1.0, 1e3), pick(0.0, 0.1)))
            held.run(state, pick(0, 1, 5))
            held.move(state, pick(0.0, 0.05, -0.3, 3.0), pick(0.0, 0.04, -0.04, 0.3, -1.0))
            sheets = state["trace"]
            assert sheets.min() >= 0.0 and sheets.sum(0).max() <= memory.CAP * 1.2      # of NaN, nothing is less
            for column, _ in polar.peaks(sheets.sum(0), 0.01, 8):
                bearing, distance = polar.place(sheets.sum(0), column, pick(1, 2))
                assert math.isfinite(bearing) and polar.NEAREST * 0.9 < distance < 20.0
                assert np.isfinite(polar.nearby(sheets, bearing, distance)).all()


def test_what_is_hidden_stays_and_what_is_gone_fades():
    for free, stays in ((np.full(BINS, 1.0), True), (np.full(BINS, 5.0), False), (None, False)):
        net, state = memory.ObjectMemory(), memory.empty()
        for _ in range(20):
            net.see(state, [detection(0.1, 2.0)], 0.0, SECTOR, free, 0.6, 0.05)
            net.run(state, 10)
        for _ in range(60):
            net.see(state, [], 0.0, SECTOR, free, 0.6, 0.05)
            net.run(state, 10)
        assert bool(state["trace"].max() > 3 * memory.UNIT) is stays


def test_a_whole_turn_costs_nothing():
    net, state = memory.ObjectMemory(), memory.empty()
    net.see(state, [detection(0.37, 2.0)], 0.0, SECTOR, None, 0.6, 0.05)
    before = state["trace"].copy()
    for _ in range(36 * 7):
        net.move(state, WIDTH / 7, 0.0)
    assert np.array_equal(state["trace"], before) and abs(state["owed"][memory.TURN]) < 1e-4


# -- feedback ------------------------------------------------------------------------------------------------------


def test_feedback_is_what_its_equations_say():
    n = 36
    assert feedback.entropy(np.full(n, 1 / n)) == pytest.approx(math.log(n))
    assert feedback.alpha_of(math.log(n), n) == pytest.approx(0, abs=1e-12) and feedback.alpha_of(0.0, n) == 1
    h = 0.5 * math.log(n)
    assert feedback.alpha_of(h, n) == pytest.approx(math.cos(math.pi / 4) ** 2)
    assert feedback.alpha_of(0.8 * math.log(n), n, "linear") == pytest.approx(0.2)
    assert feedback.temperature(0.0) == pytest.approx(20.0) and feedback.threshold(1.0, 2.0) == pytest.approx(3.0)
    state = feedback.empty(n)
    for _ in range(10):
        h = feedback.feed_back(state, np.eye(n)[0], 0.03, np.random.default_rng(0))[0]
    assert h == pytest.approx(math.log(n) * math.exp(-1.0), rel=1e-4)


def test_controls_of_the_feedback():
    rng, n = np.random.default_rng(0), 36
    sure, open_ = np.eye(n)[0], np.full(n, 1 / n)
    assert feedback.feed_back(feedback.empty(n), sure, 1.0, rng, "off", base=1.0)[2:] == (1.0, 1.0)
    assert feedback.feed_back(feedback.empty(n), sure, 1.0, rng, "constant", 0.3)[1] == 0.3
    followed, shuffled = feedback.empty(n), feedback.empty(n)
    pairs = []
    for k in range(600):
        p = sure if k // 60 % 2 else open_
        pairs.append([feedback.feed_back(state, p, 0.05, rng, mode)[1]
                      for state, mode in ((followed, "on"), (shuffled, "shuffled"))])
    real, other = np.array(pairs[200:]).T
    assert abs(real.mean() - other.mean()) < 0.1 and abs(np.corrcoef(real, other)[0, 1]) < 0.2


class Cortex:
    """A prefrontal cortex in lockstep, in front of objects, in a room that holds more to see."""

    def __init__(self, region=PrefrontalCortex, **parameters):
        self.host = LocalHost({"pfc": region("pfc")}, parameters={"pfc": parameters})
        self.host.listen("pfc/choice", lambda m: None)
        self.goal = 0

    def ask(self, **fields):
        self.goal += 1
        self.host.publish("lang/features", messages.make(
            "brain_interfaces/msg/LanguageFeatures", goal_id=self.goal, understood=True, verb=1,
            **{"text": "x", "target_color": 3, "target_shape": 2, **fields}))
        return self

    def run(self, seconds, *objects, ways=((0.0, 0.0),), motor=1):
        view = np.zeros(BINS, np.float32)
        view[10:26] = 0.1
        odom = messages.make("nav_msgs/msg/Odometry")
        odom.pose.pose.orientation.w = 1.0
        for _ in range(round(seconds * 20)):
            self.host.publish("odom", odom)
            self.host.publish("motor/status", messages.make(
                "brain_interfaces/msg/MotorStatus", goal_id=self.goal, state=motor))
            self.host.publish("sensor/features", messages.make(
                "brain_interfaces/msg/SensorFeatures", source="place/view", novelty=view))
            self.host.publish("place/headings", ways_told(*ways))
            self.host.publish("vision/objects", messages.make(
                "brain_interfaces/msg/DetectedObjects", source="vision", azimuth_min=SECTOR[0], azimuth_max=SECTOR[1],
                objects=[messages.make("brain_interfaces/msg/DetectedObject", **vars(o)) for o in objects]))
            self.host.advance(0.05)
        return self

    @property
    def control(self):
        return self.host.latest("pfc/control")

    @property
    def entropy(self):
        return float(self.host.latest("pfc/choice").entropy)


def test_evidence_brings_the_entropy_down_another_candidate_up_and_a_second_look_down_again():
    cortex = Cortex().ask(target_color=0).run(1.0)
    most = math.log(BINS)
    assert cortex.entropy == pytest.approx(most, abs=0.01)
    box, other = detection(0.4, 2.0), detection(-0.4, 2.0, color=1)
    assert cortex.run(1.0, box).entropy < 0.5 * most
    one = cortex.run(2.0, box).entropy
    two = cortex.run(2.0, box, other).entropy
    assert two > one + 0.2
    assert cortex.run(2.0, box).entropy < two - 0.2


def test_threshold_and_temperature_follow_the_entropy():
    cortex = Cortex().ask().run(1.0)
    undecided = cortex.host.latest("pfc/choice")
    assert undecided.temperature == pytest.approx(20.0, rel=0.05)
    assert undecided.threshold == pytest.approx(0.5, abs=0.02)
    certain = cortex.run(2.0, detection(0.2, 1.5)).host.latest("pfc/choice")
    assert certain.temperature < 1.5 and certain.threshold > 1.3
    assert sum(certain.probability) == pytest.approx(1.0, abs=1e-5)


def test_search_goes_where_it_is_offered_and_approach_where_the_target_is():
    cortex = Cortex().ask().run(1.0, ways=[(-1.0, 0.0)])
    assert cortex.control.mode == c.SEARCH and cortex.control.heading == pytest.approx(-1.0, abs=0.3)
    cortex.run(1.0, detection(0.3, 0.9), ways=[(-1.0, 0.0)])
    assert cortex.control.mode == c.APPROACH
    assert cortex.control.heading == pytest.approx(0.3, abs=0.1)
    assert cortex.control.distance == pytest.approx(0.9, abs=0.1)


def test_how_sure_it_is_sets_how_it_searches():
    def away_from_the_best(**parameters):
        cortex, taken = Cortex(**parameters).ask(), []
        for _ in range(20):
            cortex.run(1.0, ways=[(0.6, 1.0), (-0.8, 0.8)])
            taken.append(float(cortex.control.heading) < 0)
        return sum(taken)
    assert away_from_the_best(qpfc="off") == 0
    assert 2 < away_from_the_best() < 12       # nothing is known: temperature 20


def test_numbers_of_ways_that_make_no_sense_are_no_ways():
    value, told = np.full(BINS, np.nan, np.float32), np.zeros(BINS, np.float32)
    value[[3, 5, 7, 9]] = math.inf, -math.inf, 1e30, 1.0
    told[9], told[3] = 40.0, math.nan
    values, headings = sound_values(value, told)
    assert list(np.flatnonzero(np.isfinite(values))) == [9] and headings[9] == pytest.approx(math.radians(90))
    cortex = Cortex().ask()
    message = ways_told((1.0, 0.5))
    message.value[:] = np.where(np.isnan(message.value), math.inf, message.value)
    cortex.run(0.5).host.publish("place/headings", message)
    assert math.isfinite(cortex.run(0.2).control.heading)


def test_it_gets_away_from_what_is_too_near_and_to_be_avoided():
    near = detection(0.3, 0.6, color=1, shape=1)
    cortex = Cortex().ask(avoid_color=1, avoid_shape=1).run(1.5, near, detection(-0.5, 2.0))
    assert cortex.control.mode == c.AVOID
    assert abs(wrap(float(cortex.control.heading) - 0.3)) > 2.0
    assert list(cortex.control.avoid_bearing) == pytest.approx([0.3], abs=0.05)


def test_without_spikes_nothing_is_decided():
    cortex = Cortex(silent=True).ask().run(2.0, detection(0.3, 1.5))
    assert cortex.control.mode == c.IDLE and cortex.host.latest("goal/status") is None
    assert math.isnan(cortex.control.bearing) and cortex.entropy == pytest.approx(math.log(BINS), abs=1e-3)


def test_spikes_and_synaptic_operations_are_counted():
    cortex = Cortex().ask().run(1.0, detection(0.3, 1.5))
    region = cortex.host.regions["pfc"]
    assert region.spikes > 100 and region.synops > region.spikes


def test_an_old_verdict_is_not_told_of_a_new_goal():
    cortex = Cortex().ask().run(1.0, detection(0.3, 0.8)).run(2.0, detection(0.3, 0.8), motor=2)
    assert cortex.host.latest("goal/status").state == c.S_REACHED
    heard = []
    cortex.host.listen("goal/status", heard.append)
    cortex.ask(target_color=1).run(1.0, detection(0.3, 0.8))
    assert [(m.goal_id, m.state) for m in heard if m.goal_id == 2] == [(2, c.S_SEARCHING)]


def test_what_is_no_order_is_told_once_and_the_goal_goes_on():
    cortex = Cortex().ask().run(1.0, detection(0.3, 1.5))
    assert cortex.control.mode == c.APPROACH
    heard = []
    cortex.host.listen("goal/status", heard.append)
    cortex.goal -= 1        # under the same number
    cortex.ask(text="exactly", reason="no order").run(0.3, detection(0.3, 1.5))
    cortex.goal -= 1
    cortex.ask().run(1.0, detection(0.3, 1.5))
    assert cortex.control.mode == c.APPROACH and cortex.control.goal_id == 1
    assert [(m.goal_id, m.state, m.text, m.reason) for m in heard if m.reason == "no order"] == [
        (1, c.S_APPROACHING, "x", "no order")]


def test_without_integration_the_newest_look_decides():
    right, wrong = detection(0.3, 1.5), detection(0.3, 1.5, color=1)

    def follows_a_mistake(**parameters):
        cortex = Cortex(**parameters).ask(target_color=1).run(1.0, right)
        cortex.run(0.25, wrong)     # five looks of twenty-five
        return cortex.control.mode == c.APPROACH
    assert not follows_a_mistake()
    assert follows_a_mistake(integrate=False)


def test_state_is_plain_and_a_restored_one_goes_on():
    cortex = Cortex().ask().run(1.0, detection(0.3, 1.5))
    left = cortex.host.kill("pfc")
    assert all(np.asarray(v).dtype == np.float32 for v in left.state.values())
    again = PrefrontalCortex("pfc")
    cortex.host.join("pfc", again, state=again.restore(left.state))
    cortex.run(0.1)
    assert cortex.control.mode == c.APPROACH and cortex.control.bearing == pytest.approx(0.3, abs=0.06)


def test_what_fades_comes_to_rest():
    """Numbers too small to matter are no numbers: processors take a hundred times as long for them."""
    cortex = Cortex().ask(avoid_color=1, avoid_shape=1).run(1.0, detection(0.3, 1.5), detection(-0.3, 0.9, 1, 1))
    for _ in range(4):
        cortex.run(1.0)
        state = cortex.host.kill("pfc").state
        for name in (n for n in state if n.endswith(("_v", "_s")) or n in ("trace", "memory", "counts")):
            assert not ((state[name] != 0) & (np.abs(state[name]) < 1e-9)).any(), name
        cortex.host.join("pfc", PrefrontalCortex("pfc"), state=state)


def test_a_memory_of_nothing_is_empty_and_moving_it_costs_nothing():
    net, state = memory.ObjectMemory(), memory.empty()
    net.see(state, [detection(0.1, 2.0, confidence=0.3)], 0.0, SECTOR, None, 0.1, 0.05)
    for _ in range(100):
        net.see(state, [], 0.0, SECTOR, None, 0.1, 0.05)
        net.run(state, 10)
    assert not state["trace"].any()
    assert net.move(state, 0.0, memory.polar.STRIDE)[1] == 0


def chosen(threshold, asked=(3, 2, 1, 1), seconds=0.5):
    """State of the choice after so long beside a box that is sought and a ball to be kept away from."""
    net, state, held = choice.Choice(1.2), choice.empty(), np.zeros((memory.CLASSES, BINS, polar.RINGS), np.float32)
    held[BLUE_BOX], held[0] = 0.3 * polar.bump(0.5, 1.0), 0.06 * polar.bump(-0.5, 1.0)
    for _ in range(round(seconds / 0.05)):
        net.run(state, held, 10, *choice.gates(asked), threshold)
    return state


def test_the_threshold_moves_what_is_sought_and_not_what_is_avoided():
    low, high = chosen(0.5), chosen(1.5)
    assert np.array_equal(low["avoid_s"], high["avoid_s"]) and low["avoid_s"].any()
    assert low["target_s"].sum() > 1.1 * high["target_s"].sum() > 0
    assert not chosen(0.5, (3, 2, 0, 0))["avoid_s"].any()


def driven(steps=20, near=0.0, tired=False, **offers):
    """State of the decision after steps of 50 ms in which it was to search, or what is told."""
    net, state = decision.Decision(50.0), decision.empty()
    if tired:
        state["decision_s"][decision.NAMES.index("tired")] = 0.6
    for _ in range(steps):
        net.run(state, 10, {"goal": 1.0, "near": near}, offers, 1.0)
    return state


def test_the_ring_of_headings_holds_itself_down():
    one, everywhere = driven(search=bump(1.0)), driven(search=np.ones(BINS, np.float32))
    assert heading.read(one) == pytest.approx(1.0, abs=0.05)
    assert everywhere["heading_s"].max() < 0.95 * one["heading_s"].max()


def test_only_the_action_that_fires_has_its_way():
    both = driven(search=bump(1.0), avoid=bump(-2.0))
    assert heading.read(both) == pytest.approx(1.0, abs=0.05)
    fleeing = driven(near=1.0, tired=True, search=bump(1.0), avoid=bump(-2.0))
    assert decision.read(fleeing)[0] == "avoid" and heading.read(fleeing) == pytest.approx(-2.0, abs=0.05)


def test_weights_of_the_decision_hold_no_wire_that_was_not_asked_for():
    w = decision.weights()
    assert w.shape == (len(decision.NAMES),) * 2
    assert np.count_nonzero(w) == sum(len(t) for t in decision._WIRES.values())
    assert (w[decision.NAMES.index("idle")] <= 0.2).all() and choice.RHEOBASE == pytest.approx(0.2212, abs=1e-4)


def test_patience_ends_a_search_but_no_approach():
    cortex = Cortex(patience=2.0).ask().run(1.0)
    cortex.run(3.0, detection(0.3, 1.5))
    assert cortex.control.mode == c.APPROACH
    other = Cortex(patience=2.0).ask().run(4.0)
    assert other.host.latest("goal/status").state == c.S_NOT_FOUND and other.control.mode == c.IDLE
