# SPDX-License-Identifier: Apache-2.0
"""Operations of each network for a decision, beside its baseline without spikes, which multiplies densely.

A room is played twice in lockstep on LocalHost, by the brain and by its baselines without spikes (``all=ann``), with
the same sentences; regions count what they compute (:meth:`brain_runtime.contract.region.Region.count`), by the
fan-outs of the circuits that are exported. No time is measured, so a busy machine gives the same figures. Vision then
looks at as many black pictures, and at gray ones of the rooms' mean brightness, for as many micro-steps as it looked at
the room.
"""
from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from brain_eval import ablations
from brain_eval.bench.steps import drive
from brain_eval.bench.experiment import Experiment
from brain_eval.lockstep import lockstep_parts
from brain_regions.vision.network import HEIGHT, LAYERS, WIDTH, sizes
from brain_runtime.hosts.local import LocalHost

DECISIONS = {"vision": "a picture", "language": "a sentence", "pfc": "a step", "motor": "a step"}
COUNTS = ("spikes", "synops", "multiplies", "updates")
FIGURES = ("spikes", "accumulates", "multiply_accumulates", "updates")
BASELINES = "all=ann"


class Tally:
    """Counts of the regions' operations while rooms were played, and of their decisions."""

    def __init__(self) -> None:
        self.counts: dict[str, np.ndarray] = {name: np.zeros(len(COUNTS)) for name in DECISIONS}
        self.decisions = dict.fromkeys(DECISIONS, 0)
        self.looks: list[int] = []          # micro-steps of each picture
        self.brightness: list[float] = []   # of each, 0..255
        self.layers: np.ndarray | float = 0.0

    def listen(self, name: str, region: Any) -> None:
        """Counts what a region does from now on."""
        step = region.step

        def counting(*arguments: Any) -> Any:
            before = np.array([getattr(region, count) for count in COUNTS])
            made = step(*arguments)
            more = np.array([getattr(region, count) for count in COUNTS]) - before
            self.counts[name] += more
            self.decisions[name] += bool(more.any()) and name != "language"
            return made

        region.step = counting

    def watch(self, looking: Any) -> None:
        """Takes down how long vision looks at each picture, how bright it is, and how often each layer fires."""
        look = looking.look

        def looked(picture: np.ndarray, state: Any, steps: int, *more: Any) -> Any:
            made = look(picture, state, steps, *more)
            self.looks.append(steps)
            self.brightness.append(float(picture[picture.any(-1)].mean()))
            self.layers = self.layers + _layers(made)
            return made

        looking.look = looked

    def each(self, name: str) -> dict[str, float]:
        """Figures of a region for one decision."""
        return dict(zip(FIGURES, (self.counts[name] / max(self.decisions[name], 1)).tolist()))


def _layers(looked: Any) -> np.ndarray:
    return np.array([float(train.sum()) for train in looked.trains])


def _play(tally: Tally, seed: int, ablate: tuple[str, ...] = ()) -> Any:
    """Plays a room; gives the network of vision, as it was, and None of a baseline."""
    regions, parameters, critical = lockstep_parts("val", seed, ablations.parse(ablate))
    host = LocalHost(regions, seed=seed, critical=critical, parameters=parameters)
    host.advance(1.0)
    for name in DECISIONS:
        tally.listen(name, host.regions[name])
    looking = None if ablate else host.regions["vision"]._looking
    if looking is not None:
        tally.watch(looking)
    tally.decisions["language"] += drive(host)
    return looking


def _instead(looking: Any, tally: Tally, gray: int) -> dict[str, Any]:
    """Runs vision on pictures of one gray, for as long as it looked at the rooms; returns its cost."""
    picture, state = np.full((HEIGHT, WIDTH, 3), gray, np.uint8), looking.rest()
    spikes, synops, layers = 0, 0, np.zeros(len(np.atleast_1d(tally.layers)))
    for steps in tally.looks:
        made = type(looking).look(looking, picture, state, steps)
        state, spikes, synops, layers = made.state, spikes + made.spikes, synops + made.synops, layers + _layers(made)
    n = len(tally.looks)
    return {"spikes": spikes / n, "accumulates": synops / n, "layers": (layers / n).tolist()}


class Operations(Experiment):
    """Counts the operations of each network for a decision, beside its dense baseline without spikes.

    Accumulates (a weight added because a neuron fired), multiply-accumulates (a weight times a number that is no spike)
    and updates of membranes are counted apart; vision looks at black and at gray pictures, too.
    """

    quick = {"rooms": 1}

    def measure(self, rooms: Annotated[int, typer.Option(min=1, help="Rooms, 20 s of each.")] = 10,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the first room (split val).")] = 1
                ) -> dict[str, Any]:
        """Plays rooms.

        Returns:
            ``networks``: by ``network`` what it ``decides`` in, ``pictures`` that vision saw, and of one decision
            ``spikes``, ``accumulates``, ``multiply_accumulates``, ``updates`` of membranes, ``dense``
            multiply-accumulates of the baseline, and the ``share`` of all operations of the brain (accumulates and
            multiply-accumulates, 0..1; of pictures of one gray None). ``layers`` of vision: ``neurons``, and spikes of
            a picture by what was seen. ``gray``: the rooms' mean brightness. ``decisions`` of each network.
        """
        spiking, dense = Tally(), Tally()
        for number in range(rooms):
            looking = _play(spiking, seed + number)
            _play(dense, seed + number, (BASELINES,))
            self.status(f"{number + 1} of {rooms} rooms")
        gray = round(float(np.mean(spiking.brightness)))
        others = {"black": _instead(looking, spiking, 0), "gray": _instead(looking, spiking, gray)}
        total = sum(float(n[1:3].sum()) for n in spiking.counts.values())
        networks = [{"network": name, "decides": what, "pictures": "of rooms", **spiking.each(name),
                     "dense": dense.each(name)["multiply_accumulates"],
                     "share": float(spiking.counts[name][1:3].sum()) / total} for name, what in DECISIONS.items()]
        networks[1:1] = [networks[0] | {"pictures": pictures, "spikes": found["spikes"],
                                        "accumulates": found["accumulates"], "share": None}
                         for pictures, found in others.items()]
        room = (np.asarray(spiking.layers) / len(spiking.looks)).tolist()
        layers = [{"layer": layer.name, "neurons": int(np.prod(size)), "of_rooms": room[k],
                   **{pictures: found["layers"][k] for pictures, found in others.items()}}
                  for k, (layer, size) in enumerate(zip(LAYERS, sizes()))]
        return {"networks": networks, "layers": layers, "gray": gray, "rooms": rooms,
                "decisions": dict(spiking.decisions)}
