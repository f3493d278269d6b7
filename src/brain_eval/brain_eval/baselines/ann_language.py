# SPDX-License-Identifier: Apache-2.0
"""Language without spikes: the same network, whose units hand on rates."""
from __future__ import annotations

from brain_regions.language import Language
from brain_regions.language import weights as weight_file
from brain_regions.language.network import AnnReader
from brain_runtime.contract.declared import Network, Weights


class AnnLanguage(Language):
    """The ANN of language, with weights of its own."""

    network = Network("brain_regions.language.network:AnnReader", spiking=False, work=("_reader.read",))
    weights = Weights(weight_file.ANN.parent, weight_file.ANN.stem)
    populations = ()
    baselines, ablations = {}, {}
    _reader_class = AnnReader
