# SPDX-License-Identifier: Apache-2.0
"""Trainings of the tests run on one thread: where cores are shared, several would wait for each other."""
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Sets torch to one thread, and back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
