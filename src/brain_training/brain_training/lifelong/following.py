# SPDX-License-Identifier: Apache-2.0
"""A process beside a brain that gives its vision the weights of the site that the robot is at, from a library.

It looks at the camera as vision does, and sets the region's parameter ``weights``, which is read anew between two
steps: never while a goal is pursued, and not where somebody else has set it meanwhile.
"""
from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Callable

from brain_regions.vision import weights
from brain_regions.vision.levelling import sight
from brain_runtime.contract import images
from brain_runtime.interfaces import GoalStatus
from brain_training.lifelong.choosing import AGREED, Choosing
from brain_training.lifelong.learning import exported
from brain_training.lifelong.library import Library, descriptors
from brain_wire import NoAnswer, Node, messages
from brain_wire.parameter_services import value_message, value_of
from brain_wire.qos import LATCHED, STREAM

IMAGE, STATUS = "sensor_msgs/msg/Image", "brain_interfaces/msg/GoalStatus"
GET, SET = "rcl_interfaces/srv/GetParameters", "rcl_interfaces/srv/SetParametersAtomically"
PARAMETER = "weights"
FOLDER = "robot"        # of the weight files, in the library
ANSWER = 5.0            # s that the region gets
CHECK = 5               # looks from one at the region's weights to the next
PURSUED = (GoalStatus.STATE_SEARCHING, GoalStatus.STATE_APPROACHING, GoalStatus.STATE_WAITING)


class Taken(RuntimeError):
    """Somebody else sets the region's weights; says which."""


class Following:
    """Follows one robot's camera.

    Args:
        node: of ours, in the brain's namespace.
        library: with one task at least.
        region: whose weights are set.
        pictures: topic of the camera.
        agreed: windows in a row that have to say the same.
        tell: told, in a line, whatever happens.

    Attributes:
        taken: pictures so far.

    Raises:
        LibraryProblem: the library cannot be used.
        OSError: weights cannot be written into it.
    """

    def __init__(self, node: Node, library: Library, *, region: str = "vision", pictures: str = "camera/image_raw",
                 agreed: int = AGREED, tell: Callable[[str], None] = lambda text: None) -> None:
        self._region, self._tell = region, tell
        self._files = written(library)
        self._choosing = Choosing(descriptors(library.tasks()), agreed)
        self._images = node.subscription(pictures, IMAGE, STREAM.with_depth(1))
        self._status = node.subscription("goal/status", STATUS, LATCHED)
        self._get = node.client(f"{region}/get_parameters", GET, ANSWER)
        self._set = node.client(f"{region}/set_parameters_atomically", SET, ANSWER)
        self._pursued = False
        self._first: str | None = None      # what the region had when this began
        self._given: str | None = None      # task
        self._refused: str | None = None    # task
        self._unsure = False                # weights were set, and the answer did not come
        self._said = ""
        self._looks = self.taken = 0

    def look(self) -> None:
        """Takes the newest picture, and gives the region other weights where that is due. To be called every second.

        Raises:
            Taken: somebody else has set the weights; it does not go on then.
        """
        for arrival in self._status.take():
            if (status := self._decoded(arrival.data, STATUS)) is not None:
                self._pursued = int(status.state) in PURSUED
        for arrival in self._images.take()[-1:]:
            self._picture(arrival.data)
            self.taken += 1
        task = self._choosing.task
        self._looks += 1
        # A region that was started again has its first weights, and gets those that it had at once.
        again = task == self._given and self._looks % CHECK == 0
        if task is None or task == self._refused or task == self._given and not again:
            return
        if self._pursued and not again:
            self._once(f"these pictures are of {task}; {self._region} gets its weights when no goal is pursued")
            return
        try:
            self._give(task)
        except (NoAnswer, messages.MessageError) as problem:
            self._once(f"{self._region} does not answer: {problem}")

    def _picture(self, data: bytes) -> None:
        message = self._decoded(data, IMAGE)
        if message is None:
            return
        try:
            picture = images.rgb(message)
            picture = sight(images.lens(None, (picture.shape[1], picture.shape[0]), math.pi / 2)).level(picture)
        except ValueError as problem:
            self._once(f"a picture cannot be used: {problem}")
            return
        if self._choosing.take(picture) and self._choosing.unknown:
            self._tell("these pictures are of no site that was learned; the weights stay as they are")

    def _give(self, task: str) -> None:
        """Raises Taken, NoAnswer, MessageError."""
        value = str(self._files[task])
        now = self._have()
        if self._first is None:
            self._first = now
        # without a / it is the name of weights that ship: what a region has that was started again
        if now != self._first and "/" in now and now not in map(str, self._files.values()):
            raise Taken(f"{self._region} was given other weights ({now[:200]}) by somebody else; only one may order "
                        f"them")
        if now == value and task == self._given and not self._unsure:
            return
        if now != value:
            self._unsure = True
            result = self._set.call(messages.make(f"{SET}_Request", parameters=[messages.make(
                "rcl_interfaces/msg/Parameter", name=PARAMETER, value=value_message(value))]), ANSWER).result
            self._unsure = False
            if not result.successful:
                self._refused = task
                self._tell(f"{self._region} refuses the weights of {task}: {result.reason}")
                return
        self._given, self._refused, self._unsure = task, None, False
        self._tell(f"{self._region} has the weights of {task}")

    def _have(self) -> str:
        values = self._get.call(messages.make(f"{GET}_Request", names=[PARAMETER]), ANSWER).values
        found = value_of(values[0]) if len(values) == 1 else None
        if not isinstance(found, str):
            raise Taken(f"{self._region} has no parameter {PARAMETER}; name another --region")
        return found

    def _decoded(self, data: bytes, kind: str) -> Any:
        try:
            return messages.decode(data, kind)
        except messages.MessageError as problem:
            self._once(f"a {kind} cannot be read: {problem}")
            return None

    def _once(self, text: str) -> None:
        """Tells what would be told again and again."""
        if text != self._said:
            self._said = text
            self._tell(text)


def written(library: Library) -> dict[str, Path]:
    """Weight files of all tasks, in the library's folder ``robot``, by task; each name has a digest of the weights."""
    found = {}
    for name, task in library.tasks().items():
        digest = hashlib.sha256(b"".join(task.weights[key].tobytes() for key in sorted(task.weights))).hexdigest()[:12]
        path = (library.folder / FOLDER / f"{name}-{digest}.safetensors").absolute()
        if not path.is_file():
            weights.save(path, *exported(library, name))
        found[name] = path
    return found
