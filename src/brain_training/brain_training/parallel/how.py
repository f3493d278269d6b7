# SPDX-License-Identifier: Apache-2.0
"""Options of a training by several processes: the plan, and what else the command line says of it."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from brain_training.parallel.plan import Plan, PlanError
from brain_training.parameter_server.mode import Mode

BACKENDS = ("gloo", "zenoh", "nccl")
COMPRESSIONS = ("bf16",)
OFFLOADS = ("optimizer", "all")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
SPLITS = ("exact", "classic")
MICROBATCHES = 8


@dataclass(frozen=True)
class How:
    """Options of a training by several processes.

    Attributes:
        plan: sizes of the forms; None: one process.
        backend: torch.distributed's; None: ``gloo`` for the CPU, ``nccl`` for CUDA.
        shards: one process works through so many parts of each batch, one after another, as that many ranks would;
            0: it does not.
        exact: sums are taken in the order of ranks, and the norm of gradients from whole ones: every form of
            data parallel then has the same bits.
        accumulate: parts that a rank passes back one after another before weights change; memory for time.
        compress: what gradients are sent as, ``bf16``; None: as they are.
        offload: ``all``: parameters, gradients and optimizer stay in the CPU's memory (ZeRO 2 and 3, on CUDA);
            ``optimizer``: its state stays in files (dp and ZeRO, on the CPU).
        offload_folder: for these files.
        tensorboard: folder that losses and rates are written to, as TensorBoard reads them.
        microbatches: of a step, in a pipeline, or of a shard; None: :data:`MICROBATCHES` in a pipeline, and shards are
            passed as a whole.
        schedule: of a pipeline, see :mod:`.pipeline`.
        tensor: how layers are split by ``tp``: ``exact`` or ``classic``, see :mod:`.tensor`.
        mode: of parameter servers: ``sync``, ``async`` or ``stale:S``.
        elastic: agents that there have to be, and may be, each with the ranks of ``plan``: ranks may die and come,
            see :mod:`.elastic`; None: the training ends with the first that dies.
        store: ``HOST:PORT`` of the store by which agents find each other; None: one is started.
        survive: ranks may die, and the others go on without them, see :mod:`.surviving`.
        survivors: so many have to be left.
        keep: share of each gradient's elements that is pushed to parameter servers, the largest.
        deepspeed: file that some of this was taken from.
        batch: samples that a step has to have; None: as the task has it.
        clip: norm that gradients are cut at; None: the task's.
    """

    plan: Plan | None = None
    backend: str | None = None
    shards: int = 0
    exact: bool = False
    accumulate: int = 1
    compress: str | None = None
    offload: str | None = None
    tensorboard: Path | None = None
    microbatches: int | None = None
    schedule: str = "1f1b"
    tensor: str = "exact"
    mode: str = "sync"
    keep: float = 1.0
    offload_folder: Path | None = None
    deepspeed: Path | None = None
    batch: int | None = None
    clip: float | None = None
    elastic: tuple[int, int] | None = None
    store: str | None = None
    survive: bool = False
    survivors: int = 1

    @property
    def micros(self) -> int:
        """Micro-batches of a step of a pipeline."""
        return self.microbatches or MICROBATCHES

    @property
    def parallel(self) -> bool:
        """True where a plan is given, so that several processes train."""
        return self.plan is not None

    def check(self, device: str) -> None:
        """Raises PlanError where something does not go with something else."""
        def refuse(what: str, remedy: str) -> None:
            raise PlanError(f"{what}; {remedy}")

        if self.shards and self.parallel:
            refuse("--shards is one process in place of several, --parallel is several", "give one of them")
        if not self.parallel:
            for name, given in (("--backend", self.backend), ("--compress", self.compress),
                                ("--offload", self.offload), ("--offload-folder", self.offload_folder),
                                ("--accumulate", self.accumulate != 1),
                                ("--microbatches", self.microbatches is not None and not self.shards),
                                ("--schedule", self.schedule != "1f1b"),
                                ("--tensor", self.tensor != "exact"), ("--mode", self.mode != "sync"),
                                ("--elastic", self.elastic), ("--store", self.store),
                                ("--survive", self.survive), ("--survivors", self.survivors != 1),
                                ("--keep", self.keep != 1),
                                ("--exact", self.exact and not self.shards)):
                if given:
                    refuse(f"{name} is of training by several processes", "give --parallel, as --parallel dp=2")
            return
        if self.store and not self.elastic:
            refuse("--store is of agents that come and go", "give --elastic, as --elastic 1:4")
        if self.elastic:
            self._check_elastic(refuse)
        if self.survive:
            self._check_survive(refuse)
        elif self.survivors != 1:
            refuse("--survivors is of ranks that others go on without", "give --survive too")
        for name, value, known in (("--backend", self.backend, BACKENDS), ("--compress", self.compress, COMPRESSIONS),
                                   ("--offload", self.offload, OFFLOADS), ("--schedule", self.schedule, SCHEDULES),
                                   ("--tensor", self.tensor, SPLITS)):
            if value is not None and value not in known:
                refuse(f"{name} {value} is not known", f"there is {', '.join(known)}")
        assert self.plan is not None
        cuda = device.startswith("cuda")
        if self.plan.zero and self.plan.dp == 1 and self.offload != "all":
            refuse(f"--parallel {self.plan}: zero={self.plan.zero} shares out among the ranks of dp, which is 1",
                   "dp=2 or more fits, and zero=3 for one GPU with --offload all")
        if self.backend == "nccl" and not cuda:
            refuse(f"--backend nccl is for CUDA, and --device is {device}", "give --device cuda, or --backend gloo")
        if self.backend in ("gloo", "zenoh") and cuda and self.plan.zero >= 2:
            refuse(f"--backend {self.backend} does not share out what is on {device}", "give --backend nccl")
        if self.backend == "zenoh" and cuda:
            refuse(f"--backend zenoh is for the CPU, and --device is {device}", "give --device cpu")
        for form, name, given in (("pp", "--microbatches", self.microbatches is not None),
                                  ("pp", "--schedule", self.schedule != "1f1b"),
                                  ("tp", "--tensor", self.tensor != "exact"), ("ps", "--mode", self.mode != "sync")):
            if given and getattr(self.plan, form) == getattr(Plan(), form):
                refuse(f"{name} is of {form}, and this is {self.plan}", f"give {form}=2, or leave it out")
        try:
            Mode.of(self.mode)
        except ValueError as error:
            raise PlanError(f"--mode {self.mode}: {error}") from None
        if self.micros < self.plan.pp:
            refuse(f"--microbatches {self.micros} do not fill pp={self.plan.pp} stages", f"give {self.plan.pp} "
                   f"or more")
        if (self.plan.pp > 1 or self.plan.tp > 1 or self.plan.ps) and (self.accumulate > 1 or self.compress):
            refuse(f"--accumulate and --compress are of dp, and this is {self.plan}", "leave them out")
        if self.plan.pp > 1 and self.plan.tp > 1 and self.tensor != "exact":
            refuse(f"--tensor {self.tensor} leaves spikes where they are, and stages hand on those of whole layers",
                   "give --tensor exact, or leave pp out")
        if self.plan.ps and (self.backend or cuda):
            refuse(f"--backend and CUDA are of ranks that tell each other, and {self.plan} has servers",
                   "leave them out")
        if self.plan.ps and self.exact and self.mode != "sync":
            refuse(f"--exact is of steps that all make together, and --mode {self.mode} has none", "give --mode sync")
        if self.keep != 1 and not self.plan.ps:
            refuse(f"--keep is of ps, and this is {self.plan}", "give ps=2, or leave it out")
        if not 0 < self.keep <= 1:
            refuse(f"--keep {self.keep} is no share of a gradient's elements", "give more than 0 and at most 1")
        if self.keep != 1 and self.exact:
            refuse("--keep leaves out parts of gradients, --exact does not", "give one of them")
        if self.exact and self.compress:
            refuse("--compress rounds gradients, --exact does not", "give one of them")
        if self.compress and self.plan.zero >= 2:
            refuse(f"--compress is for gradients that are summed everywhere, and zero={self.plan.zero} shares them out",
                   "give zero=1 or less")
        self._check_offload(self.plan, device, cuda, refuse)
        if self.accumulate < 1:
            refuse(f"--accumulate {self.accumulate} cannot be", "give 1 or more")

    def _check_elastic(self, refuse: Callable[[str, str], None]) -> None:
        assert self.elastic is not None and self.plan is not None
        least, most = self.elastic
        if not 1 <= least <= most:
            refuse(f"--elastic {least}:{most} cannot be", "give the least and the most agents, as 1:4")
        if self.plan.ps:
            refuse(f"--elastic is of ranks that tell each other, and {self.plan} has servers, whose workers may come "
                   "and go", "leave it out")
        if most > 1 and self.plan.pp * self.plan.tp > 1:
            refuse(f"--elastic {least}:{most} adds ranks of dp, and {self.plan} takes none", "give --elastic 1:1, or "
                   "dp and zero alone")
        host, _, port = (self.store or "localhost:1").rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and len(port) <= 5):
            refuse(f"--store {(self.store or '')[:60]} is no place", "give HOST:PORT")

    def _check_survive(self, refuse: Callable[[str, str], None]) -> None:
        plan = self.plan
        assert plan is not None
        if plan.ps:
            refuse(f"--survive is of ranks that tell each other, and {plan} has servers, whose workers may come and go",
                   "leave it out")
        if plan.pp > 1 or plan.tp > 1 or plan.zero > 1 or plan.shard:
            refuse(f"--survive goes on with what the other ranks have in memory, and with {plan} a dead rank takes "
                   f"along what no other has", "give --elastic 1:1, which goes on from the newest checkpoint, or dp "
                   "alone or with zero=1")
        if plan.dp == 1:
            refuse("--survive is of several ranks, and dp=1 is one", "give dp=2 or more")
        if self.elastic:
            refuse("--elastic starts all ranks again where one dies, --survive none", "give one of them")
        if self.backend != "zenoh":
            refuse("--survive is of the backend that tells who died", "give --backend zenoh")
        if self.offload:
            refuse("--offload keeps from memory what --survive goes on from", "leave one of them out")
        if not 1 <= self.survivors <= plan.dp:
            refuse(f"--survivors {self.survivors} cannot be of dp={plan.dp}", f"give 1 to {plan.dp}")

    def _check_offload(self, plan: Plan, device: str, cuda: bool, refuse: Callable[[str, str], None]) -> None:
        if self.offload == "all" and (plan.zero < 2 or not cuda):
            refuse(f"--offload all moves parts from a GPU's memory to the CPU's, and this is zero={plan.zero} on "
                   f"{device}", "give zero=2 or zero=3 and --device cuda, or leave it out")
        if self.offload == "optimizer" and (cuda or plan.tp > 1 or plan.pp > 1 or plan.ps):
            refuse(f"--offload optimizer moves the optimizer's state of dp and zero from the CPU's memory to a disk, "
                   f"and this is {plan} on {device}", "leave it out")
        if (self.offload == "optimizer") != (self.offload_folder is not None):
            refuse("--offload optimizer and --offload-folder go together", "give both, or none")


def agents(text: str) -> tuple[int, int]:
    """Parses ``MIN:MAX``, the numbers of agents. Raises PlanError where it is not that."""
    least, _, most = text.partition(":")
    if not all(one.isascii() and one.isdigit() and len(one) <= 6 for one in (least, most)):
        raise PlanError(f"--elastic {text[:40]} cannot be; give the least and the most agents, as 1:4")
    return int(least), int(most)
