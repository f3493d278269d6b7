# SPDX-License-Identifier: Apache-2.0
"""``brain look``: saves the camera's picture with what the brain sees drawn in, and tells what it remembers."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, check_writable, fail, tell,
                                           tell_json, use_domain, use_security)

PATIENCE = 5.0      # s in which an introspection region that runs has shown something
SETTLE = 0.5        # s that what is remembered, and then a picture with the target marked, gets


def look(out: Annotated[Path, typer.Option(help="PNG to write.")] = Path("look.png"), as_json: Json = False,
         router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Saves what the brain sees now, as RViz shows it on inside/image, and tells what it remembers.

    The region introspection makes both on demand, so this takes a moment.
    """
    use_domain(domain)
    use_security(secure)
    check_writable(out)
    _check_kind(out)
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node
    from brain_wire.qos import FEATURE, SENSOR

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
        fail("nothing came on inside/image: is the region introspection running (`brain status`), and a camera?")
    save(picture, out)
    if as_json:
        tell_json({"file": str(out.absolute()), "width": int(picture.width), "height": int(picture.height),
                   "remembers": None if memory is None else told(memory)}, None)
        return
    tell(f"{out}: {picture.width} x {picture.height}")
    tell("remembers " + ("nothing that pfc tells of" if memory is None else remembered(memory)))


def told(memory: Any) -> list[dict[str, Any]]:
    """Converts pfc/memory to plain JSON values: m, rad, and a confidence of 0 to 1."""
    from brain_runtime.contract.sights import thing

    return [{"object": thing(o.color, o.shape), "bearing": round(float(o.bearing), 4),
             "distance": round(float(o.distance), 3), "confidence": round(float(o.confidence), 3)}
            for o in memory.objects]


def remembered(memory: Any) -> str:
    """Describes in a line what pfc/memory holds."""
    from brain_runtime.contract.sights import place, thing

    return "; ".join(f"{thing(o.color, o.shape)} {place(o.bearing, o.distance)} ({100 * o.confidence:.0f} %)"
                     for o in memory.objects) or "no object"


def _check_kind(path: Path) -> None:
    """Ends the command where no picture of this kind can be written."""
    from PIL import Image

    known = Image.registered_extensions()
    if known.get(path.suffix.lower()) not in Image.SAVE:
        fail(f"cannot write {path}: {path.suffix or 'a name without a suffix'} is no kind of picture; name a .png", 2)


def save(picture: Any, path: Path) -> None:
    """Writes an rgb8 Image as PNG, or whatever the file's name says."""
    from PIL import Image

    try:
        Image.fromarray(picture.data.reshape(picture.height, picture.width, 3)).save(path)
    except (OSError, ValueError) as error:
        fail(f"cannot write {path}: {error}")
