# SPDX-License-Identifier: Apache-2.0
"""Reads files of NIR by its own definitions: nirtorch runs the graph, and the neurons are those of its equations."""
import importlib
import multiprocessing
import sys
from pathlib import Path
from types import SimpleNamespace

import nir
import nirtorch
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "programs"))     # what the ranks of a test run, and bags


class Neurons(torch.nn.Module):
    """NIR's equations by Euler's method; a spike takes the threshold off at once, or sets the potential back."""

    def __init__(self, node, h, subtract=True):
        super().__init__()
        self.node, self.h, self.subtract = node, h, subtract
        self.start = torch.from_numpy(getattr(node, "v_leak", np.zeros_like(node.r)))

    def forward(self, x, state=None):
        n = {key: torch.from_numpy(value) for key, value in vars(self.node).items() if isinstance(value, np.ndarray)}
        v = self.start if state is None else state
        if isinstance(self.node, (nir.I, nir.IF)):
            v = v + self.h * n["r"] * x
        else:
            v = v + self.h / n["tau"] * (n["v_leak"] - v + n["r"] * x)
        if isinstance(self.node, (nir.I, nir.LI)):
            return v, v
        spikes = (v > n["v_threshold"]).float()
        return spikes, v - spikes * (n["v_threshold"] if self.subtract else v - n["v_reset"])


class Gates(torch.nn.Module):
    """Heaviside's function of what comes in."""

    def __init__(self, node):
        super().__init__()
        self.threshold = torch.from_numpy(node.threshold)

    def forward(self, x):
        return (x > self.threshold).float()


class Late(torch.nn.Module):
    """A delay: what came in some micro-steps ago."""

    def __init__(self, node, h):
        super().__init__()
        self.steps = round(float(node.delay.flat[0]) / h)

    def forward(self, x, state=None):
        line = [torch.zeros_like(x)] * self.steps if state is None else state
        return line[0], [*line[1:], x]


class Scale(torch.nn.Module):
    def __init__(self, node):
        super().__init__()
        self.factor = torch.from_numpy(node.scale)

    def forward(self, x):
        return x * self.factor


def flat(node):
    return torch.nn.Flatten(node.start_dim + 1, -1)     # behind the batch


def affine(node):
    module = torch.nn.Linear(*node.weight.shape[::-1])
    module.weight.data, module.bias.data = torch.from_numpy(node.weight), torch.from_numpy(node.bias)
    return module


def read(path, **options):
    """A file as a module of torch, run by nirtorch."""
    h = float(nir.read(path).metadata["h"])
    neurons = {kind: lambda node: Neurons(node, h, **options) for kind in (nir.LIF, nir.LI, nir.I, nir.IF)}
    return nirtorch.nir_to_torch(path, neurons | {
        nir.Threshold: Gates, nir.Delay: lambda node: Late(node, h), nir.Scale: Scale, nir.Affine: affine,
        nir.Flatten: flat})


@pytest.fixture(scope="session")
def by_definition():
    """How to read files by NIR's own definitions: ``read(path)``, and its ``Neurons`` and ``Gates``."""
    return SimpleNamespace(read=read, Neurons=Neurons, Gates=Gates)


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    """Workers that would be spawned are forked of a server that has torch loaded, within milliseconds and not seconds.

    Commands that a test starts spawn theirs.
    """
    from several import FORKS

    method = multiprocessing.get_context
    monkeypatch.setattr(multiprocessing, "get_context", lambda name=None: FORKS if name == "spawn" else method(name))


@pytest.fixture(autouse=True)
def one_thread():
    """Sets torch to one thread, and back: where cores are shared, several would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def served(monkeypatch):
    """The module ``served_tasks``, which processes that a test starts can import, too."""
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("served")))
    return importlib.import_module("served_tasks")
