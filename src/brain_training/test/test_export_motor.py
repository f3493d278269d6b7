# SPDX-License-Identifier: Apache-2.0
"""The motor network written as NIR, read and run by other libraries while a robot drives."""
import math

import nir
import numpy as np
import pytest
import snntorch
import torch
from snntorch.import_nir import import_from_nir

from brain_training.circuit_steps import Steps
from brain_regions.membranes import MICRO_STEP, MOST_STEPS
from brain_regions.motor import Motor, network
from brain_runtime.hosts.local import LocalHost
from brain_training import nir_files
from brain_wire import messages

LAYERS = ("first", "second", "output")
HALF = 2.0          # m, half the side of the room
TARGET, RADIUS = (1.0, 0.3), 0.15


class Recorded(Motor):
    """Keeps what its network heard and answered in each micro-step."""

    def configure(self, parameters):
        super().configure(parameters)
        self.heard, self.fired, self.answers = [], [], []

    def _think(self, currents, state, steps):
        for k in range(steps):      # one by one, so that each readout is known
            state, trains = self.policy.step(currents, state, 1)
            self.heard.append(currents)
            self.fired.append([train[0] for train in trains])
            self.answers.append(state["u"])
        return network.read(state["u"]), {name: state[name] for name in self.policy.rest()}, {}


def scan(x, y, yaw):
    """LaserScan in a square room with the target in it."""
    angles = -math.pi + np.arange(180) * 2 * math.pi / 180
    direction = np.stack([np.cos(angles + yaw), np.sin(angles + yaw)])
    with np.errstate(divide="ignore"):
        walls = np.abs(np.where(direction > 0, HALF - np.array([[x], [y]]), -HALF - np.array([[x], [y]])) / direction)
    to = np.array(TARGET) - (x, y)
    along, across = to @ direction, to[0] * direction[1] - to[1] * direction[0]
    hit = (along > 0) & (np.abs(across) < RADIUS)
    ranges = np.where(hit, along - np.sqrt(np.maximum(RADIUS ** 2 - across ** 2, 0)), walls.min(0))
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                         angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0, ranges=ranges)


@pytest.fixture(scope="module")
def driven():
    """Five seconds: it turns about, drives to a target in a room until it arrives, and is told to stop."""
    motor = Recorded("motor")
    host = LocalHost({"motor": motor})
    x = y = 0.0
    yaw, states = 2.0, []
    for tick in range(100):
        bearing = (math.atan2(TARGET[1] - y, TARGET[0] - x) - yaw + math.pi) % (2 * math.pi) - math.pi
        mode = 1 if tick < 10 else 2 if tick < 90 else 3
        host.publish("scan", scan(x, y, yaw))
        host.publish("pfc/control", messages.make(
            "brain_interfaces/msg/Control", mode=mode, heading=bearing, speed=1.0, goal_id=5,
            bearing=bearing if mode == 2 else math.nan,
            distance=math.hypot(TARGET[0] - x, TARGET[1] - y) if mode == 2 else math.nan))
        host.advance(0.05)
        twist = host.latest("motor/command").twist
        x, y = x + 0.05 * twist.linear.x * math.cos(yaw), y + 0.05 * twist.linear.x * math.sin(yaw)
        yaw += 0.05 * twist.angular.z
        states.append(host.latest("motor/status").state)
    assert math.hypot(x, y) > 0.3 and {1, 2} <= set(states)      # it moved, and arrived
    trains = {name: np.stack([fired[k] for fired in motor.fired]) for k, name in enumerate(LAYERS)}
    assert len(motor.heard) >= 99 * MOST_STEPS and all(0.005 < train.mean() < 0.5 for train in trains.values())
    return np.stack(motor.heard), trains, np.stack(motor.answers)


def run(net, heard, neurons):
    """Spikes of each layer and what the graph answers, micro-step by micro-step."""
    fired, answers, state = {name: [] for name in neurons}, [], None
    for name, module in neurons.items():
        module.register_forward_hook(lambda _, __, out, name=name: fired[name].append(
            (out[0] if isinstance(out, tuple) else out)[0].numpy()))
    with torch.inference_mode():
        for x in heard:
            answer, state = net(torch.from_numpy(x)[None], state)
            answers.append(answer[0].numpy())
    return {name: np.stack(train) for name, train in fired.items()}, np.stack(answers)


def by_population(net, kind):
    return {name.split("_", 1)[1]: module for name, module in net.named_children() if isinstance(module, kind)}


def test_snntorch_reads_the_motor_and_fires_every_spike_that_we_fire(tmp_path, driven):
    heard, trains, answers = driven
    nir_files.write(tmp_path / "motor.nir", Motor.circuit(), "snntorch")
    net = import_from_nir(nir.read(tmp_path / "motor.nir"))
    neurons = by_population(net, snntorch.Leaky)
    for neuron in neurons.values():
        neuron.reset_mechanism, neuron.state_function, neuron.reset_delay = "subtract", neuron._base_sub, True
    readout, told = neurons.pop("readout"), []
    readout.register_forward_hook(lambda *_: told.append(readout.mem[0].numpy()))
    fired, _ = run(net, heard, neurons)
    assert set(fired) == set(LAYERS)
    for name, train in trains.items():
        assert np.array_equal(fired[name], train), name
    assert np.stack(told) == pytest.approx(answers, abs=1e-5)


def test_the_file_by_nirs_definitions_holds_the_same_network(tmp_path, driven, by_definition):
    heard, trains, answers = driven
    nir_files.write(tmp_path / "motor.nir", Motor.circuit())
    net = by_definition.read(tmp_path / "motor.nir")
    neurons = by_population(net, by_definition.Neurons)
    neurons.pop("readout")
    fired, told = run(net, heard, neurons)
    for name, train in trains.items():
        assert np.array_equal(fired[name], train), name
    assert told == pytest.approx(answers, abs=1e-4)


def test_the_circuit_by_our_membranes_is_the_network(driven):
    heard, trains, answers = driven
    steps = Steps(Motor.circuit())
    found = [steps.step(x) for x in heard]
    for name, train in trains.items():
        assert np.array_equal(np.stack([f[name] for f in found]), train), name
    assert np.stack([f["readout"] for f in found]) == pytest.approx(answers, abs=1e-5)
    assert steps.circuit.h == MICRO_STEP
