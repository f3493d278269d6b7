# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code says."""
import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_eval.reference import launch_files, pages
from brain_runtime.graph.launching import ARGUMENTS, Argument

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "reference"
GRAPH = """
regions:
  motor: {class: "brain_regions.motor:Motor", restart: never, remap: {scan: front/scan}}
  brainstem: {class: "brain_regions.brainstem:Brainstem", critical: true}
"""


def test_the_committed_pages_are_the_ones_that_the_command_writes():
    assert CliRunner().invoke(app, ["docs", "--help"]).exit_code == 0
    for name, text in pages().items():
        assert (COMMITTED / name).read_text(encoding="utf-8") == text, \
            f"docs/reference/{name} is not what the code says; write it anew with `brain docs`, at the top of the tree"
    assert {path.name for path in COMMITTED.iterdir()} == set(pages())


def test_a_page_that_differs_is_found_and_written_anew(tmp_path):
    run = lambda *more: CliRunner().invoke(app, ["docs", "--out", str(tmp_path / "new"), *more])  # noqa: E731
    assert run("--check").exit_code == 1 and not (tmp_path / "new").exists()
    assert run().exit_code == 0 and run("--check").exit_code == 0
    page = tmp_path / "new" / "regions.md"
    page.write_text(page.read_text() + "\n")
    found = run("--check")
    assert found.exit_code == 1 and "regions.md in" in found.output and "brain docs" in found.output
    assert run().output.split() == ["wrote", str(page)]


def test_ports_and_parameters_of_a_graph_of_ones_own(tmp_path):
    file = tmp_path / "mine.graph.yaml"
    file.write_text(GRAPH)
    page = pages(str(file))["regions.md"]
    assert "| `front/scan` | `sensor_msgs/LaserScan` | best effort, volatile, 1 | from outside | motor |" in page
    assert "| `scan` | `sensor_msgs/LaserScan` | best effort, volatile, 1 | from outside | brainstem |" in page
    assert "| hears | `estop` | `std_msgs/Bool` | reliable, transient local, 10 | triggers a step; every" in page
    assert "| publishes | `cmd_vel` | `geometry_msgs/TwistStamped` | reliable, volatile, 1 | stamp of publicat" in page
    assert "| `margin` | float | `0.07` | m | 0 to 1 |" in page
    assert '| `critical` | list of str | `["pfc", "motor"]` |  |  | fixed |' in page
    assert "`brain_regions.motor:Motor`; restart: never" in page and "## vision" not in page
    assert CliRunner().invoke(app, ["docs", "--graph", "nothing", "--out", str(tmp_path)]).exit_code == 1


def test_the_codec_of_a_port_is_told(tmp_path):
    file = tmp_path / "exchanges.graph.yaml"
    file.write_text("regions: {mirror: 'brain_tests.regions:Exchanges'}")
    page = pages(str(file))["regions.md"]
    assert ("| hears | `rows` | [Tensor](messages.md#tensor) | reliable, volatile, 1 | codec `tensor:float32[*,3]`; "
            "triggers a step") in page
    assert "| publishes | `told_back` | [Encoded](messages.md#encoded) | reliable, volatile, 1 | codec `json`;" in page


def test_every_message_is_there_with_its_comments_and_hash():
    page = pages()["messages.md"]
    assert "float32 width           # rad, angle that the object covers; NaN when not known" in page
    assert "`RIHS01_568a84ed9f00ea1f" in page and "## Heartbeat" in page
    assert "| `std_msgs/msg/String` | `RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18`" in page


def test_launch_files_and_their_arguments():
    files = launch_files()
    assert set(files["bringup.launch.py"][1]) == set(ARGUMENTS)
    assert "router" not in files["vision.launch.py"][1]
    assert files["simulator.launch.py"][1]["world"] == Argument("sim", ARGUMENTS["world"].description)
    assert files["router.launch.py"][1]["router"].default == "true"


@pytest.mark.colcon
@pytest.mark.skipif(not importlib.util.find_spec("launch_ros"), reason="launch_ros comes with a ROS installation only")
@pytest.mark.parametrize("name", sorted(launch_files()))
def test_the_arguments_are_those_that_launch_is_told_of(name):
    file = Path(__file__).resolve().parents[2] / "brain" / "launch" / name
    spec = importlib.util.spec_from_file_location("launched", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    declared = {argument.name: ("".join(part.text for part in argument.default_value), tuple(argument.choices or ()))
                for argument in module.generate_launch_description().get_launch_arguments()}
    assert declared == {key: (argument.default, argument.choices) for key, argument in launch_files()[name][1].items()}
