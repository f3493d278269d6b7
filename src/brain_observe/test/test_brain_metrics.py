# SPDX-License-Identifier: Apache-2.0
"""``brain metrics`` beside a region that is killed and started again, asked over HTTP, read with Prometheus' parser."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from brain_observe.metrics.brain_figures import HOPS, INPUTS, REGIONS, BrainFigures
from brain_runtime.contract import heartbeat
from brain_runtime.hosts import diagnostics
from brain_wire import messages, open_node
from brain_wire.qos import STREAM
from brain_wire.router import free_port

PATIENCE = 240.0     # s; only ends a hang
TICKER = '''
from brain_runtime import In, Out, Region
from brain_wire.messages import make

class Ticker(Region):
    rate = 20.0
    said = Out("ticker/said", "std_msgs/msg/String")
    heard = In("ticker/heard", "std_msgs/msg/String")

    def step(self, inbox, state, dt, rng):
        return {"said": make("std_msgs/msg/String", data="x")}, state
'''
GRAPH = """
regions:
  ticker: {class: "ticker:Ticker"}
  absent: {class: "ticker:Ticker"}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Starts processes, in a domain and at a router of their own; all are ended at the end."""
    (tmp_path / "ticker.py").write_text(TICKER)
    (tmp_path / "two.graph.yaml").write_text(GRAPH)
    port, running = free_port(), []
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROS_DOMAIN_ID", str(port % 200))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def start(*words, **more):
        running.append(subprocess.Popen([sys.executable, "-m", *words], **more))
        return running[-1]

    start.endpoint = f"tcp/127.0.0.1:{port}"
    yield start
    for process in running:
        process.kill()
        process.wait(PATIENCE)
        if process.stdout is not None:
            process.stdout.close()


def samples(text):
    return {(one.name, *sorted(one.labels.items())): one.value for family in text_string_to_metric_families(text)
            for one in family.samples}


def until(what, told=lambda: ""):
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, f"it never came about: {told()}"
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_a_regions_life_death_and_return_are_counted(run, tmp_path):
    told = run("brain", "metrics", "0", "--json", "--router", run.endpoint, "--graph", str(tmp_path / "two.graph.yaml"),
               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    url = json.loads(told.stdout.readline())["url"]

    def get():
        with urllib.request.urlopen(url, timeout=60) as answer:
            return samples(answer.read().decode())

    ticker, absent = ("region", "/ticker"), ("region", "/absent")
    assert get()["brain_router_linked",] == 0      # it waits for a router
    router = run("brain_wire.router", "--listen", run.endpoint)
    assert router.poll() is None
    until(lambda: get()["brain_router_linked",] == 1, get)
    found = until(lambda: (got := get()).get(("brain_region_up", absent)) == 0.0 and got, get)
    assert found["brain_region_up", ticker] == 0 and found["brain_region_state", ticker, ("state", "gone")] == 1
    life = "brain_runtime.process", "--class", "ticker:Ticker", "--name", "ticker", "--router", run.endpoint
    first = run(*life)
    found = until(lambda: (got := get())["brain_region_up", ticker] == 1 and got, get)
    steps = found["brain_region_steps_total", ticker]
    found = until(lambda: (got := get())["brain_region_steps_total", ticker] >= steps + 20 and got, get)
    assert found["brain_region_starts_total", ticker] == 1 and found["brain_region_losses_total", ticker] == 0
    assert 0 < found["brain_region_step_seconds", ("quantile", "0.99"), ticker] < 1
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE)
    found = until(lambda: (got := get())["brain_region_state", ticker, ("state", "gone")] == 1 and got, get)
    assert found["brain_region_losses_total", ticker] == 1 and found["brain_region_up", ticker] == 0
    assert ("brain_region_steps_total", ticker) not in found    # what it said holds no more
    run(*life)
    found = until(lambda: (got := get())["brain_region_up", ticker] == 1 and got, get)
    assert found["brain_region_starts_total", ticker] == 2 and found["brain_region_losses_total", ticker] == 1
    told.send_signal(signal.SIGTERM)
    assert told.wait(PATIENCE) == 0


def test_nobody_makes_as_many_series_as_he_likes(run):
    """Heartbeats and diagnostics of hundreds of regions, with the names, figures and topics that liars take."""
    run("brain_wire.router", "--listen", run.endpoint)
    with open_node("liar", "/", router=run.endpoint, patience=PATIENCE) as liar, \
            open_node("metrics", "/", router=run.endpoint, patience=PATIENCE) as node:
        figures = BrainFigures(node, ["/vision"])
        beats = liar.publisher(heartbeat.PORT.topic, heartbeat.TYPE, STREAM)
        told = liar.publisher(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY)
        until(lambda: beats.heard and told.heard)

        def lie(name):
            hops = [(f"hop /t{i} from /liar{i}", f"p50 1 ms, p99 2 ms, lost {i}, overwritten 0, messages {10**17}")
                    for i in range(64)] + [("messages sent", "9" * 18), ("messages cut", "-1"), ("bytes sent", "x")]
            told.publish(messages.make(diagnostics.TYPE, status=[messages.make(
                "diagnostic_msgs/msg/DiagnosticStatus", name=f"brain: {name}", values=[
                    messages.make("diagnostic_msgs/msg/KeyValue", key=key, value=value) for key, value in hops])]))

        for number in range(REGIONS + 100):
            beat = heartbeat.heartbeat(f"/liar{number}", "zenoh", 77, stamp=0.0, now=0.0)
            beat.rate = beat.step_p50 = float("inf") if number % 2 else float("nan")
            beat.inputs, beat.input_ages = [f"t{number}x{i}" for i in range(32)], np.ones(32, np.float32)
            beats.publish(beat)
            lie(f"/liar{number}")
            if number % 8 == 0:
                figures.listen(0.02)
        for name in ("/no such", "/a\nbrain_region_up 7", '/"}', "/日本", ""):
            beats.publish(heartbeat.heartbeat(name, "zenoh", 2, stamp=0.0, now=0.0))
        beats.publish(heartbeat.heartbeat("/vision", "zenoh", 2, stamp=0.0, now=0.0))

        def up():
            figures.listen(0.1)
            return {row[0][0] for family in figures.families() if family.name == "brain_region_up"
                    for row in family.rows if row[1]}

        until(lambda: "/vision" in up())    # it was in the graph, so it has its place

        def lies():
            """All families, once what a listed liar says of its hops is among them: much of it was too much to keep."""
            found = {family.name: family for family in figures.families()}
            if found["brain_hop_lost_total"].rows:
                return found
            lie(next(row[0][0] for row in found["brain_region_state"].rows if row[0][0] != "/vision"))
            figures.listen(0.1)
            return None

        families = until(lies)
        names = {row[0][0] for row in families["brain_region_state"].rows}
        assert 10 < len(names) <= REGIONS + 1 and all(name.startswith(("/liar", "/vision")) for name in names)
        assert families["brain_regions_unlisted"].rows[0][1] > 0
        assert len(families["brain_region_input_age_seconds"].rows) <= INPUTS
        assert 0 < len(families["brain_hop_lost_total"].rows) <= HOPS
        assert {row[1] for row in families["brain_region_sent_messages_total"].rows} == {10**18 - 1}
        assert families["brain_region_cut_messages_total"].rows == []
        assert {row[0] for row in families["brain_region_rate_hertz"].rows} == {("/vision",)}
        assert {row[0][1] for row in families["brain_region_state"].rows if row[1] and row[0][0] != "/vision"} <= {
            "other", "silent", "gone"}
        assert {family.name for family in families.values() if "quantile" in family.labels} == {
            family.name for family in families.values() if family.kind == "summary"}
        figures.close()
