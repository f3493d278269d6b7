# SPDX-License-Identifier: Apache-2.0
"""What --parallel says, and what cannot be: each in one line that names what would fit."""
from __future__ import annotations

import re
import shutil

import pytest
import torch
from typer.testing import CliRunner

from brain.cli import app
from brain_training.parallel.how import How
from brain_training.parallel.plan import FORMS, TRAINERS, Plan, PlanError, maker, parse
from brain_training.parallel.ranks import gpu
from brain_training.parallel.watch import training
from brain_training.settings import Settings


def test_a_plan_has_the_sizes_of_its_forms():
    plan = parse(" dp=2, zero=3,pp=2,tp=4 ,ps=2")
    assert plan == Plan(dp=2, zero=3, pp=2, tp=4, ps=2) and plan.world == 16
    assert parse(str(plan)) == plan and str(Plan()) == "dp=1" and parse("dp=1").world == 1
    with pytest.raises(AttributeError):
        plan.dp = 3
    assert set(TRAINERS) == set(FORMS)


@pytest.mark.parametrize(("text", "why"), [
    ("", "no form ''; give dp, zero, shard, pp, tp, ps with a size"), ("dp", "no form 'dp'"),
    ("ep=2", "no form 'ep=2'"),
    ("dp=2,dp=4", "dp stands twice"), ("dp=0", "dp=0 cannot be; dp is a whole number, 1 or more"),
    ("dp=-2", "dp=-2 cannot be"), ("dp=two", "dp=two cannot be"), ("dp=2,zero=4", "zero=4 cannot be; .*0 to 3"),
    ("dp=1.5", "dp=1.5 cannot"), ("dp=²", "dp=² cannot be"),
    ("dp=4,shard=2", "shard=2 is of zero=1 to 3, .*; give zero too"),
    ("dp=6,zero=3,shard=4", "has to divide dp=6; shard=1, 2, 3, 6 would")])
def test_what_is_no_plan_is_told_in_one_line(text, why):
    with pytest.raises(PlanError, match=why) as told:
        parse(text)
    assert "\n" not in str(told.value)


def test_other_ranks_than_the_plan_has_are_told_what_would_fit():
    parse("dp=2,tp=3").check_world(6)
    with pytest.raises(PlanError, match="12 ranks were started, but --parallel dp=2,tp=3 is of 6 .*; dp=4 would fit"):
        parse("dp=2,tp=3").check_world(12)
    with pytest.raises(PlanError, match="7 ranks .* a multiple of 3 ranks would"):
        parse("dp=2,tp=3").check_world(7)
    with pytest.raises(PlanError, match="6 ranks .* dp=4,zero=2,shard=2,tp=2 is of 8 .*; a multiple of 4 ranks would"):
        parse("dp=4,tp=2,zero=2,shard=2").check_world(6)
    with pytest.raises(PlanError, match="2 ranks .* dp=2,zero=1,tp=2 is of 4 .*; a multiple of 2 ranks would, with dp"):
        parse("dp=2,tp=2,zero=1").check_world(2)


def test_a_batch_is_told_that_does_not_divide_and_refused_that_is_too_small():
    assert parse("dp=4").check_batch(32) == ""
    assert "32 samples do not divide by 3 ranks: some make 10, some 11" in parse("dp=3").check_batch(32)
    with pytest.raises(PlanError, match="a step has 32 samples, too few for dp=64; dp from 1 to 32 fits"):
        parse("dp=64").check_batch(32)
    with pytest.raises(PlanError, match="too few for dp=8 and --accumulate 5; dp from 1 to 6 fits"):
        parse("dp=8").check_batch(32, 5)


@pytest.mark.parametrize(("text", "why"), [
    ("tp=2,ps=2", "ps goes with dp alone; leave out tp"), ("ps=2,pp=2", "leave out pp"),
    ("dp=2,zero=1,ps=2", "leave out zero"), ("dp=2,zero=2,pp=2", "of zero 1 alone goes with pp; give zero=1, or tp"),
    ("dp=2,zero=3,pp=2,tp=2", "zero=3 would gather a stage's weights anew for each of its micro-batches")])
def test_forms_that_do_not_go_together_say_so(text, why):
    with pytest.raises(PlanError, match=why) as told:
        maker(parse(text))
    assert "\n" not in str(told.value)


def test_pipelines_of_too_few_samples_are_told_how_many_micro_batches_fit():
    assert parse("dp=2,pp=2").check_batch(16, 1, 8) == ""
    with pytest.raises(PlanError, match="a step has 14 samples, so that one of dp=2 has 7, .*; give --microbatches 7"):
        parse("dp=2,pp=2").check_batch(14, 1, 8)


@pytest.mark.parametrize("text", ["dp=2", "dp=2,zero=3", "tp=2", "pp=4", "ps=2", "dp=3,ps=2", "dp=4,zero=3,shard=2",
                                  "dp=2,tp=2", "dp=2,pp=2", "tp=2,pp=2", "dp=2,pp=2,tp=2", "dp=2,zero=1,pp=2",
                                  "dp=2,zero=3,tp=2"])
def test_every_other_plan_has_its_trainer(text):
    assert callable(maker(parse(text)))


@pytest.mark.parametrize(("options", "why"), [
    (["--parallel", "dp=x"], "dp=x cannot be"),
    (["--parallel", "zero=3"], "zero=3 shares out among the ranks of dp, which is 1; dp=2 or more fits, and zero"),
    (["--parallel", "zero=3", "--offload", "all"], "--offload all moves parts from a GPU's .* zero=3 on cpu"),
    (["--backend", "gloo"], "--backend is of training by several processes; give --parallel"),
    (["--store", "here:1"], "--store is of training by several"), (["--survivors", "2"], "--survivors is of training"),
    (["--exact"], "--exact is of training by several"), (["--accumulate", "2"], "give --parallel"),
    (["--parallel", "dp=2", "--shards", "2"], "--shards is one process in place of several"),
    (["--parallel", "dp=2", "--backend", "mpi"], "--backend mpi is not known; there is gloo, zenoh, nccl"),
    (["--parallel", "dp=2", "--backend", "nccl"], "--backend nccl is for CUDA.*--device cuda"),
    (["--parallel", "dp=2", "--exact", "--compress", "bf16"], "--compress rounds gradients"),
    (["--parallel", "dp=2,zero=2", "--compress", "bf16"], "zero=2 shares them out"),
    (["--parallel", "dp=2,zero=3", "--offload", "all"], "--offload all moves parts from a GPU's"),
    (["--parallel", "dp=2", "--offload", "optimizer"], "--offload optimizer and --offload-folder go together"),
    (["--parallel", "dp=2", "--offload-folder", "x"], "--offload optimizer and --offload-folder go together"),
    (["--parallel", "tp=2", "--offload", "optimizer", "--offload-folder", "x"], "and this is tp=2 on cpu"),
    (["--deepspeed-config", "gone.json"], "cannot read --deepspeed-config gone.json"),
    (["--parallel", "dp=2", "--accumulate", "0"], "--accumulate 0 cannot be"),
    (["--parallel", "ps=2,tp=2"], "ps goes with dp alone; leave out tp"),
    (["--parallel", "pp=2,tp=2", "--tensor", "classic"], "stages hand on those of whole layers; give --tensor exact"),
    (["--parallel", "pp=4", "--microbatches", "2"], "--microbatches 2 do not fill pp=4 stages; give 4 or more"),
    (["--parallel", "pp=2", "--schedule", "round"], "--schedule round is not known; there is gpipe"),
    (["--parallel", "tp=2", "--tensor", "odd"], "--tensor odd is not known; there is exact, classic"),
    (["--parallel", "dp=2", "--schedule", "gpipe"], "--schedule is of pp, and this is dp=2; give pp=2"),
    (["--parallel", "ps=2", "--backend", "zenoh"], "ps=2 has servers; leave them out"),
    (["--parallel", "ps=2", "--exact", "--mode", "async"], "--mode async has none; give --mode sync"),
    (["--parallel", "dp=2", "--keep", "0.1"], "--keep is of ps, and this is dp=2"),
    (["--parallel", "ps=2", "--keep", "0"], "--keep 0.0 is no share of a gradient's elements"),
    (["--parallel", "ps=2", "--keep", "0.1", "--exact"], "--keep leaves out parts of gradients"),
    (["--parallel", "ps=2", "--mode", "soon"], "soon"),
    (["--parallel", "tp=2", "--accumulate", "2"], "--accumulate and --compress are of dp"),
    (["--microbatches", "4"], "--microbatches is of training by several processes"),
    (["--parallel", f"dp={'9' * 5000}"], "dp=9{20} cannot be; dp is a whole number"),
    (["--parallel", "dp=2", "--elastic", f"1:{'9' * 5000}"], "--elastic 1:9+ cannot be"),
    (["--parallel", "dp=2", "--elastic", "1:1", "--store", f"here:{'9' * 5000}"], "is no place.*HOST:PORT"),
    (["--seed", "9" * 30], "'--seed': .*less than or equal"), (["--threads", "9" * 12], "'--threads': .*1024"),
    (["--parallel", "dp=2", "--device", "cuda:99"], "there is no device 'cuda:99'")])
def test_what_does_not_go_together_is_told_before_anything_is_done(tmp_path, options, why):
    told = CliRunner().invoke(app, ["train", "motor", *options, "--quick", "--out", str(tmp_path / "a.safetensors")])
    assert told.exit_code in (1, 2) and re.search(why, " ".join(told.output.split())) and not list(tmp_path.iterdir())


def test_a_rank_without_a_gpu_is_told_of_it_before_any_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert gpu("nccl", 0) == gpu("gloo", 3) == "cuda:0"
    settings = Settings(quick=True, device="cuda", how=How(parse("dp=2")))
    with pytest.raises(PlanError, match="rank 1 of this machine has no GPU: .*there are 1; start 1 here, or"):
        training("motor", tmp_path / "a.safetensors", settings)
    assert not list(tmp_path.iterdir())


def test_all_regions_are_not_trained_by_several(tmp_path):
    told = CliRunner().invoke(app, ["train", "all", "--parallel", "dp=2", "--quick", "--out", str(tmp_path)])
    assert told.exit_code == 1 and "one region at a time" in told.output


@pytest.mark.parametrize(("options", "why"), [
    (["--out", "."], "cannot write .*: it is a folder; name a file in it"),
    (["--device", "cuda:99"], "there is no device 'cuda:99' here"),
    (["--device", "nonsense"], "there is no device 'nonsense' here")])
def test_what_a_worker_by_hand_cannot_use_is_told_before_it_asks_a_server(options, why):
    told = CliRunner().invoke(
        app, ["parameter-worker", "--task", "motor", "--quick", "--servers", "127.0.0.1:9", *options])
    assert told.exit_code in (1, 2) and re.search(why, " ".join(told.output.split())), told.output


def test_resuming_by_a_form_of_another_kind_names_what_is_there(tmp_path):
    out = tmp_path / "a.safetensors"
    servers = [tmp_path / f"{name}.servers" for name in ("a", "a_ann")]  # both train at once; either may say so
    for folder in servers:
        folder.mkdir()
        (folder / "shard-0-of-1.checkpoint").touch()
    command = ["train", "motor", "--quick", "--resume", "--out", str(out)]
    for options in ([], ["--parallel", "ps=2,dp=2"]):
        told = CliRunner().invoke(app, [*command, *options])
        said = " ".join(told.output.split())
        assert told.exit_code == 1 and ("give ps=1" if options else "go on with --parallel ps=N,dp=M") in said, said
    for folder in servers:
        shutil.rmtree(folder)
    for name in ("a", "a_ann"):
        (tmp_path / f"{name}.checkpoint").touch()
    told = CliRunner().invoke(app, [*command, "--parallel", "ps=1,dp=2"])
    assert told.exit_code == 1 and "is of a training without parameter servers" in " ".join(told.output.split())
    assert (tmp_path / "a.checkpoint").exists()
