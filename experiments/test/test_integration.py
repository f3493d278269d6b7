# SPDX-License-Identifier: Apache-2.0
"""What `brain bench integration` counts."""
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from brain import cli
from brain_eval import ablations
from brain_eval.episodes import run_local
from brain_sim.suite import episodes
from experiments import integration, memory


class Both(integration.Approaches):
    """Notes what was approached, and where the robot was in the end."""

    def look(self, host, since):
        super().look(host, since)
        self.simulation = host.regions["world"].simulation
        self.control = host.latest("pfc/control")


@pytest.mark.extended
def test_a_thing_that_is_approached_is_the_one_the_robot_then_stands_before():
    chosen = next(e for e in episodes("val", 40, 3) if e.kind == "go" and e.visibility == "front")
    watched = Both()
    assert run_local(chosen, onlooker=watched)["success"]
    things = watched.simulation.room.objects
    nearest = min(range(len(things)), key=lambda n: things[n].footprint.distance_at(
        watched.simulation.x, watched.simulation.y))
    assert watched.right.total() > 5 and not watched.wrong
    assert watched.right.most_common(1)[0][0] == nearest and things[nearest].kind == chosen.target


@pytest.mark.extended
def test_what_was_not_asked_for_counts_as_wrong():
    """The same approach, for somebody who was asked for something else."""
    chosen = next(e for e in episodes("val", 40, 3) if e.kind == "go" and e.visibility == "front")
    watched, other = Both(), integration.Approaches()

    class Misheard:
        def begin(self, host, episode):
            watched.begin(host, episode)

        def look(self, host, since):
            watched.look(host, since)
            heard = host.latest("pfc/control")
            if heard is not None:
                told = SimpleNamespace(mode=heard.mode, bearing=heard.bearing, distance=heard.distance,
                                       target_color=heard.target_color % 4 + 1, target_shape=heard.target_shape)
                other.look(SimpleNamespace(regions=host.regions, latest=lambda topic: told), since)

    run_local(chosen, onlooker=Misheard())
    assert other.wrong == watched.right and not other.right


def test_the_sums_and_the_interval_of_both_sides():
    def side(wrong, outcome="success"):
        return {"id": "x", "wrong": wrong, "wrong_looks": 5 * wrong, "looks": 50, "outcome": outcome, "time": 1.0}
    found = [{"with": side(0), "without": side(2)}, {"with": side(1), "without": side(1, "timeout")},
             {"with": side(0), "without": side(4)}]
    told = integration.summary(found)
    assert told["with"] == {"wrong": 1, "episodes_with_wrong": 1, "wrong_looks": 5, "looks": 150, "success": 3}
    assert told["without"]["wrong"] == 7 and told["without"]["success"] == 2
    low, high = told["interval95"]
    assert told["difference"] == -2.0 and -4.0 <= low < -2.0 < high <= 0.0
    assert integration.summary(found[:1] * 3)["interval95"] is None   # all pairs differ by the same
    times = [{"restored": 6.0, "blank": blank} for blank in (7.0, 9.5, 6.0, 20.0)]
    of_memory = memory.difference(times)
    assert of_memory["mean"] == pytest.approx(-4.625) and -14.0 <= of_memory["low"] < -4.625 < of_memory["high"] <= 0.0


def test_both_sides_see_the_same_mistakes():
    assert ablations.parse(integration.SIDES["with"]).classes == ablations.parse(
        integration.SIDES["without"]).classes == {"vision": "brain_eval.baselines.confused_vision:ConfusedVision"}
    assert ablations.parse(integration.SIDES["without"]).parameters == {"pfc": {"integrate": False}}


@pytest.mark.extended
def test_the_command_tells_both_sides():
    result = CliRunner().invoke(cli.app, ["bench", "integration", "--episodes", "1", "--seed", "5", "--json"])
    report = json.loads(result.stdout)
    assert report["n"] == 1 and len(report["pairs"]) == 1 and report["with"]["looks"] > 0
    assert (result.exit_code == 0) == (2 * report["with"]["wrong"] <= report["without"]["wrong"] > 0)


@pytest.mark.parametrize("bench", ["integration", "memory"])
def test_a_split_that_there_is_not_is_named(bench):
    result = CliRunner().invoke(cli.app, ["bench", bench, "--split", "vall"])
    assert result.exit_code == 2 and "vall" in result.stderr and "train" in result.stderr
