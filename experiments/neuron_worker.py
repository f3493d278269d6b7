# SPDX-License-Identifier: Apache-2.0
"""Steps one library's LIF neurons as it is ordered, and times them; see :mod:`experiments.neurons`.

It runs as a script in the library's own environment, in which the brain is not installed. So it imports nothing of it
but for the brain's own neurons, and the libraries by name, as ``orders.py``, which is beside it.

Each maker below gets charges ``x`` [micro-steps, batch, neurons], or spikes and the ``weight`` [neurons, inputs] that
makes charges of them, and returns a function that integrates all micro-steps once more and returns the spikes.
"""
from __future__ import annotations

import importlib
import math
import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

BETA = math.exp(-0.25)          # 5 ms of a time constant of 20 ms
STEP = 0.005                    # s
TAU = STEP / (1 - BETA)         # s, of Euler's step with the same leak
BLOCK = 0.002                   # s, about, that one reading of the clock spans
CALLS = 20                      # whose spikes are counted, before the clock runs


def charges(x, weight):
    """A function that makes the charges of one call anew, as a layer's synapses do."""
    if weight is None:
        return lambda: x
    linear = importlib.import_module("torch").nn.functional.linear
    return lambda: linear(x, weight)


def brain_numpy(x, weight):
    membranes, numpy = importlib.import_module("brain_regions.membranes"), importlib.import_module("numpy")
    x, weight = x.numpy(), None if weight is None else weight.numpy().T
    p, v = membranes.LIF(), numpy.zeros((x.shape[1], x.shape[2] if weight is None else weight.shape[1]), "float32")

    def step():
        nonlocal v
        spikes, v = membranes.lif_step(x[0] if weight is None else x[0] @ weight, v, p)
        return spikes

    def run():
        nonlocal v
        spikes, v = membranes.lif_run(x if weight is None else x @ weight, v, p)
        return spikes
    return step if len(x) == 1 else run


def brain_torch(x, weight):
    neurons = importlib.import_module("brain_training.neurons")
    charge = charges(x, weight)
    p, state = neurons.LIF(), neurons.LIFState(charge()[0] * 0)

    def step():
        nonlocal state
        spikes, state = neurons.lif_step(charge()[0], state, p)
        return spikes

    def run():
        nonlocal state
        spikes, state = neurons.lif_run(charge(), state, p)
        return spikes
    return step if len(x) == 1 else run


def norse(x, weight):
    torch, n = importlib.import_module("torch"), importlib.import_module("norse.torch")
    charge = charges(x / (1 - BETA), weight)
    p = n.LIFBoxParameters(tau_mem_inv=torch.as_tensor(1 / TAU), reset_method=n.reset_subtract)
    state = n.LIFBoxFeedForwardState(v=charge()[0] * 0)

    def call():
        nonlocal state
        for one in charge():
            spikes, state = n.lif_box_feed_forward_step(one, state, p, STEP)
        return spikes
    return call


def snntorch(x, weight):
    charge = charges(x, weight)
    neurons, v = importlib.import_module("snntorch").Leaky(beta=BETA), charge()[0] * 0

    def call():
        nonlocal v
        for one in charge():
            spikes, v = neurons(one, v)
        return spikes
    return call


def spikingjelly(x, weight):
    neuron, charge = importlib.import_module("spikingjelly.activation_based.neuron"), charges(x, weight)
    step = len(x) == 1
    neurons = neuron.LIFNode(tau=TAU / STEP, decay_input=False, v_reset=None, step_mode="s" if step else "m").eval()
    return (lambda: neurons(charge()[0])) if step else (lambda: neurons(charge()))


def sinabs(x, weight):
    layers = importlib.import_module("sinabs.layers")
    charge = charges(x.movedim(0, 1).contiguous(), weight)      # [batch, micro-steps, neurons]
    neurons = layers.LIF(tau_mem=-1 / math.log(BETA), norm_input=False)
    return lambda: neurons(charge())


MAKERS = {f.__name__: f for f in (brain_numpy, brain_torch, norse, snntorch, spikingjelly, sinabs)}


def measure(make, order):
    """Median time (s) of a call on the processor, and the share of the neurons that fired."""
    torch = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(1)
    shape = order["steps"], order["batch"]
    if order["inputs"]:
        x = (torch.rand(*shape, order["inputs"], generator=generator) < 0.1).float()
        weight = torch.rand(order["neurons"], order["inputs"], generator=generator) * 6 / order["inputs"]
    else:
        x, weight = torch.rand(*shape, order["neurons"], generator=generator) * 0.6, None
    clock, times = time.process_time, []      # what others take of the core meanwhile does not count
    with torch.inference_mode():
        call = make(x, weight)
        fired = statistics.mean(float(call().mean()) for _ in range(CALLS))
        start = clock()
        for _ in range(CALLS):
            call()
        many = max(1, round(BLOCK * CALLS / (clock() - start)))
        end = clock() + order["seconds"]
        while clock() < end or len(times) < 3:
            start = clock()
            for _ in range(many):
                call()
            times.append((clock() - start) / many)
    return {"time": statistics.median(times), "fired": fired}


def main():
    orders = importlib.import_module("orders").Orders()
    make = MAKERS[sys.argv[1]]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[2])})
    importlib.import_module("torch").set_num_threads(1)
    orders.tell(ready=True)
    for order in orders:
        orders.tell(**measure(make, order))


if __name__ == "__main__":
    main()
