# SPDX-License-Identifier: Apache-2.0
"""One answer to what runs: layers of parameters, worlds, what is left out, and the same answer by way of JSON."""
import json
import os
import re
import sys

import pytest

from brain_runtime.graph import graphs, moved
from brain_runtime.contract.ablation import Ablation
from brain_runtime.graph.command_lines import command
from brain_runtime.graph.dry_run import lines
from brain_runtime.graph import GraphError
from brain_runtime.graph.inspect_graph import GivenError, inspect_graph
from brain_runtime.graph.resolve import resolve, resolve_region
from brain_runtime.graph.resolved import Resolved
from brain_runtime.graph.robots import RobotError
from brain_runtime.graph.rooms import SAID
from brain_runtime.hosts.ros_args import RosArgsError, parse
from brain_wire.parameters import ParameterError

TOYS = '''
from dataclasses import dataclass
from brain_runtime import In, Out, Region
from brain_wire.parameters import parameter

@dataclass(frozen=True)
class Numbers:
    a: float = parameter(0.0, "set by one layer")
    b: float = parameter(0.0, "by two")
    c: float = parameter(0.0, "by three")
    d: float = parameter(0.0, "by four")
    e: float = parameter(0.0, "by five")
    spikes: bool = parameter(True, "published")

@dataclass(frozen=True)
class Room:
    split: str = parameter("train", "rooms")
    seed: int = parameter(0, "of the room")
    request: str = parameter("", "what is shown")

@dataclass(frozen=True)
class Watched:
    critical: tuple = parameter((), "who is watched")

class Toy(Region):
    Parameters = Numbers
    rate = 5.0
    image = In("image", "std_msgs/msg/String", device=True, trigger=True)
    said = Out("toy/said", "std_msgs/msg/String")

class Other(Toy):
    """A class that an ablation puts in."""

class World(Region):
    Parameters = Room
    image = Out("image", "std_msgs/msg/String")

class Stem(Region):
    Parameters = Watched
    heard = In("toy/said", "std_msgs/msg/String")

    def come_to_rest(self, inbox, state, since):
        return {}, True
'''
GRAPH = """
name: toys
regions:
  toy: {class: "toys19:Toy", critical: true, remap: {image: eye/image}}
  stem: {class: "toys19:Stem", critical: true, restart: never}
worlds:
  hall: {world: {class: "toys19:World", remap: {image: eye/image}}}
  yard: {world: {class: "toys19:World", remap: {image: eye/image}}}
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """The path of a graph of toys, with a parameter file beside it, a profile and a file of the user's."""
    (tmp_path / "toys19.py").write_text(TOYS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    (tmp_path / "toys.graph.yaml").write_text(GRAPH)
    (tmp_path / "toys.params.yaml").write_text(
        "/**/toy: {ros__parameters: {a: 1.0, b: 1.0, c: 1.0, d: 1.0, e: 1.0}}\n"
        "/**/world: {ros__parameters: {split: test}}\n")
    (tmp_path / "robot.yaml").write_text("regions: {toy: {b: 2.0, c: 2.0, d: 2.0, e: 2.0}}\n"
                                         "topics: {toy/said: base/said}\n")
    (tmp_path / "mine.yaml").write_text("/**/toy: {ros__parameters: {c: 3.0, d: 3.0, e: 3.0}}\n"
                                        "/**/stem: {ros__parameters: {critical: [toy]}}\n")
    yield tmp_path / "toys.graph.yaml"
    sys.modules.pop("toys19", None)


def full(graph, **more):
    return dict(graph=graph, world="sim", robot=str(graph.parent / "robot.yaml"), files=[graph.parent / "mine.yaml"],
                parameters={"toy": {"d": 4.0, "e": 4.0}, "nobody": {"x": 1}}, room={"split": "val", "seed": 7},
                ablation=Ablation({"toy": "toys19:Other"}, {"toy": {"e": 5.0}}), **more)


@pytest.mark.parametrize("host", ["zenoh", "local", "torch"])
def test_each_layer_of_parameters_wins_over_the_one_before(toys, host):
    found = resolve(**full(toys, host=host, namespace="r1"))
    spikes = {"spikes": False} if host == "local" else {}   # nobody hears them in lockstep
    toy = found.region("toy")
    assert toy.parameters == {**spikes, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0} == toy.changed
    assert toy.cls == "toys19:Other" and toy.profile == {"b": 2.0, "c": 2.0, "d": 2.0, "e": 2.0}
    assert found.region("world").parameters == {"split": "val", "seed": 7}
    assert found.region("stem").parameters == {"critical": ["toy"]}     # from the graph; the file says the same
    assert found.critical == {"toy", "stem"} and found.host == host


def test_the_process_is_given_what_the_answer_says(toys):
    from brain_runtime.graph.robots import write_parameters

    found = resolve(**full(toys, namespace="r1"))
    profile = write_parameters({r.name: r.profile for r in found.regions if r.profile}, toys.parent / "given.yaml")
    for region in found.regions:
        ros, _ = parse(command(region, [found.beside, profile, *found.files])[1:])
        assert ros.namespace(region.name) == region.namespace == "/r1"
        assert ros.parameters(region.name, "/r1") == region.parameters
        for topic in ("image", "toy/said"):
            full_name = ros.topic(topic, region.name, "/r1").removeprefix("/r1/")
            assert full_name == region.remap.get(topic, topic)


def test_launch_gives_what_the_answer_says(toys):
    """In ROS 2 patterns of names count in the order in which they come; launch writes dicts under the full name."""
    from brain_runtime.graph.launching import planned
    from brain_runtime.hosts.ros_args import RosArgs

    plan = planned(str(toys), "sim", robot=str(toys.parent / "robot.yaml"), params=str(toys.parent / "mine.yaml"),
                   namespace="r1", seed=7)
    for region, node in zip(plan.resolved.regions, plan.nodes, strict=True):
        ros = RosArgs()
        for part in node.settings()["parameters"]:
            if isinstance(part, dict):
                ros.add_values(f"/r1/{node.name}", part)
            else:
                ros.add_file(part)
        assert ros.parameters(node.name, "/r1") == {**region.parameters, "use_sim_time": False}
    assert plan.resolved.region("toy").parameters == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 3.0, "e": 3.0}


def test_what_a_region_is_stands_in_the_answer(toys):
    toy, stem = (resolve(**full(toys)).region(name) for name in ("toy", "stem"))
    assert (toy.hears, toy.publishes, toy.triggers, toy.rate) == (("eye/image",), ("base/said",), ("eye/image",), 5.0)
    assert not toy.moves and stem.moves and stem.restart == "never" and stem.hears == ("base/said",)
    assert toy.node == "/toy"


def test_worlds_have_the_same_names_everywhere(toys):
    from brain_runtime.graph.launching import launched

    for world, name in (("sim", "hall"), ("hall", "hall"), ("yard", "yard"), ("none", "none")):
        found = resolve(toys, world, str(toys.parent / "robot.yaml"))
        assert found.world == name and ("world" in {r.name for r in found.regions}) == (name != "none")
        assert [n.name for n in launched(str(toys), world, robot=str(toys.parent / "robot.yaml"))] == [
            r.name for r in found.regions]
    with pytest.raises(GraphError, match="no world 'moon'; give hall, yard, none"):
        resolve(toys, "moon")
    toys.write_text(GRAPH.partition("worlds:")[0])
    with pytest.raises(GraphError, match="has no simulated world; say world:=none or --world none"):
        resolve(toys, "sim")
    toys.write_text(GRAPH + "  sim: {world: 'toys19:World'}\n")     # a world that is called so is that one
    assert resolve(toys, "sim", None).world == "sim"


def test_a_robot_must_be_named_where_a_region_takes_something_from_it(toys):
    assert resolve(toys).robot is None and resolve(toys, "sim").robot == "sim"
    with pytest.raises(RobotError, match="robot sim is the simulated one"):
        resolve(toys, robot="sim")
    with pytest.raises(RobotError, match="must be named"):
        resolve("brain")
    assert resolve("brain", robot=None).robot is None


@pytest.mark.parametrize("text, error, says", [
    ("/**/toy: {ros__parameters: {a: far}}", ParameterError, "a of toy must be of type float"),
    ("/**/toy: {ros__parameters: {f: 1.0}}", ParameterError, "toy has no parameter f"),
    ("toy: [", RosArgsError, "is not YAML"),
    ("/**: {ros__parameters: {use_sim_time: maybe}}", ParameterError, "use_sim_time of .* must be true or false"),
    ("/**: {ros__parameters: {energy_budget: -1.0}}", ParameterError, "energy_budget")])
def test_what_does_not_fit_is_named_by_every_host(toys, text, error, says):
    (toys.parent / "mine.yaml").write_text(text)
    for host in ("zenoh", "ros", "local"):
        with pytest.raises(error, match=says):
            resolve(toys, robot=None, files=[toys.parent / "mine.yaml"], host=host)
    with pytest.raises(GivenError, match=says):
        inspect_graph(toys, "none", None, files=[toys.parent / "mine.yaml"])


def test_what_is_wrong_with_a_region_is_said_whatever_else_is(toys):
    graph = toys.parent / "bad.graph.yaml"
    graph.write_text("regions: {toy: 'toys19.Toy'}\n")
    with pytest.raises(GraphError, match="region toy needs `class: package.module:Class`"):
        resolve(graph, "sim")       # and not that it has no world
    (toys.parent / "idle19.py").write_text(
        "from brain_runtime import In, Out, Region\nclass Idle(Region):\n"
        "    x = In('x', 'std_msgs/msg/String', device=True)\n    said = Out('said', 'std_msgs/msg/String')\n"
        "class Ticks(Idle):\n    rate = 1.0\n")
    says = ("region idle: Idle never steps, so nothing comes on said: give it a `rate`, or one of its inputs "
            "`trigger=True`")
    for name, named in (("Idle", [says]), ("Ticks", [])):
        graph.write_text(f"regions: {{idle: 'idle19:{name}'}}\n")
        assert list(resolve(graph, "none").warnings) == named == list(resolve_region("idle", graph).warnings)


def test_who_says_something_once_is_heard_by_the_brain_alone():
    regions = resolve(world="sim").regions
    assert [[region.name for region in regions if topic in region.hears] for topic in SAID] == [["language"], ["world"]]


def test_what_a_file_says_of_many_need_not_be_for_all_and_what_is_for_nobody_is_named(toys):
    (toys.parent / "mine.yaml").write_text(
        "/**: {ros__parameters: {a: 7, zebra: 1, use_sim_time: true}}\n/r1/tay: {ros__parameters: {a: 1.0}}\n"
        "/r1/*: {ros__parameters: {critcal: [x]}}\nworld: {ros__parameters: {seed: 3}}\n")
    for host in ("zenoh", "ros", "local"):
        found = resolve(toys, robot=None, files=[toys.parent / "mine.yaml"], host=host, namespace="r1")
        assert found.region("toy").parameters["a"] == 7 and "a" not in found.region("stem").parameters
        assert found.region("stem").parameters["use_sim_time"] is True
        nobody, wrong = (warning for warning in found.warnings if "never steps" not in warning)
        assert "no region is called /r1/tay" in nobody and nobody.endswith("did you mean /r1/toy?")
        assert "no region has a parameter critcal" in wrong and wrong.endswith("did you mean critical?")


@pytest.mark.parametrize("text, says", [
    ("/**/stem: {ros__parameters: {critical: [nobody]}}",
     "critical of stem as .*nobody.*, but it follows from the graph .*toys.graph.yaml: .*toy.*; take it out of the"),
    ("/**: {ros__parameters: {critical: [' ']}}", "critical of stem"),
    ("/r1/world: {ros__parameters: {seed: 3}}",
     "seed of world as '3', but it follows from the room that was asked for: '7'; .*--seed, or split:= and seed:= of"),
    ("world: {ros__parameters: {split: test}}\n/**/world: {ros__parameters: {seed: 7}}", "split of world")])
def test_a_file_of_the_users_does_not_say_what_follows_from_the_graph_or_the_room(toys, text, says):
    """Launch's own dict stands under a node's full name, and would lose to such a file."""
    from typer.testing import CliRunner

    from brain.cli import app
    from brain_runtime.graph.launching import planned

    file, robot = toys.parent / "other.yaml", str(toys.parent / "robot.yaml")
    file.write_text(text)
    says = f"parameter file {file} gives {says}"
    for host in ("zenoh", "ros", "local"):
        with pytest.raises(ParameterError, match=says):
            resolve(toys, "sim", robot, files=[toys.parent / "mine.yaml", file], host=host, namespace="r1",
                    room={"split": "val", "seed": 7})
    with pytest.raises(GraphError, match=f"params_file: {says}"):
        planned(str(toys), "sim", robot=robot, params=str(file), namespace="r1", seed=7)
    said = CliRunner().invoke(app, ["up", str(toys), "--robot", robot, "--namespace", "/r1", "--seed", "7", "--dry-run",
                                    "--params-file", str(file)])
    assert said.exit_code == 1 and re.search(says, " ".join(said.output.split())), said.output


def test_numbers_are_read_as_ros_does(toys):
    (toys.parent / "mine.yaml").write_text("/**/toy: {ros__parameters: {a: 1e3, use_sim_time: true}}")  # YAML 1.2's
    sim_time = {"use_sim_time": True}
    for host, more in (("ros", sim_time), ("zenoh", sim_time), ("local", {**sim_time, "spikes": False})):
        toy = resolve(toys, robot=None, files=[toys.parent / "mine.yaml"], host=host).region("toy")
        assert toy.parameters == {"a": 1000.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0, **more}


# -- what is left out ----------------------------------------------------------------------------------------------


def test_what_is_optional_and_not_installed_is_left_out_with_one_line(toys):
    with_one = GRAPH.replace("regions:\n", "regions:\n  extra: {class: 'brain_lacking.x:Extra', optional: true}\n")
    toys.write_text(with_one)
    for found in (resolve(toys), inspect_graph(toys)):
        assert [r.name for r in found.regions] == ["toy", "stem"]
        assert found.warnings == ("region extra is left out: the package brain_lacking is not installed, and graph "
                                  "toys calls it optional",)
    toys.write_text(with_one.replace(", optional: true", ""))
    with pytest.raises(GraphError, match="cannot import brain_lacking"):
        resolve(toys)
    toys.write_text("regions: {extra: {class: 'brain_lacking.x:Extra', optional: true}}")
    with pytest.raises(GraphError, match="no region is left"):
        resolve(toys)


def test_what_is_installed_and_broken_is_an_error_though_it_is_optional(toys):
    (toys.parent / "broken19.py").write_text("import brain_lacking\n")
    toys.write_text(GRAPH.replace("regions:\n", "regions:\n  extra: {class: 'broken19:Extra', optional: true}\n"))
    with pytest.raises(GraphError, match="cannot import broken19 .*brain_lacking"):
        resolve(toys)
    toys.write_text(GRAPH.replace("critical: true", "critical: true, optional: true", 1))
    with pytest.raises(GraphError, match="toy is both critical and optional"):
        resolve(toys)
    toys.write_text(GRAPH.replace("critical: true", "optional: 3", 1))
    with pytest.raises(GraphError, match="`optional` must be true or false"):
        resolve(toys)


def test_nobody_waits_for_what_is_optional(toys):
    from brain.status import _expected

    toys.write_text(GRAPH.replace("regions:\n", "regions:\n  extra: {class: 'brain_lacking:Extra', optional: true}\n"))
    assert _expected(str(toys), "r1") == ["/r1/toy", "/r1/stem"]


@pytest.mark.parametrize("old, new", [("toys19:Old", "toys19:Toy"), ("toys18:Toy", "toys19:Toy"),
                                      ("toys18", "toys19")])
def test_an_old_name_of_a_class_is_answered_with_the_new_one(toys, monkeypatch, old, new):
    monkeypatch.setitem(moved.MOVED, old, new)
    cls = old if ":" in old else f"{old}:Toy"
    toys.write_text(GRAPH.replace("toys19:Toy", cls))
    with pytest.raises(GraphError, match=f"region toy: {cls} is now toys19:Toy; correct `class:`"):
        resolve(toys)


def test_without_the_package_that_has_graphs_and_profiles_paths_do(toys, monkeypatch):
    monkeypatch.setattr(graphs, "PACKAGE", "brain_lacking")
    found = resolve(toys, "sim", str(toys.parent / "robot.yaml"))
    assert found.region("toy").profile["b"] == 2.0
    assert resolve(toys, robot=None).robot is None
    for graph, robot in (("brain", None), (toys, "turtlebot3_burger"), ("lacking.graph.yaml", None)):
        with pytest.raises(GraphError, match="come with the package brain_lacking, which is not installed"):
            resolve(graph, robot=robot)


# -- by way of JSON ------------------------------------------------------------------------------------------------


def test_the_answer_is_the_same_from_another_process(toys):
    asked = full(toys, namespace="r1", external=["stem"], join={"more": "toys19:Toy"})
    here, there = resolve(**asked), inspect_graph(**asked)
    assert there == here == Resolved.from_json(here.to_json())
    assert here.external == ("stem",) and [r.name for r in here.started] == ["world", "toy", "more"]
    assert json.loads(here.to_json())["regions"][1]["node"] == "/r1/toy"


@pytest.mark.parametrize("text", ["[]", "{}", '{"name": "x", "regions": [{"name": "a"}]}', "no JSON"])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(ValueError, match="this is no answer of resolve"):
        Resolved.from_json(text)


def test_it_is_found_out_without_a_region_in_this_process(toys):
    import subprocess

    code = (f"import sys; from brain_runtime.graph.inspect_graph import inspect_graph; inspect_graph({str(toys)!r}); "
            "print([m for m in ('toys19', 'torch', 'mujoco', 'brain_regions', 'brain_runtime.graph.resolve') "
            "if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- one region ----------------------------------------------------------------------------------------------------


def test_one_region_joins_with_what_its_user_says(toys):
    robot = str(toys.parent / "robot.yaml")
    (toy,) = resolve_region("toy", toys, robot, namespace="r1", arguments=[
        "-r", "__node:=toy_2", "-r", "eye/image:=other", "--params-file", str(toys.parent / "mine.yaml"),
        "-p", "d:=9.0"]).regions
    assert (toy.node, toy.critical) == ("/r1/toy_2", True)
    assert toy.parameters == {"b": 2.0, "c": 2.0, "e": 2.0, "d": 9.0}    # files are for /**/toy, which it is no more
    (toy,) = resolve_region("toys19:Toy", toys, name="mine", arguments=["-r", "image:=far/image"]).regions
    assert (toy.node, toy.hears, toy.publishes) == ("/mine", ("/far/image",), ("toy/said",)) and toy.parameters == {}
    with pytest.raises(ParameterError, match="d of toy must be of type float"):
        resolve_region("toy", toys, robot, arguments=["-p", "d:=far"])
    with pytest.raises(GraphError, match="has no region 'leg'; it has toy, stem, world. A class of your own"):
        resolve_region("leg", toys)


# -- told, and nothing started -------------------------------------------------------------------------------------


def test_what_would_run_is_told_in_lines(toys):
    told = lines(resolve(**full(toys, external=["stem"])))
    assert told[0].startswith("graph toys, robot ") and told[0].endswith(
        "world hall, host zenoh, namespace /: 2 processes would be started")
    assert told[1].split() == ["region", "class", "critical", "restart"]
    toy = next(k for k, line in enumerate(told) if line.startswith("toy "))
    assert told[toy].split() == ["toy", "toys19:Other", "yes", "always"]
    assert told[toy + 1:toy + 4] == ["    parameters: a 1.0, b 2.0, c 3.0, d 4.0, e 5.0", "    hears: eye/image",
                                     "    publishes: base/said"]
    assert any(line.startswith("stem ") and line.endswith("run by others") for line in told)
    assert any(line.startswith("world ") and line.endswith("of the world") for line in told)
    assert not any(line.startswith("stem ") for line in lines(resolve(**full(toys)), {"toy"}))


def test_brain_up_tells_and_starts_nothing(toys, monkeypatch):
    from typer.testing import CliRunner

    from brain.cli import app

    monkeypatch.setenv("XDG_STATE_HOME", str(toys.parent / "state"))
    monkeypatch.setenv("BRAIN_ROUTER", "tcp/192.0.2.1:7447")    # nobody is there, and nobody is asked
    up = ["up", str(toys), "--robot", str(toys.parent / "robot.yaml"), "--namespace", "/r1", "--seed", "7", "--dry-run"]
    said = CliRunner().invoke(app, up)
    assert said.exit_code == 0 and "3 processes would be started" in said.stdout.splitlines()[0], said.output
    assert "    parameters: split val, seed 7" in said.stdout
    told = json.loads(CliRunner().invoke(app, [*up, "--json"]).stdout)
    wanted = resolve(toys, "sim", str(toys.parent / "robot.yaml"), namespace="/r1", room={"split": "val", "seed": 7})
    assert told == json.loads(wanted.to_json())
    assert not (toys.parent / "state").exists()
