# SPDX-License-Identifier: Apache-2.0
"""What verbs show of foreign text: nothing is read as markup, nothing steers the terminal; observers cannot fail."""
import contextlib
import io
import json
import re
import sys
import time
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import brain
from brain_eval.blame import blame
from brain_eval.compare import compare
from brain_runtime.command.terminal import Terminal
from brain_runtime.supervision.supervised_brain import SupervisedBrain
from brain_runtime.supervision.listen import Seen
from brain_runtime.supervision.report import footer, input_lines, reason_lines, region_report, table
from brain_runtime.run.workload import Workload
from brain_wire import messages
from brain_wire.observers import LastingFile, guarded

PATIENCE = 240.0     # s; only ends a hang
NASTY = "[/nope] :smile: \x1b[2J\x9b31m\x07\u202e"
SAFE = "[/nope] :smile: \\x1b[2J\\x9b31m\\x07\\u202e"
SOURCES = sorted(Path(brain.__file__).parent.rglob("*.py"))


def shown(what, width=200, **more):
    stream = io.StringIO()
    terminal = Terminal(width=width, **more)
    terminal.file = stream
    terminal.print(what)
    return stream.getvalue()


def test_text_tables_titles_and_status_lines_are_shown_as_they_are():
    grid = Table(title=NASTY)
    grid.add_column(NASTY)
    grid.add_row(NASTY)
    grid.add_row(Text(NASTY, style="red"))
    grid.add_row(Group(NASTY))
    found = shown(grid)
    assert found.count(SAFE) == 4 and "\x1b" not in found
    assert found.count(SAFE.replace("\\x07", "")) == 1     # Rich leaves some out of its own texts
    assert shown(NASTY) == SAFE + "\n"
    stream = io.StringIO()
    terminal = Terminal(width=120, force_terminal=True)
    terminal.file = stream
    with terminal.status(NASTY) as status:
        status.update(NASTY + " again")
        time.sleep(0.2)
    with Live(grid, console=terminal, auto_refresh=False):
        terminal.tell(NASTY + "\nsecond")
    assert SAFE + "\\nsecond" in stream.getvalue() and SAFE + " again" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue() and "\x9b" not in stream.getvalue()


def test_a_report_of_a_brain_with_nasty_names():
    beat = messages.make("brain_interfaces/msg/Heartbeat", name="/" + NASTY, hostname=NASTY, host="[/x]", reason=NASTY,
                         inputs=[NASTY + "\n/brainstem"], input_ages=[0.5])
    found = {"regions": [region_report(beat.name, Seen(beat, time.monotonic()), time.monotonic())], "missing": ["[/b]"],
             "latency": {"n": 0}, "router": True,
             "brainstem": {"action": "passed", "reason": NASTY + "\nx", "linear": 0.0, "angular": 0.0}}
    for live in (False, True):
        told = shown(table(found, live=live))
        assert "/[/nope]" in told and "[/b]" in told and "\x1b" not in told
    assert "\n" not in input_lines(found) and SAFE in input_lines(found)
    assert reason_lines(found) == f"/{SAFE}: {SAFE}"
    assert footer(found).count("\n") == 1
    assert "\x1b" not in shown(input_lines(found)) + shown(footer(found))


def test_no_verb_has_a_console_of_its_own():
    ours = {"inspect_graph.py": "print(", "keys.py": "typer.echo", "cli.py": "typer.echo"}  # JSON, XML and the version
    for path in SOURCES:
        if path.name in ("terminal.py", "observers.py", "options.py"):
            continue
        text = path.read_text(encoding="utf-8").replace(ours.get(path.name, "\0"), "")
        assert not re.search(r"\bConsole\(|from_markup|typer\.(secho|echo)|(?<![.\w])print\(", text), path
        assert not re.search(r"TextColumn\((?!.*markup=False)", text), path


def test_what_observes_cannot_end_the_supervisor(tmp_path, capfd):
    def fails(event):
        raise RuntimeError(f"cannot show {event.name} {NASTY}")

    child = Workload("sleeper", (sys.executable, "-c", "import time; time.sleep(600)"))
    supervised = SupervisedBrain([child, Workload("other", child.argv)], tmp_path, "tcp/127.0.0.1:1", on_event=fails)
    try:
        supervised.supervisor.start()
        supervised.supervisor.kill("other")
        end = time.monotonic() + PATIENCE
        while supervised.supervisor.restarts("other") == 0:
            supervised.round()
            assert time.monotonic() < end
        # what is heard may fail too, in whatever way
        supervised.ear = type("Deaf", (), {"listen": lambda self, seconds: 1 / 0, "close": lambda self: None})()
        supervised.round()
        supervised.round()
    finally:
        supervised.stop()
    told = capfd.readouterr().err
    assert told.count("showing events failed (RuntimeError: cannot show sleeper [/nope]") == 1
    assert told.count("listening to the brain failed (ZeroDivisionError") == 1 and "\x1b" not in told


def test_a_terminal_that_is_gone_is_said_once(capfd):
    full = open("/dev/full", "w")
    lasting = LastingFile(full)
    for _ in range(3):
        assert lasting.write("x" * 100_000) == 100_000
        lasting.flush()
    with contextlib.suppress(OSError):      # what it holds back cannot be written at its end either
        full.close()
    assert 1 <= capfd.readouterr().err.count("No space left on device") <= 2


def test_blame_of_a_part_with_a_nasty_reason_is_one_safe_line():
    status = messages.make("brain_interfaces/msg/GoalStatus", text="x", state=5, reason=NASTY + "\nall is well")
    found = blame("x", status, None, None, [], lambda part: f"/log/{part}")
    stream = io.StringIO()
    terminal = Terminal()
    terminal.file = stream
    terminal.tell(str(found))
    assert stream.getvalue().count("\n") == 1 and SAFE in stream.getvalue()


def test_results_that_others_wrote(tmp_path, capsys):
    share = {"count": 1, "share": 1.0, "wilson95": [0.0, 1.0]}
    report = {"policy": NASTY, "split": "val", "seed": "[/x]", "host": "local", "results": [],
              "summary": {"all": {"n": 1, "success": share, "wrong_object": share, "contact": share, "spl": None,
                                  "time": None, "synops": None}}}
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(report))
    for how in ({"markdown": True}, {"as_json": True}, {}):
        compare([file], region="", **{"markdown": False, "as_json": False, **how})
        told = capsys.readouterr().out
        assert "/nope]" in told and "\x1b" not in told and "\x9b" not in told
        if "as_json" in how:
            assert json.loads(told)["results"][0]["policy"] == NASTY


def test_guarded_gives_what_the_callback_gives():
    assert guarded(lambda a, b=1: a + b, "adding")(2, b=3) == 5
