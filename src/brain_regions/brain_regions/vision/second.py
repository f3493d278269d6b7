# SPDX-License-Identifier: Apache-2.0
"""The larger network that :class:`.joint.JointVision` asks, as a region that runs wherever it is fast enough.

Each picture is looked at alone, by a network at rest: pictures of several robots, or of one with gaps between them,
have nothing to do with each other. It integrates for as long as vision does at its first picture.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from brain_regions.trained import DEVICES, Trained, TrainedParameters
from brain_regions.vision import decode, network as network_file, opinions, weights as weight_file
from brain_regions.vision.region import FIRST_STEPS
from brain_runtime import FEATURE, SENSOR, In, Out, parameter
from brain_runtime.contract import images
from brain_runtime.contract.declared import Network, Weights
from brain_wire.messages import make
from brain_wire.rate_limited_log import RateLimitedLog

SIZE = (network_file.HEIGHT, network_file.WIDTH, 3)
limited_log = RateLimitedLog(logging.getLogger(__name__))


@dataclass(frozen=True)
class SecondParameters(TrainedParameters):
    """Thresholds of what is told."""

    confidence: float = parameter(-1.0, "from which on the network sees an object; in an answer that is 0.5; below 0: "
                                        "the threshold of the weight file", low=-1.0, high=1.0)
    nearly: float = parameter(0.1, "confidence in an answer from which on objects are in it: whoever puts several "
                                   "answers together can use what is nearly seen", low=0.01, high=1.0)


class SecondVision(Trained):
    """Answers hard pictures, one by one, each from rest. Its weights may be those of a wider vision.

    Confidences in its answers are scaled, so that 0.5 is where it sees an object, whatever its threshold is.
    """

    Parameters = SecondParameters
    network = Network("brain_regions.vision.network:Looking", work=("_looking.look",), limit=50.0,
                      devices=DEVICES)
    weights = Weights(weight_file.SHIPPED.parent, weight_file.SHIPPED.stem)
    task = "brain_training.vision:VisionTask"

    hard = In("vision/hard", "sensor_msgs/msg/Image", SENSOR, trigger=True, device=True)
    second = Out("vision/second", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="hard")

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`. The file may be that of any size of vision."""
        times = weight_file.factor(path)
        loaded = weight_file.load(path, times=times)
        threshold = weight_file.threshold(path, loaded)
        self._looking = network_file.Looking(loaded.tensors, network_file.widened(times), device)
        self._threshold, self.weights_hash = threshold, loaded.digest

    @staticmethod
    def circuit():
        """The network with the shipped weights, for other simulators: a :class:`brain_regions.circuits.Circuit`."""
        return network_file.circuit(weight_file.load().tensors)

    def step(self, inbox, state, dt, rng):
        """Looks at a new picture."""
        message = inbox.get("hard")
        if message is None or not inbox.new("hard"):
            return {}, state
        try:
            picture = images.rgb(message)
            if picture.shape != SIZE:
                raise ValueError(f"it has {picture.shape[1]} x {picture.shape[0]} pixels, and level pictures "
                                 f"{SIZE[1]} x {SIZE[0]}; whoever asks runs another release")
        except ValueError as wrong:
            limited_log("picture", f"vision/hard is not looked at: {wrong}")
            return {}, state
        return {"second": self._answer(picture)}, state

    def _answer(self, picture) -> Any:
        looked = self._looking.look(picture, self._looking.rest(), FIRST_STEPS)
        self.count(spikes=looked.spikes, synops=looked.synops, multiplies=self._looking.multiplies,
                   updates=self._looking.neurons * FIRST_STEPS)
        threshold = self._threshold if self.parameters.confidence < 0 else self.parameters.confidence
        decoded = opinions.scaled(decode.decode(looked.state["u"].T, 1.0), threshold)     # in heights of the camera
        found = [make("brain_interfaces/msg/DetectedObject", color=seen.color + 1, shape=seen.shape + 1,
                      confidence=seen.confidence, bearing=seen.bearing, distance=seen.distance,
                      width=seen.width) for seen in decoded if seen.confidence >= self.parameters.nearly]
        message = self.second(source=self.name, objects=found[:32])
        message.header.frame_id = "camera"
        return message
