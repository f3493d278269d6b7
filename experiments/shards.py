# SPDX-License-Identifier: Apache-2.0
"""``brain bench shards``: from which size of network on it pays to spread it over processes.

Vision's network is made wider by factors (each layer has so many times the channels, and random weights). Each width is
run whole in this process and spread over processes, in turn: a few pictures the one way, then the same the other, so
that what else runs on the machine is there for both. Both have to give the same bits. The figure is the ratio of two
medians in each turn.
"""
from __future__ import annotations

import math
import os
import statistics
import time
from pathlib import Path
from typing import Annotated, Any, Sequence

import numpy as np
import typer

from brain_collectives.split_vision import Shard, SplitError, SplitLooking
from brain_eval.bench.experiment import Experiment, whole_numbers
from brain_regions.vision.network import HEIGHT, LAYERS_READ, OUTPUTS, WIDTH, Looking, widened
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.shards import ShardError, Shards

PICTURES = 4        # of one way before the other
STEPS = 10          # micro-steps of a picture
PATIENCE = 60.0     # s that a shard may take: here it is measured, not given up
FIRING = 1.5        # spread of the random weights: neurons of all layers fire


def wide(factor: int, seed: int) -> dict[str, np.ndarray]:
    """Random weights of vision's network with ``factor`` times the channels in each layer."""
    rng, layers, found = np.random.default_rng(seed), widened(factor), {}
    for k, layer in enumerate(layers):
        shape = layer.outputs, layer.inputs, *layer.kernel
        heard = math.prod(shape[1:]) * (0.1 if k else 0.5)      # about so many are not 0 at a time
        found[f"convolutions.{k}.weight"] = rng.standard_normal(shape, np.float32) * np.float32(FIRING / heard ** 0.5)
        found[f"convolutions.{k}.bias"] = np.zeros(layer.outputs, np.float32)
    heard = sum(layers[k].outputs for k in LAYERS_READ)
    found["readout.weight"] = rng.standard_normal((OUTPUTS, heard, 1), np.float32) / np.float32(heard ** 0.5)
    found["readout.bias"] = np.zeros(OUTPUTS, np.float32)
    return found


def serve(exchange: Any) -> None:
    """Runs one of the other shards: as :func:`brain_collectives.split_vision.serve`, of a wide network."""
    class Wide(Shard):
        def network(self, source: Path, layers: list[Any]) -> tuple[Any, Any, str]:
            factor, seed = map(int, source.name.split("-"))
            return wide(factor, seed), widened(factor), source.name

    shard = Wide(exchange)
    while True:
        shard.obey(exchange.hear())


def clocked(looking: Any, pictures: Sequence[Any], state: Any) -> tuple[list[float], Any, int]:
    """Times of looks (s), the state after them, and the spikes."""
    times, spikes = [], 0
    for picture in pictures:
        begin = time.perf_counter()
        looked = looking.look(picture, state, STEPS)
        times.append(time.perf_counter() - begin)
        state, spikes = looked.state, spikes + looked.spikes
    return times, state, spikes


def interval(values: Sequence[float]) -> list[float]:
    """The median, and between which two of the values that of all there could be is with 95 % (all of few values)."""
    ordered, n = sorted(values), len(values)
    out = 0     # values left out at each end: by the binomial distribution of how many are below the median
    while 2 * sum(math.comb(n, k) for k in range(out + 1)) <= 0.05 * 2 ** n:
        out += 1
    return [statistics.median(ordered), ordered[max(out - 1, 0)], ordered[min(n - out, n - 1)]]


def pays_from(rows: Sequence[dict[str, Any]]) -> int | None:
    """The smallest factor from which on all were quicker when spread, by the whole interval; None: there is none."""
    found = None
    for row in reversed(rows):
        if row["ratio"][2] >= 1.0:
            break
        found = row["factor"]
    return found


class ShardTimes(Experiment):
    """Times vision's network, as wide as it is and wider, whole and spread over processes, and says when that pays.

    It wants as many idle cores as processes. Both ways are to give the same bits; if they do not, the exit status is 1.
    """

    cpu = True
    quick = {"factors": "1", "rounds": 2}
    problems = (SplitError, ShardError, GroupError)

    def measure(self, factors: Annotated[str, typer.Option(help="Of the widths, as 1,2,4.")] = "1,2,3,4",
                count: Annotated[int, typer.Option("--shards", min=2, max=16, help="Processes.")] = 2,
                backend: Annotated[str, typer.Option(help="Of torch.distributed, by which they talk.")] = "gloo",
                rounds: Annotated[int, typer.Option(min=1, help="Of both ways in turn, at each width.")] = 12,
                seed: Annotated[int, typer.Option(help="Of weights and pictures.")] = 0) -> dict[str, Any]:
        """Runs each width both ways.

        Returns:
            ``widths``: of each ``factor``, ``weights``, ``neurons``, ``spikes`` of a picture, times (ms) and ratios;
            ``pays_from``: see there.

        Raises:
            ShardError, GroupError: the processes do not come, or one is lost.
            SplitError: they compute something else than the whole network.
        """
        load, rng = os.getloadavg()[0], np.random.default_rng(seed)
        pictures = [rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8) for _ in range(PICTURES)]
        numbers = whole_numbers("--factors", factors, 1, 16)
        shards, widths = Shards(f"{__name__}:serve", "vision", count, backend, PATIENCE), []
        try:
            for factor in numbers:
                widths.append(self._both(factor, shards, rounds, seed, pictures))
                self.status(f"{factor} x as wide: ratio {widths[-1]['ratio'][0]:.2f}")
        finally:
            shards.close()
        return {"cores": len(os.sched_getaffinity(0)), "load": load, "shards": count, "backend": backend,
                "rounds": rounds, "pays_from": pays_from(widths), "widths": widths}

    def _both(self, factor: int, shards: Shards, rounds: int, seed: int, pictures: Sequence[Any]) -> dict[str, Any]:
        tensors, layers = wide(factor, seed), widened(factor)
        whole = Looking(tensors, layers)
        split = SplitLooking(tensors, shards.exchange(), (Path(f"{factor}-{seed}"), f"{factor}-{seed}"), layers)
        split.check(whole)      # and warms both up
        sides = {"whole": (whole, whole.rest()), "split": (split, split.rest())}
        times: dict[str, list[float]] = {side: [] for side in sides}
        ratios, spikes = [], 0
        for number in range(rounds):
            medians = {}
            for side in sorted(sides, reverse=number % 2 == 0):
                looking, state = sides[side]
                took, state, spikes = clocked(looking, pictures, state)
                sides[side] = looking, state
                times[side] += took
                medians[side] = statistics.median(took)
            ratios.append(medians["split"] / medians["whole"])
        return {"factor": factor, "weights": sum(tensors[f"convolutions.{k}.weight"].size for k in range(len(layers))),
                "neurons": whole.neurons, "spikes": spikes / PICTURES,
                **{f"{side}_ms": [1e3 * value for value in interval(times[side])] for side in sides},
                "ratio": interval(ratios)}
