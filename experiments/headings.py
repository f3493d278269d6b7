# SPDX-License-Identifier: Apache-2.0
"""`brain bench headings`: what the temperature of Q-PFC changes of the choice among search headings.

Episodes of language-v1 are played in lockstep, and the values that ``place`` told while the robot drove in search of
something are kept. For each temperature that the feedback reaches the odds of all headings then follow (see
``brain_regions.pfc.heading``), so nothing is drawn: how undecided the choice is, how often the best and the second best
heading are taken, and how much worth is given away. The temperatures that there were are told too.

The noise of a draw is kept by direction in the room, in bins, so of two headings that fall into one bin the worse is
never drawn. The odds leave that out; it is so in about half of the offers, and takes 0.02 nat off at T = 20.
"""
from __future__ import annotations

from typing import Annotated, Any, Iterable

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_eval.episodes import run_local
from brain_regions.azimuth import sound_values
from brain_regions.pfc import feedback, heading
from brain_runtime.graph.rooms import Split
from brain_runtime.interfaces import Control
from brain_sim import suite

TEMPERATURES = (0.95, 2.0, 5.0, 10.0, 20.0)     # from alpha 1, where one heading is certain, to 0, where none is


class Offers:
    """An onlooker that keeps what is on offer while the robot drives in search.

    Attributes:
        values: m, of 36 headings each, minus infinity where there is none.
        temperatures: of the draw at the same moments.
    """

    def __init__(self) -> None:
        self.values: list[np.ndarray] = []
        self.temperatures: list[float] = []

    def begin(self, host: Any, episode: Any) -> None:
        """Listens to what is told on demand only."""
        host.listen("pfc/choice", lambda message: None)

    def look(self, host: Any, since: float) -> None:
        """Keeps what is on offer now."""
        control, told, choice = (host.latest(topic) for topic in ("pfc/control", "place/headings", "pfc/choice"))
        if None in (control, told, choice) or control.mode != Control.MODE_SEARCH or not control.speed > 0:
            return
        values, _ = sound_values(told.value, told.heading)
        if np.isfinite(values).any():
            self.values.append(values)
            self.temperatures.append(float(choice.temperature))


def row(values: Iterable[np.ndarray], temperature: float) -> dict[str, float]:
    """Averages the effect of a temperature on offers.

    Returns:
        ``entropy`` (nat), ``best`` and ``second`` (shares of draws), ``given_away`` (m, what the best is worth above
        what is drawn).
    """
    found = []
    for offer in values:
        share = heading.odds(offer, temperature)
        order = np.argsort(-offer)
        there = np.isfinite(offer)
        found.append((feedback.entropy(share), share[order[0]], share[order[1]],
                      float(offer[order[0]]) - float(share[there] @ offer[there])))
    entropy, best, second, given_away = (float(mean) for mean in np.mean(found, 0))
    return {"temperature": temperature, "entropy": entropy, "best": best, "second": second, "given_away": given_away}


class Headings(Experiment):
    """Measures how Q-PFC's temperature changes the choice among search headings, inside the range that it reaches."""

    quick = {"episodes": 2}     # in the first nothing is searched for
    refused = 2
    problems = (ValueError,)

    def measure(self, episodes: Annotated[int, typer.Option(min=1, help="How many episodes of language-v1.")] = 20,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the suite.")] = 1,
                split: Annotated[Split, typer.Option(help="Rooms and sentences.")] = Split.val) -> dict[str, Any]:
        """Plays episodes, and makes a :func:`row` for each temperature.

        Raises:
            ValueError: nothing was searched for in these episodes.
        """
        self.status(f"{episodes} episodes")
        offers = Offers()
        for episode in suite.episodes(split.value, episodes, seed):
            run_local(episode, onlooker=offers)
        if not offers.values:
            raise ValueError(f"in {episodes} episodes of {split.value} {seed} nothing was searched for; play more")
        quantiles = np.quantile(offers.temperatures, (0.05, 0.5, 0.95))
        return {"episodes": episodes, "offers": len(offers.values),
                "headings": float(np.mean([np.isfinite(offer).sum() for offer in offers.values])),
                "reached": dict(zip(("p5", "p50", "p95"), map(float, quantiles))),
                "temperatures": [row(offers.values, temperature) for temperature in TEMPERATURES]}
