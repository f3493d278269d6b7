# SPDX-License-Identifier: Apache-2.0
"""A shard that outlives its process: every change is in the log before it is acknowledged.

Sometimes a checkpoint takes the log's place. The folder of a server holds ``shard-0-of-2.checkpoint`` (safetensors, and
JSON in its metadata), ``shard-0-of-2.N.log``, whose number the checkpoint names, and ``shard-0-of-2.curriculum`` of
server 0. No pickle.
"""
from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping

from torch import Tensor

from brain_training import checkpoint
from brain_training.checkpoint import CheckpointError
from brain_training.parameter_server.log import Log, replay, sync_folder
from brain_training.parameter_server.messages import LogRecord, Member
from brain_training.parameter_server.refused import Refused, too_much
from brain_training.parameter_server.shard import Shard
from brain_wire import private

EVERY = 50              # steps between two checkpoints
LARGEST = 256 << 20     # bytes of a log before a checkpoint is made


def of_others(folder: Path, servers: int) -> Path | None:
    """A checkpoint in a folder that was kept by another number of servers; None: there is none."""
    return next((path for path in sorted(folder.glob("shard-*-of-*.checkpoint"))
                 if not path.name.endswith(f"-of-{servers}.checkpoint")), None)


class Durable:
    """A shard and its folder.

    Args:
        shard: as it begins; what the folder holds is put into it.
        folder: of this server's files; None: nothing is kept.
        every: steps between two checkpoints.

    Attributes:
        resumed: how many records were replayed; None: the folder held nothing.

    Raises:
        CheckpointError: what the folder holds is torn, of another training, or another server is writing there.
        OSError: it cannot be read or written.
    """

    def __init__(self, shard: Shard, folder: Path | None, every: int = EVERY) -> None:
        self.shard, self._every, self._log, self._number = shard, every, None, 0
        self._saved, self._closing, self.resumed = 0, ExitStack(), None
        self._label = f"shard-{shard.server}-of-{shard.servers}"
        self._folder = folder
        self.curriculum: tuple[int, str, dict[str, Tensor]] | None = None   # step, JSON, tensors
        if folder is not None:
            self._closing.enter_context(checkpoint.held(self._path))
            try:
                self._open()
            except BaseException:
                self._closing.close()
                raise

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._label}.checkpoint"

    def _logged(self, number: int) -> Path:
        return self._folder / f"{self._label}.{number}.log"

    def _open(self) -> None:
        other = of_others(self._folder, self.shard.servers)
        if other is not None:
            raise CheckpointError(f"{other} is of a training by another number of servers, and this one has "
                                  f"{self.shard.servers}; give as many as that, or name another --folder")
        if self._path.exists():
            tensors, values = checkpoint.load(self._path)
            try:
                why = self.shard.fits(values)
                if why is None:
                    self.shard.restore(tensors, values)
                    self._number, self._saved = int(values["log"]), self.shard.version
            except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
                raise CheckpointError(f"checkpoint {self._path} does not fit this server ({type(error).__name__}: "
                                      f"{' '.join(str(error).split())[:200]}); name another --folder") from error
            if why:
                raise CheckpointError(f"{self._path} is of another training: {why}; name another --folder")
            self.resumed = 0
            found = self._folder / f"{self._label}.curriculum"
            if self.shard.server == 0 and found.exists():
                tensors, values = checkpoint.load(found)
                self.curriculum = int(values["step"]), str(values["values"]), tensors
            path = self._logged(self._number)
            if path.exists():
                for record, data in replay(path):
                    self._redo(record, data, path)
                    self.resumed += 1
            self._log = Log(path)
            self._sweep()
        else:
            self._write_checkpoint(0)

    def _sweep(self) -> None:
        """Removes logs that the checkpoint has in it, and one that was begun for a checkpoint that never was."""
        for old in self._folder.glob(f"{self._label}.*.log"):
            if old != self._logged(self._number):
                old.unlink()

    def _redo(self, record: Any, data: bytes, path: Path) -> None:
        shard, what = self.shard, record.WhichOneof("what")
        try:
            if what == "joined":
                shard.begin(record.joined.steps)
                member = record.joined.member
                shard.places.join(member.rank, member.epoch, record.joined.identity, ended=True)    # was let in then
            elif what == "left":
                shard.places.leave(record.left.rank)
            elif what == "given":
                shard.deal.give(record.given.step, record.given.member.rank, record.given.member.epoch)
            elif what == "lost":
                shard.deal.finish(record.lost.step)
            elif what == "step":
                shard.apply(record.step.norm)
            elif what == "push":
                shard.take(record.push, *shard.decode(record.push, data))
        except Refused as error:
            raise CheckpointError(f"{path} does not fit the checkpoint beside it: {error}; bring the folder back from "
                                  f"a copy, or begin anew in another one") from error

    def _keep(self, record: Any, data: bytes | bytearray = b"", *, sync: bool = True) -> None:
        if self._log is not None:
            try:
                self._log.add(record, data, sync=sync)
            except OSError as error:
                raise too_much(f"server {self.shard.server} cannot write its log {self._log.path} "
                               f"({error.strerror or error}); make room, and the workers go on") from None

    # -- changes ---------------------------------------------------------------------------------------------------

    def join(self, rank: int, epoch: int, identity: str, steps: int, ended: bool = False) -> None:
        """Somebody takes a place; the first one says how many steps there are; ``ended``: see Places.check_join."""
        self.shard.check_steps(steps)
        before = self.shard.places.state()
        self.shard.places.join(rank, epoch, identity, ended)
        try:
            self._keep(LogRecord(joined=LogRecord.Joined(
                member=Member(rank=rank, epoch=epoch), identity=identity, steps=steps)))
        except Refused:     # what is not in the log is not so: pushes of this worker could not be replayed
            self.shard.places.restore(before)
            raise
        self.shard.begin(steps)

    def leave(self, member: Any) -> None:
        """Somebody leaves theirs."""
        self._keep(LogRecord(left=member), sync=False)
        self.shard.places.leave(member.rank)

    def give(self, step: int, member: Any) -> None:
        """A step is dealt out; lost with the machine it would be dealt out twice, and applied once."""
        self._keep(LogRecord(given=LogRecord.Given(step=step, member=member)), sync=False)
        self.shard.deal.give(step, member.rank, member.epoch)

    def lose(self, step: int) -> None:
        """A step's worker is gone."""
        self._keep(LogRecord(lost=LogRecord.Lost(step=step)))
        self.shard.deal.finish(step)

    def push(self, header: Any, data: bytearray) -> bool:
        """A push whose header was checked; returns whether it was known already. It is on the disk then."""
        if self.shard.check(header):    # again: others may have pushed while its bytes came
            return True
        gradients, buffers = self.shard.decode(header, data)
        if self.shard.mode.together:
            self._keep(LogRecord(push=header), data)
            self.shard.take(header, gradients, buffers)
        else:
            with self.shard.whole():    # it is a step, and in the log only where that can be done
                self.shard.take(header, gradients, buffers)
                self._keep(LogRecord(push=header), data)
        self._checkpoint_if_due()
        return False

    def apply(self, step: Any) -> None:
        """The step that all have pushed for."""
        if self.shard.check_norm(step.sequence, step.norm):
            return
        with self.shard.whole():
            self.shard.apply(step.norm)
            self._keep(LogRecord(step=step))
        self._checkpoint_if_due()

    def keep_curriculum(self, step: int, values: str, tensors: Mapping[str, Tensor]) -> None:
        """Keeps the curriculum, on disk where there is a folder; raises Refused where it cannot be written."""
        if self._folder is not None:
            try:
                checkpoint.save(self._folder / f"{self._label}.curriculum", tensors, {"step": step, "values": values})
            except CheckpointError as error:
                raise too_much(str(error)) from error
        self.curriculum = step, values, dict(tensors)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def _checkpoint_if_due(self) -> None:
        if self._log is None or self.shard.pending:
            return
        if self.shard.version - self._saved >= self._every or self._log.size > LARGEST or self.shard.finished:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Writes a checkpoint, and begins another log; where the disk is full, the log goes on."""
        if self._log is None or self.shard.pending:
            return      # pushes of the step to come are in the log alone
        if self.shard.version == self._saved and self._log.size == 0:
            return
        try:
            self._write_checkpoint(self._number + 1)
        except (CheckpointError, OSError):
            self._saved = self.shard.version    # it is tried again later; nothing is lost meanwhile

    def _write_checkpoint(self, number: int) -> None:
        tensors, values = self.shard.state()
        private.folder(self._folder)
        self._logged(number).unlink(missing_ok=True)
        log = Log(self._logged(number))
        try:
            checkpoint.save(self._path, tensors, {**values, "log": number})
        except (CheckpointError, OSError):
            log.close()
            self._logged(number).unlink(missing_ok=True)
            raise
        if self._log is not None:
            self._log.close()
        self._log, self._number, self._saved = log, number, self.shard.version
        sync_folder(self._folder)
        self._sweep()

    def close(self) -> None:
        """Writes a last checkpoint, and lets go of the folder."""
        self.checkpoint()
        if self._log is not None:
            self._log.close()
            self._log = None
        self._closing.close()
