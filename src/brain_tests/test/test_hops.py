# SPDX-License-Identifier: Apache-2.0
"""`brain status --hops` beside a region that runs: who is heard, how long it takes, and what is lost."""
import json
import subprocess
import sys
import time

import pytest

from brain_runtime import FEATURE
from brain_runtime.hosts import diagnostics
from brain_runtime.supervision.edge_ear import REGIONS, EdgeEar
from brain_runtime.hosts.edges import MOST
from brain_tests.regions import FEATURES
from brain_tests.stages import ZenohStage
from brain_wire import Node, messages, names, open_session
from brain_wire.attachment import pack

GRAPH = "name: small\nregions:\n  mirror: brain_tests.regions:Mirror\n"
SAID = messages.make(FEATURES, source="test")
GID = b"\x11" * 16


@pytest.fixture
def stage(tmp_path):
    made = ZenohStage(tmp_path)
    (tmp_path / "small.graph.yaml").write_text(GRAPH)
    yield made
    made.close()


def hops(stage, folder, *more):
    """What the verb tells as JSON, by source and topic."""
    done = run(stage, folder, "--json", *more)
    report = json.loads(done.stdout)
    return {(e["from"], e["topic"]): e for e in report["hops"]}, report


def run(stage, folder, *more):
    return subprocess.run(
        [sys.executable, "-m", "brain", "status", "--hops", "--graph", str(folder / "small.graph.yaml"), "--router",
         stage._endpoint, "--domain", str(stage.domain), *more], capture_output=True, text=True, timeout=120,
        check=False)


def test_the_verb_shows_each_edge_with_what_was_lost_on_it(stage, tmp_path):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start("brain_tests.regions:Mirror")

    def answered():
        stage.say("heard", SAID, FEATURE)
        stage.pause(0.1)
        return len(said) > 3
    stage.until(answered)
    with open_session(stage._endpoint, patience=30) as session:
        raw = session.zenoh.declare_publisher(names.data_key(stage.domain, "/heard", FEATURES))
        stage.until(lambda: raw.matching_status.matching)
        cdr = bytes(messages.encode(SAID))
        for number in (1, 2, 6, 7, 8):      # 3, 4 and 5 are left out
            before = len(said)
            raw.put(cdr, attachment=pack(number, time.time_ns() + (10**12 if number == 8 else 0), GID))
            stage.until(lambda before=before: len(said) > before)   # it has made its step, and waits
        stage.until(lambda: ("gid:" + GID.hex(), "/heard") in hops(stage, tmp_path)[0])
        known, report = hops(stage, tmp_path)
        ours, theirs = known["/stage", "/heard"], known["gid:" + GID.hex(), "/heard"]
        assert ours["to"] == "/mirror" and 0 < ours["p50"] <= ours["p99"] and ours["messages"] >= 3
        assert (theirs["lost"] + theirs["overwritten"], theirs["messages"]) == (3, 5)
        assert theirs["clocks_differ"] and theirs["p50"] is None    # one message of five is from the future
        assert report["without_hops"] == [] and [r["name"] for r in report["regions"]] == ["/mirror"]
        shown = run(stage, tmp_path)
        assert shown.returncode == 0, shown.stderr
        line = next(text for text in shown.stdout.splitlines() if text.strip().startswith("stage"))
        assert "mirror" in line and "heard" in line and "over: received" in shown.stdout


def test_whatever_others_say_on_diagnostics_costs_no_more_than_that(stage):
    session = stage._session
    with Node(session, "ear", "/r1", stage.domain) as node, Node(session, "mouth", "/", stage.domain) as mouth:
        ear = EdgeEar(node)
        publisher = mouth.publisher(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY)
        stage.until(lambda: publisher.heard)
        value = "p50 0.31 ms, p99 1.2 ms, lost 0, overwritten 3, messages 1200"

        def say(name, pairs):
            publisher.publish(messages.make(diagnostics.TYPE, status=[messages.make(
                "diagnostic_msgs/msg/DiagnosticStatus", name=name, values=[
                    messages.make("diagnostic_msgs/msg/KeyValue", key=key, value=told) for key, told in pairs])]))
        ours = [("hop /a from /b", value), ("hop /a from /\x1b[2J", value), ("hop /a from /c", "x" * 10_000)]
        for index in range(2 * REGIONS):
            say(f"brain: /r1/n{index}", ours)
            ear.take()
        publisher.publish_bytes(b"\x00\x01\x00\x00broken")
        say("brain: /r2/other", ours)
        say("battery", ours)
        say("brain: /r1/last", [*ours, *((f"hop /t{n} from /b", value) for n in range(10 * MOST))])
        stage.until(lambda: ear.take() or "/r1/last" in ear.told())
        told = ear.told()
        assert len(told) <= REGIONS and all(name.startswith("/r1/") for name in told) and ear.broken == 1
        assert len(told["/r1/last"]) <= MOST and {e.source for e in told["/r1/last"]} == {"/b"}
