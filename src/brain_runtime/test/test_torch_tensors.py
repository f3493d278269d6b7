# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as messages, and back."""
import numpy as np
import pytest

from brain_runtime.contract import tensors
from brain_runtime.interfaces import Tensor
from brain_wire import messages

torch = pytest.importorskip("torch")


def torch_tensor(message):
    from brain_runtime.hosts.torch_tensors import torch_tensor
    return torch_tensor(through_the_wire(message))


def through_the_wire(message):
    return messages.decode(messages.encode(message), tensors.TYPE)


def test_bfloat16_is_rounded_as_torch_does_and_read_as_float32():
    rng = np.random.default_rng(5)
    bits = np.concatenate([rng.integers(0, 2 ** 32, 20000, np.uint64).astype(np.uint32), np.array(
        [0x3F808000, 0x3F818000, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)])
    sent = bits.view(np.float32)
    message = through_the_wire(tensors.tensor(sent, kind="bfloat16"))
    as_torch = torch.from_numpy(sent.copy()).bfloat16()
    got = tensors.array(message)
    assert got.dtype == np.float32 and len(message.data) == 2 * len(sent)
    np.testing.assert_array_equal(got, as_torch.float().numpy())
    again = through_the_wire(tensors.tensor(as_torch.reshape(-1, 1)[::2]))
    assert again.dtype == Tensor.DTYPE_BFLOAT16 and list(again.shape) == [len(sent[::2]), 1]
    assert torch.equal(torch_tensor(again).view(torch.int16), as_torch.reshape(-1, 1)[::2].view(torch.int16))


@pytest.mark.parametrize("dtype", "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 "
                                  "bfloat16 complex64 complex128".split())
def test_tensors_of_torch_come_back_in_their_dtype_and_memory_of_their_own(dtype):
    for form in (None, Tensor.FORM_DENSE, Tensor.FORM_SPARSE):
        sent = (torch.arange(24).reshape(4, 6) * (torch.arange(6) > 3)).to(getattr(torch, dtype)).requires_grad_(
            dtype.startswith(("float", "bfloat", "complex")))
        got = torch_tensor(tensors.tensor(sent.T, form))
        assert got.dtype == sent.dtype and got.tolist() == sent.T.tolist()
        got[0] = 1      # no complaint of memory that must not be written to


def test_a_port_of_bfloat16_takes_it_as_it_is():
    sent = torch.tensor([1.0, -0.5, 3.0], dtype=torch.bfloat16)
    declared = tensors.Declared("bfloat16[3]")
    np.testing.assert_array_equal(declared.array(declared.tensor(sent)), sent.float())


@pytest.mark.parametrize("made", [lambda: torch.zeros(2, dtype=torch.float8_e5m2), lambda: torch.eye(2).to_sparse()])
def test_a_tensor_that_numpy_cannot_hold_is_refused(made):
    with pytest.raises(tensors.TensorError, match="cannot be sent as a Tensor"):
        tensors.tensor(made())
