# SPDX-License-Identifier: Apache-2.0
"""``brain bench neurons`` and ``nir``: our neurons and a network of ours beside other libraries."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import Json, fail, tell_json

WIDE = 120      # characters of a table with many columns


def neurons(rounds: Annotated[int, typer.Option(min=1, help="Turns of each library in each case.")] = 7,
            libraries: Annotated[str, typer.Option(help="Which to measure beside, with commas between.")] =
            "norse,snntorch,spikingjelly,sinabs",
            folder: Annotated[Path | None, typer.Option(help="Of their environments. Default: in ~/.cache/brain.")] =
            None,
            as_json: Json = False) -> None:
    """Steps of LIF neurons beside those of other libraries, on one core in turns, without gradients.

    Sizes are neurons, or inputs -> neurons of a dense layer; batch: so many copies; steps: micro-steps in one call. The
    libraries are installed the first time, each in an environment of its own; one that cannot be is named and left out.
    Exit status 0 when neither of our kinds (NumPy, torch) is anywhere slower than the fastest of them.
    """
    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_neurons
    from brain_bench.other_libraries import NotThere
    from brain_eval.results import cpu

    only = _known(libraries)
    try:
        with Terminal(stderr=True).status("starting") as shown:
            found = bench_neurons.measure(rounds, only=only, folder=folder, tell=shown.update)
    except NotThere as error:
        fail(str(error))
    if as_json:
        tell_json({"cpu": cpu(), **found})
    else:
        console = Terminal(width=WIDE)
        console.print(bench_neurons.table(found))
        for reason in found["left_out"].values():
            console.print(f"left out: {reason}")
    raise typer.Exit(0 if found["within"] else 1)


def nir(pictures: Annotated[int, typer.Option(min=1, help="Pictures of a robot that turns, 10 micro-steps each.")] = 20,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = 5,
        libraries: Annotated[str, typer.Option(help="Which to run it in, with commas between.")] =
        "norse,snntorch,spikingjelly",
        folder: Annotated[Path | None, typer.Option(help="Of their environments. Default: in ~/.cache/brain.")] = None,
        as_json: Json = False) -> None:
    """The network of vision, written as NIR, run by other libraries: spikes and answers beside ours.

    The libraries are installed the first time, each in an environment of its own; one that cannot be is named and left
    out.
    """
    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_nir

    only = _known(libraries)
    with Terminal(stderr=True).status("starting") as shown:
        found = list(bench_nir.compare(seed, pictures, only=only, folder=folder, tell=shown.update))
    if as_json:
        tell_json({"ways": found})
    else:
        Terminal(width=WIDE).print(bench_nir.table(found))


def _known(libraries: str) -> tuple[str, ...]:
    """Names between commas, all of them libraries to measure beside."""
    from brain_bench.other_libraries import LIBRARIES

    names = tuple(name.strip() for name in libraries.split(",") if name.strip())
    for name in names:
        if name not in LIBRARIES:
            fail(f"there is no library {name!r} to measure beside; there are {', '.join(LIBRARIES)}", 2)
    return names
