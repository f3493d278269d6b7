# SPDX-License-Identifier: Apache-2.0
"""A worker of Sedna's jobs leaves its results where an operator reads them: in its pod's termination message."""
import json

from brain_training.incremental import sedna_worker
from brain_training.lifelong import stages

FOUND = [{"url": "vision.safetensors", "metrics": {"f1": [0.75]}}, {"url": "old", "metrics": {"f1": [0.5]}}]


def test_results_are_left_in_the_termination_message_of_a_pod_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.delenv("LC_SERVER", raising=False)
    message = tmp_path / "termination-log"
    monkeypatch.setattr(sedna_worker, "MESSAGE", message)
    assert not sedna_worker.report("eval", "completed", FOUND) and not message.exists()     # no pod
    message.touch()     # as kubelet does
    assert sedna_worker.report("eval", "completed", FOUND)
    assert json.loads(message.read_text()) == {"results": FOUND}
    stages._report("eval", FOUND[:1], print)
    assert json.loads(message.read_text()) == {"results": FOUND[:1]}


def test_a_manager_that_does_not_answer_costs_a_lifelong_worker_nothing_but_a_line(monkeypatch):
    monkeypatch.setenv("LC_SERVER", "http://127.0.0.1:9")
    told = []
    stages._report("train", FOUND, told.append)
    (line,) = told
    assert line.startswith("the manager was not told: nobody takes the report")
