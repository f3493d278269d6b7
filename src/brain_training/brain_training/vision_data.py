# SPDX-License-Identifier: Apache-2.0
"""Level pictures and their labels for vision: of the simulator's rooms, and of sceneries of all looks.

Cameras are drawn as robots have them: height, pitch, roll, view and lens. Labels come from which thing each ray met,
so they also know what stands behind what.
"""
from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from brain_regions.vision.network import COLUMNS, HEIGHT, LAYERS, RESOLUTION, SLOTS, WIDTH, directions
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Levelled, Mount, seen
from brain_sim import raycast, robot, scenery, textures
from brain_sim.camera import MOUNT, RayCamera, SeenObject
from brain_sim.mjcf import room_xml
from brain_sim.photography import Camera
from brain_sim.room import generate_room, split_rng
from brain_sim.things import SHAPES
from brain_training.driving import Drive, Pose
from brain_training.looks import PLAIN, Look
from brain_training.process_pool import Failed, Job, at_once
from brain_training.task import TrainingError
from brain_wire.temporary_folder import TemporaryFolder

NOTHING, UNSURE = -1, -2
"""Color labels of columns that show no object, and of those about which nothing is asked: too little to tell."""
CLEAR_PIXELS = 10       # an object counts from so many visible pixels on
COLUMN_SHARE = 0.34     # of the object's fullest column: columns with less are its edge, and not asked about
NEAR_SHARE = 0.4        # of the training clips begin close to an object
USUAL_SHARE = 0.35       # of the rooms' clips are the simulator's own camera's
PHOTOGRAPHED = 0.6      # of the other rooms' clips are exposed, blurred and noisy as a camera's are
TEXTURES = 192          # of sceneries

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}      # of NumPy's, in each process that takes clips: else one of each core

Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""


class Labels(NamedTuple):
    """Labels of the columns of pictures, the nearest object first: arrays [..., SLOTS, COLUMNS].

    Attributes:
        color: int8, number in scenery.COLORS, or NOTHING, or UNSURE.
        shape: int8, number in scenery.KINDS (0 where there is none).
        bearing: float32, rad, of the object's center from the camera.
        distance: float32, from the camera, in heights of the camera above the floor.
        width: float32, rad, that the object covers, or would without what hides it.
    """

    color: np.ndarray
    shape: np.ndarray
    bearing: np.ndarray
    distance: np.ndarray
    width: np.ndarray


class Clips(NamedTuple):
    """Training clips: uint8 pictures [clips, frames, HEIGHT, WIDTH, 3] and labels [clips, frames, SLOTS, COLUMNS]."""

    images: np.ndarray
    labels: Labels


class Way(NamedTuple):
    """A held-out way: uint8 pictures [frames, HEIGHT, WIDTH, 3], and the visible objects of each; None: not known.

    Of a way that was driven there are the base's ``poses``, too; ``height`` (m) is the camera's.
    """

    images: np.ndarray
    objects: Sequence[list[SeenObject] | None]
    poses: Sequence[Pose] = ()
    height: float = MOUNT.height


def object_width(radius: float, distance: float) -> float:
    """Angle (rad) that an object of ``radius`` m at ``distance`` m covers."""
    return 2.0 * float(np.arcsin(min(radius / max(distance, radius), 0.999)))


def label_columns(camera: RayCamera, radii: dict[str, float]) -> Labels:
    """Labels [SLOTS, COLUMNS] of the level picture that ``camera`` rendered last; ``radii`` in m by name."""
    return labels_of(camera.geom_ids, things_of(camera, radii), camera.mount.height)


def things_of(camera: RayCamera, radii: dict[str, float]) -> list[tuple[int, int, int, float, float, float]]:
    """Number, color, kind, bearing (rad), distance (m) and width (rad) of what ``camera`` rendered last."""
    return [(camera.model.geom(seen.name).id, scenery.COLORS.index(seen.color), SHAPES.index(seen.shape),
             seen.camera_bearing, seen.camera_distance, object_width(radii[seen.name], seen.camera_distance))
            for seen in camera.ground_truth_objects()]


def labels_of(ids: np.ndarray, things: Sequence[tuple[int, int, int, float, float, float]], height: float) -> Labels:
    """Labels [SLOTS, COLUMNS] of a picture.

    Objects that a column shows clearly fill its slots from the nearest on. A slot that is left says that nothing is
    there, unless the column shows the edge of an object or a faint one: about that nothing is asked.

    Args:
        ids: number of what each pixel shows, int [HEIGHT, WIDTH].
        things: number, color, kind, bearing (rad), distance (m) and width (rad) of each.
        height: of the camera above the floor (m).
    """
    color = np.full((SLOTS, COLUMNS), NOTHING, np.int8)
    shape = np.zeros((SLOTS, COLUMNS), np.int8)
    bearing, distance, width = (np.zeros((SLOTS, COLUMNS), np.float32) for _ in range(3))
    ids = ids.reshape(HEIGHT, COLUMNS, WIDTH // COLUMNS)
    filled, unsure = np.zeros(COLUMNS, int), np.zeros(COLUMNS, bool)
    for number, its_color, kind, angle, away, wide in sorted(things, key=lambda thing: thing[4]):
        count = (ids == number).sum(axis=(0, 2))
        clear = (count >= max(1, COLUMN_SHARE * count.max())) & (count.sum() >= CLEAR_PIXELS)
        unsure |= (count > 0) & ~clear
        (columns,) = np.nonzero(clear & (filled < SLOTS))
        at = filled[columns], columns
        color[at], shape[at] = its_color, kind
        bearing[at], distance[at], width[at] = angle, away / height, wide
        filled[columns] += 1
    (columns,) = np.nonzero(unsure & (filled < SLOTS))
    color[filled[columns], columns] = UNSURE
    return Labels(color, shape, bearing, distance, width)


class Eye(NamedTuple):
    """A camera on a robot: its mounting, its lens, and where in a level picture it sees, bool [HEIGHT, WIDTH]."""

    mount: Mount
    lens: Lens
    seen: np.ndarray

    @classmethod
    def of(cls, lens: Lens, mount: Mount) -> Eye:
        """Computes where it sees."""
        return cls(mount, lens, seen(lens, mount, directions())[1])

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Eye:
        """Draws one of those that robots have: 0.08 to 1.2 m high, pitched by 20, rolled by 10 degrees at most."""
        while True:
            view = math.radians(rng.uniform(50.0, 120.0))
            wide, tall = ((640, 480), (1280, 720))[int(rng.random() < 0.4)]
            fisheye = bool(rng.random() < 0.2)
            focal = wide / view if fisheye else wide / 2 / math.tan(view / 2)
            middle = (rng.normal(0.5, 0.02), rng.normal(0.5, 0.02))
            lens = Lens(focal, wide, tall, wide * middle[0], tall * middle[1], fisheye=fisheye)
            height = math.exp(rng.uniform(math.log(0.08), math.log(1.2)))
            # what hangs high looks down
            pitch = rng.uniform(-20.0, 20.0) if rng.random() < 0.5 else rng.normal(8.0 * (height > 0.5), 5.0)
            roll = rng.uniform(-10.0, 10.0) if rng.random() < 0.3 else rng.normal(0.0, 1.0)
            found = cls.of(lens, Mount(rng.uniform(-0.1, 0.3), rng.normal(0.0, 0.03), height, 0.0,
                                       math.radians(min(max(pitch, -20.0), 20.0)),
                                       math.radians(min(max(roll, -10.0), 10.0))))
            if found.seen.mean() > 0.08:
                return found


@lru_cache(maxsize=1)
def usual() -> tuple[Eye, Levelled]:
    """The simulator's own camera, and the map of its pictures to level ones."""
    lens = Lens(robot.CAMERA_WIDTH / 2 / math.tan(robot.CAMERA_HFOV / 2), robot.CAMERA_WIDTH, robot.CAMERA_ROWS,
                robot.CAMERA_WIDTH / 2, robot.CAMERA_ROWS / 2)
    return Eye.of(lens, MOUNT), Levelled(lens, MOUNT, directions())


def what_is_seen(camera: RayCamera, radii: dict[str, float], pose: Pose) -> tuple[Labels, list[SeenObject]]:
    """Labels and objects of a picture that the simulator's own camera took.

    Args:
        camera: over its room, with :func:`~brain_regions.vision.network.directions`.
        radii: of things (m), by name.
        pose: of the robot.
    """
    camera.render(*pose)
    camera.geom_ids[~usual()[0].seen] = -1
    return label_columns(camera, radii), camera.ground_truth_objects()


def masked(picture: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """A level picture that is black where the camera does not see, and nowhere else; changed in place."""
    np.maximum(picture, 1, out=picture)
    picture[~seen] = 0
    return picture


def filled(light: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Light [HEIGHT, WIDTH, 3] in which what is not seen is as the rest in the mean: lenses blur. Changed in place."""
    light[~seen] = light[seen].mean(0)
    return light


def linear(picture: np.ndarray) -> np.ndarray:
    """Light, linear, that a room's picture stands for."""
    return (picture.astype(np.float32) / 255.0) ** 2


@lru_cache(maxsize=1)
def _textures() -> raycast.Textures:
    return raycast.Textures(textures.make(TEXTURES, np.random.default_rng(0xF100)))


def rendered(built: scenery.Scenery, rays: np.ndarray, spread: float | np.ndarray = RESOLUTION
             ) -> tuple[np.ndarray, np.ndarray]:
    """Renders a scenery.

    Args:
        built: the scenery.
        rays: unit vectors [n, 3] in which it is looked, as :func:`~brain_regions.vision.network.directions`.
        spread: rad between neighboring ones, of all or [n].

    Returns:
        Light [n, 3], linear; and the number of what each ray meets, faces of the room before solids.
    """
    c, s = math.cos(built.yaw), math.sin(built.yaw)
    turned = (rays @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])).astype(np.float32)
    met = raycast.cast(built.scene, built.eye, turned)
    return raycast.lit(built.scene, built.eye, turned, met, _textures(), spread), met.what


class Shot(NamedTuple):
    """A level picture that was taken, and what can be looked at again from the same place.

    Attributes:
        picture: uint8 [HEIGHT, WIDTH, 3].
        ids: number of the thing that each of its pixels shows, int [HEIGHT, WIDTH]; below 0: none.
        things: number, color, kind, bearing (rad), distance (m) and width (rad) of each.
        objects: those that it shows.
        again: renders rays, unit vectors [n, 3] as :func:`~brain_regions.vision.network.directions`, each spread over
            so many rad ([n]): light [n, 3], linear, and numbers [n].
        camera: settings; None: the picture is light itself.
        opened: factor of light that the picture was exposed with.
    """

    picture: np.ndarray
    ids: np.ndarray
    things: Sequence[tuple[int, int, int, float, float, float]]
    objects: list[SeenObject]
    again: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    camera: Camera | None
    opened: float


def shoot_scenery(rng: np.random.Generator, eye: Eye, camera: Camera | None = None, pictured: bool = False,
                  bare: bool = False) -> Shot:
    """Takes a level picture of a scenery, which is drawn; see :class:`~brain_sim.scenery.Builder`.

    ``camera``: its settings; where there is none they are drawn, too.
    """
    columns = np.flatnonzero(eye.seen.any(0))
    view = float(columns[-1] - columns[0] + 1) * RESOLUTION
    built = scenery.Builder(rng, TEXTURES, eye.mount.height, view, pictured, bare).build()
    numbers = np.array([-1] * raycast.FACES + [solid.thing for solid in built.scene.solids])

    def again(rays: np.ndarray, spread: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        light, what = rendered(built, rays, spread)
        return light, numbers[what]

    light, ids = np.zeros((HEIGHT, WIDTH, 3), np.float32), np.full((HEIGHT, WIDTH), -1)
    light[eye.seen], ids[eye.seen] = again(directions()[eye.seen], RESOLUTION)
    things, objects = [], []
    for number, thing in enumerate(built.things):
        x, y = thing.x - built.eye[0], thing.y - built.eye[1]
        away, angle = math.hypot(x, y), math.remainder(math.atan2(y, x) - built.yaw, 2 * math.pi)
        wide = object_width(thing.radius, away)
        things.append((number, thing.color, thing.kind, angle, away, wide))
        pixels = int((ids == number).sum())
        if pixels:
            objects.append(SeenObject(f"thing_{number}", scenery.COLORS[thing.color], scenery.KINDS[thing.kind], angle,
                                      away, angle, away, pixels, float(np.nonzero(ids == number)[1].mean()), wide))
    camera = camera or Camera.drawn(rng)
    light = filled(light, eye.seen)
    return Shot(masked(camera.take(light, rng), eye.seen), ids, things, objects, again, camera, camera.opened(light))


def take_scenery(rng: np.random.Generator, eye: Eye | None = None, camera: Camera | None = None
                 ) -> tuple[np.ndarray, Labels, list[SeenObject]]:
    """A level picture of a scenery, its labels and the things in it that have names; all is drawn.

    ``camera``: its settings; where there is none they are drawn, too.
    """
    eye = eye or Eye.drawn(rng)
    shot = shoot_scenery(rng, eye, camera)
    return shot.picture, labels_of(shot.ids, shot.things, eye.mount.height), shot.objects


class Room:
    """A room of the simulator, seen by the simulator's own camera, or by another.

    Args:
        split, seed: of the room.
        purpose: of the random numbers; who drives for another drives other ways.
        look: that it has.
    """

    def __init__(self, split: str, seed: int, purpose: str, look: Look) -> None:
        room = look.over(generate_room(split, seed))
        self.rng = split_rng(split, seed, purpose)
        self._xml, self.drive = room_xml(room), Drive(room, self.rng)
        self.radii = {o.name: o.radius for o in room.objects}
        self._own = RayCamera(self._xml)
        self.use(None)

    def use(self, eye: Eye | None) -> None:
        """Takes another camera; None: the simulator's own."""
        self.eye = eye or usual()[0]
        self._levelled = usual()[1] if eye is None else None
        self.camera = RayCamera(self._xml, mount=self.eye.mount, directions=directions())

    def take(self, pose: Pose, rng: np.random.Generator, camera: Camera | None = None) -> np.ndarray:
        """Level picture from a pose; ``camera``'s settings are those of another camera than the simulator's own."""
        if self._levelled is None:
            return self.shoot(pose, rng, camera).picture
        self.camera.render(*pose)
        self.camera.geom_ids[~self.eye.seen] = -1     # what is not seen is not there
        return self._levelled(self._own.render(*pose, rng))

    def shoot(self, pose: Pose, rng: np.random.Generator, camera: Camera | None = None) -> Shot:
        """Takes a level picture by another camera than the simulator's own; see :meth:`take`."""
        view, seen = self.camera, self.eye.seen
        picture, opened = view.render(*pose, None if camera else rng), 1.0
        view.geom_ids[~seen] = -1
        ids, things, objects = view.geom_ids, things_of(view, self.radii), view.ground_truth_objects()
        if camera is not None:
            light = filled(linear(picture), seen)
            opened = camera.opened(light)
            picture = camera.take(light, rng, opened)

        def again(rays: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            view.aim(rays[None])
            light = linear(view.render(*pose)[0])
            ids = view.geom_ids[0]
            view.aim(directions())
            return light, ids

        return Shot(masked(picture, seen), ids, things, objects, again, camera, opened)


class Studio:
    """Takes training clips. Each is a function of its number and the first seed, whichever are taken before.

    Clips of rooms come first, then sceneries, whose pictures stand alone.

    Args:
        rooms: how many, with the seeds from ``first_seed`` on.
        clips_per_room, frames: clips in each room, and pictures (50 ms apart) in each clip.
        scenes: sceneries, as many clips.
        split, first_seed: of the rooms.
        look: that they have.
        mounted: cameras are drawn; else all are the simulator's own.

    Raises:
        ValueError: the split is ``test``, on which nothing is trained.
    """

    layers = LAYERS

    def __init__(self, rooms: int, clips_per_room: int, frames: int, *, scenes: int = 0, split: str = "train",
                 first_seed: int = 0, look: Look = PLAIN, mounted: bool = False) -> None:
        if split == "test":
            raise ValueError("training refuses the split 'test': use 'train'")
        self.first_seed, self._split, self._per_room, self._frames = first_seed, split, clips_per_room, frames
        self._look, self._mounted, self._rooms = look, mounted, rooms
        self._count, self._open = rooms * clips_per_room + scenes, None
        self._clips: Clips | None = None
        self._taken = np.zeros(self._count, bool)

    def __len__(self) -> int:
        """Returns the number of clips."""
        return self._count

    def take(self, number: int) -> Clips:
        """One clip: pictures [frames, HEIGHT, WIDTH, 3] and labels [frames, SLOTS, COLUMNS]."""
        if self._clips is None:
            self._clips = self._arrays(lambda name, shape, kind: np.empty(shape, kind))
        kept = Clips(self._clips.images[number], Labels(*(part[number] for part in self._clips.labels)))
        if not self._taken[number]:
            for frame, (picture, labels) in enumerate(self._shots(number)):
                kept.images[frame] = picture
                for array, values in zip(kept.labels, labels):
                    array[frame] = values
            self._taken[number] = True
        return kept

    def take_all(self, progress: Progress | None = None, processes: int = 1, most: int | None = None) -> Clips:
        """All clips: pictures [clips, frames, ...] and labels [clips, frames, ...].

        Args:
            progress: of rooms, and of as many sceneries.
            processes: that take them beside each other; clips are the same to the bit, however many there are.
            most: only so many of the first clips are taken; None: all.

        Raises:
            TrainingError: a process has failed; says why.
            OSError: there is no room for the clips among temporary files, where several processes write them.
        """
        most = self._count if most is None else most
        groups = range(-(-most // self._per_room))
        if processes > 1 and not self._taken[:most].all():
            self._take_beside(groups, most, progress, processes)
        else:
            self._take(groups, most, progress)
        return self._clips

    def _take(self, groups: Sequence[int], most: int, progress: Progress | None) -> None:
        """Takes the clips of some rooms, or as many sceneries."""
        for done, group in enumerate(groups, 1):
            for number in range(group * self._per_room, min((group + 1) * self._per_room, most)):
                self.take(number)
            if progress:
                progress(done, len(groups))

    def _take_beside(self, groups: range, most: int, progress: Progress | None, processes: int) -> None:
        """Takes the clips by processes of their own, which write them into files that are this process's arrays."""
        empty, done = copy.copy(self), dict.fromkeys(map(str, range(processes)), 0)
        empty._open = empty._clips = None
        empty._taken = np.zeros(self._count, bool)

        def tell(which: str, its: int, of: int, note: str) -> None:
            done[which] = its
            if progress:
                progress(sum(done.values()), len(groups))

        with TemporaryFolder("clips") as folder:
            clips = self._arrays(partial(_mapped, Path(folder), most / self._count))
            jobs = {which: Job(_take_apart, (empty, Path(folder), which, groups[int(which)::processes], most))
                    for which in done}
            for _, made in at_once(jobs, tell, ONE_THREAD):
                if isinstance(made, Failed):
                    raise TrainingError(f"pictures cannot be taken: {made.why}")
        self._clips, self._taken = clips, np.arange(self._count) < most

    def _arrays(self, make: Callable[[str, tuple[int, ...], type], np.ndarray]) -> Clips:
        """Arrays for all clips, by who makes one of a name, a shape and a type."""
        shape, kinds, layers = (self._count, self._frames), (np.int8, np.int8, *(np.float32,) * 3), self.layers
        return Clips(make("images", (*shape, *layers.size, 3), np.uint8), Labels(*(
            make(name, (*shape, layers.slots, layers.columns), kind) for name, kind in zip(Labels._fields, kinds))))

    def _shots(self, number: int) -> Iterator[tuple[np.ndarray, Labels]]:
        which, clip = divmod(number, self._per_room)
        if which >= self._rooms:
            rng = split_rng(self._split, self.first_seed, f"vision scenery {number - self._rooms * self._per_room}")
            eye = Eye.drawn(rng)
            for _ in range(self._frames):
                yield take_scenery(rng, eye)[:2]
            return
        room = self._enter(which)
        rng = room.drive.rng = split_rng(self._split, self.first_seed + which, f"vision clip {clip}")
        start = room.drive.place(near=rng.random() < NEAR_SHARE)
        camera = None
        if self._mounted and rng.random() >= USUAL_SHARE:
            room.use(Eye.drawn(rng))
            camera = Camera.drawn(rng) if rng.random() < PHOTOGRAPHED else None
        else:
            room.use(None)
        for pose in room.drive.poses(start, self._frames):
            yield room.take(pose, rng, camera), label_columns(room.camera, room.radii)

    def _enter(self, room: int) -> Room:
        """A room; the last one is kept."""
        if self._open is None or self._open[0] != room:
            self._open = room, Room(self._split, self.first_seed + room, "vision clips", self._look)
        return self._open[1]


def _mapped(folder: Path, share: float, name: str, shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Maps a file as an array; for the first ``share`` of it there is room, or OSError is raised. 0: it is there."""
    if share:
        with open(folder / name, "wb") as file:     # a full disk would end who writes there
            os.posix_fallocate(file.fileno(), 0, math.ceil(share * math.prod(shape) * np.dtype(kind).itemsize))
    return np.asarray(np.memmap(folder / name, kind, "r+", shape=shape))


def _take_apart(studio: Studio, folder: Path, which: str, groups: Sequence[int], most: int,
                progress: Callable[[str, int, int, str], None]) -> None:
    """Takes some clips of a studio in a process of its own, into files."""
    studio._clips = studio._arrays(partial(_mapped, folder, 0.0))
    studio._take(groups, most, lambda done, of: progress(which, done, of, ""))


def make_clips(rooms: int, clips_per_room: int, frames: int, *, split: str = "train", first_seed: int = 0) -> Clips:
    """All clips of a :class:`Studio`."""
    return Studio(rooms, clips_per_room, frames, split=split, first_seed=first_seed).take_all()


def make_ways(rooms: int, frames: int, *, split: str, first_seed: int, progress: Progress | None = None,
              look: Look = PLAIN, purpose: str = "vision ways", mounted: bool = False) -> Iterator[Way]:
    """One driven way of ``frames`` pictures in each of ``rooms`` rooms, for thresholds and held-out figures.

    Who drives for another ``purpose`` drives other ways. With ``mounted``, each room is seen by a camera that is drawn.
    """
    for number in range(rooms):
        room = Room(split, first_seed + number, purpose, look)
        if mounted:
            room.use(Eye.drawn(split_rng(split, first_seed + number, "vision eye")))
        images, objects = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8), []
        poses = room.drive.poses(room.drive.place(near=False), frames)
        for frame, pose in enumerate(poses):
            images[frame] = room.take(pose, room.rng)
            objects.append(room.camera.ground_truth_objects())
        if progress:
            progress(number + 1, rooms)
        yield Way(images, objects, poses, room.eye.mount.height)


def make_scenes(number: int, *, split: str, first_seed: int) -> Iterator[Way]:
    """Pictures of sceneries, each a way of one picture."""
    for scene in range(number):
        rng = split_rng(split, first_seed + scene, "vision scene")
        eye = Eye.drawn(rng)
        picture, _, objects = take_scenery(rng, eye)
        yield Way(picture[None], [objects], (), eye.mount.height)


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training of vision.

    Attributes:
        rooms, clips_per_room, frames: clips of the simulator's rooms; see :class:`Studio`.
        scenes: sceneries.
        epochs, batch: of clips.
        rate: highest learning rate.
        by_rates: share of the steps that the spiking network learns by its neurons' rates, before it learns as it runs.
        half: layers are computed in bfloat16 while it learns, which takes half the time where the processor can.
    """

    rooms: int = 4000
    clips_per_room: int = 4
    frames: int = 1
    scenes: int = 0
    epochs: int = 13
    batch: int = 32
    rate: float = 3e-3
    by_rates: float = 0.6
    half: bool = False

    def studio(self, seed: int) -> Any:
        """Makes the source of a training's clips, by its seed: a :class:`Studio`, or something like it."""
        return Studio(self.rooms, self.clips_per_room, self.frames, scenes=self.scenes, first_seed=seed * 10_000,
                      mounted=True)
