# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training that has several forms: which of them share a batch, which the layers, which each layer.

Ranks are counted with tp fastest, then pp, then dp, so that those that tell each other most are neighbours: of
``dp=2,pp=2,tp=2`` ranks 0 and 1 share layers, 0 and 2 are two stages, 0 and 4 have parts of one batch.
"""
from __future__ import annotations

from dataclasses import dataclass

from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from brain_training.parallel.plan import Plan


@dataclass(frozen=True)
class Mesh:
    """The groups of this rank.

    Attributes:
        dp, pp, tp: those that share a batch, a pipeline, a layer; of one rank where the plan has none.
        shard: of ``dp``, those that share out with ``zero``.
        hybrid: the same as torch's mesh of two axes, ``replicate`` and ``shard``; None: all of ``dp`` share out.
    """

    dp: ProcessGroup
    pp: ProcessGroup
    tp: ProcessGroup
    shard: ProcessGroup
    hybrid: DeviceMesh | None = None


def mesh(plan: Plan, device: str) -> Mesh:
    """The groups of a plan; all ranks call it.

    Args:
        plan: of as many ranks as there are.
        device: torch's type, as ``cpu``.
    """
    found = init_device_mesh(device, (plan.dp, plan.pp, plan.tp), mesh_dim_names=("dp", "pp", "tp"))
    dp, pp, tp = (found.get_group(name) for name in ("dp", "pp", "tp"))
    if not plan.shard:
        return Mesh(dp, pp, tp, dp)
    sizes = plan.dp // plan.shard, plan.shard, plan.pp * plan.tp
    hybrid = init_device_mesh(device, sizes, mesh_dim_names=("replicate", "shard", "rest"))["replicate", "shard"]
    return Mesh(dp, pp, tp, hybrid.get_group("shard"), hybrid)
