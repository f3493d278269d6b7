# SPDX-License-Identifier: Apache-2.0
"""The command line by itself: help, exit statuses, and what is said when something is wrong."""
import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import types

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_tests.cases import of_all
from brain_wire import open_node
from brain_wire.router import free_port

inspect_graph = importlib.import_module("brain_runtime.graph.inspect_graph")    # the module, not its function

VERBS = ("up", "say", "status", "look", "run", "start", "stop", "estop", "release", "eval", "train vision",
         "bench wire", "bench tls", "bench brain", "bench gaps", "bench pictures", "bench ros", "bench neurons",
         "bench nir", "demo", "docs", "keys", "policy", "export", "film", "score", "collectives")


@pytest.fixture
def brain_apart(monkeypatch):
    """Runs the command in this process; nobody listens where it looks for a router, and it does not wait long."""
    monkeypatch.setitem(open_node.__wrapped__.__kwdefaults__, "patience", 0.2)
    monkeypatch.setenv("ROS_DOMAIN_ID", "87")
    monkeypatch.setenv("BRAIN_ROUTER", f"tcp/127.0.0.1:{free_port()}")
    monkeypatch.setenv("BRAIN_SECURITY", "")    # which verbs set; it is what it was again after the test
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it started a process"))
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def brain(brain_apart, monkeypatch):
    """As well, and graphs are resolved in this process too, where the shipped regions are imported once."""
    def run(command, **given):
        assert command == [sys.executable, "-m", inspect_graph.__name__]
        monkeypatch.setattr(sys, "stdin", io.StringIO(given["input"]))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            inspect_graph.main()
        return subprocess.CompletedProcess(command, 0, said.getvalue(), "")

    here = types.SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(inspect_graph, "subprocess", here)
    return brain_apart


@of_all(VERBS)
def test_every_verb_has_help(verb, brain):
    result = brain(*verb.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output and len(result.output.splitlines()) > 5


def test_help_lists_every_verb_and_imports_nothing_heavy():
    code = ("import sys\nfrom brain.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
            "print([m for m in ('torch', 'mujoco', 'zenoh', 'numpy', 'matplotlib') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for verb in VERBS:
        assert re.search(rf"^\s+{verb.split()[0]}\b", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("verb", [("say", "go to the red ball"), ("status",), ("look",), ("estop",), ("release",),
                                  ("stop", "motor"), ("start", "motor")])
def test_without_a_router_the_remedy_is_named(brain, verb):
    result = brain(*verb)
    assert result.exit_code == 1
    assert "no Zenoh router at tcp/127.0.0.1:" in result.output and "brain up" in result.output


BARE = '''
from brain_runtime import FEATURE, Out, Region
from brain_runtime.contract.declared import Network

class Bare(Region):
    network = Network("own46:Bare")
    rate = 1.0
    said = Out("said", "std_msgs/msg/String", FEATURE)
'''


@pytest.mark.skipif(importlib.util.find_spec("brain_training") is None, reason="brain_training is not installed")
def test_every_verb_finds_the_modules_of_this_folder_and_a_region_without_a_circuit_is_named(tmp_path):
    (tmp_path / "own46.py").write_text(BARE)
    (tmp_path / "own.graph.yaml").write_text("regions: {bare: 'own46:Bare'}\n")
    script = "import sys\nsys.path.remove('')\nfrom brain.command import main\nmain()"    # as a console script begins
    words = ["export", "bare", "--nir", "x.nir", "--graph", "own.graph.yaml"]
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "bare (own46:Bare) says that its network spikes, but has no `circuit()`" in done.stderr


def test_pages_that_cannot_be_written_are_named(brain, tmp_path):
    (tmp_path / "file").write_text("")
    for out in ("/proc/x", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        assert one_line(brain("docs", "--out", out), 1).endswith("name another folder with --out\n")


def test_the_command_that_keys_prints_is_one_that_runs(brain, tmp_path):
    made = brain("keys", str(tmp_path / "keys"), "--world", "none", "--robot", "turtlebot3_burger", "--domain", "4",
                 "--namespace", "/r1")
    up, say = (shlex.split(line)[1:] for line in made.output.splitlines() if line.startswith("  brain "))
    done = brain(*up, "--dry-run")
    assert done.exit_code == 0 and "robot turtlebot3_burger, world none" in done.output, done.output
    assert say == ["say", *up[up.index("--secure"):], "go to the red ball"]
    assert "--robot PROFILE" in brain("keys", str(tmp_path / "other"), "--world", "none").output


@pytest.mark.parametrize("module, at", [("brain.__main__", "brain.cli"),
                                        ("brain_runtime.process", "brain_runtime.graph")])
def test_a_ctrl_c_while_it_is_loaded_tells_nothing(module, at):
    script = ("import os, runpy, signal, sys\nclass At:\n    def find_spec(self, name, *_):\n"
              f"        if name == {at!r}: os.kill(os.getpid(), signal.SIGINT)\n"
              f"sys.meta_path.insert(0, At())\nrunpy.run_module({module!r}, run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", script, "status"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("verb, code", [(("status",), 130), (("fleet", "costs"), 130), (("status", "--watch"), 0)])
def test_a_look_that_was_interrupted_is_not_a_good_one(brain, monkeypatch, verb, code):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("brain_wire.open_node", interrupted)
    assert brain(*verb).exit_code == code


def test_whoever_means_the_robot_and_stops_no_region_is_told_how(brain):
    assert "`brain estop` stops the robot" in one_line(brain("stop"), 2)
    assert "as in `brain start vision`" in one_line(brain("start"), 2)


def test_a_stop_that_reached_nobody_says_what_to_do(brain):
    assert "ROBOT'S OWN EMERGENCY STOP" in brain("estop").output
    assert "EMERGENCY" not in brain("release").output


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_sentence_is_not_understood(brain, text):
    result = brain("say", text)
    assert result.exit_code == 2 and "empty" in result.output


def test_text_that_is_no_text(brain):
    result = brain("say", "go to the \udcff ball")
    assert result.exit_code == 2 and "UTF-8" in result.output


@pytest.mark.parametrize(("content", "said"), [
    (None, "there is no graph file"),
    ("regions: [", "not YAML"),
    ("regions: {a: {class: nonsense}}", "package.module:Class"),
    ("regions: {a: 'no_such_package.x:Y'}", "cannot import no_such_package"),
    ("regions: {a: 'brain_eval.policies:WITHOUT_BRAIN'}", "is not a Region"),
    ("regions: {a: 'brain_regions.motor:Motor'}", "nobody feeds"),
    ("regions: {a: 'two:Says', b: 'two:Hears'}", "topic x has two types"),
    ("regions: {a: 'two:Tells', b: 'two:Reads'}", "topic y has two codecs: json (a), bytes (b)"),
    ("regions: {a: 'falls_over:Region'}", "region a: importing falls_over ends with RuntimeError: I always do, in "),
    ("regions: {a: 'leaves:Region'}", "ended the process"),
])
def test_a_graph_that_cannot_run(brain_apart, tmp_path, monkeypatch, content, said):
    (tmp_path / "falls_over.py").write_text("raise RuntimeError('I always do')\n")
    (tmp_path / "leaves.py").write_text("import os\nos._exit(3)\n")
    (tmp_path / "two.py").write_text(
        "from brain_runtime import In, Out, Region\n\nclass Says(Region):\n    x = Out('x', 'std_msgs/msg/String')\n\n"
        "class Hears(Region):\n    x = In('x', 'std_msgs/msg/Bool')\n\n"
        "class Tells(Region):\n    y = Out('y', codec='json')\n\n"
        "class Reads(Region):\n    y = In('y', codec='bytes')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    graph = tmp_path / "bad.graph.yaml"
    if content is not None:
        graph.write_text(content)
    result = brain_apart("up", str(graph), "--world", "none", "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert said in result.output.replace("\n", " ")
    assert not (tmp_path / "run" / "logs").exists()


def test_an_unknown_graph_and_an_unknown_world(brain, tmp_path):
    result = brain("up", "brian", "--run-dir", str(tmp_path))
    assert result.exit_code == 1 and "no graph 'brian'" in result.output and "brain" in result.output
    result = brain("up", "--world", "moon", "--run-dir", str(tmp_path))
    assert result.exit_code == 1 and "no world 'moon'" in result.output and "arena" in result.output


@pytest.mark.parametrize("verb", [("up", "--dry-run"), ("cloud",)])
@pytest.mark.parametrize("endpoint", ["foo", "", "tcp/", "tcp/0.0.0.0", "tcp/:7447", "0.0.0.0:7447", "tcp/a\x1b[2J:1"])
def test_what_is_no_endpoint_is_refused_before_anything_starts(brain, verb, endpoint):
    result = brain(*verb, "--listen", endpoint)
    assert result.exit_code == 2 and "is no endpoint; write it as tcp/0.0.0.0:74" in result.output
    assert result.output.isprintable() or result.output.count("\n") == 1


def test_a_router_elsewhere_is_not_started_from_here(brain, tmp_path):
    result = brain("up", "--router", "tcp/192.0.2.1:7447", "--run-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "python -m brain_wire.router --listen" in result.output.replace("\n", " ")


def test_a_port_that_something_else_has(brain, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = brain("up", "--router", f"tcp/127.0.0.1:{port}", "--run-dir", str(tmp_path))
    assert result.exit_code == 1
    assert f"port {port} is taken by a program that is no Zenoh router" in result.output and "--router" in result.output


def test_run_names_the_regions_there_are(brain):
    result = brain("run", "cerebellum")
    assert result.exit_code == 1
    assert all(name in result.output for name in ("vision", "brainstem", "camera", "module:Class"))


def test_eval_of_an_unknown_suite(brain):
    result = brain("eval", "--suite", "language-v9")
    assert result.exit_code == 2 and "language-v1" in result.output


@pytest.mark.parametrize("content", ["[1]", "{}", "no JSON", None])
def test_what_is_no_result_is_named(brain, tmp_path, content):
    file = tmp_path / "before.json"
    if content is not None:
        file.write_text(content)
    for arguments in (["eval", "--episodes", "1", "--against", str(file)], ["compare", str(file)]):
        done = brain(*arguments)
        assert done.exit_code == 2 and str(file) in done.output and done.exception.__class__ is SystemExit
        assert ("write it anew" if content else "No such file") in done.output


@pytest.mark.parametrize("arguments", [["eval", "--episodes", "1", "--json"], ["film", "--png"], ["film", "--out"]])
def test_what_cannot_be_written_is_said_before_the_work(brain, tmp_path, arguments, monkeypatch):
    monkeypatch.setattr("brain_eval.evaluate._run", lambda *_, **__: pytest.fail("it began to work"))
    monkeypatch.setattr("brain_eval.episodes.run_local", lambda *_, **__: pytest.fail("it began to work"))
    done = brain(*arguments, str(tmp_path / "lacking" / "x.gif"))
    assert done.exit_code == 2 and f"there is no folder {tmp_path / 'lacking'}" in done.output
    if "--out" not in arguments:
        done = brain(*arguments, str(tmp_path))
        assert done.exit_code == 2 and "it is a folder" in done.output


@pytest.mark.parametrize(("ablated", "said"), [
    (["pfc=conventional", "qpfc=off"], "pfc=conventional leaves no network of which qpfc"),
    (["all=conventional", "integration=off"], "pfc=conventional leaves no network of which integrate"),
    (["vision=silent", "vision=ann"], "contradicts"), (["vision=none"], "there is no ablation")])
def test_ablations_that_do_not_go_together(brain, ablated, said):
    done = brain("eval", "--episodes", "1", *(word for one in ablated for word in ("--ablate", one)))
    assert done.exit_code == 2 and said in done.output


def test_export_names_the_networks_and_bench_memory_wants_something_to_measure(brain, tmp_path):
    done = brain("export", "place", "--nir", str(tmp_path / "x.nir"))
    assert done.exit_code == 1 and "there are vision, language, pfc, motor" in done.output
    done = brain("bench", "memory", "--rooms", "0", "--pairs", "0")
    assert done.exit_code == 2 and "nothing to measure" in done.output


def test_sentences_of_a_list_are_read(brain, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(f"# four\n- : {'go on and ' * 40}\n- : hello there\n"
                    "go red ball / blue box : go to the red ball but avoid the blue box\n"
                    "find red ball : 赤いボールに行って\n")
    done = brain("bench", "sentences", str(file), "--failures", "--json")
    assert done.exit_code == 0, done.output
    (told,), together = json.loads(done.output)["lists"], json.loads(done.output)["together"]
    assert told["language"] == "en" and together["en"] == together["both"]
    assert together["both"]["spiking"]["understood"] == told["networks"]["spiking"]["understood"]
    assert set(told["networks"]) == {"spiking", "network", "lexicon", "ann", "grammar"}
    lexicon = told["networks"].pop("lexicon")       # it takes all that is named for the target
    assert (lexicon["understood"]["count"], lexicon["refused"]["count"]) == (0, 2)
    for found in told["networks"].values():
        assert (found["understood"]["count"], found["understood"]["of"]) == (1, 2)
        assert (found["refused"]["count"], found["refused"]["of"]) == (2, 2)
        assert found["failures"] == [{"text": "赤いボールに行って", "meant": [2, 1, 1, 0, 0], "heard": [1, 1, 1, 0, 0]}]
    assert "failures" not in brain("bench", "sentences", str(file), "--json").output
    done = brain("bench", "sentences", str(file), "--failures")
    assert "mine.txt, spiking: '赤いボールに行って': go red ball, not find red ball" in done.output


@pytest.mark.parametrize(("content", "said"), [
    ("go red bowl : go to the red bowl\n", "not a sentence with its slots: go red bowl"),
    ("# nothing\n", "no sentence"), (None, "cannot read the list")])
def test_a_list_that_is_none(brain, tmp_path, content, said):
    file = tmp_path / "mine.txt"
    if content is not None:
        file.write_text(content)
    done = brain("bench", "sentences", str(file))
    assert done.exit_code == 2 and said in done.output and str(file) in done.output


def test_eval_of_a_control_as_json(brain):
    result = brain("eval", "--policy", "oracle", "--episodes", "3", "--seed", "5", "--json", "-")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["policy"] == "oracle" and len(report["results"]) == 3 and len(report["suite_hash"]) == 64
    assert report["summary"]["all"]["n"] == 3
    again = json.loads(brain("eval", "--policy", "oracle", "--episodes", "3", "--seed", "5", "--json", "-").stdout)
    keep = ("id", "outcome", "time", "path", "spl")
    assert [[r[k] for k in keep] for r in again["results"]] == [[r[k] for k in keep] for r in report["results"]]


def test_quick_training_never_replaces_the_shipped_weights(brain):
    result = brain("train", "vision", "--quick")
    assert result.exit_code == 2 and "--out" in result.output


@pytest.mark.skipif(importlib.util.find_spec("rclpy") is not None, reason="rclpy is here")
def test_a_bench_on_ros_without_ros_says_how_to_get_it(brain):
    result = brain("bench", "ros")
    assert result.exit_code == 1
    assert "rclpy is not there" in result.output and "setup.bash" in result.output and "make test" in result.output


def test_the_version_and_completion():
    command = [sys.executable, "-m", "brain"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"brain \d+\.\d+\.\d+\n", done.stdout)
    code = "import sys; sys.argv[0] = 'brain'; from brain.cli import main; main()"
    for words, found in (("brain stat", "status"), ("brain say --wa", "--wait"), ("brain bench wi", "wire")):
        asked = {**os.environ, "_BRAIN_COMPLETE": "complete_bash", "COMP_WORDS": words,
                 "COMP_CWORD": str(len(words.split()) - 1)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=asked)
        assert done.stdout.split() == [found], done.stderr


def one_line(result, status):
    """What was said, on standard error alone; one line for a person."""
    assert result.exit_code == status and result.stdout == "", result.output
    assert result.stderr.startswith("brain: ") and result.stderr.count("\n") == 1
    return result.stderr


@of_all(itertools.product(
    [("up",), ("say", "go"), ("status",), ("look",), ("estop",), ("release",), ("run", "motor"), ("keys", "k"),
     ("policy",), ("stop", "motor")], ["../../x", "/a/../b", "a b", "9a", "a//b", "a\x1b[2J", "[/x]"]))
def test_a_namespace_that_is_none(case, brain, tmp_path, monkeypatch):
    verb, namespace = case
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    said = one_line(brain(*verb, "--namespace", namespace), 2)
    assert "--namespace" in said and "as in --namespace /robot1" in said and "\x1b" not in said
    assert not list(tmp_path.iterdir())


BROKEN = {
    "lacking": (None, "cannot read parameter file"),
    "a folder": ("/", "cannot read parameter file"),
    "broken": ("a: [", "is not YAML"),
    "no parameters": ("[1, 2]", "must be a mapping"),
    "out of range": ("/**/motor: {ros__parameters: {max_linear: 99.0}}", "max_linear of motor is 99.0, but must be"),
    "unknown": ("/**/motor: {ros__parameters: {max_liner: 0.2}}", "has no parameter max_liner; did you mean max_lin"),
    "another kind": ("motor: {ros__parameters: {max_linear: fast}}", "must be of type float"),
    "of the host": ("/**: {ros__parameters: {use_sim_time: maybe}}", "use_sim_time"),
    "its budget": ("/**: {ros__parameters: {energy_budget: -5.0}}", "energy_budget"),
}


@pytest.mark.parametrize("wrong", BROKEN)
@pytest.mark.parametrize("verb", [("up", "--run-dir", "run"), ("run", "motor", "--robot", "sim")])
def test_a_parameter_file_that_does_not_fit(brain, verb, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, says = BROKEN[wrong]
    file = tmp_path / "mine.yaml"
    if content == "/":
        file.mkdir()
    elif content is not None:
        file.write_text(content)
    assert says in one_line(brain(*verb, "--params-file", str(file)), 1 if verb[0] == "up" else 2)
    assert not (tmp_path / "run").exists()


def test_a_parameter_file_is_for_the_names_it_gives(brain, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("/r1/motor: {ros__parameters: {max_linear: 99.0}}\n/**/moter: {ros__parameters: {x: 1}}\n")
    up = ("up", "--params-file", str(file), "--router", "tcp/192.0.2.1:7447", "--run-dir", str(tmp_path / "run"))
    assert "max_linear" in one_line(brain(*up, "--namespace", "r1"), 1)
    assert "no router answers" in one_line(brain(*up), 1)    # it got as far as the router


@pytest.mark.parametrize("option", ["--run-dir", "--state-dir"])
@pytest.mark.parametrize("where", ["file", "file/below", "/proc/x"])
def test_a_folder_that_cannot_be_written(brain, tmp_path, option, where):
    (tmp_path / "file").write_text("not a folder")
    said = one_line(brain("up", option, str(tmp_path / where)), 2)      # / in front wins
    assert f"for {option}: " in said and "name a folder that can be written" in said
    if option == "--state-dir":
        one_line(brain("run", "brain_sim.plugin_sensors:Sonar", option, str(tmp_path / where)), 2)


def test_a_home_that_cannot_be_written(brain, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/x")
    assert "name a folder" in one_line(brain("up"), 2)


@pytest.mark.parametrize("robot", [(), ("--robot", "sim")])
def test_a_real_robot_must_be_named(brain, robot, tmp_path):
    said = one_line(brain("up", "--world", "none", "--run-dir", str(tmp_path / "run"), *robot), 1)
    assert "turtlebot3_burger" in said and "docs/new-robot.md" in said and "diff_drive_controller" in said
    assert not (tmp_path / "run").exists()


def test_a_region_that_moves_the_robot_wants_to_know_which(brain):
    assert "--robot" in one_line(brain("run", "motor"), 1)


def test_look_names_what_it_cannot_write_before_it_listens(brain, tmp_path):
    for path, says in ((tmp_path / "lacking" / "x.png", "there is no folder"), (tmp_path, "it is a folder"),
                       (tmp_path / "x.qqq", "name a .png"), (tmp_path / "x", "without a suffix")):
        said = one_line(brain("look", "--out", str(path)), 2)
        assert str(path) in said and says in said


@pytest.mark.parametrize("verb", [("look",), ("demo",), ("up",), ("say", "go"), ("status",), ("estop",),
                                  ("stop", "motor"), ("run", "vision")])
def test_credentials_are_taken_by_all_who_reach_a_brain(brain, verb, tmp_path):
    verb = (*verb, "--runs", str(tmp_path)) if verb[0] == "demo" else verb
    said = one_line(brain(*verb, "--secure", str(tmp_path / "none")), 2 if verb[0] == "run" else 1)
    assert str(tmp_path / "none") in said and "brain keys" in said


@pytest.mark.parametrize("verb", [("say", "go"), ("status",), ("look",), ("estop",), ("release",),
                                  ("stop", "motor"), ("compare", "/lacking"), ("keys", "/proc/x"),
                                  ("docs", "--check", "--out", "/proc/x")])
def test_an_error_leaves_standard_output_empty_with_json_too(brain, verb):
    result = brain(*verb, "--json")
    assert result.exit_code != 0 and result.stdout == "" and result.stderr.startswith("brain: ")


def test_what_is_reported_is_reported_as_one_json_object(brain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = json.loads(brain("keys", "k", "--json").stdout)
    assert told["folder"] == str(tmp_path / "k") and "vision" in " ".join(told["made"])
    control = ("eval", "--policy", "oracle", "--episodes", "2", "--seed", "5")
    report = json.loads(brain(*control, "--json", "--out", "one.json").stdout)
    assert json.loads((tmp_path / "one.json").read_text())["summary"] == report["summary"]
    assert brain(*control, "--json", "two.json").exit_code == 0    # as it was written before
    told = json.loads(brain("compare", "one.json", "two.json", "--json").stdout)
    assert [r["summary"]["n"] for r in told["results"]] == [2, 2]
    assert told["results"][1]["paired_with_first"]["success"]["difference"] == 0
    told = json.loads(brain("docs", "--out", str(tmp_path), "--json").stdout)
    assert "launch.md" in told["written"]


DEEP = "regions: " + "{a: " * 5000 + "1" + "}" * 5000


@pytest.mark.parametrize("verb", [
    ("up", "FILE"), ("status", "--graph", "FILE"), ("run", "vision", "--graph", "FILE"),
    ("keys", "k", "--graph", "FILE"),
    ("docs", "--graph", "FILE"), ("demo", "--graph", "FILE"), ("eval", "--episodes", "1", "--graph", "FILE"),
    ("up", "--params-file", "FILE"), ("up", "--robot", "FILE"), ("run", "vision", "--params-file", "FILE")],
    ids=lambda verb: " ".join(verb))
def test_a_file_nested_5000_deep_is_refused_in_one_line(brain, verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.yaml").write_text(DEEP)
    result = brain(*(word.replace("FILE", "deep.yaml") for word in verb))
    assert result.exit_code in (1, 2) and "deep.yaml" in result.stderr and "nested" in result.stderr
    assert "Traceback" not in result.output and result.stderr.splitlines()[-1].startswith("brain: ")
