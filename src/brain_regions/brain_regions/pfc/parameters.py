# SPDX-License-Identifier: Apache-2.0
"""Parameters of the prefrontal cortex: those that every one has, and those of the one made of neurons."""
from __future__ import annotations

from dataclasses import dataclass

from brain_regions.body import Body
from brain_regions.lesions import LesionParameters
from brain_regions.pfc import feedback, memory
from brain_runtime import parameter

SEARCH_TIME, SEARCH_SPEED = 300.0, 0.5      # s that a search takes at most for a robot of that top speed (m/s)
LEAST_SPEED = 0.02                          # m/s; a slower one is as patient


@dataclass(frozen=True)
class CortexParameters(Body):
    """Patience, and what vision tells."""

    patience: float = parameter(0.0, "time after which a search ends though not all was looked at; 0: 300 s at a "
                                "max_linear of 0.5 m/s, and longer for a slower robot", unit="s", low=0.0, high=3600.0,
                                live=False)
    max_linear: float = parameter(0.5, "the robot's top speed; patience follows from it", unit="m/s", low=0.0, high=2.0,
                                  live=False)
    fade: float = parameter(0.6, "time constant of forgetting an object that should be in view and is not", unit="s",
                            low=0.05, high=60.0)
    view_timeout: float = parameter(0.6, "age at which vision counts as missing", unit="s", low=0.1, high=5.0)
    late: float = parameter(0.3, "age of a picture from which on vision is late, and nothing is given up", unit="s",
                            low=0.1, high=5.0)
    look: float = parameter(1.0, "time that is taken to look at what was reached", unit="s", low=0.0, high=10.0)
    turn_worth: float = parameter(2.2, "unseen floor (bins of place/view) that is worth a turn on the spot", low=0.1,
                                  high=36.0)

    @property
    def search_time(self) -> float:
        """Time after which a target counts as not to be found (s)."""
        return self.patience or SEARCH_TIME * SEARCH_SPEED / max(self.max_linear, LEAST_SPEED)


@dataclass(frozen=True)
class PrefrontalCortexParameters(LesionParameters, CortexParameters):
    """Evidence, feedback, and what is switched off to see what it is good for."""

    evidence: float = parameter(1.2, "looks (at full confidence, from near) after which a target is approached",
                                low=0.1, high=10.0, live=False)
    forget: float = parameter(memory.FORGET, "time constant with which what is out of view is forgotten", unit="s",
                              low=0.05, high=36000.0, live=False)
    qpfc: str = parameter("on", "Q-PFC feedback: on, off, constant, linear or shuffled", choices=feedback.MODES)
    qpfc_alpha: float = parameter(1.0, "alpha under constant feedback, tuned on the split val", low=0.0, high=1.0)
    integrate: bool = parameter(True, "add up evidence over looks; without, the newest look at a place decides")
    silent: bool = parameter(False, "suppress all spikes, to measure what they contribute", live=False)
