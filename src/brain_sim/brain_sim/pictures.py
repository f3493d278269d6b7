# SPDX-License-Identifier: Apache-2.0
"""Drawings of a room from above: walls, obstacles, objects, the path driven, and what was asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from brain_sim import robot
from brain_sim.room import Room

Track = Sequence[Sequence[float]]
_PATH_COLORS = ("#1b6ca8", "#c0392b", "#1e8449", "#7d3c98", "#b9770e")
_PLAIN = "DejaVu Sans"
_FONTS = ("Noto Sans CJK JP", "IPAexGothic", "TakaoGothic", "VL Gothic", "Hiragino Sans", "Yu Gothic")


def _outline(item) -> np.ndarray:
    """Corners float[n, 2] of a footprint's outline in meters."""
    f = item.footprint
    if f.kind == "disk":
        a = np.linspace(0, 2 * math.pi, 40, endpoint=False)
        return np.stack([f.x + f.half_x * np.cos(a), f.y + f.half_x * np.sin(a)], axis=1)
    corners = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * (f.half_x, f.half_y)
    c, s = math.cos(f.yaw), math.sin(f.yaw)
    return corners @ np.array([[c, s], [-s, c]]) + (f.x, f.y)


def draw_room(axes, room: Room, *, marked: Sequence[str] = ()) -> None:
    """Draw the room from above into matplotlib axes, in meters; objects named in `marked` get a ring."""
    from matplotlib.patches import Circle, Polygon, Rectangle

    w, d = room.size
    axes.add_patch(Rectangle((-w / 2, -d / 2), w, d, facecolor=room.floor_rgb[0], alpha=0.35, zorder=0))
    axes.add_patch(Rectangle((-w / 2, -d / 2), w, d, fill=False, edgecolor="#333333", linewidth=4, zorder=3))
    for o in room.obstacles:
        low = o.name.startswith("low")
        axes.add_patch(Polygon(_outline(o), facecolor=o.rgb, edgecolor="black", linewidth=0.8, zorder=1,
                               alpha=0.55 if low else 1.0, linestyle=":" if low else "-"))
    for o in room.objects:
        axes.add_patch(Polygon(_outline(o), facecolor=o.rgb, edgecolor="black", linewidth=1.0, zorder=2))
        under = (o.x, o.y - o.footprint.outer_radius - 0.05)
        axes.annotate(o.shape, under, ha="center", va="top", fontsize=7, zorder=6)
        if o.name in marked:
            axes.add_patch(Circle((o.x, o.y), o.footprint.outer_radius + robot.REACH, fill=False,
                                  edgecolor="black", linestyle="--", linewidth=1.0, zorder=3))
    axes.set_xlim(-w / 2 - 0.3, w / 2 + 0.3)
    axes.set_ylim(-d / 2 - 0.3, d / 2 + 0.3)
    axes.set_aspect("equal")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")


def draw_robot(axes, x: float, y: float, yaw: float, color: str = "#222222") -> None:
    """Draw the base (m, rad) as a disk with a line to its front."""
    from matplotlib.patches import Circle

    r = robot.BASE_RADIUS
    axes.add_patch(Circle((x, y), r, facecolor="white", edgecolor=color, linewidth=1.2, zorder=5))
    axes.plot([x, x + r * math.cos(yaw)], [y, y + r * math.sin(yaw)], color=color, linewidth=1.5, zorder=5)


def save_trajectory(path: str | Path, room: Room, legs: Sequence[tuple[str, Track]], *,
                    marked: Sequence[str] = (), title: str = "", glosses: Mapping[str, str] | None = None,
                    dpi: int = 130) -> None:
    """Write a PNG of the room with the path driven.

    legs: (what was asked, [(x, y, yaw), ...] in meters and radians) one after the other; each gets its
    color. marked: names of objects to ring. glosses: English for what was asked in Japanese, written instead
    where no font has Japanese. OSError when the file cannot be written.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fonts = _installed_fonts()
    with matplotlib.rc_context({"font.family": fonts}):
        figure = Figure(figsize=(6.4, 6.9))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw_room(axes, room, marked=marked)
        for i, (asked, track) in enumerate(legs):
            points = np.asarray([p[:3] for p in track], float).reshape(-1, 3)
            if not len(points):
                continue
            color = _PATH_COLORS[i % len(_PATH_COLORS)]
            axes.plot(points[:, 0], points[:, 1], color=color, linewidth=2.0, zorder=4,
                      label=_label(i, asked, glosses or {}, len(fonts) > 1))
            if i == 0:
                draw_robot(axes, *points[0], color="#888888")
            draw_robot(axes, *points[-1], color=color)
        if legs:
            figure.legend(*axes.get_legend_handles_labels(), loc="lower center", fontsize=9, frameon=False)
        if title:
            axes.set_title(title)
        figure.tight_layout(rect=(0, 0.03 + 0.03 * len(legs), 1, 1))
        figure.savefig(path, dpi=dpi)


def _installed_fonts() -> list[str]:
    """The fonts with Japanese that are there, and matplotlib's own, which has none."""
    from matplotlib import font_manager

    have = {f.name for f in font_manager.fontManager.ttflist}
    return [f for f in _FONTS if f in have] + [_PLAIN]


def _label(number: int, asked: str, glosses: Mapping[str, str], has_japanese: bool) -> str:
    """Writes a label of what was asked, with the characters that can be written here."""
    if has_japanese or asked.isascii():
        return f"{number + 1}. {asked}"
    return f"{number + 1}. {glosses.get(asked, 'asked')} (in Japanese)"
