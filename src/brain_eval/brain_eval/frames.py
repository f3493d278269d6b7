# SPDX-License-Identifier: Apache-2.0
"""Draws what each region believed at a moment: one frame of a film, with the pictures that the regions declare."""
from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from brain_eval.draw import CJK, INK, PAPER
from brain_eval.moments import Moment
from brain_observe.introspection import words
from brain_runtime.contract.constants import goal_state
from brain_runtime.contract.declared import named
from brain_runtime.contract.region import Region
from brain_wire import safe_text

WIDE, HIGH = 930, 548                   # px: the frame, without the strips below
PICTURE = (288, 192)                    # px, the camera's
DIM, GOLD, CYAN, ROSE, VIOLET = "#8a8a94", "#ffcc33", "#5ad1e6", "#ff6b8a", "#c58cff"
PAINTS = ("#ff5050", "#9a9aa4", "#5aa8ff", "#6ee36e", "#ffa940")    # of the actions
ASKED = {"stop": ", then to stop", "absent": " (there is none)"}


def swatches() -> list[str]:
    """Colors that a film must keep, however rare they are: of lines, and of objects at two opacities."""
    found = [*PAINTS, DIM, GOLD, CYAN, ROSE, VIOLET, "#ffffff", color_text(INK), color_text(PAPER)]
    for paint in words.PAINT.values():
        found += [color_text(tuple(round(255 * share * v + (1 - share) * dark) for v, dark in zip(paint, PAPER)))
                  for share in (1.0, 0.5)]
    return found


def gloss(episode: Any) -> str:
    """In English, what an episode's sentence asks for."""
    if episode.target is None:
        return "is no task for the robot"
    away = f", not near the {' '.join(episode.avoid)}" if episode.avoid else ""
    return f"to the {' '.join(episode.target)}{away}{ASKED.get(episode.kind, '')}"


def fonts() -> list[str]:
    """Fonts with Japanese that are there, and matplotlib's own, which has none."""
    from matplotlib import font_manager

    have = {entry.name for entry in font_manager.fontManager.ttflist}
    return [name for name in CJK if name in have] + ["DejaVu Sans"]


class Panel(NamedTuple):
    """A picture of a region that a film draws.

    Attributes:
        film: in whose frames.
        region: its name.
        cls: its class.
        top: of its strip (px), if it has one.
        draw: the function that draws it.
    """

    film: Film
    region: str
    cls: type[Region]
    top: float
    draw: Callable[[Panel, Moment], None]


class Film:
    """Draws frames of one episode.

    Args:
        episode: a ``brain_sim.suite.Episode``.
        room: a ``brain_sim.room.Room``, or None: then nothing true is drawn.
        moments: all of them, which set the scales of time.
        regions: classes of the brain's regions, by name: what they declare as pictures is drawn.
        note: what is special about the brain.

    Raises:
        ValueError: there is no moment, or a picture that a region declares is not there.
    """

    def __init__(self, episode: Any, room: Any | None, moments: Sequence[Moment], regions: Mapping[str, type[Region]],
                 note: str = "") -> None:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if not moments:
            raise ValueError("nothing was seen of the episode")
        self._episode, self._note = episode, note
        self.room, self.moments, self.fonts = room, moments, fonts()
        self._look = {"font.family": self.fonts, "font.size": 8.5, "text.color": color_text(INK), "axes.edgecolor": DIM,
                      "axes.labelcolor": DIM, "xtick.color": DIM, "ytick.color": DIM,
                      "axes.facecolor": color_text(PAPER), "axes.linewidth": 0.8, "axes.spines.top": False,
                      "axes.spines.right": False}
        self._high = HIGH
        self._panels = []
        for name, cls in regions.items():
            for picture in cls.pictures:
                if picture.below and not any(m.has(name, picture.of) for m in moments):
                    continue
                draw = named(picture.draw, f"region {name} ({cls.__name__})")
                self._panels.append(Panel(self, name, cls, self._high, draw))
                self._high += picture.below
        self._context = lambda: matplotlib.rc_context(self._look)
        with self._context():
            self._figure = Figure(figsize=(WIDE / 100, self._high / 100), dpi=100, facecolor=color_text(PAPER))
        self._canvas = FigureCanvasAgg(self._figure)

    def frame(self, moment: Moment) -> Any:
        """PIL image of a moment."""
        from PIL import Image

        with self._context():
            self._figure.clear()
            self._header(moment)
            for panel in self._panels:
                panel.draw(panel, moment)
            self._canvas.draw()
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3].copy())

    # -- where things stand ----------------------------------------------------------------------------------------

    def axes(self, left: float, top: float, width: float, height: float, title: str = "", bare: bool = True
             ) -> Any:
        """Axes at a place in px, from the top left; bare ones have no frame."""
        axes = self._figure.add_axes((left / WIDE, 1 - (top + height) / self._high, width / WIDE, height / self._high))
        if bare:
            axes.set_axis_off()
        else:
            axes.tick_params(labelsize=7.5, length=2, pad=2)
        if title:
            self.write(left, top - 20, title, size=10, weight="bold")
        return axes

    def write(self, left: float, top: float, text: str, size: float = 8.5, **more: Any) -> None:
        self._figure.text(left / WIDE, 1 - top / self._high, safe_text.line(text), fontsize=size, va="top",
                          parse_math=False, **more)

    def _header(self, moment: Moment) -> None:
        text = self._episode.sentence
        told = gloss(self._episode)
        if text.isascii() or len(self.fonts) > 1:
            self.write(16, 10, f"\u201c{text}\u201d", size=13, weight="bold", color=GOLD)
        else:
            self.write(16, 10, f"(in Japanese) {told}", size=13, weight="bold", color=GOLD)
        status = goal_state(moment.status) if moment.status >= 0 else "nothing asked yet"
        note = f"   ablated: {self._note}" if self._note else ""
        self.write(WIDE - 16, 12, f"{status}    {moment.t:4.1f} s", size=11, ha="right")
        self.write(WIDE - 16, 30, f"{self._episode.id}{note}", size=7.5, ha="right", color=DIM)
        if not text.isascii() and len(self.fonts) > 1:
            self.write(16, 32, told, color=DIM)


def color_text(rgb: tuple[int, int, int]) -> str:
    """A color as matplotlib and Pillow read it."""
    return "#%02x%02x%02x" % rgb
