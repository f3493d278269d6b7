# SPDX-License-Identifier: Apache-2.0
"""The heartbeat: what every host says of a region, ten times a second."""
from __future__ import annotations

import math
import os
import time

import numpy as np

from brain_runtime.interfaces import Heartbeat
from brain_runtime.contract.ports import Out
from brain_runtime.contract.stepper import Stepper
from brain_wire import messages
from brain_wire.messages import clip_utf8
from brain_wire.qos import STREAM

PERIOD = 0.1  # s
TYPE = "brain_interfaces/msg/Heartbeat"
PORT = Out("brain/heartbeat", TYPE, STREAM)

UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED, ERROR = (
    Heartbeat.STATE_UNCONFIGURED, Heartbeat.STATE_INACTIVE, Heartbeat.STATE_ACTIVE, Heartbeat.STATE_FINALIZED,
    Heartbeat.STATE_ERROR)
_HOSTNAME = os.uname().nodename


def new_epoch() -> int:
    """Epoch of a process that begins now: ms of the machine's clock, so that it grows from start to start.

    Where a clock was set back a later start has a smaller number. It counts all the same once the one before has been
    silent for a second (:func:`brain_runtime.contract.inbox.outlived`).
    """
    return time.time_ns() // 1_000_000


def heartbeat(name: str, host: str, state: int, *, stamp: float, now: float, stepper: Stepper | None = None,
              stepping: bool = False, critical: bool = False, restarts: int = 0, epoch: int = 0, weights: str = "",
              reason: str = "", careful: bool = False) -> Heartbeat:
    """A ``brain_interfaces/msg/Heartbeat``.

    Args:
        name: fully qualified node name.
        host: ``zenoh``, ``ros``, ``torch`` or ``local``.
        state: one of the ``STATE_*`` constants.
        stamp: time of publication (s since the epoch, or simulated).
        now: host clock that the stepper was driven with (s).
        stepper: None before the region is configured.
        stepping: a step is under way.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        epoch: of the process, see :func:`new_epoch`.
        weights: hash of the weight file (hex).
        reason: what is wrong; empty where nothing is.
        careful: the robot must move slowly.
    """
    message: Heartbeat = messages.make(
        TYPE, name=clip_utf8(name, 128), hostname=clip_utf8(_HOSTNAME, 64), host=host, pid=os.getpid(), state=state,
        critical=critical, restarts=restarts, epoch=epoch, weights=clip_utf8(weights, 64), stepping=stepping,
        step_age=math.nan, step_p50=math.nan, step_p99=math.nan, reason=clip_utf8(reason, 256), careful=careful)
    message.header.stamp = messages.time_message(stamp)
    if stepper is not None:
        statistics = stepper.statistics(now)
        ages = dict(list(stepper.input_ages(now).items())[:32])
        message.step = stepper.steps
        message.step_age = math.nan if stepper.last_step is None else now - stepper.last_step
        message.rate = statistics.rate
        message.step_p50, message.step_p99 = statistics.step_p50, statistics.step_p99
        message.spikes_per_second = statistics.spikes_per_second
        message.synops_per_second = statistics.synops_per_second
        message.inputs = [clip_utf8(topic, 64) for topic in ages]
        message.input_ages = np.asarray(list(ages.values()), dtype=np.float32)
    return message
