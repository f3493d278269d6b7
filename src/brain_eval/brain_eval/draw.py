# SPDX-License-Identifier: Apache-2.0
"""Draws a recorded run: the path in the room, the raster of spikes, and the moving picture of both with the eye's."""
from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from brain_observe.record import Recorder, Spikes
from brain_wire import safe_text

PANEL = (240, 160)      # px, each of the three panels of the moving picture
CAPTION = 26            # px below them
FRAMES = 130            # of the moving picture
FRAME_TIME = 0.1        # s that one is shown
LAST = 1.2              # s that the last one is shown
WINDOW = 1.0            # s of spikes beside a picture
LARGEST = 5_000_000     # bytes of the moving picture
CJK = ("Noto Sans CJK JP", "IPAexGothic", "TakaoGothic", "VL Gothic", "Hiragino Sans", "Yu Gothic", "Noto Sans JP")
COLORS = ((90, 190, 255), (255, 180, 60), (120, 255, 120), (255, 110, 170), (190, 140, 255), (250, 250, 90))
INK, PAPER = (235, 235, 235), (24, 24, 28)


@dataclass(frozen=True)
class Leg:
    """One sentence of a run: what was said, in English what it means, and from when to when (s)."""

    text: str
    gloss: str
    begin: float
    end: float
    outcome: str


def draw_all(folder: Path, recorder: Recorder, legs: Sequence[Leg], targets: Sequence[str]) -> list[str]:
    """Writes ``trajectory.png``, ``spikes.png`` and ``demo.gif`` into a folder.

    Args:
        targets: names of the objects that were asked for.

    Returns:
        What could not be drawn, and why.
    """
    problems = []
    if recorder.room is None or len(recorder.path) < 2:
        return ["no pictures: the world was not heard (sim/world, sim/ground_truth)"]
    from brain_sim.room import Room

    room = Room.from_json(_json(recorder.room))
    for name, draw in (("trajectory.png", lambda p: trajectory(p, room, recorder, legs, targets)),
                       ("spikes.png", lambda p: spikes(p, recorder, legs)),
                       ("demo.gif", lambda p: moving_picture(p, room, recorder, legs))):
        try:
            draw(folder / name)
        except (OSError, ValueError, RuntimeError) as error:
            problems.append(f"{name}: {error}")
    return problems


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def trajectory(path: Path, room: Any, recorder: Recorder, legs: Sequence[Leg], targets: Sequence[str]) -> None:
    """The room from above, with the path that was driven for each sentence."""
    from brain_sim.pictures import save_trajectory

    tracks = [(leg.text, [p[1:] for p in recorder.path if leg.begin <= p[0] <= leg.end]) for leg in legs]
    save_trajectory(path, room, tracks, marked=targets, glosses={leg.text: leg.gloss for leg in legs},
                    title=f"room {room.split} {room.seed}")


def populations(recorder: Recorder) -> list[tuple[str, Spikes, np.ndarray, np.ndarray]]:
    """Name, record, times (s) and rows of each population's spikes in the order of time.

    The largest comes first, which is the order of a network that narrows.
    """
    found = []
    for name, kept in sorted(recorder.spikes.items(), key=lambda item: (-item[1].size, item[0])):
        times = np.concatenate(kept.times) if kept.times else np.zeros(0, np.float32)
        rows = np.concatenate(kept.chosen) if kept.chosen else np.zeros(0, np.int16)
        order = np.argsort(times, kind="stable")
        found.append((name, kept, times[order], rows[order]))
    return found


def spikes(path: Path, recorder: Recorder, legs: Sequence[Leg]) -> None:
    """Raster of all populations over time, one above the other, with their rates below and what was said when.

    Raises:
        ValueError: no spikes were recorded.
    """
    found = populations(recorder)
    if not any(len(times) for _, _, times, _ in found):
        raise ValueError("no spikes were heard on brain/spikes")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.2 + 1.1 * len(found)))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(found) + 1, 1, sharex=True, height_ratios=[1.0] * len(found) + [1.2])
    for axis, (name, kept, times, rows) in zip(axes, found, strict=False):
        axis.scatter(times, rows, s=0.5, color="#20407a", linewidths=0, rasterized=True)
        axis.set_ylim(-1, kept.rows)
        axis.set_yticks([])
        label = f"{caption(name)}\n{kept.rows} of {kept.size}"
        axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8, parse_math=False)
    for name, kept, _, _ in found:
        if kept.rates:
            t, rate = np.array(kept.rates).T
            axes[-1].plot(t, rate, label=caption(name).replace("$", r"\$"), linewidth=0.9)
    axes[-1].set_ylabel("spikes per\nneuron and s,\nall neurons", rotation=0, ha="right", va="center", fontsize=8)
    axes[-1].set_ylim(bottom=0)
    axes[-1].legend(fontsize=7, ncol=min(6, len(found)), loc="upper right")
    axes[-1].set_xlabel("time (s); a population is published every few pictures, hence the gaps")
    for leg in legs:
        for axis in axes:
            axis.axvline(leg.begin, color="#c0392b", linewidth=0.9)
        axes[0].annotate(leg.gloss, (leg.begin, 1.04), xycoords=("data", "axes fraction"), fontsize=8,
                         color="#c0392b")
    axes[-1].set_xlim(min((leg.begin for leg in legs), default=1.0) - 1.0,
                      max((leg.end for leg in legs), default=recorder.now))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


class _Raster:
    """The last spikes before a moment, as a picture of its own; populations in bands, a line for each neuron."""

    def __init__(self, found: list) -> None:
        self._found = found

    def frame(self, t: float) -> np.ndarray:
        """uint8 [H, W, 3] of the spikes in the ``WINDOW`` s before ``t``."""
        width, height = PANEL
        image = np.full((height, width, 3), PAPER, np.uint8)
        top = 16
        band = (height - top) // max(len(self._found), 1)
        for k, (_, kept, times, rows) in enumerate(self._found):
            first, last = np.searchsorted(times, (t - WINDOW, t))
            step = -(-kept.rows // (band - 4))
            picked = rows[first:last] % step == 0
            x = ((times[first:last] - (t - WINDOW)) / WINDOW * (width - 1)).astype(int)[picked]
            y = top + band * k + rows[first:last][picked] // step
            for across in (0, 1):
                image[np.clip(y, 0, height - 1), np.clip(x + across, 0, width - 1)] = COLORS[k % len(COLORS)]
        return image


def moving_picture(path: Path, room: Any, recorder: Recorder, legs: Sequence[Leg]) -> None:
    """The robot from behind, what it sees and its spikes side by side, faster than it was.

    Raises:
        ValueError: nothing was recorded to draw.
    """
    from brain_sim.chase import ChaseView

    if not legs or not recorder.eye:
        raise ValueError("no pictures of the camera were heard")
    begin, end = max(0.0, legs[0].begin - 0.5), min(legs[-1].end + 0.5, recorder.path[-1][0])
    count = FRAMES
    while True:
        view = ChaseView(room, recorder.xml, *PANEL)
        raster = _Raster(populations(recorder))
        write = _Writer(legs, speed=(end - begin) / (count * FRAME_TIME))
        frames = [write.frame(t, view, raster, recorder) for t in np.linspace(begin, end, count)]
        palette = _palette(frames)
        frames = [f.quantize(palette=palette, dither=0) for f in frames]
        times = [int(1000 * FRAME_TIME)] * (count - 1) + [int(1000 * LAST)]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=False)
        if path.stat().st_size <= LARGEST or count <= 20:
            return
        count //= 2


def _palette(frames: list) -> Any:
    """One palette for all frames, from a dozen of them: what is in view for a moment needs its color too."""
    from PIL import Image

    some = frames[::max(1, len(frames) // 12)]
    width, height = some[0].size
    swatch = 60  # px; the spikes' colors are rare, but must not be lost
    sheet = Image.new("RGB", (width, height * len(some) + swatch))
    for k, frame in enumerate(some):
        sheet.paste(frame, (0, k * height))
    for k, color in enumerate((*COLORS, INK, PAPER)):
        sheet.paste(color, (k * swatch, height * len(some), (k + 1) * swatch, height * len(some) + swatch))
    return sheet.quantize(160, dither=0)


class _Writer:
    """Puts one frame of the moving picture together."""

    def __init__(self, legs: Sequence[Leg], speed: float) -> None:
        self._legs, self._speed = legs, speed
        self._font, self._japanese = caption_font(14)
        self._small, _ = caption_font(11)

    def frame(self, t: float, view: Any, raster: _Raster, recorder: Recorder) -> Any:
        """PIL image of the moment ``t`` (s)."""
        from PIL import Image, ImageDraw

        width, height = PANEL
        image = Image.new("RGB", (3 * width + 4, height + CAPTION), PAPER)
        at = max(0, bisect.bisect_right(recorder.path, (t, np.inf)) - 1)
        image.paste(Image.fromarray(view.frame(*recorder.path[at][1:])), (0, 0))
        seen = max(0, bisect.bisect_right([e[0] for e in recorder.eye], t) - 1)
        image.paste(Image.fromarray(recorder.eye[seen][1]).resize(PANEL, Image.Resampling.NEAREST), (width + 2, 0))
        image.paste(Image.fromarray(raster.frame(t)), (2 * width + 4, 0))
        draw = ImageDraw.Draw(image)
        for x, title in ((4, f"{self._speed:.1f} x real time"), (width + 6, "what it sees"),
                         (2 * width + 8, f"its spikes, last {WINDOW:g} s")):
            draw.text((x + 1, 2), title, font=self._small, fill=(0, 0, 0))
            draw.text((x, 1), title, font=self._small, fill=INK)
        draw.text((6, height + 4), self._caption(t), font=self._font, fill=INK)
        return image

    def _caption(self, t: float) -> str:
        leg = next((leg for leg in reversed(self._legs) if t >= leg.begin), None)
        if leg is None:
            return ""
        said = f"\"{caption(leg.text)}\"" if leg.text.isascii() else f"\u300c{caption(leg.text)}\u300d ({leg.gloss})"
        if not leg.text.isascii() and not self._japanese:
            said = f"\"{leg.gloss}\", said in Japanese"
        return said + (f"  - {leg.outcome}" if t >= leg.end - 0.3 else "")


def caption(text: str) -> str:
    """Foreign text as it stands in a picture, in one short line."""
    return safe_text.line(text, 80)


def caption_font(size: int) -> tuple[Any, bool]:
    """A font of Pillow, and whether it has Japanese."""
    from matplotlib import font_manager
    from PIL import ImageFont

    for entry in font_manager.fontManager.ttflist:
        if entry.name in CJK:
            try:
                return ImageFont.truetype(entry.fname, size), True
            except OSError:
                continue
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size), False
