# SPDX-License-Identifier: Apache-2.0
"""Arrays as messages: the same numbers to the bit, in the smallest form, and nothing believed of what comes in."""
import numpy as np
import pytest

from brain_runtime import tensors
from brain_runtime.interfaces import Tensor
from brain_wire import messages

DTYPES = "bool u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()
SHAPES = ((), (0,), (1,), (7,), (3, 0, 2), (2, 3, 5), (2,) * 8)


def through_the_wire(message):
    return messages.decode(messages.encode(message), tensors.TYPE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_comes_back_to_the_bit(dtype):
    rng = np.random.default_rng(7)
    for shape in SHAPES:
        for share in (0.0, 0.02, 1.0):
            values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)     # NaN, -0.0, subnormals
            sent = (values[..., 0] % 2 == 1) if dtype == "bool" else values.view(dtype)[..., 0]
            sent = np.where(rng.random(shape) < share, sent, np.zeros((), dtype)).astype(dtype)
            forms = [None, Tensor.FORM_DENSE, Tensor.FORM_SPARSE] + [Tensor.FORM_BITS] * (dtype == "bool")
            for form in forms:
                got = tensors.array(through_the_wire(tensors.tensor(sent, form, source="test")))
                assert (got.dtype, got.shape, got.tobytes()) == (sent.dtype, sent.shape, sent.tobytes()), (shape, form)


def test_what_is_not_in_c_order_or_not_little_endian_comes_back_too():
    sent = np.arange(24, dtype=">f4").reshape(4, 6)[::2, ::-1].T
    np.testing.assert_array_equal(tensors.array(through_the_wire(tensors.tensor(sent))), sent)


def test_minus_zero_is_no_hole_of_a_sparse_array():
    sent = np.zeros(1000, np.float32)
    sent[3] = -0.0
    message = tensors.tensor(sent)
    assert message.form == Tensor.FORM_SPARSE and np.signbit(tensors.array(message)[3])


@pytest.mark.parametrize("fire, form", [(0, Tensor.FORM_SPARSE), (30, Tensor.FORM_SPARSE), (33, Tensor.FORM_BITS),
                                        (1024, Tensor.FORM_BITS)])
def test_spikes_take_the_form_that_takes_the_fewest_bytes(fire, form):
    spikes = np.arange(1024) < fire
    message = tensors.tensor(spikes)
    assert message.form == form
    sizes = [len(messages.encode(tensors.tensor(spikes, f))) for f in range(3)]
    assert len(messages.encode(message)) == min(sizes)


def test_floats_are_sparse_only_where_that_is_smaller():
    numbers = np.zeros(100, np.float32)
    numbers[:49] = 1.0
    assert tensors.tensor(numbers).form == Tensor.FORM_SPARSE
    numbers[:51] = 1.0
    assert tensors.tensor(numbers).form == Tensor.FORM_DENSE


def good(form=Tensor.FORM_DENSE, **changed):
    dtype = bool if form == Tensor.FORM_BITS else np.float32
    message = tensors.tensor(np.eye(4, dtype=dtype), form)
    for name, value in changed.items():
        setattr(message, name, value)
    return message


LYING = {
    "a kind that does not exist": (good(dtype=99), "dtype 99"),
    "a form that does not exist": (good(form=Tensor.FORM_DENSE, shape=np.array([16], np.uint32)), None),
    "bits of floats": (good(Tensor.FORM_BITS, dtype=Tensor.DTYPE_FLOAT32), "form 1"),
    "a shape that is too large": (good(shape=np.full(8, 2 ** 32 - 1, np.uint32)), "at most"),
    "room for what is sparse": (good(Tensor.FORM_SPARSE, shape=np.array([2 ** 31], np.uint32)), "at most"),
    "data that is too short": (good(data=np.zeros(63, np.uint8)), "63 bytes"),
    "data that is too long": (good(data=np.zeros(65, np.uint8)), "65 bytes"),
    "bits that are too few": (good(Tensor.FORM_BITS, data=np.zeros(1, np.uint8)), "1 bytes"),
    "places where none belong": (good(index=np.zeros(1, np.uint32)), "none belong"),
    "a place outside": (good(Tensor.FORM_SPARSE, index=np.array([0, 5, 10, 16], np.uint32)), "ascend"),
    "a place twice": (good(Tensor.FORM_SPARSE, index=np.array([0, 5, 5, 15], np.uint32)), "ascend"),
    "places that go back": (good(Tensor.FORM_SPARSE, index=np.array([0, 10, 5, 15], np.uint32)), "ascend"),
    "fewer places than numbers": (good(Tensor.FORM_SPARSE, index=np.array([0, 5], np.uint32)), "instead of 8"),
}


@pytest.mark.parametrize("what", LYING)
def test_a_message_that_lies_is_refused(what):
    message, says = LYING[what]
    if says is None:
        message.form, says = 7, "form 7"
    with pytest.raises(tensors.TensorError, match=says):
        tensors.array(through_the_wire(message))


def test_what_does_not_fit_into_a_tensor_is_refused():
    for array, says in ((np.zeros(3, complex), "complex128"), (np.zeros((1,) * 9), "dimensions"),
                        (np.array(["text"]), "holds no")):
        with pytest.raises(tensors.TensorError, match=says):
            tensors.tensor(array)
    with pytest.raises(tensors.TensorError, match="form"):
        tensors.tensor(np.zeros(3, np.float32), Tensor.FORM_BITS)


def test_a_dense_array_is_not_copied_and_cannot_be_written():
    message = through_the_wire(tensors.tensor(np.arange(6, dtype=np.float32)))
    got = tensors.array(message)
    assert np.shares_memory(got, message.data) and not got.flags.writeable
