# SPDX-License-Identifier: Apache-2.0
"""The stages as workers: told by options, or else by the variables that Sedna's manager sets; they report to it."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from brain_training.incremental.comparing import metrics
from brain_training.incremental.deploying import Deploying
from brain_training.incremental.sedna_worker import WorkerProblem, report, told
from brain_training.incremental.stages import BY, Settings, evaluate as compare, train as learn
from brain_training.incremental.taking import take as take_in

FILE = "vision.safetensors"

Tell = Callable[[str], None]


def take(learned: Path | None, clips: Path | None, model: Path | None, settings: Settings, tell: Tell
         ) -> dict[str, Any]:
    """Takes what a fleet has learned; returns what is told with --json.

    Raises:
        WorkerProblem, ValueError, OSError: see :func:`.taking.take`; or something is not told.
    """
    if learned is None or model is None:
        raise WorkerProblem("take needs --learned, what the fleet has learned, and --model, the file to write")
    made = take_in(learned.expanduser(), clips, model, settings, tell)
    tell(f"wrote {model}: what was learned in {learned}, things are told from {made['threshold']:.2f} on; compare it "
         f"with `{BY} eval`")
    return {"model": str(model), **made, "reported": False}


def train(clips: Path | None, base: Path | None, model: Path | None, settings: Settings, tell: Tell) -> dict[str, Any]:
    """Trains; returns what is told with --json.

    Raises:
        WorkerProblem, WeightsError, ValueError, OSError: see :func:`.stages.train`; or something is not told.
    """
    out = Path(told("MODEL_URL", model, "--model"))
    if model is None or out.is_dir():
        out = out / FILE
    made = learn(Path(told("BASE_MODEL_URL", base, "--base")), Path(told("TRAIN_DATASET_URL", clips, "--clips")), out,
                 settings, tell)
    tell(f"wrote {out}: {made['steps']} steps, {made['clips']} new clips, {made['old_clips']} old ones, loss "
         f"{made['loss']:.3f}")
    found = [{"url": FILE, "format": "safetensors", "metrics": {"loss": [made["loss"]], "clips": [made["clips"]]}}]
    return {"model": str(out), **made, "reported": report("train", "completed", found)}


def evaluate(clips: Path | None, base: Path | None, model: Path | None, settings: Settings, tell: Tell
             ) -> dict[str, Any]:
    """Compares; returns what is told with --json.

    Raises:
        WorkerProblem, WeightsError: see :func:`.stages.evaluate`; or something is not told.
    """
    if base is None or model is None:
        both = told("MODEL_URLS", None, "--model and --base").split(";")
        if len(both) != 2:
            raise WorkerProblem(f"MODEL_URLS names {len(both)} models; it must name the new one and the one in use")
        model, base = model or Path(both[0]), base or Path(both[1])
    if model.is_dir():
        model = model / FILE
    found = compare(model, base, Path(told("TEST_DATASET_URL", clips, "--clips")), settings, tell)
    tell(found.verdict.why)
    numbers = metrics(found.held, found.plain, found.verdict)
    reported = report("eval", "completed", [{"url": str(path), "format": "safetensors", "metrics": one}
                                            for path, one in zip((model, base), numbers)])
    return {**found.verdict._asdict(), "new": numbers[0], "old": numbers[1], "reported": reported}


def deploy(model: Path | None, canary: int, goals: int, once: bool, cloud: str | None, secure: Path | None, tell: Tell
           ) -> dict[str, Any]:
    """Rolls out what was put in the deployed model's place, until it is ended or, with ``once``, that is ordered.

    Raises:
        WorkerProblem: something is not told, or the cloud does not take it.
    """
    deploying = Deploying(Path(told("MODEL_URL", model, "--model")), canary, goals, cloud, secure, tell)
    return {"state": deploying.look() if once else deploying.run(), "reported": False}
