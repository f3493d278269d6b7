# SPDX-License-Identifier: Apache-2.0
"""``brain look``: saves the camera's picture with what the brain sees drawn in, and tells what it remembers."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain.options import Domain, Namespace, Router, fail, use_domain

PATIENCE = 5.0      # s in which a window that is there has shown something
SETTLE = 0.5        # s that what is remembered, and then a picture with the target marked, gets


def look(out: Annotated[Path, typer.Option(help="PNG to write.")] = Path("look.png"), router: Router = None,
         domain: Domain = None, namespace: Namespace = "") -> None:
    """Saves what the brain sees now, as RViz shows it on inside/image, and tells what it remembers.

    The window makes both only while somebody looks, so this takes a moment.
    """
    use_domain(domain)
    from brain_runtime.qos import FEATURE, SENSOR
    from brain_runtime.wire import NameProblem, NoRouter, SessionProblem, open_node

    try:
        with open_node("brain_look", namespace or "/", router=router) as node:
            pictures = node.subscription("inside/image", "sensor_msgs/msg/Image", SENSOR)
            memories = node.subscription("pfc/memory", "brain_interfaces/msg/DetectedObjects", FEATURE)
            picture = next(pictures.messages(PATIENCE), None)
            memory = next(memories.messages(SETTLE), None)
            for picture in pictures.messages(SETTLE):   # by now it knows the target too
                pass
    except (NoRouter, NameProblem, SessionProblem) as error:
        fail(str(error))
    if picture is None:
        fail("nothing came on inside/image: is the region window running (`brain status`), and a camera?")
    save(picture, out)
    typer.echo(f"{out}: {picture.width} x {picture.height}")
    typer.echo("remembers " + ("nothing that pfc tells of" if memory is None else remembered(memory)))


def remembered(memory: Any) -> str:
    """What pfc/memory holds, in a line."""
    from brain_regions.sights import place, thing

    return "; ".join(f"{thing(o.color, o.shape)} {place(o.bearing, o.distance)} ({100 * o.confidence:.0f} %)"
                     for o in memory.objects) or "no object"


def save(picture: Any, path: Path) -> None:
    """Writes an rgb8 Image as PNG, or whatever the file's name says."""
    from PIL import Image

    try:
        Image.fromarray(picture.data.reshape(picture.height, picture.width, 3)).save(path)
    except (OSError, ValueError) as error:
        fail(f"cannot write {path}: {error}")
