# SPDX-License-Identifier: Apache-2.0
"""Modules that have another name now: whoever imports an old one is told the new one, for one release."""
from __future__ import annotations

import sys

MOVED = {
    "brain_runtime.child": "brain_runtime.run.workload",
    "brain_runtime.crew": "brain_runtime.supervised_brain",
    "brain_runtime.starved": "brain_runtime.cpu_wait",
    "brain_wire.hops": "brain_wire.latency",
    "brain_wire.refusal": "brain_wire.connect_errors",
    "brain_wire.seldom": "brain_wire.rate_limited_log",
    "brain_wire.shown": "brain_wire.safe_text",
    "brain_wire.slices": "brain_wire.sched_slice",
    "brain_wire.waking": "brain_wire.wakeup",
    "brain_fleet.jobs.keeper": "brain_runtime.run.subreaper",
    "brain_fleet.jobs.processes": "brain_runtime.run.tree",
    "brain_fleet.federated.frames": "brain_fleet.federated.round_messages",
    "brain_fleet.models.parts": "brain_fleet.blobs.store",
    "brain_fleet.models.serving": "brain_fleet.blobs.serving",
    "brain_fleet.devices.lines": "brain_runtime.run.lines",
    "brain_fleet.devices.mapper": "brain_fleet.devices.manager",
    "brain_fleet.devices.shown": "brain_fleet.devices.features",
    "brain_fleet.devices.supervised": "brain_fleet.devices.manager",
    "brain_fleet.cluster.templates": "brain_fleet.jobs.templates",
    "brain_fleet.cluster.conditions": "brain_fleet.jobs.conditions",
}
"""From an old name to the new one. The docs of this release say so; the next has no entry of it any more."""


class _Finder:
    """Finds no module; asked after all others."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """See :class:`importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError for a name of :data:`MOVED`."""
        if name in MOVED:
            # Without its name, or ``from package import old`` would say that it knows no such name.
            raise ModuleNotFoundError(f"{name} is now {MOVED[name]}; import that")


def answer() -> None:
    """Has old names answered in this process."""
    if not any(isinstance(finder, type) and finder.__name__ == _Finder.__name__
               and finder.__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder)
