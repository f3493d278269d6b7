# SPDX-License-Identifier: Apache-2.0
"""The loop and the supervisor with real processes: small scripts that end, refuse to end, or run."""
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from brain_runtime.run.workload import NEVER, REGION, Backoff, Restart, Workload
from brain_runtime.supervision.supervisor import Heartbeats, Supervisor
from brain_wire import messages

RUNS = "import time; print('running', flush=True); time.sleep(600)"
DEAF = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('running', flush=True); "
        "time.sleep(600)")
QUICK = Restart(backoff=Backoff(first=0.01, most=0.05, healthy=10.0))


def script(code: str, name: str = "a", **more) -> Workload:
    return Workload(name, (sys.executable, "-c", code), **{"restart": QUICK, **more})


@pytest.fixture
def supervise(tmp_path):
    """Makes supervisors that are stopped at the end of the test, and keeps their events in ``.events``."""
    made = []

    def make(*children, **more):
        events = []
        supervisor = Supervisor(children, tmp_path / "logs", on_event=events.append, **more)
        supervisor.events = events
        made.append(supervisor)
        supervisor.start()
        return supervisor

    yield make
    for supervisor in made:
        supervisor.stop(grace=0.1)


def rounds_until(supervisor, condition, what):
    """Looks after the children until the condition holds; the bound is only against waiting for ever."""
    for _ in range(600):
        if condition():
            return
        supervisor.round(0.05)
    pytest.fail(f"never: {what}; events: {[(e.name, e.kind, e.text) for e in supervisor.events]}")


def running(supervisor, name="a"):
    return "\nrunning\n" in supervisor.log_path(name).read_text()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_child_is_started_again_with_its_reason(supervise):
    supervisor = supervise(script(RUNS), script(RUNS, "b"))
    rounds_until(supervisor, lambda: running(supervisor), "first start")
    first, other = supervisor.pid("a"), supervisor.pid("b")
    supervisor.kill("a", signal.SIGKILL)
    rounds_until(supervisor, lambda: supervisor.pid("a") not in (None, first), "restart")
    assert supervisor.restarts("a") == 1 and supervisor.restarts("b") == 0
    assert supervisor.pid("b") == other
    ended = next(e for e in supervisor.events if e.kind == "ended")
    assert ended.name == "a" and "SIGKILL" in ended.text
    assert "SIGKILL" in supervisor.log_path("supervisor").read_text()


def test_backoff_doubles_and_the_last_line_of_the_log_is_the_reason(supervise):
    supervisor = supervise(script("raise SystemExit('no weights here')"))
    rounds_until(supervisor, lambda: supervisor.restarts("a") >= 3, "three restarts")
    ended = [e.text for e in supervisor.events if e.kind == "ended"]
    assert all("status 1: no weights here" in text for text in ended)
    assert [text.rsplit(" in ", 1)[1] for text in ended[:3]] == ["0.01 s", "0.02 s", "0.04 s"]
    assert Backoff().delay(1) == 0.2 and Backoff().delay(3) == 0.8 and Backoff().delay(60) == 10.0


def test_a_region_that_cannot_start_is_given_up_and_one_that_fails_is_not(supervise):
    quick = replace(REGION, backoff=QUICK.backoff)
    cannot, fails = (script(f"raise SystemExit({status})", name, restart=quick)
                     for name, status in (("a", 2), ("b", 1)))
    supervisor = supervise(cannot, fails)
    rounds_until(supervisor, lambda: supervisor.restarts("b") >= 4, "four restarts of b")
    assert supervisor.restarts("a") == 2 and supervisor.pid("a") is None
    told = [event.text for event in supervisor.events if event.kind == "given up"]
    assert len(told) == 1 and "that was 3 times in a row" in told[0]


def test_restarts_are_told_to_the_child_before_ros_args(supervise):
    code = "import sys, time; print(sys.argv[1:], flush=True); time.sleep(0 if len(sys.argv) < 5 else 600)"
    supervisor = supervise(Workload("a", (sys.executable, "-c", code, "x", "--ros-args", "-p"), restart=QUICK,
                                    restarts_told=True))
    rounds_until(supervisor, lambda: "'--restarts'" in supervisor.log_path("a").read_text().split("\n", 2)[-1],
                 "second start")
    assert "['x', '--restarts', '1', '--ros-args', '-p']" in supervisor.log_path("a").read_text()


def test_one_that_is_not_to_be_restarted_stays_down(supervise):
    supervisor = supervise(script("pass", restart=NEVER))
    rounds_until(supervisor, lambda: any(e.kind == "given up" for e in supervisor.events), "the end")
    for _ in range(5):
        supervisor.round(0.02)
    assert supervisor.pid("a") is None and supervisor.restarts("a") == 0


def test_a_program_that_is_not_there(supervise):
    supervisor = supervise(Workload("a", ("/nowhere/to/be/found",), restart=QUICK))
    rounds_until(supervisor, lambda: supervisor.restarts("a") >= 1, "another try")
    assert any("No such file" in e.text for e in supervisor.events if e.kind == "ended")


def test_end_in_good_order_and_by_force(supervise):
    supervisor = supervise(script(RUNS, "world", stop_order=1), script(DEAF, "b"), script(RUNS, "c"))
    rounds_until(supervisor, lambda: all(running(supervisor, n) for n in ("world", "b", "c")), "all running")
    pids = [supervisor.pid(n) for n in supervisor.names]
    supervisor.stop(grace=0.3)
    assert not any(alive(pid) for pid in pids)
    stopped = {e.name: e.text for e in supervisor.events if e.kind == "stopped"}
    assert list(stopped) == ["c", "b", "world"], "each as it ends, and the world when both have"
    assert "SIGKILL, since" in stopped["b"] and stopped["c"] == "by SIGTERM"


def test_no_orphans_when_the_supervisor_is_killed(tmp_path):
    """Also when a child is frozen, which no SIGTERM would end."""
    program = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from brain_runtime.run.workload import Workload
        from brain_runtime.supervision.supervisor import Supervisor
        s = Supervisor([Workload(n, (sys.executable, "-c", {RUNS!r})) for n in "ab"], Path({str(tmp_path)!r}))
        s.start()
        print(s.pid("a"), s.pid("b"), flush=True)
        while True:
            s.round()
    """)
    supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    try:
        pids = [int(word) for word in supervisor.stdout.readline().split()]
        assert len(pids) == 2
        while not all("\nrunning\n" in (tmp_path / f"{n}.log").read_text() for n in "ab"):
            time.sleep(0.02)
        os.kill(pids[0], signal.SIGSTOP)
    finally:
        supervisor.kill()
        supervisor.wait()
        supervisor.stdout.close()
    for _ in range(500):
        if not any(alive(pid) for pid in pids):
            break
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


def test_children_get_one_thread_each(supervise):
    supervisor = supervise(script("import os; print('threads', os.environ['OMP_NUM_THREADS']); print('running')"),
                           environment={"OMP_NUM_THREADS": "1"})
    rounds_until(supervisor, lambda: "\nthreads 1\n" in supervisor.log_path("a").read_text(), "its output")


def test_two_children_of_one_name(tmp_path):
    with pytest.raises(ValueError, match="two processes are called a"):
        Supervisor([script(RUNS), script(RUNS)], tmp_path)


WAITS = ("import sys\n"
         "from brain_wire.standby import wait_for_work\n"
         "import threading, time\n"
         "restarts = wait_for_work(threading.Event()) if '--standby' in sys.argv else 0\n"
         "restarts is None and sys.exit(0)\n"
         "print('at work', restarts, flush=True)\n"
         "time.sleep(600)")


def test_a_spare_process_takes_over_and_another_is_made_ready(supervise, monkeypatch):
    monkeypatch.setattr("brain_runtime.run.loop.SETTLED", 0.1)
    monkeypatch.setattr("brain_runtime.run.loop.SETTLED_AGAIN", 0.1)
    supervisor = supervise(script(WAITS, spare=True))
    running = supervisor._all["a"]
    for number in range(1, 4):
        rounds_until(supervisor, lambda: running.spare is not None and running.spare.waits, "a spare process")
        spare = running.spare._process.pid
        supervisor.kill("a", signal.SIGKILL)
        rounds_until(supervisor, lambda: supervisor.pid("a") == spare, "that the spare takes over")
        rounds_until(supervisor, lambda: f"at work {number}\n" in supervisor.log_path("a").read_text(), "its work")
    rounds_until(supervisor, lambda: running.spare is not None and running.spare.waits, "a spare process")
    spare = running.spare._process.pid
    supervisor.stop(grace=0.1)
    assert not alive(spare)


def test_a_spare_that_ended_is_not_waited_for(supervise, monkeypatch):
    monkeypatch.setattr("brain_runtime.run.loop.SETTLED", 0.1)
    supervisor = supervise(script(WAITS, spare=True))
    running = supervisor._all["a"]
    rounds_until(supervisor, lambda: running.spare is not None and running.spare.waits, "a spare process")
    first, spare = supervisor.pid("a"), running.spare._process
    spare.kill()
    spare.wait()
    running.seen.spare_due = math.inf
    supervisor.kill("a", signal.SIGKILL)
    rounds_until(supervisor, lambda: supervisor.pid("a") not in (None, first), "a restart without a spare")


def test_logs_that_cannot_be_written_are_told_of_once_and_nothing_ends(supervise, tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("a", "supervisor"):    # what is written there finds no space left on the device
        (tmp_path / "logs" / f"{name}.log").symlink_to("/dev/full")
    supervisor = supervise(script("import sys; sys.exit(3)"))
    rounds_until(supervisor, lambda: supervisor.restarts("a") >= 3, "restarts")
    told = [e.text for e in supervisor.events if e.kind == "warning"]
    assert len(told) == 2 and all("No space left" in text for text in told), told


def test_an_observer_that_fails_ends_nothing(tmp_path):
    def fails(event):
        raise ValueError("[/nope]")

    supervisor = Supervisor([script("import sys; sys.exit(3)")], tmp_path / "logs", on_event=fails)
    supervisor.events = []
    try:
        supervisor.start()
        rounds_until(supervisor, lambda: supervisor.restarts("a") >= 2, "restarts")
    finally:
        supervisor.stop(grace=0.1)


def beating(name):
    return script(RUNS, name, probe=Heartbeats(f"/{name}"))


@pytest.mark.slow
def test_several_that_fall_silent_at_once_are_not_ended_while_their_tokens_stand(supervise):
    supervisor = supervise(beating("a"), beating("b"), beating("c"))
    pids = {}

    def tell(names):
        for name in names:
            pids.setdefault(name, supervisor.pid(name))
            supervisor.token(f"/{name}", True)
            supervisor.beat(messages.make("brain_interfaces/msg/Heartbeat", name=f"/{name}", pid=pids[name], state=2))

    def rounds(number, names):
        for _ in range(number):
            tell(names)
            supervisor.round(0.05)

    rounds(60, "abc")
    rounds(60, "a")     # the wire brings one in three: more than twice the silence that one alone may keep
    assert all(supervisor.pid(name) == pid for name, pid in pids.items())
    assert any("flooded" in e.text for e in supervisor.events)
    rounds(3, "abc")
    rounds(60, "ab")    # one alone is hung
    assert supervisor.pid("c") != pids["c"] and (supervisor.pid("a"), supervisor.pid("b")) == (pids["a"], pids["b"])
