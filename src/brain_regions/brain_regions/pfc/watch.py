# SPDX-License-Identifier: Apache-2.0
"""Spikes of one population, kept for who looks inside. Without a watch, none are kept."""
from __future__ import annotations

import numpy as np


class Watch:
    """Keeps the spikes of one population, micro-step by micro-step.

    Args:
        population: its name.

    Attributes:
        steps: numbers of the neurons that fired in each micro-step so far.
    """

    def __init__(self, population: str) -> None:
        self.population = population
        self.steps: list[np.ndarray] = []

    def add(self, population: str, fired: np.ndarray) -> None:
        """Takes in a micro-step of a population, if it is the one that is watched.

        Args:
            population: whose.
            fired: more than 0 where a neuron fired; any shape, the last axis runs fastest.
        """
        if population == self.population:
            self.steps.append(np.flatnonzero(fired))

    def spikes(self) -> tuple[np.ndarray, np.ndarray]:
        """Neuron and micro-step of each spike, in the order of time."""
        if not self.steps:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(self.steps), np.repeat(np.arange(len(self.steps)), [len(s) for s in self.steps])
