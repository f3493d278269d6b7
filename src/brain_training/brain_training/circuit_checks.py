# SPDX-License-Identifier: Apache-2.0
"""Checks of a circuit before it is written for others or integrated: whether its parts fit together."""
from __future__ import annotations

import math

import numpy as np

from brain_regions.circuits import INPUT, Circuit, Dense, Projection


class CircuitError(ValueError):
    """A circuit does not fit together; names the part."""


def checked(circuit: Circuit) -> Circuit:
    """The circuit itself, where it fits together.

    Raises:
        CircuitError: names are not unique or not known, shapes do not fit, a loop has no delay, a population hears
            nothing, or a number is not finite.
    """
    names = [INPUT, *(p.name for p in circuit.populations)]
    if len(set(names)) != len(names) or not all(name.isidentifier() for name in names):
        raise CircuitError(f"{circuit.name}: names of populations must be unique identifiers, but are {names}")
    for p in circuit.projections:
        where = f"{circuit.name}: from {p.source} to {p.target}"
        if p.source not in names or p.target not in names[1:]:
            raise CircuitError(f"{where}: there are only {', '.join(names)}, and nothing leads to the input")
        if p.delay < (1 if circuit.closes_a_loop(p) else 0):
            raise CircuitError(f"{where}: the delay is {p.delay} micro-steps; a loop needs at least 1")
        if p.bias is not None and circuit.closes_a_loop(p):
            raise CircuitError(f"{where}: a loop has no bias; give it to a projection that leads forward")
        _check_shapes(circuit, p, where)
        if not all(np.isfinite(a).all() for a in (p.weight, p.bias) if a is not None):
            raise CircuitError(f"{where}: a weight or bias is not finite")
    deaf = set(names[1:]) - {p.target for p in circuit.projections}
    if deaf:
        raise CircuitError(f"{circuit.name}: nothing leads to {', '.join(sorted(deaf))}")
    return circuit


def _check_shapes(circuit: Circuit, p: Projection, where: str) -> None:
    source, target = circuit.shape(p.source), circuit.shape(p.target)
    wanted: tuple[int, ...]
    found: tuple[int, ...]
    if isinstance(p, Dense):
        wanted, found, biases = (math.prod(target), math.prod(source)), p.weight.shape, math.prod(target)
    elif len(source) != 3 or len(target) != 3 or p.weight.ndim != 4:
        raise CircuitError(f"{where}: a convolution leads from three axes to three, not from {source} to {target}")
    else:
        wanted, biases = (*target, source[0]), target[0]
        found = (p.weight.shape[0], *p.places(*source[1:]), p.weight.shape[1])
    if wanted != found:
        raise CircuitError(f"{where}: weights of shape {p.weight.shape} do not lead from {source} to {target}")
    if p.bias is not None and p.bias.shape != (biases,):
        raise CircuitError(f"{where}: biases of shape {p.bias.shape}, but {biases} are needed")
