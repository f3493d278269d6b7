# SPDX-License-Identifier: Apache-2.0
"""The local runner: real processes that wait for their data, die, are started again, queue, and end with the runner."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_jobs import LOADED, PATIENCE, PLAIN, Jobs, check_status, conditions, job, left, until

from brain_cloud.blobs.inputs import digest
from brain_cloud.jobs.manifests import manifest
from brain_edge.schema import FormProblem
from brain_edge.state.manifests import read_manifests


def test_no_worker_is_released_before_its_loader_has_fetched_and_checked_the_data(jobs, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_text("one")
    code = "import os; print(sorted(os.listdir('/workspace/dataset')), open('/workspace/dataset/a').read())"

    def loaded(name: str, sha256: str, uri: str = f"file://{data}") -> dict[str, Any]:
        env = [{"name": "SHA256", "value": sha256}]
        return job(name, code, "loaded", trainer={"numNodes": 2}, initializer={"dataset": {
            "storageUri": uri, "env": env}})

    jobs.apply(LOADED, loaded("right", digest(data)), loaded("wrong", "0" * 64),
               loaded("gone", "", "file:///no/data"), loaded("other", digest(data), f"local://{data}"))
    for name in ("right", "other"):
        jobs.phase(name, "Complete")
        assert jobs.said(name).count("['a'] one") == 2
        assert [worker["attempt"] for worker in jobs.one(name)["workers"]] == [1] * 4
    for name, why in {"wrong": "it is other data", "gone": "is not there; put the data there"}.items():
        found = jobs.phase(name, "Failed")
        assert why in jobs.said(name) and conditions(found)["Failed"] == ("True", "BackoffLimitExceeded")
        assert all(worker["attempt"] == 0 for worker in found["workers"] if worker["name"].startswith("node"))
    check_status(jobs.one("right"))


def test_workers_that_die_are_started_again_within_the_policy(jobs, tmp_path):
    count = tmp_path / "count"
    twice = f"import sys; open({str(count)!r}, 'a').write('x'); sys.exit(len(open({str(count)!r}).read()) < 3)"
    waits = (f"import os, time; print('begins')\nif os.path.exists({str(tmp_path / 'go')!r}): raise SystemExit\n"
             "time.sleep(1000)")
    limited = job("late", "import time; time.sleep(1000)", activeDeadlineSeconds=1)
    jobs.apply(PLAIN, job("twice", twice), job("never", "raise SystemExit(3)"), job("killed", waits), limited)
    until(lambda: "begins" in jobs.said("killed"))
    (tmp_path / "go").touch()
    (pid,) = jobs.pids("killed")
    os.kill(pid, signal.SIGKILL)        # its keeper; what it keeps must not live on beside the next
    assert jobs.phase("killed", "Complete")["workers"][0]["attempt"] == 2
    assert "node-0 was killed by signal 9; it is started again" in jobs.said("killed")
    assert jobs.phase("twice", "Complete")["workers"][0]["attempt"] == 3
    found = jobs.phase("never", "Failed")
    assert found["workers"][0]["attempt"] == 3 and "node-0 ended with status 3, and node has failed 3 times" in (
        found["why"])
    assert conditions(jobs.phase("late", "Failed"))["Failed"] == ("True", "DeadlineExceeded")
    for name in ("twice", "never", "late"):
        check_status(jobs.one(name))


def test_higher_priority_runs_first_and_a_suspended_job_goes_on(tmp_path):
    jobs = Jobs(tmp_path / "runner", slots=1)
    try:
        gate = tmp_path / "go"
        waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
        soon = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\nmetadata: {name: soon}\nvalue: 7\n"
        jobs.apply(PLAIN, job("first", waits))
        jobs.phase("first", "Running")
        until(lambda: jobs.pids("first"))
        jobs.apply(soon, job("low"), job("high", labels={"kueue.x-k8s.io/priority-class": "soon"}))
        assert jobs.phase("high", "Queued")["priority"] == 7
        jobs.apply(job("first", waits, suspend=True))       # its slot is free then
        first = jobs.phase("first", "Suspended")
        assert conditions(first)["Suspended"] == ("True", "Suspended") and jobs.pids("first") == []
        check_status(first)
        for name in ("high", "low"):
            jobs.phase(name, "Complete")
        began = {name: [event["number"] for event in jobs.runner.logs(name)["events"] if event["text"] == "starts"]
                 for name in ("high", "low")}
        assert began["high"] < began["low"]
        with pytest.raises(FormProblem, match="TrainJob first: spec.trainer.command cannot be changed once"):
            jobs.apply(job("first", "other"))
        jobs.apply(job("first", waits))
        gate.touch()
        resumed = jobs.phase("first", "Complete")
        assert conditions(resumed)["Suspended"] == ("False", "Resumed") and resumed["generation"] == 3
        assert [one["observedGeneration"] for one in resumed["status"]["conditions"]] == [3, 3]
        jobs.runner.delete([("TrainJob", "first")], "ann")
        until(lambda: not jobs.runner.jobs(name="first"))
    finally:
        jobs.runner.stop()


def classed(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            **more}


def test_a_more_important_job_takes_the_room_of_less_important_ones_and_they_go_on_after_it(tmp_path):
    jobs = Jobs(tmp_path / "runner", slots=3)
    key = "kueue.x-k8s.io/priority-class"
    try:
        waits = (f"import os, pathlib, time\nprint('begins', flush=True)\n"
                 f"while not os.path.exists(str(pathlib.Path({str(tmp_path)!r}) / '%s')): time.sleep(0.02)")
        jobs.apply(PLAIN, classed("some", 1), classed("more", 5), classed("polite", 9, preemptionPolicy="Never"),
                   job("stays", waits % "stays", labels={key: "some"}),
                   job("first", waits % "low"), job("last", waits % "low"))
        for name in ("stays", "first", "last"):
            jobs.phase(name, "Running")
            until(lambda name=name: "begins" in jobs.said(name))
        jobs.apply(job("waits", waits % "polite", labels={key: "polite"}))
        jobs.apply(job("large", waits % "high", labels={key: "more"}, trainer={"numNodes": 4}))
        # What waits politely is first in the queue, and nobody slips past it.
        assert jobs.one("waits")["phase"] == jobs.one("large")["phase"] == "Queued"
        jobs.runner.delete([("TrainJob", "waits")])
        jobs.phase("large", "Running")          # as many slots as there are: all three give way
        assert "gives way to TrainJob large, whose priority is higher" in jobs.said("last")
        for name in ("stays", "first", "last"):
            found = jobs.one(name)
            assert (found["phase"], conditions(found)["Suspended"]) == ("Queued", ("True", "Preempted"))
            assert "it has given way to TrainJob large" in found["why"] and jobs.pids(name) == []
            check_status(found)
        (tmp_path / "high").touch()
        jobs.phase("large", "Complete")
        for name in ("stays", "first", "last"):
            until(lambda name=name: jobs.said(name).count("begins") == 2)
            assert conditions(jobs.one(name))["Suspended"] == ("False", "Resumed") and not jobs.one(name)["why"]
        jobs.apply(job("one", waits % "high", labels={key: "more"}))    # one gives way: the last of the lowest
        jobs.phase("one", "Complete")
        assert [jobs.said(name).count("gives way") for name in ("stays", "first", "last")] == [1, 1, 2]
        for gate in ("stays", "low"):
            (tmp_path / gate).touch()
        for name in ("stays", "first", "last"):
            found = jobs.phase(name, "Complete")
            assert found["status"]["jobsStatus"][0]["failed"] == 0      # to give way is no failure
    finally:
        jobs.runner.stop()


@pytest.mark.slow
def test_a_runner_that_is_killed_leaves_nothing_running_and_the_next_goes_on(tmp_path):
    grandchild = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    go = tmp_path / "go"
    code = (f"import os, subprocess, sys\nprint('begins', flush=True)\nif not os.path.exists({str(go)!r}): "
            f"subprocess.run([sys.executable, '-c', {grandchild!r}])\nopen('made', 'w').write('done')")
    path = tmp_path / "jobs.yaml"
    path.write_text(PLAIN + "---\n" + json.dumps(job("long", code, trainer={"numNodes": 2})))
    words = [sys.executable, "-m", "brain", "jobs", "run", str(path), "--folder", str(tmp_path / "kept"), "--slots",
             "4"]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    logs = tmp_path / "kept" / "jobs"
    until(lambda: len([log for log in logs.glob("*/workers/*/log") if "begins" in log.read_text()]) == 2)
    until(lambda: len([one for one in left(tmp_path / "kept") if "sleep(1000)" in one]) >= 4)
    first.kill()
    first.wait()
    until(lambda: left(tmp_path / "kept") == [], lambda: left(tmp_path / "kept"))
    go.touch()
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "TrainJob long: nothing is new" in done.stdout, (done.stdout, done.stderr)
    assert "TrainJob long: Complete" in done.stdout
    assert [one.read_text() for one in logs.glob("*/work/made")] == ["done"]
    assert left(tmp_path / "kept") == []


def test_a_job_goes_on_with_what_it_began_with_whoever_deletes_that_and_starts_its_runner_again(tmp_path):
    go, steps = tmp_path / "go", LOADED.replace("containers: [{name: node}]", "containers: [{name: node, command: "
                                                "[python3, -c, \"print('with it')\"]}]")
    load = job("kept", runtime="loaded", initializer={"dataset": {"storageUri": go.as_uri()}})
    load["spec"]["trainer"] = {}
    first = Jobs(tmp_path / "runner")
    first.apply(steps.replace("backoffLimit: 0", "backoffLimit: 100"), load)
    until(lambda: "is started again" in first.said("kept"), lambda: first.said("kept"))
    first.runner.delete([("ClusterTrainingRuntime", "loaded")])
    first.runner.stop()
    second = Jobs(tmp_path / "runner")
    go.write_text("data")
    second.phase("kept", "Complete")
    assert "with it" in second.said("kept")
    with pytest.raises(FormProblem, match="there is no ClusterTrainingRuntime 'loaded'"):
        second.apply(job("another", runtime="loaded"))
    second.runner.stop()


ELASTIC = """
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
print("world", dist.get_world_size(), flush=True)
go = torch.zeros(1)
while not go:       # a rank learns from a step that another has gone
    time.sleep(0.1)
    go = torch.tensor([float(os.path.exists("go"))])
    dist.all_reduce(go)
"""


@pytest.mark.extended
@pytest.mark.slow
def test_an_elastic_job_is_scaled_up_and_down_while_it_runs_and_a_killed_node_comes_back(jobs):
    def scaled(nodes: int) -> dict[str, Any]:
        found = job("elastic", runtime="torch-distributed", trainer={
            "numNodes": nodes, "numProcPerNode": 1, "command": ["torchrun", "--no-python", "python3", "-c", ELASTIC]})
        found["metadata"]["annotations"] = {"fleet.brain/elastic": "1:3"}
        return found

    def worlds() -> int:
        return jobs.said("elastic").count("world 2")

    jobs.apply(scaled(1))
    until(lambda: jobs.pids("elastic"))
    jobs.apply(scaled(2))
    until(lambda: worlds() >= 2, lambda: jobs.said("elastic"))
    os.kill(jobs.pids("elastic")[1], signal.SIGKILL)
    until(lambda: worlds() >= 4, lambda: jobs.said("elastic"))
    assert [worker["attempt"] for worker in jobs.one("elastic")["workers"]] == [1, 2]      # the other went on
    alone = jobs.said("elastic").count("world 1")
    jobs.apply(scaled(1))
    until(lambda: jobs.said("elastic").count("world 1") > alone, lambda: jobs.said("elastic"))
    Path(jobs.one("elastic")["folder"], "go").touch()
    assert [worker["attempt"] for worker in jobs.phase("elastic", "Complete")["workers"]] == [1]
    with pytest.raises(FormProblem, match="numNodes is 4, and the annotation fleet.brain/elastic allows 1 to 3"):
        jobs.apply(scaled(4))


@pytest.mark.extended
@pytest.mark.slow
def test_the_manifest_of_the_documentation_trains_a_network_of_the_brain(tmp_path):
    text = (Path(__file__).resolve().parents[3] / "docs" / "fleet-jobs.md").read_text(encoding="utf-8")
    (block,) = [part.partition("```")[0] for part in text.split("```yaml\n")[1:] if "kind: TrainJob" in part][:1]
    path = tmp_path / "motor.yaml"
    path.write_text(block)
    assert [one.kind for one in read_manifests(path, manifest)] == ["TrainJob"]
    done = subprocess.run([sys.executable, "-m", "brain", "jobs", "run", str(path), "--folder", str(tmp_path / "kept"),
                           "--json"], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, (done.stdout, done.stderr, [log.read_text() for log in tmp_path.rglob("log")])
    (found,) = json.loads(done.stdout)["jobs"]
    assert Path(found["folder"], "motor.safetensors").stat().st_size > 100_000
    assert left(tmp_path / "kept") == []


@pytest.mark.slow
def test_a_cloud_runs_jobs_where_it_is_told_to(fleet, tmp_path, until):
    from typer.testing import CliRunner

    from brain.cli import app

    def invoke(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["fleet", *map(str, words), "--cloud", f"tcp/localhost:{fleet.port}"],
                                  env={"COLUMNS": "200"})
        return done.exit_code, done.output

    path = tmp_path / "job.yaml"
    calm = ("apiVersion: fleet.brain/v1\nkind: Region\nmetadata: {name: calm, robots: [robot1]}\nspec: {region: "
            "gauge, active: true}\n")
    path.write_text("---\n".join([calm, PLAIN + "\n", json.dumps(job("said", "print('hello from it')")) + "\n"]))
    fleet.cloud()
    fleet.ask("status")
    assert "this cloud runs no jobs; start it with `brain cloud --jobs 2`" in invoke("apply", path)[1]
    assert "there is none" in invoke("status")[1] or "nothing is wanted" in invoke("status")[1]     # all or none
    fleet.end("cloud", signal.SIGTERM)
    fleet.cloud("--jobs", "2")
    fleet.ask("status")
    assert invoke("jobs")[1] == "there is no job; order one with `brain fleet apply FILE`\n"
    status, told = invoke("apply", path)
    assert status == 0 and "TrainJob said: made" in told and "Region calm: ordered for robot1" in told
    until(lambda: json.loads(invoke("jobs", "said", "--json")[1])["jobs"][0]["phase"] == "Complete")
    assert "Complete" in invoke("jobs")[1] and "hello from it" in invoke("logs", "--job", "said")[1]
    assert "there is no job 'other'" in invoke("logs", "--job", "other")[1]
    assert "TrainJob said: deleted; what it made stays in" in invoke("delete", path)[1]
    until(lambda: "there is no job" in invoke("jobs")[1])
