# SPDX-License-Identifier: Apache-2.0
"""`brain train language`: rebuilds the shipped weights from nothing and reports held-out figures beside the twin's."""
from __future__ import annotations

import multiprocessing
import os
import queue
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from brain_regions.language import weights
from brain_regions.language.network import AnnReader as LiveAnn
from brain_regions.language.network import SpikingReader as LiveSpiking
from brain_runtime.tether import die_with
from brain_training import language_score as score
from brain_training.language import Progress, Recipe, fit, understood
from brain_training.language_data import make, pack
from brain_training.language_network import AnnReader, SpikingReader, of_weights

QUICK = Recipe(sentences=640, rate=3e-3)
NETWORKS = {"spiking": (SpikingReader, LiveSpiking), "twin": (AnnReader, LiveAnn)}
FRESH = 1000            # sentences of each kind and language, of the rules that were trained
EACH = 12               # objects for each phrasing of the suite
REPORT_SEED = 900_000   # of the sentences that are reported on; those of training begin at seed * 1000
LISTS = {"hand": "heldout", "strangers": "strangers", "others": "blind"}
"""Files of sentences: two whose failures were looked at when the rules were made, and one that nobody looked at."""


def train_one(name: str, seed: int, recipe: Recipe, progress: Progress | None = None) -> dict[str, Any]:
    """Trains one network on one thread; the same from the same seed.

    Returns:
        ``tensors``: weights by name, rounded as a file holds them; ``losses``; ``training_s``.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    begin = time.monotonic()
    tell = progress or (lambda what, done, of, note: None)
    data = pack(make(recipe.sentences, seed * 1000 + 1, lambda done, of: tell(f"sentences ({name})", done, of, "")))
    torch.manual_seed(seed)
    network = NETWORKS[name][0]()
    losses = fit(network, data, recipe, seed, progress)
    torch.set_num_threads(before)
    return {"tensors": weights.rounded(network.folded()), "losses": losses, "training_s": time.monotonic() - begin}


def examination(count: int, each: int, lists: Path | None = None) -> dict[str, list[score.Asked]]:
    """Sentences to examine a network by, with the right answers, by what is asked.

    None was drawn for training, but phrasings may be: those of the rules, and of the suite's split train.

    Args:
        count: fresh sentences of each kind and language.
        each: objects for each phrasing of the suite.
        lists: folder of the lists by hand; None, or a folder that is not there: without them.

    Raises:
        ValueError: a list is missing, or a line of it is no sentence with its answer.
    """
    found: dict[str, list[score.Asked]] = {}
    for language in ("en", "ja"):
        for kind, rows in score.trained(language, count, REPORT_SEED).items():
            found[f"trained phrasings, {kind}, {language}"] = rows
        for split in ("train", "val", "test"):
            for kind, rows in score.suite(language, split, each, REPORT_SEED).items():
                found[f"suite's split {split}, {kind}, {language}"] = rows
    for whose, file in LISTS.items() if lists and lists.is_dir() else ():
        for language, name in (("en", "english"), ("ja", "japanese")):
            rows = score.listed(lists / f"{file}_{name}.txt")
            found[f"list by {whose}, understood, {language}"] = [row for row in rows if row.slots[0]]
            found[f"list by {whose}, refused, {language}"] = [row for row in rows if not row.slots[0]]
    return found


def held_out(name: str, tensors: dict[str, np.ndarray], asked: dict[str, list[score.Asked]]
             ) -> dict[str, dict[str, float | int]]:
    """Shares of an :func:`examination` that a network gets right; ``tensors`` are its weights."""
    network = of_weights(NETWORKS[name][0], tensors)
    return {what: score.share(rows, lambda texts: understood(network, texts)) for what, rows in asked.items()}


def _work(name: str, seed: int, recipe: Recipe, news: Any, parent: int) -> None:
    die_with(parent)
    last = 0.0

    def tell(what: str, done: int, of: int, note: str) -> None:
        nonlocal last
        if done == of or time.monotonic() - last > 0.5:
            last = time.monotonic()
            news.put((what, done, of, note))

    news.put((name, train_one(name, seed, recipe, tell)))


def train_both(seed: int, recipe: Recipe, progress: Progress | None = None) -> dict[str, dict[str, Any]]:
    """Trains the spiking network and its twin at once, each in a process and on a thread of its own.

    Raises:
        RuntimeError: one of them ended without a result.
    """
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    workers = {name: context.Process(target=_work, args=(name, seed, recipe, news, os.getpid()), daemon=True)
               for name in NETWORKS}
    found: dict[str, dict[str, Any]] = {}
    for worker in workers.values():
        worker.start()
    try:
        while len(found) < len(workers):
            try:
                what, *rest = news.get(timeout=1.0)
            except queue.Empty:
                for name, worker in workers.items():
                    if name not in found and worker.exitcode not in (None, 0):
                        raise RuntimeError(f"the process that trained the {name} network ended with "
                                           f"{worker.exitcode}; what it said stands above") from None
                continue
            if what in workers and len(rest) == 1:
                found[what] = rest[0]
            elif progress:
                progress(what, *rest)
    finally:
        for worker in workers.values():
            if len(found) < len(workers):
                worker.terminate()
            worker.join()
    return found


def train_language(out: Path = weights.SHIPPED, twin: Path | None = None, seed: int = 0, *, quick: bool = False,
                   lists: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Trains the spiking network and its rate twin on the same sentences, and writes both weight files.

    Args:
        out: weight file of the spiking network.
        twin: that of the twin; default: beside it, with ``_twin`` at the end of its name.
        seed: of weights, sentences and order.
        quick: a tiny run that shows that everything works; its weights are worth nothing.
        lists: folder of the lists by hand, see :func:`examination`.
        progress: called with (what, done, of, note).

    Returns:
        Held-out figures of both, with the losses and the time that each took (s).

    Raises:
        ValueError: a list is missing or wrong; known before anything is trained.
        RuntimeError: one of the trainings ended without a result.
    """
    recipe = QUICK if quick else Recipe()
    asked = examination(40 if quick else FRESH, 1 if quick else EACH, lists)
    found = train_both(seed, recipe, progress)
    paths = {"spiking": out, "twin": twin or out.with_name(f"{out.stem}_twin{out.suffix}")}
    training = {"split": "train", "seed": seed, "recipe": asdict(recipe)}
    for name, made in found.items():
        tensors = made.pop("tensors")
        made["held_out"] = held_out(name, tensors, asked)
        weights.save(paths[name], tensors, NETWORKS[name][1], training, made)
    return {name: found[name] for name in NETWORKS}
