# SPDX-License-Identifier: Apache-2.0
"""Short slices of the processor, for a process that has little to do and must do it soon.

Where all cores are busy, a thread that a message wakes waits until whoever computes has used up its slice of some
ms. Linux lets a thread ask for shorter slices of its own, without any right: it gets no more of the processor,
but gets it sooner (``sched_setattr(2)``, ``sched_runtime`` under SCHED_OTHER; EEVDF, from Linux 6.12 on).
"""
from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct

SLICE = 100_000         # ns; the shortest that there is
_SET = {"x86_64": 314, "aarch64": 274, "riscv64": 274}     # number of the call; the one that asks is the next
_ATTRIBUTES = struct.Struct("=IIQiIQQQII")     # size, policy, flags, nice, priority, runtime, deadline, period, clamps

log = logging.getLogger(__name__)


def ask_for_short_slices() -> bool:
    """Asks for short slices for the calling thread and those that it starts from now on.

    Returns:
        Whether Linux has said yes; before 6.12 it does so, and changes nothing. False where it is another system, or
        somebody has chosen a way of scheduling for this process (``chrt``), which then stays.
    """
    number = _SET.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    asked = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, os.getpriority(os.PRIO_PROCESS, 0), 0, SLICE,
                             0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, asked, 0) == 0:
        return True
    log.debug("no short slices of the processor: %s", os.strerror(ctypes.get_errno()))
    return False


def slice_of(thread: int = 0) -> int:
    """The slice of a thread (ns), 0 for the calling one; before Linux 6.12 always 0.

    Raises:
        OSError: there is no such thread, or no such call here.
    """
    number, told = _SET.get(platform.machine()), ctypes.create_string_buffer(_ATTRIBUTES.size)
    libc = ctypes.CDLL(None, use_errno=True)
    if number is None or libc.syscall(number + 1, thread, told, _ATTRIBUTES.size, 0) != 0:
        raise OSError(ctypes.get_errno(), "slices are not told here")
    return int(_ATTRIBUTES.unpack(told.raw)[5])
