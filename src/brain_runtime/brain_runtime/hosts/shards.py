# SPDX-License-Identifier: Apache-2.0
"""The processes over which one region spreads its network: shard 0 is the region's own, the others are its children.

They are no nodes and have no ports: on the outside there is one region. They have no state of their own worth saving,
so they are ended by force, with shard 0 by the kernel. Importing this loads no torch, so that all processes load it at
the same time; what the others run, and what all talk by, is of brain_collectives.
"""
from __future__ import annotations

import functools
import hashlib
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from brain_runtime.contract.declared import named
from brain_runtime.hosts.backends import DEFAULT, TIMEOUT, GroupError, backend, first_line
from brain_runtime.run.processes import Processes, by_number
from brain_runtime.run.workload import NEVER, Workload
from brain_wire.logs import Through
from brain_wire.temporary_folder import TemporaryFolder

STORE = "store"     # file by which they meet
EXCHANGE = "brain_collectives.hosts.torch_exchange"
FORMING = 120.0     # s that it does at the start, while others import torch
SOON = 3.0          # s in which the kernel tells of a child whose connections have closed


class ShardError(RuntimeError):
    """A region's other process has ended, stands still, or is another than it should be; says which."""


class Shards:
    """The processes over which a region is spread. They run from :meth:`launch` to :meth:`close`, and anew after it.

    Args:
        work: ``package.module:function`` that the others run, with their exchange; see
            :attr:`brain_runtime.contract.region.Region.split`.
        name: of the region.
        count: of processes, the region's own among them.
        backend: of ``torch.distributed``; see :mod:`brain_runtime.hosts.backends`.
        timeout: how long a step waits for another shard (s).
    """

    def __init__(self, work: str, name: str, count: int, backend: str = DEFAULT, timeout: float = TIMEOUT) -> None:
        self.work, self.name, self.count, self.backend, self.timeout = work, name, count, backend, timeout
        self._facts = {"code": code_hash(work), "work": work, "size": count, "backend": backend}
        self._lock = threading.Lock()
        self._children: Processes | None = None
        self._folder: TemporaryFolder | None = None
        self._exchange: Any = None

    def launch(self) -> None:
        """Starts the others, unless they run; they load what they need while this process does.

        Raises:
            ShardError: they cannot be started.
        """
        with self._lock:
            if self._children is None:
                self._folder = TemporaryFolder("shards")
                try:
                    self._children = Processes(map(self._shard, range(1, self.count)), Through(), log="shards",
                                               environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
                except OSError as error:
                    raise ShardError(f"the shards of {self.name} cannot be started: {error}") from error

    def _store(self) -> Path:
        assert self._folder is not None, "it is made before they are started"
        return Path(self._folder.name, STORE)

    def _shard(self, rank: int) -> Workload:
        return Workload(f"{self.name} {rank}", (
            sys.executable, "-m", "brain_collectives.shard_process", "--work", self.work, "--name", self.name,
            "--rank", str(rank), "--size", str(self.count), "--backend", self.backend, "--store", str(self._store())),
            restart=NEVER, grace=0.0)

    def exchange(self) -> Any:
        """Returns the exchange by which the shards talk, once all are there; see :data:`EXCHANGE`.

        Raises:
            ShardError: one does not come, or runs other code.
            GroupError: there is no such backend.
        """
        if self._exchange is None:
            self.launch()
            try:
                self._exchange = self._formed()
            except BaseException:
                self.close()
                raise
        return self._exchange

    def _formed(self) -> Any:
        children = self._running()
        store = named(f"{EXCHANGE}:meeting", f"region {self.name}")(self._store(), self.count)
        until = time.monotonic() + FORMING
        while not store.check([f"{rank} is here" for rank in range(1, self.count)]):
            gone = by_number(children.statuses())
            if gone or time.monotonic() > until:
                rank = next(iter(gone), 1)
                why = _how(gone[rank]) if gone else f"did not come within {FORMING:g} s"
                raise ShardError(f"shard {rank} of {self.name} {why} before it was there; see what it logged")
            time.sleep(0.05)
        try:
            group = backend(self.backend)(store, 0, self.count, timedelta(seconds=FORMING))
        except RuntimeError as error:
            if isinstance(error, GroupError):
                raise
            raise ShardError(f"the shards of {self.name} find no group: {first_line(error)}") from error
        exchange = named(f"{EXCHANGE}:Exchange", f"region {self.name}")(group, 0, self.count, self.timeout, self._lost)
        self._agree(exchange)
        self._store().unlink(missing_ok=True)     # by now all have found each other
        return exchange

    def _agree(self, exchange: Any) -> None:
        with exchange.patiently():
            told = exchange.facts(self._facts)
        for rank, known in enumerate(told):
            odd = sorted(key for key in told[0] if known.get(key) != told[0][key])
            if odd:
                raise ShardError(f"shard {rank} of {self.name} differs from shard 0 in "
                                 + ", ".join(f"{key} ({known.get(key)}, not {told[0][key]})" for key in odd)
                                 + "; where code was changed while the brain ran, start the region again")
        exchange.tell(b"all the same")

    def _running(self) -> Processes:
        if self._children is None:
            raise ShardError(f"the shards of {self.name} do not run")
        return self._children

    def processes(self) -> list[int]:
        """Process numbers, of shards 1 and up."""
        return list(self._children.pids.values()) if self._children is not None else []

    def _lost(self, rank: int, error: Exception, waited: bool) -> ShardError:
        """Makes the error for a shard that does not answer; all others are ended, since a group does without none."""
        children = self._children
        if children is None:
            return ShardError(f"the shards of {self.name} were ended")
        children.wait(0.0 if waited else SOON, bool)
        gone = by_number(children.statuses())
        if gone:
            rank, status = min(gone.items(), key=lambda one: (one[1] >= 0, one[0]))     # one that was killed, if any
            found = f"shard {rank} of {self.name} (process {children.pids[f'{self.name} {rank}']}) {_how(status)}"
        else:
            found = (f"shard {rank} of {self.name} (process {children.pids[f'{self.name} {rank}']}) did not answer in "
                     f"time: it stands still, this machine is busy, or what it sends is of another size "
                     f"({first_line(error)})")
        self.close()
        return ShardError(found)

    def close(self) -> None:
        """Ends the others. A second time nothing."""
        with self._lock:
            children, self._children = self._children, None
            exchange, self._exchange = self._exchange, None
        if children is not None:
            children.end()
            if self._folder is not None:
                self._folder.cleanup()
        if exchange is not None:
            with suppress(RuntimeError):    # nobody is there to take leave of
                exchange.close()


def _how(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


@functools.cache
def code_hash(work: str) -> str:
    """Hash of the source of the hosts' and regions' packages and of that of ``work``, when it is first asked for."""
    found = hashlib.sha256()
    for package in sorted({"brain_collectives", "brain_regions", "brain_runtime",
                           work.partition(":")[0].partition(".")[0]}):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for file in sorted(Path(folder).rglob("*.py")):
                found.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]
