# SPDX-License-Identifier: Apache-2.0
"""Pictures at their size: a player of them in place of the camera, and what becomes of each in a whole brain."""
from __future__ import annotations

import dataclasses
import io
import time
from pathlib import Path
from typing import Annotated, Any, Iterator

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment, Problem, alone, brain_problems
from brain_runtime import SENSOR, Out, parameter
from brain_sim.camera_region import Camera, camera_of, image_message, info_message
from brain_wire import messages
from brain_wire.temporary_folder import TemporaryFolder

RATE = 30.0             # Hz
VIEWS = 8               # pictures that are played, once round
SIZES = {"640x480": (640, 480), "1280x720": (1280, 720)}
READY = 60.0            # s after which a brain counts as not coming up
SETTLE = 2.0            # s at the beginning, and the last of which nothing is known: what was seen then does not count
LATENCY = 0.030         # s from a picture to the first command that it had influence on, 95th percentile, at most
SPLIT, SEED = "val", 5
CAMERA, UNPACKING = "camera", "unpacking"     # names of processes
PLAYER, UNPACKER = "brain_eval.bench.pictures:Player", "brain_observe.uncompressed:Uncompressed"
INFO, OBJECTS = "sensor_msgs/msg/CameraInfo", "brain_interfaces/msg/DetectedObjects"


class Player(Camera):
    """Plays pictures of the room, looked at once round from where the robot began; their stamp is that of playing."""

    rate = RATE

    image = Out("camera/image_raw", "sensor_msgs/msg/Image", SENSOR)
    packed = Out("camera/image_raw/compressed", "sensor_msgs/msg/CompressedImage", SENSOR)
    info = Out("camera/camera_info", INFO, SENSOR)

    @dataclasses.dataclass(frozen=True)
    class Parameters(Camera.Parameters):
        """Size of the pictures."""

        width: int = parameter(640, "Columns.", unit="px", low=16, high=1920, live=False)
        height: int = parameter(480, "Rows.", unit="px", low=16, high=1080, live=False)
        compressed: bool = parameter(False, "Whether they are JPEG, as image_transport sends them.", live=False)

    def configure(self, parameters) -> None:
        """Takes the parameters; the room comes with the first sim/world."""
        super().configure(parameters)
        self._pictures: list[Any] = []
        self._played = 0

    def step(self, inbox, state, dt, rng):
        """One picture, once they are made."""
        if not self._pictures:
            self._look(inbox)
        if self.camera is None or not self._pictures:
            return {}, state
        self._played += 1
        picture, info = self._pictures[self._played % VIEWS], info_message(self.info, self.camera)
        if not self.parameters.compressed:
            return {"image": image_message(self.image, picture), "info": info}, state
        packed = self.packed(header=info.header, format="rgb8; jpeg compressed bgr8", data=picture)
        return {"packed": packed, "info": info}, state

    def _look(self, inbox) -> None:
        world, pose = inbox.get("world"), inbox.get("pose")
        if world is None or pose is None:
            return
        self.camera = camera_of(world.data, self.parameters.width, self.parameters.height)
        if self.camera is not None:
            at = pose.pose.pose.position
            self._pictures = [np.ascontiguousarray(self.camera.render(at.x, at.y, 2 * np.pi * view / VIEWS, None))
                              for view in range(VIEWS)]
            if self.parameters.compressed:
                self._pictures = [_jpeg(picture) for picture in self._pictures]


def _jpeg(picture: np.ndarray) -> np.ndarray:
    from PIL import Image

    Image.fromarray(picture).save(packed := io.BytesIO(), "JPEG", quality=90)
    return np.frombuffer(packed.getvalue(), np.uint8)


def missing(played: list[int], seen: list[int], begin: int, end: int) -> tuple[int, int]:
    """Counts pictures by their stamps (ns): those played from ``begin`` to ``end``, and those of them never seen."""
    due = {stamp for stamp in played if begin <= stamp < end}
    return len(due), len(due - set(seen))


def with_player(workloads: list[Any], parameters: dict[str, Any]) -> list[Any]:
    """The processes of a brain with the player in place of its camera, and who unpacks where it plays JPEG."""
    found = []
    for workload in workloads:
        if workload.name != CAMERA:
            found.append(workload)
            continue
        argv = [*workload.argv, *(() if "--ros-args" in workload.argv else ("--ros-args",))]
        at = argv.index("--class") + 1
        argv[at] = PLAYER
        given = [word for key, value in parameters.items() for word in ("-p", f"{key}:={str(value).lower()}")]
        found.append(dataclasses.replace(workload, argv=(*argv, *given)))
        if parameters.get("compressed"):
            argv = [UNPACKING if word == CAMERA else word for word in argv]
            argv[at] = UNPACKER
            found.append(dataclasses.replace(workload, name=UNPACKING, probe=None, argv=tuple(argv)))
    return found


def measure(folder: Path, played: dict[str, Any], seconds: float, endpoint: str, domain: int, console: Any, stop: Any
            ) -> dict[str, Any]:
    """Has a brain look for something while pictures are played; ``played``, ``lost`` and ``latency`` (s).

    Args:
        played: parameters of the :class:`Player`.

    Raises:
        GraphError, StartError, NoRouter: it does not come up.
    """
    from brain_eval.shown_stage import ShownStage
    from brain_wire import open_node

    stage = ShownStage("brain", folder, split=SPLIT, seed=SEED, router=endpoint, domain=domain, stop=stop,
                       console=console, request={"split": SPLIT, "seed": SEED},
                       instead=lambda workloads: with_player(workloads, played))
    try:
        stage.start(READY)
        with open_node("bench_pictures", domain=domain, router=endpoint) as node:
            heard = [node.subscription(topic, kind, SENSOR.with_depth(100_000))
                     for topic, kind in (("camera/camera_info", INFO), ("vision/objects", OBJECTS))]
            stage.speaker.say("find the red ball")
            stage.settle(SETTLE)
            begin = time.time_ns()
            stage.settle(seconds)
            end = time.time_ns()
            stage.settle(SETTLE)
            said, seen = [[_stamp(messages.decode(arrival.data, ear.type)) for arrival in ear.take()] for ear in heard]
        count, lost = missing(said, seen, begin, end)
        facts = stage.facts()
        return {**played, "seconds": seconds, "played": count, "lost": lost,
                "latency": facts["latency"], "vision": next(
                    (r for r in facts["regions"] if r["name"].endswith("vision")), {})}
    finally:
        stage.close()


def _stamp(message: Any) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


class Pictures(Experiment):
    """Plays pictures of 640 x 480 and 1280 x 720 at 30 Hz, raw and as JPEG, into a whole brain in place of its camera.

    It counts those that vision did not see, and takes the latency from a picture to the first command on which it had
    influence. Exit status 0 when none of 640 x 480, raw, is lost and their 95th percentile is at most 30 ms.
    """

    cpu = True
    quick = {"seconds": 3.0}

    def measure(self, seconds: Annotated[float, typer.Option(min=1, help="How long each size is played.")] = 30.0
                ) -> dict[str, Any]:
        """Plays one kind after the other; see :func:`measure`."""
        from brain_runtime.command.terminal import Terminal

        found = []
        for width, height, compressed in ((*size, packed) for packed in (False, True) for size in SIZES.values()):
            stop, endpoint, domain = alone()
            with TemporaryFolder("bench") as folder:
                try:
                    found.append(measure(Path(folder), {"width": width, "height": height, "compressed": compressed},
                                         seconds, endpoint, domain, Terminal(stderr=True), stop))
                except brain_problems() as error:
                    logs = "; ".join(path.read_text(errors="replace").strip()[-200:]
                                     for path in Path(folder).glob("logs/*.log"))
                    raise Problem(f"{error}; the logs end: {logs}") from error
        p95 = found[0]["latency"]["p95"]
        return {"sizes": found, "within": {"lost": found[0]["played"] > 0 and found[0]["lost"] == 0,
                                           "latency": p95 is not None and p95 <= LATENCY}}

    def rows(self, found: dict[str, Any]) -> Iterator[str]:
        for one in found["sizes"]:
            latency = one["latency"]
            told = (f"camera to cmd_vel p50 {1e3 * latency['p50']:.0f} ms, p95 {1e3 * latency['p95']:.0f} ms"
                    if latency["n"] else "camera to cmd_vel not known")
            yield (f"{one['width']} x {one['height']}, {'JPEG' if one['compressed'] else 'raw'}: {one['lost']} of "
                   f"{one['played']} pictures lost; {told}")
