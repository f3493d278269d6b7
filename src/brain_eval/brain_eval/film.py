# SPDX-License-Identifier: Apache-2.0
"""``brain film``: runs an episode in lockstep and draws what each region believed, as a film or as one picture."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Sequence

import typer

from brain_runtime.command.options import Json, check_writable, fail, tell, tell_json
from brain_runtime.graph.rooms import Split

SPEED = 2.0         # times real time
LAST = 2.0          # s that the last frame is shown
COLORS = 80         # of the film
FEWEST = 20         # frames, below which none are left out any more


def film(out: Annotated[Path | None, typer.Option(
             metavar="FILE.gif", help="Film to write. Default: film.gif, unless --png is given.")] = None,
         png: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture of the moment of choice.")] = None,
         split: Annotated[Split, typer.Option(help="Rooms and sentences: train, val or test.")] = Split.val,
         seed: Annotated[int, typer.Option(min=0, help="Seed of the suite.")] = 1,
         episode: Annotated[int, typer.Option(min=0, help="Number of the episode.")] = 15,
         ablate: Annotated[list[str] | None, typer.Option(
             metavar="NAME=VALUE", help="Take something away or replace it, as in brain eval.")] = None,
         graph: Annotated[str, typer.Option(help="Graph: a name or a path.")] = "brain",
         megabytes: Annotated[float, typer.Option(
             min=0.1, help="Most that the film may take; frames are left out until it does.")] = 3.0,
         as_json: Json = False) -> None:
    """Runs an episode of language-v1 and draws what each region believes meanwhile.

    What vision detects, what the prefrontal cortex remembers and chooses, how undecided it is, what it does, motor's
    spikes, and what language reads. Five frames for each second of the simulation, shown twice as fast as it was.
    """
    from brain_eval import ablations
    from brain_eval.episodes import run_local
    from brain_eval.frames import PICTURE, Film, gloss, swatches
    from brain_eval.moments import Watcher, choosing
    from brain_runtime.graph import GraphError
    from brain_sim import suite

    out = Path("film.gif") if out is None and png is None else out
    if out is not None and out.suffix.lower() != ".gif":
        fail(f"{out}: a film is a .gif; for one picture give --png", 2)
    for file in (out, png):
        check_writable(file)
    watcher = Watcher()
    try:
        chosen = suite.episode(split.value, episode, seed)
        say = tell if not as_json else lambda text: None
        say(f"{chosen.id}: {chosen.sentence} ({gloss(chosen)})")
        result = run_local(chosen, graph=graph, ablation=ablations.parse(ablate or (), graph), onlooker=watcher,
                           parameters={"introspection": {"columns": PICTURE[0]}})
        say(f"{result['outcome']} after {watcher.moments[-1].t:.1f} s" if watcher.moments else result["reason"])
        drawing = Film(chosen, watcher.room, watcher.moments, watcher.regions, " ".join(ablate or ()))
        if png is not None:
            drawing.frame(choosing(watcher.moments)).save(png)
            say(f"wrote {png}")
        if out is not None:
            frames = [drawing.frame(moment) for moment in watcher.moments]
            count = save(out, frames, watcher.moments[-1].t / len(frames) / SPEED, megabytes * 1e6, swatches())
            say(f"wrote {out}: {count} frames, {out.stat().st_size / 1e6:.1f} MB")
    except (GraphError, ValueError, OSError) as error:
        fail(str(error))
    if as_json:
        tell_json({"episode": chosen.id, "sentence": chosen.sentence, "gloss": gloss(chosen),
                   "outcome": result["outcome"], "reason": result["reason"],
                   "files": [str(file.absolute()) for file in (png, out) if file is not None]}, None)


def save(path: Path, frames: Sequence[Any], period: float, most: float, swatches: Sequence[str] = ()) -> int:
    """Writes a film; leaves out every other frame, again and again, until it is no larger than it may be.

    Args:
        path: of the GIF.
        frames: PIL images of one size.
        period: s that a frame is shown.
        most: bytes.
        swatches: colors that are kept, however rare they are.

    Returns:
        How many frames there are.

    Raises:
        ValueError: there is no frame, or it is too large even with few.
    """
    if not frames:
        raise ValueError("there is nothing to film")
    palette = _palette(frames, swatches)
    small = [frame.quantize(palette=palette, dither=0) for frame in frames]
    while True:
        times = [int(1000 * period)] * (len(small) - 1) + [int(1000 * LAST)]
        small[0].save(path, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)
        if path.stat().st_size <= most:
            return len(small)
        if len(small) <= FEWEST:
            raise ValueError(f"{path} takes {path.stat().st_size / 1e6:.1f} MB even with {len(small)} frames; allow "
                             f"more --megabytes")
        small, period = [*small[:-1:2], small[-1]], 2 * period


def _palette(frames: Sequence[Any], swatches: Sequence[str]) -> Any:
    """One palette for all frames: the swatches, and what eight of the frames need beside."""
    from PIL import Image, ImageColor

    some = frames[::max(1, len(frames) // 8)]
    width, height = some[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for k, frame in enumerate(some):
        sheet.paste(frame, (0, k * height))
    found = sheet.quantize(max(COLORS - len(swatches), 16), dither=0).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(v for color in swatches for v in ImageColor.getrgb(color)), *found])
    return palette
