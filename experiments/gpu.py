# SPDX-License-Identifier: Apache-2.0
"""`brain bench gpu`: a step of each training, and a look of vision, on the CPU and on a GPU, in turns."""
from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

import numpy as np
import torch
import typer

from brain_eval.bench.experiment import Experiment
from brain_regions.vision.network import HEIGHT, WIDTH, Looking, widened
from brain_training.definitions.vision import SpikingVision, tensors
from brain_runtime.command.options import fail
from brain_training.settings import check_device
from brain_training.task import SIZES, Task
from brain_training.trainer import Trainer
from brain_training.vision import Recipe, VisionTask
from experiments.training_rank import Order, task_of as small


NETWORKS = ("motor", "language", "vision")
FIRST, STEPS = 3, 6     # steps that do not count, for what is made at first; and those that do
WIDTHS = (1, 2, 4, 8)   # of vision, in times of the channels that ship
LOOKS, MICRO_STEPS = 20, 20


def task_of(network: str, size: str) -> Task:
    """The task that ships, in a size, with no more samples than the steps take; all have the same for every device."""
    if network == "vision":
        batch = VisionTask.full.batch
        task: Task = VisionTask(recipe=Recipe(rooms=2, clips_per_room=-(-batch // 2), epochs=FIRST + STEPS + 1,
                                              batch=batch))
    else:
        task = small(Order(network, steps=FIRST + STEPS))
    task.size = size
    return task


def steps(network: str, size: str, device: str, seed: int) -> dict[str, Any]:
    """Trains some steps.

    Returns:
        ``step_ms``: median; ``losses``: of the first steps; ``most_mb``: that tensors took of a GPU's memory, or None.
    """
    cuda = device.startswith("cuda")
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    trainer, took = Trainer(task_of(network, size), seed, device=device), []
    for _ in range(FIRST + STEPS):
        began = time.perf_counter()
        trainer.advance()       # which reads the loss, and so waits for the GPU
        took.append(time.perf_counter() - began)
    return {"step_ms": 1e3 * statistics.median(took[FIRST:]), "losses": trainer.losses[:FIRST],
            "most_mb": torch.cuda.max_memory_allocated(device) / 1e6 if cuda else None}


def look(width: int, device: str, seed: int) -> float:
    """Median time (ms) in which a vision of so many times the channels looks at a picture of noise, from rest."""
    torch.manual_seed(seed)
    layers = widened(width)
    looking = Looking(tensors(SpikingVision(layers).folded()), layers, device)
    rng, took = np.random.default_rng(seed), []
    for _ in range(LOOKS):
        picture = rng.integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        began = time.perf_counter()
        looking.look(picture, looking.rest(), MICRO_STEPS)
        took.append(time.perf_counter() - began)
    return 1e3 * statistics.median(took[FIRST:])


class Gpu(Experiment):
    """Time of a training step and of a look, on the CPU with one thread and on a GPU."""

    def measure(self, device: Annotated[str, typer.Option(help="Torch device that is compared with the CPU.")] = "cuda",
                quick: Annotated[bool, typer.Option("--quick", help="Only the sizes that ship.")] = False,
                seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of weights, samples and pictures.")] = 0
                ) -> dict[str, Any]:
        """Takes steps and looks by turns."""
        torch.set_num_threads(1)
        try:
            check_device(device)
        except ValueError as error:
            fail(f"{str(error).rpartition(';')[0]}; docs/training.md says how torch finds a GPU")
        there = torch.device(device)
        found: dict[str, Any] = {
            "device": torch.cuda.get_device_name(there) if there.type == "cuda" else device,
            "torch": torch.__version__, "seed": seed, "steps": [], "looks": []}
        for network in NETWORKS:
            for size in list(SIZES)[:1] if quick else SIZES:
                self.status(f"a step of {network} ({size})")
                here, other = (steps(network, size, one, seed) for one in ("cpu", device))
                found["steps"].append({"network": network, "size": size, "cpu_ms": here["step_ms"],
                                       "gpu_ms": other["step_ms"], "gpu_mb": other["most_mb"],
                                       "times": here["step_ms"] / other["step_ms"],
                                       "cpu_losses": here["losses"], "gpu_losses": other["losses"]})
        for width in WIDTHS[:1] if quick else WIDTHS:
            self.status(f"a look of vision x{width}")
            found["looks"].append({"width": width, "cpu_ms": look(width, "cpu", seed),
                                   "gpu_ms": look(width, device, seed)})
        return found
