# SPDX-License-Identifier: Apache-2.0
"""``brain parameter-server`` and ``brain parameter-worker``: a training over several machines, by hand."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brain_runtime.command.options import (Json, Secure, check_folder, check_writable, fail, tell, tell_json,
                                           use_security)

if TYPE_CHECKING:
    from brain_training.task import Task

TaskName = Annotated[str, typer.Option("--task", metavar="REGION", help="A region that is trained, as vision, language "
                                       "or motor; or a task of your own, as module:Class.")]
Network = Annotated[str, typer.Option("--network", help="spiking, or ann: the baseline.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of weights, data and order.")]
Quick = Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works.")]
Size = Annotated[str, typer.Option(help="Of the network: base, which a region runs, wide or large; the same for all "
                                   "servers and workers.")]
Graph = Annotated[str, typer.Option(help="Graph of the brain whose regions are trained, a name or a file.")]


def server(listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where workers connect to.")],
           task: TaskName, folder: Annotated[Path, typer.Option(
               metavar="FOLDER", help="For checkpoint and log; what is there is gone on with.")],
           workers: Annotated[int, typer.Option(min=1, help="Gradients of a step in mode sync; in others as many may "
                                                "be there at once.")] = 1,
           mode: Annotated[str, typer.Option(help="sync: a step has the gradients of all workers; async: of one; "
                                             "stale:S: of one, of parameters at most S versions old.")] = "sync",
           number: Annotated[int, typer.Option("--server", min=0, help="Number of this one among all that share the "
                                               "parameters.")] = 0,
           servers: Annotated[int, typer.Option(min=1, help="How many share the parameters.")] = 1,
           network: Network = "spiking", seed: Seed = 0, quick: Quick = False, graph: Graph = "brain",
           size: Size = "base",
           every: Annotated[int, typer.Option(min=1, help="Steps between two checkpoints.")] = 50,
           lease: Annotated[float, typer.Option(min=1.0, help="Seconds without a word of a worker after which its "
                                                "place is another's.")] = 15.0,
           allow: Annotated[list[str] | None, typer.Option(
               "--allow", metavar="NAME", help="Whose certificates workers may have, beside the operator's.")] = None,
           secure: Secure = None) -> None:
    """Holds and changes the weights of a training, while workers elsewhere compute gradients.

    It ends when all steps are done and the workers have left. Killed, it goes on when started again.
    """
    import asyncio
    import signal

    use_security(secure)
    check_folder(folder, "--folder")
    _need("grpc")
    from brain_training.checkpoint import CheckpointError
    from brain_training.parameter_server.credentials import SERVER, WORKER, read_keys
    from brain_training.parameter_server.mode import Mode
    from brain_training.parameter_server.server import serve
    from brain_training.parameter_server.shard import Shard
    from brain_wire.credentials import CredentialsProblem
    from brain_wire.endpoints import LOOPBACK

    import torch

    if number >= servers:
        fail(f"there is no server {number} of {servers}; they are numbered from 0", 2)
    made, host = _task(task, network, quick, graph, size), _host(listen)
    torch.set_num_threads(1)
    try:
        keys = read_keys(SERVER, secure, serves=True)
        how = Mode.of(mode)
    except (CredentialsProblem, ValueError) as error:
        fail(str(error))
    if keys is None and not host.startswith(LOOPBACK):
        tell(f"{listen} is not secured: what is said there is not encrypted, and whoever reaches it can change this "
             f"training; give --secure FOLDER", "yellow", err=True)

    async def run() -> None:
        until = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, until.set)
        shard = Shard(made, seed, number, servers, workers, how)

        def ready(port: int) -> None:
            tell(f"parameter server {number} of {servers} holds {len(shard.parameters)} parameters of {made.name} "
                 f"({made.which}) at version {shard.version}, and listens at {host}:{port}")

        await serve(shard, listen, folder, ready, every=every, until=until, keys=keys, lease=lease, tell=tell,
                    allowed=(WORKER, *(allow or ())))
        if not shard.finished:
            tell(f"ended at version {shard.version} of {shard.steps or '?'}; start it again to go on")
        else:
            tell(f"all {shard.version} steps are done")

    try:
        asyncio.run(run())
    except (CheckpointError, OSError) as error:
        fail(str(error))


def worker(servers: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="All servers of the training.")],
           task: TaskName, out: Annotated[Path | None, typer.Option(
               help="Weight file to write at the end. Default: none, as for all workers but one.")] = None,
           network: Network = "spiking", seed: Seed = 0, quick: Quick = False, graph: Graph = "brain",
           size: Size = "base",
           keep: Annotated[float, typer.Option(help="Share of each gradient's elements that is sent, the largest; the "
                                               "others are added to the next.")] = 1.0,
           threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
           device: Annotated[str, typer.Option(help="Torch device, as cuda:0.")] = "cpu",
           log: Annotated[Path | None, typer.Option(metavar="FILE", help="Add a line of JSON every 20 steps.")] = None,
           secure: Secure = None, as_json: Json = False) -> None:
    """Computes gradients for parameter servers until all steps are done."""
    use_security(secure)
    _need("grpc")
    from dataclasses import asdict

    import torch

    from brain_training.blamed import blamed, when
    from brain_training.parameter_server.client import Servers
    from brain_training.parameter_server.credentials import WORKER, read_keys
    from brain_training.parameter_server.worker import ServedTrainer
    from brain_training.settings import check_device
    from brain_training.task import TrainingError
    from brain_training.train import _progress
    from brain_wire.credentials import CredentialsProblem

    check_writable(log)
    if out is not None and out.is_dir():
        fail(f"cannot write {out}: it is a folder; name a file in it", 2)
    check_folder(out and out.parent, "--out")
    made = _task(task, network, quick, graph, size)
    try:
        check_device(device)
    except ValueError as error:
        fail(str(error))
    addresses = [address.strip() for address in servers.split(",")]
    for address in addresses:
        _host(address)
    torch.set_num_threads(threads)
    try:
        if out is not None:
            made.check()
        with _progress() as progress:
            trainer = None
            with blamed(made, lambda: when(trainer)):
                trainer = ServedTrainer(made, seed, Servers(addresses, read_keys(WORKER, secure)), keep=keep,
                                        device=device, log=log, progress=progress)
                trained = trainer.run()
            figures = made.score(trained, progress) if out is not None else {}
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                made.export(out, trained, {"split": "train", "seed": seed, "recipe": asdict(made.recipe)}, figures)
    except (CredentialsProblem, OSError, TrainingError, ValueError) as error:
        fail(str(error))
    found = {"task": made.name, "network": made.which, "worker": trainer.rank, "steps": len(trainer.losses),
             "loss": trainer.losses[-1] if trainer.losses else None, "sent_bytes": trainer.sent,
             "refused": trainer.refused, **figures}
    if as_json:
        tell_json(found)
        return
    tell(f"worker {trainer.rank} was there for {len(trainer.losses)} steps, and sent {trainer.sent / 1e6:.1f} MB of "
         f"gradients" + (f"; weights written to {out}" if out is not None else ""))


def _need(package: str) -> None:
    """Ends the command where a package is not installed."""
    from importlib.util import find_spec

    from brain_runtime.command.lacking import lacks

    if find_spec(package) is None:
        fail(lacks(package))


def _task(name: str, network: str, quick: bool, graph: str, size: str) -> Task:
    from brain_runtime.graph import GraphError
    from brain_training import tasks
    from brain_training.task import sized

    try:
        cls = tasks.load(name, graph)
        if size not in cls.sizes:
            fail(f"the networks of {cls.name} have no size {size!r}; there is {', '.join(cls.sizes)}", 2)
        return cls(network, quick=quick, **sized(size))
    except (GraphError, ValueError) as error:
        fail(str(error), 2)


def _host(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) <= 5) or int(port) > 65535:
        fail(f"{address!r} is no address; it must read HOST:PORT, as 192.168.1.5:7450", 2)
    return host.strip("[]")
