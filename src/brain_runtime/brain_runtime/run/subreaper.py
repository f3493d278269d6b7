# SPDX-License-Identifier: Apache-2.0
"""Subreaper: ``python -I -S subreaper.py FILE``, run by its path, so that it is small and starts fast.

It runs the commands of the file one after the other, and adopts whatever they leave behind (Linux: child subreaper).
When the last has ended, when it is told to end (SIGTERM), or when its standard input closes, which is when who started
it has ended, all that it has started ends: by SIGTERM to the command first, by SIGKILL to everything after the grace
time. Its status is the command's, 128 and the number where a signal ended it, and is left in a file too, for who was
not there.
"""
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
CANNOT = 127


def main(path: str) -> int:
    """Runs what a file says; returns the status."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    asked = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, frame: asked.append(n))
    signal.signal(signal.SIGCHLD, lambda n, frame: None)
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    status = 0
    for step in told["steps"]:
        status = _run(step, log, told["grace"], reading, asked)
        if status or asked:
            break
    temporary = told["exit"] + ".tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"status": status, "asked": bool(asked)}, file)
        os.replace(temporary, told["exit"])
    except OSError as error:    # a full disk: who waits for this process still learns its status
        print(f"subreaper: {error}", file=sys.stderr)
    return status


def _run(step: dict, log: int, grace: float, waking: int, asked: list) -> int:
    pid = os.fork()
    if pid == 0:
        _become(step, log)
    status, ending, alone = None, None, False
    while status is None:
        if ending is not None and time.monotonic() > ending:
            _kill_all()
        wait = 0.5 if ending is None else max(0.0, min(0.5, ending - time.monotonic()))
        watched = [waking] if alone else [waking, 0]
        ready = select.select(watched, [], [], wait)[0]
        if waking in ready:
            try:
                os.read(waking, 4096)
            except BlockingIOError:
                pass    # another signal's byte has been read before
        if 0 in ready and not os.read(0, 4096):
            alone = True
            asked.append(0)
        if asked and ending is None:
            ending = time.monotonic() + grace
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass    # it has ended, and is waited for below
        status = _reaped(pid)
    while _kill_all():
        _reaped(-2)
        time.sleep(0.01)
    return status


def _become(step: dict, log: int) -> None:
    """In the child: becomes the command."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)    # PR_SET_PDEATHSIG: should this process be killed
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 4096)
        os.chdir(step["cwd"])
        os.execvpe(step["argv"][0], step["argv"], step["env"])
    except OSError as error:
        remedy = "shorten its words and variables" if error.errno == errno.E2BIG else (
            "name a command that is installed here")
        os.write(2, f"{step['argv'][0]!r} cannot be started: {error.strerror}; {remedy}\n"
                 .encode("utf-8", "backslashreplace"))
    except ValueError as error:     # no word or variable of a command has a zero byte, and no variable's name a =
        os.write(2, f"the command cannot be started: {error}; correct its words or variables\n".encode())
    finally:
        os._exit(CANNOT)


def _reaped(pid: int) -> int | None:
    """Waits for what has ended; the status of one process, where it is among them."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _kill_all() -> int:
    """Kills all that is below this process; how many there were."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    words = file.read().rpartition(")")[2].split()
            except OSError:
                continue    # it has just ended
            parents[int(name)] = (int(words[1]), words[0])
    below, found = {os.getpid()}, set()
    while True:
        more = {pid for pid, (parent, _) in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
        found |= more
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass    # it has just ended
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
