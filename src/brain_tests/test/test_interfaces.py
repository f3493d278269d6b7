# SPDX-License-Identifier: Apache-2.0
"""Messages as classes by their names: constants, stubs for type checkers, and what is read for it, and when."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from brain_runtime import interfaces
from brain_runtime.contract import constants
from brain_runtime.interfaces import Control, DetectedObject, GoalStatus, Heartbeat, Seek
from brain_tests import stubs
from brain_wire.messages import decode, encode, make, message_class

# What people read; a new constant is called by its name, or has a line in constants.OTHERWISE.
CALLED = {
    ("GoalStatus", "STATE_"): "idle, searching, approaching, reached, not found, not understood, stopped, waiting, "
                              "wrong",
    ("Heartbeat", "STATE_"): "unconfigured, inactive, active, finalized, error",
    ("Trace", "ACTION_"): "passed, limited, reflex, stale, estop, refused",
    ("Control", "MODE_"): "stand, search, approach, stop, avoid",
    ("DetectedObject", "COLOR_"): ", red, green, blue, yellow",
    ("DetectedObject", "SHAPE_"): "thing, ball, box, cylinder"}
TYPED = """
from brain_runtime.interfaces import Control, Seek
control = Control(mode=Control.MODE_SEARCH)
reveal_type(Control.MODE_SEARCH)
reveal_type(control.hazard)
reveal_type(control.header.stamp.sec)
reveal_type(Seek.Result.OUTCOME_REPLACED)
Control.MODE_SLEEP
control.hazzard
Control(mode="search")
from brain_runtime.interfaces import Contrl
"""


@pytest.mark.parametrize("message, prefix", CALLED)
def test_what_constants_are_called(message, prefix):
    named = constants.names(message, prefix)
    assert ", ".join(named.values()) == CALLED[message, prefix]
    assert all(getattr(getattr(interfaces, message), f"{prefix}{name.upper().replace(' ', '_')}") == number
               for number, name in named.items() if name not in constants.OTHERWISE.values())


def test_names_that_differ_are_of_constants_that_there_are():
    for message, constant in constants.OTHERWISE:
        assert isinstance(getattr(getattr(interfaces, message), constant), int)


def test_a_class_is_the_messages_own_and_makes_one_of_zeros():
    assert Control is message_class("brain_interfaces/msg/Control")
    assert encode(Control()) == encode(make("brain_interfaces/msg/Control")) and not hasattr(Control, "mode")
    made = Control(mode=Control.MODE_AVOID, hazard=[0.5] * 36)
    assert decode(encode(made), "brain_interfaces/msg/Control").mode == Control.MODE_AVOID
    assert Control().header is not Control().header
    assert Heartbeat.STATE_ACTIVE == 2 and DetectedObject.SHAPE_CYLINDER == 3


def test_an_action_has_three_parts_and_their_constants():
    assert Seek.Goal(text="go") == make("brain_interfaces/action/Seek_Goal", text="go")
    assert Seek.Result.OUTCOME_REACHED == GoalStatus.STATE_REACHED and Seek.Result.OUTCOME_UNANSWERED == 10
    assert tuple(vars(Seek.Feedback()).values()) == (0, "", "", 0.0, 0.0)


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="brain_interfaces has no type Contrl"):
        interfaces.Contrl   # noqa: B018
    with pytest.raises(ImportError, match="controls"):
        from brain_runtime.interfaces import controls   # noqa: F401


def test_stubs_are_those_of_the_definitions():
    assert stubs.STUB.read_text(encoding="utf-8") == stubs.stubs(), "run `python -m brain_tests.stubs`"


def test_every_class_of_the_stubs_is_there_and_has_what_they_say():
    classes = [node for node in ast.parse(stubs.STUB.read_text(encoding="utf-8")).body
               if isinstance(node, ast.ClassDef) and not node.decorator_list]
    here = {path.stem for kind in ("msg", "action") for path in (interfaces.definitions() / kind).iterdir()}
    assert {node.name for node in classes} == here
    for node in classes:
        parts = [part for part in node.body if isinstance(part, ast.ClassDef)]
        for part in parts or [node]:
            cls = getattr(getattr(interfaces, node.name), part.name) if parts else getattr(interfaces, node.name)
            told = {line.target.id for line in part.body if isinstance(line, ast.AnnAssign)}
            assert told - {"__msgtype__"} == {name for name in {*vars(cls), *vars(cls())} if not name.startswith("_")}


def test_definitions_are_read_when_they_are_asked_for_and_no_others():
    code = ("import sys\nread = []\n"
            "sys.addaudithook(lambda event, args: read.append(str(args[0])) if event == 'open' else None)\n"
            "import brain_runtime.interfaces\n"
            "assert 'numpy' not in sys.modules and not [p for p in read if p.endswith(('.msg', '.action'))]\n"
            "from brain_runtime.interfaces import Control\nControl.MODE_SEARCH\n"
            "print(*[p.rpartition('/')[2] for p in read if p.endswith(('.msg', '.action'))])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Control.msg"]


@pytest.mark.extended
@pytest.mark.slow
def test_a_type_checker_knows_constants_and_fields(tmp_path):
    api = pytest.importorskip("mypy.api")
    root = Path(__file__).parents[3]
    if not (root / "mypy.ini").is_file():
        pytest.skip("no checkout")
    (tmp_path / "typed.py").write_text(TYPED, encoding="utf-8")
    paths = os.pathsep.join(str(root / "src" / package) for package in ("brain_wire", "brain_runtime"))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {paths}\nfollow_imports = silent\n", encoding="utf-8")
    said, wrong, _ = api.run(["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path),
                              "--no-color-output", str(tmp_path / "typed.py")])
    assert not wrong, wrong
    revealed = [line.partition("Revealed type is ")[2] for line in said.splitlines() if "Revealed" in line]
    assert [word in found for word, found in zip(
        ("Literal[1]", "_32Bit", "int", "Literal[9]"), revealed, strict=True)] == [True] * 4, said
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert [word in line for word, line in zip(
        ("MODE_SLEEP", "hazzard", "\"mode\"", "Contrl"), errors, strict=True)] == [True] * 4, said
