# SPDX-License-Identifier: Apache-2.0
"""Shard of one server: its parameters, the optimizer's state for them, and the pushes of the step to come.

It does not write or talk: the same calls in the same order give the same bits, which is what a log is replayed by.
"""
from __future__ import annotations

import copy
import json
import math
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Iterator, Mapping

import torch
from torch import Tensor

from brain_training.parallel.together import in_order
from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.messages import Report
from brain_training.parameter_server.mode import Mode
from brain_training.parameter_server.placement import placed
from brain_training.parameter_server.places import Deal, Places
from brain_training.parameter_server.refused import stale, unfit, wrong
from brain_training.task import BASE, Task, sized

MOST_STEPS = 2**31
MOST_SAMPLES = 2**18     # of a worker in a step; a report of more would fill a message
SPARE = 1e4              # by which the norm of a gradient stays below what its type can square


def largest_norm(dtype: torch.dtype, workers: int) -> float:
    """Norm that one worker's gradient for a parameter may have: sums and norms over all of them stay finite."""
    squared = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).max   # in which norms are taken
    return min(torch.finfo(dtype).max / 2, math.sqrt(squared) / SPARE) / workers


def about(task: Task, seed: int) -> dict[str, Any]:
    """Returns the identity of a training, on which workers and servers have to agree."""
    return json.loads(json.dumps({"task": task.name, "network": task.which, "seed": seed, "size": task.size,
                                  "recipe": asdict(task.recipe)}))


def differ(here: Mapping[str, Any], theirs: Any) -> str | None:
    """In what another training is another one, or None."""
    if not isinstance(theirs, dict):
        return "it does not say what it trains"
    for what, value in here.items():
        its = theirs.get(what, BASE if what == "size" else None)    # which was not said when there was one size alone
        if its != value:
            return f"its {what} is {its!r}, and {value!r} here"
    return None


class Shard:
    """The part of a network that one server holds.

    Args:
        task: whose network, optimizer, schedule and clipping norm it takes; no data is prepared.
        seed: of the training.
        server: number of this server.
        servers: how many share the parameters.
        workers: how many gradients a step has in mode sync, and how many workers may be there at once in others.
        mode: see :class:`.mode.Mode`.

    Attributes:
        version: how many steps have been applied here.
        steps: how many there will be; 0: no worker has said it.
        norm: of the last step's gradient, over all servers.
        reports: what workers told of each step, in the order of steps and ranks; of server 0.
    """

    def __init__(self, task: Task, seed: int, server: int = 0, servers: int = 1, workers: int = 1,
                 mode: Mode | None = None) -> None:
        self.task, self.about, self.mode = task, about(task, seed), mode or Mode(True)
        self.server, self.servers, self.workers = server, servers, workers
        self.network = task.built(seed)
        known = dict(self.network.named_parameters())
        self.parameters = {name: known[name] for name in placed(known, server, servers)}
        self.buffers = dict(self.network.named_buffers()) if server == 0 else {}
        self.optimizer = task.optimizer(self.network)   # what has no gradient, it leaves alone and keeps no state of
        self.schedule: Any = None
        self.version, self.steps, self.norm, self.rate = 0, 0, 0.0, 0.0
        self.places, self.deal = Places(workers), Deal()
        self.reports: list[Any] = []
        self.pending: dict[int, tuple[Any, dict[str, Tensor], dict[str, Tensor]]] = {}
        self._sum: dict[str, Tensor] | None = None

    @property
    def finished(self) -> bool:
        """True where no step is to come."""
        if not self.steps:
            return False
        if self.version >= self.steps or self.mode.together:
            return self.version >= self.steps
        if self.server:     # which steps were lost server 0 knows; a worker leaves when that has none left
            return self.places.left
        return self.deal.next >= self.steps and not self.deal.given

    def reports_from(self, known: int, most: int, size: int) -> list[Any]:
        """Reports behind the first ``known``: at most ``most``, of together at most ``size`` bytes, but one."""
        found: list[Any] = []
        for report in self.reports[known:known + most]:
            size -= report.ByteSize()
            if found and size < 0:
                break
            found.append(report)
        return found

    def begin(self, steps: int) -> None:
        """Is told how many steps there will be, which the schedule of the learning rate rests on.

        Raises:
            Refused: there were others, or it is no number of steps.
        """
        self.check_steps(steps)
        if not self.steps:
            self.schedule, self.steps = self._schedule(steps, self.optimizer), steps

    def check_steps(self, steps: int) -> None:
        """Raises Refused where a training cannot have so many steps; changes nothing."""
        if self.steps:
            if steps != self.steps:
                raise unfit(f"this training has {self.steps} steps, and the worker's has {steps}")
            return
        if not 0 < steps < MOST_STEPS:
            raise wrong(f"{steps} is no number of steps of a training")
        try:
            self._schedule(steps, self.task.optimizer(self.network))
        except Exception as error:  # whatever a task's own schedule makes of it
            raise wrong(f"the schedule of this training cannot have {steps} steps ({error})") from error

    def _schedule(self, steps: int, optimizer: Any) -> Any:
        # Only the schedule asks for them, and a server prepares no data, from which some tasks count them.
        counted = type(f"Counted{type(self.task).__name__}", (type(self.task),), {"steps": steps})
        task = counted(self.task.which, quick=self.task.quick, recipe=self.task.recipe, **sized(self.task.size))
        return task.schedule(optimizer)

    # -- pushes ----------------------------------------------------------------------------------------------------

    def check(self, header: Any) -> bool:
        """Looks at the header of a push before its bytes are read.

        Returns:
            Whether it was applied, or is kept, already.

        Raises:
            Refused: something in it is wrong, or too old.
        """
        rank = self.places.check(header.member)
        who, step = f"worker {rank}", header.sequence
        if not self.steps or step >= self.steps:
            raise wrong(f"{who} pushes step {step} of a training of {self.steps} steps")
        for specs, known, what in ((header.tensors, self.parameters, "parameter"),
                                   (header.buffers, self.buffers, "buffer")):
            seen: set[str] = set()
            for spec in specs:
                if spec.name in seen:
                    raise wrong(f"{who} pushes {spec.name!r}, which is there twice")
                if spec.name not in known:
                    raise wrong(f"{who} pushes {spec.name!r}, which is no {what} of server {self.server}")
                seen.add(spec.name)
                try:
                    wire.check(spec, known[spec.name])
                except wire.WrongTensor as error:
                    raise wrong(f"{who} pushes for {what} {error}") from None
        if self.server == 0 and not (header.HasField("report") and math.isfinite(header.report.loss)):
            raise wrong(f"the push of step {step} of {who} has no report with a finite loss"
                        + (f", but {header.report.loss}" if header.HasField("report") else ""))
        header.DiscardUnknownFields()   # the report is kept, and goes to all workers
        if not all(map(math.isfinite, header.report.hard)):
            raise wrong(f"{who} reports of samples whose hardness is no finite number")
        if len(header.report.hard) > MOST_SAMPLES:
            raise wrong(f"{who} reports of {len(header.report.hard)} samples, more than {MOST_SAMPLES}")
        if header.HasField("report") and (header.report.step, header.report.rank) != (step, rank):
            raise wrong(f"{who} pushes step {step} with a report of step {header.report.step} of worker "
                        f"{header.report.rank}")
        return self._known(header, rank)

    def _known(self, header: Any, rank: int) -> bool:
        who, step, base = f"worker {rank}", header.sequence, header.base_version
        if base > self.version:
            raise wrong(f"{who} pushes gradients of version {base}, which is to come; server {self.server} has "
                        f"version {self.version}")
        if self.mode.together:
            if step > self.version:
                raise wrong(f"{who} pushes step {step}, and server {self.server} is at step {self.version}")
            if step < self.version or rank in self.pending:
                return True
            if base != self.version:
                raise stale(f"{who} pushes gradients of version {base}, and step {step} needs those of version "
                            f"{self.version}; pull, and compute them again")
            return False
        if self.deal.done(step):
            return True
        if self.server == 0 and self.deal.given.get(step) != (rank, header.member.epoch):
            raise unfit(f"{who} pushes step {step}, which it was not given")
        if self.mode.bound is not None and self.version - base > self.mode.bound:
            raise stale(f"{who} pushes gradients of version {base}, which is {self.version - base} behind version "
                        f"{self.version} of server {self.server}, and the mode is {self.mode}; pull, and compute them "
                        f"again")
        if not (math.isfinite(header.norm) and header.norm >= 0):
            raise wrong(f"{who} pushes step {step} with {header.norm} for the norm of its gradients")
        return False

    def decode(self, header: Any, data: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Gradients and buffers of a push whose header was checked; raises Refused."""
        who = f"worker {header.member.rank}"
        sizes = [sum(map(wire.size_of, specs)) for specs in (header.tensors, header.buffers)]
        if len(data) != sum(sizes):
            raise wrong(f"{who} pushes {len(data)} bytes, and its header says {sum(sizes)}")
        if wire.crc([data]) != header.crc32:
            raise wrong(f"the bytes of the push of step {header.sequence} of {who} do not have the checksum of its "
                        f"header; they were damaged on the way")
        try:
            gradients = wire.decode(header.tensors, data, self.parameters)
            buffers = wire.decode(header.buffers, data, self.buffers, sizes[0])
        except wire.WrongTensor as error:
            raise wrong(f"{who}: {error}") from None
        for name, value in gradients.items():
            off = int((~torch.isfinite(value)).sum())
            if off:
                raise wrong(f"{who} pushes for parameter {name} {off} of {value.numel()} elements that are no finite "
                            f"numbers")
            norm, most = float(torch.linalg.vector_norm(value.double())), largest_norm(value.dtype, self.workers)
            if norm > most:
                raise wrong(f"{who} pushes for parameter {name} a gradient of norm {norm:.3g}, and at most {most:.3g} "
                            f"is taken; take a smaller learning rate, or look for what is not scaled")
        for name, value in buffers.items():
            if value.is_floating_point() and not torch.isfinite(value).all():
                raise wrong(f"{who} pushes for buffer {name} elements that are no finite numbers")
        own = math.sqrt(sum(float(torch.linalg.vector_norm(value.double())) ** 2 for value in gradients.values()))
        if not self.mode.together and header.norm < own * (1 - 1e-3):    # in single precision, of many
            raise wrong(f"{who} pushes step {header.sequence} with {header.norm} for the norm of its gradients: that "
                        f"of server {self.server}'s part alone is {own}")
        return gradients, buffers

    def take(self, header: Any, gradients: dict[str, Tensor], buffers: dict[str, Tensor]) -> None:
        """Keeps a checked push for the step, or applies it at once where each step is one worker's."""
        report = Report()
        report.CopyFrom(header.report)
        if self.mode.together:
            self.pending[header.member.rank] = report, gradients, buffers if header.member.rank == 0 else {}
            return
        self._step(gradients, header.norm)
        for name, value in buffers.items():
            self.buffers[name].copy_(value)
        if self.server == 0:
            self.reports.append(report)
        self.deal.finish(header.sequence)

    # -- steps -----------------------------------------------------------------------------------------------------

    def missing(self) -> list[int]:
        """Ranks that the step still waits for."""
        return [rank for rank in range(self.workers) if rank not in self.pending]

    def norms(self) -> dict[str, float]:
        """Norm of the gradient of each of this server's parameters; all workers have pushed."""
        return {name: float(torch.linalg.vector_norm(value)) for name, value in self._summed().items()}

    def _summed(self) -> dict[str, Tensor]:
        """Gradients of the whole batch: those of its parts, summed in the order of ranks."""
        if self._sum is None:
            self._sum = {}
            for name in self.parameters:
                parts = [self.pending[rank][1][name] for rank in range(self.workers) if name in self.pending[rank][1]]
                if parts:
                    self._sum[name] = in_order(parts)
        return self._sum

    def check_norm(self, step: int, norm: float) -> bool:
        """Checks a step's norm; True: the step is done already. Raises Refused where it cannot be done with it."""
        if step < self.version:
            return True
        if step > self.version or self.missing():
            raise wrong(f"step {step} cannot be done: server {self.server} is at step {self.version}, and waits for "
                        f"workers {', '.join(map(str, self.missing())) or 'of the next'}")
        own = math.sqrt(sum(value * value for value in self.norms().values()))
        if not math.isfinite(norm) or norm < own * (1 - 1e-5):
            raise wrong(f"{norm} is not the norm of the gradient of step {step}: that of server {self.server}'s part "
                        f"alone is {own}")
        return False

    def apply(self, norm: float) -> None:
        """Does the step that all workers have pushed for, with the norm over all servers."""
        gradients = self._summed()
        for rank in sorted(self.pending):
            report, _, buffers = self.pending[rank]
            if self.server == 0:
                self.reports.append(report)
            for name, value in buffers.items():
                self.buffers[name].copy_(value)
        self.pending, self._sum = {}, None
        self._step(gradients, norm)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """A step, and what is written of it: where either fails, all is as before it."""
        state = self.optimizer.state
        before = [(value, value.detach().clone()) for value in self._values()]
        known = {parameter: dict(of) for parameter, of in state.items()}
        groups = [{name: value for name, value in group.items() if name != "params"}
                  for group in self.optimizer.param_groups]
        schedule = copy.deepcopy(self.schedule.state_dict())
        kept = self.version, self.norm, self.rate, self.pending, self._sum, len(self.reports), self.deal.state()
        try:
            yield
        except BaseException:
            with torch.no_grad():
                for value, old in before:
                    value.copy_(old)
            state.clear()
            state.update(known)
            for group, old in zip(self.optimizer.param_groups, groups):
                group.update(old)
            self.schedule.load_state_dict(schedule)
            self.version, self.norm, self.rate, self.pending, self._sum, reports, deal = kept
            del self.reports[reports:]
            self.deal.restore(deal)
            raise

    def _values(self) -> list[Tensor]:
        """All tensors that a step changes."""
        return [*self.parameters.values(), *self.buffers.values(),
                *(value for of in self.optimizer.state.values() for value in of.values() if isinstance(value, Tensor))]

    @torch.no_grad()
    def _step(self, gradients: Mapping[str, Tensor], norm: float) -> None:
        """Clips, and lets optimizer and schedule do one step; raises Refused where the weights would be no numbers."""
        for name, parameter in self.parameters.items():
            # a copy, since it is clipped in place, and what was pushed stays until the step is done for good
            parameter.grad = gradients[name].clone() if name in gradients else None
        with_gradient = [p for p in self.parameters.values() if p.grad is not None]
        if with_gradient:
            total = torch.tensor(norm, dtype=with_gradient[0].dtype)
            torch.nn.utils.clip_grads_with_norm_(with_gradient, self.task.clip, total)
        self.optimizer.step()
        self.rate = float(self.schedule.get_last_lr()[0])
        self.schedule.step()
        self.optimizer.zero_grad()
        self.task.settle(self.network)
        self.norm, self.version = norm, self.version + 1
        if not all(bool(torch.isfinite(value).all()) for value in self._values() if value.is_floating_point()):
            raise wrong(f"step {self.version - 1} would make weights of server {self.server} that are no finite "
                        f"numbers; it keeps those of before. Take a smaller learning rate, and begin anew")

    # -- what is kept ----------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All of it but the pending pushes: tensors, and what JSON can say."""
        tensors = {f"parameter.{name}": value for name, value in self.parameters.items()}
        tensors |= {f"buffer.{name}": value for name, value in self.buffers.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value
        told = b"".join(len(data := one.SerializeToString()).to_bytes(4, "little") + data for one in self.reports)
        tensors["reports"] = torch.frombuffer(bytearray(told), dtype=torch.uint8) if told else torch.empty(
            0, dtype=torch.uint8)
        return tensors, {
            "about": self.about, "server": self.server, "servers": self.servers, "workers": self.workers,
            "mode": str(self.mode), "version": self.version, "steps": self.steps, "norm": self.norm, "rate": self.rate,
            "places": self.places.state(), "deal": self.deal.state(),
            "groups": self.optimizer.state_dict()["param_groups"],
            "schedule": self.schedule.state_dict() if self.schedule else None}

    def fits(self, values: Mapping[str, Any]) -> str | None:
        """In what a state is another training's, or None."""
        here = {**self.about, "server": self.server, "servers": self.servers, "workers": self.workers,
                "mode": str(self.mode)}
        return differ(here, {**values["about"], **{what: values[what] for what in (
            "server", "servers", "workers", "mode")}})

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave; KeyError, RuntimeError, TypeError or ValueError where it is torn."""
        with torch.no_grad():
            for kind, known in (("parameter", self.parameters), ("buffer", self.buffers)):
                for name, value in known.items():
                    value.copy_(tensors[f"{kind}.{name}"])
        order = [p for group in self.optimizer.param_groups for p in group["params"]]
        number = {id(parameter): place for place, parameter in enumerate(order)}
        state: dict[int, dict[str, Tensor]] = {}
        for label, value in tensors.items():
            kind, _, rest = label.partition(".")
            if kind == "optimizer":
                key, _, name = rest.partition(".")
                parameter = self.parameters[name]
                if value.shape == parameter.shape and value.dim():  # in the weights' own layout, as it was
                    value = torch.empty_like(parameter, requires_grad=False).copy_(value)
                state.setdefault(number[id(parameter)], {})[key] = value
        if values["steps"]:
            self.begin(values["steps"])
            self.schedule.load_state_dict(values["schedule"])
        groups = [{**group, **({"betas": tuple(group["betas"])} if "betas" in group else {})}
                  for group in values["groups"]]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.version, self.norm, self.rate = int(values["version"]), float(values["norm"]), float(values["rate"])
        self.places.restore(values["places"])
        self.deal.restore(values["deal"])
        told, self.reports = bytes(tensors["reports"].numpy()), []
        while told:
            size = int.from_bytes(told[:4], "little")
            self.reports.append(Report.FromString(told[4:4 + size]))
            told = told[4 + size:]
