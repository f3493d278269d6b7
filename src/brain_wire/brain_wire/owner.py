# SPDX-License-Identifier: Apache-2.0
"""Owner: the node in whose name a thread works, where one process has several; by it log lines are told apart."""
from __future__ import annotations

import contextvars
import logging
import threading
from typing import Callable

OWNER = contextvars.ContextVar("owner", default="")     # empty: the process has one node, or the work is for all


def owned_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Makes a daemon thread that works in the name of the thread that makes it; Python alone does not pass that on."""
    return threading.Thread(target=contextvars.copy_context().run, args=(target,), name=name, daemon=True)


def mark(record: logging.LogRecord) -> bool:
    """Names the owner in a log record, as ``%(owner)s`` has it: a filter that keeps all."""
    record.owner = OWNER.get()
    return True
