# SPDX-License-Identifier: Apache-2.0
"""The plan of a federated training, as people write it in YAML."""
from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Mapping

from brain_cloud.federated.strategies import DPFedAvg, Strategy, StrategyProblem, guarded, strategy
from brain_edge.schema import FormProblem, check, check_plain, load_schema


class PlanProblem(ValueError):
    """A plan cannot be meant so; names the file and the field."""


@dataclass(frozen=True)
class Plan:
    """Plan of a federated training: the learner, the strategy, and the limits of its rounds.

    Attributes:
        name: of the training; what is known of it lies in a folder of that name.
        learner: what robots run, by its name among the entry points ``brain.learners``.
        start: safetensors with the first weights.
        strategy, settings: see :mod:`.strategies`.
        guard, guard_settings: what holds off robots that lie before the strategy sees their updates; None: nothing.
        rounds: how many new weights are made.
        average: the training comes to the mean of the weights of so many of the last rounds; 0: to the last ones.
        deadline_s: s after the first robot was handed a round, at which it ends, whoever is missing.
        gather_s: s that a round lasts at least, unless :attr:`enough` have answered: so that robots that have not asked
            yet can.
        fraction: of the robots, each drawn by itself, that a round asks.
        least: updates without which a round comes to nothing, and is begun anew.
        enough: updates with which it ends at once; None: when all robots that were asked have answered.
        most_examples: that one robot can count for.
        late: rounds in a row that a robot may let pass; then it is left out of as many. 0: nobody is left out.
        config: numbers that the learner is told.
    """

    name: str
    learner: str
    start: str
    strategy: str
    rounds: int
    settings: Mapping[str, float] = field(default_factory=dict)
    average: int = 0
    guard: str | None = None
    guard_settings: Mapping[str, float] = field(default_factory=dict)
    deadline_s: float = 600.0
    gather_s: float = 5.0
    fraction: float = 1.0
    least: int = 2
    enough: int | None = None
    most_examples: int = 10_000
    late: int = 3
    config: Mapping[str, float] = field(default_factory=dict)

    def made(self) -> Strategy:
        """The strategy.

        Raises:
            StrategyProblem: it is none, or asks for more robots than ``least`` has.
        """
        if self.strategy == DPFedAvg.name and "share" in self.settings:
            raise StrategyProblem("share of DPFedAvg is the plan's fraction; give that")
        more = {"share": self.fraction} if self.strategy == DPFedAvg.name else {}
        found = strategy(self.strategy, {**self.settings, **more})
        if self.guard is not None:
            found = guarded(found, self.guard, self.guard_settings)
        elif self.guard_settings:
            raise StrategyProblem("there are guard_settings and no guard; name it, or leave them out")
        if self.least < found.fewest:
            raise StrategyProblem(f"least is {self.least}, and {self.guard or self.strategy} with these settings needs "
                                  f"{found.fewest} updates at least")
        if self.enough is not None and self.enough < self.least:
            raise StrategyProblem(f"enough is {self.enough}, below least, which is {self.least}")
        if self.enough is not None and self.strategy == DPFedAvg.name:
            raise StrategyProblem("enough ends a round with who was fastest, for which the budget of DPFedAvg does not "
                                  "hold; leave it out")
        return found

    def learning(self) -> dict[str, Any]:
        """Returns settings that must not change while it runs; how many rounds, who is waited for and how long may."""
        whole = asdict(self)
        found = {key: whole[key] for key in ("name", "learner", "strategy", "settings", "fraction")}
        return {**found, **({"guard": self.guard, "guard_settings": whole["guard_settings"]} if self.guard else {})}


def plan(found: Any) -> Plan:
    """A plan from plain values.

    Raises:
        FormProblem: see there.
    """
    check_plain(found)
    check(found, load_schema("brain_cloud.federated", "plan"))
    asynchronous = found["strategy"] == "FedAsync"
    made = Plan(**{**({"least": 1} if asynchronous else {}), **found})
    try:
        made.made()
    except StrategyProblem as problem:
        raise FormProblem(str(problem)) from None
    return made


def read_plan(path: Path) -> Plan:
    """The plan in a file; ``start`` is beside it, where it is no absolute path.

    Raises:
        PlanProblem: it cannot be read, or be meant so.
    """
    from brain_runtime.yaml_text import YamlProblem, read

    try:
        made = plan(read(path))
    except OSError as error:
        raise PlanProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (YamlProblem, FormProblem) as problem:
        raise PlanProblem(f"{path}: {problem}") from None
    return Plan(**{**asdict(made), "start": str(path.parent / Path(made.start).expanduser())})
