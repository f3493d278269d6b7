# SPDX-License-Identifier: Apache-2.0
"""Input that is odd but right, and limits of what is right: manifests, devices, consent, jobs."""
from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from datetime import datetime
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.jobs import learning, stages
from brain_cloud.jobs.job_queue import admitted
from brain_cloud.jobs.manifests import manifest, read
from brain_cloud.jobs.runner import Runner
from brain_edge.devices import values
from brain_edge.devices.models import Mapped, Property
from brain_edge.enrolment import consent as consents
from brain_edge.enrolment.consent import Consent
from brain_edge.processes import identity
from brain_edge.state.manifests import ManifestProblem, read_manifests
from brain_edge.store import Store, StoreProblem
from brain_runtime.run import subreaper
from brain_wire.wakeup import Flag

ORDER = """apiVersion: fleet.brain/v1
kind: Parameters
metadata: {name: NAME, robots: [robot1]}
spec: {region: brainstem, values: {max_linear: 0.2}}
"""
JOB = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "one"}, "spec": {
    "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1, "numProcPerNode": 1, "command": ["true"]}}}
JOINT = {"apiVersion": "sedna.io/v1alpha1", "kind": "JointInferenceService", "metadata": {"name": "e"}}


@pytest.mark.parametrize("wanted, said", [(2_000_001, 2_000_000), (2**53 + 1, 2**53)])
def test_whole_numbers_are_the_same_only_where_they_are(wanted, said):
    mapped = Mapped(Property("count", "integer", writable=True), {})
    assert not values.same(mapped, said, wanted) and values.same(mapped, wanted, wanted)


def test_what_is_checked_is_not_applied(tmp_path):
    with Runner(tmp_path, 1) as runner:
        assert runner.check([manifest(JOB)])[0]["name"] == "one" and not runner.jobs()


def test_a_service_does_not_wait_behind_a_job_that_does():
    job = lambda number, phase, slots: SimpleNamespace(     # noqa: E731
        phase=phase, running={}, deleted=False, driver=None, plan=SimpleNamespace(slots=slots), state={},
        record=SimpleNamespace(number=number))
    runs, waits, service = job(1, "Running", 1), job(2, "Queued", 1), job(3, "Queued", 0)
    assert admitted([runs, waits, service], 1) == [service]


def test_renewed_credentials_end_a_session_with_the_former_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "LOOK", 0.0)
    file, stop = tmp_path / "credentials.json5", Flag()
    file.write_text("{}")
    until = identity.Renewed(stop, file, "robot1")
    assert not until.is_set()
    file.with_name("new").write_text("{ }")
    os.replace(file.with_name("new"), file)
    assert until.is_set() and not stop.is_set()


def test_a_parcel_that_was_counted_is_used_up(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(consents, "time", SimpleNamespace(monotonic=lambda: clock.now))
    consent = Consent(tmp_path)
    consent.decide("pictures", True, daily=2 * 10**6)
    guard = consents.Parcels(consent, "pictures", "hard pictures of vision", "cloud")
    sent = 0
    while guard.let(20_000):
        sent, clock.now = sent + 1, clock.now + 2 * consents.LASTS
    assert sent == 100      # not 2
    consent.decide("pictures", True, daily=10**8)
    clock.now += 10 * consents.REFUSED
    assert guard.let(20_000)
    consent.decide("pictures", False)
    clock.now += 2 * consents.LASTS
    assert not guard.let(20_000)


def test_kubeflow_s_own_runtimes_have_dots_in_their_names():
    value = {"apiVersion": JOB["apiVersion"], "kind": "ClusterTrainingRuntime", "metadata": {
        "name": "torchtune-llama3.2-1b"}, "spec": {"template": {"spec": {"replicatedJobs": []}}}}
    assert manifest(value).name == "torchtune-llama3.2-1b"


@pytest.mark.parametrize("text, names", [
    ((ORDER + "---\n" + ORDER.replace("NAME", "b")).replace("\n", "\r\n"), ["NAME", "b"]),
    (ORDER + "--- " + json.dumps({"apiVersion": "fleet.brain/v1", "kind": "Parameters", "metadata": {
        "name": "b", "robots": "all"}, "spec": {"region": "pfc", "values": {}}}) + "\n", ["NAME", "b"]),
    ("%YAML 1.1\n---\n" + ORDER, ["NAME"]), ("# first\n---\n" + ORDER, ["NAME"])])
def test_documents_are_divided_as_yaml_has_it(tmp_path, text, names):
    file = tmp_path / "a.yaml"
    file.write_bytes(text.replace("name: NAME", "name: a").encode())
    assert [one.name for one in read_manifests(file)] == [name.replace("NAME", "a") for name in names]


def test_the_first_document_is_document_1(tmp_path):
    (tmp_path / "a.yaml").write_text("---\napiVersion: x\n")
    with pytest.raises(ManifestProblem, match="document 1:"):
        read_manifests(tmp_path / "a.yaml")


def test_a_kind_that_is_no_text_is_refused_in_a_line(tmp_path):
    (tmp_path / "a.yaml").write_text("apiVersion: fleet.brain/v1\nkind: [a]\n")
    with pytest.raises(ManifestProblem, match="document 1: [a-z]+ (is missing|must be)"):
        read_manifests(tmp_path / "a.yaml", read)


def test_an_endless_quota_is_refused_in_a_line(tmp_path):
    done = CliRunner().invoke(app, ["fleet", "consent", "--pictures", "--daily", "inf", "--folder", str(tmp_path)])
    assert done.exit_code == 2 and "--daily" in done.output and not isinstance(done.exception, OverflowError)


@pytest.mark.parametrize(("argv", "env", "why"), [
    (["true"], {"A=B": "x"}, "cannot be started: illegal environment variable name; correct its words or variables"),
    ([""], {}, "argv first element cannot be empty; correct its words or variables"),
    (["/no/such"], {}, "'/no/such' cannot be started: No such file or directory; name a command that is installed"),
    (["true", "x" * 200_000], {}, "'true' cannot be started: Argument list too long; shorten its words")])
def test_a_log_says_why_a_command_cannot_be_started(tmp_path, argv, env, why):
    told = {"steps": [{"argv": argv, "env": {**os.environ, **env}, "cwd": "/"}], "grace": 1,
            "log": str(tmp_path / "log"), "exit": str(tmp_path / "exit")}
    (tmp_path / "keep.json").write_text(json.dumps(told))
    with subprocess.Popen([sys.executable, "-I", "-S", subreaper.__file__, str(tmp_path / "keep.json")],
                          stdin=subprocess.PIPE) as process:
        assert process.wait(120) == subreaper.CANNOT
    assert why in (tmp_path / "log").read_text()


def test_a_report_with_a_long_url_does_not_skip_the_evaluation(tmp_path):
    trained = tmp_path / "train" / "1"
    trained.mkdir(parents=True)
    now = learning.Where("Train", "Running", 1)
    assert stages._made(tmp_path, now, [{"url": "x" * 300}]) == ""      # all of the round's folder
    (trained / "model").touch()
    assert stages._made(tmp_path, now, [{"url": "x" * 300}]) == "train/1/model"


def test_a_job_says_that_it_goes_on_with_what_it_had(tmp_path):
    def model(url):
        return manifest({"apiVersion": "sedna.io/v1alpha1", "kind": "Model", "metadata": {"name": "m"}, "spec": {
            "url": url, "format": "pb"}})

    worker = {"model": {"name": "m"}, "template": {"spec": {"containers": [{"name": "a", "image": "b", "command": [
        "sleep", "100"]}]}}}
    service = manifest({**JOINT, "spec": {
        "cloudWorker": worker, "edgeWorker": {**worker, "hardExampleMining": {"name": "IBT"}}}})
    with Runner(tmp_path, 1) as runner:
        runner.apply([model("/a"), service])
        assert any("Model m" in note for note in runner.apply([model("/b"), service])[1]["notes"])


@pytest.mark.parametrize("stage", learning.STAGES)
def test_a_stage_without_workers_is_not_done(stage):
    found = list(learning.steps(learning.Where(stage, "Running", 1), {}, lambda now: learning.Seen(datetime.now())))
    assert "Completed" not in {now.step for now in found}


def test_a_database_of_a_version_that_nobody_writes_is_refused_in_a_line(tmp_path):
    Store(tmp_path, "robot1").close()
    with sqlite3.connect(tmp_path / "fleet.db") as db:
        db.execute("PRAGMA user_version = -5")
    with pytest.raises(StoreProblem, match="is of version -5, which no software writes"):
        Store(tmp_path, "robot1")


@pytest.mark.slow
def test_what_is_asked_of_what_is_not_there_is_told(fleet):
    fleet.cloud("--jobs", "1")
    assert fleet.ask("robots")["robots"] == []
    for words, why in ((["jobs", "nosuch"], "there is no job 'nosuch'"), (["devices", "nosuch"], "no robot 'nosuch'"),
                       (["logs", "nosuch"], "there is no robot 'nosuch' in this fleet")):
        done = CliRunner().invoke(app, ["fleet", *words, "--cloud", f"tcp/localhost:{fleet.port}"])
        assert done.exit_code == 1 and why in " ".join(done.output.split()), done.output
