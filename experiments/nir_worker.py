# SPDX-License-Identifier: Apache-2.0
"""Runs a file of NIR in another library and writes down its spikes and answers; see :mod:`experiments.nir_comparison`.

It runs as a script in the library's own environment, in which the brain is not installed:

    python nir_worker.py READER RESET FILE INPUTS OUTPUTS

INPUTS has ``x`` [inputs, ...], ``steps`` and ``h``; OUTPUTS gets the spikes of each population at all micro-steps, and
as ``answer`` the output at the end of each input. RESET is ``subtract`` or ``as imported``.
"""
from __future__ import annotations

import importlib
import sys

import nir
import numpy as np
import torch


def cells(net, kind):
    """Modules of a kind by their population's name."""
    found = {}
    for name, module in net.named_modules():
        if isinstance(module, kind):
            found[name.split(".")[0].split("_", 1)[1]] = module
    return found


def norse_cells(path, h, subtract):
    """The graph by nirtorch, its neurons norse's cells: what norse's importer makes, with LI and the reset besides."""
    n, nirtorch = importlib.import_module("norse.torch"), importlib.import_module("nirtorch")
    t, reset = torch.from_numpy, n.reset_subtract if subtract else n.reset_value
    net = nirtorch.nir_to_torch(path, {
        nir.LIF: lambda p: n.LIFBoxCell(n.LIFBoxParameters(
            tau_mem_inv=1 / t(p.tau), v_leak=t(p.v_leak), v_th=t(p.v_threshold), v_reset=t(p.v_reset),
            reset_method=reset), dt=h),
        nir.LI: lambda p: n.LIBoxCell(n.LIBoxParameters(tau_mem_inv=1 / t(p.tau), v_leak=t(p.v_leak)), dt=h)})
    return net, cells(net, n.LIFBoxCell), lambda answer, outputs: answer


def norse(path, h, subtract):
    n = importlib.import_module("norse.torch")
    net = n.from_nir(nir.read(path), dt=h)
    found = cells(net, n.LIFBoxCell)
    for cell in found.values():
        if subtract:
            cell.p = cell.p._replace(reset_method=n.reset_subtract)
    return net, found, lambda answer, outputs: outputs["readout"][1].v


def snntorch(path, h, subtract):
    module = importlib.import_module("snntorch")
    net = importlib.import_module("snntorch.import_nir").import_from_nir(nir.read(path))
    found = cells(net, module.Leaky)
    for cell in found.values():
        if subtract:
            cell.reset_mechanism, cell.state_function, cell.reset_delay = "subtract", cell._base_sub, True
    return net, found, lambda answer, outputs: found["readout"].mem


def spikingjelly(path, h, subtract):
    neuron = importlib.import_module("spikingjelly.activation_based.neuron")
    net = importlib.import_module("spikingjelly.activation_based.nir_exchange").import_from_nir(path, dt=h)
    starts = {name.split("_", 1)[1]: node.metadata.get("start", 0) for name, node in nir.read(path).nodes.items()}
    for name, cell in cells(net, neuron.LIFNode).items():
        cell.v = float(starts[name])
        if subtract:
            cell.v_reset = None
    found = {name.split("_", 1)[1]: module for name, module in net.named_children() if hasattr(module, "module")}
    return net, found, lambda answer, outputs: outputs["readout"][1][0]


READERS = {f.__name__: f for f in (norse, norse_cells, snntorch, spikingjelly)}


def main():
    reader, reset, path, inputs, target = sys.argv[1:]
    torch.set_num_threads(1)
    given = np.load(inputs)
    net, found, answer_of = READERS[reader](path, float(given["h"]), reset == "subtract")
    outputs, spikes, answers, state = {}, {name: [] for name in found if name != "readout"}, [], None
    for name, module in found.items():
        module.register_forward_hook(lambda _, __, out, name=name: outputs.update({name: out}))
    with torch.no_grad():
        for x in torch.from_numpy(given["x"]):
            for _ in range(int(given["steps"])):
                answer, state = net(x[None], state)
                for name, train in spikes.items():
                    out = outputs[name]
                    while not isinstance(out, torch.Tensor):
                        out = out[0]
                    train.append(out[0].numpy() > 0)
            answers.append(answer_of(answer, outputs)[0].numpy().copy())
    np.savez(target, answer=np.stack(answers), **{name: np.stack(train) for name, train in spikes.items()})


if __name__ == "__main__":
    main()
