# SPDX-License-Identifier: Apache-2.0
"""Robots of several versions in one fleet: they are understood, and each is told what it cannot do."""
from __future__ import annotations

import json

import pytest

from brain_cloud.enrolment import versions
from brain_edge.enrolment.versions import FORM, own
from brain_edge.messages import envelope
from brain_edge.messages.envelope import Answer, Request
from brain_edge.processes.asking import NoCloud
from brain_edge.schema import FormProblem, check


@pytest.mark.slow
def test_each_robot_of_another_version_is_told_by_name_what_it_cannot_do(fleet, wanted, until, monkeypatch, events):
    fleet.whole = True      # another version is made up before anything of it is imported
    fleet.cloud()
    for name, version in (("robot1", "0.1.9 1 1"), ("robot2", "0.9.0 1 4")):
        monkeypatch.setenv("MADE_UP", version)
        fleet.edge(name, cut=False, program="older_edge")
    fleet.edge("robot3", cut=False)
    for name in ("robot1", "robot2", "robot3"):
        fleet.until_robot(name, state="connected", waiting=0)
    until(lambda: "0.1.9" in str(fleet.robot("robot1")["lacks"]) and fleet.robot("robot3")["lacks"] == [] and
          "0.9.0" in str(fleet.robot("robot2")["lacks"]), lambda: fleet.ask("robots"))
    lines = fleet.robot("robot1")["lacks"]
    assert "robot1 runs version 0.1.9" in lines[0] and "values of a Parameters, Region" in lines[0]
    assert "update the software on it" in lines[0] and "messages are exchanged in format 1" in lines[1]
    newer = fleet.robot("robot2")["lacks"]
    assert ", Region" in newer[0] and "update the software in the cloud" in newer[1]
    # An order goes out in a format that each reads; what one does not know it is told at once, and says so itself.
    region = {"apiVersion": "fleet.brain/v1", "kind": "Region", "metadata": {"name": "on", "robots": "all"},
              "spec": {"region": "gauge", "active": True}}
    done = fleet.ask("apply", resources=[wanted(robots="all"), region])["resources"]
    assert [why.partition(":")[0] for why in done[0]["cannot"]] == [
        "robot1 (version 0.1.9) does not know values of a Parameters"]
    assert [why.partition(":")[0] for why in done[1]["cannot"]] == [
        "robot1 (version 0.1.9) knows no Region", "robot2 (version 0.9.0) knows no Region"]
    for name in ("robot1", "robot2", "robot3"):
        fleet.until_robot(name, waiting=0, version=2)
        assert fleet.here(name)["version"] == 2
    until(lambda: fleet.robot("robot1")["resources"] == {"refused": 1, "kept": 1}, lambda: fleet.ask("status"))
    assert fleet.robot("robot3")["resources"] == {"waiting": 2}     # for a brain, which there is not
    assert any("does not know it so: spec has no field 'values'" in one.get("why", "")
               for one in fleet.ask("status")["resources"] if one["robot"] == "robot1")
    assert any("robot1 (version 0.1.9) knows no Region" in text for text in events())
    with pytest.raises(NoCloud, match="this cloud has no keys, so everybody belongs; start it with --secure"):
        fleet.ask("enroll", robot="robot9")
    # The newer one was told which format is read here, the older one tells which it reads; each went on with that.
    fleet.until_said("robot2", "it is of format 4, and this software reads formats 1 to 3: update")
    fleet.until_said("robot1", "it is of format 3, and this software reads format 1: update")
    assert "of a format" not in fleet.said("robot1")
    # It was updated: what it could not do it does.
    fleet.end("robot1")
    fleet.edge("robot1", cut=False)
    until(lambda: fleet.robot("robot1")["resources"] == {"waiting": 2} and fleet.robot("robot1")["lacks"] == [],
          lambda: fleet.ask("robots"))


def test_a_format_is_one_that_both_know(monkeypatch):
    request = Request("robot1", "cloud", "0" * 16, None)
    assert envelope.read_request(envelope.write_request(request)) == request
    before = envelope.write_request(Request("robot1", "cloud", "0" * 16, None, format=1))
    assert "formats" not in json.loads(before) and envelope.read_request(before).formats is None
    found = json.loads(envelope.write_answer(Answer("cloud", "robot1", "0" * 16, None, format=2)))
    assert found["formats"] == [1, 3] and found["format"] == 2
    wrong = {}
    for name, head, why in (
            ("one that no end reads", {"format": 4}, "is of format 4, and this software reads formats 1 to 3: update "
                                                     "the software here"),
            ("an installation", {"format": 2, "installation": "0" * 16}, "no field 'installation' in format 2"),
            ("before the first", {"format": 0}, "update the software where it comes from"),
            ("a field of a later format", {"format": 1, "formats": [1, 2]}, "no field 'formats' in format 1"),
            ("not among its own", {"format": 2, "formats": [3, 4]}, "of a format that its sender does not read"),
            ("three of them", {"format": 2, "formats": [1, 2, 3]}, "at most 2")):
        try:
            envelope.read_request(json.dumps({**json.loads(before), **head}).encode())
            wrong[name] = "taken"
        except FormProblem as problem:
            if why not in str(problem):
                wrong[name] = str(problem)
    assert wrong == {}


def test_what_a_robot_says_of_itself_fits_its_own_form():
    knows = own("1.2.3")
    check(knows, FORM)
    assert "values" in knows["kinds"]["Parameters"]["fields"] and knows["kinds"]["Region"]["effect"]
    assert versions.lacks("robot1", knows, "1.2.3") == []
    assert versions.cannot("robot1", versions.FIRST, "Parameters", {"region": "a", "values": {"b": 1}}) is None
    for bad in ({**knows, "can": ["\x1b[31m"]}, {**knows, "software": "a\nb"}, {**knows, "kinds": {"A": {}}}):
        with pytest.raises(FormProblem):
            check(bad, FORM)
