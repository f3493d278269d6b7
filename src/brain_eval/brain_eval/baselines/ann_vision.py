# SPDX-License-Identifier: Apache-2.0
"""Vision without spikes: the same layers with ReLU in place of neurons, and without time."""
from __future__ import annotations

import numpy as np

from brain_regions.circuits import synapses
from brain_regions.vision import Vision
from brain_regions.vision import weights as weight_file
from brain_runtime.contract.declared import Network, Weights


class AnnVision(Vision):
    """The ANN of vision, one picture at a time."""

    network = Network("brain_regions.vision.network:AnnBaseline", spiking=False, work=("_network.forward",), limit=3.0)
    weights = Weights(weight_file.ANN.parent, weight_file.ANN.stem)
    populations = ()
    split = None
    baselines, ablations = {}, {}

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        from brain_regions.vision.network import circuit

        found, report, digest = weight_file.load(path, ann=True)
        threshold, whole = float(report["threshold"]), circuit(found)
        self._dense = sum(synapses(whole, projection) for projection in whole.projections)
        self._network, self._threshold, self.weights_hash = found, threshold, digest

    def initial_state(self):
        return {"frames": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        """Looks at a new picture."""
        seen = self._see(inbox)
        if seen is None:
            return {}, state
        picture, camera = seen
        with self._torch.inference_mode():
            answer = self._network(self._network_module.prepare(self._torch.from_numpy(picture)[None]))[0].numpy()
        self.count(multiplies=self._dense)
        return {"objects": self._objects(answer, camera)}, {
            "frames": state["frames"] % 2 ** 20 + 1}
