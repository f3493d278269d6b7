# SPDX-License-Identifier: Apache-2.0
"""The verbs, and what they say of wrong files and absent clouds."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_edge.state.manifests import ManifestProblem, read_manifests

GOOD = """apiVersion: fleet.brain/v1
kind: Parameters
metadata: {name: calm, robots: [robot1]}
spec: {region: gauge, values: {gain: 0.5}}
"""
JOB = GOOD.replace("Parameters", "Job").replace("region: gauge, values: {gain: 0.5}", "program: learn")
WRONG = {
    "unknown kind": (GOOD.replace("Parameters", "Parameter"), "there is no kind 'Parameter'; did you mean Parameters?"),
    "unknown version": (GOOD.replace("v1", "v2"), "apiVersion is 'fleet.brain/v2', and this software knows "
                                                  "fleet.brain/v1"),
    "unknown field": (GOOD + "status: {}\n", "it has no field 'status'"),
    "unknown field within": (GOOD.replace("region:", "regoin:"), "spec.region is missing"),
    "one field too many": (GOOD.replace("spec: {", "spec: {rate: 1, "), "spec has no field 'rate'; there are region, "
                                                                        "values"),
    "unknown field of metadata": (GOOD.replace("name:", "nmae: x, name:"), "metadata has no field 'nmae'; did you "
                                                                           "mean name?"),
    "no name": (GOOD.replace("name: calm, ", ""), "metadata.name is missing"),
    "a name that is none": (GOOD.replace("calm", "Calm!"), "metadata.name must read"),
    "a robot that is none": (GOOD.replace("robot1", "Robot1"), "metadata.robots: a robot cannot be called 'Robot1'"),
    "some": (GOOD.replace("[robot1]", "some"), "metadata.robots must be a list of robots, or all, but is 'some'"),
    "nobody": (GOOD.replace("robot1", ""), "metadata.robots must have at least 1 elements"),
    "a value that is none": (GOOD.replace("0.5", "{a: 1}"), "spec.values.gain must be a boolean or a number or a "
                                                            "string"),
    "no finite number": (GOOD.replace("0.5", ".nan"), "not finite"),
    "a date": (GOOD.replace("0.5", "2026-11-25"), "it holds a date, which JSON has not; put it in quotes"),
    "a key that is none": (GOOD.replace("gain", "1"), "a field whose name is no text"),
    "no YAML": ("a: [", "document 1: "),
    "nothing": ("---\n---\n", "holds no resource"),
    "twice": (f"{GOOD}---\n{GOOD}", "document 2: Parameters calm stands twice"),
    "the second": (f"{GOOD}---\nkind: Region\n", "document 2: apiVersion is missing"),
    "deep": (GOOD + "x: " + "[" * 50 + "]" * 50, "nested more than"),
}


def invoke(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "200"})
    return done.exit_code, done.output


def test_a_manifest_that_cannot_be_meant_so_is_refused_by_name(tmp_path):
    wrong = {}
    for name, (text, why) in WRONG.items():
        path = tmp_path / "file.yaml"
        path.write_text(text)
        try:
            told = f"taken as {read_manifests(path)}"
        except ManifestProblem as problem:
            told = str(problem)
        if why not in told or "\n" in told:
            wrong[name] = told
    assert wrong == {}
    path.write_bytes(b"\xff")
    with pytest.raises(ManifestProblem, match="is not text in UTF-8"):
        read_manifests(path)
    path.write_bytes(b"#" * 300_000)
    with pytest.raises(ManifestProblem, match="is longer than"):
        read_manifests(path)
    assert invoke("apply", tmp_path / "none.yaml") == (1, f"brain: cannot read {tmp_path}/none.yaml: No such file or "
                                                          f"directory\n")


@pytest.mark.slow
def test_orders_are_given_and_looked_at_by_the_command(fleet, tmp_path, until):
    path = tmp_path / "file.yaml"
    path.write_text(GOOD + "---\n" + JOB)
    at = ("--cloud", f"tcp/localhost:{fleet.port}")
    assert invoke("nodes", *at) == (1, f"brain: no cloud at tcp/localhost:{fleet.port}; start one with `brain cloud`, "
                                       f"or name its endpoint with --cloud or BRAIN_CLOUD\n")
    fleet.cloud()
    fleet.ask("status")
    assert "no robot has come yet; start `brain edge` on one" in invoke("nodes", *at)[1]
    assert "nothing is wanted of any robot" in invoke("status", *at)[1]
    status, told = invoke("apply", path, *at)
    assert status == 0 and "Parameters calm: ordered for robot1" in told
    assert "Parameters calm: nothing is new" in invoke("apply", path, *at)[1]
    fleet.edge()
    fleet.until_robot(state="connected", waiting=0)
    assert "connected" in invoke("nodes", *at)[1]
    found = json.loads(invoke("nodes", "--json", *at)[1])["robots"][0]
    assert found["robot"] == "robot1" and found["version"] == 2
    until(lambda: {(r["kind"], r["state"]) for r in json.loads(invoke("status", "--json", *at)[1])["resources"]} == {
        ("Parameters", "waiting"), ("Job", "refused")})
    here = invoke("status", "--folder", fleet.database("robot1"))[1]
    assert "robot1: with its cloud; version 2" in here and "no brain runs on this robot" in here.replace("\n", " ")
    assert "there is no" in invoke("status", "--folder", tmp_path)[1]
    assert "Parameters calm: taken back from robot1" in invoke("delete", path, *at)[1]
    assert "Parameters calm: there was none" in invoke("delete", path, *at)[1]
    assert "no robot is set apart" in invoke("accept", "--all", *at)[1]
    assert "no robot 'robot7' has come yet" in invoke("accept", "robot7", *at)[1]
    assert invoke("accept", *at)[0] == 2
    told = invoke("logs", "robot1", *at)[1]
    assert "robot1 was taken in" in told and "ordered" not in told
    assert "ordered Parameters calm for robot1" in invoke("logs", *at)[1]


@pytest.mark.slow
def test_what_cannot_run_says_so_in_a_line(tmp_path, fleet):
    def run(verb: str, *words: object) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", f"brain_{verb}.processes.run_{verb}", *map(str, words)],
                              capture_output=True, text=True, timeout=400)
        return done.returncode, done.stderr

    fleet.cloud()
    fleet.ask("status")
    folder = fleet.database("cloud")
    assert run("cloud", "--folder", folder, "--listen", "tcp/127.0.0.1:1") == (
        1, f"brain cloud: another process runs with {folder}; end that, or name another folder with --folder\n")
    status, told = run("cloud", "--folder", tmp_path / "b", "--listen", f"tcp/127.0.0.1:{fleet.port}")
    assert (status, told.count("\n")) == (3, 1) and "a Zenoh router is listening at" in told
    assert run("cloud", "--folder", tmp_path / "b", "--secure", tmp_path)[1].startswith("brain cloud: ")
    done = subprocess.run([sys.executable, "-m", "brain", "edge", "--folder", tmp_path / "c", "--name", "Robot 1"],
                          capture_output=True, text=True, timeout=400)      # the verb, which becomes the process
    assert (done.returncode, done.stderr) == (
        1, "brain edge: a robot cannot be called 'Robot 1': its name consists of small letters, digits and _, begins "
           "with a letter and has at most 40 characters\n")


def test_an_edge_loads_neither_training_nor_simulator_nor_the_command():
    code = "import sys; import brain_edge.processes.run_edge; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "zenoh" in loaded
    assert loaded & {"torch", "mujoco", "matplotlib", "typer", "rich", "yaml", "cryptography", "brain", "brain_regions",
                     "brain_sim", "brain_training"} == set()


@pytest.mark.slow
def test_an_edge_is_small_and_idle_costs_little(fleet, wanted, tmp_path):
    fleet.whole = True
    fleet.brain_router()
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    fleet.ask("apply", resources=[wanted()])
    fleet.until_robot(resources={"waiting": 1})
    fleet.ask("delete", resources=[{"kind": "Parameters", "name": "calm"}])
    fleet.until_robot(waiting=0, resources={})
    process = Path("/proc") / str(fleet.pid("robot1"))

    def used() -> float:        # s of processor time, which a busy machine does not add to
        words = (process / "stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    before, began = used(), time.monotonic()
    time.sleep(5.0)
    share = (used() - before) / (time.monotonic() - began)
    pss = int(next(line.split()[1] for line in (process / "smaps_rollup").read_text().splitlines()
                   if line.startswith("Pss:"))) / 1024
    assert pss < 60.0, f"{pss:.0f} MB"
    assert share < 0.02, f"{share:.1%} of a core"
    loaded = (process / "maps").read_text()
    assert "torch" not in loaded and "mujoco" not in loaded
    assert fleet.end("robot1", signal.SIGTERM) == 0
    print(f"{pss:.1f} MB PSS, {share:.2%} of a core")
