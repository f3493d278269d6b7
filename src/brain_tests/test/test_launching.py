# SPDX-License-Identifier: Apache-2.0
"""What launch files start, without launch: nodes, parameters and respawn come from the graph."""
import itertools
import re
from pathlib import Path

import pytest

from brain_regions.brainstem import Brainstem
from brain_runtime.supervision.supervised_brain import SupervisedBrain
from brain_runtime.graph import GraphError, parse_graph
from brain_runtime.graph.graphs import config_directory, names_of
from brain_runtime.graph.launching import ARGUMENTS, DEVICES, launched, rviz_settings
from brain_runtime.graph.robots import RobotError, load_robot
from brain_wire.parameters import check_parameters

LAUNCH = Path(__file__).resolve().parents[2] / "brain" / "launch"
BURGER = "turtlebot3_burger"
BRAIN = ["vision", "language", "place", "pfc", "goals", "motor", "brainstem", "introspection"]


def names(nodes):
    return [node.name for node in nodes]


def test_the_nodes_are_the_graphs():
    assert names(launched(robot=BURGER)) == BRAIN
    nodes = launched(world="sim")
    assert names(nodes) == ["world", "camera", *BRAIN] and [n.name for n in nodes if n.device] == ["world", "camera"]
    assert all(node.respawn for node in nodes)
    assert names(launched(world="arena", only=[DEVICES])) == ["world", "camera"]
    assert names(launched(robot=BURGER, only=["motor", "brainstem"])) == ["motor", "brainstem"]


def test_parts_are_chosen_by_what_they_publish():
    found = {}
    for file in LAUNCH.glob("*.launch.py"):
        topics = re.findall(r'"(\w+/\w+|cmd_vel)"', file.read_text(encoding="utf-8").partition("description(")[2])
        if topics:
            found[file.name.partition(".")[0]] = names(launched(only=topics, robot=BURGER))
    assert found == {"sensors": ["place"], "vision": ["vision"], "pfc": ["language", "pfc", "goals"],
                     "motor": ["motor", "brainstem"]}
    # together they are the brain, each region once, but for what only shows it
    assert sorted(itertools.chain(*found.values())) == sorted(set(BRAIN) - {"introspection"})


def test_settings_for_a_launch_node(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("/**/motor:\n  ros__parameters:\n    margin: 0.2\n")
    motor, brainstem = launched(world="sim", only=["motor", "brainstem"], namespace="r1", params=str(mine), seed=7,
                                state_dir="/var/lib/brain", log_level="debug")
    settings = motor.settings()
    assert (settings["package"], settings["executable"]) == ("brain_runtime", "ros_region")
    assert (settings["name"], settings["namespace"], settings["respawn"]) == ("motor", "r1", True)
    assert settings["arguments"] == ["--class", "brain_regions.motor:Motor", "--name", "motor", "--seed", "7",
                                     "--state-dir", "/var/lib/brain", "--critical"]
    assert settings["ros_arguments"] == ["--log-level", "debug"]
    files, own = settings["parameters"][:-1], settings["parameters"][-1]
    robot, file = files    # a file of one's own wins over the robot's profile
    assert robot["max_linear"] == 0.5 and Path(file).name == "mine.yaml" and own == {"use_sim_time": False}
    assert brainstem.settings()["parameters"][-1]["critical"] == ["pfc", "motor"]
    # what moves the robot has a spare process, and is called in launch's log what the others are
    assert brainstem.settings()["prefix"].split()[1:] == ["-m", "brain_runtime.with_spare"]
    assert brainstem.settings()["exec_name"] == "ros_region" and "prefix" not in settings


def test_launch_gives_the_robot_time_to_stand():
    for node in launched(robot=BURGER):
        settings = node.settings()
        assert float(settings["sigterm_timeout"]) >= 10 and float(settings["sigkill_timeout"]) >= 10


def test_a_real_robot_is_named_and_the_simulated_one_has_a_world(tmp_path):
    (copy := tmp_path / "sim.yaml").write_text((config_directory() / "robots" / "sim.yaml").read_text())
    for robot, says in (("", "without a world the robot is a real one and must be named"),
                        ("sim", "robot sim is the simulated one, .* name yours"),
                        (str(config_directory() / "robots" / "sim.yaml"), "is the simulated one")):
        for only in ((), ("vision/objects",), ("motor/command", "cmd_vel")):
            with pytest.raises(RobotError, match=f"{says}.*turtlebot3_burger.*docs/new-robot.md"):
                launched(robot=robot, only=only)
    assert launched(robot=str(copy)) and launched(robot="diff_drive_controller")
    assert ARGUMENTS["robot"].default == "" and ARGUMENTS["world"].default == "none"
    (brainstem,) = launched(world="sim", only=["brainstem"])
    (braking,) = [given["braking"] for given in brainstem.parameters if "braking" in given]
    assert braking == 0.9 == load_robot("sim").regions["brainstem"]["braking"]


def test_a_part_beside_the_simulator_starts_no_second_one():
    assert names(launched(world="sim", only=["vision/objects"])) == ["vision"]
    assert names(launched(world="sim", only=[DEVICES])) == ["world", "camera"]


def test_what_others_run_is_known_and_not_started(tmp_path):
    nodes = {node.name: node for node in launched(world="sim", external=["vision", "place", "pfc"])}
    assert set(nodes) == {"world", "camera", *BRAIN} - {"vision", "place", "pfc"}
    assert nodes["brainstem"].settings()["parameters"][-1]["critical"] == ["pfc", "motor"]
    graph = tmp_path / "half.graph.yaml"
    text = (config_directory() / "brain.graph.yaml").read_text()
    graph.write_text(text.replace("motor: {class", "motor: {external: true, class"))
    assert names(launched(str(graph), robot=BURGER)) == [name for name in BRAIN if name != "motor"]
    assert names(launched(str(graph), robot=BURGER, only=["motor/command", "cmd_vel"])) == ["brainstem"]
    with pytest.raises(GraphError, match="all regions are external"):
        launched(robot=BURGER, external=BRAIN)
    assert names_of(" vision, place,") == ("vision", "place") and names_of("") == ()


@pytest.mark.parametrize("content, says", [
    ("regions", "must be a mapping"), ("motor: [", "not YAML"), ("a: {ros__parameters: {b: 1}", "not YAML"),
    ("/**/motor: {ros__parameters: {margin: far}}", "margin of motor must be of type float"),
    ("/**/motor: {ros__parameters: {max_linear: -1.0}}", "max_linear of motor is -1.0, but must be between"),
    ("/**/motor: {ros__parameters: {max_liner: 1.0}}", "motor has no parameter max_liner; did you mean max_linear"),
    ("/**/vision: {ros__parameters: {energy_budget: -1.0}}", "energy_budget of vision"),
    *((f"{pattern!r}: {{ros__parameters: {{margin: 0.2}}}}", "no pattern of a node's name in ROS 2") for pattern in (
        "mot*", "motor/", "other-node", "mötor", "9x", "a.b", "a b", "~/motor", "/***", "//r1/motor")),
    ("r1: {/motor: {ros__parameters: {margin: 0.2}}}", "no pattern of a node's name in ROS 2"),
    ("/r1/motor: {ros__parameters: {margin: far}}", "margin of motor")])
def test_a_parameter_that_does_not_fit_is_named_before_anything_starts(tmp_path, content, says):
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(GraphError, match=f"params_file: .*{says}"):
        launched(robot=BURGER, namespace="r1", params=str(tmp_path / "mine.yaml"))


def test_an_empty_list_is_said_as_launch_can(tmp_path):
    (tmp_path / "one.graph.yaml").write_text("regions:\n  brainstem: {class: 'brain_regions.brainstem:Brainstem', "
                                             "critical: true}\n")
    (stem,) = launched(str(tmp_path / "one.graph.yaml"), robot=BURGER)
    given = [value for one in stem.parameters if isinstance(one, dict) for value in one.values()]
    assert [""] in given and [] not in given and () not in given
    assert check_parameters("brainstem", Brainstem.Parameters, {"critical": [""]}).critical == ()


@pytest.mark.parametrize("name", ["router", "supervisor"])
def test_names_that_brain_up_needs_are_no_regions(name):
    with pytest.raises(GraphError, match=f"a region is called {name}, which `brain up` keeps for"):
        parse_graph({"regions": {name: {"class": "brain_regions.vision:Vision"}}}, "mine.yaml")


def test_what_cannot_be_looked_for_is_named():
    for name in ("a" * 300, f"{'a' * 300}/x.yaml"):
        with pytest.raises(GraphError, match="cannot read graph .*File name too long"):
            launched(name, robot=BURGER)
        with pytest.raises(RobotError, match="cannot read robot .*File name too long"):
            launched(robot=name)
        with pytest.raises(GraphError, match="there is no parameter file"):
            launched(robot=BURGER, params=name)


def test_who_is_waited_for_is_named_with_what_is_to_be_done(tmp_path):
    supervised = SupervisedBrain([], tmp_path / "logs", "tcp/127.0.0.1:1", "/hall/r1", external=["vision"])
    assert not supervised.ready()
    (line,) = supervised.missing()
    assert line.startswith("vision is never heard; it is external: whoever runs it must start it")
    with pytest.raises(GraphError, match="`critical` and `external` must be true or false"):
        parse_graph({"regions": {"eye": {"class": "brain_regions.vision:Vision", "external": "yes"}}}, "mine.yaml")


def test_parameters_that_every_node_has_are_known(tmp_path):
    (tmp_path / "mine.yaml").write_text("/**:\n  ros__parameters: {use_sim_time: false, energy_budget: 5.0e6, "
                                        "qos_overrides./scan.subscription.depth: 2}\n"
                                        "/r2/motor: {ros__parameters: {x: 1}}")
    assert names(launched(robot=BURGER, namespace="r1", params=str(tmp_path / "mine.yaml"))) == BRAIN


def test_respawn_and_remaps_stand_in_the_graph(tmp_path):
    graph = tmp_path / "small.graph.yaml"
    graph.write_text("regions:\n  motor: {class: 'brain_regions.motor:Motor', restart: never, "
                     "remap: {scan: front/scan}}\n")
    (motor,) = launched(str(graph), robot=BURGER)
    assert not motor.respawn and not motor.spare and motor.settings()["remappings"] == [("scan", "front/scan")]
    assert "--critical" not in motor.arguments
    with pytest.raises(GraphError, match="no simulated world"):
        launched(str(graph), "sim")


@pytest.mark.parametrize("wrong, says", [
    (dict(graph="nothing"), "no graph 'nothing'"), (dict(world="moon"), "no world 'moon'"),
    (dict(only=["hands"]), "has no hands, .* it has vision"),
    (dict(params="/nowhere.yaml"), "no parameter file /nowhere.yaml"),
    (dict(log_level="loud"), "must be one of debug, info"),
    (dict(seed="x"), "seed is 'x'; .* seed:=7"), (dict(seed=-1), "seed"),
    (dict(namespace="1 x"), "namespace is '1 x'; .* namespace:=robot1"),
    (dict(split="half"), "split is 'half'; .* train, val, test"),
    (dict(external=["hands"]), "has no region 'hands'; it has vision"),
    (dict(robot="r2d2"), "no robot 'r2d2'; there are diff_drive_controller, husky, .*turtlebot3_burger")])
def test_what_is_wrong_is_named(wrong, says):
    with pytest.raises((GraphError, RobotError), match=says):
        launched(**{"robot": BURGER, **wrong})


def test_rviz_is_in_the_brains_namespace_and_hears_its_frames():
    settings = rviz_settings("r1")
    assert (settings["package"], settings["namespace"]) == ("rviz2", "r1")
    assert settings["remappings"] == [("/tf", "tf"), ("/tf_static", "tf_static")]
    assert Path(settings["arguments"][1]).name == "brain.rviz" and Path(settings["arguments"][1]).is_file()
    assert ("/clock", "clock") in rviz_settings("r1", use_sim_time=True)["remappings"]


def test_simulated_time_is_the_namespaces_own():
    said = {"world": (("goal/text", "sim/said"),)}
    for node in launched(world="sim", namespace="r1", use_sim_time=True):
        assert node.remappings == (*said.get(node.name, ()), ("/clock", "clock"))
    assert all(node.remappings == said.get(node.name, ()) for node in [
        *launched(world="sim"), *launched(use_sim_time=True, robot=BURGER)])


def test_launch_files_are_short_and_have_no_list_of_nodes():
    files = sorted(LAUNCH.glob("*.launch.py"))
    names = ["bringup", "motor", "pfc", "router", "sensors", "simulator", "vision"]
    assert [f.name.partition(".")[0] for f in files] == names
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60 and "brain.ros_launch" in text
        compile(text, str(file), "exec")
