# SPDX-License-Identifier: Apache-2.0
"""Databases that are lost, restored from a backup or copied: noticed, not obeyed backwards, told with the remedy."""
from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

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
    assert any("robot1 is set apart" in text for text in events())


def test_a_robot_that_lost_all_and_a_second_one_of_its_name_are_kept_out(fleet, wanted, until):
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    order(fleet, wanted, 1)
    fleet.edge(folder="second")
    why = fleet.until_robot(state="apart")["apart"]
    assert "the one that it had was lost, or two robots have this name" in why
    until(lambda: "are apart" in fleet.said("second"))
    assert held(fleet, "second") == []
    fleet.end("robot1")                     # the second is the one, says a person
    accepted(fleet)
    until(lambda: gains(fleet, "second") == [1.0])
    # the first, when it comes back, is from before
    fleet.edge()
    assert "comes with another database than before" in fleet.until_robot(state="apart")["apart"]


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
