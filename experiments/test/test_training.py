# SPDX-License-Identifier: Apache-2.0
"""`brain bench training`: bytes are counted as formulas have them, and schedules replayed as textbooks have them."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from brain_training.parallel.chain import cuts
from brain_training.parallel.pipeline_stage import BACKWARD, FORWARD, Span
from brain_training.parallel.plan import parse
from experiments import training_beside, training_killed, training_runs, training_theory
from experiments.equal_layers import LAYERS, EqualChain, EqualLayers
from experiments.training_pictures import memory, timelines
from experiments.training_rank import Kept, Order, measured

PNG = b"\x89PNG"


def order_of(schedule: str, ranks: int, micros: int) -> list[list[Span]]:
    """What each rank of a textbook's schedule does; when does not count, only the order."""
    found = []
    for rank in range(ranks):
        ahead = micros if schedule == "gpipe" else min(micros, ranks - rank)
        works = [(FORWARD, micro) for micro in range(ahead)]
        for micro in range(micros):
            works.append((BACKWARD, micro))
            if ahead + micro < micros:
                works.append((FORWARD, ahead + micro))
        found.append([Span(rank, what, micro, float(n), n + 1.0) for n, (what, micro) in enumerate(works)])
    return found


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("ranks", "micros"), [(2, 2), (2, 8), (3, 5), (4, 4), (4, 16)])
def test_a_replay_with_balanced_stages_is_the_formula(schedule: str, ranks: int, micros: int) -> None:
    replay = training_theory.replay(order_of(schedule, ranks, micros), training_theory.units)
    assert replay.bubble == pytest.approx((ranks - 1) / (micros + ranks - 1))
    assert replay.bubble == pytest.approx(training_theory.formula(parse(f"pp={ranks}"), micros))
    assert replay.took == pytest.approx(3 * (micros + ranks - 1))


def test_ranks_that_wait_for_each_other_are_told() -> None:
    spans = order_of("gpipe", 2, 2)
    spans[0].reverse()      # first the backward passes
    spans[0] = [span._replace(begin=float(n)) for n, span in enumerate(spans[0])]
    with pytest.raises(ValueError, match="wait for each other"):
        training_theory.replay(spans, training_theory.units)


@pytest.mark.parametrize(("plan", "parts", "sent"), [
    ("dp=4", (1, 1, 2), 1.5), ("dp=4,zero=1", (1, 1, 0.5), 2.25), ("dp=4,zero=2", (0.25, 0.25, 0.5), 1.5),
    ("dp=4,zero=3", (0.25, 0.25, 0.5), 2.25), ("tp=2", (0.5, 0.5, 1), None), ("pp=4", (0.25, 0.25, 0.5), None)])
def test_bytes_by_formula(plan: str, parts: tuple[float, ...], sent: float | None) -> None:
    assert tuple(training_theory.held(1000, parse(plan)).values()) == tuple(1000 * part for part in parts)
    expected = training_theory.sent(1000, parse(plan))
    assert expected == (None if sent is None else 1000 * sent)


def test_what_autograd_keeps_is_counted_once_and_given_up() -> None:
    kept, net = Kept(), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(32, 8)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
        loss = net(x).square().sum()
    # the input, what ReLU gives (which the next layer hears), and what is squared; no weights
    assert kept.now == kept.most == 4 * 32 * (8 + 16 + 4)
    loss.backward()
    assert kept.now == 0
    assert all(p.grad is not None for p in net.parameters())


def test_activations_of_vision_are_those_of_the_formula() -> None:
    found = measured(Order("vision", steps=2, batch=2))
    row = training_runs.row(found)
    assert row["activations"][0] == pytest.approx(row["activations_formula"], rel=0.05)


@pytest.mark.extended
@pytest.mark.slow
def test_a_pipeline_is_measured_and_drawn(tmp_path: Path) -> None:
    first = Order("vision", steps=4, batch=4)
    rows = list(training_runs.pipelines(first, 2, ["1f1b", "zero-bubble"]))
    for row in rows:
        assert {span[1] for of_rank in row["spans"] for span in of_rank} >= {"forward"}
        # Medians of several steps may be more or less, as busy as the machine is; a step's own times cannot.
        assert 0.0 <= row["bubble_replay"] < 1.0 and 0.0 <= row["bubble_clock"] < 1.0
        step = [[Span(*span) for span in of_rank] for of_rank in row["spans"]]
        at_best = training_theory.replay(step, lambda span: span.end - span.begin).bubble
        assert 0.0 <= at_best <= training_theory.by_clock(step) + 1e-6
        forward, backward, floats = row["crossed"]
        assert 0 < 25 * forward < floats and backward > 0
    assert rows[0]["bubble_units"] == pytest.approx(rows[0]["bubble_formula"])
    assert {span[1] for of_rank in rows[1]["spans"] for span in of_rank} >= {"inputs", "weights"}
    timelines(tmp_path / "timelines.png", rows)
    assert (tmp_path / "timelines.png").read_bytes().startswith(PNG)


def test_equal_layers_make_equal_stages_through_which_spikes_and_gradients_get() -> None:
    task = EqualLayers(recipe=EqualLayers.tiny)
    network = task.build(0)
    batch = task.collate([task.sample(0, index) for index in range(8)])
    of = EqualChain(task, network)
    (micro,) = of.micros(batch, 1, lambda: np.random.default_rng(0))
    costs = [section.cost for section in of.sections(micro)]
    assert cuts(costs, 2) == [0, LAYERS // 2] and cuts(costs, 4) == [k * LAYERS // 4 for k in range(4)]
    lost = of.whole(micro).value
    assert lost == task.lost(network, batch, np.random.default_rng(0)).value
    lost.backward()
    assert network.layers[0].weight.grad.abs().mean() > 0
    assert 0.05 < float(network(batch[0]).detach().mean()) < 0.5


@pytest.mark.extended
def test_a_form_is_measured_beside_one_process_and_drawn(tmp_path: Path) -> None:
    rows = list(training_runs.forms(Order("motor", steps=3, batch=8), ["dp=2"]))
    assert [row["plan"] or row["shards"] for row in rows] == [0, 2, "dp=2"]
    assert rows[2]["same_bits"] is True and rows[2]["speed"] > 0
    assert rows[2]["weights_sha"] == rows[1]["weights_sha"] != rows[0]["weights_sha"]
    for kind, sizes in rows[2]["held"].items():
        assert max(sizes) == pytest.approx(rows[2]["held_formula"][kind], rel=0.05)
    memory(tmp_path / "memory.png", [rows[0], rows[2]])
    assert (tmp_path / "memory.png").read_bytes().startswith(PNG)


@pytest.mark.extended
def test_ranks_are_killed_and_a_training_goes_on() -> None:
    found = training_killed.measure(2)      # rank 0, and rank 1
    assert len(found["seconds"]) == 2 and 0 < min(found["seconds"]) <= found["median"] <= max(found["seconds"])


@pytest.mark.extended
def test_a_training_that_makes_no_step_is_told_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_killed, "__name__", "experiments.no_such")
    with pytest.raises(training_runs.Failed, match="makes no step: .*experiments.no_such"):
        training_killed.measure(1)


@pytest.mark.extended
def test_a_training_that_fails_is_named_with_its_reason() -> None:
    with pytest.raises(training_runs.Failed, match="motor, dp=2 failed: .*PlanError: a step has 1 samples"):
        training_runs.measure(Order("motor", steps=2, batch=1, plan="dp=2"))


@pytest.mark.extended
def test_our_side_of_the_comparison_runs_as_a_script_of_its_own(tmp_path: Path) -> None:
    order = {**training_beside.order_of("ours"), "batch": 1, "micro_steps": 2, "steps": 3}
    out = tmp_path / "found.json"
    done = subprocess.run([sys.executable, str(training_beside.WORKER), json.dumps(order), str(out)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text(encoding="utf-8"))["weights"] > 70_000
