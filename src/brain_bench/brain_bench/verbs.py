# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: its verbs put together."""
from __future__ import annotations

from brain_bench.backends import backends
from brain_bench.bench import app
from brain_bench.bench_collectives import collectives
from brain_bench.bench_federated import federated
from brain_bench.bench_fleet import fleet_messages
from brain_bench.bench_gaps import gaps
from brain_bench.bench_gpu import gpu
from brain_bench.bench_headings import headings
from brain_bench.bench_incremental import incremental
from brain_bench.bench_integration import integration
from brain_bench.bench_joint import joint
from brain_bench.bench_lesions import lesions
from brain_bench.bench_lifelong import lifelong
from brain_bench.bench_one_process import one_process
from brain_bench.bench_operations import operations
from brain_bench.bench_placement import placement
from brain_bench.bench_sentence_lesions import sentence_lesions
from brain_bench.bench_sentences import sentences
from brain_bench.bench_shards import shards
from brain_bench.bench_training import training
from brain_bench.bench_weights import weights
from brain_bench.beside_others import neurons, nir
from brain_bench.fleet_scale import fleet_scale
from brain_bench.scale import scale
from brain_runtime.command.saved import savable

for verb in (backends, collectives, federated, fleet_messages, fleet_scale, headings, incremental, integration, joint,
             lesions, lifelong, sentences, sentence_lesions, weights, gaps, gpu, neurons, nir, one_process, operations,
             placement, scale, shards, training):
    app.command()(verb)
for info in app.registered_commands:
    info.callback = savable(info.callback, info.name or info.callback.__name__.replace("_", "-"))

__all__ = ["app"]
