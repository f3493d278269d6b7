# SPDX-License-Identifier: Apache-2.0
"""A robot's installation: no simulator, training or tests. The brain runs, and says what is not there."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brain_wire.router import free_port

# What requirements-ros.txt and the packages of a robot do not bring; the interpreter finds none of it.
ABSENT = ("brain_collectives", "brain_eval", "brain_observe", "brain_sim", "brain_tests", "brain_training",
          "experiments", "glfw", "h5py", "matplotlib", "mujoco", "nir", "nirtorch", "paho", "pymodbus",
          "rosbags", "snntorch", "torch")
BLOCKER = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
PATIENCE = 240.0    # s; only against waiting for ever


@pytest.fixture
def robot(tmp_path: Path) -> dict[str, str]:
    """The environment variables of a robot's processes."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "sitecustomize.py").write_text(BLOCKER, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "absent"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path / "state"),
            "ROS_DOMAIN_ID": str(free_port() % 80 + 1)}


def run(robot: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], env=robot, capture_output=True, text=True, check=False,
                          timeout=PATIENCE, cwd=robot["XDG_STATE_HOME"].removesuffix("state"))


def test_what_a_robot_lacks_is_absent_here(robot: dict[str, str]) -> None:
    tried = f"""
for package in {ABSENT!r}:
    try:
        __import__(package)
    except ModuleNotFoundError:
        continue
    raise SystemExit(package)
"""
    done = run(robot, "-c", tried)
    assert done.returncode == 0, done.stderr


def test_launching_imports_nothing_but_numpy_and_yaml(robot: dict[str, str]) -> None:
    # ros2 launch runs in the distribution's Python, which has neither torch nor Zenoh.
    script = ("import sys; from brain_runtime.graph.launching import launched; "
              "print(len(launched(world='none', robot='turtlebot3_burger')), "
              "{'numpy', 'yaml', 'torch', 'zenoh', 'safetensors', 'xxhash', 'typer', 'rich'} & set(sys.modules))")
    done = run(robot, "-c", script)
    assert done.returncode == 0, done.stderr
    nodes, modules = done.stdout.split(maxsplit=1)
    assert int(nodes) > 5 and set(eval(modules)) == {"numpy", "yaml"}


def test_a_regions_process_imports_nothing_that_it_does_not_use(robot: dict[str, str]) -> None:
    # A brainstem that died is to be back at once, and on a small computer each of these costs 5 to 100 ms.
    unused = ("asyncio", "difflib", "importlib.metadata", "multiprocessing", "rosbags", "ssl", "tempfile", "torch",
              "typer", "yaml")
    for module in ("brain_regions.brainstem", "brain_regions.goals", "brain_regions.place"):
        script = (f"import sys, brain_runtime.process, {module}; from brain_runtime.contract import heartbeat; "
                  f"from brain_runtime.hosts import diagnostics; from brain_wire import messages; "
                  f"[messages.encoder(t) for t in (heartbeat.TYPE, diagnostics.TYPE)]; "
                  f"print([name for name in {unused!r} if name in sys.modules])")
        assert run(robot, "-c", script).stdout.strip() == "[]", module


def test_every_verb_tells_how_it_is_used(robot: dict[str, str]) -> None:
    done = run(robot, "-m", "brain", "up", "--help")
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr
    others = """
from typer.testing import CliRunner
from brain.cli import app
for verb in "say", "status", "estop", "release", "run", "keys", "policy":
    done = CliRunner().invoke(app, [verb, "--help"])
    assert done.exit_code == 0 and "Usage" in done.output, done.output
"""
    done = run(robot, "-c", others)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments, package, remedy", [
    (["look"], "brain_observe", "--packages-up-to brain brain_observe"),
    (["demo"], "brain_eval", "--packages-up-to brain brain_eval"),
    (["eval", "--episodes", "1"], "brain_eval", "--packages-up-to brain brain_eval"),
    (["docs"], "brain_eval", "--packages-up-to brain brain_eval"),
    (["export", "pfc", "--nir", "pfc.nir"], "brain_training", "--packages-up-to brain brain_training"),
    (["bench", "wire"], "brain_eval", "--packages-up-to brain brain_eval"),
    (["up"], "brain_sim", "--packages-up-to brain brain_sim"),
])
def test_what_is_missing_is_named_in_one_line_with_its_remedy(
        robot: dict[str, str], arguments: list[str], package: str, remedy: str) -> None:
    done = run(robot, "-m", "brain", *arguments)
    assert done.returncode in (1, 2)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert package in done.stderr and remedy in done.stderr


def test_a_static_group_asks_for_its_package(robot: dict[str, str], tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    shipped = Path(__file__).resolve().parents[2] / "brain" / "config" / "robots" / "turtlebot3_burger.yaml"
    profile.write_text(shipped.read_text(encoding="utf-8") + "command_timeout: 0.5\n", encoding="utf-8")
    done = run(robot, "-m", "brain", "up", "--host", "torch", "--world", "none", "--robot", str(profile), "--router",
               f"tcp/127.0.0.1:{free_port()}")
    assert done.returncode in (1, 2) and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "--packages-up-to brain brain_collectives" in done.stderr


def test_an_export_without_nir_says_what_to_install(tmp_path: Path) -> None:
    environment = lacking(tmp_path, "nir")
    done = run(environment, "-m", "brain", "export", "pfc", "--nir", str(tmp_path / "pfc.nir"))
    assert done.returncode in (1, 2) and "no package nir" in done.stderr and "requirements-ros-test.txt" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def lacking(tmp_path: Path, package: str) -> dict[str, str]:
    """The environment of a process that finds all but one package."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.replace(repr(ABSENT), repr((package,))), encoding="utf-8")
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"),
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize("arguments", [["eval", "--episodes", "1", "--ablate", "language=conventional"],
                                       ["bench", "sentences", "list.txt"]])
def test_who_is_not_at_the_checkout_is_told_where_experiments_are(tmp_path: Path, arguments: list[str]) -> None:
    done = run(lacking(tmp_path, "experiments"), "-m", "brain", *arguments)
    assert done.returncode in (1, 2) and "go to the top of the checkout" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_whoever_has_not_even_typer_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.replace("brain_sim", "typer"), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "brain"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})
    assert done.returncode == 1 and "no package typer" in done.stderr and "requirements-ros.txt" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_brain_runs_and_is_spoken_to(robot: dict[str, str], tmp_path: Path) -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    robot["BRAIN_ROUTER"] = endpoint
    with open(tmp_path / "up.log", "wb") as log:
        up = subprocess.Popen([sys.executable, "-m", "brain", "up", "--world", "none", "--robot", "turtlebot3_burger",
                               "--router", endpoint], env=robot, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + PATIENCE
        while (status := run(robot, "-m", "brain", "status", "--json")).returncode:
            assert time.monotonic() < until and up.poll() is None, (tmp_path / "up.log").read_text() + status.stdout
        told = json.dumps(json.loads(status.stdout))
        assert all(name in told for name in ("brainstem", "goals", "language", "motor", "pfc", "place", "vision"))
        said = run(robot, "-m", "brain", "say", "go to the red ball", "--wait", "1")
        assert "Traceback" not in said.stderr, said.stderr
        for verb in ("estop", "release"):
            done = run(robot, "-m", "brain", verb)
            assert done.returncode == 0, done.stderr
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(PATIENCE)
