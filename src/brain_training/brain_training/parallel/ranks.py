# SPDX-License-Identifier: Apache-2.0
"""The processes of a parallel training: started here, see :mod:`.watch`, or by whoever runs torchrun.

Each of them runs the same command line. Who finds ``RANK`` and ``WORLD_SIZE`` in the environment is a rank, and takes
part; who does not starts as many as the plan has, waits for them, and gets from rank 0 what the training came to.
"""
from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

import torch
import torch.distributed as dist

from brain_collectives import torch_store
from brain_training.parallel.group import Ranks, leave
from brain_training.parallel.lost_rank import LostRank, lost
from brain_training.parallel.plan import PlanError
from brain_training.task import TrainingError

if TYPE_CHECKING:
    from brain_training.settings import Settings

REPORT = "BRAIN_TRAINING_REPORT"    # file that rank 0 writes to what was trained came to, for who started it
TIMEOUT = 600.0     # s that a rank waits for another one; a round of motor's drives takes minutes
LOST = 3            # status of a rank that lost another one, and has nothing to tell


def started() -> bool:
    """Tells whether this process is a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def silent() -> bool:
    """Tells whether another process prints what there is to be told, so that this one is silent."""
    return started() and (os.environ["RANK"] != "0" or REPORT in os.environ)


def first() -> bool:
    """Tells whether this process is rank 0, or no rank at all."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined(settings: Settings) -> Iterator[tuple[Ranks, Settings]]:
    """Takes part: the ranks, and the settings with this rank's device.

    Raises:
        PlanError: so many ranks as there are do not fit the plan.
        TrainingError: the others do not come, or one was lost.
    """
    how = settings.how
    assert how.plan is not None
    world = int(os.environ["WORLD_SIZE"])
    if how.survive and REPORT not in os.environ:
        raise PlanError("--survive is of ranks that the command itself starts, and torchrun ends all with the first "
                        "that dies; leave out torchrun")
    if how.elastic is not None:
        how = replace(how, plan=how.plan.scaled(world))
        settings = replace(settings, how=how)
    assert how.plan is not None
    how.plan.check_world(world)
    cuda = settings.device.startswith("cuda")
    backend = backend_of(settings)
    if cuda:
        settings = replace(settings, device=gpu(backend, int(os.environ.get("LOCAL_RANK", "0"))))
        torch.cuda.set_device(settings.device)
    if backend == "zenoh":
        import brain_collectives    # noqa: F401    (registers it)
    try:
        serving = _serving()    # noqa: F841    (the group's store, as long as the group is)
        both = "cpu:gloo,cuda:nccl"     # what is kept in the CPU's memory is summed there, too
        dist.init_process_group(both if how.offload == "all" else backend, timeout=timedelta(seconds=TIMEOUT))
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise TrainingError(f"rank {os.environ['RANK']} does not find the others ({_short(error)}); start all of them "
                            f"with the same MASTER_ADDR and MASTER_PORT, as torchrun does") from error
    try:
        among = "zenoh" if backend == "zenoh" else "gloo"
        end = None if how.elastic is None else dist.new_group(backend=among, timeout=timedelta(days=1))
        yield Ranks(exact=how.exact), settings
        if end is not None:     # rank 0 may be killed while it examines the network, and then all have to start again
            dist.barrier(end)
    except RuntimeError as error:
        if lost(error):
            raise LostRank(f"rank {os.environ['RANK']} lost another rank ({_short(error)}); go on from the last "
                           f"checkpoint with --resume") from error
        raise
    finally:
        leave()


def _serving() -> dist.TCPStore | None:
    """The store by which ranks of one machine meet, where no agent has it and this is rank 0, which is to serve it."""
    near = os.environ.get("MASTER_ADDR") in torch_store.NEAR
    if not near or not first() or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    return torch_store.serve(int(os.environ["MASTER_PORT"]))


def backend_of(settings: Settings) -> str:
    """Returns the backend of a training's ranks, the device's own where none is named."""
    return settings.how.backend or ("nccl" if settings.device.startswith("cuda") else "gloo")


def gpu(backend: str, place: int) -> str:
    """The GPU of the rank that is number ``place`` on its machine; on gloo several ranks may have the same.

    Raises:
        PlanError: on nccl, whose ranks need one each, there are not so many.
    """
    there = torch.cuda.device_count()
    if place >= there and backend == "nccl":
        raise PlanError(f"rank {place} of this machine has no GPU: nccl wants one for each, and there are {there}; "
                        f"start {there} here, or give --backend gloo, whose ranks share them")
    return f"cuda:{place % max(there, 1)}"


def tell(found: dict[str, Any]) -> None:
    """Writes what there is to be told for who started this rank; without that nothing."""
    if REPORT in os.environ:
        path = Path(f"{os.environ[REPORT]}.{os.environ['RANK']}")
        temporary = path.with_name(f".{path.name}")     # of this rank alone: several may tell at once
        temporary.write_text(json.dumps(found), encoding="utf-8")
        temporary.replace(path)


def command(name: str, out: Path | None, settings: Settings) -> list[str]:
    """The command line of a rank, without the interpreter."""
    how = settings.how
    options: list[tuple[str, Any]] = [
        ("--parallel", how.plan), ("--seed", settings.seed), ("--device", settings.device), ("--graph", settings.graph),
        ("--out", out), ("--threads", settings.threads), ("--checkpoint", settings.checkpoints),
        ("--log", settings.log), ("--backend", how.backend), ("--accumulate", how.accumulate),
        ("--compress", how.compress), ("--microbatches", how.microbatches), ("--schedule", how.schedule),
        ("--tensor", how.tensor), ("--offload", how.offload), ("--tensorboard", how.tensorboard),
        ("--elastic", how.elastic and ":".join(map(str, how.elastic))), ("--checkpoint-every", settings.period),
        ("--size", settings.size), ("--survivors", how.survivors if how.survive else None),
        ("--offload-folder", how.offload_folder), ("--deepspeed-config", how.deepspeed)]
    if settings.bags is not None:
        options += [*(("--bags", folder) for folder in settings.bags.folders), ("--labels", settings.bags.labels),
                    ("--bag-share", settings.bags.share)]
    flags = [("--quick", settings.quick), ("--resume", settings.resume), ("--exact", how.exact),
             ("--survive", how.survive)]
    return ["-m", "brain", "train", name, *(str(part) for option in options if option[1] is not None
                                            for part in option), *(flag for flag, given in flags if given)]


def reports(report: Path) -> dict[int, Path]:
    """Finds the files in which ranks have reported, by rank."""
    return {int(path.suffix[1:]): path for path in report.parent.glob(f"{report.name}.*") if path.suffix[1:].isdigit()}


def _told(report: Path) -> dict[int, dict[str, Any]]:
    return {rank: json.loads(path.read_text(encoding="utf-8")) for rank, path in sorted(reports(report).items())}


def causes(report: Path) -> list[tuple[int, str]]:
    """Returns the errors, with their ranks, that were no consequence of another rank's error."""
    return [(rank, str(its["error"])) for rank, its in _told(report).items() if "error" in its and not its["lost"]]


def why(report: Path, ranks: int, statuses: dict[int, int]) -> str:
    """Explains the failure of ranks: by an error that was no consequence of another's, or by who was killed."""
    found, told = causes(report), _told(report)
    if found:
        rank, error = found[0]
        return error if rank == 0 or len(found) > 1 else f"rank {rank}: {error}"
    killed = {rank: -status for rank, status in statuses.items() if status < 0 and -status != signal.SIGTERM}
    if killed:
        rank, number = next(iter(killed.items()))
        hint = ", as the kernel does where memory runs out" if number == signal.SIGKILL else ""
        return (f"rank {rank} of {ranks} was killed by {signal.Signals(number).name}{hint}; go on from the last "
                f"checkpoint with --resume")
    others = [rank for rank, status in statuses.items() if status not in (LOST, -signal.SIGTERM)]
    if others:
        return f"rank {others[0]} of {ranks} ended with {statuses[others[0]]}; what it said stands above"
    return next((its["error"] for its in told.values() if "error" in its), f"ranks ended with {statuses}")


def _short(error: BaseException, words: int = 30) -> str:
    return " ".join(str(error).split()[:words])


def failed(why: str, error: BaseException) -> int:
    """Tells who started this rank why it failed; the status to end with."""
    gone = isinstance(error, LostRank)
    if started():
        tell({"error": why, "lost": gone})
    return LOST if gone else 1
