# SPDX-License-Identifier: Apache-2.0
"""All private names of torch that this project uses: found when they are asked for, tested with the pinned release."""
from __future__ import annotations

from typing import Any, Callable

from brain_wire.private_names import private_name

REMEDY = "install the torch that constraints.txt names"
_C10D = "torch.distributed.distributed_c10d"
NAMES = {
    # the groups that torch knows of, and how one takes another's place
    "world": (_C10D, "_world"), "update_default_group": (_C10D, "_update_default_pg"),
    "register_group": (_C10D, "_register_process_group"), "unregister_group": (_C10D, "_unregister_process_group"),
    "default_group": (_C10D, "_get_default_group"),
    # what a pipeline's stage expects, and how sharded gradients are summed
    "RecvInfo": ("torch.distributed.pipelining.stage", "_RecvInfo"),
    "ReduceScatter": ("torch.distributed.fsdp._fully_shard._fsdp_api", "ReduceScatter")}
# Methods of torch's classes that are overridden: without them an override would never be called.
OVERRIDDEN = {
    ("torch.distributed.pipelining.stage", "PipelineStage"): (
        "_setup_forward_recv_info", "_retrieve_recv_activations", "_create_grad_recv_info", "_retrieve_recv_grads"),
    ("torch.distributed.elastic.agent.server.local_elastic_agent", "LocalElasticAgent"): ("_restart_workers",)}
# Functions of distributed_c10d by which objects are pickled; each gets the group.
PICKLING = ("_object_to_tensor", "_tensor_to_object")
# Modules of torch, what in them unpickles what has come, and the group in its arguments
ELSEWHERE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "torch.distributed.optim.zero_redundancy_optimizer": ("_broadcast_object", lambda given: given.get("group")),
    "torch.distributed.checkpoint._pg_transport": ("PGTransport.recv_checkpoint", lambda given: given["self"]._pg)}


def __getattr__(name: str) -> Any:
    """One of :data:`NAMES`, as torch has it now.

    Raises:
        PrivateNameMissing: this release lacks it.
    """
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return private_name("torch", *NAMES[name], REMEDY)


def check_overridden(module: str, name: str) -> None:
    """Checks that a class has the methods that are overridden.

    Args:
        module, name: of the class, as in :data:`OVERRIDDEN`.

    Raises:
        PrivateNameMissing: this release's class lacks one.
    """
    for method in OVERRIDDEN[module, name]:
        private_name("torch", module, f"{name}.{method}", REMEDY)
