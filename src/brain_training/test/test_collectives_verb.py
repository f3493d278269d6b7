# SPDX-License-Identifier: Apache-2.0
"""Every collective, really run on gloo; and what is told where a value is wrong or a rank does not go on."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from brain_collectives.checks import mpi_beside
from brain_collectives.checks.rank import Order
from brain_collectives.checks.report import explanation, notes
from brain_collectives.checks.results import explained, together
from brain_collectives.checks.table import ROWS, chosen, with_more
from brain_training.collective_ranks import Ranks, RanksProblem
from brain_training.collectives import collectives

NAMES = tuple(row.name for row in ROWS)
PATIENCE = 90.0     # s; only a hang takes as long
FOREIGN = Path(__file__).parent     # of rows that are none of the table's
LIES = ("foreign_rows:LIES",)
LATE = ("foreign_rows:LATE",)

app = typer.Typer()
app.command()(collectives)


def run(names: tuple[str, ...], ranks: int, sizes: tuple[int, ...] = (8,), **more: Any) -> list[list[dict[str, Any]]]:
    """What the ranks of gloo found."""
    return Ranks(Order("gloo", names, sizes, repeats=2, patience=PATIENCE, **more), ranks, silence=PATIENCE).run()


def brain(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def no_group_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has started these tests as one rank of a group; and ranks find the rows beside this file."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOREIGN), *filter(None, sys.path)]))
    monkeypatch.syspath_prepend(str(FOREIGN))


@pytest.mark.extended(3)
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_is_right_on_gloo(ranks: int) -> None:
    sizes = (4, 8, 100, 64 * 1024)
    figures = together(ROWS, run(NAMES, ranks, sizes), "gloo", "", sizes)
    assert figures["right"] and figures["ranks"] == ranks
    by_name = {one["name"]: one for one in figures["collectives"]}
    assert set(by_name) == set(NAMES)
    for row in ROWS:
        one = by_name[row.name]
        assert one["lacks"] is None and one["wrong"] == []
        assert len(one["measured"]) == (1 if row.unit == "nothing" else len(sizes)), row.name
        for m in one["measured"]:
            assert 0 < m["median"] <= m["p99"] and m["repetitions"] == 2
            if row.factor is not None:
                assert m["bus_bandwidth"] == pytest.approx(m["bytes"] / m["median"] * row.factor.of(ranks))
            else:
                assert m["bus_bandwidth"] is None and one["no_bus_factor"]
    whole = [m["elements"] for m in by_name["all_reduce_sum"]["measured"]]
    shares = [m["bytes"] for m in by_name["all_gather"]["measured"]]
    assert whole == [1, 2, 25, 16384] and all(size % (4 * ranks) == 0 for size in shares)


@pytest.mark.extended
def test_each_collective_is_explained_with_values_that_were_really_there() -> None:
    found = run(NAMES, 3, explain=True)
    told = {row.name: explained(row, found, "gloo") for row in ROWS}
    assert all(one["right"] and len(one["ranks"]) == 3 for one in told.values())
    assert [one["after"] for one in told["all_reduce_sum"]["ranks"]] == [[[3.03, 3.06]]] * 3
    assert [one["after"] for one in told["all_reduce_product"]["ranks"]] == [[[6.0, 13.125]]] * 3
    assert [one["before"] for one in told["broadcast"]["ranks"]] == [[[0.01, 0.02]], [[1.01, 1.02]], [[2.01, 2.02]]]
    assert [one["after"] for one in told["broadcast"]["ranks"]] == [[[1.01, 1.02]]] * 3
    assert [one["after"] for one in told["scatter"]["ranks"]] == [[[1.01, 1.02]], [[1.03, 1.04]], [[1.05, 1.06]]]
    assert [one["after"] for one in told["send_recv"]["ranks"]] == [[[2.01, 2.02]], [[0.01, 0.02]], [[1.01, 1.02]]]
    assert told["all_to_all_single_unequal"]["ranks"][1]["after"] == [[0.02, 0.03, 1.03, 1.04, 1.05, 2.04]]
    assert told["gather_object"]["ranks"][0]["after"] == [] and len(told["gather_object"]["ranks"][1]["after"]) == 3
    assert [one["before"] for one in told["barrier"]["ranks"]] == [[{"arrives after (s)": k * 0.1}] for k in range(3)]
    assert all(one["after"][0]["waited (s)"] >= 0.0 for one in told["barrier"]["ranks"])
    assert "2" in told["monitored_barrier"]["shown"][1] and "monitoredBarrier" in told["monitored_barrier"]["shown"][1]
    for row in ROWS:
        text = "\n".join(explanation(told[row.name]))
        assert text.startswith(row.name) and "before" in text and "Bus bandwidth:" in text
        assert ("pickled" in text and "of one's own group" in text.replace("\n  ", " ")) == ("object" in row.name)


@pytest.mark.extended
def test_a_wrong_value_is_found_and_named() -> None:
    rows = chosen(("lies_of_one_value", "lies_of_length", "lies_of_an_object", "all_gather"), with_more(LIES))
    figures = together(rows, run(tuple(row.name for row in rows), 2, (40,), more=LIES), "gloo", "", (40,))
    by_name = {one["name"]: one for one in figures["collectives"]}
    assert not figures["right"] and by_name["all_gather"]["right"]
    wrong = [one for one in by_name["lies_of_one_value"]["wrong"] if one["bytes"] == 40]
    assert [(one["rank"], one["output"], one["index"], one["count"]) for one in wrong] == [(1, 0, 7, 1)]
    assert wrong[0]["expected"] == wrong[0]["found"] + 0.125
    said = "\n".join(notes(figures))
    assert ("lies_of_one_value of 40 B (10 elements): rank 1, output 0, index 7: expected "
            f"{wrong[0]['expected']}, found {wrong[0]['found']}") in said
    assert "lies_of_length of 40 B (10 elements): rank 0, output 0: expected shape [9], found shape [10]" in said
    assert "lies_of_an_object of 40 B: rank 0, output 0: expected 'something else', found {'rank': 1" in said


@pytest.mark.extended(signal.SIGSTOP)
@pytest.mark.slow
@pytest.mark.parametrize(("number", "says"), [(signal.SIGKILL, "was ended by SIGKILL in"),
                                              (signal.SIGSTOP, "has given no sign of life for 8 s, in")])
def test_a_rank_that_dies_or_freezes_ends_all_and_is_named(number: int, says: str) -> None:
    """Rank 1 is hit while rank 0 waits for it: once all are at work."""
    processes: list[int] = []

    def hit(what: str) -> None:
        if what.startswith("waits_long"):
            os.kill(processes[1], number)

    order = Order("gloo", ("barrier", "waits_long"), (8,), 2, patience=PATIENCE, more=LATE)
    with pytest.raises(RanksProblem) as problem:
        Ranks(order, 3, silence=8.0, progress=hit, started=processes.extend).run()
    assert f"rank 1 (process {processes[1]}) {says}" in str(problem.value)
    assert "all ranks were ended" in str(problem.value)
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]


@pytest.mark.extended
def test_ranks_that_stand_still_are_named_with_what_they_are_at() -> None:
    order = Order("gloo", ("waits_long",), (8,), 2, patience=3.0, more=LATE)
    with pytest.raises(RanksProblem, match=r"got any further for 3 s: rank 0 \(process \d+\) in waits_long"):
        Ranks(order, 2, silence=PATIENCE).run()


@pytest.mark.extended
def test_what_a_backend_lacks_stands_in_its_row_and_what_fails_on_one_rank_ends_all() -> None:
    rows = chosen(("lacked", "lacked_as_known", "barrier"), with_more(LIES))
    figures = together(rows, run(tuple(row.name for row in rows), 2, more=LIES), "gloo", "", (8,))
    by_name = {one["name"]: one for one in figures["collectives"]}
    assert by_name["lacked"]["lacks"] == by_name["lacked_as_known"]["lacks"] == "NotImplementedError: not in this world"
    assert by_name["lacked_as_known"]["right"] and by_name["barrier"]["measured"] and not by_name["lacked"]["right"]
    with pytest.raises(RanksProblem, match="fails_on_one of 8 B .* failed on rank 1 and not on all: ValueError: no"):
        run(("fails_on_one",), 2, more=LIES)


@pytest.mark.extended(signal.SIGINT)
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_the_end_of_the_command_leave_no_rank(number: int) -> None:
    """A command that is killed cannot end its ranks: they hear of it."""
    script = ("import sys\nfrom brain_training.collective_ranks import Ranks\n"
              "from brain_collectives.checks.rank import Order\n"
              f"order = Order('gloo', ('waits_long',), (8,), 2, patience={PATIENCE}, more={LATE!r})\n"
              "Ranks(order, 2, started=lambda all: print(*all, flush=True), progress=lambda at: print(at, flush=True)"
              ").run()\n")
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    with process:
        assert process.stdout is not None
        ranks = [int(word) for word in process.stdout.readline().split()]
        assert len(ranks) == 2 and process.stdout.readline().startswith("waits_long")
        watched = [os.pidfd_open(rank) for rank in ranks]
        process.send_signal(number)
    assert [_ends(watch) for watch in watched] == [True, True]


def _ends(watch: int) -> bool:
    """Whether the process of a descriptor ends; closes it."""
    import select

    try:
        return bool(select.select([watch], [], [], PATIENCE)[0])
    finally:
        os.close(watch)


@pytest.mark.extended
def test_the_command_tells_json_draws_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    result = brain("--sizes", "8B,1KiB", "--only", "reduce", "--only", "barrier", "--only", "send/recv", "--repeats",
                   "2", "--json", "--picture", "p.svg", "--save")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    saved = json.loads((tmp_path / "results" / "collectives-gloo.json").read_text(encoding="utf-8"))
    assert saved["name"] == "collectives-gloo" and saved["figures"] == told
    assert {k: type(v) for k, v in told.items()} == {
        "backend": str, "ranks": int, "torch": str, "sizes": list, "right": bool, "collectives": list,
        "mpi": type(told["mpi"])}
    assert [one["name"] for one in told["collectives"]] == ["reduce", "send_recv", "barrier"] and told["right"] is True
    assert told["sizes"] == [8, 1024] and told["ranks"] == 2
    assert set(told["collectives"][0]) == {"name", "does", "right", "lacks", "needs_ranks", "bus_factor",
                                           "no_bus_factor", "measured", "wrong"}
    assert told["collectives"][0]["bus_factor"] == {"formula": "1", "value": 1.0}
    assert set(told["collectives"][0]["measured"][0]) == {"bytes", "elements", "repetitions", "median", "p99",
                                                          "algorithm_bandwidth", "bus_bandwidth"}
    drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "<svg" in drawn and drawn.count("<!-- reduce -->") == 1 and "bus bandwidth (MB/s)" in drawn


@pytest.mark.extended
def test_mpi_is_measured_beside_and_what_keeps_it_from_running_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py")
    rows = chosen(["all_reduce_avg", "all_reduce_min", "scatter", "all_to_all_single", "send_recv", "barrier"])
    order = Order("gloo", tuple(row.name for row in rows), (8, 1000), 2)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):   # which Open MPI asks of root
        monkeypatch.setenv(name, "1")
    found = mpi_beside.measure(rows, order, 2)
    if found is None:
        pytest.skip("there is no mpiexec")
    assert found["right"] and "problem" not in found and "all_reduce_avg" not in found["collectives"]
    assert len(found["collectives"]) == 6 and found["collectives"]["all_to_all_single_unequal"]["measured"]
    problem = mpi_beside.measure(rows, replace(order, names=("no such row",)), 2)
    assert problem is not None and "mpiexec ended with status" in problem["problem"]


@pytest.mark.extended
def test_torchrun_starts_it_as_ranks_of_a_group(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "--module",
         "with_foreign_rows"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)      # of rank 0 alone
    assert told["ranks"] == 2 and told["right"]
    assert [one["name"] for one in told["collectives"]] == ["scatter_object_list", "isend_irecv"]


def test_what_is_asked_wrongly_is_named_with_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, says in ((("--only", "all_recude"), ("'all_recude'", "all_reduce_sum", "all_to_all_single_unequal")),
                        (("--explain", "all_recude"), ("'all_recude'", "monitored_barrier")),
                        (("--sizes", "8"), ("'8'", "8B..16MiB")),
                        (("--explain", "barrier", "--save"), ("--explain", "--save")),
                        (("--picture", "p.docx"), ("p.docx", ".png")),
                        (("--picture", str(tmp_path / "none" / "p.png")), ("there is no folder",)),
                        (("--backend", "mpi"), ("gloo",))):
        result = brain(*words)
        assert result.exit_code == 2 and result.stdout == "", words
        assert all(part in result.stderr for part in says), result.stderr
    monkeypatch.chdir(tmp_path)
    assert "there is no folder" in brain("--save").stderr
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "2")
    assert "RANK='2'" in brain().stderr
    monkeypatch.setenv("RANK", "1")
    assert "--ranks 3 does not fit WORLD_SIZE=2" in brain("--ranks", "3").stderr


@pytest.mark.extended
def test_a_backend_that_cannot_run_here_is_named() -> None:
    import torch

    if torch.cuda.device_count() >= 2:
        pytest.skip("there are GPUs enough")
    result = brain("--backend", "nccl", "--only", "barrier")
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("brain: nccl needs a GPU for each rank")


@pytest.mark.slow
def test_every_collective_of_one_rank_is_right_on_a_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    sizes = (8, 64 * 1024)
    found = Ranks(Order("nccl", NAMES, sizes, repeats=2, patience=PATIENCE), 1, silence=PATIENCE).run()
    figures = together(ROWS, found, "nccl", "", sizes)
    assert figures["right"]
    measured = {one["name"] for one in figures["collectives"] if one["measured"]}
    assert {row.name for row in ROWS if row.least == 1 and "nccl" not in row.lacks} <= measured


def test_help_imports_no_torch() -> None:
    code = ("import sys, typer\nfrom brain_training.collectives import collectives\napp = typer.Typer()\n"
            "app.command()(collectives)\ntry:\n    app()\nexcept SystemExit:\n    pass\n"
            "print(sorted({'torch', 'numpy', 'zenoh', 'matplotlib'} & {m.split('.')[0] for m in sys.modules}))")
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "--explain" in done.stdout
