# SPDX-License-Identifier: Apache-2.0
"""A FederatedLearningJob is the fleet's own round: beside a cloud on its robots, without one by processes here."""
from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_jobs import PLAIN, Jobs, check_status, job, pod, sedna
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.jobs.kinds import kinds
from brain_cloud.jobs.manifests import LEARNING_PLAN
from brain_cloud.federated.weights import pack, unpack
from brain_edge.processes.asking import NoCloud
from brain_edge.schema import FormProblem, check
from brain_runtime.yaml_text import parse

LEARNER = """
import numpy as np

class Line:
    def __init__(self, by):
        self.by = np.float32(by)

    def fit(self, weights, config, left):
        return {name: value + self.by for name, value in weights.items()}, 10, {"loss": float(self.by)}

def make(data, labels, seed):
    return Line(float(open(data[0]).read()))
"""
PLAN = {"learner": "line", "strategy": "FedAvg", "rounds": 2}
IDLE = {"spec": {"containers": [{"name": "learns"}]}}


@pytest.fixture(autouse=True)
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that adds the number in its data file to each weight, installed for all processes of a test."""
    about = tmp_path / "lib" / "line-1.0.dist-info"
    about.mkdir(parents=True)
    (about.parent / "line_learner.py").write_text(LEARNER)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: line\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[brain.learners]\nline = line_learner:make\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(about.parent), os.environ.get("PYTHONPATH", "")]))


def manifests(folder: Path, nodes: tuple[str | None, ...] = (None, None), **plan: Any) -> list[dict[str, Any]]:
    """A job that learns from a data set for each node, with all that it refers to."""
    (folder / "start.safetensors").write_bytes(pack({"w": np.zeros(4, dtype=np.float32)}))
    found = [sedna("Model", "start", url=str(folder / "start.safetensors"), format="safetensors"),
             sedna("Model", "learned", url=str(folder / "learned.safetensors"), format="safetensors")]
    workers = []
    for number, node in enumerate(nodes):
        (folder / f"data{number}").write_text(str(1 + 2 * number))
        found.append(sedna("Dataset", f"d{number}", url=str(folder / f"data{number}"), format="txt", nodeName="x"))
        template = {"spec": {**IDLE["spec"], **({"nodeName": node} if node else {})}}
        workers.append({"dataset": {"name": f"d{number}"}, "template": template})
    one = sedna("FederatedLearningJob", "rooms", aggregationWorker={"model": {"name": "learned"}, "template": IDLE},
                pretrainedModel={"name": "start"}, trainingWorkers=workers)
    one["metadata"]["annotations"] = {LEARNING_PLAN: json.dumps({**PLAN, **plan})}
    return [*found, one]


def learned(folder: Path) -> list[float]:
    return unpack((folder / "learned.safetensors").read_bytes())["w"].tolist()


def test_without_a_cloud_the_fleets_aggregator_and_participants_run_as_its_workers(jobs, tmp_path):
    jobs.apply(*manifests(tmp_path))
    found = jobs.phase("rooms", "Complete")
    assert learned(tmp_path) == [4.0] * 4       # two rounds of the mean of 1 and 3
    status = found["status"]
    assert {"phase": "Succeeded", "succeeded": 3, "active": 0, "failed": 0}.items() <= status.items()
    training, complete = status["conditions"]
    assert (training["type"], training["status"]) == ("Training", "True") and complete["message"] == (
        "2 of 2 rounds are done; round 2 ended (all) with train_0, train_1: examples 20, loss 2"), status
    check_status(found)
    assert not list(tmp_path.glob("learned.*.rounds"))


@pytest.mark.slow
def test_beside_a_cloud_its_robots_learn_led_by_it_and_programs_are_placed_on_them(fleet, tmp_path, until):
    keys = tmp_path / "keys"
    names = "robot1", "robot2"
    done = CliRunner().invoke(app, ["keys", str(keys), *(word for name in names for word in ("--node", name))])
    assert done.exit_code == 0, done.output
    fleet.secure = keys
    documents = manifests(tmp_path, names, rounds=3)
    for number, name in enumerate(names):
        learns = [sys.executable, "-m", "brain_cloud.processes.run_learn", "--learner", "line", "--name", name,
                  "--data", str(tmp_path / f"data{number}"), "--cloud", f"tls/localhost:{fleet.port}", "--secure",
                  str(keys)]
        node = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'a').write('x')"]
        (tmp_path / f"{name}.yaml").write_text(json.dumps(
            {"learns": learns, "node": node} if name == "robot1" else {"learns": ["sleep", "1000"]}))
        fleet.more[name] = ["--programs", str(tmp_path / f"{name}.yaml")]
    fleet.cloud("--jobs", "2")
    for name in names:
        fleet.edge(name)
        fleet.until_robot(name, state="connected")

    def ask(what: str, *documents: Any, **more: Any) -> dict[str, Any]:
        return fleet.ask("jobs", job={"ask": what, **({"manifests": list(documents)} if documents else {}), **more})

    def one(name: str) -> dict[str, Any]:
        return ask("list", name=name)["jobs"][0]

    def told(name: str = "rooms") -> tuple[Any, ...]:
        return one(name), ask("logs", name=name), fleet.said("cloud")

    with pytest.raises(NoCloud, match="nodeName is 'robot9', and the fleet has no robot of that name"):
        ask("apply", *manifests(tmp_path, ("robot1", "robot9")))
    with pytest.raises(NoCloud, match="nodeName is missing, and others train on robots"):
        ask("apply", *manifests(tmp_path, ("robot1", None)))
    (notes,) = [found["notes"] for found in ask("apply", *documents)["jobs"] if found["kind"] == documents[-1]["kind"]]
    assert "on the robot robot2 runs the program learns that its owner names" in str(notes)
    # One training at a time: the second one's robots are told nothing yet.
    second = json.loads(json.dumps(documents[-1]))
    second["metadata"]["name"] = "second"
    until(lambda: fleet.ask("learning")["learning"], told)
    ask("apply", second)
    until(lambda: "waits until that is over" in str(one("second")["status"]), lambda: told("second"))
    assert {found["state"] for found in one("second")["workers"]} == {"waiting"}
    assert len(fleet.ask("resources")["resources"]) == 2
    ask("delete", second)
    # The second robot does not learn, so that the round stays open: the cloud that is killed goes on with it.
    until(lambda: "robot1" in ((fleet.ask("learning")["learning"] or {}).get("answered") or ()), told)
    fleet.end("cloud", signal.SIGKILL)
    fleet.cloud("--jobs", "2")
    (tmp_path / "robot2.yaml").write_text((tmp_path / "robot1.yaml").read_text().replace("robot1", "robot2").replace(
        "data0", "data1"))
    assert fleet.end("robot2", signal.SIGTERM) == 0
    fleet.edge("robot2")
    until(lambda: one("rooms")["phase"] == "Complete", told)
    assert learned(tmp_path) == [6.0] * 4
    status = one("rooms")["status"]
    check(status, kinds()["FederatedLearningJob"]["schema"]["properties"]["status"], "status")
    assert {"phase": "Succeeded", "succeeded": 3, "active": 0}.items() <= status.items()
    assert "3 of 3 rounds are done; round 3 ended (all) with robot1, robot2" in status["conditions"][-1]["message"]
    until(lambda: fleet.ask("resources")["resources"] == [], told)      # what was ordered for it is taken back
    # Any job's worker may be a robot's program; one that its owner does not name is refused.
    plain = parse(PLAIN)
    pod = plain["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod["backoffLimit"] = 0
    for name, phase in (("robot1", "Complete"), ("robot2", "Failed")):
        if name == "robot2":
            (tmp_path / "robot2.yaml").write_text(json.dumps({"learns": ["sleep", "1000"]}))
            fleet.end("robot2", signal.SIGTERM)
            fleet.edge("robot2")
        pod["template"]["spec"]["nodeName"] = name
        plain["metadata"]["name"] = name
        ask("apply", plain, job(name.replace("robot", "on"), runtime=name))
        until(lambda: one(name.replace("robot", "on"))["phase"] == phase, lambda: told(name.replace("robot", "on")))
    assert (tmp_path / "ran").read_text() == "x"
    assert "robot2: refused: this robot has no program 'node'; there are learns" in str(ask("logs", name="on2"))
    with pytest.raises(NoCloud, match="names the robot robot2: nodes that find each other"):
        ask("apply", {**plain, "metadata": {"name": "torch"}, "spec": {**plain["spec"], "mlPolicy": {"torch": {}}}},
            job("ranks", runtime="torch"))
    # Weights that cannot be read end it.
    lost = json.loads(json.dumps(documents))
    lost[0]["spec"]["url"] = str(tmp_path / "none")
    lost[-1]["metadata"]["name"] = "lost"
    lost[-1]["spec"]["aggregationWorker"]["template"]["spec"]["restartPolicy"] = "Never"
    lost[0]["metadata"]["name"] = lost[-1]["spec"]["pretrainedModel"]["name"] = "none"
    ask("apply", *lost)
    until(lambda: one("lost")["phase"] == "Failed", lambda: told("lost"))
    assert "cannot read the first weights" in str(ask("logs", name="lost")["logs"])
    # Who deletes a job ends what robots run for it, though the cloud is killed in between.
    ask("apply", *manifests(tmp_path, ("robot1", "robot2"), rounds=4)[:-1], {**documents[-1], "metadata": {
        **documents[-1]["metadata"], "name": "more"}})
    until(lambda: len(fleet.ask("resources")["resources"]) == 2, lambda: told("more"))
    fleet.ask("jobs", job={"ask": "delete", "manifests": [{**documents[-1], "metadata": {
        **documents[-1]["metadata"], "name": "more"}}]})
    fleet.end("cloud", signal.SIGKILL)
    fleet.cloud("--jobs", "2")
    until(lambda: fleet.ask("resources")["resources"] == [], lambda: (fleet.ask("resources"), fleet.said("cloud")))
    assert ask("list")["jobs"] and not [found for found in ask("list")["jobs"] if found["name"] == "more"]


def test_what_a_plan_may_not_say_is_refused(jobs, tmp_path):
    for plan, why in (({"rounds": 0}, "rounds must be at least 1"), ({"name": "x"}, "name is the job's; leave it out"),
                      ({"strategy": "Krum"}, "needs 5 updates at least")):
        with pytest.raises(FormProblem, match=why):
            jobs.apply(*manifests(tmp_path, **plan))
    whole = manifests(tmp_path)
    for change, why in (
            (lambda spec: spec.update(transmitter={"s3": {"aggDataPath": "s3://a/b"}}), "leave it out"),
            (lambda spec: spec["trainingWorkers"][1]["template"]["spec"]["containers"][0].update(command=["true"]),
             r"trainingWorkers\[1\].template.spec.containers\[0\].command: with fleet.brain/learning-plan")):
        changed = json.loads(json.dumps(whole))
        change(changed[-1]["spec"])
        with pytest.raises(FormProblem, match=why):
            jobs.apply(*changed)
    whole[-1]["metadata"]["annotations"][LEARNING_PLAN] = "vision"
    with pytest.raises(FormProblem, match="must be a plan's fields"):
        jobs.apply(*whole)


def test_a_job_whose_images_cannot_be_started_here_is_told_of_the_fleets_own_round(jobs, tmp_path):
    *others, one = manifests(tmp_path)
    del one["metadata"]["annotations"]
    with pytest.raises(FormProblem, match=f"names no command.*; give command. Or give the annotation {LEARNING_PLAN}"):
        jobs.apply(*others, one)
    one["spec"]["aggregationWorker"]["template"] = {"spec": {**IDLE["spec"], "nodeName": "cloud"}}
    with pytest.raises(FormProblem, match=f"nodeName is 'cloud'.*annotation {LEARNING_PLAN}, with which the fleet's"):
        jobs.apply(*others, one)


def test_in_a_cluster_the_fleets_programs_are_its_pods_and_its_status_is_what_the_aggregator_tells(tmp_path):
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    from clusters import Cluster

    from brain_cloud.cluster.kinds import DATASET, FEDERATED, JOB, MODEL
    from brain_cloud.cluster.plans import Settings
    from brain_cloud.cluster.reconcile import Reconciler

    cluster = Cluster(tmp_path)
    try:
        for one in manifests(tmp_path):
            kind = {of.kind: of for of in (DATASET, FEDERATED, MODEL)}[one["kind"]]
            cluster.make(kind, {name: one[name] for name in ("metadata", "spec")})
        bring = Reconciler(cluster.admin, Settings())
        bring(FEDERATED, "default", "rooms")
        uid = cluster.get(FEDERATED, "rooms")["metadata"]["uid"]
        found = {step: one["spec"]["template"]["spec"]["containers"][0]
                 for step, one in cluster.below(FEDERATED, "rooms").items()}
        words = found["aggregation"]["command"]
        told = dict(zip(words[3::2], words[4::2]))
        assert words[:3] == ["python3", "-m", "brain_cloud.processes.run_aggregator"]
        assert json.loads(told["--plan"]) == {**PLAN, "name": "rooms", "start": "-", "least": 2, "gather_s": 0}
        assert (told["--start"], told["--folder"], told["--listen"], told["--message"]) == (
            "$(PRETRAINED_MODEL_URL)", f"$(MODEL_URL).{uid}.rounds", "tcp/$(AGG_BIND_IP):$(AGG_BIND_PORT)",
            "/dev/termination-log")
        env = {one["name"]: one["value"] for one in found["aggregation"]["env"]}
        assert env["AGG_BIND_IP"] == "0.0.0.0" and env["MODEL_URL"] == str(tmp_path / "learned.safetensors")
        assert found["train-1"]["command"][-8:] == ["--learner", "line", "--name", "train_1", "--data",
                                                    "$(TRAIN_DATASET_URL)", "--cloud", "tcp/$(AGG_IP):$(AGG_PORT)"]
        assert {one["image"] for one in found.values()} == {Settings().image}   # where the job names none
        assert found["aggregation"]["securityContext"]["runAsUser"] == 0 and "securityContext" not in found["train-0"]
        cluster.says(FEDERATED, "rooms-aggregation", "aggregation", '{"message": "2 of 2 rounds are done"}')
        for name in ("train-0", "train-1"):
            cluster.job(f"rooms-{name}", active=1, ready=1)
        bring(FEDERATED, "default", "rooms")
        assert cluster.status(FEDERATED, "rooms")["phase"] == "Running"
        cluster.finish("rooms-aggregation")
        bring(FEDERATED, "default", "rooms")
        status = cluster.status(FEDERATED, "rooms")
        assert {"phase": "Succeeded", "succeeded": 3, "active": 0, "failed": 0}.items() <= status.items()
        assert status["conditions"][-1]["message"] == "2 of 2 rounds are done"
        assert cluster.get(JOB, "rooms-train-0") is None and cluster.get(JOB, "rooms-aggregation")
    finally:
        cluster.close()


def test_a_job_goes_on_though_its_datasets_and_models_are_deleted_and_its_runner_is_another(tmp_path):
    go = tmp_path / "go"
    waits = ("import os, time\nwhile not os.path.exists(%r): time.sleep(0.05)\n"
             "print('had', os.environ['%s'])")
    data, model = tmp_path / "data", tmp_path / "model"
    data.write_text("1")
    kinds = [("Dataset", "d"), ("Model", "m")]
    first = Jobs(tmp_path / "runner")
    try:
        first.apply(sedna("Dataset", "d", url=str(data), format="txt", nodeName="x"),
                    sedna("Model", "m", url=str(model), format="pth"),
                    sedna("FederatedLearningJob", "own", aggregationWorker={
                        "model": {"name": "m"}, "template": pod(waits % (str(go), "MODEL_URL"))},
                        trainingWorkers=[{"dataset": {"name": "d"}, "template": pod(waits % (
                            str(go), "TRAIN_DATASET_URL"))}]))
        first.phase("own", "Running")
        first.runner.delete(kinds)
        first.runner.stop()
        second = Jobs(tmp_path / "runner")
        go.touch()
        second.phase("own", "Complete")
        assert f"had {data}" in second.said("own") and f"had {model}" in second.said("own")
        with pytest.raises(FormProblem, match="there is no Model 'm'"):
            second.apply({**sedna("FederatedLearningJob", "another"), "spec": {
                "aggregationWorker": {"model": {"name": "m"}, "template": pod("")},
                "trainingWorkers": [{"dataset": {"name": "d"}, "template": pod("")}]}})
        second.runner.stop()
    finally:
        first.runner.stop()
