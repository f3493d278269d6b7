# SPDX-License-Identifier: Apache-2.0
"""Signals that end a process: each that can be caught is asked for an end in good order."""
from __future__ import annotations

import signal
from typing import Any, Callable

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO",
          "SIGPWR", "SIGSTKFLT", "SIGXCPU")

ENDINGS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Signals whose default action is the end of the process, without those that tell of a fault of its own (SIGSEGV,
SIGABRT): its state cannot be trusted then. SIGKILL cannot be caught."""


def on_ending(handler: Callable[[int, Any], Any]) -> None:
    """Has a handler called with each of :data:`ENDINGS`. Call it in the main thread.

    A SIGHUP that is ignored stays so: nohup has it ignored. A terminal that is closed sends it.
    """
    for number in ENDINGS:
        if number != getattr(signal, "SIGHUP", None) or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
