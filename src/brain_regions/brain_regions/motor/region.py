# SPDX-License-Identifier: Apache-2.0
"""Motor as a region: what is wanted and what is near in, velocity and state out, by a spiking network.

Messages become one row of numbers (:mod:`brain_regions.motor.senses`), populations that stand for them
(:mod:`brain_regions.motor.coding`), spikes and an answer (:mod:`brain_regions.motor.network`). Velocity and state are
what the output spikes say, cut to the robot's limits. Python decides only that without fresh input nothing moves.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_regions import azimuth, spike_trains
from brain_regions.lesions import Lesionable, LesionParameters
from brain_regions.membranes import MICRO_STEP, MOST_STEPS, ticks
from brain_regions.motor import coding, senses
from brain_regions.motor import network as network_file
from brain_regions.motor import weights as weight_file
from brain_regions.motor.body import (APPROACH, BLOCKED, CONTROL_TIMEOUT, FEATURES_TIMEOUT, IDLE, STANDING,
                                      STOP, TRUSTED, AnyMotor, MotorParameters)
from brain_regions.trained import Trained, TrainedParameters
from brain_runtime import FEATURE, STREAM, In, Out, parameter
from brain_runtime.contract.declared import Network, Picture, Population, Weights

SURE = 0.6              # confidence from which on an object that is not the target is something to keep clear of
STILL_LINEAR, STILL_ANGULAR = 0.02, 0.03    # shares of the top speeds below which an answer is a stop
PICTURES = (Picture("brain_eval.panels:spikes"), Picture("brain_eval.panels:velocity"))


@dataclass(frozen=True)
class PolicyMotorParameters(TrainedParameters, MotorParameters):
    """Weights, limits and distances."""


@dataclass(frozen=True)
class SpikingMotorParameters(LesionParameters, PolicyMotorParameters):
    """Limits and distances, and what happens to spikes."""

    silent: bool = parameter(False, "suppress all spikes, to measure what they contribute")


class PolicyMotor(Trained, AnyMotor):
    """Base of the spiking motor and the one of rates: senses and answers."""

    Parameters = PolicyMotorParameters

    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), key="source",
                 device=True)

    def initial_state(self):
        """``slow``: gaps (m) as they were lately; ``last``: last answer; ``left``: s too short for a micro-step."""
        return {"slow": np.full(azimuth.BINS, np.nan, np.float32), "last": np.zeros(3, np.float32),
                "left": np.zeros(1, np.float32), "excess": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        """One answer to what there is now."""
        control = inbox.get("control", within=CONTROL_TIMEOUT)
        scan, why = self.scanned(inbox)
        if control is None or scan is None:
            return self.messages(control, (0.0, 0.0), STANDING, math.nan,
                                 why if control is not None else "no fresh control"), self.initial_state()
        row, new, clearance = self._sense(inbox, control, scan, state, dt)
        first = np.isnan(state["slow"][0])
        time = ticks(dt, float(state["left"][0]))
        steps = MOST_STEPS if first else time.steps
        answer, membranes, outbox = self._think(coding.encode(row), state, steps)
        linear, angular, kind = float(answer.linear), float(answer.angular), int(answer.state)
        p = self.parameters
        linear = 0.0 if abs(linear) < STILL_LINEAR else min(max(linear, -0.3), 1.0)
        angular = 0.0 if abs(angular) < STILL_ANGULAR else min(max(angular, -1.0), 1.0)
        most = p.turn_speed if row[senses.SPEED] < 0.02 else p.max_angular
        velocity = linear * p.max_linear, min(max(angular * p.max_angular, -most), most)
        new |= {**membranes, "last": np.array([linear, angular, kind], np.float32),
                "left": np.array([0.0 if first else time.left], np.float32),
                "excess": state["excess"] + np.float32(0 if first else time.excess)}
        reason = "no way on in the wanted direction" if kind == BLOCKED else (
            "no heading" if control.mode not in (IDLE, STOP) and math.isnan(row[senses.HEADING]) else "")
        return outbox | self.messages(control, velocity, kind, clearance, reason), new

    def _think(self, currents, state, steps):
        """The answer, the state of the network, and what else is published."""
        raise NotImplementedError(f"{type(self).__name__} must define _think()")

    # -- input -----------------------------------------------------------------------------------------------------

    def _sense(self, inbox, control, scan, state, dt):
        """The row of senses, the state of the senses, and the clearance ahead (m)."""
        p, s = self.parameters, senses
        mode = int(control.mode)
        target = mode == APPROACH and math.isfinite(control.bearing) and math.isfinite(control.distance) \
            and control.distance > 0
        bearing, distance = (float(control.bearing), float(control.distance)) if target else (math.nan, math.nan)
        angles, distances, count, kept = self._points(inbox, control, scan)
        # what is to be kept away from may reach up to the target, but is none of it: the ring holds all of that, as it
        # did in training, and only beams tell how far the target is
        own = s.of_target(angles, distances, bearing, distance)
        own[kept:] = False
        bins = np.rint(angles / azimuth.WIDTH).astype(int) % azimuth.BINS
        margin = p.margin - type(p).margin
        gaps = s.ring(bins, np.where(own, np.inf, distances - p.radius - margin))
        slow = gaps if np.isnan(state["slow"][0]) else state["slow"]
        turn = float(state["last"][1]) * p.max_angular * min(dt, 0.2)
        closing, slow = s.shrunk(gaps, slow, turn, min(dt, 0.2))
        row = np.empty(s.SIZE, np.float32)
        row[s.GAP], row[s.SHRUNK] = gaps, closing
        heading = float(control.heading)
        row[s.HEADING] = azimuth.wrap(heading) if math.isfinite(heading) and mode not in (IDLE, STOP) else math.nan
        row[s.SPEED] = min(max(float(np.nan_to_num(control.speed)), 0.0), 1.0)
        row[s.MODE] = mode if mode < coding.MODES else IDLE
        row[s.BEARING], row[s.DISTANCE] = azimuth.wrap(bearing), distance
        row[s.TARGET_GAP] = s.target_gap(angles[:count], distances[:count], bearing, distance) - p.radius - p.stop_gap
        row[s.LAST_LINEAR:s.LAST_STATE + 1] = state["last"]
        row[s.MAX_LINEAR:] = max(p.max_linear, 0.01), p.max_angular, p.braking, p.radius
        return row, {"slow": slow}, self._clearance_ahead(angles, distances)

    def _points(self, inbox, control, scan):
        """Everything solid that is told of: angles (rad) and distances (m) from the base's center, the scan's first.

        Then how many are the scan's, and how many come before those of what is to be kept away from.
        """
        p = self.parameters
        angles, distances = scan.hits()
        found = [(angles, distances)]
        for received in inbox.each("features", FEATURES_TIMEOUT):
            if received.message.confidence >= TRUSTED:
                found.append(_polar(azimuth.hazard_points(azimuth.sound_map(received.message.hazard), p.radius)))
        for received in inbox.each("objects", FEATURES_TIMEOUT):
            seen = [(o.bearing, o.distance - senses.LEAST_RADIUS) for o in received.message.objects
                    if o.confidence >= SURE and math.isfinite(o.bearing) and 0 < o.distance < 2.0]
            if seen:
                found.append(tuple(np.array(seen, np.float32).T))
        kept = sum(len(part) for part, _ in found)
        found.append(_polar(azimuth.hazard_points(azimuth.sound_map(control.hazard), p.radius)))
        return *(np.concatenate(values) for values in zip(*found)), len(angles), kept

    def _clearance_ahead(self, angles, distances) -> float:
        x, y = distances * np.cos(angles), np.abs(distances * np.sin(angles))
        ahead = (x > 0) & (y < self.parameters.radius)
        if not ahead.any():
            return math.inf
        return max(0.0, float((x[ahead] - np.sqrt(self.parameters.radius ** 2 - y[ahead] ** 2)).min()))


def _polar(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angles (rad) and distances (m) of points float32[n, 2]."""
    return np.arctan2(points[:, 1], points[:, 0]), np.hypot(points[:, 0], points[:, 1])


class Motor(PolicyMotor, Lesionable):
    """The spiking network of :mod:`brain_regions.motor.network`."""

    Parameters = SpikingMotorParameters
    network = Network("brain_training.definitions.motor:MotorNetwork", work=("policy.step",))
    weights = Weights(weight_file.SHIPPED.parent, weight_file.SHIPPED.stem)
    populations = (
        Population(network_file.NAMES[0], (network_file.LAYERS[1],), ("neuron",), told=False),
        Population(network_file.NAMES[1], (network_file.LAYERS[2],), ("neuron",), told=False),
        Population(network_file.NAMES[2], (network_file.OUTPUTS,), ("neuron",), rate="motor/output", parts={
            "speed": network_file.LINEAR, "turn": network_file.ANGULAR,
            **dict(zip(("moving", "arrived", "blocked"), network_file.STATES))}))
    baselines = {"ann": "brain_eval.baselines.ann_motor:AnnMotor",
                 "conventional": "brain_eval.baselines.dynamic_window_motor:DynamicWindowMotor"}
    ablations = {"silent": {"silent": True}}
    task = "brain_training.motor:MotorTask"
    pictures = PICTURES

    spike_train = Out("brain/spikes", "brain_interfaces/msg/SpikeTrain", STREAM, on_demand=True,
                      gated=spike_trains.GATED)

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        loaded = weight_file.load(path)
        self.policy, self.weights_hash = network_file.SpikingPolicy(loaded.tensors), loaded.digest

    @staticmethod
    def circuit():
        """The network with the shipped weights, for other simulators: a :class:`brain_regions.circuits.Circuit`.

        Raises:
            WeightsError: the weight file does not fit.
        """
        return network_file.circuit(weight_file.load().tensors)

    def initial_state(self):
        """Potentials at rest, and the senses' state."""
        return super().initial_state() | self.policy.rest()

    def snapshot_metadata(self):
        """A snapshot fits only the weights it was made with."""
        return {"weights": self.weights_hash, "h": repr(MICRO_STEP), "input": coding.INPUT_SCALING}

    def step(self, inbox, state, dt, rng):
        """One answer to what there is now."""
        self._lesions.draw_by(rng)
        return super().step(inbox, state, dt, rng)

    def _think(self, currents, state, steps):
        new, trains = self.policy.step(currents, state, steps, self.parameters.silent, self._lesions)
        spikes, synops = self.policy.cost(trains)
        self.count(spikes=spikes, synops=synops, multiplies=self.policy.multiplies if steps else 0,
                   updates=sum(network_file.LAYERS[1:]) * steps)
        outbox = {}
        if "spike_train" in self.wanted and steps:
            bins, neurons = np.nonzero(trains[-1])
            outbox["spike_train"] = self.spike_train(
                population=f"{self.name}/output", size=network_file.OUTPUTS, bin_width=MICRO_STEP, total=len(bins),
                neuron=neurons[:spike_trains.MOST], bin=bins[:spike_trains.MOST])
        return network_file.read(new["u"]), {name: new[name] for name in self.policy.rest()}, outbox
