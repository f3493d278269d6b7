# SPDX-License-Identifier: Apache-2.0
"""Pictures of a camera that sends them compressed only, as ``camera/image_raw``: a plug-in region.

``brain run brain_observe.uncompressed:Uncompressed`` beside a brain; it hears ``camera/image_raw/compressed`` (JPEG or
PNG, as image_transport sends them). What is no picture is left out and told in the heartbeat.
"""
from __future__ import annotations

from brain_runtime.contract.pictures import PictureError, unpacked
from brain_runtime import SENSOR, In, Out, Region


class Uncompressed(Region):
    """Unpacks each picture; frame and stamp stay."""

    packed = In("camera/image_raw/compressed", "sensor_msgs/msg/CompressedImage", SENSOR, trigger=True, device=True)
    image = Out("camera/image_raw", "sensor_msgs/msg/Image", SENSOR, stamp_from="packed")

    def step(self, inbox, state, dt, rng):
        """One picture."""
        message = inbox.get("packed")
        if not inbox.new("packed"):
            return {}, state
        try:
            picture = unpacked(bytes(message.data), message.format)
        except PictureError as error:
            self.trouble = f"a picture is left out: {error}"
            return {}, state
        self.trouble = ""
        rows, columns, _ = picture.shape
        return {"image": self.image(header=message.header, height=rows, width=columns, encoding="rgb8",
                                    step=3 * columns, data=picture.reshape(-1))}, state
