# SPDX-License-Identifier: Apache-2.0
"""What the packages say about themselves is true: versions, layers, dependencies, pins, licenses."""

from __future__ import annotations

import ast
import configparser
import re
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import brain_tests
from brain_tests.cases import of_all

ROOT = Path(__file__).resolve().parents[3]
# From the lowest layer up.
LAYERS = ["brain_interfaces", "brain_wire", "brain_runtime", "brain_security", "brain_regions", "brain",
          "brain_sim", "brain_observe", "brain_collectives", "brain_edge", "brain_cloud", "brain_eval",
          "brain_training", "brain_tests"]
PYTHON_PACKAGES = LAYERS[1:]
# What a package may import of the others: the arrows of docs/architecture.md.
_REGIONS = {"brain_interfaces", "brain_wire", "brain_runtime"}
MAY = {
    "brain_wire": {"brain_interfaces"}, "brain_runtime": {"brain_interfaces", "brain_wire"}, "brain_regions": _REGIONS,
    "brain_security": _REGIONS, "brain_sim": _REGIONS, "brain_observe": _REGIONS,
    "brain_collectives": {*_REGIONS, "brain_regions"},
    "brain_edge": {*_REGIONS, "brain_security"}, "brain_cloud": {*_REGIONS, "brain_security", "brain_edge"},
    "brain": {*_REGIONS, "brain_regions", "brain_security"},
    "brain_eval": {*_REGIONS, "brain_regions", "brain_sim", "brain_observe", "brain_collectives"},
    "brain_training": {*_REGIONS, "brain_regions", "brain_sim", "brain_collectives",
                       "brain_security", "brain_observe", "brain_eval", "brain_edge", "brain_cloud"},
}
# Where the name that is imported is not the one that is installed.
DISTRIBUTIONS = {"PIL": "pillow", "google": "protobuf", "grpc": "grpcio", "grpc_tools": "grpcio-tools",
                 "paho": "paho-mqtt", "yaml": "pyyaml", "zenoh": "eclipse-zenoh"}
# Of an extra, and imported in one folder of a package only, which nobody else imports unasked.
FOLDERS = {"kopf": "cluster", "kubernetes": "cluster", "urllib3": "cluster"}
# What pip installs for a ROS distribution: for a robot; with the simulated one; for the tests.
SETS = ["requirements-ros.txt", "requirements-ros-sim.txt", "requirements-ros-test.txt"]
ROBOT = ["brain_interfaces", "brain_wire", "brain_runtime", "brain_security", "brain_regions", "brain", "brain_edge"]
# What only a ROS installation has: modules named ros_* import it, and tests that are collected only there.
ROS_ONLY = {"brain_interfaces", "diagnostic_msgs", "geometry_msgs", "launch", "launch_ros", "lifecycle_msgs",
            "nav_msgs", "rcl_interfaces", "rclpy", "sensor_msgs", "std_msgs", "tf2_msgs",
            "visualization_msgs"}
# rosdep's keys for what pip calls otherwise; None: rosdep has no key, or Ubuntu 24.04's version is too old. Then
# package.xml says in a comment from which of SETS it comes.
ROSDEP_KEYS = {
    "cryptography": "python3-cryptography", "eclipse-zenoh": None, "expecttest": None,
    "grpcio": None, "grpcio-tools": None, "highspy": None, "hypothesis": "python3-hypothesis", "jsonpatch": None,
    "kopf": None, "kubernetes": None,
    "matplotlib": "python3-matplotlib", "mujoco": None, "nir": None, "nirtorch": None,
    "numpy": "python3-numpy", "packaging": "python3-packaging",
    "paho-mqtt": None, "pillow": "python3-pil", "prometheus-client": None, "protobuf": "python3-protobuf",
    "psutil": "python3-psutil", "pymodbus": None, "pytest": "python3-pytest",
    "pytest-timeout": "python3-pytest-timeout", "pyyaml": "python3-yaml", "rich": None,
    "rosbags": None, "safetensors": None, "snntorch": None, "torch": None,
    "typer": None, "urllib3": None, "xxhash": None,
}


@cache
def manifest(package: str) -> ElementTree.Element:
    return ElementTree.parse(ROOT / "src" / package / "package.xml").getroot()


@cache
def setup(package: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "src" / package / "setup.cfg", encoding="utf-8")
    return parser


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def required(package: str, extra: str | None = None) -> dict[str, Requirement]:
    """Return the pip requirements of a package by their normalized names."""
    if extra is None:
        text = setup(package).get("options", "install_requires", fallback="")
    else:
        text = setup(package).get("options.extras_require", extra, fallback="")
    return {r.name.lower().replace("_", "-"): r for r in map(Requirement, lines(text))}


def optional(package: str) -> dict[str, Requirement]:
    """Return what some of a package's users do without."""
    return {name: one for extra in ("torch", "protobuf", "highspy", "metrics", "modbus", "mqtt", "operator")
            for name, one in required(package, extra).items() if name.replace("-", "_") not in LAYERS}


def belongs(module: str, file: Path) -> bool:
    """Return whether a file may import what an extra brings: it is named after that, or in its folder."""
    return file.name.startswith(module) or FOLDERS.get(module) in file.parts


@cache
def pins(file: str) -> dict[str, str]:
    """Return the exact versions in a file of requirements, by their normalized names."""
    found = {}
    for line in lines(re.sub(r"#.*|^-.*", "", (ROOT / file).read_text(encoding="utf-8"), flags=re.M)):
        requirement = Requirement(line)
        (exact,) = requirement.specifier
        assert exact.operator == "==", f"{file} does not pin {requirement.name}"
        found[requirement.name.lower().replace("_", "-")] = exact.version
    return found


def imported(folder: Path) -> dict[str, Path]:
    """Return the first part of every absolute import below a folder, with one file that has it."""
    found = {}
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            for name in names:      # of those that import a module, the one that must not is to be seen first
                first = name.split(".")[0]
                if first not in found or not belongs(first, file):
                    found[first] = file.relative_to(ROOT)
    return found


def distribution(module: str) -> str:
    return DISTRIBUTIONS.get(module, module).lower().replace("_", "-")


def test_there_is_a_manifest_for_every_folder_of_src() -> None:
    kept = {folder: [file for file in folder.rglob("*") if file.is_file()] for folder in (ROOT / "src").iterdir()}
    made = re.compile(r"/(__pycache__|build|[^/]*\.egg-info)/")    # such stay of a package that is gone
    assert sorted(folder.name for folder, files in kept.items() if not all(made.search(str(f)) for f in files)
                  ) == sorted(LAYERS)


@of_all(LAYERS)
def test_manifest_and_setup_agree(package: str) -> None:
    xml, cfg = manifest(package), setup(package)["metadata"]
    assert xml.findtext("name") == package == cfg["name"].replace("-", "_")
    # One version for all: messages of another version do not talk.
    assert xml.findtext("version") == cfg["version"] == manifest("brain_interfaces").findtext("version")
    assert xml.findtext("license") == cfg["license"] == "Apache-2.0"
    assert xml.findtext("description").strip().removesuffix(".") == cfg["description"]
    # colcon takes a package with an invalid address for plain Python, and ros2 does not find it.
    assert re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", xml.find("maintainer").get("email"))
    wanted = "ament_cmake" if package == "brain_interfaces" else "ament_python"
    assert xml.findtext("export/build_type") == wanted


@of_all(PYTHON_PACKAGES)
def test_ament_index_gets_its_marker(package: str) -> None:
    assert (ROOT / "src" / package / "resource" / package).is_file()
    files = setup(package)["options.data_files"]
    assert files["share/ament_index/resource_index/packages"].strip() == f"resource/{package}"
    assert lines(files[f"share/{package}"]) == ["package.xml"]


@of_all(PYTHON_PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    allowed = {package, *MAY.get(package, LAYERS)}
    found = imported(ROOT / "src" / package / package)
    assert {name: str(file) for name, file in found.items() if name in LAYERS and name not in allowed} == {}


@of_all(PYTHON_PACKAGES)
def test_what_is_imported_is_declared_and_nothing_else(package: str) -> None:
    source = imported(ROOT / "src" / package / package)
    tests = imported(ROOT / "src" / package / "test")
    needs = {distribution(m): f for m, f in source.items()
             if m not in {*sys.stdlib_module_names, *ROS_ONLY, package}}
    declared = required(package)
    # What an extra brings, the modules that are named after it may import, which nobody else imports unasked.
    extra = {name for name in optional(package) if belongs(name.partition("-")[0], needs[name])}
    assert {name: str(file) for name, file in needs.items() if name not in {*declared, *extra}} == {}

    known = {*declared, *required(package, "test"), *map(distribution, ROS_ONLY), distribution(package)}
    # What tests have of their own, and all have.
    beside = {file.stem for file in (*(ROOT / "src" / package / "test").rglob("*.py"), *ROOT.glob("*.py"))}
    tested = {distribution(m): f for m, f in tests.items() if m not in {*sys.stdlib_module_names, *beside}}
    assert {name: str(file) for name, file in tested.items() if name not in known} == {}

    # Our own packages are also used as data, by name or as processes; pytest uses its plugin unasked.
    superfluous = set(declared) - set(needs) - set(tested) - {layer.replace("_", "-") for layer in LAYERS}
    assert superfluous - {"pytest-timeout"} == set()


@of_all(PYTHON_PACKAGES)
def test_ros_is_imported_where_it_is_known_to_be_and_declared(package: str) -> None:
    source, tests = (imported(ROOT / "src" / package / part) for part in (package, "test"))
    told = {element.text for element in manifest(package) if element.tag.endswith("depend")}
    for module in ROS_ONLY - {"brain_interfaces"}:
        assert source.get(module, Path("ros_")).name.startswith(("ros_", "ros.")), source.get(module)
        assert module in told or module not in {**source, **tests}, f"{package}'s package.xml lacks {module}"


@of_all(PYTHON_PACKAGES)
def test_ros_and_pip_are_told_the_same(package: str) -> None:
    xml = manifest(package)
    told = {element.text for element in xml if element.tag.endswith("depend")}
    comments = (ROOT / "src" / package / "package.xml").read_text(encoding="utf-8")
    for name in [*required(package), *required(package, "test"), *optional(package)]:
        if name.replace("-", "_") in LAYERS:
            assert name.replace("-", "_") in told
        elif ROSDEP_KEYS[name] is None:
            told_from = re.search(rf"<!-- From (\S+): [^>]*\b{name}\b", comments)
            assert told_from, f"package.xml lacks {name}"
            assert name in pins(told_from[1])
        else:
            assert ROSDEP_KEYS[name] in told


def test_every_requirement_is_pinned_and_the_pin_fits() -> None:
    pinned = pins("constraints.txt")
    for package in LAYERS:
        for name, requirement in {**required(package), **required(package, "test"), **optional(package)}.items():
            if name.replace("-", "_") not in LAYERS:
                assert name in pinned, f"{package} needs {name}, which constraints.txt does not pin"
                assert requirement.specifier.contains(pinned[name])


def test_a_ros_installation_gets_the_same_versions_but_its_own_numpy() -> None:
    pinned, ours = pins("constraints.txt"), {name: v for file in SETS for name, v in pins(file).items()}
    assert sum(len(pins(file)) for file in SETS) == len(ours), "a package stands in two of the sets"
    assert ours.pop("numpy") == pins("scripts/ros-requirements-jazzy.txt")["numpy"] == "1.26.4"
    assert ours == {name: pinned[name] for name in ours}
    known = {name for name, key in ROSDEP_KEYS.items() if key is None}
    assert set(ours) == known, "the sets and what has no rosdep key differ"


def test_each_set_includes_the_one_before_and_a_robot_gets_neither_simulator_nor_training() -> None:
    for before, file in zip(SETS, SETS[1:]):
        assert f"-r {before}\n" in (ROOT / file).read_text(encoding="utf-8")
    assert set(pins(SETS[0])) == {"numpy", "eclipse-zenoh", "rich", "safetensors", "typer", "xxhash"}
    assert set(pins(SETS[1])) == {"mujoco", "torch"}


def test_a_robots_packages_need_no_simulator_training_or_tests_to_run() -> None:
    for package in ROBOT:
        # `colcon build --packages-up-to brain` builds what tests depend on, too
        needs = {element.text for element in manifest(package) if element.tag.endswith("depend")}
        assert "python3-matplotlib" not in needs, package
        assert {need for need in needs if need.startswith("brain")} <= set(ROBOT), package


def test_nobody_is_named_who_does_not_exist() -> None:
    for package in LAYERS:
        address = manifest(package).find("maintainer").get("email")
        assert address.endswith(".invalid"), "write the address that there is now into the documentation too"
        assert "author_email" not in setup(package)["metadata"] and "url" not in setup(package)["metadata"]
        assert manifest(package).find("url") is None


def test_both_distributions_of_wheels_have_the_same_messages() -> None:
    kilted, jazzy = (
        {name.removeprefix(f"ros-{ros}-") for name in pins(f"scripts/ros-requirements-{ros}.txt")
         if name.startswith(f"ros-{ros}-") and name.endswith(("-msgs", "-srvs", "-interfaces", "rclpy"))}
        for ros in ("kilted", "jazzy"))
    assert kilted == jazzy


@of_all(LAYERS)
def test_changelog_begins_with_this_version(package: str) -> None:
    text = (ROOT / "src" / package / "CHANGELOG.rst").read_text(encoding="utf-8")
    title = f"Changelog for package {package}"
    bar = "^" * len(title)
    assert text.startswith(f"{bar}\n{title}\n{bar}\n"), "REP 132 wants this title"
    version, rule = re.search(r"^(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)\n(-+)\n\* ", text, re.M).group(1, 2)
    assert version == manifest(package).findtext("version")
    assert len(rule) == len(f"{version} (2026-01-01)")


@pytest.mark.colcon
@of_all(LAYERS)
def test_ros_reads_manifest_and_changelog(package: str) -> None:
    reader = pytest.importorskip("catkin_pkg.package", reason="catkin_pkg is where colcon is: run by `make test`")
    changelog = pytest.importorskip("catkin_pkg.changelog")
    warnings: list[str] = []
    read = reader.parse_package(str(ROOT / "src" / package), warnings=warnings)
    assert (read.name, warnings) == (package, [])
    told = changelog.get_changelog_from_path(str(ROOT / "src" / package / "CHANGELOG.rst"), package_name=package)
    assert told.rst and read.version in {version for version, _, _ in told.foreach_version()}


def test_linters_are_asked_the_same_of_every_package() -> None:
    asked = {package: dict(setup(package)["flake8"]) for package in PYTHON_PACKAGES}
    for found in asked.values():
        found.pop("per-file-ignores", None)
    assert all(found == asked["brain"] for found in asked.values())
    told = {element.text for element in manifest("brain_tests") if element.tag == "test_depend"}
    assert {"ament_flake8", "ament_pep257", "ament_xmllint"} <= told


def test_every_python_file_names_its_license() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py"),
             *(ROOT / "experiments").rglob("*.py")]
    lacking = [f for f in files if "SPDX-License-Identifier: Apache-2.0" not in f.read_text(encoding="utf-8")[:200]]
    assert [str(f.relative_to(ROOT)) for f in lacking if "build" not in f.relative_to(ROOT).parts] == []


@of_all(["config", "launch", "test"])
def test_links_at_the_top_lead_into_the_packages(link: str) -> None:
    path = ROOT / link
    assert path.is_symlink() and path.is_dir()
    assert path.resolve().is_relative_to(ROOT / "src")


def test_commit_hooks_are_of_this_checkout() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"], "a fetched hook names a registry"
    hooks = config["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} >= {"ruff", "whitespace"}
    assert all(hook["language"] == "system" for hook in hooks)


def installed_for(name: str) -> list[str]:
    """Distributions that an installation of ``name`` brings on this machine, without extras, itself among them."""
    found, left = set(), [name]
    while left:
        one = left.pop().lower().replace("_", "-")
        if one not in found:
            found.add(one)
            wanted = map(Requirement, metadata.requires(one) or ())
            left += [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    return sorted(found)


@pytest.mark.skipif(not (ROOT / ".venv").exists() or "ros" in Path(sys.prefix).name, reason="of an installation by pip")
def test_brain_without_extras_installs_what_is_listed() -> None:
    listed = (Path(brain_tests.__file__).parent / "golden" / "robot-packages.txt").read_text(encoding="utf-8").split()
    assert set(installed_for("brain")) == set(listed), "renew the list if a robot needs this, and say why"
