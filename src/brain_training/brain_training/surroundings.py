# SPDX-License-Identifier: Apache-2.0
"""Pictures of what taught things are told from; see :mod:`brain_regions.vision.taught`.

``python -m brain_training.surroundings`` writes the file that ships: level pictures of sceneries of val, and of rooms.
"""
from __future__ import annotations

import numpy as np

from brain_regions.vision.network import HEIGHT, WIDTH
from brain_regions.vision.taught import SURROUNDINGS
from brain_sim.photography import Camera
from brain_sim.room import split_rng
from brain_training.looks import PLAIN
from brain_training.vision_data import Eye, Room, take_scenery

SCENES, ROOMS = 26, 6       # pictures
FIRST = 900_000             # seed, which nothing else is taken from


def pictures() -> np.ndarray:
    """Level pictures uint8 [pictures, HEIGHT, WIDTH, 3], without noise, which would make a large file."""
    clear, found = Camera(noise=(0.0, 0.0)), []
    for number in range(SCENES):
        rng = split_rng("val", FIRST + number, "vision surroundings")
        found.append(take_scenery(rng, Eye.drawn(rng), camera=clear)[0])
    for number in range(ROOMS):
        room = Room("val", FIRST + number, "vision surroundings", PLAIN)
        room.use(Eye.drawn(room.rng))
        found.append(room.take(room.drive.place(near=False), room.rng, clear))
    return np.stack(found)


def main() -> None:
    """Writes the file."""
    from PIL import Image

    Image.fromarray(pictures().reshape(-1, WIDTH, 3)).save(SURROUNDINGS, optimize=True)
    print(f"{SURROUNDINGS}: {SCENES + ROOMS} pictures of {WIDTH} x {HEIGHT}, {SURROUNDINGS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
