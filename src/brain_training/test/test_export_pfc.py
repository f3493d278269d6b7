# SPDX-License-Identifier: Apache-2.0
"""The populations of the prefrontal cortex written as NIR, read and run by nirtorch: every spike is ours."""
import numpy as np
import pytest
import torch

from brain_regions.azimuth import BINS, bump
from brain_training.circuit_steps import Steps
from brain_regions.pfc import PrefrontalCortex, circuit, decision, memory, polar
from brain_training import nir_files

BLUE_BOX, RED_BALL = 7, 0
SPIKING = ("memory", "target", "attended", "avoid", "candidates", "commitment", "actions", "facts", "heading")


def situation():
    """Three seconds of input: nothing is asked, a search, two blue boxes in sight, arrival, a red ball too near."""
    xs = []
    for k in range(600):
        evidence = np.zeros((memory.CLASSES, BINS, polar.RINGS), np.float32)
        if 120 <= k < 240 and k % 10 == 0:
            evidence[BLUE_BOX] = memory.UNIT * (polar.bump(0.3, 1.0) + 0.7 * polar.bump(-0.5, 2.0))
        if 460 <= k < 560 and k % 10 == 0:
            evidence[RED_BALL] = memory.UNIT * polar.bump(0.1, 0.6)
        causes = {"goal": 1.0, "turn_left": 0.6, "turn_right": 1.2} if k >= 40 else {"unasked": 1.0}
        if 280 <= k < 420:
            causes |= {"arrived": 1.0, "certain": 1.0}
        xs.append(circuit.inputs(evidence, bump(-1.0) * (k >= 40), causes))
    return np.stack(xs)


@pytest.fixture(scope="module")
def ours():
    """The input, and what each population made of it."""
    xs, steps = situation(), Steps(PrefrontalCortex.circuit())
    made = [steps.step(x) for x in xs]
    return xs, {name: np.stack([m[name] for m in made]) for name in made[0]}


def decided(answers):
    """What is done, and why, at the end of each tenth of a second."""
    found = []
    for answer in answers[19::20]:
        means = dict(zip(circuit.ANSWERS, answer[:, 0, 0]))
        found.append(max((*decision.ACTIONS, ""), key=lambda name: means.get(name, decision.SURE)))
    return found


def test_the_situation_makes_every_population_fire_and_is_decided(ours):
    _, made = ours
    assert all(made[name].any() for name in SPIKING)
    found = decided(made["answer"])
    assert found[1] == "idle" and found[5] == "search" and found[12] == "approach"
    assert found[-1] == "idle"      # it has arrived
    reached = made["answer"][:, circuit.ANSWERS.index("reached"), 0, 0]
    assert reached[279] < 0.01 and reached[-1] > 0.3


@pytest.mark.extended
@pytest.mark.slow
def test_nirtorch_reads_the_cortex_and_fires_every_spike_that_we_fire(tmp_path, ours, by_definition):
    xs, made = ours
    nir_files.write(tmp_path / "pfc.nir", PrefrontalCortex.circuit())
    net = by_definition.read(tmp_path / "pfc.nir")
    kinds = (by_definition.Neurons, by_definition.Gates)
    modules = {name.split("_", 1)[1]: module for name, module in net.named_children() if isinstance(module, kinds)}
    assert set(made) <= set(modules)
    fired, answers, state = {name: [] for name in made}, [], None
    for name in made:
        modules[name].register_forward_hook(lambda _, __, out, name=name: fired[name].append(
            (out[0] if isinstance(out, tuple) else out)[0].numpy()))
    with torch.inference_mode():
        for x in xs:
            answer, state = net(torch.from_numpy(x)[None], state)
            answers.append(answer[0].numpy())
    for name in SPIKING:
        assert np.array_equal(np.stack(fired[name]), made[name]), name
    assert np.stack(answers) == pytest.approx(made["answer"], abs=1e-4)
    assert BINS * 2 + len(decision.NAMES) == answers[0].size
