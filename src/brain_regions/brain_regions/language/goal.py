# SPDX-License-Identifier: Apache-2.0
"""Memory of the newest sentence, and rules for when a region may speak: shared by all regions of language."""
from __future__ import annotations

import hashlib
import math
from typing import Any, Callable, Mapping

import numpy as np

from brain_regions.language.all_words import lexicon
from brain_regions.language.understanding import Understanding, Verb
from brain_runtime import FEATURE, LATCHED, SILENCE, In, Out, Region, clip_utf8

TEXT = 256              # bytes of the sentence and of the reason that are kept and published
LARGEST = 2 ** 24       # goal ids live in float32 arrays, which count exactly up to here
AGAIN = 0.2             # s within which the same sentence is the same publication, which came by two ways
WAIT = 0.6              # s that a restored region listens for a newer goal before it speaks
(ID, VERB, COLOR, SHAPE, AVOID_COLOR, AVOID_SHAPE, UNDERSTOOD, CONFIDENCE) = range(8)    # of state "goal"


class Listener(Region):
    """Hears sentences and publishes what the newest asks for.

    Each sentence gets the next goal id; the same one twice within :data:`AGAIN` s is one. A sentence that comes again
    only because it is latched, right after this region was restored, keeps its id. A restored region first listens to
    ``pfc/control``: if a newer goal than the snapshot's is followed there, what the snapshot knows is past, and it
    stays silent until the next sentence. ``SILENCE`` says nothing, and changes nothing.
    """

    text = In("goal/text", "std_msgs/msg/String", LATCHED.with_depth(4), trigger=True, every=True, device=True)
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE)
    features = Out("lang/features", "brain_interfaces/msg/LanguageFeatures", FEATURE)

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._restored = False      # until the first sentence after a restore
        self._waited = 0.0
        self._unheard: str | None = None    # a sentence that waits for the end of WAIT
        self._newest, self._since = "", math.inf    # the sentence that came last, and s since then

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Builds the lexicon: 0.3 s here, and much more on a loaded machine, which the first sentence would wait."""
        super().configure(parameters)
        lexicon()

    def initial_state(self):
        return {"goal": np.zeros(8, np.float32), "text": np.zeros(TEXT, np.float32),
                "reason": np.zeros(TEXT, np.float32), "digest": np.zeros(4, np.float32)}

    def restore(self, state: Mapping[str, np.ndarray]) -> dict[str, Any]:
        self._restored, self._waited = True, 0.0
        return super().restore(state)

    def _listen(self, inbox, dt: float) -> tuple[int, bool]:
        """Takes in what was said; returns the goal that is followed, and whether there is more to wait for."""
        control = inbox.get("control")
        # of those who said something; who says nothing any more may be latched too
        self._since += dt
        for received in inbox.each("text"):
            text = received.message.data
            if received.new and text != SILENCE and not (text == self._newest and self._since < AGAIN):
                self._unheard = self._newest = text
                self._since = 0.0
        if self._restored and control is None and self._waited < WAIT:
            self._waited += dt
            return 0, True
        return 0 if control is None else int(control.goal_id), False


def remember(number: int, text: np.ndarray, digest: np.ndarray, meant: Understanding) -> dict[str, np.ndarray]:
    """State of the answer to a sentence, of which ``text`` are the :func:`codes`."""
    goal = np.array([number, Verb(meant.verb), meant.color, meant.shape, meant.avoid_color, meant.avoid_shape,
                     meant.understood, meant.confidence], np.float32)
    return {"goal": goal, "text": text, "reason": codes(meant.reason), "digest": digest}


def features_of(state: Mapping[str, np.ndarray], make: Callable[..., Any], embedding: Any = ()) -> Any:
    """The message of the answer that a state holds."""
    goal = state["goal"]
    number, verb, color, shape, avoid_color, avoid_shape = (int(v) for v in goal[:UNDERSTOOD])
    return make(goal_id=number, text=decoded(state["text"]), understood=bool(goal[UNDERSTOOD]), verb=verb,
                target_color=color, target_shape=shape, avoid_color=avoid_color, avoid_shape=avoid_shape,
                confidence=float(goal[CONFIDENCE]), reason=decoded(state["reason"]),
                embedding=np.asarray(embedding, np.float32))


def next_number(state: Mapping[str, np.ndarray], followed: int) -> int:
    """The id of the next goal."""
    return max(int(state["goal"][ID]), followed) % LARGEST + 1


def codes(text: str) -> np.ndarray:
    """UTF-8 of the start of a text, as float32[256], filled up with zeros."""
    printable = text[:TEXT].replace("\0", " ").encode("utf-8", "replace").decode()
    data = clip_utf8(printable, TEXT).encode()
    found = np.zeros(TEXT, np.float32)
    found[:len(data)] = list(data)
    return found


def decoded(found: np.ndarray) -> str:
    """The text of :func:`codes`."""
    return found[found > 0].astype(np.uint8).tobytes().decode("utf-8", "replace")


def digest_of(text: str) -> np.ndarray:
    """Tells whole sentences apart, as four numbers that float32 holds exactly."""
    data = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.frombuffer(data, np.uint16).astype(np.float32)
