# SPDX-License-Identifier: Apache-2.0
"""``brain teach``: shows vision a thing by a few pictures, so that sentences can name it."""
from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)

KINDS = {".jpg", ".jpeg", ".png"}
LOOK = 0.05             # s between two looks at what has come
DEPTH = 4               # messages of a topic that may wait for one
AGAIN = 0.5             # share of left-out pictures in which a thing has to be found again
NEW = 0                 # number of a thing that is not kept yet


def teach(name: Annotated[str, typer.Argument(help="One word for the thing, as mug. Default: list what was taught."
                                              )] = "",
          pictures: Annotated[Path | None, typer.Option(
              metavar="FOLDER", help="5 to 20 pictures (JPEG, PNG), each with the thing in its middle. Default: look "
              "through the robot's camera.")] = None,
          forget: Annotated[bool, typer.Option("--forget", help="Forget the thing.")] = False,
          seconds: Annotated[float, typer.Option(min=2.0, max=600.0, help="How long to look through the camera. Keep "
                                                 "the thing in the middle, and show it from several sides and "
                                                 "distances.")] = 15.0,
          robot: Annotated[str, typer.Option(help="The robot's profile: a name, or a path.")] = "",
          view: Annotated[float, typer.Option(min=10.0, max=160.0, metavar="DEGREES", help="Horizontal view of the "
                                              "camera that took the pictures of the folder.")] = 62.0,
          pitch: Annotated[float, typer.Option(min=-90.0, max=90.0, metavar="DEGREES", help="By which that camera "
                                               "looked down.")] = 0.0,
          as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
          namespace: Namespace = "") -> None:
    """Teaches the brain of this machine to see a thing, from pictures or through the robot's camera.

    Afterwards sentences may name it: brain say "find the mug". A brain that runs learns it within two seconds. What
    was taught is kept in one file, which is read by brains that keep a state. Exit status: 0 when it is taught, 1 when
    the pictures do not tell it from other things, 2 for wrong use.
    """
    use_domain(domain)
    use_security(secure)
    from brain_regions.vision import taught
    from brain_runtime.contract.taught import TaughtError, checked, file, names

    try:
        if not name:
            _list(names(), as_json)
            return
        name = checked(name)
        if forget:
            taught.forget(file(), name)
            tell_json({"forgot": name}) if as_json else tell(f"{name} is forgotten")
            return
        if meaning := _known(name):
            fail(f"{name!r} is a word that the brain knows already ({meaning}); choose another name", 2)
        shown = _of_folder(pictures, view, pitch) if pictures is not None else _of_camera(
            seconds, robot, namespace, router)
        _learn(name, shown, as_json)
    except TaughtError as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{file()} cannot be written: {error.strerror or error}", 2)


def _list(known: dict[int, str], as_json: bool) -> None:
    if as_json:
        tell_json({"things": [known[number] for number in sorted(known)]})
    else:
        tell(", ".join(known[number] for number in sorted(known)) or "nothing was taught; see `brain teach --help`")


def _known(name: str) -> str:
    """Names the kinds of word that language takes it for already; empty: it is new."""
    from brain_regions.language.all_words import lexicon
    from brain_regions.language.lexicon import Kind
    from brain_regions.language.tokens import fold, normalize, tokenize

    kinds = {token.kind for token in tokenize(fold(normalize(name)), lexicon())}
    return ", ".join(sorted(kind.name.casefold() for kind in kinds)) if Kind.WORD not in kinds else ""


def _learn(name: str, shown: list[Any], as_json: bool) -> None:
    """Teaches by level pictures."""
    from brain_regions.vision import taught, weights
    from brain_regions.vision.network import Looking
    from brain_runtime.contract.taught import file, name_of, names

    looking = Looking(weights.load().tensors)
    if len(shown) < taught.FEWEST:
        fail(f"there are {len(shown)} pictures of {name}, and {taught.FEWEST} are needed", 2)
    if len(shown) > taught.MOST_PICTURES:
        shown = [shown[k * len(shown) // taught.MOST_PICTURES] for k in range(taught.MOST_PICTURES)]
    examples = [one for one in (taught.example(looking, picture) for picture in shown) if one is not None]
    if len(examples) < taught.FEWEST:
        fail(f"{name} is too small to tell in {len(shown) - len(examples)} of {len(shown)} pictures, and "
             f"{taught.FEWEST} are needed; show it nearer, in the middle of the picture", 1)
    others = {number: its for number, its in taught.load(file()).items() if names().get(number) != name}
    if (same := taught.taken_for(looking, examples, others)) is not None:
        fail(f"{name} looks like {name_of(same)}, which was taught; forget that one first, or teach a thing that looks "
             f"different", 1)
    found = taught.Taught(looking, {**others, NEW: examples}).left_out[NEW]
    if found < AGAIN:
        fail(f"by the other pictures {name} is found again in {found:.0%} of them alone, so it is not taught; show it "
             f"nearer, and from fewer sides", 1)
    taught.keep(file(), name, examples)
    if as_json:
        tell_json({"name": name, "pictures": len(examples), "left_out": found})
    else:
        tell(f"{name} is taught by {len(examples)} pictures; by the others it is found again in {found:.0%} of them. "
             f"Say for example: brain say \"find the {name}\"")


def _of_folder(folder: Path, view: float, pitch: float) -> list[Any]:
    """Level pictures of a folder's files; those that cannot be read are named and skipped."""
    from brain_regions.vision.levelling import sight
    from brain_runtime.contract.images import Lens
    from brain_runtime.contract.optics import OpticsError
    from brain_runtime.contract.pictures import unpacked

    if not folder.is_dir():
        fail(f"{folder} is no folder; give one with 5 to 20 pictures", 2)
    found = []
    for path in sorted(one for one in folder.iterdir() if one.suffix.casefold() in KINDS):
        try:
            picture = unpacked(path.read_bytes())
            wide = picture.shape[1]
            lens = Lens(wide / 2 / math.tan(math.radians(view) / 2), wide, picture.shape[0], wide / 2,
                        picture.shape[0] / 2)
            found.append(sight(lens, math.radians(pitch)).level(picture))
        except (OSError, ValueError, OpticsError) as error:
            tell(f"{path.name} is skipped: {error}", err=True)
    if not found:
        fail(f"{folder} has no pictures that can be read (JPEG, PNG)", 2)
    return found


def _of_camera(seconds: float, robot: str, namespace: str, router: str | None) -> list[Any]:
    """Level pictures as vision makes them of what the robot's camera publishes."""
    from brain_regions.vision import Vision
    from brain_runtime.contract.stepper import Stepper
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.resolve import resolve_region
    from brain_runtime.graph.robots import RobotError
    from brain_wire import NameProblem, NoRouter, SessionProblem, messages, names, open_node

    class Eye(Vision):
        """Vision up to its level pictures."""

        seen: list[Any]

        def step(self, inbox: Any, state: Any, dt: float, rng: Any) -> tuple[dict, Any]:
            """Takes a picture."""
            found = self._see(inbox)
            self.seen += [] if found is None else [found[0].copy()]
            return {}, state

    try:
        (found,) = resolve_region("vision", robot=robot, namespace=namespace).regions
        eye = Eye(found.name)
        eye.seen = []
        eye.configure(found.parameters)
        stepper, begin = Stepper(eye), time.monotonic()
        with open_node("brain_teach", namespace or "/", router=router) as node:
            heard = {name: node.subscription(names.expand(found.remap.get(port.topic, port.topic), found.namespace,
                                                          node.name), port.type, port.qos.with_depth(DEPTH))
                     for name, port in eye.hears().items()}
            while (now := time.monotonic()) < begin + seconds:
                for name, subscription in heard.items():
                    for arrival in subscription.take():
                        with suppress(messages.MessageError):       # of somebody else; what is missing is told
                            stepper.offer(name, messages.decode(arrival.data, subscription.type), now)
                stepper.step(now, now)
                time.sleep(LOOK)
    except (GraphError, RobotError, SessionProblem, NameProblem, NoRouter) as error:
        fail(str(error), 2)
    if not eye.seen:
        why = f": {eye.trouble}" if eye.trouble else ""
        fail(f"no picture came within {seconds:g} s{why}; `brain doctor` tells what is wrong with the camera", 2)
    return eye.seen
