# SPDX-License-Identifier: Apache-2.0
"""The mean of the weights of the last rounds, which a training can come to in place of the last ones.

From round to round weights go to and fro about where they are good, the more so where robots' worlds are not alike, and
the last round may be at a bad place. The mean of some lies nearer (B. Polyak, A. Juditsky: Acceleration of Stochastic
Approximation by Averaging, 1992; P. Izmailov and others: Averaging Weights Leads to Wider Optima and Better
Generalization, 2018).
"""
from __future__ import annotations

import numpy as np

from brain_cloud.federated.plan import Plan
from brain_cloud.federated.records import State


def summed(state: State, plan: Plan) -> None:
    """Adds new weights to the sum of the last rounds; with the last round of a training the mean becomes the weights.

    Robots train on from the weights of each round until then. Where a plan is given more rounds afterwards, they go
    on from the mean, and it is taken anew over the last of those.

    Args:
        state: whose version was just made. Changed; its arrays are replaced, not written to.
        plan: that is followed.
    """
    if state.version <= plan.rounds - plan.average:
        state.sum, state.summed = {}, 0
        return
    state.sum = {name: state.sum.get(name, 0.0) + value.astype(np.float64) for name, value in state.model.items()}
    state.summed += 1
    if state.version >= plan.rounds:
        state.model = {name: (value / state.summed).astype(np.float32) for name, value in state.sum.items()}
        state.sum, state.summed = {}, 0
