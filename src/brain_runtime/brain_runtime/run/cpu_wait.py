# SPDX-License-Identifier: Apache-2.0
"""Time that a process waited for a processor, in which nobody can say that it hangs."""
from __future__ import annotations

from pathlib import Path

LEAST = 0.2     # share of a time that counts in any case, so that what hangs on a busy machine is found in the end


class CpuWait:
    """Watches the threads of one process, where the kernel tells (``/proc/PID/task/*/schedstat``, Linux).

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._waited: dict[str, int] = {}

    def counts(self, dt: float) -> float:
        """Of ``dt`` s since the last look, those that may be held against the process.

        Its thread that was ready to run and waited longest is what counts: which one steps is not known from outside.
        """
        before, self._waited = self._waited, self._read()
        longest = max((waited - before[thread] for thread, waited in self._waited.items() if thread in before),
                      default=0)
        return max(LEAST * dt, dt - 1e-9 * longest)

    def _read(self) -> dict[str, int]:
        """Time that each thread has waited on a processor's queue so far (ns)."""
        found = {}
        try:
            for task in self._tasks.iterdir():
                fields = (task / "schedstat").read_text(encoding="ascii").split()
                if len(fields) > 1 and fields[1].isdecimal():
                    found[task.name] = int(fields[1])
        except OSError:
            return found    # a thread or the process has ended, or this kernel does not tell
        return found
