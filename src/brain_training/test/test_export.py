# SPDX-License-Identifier: Apache-2.0
"""Networks written as NIR, read and run by other libraries: every spike and the answer are ours."""
import json
import math

import nir
import numpy as np
import pytest
import snntorch
import torch
from snntorch.import_nir import import_from_nir
from typer.testing import CliRunner

from brain_training.definitions import vision as definition
from brain.cli import app
from brain_regions import membranes
from brain_regions.circuits import INPUT, Circuit, Convolution, Count, Dense, Population
from brain_regions.membranes import ALIF, LI, LIF
from brain_regions.vision import network, weights
from brain_training import export, nir_files
from brain_training.circuit_checks import CircuitError
from brain_training.vision_data import make_ways

STEPS = 4       # micro-steps for each picture


@pytest.fixture(scope="module")
def seen():
    """Pictures of a robot that drives, and what our network makes of them: spikes by layer, answers."""
    (way,) = make_ways(1, 4, split="val", first_seed=5)
    images = definition.prepare(torch.from_numpy(way.images))
    ours = definition.load()[0]
    state, trains, answers = ours.rest(), [], []
    with torch.inference_mode():
        for image in images:
            state, spikes = ours(image[None], state, STEPS)
            trains.append(spikes)
            answers.append(state["u"][0])
    spikes = {layer.name: torch.cat([t[k] for t in trains])[:, 0] for k, layer in enumerate(network.LAYERS)}
    assert all(0.005 < train.mean() < 0.5 for train in spikes.values())
    return images, spikes, torch.stack(answers)


def run(net, images, watched):
    """Outputs of the modules that are watched, by name, and the graph's at each picture's end."""
    heard, answers, state = {name: [] for name in watched}, [], None
    for name, module in watched.items():
        module.register_forward_hook(lambda _, __, out, name=name: heard[name].append(
            (out[0] if isinstance(out, tuple) else out)[0]))
    with torch.inference_mode():
        for image in images:
            for _ in range(STEPS):
                answer, state = net(image[None], state)
            answers.append(answer[0])
    return {name: torch.stack(train) for name, train in heard.items()}, answers


def by_population(net, kind):
    """Modules of a kind by their population's name."""
    return {name.split("_", 1)[1]: module for name, module in net.named_children() if isinstance(module, kind)}


def test_snntorch_reads_vision_and_fires_every_spike_that_we_fire(tmp_path, seen):
    images, spikes, answers = seen
    nir_files.write(tmp_path / "vision.nir", weights_circuit(), "snntorch")
    net = import_from_nir(nir.read(tmp_path / "vision.nir"))
    neurons = by_population(net, snntorch.Leaky)
    for neuron in neurons.values():
        neuron.reset_mechanism, neuron.state_function, neuron.reset_delay = "subtract", neuron._base_sub, True
    found, told = {}, []
    readout = neurons.pop("readout")
    readout.register_forward_hook(lambda *_: told.append(readout.mem[0, :, 0]))
    found, _ = run(net, images, neurons)
    assert found.keys() == spikes.keys()
    for name, train in spikes.items():
        assert torch.equal(found[name], train), name
    torch.testing.assert_close(torch.stack(told[STEPS - 1::STEPS]), answers, rtol=1e-4, atol=1e-4)


def weights_circuit():
    return network.circuit(weights.load().tensors)


def test_the_file_by_nirs_definitions_holds_the_same_network(tmp_path, seen, by_definition):
    images, spikes, answers = seen
    nir_files.write(tmp_path / "vision.nir", weights_circuit())
    net = by_definition.read(tmp_path / "vision.nir")
    neurons = by_population(net, by_definition.Neurons)
    neurons.pop("readout")
    found, told = run(net, images, neurons)
    assert found.keys() == spikes.keys()
    differing = sum((found[name] != train).sum() for name, train in spikes.items())
    # the charges are rounded otherwise: they are multiplied by a factor and divided by it again
    assert differing <= 1e-4 * sum(train.sum() for train in spikes.values())
    torch.testing.assert_close(torch.stack(told)[:, :, 0], answers, rtol=1e-3, atol=0.02)


def test_a_reader_that_sets_the_potential_back_computes_something_else(tmp_path, seen, by_definition):
    """So the tests above can fail; and it is why the docs say which reset must be taken."""
    images, spikes, _ = seen
    nir_files.write(tmp_path / "vision.nir", weights_circuit())
    net = by_definition.read(tmp_path / "vision.nir", subtract=False)
    found, _ = run(net, images, {"wide": by_population(net, by_definition.Neurons)["wide"]})
    assert (found["wide"] != spikes["wide"]).sum() > 0.1 * spikes["wide"].sum()


def recurrent(rng):
    """What vision has not: loops within and between populations, adaptation, delays, a count."""
    draw = lambda *shape: rng.normal(0, 1 / math.sqrt(shape[-1]), shape).astype(np.float32)  # noqa: E731
    populations = (Population("a", (2, 3, 2), LIF(tau=0.03)), Population("b", (20,), ALIF(threshold=0.7)),
                   Population("c", (15,), LIF(threshold=0.8)), Population("answer", (3,), Count()))
    return Circuit("small", (2, 5, 4), populations, (
        Convolution(INPUT, "a", 3 * draw(2, 2, 1, 3), draw(2), stride=(2, 1)),
        Dense("a", "b", 2 * draw(20, 12), draw(20)), Dense("a", "b", draw(20, 12), delay=2),
        Dense("b", "b", draw(20, 20), delay=1), Dense("c", "b", draw(20, 15), delay=3),
        Dense("b", "c", 3 * draw(15, 20), delay=1), Dense("b", "answer", draw(3, 20)),
        Dense("c", "answer", draw(3, 15))))


def reference(circuit, xs):
    """The recurrent circuit by our own membranes: spikes of each population, and the count."""
    p = {(q.source, q.target, q.delay): q for q in circuit.projections}
    past = {"a": [np.zeros(12, np.float32)] * 4, "b": [np.zeros(20, np.float32)] * 4,
            "c": [np.zeros(15, np.float32)] * 4}
    va, vb, ab, vc = (np.zeros(n, np.float32) for n in (12, 20, 20, 15))
    count, trains = np.zeros(3, np.float32), []
    late = lambda *key: p[key].weight @ past[key[0]][-1 - key[2]]  # noqa: E731
    for x in xs:
        first = p[INPUT, "a", 0]
        charge = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(first.weight),
                                            torch.from_numpy(first.bias), first.stride).numpy().reshape(-1)
        a, va = membranes.lif_step(charge, va, circuit.population("a").neuron)
        past["a"].append(a)
        for name in "bc":
            past[name].append(None)
        charge = (late("a", "b", 0) + p["a", "b", 0].bias + late("a", "b", 2) + late("b", "b", 1) + late("c", "b", 3))
        past["b"][-1], vb, ab = membranes.alif_step(charge, vb, ab, circuit.population("b").neuron)
        past["c"][-1], vc = membranes.lif_step(late("b", "c", 1), vc, circuit.population("c").neuron)
        count += late("b", "answer", 0) + late("c", "answer", 0)
        trains.append({name: past[name][-1] for name in "abc"})
    return trains, count


def test_loops_delays_and_adaptation_are_kept(tmp_path, by_definition):
    rng = np.random.default_rng(2)
    circuit = recurrent(rng)
    xs = rng.uniform(-1, 1, (80, 2, 5, 4)).astype(np.float32)
    trains, count = reference(circuit, xs)
    nir_files.write(tmp_path / "small.nir", circuit)
    net = by_definition.read(tmp_path / "small.nir")
    watched = {name: module for name, module in by_population(net, by_definition.Neurons).items() if name in "abc"}
    heard, state = {name: [] for name in watched}, None
    for name, module in watched.items():
        module.register_forward_hook(lambda _, __, out, name=name: heard[name].append(out[0].numpy().reshape(-1)))
    with torch.inference_mode():
        for x in xs:
            answer, state = net(torch.from_numpy(x)[None], state)
    for name in "abc":
        ours = np.stack([train[name] for train in trains])
        assert 0.02 < ours.mean() < 0.7
        assert np.array_equal(np.stack(heard[name]), ours), name
    assert answer[0].numpy() == pytest.approx(count, abs=1e-3)


@pytest.mark.parametrize("kernel, stride, padding, dilation, size", [
    ((10, 3), (1, 1), (0, 1), (1, 1), (10, 64)), ((1, 3), (1, 1), (0, 8), (1, 8), (1, 64)),
    ((3, 5), (2, 1), (1, 2), (1, 1), (9, 12)), ((1, 1), (1, 1), (0, 0), (1, 1), (3, 4))])
def test_a_square_kernel_makes_what_the_other_made(kernel, stride, padding, dilation, size):
    rng = np.random.default_rng(1)
    p = Convolution(INPUT, "a", rng.normal(size=(4, 2, *kernel)).astype(np.float32), None, stride, padding, dilation)
    x = torch.from_numpy(rng.normal(size=(1, 2, *size)).astype(np.float32))
    weight, *more = nir_files.square(p, *size)
    assert weight.shape[2] == weight.shape[3]
    wanted = torch.nn.functional.conv2d(x, torch.from_numpy(p.weight), None, stride, padding, dilation)
    found = torch.nn.functional.conv2d(x, torch.from_numpy(weight), None, *more, dilation)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("part", [1, 3])
def test_a_reader_without_a_node_for_a_part_is_named(part):
    populations = (Population("b", (2,), ALIF() if part == 1 else LIF()),
                   Population("answer", (2,), Count() if part == 3 else LI()))
    projections = (Dense(INPUT, "b", np.eye(2)), Dense("b", "answer", np.eye(2)))
    with pytest.raises(CircuitError, match="which adapts|which counts spikes"):
        nir_files.graph(Circuit("small", (2,), populations, projections), "snntorch")


def test_dense_synapses_between_two_sheets_are_refused_by_name():
    populations = (Population("sheet", (2, 3, 4), LIF()), Population("other", (1, 3, 4), LIF()))
    projections = (Convolution(INPUT, "sheet", np.ones((2, 1, 1, 1))), Dense("sheet", "other", np.ones((12, 24))))
    with pytest.raises(CircuitError, match="from sheet to other: dense synapses .* give one of the two"):
        nir_files.graph(Circuit("small", (1, 3, 4), populations, projections))


def test_the_command_writes_the_file_and_tells_what_a_step_costs(tmp_path):
    file = tmp_path / "vision.nir"
    result = CliRunner().invoke(app, ["export", "vision", "--nir", str(file), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["projections"][0]["multiply_accumulates"] == 3_996_736      # docs/evidence.md
    graph = nir.read(file)
    assert graph.metadata["region"] == "vision" and float(graph.metadata["h"]) == network.MICRO_STEP
    assert "v_threshold" in told["then"] and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("arguments, status, said", [
    (["sight", "--nir", "x.nir"], 2, "there is no region 'sight' in the graph brain; there are vision"),
    (["place", "--nir", "x.nir"], 1, "is no spiking network"),
    (["vision", "--nir", "x.nir", "--for", "me"], 2, "there is no reader 'me'; there are nir, norse"),
    (["vision", "--nir", "nowhere/x.nir"], 1, "cannot write nowhere/x.nir: No such file or directory"),
    (["vision", "--nir", "x.nir", "--graph", "nothing"], 1, "there is no graph 'nothing'")])
def test_what_cannot_be_exported_is_said(tmp_path, monkeypatch, arguments, status, said):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", *arguments])
    assert result.exit_code == status and said in result.output
    assert not list(tmp_path.iterdir())


def test_the_commands_readers_are_those_of_the_writer():
    assert export.FOR == tuple(nir_files.READERS)
