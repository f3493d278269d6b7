# SPDX-License-Identifier: Apache-2.0
"""Theoretical cost of the forms of training: bytes by formula, and pipelines replayed with given times."""
from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import Any, Callable, Mapping, Sequence

from brain_regions.vision import network
from brain_training.parallel.pipeline_stage import BACKWARD, FORWARD, INPUTS, WEIGHTS, Span
from brain_training.parallel.plan import Plan

FLOAT = 4
ADAM = 2        # moments of AdamW for each weight
SHARED = {"parameters": (2, 3), "gradients": (2, 3), "optimizer": (1, 2, 3)}    # levels of ZeRO that share it out
UNITS = {FORWARD: 1.0, BACKWARD: 2.0, INPUTS: 1.0, WEIGHTS: 1.0}    # as textbooks have it


def held(weights: int, plan: Plan) -> dict[str, float]:
    """B of parameters, gradients and optimizer of AdamW that a rank should hold between two steps.

    S. Rajbhandari and others: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC20, section 3. A
    network of ``weights`` B is taken to divide evenly, by stages and by columns too.
    """
    own = weights / (plan.tp * plan.pp)
    found = {"parameters": own, "gradients": own, "optimizer": ADAM * own}
    return {kind: size / (plan.dp if plan.zero in SHARED[kind] else 1) for kind, size in found.items()}


def sent(weights: int, plan: Plan) -> float | None:
    """B that a rank of ``dp`` should send in a step; None: no formula for this form.

    A ring sends 2 (n - 1) / n of what is summed, to gather or to scatter takes half of it. torch's ZeRO 1 sums
    gradients on all ranks and tells weights; ``zero=2`` gathers weights and scatters gradients; ``zero=3`` gathers
    weights twice.
    """
    if plan.tp > 1 or plan.pp > 1 or plan.ps or plan.dp == 1:
        return None
    return (3 if plan.zero in (1, 3) else 2) * (plan.dp - 1) / plan.dp * weights


def vision_activations(layers: Sequence[Any], batch: int, pictures: int) -> int:
    """B that the backward pass through vision's network needs, of all pictures of a step.

    Of each layer what it hears in the mean, its mean charge before the normalization and after: the gradient passes
    through rates, so that nothing is kept of single micro-steps.

    Args:
        layers: of the network.
        batch: clips.
        pictures: of a clip.
    """
    neurons = sum(prod(size) for size in network.sizes(layers))
    return FLOAT * batch * pictures * (network.INPUTS * network.HEIGHT * network.WIDTH + 3 * neurons)


@dataclass(frozen=True)
class Replay:
    """A step of a pipeline, as it would be if nothing had to wait but for what it needs.

    Attributes:
        took: s, or units.
        bubble: share of all ranks' time in which they had nothing to do.
    """

    took: float
    bubble: float


def times(spans: Sequence[Span]) -> dict[tuple[int, str], float]:
    """Median time of each kind of work by stage (s)."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for span in spans:
        found[span.stage, span.what].append(span.end - span.begin)
    return {key: statistics.median(values) for key, values in found.items()}


def replay(ranks: Sequence[Sequence[Span]], took: Callable[[Span], float]) -> Replay:
    """Replays a step: each rank does its work in the order in which it did it, as soon as what it needs is there.

    Args:
        ranks: what each rank did in one step.
        took: time of each piece of work.

    Raises:
        ValueError: the order cannot be: ranks wait for each other.
    """
    done: dict[tuple[int, str, int], float] = {}
    queues = [sorted(spans, key=lambda span: span.begin) for spans in ranks]
    stages = max(span.stage for spans in ranks for span in spans)
    at, busy = [0.0] * len(ranks), 0.0
    while any(queues):
        moved = False
        for rank, queue in enumerate(queues):
            while queue and all(need in done for need in _needs(queue[0], stages)):
                span = queue.pop(0)
                begin = max([at[rank], *(done[need] for need in _needs(span, stages))])
                at[rank] = done[span.stage, _kind(span.what), span.micro] = begin + took(span)
                busy += took(span)
                moved = True
        if not moved:
            raise ValueError(f"ranks wait for each other: {[queue[0] for queue in queues if queue]}")
    return Replay(max(at), 1.0 - busy / (len(ranks) * max(at)))


def _kind(what: str) -> str:
    return INPUTS if what == BACKWARD else what     # both send a gradient to the stage before


def _needs(span: Span, last: int) -> list[tuple[int, str, int]]:
    """Lists the spans that have to be done before."""
    stage, what, micro = span.stage, _kind(span.what), span.micro
    if what == FORWARD:
        return [(stage - 1, FORWARD, micro)] if stage else []
    if what == WEIGHTS:
        return [(stage, INPUTS, micro)]
    return [(stage, FORWARD, micro), *([(stage + 1, INPUTS, micro)] if stage < last else [])]


def by_clock(ranks: Sequence[Sequence[Span]]) -> float:
    """Share of all ranks' time in which they did nothing, from the first of a step's work to the last."""
    spans = [span for of_rank in ranks for span in of_rank]
    whole = max(span.end for span in spans) - min(span.begin for span in spans)
    return 1.0 - sum(span.end - span.begin for span in spans) / (len(ranks) * whole)


def formula(plan: Plan, micros: int, stages_each: int = 1) -> float:
    """Bubble of GPipe and 1F1B with balanced stages: (p - 1) / (m + p - 1); with v stages a rank m v for m.

    D. Narayanan and others: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC21,
    section 2.2, there as a part of the time that is used, (p - 1) / (v m).
    """
    p = plan.pp
    return (p - 1) / (micros * stages_each + p - 1)


def units(span: Span) -> float:
    """A forward pass is 1, a backward pass 2, each of its parts 1."""
    return UNITS[span.what]


def as_measured(medians: Mapping[tuple[int, str], float]) -> Callable[[Span], float]:
    """The median time of such work."""
    return lambda span: medians[span.stage, span.what]
