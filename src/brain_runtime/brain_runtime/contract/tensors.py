# SPDX-License-Identifier: Apache-2.0
"""Arrays as ``brain_interfaces/msg/Tensor``, dense, by bits or sparse, and back."""
from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brain_runtime.interfaces import Tensor
from brain_wire import messages
from brain_wire.messages import MessageError

TYPE = "brain_interfaces/msg/Tensor"
MOST = 1 << 24          # elements that a receiver makes room for, unless it says otherwise
DIMENSIONS = 8          # as Tensor.msg bounds them
BFLOAT16 = "bfloat16"   # which numpy has not: the upper half of a float32, and read as one

_NUMBERS: dict[int, np.dtype[Any]] = {
    Tensor.DTYPE_BOOL: np.dtype(bool), Tensor.DTYPE_UINT8: np.dtype("u1"), Tensor.DTYPE_INT8: np.dtype("i1"),
    Tensor.DTYPE_UINT16: np.dtype("<u2"), Tensor.DTYPE_INT16: np.dtype("<i2"), Tensor.DTYPE_UINT32: np.dtype("<u4"),
    Tensor.DTYPE_INT32: np.dtype("<i4"), Tensor.DTYPE_UINT64: np.dtype("<u8"), Tensor.DTYPE_INT64: np.dtype("<i8"),
    Tensor.DTYPE_FLOAT16: np.dtype("<f2"), Tensor.DTYPE_FLOAT32: np.dtype("<f4"),
    Tensor.DTYPE_FLOAT64: np.dtype("<f8"), Tensor.DTYPE_COMPLEX64: np.dtype("<c8"),
    Tensor.DTYPE_COMPLEX128: np.dtype("<c16"), Tensor.DTYPE_BFLOAT16: np.dtype("<u2")}
_NAMES = {code: BFLOAT16 if code == Tensor.DTYPE_BFLOAT16 else dtype.name for code, dtype in _NUMBERS.items()}
_CODES = {name: code for code, name in _NAMES.items()}
_FORMS = {Tensor.FORM_DENSE: "dense", Tensor.FORM_BITS: "bits", Tensor.FORM_SPARSE: "sparse"}
_DECLARED = re.compile(r"(?P<dtype>\w*)(?:\[(?P<shape>[\d*, ]*)\])?", re.ASCII)


class TensorError(MessageError):
    """A Tensor says of itself what cannot be, or an array cannot be sent as one."""


# -- from an array to a message -----------------------------------------------------------------------------------


def tensor(array: Any, form: int | None = None, kind: str | None = None, **fields: Any) -> Tensor:
    """An array as a message; :func:`array` makes the same numbers of it again, to the bit.

    Args:
        array: of any shape with at most 8 dimensions and less than 2^32 elements; numpy's, what numpy makes an array
            of, or a tensor of torch.
        form: ``Tensor.FORM_*``; None: the one that takes the fewest bytes. Spikes, which are 0 or 1, go as bits or as
            the places of the ones, of whatever dtype they are.
        kind: ``bfloat16``, which numpy has not: float32 are rounded to it. None: the array's own dtype.
        fields: other fields of the message, as ``source``.

    Raises:
        TensorError: too many dimensions or elements, a kind of numbers that Tensor has not, or bits of what is neither
            0 nor 1.
    """
    array, code = _numbers(array, kind)
    if array.ndim > DIMENSIONS or array.size >= 1 << 32:
        raise TensorError(f"an array of shape {array.shape} does not fit into a Tensor, which has at most "
                          f"{DIMENSIONS} dimensions and less than 2^32 elements; reshape or split it")
    flat = np.ascontiguousarray(array, _NUMBERS[code]).reshape(-1)
    # By bits and not by value, since -0.0 is to stay what it is.
    width = min(flat.itemsize, 8)
    words = flat.view(f"u{width}").reshape(flat.size, flat.itemsize // width)
    filled = words[:, 0] if words.shape[1] == 1 else words.any(axis=1)
    count = int(np.count_nonzero(filled))
    # What is no spikes mostly shows that in its first elements.
    spikes = not count or code == Tensor.DTYPE_BOOL or _are_spikes(words[:64], code) and _are_spikes(words, code)
    if form is None:
        takes = {Tensor.FORM_DENSE: flat.nbytes, Tensor.FORM_SPARSE: (4 if spikes else 4 + flat.itemsize) * count}
        if spikes:
            takes[Tensor.FORM_BITS] = (flat.size + 7) // 8
        form = min(takes, key=takes.__getitem__)
    if form not in _FORMS or form == Tensor.FORM_BITS and not spikes:
        raise TensorError(f"a Tensor of these {_NAMES[code]} has no form {form}; leave form out, or take FORM_DENSE")
    index, data = np.zeros(0, np.uint32), flat
    if form == Tensor.FORM_SPARSE:
        places = np.flatnonzero(filled)
        index, data = places.astype(np.uint32), flat[:0] if spikes else flat[places]
    elif form == Tensor.FORM_BITS:
        data = np.packbits(filled != 0, bitorder="little")
    message: Tensor = messages.make(TYPE, dtype=code, form=form, shape=np.array(array.shape, np.uint32), index=index,
                                    data=data.view(np.uint8), **fields)
    return message


def _numbers(array: Any, kind: str | None) -> tuple[NDArray[Any], int]:
    """An array as numpy has it, and its code; the numbers of a bfloat16 as uint16. Raises TensorError."""
    if kind not in (None, BFLOAT16):
        raise TensorError(f"no array can be sent as {kind!r}; leave it out for the array's own dtype, or take "
                          f"{BFLOAT16!r}, which numpy has not")
    try:
        if hasattr(array, "detach"):    # torch's
            array = array.detach().cpu()
            if str(array.dtype) == f"torch.{BFLOAT16}":
                return (array.float().numpy().view(np.uint32) >> 16).astype(np.uint16), Tensor.DTYPE_BFLOAT16
            array = array.numpy()
        array = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that are sparse, or of float8
        raise TensorError(f"a {type(array).__name__} cannot be sent as a Tensor: {error}") from error
    if kind == BFLOAT16:
        if array.dtype.newbyteorder("<") != np.dtype("<f4"):
            raise TensorError(f"only float32 can be rounded to bfloat16, and this is {array.dtype}; convert it first")
        return _rounded(array), Tensor.DTYPE_BFLOAT16
    code = _CODES.get(array.dtype.name)
    if code is None:
        raise TensorError(f"a Tensor holds no {array.dtype}; convert the array to one of {', '.join(_CODES)}")
    return array, code


def _rounded(array: NDArray[Any]) -> NDArray[np.uint16]:
    """float32 as bfloat16: to the nearest, at a tie to the even one; NaN stays NaN."""
    bits = np.ascontiguousarray(array, "<f4").view("<u4").reshape(array.shape)
    upper = bits >> 16
    nearest = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> 16   # overflows for some NaN only
    return np.where(np.isnan(array), upper | np.uint32(0x40), nearest).astype(np.uint16)


def _are_spikes(words: NDArray[Any], code: int) -> bool:
    """Checks whether each row is the bits of 0 or of 1."""
    ones = words == _one(code)
    if words.shape[1] == 1:
        return bool(np.count_nonzero(ones) == np.count_nonzero(words))
    return bool((ones.all(axis=1) | ~words.any(axis=1)).all())


@functools.cache
def _one(code: int) -> NDArray[Any]:
    """The bits of 1 in each kind of numbers."""
    one = np.array([0x3F80], "<u2") if code == Tensor.DTYPE_BFLOAT16 else np.ones(1, _NUMBERS[code])
    return one.view(f"u{min(one.itemsize, 8)}")


# -- from a message to an array -----------------------------------------------------------------------------------


def array(message: Tensor, most: int = MOST) -> NDArray[Any]:
    """The array that a message holds; of bfloat16, which numpy has not, as float32.

    Where the form is dense it shares the message's memory, and must not be written to. That memory is the message's
    own: no wire uses it again.

    Args:
        message: from anywhere; nothing in it is believed.
        most: elements that it may have, since a sparse message of a few bytes can ask for any room.

    Raises:
        TensorError: it has more elements, a kind or form that does not exist, or parts that do not fit together.
    """
    found = raw(message, most)
    if message.dtype == Tensor.DTYPE_BFLOAT16:
        return (found.astype("<u4") << 16).view("<f4").reshape(found.shape)
    return found


def dtype_name(message: Tensor) -> str:
    """Name of the dtype that a message says it has. Raises TensorError if there is none of that number."""
    name = _NAMES.get(message.dtype)
    if name is None:
        raise TensorError(f"a Tensor has dtype {message.dtype}, which does not exist")
    return name


def raw(message: Tensor, most: int = MOST) -> NDArray[Any]:
    """As :func:`array`, but of bfloat16 as uint16."""
    name, form = dtype_name(message), message.form
    dtype = _NUMBERS[message.dtype]
    if form not in _FORMS:
        raise TensorError(f"a Tensor of {name} has form {form}, which does not exist")
    shape = tuple(int(length) for length in message.shape)
    size = math.prod(shape)
    if size > most or len(shape) > DIMENSIONS:
        raise TensorError(f"a Tensor of shape {shape} has {size} elements, and {most} at most are taken")
    index, data = np.asarray(message.index), np.asarray(message.data, np.uint8)
    if form != Tensor.FORM_SPARSE and len(index):
        raise TensorError(f"a {_FORMS[form]} Tensor has {len(index)} places in index, where none belong")
    ones = form == Tensor.FORM_BITS or form == Tensor.FORM_SPARSE and (message.dtype == Tensor.DTYPE_BOOL
                                                                       or not len(data))
    wanted = {Tensor.FORM_DENSE: size * dtype.itemsize, Tensor.FORM_BITS: (size + 7) // 8,
              Tensor.FORM_SPARSE: 0 if ones else len(index) * dtype.itemsize}[form]
    if len(data) != wanted:
        raise TensorError(f"a {_FORMS[form]} Tensor of {name} and shape {shape} has {len(data)} bytes of data instead "
                          f"of {wanted}")
    if form == Tensor.FORM_DENSE:
        found = data != 0 if message.dtype == Tensor.DTYPE_BOOL else _aligned(data, dtype)
        found.flags.writeable = False
        return found.reshape(shape)
    one = _one(message.dtype).view(dtype)[0]
    if form == Tensor.FORM_BITS:
        bits = np.unpackbits(data, count=size, bitorder="little")
        return (bits.view(bool) if message.dtype == Tensor.DTYPE_BOOL else bits.astype(dtype) * one).reshape(shape)
    if len(index) and (int(index[-1]) >= size or not (index[1:] > index[:-1]).all()):
        raise TensorError(f"the places in the index of a sparse Tensor do not ascend, or leave its {size} elements")
    found = np.zeros(size, dtype)
    found[index] = one if ones else data.view(dtype)
    return found.reshape(shape)


def _aligned(data: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Bytes as numbers: copied only where they do not lie as the numbers want it, which torch asks for."""
    found = data.view(dtype)
    return found.view() if found.flags.aligned else found.copy()


# -- what a port declares -----------------------------------------------------------------------------------------


class Declared:
    """Declaration of a port's arrays: ``float32[*,64]``, ``bool``, ``[3]``, ``int32[]`` (one number), or nothing.

    Args:
        text: name of a dtype, and in brackets the length of each dimension, ``*`` for any; either may be left out.

    Raises:
        TensorError: it does not read so.
    """

    def __init__(self, text: str) -> None:
        match = _DECLARED.fullmatch(text.strip())
        dtype, shape = (match["dtype"], match["shape"]) if match else ("", None)
        lengths = [part.strip() for part in shape.split(",")] if shape and shape.strip() else []
        if not match or dtype and dtype not in _CODES or not all(part == "*" or part.isdigit() for part in lengths):
            raise TensorError(f"{text!r} declares no array; write a dtype and the length of each dimension, as "
                              f"float32[*,64], where * is any; the dtypes are {', '.join(_CODES)}")
        self.dtype = dtype
        self.shape = None if shape is None else tuple(None if part == "*" else int(part) for part in lengths)

    def tensor(self, value: Any, **fields: Any) -> Tensor:
        """A value as a message. Raises TensorError if it is not as declared."""
        message = tensor(value, None, BFLOAT16 if self.dtype == BFLOAT16 and not _is_bfloat16(value) else None,
                         **fields)
        self._check(message)
        return message

    def array(self, message: Tensor) -> NDArray[Any]:
        """Reads the array that a message holds; see :func:`array`. Raises TensorError if it is not as declared."""
        self._check(message)
        return array(message)

    def _check(self, message: Tensor) -> None:
        """Before any memory is taken."""
        name, shape = dtype_name(message), tuple(int(length) for length in message.shape)
        if self.dtype and name != self.dtype:
            raise TensorError(f"a Tensor of {name} where the port declares {self.dtype}")
        if self.shape is not None and (len(shape) != len(self.shape) or any(
                length not in (None, given) for length, given in zip(self.shape, shape))):
            declared = ",".join("*" if length is None else str(length) for length in self.shape)
            raise TensorError(f"a Tensor of shape [{','.join(map(str, shape))}] where the port declares [{declared}]")


def _is_bfloat16(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) == f"torch.{BFLOAT16}"
