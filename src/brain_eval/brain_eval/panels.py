# SPDX-License-Identifier: Apache-2.0
"""Panels that a film draws of each region: one for each picture that a region declares.

A panel is a function of the film with what it is to draw (a :class:`brain_eval.frames.Panel`) and of a moment. Regions
name these functions (``pictures`` of their class). Each has a place of its own in the frame, but for those that declare
``below``: their strip begins at ``top``.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_eval.draw import PAPER
from brain_eval.frames import CYAN, DIM, GOLD, PAINTS, PICTURE, ROSE, VIOLET, WIDE, Film, Panel, color_text
from brain_eval.moments import WINDOW, Moment
from brain_observe.introspection import ring, words
from brain_regions.azimuth import BINS, CENTERS, WIDTH, wrap
from brain_regions.language.region import ROLES
from brain_regions.pfc.control import APPROACH, AVOID, SEARCH
from brain_regions.pfc.decision import ACTIONS
from brain_regions.pfc.memory import CAP
from brain_runtime.contract.constants import control_mode
from brain_runtime.contract.sights import kind

STEPS = (18.0, 28.0, 28.0)              # of a picture's brightness and colors: noise would take most of a film's bytes
OPAQUE = 0.25                           # share of what a place of the memory can hold that is drawn opaque
ROLE_PAINTS = (GOLD, ROSE, CYAN)
GROUPS = (CYAN, VIOLET, "#6ee36e", GOLD, "#ff5050")     # of the parts of a population
FORWARD, AROUND = 0.5, 1.5              # m/s, rad/s at the ends of the scales
MODES = {mode: control_mode(mode) for mode in (SEARCH, APPROACH, AVOID)}


def picture(panel: Panel, moment: Moment) -> None:
    film = panel.film
    axes = film.axes(16, 72, *PICTURE, "Vision: what it detects")
    if moment.picture is None:
        axes.text(0.5, 0.5, "no picture yet", ha="center", color=DIM)
    else:
        axes.imshow(_without_noise(moment.picture), interpolation="nearest", aspect="auto")
    away = f", {moment.distance:.1f} m away" if math.isfinite(moment.distance) and moment.mode == APPROACH else ""
    for row, (name, told, color) in enumerate((("wants", moment.wants, GOLD), ("avoids", moment.avoids, ROSE),
                                               ("does", MODES.get(moment.mode, "stand") + away, "white"))):
        film.write(16, 278 + 21 * row, name, 10, color=DIM)
        film.write(78, 278 + 21 * row, told or "nothing", 10, color=color if told else DIM)


def memory(panel: Panel, moment: Moment) -> None:
    film = panel.film
    axes = film.axes(330, 72, 272, 272, "Memory: what is where, seen or not")
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
    _truth(axes, film.room, moment.pose)
    axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02))
    _robot(axes, 0.055)
    film.write(330, 348, "colored: evidence    outlined: where it truly is    gray: walls", 7.5, color=DIM)


def _truth(axes: Any, room: Any | None, pose: tuple[float, float, float]) -> None:
    from matplotlib.patches import Polygon

    if room is None:
        return
    w, d = (side / 2 for side in room.size)
    walls = [np.array([(-w, -d), (w, -d), (w, d), (-w, d)])]
    for points in walls + [_corners(o.footprint) for o in room.obstacles]:
        axes.add_patch(Polygon(_around(points, pose, 24), fill=False, edgecolor="#6a6a74", linewidth=0.8, zorder=1))
    for one in room.objects:
        color = words.paint(kind(one.color, one.shape)[0])
        axes.add_patch(Polygon(_around(_corners(one.footprint), pose), fill=False, edgecolor="white",
                               linewidth=1.8, zorder=3))
        axes.add_patch(Polygon(_around(_corners(one.footprint), pose), fill=False, edgecolor=color,
                               linewidth=1.0, zorder=4))
        x, y = _around(np.array([(one.x, one.y)]), pose, fine=1)[0]
        axes.text(x, y + 0.07, one.shape, fontsize=6.5, ha="center", va="bottom", zorder=5, clip_on=True)


def choice(panel: Panel, moment: Moment) -> None:
    film = panel.film
    from matplotlib.collections import PolyCollection

    axes = film.axes(640, 72, 272, 272, "Choice: where may it be?")
    axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02))
    inner, outer = 0.16, 0.82
    if moment.p is None:
        axes.text(0, 0.3, "this cortex tells of no distribution", ha="center", color=DIM)
    else:
        reach = inner + (outer - inner) * np.sqrt(moment.p)
        axes.add_collection(PolyCollection([_wedge(c, inner, r) for c, r in zip(CENTERS, reach)],
                                           facecolors=VIOLET, edgecolors=color_text(PAPER), linewidths=0.6))
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
        film.write(at, 348, text, 7.5, color=color)


def _time(film: Film, axes: Any, moment: Moment, top: float) -> None:
    axes.set(xlim=(0, max(film.moments[-1].t, 1.0)), ylim=(-0.02, top))
    axes.axvline(moment.t, color="#5a5a64", linewidth=0.8)
    axes.set_xlabel("time (s)", fontsize=7.5, labelpad=1)


def undecided(panel: Panel, moment: Moment) -> None:
    film = panel.film
    axes = film.axes(40, 400, 264, 108, "Undecided?", bare=False)
    t, h, alpha = np.array([(m.t, m.entropy / math.log(BINS), m.alpha) for m in _until(film, moment)]).T
    axes.plot(t, h, color=VIOLET, linewidth=1.4)
    axes.plot(t, alpha, color=GOLD, linewidth=1.4)
    _time(film, axes, moment, 1.05)
    axes.set_yticks([0, 0.5, 1])
    film.write(136, 383, "entropy / ln 36", 8, color=VIOLET)
    film.write(230, 383, "alpha (sure)", 8, color=GOLD)


def actions(panel: Panel, moment: Moment) -> None:
    film = panel.film
    axes = film.axes(352, 400, 250, 108, "Action", bare=False)
    told = [m for m in _until(film, moment) if m.actions]
    for k, (name, color) in enumerate(zip(ACTIONS, PAINTS)):
        if told:
            axes.plot([m.t for m in told], [m.actions[k] for m in told], color=color, linewidth=1.4)
        film.write(420 + (0, 29, 56, 98, 154)[k], 383, name, 8, color=color)
    _time(film, axes, moment, 1.05)
    axes.set_yticks([0, 0.5, 1])


def _until(film: Film, moment: Moment) -> list[Moment]:
    return [m for m in film.moments if m.t <= moment.t]


def spikes(panel: Panel, moment: Moment) -> None:
    film = panel.film
    axes = film.axes(680, 400, 130, 108, bare=False)
    film.write(640, 380, "Motor: its spikes say the velocity", 10, weight="bold")
    told = [population for population in panel.cls.populations if population.told and population.parts]
    first, ticks, names = 0.0, [], []
    for population in told[:1]:
        raster = moment.spikes.get(f"{panel.region}/{population.name}", np.zeros((0, 2)))
        for (name, rows), color in zip(population.parts.items(), GROUPS):
            inside = (raster[:, 1] >= rows.start) & (raster[:, 1] < rows.stop)
            axes.scatter(raster[inside, 0], raster[inside, 1], s=1.2, color=color, linewidths=0)
            ticks.append((rows.start + rows.stop) / 2)
            names.append(name)
            first = rows.stop
            axes.axhline(rows.stop - 0.5, color="#34343c", linewidth=0.6)
    axes.set(xlim=(-WINDOW, 0), ylim=(first, -1), yticks=ticks, yticklabels=names)
    for label, color in zip(axes.get_yticklabels(), GROUPS):
        label.set_color(color)
    axes.set_xlabel("last second (s)" if told else "this motor has no neurons", fontsize=7.5, labelpad=1)


def velocity(panel: Panel, moment: Moment) -> None:
    film = panel.film
    forward, turn = moment.velocity
    axes = film.axes(826, 400, 88, 108)
    axes.set(xlim=(-1.05, 1.05), ylim=(0, 1))
    for y, share, color, text in ((0.72, forward / FORWARD, CYAN, f"{forward:+.2f} m/s"),
                                  (0.22, -turn / AROUND, VIOLET, f"{abs(turn):.1f} rad/s "
                                   + ("left" if turn > 0.02 else "right" if turn < -0.02 else ""))):
        axes.plot((-1, 1), (y, y), color="#46464e", linewidth=5, solid_capstyle="butt")
        axes.plot((0, float(np.clip(share, -1, 1))), (y, y), color=color, linewidth=5, solid_capstyle="butt")
        axes.plot((0, 0), (y - 0.07, y + 0.07), color=DIM, linewidth=1)
        axes.text(0, y + 0.12, text, color=color, ha="center", fontsize=8.5)


def reading(panel: Panel, moment: Moment) -> None:
    film, told, top = panel.film, moment.reading, panel.top
    if told is None:
        return
    from matplotlib.colors import to_rgb

    bytes_ = told.text.encode()
    axes = film.axes(70, top + 34, WIDE - 86, 54, bare=False)
    film.write(16, top + 2, "Language: what each byte is for", 10, weight="bold")
    film.write(290, top + 3, f"read: {100 * told.share:.0f} %, from both ends at once", 8, color=DIM)
    shown = np.clip(told.evidence / max(float(told.evidence.max(initial=0.0)), 1e-6), 0.0, 1.0).T
    cells = np.empty((*shown.shape, 4))
    cells[..., :3] = np.array([to_rgb(color) for color in ROLE_PAINTS])[:, None]
    cells[..., 3] = shown
    axes.imshow(cells, aspect="auto", interpolation="nearest")
    axes.set(yticks=range(len(ROLES)), yticklabels=ROLES, xticks=[])
    for label, color in zip(axes.get_yticklabels(), ROLE_PAINTS):
        label.set_color(color)
    if not told.text.isascii() and len(film.fonts) == 1:
        axes.set_xlabel("bytes of the sentence; no Japanese font here", fontsize=7.5)
        return
    at, size = 0, min(11.0, 620.0 / max(len(bytes_), 1))
    for letter in told.text:
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
