# SPDX-License-Identifier: Apache-2.0
"""The trainings of ``brain train``, by name, and all of them at once, each in a process of its own on one torch thread.

One after the other they would leave cores idle: motor's runs on one thread, and so do both networks of language.
"""
from __future__ import annotations

import errno
import importlib
import multiprocessing
import os
import queue
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from brain_runtime.tether import die_with

NAMES = ("vision", "language", "motor")     # the prefrontal cortex is wired, not trained
LONGEST = "vision"  # it goes first where cores are few: at the end of all it would leave the others' idle
PERIOD = 0.5        # s between two news of one bar
Progress = Callable[[str, int, int, str], None]


def train(name: str, out: Path | None, seed: int, quick: bool, threads: int, progress: Progress) -> dict[str, Any]:
    """Runs one training.

    Args:
        name: one of :data:`NAMES`.
        out: weight file, with the twin's beside it; None: the shipped ones.
        seed: of weights, data and order.
        quick: a tiny run, whose weights are worth nothing.
        threads: torch's, where the training can use several.
        progress: called with (what, done, of, note).

    Returns:
        Its figures, with ``network`` and ``files``.

    Raises:
        OSError: the weight files cannot be written; known before anything is trained, if their folder is the reason.
        ValueError: a list of sentences to examine by is missing or wrong; known before anything is trained.
    """
    more: dict[str, Any] = {"threads": threads}
    if name == "vision":
        from brain_training.train_vision import train_vision as work
    elif name == "language":
        import brain_regions
        from brain_training.train_language import train_language as work

        # the lists by hand are there where this is a checkout
        more = {"lists": Path(brain_regions.__file__).parents[1] / "test" / "test_language_sentences"}
    else:
        from brain_training.train_motor import train_motor as work
    target, twin = writable(name, out)      # now, not when all is trained
    return {"network": name, "files": [str(target), str(twin)],
            **work(target, twin, seed, quick=quick, progress=progress, **more)}


def writable(name: str, out: Path | None) -> tuple[Path, Path]:
    """The weight files of a network and of its twin; see :func:`train`. Their folder is made where it is not there.

    Raises:
        OSError: nothing can be written there.
    """
    shipped = importlib.import_module(f"brain_regions.{name}.weights")
    target = out or shipped.SHIPPED
    twin = shipped.TWIN if out is None else out.with_stem(f"{out.stem}_twin")
    target.parent.mkdir(parents=True, exist_ok=True)
    for file in (target, twin):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target.parent))
    return target, twin


def _work(name: str, out: Path | None, seed: int, quick: bool, news: Any, parent: int) -> None:
    die_with(parent)
    if name != LONGEST:
        os.nice(5)
    last: dict[str, float] = {}

    def tell(what: str, done: int, of: int, note: str) -> None:
        if done == of or time.monotonic() - last.get(what, 0.0) > PERIOD:
            last[what] = time.monotonic()
            news.put((f"{name}: {what}", done, of, note))

    news.put((name, train(name, out, seed, quick, 1, tell)))


def train_all(folder: Path | None, seed: int, quick: bool, progress: Progress, names: Sequence[str] = NAMES
              ) -> Iterator[dict[str, Any]]:
    """Runs trainings at once, and yields what each came to when it is done; see :func:`train`.

    Args:
        folder: for the weight files; None: the shipped ones are replaced.

    Raises:
        RuntimeError: some ended without a result; the others went on, and were yielded before.
    """
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    workers = {name: context.Process(target=_work, args=(
        name, None if folder is None else folder / f"{name}.safetensors", seed, quick, news, os.getpid()))
        for name in names}
    for worker in workers.values():
        worker.start()
    left, failed = dict(workers), []
    try:
        while left:
            try:
                what, *rest = news.get(timeout=1.0)
            except queue.Empty:
                what, rest = None, []
            if what in left and len(rest) == 1:
                left.pop(what)
                yield rest[0]
            elif what:
                progress(what, *rest)
            for name in [name for name, worker in left.items() if worker.exitcode]:
                failed.append(f"the training of {name} ended with {left.pop(name).exitcode}")
        if failed:
            raise RuntimeError(f"{', '.join(failed)}; what it said stands above")
    finally:
        for name, worker in workers.items():
            if name in left:
                worker.terminate()
            worker.join()
