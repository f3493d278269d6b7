# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_tensor do."""
from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.distributed as dist
from networks_here import made, network

from brain_collectives.columns import same_bits
from brain_training.motor import MotorTask
from brain_training.parallel import tensor
from brain_training.parallel.tensor_trainer import TensorTrainer
from brain_training.task import TrainingError

QUICK = dataclasses.replace(MotorTask.tiny, rooms=3, robots=4, steps=20, iterations=6)


def compared(rank: int, name: str, mode: str, ranks: int | None = None) -> dict:
    """The whole network beside its parts: what differs of answers, spikes, gradients and running statistics."""
    group = None
    if ranks:       # several groups, each with a batch of its own
        groups = [dist.new_group(range(first, first + ranks)) for first in range(0, dist.get_world_size(), ranks)]
        group = groups[rank // ranks]
    whole, seed = network(name), 5 + (rank // ranks if ranks else 0)
    split = tensor.split_network(None, whole, group, mode)
    ours, right = made(name, split, seed), made(name, whole, seed)
    ours.loss.backward(), right.loss.backward()
    off = {}
    for of, parameter in whole.named_parameters():
        grad = split.tensor(of).grad
        grad = split.splits[of].joined(grad, split.gathering) if of in split.splits else grad
        of_all = max(float(parameter.grad.norm()), 1e-6)     # a bias before a normalization has 0 but for rounding
        off[of] = 0.0 if torch.equal(grad, parameter.grad) else float((grad - parameter.grad).norm()) / of_all
    state = tensor.joined(split)
    pairs = [(a, b) for a, b in zip(ours.trains, right.trains) if a.shape == b.shape]
    return {"answers": [same_bits(a.detach().numpy(), b.detach().numpy())
                        for a, b in zip(ours.answers, right.answers)],
            "close": all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(ours.answers, right.answers)),
            # of rates the last bits may differ where sums are taken in another order
            "flips": [int(((a - b).abs() > (0.0 if mode == "exact" else 1e-4)).sum()) for a, b in pairs],
            "spikes": [int(b.sum()) for _, b in pairs],
            "off": off, "state": {of: float((state[of] - value).norm() / value.norm())
                                  for of, value in whole.state_dict().items() if not torch.equal(value, state[of])},
            "norm": (float(tensor.norm(split)), float(torch.nn.utils.get_total_norm(
                [p.grad for p in whole.parameters()]))),
            "own": sum(p.numel() for p in split.parameters()) / sum(p.numel() for p in whole.parameters()),
            "bytes": dict(split.gathering.bytes), "floats": split.gathering.floats}


def trained(rank: int, path: str | None, until: int, resume: bool) -> dict:
    """Some steps of motor's training, with tp=2."""
    trainer = TensorTrainer(MotorTask(quick=True, recipe=QUICK), 3, checkpoint=path)
    resumed = trainer.resume() if resume else 0
    while trainer.step < until:
        trainer.advance()
    if path and not resume:
        trainer.save()
        trainer.written()
    return {"resumed": resumed, "losses": trainer.losses, "state": trainer.trained().state_dict(),
            "bound": float(trainer.network.w0.max())}


def refused(rank: int) -> list[str]:
    """What is said where a network cannot be split."""
    from brain_training.definitions.vision import AnnBaseline

    said = []
    narrow = network("motor")
    narrow.w2 = torch.nn.Parameter(narrow.w2[:, :1])
    narrow.b2 = torch.nn.Parameter(narrow.b2[:1])
    for error, one, mode in ((TrainingError, AnnBaseline(), "exact"), (TrainingError, narrow, "exact"),
                             (ValueError, network("motor"), "rows")):
        with pytest.raises(error) as found:
            tensor.split_network(None, one, None, mode)
        said.append(str(found.value))
    return said
