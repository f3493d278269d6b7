# SPDX-License-Identifier: Apache-2.0
"""Vision without spikes: the same layers with ReLU in place of neurons, and without time."""
from __future__ import annotations

import numpy as np

from brain_regions.vision import Vision
from brain_regions.vision import network as network_file, weights as weight_file
from brain_regions.vision.fovea import Fovea
from brain_runtime.contract.declared import Network, Weights


class AnnVision(Vision):
    """The ANN of vision, one picture at a time."""

    network = Network("brain_regions.vision.network:Rates", spiking=False, work=("_rates.answer",), limit=3.0)
    weights = Weights(weight_file.ANN.parent, weight_file.ANN.stem)
    populations = ()
    split = None
    baselines, ablations = {}, {}

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        loaded = weight_file.load(path, ann=True)
        threshold, self._dense = weight_file.threshold(path, loaded), network_file.multiplies(loaded.tensors)
        self._rates, self._threshold, self.weights_hash = network_file.Rates(loaded.tensors), threshold, loaded.digest
        self._fovea = Fovea(weight_file.FOVEA_ANN, ann=True)

    def initial_state(self):
        return {"frames": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        """Looks at a new picture."""
        seen = self._see(inbox)
        if seen is None:
            return {}, state
        picture, camera = seen
        self.count(multiplies=self._dense)
        return {"objects": self._objects(self._votes(self._rates.answer(picture).T, camera), camera)}, {
            "frames": state["frames"] % 2 ** 20 + 1}
