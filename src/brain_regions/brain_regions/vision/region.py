# SPDX-License-Identifier: Apache-2.0
"""Vision as a region: pictures in, objects and spikes out. Membrane potentials carry from picture to picture."""
from __future__ import annotations

import importlib
import logging
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_regions import spike_trains
from brain_regions.body import Body
from brain_regions.lesions import Lesionable, LesionParameters
from brain_regions.lidars import Lidars, Scanning, Scans
from brain_regions.past import Past
from brain_regions.picture_watch import PictureWatch
from brain_regions.trained import DEVICES, Trained, TrainedParameters
from brain_regions.vision import decode, fovea, levelling, network as network_file, weights as weight_file
from brain_regions.vision.lessons import Lessons
from brain_regions.vision.network import LAYERS, MICRO_STEP, sizes
from brain_regions.vision.tilting import Tilting
from brain_runtime.contract import images, sights
from brain_runtime import FEATURE, SENSOR, STREAM, In, Out, ParameterError, clip_utf8, parameter
from brain_runtime.contract.camera_mount import CameraMount, CameraParameters, Mounted
from brain_runtime.contract.declared import Network, Picture, Population, Split, Weights
from brain_runtime.contract.images import Lens
from brain_runtime.contract.odometry import Odometry
from brain_runtime.contract.optics import Mount, OpticsError
from brain_wire.messages import time_seconds

log = logging.getLogger(__name__)

SPLIT = "brain_collectives.split_vision"    # what spreads the network over processes
MOST_STEPS = 9              # micro-steps in one call
FRESH = 0.5                 # s, age of odometry that tells how the robot moves
FIRST_STEPS = 9             # at the first picture, before which no time is known
CHANNELS = ("channel", "row", "column")     # axes of the populations; columns of the picture stay columns


@dataclass(frozen=True)
class VisionParameters(LesionParameters, TrainedParameters, Body, CameraParameters):
    """Choice of what is told, and place of the camera."""

    confidence: float = parameter(-1.0, "objects less sure are not told; below 0: the threshold of the weight file",
                                  low=-1.0, high=1.0)
    spikes: bool = parameter(True, "publish spikes")
    silent: bool = parameter(False, "suppress all spikes, to measure what they contribute")
    fovea: bool = parameter(True, "look again, closely, at what is found, where the camera shows more than a level "
                                  "picture")


class Camera(NamedTuple):
    """A camera that took a picture: how the network looks through it, its lens, and where it is on the base."""

    sight: levelling.Sight
    lens: Lens
    mount: Mount


class Vision(Trained, Lesionable, Scanning):
    """The spiking network of :mod:`brain_regions.vision.network`."""

    Parameters = VisionParameters
    network = Network("brain_regions.vision.network:Looking", work=("_looking.look",), limit=3.0, devices=DEVICES)
    weights = Weights(weight_file.SHIPPED.parent, weight_file.SHIPPED.stem)
    populations = tuple(Population(layer.name, shape, CHANNELS, rate=layer.name)
                        for layer, shape in zip(LAYERS, sizes()))
    baselines = {"ann": "brain_eval.baselines.ann_vision:AnnVision",
                 "conventional": "brain_eval.baselines.color_vision:ColorVision"}
    ablations = {"silent": {"silent": True}, "confused": "brain_eval.baselines.confused_vision:ConfusedVision",
                 "late": "brain_eval.baselines.late_vision:LateVision"}
    split = Split(f"{SPLIT}:serve", most=16)    # columns that the narrowest layer has
    task = "brain_training.vision:VisionTask"
    pictures = (Picture("brain_eval.panels:picture"),)

    image = In("camera/image_raw", "sensor_msgs/msg/Image", SENSOR, trigger=True, device=True)
    camera_info = In("camera/camera_info", "sensor_msgs/msg/CameraInfo", SENSOR, device=True)
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    # which tell how the camera is mounted, where nobody does, and nothing of what it sees
    scan, second_scan = (replace(port, origin=False) for port in (Scanning.scan, Scanning.second_scan))

    objects = Out("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="image",
                  gated=sights.GATED)
    spike_train = Out("brain/spikes", "brain_interfaces/msg/SpikeTrain", STREAM, stamp_from="image",
                      gated=spike_trains.GATED)

    def configure(self, parameters) -> None:
        """Loads the weights.

        Raises:
            ParameterError, WeightsError: a parameter or the weight file does not fit.
        """
        self._looking: Any = None
        self._taught = Lessons(self.storage is not None)    # hosts in lockstep keep nothing
        super().configure(parameters)
        self._complained: set[str] = set()
        self._watch, self._odometry, self._past = PictureWatch(), Odometry(), Past()
        self._camera_mount, self._lidars, self._tilting = CameraMount(), Lidars(), Tilting(self.storage is not None)
        self._seen = np.zeros((0, 0, 3), np.uint8)      # picture of the camera that is looked at
        self._also: list[decode.Found] = []     # taught things in the picture

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        loaded = weight_file.load(path)
        threshold, made = weight_file.threshold(path, loaded), network_file.Looking(loaded.tensors, device=device)
        if self.shards is not None:
            made = self._split(loaded.tensors, made, (path, loaded.digest))
        self._looking, self._threshold, self.weights_hash = made, threshold, loaded.digest
        self._taught.use(loaded.tensors)
        self._fovea = fovea.Fovea()

    def _split(self, tensors, whole, source):
        """The network spread over this region's processes, once that was found to answer what the whole one does."""
        split = importlib.import_module(SPLIT)
        if self.parameters.device != "cpu":
            raise ParameterError(f"parameter device of {self.name} is {self.parameters.device}, but a network that is "
                                 f"spread over processes computes on cpu alone; set it to cpu, or take `shards` away")
        if isinstance(self._looking, split.SplitLooking):
            self._looking.settle()
        try:
            made = split.SplitLooking(tensors, self.shards.exchange(), source)
            made.check(whole)
        except split.SplitError as error:
            raise ParameterError(f"{self.name}: {error}") from error
        return made

    @staticmethod
    def circuit():
        """The network with the shipped weights, for other simulators: a :class:`brain_regions.circuits.Circuit`.

        Raises:
            WeightsError: the weight file does not fit.
        """
        return network_file.circuit(weight_file.load().tensors)

    def initial_state(self):
        """Potentials of a network that has seen nothing; see :meth:`.network.Looking.rest`.

        ``left``: time that was too short for a micro-step (s); ``excess``: micro-steps that were left out so far;
        ``frames``: pictures so far.
        """
        return {**self._looking.rest(), **{n: np.zeros(1, np.float32) for n in ("left", "excess", "frames")}}

    def snapshot_metadata(self):
        """A snapshot fits only the weights it was made with."""
        return {"weights": self.weights_hash, "h": repr(MICRO_STEP), "input": network_file.INPUT_SCALING}

    def step(self, inbox, state, dt, rng):
        """Looks at a new picture for as long as has passed."""
        seen = self._see(inbox)
        if seen is None:
            return {}, state
        picture, camera = seen
        self._lesions.draw_by(rng)
        first = state["frames"][0] == 0
        whole = FIRST_STEPS if first else int((dt + float(state["left"][0])) / MICRO_STEP + 1e-6)
        steps = min(whole, MOST_STEPS)
        left = 0.0 if first or whole > MOST_STEPS else dt + float(state["left"][0]) - whole * MICRO_STEP
        new, trains, spikes, synops = self._looking.look(picture, state, steps, self.parameters.silent,
                                                         self._lesions)
        self._also = self._taught.find(picture, trains, new["u"].T, camera.mount.height) if steps else []
        new = dict(new)     # which is the old state where no micro-step fits
        self.count(spikes=spikes, synops=synops, multiplies=self._looking.multiplies if steps else 0,
                   updates=self._looking.neurons * steps)
        frames = float(state["frames"][0]) % 2 ** 20 + 1
        new["left"] = np.array([max(left, 0.0)], np.float32)
        new["excess"] = state["excess"] + max(whole - MOST_STEPS, 0)
        new["frames"] = np.array([frames], np.float32)
        # in a picture of nothing the network has learnt to find nothing in particular
        outbox = {"objects": self._objects(self._votes(None if self._watch.plain else new["u"].T, camera), camera)}
        if self.parameters.spikes and steps:
            outbox["spike_train"] = self._spikes(trains, int(frames) % len(trains))
        return outbox, new

    # -- input -----------------------------------------------------------------------------------------------------

    def _see(self, inbox) -> tuple[np.ndarray, Camera] | None:
        """uint8 [HEIGHT, WIDTH, 3] of a new Image of any size, and the camera.

        None where there is no new one, and, with a warning, where it is refused.
        """
        self._camera_mount.hear(inbox)
        scans = self._lidars.take(inbox, self.parameters, FRESH)
        message = inbox.get("image")
        if message is None or not inbox.new("image"):
            return None
        info, view = inbox.get("camera_info"), self.parameters.field_of_view
        self.trouble = ""
        try:
            picture = images.rgb(message)
            lens = images.lens(info, (message.width, message.height), view, self.parameters.rectified)
        except images.LensError as wrong:
            return self._complain(f"camera/camera_info is refused: {wrong}; correct the driver's calibration")
        except ValueError as wrong:
            return self._complain(f"camera/image_raw is refused: {wrong}; publish rgb8 pictures of at least 16 x 16 "
                                  f"pixels")
        if info is not None and info.k[0] == 0.0:
            self._complain(f"camera/camera_info is uncalibrated: field_of_view ({math.degrees(view):.0f} degrees) is "
                           f"taken")
        pose, then = self._odometry.pose(inbox, FRESH), None
        if pose is not None:
            self._past.put(self._odometry.stamp, pose)
            then = self._past.at(time_seconds(message.header.stamp))
        mount, doubt, self.careful = self._mounted(message, picture, lens, scans)
        upright = np.rot90(picture, -round(mount.roll / (math.pi / 2)))
        # how far things moved tells something only where it is known when
        if why := self._watch.take(upright, then or pose, inbox.now, then and lens.focal / upright.shape[1]):
            return self._complain(f"camera/image_raw is refused: {why}")
        try:
            sight = levelling.sight(lens, mount.pitch, mount.roll)
        except OpticsError as wrong:
            return self._complain(f"camera/image_raw is refused: {wrong}")
        if doubt:
            self._complain(doubt)
        self._seen = picture
        return sight.level(picture), Camera(sight, lens, mount)

    def _mounted(self, message: Any, picture: np.ndarray, lens: Lens, scans: Scans) -> Mounted:
        """Mounting of the camera; where nobody tells it, what walls and scans show."""
        told = self._camera_mount.of(self.parameters, message.header.frame_id, self.parameters.base_frame)
        if not told.guessed:
            return told
        self._tilting.take(picture, time_seconds(message.header.stamp), lens, scans, self._past)
        return self._tilting.better(told)

    def _complain(self, what: str) -> None:
        self.trouble = clip_utf8(what, 256)
        if what not in self._complained and len(self._complained) < 20:
            self._complained.add(what)
            log.warning("%s", what)

    # -- output ----------------------------------------------------------------------------------------------------

    def _votes(self, answer: np.ndarray | None, camera: Camera) -> list[decode.Vote] | None:
        """Objects in what the network answered to the picture that is seen, looked at again; of nothing None."""
        if answer is None:
            return None
        if not self.parameters.fovea:
            return decode.votes(answer)
        closer = self._fovea.votes(answer, self._seen, camera.lens, camera.mount, self.parameters.silent)
        self.count(spikes=closer.spikes, synops=closer.synops, multiplies=self._fovea.multiplies * closer.glances,
                   updates=self._fovea.neurons * fovea.STEPS * closer.glances)
        return closer.found

    def _objects(self, votes: list[decode.Vote] | None, camera: Camera) -> Any:
        return self._told(self._sure_of(votes, camera), camera)

    def _sure_of(self, votes: list[decode.Vote] | None, camera: Camera) -> list[decode.Found]:
        """Objects that are told; what is sure by its color alone is one of any shape. None: a picture of nothing."""
        if votes is None:
            return []
        found = decode.named(votes, camera.mount.height, self._least)
        return [one for one in found if one.confidence >= self._least] + self._also

    @property
    def _least(self) -> float:
        """Confidence below which objects are not told."""
        return self._threshold if self.parameters.confidence < 0 else self.parameters.confidence

    def _told(self, objects: Sequence[decode.Found], camera: Camera) -> Any:
        """DetectedObjects of what the camera sees."""
        (sight, _, mount), found = camera, []
        for seen in objects:
            # from the camera to base_link
            angle = seen.bearing + mount.yaw
            if math.isnan(seen.distance):
                found.append(self._object(seen, math.remainder(angle, 2 * math.pi), math.nan))
                continue
            x, y = mount.x + seen.distance * math.cos(angle), mount.y + seen.distance * math.sin(angle)
            found.append(self._object(seen, math.atan2(y, x), math.hypot(x, y)))
        found.sort(key=lambda o: o.distance if math.isfinite(o.distance) else math.inf)
        message = self.objects(source=self.name, azimuth_min=mount.yaw + sight.right,
                               azimuth_max=mount.yaw + sight.left, objects=found[:32])
        message.header.frame_id = self.parameters.base_frame
        return message

    @staticmethod
    def _object(seen, bearing: float, distance: float) -> Any:
        from brain_wire.messages import make

        return make("brain_interfaces/msg/DetectedObject", color=seen.color + 1, shape=seen.shape + 1,
                    confidence=min(seen.confidence, 1.0), bearing=bearing, distance=distance, width=seen.width)

    def _spikes(self, trains, number: int) -> Any:
        """Spikes of one layer, a different one with each picture."""
        train = trains[number].transpose(0, 3, 1, 2)      # neurons are numbered by channel, row and column
        size = train[0].size
        found = np.flatnonzero(train)
        total = len(found)
        if total > spike_trains.MOST:   # evenly thinned, so that none of the bins is favored
            found = found[np.linspace(0, total - 1, spike_trains.MOST).astype(int)]
        bins, neurons = np.divmod(found, size)
        return self.spike_train(population=f"{self.name}/{LAYERS[number].name}", size=size,
                                bin_width=MICRO_STEP, total=total, neuron=neurons, bin=bins)
