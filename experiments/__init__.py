# SPDX-License-Identifier: Apache-2.0
"""Comparisons with others and long measurements; not installed: ``brain bench NAME`` finds them in a checkout.

``python -m experiments NAME`` is the same.
"""
import os
from pathlib import Path

EXPERIMENTS = {
    "tls": "experiments.tls:Tls",
    "memory": "experiments.memory:Memory",
    "ros": "experiments.ros:Ros",
    "backends": "experiments.backends:Backends",
    "cameras": "experiments.cameras:Cameras",
    "collectives": "experiments.collectives:Collectives",
    "federated": "experiments.federated:Federated",
    "fleet-messages": "experiments.fleet_messages:FleetMessages",
    "fleet-orders": "experiments.fleet_orders:FleetOrders",
    "fleet-scale": "experiments.fleet_scale:FleetScale",
    "gpu": "experiments.gpu:Gpu",
    "headings": "experiments.headings:Headings",
    "incremental": "experiments.incremental:Incremental",
    "integration": "experiments.integration:Integration",
    "joint": "experiments.joint:Joint",
    "lesions": "experiments.lesions:Lesions",
    "lifelong": "experiments.lifelong:Lifelong",
    "neurons": "experiments.neurons:Neurons",
    "nir": "experiments.nir_comparison:Nir",
    "one-process": "experiments.one_process:OneProcess",
    "operations": "experiments.operations:Operations",
    "placement": "experiments.placement:Placement",
    "scale": "experiments.scale:Scale",
    "sentence-lesions": "experiments.sentence_lesions:SentenceLesions",
    "sentences": "experiments.sentences:Sentences",
    "shards": "experiments.shards:ShardTimes",
    "training": "experiments.training:Training",
    "weights": "experiments.weights:Weights",
}
"""By name as of ``brain bench``, and of its file in ``results/``, the class of each."""

# What an experiment starts finds its modules, too: nothing here is installed.
_root, _given = str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")
if _root not in _given.split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_root, _given]))
