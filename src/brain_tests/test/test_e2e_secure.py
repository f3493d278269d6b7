# SPDX-License-Identifier: Apache-2.0
"""A secured brain as a person starts it: keys, up, status, run, and what somebody without keys is told."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_wire.router import free_port
from brain_runtime import LATCHED
from brain_wire import messages
from brain_wire import NoAnswer, Watch, open_node, open_session

PATIENCE = 240.0     # s; only against waiting for ever
STRING = "std_msgs/msg/String"
REGIONS = '''
from brain_runtime import FEATURE, LATCHED, In, Out, Region

class Eye(Region):
    rate = 20.0
    seen = Out("eye/seen", "std_msgs/msg/String", FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"seen": self.seen(data="seen")}, state

class Mind(Region):
    seen = In("eye/seen", "std_msgs/msg/String", FEATURE, trigger=True)
    goal = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    estop = In("estop", "std_msgs/msg/Bool", LATCHED, trigger=True, device=True)
    said = Out("mind/said", "std_msgs/msg/String", LATCHED)
    told = Out("estop/status", "std_msgs/msg/Bool", LATCHED)

    def step(self, inbox, state, dt, rng):
        out = {}
        if inbox.new("goal"):
            out["said"] = self.said(data=inbox.get("seen").data + " " + inbox.get("goal").data)
        if inbox.new("estop"):
            out["told"] = self.told(data=inbox.get("estop").data)
        return out, state
'''
GRAPH = "name: tiny\nregions:\n  eye: secure_regions:Eye\n  mind: secure_regions:Mind\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def brain(tmp_path):
    """Runs the command in a folder of its own; ``up`` is ended afterwards."""
    (tmp_path / "secure_regions.py").write_text(REGIONS)
    (tmp_path / "tiny.graph.yaml").write_text(GRAPH)
    port = free_port()

    class Brain:
        folder = tmp_path
        domain = port % 200
        endpoint = f"tls/localhost:{port}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("BRAIN_", "ZENOH_"))} | {
            "ROS_DOMAIN_ID": str(domain), "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
        children: list = []

        def __call__(self, *arguments, **more):
            return subprocess.run([sys.executable, "-m", "brain", *arguments], env=self.environment | more, text=True,
                                  cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)

        def start(self, *arguments):
            log = open(tmp_path / f"{len(self.children)}.log", "wb")
            self.children.append(subprocess.Popen(
                [sys.executable, "-m", "brain", *arguments], env=self.environment, cwd=tmp_path,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            log.close()

        def text(self, number):
            return (tmp_path / f"{number}.log").read_text()

        def regions(self):
            done = self("status", "--json", "--seconds", "1", "--graph", "tiny.graph.yaml", "--router", self.endpoint,
                        "--secure", "k")
            return {r["name"]: r["state"] for r in json.loads(done.stdout)["regions"]} if done.stdout else {}

        def until(self, condition):
            end = time.monotonic() + PATIENCE
            while not condition():
                assert time.monotonic() < end, [self.text(n) for n in range(len(self.children))]

    found = Brain()
    yield found
    for child in found.children:
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)


@pytest.mark.parametrize("more", [(), ("--one-process",)])
def test_a_secured_brain_from_keys_to_the_end(brain, monkeypatch, more):
    graph = ("--graph", "tiny.graph.yaml", "--world", "none")
    assert brain("keys", "k", *graph).returncode == 0
    brain.start("up", "tiny.graph.yaml", "--world", "none", "--secure", "k", "--router", brain.endpoint, "--run-dir",
                "run", *more)
    brain.until(lambda: brain.regions() == {"/eye": "active", "/mind": "active"})
    monkeypatch.setenv("BRAIN_SECURITY", str(brain.folder / "k"))
    with open_node("brain_say", router=brain.endpoint, domain=brain.domain) as node:
        node.publisher("goal/text", STRING, LATCHED).publish(messages.make(STRING, data="a goal"))
        answers = node.subscription("mind/said", STRING, LATCHED).wait(PATIENCE)
        assert messages.decode(answers[0].data, STRING).data == "seen a goal"
        # Parameters may be read by an operator, and not be set.
        reading = node.client("eye/get_parameters", "rcl_interfaces/srv/GetParameters")
        answer = reading.call(messages.make(reading.type.request, names=["use_sim_time"]), PATIENCE)
        assert len(answer.values) == 1
        setting = node.client("eye/set_parameters", "rcl_interfaces/srv/SetParameters")
        with pytest.raises(NoAnswer, match="does not allow /brain_say to call /eye/set_parameters"):
            setting.call(messages.make(setting.type.request, parameters=[]), 1.0)
    stopped = brain("estop", "--secure", "k", "--router", brain.endpoint)
    assert stopped.returncode == 0 and "stopped" in stopped.stdout, stopped.stderr
    # Rights are complete: no region was warned that it lacks one that its host or its ports need.
    for log in (brain.folder / "run" / "logs").glob("*.log"):
        assert "does not allow" not in log.read_text(), log.read_text()
    # Somebody without keys, and one with a wrong idea of the router.
    plain = brain("status", "--router", brain.endpoint.replace("tls", "tcp"))
    assert plain.returncode == 1 and "give --secure FOLDER" in plain.stderr
    wrong = brain("status", BRAIN_SECURITY="k", BRAIN_ROUTER=brain.endpoint.replace("tls", "tcp"))
    assert wrong.returncode == 1 and "reached by TLS only" in wrong.stderr
    # A region that the keys do not know, and one that takes the file of another.
    refused = brain("run", "secure_regions:Eye", "--name", "third", "--secure", "k", "--router", brain.endpoint)
    assert refused.returncode == 2 and "has no credentials for third (it has eye, mind, operator," in refused.stderr
    brain.start("run", "secure_regions:Eye", "--name", "ear", "--secure", "k/mind.json5", "--router", brain.endpoint)
    brain.until(lambda: "does not allow a node /ear" in brain.text(1) and "to publish /eye/seen" in brain.text(1))
    with open_session(brain.endpoint) as session, Watch(session, brain.domain) as watch:
        assert watch.wait_for(lambda w: {"/eye", "/mind"} <= set(w.nodes()), PATIENCE)
        assert "/ear" not in watch.nodes()
