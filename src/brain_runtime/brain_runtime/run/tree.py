# SPDX-License-Identifier: Apache-2.0
"""Trees of processes: commands below a subreaper of their own, which ends all that they leave behind.

Each has a log, and is found again by a token in its environment.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence, TypedDict

from brain_runtime.run import subreaper
from brain_wire import private

TOKEN = "BRAIN_JOB_TOKEN"
LOG_LONGEST = 16 * 2**20    # bytes of a log, of which the newest half stays when it has them
TAIL = 64 * 1024            # bytes of a log that are shown
# Of the runner's own environment: what programs need to be found and to find theirs, and nothing that is secret.
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH",
         "VIRTUAL_ENV", "SSL_CERT_FILE")
_KEPT_BEGINNINGS = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_")


def base_env() -> dict[str, str]:
    """Returns each worker's share of the machine's environment: this Python's commands come first in PATH."""
    found = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}
    found["PYTHONUNBUFFERED"] = "1"     # a log that is read while it is written
    found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", os.defpath)])
    return found


class Command(TypedDict):
    """A command of a tree: its words, the whole of its environment, and the folder that it runs in."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


@dataclass(frozen=True)
class Below:
    """Commands of a workload that may leave processes behind, to be run below a subreaper.

    Attributes:
        folder: for its log, and its exit status, for who was not there.
        token: no other process has it.
        steps: commands, one after the other.
    """

    folder: Path
    token: str
    steps: tuple[Command, ...]


class Tree:
    """A tree that runs.

    Args:
        folder: for its log and what the subreaper is told; made.
        token: no other process has it.
        steps: commands, one after the other.
        grace: s that each gets to end.

    Attributes:
        asked: it has been asked to end.
        returncode: its exit status, see :meth:`poll`; None: it runs.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, folder: Path, token: str, steps: Sequence[Command], grace: float) -> None:
        self.token, self.asked = token, False
        self.returncode: int | None = None
        private.folder(folder)
        self.exit, self.log = folder / "exit", folder / "log"
        self.exit.unlink(missing_ok=True)
        told = [{**step, "env": {**step["env"], TOKEN: token}} for step in steps]
        file = folder / "keep.json"
        file.touch(mode=0o600)      # variables may be secret
        file.write_text(json.dumps({"steps": told, "grace": grace, "log": str(self.log), "exit": str(self.exit)}),
                        encoding="utf-8")
        with open(self.log, "ab", opener=private.opener) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", subreaper.__file__, str(file)], stdin=subprocess.PIPE, stdout=log,
                stderr=log, start_new_session=True, env={TOKEN: token})

    @property
    def pid(self) -> int:
        """Of the subreaper."""
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Asks it to end (SIGTERM), which it does within its grace time, or ends it (SIGKILL)."""
        self.asked = True
        self._process.send_signal(number)

    def stop(self) -> None:
        """Asks it to end; may be called again and again."""
        if not self.asked:
            self.send_signal(signal.SIGTERM)

    def poll(self) -> int | None:
        """Returns its exit status; None: it runs.

        A subreaper that was killed counts as its command's death, by that signal.

        A signal that ended it counts as 128 and its number.
        """
        if self.returncode is not None:
            return self.returncode
        status = self._process.poll()
        if status is None:
            _shorten(self.log)
            return None
        if self._process.stdin is not None:
            self._process.stdin.close()
        if status < 0:      # what was below it may live on
            kill_leftovers(self.token)
        self.returncode = status if status >= 0 else 128 - status
        return self.returncode

    def let_go(self, patience: float) -> None:
        """Ends it as the end of this process would, and waits."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            kill_leftovers(self.token)


def left_status(folder: Path) -> int | None:
    """Reads the exit status of a worker whose runner did not see it end; None: it did not end by itself."""
    try:
        found = json.loads((folder / "exit").read_text(encoding="utf-8"))
        return None if found["asked"] else int(found["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kill_leftovers(token: str) -> int:
    """Kills every process whose token begins so; how many there were."""
    found = 0
    wanted = f"{TOKEN}={token}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = Path("/proc", name, "environ").read_bytes()
            if any(part.startswith(wanted) for part in environment.split(b"\0")):
                os.kill(int(name), signal.SIGKILL)
                found += 1
        except OSError:
            continue    # it has just ended, or is another user's
    return found


def tail(path: Path, longest: int = TAIL) -> str:
    """The end of a log, whole lines; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - longest))
            data = file.read(longest)
    except OSError:
        return ""
    if size > longest:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _shorten(log: Path) -> None:
    """Halves a log that has become too long; who writes to it goes on at its end."""
    try:
        if log.stat().st_size < LOG_LONGEST:
            return
        kept = tail(log, LOG_LONGEST // 2)
        with log.open("r+b") as file:
            file.truncate(0)
        with log.open("ab") as file:
            file.write(b"(what was before is left out)\n" + kept.encode("utf-8", "replace"))
    except OSError:
        return      # the next time
