# SPDX-License-Identifier: Apache-2.0
"""Databases that are lost, restored from a backup or copied: noticed, not obeyed backwards, told with the remedy."""
from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from brain.cli import app

pytestmark = pytest.mark.slow


def order(fleet, wanted, *gains):
    """Orders one value after the other, each of which arrives."""
    for gain in gains:
        fleet.ask("apply", resources=[wanted(gain=float(gain))])
        version = fleet.robot()["version"]
        fleet.until_robot(waiting=0, version=version)


def held(fleet, name="robot1"):
    return [one["version"] for one in fleet.here(name)["resources"]]


def gains(fleet, name="robot1"):
    """What a robot is held to."""
    with closing(sqlite3.connect(f"file:{fleet.database(name)}/fleet.db?mode=ro", uri=True)) as db:
        return [json.loads(spec)["values"]["gain"] for (spec,) in db.execute("SELECT spec FROM desired")]


def accepted(fleet):
    """Takes all in anew, and waits until everything is said that was to be said."""
    fleet.ask("accept")
    fleet.until_robot(state="connected", waiting=0)


def test_a_cloud_that_was_restored_is_not_obeyed_backwards(fleet, wanted, until, events):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1, 2)
    fleet.end("cloud", signal.SIGTERM)
    fleet.keep_copy("cloud")
    fleet.cloud()
    order(fleet, wanted, 3, 4)
    fleet.end("cloud")
    fleet.restore("cloud")
    fleet.cloud()
    why = fleet.until_robot(state="apart")["apart"]
    assert "restored from an older state" in why and "`" not in why
    fleet.until_said("cloud", "Nothing is exchanged with it until `brain fleet accept robot1`")
    fleet.ask("apply", resources=[wanted(gain=9.0)])
    until(lambda: "the cloud and this robot are apart" in fleet.said("robot1"))
    fleet.until_said("robot1", "`brain fleet accept robot1` at the cloud takes it in anew")
    assert gains(fleet) == [4.0]      # it goes on as it was last told
    accepted(fleet)
    until(lambda: gains(fleet) == [9.0], lambda: fleet.said("robot1"))
    order(fleet, wanted, 5)
    assert gains(fleet) == [5.0] and any("robot1 is taken in anew" in text for text in events())


def test_a_cloud_that_lost_all_is_not_obeyed_and_a_robot_keeps_what_it_has(fleet, wanted, until):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    fleet.end("cloud")
    shutil.rmtree(fleet.database("cloud"))
    fleet.cloud()
    assert "belongs to a fleet that the database of this cloud does not know" in (
        fleet.until_robot(state="apart")["apart"])
    assert gains(fleet) == [1.0]
    fleet.ask("apply", resources=[wanted("other", gain=2.0)])
    accepted(fleet)
    until(lambda: gains(fleet) == [2.0])


def test_a_robot_that_was_restored_is_noticed_and_taken_in_anew(fleet, wanted, until, events):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    fleet.until_robot(resources={"waiting": 1})
    fleet.end("robot1", signal.SIGTERM)
    fleet.keep_copy("robot1")
    fleet.edge()
    order(fleet, wanted, 2, 3)
    fleet.until_robot(resources={"waiting": 1})
    fleet.end("robot1")
    fleet.restore("robot1")
    fleet.edge()
    assert "restored from an older state" in fleet.until_robot(state="apart")["apart"]
    accepted(fleet)
    until(lambda: gains(fleet) == [3.0])
    assert any("a second installation is refused: robot1 comes" in text for text in events())


def test_a_robot_that_lost_all_and_a_second_one_of_its_name_are_kept_out(fleet, wanted, until):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    fleet.edge(folder="second")
    until(lambda: "are apart" in fleet.said("second"))
    found = fleet.robot()
    assert (found["state"], found["apart"]) == ("connected", None) and held(fleet, "second") == []
    (why,) = found["second"].values()
    assert "the one that it had was lost, or two robots have this name" in why
    fleet.end("robot1")                     # the second is the one, says a person
    fleet.until_robot(state="apart")        # since the first is silent
    accepted(fleet)
    until(lambda: gains(fleet, "second") == [1.0])
    # the first, when it comes back, is from before
    fleet.edge()
    until(lambda: "comes with another database than before" in "".join(fleet.robot()["second"].values()))
    assert fleet.robot()["state"] == "connected"


def test_a_copy_of_a_robots_disk_is_refused_and_the_robot_stays_until_a_person_decides(fleet, wanted, until, events):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    fleet.end("robot1", signal.SIGTERM)
    shutil.copytree(fleet.database("robot1"), fleet.database("second"))
    fleet.edge()                            # it comes again, and is no newcomer
    order(fleet, wanted, 2)
    fleet.edge(folder="second")
    fleet.until_said("second", "are apart: robot1 comes with another database than before, as installation")
    order(fleet, wanted, 3)
    found = fleet.robot()
    assert (found["state"], found["apart"], gains(fleet), gains(fleet, "second")) == ("connected", None, [3.0], [1.0])
    ((second, why),) = found["second"].items()
    assert "is a copy of another robot's" in why and any(why in text for text in events())
    assert f"`brain fleet accept robot1 --installation {second}` makes it the one" in fleet.said("cloud")
    refused = "a second robot1 is refused"
    for verb, said in ((["nodes"], refused), (["status"], refused), (["accept", "robot1"], "several installations say"),
                       (["accept", "robot1", "--installation", 16 * "0"],
                        "no installation, or more than one, of robot1")):
        done = CliRunner().invoke(app, ["fleet", *verb, "--cloud", f"tcp/localhost:{fleet.port}"])
        assert said in " ".join(done.output.split()), done.output
    fleet.end("cloud")                      # which is in the database, not in a process
    fleet.cloud()
    until(lambda: fleet.robot()["second"] and fleet.robot()["state"] == "connected", lambda: fleet.robot())
    fleet.ask("accept", robots=["robot1"], installation=second[:8])
    until(lambda: gains(fleet, "second") == [3.0], lambda: fleet.said("second"))
    until(lambda: "are apart" in fleet.said("robot1"))
    order(fleet, wanted, 4)
    assert (gains(fleet), gains(fleet, "second")) == ([3.0], [4.0])


def test_a_robot_from_before_keeps_its_name_and_its_orders(fleet, wanted, until):
    """Databases of the version before, at both ends, in which no installation stands."""
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    for name in ("robot1", "cloud"):
        fleet.end(name, signal.SIGTERM)
        with closing(sqlite3.connect(fleet.database(name) / "fleet.db")) as db, db:
            db.execute("DELETE FROM about WHERE key = 'installation'")
            db.execute("ALTER TABLE peers DROP COLUMN installation")
            db.execute("PRAGMA user_version = 4")
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected", apart=None)
    order(fleet, wanted, 2)
    assert gains(fleet) == [2.0]


def test_a_cloud_from_before_a_robot_was_taken_in_anew_is_noticed(fleet, wanted):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    fleet.end("cloud", signal.SIGTERM)
    fleet.keep_copy("cloud")
    fleet.cloud()
    fleet.until_robot(state="connected")
    fleet.ask("accept", robots=["robot1"])
    order(fleet, wanted, 1)
    fleet.end("cloud")
    fleet.restore("cloud")
    fleet.cloud()
    assert "not in the same epoch: the database of one of them was restored" in (
        fleet.until_robot(state="apart")["apart"])
    assert gains(fleet) == [1.0]
