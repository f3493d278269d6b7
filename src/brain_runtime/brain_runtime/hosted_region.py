# SPDX-License-Identifier: Apache-2.0
"""HostedRegion: a region in the hands of a host, through its life: configured, activated, changed, saved, cleaned up.

What is done to a region is done between two of its steps; :attr:`_turn` is the lock that says so.
"""
from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np

from brain_runtime import heartbeat as beat
from brain_runtime import snapshot
from brain_runtime.region import Region
from brain_runtime.stepper import RegionError, Stepper
from brain_wire.lifecycle import Outcome
from brain_wire.parameters import ParameterError, check_parameters
from brain_wire.waking import Signal

log = logging.getLogger(__name__)

WARN_EVERY = 5.0        # s between warnings about one topic
TURN = 1.0              # s that a change of a parameter waits for the step that is being made


class HostedRegion:
    """A region and its state. A host adds what makes the steps, and what connects the ports.

    Args:
        region: not configured yet.
        name: of the node; None: the region's own.
        namespace: of the node.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
    """

    def __init__(self, region: Region, *, name: str | None, namespace: str, seed: int, state_dir: Path | None) -> None:
        self.region = region
        region.name = name or region.name
        self._seed = seed
        folder = None if state_dir is None else Path(state_dir) / namespace.strip("/").replace("/", "%")
        region.storage = folder
        self._snapshot = None if folder is None else folder / f"{region.name}.safetensors"
        self._state, self._reason = beat.UNCONFIGURED, ""
        self._restored = False
        self.stepper: Stepper | None = None
        self._ending = False                # the end was asked for
        self._over = False                  # nothing moves any more: the threads end
        self._may_move = False              # steps were made since what it moves was at rest
        self._idle = True                   # no steps are made: it is not active, or ending
        self._wake = Signal()               # of the worker
        self._turn = threading.Lock()       # who has it makes steps, or looks at the state between two of them
        self._usual_step = math.inf         # s
        self._takers: dict[str, Callable[[], None]] = {}    # by port: takes in what has arrived there
        self._ready: deque[Callable[[], None]] = deque()    # those of ports at which something has arrived
        self._cause: Exception | None = None    # of the reason
        self._failure: RegionError | None = None
        self._warned: dict[str, float] = {}

    # -- life ------------------------------------------------------------------------------------------------------

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Configures the region and restores its snapshot.

        Raises:
            ParameterError: the parameters do not fit. Whatever else the region raises.
        """
        self.region.configure(parameters)
        state, self._restored = None, False
        if self._snapshot is not None:
            state, warnings = snapshot.restore(self._snapshot, self.region)
            self._restored = state is not None
            for warning in warnings:
                log.warning(warning)
            if self._restored:
                log.info("restored the state of %s", self._snapshot)
        self.region.wanted = frozenset()
        self.stepper = Stepper(self.region, seed=self._seed, state=state)
        self._usual_step = math.inf
        self._state = beat.INACTIVE

    def activate(self) -> None:
        """Begins to make steps. Raises what the region raises."""
        self.region.activate()
        self._may_move = True
        self._state = beat.ACTIVE
        self._idle = self._ending
        self._ready.extend(self._takers.values())   # what has come before
        self._wake.set()

    def deactivate(self) -> None:
        """Makes no more steps, once what the region moves is at rest; what arrives from now on waits.

        Raises what the region raises.
        """
        self._rest()
        with self._turn:
            self._state, self._idle = beat.INACTIVE, True
            self._ready.clear()
        self.region.deactivate()

    def cleanup(self) -> None:
        """Saves the state and lets go of what was configured. Raises what the region raises."""
        self.save(wait=1.0)
        self.region.cleanup()
        self.stepper = None
        self._state = beat.UNCONFIGURED

    # -- transitions, as the lifecycle of ROS 2 asks for them --------------------------------------------------------

    def attempt(self, what: str, transition: Callable[[], None]) -> Outcome:
        """Makes a transition; what it raises becomes the reason of the error state."""
        if self._failure is not None and what == "deactivate":
            return Outcome.ERROR    # the way from a failed step into error processing
        try:
            transition()
        except Exception as error:  # whatever the region raises must not take the node's services with it
            self._reason = f"{self.region.name} failed to {what}: {type(error).__name__}: {error}"
            self._cause = error
            log.error("%s", self._reason, exc_info=not isinstance(error, ParameterError))
            return Outcome.ERROR
        self._reason = ""
        return Outcome.SUCCESS

    def recover(self) -> Outcome:
        """Error processing: back to unconfigured, where it may be tried again; to the end after a failed step."""
        if self._failure is not None:
            self._reason = str(self._failure)
        log.error("error processing: %s", self._reason)
        self._state, self._idle = beat.ERROR, True
        self._beat()
        if self._failure is not None:
            return Outcome.FAILURE
        self._unplug()
        self.stepper, self._state = None, beat.UNCONFIGURED
        return Outcome.SUCCESS

    def connect(self) -> None:
        """Configures the region and connects its ports. Raises what the region raises."""
        self.configure(self._parameters())
        self._plug()

    def disconnect(self) -> None:
        """Takes back what :meth:`connect` did. Raises what the region raises."""
        self._unplug()
        self.cleanup()

    def shut_down(self) -> None:
        """Ends from whatever state it is in. Raises what the region raises."""
        if self._state == beat.ACTIVE:
            self.deactivate()
        if self._state == beat.INACTIVE:
            self.disconnect()
        self._state = beat.FINALIZED
        self.stop()

    def apply(self, values: Mapping[str, Any]) -> None:
        """Changes parameters of the region between two steps: all of them, or none.

        Raises:
            ParameterError: one does not exist, cannot be changed now, or its value does not fit; says which.
        """
        region = self.region
        if not self._turn.acquire(timeout=TURN):
            raise ParameterError(f"{region.name} is at a step that does not end; try again")
        try:
            check_parameters(region.name, region.Parameters, values,
                             current=region.parameters if self._state == beat.ACTIVE else None)
            if self.stepper is None:
                return
            before, changed = region.parameters, []
            try:
                for name, value in values.items():
                    changed.append(name)
                    region.on_parameter(name, value)
            except Exception as error:
                for name in changed[:-1]:
                    region.on_parameter(name, getattr(before, name))
                if isinstance(error, ParameterError):
                    raise
                log.exception("%s failed to take %s", region.name, changed[-1])
                raise ParameterError(f"{region.name} failed to take {changed[-1]}: {type(error).__name__}: {error}"
                                     ) from error
        finally:
            self._turn.release()

    def save(self, wait: float) -> None:
        """Writes a snapshot of the state between two steps; skipped when a step takes longer than ``wait`` s."""
        stepper = self.stepper  # a transition in another thread may take it away
        if self._snapshot is None or stepper is None or not self._turn.acquire(timeout=wait or 0.02):
            return
        try:
            state = {name: np.array(value, dtype=np.float32) for name, value in stepper.state.items()}
        finally:
            self._turn.release()
        try:
            snapshot.write(self._snapshot, self.region, state)
        except snapshot.SnapshotError as error:
            self._warn("snapshot", str(error))

    def _warn(self, about: str, text: str) -> None:
        now = time.monotonic()
        if now - self._warned.get(about, -math.inf) >= WARN_EVERY:
            self._warned[about] = now
            log.warning(text)

    # -- hooks -----------------------------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """What the region is to be configured with."""
        raise NotImplementedError

    def _plug(self) -> None:
        """Connects the ports of the configured region."""
        raise NotImplementedError

    def _unplug(self) -> None:
        """Takes back what :meth:`_plug` did, as far as it came."""
        raise NotImplementedError

    def _rest(self) -> None:
        """Brings to rest what the region moves. Never raises."""
        raise NotImplementedError

    def stop(self) -> None:
        """Asks for the end."""
        raise NotImplementedError

    def _beat(self) -> None:
        """Tells how it is."""
        raise NotImplementedError
