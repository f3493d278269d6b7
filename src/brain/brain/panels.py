# SPDX-License-Identifier: Apache-2.0
"""Draws what each region believed at a moment: one frame of a film, a panel for each region."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from brain.draw import CJK, INK, PAPER
from brain.moments import ROLES, WINDOW, Moment, Reading
from brain_regions.azimuth import BINS, CENTERS, WIDTH, wrap
from brain_regions.motor import network
from brain_regions.pfc.control import APPROACH, AVOID, SEARCH
from brain_regions.pfc.decision import ACTIONS
from brain_regions.pfc.memory import CAP
from brain_regions.window import ring, words
from brain_runtime.constants import goal_state
from brain_runtime.sights import COLORS
from brain_wire import shown

WIDE, HIGH, SPOKEN = 930, 548, 112      # px: the frame, and what language adds to its height
PICTURE = (288, 192)                    # px, the camera's
STEPS = (18.0, 28.0, 28.0)              # of its brightness and colors: noise would take most of a film's bytes
OPAQUE = 0.25                           # share of what a place of the memory can hold that is drawn opaque
DIM, GOLD, CYAN, ROSE, VIOLET = "#8a8a94", "#ffcc33", "#5ad1e6", "#ff6b8a", "#c58cff"
PAINTS = ("#ff5050", "#9a9aa4", "#5aa8ff", "#6ee36e", "#ffa940")    # of the actions
ROLE_PAINTS = (GOLD, ROSE, CYAN)
ASKED = {"stop": ", then to stop", "absent": " (there is none)"}
GROUPS = (("speed", network.LINEAR, CYAN), ("turn", network.ANGULAR, VIOLET), ("moving", network.STATES[0], "#6ee36e"),
          ("arrived", network.STATES[1], GOLD), ("blocked", network.STATES[2], "#ff5050"))
FORWARD, AROUND = 0.5, 1.5              # m/s, rad/s at the ends of the scales
MODES = {SEARCH: "search", APPROACH: "approach", AVOID: "avoid"}


def swatches() -> list[str]:
    """Colors that a film must keep, however rare they are: of lines, and of objects at two opacities."""
    found = [*PAINTS, DIM, GOLD, CYAN, ROSE, VIOLET, "#ffffff", _hex(INK), _hex(PAPER)]
    for paint in words.PAINT[1:]:
        found += [_hex(tuple(round(255 * share * v + (1 - share) * dark) for v, dark in zip(paint, PAPER)))
                  for share in (1.0, 0.5)]
    return found


def gloss(episode: Any) -> str:
    """In English, what an episode's sentence asks for."""
    if episode.target is None:
        return "asks for nothing that can be done"
    away = f", not near the {' '.join(episode.avoid)}" if episode.avoid else ""
    return f"to the {' '.join(episode.target)}{away}{ASKED.get(episode.kind, '')}"


def fonts() -> list[str]:
    """Fonts with Japanese that are there, and matplotlib's own, which has none."""
    from matplotlib import font_manager

    have = {entry.name for entry in font_manager.fontManager.ttflist}
    return [name for name in CJK if name in have] + ["DejaVu Sans"]


class Film:
    """Draws frames of one episode.

    Args:
        episode: a ``brain_sim.suite.Episode``.
        room: a ``brain_sim.room.Room``, or None: then nothing true is drawn.
        moments: all of them, which set the scales of time.
        note: what is special about the brain.

    Raises:
        ValueError: there is no moment.
    """

    def __init__(self, episode: Any, room: Any | None, moments: Sequence[Moment], note: str = "") -> None:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if not moments:
            raise ValueError("nothing was seen of the episode")
        self._episode, self._room, self._moments, self._note = episode, room, moments, note
        self._fonts = fonts()
        self._look = {"font.family": self._fonts, "font.size": 8.5, "text.color": _hex(INK), "axes.edgecolor": DIM,
                      "axes.labelcolor": DIM, "xtick.color": DIM, "ytick.color": DIM, "axes.facecolor": _hex(PAPER),
                      "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False}
        self._high = HIGH + (SPOKEN if any(m.reading for m in moments) else 0)
        self._context = lambda: matplotlib.rc_context(self._look)
        with self._context():
            self._figure = Figure(figsize=(WIDE / 100, self._high / 100), dpi=100, facecolor=_hex(PAPER))
        self._canvas = FigureCanvasAgg(self._figure)

    def frame(self, moment: Moment) -> Any:
        """PIL image of a moment."""
        from PIL import Image

        with self._context():
            self._figure.clear()
            self._header(moment)
            self._picture(moment)
            self._memory(moment)
            self._choice(moment)
            self._undecided(moment)
            self._actions(moment)
            self._spikes(moment)
            self._velocity(moment)
            if moment.reading is not None:
                self._reading(moment.reading)
            self._canvas.draw()
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3].copy())

    # -- where things stand ----------------------------------------------------------------------------------------

    def _axes(self, left: float, top: float, width: float, height: float, title: str = "", bare: bool = True) -> Any:
        """Axes at a place in px, from the top left; bare ones have no frame."""
        axes = self._figure.add_axes((left / WIDE, 1 - (top + height) / self._high, width / WIDE, height / self._high))
        if bare:
            axes.set_axis_off()
        else:
            axes.tick_params(labelsize=7.5, length=2, pad=2)
        if title:
            self._write(left, top - 20, title, size=10, weight="bold")
        return axes

    def _write(self, left: float, top: float, text: str, size: float = 8.5, **more: Any) -> None:
        self._figure.text(left / WIDE, 1 - top / self._high, shown.line(text), fontsize=size, va="top",
                          parse_math=False, **more)

    # -- panels ----------------------------------------------------------------------------------------------------

    def _header(self, moment: Moment) -> None:
        text = self._episode.sentence
        told = gloss(self._episode)
        if text.isascii() or len(self._fonts) > 1:
            self._write(16, 10, f"\u201c{text}\u201d", size=13, weight="bold", color=GOLD)
        else:
            self._write(16, 10, f"(in Japanese) {told}", size=13, weight="bold", color=GOLD)
        status = goal_state(moment.status) if moment.status >= 0 else "nothing asked yet"
        note = f"   ablated: {self._note}" if self._note else ""
        self._write(WIDE - 16, 12, f"{status}    {moment.t:4.1f} s", size=11, ha="right")
        self._write(WIDE - 16, 30, f"{self._episode.id}{note}", size=7.5, ha="right", color=DIM)
        if not text.isascii() and len(self._fonts) > 1:
            self._write(16, 32, told, color=DIM)

    def _picture(self, moment: Moment) -> None:
        axes = self._axes(16, 72, *PICTURE, "Vision: what it detects")
        if moment.picture is None:
            axes.text(0.5, 0.5, "no picture yet", ha="center", color=DIM)
        else:
            axes.imshow(_without_noise(moment.picture), interpolation="nearest", aspect="auto")
        away = f", {moment.distance:.1f} m away" if math.isfinite(moment.distance) and moment.mode == APPROACH else ""
        for row, (name, told, color) in enumerate((("wants", moment.wants, GOLD), ("avoids", moment.avoids, ROSE),
                                                   ("does", MODES.get(moment.mode, "stand") + away, "white"))):
            self._write(16, 278 + 21 * row, name, 10, color=DIM)
            self._write(78, 278 + 21 * row, told or "nothing", 10, color=color if told else DIM)

    def _memory(self, moment: Moment) -> None:
        axes = self._axes(330, 72, 272, 272, "Memory: what is where, seen or not")
        axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02))
        angles = np.linspace(0, 2 * math.pi, 73)
        for distance in ring.RIMS:
            reach = ring.spot(0.0, distance)[1]
            axes.plot(reach * np.cos(angles), reach * np.sin(angles), color="#46464e", linewidth=0.7)
            axes.text(0.01, -reach, f"{distance:g} m", color=DIM, fontsize=7, va="bottom")
        axes.plot(np.cos(angles), np.sin(angles), color="#46464e", linewidth=0.7)
        if moment.evidence is None:
            axes.text(0, 0.3, "this cortex has no sheet of neurons", ha="center", color=DIM)
        else:
            cells = ring.disk(ring.colored(moment.evidence, OPAQUE * CAP), 272, moment.turned)
            axes.imshow(cells, extent=(-1, 1, -1, 1), interpolation="nearest", zorder=2)
        self._truth(axes, moment.pose)
        axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02))
        _robot(axes, 0.055)
        self._write(330, 348, "colored: evidence    outlined: where it truly is    gray: walls", 7.5, color=DIM)

    def _truth(self, axes: Any, pose: tuple[float, float, float]) -> None:
        from matplotlib.patches import Polygon

        if self._room is None:
            return
        w, d = (side / 2 for side in self._room.size)
        walls = [np.array([(-w, -d), (w, -d), (w, d), (-w, d)])]
        for points in walls + [_corners(o.footprint) for o in self._room.obstacles]:
            axes.add_patch(Polygon(_around(points, pose, 24), fill=False, edgecolor="#6a6a74", linewidth=0.8, zorder=1))
        for one in self._room.objects:
            color = words.paint(COLORS.index(one.color))
            axes.add_patch(Polygon(_around(_corners(one.footprint), pose), fill=False, edgecolor="white",
                                   linewidth=1.8, zorder=3))
            axes.add_patch(Polygon(_around(_corners(one.footprint), pose), fill=False, edgecolor=color,
                                   linewidth=1.0, zorder=4))
            x, y = _around(np.array([(one.x, one.y)]), pose, fine=1)[0]
            axes.text(x, y + 0.07, one.shape, fontsize=6.5, ha="center", va="bottom", zorder=5, clip_on=True)

    def _choice(self, moment: Moment) -> None:
        from matplotlib.collections import PolyCollection

        axes = self._axes(640, 72, 272, 272, "Choice: where may it be?")
        axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02))
        inner, outer = 0.16, 0.82
        if moment.p is None:
            axes.text(0, 0.3, "this cortex tells of no distribution", ha="center", color=DIM)
        else:
            reach = inner + (outer - inner) * np.sqrt(moment.p)
            axes.add_collection(PolyCollection([_wedge(c, inner, r) for c, r in zip(CENTERS, reach)],
                                               facecolors=VIOLET, edgecolors=_hex(PAPER), linewidths=0.6))
        angles = np.linspace(0, 2 * math.pi, 73)
        axes.plot(outer * np.cos(angles), outer * np.sin(angles), color="#46464e", linewidth=0.7)
        if moment.commitment is not None:
            shares = np.clip(moment.commitment, 0.0, 1.0)
            faces = [(*_rgb(GOLD), float(s)) for s in shares]
            axes.add_collection(PolyCollection([_wedge(c, 0.87, 0.98) for c in CENTERS], facecolors=faces,
                                               edgecolors="#46464e", linewidths=0.5))
        if math.isfinite(moment.heading) and moment.mode in MODES:
            x, y = -math.sin(moment.heading), math.cos(moment.heading)
            axes.annotate("", (0.80 * x, 0.80 * y), (0.0, 0.0), arrowprops={
                "arrowstyle": "-|>", "color": "white", "linewidth": 1.6, "shrinkA": 4, "shrinkB": 0})
        _robot(axes, 0.055)
        for at, text, color in ((640, "bars: choice (\u221ap)", VIOLET), (746, "rim: commitment", GOLD),
                                (846, "arrow: heading", "white")):
            self._write(at, 348, text, 7.5, color=color)

    def _time(self, axes: Any, moment: Moment, top: float) -> None:
        axes.set(xlim=(0, max(self._moments[-1].t, 1.0)), ylim=(-0.02, top))
        axes.axvline(moment.t, color="#5a5a64", linewidth=0.8)
        axes.set_xlabel("time (s)", fontsize=7.5, labelpad=1)

    def _undecided(self, moment: Moment) -> None:
        axes = self._axes(40, 400, 264, 108, "Undecided?", bare=False)
        t, h, alpha = np.array([(m.t, m.entropy / math.log(BINS), m.alpha) for m in self._until(moment)]).T
        axes.plot(t, h, color=VIOLET, linewidth=1.4)
        axes.plot(t, alpha, color=GOLD, linewidth=1.4)
        self._time(axes, moment, 1.05)
        axes.set_yticks([0, 0.5, 1])
        self._write(136, 383, "entropy / ln 36", 8, color=VIOLET)
        self._write(230, 383, "alpha (sure)", 8, color=GOLD)

    def _actions(self, moment: Moment) -> None:
        axes = self._axes(352, 400, 250, 108, "Action", bare=False)
        told = [m for m in self._until(moment) if m.actions]
        for k, (name, color) in enumerate(zip(ACTIONS, PAINTS)):
            if told:
                axes.plot([m.t for m in told], [m.actions[k] for m in told], color=color, linewidth=1.4)
            self._write(420 + (0, 29, 56, 98, 154)[k], 383, name, 8, color=color)
        self._time(axes, moment, 1.05)
        axes.set_yticks([0, 0.5, 1])

    def _until(self, moment: Moment) -> list[Moment]:
        return [m for m in self._moments if m.t <= moment.t]

    def _spikes(self, moment: Moment) -> None:
        axes = self._axes(680, 400, 130, 108, bare=False)
        self._write(640, 380, "Motor: its spikes say the velocity", 10, weight="bold")
        first = 0.0
        ticks = []
        for name, rows, color in GROUPS:
            inside = (moment.spikes[:, 1] >= rows.start) & (moment.spikes[:, 1] < rows.stop)
            axes.scatter(moment.spikes[inside, 0], moment.spikes[inside, 1], s=1.2, color=color, linewidths=0)
            ticks.append((rows.start + rows.stop) / 2)
            first = rows.stop
            axes.axhline(rows.stop - 0.5, color="#34343c", linewidth=0.6)
        axes.set(xlim=(-WINDOW, 0), ylim=(first, -1), yticks=ticks, yticklabels=[name for name, _, _ in GROUPS])
        for label, (_, _, color) in zip(axes.get_yticklabels(), GROUPS):
            label.set_color(color)
        axes.set_xlabel("last second (s)", fontsize=7.5, labelpad=1)

    def _velocity(self, moment: Moment) -> None:
        forward, turn = moment.velocity
        axes = self._axes(826, 400, 88, 108)
        axes.set(xlim=(-1.05, 1.05), ylim=(0, 1))
        for y, share, color, text in ((0.72, forward / FORWARD, CYAN, f"{forward:+.2f} m/s"),
                                      (0.22, -turn / AROUND, VIOLET, f"{abs(turn):.1f} rad/s "
                                       + ("left" if turn > 0.02 else "right" if turn < -0.02 else ""))):
            axes.plot((-1, 1), (y, y), color="#46464e", linewidth=5, solid_capstyle="butt")
            axes.plot((0, float(np.clip(share, -1, 1))), (y, y), color=color, linewidth=5, solid_capstyle="butt")
            axes.plot((0, 0), (y - 0.07, y + 0.07), color=DIM, linewidth=1)
            axes.text(0, y + 0.12, text, color=color, ha="center", fontsize=8.5)

    def _reading(self, reading: Reading) -> None:
        from matplotlib.colors import to_rgb

        bytes_ = reading.text.encode()
        axes = self._axes(70, HIGH + 34, WIDE - 86, 54, bare=False)
        self._write(16, HIGH + 2, "Language: what each byte is for", 10, weight="bold")
        self._write(290, HIGH + 3, f"read: {100 * reading.share:.0f} %, from both ends at once", 8, color=DIM)
        shown = np.clip(reading.evidence / max(float(reading.evidence.max(initial=0.0)), 1e-6), 0.0, 1.0).T
        cells = np.empty((*shown.shape, 4))
        cells[..., :3] = np.array([to_rgb(color) for color in ROLE_PAINTS])[:, None]
        cells[..., 3] = shown
        axes.imshow(cells, aspect="auto", interpolation="nearest")
        axes.set(yticks=range(len(ROLES)), yticklabels=ROLES, xticks=[])
        for label, color in zip(axes.get_yticklabels(), ROLE_PAINTS):
            label.set_color(color)
        if not reading.text.isascii() and len(self._fonts) == 1:
            axes.set_xlabel("bytes of the sentence; no Japanese font here", fontsize=7.5)
            return
        at, size = 0, min(11.0, 620.0 / max(len(bytes_), 1))
        for letter in reading.text:
            taken = len(letter.encode())
            axes.text(at + (taken - 1) / 2, 2.6, letter, ha="center", va="top", fontsize=max(size * (1 + taken) / 2, 5))
            at += taken


def _without_noise(picture: np.ndarray) -> np.ndarray:
    """A picture uint8[H, W, 3] with few shades; what is gray stays gray."""
    from PIL import Image

    shades = np.asarray(Image.fromarray(picture).convert("YCbCr"), np.float32) - 128.0
    coarse = np.clip(np.rint(shades / STEPS) * STEPS + 128.0, 0, 255).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse, "YCbCr").convert("RGB"))


def _around(points: np.ndarray, pose: tuple[float, float, float], fine: int = 8) -> np.ndarray:
    """An outline in the room (m) as it lies round the robot in the picture of the memory, with more corners."""
    whole = np.concatenate([points, points[:1]])
    if fine > 1:
        steps = np.linspace(0, 1, fine, endpoint=False)[:, None]
        whole = np.concatenate([a + steps * (b - a) for a, b in zip(whole, whole[1:])])
    else:
        whole = points
    x, y, yaw = pose
    bearings = wrap(np.arctan2(whole[:, 1] - y, whole[:, 0] - x) - yaw)
    return np.array([ring.spot(float(b), float(d))
                     for b, d in zip(bearings, np.hypot(whole[:, 0] - x, whole[:, 1] - y))])


def _corners(footprint: Any) -> np.ndarray:
    f = footprint
    if f.kind == "disk":
        a = np.linspace(0, 2 * math.pi, 16, endpoint=False)
        return np.stack([f.x + f.half_x * np.cos(a), f.y + f.half_x * np.sin(a)], 1)
    c, s = math.cos(f.yaw), math.sin(f.yaw)
    corners = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * (f.half_x, f.half_y)
    return corners @ np.array([[c, s], [-s, c]]) + (f.x, f.y)


def _wedge(center: float, inner: float, outer: float) -> np.ndarray:
    angles = center + np.linspace(-0.5, 0.5, 5) * WIDTH
    edge = np.stack([-np.sin(angles), np.cos(angles)], 1)
    return np.concatenate([inner * edge, outer * edge[::-1]])


def _robot(axes: Any, size: float) -> None:
    axes.fill([0, -0.7 * size, 0.7 * size], [1.2 * size, -0.8 * size, -0.8 * size], color="white", zorder=6)


def _rgb(color: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _hex(rgb: tuple[int, int, int]) -> str:
    return "#%02x%02x%02x" % rgb
