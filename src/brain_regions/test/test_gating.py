# SPDX-License-Identifier: Apache-2.0
"""Which outputs may wait for an energy budget, what of them never does, and how a spike train is cut."""
import math

import numpy as np
import pytest

from brain_regions import spike_trains
from brain_regions.brainstem import Brainstem
from brain_regions.goals import Goals
from brain_regions.language import Language
from brain_regions.motor import Motor
from brain_regions.pfc import PrefrontalCortex
from brain_regions.place import Place
from brain_regions.vision import Vision
from brain_regions.sensed import make
from brain_runtime.contract.energy import Gate
from brain_wire import messages

REGIONS = (Vision, Language, Place, PrefrontalCortex, Goals, Motor, Brainstem)
MAY_WAIT = {"vision/objects", "brain/spikes", "place/headings", "sensor/features", "pfc/control", "motor/status",
            "brain/trace"}


def hazard(value):
    bins = np.zeros(36, np.float32)
    bins[7] = value
    return bins


def test_what_is_told_or_commanded_never_waits():
    """Goals, the understanding of them, commands and the emergency stop are in no list of what may wait."""
    gated = {port.topic for region in REGIONS for port in region.outputs().values() if port.gated is not None}
    assert gated == MAY_WAIT
    assert {"goal/text", "lang/features", "goal/status", "motor/command", "cmd_vel", "estop/status"} <= {
        port.topic for region in REGIONS for port in region.outputs().values()} - gated


@pytest.mark.parametrize(("port", "message", "urgent"), [
    (PrefrontalCortex.control, make("Control", mode=3), True),
    (PrefrontalCortex.control, make("Control", mode=0), True),
    (PrefrontalCortex.control, make("Control", mode=1), False),
    (PrefrontalCortex.control, make("Control", mode=2, hazard=hazard(0.01)), True),
    (PrefrontalCortex.control, make("Control", mode=2, hazard=hazard(math.nan)), False),
    (PrefrontalCortex.control, make("Control", mode=4), True),
    (PrefrontalCortex.control, make("Control", mode=9), True),
    (Place.features, make("SensorFeatures", hazard=hazard(0.2)), True),
    (Place.features, make("SensorFeatures", novelty=hazard(1.0)), False),
    *((Brainstem.trace, make("Trace", action=action), action > 1) for action in range(6)),
])
def test_stops_and_hazards_are_urgent(port, message, urgent):
    assert port.gated.urgent(message) is urgent


def test_a_starved_account_lets_every_stop_and_hazard_pass():
    gate, port = Gate(1.0), PrefrontalCortex.control
    for n in range(300):
        approach, stop = make("Control", mode=2), make("Control", mode=3)
        near = make("Control", mode=2, hazard=hazard(0.5))
        gate.offer(port, approach, 0.001 * n)
        assert gate.offer(port, stop, 0.001 * n).message is stop and gate.offer(port, near, 0.001 * n).message is near
    assert gate.traffic["pfc/control"].gated > 250


def seen(bearing, **more):
    return make("DetectedObjects", objects=[make("DetectedObject", color=1, shape=1, bearing=bearing, **more)])


def test_what_looks_the_same_is_no_news():
    gist = Vision.objects.gated.gist
    assert gist(seen(0.5, distance=1.0)) == gist(seen(0.505, distance=1.01, confidence=0.3))
    assert len({gist(seen(0.5, distance=1.0)), gist(seen(0.7, distance=1.0)), gist(seen(0.5, distance=1.4)),
                gist(seen(0.5, distance=math.nan)), gist(make("DetectedObjects"))}) == 5
    wanted = PrefrontalCortex.control.gated.gist
    assert wanted(make("Control", mode=1, heading=math.nan)) == wanted(make("Control", mode=1, heading=math.nan))
    assert wanted(make("Control", goal_id=1)) != wanted(make("Control", goal_id=2))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.99, 1.0])
def test_a_spike_train_is_thinned_evenly_and_keeps_its_last_spike(share):
    bins = np.repeat(np.arange(10), 100)
    train = make("SpikeTrain", population="vision/edges", size=100, bin_width=0.005, total=2000, bin=bins,
                 neuron=np.tile(np.arange(100), 10))
    thin = spike_trains.thinned(train, share)
    assert (thin.total, thin.size, thin.population) == (2000, 100, "vision/edges")
    assert len(thin.neuron) == len(thin.bin) == max(1, int(share * 1000))
    assert thin.bin[-1] == 9 and thin.neuron[-1] == 99 and (np.diff(thin.bin.astype(int)) >= 0).all()
    counts = np.bincount(thin.bin, minlength=10)
    assert counts.max() - counts.min() <= 1
    assert messages.decode(messages.encode(thin), "brain_interfaces/msg/SpikeTrain").total == 2000


def test_an_empty_spike_train_stays_as_it_is():
    train = make("SpikeTrain", population="vision/edges", size=100, total=0)
    assert spike_trains.thinned(train, 0.0) is train
