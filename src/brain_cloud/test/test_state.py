# SPDX-License-Identifier: Apache-2.0
"""What is wanted reaches robots, and a running brain; robots go on alone; nothing is missed or sent twice."""
from __future__ import annotations

import json
import random
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from brain_cloud import audit
from brain_cloud.state.desired import hear
from brain_edge.messages.inbox import Message, Refused
from brain_edge.messages.outbox import Outbox
from brain_edge.processes.alone import Alone, duration
from brain_edge.processes.asking import NoCloud
from brain_edge.processes.settings import FROM_ROBOT
from brain_edge.reading import Reading
from brain_edge.state.apply import settled
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.store import Store
from brain_wire import messages, open_node
from brain_wire.parameter_services import value_of


def gain(fleet, until):
    """The parameter of the region that runs, asked by somebody else."""
    service = "rcl_interfaces/srv/GetParameters"
    with open_node("asker", domain=fleet.brain_port % 200, router=f"tcp/127.0.0.1:{fleet.brain_port}",
                   patience=30.0) as node:
        client = node.client("gauge/get_parameters", service)
        assert client.wait(30.0), fleet.said("gauge")
        return value_of(client.call(messages.make(f"{service}_Request", names=["gain"])).values[0])


def applied_messages(fleet, name="robot1"):
    """How many places of the stream of what is wanted a robot has come by."""
    with closing(sqlite3.connect(f"file:{fleet.database(name)}/fleet.db?mode=ro", uri=True)) as db:
        row = db.execute("SELECT applied FROM incoming WHERE stream = 'desired'").fetchone()
    return row[0] if row else 0


@pytest.mark.slow
def test_what_is_ordered_is_so_on_the_running_brain_and_stays_so_without_a_cloud(fleet, wanted, until):
    fleet.brain_router()
    fleet.region()
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    fleet.ask("apply", resources=[wanted(gain=0.25)])
    fleet.until_robot(resources={"applied": 1})
    assert gain(fleet, until) == 0.25
    # One that the region refuses does not spoil the other, and what is ordered later holds.
    fleet.ask("apply", resources=[wanted("wild", gain=99.0)])
    told = until(lambda: [r for r in fleet.ask("status")["resources"]
                          if r["name"] == "wild" and r["state"] == "refused"])
    assert "gain of gauge is 99.0, but must be between 0.0 and 10.0" in told[0]["why"]
    # Nor does an order name a file of the robot: what the region declares so it refuses, and the cloud its weights.
    fleet.ask("apply", resources=[wanted("wild", record="/etc/passwd", gain=3.0)])
    until(lambda: any("parameter record of gauge is set on this robot alone, by no order" in r.get("why", "")
                      for r in fleet.ask("status")["resources"]), lambda: fleet.ask("status")["resources"])
    assert gain(fleet, until) == 0.25
    for value in ("/tmp/own.safetensors", "/data/models/x.safetensors.part", "motor_ann", ""):
        with pytest.raises(NoCloud, match="spec.values.weights: no order names a file of a robot; .* models add"):
            fleet.ask("apply", resources=[wanted("worse", weights=value)])
    old = settled([Wanted("Parameters", "old", 1, {"region": "motor", "values": {"weights": "/tmp/own.safetensors"}})])
    assert old["Parameters", "old"]["state"] == "refused"
    fleet.ask("delete", resources=[{"kind": "Parameters", "name": "wild"}])
    fleet.until_robot(resources={"applied": 1})
    # A region that is started again knows nothing of a fleet. Neither cloud nor edge need have run in between.
    fleet.end("cloud")
    fleet.end("gauge")
    fleet.end("robot1")
    fleet.edge()
    began = time.monotonic()
    fleet.region()
    until(lambda: gain(fleet, until) == 0.25, lambda: fleet.said("robot1"))
    assert fleet.here()["resources"][0]["state"] == "applied"
    print(f"as it was last told after {time.monotonic() - began:.1f} s")
    fleet.until_said("robot1", "no cloud at")
    # To be deactivated is an order too; then the cloud is back, and the end is in good order.
    fleet.cloud()
    fleet.until_robot(state="connected")
    fleet.ask("apply", resources=[{"apiVersion": "fleet.brain/v1", "kind": "Region", "metadata": {
        "name": "still", "robots": "all"}, "spec": {"region": "gauge", "active": False}}])
    fleet.until_robot(resources={"applied": 2})
    fleet.until_said("robot1", "deactivated gauge")
    assert fleet.end("robot1", signal.SIGTERM) == 0 and fleet.end("cloud", signal.SIGTERM) == 0


@pytest.mark.slow
def test_the_first_order_after_a_cut_arrives_and_each_once(fleet, wanted, until):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    before = until(lambda: applied_messages(fleet))
    for number in range(4):
        fleet.relay.cut()
        fleet.ask("apply", resources=[wanted(gain=float(number))])      # while the link is down, or coming up
        version = fleet.robot()["version"]
        until(lambda: fleet.here()["version"] == version, lambda: (fleet.here(), fleet.said("robot1")))
    assert applied_messages(fleet) == before + 4
    # While it is away, what is changed often arrives once, as it is last; and what was never known is no matter.
    fleet.relay.cut(stay=True)
    fleet.until_robot(state="away")
    for number in range(5):
        fleet.ask("apply", resources=[wanted(gain=number / 2), wanted("gone", gain=1.0)])
    fleet.ask("delete", resources=[{"kind": "Parameters", "name": "gone"}])
    assert fleet.robot()["waiting"] == 2
    fleet.relay.mend()
    fleet.until_robot(waiting=0)
    here = fleet.here()
    assert [(r["name"], r["version"]) for r in here["resources"]] == [("calm", here["version"] - 1)]
    # The same order again is nothing new.
    assert fleet.ask("apply", resources=[wanted(gain=2.0)])["resources"][0]["changed"] == []


@pytest.mark.slow
def test_orders_hold_whatever_is_cut_and_killed_between_them(fleet, wanted, until):
    draw, have = random.Random(2), {}
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    for _ in range(20):
        name = f"n{draw.randrange(4)}"
        if name in have and draw.random() < 0.3:
            fleet.ask("delete", resources=[{"kind": "Parameters", "name": name}])
            del have[name]
        else:
            have[name] = draw.random()
            fleet.ask("apply", resources=[wanted(name, gain=have[name])])
        happens = draw.random()
        if happens < 0.2:
            fleet.end("cloud")
            fleet.cloud()
        elif happens < 0.4:
            fleet.end("robot1")
            fleet.edge()
        elif happens < 0.7:
            fleet.relay.cut()

    def held():
        with closing(sqlite3.connect(f"file:{fleet.database('robot1')}/fleet.db?mode=ro", uri=True)) as db:
            return {name: json.loads(spec)["values"]["gain"]
                    for name, spec in db.execute("SELECT name, spec FROM desired")}

    until(lambda: held() == have, lambda: (held(), have, fleet.robot()))
    told = until(lambda: (found := fleet.robot())["waiting"] == 0 and "ordered" not in found["resources"] and found,
                 fleet.robot)
    assert told["state"] == "connected" and sum(told["resources"].values()) == len(have)


def test_a_robot_that_joins_later_is_told_all(fleet, wanted):
    fleet.cloud()
    fleet.ask("apply", resources=[wanted("everyone", "all"), wanted("early", ["robot1"], label="x"),
                                  wanted("other", ["robot2"]),
                                  {"apiVersion": "fleet.brain/v1", "kind": "Model", "metadata": {
                                      "name": "eyes", "robots": "all"},
                                   "spec": {"region": "vision", "digest": "sha256:" + "0" * 64}}])
    assert fleet.robot()["state"] == "unknown"
    fleet.edge()
    fleet.until_robot(state="connected", resources={"waiting": 3})
    assert [r["name"] for r in fleet.here()["resources"]] == ["eyes", "early", "everyone"]


def test_time_without_the_cloud_is_told_once_and_known_after_a_restart(tmp_path):
    now = [1000.0]

    def later(seconds):
        now[0] += seconds
        store.elapsed._base += seconds

    with Store(tmp_path, "robot1") as store:
        alone = Alone(store, lambda: now[0])
        alone.heard()
        later(14.0)
        assert alone.look() is None
        later(2.0)
        assert alone.look() == "robot1 is without its cloud, and goes on as it was last told"
        later(3600.0)
        assert alone.look() is None
        with Reading(tmp_path) as reading:
            assert reading.status()["alone_s"] >= 16.0
        again = Alone(store, lambda: now[0])
        later(60.0)
        assert again.look() is None     # it was told before the restart
        again.heard()
        assert again.look() == "robot1 has its cloud again, after 1 h 1 min"
        with Reading(tmp_path) as reading:
            assert reading.status()["alone_s"] is None


def test_what_the_cloud_says_is_checked_and_never_obeyed_backwards(tmp_path):
    with Store(tmp_path, "robot1") as store:
        held = DesiredState(store, Outbox(store, FROM_ROBOT))

        def hear(what, **body):
            with store.change() as db:
                held.hear(db, Message("cloud", "desired", 1, what, body))

        one = {"kind": "Parameters", "name": "calm", "spec": {"region": "gauge", "values": {"gain": 1.0}}}
        hear("set", version=5, **one)
        hear("set", version=4, **{**one, "spec": {"region": "gauge", "values": {"gain": 9.0}}})
        hear("delete", version=5, kind="Parameters", name="calm")
        assert [(w.version, w.spec["values"]) for w in held.wanted()] == [(5, {"gain": 1.0})]
        for kind, body in (("burn", {}), ("set", {**one, "version": "6"}), ("set", {**one, "version": 6, "more": 1}),
                           ("delete", {"kind": "parameters", "name": "calm", "version": 6})):
            with pytest.raises(Refused):
                hear(kind, **body)
        # A list says what there is: what it leaves out is wanted no more, whatever the versions were.
        hear("list", list="a" * 16, count=1)
        hear("set", version=2, **{**one, "name": "new"})
        hear("listed", list="a" * 16, version=2)
        assert [(w.name, w.version) for w in held.wanted()] == [("new", 2)] and held.version() == 2


def test_of_two_orders_about_one_parameter_the_later_holds_and_the_earlier_says_so():
    early = Wanted("Parameters", "early", 1, {"region": "gauge", "values": {"gain": 1.0}})
    late = Wanted("Parameters", "late", 2, {"region": "gauge", "values": {"gain": 2.0, "label": "x"}})
    other = Wanted("Parameters", "other", 3, {"region": "gauge", "values": {"gain": 2.0}})      # says the same
    on, off = (Wanted("Region", name, version, {"region": "gauge", "active": bool(version % 2)})
               for name, version in (("on", 5), ("off", 6)))
    newer = Wanted("Region", "newer", 7, {"region": "gauge", "energy": 3})
    strange = Wanted("Dream", "strange", 8, {})
    found = settled([early, late, other, on, off, newer, strange])
    assert set(found) == {("Parameters", "early"), ("Region", "on"), ("Region", "newer"), ("Dream", "strange")}
    assert found["Dream", "strange"]["state"] == "kept"
    assert "does not know it so: spec.active is missing" in found["Region", "newer"]["why"]
    assert found["Parameters", "early"]["why"] == (
        "Parameters late, ordered later, says otherwise of gain of gauge; delete one of them")
    assert "whether gauge is active" in found["Region", "on"]["why"]


def test_no_robot_fills_the_clouds_disk_or_talks_an_order_out_of_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr("brain_edge.state.events.KEPT", 50)
    with Store(tmp_path, "cloud") as store, store.change() as db:
        audit.write(db, "", "ann", "ordered something")
        for number in range(300):
            hear(db, Message("robot1", "events", number, "event", {"at": "now", "text": f"said {number}"}))
            hear(db, Message("robot1", "reports", number, "report", {
                "kind": "Parameters", "name": f"n{number}", "version": 1, "status": {"state": "applied"}}))
        assert db.execute("SELECT COUNT(*) FROM reported").fetchone() == (0,)
        told = [text for (text,) in db.execute("SELECT text FROM events ORDER BY number")]
        assert told[0] == "ordered something" and told[-1] == "said 299" and len(told) < 200


def test_durations_are_told_as_people_say_them():
    assert [duration(s) for s in (-1, 9.9, 75, 3720, 90_000)] == ["0 s", "9 s", "1 min 15 s", "1 h 2 min", "1 d 1 h"]
