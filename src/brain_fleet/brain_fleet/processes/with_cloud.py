# SPDX-License-Identifier: Apache-2.0
"""Session with the cloud, for a verb that asks it something."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from brain_runtime.command.options import fail


def with_cloud(cloud: str | None, secure: Path | None, work: Callable[[Any], None]) -> None:
    """Does something with a session to the cloud; ends the command with a line where there is none."""
    from brain_fleet.processes.asking import Asking, NoCloud
    from brain_wire import SessionProblem

    try:
        with Asking(cloud, None if secure is None else secure.expanduser()) as asking:
            work(asking)
    except (NoCloud, SessionProblem) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        return
