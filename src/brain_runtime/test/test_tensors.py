# SPDX-License-Identifier: Apache-2.0
"""Arrays as messages: the same numbers to the bit, in the smallest form, and nothing believed of what comes in."""
import numpy as np
import pytest

from brain_runtime.contract import tensors
from brain_runtime.interfaces import Tensor
from brain_wire import messages

DTYPES = "bool u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16".split()
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
            spikes = dtype == "bool" or not sent.tobytes().strip(b"\0")
            forms = [None, Tensor.FORM_DENSE, Tensor.FORM_SPARSE] + [Tensor.FORM_BITS] * spikes
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
    numbers[:49] = 2.0
    assert tensors.tensor(numbers).form == Tensor.FORM_SPARSE
    numbers[:51] = 2.0
    assert tensors.tensor(numbers).form == Tensor.FORM_DENSE


@pytest.mark.parametrize("dtype", DTYPES)
def test_spikes_of_any_dtype_travel_as_bits_or_places(dtype):
    rng = np.random.default_rng(3)
    for share, form in ((0.3, Tensor.FORM_BITS), (0.01, Tensor.FORM_SPARSE)):
        sent = (rng.random((40, 50)) < share).astype(dtype)
        message = through_the_wire(tensors.tensor(sent))
        assert message.form == form and len(message.data) + 4 * len(message.index) < sent.size // 7
        got = tensors.array(message)
        assert (got.dtype, got.tobytes()) == (sent.dtype, sent.tobytes())


def test_random_arrays_come_back_whatever_their_layout():
    rng = np.random.default_rng(11)
    for _ in range(300):
        shape = tuple(rng.integers(0, 6, rng.integers(0, 5)))
        sent = rng.integers(-2, 3, shape).astype(rng.choice(["i1", ">i4", "<f8", ">c8", "f2"]))
        sent = sent * rng.choice([0, 1], shape, p=[0.7, 0.3]).astype(sent.dtype)
        sent = sent.transpose(rng.permutation(sent.ndim))
        message = through_the_wire(tensors.tensor(sent))
        np.testing.assert_array_equal(tensors.array(message, most=sent.size), sent)
        takes = len(message.data) + 4 * len(message.index)
        assert all(takes <= len(m.data) + 4 * len(m.index) for m in map(tensors.tensor, [sent] * 2, (0, 2)))


def test_nothing_but_a_tensor_error_comes_of_any_message():
    rng = np.random.default_rng(13)
    read = 0
    for _ in range(5000):
        message = tensors.tensor((rng.random((3, 4)) < 0.3).astype(rng.choice(DTYPES)))
        field = rng.choice(["dtype", "form", "shape", "index", "data"])
        value = int(rng.integers(0, 20)) if field in ("dtype", "form") else rng.integers(
            0, 256 if field == "data" else rng.choice([5, 2 ** 32]), rng.integers(0, 9)).astype(
                np.uint8 if field == "data" else np.uint32)
        setattr(message, field, value)
        try:
            found = tensors.array(through_the_wire(message), most=4096)
            read += found.size <= 4096
        except tensors.TensorError:
            pass
    assert 50 < read < 4950     # some of both


@pytest.mark.parametrize("text, array, says", [
    ("float32[*,3]", np.zeros((5, 3), np.float32), None), ("float32[*, 3]", np.zeros((5, 4), np.float32), r"\[5,4\]"),
    ("bool", np.zeros((1, 2, 3), bool), None), ("bool", np.zeros(3, np.uint8), "of uint8 .* declares bool"),
    ("[2]", np.zeros(2, np.int16), None), ("[2]", np.zeros((2, 1), np.int16), r"declares \[2\]"),
    ("int32[]", np.int32(7), None), ("int32[]", np.zeros(1, np.int32), r"declares \[\]"), ("", np.zeros(3), None),
    ("bfloat16[*]", np.ones(3, np.float32), None),
    ("bfloat16[*]", np.ones(3), "float32 can")])
def test_what_a_port_declares_is_asked_of_both_ends(text, array, says):
    declared = tensors.Declared(text)
    if says is None:
        got = declared.array(through_the_wire(declared.tensor(array, source="me")))
        np.testing.assert_array_equal(got, array)
        return
    with pytest.raises(tensors.TensorError, match=says):
        declared.tensor(array)
    if text != "bfloat16[*]":
        with pytest.raises(tensors.TensorError, match=says):
            declared.array(tensors.tensor(array))


def test_a_fixed_shape_is_refused_before_there_is_room_for_another():
    message = tensors.tensor(np.zeros(3, np.float32), Tensor.FORM_SPARSE)
    message.shape = np.array([2 ** 32 - 1] * 8, np.uint32)
    with pytest.raises(tensors.TensorError, match="declares"):
        tensors.Declared("float32[3]").array(message)


@pytest.mark.parametrize("text", ["float33", "float32[", "float32[a]", "float32[-1]", "[3", "float32[1,,2]", "pickle"])
def test_what_declares_no_array_is_refused(text):
    with pytest.raises(tensors.TensorError, match="declares no array"):
        tensors.Declared(text)


def good(form=Tensor.FORM_DENSE, **changed):
    matrix = np.eye(4, dtype=np.float32) * (1 if form == Tensor.FORM_BITS else 2)
    message = tensors.tensor(matrix, form)
    for name, value in changed.items():
        setattr(message, name, value)
    return message


LYING = {
    "a kind that does not exist": (good(dtype=99), "dtype 99"),
    "a form that does not exist": (good(form=Tensor.FORM_DENSE, shape=np.array([16], np.uint32)), None),
    "a shape that is too large": (good(shape=np.full(8, 2 ** 32 - 1, np.uint32)), "at most"),
    "room for what is sparse": (good(Tensor.FORM_SPARSE, shape=np.array([2 ** 31], np.uint32)), "at most"),
    "data that is too short": (good(data=np.zeros(63, np.uint8)), "63 bytes"),
    "data that is too long": (good(data=np.zeros(65, np.uint8)), "65 bytes"),
    "bits that are too few": (good(Tensor.FORM_BITS, data=np.zeros(1, np.uint8)), "1 bytes"),
    "places where none belong": (good(index=np.zeros(1, np.uint32)), "none belong"),
    "a place outside": (good(Tensor.FORM_SPARSE, index=np.array([0, 5, 10, 16], np.uint32)), "ascend"),
    "a place twice": (good(Tensor.FORM_SPARSE, index=np.array([0, 5, 5, 15], np.uint32)), "ascend"),
    "places that go back": (good(Tensor.FORM_SPARSE, index=np.array([0, 10, 5, 15], np.uint32)), "ascend"),
    "places of more than there is": (good(Tensor.FORM_SPARSE, shape=np.array([4, 0], np.uint32)), "leave its 0"),
    "numbers at no places": (good(Tensor.FORM_SPARSE, index=np.zeros(0, np.uint32), data=np.ones(4, np.uint8)), "of 0"),
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
    for array, says in ((np.zeros(3, np.longdouble), "longdouble|float128"), (np.zeros((1,) * 9), "dimensions"),
                        (np.array(["text"]), "holds no"), (np.array([{}]), "holds no"), ([[1], [1, 2]], "list")):
        with pytest.raises(tensors.TensorError, match=says):
            tensors.tensor(array)
    with pytest.raises(tensors.TensorError, match="form"):
        tensors.tensor(np.full(3, 0.5, np.float32), Tensor.FORM_BITS)
    with pytest.raises(tensors.TensorError, match="rounded to bfloat16"):
        tensors.tensor(np.zeros(3), kind="bfloat16")
    with pytest.raises(tensors.TensorError, match="'float16'"):
        tensors.tensor(np.zeros(3), kind="float16")


def test_a_dense_array_is_not_copied_and_cannot_be_written():
    message = through_the_wire(tensors.tensor(np.arange(6, dtype=np.float32)))
    got = tensors.array(message)
    assert np.shares_memory(got, message.data) and not got.flags.writeable
