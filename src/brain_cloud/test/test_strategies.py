# SPDX-License-Identifier: Apache-2.0
"""Strategies compute what they say, to the bit where that can be told by hand; liars are held off by those that can."""
from __future__ import annotations

import math

import numpy as np
import pytest

from brain_cloud.federated import privacy
from brain_cloud.federated.strategies import (
    DPFedAvg, FedAdam, FedAsync, FedAvg, FedAvgM, FedMedian, FedProx, Krum, StrategyProblem, Update, guarded, strategy)
from brain_cloud.federated import weights as w

START = {"a": np.array([1.0, -2.0], np.float32), "b": np.array([[0.5]], np.float32)}


def update(robot, a, b, examples=1, staleness=0):
    return Update(robot, {"a": np.array(a, np.float32), "b": np.array([[b]], np.float32)}, examples, staleness)


def plain(weights):
    return {name: value.tolist() for name, value in weights.items()}


def test_a_mean_is_by_examples_and_does_not_depend_on_who_came_first():
    updates = [update("robot2", [5.0, 0.0], 1.0, 1), update("robot1", [1.0, 4.0], 2.0, 3)]
    expected = {"a": [2.0, 3.0], "b": [[1.75]]}
    for kind in (FedAvg(), FedProx(proximal_mu=0.1)):
        for order in (updates, updates[::-1]):
            new, kept = kind.aggregate(START, order, {})
            assert plain(new) == expected and kept == {} and new["a"].dtype == np.float32
    assert FedProx(proximal_mu=0.1).config() == {"proximal_mu": 0.1} and FedAvg().config() == {}


def test_momentum_in_the_cloud_is_flowers():
    # What flwr 1.42.0's FedAvgM gave for these updates, twice in a row from START.
    model, kept = START, {}
    expected = ([2.0, -3.0, 0.75], [4.5, -4.5, 1.125])
    for number, (a, b) in enumerate((([2.0, -3.0], 0.75), ([4.0, -4.0], 1.0))):
        model, kept = FedAvgM(server_momentum=0.5).aggregate(model, [update("robot1", a, b)], kept)
        assert [*model["a"].tolist(), float(model["b"][0, 0])] == expected[number]


def test_adam_is_flowers():
    # What flwr 1.42.0's FedAdam gave for these updates, twice in a row from START; its ndarrays were float64.
    expected = ([1.073510870, -2.073510870, 0.571390364], [1.151982678, -2.156029771, 0.653607185])
    model, kept = START, {}
    for number, (a, b) in enumerate((([2.0, -3.0], 0.75), ([4.0, -4.0], 1.0))):
        model, kept = FedAdam(eta=0.1).aggregate(model, [update("robot1", a, b)], kept)
        np.testing.assert_allclose([*model["a"], model["b"][0, 0]], expected[number],
                                   rtol=1e-6)
    assert kept["rounds"].tolist() == [2]


def test_median_and_krum_hold_off_one_who_scales_and_the_mean_does_not():
    honest = [update(f"robot{k}", [1.0 + k / 10, -2.0], 0.5) for k in range(1, 5)]
    liar = update("robot5", [1e6, 1e6], -1e6, examples=1)
    assert plain(FedMedian().aggregate(START, [*honest, liar], {})[0])["a"] == pytest.approx([1.3, -2.0])
    assert FedAvg().aggregate(START, [*honest, liar], {})[0]["a"][1] > 1e5
    # robot2 and robot3 have neighbours on both sides; robot2 stands first
    assert [one.robot for one in Krum(liars=1).chosen([liar, *honest])] == ["robot2"]
    kept = Krum(liars=1, keep=4)
    assert sorted(one.robot for one in kept.chosen([*honest, liar])) == ["robot1", "robot2", "robot3", "robot4"]
    assert plain(kept.aggregate(START, [*honest, liar], {})[0])["a"] == pytest.approx([1.25, -2.0])
    assert (Krum(liars=1).fewest, Krum(liars=2).fewest, Krum(liars=1, keep=7).fewest) == (5, 7, 8)
    # Near copies at a large distance from zero are told apart, as they are not from norms in float32.
    far = [Update(f"robot{k}", {"a": np.float32([4096.0 + step / 1024])}, 1)
           for k, step in enumerate((0, 1, 2, 3, 9))]
    assert Krum(liars=1).chosen(far)[0].robot == "robot1"


def test_krum_adds_up_squares():
    at = {"robot1": 0.0, "robot2": -3.0, "robot3": 3.0, "robot4": 100.0, "robot5": 99.0, "robot6": 104.0}
    updates = [Update(robot, {"a": np.array([x], np.float32)}, 1, 0) for robot, x in at.items()]
    # The two nearest of robot4 are 1 and 4 away, those of robot1 3 and 3: 17 and 18, and by cubes 65 and 54.
    assert Krum(liars=2, keep=1).chosen(updates)[0].robot == "robot4"


def test_a_guard_hands_a_strategy_what_no_liar_has_moved_far():
    honest = [update(f"robot{k}", [1.0 + k / 10, -2.0], 0.5, examples=k) for k in range(1, 5)]
    liar = update("robot5", [1e6, 1e6], -1e6, examples=9)
    for guard, settings, held in (("FedMedian", {}, [1.3, -2.0]), ("Krum", {"liars": 1, "keep": 0}, [1.25, -2.0])):
        made = guarded(FedAvgM(server_momentum=0.5), guard, settings)
        first, kept = made.aggregate(START, [liar, *honest], {})
        assert plain(first)["a"] == pytest.approx(held)
        # What the strategy within keeps from round to round, it keeps: its momentum.
        still = [update(f"robot{k}", first["a"], first["b"][0, 0]) for k in range(1, 6)]
        second, _ = made.aggregate(first, still, kept)
        assert plain(second)["a"] == pytest.approx([held[0] + 0.5 * (held[0] - 1.0), -2.0])
    assert guarded(FedProx(proximal_mu=0.1), "Krum", {"liars": 2}).config() == {"proximal_mu": 0.1}
    assert guarded(FedAvg(), "FedMedian", {}).fewest == 3
    assert guarded(FedAvg(), "Krum", {"liars": 2, "keep": 0}).fewest == 7
    for inner, guard, why in ((FedAvg(), "FedProx\x1b", "no guard; there are FedMedian, Krum"),
                              (FedAsync(), "Krum", "takes each update by itself"), (FedMedian(), "Krum", "it is one"),
                              (DPFedAvg(), "FedMedian", "privacy for a mean only")):
        with pytest.raises(StrategyProblem, match=why) as found:
            guarded(inner, guard, {})
        assert "\x1b" not in str(found.value)
    with pytest.raises(StrategyProblem, match="FedMedian has no setting 'liars'"):
        guarded(FedAvg(), "FedMedian", {"liars": 1})


def test_private_averaging_cuts_adds_noise_of_the_size_that_is_told_and_divides_by_who_is_expected():
    updates = [update("robot1", [4.0, 2.0], 0.5), update("robot2", [1.0, -2.0], 0.6)]    # norms 5 and 0.1
    quiet = DPFedAvg(clip=1.0, noise=1e-3, robots=4, share=0.5)
    new, _ = quiet.aggregate(START, updates, {}, np.random.default_rng(0))
    assert plain(new)["a"] == pytest.approx([1.0 + 0.6 / 2, -2.0 + 0.8 / 2], abs=5e-3)
    assert plain(new)["b"][0] == pytest.approx([0.5 + 0.1 / 2], abs=5e-3)
    wide = {"a": np.zeros(20_000, np.float32)}
    loud, _ = DPFedAvg(clip=2.0, noise=1.5, robots=4).aggregate(wide, [Update("robot1", wide, 9)], {})
    assert loud["a"].std() == pytest.approx(1.5 * 2.0 / 4, rel=0.05)
    again, _ = DPFedAvg(clip=2.0, noise=1.5, robots=4).aggregate(wide, [Update("robot1", wide, 9)], {})
    assert not np.array_equal(loud["a"], again["a"])


def test_the_budget_is_that_of_another_accountant():
    # By dp-accounting 0.6's RdpAccountant with the same orders; the first two lines follow from the formula by hand.
    assert privacy.divergence(3, 2.0, 1.0) == 3 / 8
    assert privacy.epsilon(1.0, 0.0, 100, 1e-5) < privacy.epsilon(1.0, 0.01, 100, 1e-5)
    for noise, share, rounds, delta, expected in ((1.0, 1.0, 10, 1e-5, 19.801691480042894),
                                                  (1.0, 0.1, 100, 1e-5, 7.972921510380539),
                                                  (2.0, 0.5, 20, 1e-3, 4.699570254201315)):
        assert privacy.epsilon(noise, share, rounds, delta) == pytest.approx(expected, rel=1e-9)
    assert privacy.epsilon(1.0, 0.5, 0, 1e-3) == 0.0 and math.isinf(privacy.epsilon(0.0, 0.5, 1, 1e-3))
    with pytest.raises(ValueError, match="between 0 and 1"):
        privacy.epsilon(1.0, 0.5, 1, 1.0)


def test_without_rounds_an_older_update_moves_less():
    fresh, _ = FedAsync(alpha=0.5, power=0.5).aggregate(START, [update("robot1", [3.0, 0.0], 0.5)], {})
    assert plain(fresh)["a"] == [2.0, -1.0]
    stale, _ = FedAsync(alpha=0.5, power=0.5).aggregate(START, [update("robot1", [3.0, 0.0], 0.5, 1, 3)], {})
    assert plain(stale)["a"] == [1.5, -1.5]     # half of it: (1 + 3)^-0.5
    assert FedAsync().power == 0.5              # as the paper has it (Xie and others, 2019)


def test_what_is_sent_is_checked():
    good = w.pack(START)
    assert plain(w.unpack(good)) == plain(START) and w.pack(w.unpack(good)) == good
    assert w.about(w.pack(START, {"examples": 3})) == {"examples": 3}
    for data, why in ((b"", "no safetensors"), (b"\xff" * 40, "no safetensors"), (good[:-1], "can be read"),
                      (good[:8] + b"\xff" + good[9:], "can be read")):
        with pytest.raises(w.WeightsProblem, match=why):
            w.unpack(data)
    with pytest.raises(w.WeightsProblem, match="do not say"):
        w.about(good)
    for bad, why in (({**START, "a": np.array([1.0, np.nan], np.float32)}, "not finite"),
                     ({**START, "a": np.array([1.0, np.inf], np.float32)}, "not finite"),
                     ({**START, "a": np.zeros(1, np.float32)}, r"must be float32 \[2\]"),
                     ({**START, "a": np.zeros(2)}, "is float64"), ({"a": START["a"]}, "b.* is missing"),
                     ({**START, "c\x1b": START["a"]}, "has no tensor")):
        with pytest.raises(w.WeightsProblem, match=why) as found:
            w.check(bad, START)
        assert "\x1b" not in str(found.value)


def test_a_strategy_that_cannot_be_meant_so_names_the_setting():
    assert strategy("Krum", {"liars": 2}) == Krum(liars=2)
    assert strategy("FedAsync", {"power": 10.0, "most_stale": 0}) == FedAsync(power=10.0, most_stale=0)
    for setting, wrong in (("power", 10.5), ("most_stale", -1), ("most_stale", 1001)):
        with pytest.raises(StrategyProblem, match=setting):
            strategy("FedAsync", {setting: wrong})
    for name, settings, why in (("FedSgd", {}, "there is no strategy"), ("FedAvg", {"eta": 1.0}, "it has none"),
                                ("Krum", {"liars": 1.5}, "whole number from 1"), ("Krum", {"liars": True}, "whole"),
                                ("FedAdam", {"eta": 100}, "from 1e-06 to 10"), ("DPFedAvg", {"noise": 0}, "noise of")):
        with pytest.raises(StrategyProblem, match=why):
            strategy(name, settings)
