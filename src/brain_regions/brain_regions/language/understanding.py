# SPDX-License-Identifier: Apache-2.0
"""Meaning of a sentence: a verb, the slots of the target and of what is avoided, or the reason for a refusal."""
from __future__ import annotations

import enum
from dataclasses import dataclass

from brain_runtime.interfaces import LanguageFeatures

MAX_CHARACTERS = 1000
"""Length of the longest text that is read: a longer one is refused at once, so that its length costs nothing."""


class Verb(enum.IntEnum):
    """Action that a text asks for."""

    NONE = LanguageFeatures.VERB_NONE
    GO = LanguageFeatures.VERB_GO
    FIND = LanguageFeatures.VERB_FIND
    STOP = LanguageFeatures.VERB_STOP


@dataclass(frozen=True)
class Understanding:
    """Meaning of a text: what it asks for.

    Attributes:
        verb: NONE where the text was not understood.
        color, shape: of the target, DetectedObject.COLOR_* and SHAPE_*; 0: any. Both 0 for STOP and NONE.
        avoid_color, avoid_shape: of the object to keep away from; both 0: none.
        understood: whether there is something to do.
        confidence: 0..1; less for each word that had to be skipped; 0 where the text was not understood.
        reason: empty, or for a person: what was not understood, and what would be. At most 256 bytes.
    """

    verb: Verb = Verb.NONE
    color: int = 0
    shape: int = 0
    avoid_color: int = 0
    avoid_shape: int = 0
    understood: bool = False
    confidence: float = 0.0
    reason: str = ""

    @property
    def slots(self) -> tuple[int, int, int, int, int]:
        """Verb, color and shape of the target, color and shape of what is avoided; all 0: not understood."""
        return int(self.verb), self.color, self.shape, self.avoid_color, self.avoid_shape
