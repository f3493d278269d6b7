# SPDX-License-Identifier: Apache-2.0
"""Rules for a second opinion: when one is asked for, how long it is waited for, and what is told without it.

A picture is asked about when it is hard, and when the last one that was is too far away: in time, or by how the camera
has turned since. An opinion holds meanwhile for the pictures in between.

Pictures wait in line, and leave it in the order in which they came. One about which nobody was asked leaves at once,
unless one before it waits. One that was asked about waits until the answer is there or its deadline has passed. After
some deadlines in a row the helper counts as away: then nothing waits, and now and then one picture asks whether it is
back. Time is what the caller says has passed.

An opinion is what the helper has said of some pictures, not of the last one alone: what it says of the next is put
together with what it said before, moved by how the camera has moved (:func:`.opinions.together`).
"""
from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Sequence

from brain_regions import azimuth
from brain_regions.past import Pose
from brain_regions.vision import opinions
from brain_regions.vision.decode import Found

Stamp = tuple[int, int]     # s and ns of a header
LONGEST = 32                # pictures in line; with one more the oldest gives up waiting
SAVED = 4.0                 # pictures that may be asked about in a row, after none was for long
SOONEST = 1e-6              # s; times are sums of floating point numbers
TOGETHER = 2.0              # times ``carry``: opinions further apart have nothing to do with each other


class Opinion(NamedTuple):
    """Opinion of the helper on the picture with this stamp, when that was taken in (s), and the camera's pose then."""

    stamp: Stamp
    taken: float
    found: list[Found]
    pose: Pose | None = None


def doubt(found: Sequence[Found]) -> float:
    """Estimates how many of the objects that a network sees, or nearly sees, it is wrong about.

    Args:
        found: all that it decodes, whether it is told or not.
    """
    return sum(min(one.confidence, 1.0 - one.confidence) for one in found)


@dataclass
class Picture:
    """One picture in line.

    Attributes:
        stamp: of its header.
        own: what the small network tells of it.
        pose: of the camera, by odometry; None: not known.
        more: whatever its owner needs to tell it.
        taken: when it came (s).
        asked: the helper was asked about it, and it waits, or has been answered.
        answer: of the helper, about it.
        before: the newest opinion about an earlier picture, where there is one that still holds.
    """

    stamp: Stamp
    own: list[Found]
    pose: Pose | None = None
    more: Any = None
    taken: float = 0.0
    asked: bool = False
    answer: Opinion | None = None
    before: Opinion | None = None


@dataclass(frozen=True)
class Rules:
    """Rules of asking and waiting.

    Attributes:
        share: of the pictures that may be asked about, in the long run.
        rate: that may be asked about in a second, at most.
        deadline: s that an answer may take.
        carry: s for which an opinion holds for later pictures, and until it is asked again; 0: for none.
        turn: rad of the camera's turn after which it is asked again; half of each will do, too.
        misses: deadlines in a row after which the helper is away.
        probe: s between two questions whether it is back.
    """

    share: float = 0.2
    rate: float = 10.0
    deadline: float = 0.15
    carry: float = 1.0
    turn: float = 0.2
    misses: int = 3
    probe: float = 1.0


@dataclass
class Asking:
    """The line of pictures, and what is known of the helper. ``counts`` tells what has come of it so far.

    Attributes:
        half: of the width of the camera's pictures (rad), for opinions that are put together.
    """

    rules: Rules = Rules()
    now: float = 0.0
    away: bool = False
    half: float = 0.5
    counts: Counter[str] = field(default_factory=Counter)
    _line: deque[Picture] = field(default_factory=deque)
    _missed: int = 0
    _allowed: float = 1.0
    _last: Picture | None = None    # that was asked about
    _probe: tuple[Stamp, float] | None = None
    _opinion: Opinion | None = None

    @property
    def waiting(self) -> int:
        """Pictures in line."""
        return len(self._line)

    def take(self, picture: Picture, hard: bool) -> bool:
        """Takes in a picture; whether the helper is to be asked about it.

        Args:
            picture: the next.
            hard: the small network is unsure of it.
        """
        self.counts["pictures"] += 1
        self._allowed = min(self._allowed + self.rules.share, SAVED)
        picture.taken = self.now
        asks = hard and self._may_ask(picture)
        self.counts["hard"] += hard
        if asks:
            self.counts["asked"] += 1
            self._allowed -= 1.0
            self._last = picture
            if self.away:
                self._probe = picture.stamp, self.now
            picture.asked = not self.away
        self._line.append(picture)
        return asks

    def _may_ask(self, picture: Picture) -> bool:
        rules, last = self.rules, self._last
        if not rules.share or self._allowed < 1.0 - SOONEST:
            return False
        if last is None:
            return True
        ago = self.now - last.taken + SOONEST
        if self.away:
            return ago >= rules.probe
        lost = last.answer is None and not last.asked
        if ago < 1.0 / rules.rate or lost or not rules.carry or picture.pose is None or last.pose is None:
            return ago >= 1.0 / rules.rate
        return ago / rules.carry + abs(azimuth.wrap(picture.pose[2] - last.pose[2])) / rules.turn >= 1.0

    def hear(self, stamp: Stamp, found: Sequence[Found] | None) -> None:
        """Takes in an answer about the picture with a stamp; None: one that cannot be used."""
        picture = next((one for one in self._line if one.asked and one.stamp == stamp and one.answer is None), None)
        probed = self._probe is not None and self._probe[0] == stamp
        if found is None:
            self.counts["broken"] += 1      # whoever asked waits on: a sound one may follow
        elif picture is not None and self.now - picture.taken <= self.rules.deadline + SOONEST:
            picture.answer = self._believed(Opinion(stamp, picture.taken, list(found), picture.pose))
        elif probed and self._probe is not None and self.now - self._probe[1] <= self.rules.deadline + SOONEST:
            asked = self._last if self._last is not None and self._last.stamp == stamp else None
            opinion = self._believed(Opinion(stamp, self._probe[1], list(found), asked and asked.pose))
            self.away, self._probe = False, None
            if asked is not None:
                asked.answer = opinion
        else:
            self.counts["late"] += 1

    def _believed(self, opinion: Opinion) -> Opinion:
        self.counts["answered"] += 1
        self._missed = 0
        before = self._opinion
        if before is not None and opinion.taken < before.taken:
            return opinion
        if (before is not None and before.pose is not None and opinion.pose is not None
                and opinion.taken - before.taken <= TOGETHER * self.rules.carry):
            opinion = opinion._replace(found=opinions.together(before.found, opinion.found, before.pose, opinion.pose,
                                                               self.half))
        self._opinion = opinion
        return opinion

    def leave(self) -> list[Picture]:
        """Pictures that are to be told now, in the order in which they came; each is told once."""
        found = []
        while self._line:
            first = self._line[0]
            if first.asked and first.answer is None and not self.away:
                if self.now - first.taken < self.rules.deadline - SOONEST and len(self._line) <= LONGEST:
                    break
                self._miss()
            self._line.popleft()
            first.asked = first.answer is not None
            opinion = self._opinion
            if (first.answer is None and opinion is not None and self.rules.carry
                    and 0.0 <= first.taken - opinion.taken <= self.rules.carry + SOONEST):
                first.before = opinion
            found.append(first)
        return found

    def _miss(self) -> None:
        self.counts["missed"] += 1
        self._missed += 1
        if self._missed >= self.rules.misses:
            self.away = True
            self.counts["away"] += 1
