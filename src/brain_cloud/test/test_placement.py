# SPDX-License-Identifier: Apache-2.0
"""Placement: the solver finds what trying all places finds, rules hold, bad input is one line, cuts are told."""
from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.placement.channel import SEGMENT, Channel, Way
from brain_cloud.placement.demand import Demand, Heard, Region, demand
from brain_cloud.placement.files import ChainNeed, Costs, EdgeNeed, Needs, PlacementProblem, RegionCost, TopicCost
from brain_cloud.placement.planning import bits, conflict, cuts, keys, plan, spent
from brain_cloud.placement.rehearsal import rehearse
from brain_cloud.placement.solve import FULL, GB, HOUR, Problem, allowed, price
from brain_cloud.placement.tiers import ROBOT, Link, Tier, Tiers
from brain_cloud.placement.verbs import shipped
from brain_wire.router import Router, free_port

pytest.importorskip("highspy")


def tier(name: str, to: str = "", p50: float = 0.0, mbit: float = 1000.0, cores: float = 100.0, gb: float = 0.0,
         loss: float = 0.0, **more: Any) -> Tier:
    link = Link(to, Way(p50, 1.5 * p50, 0.0, loss, 1e6 * mbit), gb) if to else None
    return Tier(name, cores, more.pop("memory", 1e6), link=link, **more)


def region(name: str, hears: tuple[str, ...], says: tuple[str, ...], **more: Any) -> Region:
    return Region(name, more.get("critical", False), more.get("moves", False), None,
                  tuple(Heard(topic, True, 1, False) for topic in hears), says)


def chain(costs: Costs | None = None, within: float = 10.0, tiers: Tiers | None = None, **asked: str) -> Demand:
    """eye -> see -> decide -> act -> wheels."""
    regions = {one.name: one for one in (
        region("see", ("eye",), ("seen",)), region("decide", ("seen",), ("wanted",), critical=True),
        region("move", ("wanted",), ("command",)), region("act", ("command",), ("wheels",), moves=True))}
    costs = costs or Costs({name: RegionCost(0.5, 100.0, 0.004, 0.008) for name in regions},
                           {"eye": TopicCost(20.0, 20_000.0), "seen": TopicCost(20.0, 200.0),
                            "wanted": TopicCost(20.0, 300.0), "command": TopicCost(20.0, 200.0)}, 0.001, 0.002)
    return demand("toy", regions, costs, Needs((ChainNeed("eye", "wheels", within),), without={"see": "it is blind"}),
                  tiers or row(), asked)


def row(**more: Any) -> Tiers:
    more = {"critical": True, **more}
    return Tiers([tier(ROBOT, core_hour=1.0), tier("near", ROBOT, 0.004, core_hour=0.5, critical=more["critical"]),
                  tier("far", "near", 0.020, core_hour=0.1, **more)])


# -- the solver ------------------------------------------------------------------------------------------------------


def drawn(dice: random.Random) -> tuple[Demand, Tiers]:
    """A small graph on a small tree, with limits that often bind."""
    names = [f"r{number}" for number in range(4)]
    topics = [f"t{number}" for number in range(4)]
    regions = {name: region(name, tuple(dice.sample(["sense", *topics], dice.randint(1, 3))), (topics[number],),
                            moves=number == 3) for number, name in enumerate(names)}
    costs = Costs({name: RegionCost(dice.uniform(0.1, 1), dice.uniform(50, 500), 0.001, dice.uniform(0.001, 0.01))
                   for name in names},
                  {topic: TopicCost(dice.uniform(5, 60), dice.uniform(100, 30_000)) for topic in ["sense", *topics]},
                  0.0005, 0.001)
    tiers = [tier(ROBOT, cores=dice.uniform(0.8, 3), memory=dice.uniform(400, 1500), core_hour=1.0, gb_hour=0.1)]
    for name in ("a", "b", "c")[:dice.randint(1, 3)]:
        tiers.append(tier(name, dice.choice([one.name for one in tiers]), dice.uniform(0.001, 0.02),
                          mbit=dice.uniform(1, 30), cores=dice.uniform(0.5, 3), gb=dice.uniform(0, 0.05),
                          speed=dice.uniform(0.5, 2), core_hour=dice.uniform(0.05, 1), gb_hour=dice.uniform(0, 0.1)))
    found = Tiers(tiers)
    return demand("drawn", regions, costs, Needs(), found), found


def brute(wanted: Demand, tiers: Tiers) -> float | None:
    """The least price of all places that keep everything, by trying them all."""
    best: float | None = None
    names = list(wanted.regions)
    for where in itertools.product(tiers.names, repeat=len(names)):
        place = dict(zip(names, where, strict=True))
        if not all(allowed(wanted, name, there) for name, there in place.items()):
            continue
        if any(spent(wanted, tiers, place, budget) > budget.within for budget in wanted.budgets):
            continue
        costs, total, fits = wanted.costs.regions, 0.0, True
        for name, one in tiers.by_name.items():
            here = [costs[other] for other in names if place[other] == name]
            fits &= sum(cost.cores for cost in here) <= one.cores * one.speed
            fits &= sum(cost.memory for cost in here) <= one.memory
        for name, flows in bits(wanted, tiers, place).items():
            link = tiers.link(name)
            fits &= max(flows) <= FULL * 1e-6 * link.way.bandwidth
            total += sum(flows) / 8e-6 * HOUR / GB * link.gb
        total += sum(price(wanted, tiers, name, place[name]) for name in names)
        if fits and (best is None or total < best):
            best = total
    return best


def test_the_solver_finds_what_trying_all_places_finds() -> None:
    dice, possible = random.Random(5), 0
    for number in range(60):
        wanted, tiers = drawn(dice)
        best, found = brute(wanted, tiers), Problem(wanted, tiers).solve(nearest=True)
        assert (best is None) == (found is None), number
        if best is not None and found is not None:
            possible += 1
            assert found.price == pytest.approx(best, rel=1e-5), number
    assert 15 < possible < 60     # both kinds were tried


def test_what_excludes_each_other_is_as_small_as_can_be() -> None:
    dice, tried = random.Random(6), 0
    while tried < 8:
        wanted, tiers = drawn(dice)
        if Problem(wanted, tiers).solve() is not None:
            continue
        tried += 1
        left = conflict(wanted, tiers, {})
        with pytest.raises(PlacementProblem, match="no plan keeps") as told:
            plan(wanted, tiers)
        assert left and all(one in str(told.value) for one in left) and "\n" not in str(told.value)
        assert Problem(wanted, tiers, without=keys(wanted, tiers)).solve() is not None


# -- rules, cuts, words ----------------------------------------------------------------------------------------------


def test_what_moves_and_what_commands_it_stays_and_the_rest_goes_where_it_is_cheapest() -> None:
    found = plan(chain(), row())
    assert found.place == {"see": "far", "decide": "far", "move": ROBOT, "act": ROBOT}
    assert "never leaves the robot: its command drives act" in found.may["move"]["far"] and not found.may["see"]["far"]
    tight = plan(chain(within=0.08), row())
    assert tight.place == {"see": "near", "decide": "near", "move": ROBOT, "act": ROBOT}
    assert "eye to wheels within 80 ms" in tight.may["see"]["far"]
    assert [one.name for one in tight.binding] == ["eye to wheels"] and tight.price > found.price


def test_what_is_critical_leaves_the_robot_only_for_tiers_that_are_said_to_take_it() -> None:
    nowhere = row(critical=False)
    found = plan(chain(tiers=nowhere), nowhere)
    assert found.place == {"see": "far", "decide": ROBOT, "move": ROBOT, "act": ROBOT}
    may = found.may["decide"]
    assert may["near"] == may["far"] and "`critical: true`" in may["far"]
    assert found.without == {"see": "it is blind", "decide": "the robot stands until it is back"}
    with pytest.raises(PlacementProblem, match="decide does not live on far: without it the robot stands"):
        chain(tiers=nowhere, decide="far")
    near = Tiers([tier(ROBOT, core_hour=1.0), tier("near", ROBOT, 0.004, core_hour=0.5, critical=True),
                  tier("far", "near", 0.020, core_hour=0.1)])
    assert plan(chain(tiers=near), near).place == {"see": "far", "decide": "near", "move": ROBOT, "act": ROBOT}
    small = Tiers([tier(ROBOT, cores=1.2), tier("near", ROBOT, 0.004)])
    with pytest.raises(PlacementProblem, match="say `critical: true` of one that decide may live on"):
        plan(chain(tiers=small), small)


def test_a_cut_tells_what_is_lost_and_what_is_left() -> None:
    tiers = row()
    near, far = cuts(chain(tiers=tiers), tiers, {"see": "far", "decide": "near", "move": ROBOT, "act": ROBOT})
    assert near.lost == ("see", "decide") and near.critical == ("decide",) and "stands until decide" in near.left[0]
    assert near.missing == {"move": ("wanted",)} and near.chains == ("eye to wheels",)
    assert far.lost == ("see",) and far.left == ("without see: it is blind",) and far.missing == {"decide": ("seen",)}


def test_a_rehearsal_of_even_links_is_the_sum_of_its_parts_and_a_loss_makes_it_late() -> None:
    place = {"see": "far", "decide": "near", "move": ROBOT, "act": ROBOT}
    wanted, tiers = chain(), row()
    told = rehearse(wanted, tiers, place, wanted.chains[0])
    assert told["p50"] == pytest.approx(told["sum_of_medians"], rel=0.02) and told["n"] > 500
    # out and back, the steps, a router for each end of a link
    assert told["sum_of_medians"] == pytest.approx(2 * 0.024 + 4 * 0.004 + 8 * 0.001, rel=0.02)
    lossy = row(loss=0.02)
    assert rehearse(wanted, lossy, place, wanted.chains[0])["p95"] > told["p95"] + 0.2


# -- the command -----------------------------------------------------------------------------------------------------

ROBOT_TIER = "robot: {cores: 4, memory_mb: 4000}"
FINE = "{to: robot, p50_ms: 2, p99_ms: 4, mbit: 100}"
BAD = {
    "no such file": (None, [], "cannot read the tiers' file"),
    "no robot": ("tiers: {a: {cores: 1, memory_mb: 1}}", [], "there is no tier robot"),
    "not YAML": ("tiers: [", [], "the tiers' file"),
    "negative latency": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 1, memory_mb: 1, link: {{to: robot, p50_ms: -1, p99_ms: "
                         f"2, mbit: 1}}}}}}", [], "tiers.a.link.p50_ms must be at least 0"),
    "jitter": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 1, memory_mb: 1, link: {{to: robot, p50_ms: 1, p99_ms: 9, mbit: 1, "
               f"jitter_ms: 5}}}}}}", [], "jitter_ms is 5, more than p50_ms"),
    "a cycle": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 1, memory_mb: 1, link: {FINE.replace('robot', 'b')}}}, b: {{"
                f"cores: 1, memory_mb: 1, link: {FINE.replace('robot', 'a')}}}}}", [], "in a cycle: a -> b -> a"),
    "nobody there": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 1, memory_mb: 1, link: {FINE.replace('robot', 'x')}}}}}", [],
                     "links to 'x', which is no tier"),
    "a typing error": (f"tiers: {{{ROBOT_TIER.replace('cores', 'core')}}}", [], "cores is missing"),
    "an unknown region": (f"tiers: {{{ROBOT_TIER}}}", ["--place", "cerebellum=robot"], "no region 'cerebellum'"),
    "an unknown tier": (f"tiers: {{{ROBOT_TIER}}}", ["--place", "pfc=mars"], "'mars', which is no tier"),
    "motor": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 9, memory_mb: 9000, link: {FINE}}}}}", ["--place", "motor=a"],
              "motor never leaves the robot, since its motor/command drives brainstem"),
    "brainstem": (f"tiers: {{{ROBOT_TIER}, a: {{cores: 9, memory_mb: 9000, link: {FINE}}}}}",
                  ["--place", "brainstem=a"], "brainstem never leaves the robot, since it commands actuators"),
    "too small": ("tiers: {robot: {cores: 4, memory_mb: 100}}", [], "no plan keeps 100 MB of robot"),
    "no graph": (f"tiers: {{{ROBOT_TIER}}}", ["--costs", "there-is-none.yaml"], "cannot read the costs' file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    text, more, wanted = BAD[name]
    file = tmp_path / f"{name}.yaml"
    if text is not None:
        file.write_text(text)
    done = CliRunner().invoke(app, ["fleet", "plan", "brain", str(file), *more])
    assert done.exit_code in (1, 2) and done.stdout == "", done.stdout
    assert wanted in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_example_is_planned_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    done = CliRunner().invoke(app, ["fleet", "plan", "brain", "example", "--out", str(out)])
    found = json.loads(out.read_text())
    assert done.exit_code == 0 and found["place"]["brainstem"] == found["place"]["motor"] == ROBOT
    assert all(one["spent"] <= one["limit"] + 1e-6 for one in found["limits"])
    assert 0 < found["predicted"]["camera/image_raw to cmd_vel"]["p50"] < 0.1
    assert found["without"]["language"] == "the goal that was given stays" and "motor" not in found["without"]
    assert "pfc: the robot stands until it is back" in done.stdout
    assert "never leaves the robot" in done.stdout and "what a cut of a link would cost" in done.stdout


def test_json_goes_to_standard_output_alone(capfd: pytest.CaptureFixture[str]) -> None:
    # the solver writes past Python, so that only the descriptor tells
    with pytest.raises(SystemExit) as ended:
        app(["fleet", "plan", "brain", str(shipped("tiers.yaml")), "--place", "vision=robot", "--json"])
    assert ended.value.code == 0 and json.loads(capfd.readouterr().out)["place"]["vision"] == ROBOT


@pytest.mark.parametrize(("needs", "wanted"), [
    (Needs((ChainNeed("eye", "ear", 1.0),)), "no triggers lead from 'eye' to 'ear'; from there they lead to command"),
    (Needs(edges=(EdgeNeed("smell", "", 1.0),)), "budget for 'smell', which no region hears; there are command"),
    (Needs(edges=(EdgeNeed("seen", "act", 1.0),)), "budget for 'seen' to 'act', which that region does not hear"),
    (Needs(without={"nose": "nothing"}), "without 'nose', which is no region"),
    (Needs(place={"act": ("far",)}), "act never leaves the robot, since it commands actuators"),
])
def test_needs_of_what_there_is_not_are_refused(needs: Needs, wanted: str) -> None:
    known = chain()
    with pytest.raises(PlacementProblem, match=wanted):
        demand("toy", known.regions, known.costs, needs, row())


def test_what_the_costs_do_not_tell_of_is_named() -> None:
    known = chain()
    with pytest.raises(PlacementProblem, match="the costs tell nothing of region decide, move, act of graph toy"):
        demand("toy", known.regions, Costs({"see": RegionCost(1.0, 1.0, 0.1, 0.1)}), Needs(), row())


def test_a_flood_is_rehearsed_for_as_long_as_it_can_be() -> None:
    known = chain()
    flood = Costs(known.costs.regions, {**known.costs.topics, "wanted": TopicCost(1e6, 1e5)}, 0.001)
    wanted = chain(flood)
    told = rehearse(wanted, row(), {"see": "near", "decide": "near", "move": ROBOT, "act": ROBOT}, wanted.chains[0])
    assert told["n"] <= 20      # it ends, and soon


def test_costs_of_a_brain_that_is_not_there_are_not_measured() -> None:
    at = f"tcp/127.0.0.1:{free_port()}"
    with Router([at]):
        done = CliRunner().invoke(app, ["fleet", "costs", "brain", "--router", at, "--domain", "93", "--seconds", "1"])
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert "region vision of graph brain is not heard; start all of it on this machine" in done.stderr


def test_a_channel_has_the_figures_that_it_was_given_and_nothing_overtakes() -> None:
    way = Way(0.020, 0.050, 0.005, 0.0, 1e9)
    channel = Channel(way, 1)
    delays = sorted(channel.arrival(float(second), 100) - second for second in range(1, 5001))
    assert 0.0198 < delays[2500] < 0.0203 and delays[0] >= 0.015
    assert 0.005 < sum(delay > 0.050 for delay in delays) / 5000 < 0.016
    arrivals = [channel.arrival(6000 + 0.001 * number, 100) for number in range(2000)]
    assert arrivals == sorted(arrivals)
    # 10 pieces of 100 kB at 8 Mbit/s take a second
    narrow = Channel(Way(0.01, 0.01, 0.0, 0.0, 8e6), 1)
    assert [narrow.arrival(0.0, 100_000) for _ in range(10)][-1] == pytest.approx(1.01)


def test_a_lost_segment_comes_after_the_timeout_and_holds_up_what_follows() -> None:
    way = Way(0.010, 0.010, 0.0, 0.1, 1e12)
    channel = Channel(way, 2)
    late = [channel.arrival(10.0 * number, SEGMENT) - 10.0 * number for number in range(1000)]
    assert 60 < sum(delay > 0.1 for delay in late) < 140 and channel.repairs >= sum(delay > 0.1 for delay in late)
    assert min(delay for delay in late if delay > 0.1) == pytest.approx(0.010 + way.timeout)
    assert way.hit(10 * SEGMENT) == pytest.approx(1 - 0.9**10)
