# SPDX-License-Identifier: Apache-2.0
"""From what robots send to the next weights: the strategies of federated learning, under the names that Flower gives.

Each is a pure function of the weights that robots began with, what they made of them, and what the strategy itself has
kept. Sums are taken in float64 in the order of the robots' names: the same updates give the same weights to the bit, in
whatever order they came.

Where ours differs from Flower's 1.42: distances of Krum are computed in float64 from differences (Flower's, in the
precision of the weights from norms, can be off by more than robots differ); Krum counts each robot once, whatever it
says about how many examples it has; differentially private averaging draws robots by themselves and divides by how many
are expected, not by how many came.
"""
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Mapping, Sequence

import numpy as np

from brain_cloud.federated.weights import Weights


@dataclass(frozen=True)
class Update:
    """Update of a robot: what it has made of the weights that it was given.

    Attributes:
        robot: whose.
        weights: float32 arrays by name.
        examples: it has learned from; a claim, which the plan has a bound for.
        staleness: how many versions newer the weights are meanwhile; 0 in rounds.
    """

    robot: str
    weights: Weights
    examples: int
    staleness: int = 0


class StrategyProblem(ValueError):
    """A strategy cannot be meant so; names the setting and what is allowed."""


@dataclass(frozen=True)
class Strategy(ABC):
    """Strategy of aggregation: updates become new weights.

    Attributes:
        asynchronous: each update is taken when it comes; there are no rounds.
        fewest: updates without which the strategy has no meaning.
    """

    name: ClassVar[str]
    asynchronous: ClassVar[bool] = False

    @property
    def fewest(self) -> int:
        """See there."""
        return 1

    def config(self) -> dict[str, float]:
        """Returns the numbers that robots are told for their training."""
        return {}

    @abstractmethod
    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """The next weights, and what is kept for the next time.

        Args:
            model: that the updates began with.
            updates: :attr:`fewest` or more, of one robot each.
            kept: what this returned the last time; empty at first.
        """


def mean(updates: Sequence[Update], weights: Sequence[float] | None = None) -> Weights:
    """Mean of updates, by their examples, or by other weights; float64."""
    shares = [float(update.examples) for update in updates] if weights is None else list(weights)
    whole, found = math.fsum(shares), {}
    for name, value in updates[0].weights.items():
        total = np.zeros(value.shape)
        for share, update in zip(shares, updates):
            total += share / whole * update.weights[name].astype(np.float64)
        found[name] = total
    return found


def _single(weights: Weights) -> Weights:
    return {name: np.asarray(value, np.float64).astype(np.float32) for name, value in weights.items()}


def _ordered(updates: Sequence[Update]) -> list[Update]:
    return sorted(updates, key=lambda update: update.robot)


@dataclass(frozen=True)
class FedAvg(Strategy):
    """The mean, by examples (McMahan and others, 2017)."""

    name = "FedAvg"

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`."""
        return _single(mean(_ordered(updates))), {}


@dataclass(frozen=True)
class FedProx(FedAvg):
    """The mean; robots are drawn back to where they began (Li and others, 2020).

    Attributes:
        proximal_mu: robots add mu/2 times the squared distance from the weights that they were given to their loss.
    """

    name = "FedProx"
    proximal_mu: float = 0.01

    def config(self) -> dict[str, float]:
        """See :meth:`Strategy.config`."""
        return {"proximal_mu": self.proximal_mu}


@dataclass(frozen=True)
class FedAvgM(Strategy):
    """The mean, with momentum in the cloud (Hsu and others, 2019): what robots agree on adds up from round to round.

    Attributes:
        server_learning_rate: factor of each step.
        server_momentum: part of the last step that is taken again.
    """

    name = "FedAvgM"
    server_learning_rate: float = 1.0
    server_momentum: float = 0.5

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`; keeps the last step."""
        step = change(mean(_ordered(updates)), model)
        step = {name: value + self.server_momentum * kept.get(name, 0.0) for name, value in step.items()}
        return added(model, {name: self.server_learning_rate * value for name, value in step.items()}), step


@dataclass(frozen=True)
class FedAdam(Strategy):
    """Adam on what the mean changes (Reddi and others, 2021), its step corrected for the first rounds as Flower does.

    Attributes:
        eta: size of a step.
        beta_1, beta_2: how much of the moments is kept.
        tau: below which second moments count little.
    """

    name = "FedAdam"
    eta: float = 0.1
    beta_1: float = 0.9
    beta_2: float = 0.99
    tau: float = 1e-3

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`; keeps the moments ``m.NAME`` and ``v.NAME``, and ``rounds``."""
        step = change(mean(_ordered(updates)), model)
        rounds = int(kept["rounds"][0]) + 1 if "rounds" in kept else 1
        eta = self.eta * math.sqrt(1.0 - self.beta_2 ** (rounds + 1)) / (1.0 - self.beta_1 ** (rounds + 1))
        new: Weights = {}
        state: Weights = {"rounds": np.array([rounds], np.int64)}
        for name, value in step.items():
            m = self.beta_1 * kept.get(f"m.{name}", np.zeros_like(value)) + (1.0 - self.beta_1) * value
            v = self.beta_2 * kept.get(f"v.{name}", np.zeros_like(value)) + (1.0 - self.beta_2) * value * value
            new[name] = model[name] + eta * m / (np.sqrt(v) + self.tau)
            state[f"m.{name}"], state[f"v.{name}"] = m, v
        return _single(new), state


@dataclass(frozen=True)
class FedMedian(Strategy):
    """The median of each single weight (Yin and others, 2018): fewer than half of the robots cannot move it far."""

    name = "FedMedian"

    @property
    def fewest(self) -> int:
        """Of two, the median is the mean."""
        return 3

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`."""
        return {name: np.median(np.stack([update.weights[name] for update in updates]), axis=0).astype(np.float32)
                for name in model}, {}


@dataclass(frozen=True)
class Krum(Strategy):
    """The updates that are nearest to most others (Blanchard and others, 2017); Multi-Krum where several are kept.

    Attributes:
        liars: how many robots may lie.
        keep: of how many the mean is taken, each counted once; 0: of all but as many as may lie.
    """

    name = "Krum"
    liars: int = 1
    keep: int = 1

    @property
    def fewest(self) -> int:
        """Least number of updates: what the proof asks for, and as many honest ones as are kept."""
        return max(2 * self.liars + 3, self.liars + self.keep)

    def chosen(self, updates: Sequence[Update]) -> list[Update]:
        """Those that are kept, the nearest to the others first."""
        updates = _ordered(updates)
        count = len(updates)
        apart = np.zeros((count, count))
        for i in range(count):
            for j in range(i):
                apart[i, j] = apart[j, i] = norm(change(updates[i].weights, updates[j].weights)) ** 2
        nearest = count - self.liars - 2
        scores = [float(np.sort(np.delete(apart[i], i))[:nearest].sum()) for i in range(count)]
        return [updates[i] for i in np.argsort(scores, kind="stable")[:self.keep or count - self.liars]]

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`."""
        chosen = self.chosen(updates)
        return _single(mean(chosen, [1.0] * len(chosen))), {}


@dataclass(frozen=True)
class DPFedAvg(Strategy):
    """The mean with differential privacy for robots (McMahan and others, 2018); :mod:`.privacy` tells what it costs.

    What each robot changes is cut at a norm; the sum gets noise and is divided by how many robots are expected.
    Examples do not count: a weight by them would tell how many there were. The cloud sees the updates themselves, and
    is trusted. The noise is drawn as floating point numbers, so the bound holds but for what their last bits tell.

    Attributes:
        clip: norm of a change at most.
        noise: standard deviation of the noise, in units of ``clip``.
        robots: how many belong to the fleet.
        delta: at which epsilon is told.
        share: of the robots that a round draws; the plan's ``fraction``.
    """

    name = "DPFedAvg"
    clip: float = 1.0
    noise: float = 1.0
    robots: int = 8
    delta: float = 1e-3
    share: float = 1.0

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights,
                  rng: np.random.Generator | None = None) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`; the noise is drawn from the system's randomness, unless a test says which."""
        rng = rng or np.random.default_rng()
        total = {name: np.zeros(value.shape) for name, value in model.items()}
        for update in _ordered(updates):
            step = change(update.weights, model)
            scale = min(1.0, self.clip / max(norm(step), 1e-30))
            for name, value in step.items():
                total[name] += scale * value
        expected = self.share * self.robots
        return added(model, {name: (value + rng.normal(0.0, self.noise * self.clip, value.shape)) / expected
                             for name, value in total.items()}), {}


@dataclass(frozen=True)
class FedAsync(Strategy):
    """Without rounds: each update moves the weights a part of the way, the less the older it is (Xie and others, 2019).

    The part is ``alpha (1 + s)^-power`` for an update that began s versions ago. One older than ``most_stale`` is let
    go of.

    Attributes:
        alpha: part of the way of a fresh update.
        power: how fast age tells.
        most_stale: see above.
        alone: how often a robot that its cloud is away from goes on training from what it has made, before it waits; it
            hands in the last when the link is back.
    """

    name = "FedAsync"
    asynchronous = True
    alpha: float = 0.6
    power: float = 0.5
    most_stale: int = 8
    alone: int = 0

    def config(self) -> dict[str, float]:
        """See :meth:`Strategy.config`."""
        return {"alone": float(self.alone)} if self.alone else {}

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`; the updates may have begun with older weights."""
        for update in updates:
            part = self.alpha * (1.0 + update.staleness) ** -self.power
            model = _single({name: (1.0 - part) * np.asarray(value, np.float64) + part * update.weights[name]
                             for name, value in model.items()})
        return dict(model), {}


@dataclass(frozen=True)
class Guarded(Strategy):
    """A strategy that sees of all updates only what a guard makes of them: one, which no liar has moved far.

    So what :class:`FedAdam` gains is not lost where robots may lie (the like is done by Allouah and others, 2023, who
    give a robust mean to a server that has momentum).

    Attributes:
        inner: what makes weights.
        guard: :class:`FedMedian` or :class:`Krum`.
    """

    inner: Strategy = FedAvg()
    guard: Strategy = FedMedian()

    @property
    def fewest(self) -> int:
        """As the guard needs."""
        return max(self.guard.fewest, self.inner.fewest)

    def config(self) -> dict[str, float]:
        """See :meth:`Strategy.config`."""
        return self.inner.config()

    def aggregate(self, model: Weights, updates: Sequence[Update], kept: Weights) -> tuple[Weights, Weights]:
        """See :meth:`Strategy.aggregate`; keeps what the strategy within keeps."""
        held, _ = self.guard.aggregate(model, updates, {})
        return self.inner.aggregate(model, [Update(self.guard.name, held, 1)], kept)


GUARDS: tuple[type[Strategy], ...] = (FedMedian, Krum)
STRATEGIES: dict[str, type[Strategy]] = {kind.name: kind for kind in (FedAvg, FedProx, FedAvgM, FedAdam, FedMedian,
                                                                      Krum, DPFedAvg, FedAsync)}
# Lowest and highest of each setting.
_BOUNDS: dict[str, tuple[float, float]] = {
    "proximal_mu": (0.0, 1e3), "eta": (1e-6, 10.0), "beta_1": (0.0, 0.9999), "beta_2": (0.0, 0.99999),
    "tau": (1e-12, 1.0), "liars": (1, 1000), "keep": (0, 1000), "clip": (1e-6, 1e6), "noise": (1e-3, 1e3),
    "robots": (1, 100_000), "delta": (1e-12, 0.5), "share": (1e-4, 1.0), "alpha": (1e-3, 1.0), "power": (0.0, 10.0),
    "most_stale": (0, 1000), "alone": (0, 100_000), "server_learning_rate": (1e-6, 10.0),
    "server_momentum": (0.0, 0.999)}


def strategy(name: str, settings: Mapping[str, Any]) -> Strategy:
    """A strategy by its name.

    Raises:
        StrategyProblem: there is none of that name, or a setting of it is not one.
    """
    kind = STRATEGIES.get(name)
    if kind is None:
        raise StrategyProblem(f"there is no strategy {name[:80]!r}; there are {', '.join(STRATEGIES)}")
    known = {field.name: field.type for field in fields(kind)}
    for key, value in settings.items():
        if key not in known:
            raise StrategyProblem(f"{name} has no setting {str(key)[:80]!r}; it has {', '.join(known) or 'none'}")
        low, high = _BOUNDS[key]
        whole = known[key] == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not low <= value <= high:
            raise StrategyProblem(f"{key} of {name} must be {'a whole number' if whole else 'a number'} from {low:g} "
                                  f"to {high:g}, but is {value!r}")
    return kind(**settings)


def guarded(inner: Strategy, name: str, settings: Mapping[str, Any]) -> Guarded:
    """A strategy behind a guard.

    Raises:
        StrategyProblem: nothing of that name is a guard, a setting of it is not one, or the strategy cannot have one.
    """
    names = [kind.name for kind in GUARDS]
    if name not in names:
        raise StrategyProblem(f"{name[:80]!r} is no guard; there are {', '.join(names)}")
    if inner.asynchronous or isinstance(inner, (DPFedAvg, *GUARDS)):
        raise StrategyProblem(f"{inner.name} cannot have a guard: it "
                              + ("takes each update by itself" if inner.asynchronous else
                                 "promises privacy for a mean only" if isinstance(inner, DPFedAvg) else "is one"))
    return Guarded(inner, strategy(name, settings))


def change(weights: Mapping[str, np.ndarray], since: Mapping[str, np.ndarray]) -> Weights:
    """Computes the change from ``since`` to ``weights``, in float64."""
    return {name: np.asarray(weights[name], np.float64) - since[name] for name in since}


def added(weights: Mapping[str, np.ndarray], more: Mapping[str, np.ndarray]) -> Weights:
    """The sum, in float32."""
    return {name: (np.asarray(value, np.float64) + more[name]).astype(np.float32) for name, value in weights.items()}


def norm(weights: Mapping[str, np.ndarray]) -> float:
    """Euclidean norm over all tensors."""
    return float(np.sqrt(sum(float(np.square(value, dtype=np.float64).sum()) for value in weights.values())))
