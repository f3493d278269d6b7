# SPDX-License-Identifier: Apache-2.0
"""Hard pictures of a robot's brain, asked of the cloud's large network: with consent, in time, for oneself only."""
from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Callable, Iterator

import numpy as np
import pytest
import yaml
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.bridge import tier as tiers
from brain_cloud.bridge.far_end import FarEnd
from brain_cloud.bridge.tier import Tier
from brain_edge.bridge.bridge import Bridge
from brain_edge.bridge.crossing import SECOND, Crossing
from brain_edge.enrolment.consent import Consent
from brain_edge.processes.settings import ZENOH
from brain_regions.vision.weights import SHIPPED
from brain_security.fleet_keys import second
from brain_wire import Session, messages, open_node, open_session
from brain_wire.messages import make, time_message
from brain_wire.router import Router, free_port
from brain_wire.session import Elsewhere
from brain_wire.wakeup import Flag

IMAGE, OBJECTS = "sensor_msgs/msg/Image", "brain_interfaces/msg/DetectedObjects"
PATIENCE = 240.0    # s; only ends a hang
PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleet-learning.md"


def picture(stamp: float = 1.0):
    data = np.arange(80 * 128 * 3, dtype=np.uint32).astype(np.uint8)
    return make(IMAGE, header=make("std_msgs/msg/Header", stamp=time_message(stamp)), height=80, width=128,
                encoding="rgb8", step=384, data=data)


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


def region_of(pid: int) -> int:
    """The process of the region that answers for a cloud."""
    found = [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]
    (one,) = [child for child in found if b"-m\0brain_runtime.process\0" in command(child)]
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
    fleet.edge("robot1", program="brain_edge.processes.run_second")
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
        region = region_of(fleet.pid("cloud"))
        subprocess.run(["kill", "-9", str(region)], check=True)
        while command(region):
            time.sleep(0.05)
        list(answers.messages(timeout=0.5))
        assert answered(), fleet.said("cloud")
        region = region_of(fleet.pid("cloud"))
        with open_session(f"tls/localhost:{fleet.port}", identity="robot2", elsewhere=Elsewhere(keys),
                          more=ZENOH) as other:
            question = messages.encode(picture())
            own = ask(other.zenoh, second("robot2"), question)
            assert own is not None and own[0]
            assert ask(other.zenoh, second("robot1"), question, 3.0) is None
        fleet.relay.cut(stay=True)
        list(answers.messages(timeout=0.5))
        assert not answered(1.0)
        fleet.relay.mend()
        assert answered(), fleet.said("robot1")
        fleet.end("robot1")
        list(answers.messages(timeout=0.5))
        assert not answered(1.0)
        fleet.edge("robot1", program="brain_edge.processes.run_second")
        assert answered(), fleet.said("robot1")
        fleet.end("cloud")
        while command(region):     # it ends with the cloud, however that ended
            time.sleep(0.05)
        list(answers.messages(timeout=0.5))
        fleet.cloud("--second", str(SHIPPED))
        assert answered(), fleet.said("cloud")
    lines = Consent(fleet.database("robot1")).lines()
    assert lines[0]["what"] == "hard pictures of vision" and lines[0]["state"] == "left" and lines[0]["bytes"] == 10**6
    both = fleet.said("cloud") + fleet.said("robot1")
    assert "Traceback" not in both, both[both.index("Traceback") - 300:][:3000]


class Cloud:
    """A tier with the large network, and a robot's session to the bridge's far end before it."""

    def __init__(self, folder: Path, crossing: Crossing, barred: frozenset[str] | set[str]) -> None:
        self.weights = folder / "large.safetensors"
        shutil.copy(SHIPPED, self.weights)
        port = free_port()
        with contextlib.ExitStack() as close:
            self.tier = close.enter_context(contextlib.closing(Tier([tiers.second(self.weights)], folder / "logs")))
            router = close.enter_context(Router([f"tcp/127.0.0.1:{port}"], more=ZENOH))
            here = close.enter_context(Session(router.session, "here"))
            self.robot = close.enter_context(open_session(f"tcp/127.0.0.1:{port}", more=ZENOH, elsewhere=Elsewhere()))
            FarEnd(here, self.tier, crossing, barred.__contains__)
            self.close = close.pop_all().close

    def told(self, data: bytes, key: str = second("robot1")) -> str:
        found = ask(self.robot.zenoh, key, data)
        assert found is not None
        return "an answer" if found[0] and found[1] else found[1].decode()

    def until_answered(self) -> None:
        end = time.monotonic() + PATIENCE
        while (why := self.told(messages.encode(picture()))) != "an answer":
            assert time.monotonic() < end, why

    @property
    def region(self) -> int:
        return region_of(os.getpid())


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cloud]]:
    monkeypatch.setenv("BRAIN_SECURITY", str(tmp_path / "of another net"))
    with contextlib.ExitStack() as close:
        def start(crossing: Crossing = SECOND, barred: frozenset[str] | set[str] = frozenset()) -> Cloud:
            return close.enter_context(contextlib.closing(Cloud(tmp_path, crossing, barred)))
        yield start


def test_what_is_no_question_gets_no_answer_and_the_next_one_does(cloud):
    good, barred = messages.encode(picture()), set()
    # So slow that it does not matter how long it takes: nine of them, and then no more.
    found = cloud(replace(SECOND, rate=1.0, burst=8.5 * len(good)), barred)
    told = found.told
    assert told(good) == "an answer"
    for wrong in (b"\xff" * 100, good[:200], good[:-50], bytes(1000)):
        assert told(wrong) == ""
    assert f"at most {SECOND.longest} bytes" in told(bytes(SECOND.longest + 1)) and "at most" in told(b"")
    assert "no robot's key" in told(good, "brain_fleet/Robot-1/second")
    barred.add("robot9")
    assert "robot9 was revoked" in told(good, second("robot9"))
    assert told(good) == "an answer"
    for _ in range(9):
        if "too many" in (why := told(good)):
            break
    assert "too many hard pictures" in why and told(good, second("robot2")) == "an answer"
    # The stamps of the cloud's own net stay there.
    for stamp in (0.0, 7.5):
        answer = messages.decode(ask(found.robot.zenoh, second("robot3"), messages.encode(picture(stamp)))[1], OBJECTS)
        assert answer.header.stamp == time_message(stamp)
        assert [origin.stamp for origin in answer.origins] == [time_message(stamp)]


@pytest.mark.extended       # what is killed comes back in the first test, and test_e2e_supervision has what hangs
def test_a_region_that_hangs_or_has_no_weights_for_a_while_is_told_of_and_comes_back(cloud):
    found = cloud(replace(SECOND, rate=0.0))
    first = found.region
    os.kill(first, signal.SIGSTOP)
    assert "has ended, or hangs" in found.told(messages.encode(picture()))
    found.until_answered()
    assert found.region != first and not command(first)
    aside = found.weights.rename(found.weights.with_name("aside"))
    os.kill(found.region, signal.SIGKILL)
    log = found.weights.with_name("logs") / "second.log"
    end = time.monotonic() + PATIENCE
    while "are missing" not in log.read_text():
        assert time.monotonic() < end and "has ended, or hangs" in found.told(messages.encode(picture()))
        time.sleep(0.2)
    aside.rename(found.weights)
    found.until_answered()


def test_an_answer_that_is_late_or_another_s_is_not_used_and_budget_and_consent_hold(tmp_path):
    brain, port = free_port(), free_port()
    consent, asked, says = Consent(tmp_path), [], [0.0, 0.0]     # s that an answer takes, and its stamp
    with Router([f"tcp/127.0.0.1:{brain}"]), Router([f"tcp/127.0.0.1:{port}"], more=ZENOH) as router, open_session(
            f"tcp/127.0.0.1:{port}", identity="robot1", more=ZENOH) as out, open_node(
            "tester", domain=brain % 200, router=f"tcp/127.0.0.1:{brain}", patience=PATIENCE) as node:
        hard, answers = node.publisher("vision/hard", IMAGE), node.subscription("vision/second", OBJECTS)

        def answer(query: zenoh.Query) -> None:
            asked.append(query.payload.to_bytes())
            time.sleep(says[0])
            query.reply(query.key_expr, messages.encode(make(OBJECTS, header=make(
                "std_msgs/msg/Header", stamp=time_message(says[1])))))

        queryable = router.session.declare_queryable(second("*"), answer)
        size = len(messages.encode(picture()))
        bridge = Bridge(node, out, "robot1", replace(SECOND, rate=1.0, burst=4.5 * size), consent, 2.0)
        stop = Flag()
        thread = threading.Thread(target=bridge.run, args=(stop,))
        thread.start()
        try:
            def heard(stamp: float, takes: float, of: float, long: float = 5.0) -> int | None:
                says[:] = takes, of
                hard.publish(picture(stamp))
                return next((answer.header.stamp.sec for answer in answers.messages(timeout=long)), None)

            assert heard(1.0, 0.0, 1.0) is None and asked == []     # nobody has said that pictures may leave
            consent.decide("pictures", True)
            end = time.monotonic() + PATIENCE
            while (first := heard(2.0, 0.0, 2.0)) is None:
                assert time.monotonic() < end
            assert first == 2 and asked == [messages.encode(picture(2.0))]
            assert heard(3.0, 0.0, 9.0) is None     # of another picture
            assert heard(4.0, 3.0, 4.0) is None     # late
            assert heard(5.0, 0.0, 5.0) == 5
            assert heard(6.0, 0.0, 6.0) == 6        # the last of the budget, a little above it
            assert heard(7.0, 0.0, 7.0) is None
            assert len(asked) == bridge.asked == 5 and bridge.answered == 3
        finally:
            stop.set()
            thread.join(PATIENCE)
            queryable.undeclare()
    (line,) = [line for line in consent.lines() if line["state"] == "left"]
    assert line["what"] == "hard pictures of vision" and line["bytes"] == 10**6


@pytest.mark.slow
def test_a_cloud_whose_large_network_is_not_there_says_so_in_a_line(tmp_path):
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(SHIPPED.read_bytes()[:1000])
    for path, why in ((tmp_path / "none.safetensors", "are missing"), (torn, "is torn")):
        done = subprocess.run([sys.executable, "-m", "brain_cloud.processes.run_cloud", "--listen",
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
