# SPDX-License-Identifier: Apache-2.0
"""Pictures of files and of ``sensor_msgs/CompressedImage``: JPEG and PNG of any depth as RGB. Pillow is imported late.

They come from anywhere: their size is looked at before they are unpacked, and whatever is wrong is said in one line.
"""
from __future__ import annotations

import io
from typing import Any

import numpy as np

from brain_runtime.command.lacking import lacks
from brain_runtime.contract import git_lfs, images

FORMATS = ("JPEG", "PNG")
GRAY = {"mono8": "u1", "8UC1": "u1", "mono16": "u2"}
SMALLEST = images.SMALLEST
MOST_PIXELS = 2**26     # what says that it has more is not unpacked
DISTANCES = ("16UC1", "32FC1", "compressedDepth")   # words of a CompressedImage's format


class PictureError(ValueError):
    """Bytes are no picture that can be looked at; says why, in one line."""


def unpacked(data: bytes, form: str = "") -> np.ndarray:
    """uint8 [rows, columns, 3] of a JPEG or PNG: colors as they are, gray in all three, of 16 bits the upper ones.

    It stands upright as its Exif says.

    Args:
        data: of the file or message.
        form: ``format`` of the message.

    Raises:
        PictureError: it is none, is torn, too small or says that it is huge, or shows distances and not light.
    """
    if git_lfs.is_pointer(data):
        raise PictureError(git_lfs.ADVICE)
    if any(word in form for word in DISTANCES):
        raise PictureError(f"format {form!r:.80}: it shows distances, and not what a camera sees")
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise PictureError(lacks("PIL")) from None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            columns, rows = image.size
            if columns * rows > MOST_PIXELS:
                raise PictureError(f"it says that it has {columns} x {rows} pixels, and at most {MOST_PIXELS} are "
                                   f"unpacked")
            if min(columns, rows) < SMALLEST:
                raise PictureError(f"it has {columns} x {rows} pixels, and {SMALLEST} x {SMALLEST} are the least")
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith(("I", "F")):     # gray of 16 bits; Pillow's own conversion cuts at 255
                gray = (np.asarray(upright).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
                return np.repeat(gray[..., None], 3, 2)
            return np.asarray(upright.convert("RGB"))
    except PictureError:
        raise
    except Exception as error:      # of decoders that were handed whatever bytes: OSError, SyntaxError, struct.error
        none = isinstance(error, UnidentifiedImageError)
        why = f"it is no {' or '.join(FORMATS)}" if none else " ".join(str(error).split())[:120] or type(error).__name__
        raise PictureError(f"format {form!r:.80}: {why}" if form else why) from error


def is_gray(picture: np.ndarray) -> bool:
    """Tells whether a picture [rows, columns, 3] has no color at all, as one of a camera for gray has none."""
    return bool((picture == picture[..., :1]).all())


def of_message(message: Any) -> np.ndarray:
    """uint8 [rows, columns, 3] of an Image of any color or gray, or of a CompressedImage.

    Raises:
        ValueError: it cannot be looked at; says why.
    """
    if not hasattr(message, "encoding"):
        return unpacked(bytes(message.data), message.format)
    kind = GRAY.get(message.encoding)
    if kind is None:
        return images.rgb(message)
    width = np.dtype(kind).itemsize
    rows, columns, step = message.height, message.width, message.step
    if min(rows, columns) < SMALLEST or step < columns * width or len(message.data) < rows * step:
        raise PictureError(f"a picture of {columns} x {rows} with rows of {step} bytes cannot have "
                           f"{len(message.data)} bytes")
    data = np.asarray(message.data[:rows * step], np.uint8).reshape(rows, step)[:, :columns * width]
    values = np.ascontiguousarray(data).view(np.dtype(kind).newbyteorder(">" if message.is_bigendian else "<"))
    gray = (values >> 8 * (width - 1)).astype(np.uint8)
    return np.repeat(gray[..., None], 3, 2)
