# SPDX-License-Identifier: Apache-2.0
"""Containers, the public forge's workflow and systemd units cannot run here; what they name is there."""
from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from brain.zenoh_settings import read
from brain_runtime.graph.launching import arguments_of
from brain_runtime.graph.robots import RobotError, robot_in

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
# Files in which somebody looks for commands to type, or a machine for commands to run.
PLACES = ["Dockerfile", "docker-compose.yml", ".github/workflows/ci.yml", "docs/deployment.md", "docs/ros2.md",
          "README.md", "README.ja.md", "requirements-ros.txt", "requirements-ros-sim.txt", "requirements-ros-test.txt"]


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions and what they are told, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line]


def stages() -> dict[str, str]:
    """Return what each stage of the Dockerfile is made from."""
    return {name: base for kind, text in instructions() if kind == "FROM" for base, name in [text.split(" AS ")]}


def arguments(file: str) -> set[str]:
    """Return the arguments of a launch file."""
    return set(arguments_of(router=file.startswith("bringup")))


def test_stages_come_from_official_images_or_from_each_other() -> None:
    found = stages()
    assert list(found) == ["dependencies", "build", "build-simulator", "test", "run", "simulator"]
    bases = [base for base in found.values() if base not in found]
    assert bases == ["ros:${ROS_DISTRO}-ros-base", "ros:${ROS_DISTRO}-ros-core"]
    assert ("ARG", "ROS_DISTRO=kilted") == instructions()[0]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    for kind, text in instructions():
        if kind != "COPY":
            continue
        *sources, _ = [word for word in text.split() if not word.startswith("--")]
        origin = re.match(r"--from=([\w-]+)", text)
        for source in sources:
            if origin:
                assert origin[1] in stages()
                assert source in DOCKERFILE.partition(f"AS {origin[1]}\n")[2], f"stage {origin[1]} makes no {source}"
            else:
                assert (ROOT / source).exists() and source not in ignored


def test_the_image_that_runs_is_not_root_and_has_a_health_check() -> None:
    run = DOCKERFILE.partition(" AS run\n")[2].partition("\nFROM ")[0]
    assert re.findall(r"^USER (.*)$", run, re.M) == ["brain"] and "useradd --create-home brain" in run
    assert run.index("USER brain") < run.index("HEALTHCHECK") < run.index("\nCMD ")


def test_a_robots_image_has_neither_simulator_nor_training_nor_tests() -> None:
    dependencies, build, run = (DOCKERFILE.partition(f" AS {stage}\n")[2].partition("\nFROM ")[0]
                                for stage in ("dependencies", "build", "run"))
    assert re.findall(r"requirements-[\w-]+\.txt", dependencies) == ["requirements-ros.txt"] * 2
    assert "requirements" not in build + run and stages()["run"].endswith("ros-core")
    (selected,) = re.findall(r"--packages-select ([\w ]+)$", build, re.M)
    assert sorted(selected.split()) == ["brain", "brain_edge", "brain_interfaces", "brain_regions", "brain_runtime",
                                        "brain_security", "brain_wire"]
    assert set(re.findall(r"--from=(\S+)", run)) == {"dependencies", "build"}
    simulator = DOCKERFILE.partition(" AS simulator\n")[2]
    assert stages()["simulator"] == "run" and simulator.rindex("USER brain") > simulator.index("USER root")
    assert "requirements-ros-sim.txt" in simulator and "brain_tests" not in simulator


def test_compose_has_a_router_first_and_keeps_the_state() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"zenoh-router", "brain"}
    for service in services.values():
        assert service["build"]["target"] == "${BRAIN_TARGET:-run}"
        assert (ROOT / service["build"]["context"] / "Dockerfile").is_file()
        assert service["network_mode"] == "host" and service["image"].startswith("brain:")
    assert services["brain"]["depends_on"] == {"zenoh-router": {"condition": "service_healthy"}}
    assert "healthcheck" in services["zenoh-router"] and "router:=false" in services["brain"]["command"]
    (volume,) = services["brain"]["volumes"]
    name, _, folder = volume.partition(":")
    assert name in COMPOSE["volumes"] and f"VOLUME {folder}\n" in DOCKERFILE
    assert f"state_dir:={folder}" in services["brain"]["command"]


def said(command: str, **environment: str) -> subprocess.CompletedProcess:
    """Return what a shell makes of a command's words; compose fills in variables in the same way."""
    return subprocess.run(["bash", "-c", f"echo {command}"], env={"PATH": os.environ["PATH"], **environment}, text=True,
                          capture_output=True)


def test_no_container_drives_a_robot_that_was_not_named() -> None:
    command = COMPOSE["services"]["brain"]["command"]
    done = said(command)
    assert done.returncode != 0 and "name the robot, or say BRAIN_WORLD=sim" in done.stderr
    for environment, world, robot in (({"BRAIN_ROBOT": "mine.yaml"}, "none", "mine.yaml"),
                                      ({"BRAIN_WORLD": "sim"}, "sim", "sim"),
                                      ({"BRAIN_WORLD": "sim", "BRAIN_ROBOT": "mine.yaml"}, "sim", "mine.yaml")):
        words = said(command, **environment).stdout.split()
        assert f"world:={world}" in words and f"robot:={robot}" in words
        assert robot_in(world, robot) == robot
    image, simulator = [json.loads(text) for kind, text in instructions() if kind == "CMD"]
    assert "world:=sim" in simulator    # and thus the robot's profile is the simulator's
    image = image[2].removeprefix("exec ")
    assert said(image).stdout.split()[4:] == ["state_dir:=/var/lib/brain", "world:=none"]    # launch says so
    assert {"world:=none", "robot:=r1.yaml"} <= set(said(image, BRAIN_ROBOT="r1.yaml").stdout.split())
    assert "world:=sim" in said(image, BRAIN_WORLD="sim").stdout.split()
    with pytest.raises(RobotError):
        robot_in("none", "")


def test_routers_listen_on_this_machine_only_unless_they_are_opened() -> None:
    setting = COMPOSE["services"]["zenoh-router"]["environment"]["ZENOH_CONFIG_OVERRIDE"]
    default = re.sub(r"\$\{BRAIN_ROUTER_LISTEN:-(.*)\}", r"\1", setting)
    (unit,) = [text for text in units() if "rmw_zenohd" in text]
    (override,) = re.findall(r"'ZENOH_CONFIG_OVERRIDE=(.*)'", unit)
    for text in (default, override):
        assert read({"ZENOH_CONFIG_OVERRIDE": text}).listen == ("tcp/localhost:7447",)


def test_workflow_tests_both_distributions_in_both_ways() -> None:
    jobs = WORKFLOW["jobs"]
    assert set(jobs) == {"check", "docs", "wheels", "containers"}
    for name in ("wheels", "containers"):
        assert jobs[name]["strategy"]["matrix"] == {"ros": ["kilted", "jazzy"]}
    assert jobs["check"]["strategy"]["matrix"] == {"python": ["3.11", "3.12", "3.13", "3.14"]}
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert "make test ROS=${{ matrix.ros }}" in commands and "make check PYTHON=python" in commands
    targets = [target for command in commands for target in re.findall(r"--target (\w+)", command)]
    assert targets == ["test", "run", "simulator"] and set(targets) <= set(stages())
    for ros in ("kilted", "jazzy"):
        assert (ROOT / "scripts" / f"ros-requirements-{ros}.txt").is_file()


@pytest.mark.parametrize("place", PLACES)
def test_commands_name_what_there_is(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`|run: )make ([a-z-]+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
    # Dockerfile and workflow write the words of a command as a list too.
    plain = re.sub(r'", "', " ", text)
    for file, rest in re.findall(r"ros2 launch brain ([\w.]+)((?:\s+[\w-]+:=\S+)*)", plain):
        assert (ROOT / "launch" / file).is_file(), f"ros2 launch brain {file}"
        assert set(re.findall(r"([\w-]+):=", rest)) <= arguments(file), rest
    for package, executable in re.findall(r"ros2 run (brain\w*) (\w+)", plain):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "src" / package / "setup.cfg", encoding="utf-8")
        assert re.search(rf"^{executable} = ", setup["options.entry_points"]["console_scripts"], re.M)
    for file in re.findall(r"(?<![\w/])(?:src/brain/)?((?:src|scripts|docs)/[\w./-]+\.\w+)", text):
        assert (ROOT / file).exists() or (ROOT / file.removeprefix("src/brain/")).exists(), f"{place} names {file}"


@pytest.mark.parametrize("place", ["docs/deployment.md", "docs/ros2.md"])
def test_what_was_not_run_stands_in_one_table_that_the_page_names_first(place: str) -> None:
    above, _, _ = (ROOT / place).read_text(encoding="utf-8").partition("```")
    assert "](evidence.md#what-was-run-where)" in above
    table = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").partition("## What was run where")[2]
    (row,) = [line for line in table.splitlines() if re.match(rf"\| \[[^\]]+\]\({Path(place).name}\)", line)]
    *_, not_run = (cell.strip() for cell in row.strip("| ").split(" | "))
    assert len(not_run) > 10, row


def test_no_other_page_says_for_itself_what_was_not_run() -> None:
    pages = (ROOT / "docs").glob("*.md")
    assert [page.name for page in pages if "not run here" in page.read_text(encoding="utf-8")] == []


def units() -> list[str]:
    """Return the units in the documentation that are whole."""
    return [text for text in re.findall(r"```ini\n(.*?)```", DEPLOYMENT, re.S) if "[Install]" in text]


def test_units_are_read_by_systemd(tmp_path: Path) -> None:
    names = re.findall(r"`/etc/systemd/system/([\w-]+\.service)`", DEPLOYMENT)
    assert len(names) == len(units()) == 3
    for name, text in zip(names, units()):
        unit = configparser.ConfigParser(strict=True, interpolation=None)
        unit.optionxform = str
        unit.read_string(text)
        assert unit["Service"]["User"] == "robot" and unit["Service"]["Restart"] == "always"
        # systemd looks up users; this machine has no `robot`.
        (tmp_path / name).write_text(text.replace("User=robot", "User=root"), encoding="utf-8")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
                          capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if any(name in line for name in names)]
    assert said == []
