# SPDX-License-Identifier: Apache-2.0
"""Twice what it hears, with ``torch.distributed`` and nothing else: rank 1. Rank 0 says numbers, and ends with NaN."""
import os

import torch
import torch.distributed as dist

NUMBERS, DOUBLER = range(2)     # who is which rank; one more region is one more number here, and a send to it below


def step():
    number = torch.empty(1)
    while True:
        dist.recv(number, NUMBERS)
        if number.isnan():
            return
        dist.send(2.0 * number, NUMBERS)


def numbers():
    """The rest of such a brain: it must know whom to send to, and in which order all receive."""
    doubled = torch.empty(1)
    for number in (21.0, float("nan")):
        dist.send(torch.tensor([number]), DOUBLER)
        if number == number:
            dist.recv(doubled, DOUBLER)
            print(doubled.item(), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    try:
        step() if int(os.environ["RANK"]) == DOUBLER else numbers()
    finally:
        dist.destroy_process_group()
