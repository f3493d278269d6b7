# SPDX-License-Identifier: Apache-2.0
"""Sedna's jobs by the local runner: their workers find each other and their data, and learn again and again."""
from __future__ import annotations

import json
from typing import Any

from local_jobs import check_status, pod, sedna, until

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
    (tmp_path / "m").touch()
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
    until(lambda: {one["name"]: one["attempt"] for one in jobs.one("joint")["workers"]}["cloud"] > 1)   # it had ended
    until(lambda: "knows false" in jobs.said("life"), lambda: jobs.said("life"))
    with (tmp_path / "samples.csv").open("a") as file:
        file.write("3\n4\n")
    until(lambda: "knows true" in jobs.said("life"), lambda: jobs.said("life"))
    for name in ("joint", "life"):
        check_status(jobs.one(name))


def test_a_round_of_learning_that_fails_is_followed_by_another_also_where_nothing_else_runs(jobs, tmp_path):
    (tmp_path / "samples.txt").write_text("1\n2\n")
    trigger = {"checkPeriodSeconds": 1, "condition": {"operator": ">=", "threshold": 1, "metric": "num_of_samples"}}
    train, infer = pod("import sys; sys.exit(3)"), pod("import sys; sys.exit(1)")
    train["spec"]["restartPolicy"] = "Never"
    jobs.apply(
        sedna("Dataset", "d", url=str(tmp_path / "samples.txt"), format="txt", nodeName="edge"),
        sedna("LifelongLearningJob", "life", dataset={"name": "d", "trainProb": 0.5}, outputDir=str(tmp_path / "out"),
              trainSpec={"template": train, "trigger": trigger}, evalSpec={"template": pod("")},
              deploySpec={"template": infer}))

    def failed() -> bool:
        found = jobs.one("life")
        assert found["phase"] != "Failed", found
        return [one["type"] for one in found["status"].get("conditions", ())][-2:] == ["Failed", "Waiting"]

    until(failed, lambda: jobs.said("life"))
    jobs.runner.delete([("LifelongLearningJob", "life")])
    until(lambda: not jobs.runner.jobs())


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
                        ("Train", "Completed"), ("Eval", "Waiting")] and ("Deploy", "Completed") in told
    check_status(found)
    jobs.runner.delete([("IncrementalLearningJob", "il")])
    until(lambda: not jobs.runner.jobs())
