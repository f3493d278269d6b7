# SPDX-License-Identifier: Apache-2.0
"""Twice what it hears, as a region: the same file on ZenohHost, RosHost, TorchHost and LocalHost."""
from brain_runtime import In, Out, Region


class Doubler(Region):
    """Twice what it hears."""

    number = In("bench/number", "std_msgs/msg/Float32", trigger=True, device=True)
    doubled = Out("bench/doubled", "std_msgs/msg/Float32")

    def step(self, inbox, state, dt, rng):
        return {"doubled": self.doubled(data=2.0 * inbox.get("number").data)}, state
