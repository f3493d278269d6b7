# SPDX-License-Identifier: Apache-2.0
"""Point to point: receives, which are finished by whoever waits for them.

A send is over when Zenoh has the data; it does not wait for its receive. Messages between two ranks arrive in the
order in which they were sent, and go to the receives with their tag in the order in which those were posted.
"""
from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import torch

from brain_collectives import background
from brain_collectives.algorithms import copy, to_bytes
from brain_collectives.counting import COUNTERS
from brain_collectives.errors import CallsDiffer, TooLate
from brain_collectives.group import Group
from brain_collectives.header import Call, packed, unpacked
from brain_collectives.mailboxes import Receive
from brain_collectives.work import Done


def send(group: Group, tensor: torch.Tensor, rank: int, tag: int) -> Done:
    """Sends a tensor to a rank of the group.

    Raises:
        CollectiveError: the group has failed.
    """
    COUNTERS.called("send")
    group.send_point(rank, tag, packed(_call(tensor)), to_bytes(tensor))
    work = Done([tensor])
    work.end()
    return work


def _call(tensor: torch.Tensor) -> Call:
    return Call("send", tensor.dtype, tuple(tensor.shape))


class Receiving(Done):
    """A receive that was posted.

    Args:
        rank: of the group, from which; None: any.
        timeout: s that it may take.
    """

    def __init__(self, group: Group, tensor: torch.Tensor, rank: int | None, tag: int, timeout: float) -> None:
        super().__init__([tensor])
        COUNTERS.called("recv")
        group.check()
        self._group, self._tensor, self._timeout = group, tensor, timeout
        self._receive = Receive(None if rank is None else group.members[rank], tag)
        self._deadline = time.monotonic() + timeout
        self._finishing = threading.Lock()
        group.mailbox.post(self._receive)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """As `Done.wait`."""
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        until = time.monotonic() + seconds
        if 0 < seconds and until < self._deadline:
            # The waiting ends, the receive does not: nothing is withdrawn, nor is anybody else's waiting cut short.
            while self._receive.header is None and self._group.mailbox.failure is None and not self._ended.is_set():
                if time.monotonic() >= until:
                    raise TooLate(f"nothing was received after {seconds:g} s")
                self._receive.wait(min(until - time.monotonic(), 0.1))
        self._finish(self._deadline, self._timeout)
        return super().wait()

    def is_completed(self) -> bool:
        """Tells whether the tensor has been received, or cannot be."""
        if not self._ended.is_set() and (self._receive.header is not None or self._group.mailbox.failure is not None):
            try:
                self._finish(self._deadline, self._timeout)
            except Exception:   # noqa: B902 # it stands in the work, for whoever waits for it
                return True
        return super().is_completed()

    def source_rank(self) -> int:
        """Rank in the group from which the message came."""
        return self._group.members.index(self._receive.sender)

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of its tensor."""
        future = super().get_future()
        if not self._ended.is_set():
            background.start(self.is_over, "receive")
        return future

    def is_over(self) -> bool:
        """Waits until it is over, well or not; True."""
        try:
            self.wait()
        except Exception:   # noqa: B902 # it stands in the future
            return True
        return True

    def _finish(self, deadline: float, timeout: float) -> None:
        """Waits for the message and writes it into the tensor, once."""
        source = self._receive.source
        who = "any rank" if source is None else self._group.call_them([source])
        what = f"recv of {str(_call(self._tensor)).removeprefix('send of ')} from {who} with tag {self._receive.tag}"
        with self._finishing:
            if self._ended.is_set():
                return
            try:
                if self._receive.header is None:
                    self._group.wait_for(self._receive, what, deadline, timeout)
                self._write(what)
            except TooLate as error:
                # Withdrawn: what comes now is for the next receive.
                self.end(error)
            except BaseException as error:
                self.end(error)
                raise
            else:
                self.end()

    def _write(self, what: str) -> None:
        header, payload = self._receive.header, self._receive.payload
        assert header is not None
        sent = unpacked(header.call)
        if sent.dtype != self._tensor.dtype or len(payload) != self._tensor.numel() * self._tensor.element_size():
            raise CallsDiffer(f"{self._group.call_them([header.source])} has sent "
                              f"{str(sent).removeprefix('send of ')} where this rank calls {what}; both must have "
                              f"the same dtype and size")
        if len(payload):
            copy(self._tensor.data, torch.frombuffer(payload.to_bytes(), dtype=sent.dtype))
