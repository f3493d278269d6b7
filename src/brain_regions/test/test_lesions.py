# SPDX-License-Identifier: Apache-2.0
"""Lesions: what is handed on of a population's spikes, in each of the four networks, and that none changes nothing."""
import math
from types import SimpleNamespace

import numpy as np
import pytest

from brain_regions import lesions
from brain_regions.azimuth import BINS, bump
from brain_regions.language import Language, network as language_network, weights as language_weights
from brain_regions.language.decode import framed
from brain_regions.lesions import Lesion
from brain_regions.motor import Motor, coding, network as motor_network, senses, weights as motor_weights
from brain_regions.pfc import PrefrontalCortex, choice, control as c, decision, memory
from brain_regions.vision import Vision
from brain_runtime import ParameterError
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

KINDS = {"silent": ("silent",), "drop": ("drop", 0.3), "shuffle": ("shuffle",), "noise": ("noise", 0.1)}
NOTHING = ("drop", 0.0)     # a lesion through which everything passes


class Recorder(Lesion):
    """Keeps what was fired and what was handed on, a row for each micro-step."""

    def __init__(self, *how, seed=0):
        super().__init__(*how)
        self.draw_by(np.random.default_rng(seed))
        self.fired, self.handed = [], []

    def __call__(self, spikes):
        self.fired += [row.ravel() for row in spikes.astype(bool)]
        super().__call__(spikes)
        self.handed += [row.ravel() for row in spikes.astype(bool)]

    def both(self):
        return np.array(self.fired), np.array(self.handed)


# -- each kind -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, bool])
@pytest.mark.parametrize("layout", [lambda a: a, lambda a: a.copy().swapaxes(0, 1).copy().swapaxes(0, 1)])
def test_what_each_kind_hands_on(kind, layout):
    fired = np.random.default_rng(0).random((200, 4, 50)) < 0.2

    def handed(name):
        spikes = layout(fired.astype(kind))
        lesion = Lesion(*KINDS[name])
        lesion.draw_by(np.random.default_rng(1))
        lesion(spikes)
        return spikes.astype(bool)

    assert not handed("silent").any()
    kept = handed("drop")
    assert not (kept & ~fired).any() and kept.sum() / fired.sum() == pytest.approx(0.7, abs=0.02)
    noisy = handed("noise")
    assert not (fired & ~noisy).any() and (noisy & ~fired).sum() / (~fired).sum() == pytest.approx(0.1, abs=0.01)
    shuffled = handed("shuffle")
    assert (shuffled.sum((1, 2)) == fired.sum((1, 2))).all()
    # who fired says nothing: as many as chance has it
    assert (shuffled & fired).sum() / fired.sum() == pytest.approx(0.2, abs=0.02)
    assert (handed("shuffle") == shuffled).all() and (handed("drop") == kept).all()


def test_a_lesion_draws_from_a_generator_of_its_own():
    rng, other = np.random.default_rng([3, 1]), np.random.default_rng([3, 1])
    found = lesions.parse(["second=shuffle", "first=noise:0.5"], Motor.populations, "here")
    found.draw_by(rng)
    spikes = np.zeros((2, 2, 40))
    for lesion, part in zip(found.values(), spikes):
        part[:, :10] = 1.0
        lesion(part)
    found.draw_by(rng)      # each step; it begets no others
    assert (rng.random(20) == other.random(20)).all()
    again = lesions.parse(["second=shuffle", "first=noise:0.5"], Motor.populations, "here")
    again.draw_by(np.random.default_rng([3, 1]))
    same = np.zeros((2, 2, 40))
    for lesion, part in zip(again.values(), same):
        part[:, :10] = 1.0
        lesion(part)
    assert (same == spikes).all() and (spikes[0] != spikes[1]).any()


@pytest.mark.parametrize("written, why", [
    (["memry=silent"], "no population 'memry'; there are memory, target, avoid, candidates, commitment, actions"),
    (["memory=gone"], "no lesion 'gone'; there are silent, drop:P, shuffle, noise:P"), (["memory"], "no lesion ''"),
    (["memory=drop"], "no lesion 'drop'"), (["memory=silent:1"], "no lesion 'silent:1'"),
    (["memory=drop:1.5"], "P of drop is a probability, as in drop:0.3, but is '1.5'"),
    (["memory=noise:nan"], "P of noise"), (["memory=silent", "memory=shuffle"], "two lesions of memory; keep one")])
def test_a_lesion_that_there_is_not_is_named_with_those_that_there_are(written, why):
    with pytest.raises(ParameterError, match=f"^parameter lesions of me: .*{why}") as error:
        PrefrontalCortex("me").configure({"lesions": written})
    assert "\n" not in str(error.value)


# -- the networks that are trained ---------------------------------------------------------------------------------


def motor(found):
    """Spikes of the motor network by layer, and its answer."""
    policy = motor_network.SpikingPolicy(motor_weights.load().tensors)
    row = np.full(senses.SIZE, np.nan, np.float32)
    row[senses.GAP], row[senses.SHRUNK], row[senses.HEADING], row[senses.SPEED] = 0.6, 0.0, 0.4, 1.0
    row[senses.MODE], row[senses.LAST_LINEAR:senses.LAST_STATE + 1] = 1.0, 0.0
    row[senses.MAX_LINEAR:] = 0.5, 1.5, 0.7, 0.18
    state = policy.rest()
    for _ in range(3):
        state, trains = policy.step(coding.encode(row), state, 10, False, found)
    return dict(zip(motor_network.NAMES, trains)), state["u"]


def vision(found):
    """Spikes of vision by layer, and its answer, of one picture."""
    from brain_regions.vision import network, weights

    picture = np.random.default_rng(0).integers(0, 256, (network.HEIGHT, network.WIDTH, 3), np.uint8)
    looked = network.Looking(weights.load().tensors)
    seen = looked.look(picture, looked.rest(), 6, False, found)
    assert seen.spikes == sum(map(np.count_nonzero, seen.trains))
    return dict(zip((layer.name for layer in network.LAYERS), seen.trains)), seen.state["u"]


def language(found):
    """Spikes of language, all together, and what it says of a sentence."""
    reader = language_network.SpikingReader(language_weights.load(
        language_weights.SHIPPED, language_network.SpikingReader)[0], False, found)
    state, spikes = reader.begin(framed("find a red ball, not the blue box")), 0.0
    while not reader.done(state):
        state, effort = reader.read(state, 7)
        spikes += effort.spikes
    heard = reader.heard(state)
    return {"all": np.array(spikes)}, np.concatenate([heard.evidence.ravel(), heard.verb])


CASES = [(run, population) for run, region in ((motor, Motor), (vision, Vision), (language, Language))
         for population in region.populations]


@pytest.mark.parametrize("run, population", CASES, ids=[f"{run.__name__}.{p.name}" for run, p in CASES])
def test_what_a_population_hands_on_is_all_that_others_hear(run, population):
    trains, answer = run({})
    through = Recorder(*NOTHING)
    same, unchanged = run({population.name: through})
    # a lesion that loses nothing changes nothing, to the bit
    assert (unchanged == answer).all() and all((same[name] == trains[name]).all() for name in trains)
    fired = through.both()[0]
    assert fired.any() and fired.shape[1] == population.size
    before = list(trains)[:list(trains).index(population.name)] if population.name in trains else []
    for name, how in KINDS.items():
        recorder = Recorder(*how)
        found, other = run({population.name: recorder})
        assert (recorder.both()[0] != recorder.both()[1]).any(), name
        assert not np.array_equal(other, answer), f"{name}: nobody hears it"
        assert all((found[layer] == trains[layer]).all() for layer in before), name
        if population.name in found:        # what is counted is what is handed on
            steps = len(found[population.name])
            assert (found[population.name].reshape(steps, -1).astype(bool) == recorder.both()[1][-steps:]).all(), name
    silent, _ = run({population.name: Lesion("silent")})
    if population.name in silent:       # others may fire more, which it held back
        assert not silent[population.name].any() and trains[population.name].any()
    else:
        assert sum(train.sum() for train in silent.values()) < sum(train.sum() for train in trains.values())


def test_a_recurrent_population_hears_of_itself_what_is_handed_on():
    """The context's own resets and thresholds go on with what it fired; its synapses on itself do not."""
    alone = Recorder("silent")
    language({"context": alone})
    fired, handed = alone.both()
    intact = Recorder(*NOTHING)
    language({"context": intact})
    assert not handed.any() and fired.any()
    assert (fired != intact.both()[0]).any()        # it does without its recurrence
    # with resets: a neuron that was driven hard does not fire in every step
    assert fired.mean() < 3 * intact.both()[0].mean()


# -- the prefrontal cortex -----------------------------------------------------------------------------------------


def cortex(*found, see=(), seconds=2.0, seed=0, **goal):
    """A prefrontal cortex that was asked for a blue box, and sees objects."""
    region = PrefrontalCortex("pfc")
    host = LocalHost({"pfc": region}, seed=seed, parameters={"pfc": {"lesions": list(found)}})
    host.listen("pfc/choice", lambda m: None)
    host.publish("lang/features", messages.make(
        "brain_interfaces/msg/LanguageFeatures", goal_id=1, text="x", understood=True, verb=1,
        **{"target_color": 3, "target_shape": 2, **goal}))
    odom = messages.make("nav_msgs/msg/Odometry")
    odom.pose.pose.orientation.w = 1.0
    for _ in range(round(seconds * 20)):
        host.publish("odom", odom)
        host.publish("sensor/features", messages.make(
            "brain_interfaces/msg/SensorFeatures", source="place/frontier", novelty=bump(-1.0)))
        host.publish("vision/objects", messages.make(
            "brain_interfaces/msg/DetectedObjects", source="vision", azimuth_min=-0.8, azimuth_max=0.8,
            objects=[messages.make("brain_interfaces/msg/DetectedObject", **thing) for thing in see]))
        host.advance(0.05)
    return SimpleNamespace(region=region, control=host.latest("pfc/control"), choice=host.latest("pfc/choice"))


BOX = {"color": 3, "shape": 2, "confidence": 0.9, "bearing": 0.3, "distance": 1.5}
NEAR_BALL = {"color": 1, "shape": 1, "confidence": 0.9, "bearing": 0.3, "distance": 0.6}


def test_a_lesion_through_which_everything_passes_changes_nothing():
    names = [p.name for p in PrefrontalCortex.populations if p.name != "memory"]
    one, other = cortex(see=[BOX]), cortex(*(f"{name}=drop:0" for name in names), see=[BOX])
    assert (one.region.spikes, one.region.synops) == (other.region.spikes, other.region.synops)
    assert one.control.heading == other.control.heading and list(one.choice.actions) == list(other.choice.actions)


def test_readers_of_the_memory_hear_its_spikes_alone():
    seen = SimpleNamespace(**BOX)

    def run(lesion, steps=40):
        net = memory.ObjectMemory(lesion=lesion)
        state = net.rest()
        for step in range(steps):
            net.move(state, 0.02, 0.01)
            if step < 20:
                net.see(state, [seen], 0.0, (-0.8, 0.8), None, 0.6, 0.05)
            held, fired = net.run(state, 10)
        return held, fired, state

    whole, spikes, state = run(None)
    held, fired, same = run(Lesion(*NOTHING))
    # the neurons are the same, to the bit; what readers hear now is of spikes, and tells of the same place
    assert spikes == fired > 0 and np.allclose(same["trace"], state["trace"], atol=memory.FLOOR)
    assert np.unravel_index(held.argmax(), held.shape) == np.unravel_index(whole.argmax(), whole.shape)
    assert np.corrcoef(held.ravel(), whole.ravel())[0, 1] > 0.95
    assert not run(Lesion("silent"))[0].any()
    assert run(Lesion("silent"), 19)[2]["trace"].max() > 2 * memory.UNIT    # though it is seen at this moment
    lost = run(Lesion("drop", 0.3))
    assert 0 < lost[0].sum() < 0.7 * held.sum() and 0 < lost[1] < fired      # what leaks out is not put back
    shuffled = run(Lesion("shuffle"))[0]
    assert np.corrcoef(shuffled.ravel(), whole.ravel())[0, 1] < 0.3
    assert run(Lesion("noise", 0.1))[1] > 2000


@pytest.mark.parametrize("population, of", [
    ("memory", lambda found: not math.isfinite(found.control.bearing)),
    ("target", lambda found: not math.isfinite(found.control.bearing)),
    ("candidates", lambda found: found.choice.entropy == pytest.approx(math.log(BINS), abs=1e-3)),
    ("commitment", lambda found: not math.isfinite(found.control.bearing)),
    ("actions", lambda found: found.control.mode == c.IDLE and not any(found.choice.actions)),
    ("facts", lambda found: not found.choice.actions[decision.ACTIONS.index("search")]),
    ("heading", lambda found: math.isnan(found.control.heading))])
def test_without_the_spikes_of_a_population_its_readers_get_nothing(population, of):
    see = [] if population == "facts" else [BOX]
    assert not of(cortex(see=see)), "the whole brain has it"
    assert of(cortex(f"{population}=silent", see=see))


def test_what_is_to_be_avoided_is_known_by_spikes():
    asked = {"avoid_color": 1, "avoid_shape": 1}
    assert cortex(see=[NEAR_BALL], **asked).control.mode == c.AVOID
    found = cortex("avoid=silent", see=[NEAR_BALL], **asked)
    assert found.control.mode != c.AVOID and not len(found.control.avoid_bearing)


@pytest.mark.parametrize("population", [p.name for p in PrefrontalCortex.populations])
@pytest.mark.parametrize("kind", ["drop:0.3", "shuffle", "noise:0.1"])
def test_each_kind_changes_what_each_population_hands_on_and_the_same_seed_does_it_again(population, kind):
    goal = {"avoid_color": 1, "avoid_shape": 1} if population == "avoid" else {}
    see = [BOX, {**NEAR_BALL, "bearing": -0.4, "distance": 1.2}]

    def went(*found, seed=0):
        ended = cortex(*found, see=see, seconds=1.0, seed=seed, **goal)
        return ended.region.spikes, ended.region.synops, str(ended.control), str(ended.choice)

    intact, one, again = went(), went(f"{population}={kind}"), went(f"{population}={kind}")
    other = went(f"{population}={kind}", seed=1)
    assert one == again and one != intact
    assert one != other


def test_noise_fires_where_nothing_is_asked_for():
    nobody = np.zeros(memory.CLASSES, bool)
    for name in ("target", "avoid", "candidates", "commitment"):
        noise, state = Recorder("noise", 0.1), choice.empty()
        fired = choice.Choice(1.2, lesions={name: noise}).run(
            state, memory.empty()["trace"], 10, nobody, nobody, 1.0)
        assert noise.both()[1].mean() == pytest.approx(0.1, abs=0.05), name
        assert fired[name].sum() == noise.both()[1].sum() and state[f"{name}_s"].any(), name
