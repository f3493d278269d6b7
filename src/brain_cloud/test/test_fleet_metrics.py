# SPDX-License-Identifier: Apache-2.0
"""The figures of a cloud and an edge, over HTTP from their processes, beside what really happened to them."""
from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brain_edge.reading import Reading
from brain_edge.store import FILE
from brain_security.fleet_keys import alive
from brain_wire import open_session
from brain_wire.router import free_port
from brain_wire.session import Elsewhere

ROBOT = ("robot", "robot1")


class Figures:
    """What a process shows at a port."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"

    def __call__(self) -> dict:
        with urllib.request.urlopen(self._url, timeout=60) as answer:
            text = answer.read().decode()
        return {(one.name, *sorted(one.labels.items())): one.value for family in text_string_to_metric_families(text)
                for one in family.samples}

    def until(self, until, **wanted: float) -> dict:
        """The figures, once those of one name without labels are as wanted."""
        return until(lambda: (found := self()) and all(found.get((name,)) == value for name, value in wanted.items())
                     and found, lambda: (wanted, self()))


def of_database(fleet, query: str) -> int:
    with Reading(fleet.database("cloud")) as reading:
        return reading.rows(query)[0][0]


@pytest.mark.slow
def test_what_is_shown_is_what_happened(fleet, wanted, until):
    ports = {"cloud": free_port(), "robot1": free_port()}
    fleet.more = {name: ["--metrics", str(port)] for name, port in ports.items()}
    cloud, edge = Figures(ports["cloud"]), Figures(ports["robot1"])
    fleet.cloud()
    fleet.ask("status")
    assert ("brain_cloud_robot_connected", ROBOT) not in cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    for name in ("calm", "brisk", "slow"):
        fleet.ask("apply", resources=[wanted(name, region=name)])
        fleet.until_robot(waiting=0)
    with pytest.raises(Exception, match="there is no kind"):
        fleet.ask("apply", resources=[{**wanted(), "kind": "Nonsense"}])
    with pytest.raises(Exception, match="do"):
        fleet.ask('x"} 1\nbrain_cloud_orders_total{order="apply",outcome="done"} 9')
    fleet.until_robot(resources={"waiting": 3})     # no brain runs
    here = edge.until(until, brain_fleet_messages_received_total=2 + 3)    # an empty list, then orders
    there = cloud.until(until, brain_fleet_messages_sent_total=5)
    applied = of_database(fleet, "SELECT SUM(applied) FROM incoming")
    # What a version knows is told twice; the second takes the first one's place where that has not left yet.
    assert 4 <= applied - 1 <= there["brain_fleet_messages_received_total",] <= applied
    edge.until(until, brain_fleet_messages_sent_total=there["brain_fleet_messages_received_total",])
    assert there["brain_cloud_orders_total", ("order", "apply"), ("outcome", "done")] == 3
    assert there["brain_cloud_orders_total", ("order", "apply"), ("outcome", "refused")] == 1
    assert there["brain_cloud_orders_total", ("order", "other"), ("outcome", "refused")] == 1
    assert there["brain_cloud_audit_entries_total",] == 4   # three orders, and who tried the one that was refused
    assert there["brain_cloud_robot_connected", ROBOT] == 1 and there["brain_cloud_links_lost_total",] == 0
    answered = there["brain_fleet_deliveries_total", ("outcome", "answered")]
    assert there["brain_fleet_delivery_seconds_count",] == answered
    resources = {labels[0][1]: value for (name, *labels), value in here.items() if name == "brain_fleet_resources"
                 for labels in [sorted(labels, key=lambda one: one[0] != "state")]}
    assert resources == {"waiting": 3}
    assert here["brain_edge_version",] == 3 and here["brain_edge_cloud_here",] == 1 and here["brain_edge_joined",] == 1

    for cut in (1, 2):
        fleet.relay.cut()
        edge.until(until, brain_edge_links_lost_total=cut, brain_edge_cloud_here=1)
        cloud.until(until, brain_cloud_links_lost_total=cut)
        fleet.until_robot(state="connected")
    started = edge()["process_start_time_seconds",]
    fleet.end("robot1", signal.SIGKILL)
    there = cloud.until(until, brain_cloud_links_lost_total=3)
    assert there["brain_cloud_robots", ("state", "away")] == 1 and there["brain_cloud_robot_connected", ROBOT] == 0
    fleet.edge()
    fleet.until_robot(state="connected")
    here = edge.until(until, brain_edge_cloud_here=1)
    assert here["process_start_time_seconds",] > started and here["brain_edge_links_lost_total",] == 0
    assert here["brain_fleet_messages_received_total",] == 0 and here["brain_edge_version",] == 3   # nothing came twice
    assert cloud()["brain_cloud_robot_links_lost_total", ROBOT] == 3

    # Whoever shows tokens of robots that nobody knows makes no series.
    with open_session(f"tcp/127.0.0.1:{fleet.port}", identity="liar", elsewhere=Elsewhere()) as session:
        tokens = [session.zenoh.liveliness().declare_token(alive(f"liar{number}")) for number in range(50)]
        until(lambda: len(list(session.zenoh.liveliness().get(alive("*")))) > len(tokens))
    assert not [key for key in cloud() if "liar" in str(key)]
    # Somebody who writes does not keep a scrape waiting.
    other = sqlite3.connect(fleet.database("cloud") / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert cloud()["brain_fleet_database_readable",] == 1
    until(lambda: cloud()["brain_cloud_robots", ("state", "away")] == 0)    # a busy machine may have lost its link
    other.execute("ROLLBACK")
    other.close()
    # Nor does a scrape that takes for ever keep anybody who writes.
    with Reading(fleet.database("cloud")) as scrape, scrape.moment():
        assert scrape.rows("SELECT COUNT(*) FROM desired") == [(3,)]
        fleet.ask("delete", resources=[{"kind": "Parameters", "name": "calm"}])
        fleet.until_robot(waiting=0, version=4)
        assert scrape.rows("SELECT COUNT(*) FROM desired") == [(3,)]


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_in_a_line(fleet, tmp_path):
    port = free_port()
    fleet.more = {"cloud": ["--metrics", str(port)]}
    fleet.cloud()
    fleet.ask("status")
    for verb, words in (("cloud", ["--listen", f"tcp/127.0.0.1:{free_port()}"]), ("edge", ["--name", "robot1"])):
        done = subprocess.run([sys.executable, "-m", f"brain_{verb}.processes.run_{verb}", "--folder",
                               tmp_path / f"other_{verb}", "--metrics", str(port), *words],
                              capture_output=True, text=True, timeout=400)
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert last == f"brain {verb}: metrics cannot be served at 127.0.0.1:{port}: Address already in use; name " \
                       "another port"
