# SPDX-License-Identifier: Apache-2.0
"""Whatever is in a file or a parameter: each parser gives a value or raises the one exception that it promises."""
import base64
import dataclasses
import json
import random

import numpy as np
import pytest

from brain_runtime import yaml_text
from brain_runtime.contract import snapshot
from brain_runtime.graph import Graph, GraphError, load_graph, load_worlds
from brain_runtime.graph.robots import RobotError, load_robot, shipped, robots_directory
from brain_runtime.hosts.ros_args import RosArgsError, parse
from brain_runtime.share import share_directory
from brain_security.certificates import CertificateError, Pair, make_authority, make_pair
from brain_security.folder import FolderError, fill
from brain_security.rights import Rights
from brain_tests import hostile
from brain_tests.fuzzing import fuzz
from brain_tests.regions import Mirror
from brain_wire import SessionProblem, names
from brain_wire.credentials import read_credentials
from brain_wire.parameters import ParameterError, check_parameters
from brain_wire.connect_errors import _context
from brain_wire.endpoints import address

GRAPH = (share_directory("brain") / "config" / "brain.graph.yaml").read_text(encoding="utf-8")
PARAMETERS = """
/**:
  ros__parameters:
    rate: 20.0
    use_sim_time: false
    list: [1.0, 2.5]
    nested:
      name: x
      number: 5
      deeper: {a: 1, b: two}
/r1:
  x:
    brainstem:
      ros__parameters:
        max_linear: 0.3
        critical: [pfc, motor]
/r1/*/brainstem:
  ros__parameters:
    camera: camera/image_raw
    stamped: true
"""
ODD = ("&a [*a, *a]", "*a", "!!python/object:os.system x", "!!bool maybe", "!!int ''", "!!timestamp x", "!!float x",
       "2001-99-99", "9" * 5000, "1" + ":59" * 500, "1e999", ".nan", "[" * 5000, "{a: " * 500, "null", "~", "- - - x",
       "? [a]\n: b", "<<: *a", "1.5", "[1, 2]", "[a, b]", "text", "-1", "'quoted'", "{x: {y: 1}}", "\x00",
       "\ud800", '"\\ud800"', "!!binary x", "!!set {a, b}", "!!omap [a: 1]", "{}", "[]",
       "true", "5", "'", "/**:", "ros__parameters: {}", "a" * 5000, "%", "@x", "`", "\t", "é", "0o8", "-",
       "--- x\n---\n")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi"))
MERGES = "a: &a {x: 1}\n" + "\n".join(
    f"{b}: &{b} {{<<: [{', '.join(['*' + a] * 9)}]}}" for a, b in zip("abcdefgh", "bcdefghi"))
DEEP = ["[" * 5000, "a: " + "{a: " * 5000, "regions: " + "[" * 5000 + "]" * 5000, "- " * 5000]


def changed_yaml(draw: random.Random, text: str) -> str:
    """A YAML text with a value, a key or a line that is something else."""
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines))
        key, colon, value = lines[at].partition(":")
        kind = draw.randrange(5)
        if kind <= 1:
            lines[at] = f"{key}{colon} {draw.choice(ODD)}"
        elif kind == 2:
            indent = len(key) - len(key.lstrip())
            lines[at] = f"{' ' * indent}{draw.choice(ODD)}:{value}"
        elif kind == 3:
            lines.insert(at, lines[draw.randrange(len(lines))])
        else:
            del lines[at]
            lines = lines or [""]
    return "\n".join(lines)


def is_mapping(text: str) -> bool:
    """Whether a text is YAML at all, and a mapping: the first thing that is looked at."""
    try:
        return isinstance(yaml_text.parse(text), dict)
    except yaml_text.YamlProblem as problem:
        assert "\n" not in str(problem) and len(str(problem)) < 400
        return False


def written(folder, text: str, name: str):
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def said(error: Exception) -> None:
    """A message is one line that fits a terminal."""
    assert "\n" not in str(error) and len(str(error)) < 2000, str(error)


def test_graph_files(tmp_path):
    def one(draw):
        text = changed_yaml(draw, GRAPH)
        path = written(tmp_path, text, "g.graph.yaml")
        read = draw.choice((load_graph, load_worlds, lambda path: load_graph(path, "arena")))
        try:
            found = read(path)
        except GraphError as error:
            said(error)
        else:
            assert isinstance(found, (Graph, list))
            for spec in found.regions if isinstance(found, Graph) else ():
                names.check_name(spec.name, "name")
        return is_mapping(text)

    fuzz(one, few=300)


def test_parameter_files(tmp_path):
    def one(draw):
        text = changed_yaml(draw, PARAMETERS) if draw.random() < 0.85 else PARAMETERS
        path = written(tmp_path, text, "p.yaml")
        value = draw.choice(ODD)
        for argv in (["--params-file", str(path)], draw.choice((["-p", f"x:={value}"], ["-p", value], ["-r", value],
                                                                ["-r", f"{value}:=x"], ["--log-level", value]))):
            try:
                found, _ = parse(["--ros-args", *argv])
                found.parameters("brainstem", "/r1/x")
                found.namespace(found.node_name("n"))
                found.topic("a/b", "n", "/r1")
            except RosArgsError as error:
                said(error)
        return is_mapping(text)

    fuzz(one, few=300)


def test_profiles(tmp_path):
    sound = [(robots_directory() / f"{name}.yaml").read_text(encoding="utf-8") for name in shipped()]
    graph = load_graph(written(tmp_path, GRAPH, "g.graph.yaml"))

    def one(draw):
        text = changed_yaml(draw, draw.choice(sound))
        path = written(tmp_path, text, "r.yaml")
        try:
            robot = load_robot(str(path))
            robot.on(graph)
            robot.parameters(graph)
        except RobotError as error:
            said(error)
        return is_mapping(text)

    fuzz(one, few=60)


@pytest.mark.parametrize("text", [*DEEP, BOMB, MERGES, "a: &a {b: *a}", "x: " + "9" * 5000, "x" * 10**6],
                         ids=[*("deep",) * len(DEEP), "bomb", "merges", "itself", "digits", "long"])
def test_yaml_that_has_no_end_is_refused_at_once_in_one_line(tmp_path, text):
    path = written(tmp_path, text, "x.yaml")
    with pytest.raises(GraphError) as error:
        load_graph(path)
    said(error.value)
    with pytest.raises(RobotError) as error:
        load_robot(str(path))
    said(error.value)
    with pytest.raises(RosArgsError) as error:
        parse(["--ros-args", "--params-file", str(path)])
    said(error.value)


def test_parameters():
    classes = [spec.load() for spec in load_graph(share_directory("brain") / "config" / "brain.graph.yaml",
                                                  "arena").regions]
    odd = (None, True, 0, -1, 10**400, 2**63, -2**63, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "y" * 10**6,
           (), (1, 2.5), [None], [{}], ["a", 1], {"a": 1}, b"x", range(10**9), [[]], object(), (2**70,), "pfc")

    def one(draw):
        cls = draw.choice(classes)
        known = [field.name for field in dataclasses.fields(cls.Parameters)]
        name = draw.choice(known) if known and draw.random() < 0.8 else draw.choice(("", "x" * 10**5, "rate", 5))
        past = name in known
        try:
            found = check_parameters("region", cls.Parameters, {name: draw.choice(odd)},
                                     current=draw.choice((None, cls.Parameters())))
        except ParameterError as error:
            said(error)
        else:
            for value in dataclasses.astuple(found):
                assert np.isfinite(value) if isinstance(value, float) else isinstance(value, (bool, int, str, tuple))
        return past

    fuzz(one, few=500)


def test_snapshots(tmp_path):
    region = Mirror("mirror")
    region.configure({})
    path = tmp_path / "mirror.safetensors"
    snapshot.write(path, region, region.initial_state())
    sound = path.read_bytes()
    size = int.from_bytes(sound[:8], "little")

    def one(draw):
        if draw.random() < 0.6:     # the header still reads, but says something else
            header = json.loads(sound[8:8 + size])
            part = draw.choice([header, *header.values()])
            key = draw.choice(list(part))
            part[key] = draw.choice((0, -1, [], [2**62, 2**62], "F64", "BF16", "F8_E4M3", {}, None, "x", [0, 2**63],
                                     [1]))
            if draw.random() < 0.3:
                del part[key]
            head = json.dumps(header).encode()
            data = len(head).to_bytes(8, "little") + head + sound[8 + size:]
        else:
            data = hostile.changed_bytes(draw, sound)
        path.write_bytes(data)
        past = len(data) > 8 and int.from_bytes(data[:8], "little") <= len(data) - 8
        try:
            found = snapshot.read(path, region)
        except snapshot.SnapshotError as error:
            assert str(path) in str(error)
        else:
            assert {n: v.shape for n, v in found.items()} == {
                n: np.shape(v) for n, v in region.initial_state().items()}
        return past

    fuzz(one, few=300)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    fill(folder, [Rights("/vision", publishes=frozenset({"/a"}))], domain=3, namespace="/", about={}, days=9.0)
    return folder


def test_credentials(keys, tmp_path):
    note, text = (keys / "vision.json5").read_text().split("\n", 1)
    sound = json.loads(text)
    odd = (None, 0, -1, 10**400, "", "x", [], {}, [None], [[]], True, 1e300, "9" * 5000, "\u0000", ["a", 5])

    def one(draw):
        config = json.loads(text)
        part = config
        while draw.random() < 0.8 and (inner := [v for v in part.values() if isinstance(v, dict) and v]):
            part = config["metadata"]["brain"] if draw.random() < 0.5 else draw.choice(inner)
        key = draw.choice(list(part))
        part[key] = draw.choice(odd)
        changed = json.dumps(config) if draw.random() < 0.8 else hostile.changed_text(draw, text, '":,{')
        path = written(tmp_path, note + "\n" + changed, "vision.json5")
        past = changed.startswith("{")
        try:
            found = read_credentials(path)
            if found is not None:
                found.warning()
                found.missing_right(names.Endpoint(3, "ab", 0, 0, names.NODE, "/", "vision"))
        except SessionProblem as error:
            assert str(path) in str(error)
        try:
            _context(path)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            assert not isinstance(error, AssertionError)    # what refusal.why_not makes a sentence of
        _, _, port = address(hostile.changed_text(draw, "tls/[::1]:7447", "/:."))
        assert 0 <= port < 10**5
        return past

    assert sound["metadata"]["brain"]["name"] == "/vision"
    fuzz(one, few=80)


def test_certificates(keys):
    authority = make_authority("authority", 9.0)
    pair = make_pair(authority, "/vision", 9.0, ["localhost", "::1"])

    def changed(draw, pem: bytes) -> bytes:
        """PEM whose inside is something else; it still begins and ends as it should, most of the time."""
        if draw.random() < 0.2:
            return hostile.changed_bytes(draw, pem)
        first, *body, last, _ = pem.decode().split("\n")
        inside = hostile.changed_bytes(draw, base64.b64decode("".join(body)), resize=draw.random() < 0.3)
        return "\n".join([first, base64.b64encode(inside).decode(), last, ""]).encode()

    def one(draw):
        broken = Pair(changed(draw, pair.key), changed(draw, pair.certificate))
        past = broken.certificate.startswith(b"-----BEGIN CERTIFICATE-----") and b"-----END CERT" in broken.certificate
        for look in (lambda: broken.name, lambda: broken.ends, lambda: broken.hosts(),
                     lambda: broken.signed_by(authority), lambda: pair.signed_by(broken),
                     lambda: make_pair(broken, "/x", 1.0)):
            try:
                look()
            except CertificateError as error:
                said(error)
        return past

    fuzz(one, few=300)


def test_folders_of_keys(tmp_path):
    rights = [Rights("/vision")]
    sound = tmp_path / "sound"
    fill(sound, rights, domain=3, namespace="/", about={}, days=9.0)
    files = {path.name: path.read_bytes() for path in sound.iterdir() if path.suffix in (".key", ".crt")}

    def one(draw):
        folder = tmp_path / "broken"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        name = draw.choice(list(files))
        if draw.random() < 0.1:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(hostile.changed_bytes(draw, files[name]))
        try:
            fill(folder, rights, domain=3, namespace="/", about={}, days=9.0)
        except (FolderError, CertificateError) as error:
            said(error)
        return True

    fuzz(one, few=300)
