# SPDX-License-Identifier: Apache-2.0
"""Arrays as ``brain_interfaces/msg/Tensor``, dense, by bits or sparse, and back."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brain_runtime.interfaces import Tensor
from brain_wire import messages
from brain_wire.messages import MessageError

TYPE = "brain_interfaces/msg/Tensor"
MOST = 1 << 24          # elements that a receiver makes room for, unless it says otherwise
DIMENSIONS = 8          # as Tensor.msg bounds them

_NUMBERS: dict[int, np.dtype[Any]] = {
    Tensor.DTYPE_BOOL: np.dtype(bool), Tensor.DTYPE_UINT8: np.dtype("u1"), Tensor.DTYPE_INT8: np.dtype("i1"),
    Tensor.DTYPE_UINT16: np.dtype("<u2"), Tensor.DTYPE_INT16: np.dtype("<i2"), Tensor.DTYPE_UINT32: np.dtype("<u4"),
    Tensor.DTYPE_INT32: np.dtype("<i4"), Tensor.DTYPE_UINT64: np.dtype("<u8"), Tensor.DTYPE_INT64: np.dtype("<i8"),
    Tensor.DTYPE_FLOAT16: np.dtype("<f2"), Tensor.DTYPE_FLOAT32: np.dtype("<f4"),
    Tensor.DTYPE_FLOAT64: np.dtype("<f8")}
_CODES = {dtype: code for code, dtype in _NUMBERS.items()}
_FORMS = {Tensor.FORM_DENSE: "dense", Tensor.FORM_BITS: "bits", Tensor.FORM_SPARSE: "sparse"}


class TensorError(MessageError):
    """A Tensor says of itself what cannot be, or an array cannot be sent as one."""


def tensor(array: NDArray[Any], form: int | None = None, **fields: Any) -> Tensor:
    """An array as a message; :func:`array` makes the same numbers of it again, to the bit.

    Args:
        array: of any shape with at most 8 dimensions and less than 2^32 elements.
        form: ``Tensor.FORM_*``; None: the one that takes the fewest bytes.
        fields: other fields of the message, as ``source``.

    Raises:
        TensorError: too many dimensions or elements, a kind of numbers that Tensor has not, or bits of what is not
            bool.
    """
    array = np.asarray(array)
    code = _CODES.get(array.dtype.newbyteorder("<"))
    if code is None:
        raise TensorError(f"a Tensor holds no {array.dtype}; convert the array to one of "
                          f"{', '.join(dtype.name for dtype in _CODES)}")
    if array.ndim > DIMENSIONS or array.size >= 1 << 32:
        raise TensorError(f"an array of shape {array.shape} does not fit into a Tensor, which has at most "
                          f"{DIMENSIONS} dimensions and less than 2^32 elements; reshape or split it")
    flat = np.ascontiguousarray(array, _NUMBERS[code]).reshape(-1)
    # By bits and not by value, since -0.0 is to stay what it is.
    places = np.flatnonzero(flat.view(f"u{flat.itemsize}"))
    of_bool = code == Tensor.DTYPE_BOOL
    if form is None:
        each = 4 if of_bool else 4 + flat.itemsize
        takes = {Tensor.FORM_DENSE: flat.nbytes, Tensor.FORM_SPARSE: each * len(places)}
        if of_bool:
            takes[Tensor.FORM_BITS] = (flat.size + 7) // 8
        form = min(takes, key=takes.__getitem__)
    if form not in _FORMS or form == Tensor.FORM_BITS and not of_bool:
        raise TensorError(f"a Tensor of {array.dtype} has no form {form}; leave form out, or take FORM_DENSE")
    index, data = np.zeros(0, np.uint32), flat
    if form == Tensor.FORM_SPARSE:
        index, data = places.astype(np.uint32), flat[places] if not of_bool else flat[:0]
    elif form == Tensor.FORM_BITS:
        data = np.packbits(flat, bitorder="little")
    message: Tensor = messages.make(TYPE, dtype=code, form=form, shape=np.array(array.shape, np.uint32), index=index,
                                    data=data.view(np.uint8), **fields)
    return message


def array(message: Tensor, most: int = MOST) -> NDArray[Any]:
    """The array that a message holds.

    It shares the message's memory where the form is dense, and must not be written to then.

    Args:
        message: from anywhere; nothing in it is believed.
        most: elements that it may have, since a sparse message of a few bytes can ask for any room.

    Raises:
        TensorError: it has more elements, a kind or form that does not exist, or parts that do not fit together.
    """
    dtype, form = _NUMBERS.get(message.dtype), message.form
    if dtype is None:
        raise TensorError(f"a Tensor has dtype {message.dtype}, which does not exist")
    if form not in _FORMS or form == Tensor.FORM_BITS and message.dtype != Tensor.DTYPE_BOOL:
        raise TensorError(f"a Tensor of {dtype} has form {form}, which does not exist")
    shape = tuple(int(length) for length in message.shape)
    size = math.prod(shape)
    if size > most or len(shape) > DIMENSIONS:
        raise TensorError(f"a Tensor of shape {shape} has {size} elements, and {most} at most are taken")
    index, data = np.asarray(message.index), np.asarray(message.data, np.uint8)
    if form != Tensor.FORM_SPARSE and len(index):
        raise TensorError(f"a {_FORMS[form]} Tensor has {len(index)} places in index, where none belong")
    wanted = size * dtype.itemsize
    if form == Tensor.FORM_BITS:
        wanted = (size + 7) // 8
    elif form == Tensor.FORM_SPARSE:
        wanted = 0 if message.dtype == Tensor.DTYPE_BOOL else len(index) * dtype.itemsize
    if len(data) != wanted:
        raise TensorError(f"a {_FORMS[form]} Tensor of {dtype} and shape {shape} has {len(data)} bytes of data instead "
                          f"of {wanted}")
    if form == Tensor.FORM_BITS:
        return np.unpackbits(data, count=size, bitorder="little").view(bool).reshape(shape)
    if form == Tensor.FORM_DENSE:
        found = (data != 0 if message.dtype == Tensor.DTYPE_BOOL else data.view(dtype)).reshape(shape)
        found.flags.writeable = False
        return found
    if len(index) and (int(index[-1]) >= size or not (index[1:] > index[:-1]).all()):
        raise TensorError(f"the places in the index of a sparse Tensor do not ascend, or leave its {size} elements")
    found = np.zeros(size, dtype)
    found[index] = True if message.dtype == Tensor.DTYPE_BOOL else data.view(dtype)
    return found.reshape(shape)
