# SPDX-License-Identifier: Apache-2.0
"""Profiles of robots: those of the package fit, what is wrong is named, and every way to start a brain uses them."""
import ast
from pathlib import Path

import pytest
import yaml

from brain_runtime.graph import graphs
from brain_runtime.graph.command_lines import command
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.graph.launching import launched
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.robots import RobotError, load_robot, shipped, write_parameters
from brain_runtime.hosts.ros_args import parse

MINE = """
description: mine
topics: {cmd_vel: base/cmd_vel, scan: /front/scan}
shared: {radius: 0.4, stamped: false}
regions: {brainstem: {max_linear: 0.1}, vision: {camera_x: 0.3}}
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", shipped())
def test_every_profile_fits_the_brain(name):
    robot, graph = load_robot(name), graphs.load("brain", "arena")
    given = robot.parameters(graph)
    assert robot.description and {"brainstem", "motor", "place", "pfc"} <= set(given)
    assert len({given[region]["radius"] for region in ("brainstem", "motor", "place", "pfc")}) == 1
    for limit in ("max_linear", "max_angular"):     # once each: what is said twice comes to differ
        assert robot.shared[limit] and not any(limit in values for values in robot.regions.values()), limit
        assert given["motor"][limit] == given["brainstem"][limit] == robot.shared[limit]
    assert "patience" not in given["pfc"]
    assert graph.spec("pfc").load().Parameters(**given["pfc"]).search_time == 300.0 * 0.5 / robot.shared["max_linear"]
    assert given["motor"]["braking"] <= given["brainstem"]["braking"]
    assert given["world"] == {"stamped": given["brainstem"]["stamped"]}


def test_the_simulated_robot_is_what_regions_take_a_robot_for():
    graph = graphs.load("brain", "arena")
    for region, values in load_robot("sim").parameters(graph).items():
        defaults = graph.spec(region).load().Parameters()
        assert {name: getattr(defaults, name) for name in values} == values, region
    assert load_robot("sim").on(graph) == graph


def test_the_simulated_robot_is_the_simulators():
    from brain_sim import robot

    given = load_robot("sim").parameters(graphs.load("brain"))
    stem = given["brainstem"]
    assert (stem["max_linear"], stem["max_angular"]) == (robot.MAX_SPEED, robot.MAX_TURN)
    assert stem["radius"] == robot.BASE_RADIUS
    assert stem["braking"] < robot.MAX_ACCELERATION and stem["angular_acceleration"] < robot.MAX_TURN_ACCELERATION
    assert (given["vision"]["camera_x"], given["vision"]["field_of_view"]) == (robot.CAMERA_FORWARD, robot.CAMERA_HFOV)


def test_topics_and_parameters_reach_every_process(mine, tmp_path):
    robot, graph = load_robot(mine), graphs.load("brain", "arena")
    given = robot.parameters(graph)
    assert given["brainstem"] == {"radius": 0.4, "stamped": False, "max_linear": 0.1}
    assert given["vision"] == {"radius": 0.4, "camera_x": 0.3} and given["world"] == {"stamped": False}
    assert "camera" not in given
    file = write_parameters(given, tmp_path / "run" / "robot.params.yaml")
    own = tmp_path / "own.yaml"
    own.write_text("/**/brainstem: {ros__parameters: {max_linear: 0.2}}", encoding="utf-8")
    resolved = resolve("brain", "sim", mine, namespace="/r1", files=[own])
    found = {r.name: parse(command(r, [file, own])[1:])[0] for r in resolved.regions}
    assert found["brainstem"].parameters("brainstem", "/r1") == resolved.region("brainstem").parameters == {
        "radius": 0.4, "stamped": False, "max_linear": 0.2, "critical": ["pfc", "motor"]}
    for name in ("brainstem", "world"):
        assert found[name].topic("cmd_vel", name, "/r1") == "/r1/base/cmd_vel"
        assert found[name].topic("scan", name, "/r1") == "/front/scan"
        assert found[name].topic("odom", name, "/r1") == "/r1/odom"


def test_launch_and_the_supervisor_start_the_same(mine):
    resolved = inspect_graph("brain", "arena", mine)
    nodes = {node.name: node for node in launched(world="arena", robot=mine)}
    assert resolved.warnings == () and {region.name for region in resolved.regions} == set(nodes)
    for region in resolved.regions:
        node = nodes[region.name]
        graphs_own = {"goal/text": "sim/said"} if region.name == "world" else {}
        assert dict(node.remappings) == region.remap == {
            "cmd_vel": "base/cmd_vel", "scan": "/front/scan", **graphs_own}
        first = node.parameters[0] if len(node.parameters) > 1 else {}     # the last one is launch's own
        assert region.profile == first
    assert resolved.region("place").triggers == ("/front/scan",)


def test_a_remap_of_the_graph_leads_on_to_the_robots_name(tmp_path, mine):
    graph = tmp_path / "small.graph.yaml"
    graph.write_text("regions:\n  motor: {class: 'brain_regions.motor:Motor', remap: {scan: scan, features: scan}}\n")
    spec = load_robot(mine).on(graphs.load(str(graph))).spec("motor")
    assert spec.remap == {"scan": "/front/scan", "features": "/front/scan", "cmd_vel": "base/cmd_vel"}
    assert load_robot(mine).parameters(graphs.load(str(graph))) == {"motor": {"radius": 0.4}}


@pytest.mark.parametrize("change, says", [
    ({"wheels": 2}, "unknown keys wheels; known are command_timeout, description, kit, middleware, refused, regions, "
     "scan, shared, topics"),
    ({"topics": {"cmd_fel": "x"}}, "there is no topic cmd_fel; there are .*cmd_vel"),
    ({"topics": {"scan": "front scan"}}, "topic scan must be mapped to a name such as base/scan"),
    ({"topics": {"estop": "stop"}}, "topic estop cannot be renamed, since `brain` and people use it"),
    ({"topics": ["scan"]}, "`topics` must be a mapping"),
    ({"shared": {"radios": 0.3}}, "there is no parameter radios; there are .*radius"),
    ({"shared": {"radius": "wide"}}, "parameter radius of .* must be of type float"),
    ({"regions": {"legs": {}}}, "there is no region legs; there are .*brainstem"),
    ({"regions": {"motor": {"max_liner": 0.1}}}, "motor has no parameter max_liner; did you mean max_linear"),
    ({"regions": {"brainstem": {"max_linear": 20.0}}}, "max_linear of brainstem is 20.0, but must be between"),
    ({"regions": {"motor": 3}}, "region motor must be a mapping of parameters"),
    ({"kit": {"sonar": {}}}, "`kit` must be a mapping of lidar, camera, base to what they are"),
    ({"kit": {"lidar": {"hertz": 5}}}, "lidar of `kit` has no 'hertz'; it may tell .*rate"),
    ({"kit": {"lidar": {"rate": "fast"}}}, "rate of lidar of `kit` must be a number"),
    ({"kit": {"lidar": {"rate": float("nan")}}}, "rate of lidar of `kit` must be a number"),
    ({"kit": {"camera": {"model": 3}}}, "model of camera of `kit` must be a text"),
    ({"middleware": {"zenoh": "no"}}, "`middleware` must be a mapping with rmw"),
    ({"middleware": "dds"}, "`middleware` must be a mapping with rmw"),
    ({"refused": "it has no wheels"}, "robot wrong .* is refused: it has no wheels"),
])
def test_what_is_wrong_in_a_profile_is_named(tmp_path, change, says):
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(change), encoding="utf-8")
    with pytest.raises(RobotError, match=says) as caught:
        load_robot(str(path)).parameters(graphs.load("brain"))
    assert str(path) in str(caught.value)
    with pytest.raises(RobotError, match=says):
        inspect_graph("brain", "none", str(path))


@pytest.mark.parametrize("content, says", [
    (None, "no robot .*nowhere.yaml'; there are diff_drive_controller, husky"), ("[", "is not YAML"),
    ("a text", "must be a mapping")])
def test_what_is_no_profile(tmp_path, content, says):
    path = tmp_path / "nowhere.yaml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(RobotError, match=says):
        load_robot(str(path))


def test_a_profile_may_name_the_simulators_regions_on_a_real_robot(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_text("regions: {camera: {width: 320, height: 240}}", encoding="utf-8")
    assert load_robot(str(path)).parameters(graphs.load("brain")) == {}
    assert load_robot(str(path)).parameters(graphs.load("brain", "arena")) == {"camera": {"width": 320, "height": 240}}


def test_a_wrong_robot_ends_brain_up_at_once(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from brain.cli import app
    from brain_wire.router import free_port

    monkeypatch.setenv("BRAIN_ROUTER", f"tcp/127.0.0.1:{free_port()}")
    result = CliRunner().invoke(app, ["up", "--robot", "r2d2", "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 1 and "no robot 'r2d2'" in result.output and "turtlebot3_burger" in result.output
    assert not (tmp_path / "run").exists()


def test_a_robot_that_zenoh_does_not_reach_is_told_of_with_the_remedy():
    said = [text for text in resolve("brain", "none", "turtlebot4").warnings if "rmw_fastrtps_cpp" in text]
    assert len(said) == 1 and "ros2 launch brain bringup.launch.py" in said[0]
    for heard in (resolve("brain", "none", "turtlebot4", host="ros"), resolve("brain", "none", "turtlebot3_burger"),
                  resolve("brain", "sim", "turtlebot4")):
        assert not any("does not hear" in text for text in heard.warnings)


def test_every_profile_says_what_all_have_to_say():
    """A copy of one of them is where a new robot begins."""
    wanted = {"max_reverse", "linear_acceleration", "angular_acceleration", "braking"}
    for name in shipped():
        assert wanted <= set(load_robot(name).regions["brainstem"]), name
        assert {"radius", "stamped", "max_linear", "max_angular"} <= set(load_robot(name).shared), name


def test_the_launch_file_for_gazebo_names_profiles_that_there_are():
    """All that is tested of it: it was not run."""
    tree = ast.parse((Path(__file__).parents[3] / "docs" / "gazebo_turtlebot3.launch.py").read_text(encoding="utf-8"))
    (models,) = [ast.literal_eval(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "MODELS"]
    assert {f"turtlebot3_{model}" for model in models} <= set(shipped()) and "Not run" in ast.get_docstring(tree)
