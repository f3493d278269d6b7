# SPDX-License-Identifier: Apache-2.0
"""Several forms in one run, on real ranks: what one process that works through the same parts comes to."""
from __future__ import annotations

import runpy

import pytest
import torch
from meshes import MICROS, SHARED, all_forms, gradients, of, reference, sha, shared_out, trained
from parallel_ranks import PROGRAMS, ranks
from several import several

from brain_training.parallel.shards import ShardsTrainer

BEHIND = {      # weights behind the last gathering of columns
    "vision": {"readout.weight", "readout.bias", "norms.5.weight", "convolutions.5.weight"},
    "language": {"evidence", "direct", "evidence_bias", "verb"}, "motor": {"readout", "w2"}}

HYBRID = ("dp=4,zero=1,shard=2/exact", "dp=4,zero=2,shard=2/exact", "dp=4,zero=3,shard=2/exact",
          "dp=4,zero=2,shard=1/exact", "dp=4,zero=3,shard=1/exact", "dp=4,zero=3,shard=2")


def off(ours, right):
    """Greatest difference of each tensor's gradient, relative to the greatest of it; 0: the same bits.

    The bias of a convolution before a normalization has none but for rounding.
    """
    return {n: 0.0 if torch.equal(ours[n], g) else float((ours[n] - g).abs().max()) / float(g.abs().max())
            for n, g in right.items() if not (n.startswith("conv") and n.endswith("bias"))}


def same_forward(one, right, same=torch.equal):
    """Loss, hardness and statistics."""
    hard = right["hard"] is None and one["hard"] is None or same(one["hard"], right["hard"])
    return hard and same(one["value"], right["value"]) and all(
        same(one["buffers"][n], value) for n, value in right["buffers"].items())


def close(a, b):
    """The same but for what float64 rounds, which on some processors depends on how many columns there are."""
    return torch.allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.extended("language", "vision")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["motor", "language", "vision"])
def test_two_batches_of_split_layers_have_the_forward_pass_of_two_shards_to_the_bit(tmp_path, name):
    (right,) = several(tmp_path / "one", 1, reference, name, 2, 0)
    for one in several(tmp_path / "mesh", 4, gradients, name, "dp=2,tp=2"):
        assert same_forward(one, right)
        wrong = off(one["grads"], right["grads"])
        assert {of for of, value in wrong.items() if not value} >= BEHIND[name] and max(wrong.values()) < 1e-5
        assert one["norm"] == pytest.approx(right["norm"], rel=1e-6)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("name", "schedule"), [("motor", "1f1b"), ("language", "zero-bubble"), ("vision", "gpipe")])
def test_two_pipelines_have_the_bits_of_two_shards_in_micro_batches(tmp_path, name, schedule):
    (right,) = several(tmp_path / "one", 1, reference, name, 2, MICROS)
    for one in several(tmp_path / "mesh", 4, gradients, name, "dp=2,pp=2", False, True, schedule):
        assert same_forward(one, right)
        assert max(off(one["grads"], right["grads"]).values()) == 0.0 and one["norm"] == right["norm"]


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("name", "plan", "schedule"), [
    ("motor", "tp=2,pp=2", "1f1b"), ("language", "tp=2,pp=2", "interleaved"), ("vision", "tp=2,pp=2", "zero-bubble")])
def test_stages_of_split_layers_in_double_precision(tmp_path, name, plan, schedule):
    (right,) = several(tmp_path / "one", 1, reference, name, 1, MICROS, True)
    for one in several(tmp_path / "mesh", 4, gradients, name, plan, True, True, schedule):
        wrong = off(one["grads"], right["grads"])
        assert same_forward(one, right, close) and max(wrong.values()) < 1e-9


@pytest.mark.slow
def test_eight_ranks_in_all_three_forms_train_and_their_checkpoint_is_one_of_one_process(tmp_path):
    """dp=2,pp=2,tp=2: gradients of a first step in float64, and a training whose optimizer is shared out by dp."""
    found = several(tmp_path / "mesh", 8, all_forms, "motor", tmp_path / "motor.checkpoint")
    (right,) = several(tmp_path / "one", 1, reference, "motor", 2, MICROS)
    (double,) = several(tmp_path / "double", 1, reference, "motor", 2, MICROS, True)
    for one in found:
        assert same_forward(one["first"], right) and max(off(one["first"]["grads"], right["grads"]).values()) < 1e-5
        assert same_forward(one["double"], double) and max(off(one["double"]["grads"], double["grads"]).values()) < 1e-9
        assert one["trained"]["losses"] == found[0]["trained"]["losses"]
        assert one["trained"]["sha"] == found[0]["trained"]["sha"]
    alone = ShardsTrainer(of("motor"), 3, shards=2, micros=MICROS)
    alone.run()
    assert found[0]["trained"]["losses"] == pytest.approx(alone.losses[:3], rel=1e-4)
    # resumed by one process, after three of four steps
    rest = ShardsTrainer(of("motor"), 3, shards=2, micros=MICROS, checkpoint=tmp_path / "motor.checkpoint")
    assert rest.resume() == 3 and rest.losses == found[0]["trained"]["losses"]
    rest.run()
    assert rest.losses == pytest.approx(alone.losses, rel=1e-4)


@pytest.mark.extended
@pytest.mark.slow
def test_zero_over_the_replicas_of_split_layers_changes_no_bit(tmp_path):
    """And its checkpoint goes on as pipelines."""
    found = several(tmp_path / "mesh", 4, shared_out, "motor", tmp_path / "motor.checkpoint")
    plain, *others = (found[0][plan] for plan in SHARED)
    for one in others:
        assert one["sha"] == plain["sha"] and one["losses"] == plain["losses"] and one["whole"] == plain["whole"]
    for kind in ("parameters", "gradients", "optimizer"):
        assert all(held[kind] < 0.55 * plain["whole"][kind] for held in plain["held"])
    sharded = found[0]["dp=2,tp=2,zero=3"]
    for kind in ("parameters", "gradients", "optimizer"):
        assert all(held[kind] < 0.28 * sharded["whole"][kind] for held in sharded["held"])
    part = found[0]["dp=2,tp=2,zero=1"]["held"]
    assert sum(held["optimizer"] for held in part) < 1.1 * plain["whole"]["optimizer"]
    piped = found[0]["dp=2,pp=2,zero=1"]
    assert piped["resumed"] == 2 and piped["losses"][:2] == found[0]["saved"]["losses"] == plain["losses"][:2]
    rest = ShardsTrainer(of("motor"), 3, shards=2, micros=MICROS, checkpoint=tmp_path / "motor.checkpoint")
    assert rest.resume() == 2 and sha(rest.run()) == piped["sha"]
    assert all(one[plan]["sha"] == found[0][plan]["sha"] for one in found for plan in found[0])


@pytest.mark.slow
def test_pipelines_train_to_the_bits_of_one_process_with_the_optimizer_shared_out(tmp_path):
    alone = ShardsTrainer(of("motor"), 3, shards=2, micros=MICROS)
    right = sha(alone.run())
    for one in several(tmp_path / "mesh", 4, trained, "motor", "dp=2,pp=2,zero=1", None, None, True):
        assert one["sha"] == right and one["losses"] == alone.losses


@pytest.mark.extended
def test_hybrid_sharding_has_the_bits_of_shards(tmp_path):
    lines = ranks(4, "parallel_forms.py", "gloo", *HYBRID)
    found = {line[1]: line[2] for line in lines if line[0] == "form"}
    held = {line[1]: line[5:8] for line in lines if line[0] == "form"}
    task = runpy.run_path(str(PROGRAMS / "parallel_tasks.py"), run_name="parallel_tasks")
    right = task["sha"](ShardsTrainer(task["Spikes"](), 5, shards=4).run())
    assert {found[form] for form in HYBRID if "exact" in form} == {right}
    # two share out, so that each has half: as two ranks do, see test_parallel
    assert held["dp=4,zero=3,shard=2/exact"] == held["dp=4,zero=3,shard=2"] == ["776/1512", "776/1512", "1572/3044"]
