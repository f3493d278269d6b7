# SPDX-License-Identifier: Apache-2.0
"""Trains a spiking network of given layers by torch's DistributedDataParallel, and tells how long a step takes.

It runs as a script, in an environment of SpikingJelly in which the brain is not installed, or in the brain's own; so it
imports what it measures by name. ``ORDER`` (JSON on the command line): ``maker`` (``theirs`` or ``ours``), ``layers``
(inputs, outputs, kernel, stride, padding, dilation of each), ``shape`` of a picture, ``micro_steps``, ``batch`` of all
ranks together, ``steps``.
"""
import importlib
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

KINDS = ("inputs", "outputs", "kernel", "stride", "padding", "dilation")
FIRST = 2       # steps that are not timed


def theirs(order):
    """Layers by SpikingJelly: convolution, normalization, leaky integrate-and-fire, all micro-steps at once."""
    layer, neuron, surrogate, functional = (importlib.import_module(f"spikingjelly.activation_based.{name}")
                                            for name in ("layer", "neuron", "surrogate", "functional"))
    parts = []
    for sizes in order["layers"]:
        made = {kind: tuple(value) if isinstance(value, list) else value for kind, value in zip(KINDS, sizes)}
        parts.append(layer.SeqToANNContainer(nn.Conv2d(made["inputs"], made["outputs"], made["kernel"], made["stride"],
                                                       made["padding"], made["dilation"]),
                                             nn.BatchNorm2d(made["outputs"])))
        parts.append(neuron.LIFNode(tau=4.0, decay_input=False, v_reset=None, step_mode="m", detach_reset=True,
                                    surrogate_function=surrogate.ATan()))
    net = nn.Sequential(*parts)

    class Charges(nn.Module):
        """The same picture at each micro-step; the mean rate of the last layer."""

        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, pictures):
            functional.reset_net(self.net)
            return self.net(pictures.expand(order["micro_steps"], *pictures.shape)).mean(0)

    return Charges()


def ours(order):
    """The brain's vision, with the same layers; its own readout is left out."""
    known_layers = importlib.import_module("brain_regions.vision.network").LAYERS
    made_of = importlib.import_module("brain_training.definitions.vision").SpikingVision
    layers = [known._replace(**{kind: tuple(value) if isinstance(value, list) else value
                                for kind, value in zip(KINDS, sizes)})
              for known, sizes in zip(known_layers, order["layers"])]
    net = made_of(layers).to(memory_format=torch.channels_last)
    net.readout.requires_grad_(False)       # its answer is in no loss here

    class Rates(nn.Module):
        """The mean rate of the last layer."""

        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, pictures):
            return self.net(pictures.contiguous(memory_format=torch.channels_last), self.net.rest(len(pictures)),
                            order["micro_steps"])[1][-1].mean(0)

    return Rates()


def main():
    order = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    net = {"theirs": theirs, "ours": ours}[order["maker"]](order)
    if ranks > 1:
        dist.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    drawn = torch.Generator().manual_seed(rank)
    pictures = torch.rand(order["batch"] // ranks, *order["shape"], generator=drawn) * 2 - 1
    times = []
    for _ in range(order["steps"]):
        begin = time.monotonic()
        optimizer.zero_grad()
        (net(pictures) - 0.3).square().mean().backward()
        optimizer.step()
        times.append(time.monotonic() - begin)
    if rank == 0:
        try:
            version = importlib.import_module("importlib.metadata").version("spikingjelly")
        except importlib.import_module("importlib.metadata").PackageNotFoundError:
            version = ""
        with open(sys.argv[2], "w", encoding="utf-8") as out:
            json.dump({"step_s": statistics.median(times[FIRST:]), "version": version, "weights": sum(
                p.numel() for p in net.parameters() if p.requires_grad)}, out)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
