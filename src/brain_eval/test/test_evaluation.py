# SPDX-License-Identifier: Apache-2.0
"""Policies, results and episodes in lockstep."""
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from brain import cli
from brain_eval.baselines.confused_vision import MISTAKEN
from brain_eval import ablations, policies, results
from brain_eval.episodes import run_local
from brain_eval.lockstep import lockstep_parts
from brain_eval.results import group, share, summary
from brain_runtime.graph import graphs
from brain_runtime.contract.ablation import NONE
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import Control
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.robots import load_robot
from brain_runtime.contract.stepper import RegionError
from brain_sim.suite import episodes
from brain_wire import messages


def made_up(outcome, *, kind="go", lang="en", visibility="front", time=10.0, spl=0.5):
    return {"id": "x", "kind": kind, "lang": lang, "visibility": visibility, "outcome": outcome,
            "success": outcome == "success", "time": time, "spl": spl if outcome == "success" else 0.0,
            "synops": 1e6, "spikes": 1e4, "simulated": 20.0, "wall": 4.0}


def test_shares_carry_wilson_intervals():
    found = share(80, 100)
    assert found["share"] == 0.8
    assert found["wilson95"] == pytest.approx([0.7112, 0.8666], abs=2e-4)  # Wilson 1927, worked by hand
    assert share(0, 0)["wilson95"] == [0.0, 1.0]


def test_groups_and_classes():
    some = [made_up("success"), made_up("contact", visibility="hidden"), made_up("timeout", lang="ja"),
            made_up("success", kind="stop", spl=1.0), made_up("wrong_object", visibility="hidden", time=math.nan)]
    found = summary(some)
    assert found["all"]["n"] == 5 and found["all"]["success"]["count"] == 2
    assert found["visibility"]["hidden"]["contact"]["share"] == 0.5
    assert found["visibility"]["hidden"]["wrong_object"]["share"] == 0.5
    assert found["kind"]["stop"]["success"]["share"] == 1.0
    assert found["all"]["spl"] == pytest.approx(0.5 / 4)    # of what was to be driven to, failures count as 0
    assert found["all"]["time"] == 10.0
    assert found["times_real_time"] == 5.0


def test_outcomes_beyond_the_usual_are_counted_too():
    assert group([made_up("avoid_violated"), made_up("error")])["error"]["count"] == 1


def test_shuffled_words_belong_to_an_episode_with_another_target():
    some = episodes("val", 20)
    for index, episode in enumerate(some):
        told = policies.told("shuffled-words", some, index)
        owner = next(e for e in some if e.script == told.script)
        assert owner.target != episode.target
        assert replace(told, sentence=episode.sentence, stop_text=episode.stop_text,
                       stop_after=episode.stop_after) == episode
        assert policies.told("brain", some, index) is episode
    with pytest.raises(ValueError, match="--episodes"):
        policies.told("shuffled-words", some[:1], 0)


@pytest.mark.extended("blind")      # test_the_blind_brain_sees_nothing takes them too
@pytest.mark.parametrize("policy", ["scripted", "blind"])
def test_a_control_takes_the_parameters_of_the_shipped_file(policy):
    some = episodes("val", 20)
    result = run_local(next(e for e in some if e.kind == "nonsense"), policy)
    assert result["outcome"] == "success", result


def test_shuffled_words_are_judged():
    """An episode whose own words ask for nothing, told to go somewhere: the referee sees it move."""
    some = episodes("val", 20)
    index = next(i for i, e in enumerate(some) if e.kind == "nonsense")
    result = run_local(policies.told("shuffled-words", some, index), "shuffled-words")
    assert result["outcome"] == "moved" and not result["success"]
    assert result["sentence"] != some[index].sentence


def classes(policy, ablation=NONE):
    changed = policies.ablation_of(policy, ablation, "brain")
    return {region.name: region.cls for region in resolve("brain", "sim", None, ablation=changed).regions}


def test_controls_change_one_region(tmp_path):
    plain = classes("brain")
    for policy, region in (("blind", "camera"), ("scripted", "vision")):
        changed = classes(policy)
        assert {n for n in plain if plain[n] != changed[n]} == {region}
    assert classes("shuffled-words") == plain
    assert classes("scripted", ablations.parse(["vision=late"])) == classes("brain", ablations.parse(["vision=late"]))
    with pytest.raises(ValueError, match="does not run a brain"):
        policies.ablation_of("oracle")
    (small := tmp_path / "small.graph.yaml").write_text(
        "regions: {vision: 'brain_regions.goals:Goals'}\nworlds: {w: {world: 'brain_sim.world:World'}}")
    with pytest.raises(ValueError, match="policy blind replaces the region camera, which graph small does not have"):
        policies.ablation_of("blind", graph=str(small))
    with pytest.raises(ValueError, match="policy scripted replaces the region vision .*:Goals names none"):
        policies.ablation_of("scripted", graph=str(small))
    with pytest.raises(ValueError, match="an ablation replaces the region pfc, which graph small does not have"):
        resolve(small, robot=None, ablation=ablations.parse(["pfc=ann"]))


def test_a_controls_region_has_the_ports_of_what_it_replaces():
    for policy, region in (("blind", "camera"), ("scripted", "vision")):
        one, other = (resolve("brain", "sim", None, ablation=policies.ablation_of(p)).region(region).load()
                      for p in ("brain", policy))
        wire = lambda r: {(p.topic, p.type) for p in r.outputs().values()} - {  # noqa: E731
            ("brain/spikes", "brain_interfaces/msg/SpikeTrain")}
        assert wire(one) == wire(other)


def first(kind, **more):
    return next(e for e in episodes("val", 60) if e.kind == kind and all(getattr(e, k) == v for k, v in more.items()))


@pytest.fixture(scope="module")
def front():
    """An episode that a whole brain reaches before its time limit, and the brain's result."""
    episode = replace(first("go", visibility="front"), time_limit=10.0)
    result = run_local(episode)
    assert result["success"], result
    return episode, result


def test_the_brain_stands_still_at_nonsense():
    result = run_local(first("nonsense"))
    assert result["outcome"] == "success", result["reason"]
    assert result["synops"] > 0 and result["violations"] == 0


@pytest.mark.extended
@pytest.mark.slow
def test_an_episode_is_the_same_again():
    episode = first("stop")
    one, other = run_local(episode), run_local(episode)
    del one["wall"], other["wall"]
    assert one == other


@pytest.mark.slow
def test_a_budget_that_is_never_short_changes_no_episode_and_counts_what_was_sent(front):
    episode, result = front
    plain, counted = dict(result), run_local(episode, energy=1e12)
    traffic = counted.pop("traffic")
    del plain["wall"], counted["wall"]
    assert counted == plain
    assert set(traffic) == {"brain/spikes", "brain/trace", "cmd_vel", "estop/status", "goal/status", "lang/features",
                            "motor/command", "motor/status", "pfc/control", "place/headings", "sensor/features",
                            "vision/objects"}
    assert not any(t["gated"] or t["cut"] or t["saved"] for t in traffic.values())
    frames = traffic["vision/objects"]["messages"]
    assert frames == pytest.approx(20 * plain["simulated"], abs=2) and traffic["brain/spikes"]["messages"] == frames
    per_second = results.traffic([{**counted, "traffic": traffic}])
    assert per_second["all"]["bytes"] == pytest.approx(sum(t["bytes"] for n, t in per_second.items() if n != "all"))


@pytest.mark.extended       # test_conformance shows it of a region, on each host
@pytest.mark.slow
def test_with_one_byte_a_second_all_that_is_critical_passes_and_no_stream_is_silent():
    """A whole brain at an episode in which it is told to stop."""
    from brain_eval.episodes import Referee, play, traffic_of
    from brain_runtime.hosts.local import LocalHost

    episode = first("stop")
    resolved = resolve("brain", "sim", None, energy=1.0, host="local")
    brain = resolved.make()
    made, heard = [], []
    step = brain["pfc"].step

    def spied(*arguments):
        outbox, state = step(*arguments)
        made.append(outbox["control"])
        return outbox, state
    brain["pfc"].step = spied
    host = LocalHost(brain, seed=episode.seed, critical=resolved.critical, parameters=resolved.parameters())
    referee = Referee(episode.id)
    host.listen("sim/verdict", lambda m: referee.hear(m.data))
    host.listen("pfc/control", lambda m: heard.append((host.now, m)))
    play(host, episode, episode.script, referee)
    assert referee.verdict["success"], referee.verdict
    traffic = traffic_of(host)
    for topic in ("lang/features", "goal/status", "motor/command", "cmd_vel", "estop/status"):
        assert traffic[topic]["messages"] > 0 and traffic[topic]["gated"] == 0, topic
    stops = [m for m in made if m.mode == Control.MODE_STOP or m.hazard.any()]
    assert stops and {id(m) for m in stops} <= {id(m) for _, m in heard}
    assert traffic["pfc/control"]["gated"] > 10 and traffic["brain/trace"]["gated"] > 100
    assert traffic["brain/spikes"]["saved"] > 100 * traffic["brain/spikes"]["bytes"]
    times = [now for now, _ in heard]
    assert max(b - a for a, b in zip(times, times[1:])) < 0.1


def test_the_blind_brain_sees_nothing():
    from brain_runtime.hosts.local import LocalHost

    resolved = resolve("brain", "sim", None, ablation=policies.ablation_of("blind"), host="local")
    host = LocalHost(resolved.make(), parameters=resolved.parameters())
    pictures = []
    host.listen("camera/image_raw", pictures.append)
    host.advance(0.5)
    assert pictures and all(len(p.data) == p.height * p.width * 3 for p in pictures)
    seen = np.mean([p.data for p in pictures], 0).reshape(pictures[0].height, -1)
    assert np.ptp(seen, 1).max() < 12.0 < np.ptp(seen)      # nothing beside anything else


def test_a_region_that_raises_is_an_error_of_its_episode(tmp_path, monkeypatch):
    (tmp_path / "raises.py").write_text(
        "from brain_runtime import Region\n\nclass Raises(Region):\n    rate = 10.0\n\n"
        "    def step(self, inbox, state, dt, rng):\n        raise ValueError('by design')\n")
    monkeypatch.syspath_prepend(tmp_path)
    shipped = graphs.find_graph("brain").read_text()
    (tmp_path / "odd.graph.yaml").write_text(shipped.replace("regions:\n", "regions:\n  odd: raises:Raises\n", 1))
    result = run_local(first("nonsense"), graph=str(tmp_path / "odd.graph.yaml"))
    assert result["outcome"] == "error" and "odd failed in step 1: ValueError: by design" in result["reason"]
    assert not result["success"]


def test_results_say_what_they_were_measured_with():
    found = results.environment()
    assert found["cpu"] and found["cores"] >= 1 and len(found["suite_hash"]) == 64
    assert any(name.endswith("vision.safetensors") for name in found["weights"])


def test_the_regions_are_given_the_simulated_robots_profile(tmp_path):
    """Over the file beside the graph, as `brain up` has it."""
    class Looks:
        def begin(self, host, episode):
            seen.append(host.regions["brainstem"].parameters.max_linear)
            raise RegionError("enough")

    seen = []
    (tmp_path / "mine.graph.yaml").write_bytes(graphs.find_graph("brain").read_bytes())
    (tmp_path / "mine.params.yaml").write_text("/**/brainstem: {ros__parameters: {max_linear: 0.2}}\n")
    with pytest.raises(RegionError, match="enough"):
        run_local(episodes("val", 1)[0], graph=str(tmp_path / "mine.graph.yaml"), onlooker=Looks())
    limit = load_robot("sim").shared["max_linear"]
    assert seen == [limit] and lockstep_parts("val", 1)[1]["brainstem"]["max_linear"] == limit != 0.2


def test_a_plugin_sensor_joins_an_evaluation():
    regions = resolve("brain", "sim", None, join=policies.joined(["brain_sim.plugin_sensors:Sonar"])).make()
    assert list(regions)[-1] == "sonar" and regions["sonar"].name == "sonar"
    with pytest.raises(ValueError, match="package.module:Class"):
        policies.joined(["Sonar"])


def test_parameters_of_the_file_beside_a_graph_count(tmp_path):
    def given(graph):
        return resolve(graph, "sim", None, host="local").region("brainstem").parameters

    assert set(given("brain")) == {"critical"}    # regions take the robot for the simulated one, unless they are told
    (tmp_path / "mine.graph.yaml").write_bytes(graphs.find_graph("brain").read_bytes())
    (tmp_path / "mine.params.yaml").write_text(
        "/**/brainstem: {ros__parameters: {max_linear: 0.2, use_sim_time: true}}\n", encoding="utf-8")
    assert given(tmp_path / "mine.graph.yaml") == {"max_linear": 0.2, "use_sim_time": True,
                                                   "critical": ["pfc", "motor"]}


def test_whoever_searches_is_told_how_long_it_may_take():
    def told(*options, seconds=50.0):
        return policies.patient(ablations.parse(options), "brain", seconds)

    assert told().parameters == {"pfc": {"patience": 50.0}} and told("qpfc=off").parameters["pfc"] == {
        "patience": 50.0, "qpfc": "off"}
    for option in ("pfc=conventional", "pfc=ann", "motor=silent"):
        assert resolve("brain", "sim", None, ablation=told(option)).region("pfc").parameters["patience"] == 50.0
    episode = next(e for e in episodes("val", 40) if e.kind == "absent")
    assert policies.patience_of(60.0) == 50.0 and policies.patience_of(60.0, 0.0) == 0.0
    assert policies.patience_of(12.0) == 10.0   # what is reached in 10 s is not given up after 2
    verdict = run_local(episode, patience=3.0)
    assert verdict["not_found"] == "out of patience" and results.summary([verdict])["not_found"] == {
        "out of patience": 1}


# -- ablations -----------------------------------------------------------------------------------------------------


def test_ablations_name_what_they_change():
    both = ablations.parse(["pfc=ann", "qpfc=off", "vision=silent"])
    assert both.classes == {"pfc": "brain_eval.baselines.ann_pfc:AnnPrefrontalCortex"}
    assert both.parameters == {"pfc": {"qpfc": "off"}, "vision": {"silent": True}}
    assert set(ablations.parse(["all=ann"]).classes) == {"vision", "language", "pfc", "motor"}
    assert ablations.parse(["language=silent"]).parameters == {"language": {"silent": True}}
    assert ablations.parse([]) == NONE
    assert ablations.parse(["qpfc=constant:0.5"]).parameters == {"pfc": {"qpfc": "constant", "qpfc_alpha": 0.5}}
    for wrong in ("qpfc=constant:", "qpfc=constant:1.5", "qpfc=constant:nan", "qpfc=constant:much"):
        with pytest.raises(ValueError, match=f"{wrong}: alpha is a number from 0 to 1"):
            ablations.parse([wrong])
    with pytest.raises(ValueError, match="contradicts qpfc=constant"):
        ablations.parse(["qpfc=constant", "qpfc=constant:0.5"])


@pytest.mark.parametrize("option", ["pfc", "pfc=", "pfc=gone", "qpfc=silent", "brainstem=ann", "=silent"])
def test_an_unknown_ablation_names_those_that_there_are(option):
    with pytest.raises(ValueError, match=r"vision=silent\|ann\|conventional\|confused\|late, language=silent\|ann"):
        ablations.parse([option])


def test_ablations_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="contradicts"):
        ablations.parse(["all=ann", "pfc=silent"])


def test_what_happens_to_the_spikes_of_a_population_is_written_region_population_kind():
    several = ablations.parse(["pfc.memory=silent", "motor.second=shuffle", "pfc.target=drop:0.3", "vision=late",
                               "vision.edges=noise:0.1", "qpfc=off"])
    assert several.parameters == {"pfc": {"lesions": ("memory=silent", "target=drop:0.3"), "qpfc": "off"},
                                  "motor": {"lesions": ("second=shuffle",)},
                                  "vision": {"lesions": ("edges=noise:0.1",)}}
    assert several.classes == {"vision": "brain_eval.baselines.late_vision:LateVision"}
    assert ablations.parse(["lexicon=off"]).parameters == {"language": {"lexicon": "off"}}
    assert set(ablations.parse(["place=off", "brainstem=passive"]).classes) == {"place", "brainstem"}
    for wrong, why in ((["pfc.memry=silent"], "no population 'memry'; there are memory, target"),
                       (["pfc.memory=gone"], "no lesion 'gone'; there are silent, drop:P, shuffle, noise:P"),
                       (["pfc.memory=silent", "pfc.memory=shuffle"], "contradicts pfc.memory=silent"),
                       (["pfc.memory=silent", "pfc=ann"], "no population 'memory'"),
                       (["pfc.memory=silent", "pfc=conventional"], "leaves no network of which lesions"),
                       (["place.map=silent"], "no ablation 'place.map=silent'; there are .*pfc.memory|target")):
        with pytest.raises(ValueError, match=why):
            ablations.parse(wrong)


@pytest.mark.parametrize("region, parameter", [
    (region, known) for region, cls in ablations.declared("brain").items() if (known := ablations.lesionable(cls))])
def test_every_population_that_is_declared_can_have_a_lesion(region, parameter):
    declared = ablations.declared("brain")[region]
    assert parameter == [population.name for population in declared.populations]
    assert set(ablations.declared("brain")) & {"vision", "language", "pfc", "motor"} == {
        name for name, cls in ablations.declared("brain").items() if cls.populations}
    parsed = ablations.parse([f"{region}.{name}=drop:0.3" for name in parameter])
    assert parsed.parameters == {region: {"lesions": tuple(f"{name}=drop:0.3" for name in parameter)}}


@pytest.mark.extended       # test_lesions of brain_regions shows it of each population
@pytest.mark.slow
def test_an_episode_with_a_lesion_is_the_same_again_and_goes_otherwise_than_without(front):
    episode, whole = front
    one, again = (run_local(episode, ablation=ablations.parse(["pfc.target=drop:0.3", "motor.first=drop:0.3"]))
                  for _ in range(2))
    assert one["by_region"] == again["by_region"] and one["time"] == again["time"]
    assert one["by_region"] != whole["by_region"] and whole["success"]


def looks(*options: str) -> list[list[tuple[int, ...]]]:
    """Objects of two seconds of looks of a robot that stands still: distance (mm), bearing (mrad), color, shape."""
    regions, parameters, _ = lockstep_parts("val", 9, ablations.parse(options), {"world", "camera", "vision"})
    host, found = LocalHost(regions, seed=1, parameters=parameters), []
    host.listen("vision/objects", lambda m: found.append([
        (round(1000 * o.distance), round(1000 * o.bearing), o.color, o.shape) for o in m.objects]))
    host.advance(2.0)
    return found


def test_confused_vision_mistakes_some_of_what_it_sees_and_nothing_else():
    right, confused = looks(), looks("vision=confused")
    pairs = [pair for one, other in zip(right, confused, strict=True) for pair in zip(one, other, strict=True)]
    assert len(pairs) >= 40 and all(one[:2] == other[:2] for one, other in pairs)
    wrong = [other[2:] for one, other in pairs if one != other]
    assert set(wrong) <= set(itertools.product(range(1, 5), range(1, 4))) and len(set(wrong)) > 3
    # four standard deviations of a share
    assert abs(len(wrong) / len(pairs) - MISTAKEN) < 4 * (MISTAKEN * (1 - MISTAKEN) / len(pairs)) ** 0.5
    with pytest.raises(ValueError, match="no ablation 'all=confused'"):
        ablations.parse(["all=confused"])


def test_late_vision_tells_of_few_pictures_and_when_they_were_taken():
    regions, parameters, _ = lockstep_parts("val", 9, ablations.parse(["vision=late"]), {"world", "camera", "vision"})
    host, ages = LocalHost(regions, seed=1, parameters=parameters), []
    host.listen("vision/objects", lambda m: ages.append(host.now - messages.time_seconds(m.header.stamp)))
    host.advance(2.0)
    assert 7 <= len(ages) <= 9 and ages == pytest.approx([0.4] * len(ages), abs=0.011)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("network", ["vision", "pfc", "motor"])
def test_without_the_spikes_of_a_network_the_target_is_not_reached(network):
    episode = next(e for e in episodes("val", 40, 1) if e.kind == "go" and e.visibility == "front")
    result = run_local(episode, ablation=ablations.parse([f"{network}=silent"]))
    assert result["outcome"] == "timeout" and result["nearest_avoid"] is None


def test_what_each_region_costs_is_told_apart_and_compared(front, tmp_path):
    episode, whole = front
    files = []
    for number, options in enumerate(([], ["qpfc=off"])):
        found = run_local(episode, ablation=ablations.parse(options)) if options else whole
        assert found["success"] and {"vision", "pfc", "motor"} <= set(found["by_region"])
        assert sum(spikes for spikes, _ in found["by_region"].values()) == found["spikes"]
        report = {"policy": "brain", "split": "val", "seed": 1, "host": "local", "ablated": options,
                  "results": [found], "summary": results.summary([found])}
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(report))
    told = CliRunner().invoke(cli.app, ["compare", *map(str, files), "--region", "pfc", "--markdown"])
    assert told.exit_code == 0, told.output
    assert "qpfc=off" in told.output and "+0.0 (-79.3 to +79.3)" in told.output
    files[0].write_text("{}")
    assert CliRunner().invoke(cli.app, ["compare", *map(str, files)]).exit_code == 2


def test_a_lesion_that_is_said_twice_is_one():
    from brain_eval.ablations import parse

    assert parse(["pfc.memory=silent"] * 2) == parse(["pfc.memory=silent"])
