# SPDX-License-Identifier: Apache-2.0
"""The local runner: real processes that wait for their data, die, are started again, queue, and end with the runner."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from brain_fleet.jobs.kinds import kinds
from brain_fleet.jobs.loader import digest
from brain_fleet.jobs.manifests import manifest, read_jobs
from brain_fleet.jobs.runner import Runner
from brain_fleet.schema import FormProblem, check
from brain_runtime.yaml_text import parse

PATIENCE = 200.0        # s: processes start slowly where others use the cores
PLAIN = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: plain}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {backoffLimit: 2, template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: node}]}}}
"""
LOADED = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: loaded}
spec:
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {backoffLimit: 0, template: {spec: {containers: [{name: dataset-initializer}]}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
"""


def job(name: str, code: str = "", runtime: str = "plain", **more: Any) -> dict[str, Any]:
    """A TrainJob whose nodes run some Python."""
    labels, trainer = more.pop("labels", {}), more.pop("trainer", {})
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": name, "labels": labels}, "spec": {
                "runtimeRef": {"name": runtime}, "trainer": {"command": ["python3", "-c", code], **trainer}, **more}}


def until(what: Callable[[], Any], told: Callable[[], Any] = lambda: "") -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, told()
        time.sleep(0.05)
    return found


class Jobs:
    """A runner in this process."""

    def __init__(self, folder: Path, slots: int = 8) -> None:
        self.runner = Runner(folder, slots)

    def apply(self, *values: Any) -> list[dict[str, Any]]:
        values = tuple(parse(value) if isinstance(value, str) else value for value in values)
        return self.runner.apply([manifest(value) for value in values])

    def one(self, name: str) -> dict[str, Any]:
        return self.runner.jobs(name=name)[0]

    def phase(self, name: str, phase: str) -> dict[str, Any]:
        def there() -> bool:
            now = self.one(name)["phase"]
            assert now == phase or now not in ("Complete", "Failed"), (self.one(name), self.runner.logs(name))
            return bool(now == phase)

        until(there, lambda: (self.one(name), self.runner.logs(name)))
        return self.one(name)

    def said(self, name: str) -> str:
        found = self.runner.logs(name)
        return "\n".join([*(one["text"] for one in found["events"]), *found["logs"].values()])

    def pids(self, name: str) -> list[int]:
        return [worker["pid"] for worker in self.one(name)["workers"] if worker["pid"]]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(tmp_path / "runner")
    yield found
    found.runner.stop()
    assert left(tmp_path) == []


def left(folder: Path) -> list[str]:
    """Processes that run in a folder, or were told of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder) in str((entry / "cwd").resolve()) or str(folder) in (entry / "cmdline").read_text():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue    # it has just ended
    return found


def conditions(one: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {found["type"]: (found["status"], found["reason"]) for found in one["status"].get("conditions", ())}


def check_status(one: dict[str, Any]) -> None:
    """A status is what the definition of the kind has."""
    check(one["status"], kinds()[one["kind"]]["schema"]["properties"]["status"], "status")


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


AGGREGATOR = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["AGG_BIND_PORT"])))
found = []
for _ in range(int(os.environ["PARTICIPANTS_COUNT"])):
    with server.accept()[0] as one:
        found.append(one.recv(100).decode())
print(sorted(found), os.environ["MODEL_URL"])
"""
TRAINER = """
import os, socket, time
while True:
    try:
        with socket.create_connection((os.environ["AGG_IP"], int(os.environ["AGG_PORT"]))) as one:
            one.sendall(open(os.environ["TRAIN_DATASET_URL"]).read().encode())
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
"""


def pod(code: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", "image": "i", "command": ["python3", "-c", code]}]}}


def sedna(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_federated_workers_find_their_aggregator_and_each_its_data(jobs, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"of {name}")
    jobs.apply(*(sedna("Dataset", name, url=str(tmp_path / name), format="txt", nodeName=name) for name in "ab"),
               sedna("Model", "m", url=str(tmp_path / "m"), format="pth"),
               sedna("FederatedLearningJob", "fl", aggregationWorker={"model": {"name": "m"}, "template": pod(
                   AGGREGATOR)}, trainingWorkers=[{"dataset": {"name": name}, "template": pod(TRAINER)}
                                                  for name in "ab"]))
    found = jobs.phase("fl", "Complete")
    assert f"['of a', 'of b'] {tmp_path / 'm'}" in jobs.said("fl")
    assert (found["status"]["phase"], found["status"]["conditions"][-1]["type"]) == ("Succeeded", "Complete")
    check_status(found)


LARGE = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["BIG_MODEL_BIND_PORT"])))
with server.accept()[0] as one:
    one.sendall(b"large")
"""
SMALL = """
import os, socket, time
while True:
    try:
        with socket.create_connection((os.environ["BIG_MODEL_IP"], int(os.environ["BIG_MODEL_PORT"]))) as one:
            print(os.environ["HEM_NAME"], "asked", one.recv(100).decode(), flush=True)
        time.sleep(1000)
    except ConnectionRefusedError:
        time.sleep(0.05)
"""


def test_joint_inference_runs_on_and_lifelong_learning_deploys_what_it_knows(jobs, tmp_path):
    learns = ("import os; open(os.environ['OUTPUT_URL'] + '/known', 'w').write("
              "os.environ['HAS_COMPLETED_INITIAL_TRAINING'])")
    evaluates = ("import os, shutil; os.makedirs(os.environ['OUTPUT_URL'], exist_ok=True); shutil.copy("
                 "os.environ['MODEL_URLS'], os.environ['OUTPUT_URL'] + '/index.pkl')")
    infers = ("import os, time; print('knows', os.path.exists(os.environ['MODEL_URLS']) and "
              "open(os.environ['MODEL_URLS']).read()); time.sleep(1000)")
    (tmp_path / "samples.csv").write_text("header\n1\n2\n")
    trigger = {"checkPeriodSeconds": 1, "condition": {"operator": ">=", "threshold": 2, "metric": "num_of_samples"}}
    jobs.apply(
        sedna("Model", "m", url=str(tmp_path / "m"), format="pth"),
        sedna("JointInferenceService", "joint", cloudWorker={"model": {"name": "m"}, "template": pod(LARGE)},
              edgeWorker={"model": {"name": "m"}, "hardExampleMining": {"name": "IBT"}, "template": pod(SMALL)}),
        sedna("Dataset", "d", url=str(tmp_path / "samples.csv"), format="csv", nodeName="edge"),
        sedna("LifelongLearningJob", "life", dataset={"name": "d", "trainProb": 0.5}, outputDir=str(tmp_path / "out"),
              trainSpec={"template": pod(learns), "trigger": trigger}, evalSpec={"template": pod(evaluates)},
              deploySpec={"template": pod(infers)}))
    until(lambda: "IBT asked large" in jobs.said("joint"), lambda: jobs.said("joint"))
    until(lambda: jobs.one("joint")["workers"][0]["attempt"] > 1)       # the large one had ended
    until(lambda: "knows false" in jobs.said("life"), lambda: jobs.said("life"))
    with (tmp_path / "samples.csv").open("a") as file:
        file.write("3\n4\n")
    until(lambda: "knows true" in jobs.said("life"), lambda: jobs.said("life"))
    for name in ("joint", "life"):
        check_status(jobs.one(name))


REPORTING = """
import json, os, sys, urllib.request
kind, results = sys.argv[1], json.loads(sys.argv[2])
told = {"name": os.environ["WORKER_NAME"], "namespace": os.environ["NAMESPACE"], "ownerName": os.environ["JOB_NAME"],
        "ownerKind": "IncrementalLearningJob", "kind": kind, "status": "completed", "results": results}
if kind == "train":
    lines = open(os.environ["TRAIN_DATASET_URL"]).read().split()
    base = open(os.environ["BASE_MODEL_URL"]).read()
    open(os.environ["MODEL_URL"] + "/model", "w").write(base + " ".join(lines))
else:
    print("models", os.environ["MODEL_URLS"], "test", open(os.environ["TEST_DATASET_URL"]).read().split())
urllib.request.urlopen(urllib.request.Request(
    os.environ["LC_SERVER"] + "/sedna/workers/" + told["name"] + "/info", json.dumps(told).encode(),
    {"Content-Type": "application/json"}), timeout=60)
"""


def test_incremental_learning_trains_on_new_samples_and_deploys_what_is_better(jobs, tmp_path):
    samples, model = tmp_path / "samples.txt", tmp_path / "deployed"
    samples.write_text("1\n2\n3\n")
    (tmp_path / "initial").write_text("0 ")
    model.write_text("first")

    def worker(*args: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "w", "command": ["python3", "-c", REPORTING], "args": list(args)}]}}

    infers = "import os, time; print('infers', open(os.environ['MODEL_URL']).read(), flush=True); time.sleep(1000)"
    better = [{"url": "model", "format": "txt", "metrics": {"f1": [0.9]}},
              {"url": "old", "format": "txt", "metrics": {"f1": [0.5]}}]
    trigger = {"checkPeriodSeconds": 1, "timer": {"start": "00:00", "end": "24:00"},
               "condition": {"operator": ">=", "threshold": 4, "metric": "num_of_samples"}}
    jobs.apply(
        sedna("Dataset", "d", url=str(samples), format="txt", nodeName="edge"),
        sedna("Model", "initial", url=str(tmp_path / "initial"), format="txt"),
        sedna("Model", "deployed", url=str(model), format="txt"),
        sedna("IncrementalLearningJob", "il", initialModel={"name": "initial"}, outputDir=str(tmp_path / "out"),
              dataset={"name": "d", "trainProb": 0.75},
              trainSpec={"template": worker("train", '[{"url": "model", "format": "txt"}]'), "trigger": trigger},
              evalSpec={"template": worker("eval", json.dumps(better))},
              deploySpec={"model": {"name": "deployed"}, "hardExampleMining": {"name": "IBT"}, "template": pod(infers),
                          "trigger": {"condition": {"operator": ">", "threshold": 0.1, "metric": "f1_delta"}}}))
    until(lambda: "infers first" in jobs.said("il"), lambda: jobs.said("il"))
    assert jobs.one("il")["stage"] == "Train" and not (tmp_path / "out").exists()       # three samples are not enough
    with samples.open("a") as file:
        file.write("4\n")
    until(lambda: "infers 0 1 2 3" in jobs.said("il"), lambda: jobs.said("il"))
    assert model.read_text() == "0 1 2 3" and f"models {tmp_path / 'out'}/train/1/model;{model} test ['4']" in (
        jobs.said("il"))
    found = jobs.one("il")
    told = [(one["stage"], one["type"]) for one in found["status"]["conditions"]]
    assert told[:6] == [("Train", "Waiting"), ("Train", "Ready"), ("Train", "Starting"), ("Train", "Running"),
                        ("Train", "Completed"), ("Eval", "Ready")] and ("Deploy", "Completed") in told
    check_status(found)
    jobs.runner.delete([("IncrementalLearningJob", "il")])
    until(lambda: not jobs.runner.jobs())


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_elastic_job_is_scaled_up_and_down_while_it_runs_and_a_killed_node_comes_back(jobs):
    def scaled(nodes: int) -> dict[str, Any]:
        found = job("elastic", runtime="torch-distributed", trainer={
            "numNodes": nodes, "numProcPerNode": 1, "command": ["torchrun", "--no-python", "python3", "-c", ELASTIC]})
        found["metadata"]["annotations"] = {"fleet.brain/elastic": "1:3"}
        return found

    def worlds() -> int:
        return jobs.said("elastic").count("world 2")

    jobs.apply(scaled(1))
    until(lambda: "world 1" in jobs.said("elastic"), lambda: jobs.said("elastic"))
    jobs.apply(scaled(2))
    until(lambda: worlds() >= 2, lambda: jobs.said("elastic"))
    os.kill(jobs.pids("elastic")[1], signal.SIGKILL)
    until(lambda: worlds() >= 4, lambda: jobs.said("elastic"))
    assert [worker["attempt"] for worker in jobs.one("elastic")["workers"]] == [1, 2]      # the other went on
    jobs.apply(scaled(1))
    until(lambda: jobs.said("elastic").count("world 1") >= 2, lambda: jobs.said("elastic"))
    Path(jobs.one("elastic")["folder"], "go").touch()
    assert [worker["attempt"] for worker in jobs.phase("elastic", "Complete")["workers"]] == [1]
    with pytest.raises(FormProblem, match="numNodes is 4, and the annotation fleet.brain/elastic allows 1 to 3"):
        jobs.apply(scaled(4))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_manifest_of_the_documentation_trains_a_network_of_the_brain(tmp_path):
    text = (Path(__file__).resolve().parents[3] / "docs" / "fleet-jobs.md").read_text(encoding="utf-8")
    (block,) = [part.partition("```")[0] for part in text.split("```yaml\n")[1:] if "kind: TrainJob" in part][:1]
    path = tmp_path / "motor.yaml"
    path.write_text(block)
    assert [one.kind for one in read_jobs(path)] == ["TrainJob"]
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
