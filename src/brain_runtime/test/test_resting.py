# SPDX-License-Identifier: Apache-2.0
"""Bringing to rest what a region moves: for how long it is tried, and whom it waits for."""
import time

import pytest

from brain_runtime import FEATURE, Out, Region
from brain_runtime.hosts import resting
from brain_runtime.contract.stepper import Stepper


class Wheel(Region):
    """Is at rest a moment after it was told to."""

    wheel = Out("wheel", "brain_interfaces/msg/SensorFeatures", FEATURE, alone=True)

    def come_to_rest(self, inbox, state, since):
        return {"wheel": self.wheel(source=self.name)}, since >= 0.02


@pytest.fixture
def at_rest(monkeypatch):
    """Brings a wheel to rest; the moments (s) of its commands."""
    monkeypatch.setattr(resting, "LONGEST", 0.2)

    def rest(heard_after, unheard, **more):
        begin, sent = time.monotonic(), []

        def send(published):
            sent.extend(time.monotonic() - begin for _ in published)

        resting.bring_to_rest(Stepper(Wheel("wheel")), send, (), time.monotonic, lambda: None,
                              lambda: time.monotonic() - begin >= heard_after, unheard=unheard, **more)
        return sent

    return rest


def test_nobody_who_hears_is_waited_for_no_longer_than_it_may_take(at_rest, caplog):
    assert at_rest(heard_after=60.0, unheard=0.0)
    assert "what wheel moves is not at rest" in caplog.text and "nobody hears it" in caplog.text


def test_the_last_word_is_said_until_somebody_hears_it(at_rest, caplog):
    """ROS 2 may find who listens only after seconds."""
    assert at_rest(heard_after=0.6, unheard=30.0)[-1] >= 0.6
    assert not caplog.text


def test_where_nobody_comes_the_last_word_ends_too(at_rest, caplog):
    at_rest(heard_after=60.0, unheard=0.4)
    assert "nobody hears it" in caplog.text


def test_the_last_word_goes_on_after_the_first_who_hears_it(at_rest, caplog):
    """On ROS 2 who listens knows who speaks later than that one knows him, and another may be found later still."""
    assert at_rest(heard_after=0.05, unheard=30.0, least=0.15)[-1] >= 0.2 - resting.PERIOD
    assert not caplog.text


def test_whoever_is_replaced_leaves_it_to_that_one(at_rest, monkeypatch, caplog):
    monkeypatch.setattr(resting, "SPOKEN", 0.05)
    assert at_rest(heard_after=0.0, unheard=30.0, least=60.0, replaced=lambda: True)[-1] >= 0.05 - resting.PERIOD
    assert not caplog.text      # as there is where it ends because it takes too long
