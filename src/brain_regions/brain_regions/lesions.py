# SPDX-License-Identifier: Apache-2.0
"""Lesions: what happens to the spikes of one population on their way to those that hear them.

A region that has :class:`LesionParameters` takes a list of them, each written ``POPULATION=KIND``, of the populations
that it declares:

- ``silent``: none is handed on;
- ``drop:P``: each is lost with the probability P;
- ``shuffle``: in each micro-step as many are handed on, by neurons of the population that are drawn anew;
- ``noise:P``: each neuron that did not fire hands one on with the probability P per micro-step.

A neuron's own membrane (its reset, its adaptation) goes on with what it fired; all that its axon reaches, the
population itself where it is recurrent, hears what is handed on. That is what counts as spikes, too.

Without a lesion nothing is drawn and nothing changes, to the bit. With one, random numbers come from a generator of its
own, which the region's begets: the same seed, the same episode.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

from brain_runtime import ParameterError, Region, parameter
from brain_runtime.contract.declared import Population

KINDS = ("silent", "drop:P", "shuffle", "noise:P")


@dataclass(frozen=True)
class LesionParameters:
    """Lesions of populations."""

    lesions: tuple = parameter((), "what happens to spikes on their way, to measure what a population is for: "
                                   f"POPULATION={'|'.join(KINDS)}", live=False)


class Lesion:
    """Change of one population's spikes on their way.

    Args:
        kind: of :data:`KINDS`, without what follows the colon.
        share: P, 0..1.

    Attributes:
        begets: it has neurons hand on spikes that did not fire, so that a population is to be computed even where
            nothing comes in.
    """

    def __init__(self, kind: str, share: float = 0.0) -> None:
        self._kind, self._share = kind, share
        self._rng = np.random.default_rng(0)
        self.begets = kind == "noise"

    def draw_by(self, rng: np.random.Generator) -> None:
        """Takes the generator of its random numbers."""
        self._rng = rng

    def __call__(self, spikes: np.ndarray) -> None:
        """Puts what is handed on in the place of what was fired.

        Args:
            spikes: 0 or 1, of any type, [micro-steps, ...]; changed.
        """
        if self._kind == "silent":
            spikes[...] = 0
        elif self._kind == "shuffle":
            for now in spikes:
                count = np.count_nonzero(now)
                now[...] = 0
                if count:
                    now.flat[self._rng.choice(now.size, count, replace=False, shuffle=False)] = 1
        else:
            drawn = self._rng.random(spikes.shape, np.float32) < np.float32(self._share)
            spikes[drawn] = 1 if self._kind == "noise" else 0


class Lesions(dict[str, Lesion]):
    """Lesions by the name of the population."""

    _parent: np.random.Generator | None = None

    def draw_by(self, rng: np.random.Generator) -> None:
        """Gives each a generator that the region's begets, which draws on as if there were none."""
        if self and self._parent is not rng:
            self._parent = rng
            for lesion, own in zip(self.values(), rng.spawn(len(self))):
                lesion.draw_by(own)


def parse(written: Sequence[str], populations: Sequence[Population], where: str) -> Lesions:
    """Lesions as they are written.

    Args:
        written: each ``POPULATION=KIND``.
        populations: those that there are.
        where: what messages begin with.

    Raises:
        ParameterError: a population or a kind that there is not, or two lesions of one population; says what there is.
    """
    known = [population.name for population in populations]
    found = Lesions()
    for text in written:
        name, _, kind = text.partition("=")
        if name not in known:
            raise ParameterError(f"{where}: there is no population {name!r}; there are {', '.join(known) or 'none'}")
        if name in found:
            raise ParameterError(f"{where}: two lesions of {name}; keep one")
        found[name] = _parsed(kind, where)
    return found


def _parsed(written: str, where: str) -> Lesion:
    kind, colon, number = written.partition(":")
    if not colon and kind in KINDS:
        return Lesion(kind)
    if colon and f"{kind}:P" in KINDS:
        try:
            share = float(number)
        except ValueError:
            share = np.nan
        if 0.0 <= share <= 1.0:
            return Lesion(kind, share)
        raise ParameterError(f"{where}: P of {kind} is a probability, as in {kind}:0.3, but is {number!r}")
    raise ParameterError(f"{where}: there is no lesion {written!r}; there are {', '.join(KINDS)}")


class Lesionable(Region):
    """A region whose populations can have lesions: its networks take them from ``_lesions``.

    A subclass has :class:`LesionParameters` among its parameters, and begins each step with
    ``self._lesions.draw_by(rng)``.
    """

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Takes parameters.

        Raises:
            ParameterError: one does not fit, or names a lesion that there is not.
        """
        super().configure(parameters)
        self._lesions = parse(self.parameters.lesions, self.populations, f"parameter lesions of {self.name}")
