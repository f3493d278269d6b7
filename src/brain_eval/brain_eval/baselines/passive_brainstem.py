# SPDX-License-Identifier: Apache-2.0
"""Brainstem without its reflex: the control that shows what the reflex is worth. For the simulated robot alone."""
from __future__ import annotations

import functools
import logging
import math

from brain_regions.brainstem import Brainstem

log = logging.getLogger(__name__)


class PassiveBrainstem(Brainstem):
    """Keeps limits, staleness and the emergency stop, and does not brake for what is in the way.

    A class of its own, and no parameter, so that no robot is without a reflex by mistake: what a robot installs does
    not have it.
    """

    baselines, ablations = {}, {}

    def configure(self, parameters):
        """Takes parameters, and warns, once in a process: an evaluation makes hundreds of brains in one."""
        super().configure(parameters)
        _warn(self.name)

    def _free_path(self, inbox, way):
        return math.inf


@functools.cache
def _warn(name: str) -> None:
    log.warning("%s does not brake for obstacles: it is a control for evaluation, and must not drive a robot", name)
