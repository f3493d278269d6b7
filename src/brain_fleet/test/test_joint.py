# SPDX-License-Identifier: Apache-2.0
"""Hard pictures of a robot's brain, asked of the cloud's large network: with consent, in time, for oneself only."""
from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_fleet.belonging.consent import Consent
from brain_fleet.joint import piped
from brain_fleet.joint.answering import QUESTION, Answering
from brain_fleet.joint.helper import Helper, HelperProblem
from brain_fleet.processes.settings import ZENOH
from brain_regions.vision.weights import SHIPPED
from brain_security.fleet_keys import second
from brain_wire import Session, messages, open_node, open_session
from brain_wire.messages import make, time_message
from brain_wire.router import Router, free_port
from brain_wire.session import Elsewhere

IMAGE, OBJECTS = "sensor_msgs/msg/Image", "brain_interfaces/msg/DetectedObjects"
PATIENCE = 240.0    # s; only ends a hang
PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleet-learning.md"


def picture(stamp: float = 1.0):
    data = np.arange(64 * 96 * 3, dtype=np.uint32).astype(np.uint8)
    return make(IMAGE, header=make("std_msgs/msg/Header", stamp=time_message(stamp)), height=64, width=96,
                encoding="rgb8", step=288, data=data)


def ask(session: zenoh.Session, key: str, data: bytes, patience: float = PATIENCE) -> tuple[bool, bytes] | None:
    """Whether it is an answer, and what it is; None where nobody is reached."""
    for reply in session.get(key, payload=data, timeout=patience, target=zenoh.QueryTarget.ALL,
                             consolidation=zenoh.ConsolidationMode.NONE):
        if reply.ok is not None:
            return True, reply.ok.payload.to_bytes()
        if (why := reply.err.payload.to_bytes()) != b"Timeout":
            return False, why
    return None


def command(pid: int) -> bytes:
    """Empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def helper_of(pid: int) -> int:
    """The process that answers for a cloud."""
    found = [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]
    (one,) = [child for child in found if b"brain_fleet.joint.worker" in command(child)]
    return one


@pytest.mark.slow
def test_a_robot_with_consent_is_answered_whatever_is_killed_and_nobody_asks_for_another(fleet, tmp_path):
    keys = tmp_path / "keys"
    done = CliRunner().invoke(app, ["keys", str(keys), "--node", "robot1", "--node", "robot2"])
    assert done.exit_code == 0, done.output
    fleet.secure = keys
    fleet.cloud("--second", str(SHIPPED))
    fleet.brain_router()
    fleet.more["robot1"] = ["--deadline", "5"]        # on a machine that has much to do
    fleet.edge("robot1", program="brain_fleet.processes.run_second")
    with open_node("tester", domain=fleet.brain_port % 200, router=f"tcp/127.0.0.1:{fleet.brain_port}",
                   patience=PATIENCE) as node:
        hard, answers = node.publisher("vision/hard", IMAGE), node.subscription("vision/second", OBJECTS)
        asked: set[tuple[int, int]] = set()

        def answered(patience: float = PATIENCE) -> bool:
            end = time.monotonic() + patience
            while time.monotonic() < end:
                message = picture(1.0 + len(asked))
                asked.add((message.header.stamp.sec, message.header.stamp.nanosec))
                hard.publish(message)
                for answer in answers.messages(timeout=0.2):
                    assert (answer.header.stamp.sec, answer.header.stamp.nanosec) in asked
                    return True
            return False

        end = time.monotonic() + PATIENCE
        while "has not consented that pictures leave it" not in fleet.said("robot1"):
            assert time.monotonic() < end and not answered(0.5) and "Traceback" not in fleet.said("robot1")
        Consent(fleet.database("robot1")).decide("pictures", True)
        assert answered(), (fleet.said("cloud"), fleet.said("robot1"))
        helper = helper_of(fleet.pid("cloud"))
        subprocess.run(["kill", "-9", str(helper)], check=True)
        while command(helper):
            time.sleep(0.05)
        list(answers.messages(timeout=0.5))
        assert answered(), fleet.said("cloud")
        helper = helper_of(fleet.pid("cloud"))
        with open_session(f"tls/localhost:{fleet.port}", identity="robot2", elsewhere=Elsewhere(keys),
                          more=ZENOH) as other:
            question = messages.encode(picture())
            own = ask(other.zenoh, second("robot2"), question)
            assert own is not None and own[0]
            assert ask(other.zenoh, second("robot1"), question, 3.0) is None
        fleet.end("cloud")
        while command(helper):     # it ends with the cloud, however that ended
            time.sleep(0.05)
        list(answers.messages(timeout=0.5))
        fleet.cloud("--second", str(SHIPPED))
        assert answered(), fleet.said("cloud")
    lines = Consent(fleet.database("robot1")).lines()
    assert lines[0]["what"] == "hard pictures of vision" and lines[0]["state"] == "left" and lines[0]["bytes"] == 10**6
    both = fleet.said("cloud") + fleet.said("robot1")
    assert "Traceback" not in both, both[both.index("Traceback") - 300:][:3000]


def test_what_is_no_question_gets_no_answer_and_the_next_one_does():
    port, barred = free_port(), set()
    helper = Helper(str(SHIPPED))
    try:
        with Router([f"tcp/127.0.0.1:{port}"], more=ZENOH) as router, Session(router.session, "here") as here, \
                open_session(f"tcp/127.0.0.1:{port}", identity="robot1", more=ZENOH) as robot:
            good = messages.encode(picture())
            # So slow that it does not matter how long it takes: nine of them, and then no more.
            Answering(here, helper, barred.__contains__, rate=1.0, burst=8.5 * len(good))

            def told(data: bytes, key: str = second("robot1")) -> str:
                found = ask(robot.zenoh, key, data)
                assert found is not None
                return "an answer" if found == (True, found[1]) and found[1] else found[1].decode()

            assert told(good) == "an answer"
            for wrong in (b"\xff" * 100, good[:200], good[:-50], bytes(1000)):
                assert told(wrong) == ""
            assert f"at most {QUESTION} bytes" in told(bytes(QUESTION + 1)) and "at most" in told(b"")
            assert "no robot's key" in told(good, "brain_fleet/Robot-1/second")
            barred.add("robot9")
            assert "robot9 was revoked" in told(good, second("robot9"))
            assert told(good) == "an answer"
            for _ in range(9):
                if "too many" in (why := told(good)):
                    break
            assert "too many hard pictures" in why and told(good, second("robot2")) == "an answer"
    finally:
        helper.close()
    with pytest.raises(HelperProblem, match="closed"):
        helper.ask(good)


def test_what_answers_ends_without_a_word_where_the_cloud_dies_in_the_midst_of_a_question():
    worker = subprocess.Popen([sys.executable, "-m", "brain_fleet.joint.worker", "--class",
                               "brain_regions.vision:Vision", "--weights", str(SHIPPED)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "ready" in str(piped.read(worker.stdout))
    worker.stdout.close()       # nobody hears the answer any more
    piped.write(worker.stdin, messages.encode(picture()))
    worker.stdin.close()
    assert worker.wait(PATIENCE) == 0 and worker.stderr.read() == b""
    worker.stderr.close()


@pytest.mark.slow
def test_a_cloud_whose_large_network_is_not_there_says_so_in_a_line(tmp_path):
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(SHIPPED.read_bytes()[:1000])
    for path, why in ((tmp_path / "none.safetensors", "are missing"), (torn, "is torn")):
        done = subprocess.run([sys.executable, "-m", "brain_fleet.processes.run_cloud", "--listen",
                               f"tcp/127.0.0.1:{free_port()}", "--folder", tmp_path / "cloud", "--second", path],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and why in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.is_file(), reason="the package alone has no docs")
def test_the_manifest_of_the_docs_runs_both_networks(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    manifest = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "JointInference" in block)
    port, file = free_port(), tmp_path / "joint.yaml"
    for size in ("small", "large"):
        manifest = manifest.replace(f"/models/vision-{size}.safetensors", str(SHIPPED))
    resources = list(yaml.safe_load_all(manifest.replace("127.0.0.1:7447", f"127.0.0.1:{port}")))
    for which in ("cloudWorker", "edgeWorker"):
        (container,) = resources[-1]["spec"][which]["template"]["spec"]["containers"]
        container["env"] = [{"name": "ROS_DOMAIN_ID", "value": str(port % 200)}]    # beside other brains
    container["args"] += ["-p", "doubt:=0.0"]       # all pictures are hard
    file.write_text(yaml.safe_dump_all(resources), encoding="utf-8")
    with Router([f"tcp/127.0.0.1:{port}"]), (tmp_path / "log").open("wb") as log, open_node(
            "tester", domain=port % 200, router=f"tcp/127.0.0.1:{port}", patience=PATIENCE) as node:
        camera, answers = node.publisher("camera/image_raw", IMAGE), node.subscription("vision/second", OBJECTS)
        service = subprocess.Popen([sys.executable, "-m", "brain", "jobs", "run", str(file), "--folder", str(
            tmp_path / "jobs")], stdout=log, stderr=log)
        try:
            end, found = time.monotonic() + PATIENCE, []
            while not found:
                assert time.monotonic() < end and service.poll() is None, (tmp_path / "log").read_text()
                camera.publish(picture(1.0 + time.monotonic()))
                found = list(answers.messages(timeout=0.2))
        finally:
            service.terminate()
            service.wait(PATIENCE)
