# SPDX-License-Identifier: Apache-2.0
"""Input of a hostile or broken peer: sound bytes, texts and messages, changed so that something is wrong.

Everything is drawn from a ``random.Random``, so that a test can be repeated, and hypothesis can draw it too
(``hypothesis.strategies.randoms()``).
"""
from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
from brain_wire.definitions import Nodetype

from brain_wire import cdr, messages

FLOATS = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 3.5e38, 3.4e38, -3.4e38, 1e20, 1e-320,
          1e9)
NUMBERS = (0, 1, 2, 3, 5, 7, 127, 128, 200, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
TEXTS = ("", "x", "go to the red ball", "赤いボールに行って", "/vision", "pfc", "camera/image_raw", "rgb8", "lidar",
         "[/nope]", "\x00", "\x1b[2J\x07", "\u202e\ufeff", "a" * 200, "é" * 80, "%s{0}", "../../x", "9" * 300, "\x18")
PIECES = ("", "%", "%%", "/", "0", "-1", "9" * 5000, "4294967296", "\u0663", "\x00", "\x1b[2J", "\ud800",
          "a" * 70000, "**", "$*", "NN", "MP", "MS", "SS", "SC", ":", ",", "::,10:,:,:,,", "1e9", "0x10", " ", "é",
          "@adv", "RIHS01_", ".")


def changed_bytes(draw: random.Random, data: bytes, resize: bool = True) -> bytes:
    """Bytes with one to four things wrong: bits, lengths, parts that are missing, twice there, or something else.

    Args:
        resize: there may be more bytes or fewer afterwards.
    """
    data = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        size = len(data)
        at = draw.randrange(size) if size else 0
        kind = draw.choice(range(8) if resize else (0, 1))
        if kind == 0 and size:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and size:
            data[at] = draw.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at:at + draw.randint(1, 16)]
        elif kind == 4:
            data[at:at] = data[at:at + draw.randint(1, 64)]
        elif kind == 5:
            data[at:at] = draw.randbytes(draw.randint(1, 32))
        elif kind == 6:     # a length or a number, where one may stand
            at -= at % 4
            data[at:at + 4] = struct.pack("<I", draw.choice(NUMBERS) % 2**32)
        else:
            at -= at % 8
            data[at:at + 8] = struct.pack("<d", draw.choice(FLOATS))
    return bytes(data)


def changed_text(draw: random.Random, text: str, separators: str = "/") -> str:
    """Text with one to three of its parts replaced, cut, doubled or swapped."""
    separator = draw.choice(separators)
    parts = text.split(separator)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(parts))
        kind = draw.randrange(6)
        if kind == 0:
            parts[at] = draw.choice(PIECES)
        elif kind == 1:
            cut = draw.randint(0, len(parts[at]))
            parts[at] = parts[at][:cut] + draw.choice(PIECES) + parts[at][cut:]
        elif kind == 2 and len(parts) > 1:
            del parts[at]
        elif kind == 3:
            parts.insert(at, draw.choice(parts))
        elif kind == 4:
            other = draw.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif parts[at]:
            where = draw.randrange(len(parts[at]))
            parts[at] = parts[at][:where] + chr(draw.choice((0, 10, 27, 47, 0x39, 0x7f, 0x85, 0xe9, 0x3042, 0x1f600))) \
                + parts[at][where + 1:]
    return separator.join(parts)


def any_message(draw: random.Random, name: str, wild: float = 0.3) -> Any:
    """A message of a type that can be encoded, whatever it says.

    Args:
        wild: share of the numbers that are no ordinary ones.
    """
    return messages.message_class(name)(*[_value(draw, definition, wild)
                                          for _, definition in messages.fields_of(name)])


def _value(draw: random.Random, definition: tuple, wild: float) -> Any:
    kind, detail = definition
    if kind == Nodetype.NAME:
        return any_message(draw, detail, wild)
    if kind == Nodetype.BASE:
        base, bound = detail
        if base == "string":
            return messages.clip_utf8(draw.choice(TEXTS), bound or 2**20)
        return _numbers(draw, base, 1, wild)[0].item()
    element, count = detail
    length = count if kind == Nodetype.ARRAY else draw.choice((0, 1, 3, 8, count or 40))
    if element[0] == Nodetype.BASE and element[1][0] != "string":
        return _numbers(draw, element[1][0], length, wild)
    return [_value(draw, element, wild) for _ in range(min(length, 8 if kind == Nodetype.SEQUENCE else length))]


def _numbers(draw: random.Random, base: str, length: int, wild: float) -> np.ndarray:
    dtype = np.dtype(cdr.FORMATS[base])
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        found = [max(min(v, most), -most) if math.isfinite(v) else v for v in (
            draw.choice(FLOATS) if draw.random() < wild else draw.uniform(-4.0, 4.0) for _ in range(length))]
        return np.array(found, dtype)
    if dtype.kind == "b":
        return np.array([draw.random() < 0.5 for _ in range(length)], dtype)
    bits = 8 * dtype.itemsize
    found = [(draw.choice(NUMBERS) if draw.random() < wild else draw.randrange(6)) % 2**bits for _ in range(length)]
    return np.array(found, f"u{dtype.itemsize}").view(dtype)


def picture(draw: random.Random, width: int = 96, height: int = 64) -> Any:
    """A camera's picture of noise, in one of the encodings that there are, or not quite."""
    encoding, depth = draw.choice((("rgb8", 3), ("bgr8", 3), ("mono8", 1), ("rgba8", 4), ("32FC1", 4), ("yuv422", 2)))
    image = messages.make("sensor_msgs/msg/Image", width=width, height=height, step=width * depth, encoding=encoding,
                          data=draw.randbytes(width * height * depth))
    for _ in range(draw.choice((0, 0, 1, 2))):
        field = draw.choice(("width", "height", "step", "is_bigendian", "encoding"))
        value = draw.choice(TEXTS) if field == "encoding" else draw.choice(NUMBERS) % (256 if "big" in field else 2**32)
        setattr(image, field, value)
    return image
