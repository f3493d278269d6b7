# SPDX-License-Identifier: Apache-2.0
"""The weight files of language and of its ANN baseline; see :mod:`brain_regions.weight_files`."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

import numpy as np

from brain_regions import weight_files
from brain_regions.language import sizes as z
from brain_regions.language.network import AnnReader, SpikingReader
from brain_regions.membranes import MICRO_STEP

FORMAT = "1"
SHIPPED = Path(__file__).parent / "weights" / "language.safetensors"
ANN = Path(__file__).parent / "weights" / "language_ann.safetensors"
REMEDY = "make new ones with `brain train language`"
PROBE = b"\x02find the red ball, but stay away from any box. \xe8\xb5\xa4\xe3\x81\x84\x03"


def needed(reader: type[SpikingReader], sizes: z.Sizes = z.BASE) -> dict[str, str]:
    """Metadata that a file must have to fit this code; of other sizes what no region takes."""
    meaning = [z.STREAMS, z.LETTER_DELAYS, z.WORD_DELAYS, z.CONTEXT_DELAYS, z.STRIDE, z.RANK, *sizes,
               z.CHOICE_STEPS, z.LETTER, z.WORD, z.CONTEXT_NEURON, z.RECALLER, z.CHOOSER,
               z.SYNAPSE, z.TRACE, z.GAIN, z.COUNT_GAIN, z.AT_REST, z.OUTPUTS, z.MEANINGS, z.BEGIN, z.END]
    # the name of the ANN baseline in files that there are
    region = "language" if reader is SpikingReader else "language (rate twin)"
    return {"format": FORMAT, "region": region, "h": repr(MICRO_STEP), "input": "a byte of UTF-8 a micro-step",
            "network": weight_files.meaning_hash(meaning)}


def probe(tensors: Mapping[str, np.ndarray], reader: type[SpikingReader], sizes: z.Sizes = z.BASE) -> np.ndarray:
    """Runs a network with these weights on one sentence: evidence and meanings, in a row."""
    network = reader(tensors, sizes=sizes)
    state = network.begin(PROBE)
    while not network.done(state):
        state, _ = network.read(state, 10)
    heard = network.heard(state)
    return np.concatenate([heard.evidence.ravel(), heard.verb])


def save(path: Path, tensors: Mapping[str, np.ndarray], reader: type[SpikingReader], training: dict[str, Any],
         report: dict[str, Any]) -> None:
    """Writes a weight file; one of other sizes does not fit the region, and says so.

    Args:
        path: of the file.
        tensors: weights by name.
        reader: :class:`SpikingReader` or :class:`AnnReader`, whose weights they are.
        training: how it was made (split, seeds, recipe).
        report: held-out figures.
    """
    halves = {name: value.astype(np.float16) for name, value in tensors.items()}
    sizes = z.sizes_of(tensors)
    weight_files.save(path, needed(reader, sizes), halves, probe(halves, reader, sizes), training, report)


def rounded(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights as they come back from a file, which holds half precision."""
    return {name: value.astype(np.float16).astype(np.float32) for name, value in tensors.items()}


def load(path: Path, reader: type[SpikingReader]) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Weights by name (float32), held-out figures, and the hash of the file.

    Raises:
        WeightsError: the file is missing, torn, or made for a network that computes something else.
    """
    loaded = weight_files.load(path, needed(reader), lambda tensors: probe(tensors, reader), REMEDY)
    return rounded(loaded.tensors), loaded.report, loaded.digest


__all__ = ["ANN", "AnnReader", "SHIPPED", "load", "needed", "probe", "rounded", "save"]
