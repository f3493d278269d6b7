# SPDX-License-Identifier: Apache-2.0
"""Plan of ``--parallel dp=2,zero=3``: sizes of each form, and which trainer does it."""
from __future__ import annotations

import importlib
from dataclasses import dataclass, fields, replace
from typing import Any

ZERO = 3        # the highest level
SERVERS = ".servers"    # ending of the folder that parameter servers keep, beside where the checkpoint would be
FORMS = {"dp": "data parallel: each rank makes a part of every batch",
         "zero": "of data parallel: 1 shares out the optimizer's state, 2 gradients too, 3 parameters too",
         "shard": "of zero: so many ranks of dp share out, and the next so many do the same",
         "pp": "pipeline: each rank has some of the layers",
         "tp": "tensor parallel: each rank has some of the neurons of every layer",
         "ps": "parameter servers, beside the ranks"}
TRAINERS = {
    "ps": "brain_training.parallel.served:Served",
    "pp": "brain_training.parallel.pipeline_trainer:make",
    "tp": "brain_training.parallel.tensor_trainer:make",
    "zero": "brain_training.parallel.zero:make",
    "shard": "brain_training.parallel.zero:make",
    "dp": "brain_training.parallel.data:make"}
"""Where a form's trainer is made (``module:function``).

The function takes what :class:`brain_training.trainer.Trainer` takes, and ``ranks`` (:class:`.group.Ranks`) and ``how``
(:class:`.how.How`); that of ``ps`` starts processes of its own, and takes no ``ranks``.
"""
SURVIVING = "brain_training.parallel.kept:make"
"""Of ``dp``, with zero=1 or without, where ranks may die and the others go on."""
MESH = "brain_training.parallel.mesh_trainer:make"
"""Of several forms in one run; ``dp`` with ``zero``, ``shard`` or ``ps`` has one of those above."""


class PlanError(ValueError):
    """A plan cannot be; says in one line what does not fit, and what would."""


@dataclass(frozen=True)
class Plan:
    """Sizes of all forms.

    Attributes:
        dp: ranks that share a batch.
        zero: 0 to 3, what these share out.
        shard: how many of them share out with each other (hybrid sharding); 0: all.
        pp: stages of a pipeline.
        tp: ranks that share a layer.
        ps: parameter servers; 0: none, ranks tell each other.
    """

    dp: int = 1
    zero: int = 0
    shard: int = 0
    pp: int = 1
    tp: int = 1
    ps: int = 0

    @property
    def world(self) -> int:
        """Number of ranks that train; servers are none of them."""
        return self.dp * self.pp * self.tp

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self)
                        if getattr(self, field.name) != field.default) or "dp=1"

    def check_world(self, ranks: int) -> None:
        """Raises PlanError where so many ranks were started, as by torchrun, and the plan is for others."""
        if ranks == self.world:
            return
        rest, least = self.pp * self.tp, self.shard or (2 if self.zero else 1)
        more = rest * (self.shard or 1)
        fits = f"dp={ranks // rest} would" if ranks % more == 0 and ranks // rest >= least else (
            f"a multiple of {more} ranks would, with dp to it")
        raise PlanError(f"{ranks} ranks were started, but --parallel {self} is of {self.world} "
                        f"({self.dp} dp x {self.pp} pp x {self.tp} tp); {fits} fit")

    def scaled(self, ranks: int) -> Plan:
        """The same with so much more or less data parallel that it is of ``ranks``, where that divides."""
        return replace(self, dp=max(1, ranks // (self.pp * self.tp)))

    def check_batch(self, batch: int, accumulate: int = 1, microbatches: int = 1) -> str:
        """Checks a step's batch, and returns what there is to be told: nothing, or that parts differ in size.

        Raises:
            PlanError: there are more parts than samples, or more micro-batches than samples of a rank of ``dp``.
        """
        if self.pp > 1 and self.dp > 1 and batch // self.dp < microbatches:
            raise PlanError(f"a step has {batch} samples, so that one of dp={self.dp} has {batch // self.dp}, too few "
                            f"for {microbatches} micro-batches; give --microbatches {max(batch // self.dp, 1)} or less")
        parts = self.dp * accumulate
        if batch < parts:
            each = f" and --accumulate {accumulate}" if accumulate > 1 else ""
            raise PlanError(f"a step has {batch} samples, too few for dp={self.dp}{each}; dp from 1 to "
                            f"{batch // accumulate or 1} fits{f' with --accumulate 1 to {batch}' if each else ''}")
        if batch % self.dp:
            return (f"a step's {batch} samples do not divide by {self.dp} ranks: some make {batch // self.dp}, some "
                    f"{batch // self.dp + 1}, and count by that")
        return ""


def parse(text: str) -> Plan:
    """A plan from ``dp=2,zero=3``.

    Raises:
        PlanError: it is none; names what is wrong.
    """
    sizes: dict[str, int] = {}
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name not in FORMS or not equals:
            raise PlanError(f"--parallel {shown}: there is no form {item.strip()[:20]!r}; give {', '.join(FORMS)} "
                            f"with a size, as dp=2")
        if name in sizes:
            raise PlanError(f"--parallel {shown}: {name} stands twice; leave one")
        low, high = (0, ZERO) if name == "zero" else (1, None)
        whole = value.isascii() and value.isdigit() and len(value) <= 6
        if not whole or int(value) < low or high is not None and int(value) > high:
            fits = f"{low} to {high}" if high is not None else f"{low} or more"
            raise PlanError(f"--parallel {shown}: {name}={value[:20]} cannot be; {name} is a whole number, {fits}")
        sizes[name] = int(value)
    plan = Plan(**sizes)
    if "shard" in sizes and (not plan.zero or plan.dp % plan.shard):
        fits = ", ".join(str(size) for size in range(1, plan.dp + 1) if plan.dp % size == 0)
        raise PlanError(f"--parallel {text}: shard={plan.shard} is of zero=1 to 3, and has to divide dp={plan.dp}; "
                        f"{f'shard={fits} would' if plan.zero else 'give zero too'}")
    return plan


def maker(plan: Plan, survive: bool = False) -> Any:
    """The function that makes a plan's trainer, see :data:`TRAINERS`; ``survive``: one whose ranks may die.

    Raises:
        PlanError: it has forms that do not go together.
    """
    default = Plan()
    has = [form for form in TRAINERS if getattr(plan, form) != getattr(default, form)] or ["dp"]
    if plan.ps and set(has) - {"ps", "dp"}:
        others = " and ".join(form for form in has if form not in ("ps", "dp"))
        raise PlanError(f"--parallel {plan}: the workers of parameter servers have whole networks, and servers the "
                        f"optimizer, so ps goes with dp alone; leave out {others}")
    if plan.pp > 1 and plan.zero > 1:
        raise PlanError(f"--parallel {plan}: zero={plan.zero} would gather a stage's weights anew for each of its "
                        f"micro-batches, so of zero 1 alone goes with pp; give zero=1, or tp in place of pp")
    several = len(has) > 1 and bool(set(has) & {"pp", "tp"})
    module, _, name = (SURVIVING if survive else MESH if several else TRAINERS[has[0]]).partition(":")
    return getattr(importlib.import_module(module), name)
