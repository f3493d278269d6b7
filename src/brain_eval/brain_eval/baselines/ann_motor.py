# SPDX-License-Identifier: Apache-2.0
"""Motor without spikes: the same layers with ReLU in place of neurons, and without time."""
from __future__ import annotations

from brain_regions.motor import coding, network
from brain_regions.motor import weights as weight_file
from brain_regions.motor.region import PICTURES, PolicyMotor
from brain_runtime.contract.declared import Network, Weights


class AnnMotor(PolicyMotor):
    """The ANN of motor."""

    network = Network("brain_regions.motor.network:RatePolicy", spiking=False, work=("policy.answer",))
    weights = Weights(weight_file.ANN.parent, weight_file.ANN.stem)
    pictures = PICTURES

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        loaded = weight_file.load(path, ann=True)
        self.policy, self.weights_hash = network.RatePolicy(loaded.tensors), loaded.digest

    def snapshot_metadata(self):
        """A snapshot fits only the weights it was made with."""
        return {"weights": self.weights_hash, "input": coding.INPUT_SCALING}

    def _think(self, currents, state, steps):
        self.count(multiplies=self.policy.multiplies)
        return network.read(self.policy.answer(currents)), {}, {}
