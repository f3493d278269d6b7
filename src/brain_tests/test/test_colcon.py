# SPDX-License-Identifier: Apache-2.0
"""The repository in a user's workspace: what colcon builds and installs, with links and without, and what it leaves."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ["brain", "brain_cloud", "brain_collectives", "brain_edge", "brain_eval",
            "brain_observe", "brain_regions", "brain_runtime", "brain_security", "brain_sim", "brain_tests",
            "brain_training", "brain_wire"]
ROBOT = ("brain", "brain_regions", "brain_runtime", "brain_security", "brain_wire")   # and brain_interfaces
SCRIPTS = {"brain": ["brain"], "brain_runtime": ["ros_region"]}

# `make test` has made these: the ROS 2 of wheels, and brain_interfaces compiled for it, which takes half a minute.
INSTALLED = [(ROOT / f".venv-ros{name}", ROOT / f".ros{name}" / "install" / "brain_interfaces")
             for name in ("", "-jazzy")]
FOUND = next((pair for pair in INSTALLED if all(path.is_dir() for path in pair)), None)

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(FOUND is None, reason="needs what `make test` builds on Linux x86_64")]


def run(command: str, folder: Path, *sources: Path) -> str:
    """Run a command line where ROS, our messages and more setup files are sourced; return what it printed."""
    environment, interfaces = FOUND
    files = [environment / "setup.bash", interfaces / "share" / "brain_interfaces" / "local_setup.bash", *sources]
    line = " && ".join([*(f"source '{file}'" for file in files), command])
    unwanted = ("PYTHONPATH", "AMENT_PREFIX_PATH", "COLCON_PREFIX_PATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
    variables = {key: value for key, value in os.environ.items() if key not in unwanted}
    variables |= {"PATH": f"{environment / 'bin'}:{variables['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def clone(folder: Path) -> Path:
    """Copy the sources as they are now, committed or not, into a repository of their own."""
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "sources")
    return folder


@pytest.fixture(scope="module", params=["copies", *(pytest.param(f"{how} of all", marks=pytest.mark.extended)
                                                    for how in ("copies", "links"))])
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in whose src/ lies a clone of this repository, built in the ordinary way or with links.

    `make test` has built all packages once; here it is those of a robot, since each takes seconds.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are not a git checkout")
    how, *of_all = request.param.split()
    folder = tmp_path_factory.mktemp(how)
    clone(folder / "src" / "robots_brain")
    which = "--packages-ignore brain_interfaces" if of_all else f"--packages-select {' '.join(ROBOT)}"
    run(f"colcon build {which} " + "--symlink-install " * (how == "links"), folder)
    return folder


def shared(prefix: Path, package: str) -> dict[str, bytes]:
    """Return the data files that a package installed below share/, without colcon's own, and what is in them."""
    share = prefix / "share"
    places = [share / package, share / "ament_index"]
    files = [f for place in places for f in place.rglob("*") if f.is_file() and "hook" not in f.parts]
    own = [f for f in files if f.suffix not in (".bash", ".dsv", ".sh", ".ps1", ".zsh")]
    return {str(f.relative_to(share)): f.read_bytes() for f in own}


def wanted(package: str) -> dict[str, bytes]:
    """Return what a package should install below share/."""
    source = ROOT / "src" / package
    files = [source / "package.xml", *source.glob("config/**/*.*"), *source.glob("launch/*.py")]
    return {f"ament_index/resource_index/packages/{package}": (source / "resource" / package).read_bytes(),
            **{f"{package}/{f.relative_to(source)}": f.read_bytes() for f in files if f.is_file()}}


def modules(folder: Path) -> list[str]:
    """Return the files of a Python package, modules and data."""
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc")


@pytest.mark.parametrize("package", PACKAGES)
def test_data_and_scripts_are_installed(workspace: Path, package: str) -> None:
    prefix = workspace / "install" / package
    if not prefix.exists():
        prefix, workspace = FOUND[1].parent / package, ROOT     # as `make test` has built it, with copies
        built = (FOUND[1].parents[1] / "build.log").stat().st_mtime
        if any((ROOT / name).stat().st_mtime > built for name in git(ROOT, "ls-files", f"src/{package}").splitlines()):
            pytest.skip(f"{prefix} is older than the sources; `make test` builds it anew")
    assert shared(prefix, package) == wanted(package)
    assert sorted(f.name for f in (prefix / "lib" / package).glob("*")) == SCRIPTS.get(package, [])
    links = (workspace / "build" / package / package).is_symlink()
    for name in wanted(package):
        assert (prefix / "share" / name).resolve().is_relative_to(workspace / "src") == links, name


def test_modules_come_from_the_workspace_with_their_weights_and_data(workspace: Path) -> None:
    script = ("import brain, brain_regions.vision.weights as w, brain_runtime.share as s; "
              "print(brain.__file__, w.SHIPPED.is_file(), s.share_directory('brain'), sep='|')")
    said = run(f'python -c "{script}"', workspace, workspace / "install" / "setup.bash")
    module, weights, share = said.strip().split("|")
    assert Path(module).is_relative_to(workspace) and weights == "True"
    assert share == str(workspace / "install" / "brain" / "share" / "brain")


def test_what_ros2_run_would_start_runs(workspace: Path) -> None:
    setup = workspace / "install" / "setup.bash"
    assert "Usage" in run("install/brain/lib/brain/brain --help", workspace, setup)
    assert "Usage" in run("install/brain/bin/brain --help", workspace, setup)
    by_name = run("brain estop --help", workspace, setup)
    assert run("install/brain/lib/brain/brain estop --help", workspace, setup) == by_name
    assert "--class" in run("install/brain_runtime/lib/brain_runtime/ros_region --help", workspace, setup)


@pytest.mark.parametrize("shell, setup", [("bash", "setup.bash"), ("sh", "setup.sh")])
@pytest.mark.extended("merged")
@pytest.mark.parametrize("layout", ["isolated", "merged"])
def test_brain_is_a_command_where_the_workspace_is_sourced(workspace: Path, layout: str, shell: str, setup: str
                                                           ) -> None:
    install = workspace / "install"
    if layout == "merged":
        install = workspace.with_name(f"{workspace.name}-merged") / "install"
        if not install.is_dir():
            install.parent.mkdir()
            links = "--symlink-install" * workspace.name.startswith("links")
            run(f"colcon --log-base '{install.parent}/log' build --merge-install --install-base '{install}' "
                f"--build-base '{install.parent}/build' --packages-select {' '.join(ROBOT)} {links}", workspace)
    environment, interfaces = FOUND
    variables = {"HOME": os.environ.get("HOME", "/"), "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(workspace),
                 "PYTHONDONTWRITEBYTECODE": "1"}    # with links it would leave them in the clone
    sources = [environment / "setup.sh", interfaces / "share" / "brain_interfaces" / "local_setup.sh", install / setup]
    line = " && ".join([*(f"COLCON_CURRENT_PREFIX= AMENT_CURRENT_PREFIX= . '{file}'" for file in sources),
                        "command -v brain", "brain --help", "brain status --router tcp/localhost:1"])
    done = subprocess.run([shell, "-c", line], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{install}/"), done.stdout + done.stderr
    assert "Usage" in done.stdout and done.returncode == 1
    assert "no Zenoh router at tcp/localhost:1" in done.stderr


def test_building_and_testing_leave_nothing_in_the_clone(workspace: Path) -> None:
    run("colcon test --packages-select brain_runtime --return-code-on-test-failure --pytest-args -k test_inbox",
        workspace)
    assert "0 failures" in run("colcon test-result", workspace)
    assert git(workspace / "src" / "robots_brain", "status", "--porcelain", "--ignored") == ""
    assert sorted(f.name for f in workspace.iterdir()) == ["build", "install", "log", "src"]


@pytest.mark.extended
def test_a_package_alone_installs_the_same(tmp_path: Path) -> None:
    for package in PACKAGES:    # none has a sibling, nor a repository round it
        shutil.copytree(ROOT / "src" / package, tmp_path / package / package,
                        ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    run("colcon build --paths " + " ".join(f"{package}/{package}" for package in PACKAGES), tmp_path)
    for package in PACKAGES:
        assert shared(tmp_path / "install" / package, package) == wanted(package)
        (installed,) = (tmp_path / "install" / package).glob(f"lib/python*/site-packages/{package}")
        assert modules(installed) == modules(ROOT / "src" / package / package)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that another Python than ROS's built, as docs/ros2.md says: `python -m colcon build`, active."""
    folder = tmp_path_factory.mktemp("users")
    packages = " ".join(str(ROOT / "src" / name) for name in (*ROBOT, "brain_sim"))
    run(f"export VIRTUAL_ENV='{ROOT / '.venv'}' && '{ROOT / '.venv' / 'bin' / 'python'}' -m colcon build "
        f"--paths {packages}", folder)
    return folder


def test_whoever_sources_the_workspace_gets_nothing_of_the_builders_environment(users: Path) -> None:
    said = run("printenv PYTHONPATH", users, users / "install" / "setup.bash")
    assert str(users) in said and str(ROOT / ".venv" / "lib") not in said
    script = "import sys, brain; print([name for name in ('zenoh', 'torch', 'mujoco') if __import__('importlib.util')" \
             ".util.find_spec(name)])"
    assert run(f'"{sys._base_executable}" -c "{script}"', users, users / "install" / "setup.bash").strip() == "[]"


def test_executables_run_in_the_python_that_built_them(users: Path) -> None:
    for executable in ("brain/bin/brain", "brain_runtime/lib/brain_runtime/ros_region"):
        first = (users / "install" / executable).read_text(encoding="utf-8").splitlines()[0]
        assert first == f"#!{ROOT / '.venv' / 'bin' / 'python'}"
    assert "Usage" in run("brain status --help", users, users / "install" / "setup.bash")


def test_launch_finds_what_regions_import_in_the_executables_environment(users: Path) -> None:
    # ros2 launch runs in the distribution's Python; brain.ros_launch says where else it looks.
    script = ("from brain.interpreter import share_packages; print(share_packages()); "
              "import mujoco, zenoh; from brain_runtime.graph.launching import launched; "
              "print(zenoh.__file__, len(launched(world='sim')), sep='|')")
    said = run(f'"{sys._base_executable}" -c "{script}"', users, users / "install" / "setup.bash")
    folder, line = said.strip().splitlines()
    module, nodes = line.split("|")
    assert Path(module).is_relative_to(folder) and Path(folder).is_relative_to(ROOT / ".venv") and int(nodes) > 5
