# SPDX-License-Identifier: Apache-2.0
"""Modules that have another name now: whoever imports an old one is told the new one, for one release."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:   # a region that died is to be back at once, and this takes its time
    from importlib.metadata import EntryPoint

ROOMS = {    # of brain_runtime: what was beside them before
    "contract": ("ablation azimuth constants copies declared energy heartbeat images inbox odometry polar "
                 "port_codecs ports protobuf_codec region sights snapshot stepper tensors"),
    "graph": ("command_lines dry_run graphs inspect_graph launching moved resolve resolved robots rooms "
              "secured"),
    "hosts": "backends diagnostics edges predecessors process_arguments ros_args shards torch_tensors",
    "run": ("cpu_wait end_with_parent ending health state_folder"),
    "supervision": ("edge_ear listen report runs speaker supervised_brain supervisor"),
}
GROUP = {   # the hosts on torch.distributed, which are of brain_collectives
    **{name: f"hosts.{name}" for name in ("remote_region torch torch_copies torch_exchange torch_gateway "
                                          "torch_group torch_ranks torch_records torch_snapshot").split()},
    "ticks": "hosts.torch_gateway", "torch_agreement": "hosts.remote_region", "torch_bus": "hosts.torch",
    "torch_orders": "torch_process", "torch_parcel": "hosts.torch_records", "torch_store": "torch_store",
}
MOVED = {
    **{f"brain_runtime.{name}": f"brain_runtime.{room}.{name}" for room, names in ROOMS.items()
       for name in names.split()},
    **{f"brain.{name}": f"brain_eval.{name}" for name in ("docs", "reference", "tables")},
    "brain.words": "brain_eval.reference",
    "brain_observe.pictures": "brain_runtime.contract.pictures",
    "brain_baselines": "brain_eval.baselines",
    "brain_runtime.child": "brain_runtime.run.workload",
    "brain_collectives.checks.launch": "brain_training.collective_ranks",
    "brain_training.at_once": "brain_training.process_pool",
    "brain_runtime.command.saved": "brain_eval.saved",
    "brain_edge.audit": "brain_cloud.audit",
    "brain_edge.checks": "brain_cloud.checks",
    "brain_edge.devices.device_orders": "brain_cloud.state.device_orders",
    **{f"brain_edge.devices.{old}": f"brain_edge.devices.{new}" for old, new in (
        ("alone", "files"), ("fields", "payloads"), ("names", "models"))},
    "brain_edge.federated": "brain_cloud.federated",
    **{f"brain_edge.processes.{name}": f"brain_cloud.processes.{name}" for name in (
        "audit_verb", "learn_verb", "run_learn")},
    "brain_edge.programs.file": "brain_edge.owners_file",
    "brain_runtime.crew": "brain_runtime.supervision.supervised_brain",
    **{f"brain_runtime.{old}": f"brain_collectives.{new}" for old, new in GROUP.items()},
    **{f"brain_runtime.hosts.{old}": f"brain_collectives.{new}" for old, new in GROUP.items()},
    **{f"brain_runtime.{name}": f"brain_collectives.{name}" for name in (
        "shard_process", "static_group", "torch_process")},
    "brain_runtime.group_error": "brain_runtime.hosts.backends",
    "brain_runtime.hosts.group_error": "brain_runtime.hosts.backends",
    "brain_runtime.stage": "brain_eval.stage",
    "brain_runtime.supervision.stage": "brain_eval.stage",
    "brain_runtime.stubs": "brain_tests.stubs",
    "brain_runtime.starved": "brain_runtime.run.cpu_wait",
    "brain_wire.hops": "brain_wire.latency",
    "brain_wire.refusal": "brain_wire.connect_errors",
    "brain_wire.seldom": "brain_wire.rate_limited_log",
    "brain_wire.shown": "brain_wire.safe_text",
    "brain_wire.slices": "brain_wire.sched_slice",
    "brain_wire.waking": "brain_wire.wakeup",
    **{f"brain_regions.{name}.definition": f"brain_training.definitions.{name}" for name in ("language", "motor")},
    "brain_regions.language.keys": "brain_regions.language.spelling",
    "brain_regions.column_widths": "brain_collectives.column_widths",
    "brain_regions.columns": "brain_collectives.columns",
    "brain_regions.vision.split": "brain_collectives.split_vision",
    "brain_regions.circuit_steps": "brain_training.circuit_steps",
    "brain_regions.language.grammar": "brain_regions.language.understanding",
    "brain_regions.language.parse": "experiments.grammar",
    **{f"brain_regions.language.{name}": f"experiments.grammar.{name}" for name in (
        "commands_english", "corrections", "endings", "english", "japanese", "reading", "things_english",
        "things_japanese")},
}
"""From an old name, of a module or of a whole package, to the new one. The docs of this release say so; the next has no
entry of it any more."""


GONE = {"brain_bench": "it is experiments/ in the checkout, and brain_eval.bench what is installed of it",
        "brain_fleet": "a robot's side is brain_edge, the cloud's is brain_cloud; rooms are as they were, but "
                       "for belonging, which is enrolment"}
"""Packages that are no more, with where their modules are."""


def without_gone(points: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """Entry points by name, without those of a package that is gone but has been left installed."""
    return {point.name: point for point in points if point.module.partition(".")[0] not in GONE}


class _Finder:
    """Finds no module; asked after all others."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """See :class:`importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError for what has moved or is gone."""
        if name in GONE:
            raise ModuleNotFoundError(f"there is no package {name} any more: {GONE[name]}", name=name)
        for old in (name, name.partition(".")[0]):      # of a package, a folder without its files may be left
            if old in MOVED:
                # Without its name, or ``from package import old`` would say that it knows no such name.
                raise ModuleNotFoundError(f"{old} is now {MOVED[old]}; import that")


def answer() -> None:
    """Has old names answered in this process."""
    if not any(isinstance(finder, type) and finder.__name__ == _Finder.__name__
               and finder.__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder)
