# SPDX-License-Identifier: Apache-2.0
"""``brain fleet collect``, on a robot, and ``brain fleet incremental``, in the cloud."""
from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from brain_edge.processes.options import BrainSecure
from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, become, fail, tell, tell_json, use_domain, use_security)

CLIPS = Path("~/.brain/edge/clips")


def collect(name: Annotated[str, typer.Option("--name", metavar="NAME", help="The robot's name in its fleet.")],
            recordings: Annotated[list[Path] | None, typer.Option(
                "--from", metavar="FOLDER", help="Choose from recordings that there are, and end; may be given again. "
                "Default: from the brain that runs, until Ctrl-C.")] = None,
            rules: Annotated[str | None, typer.Option(metavar="NAMES", help="Which rules choose, as unsure,reflex. "
                                                      "Default: all. Some clips are always chosen by chance.")] = None,
            keep: Annotated[float, typer.Option("--keep", metavar="MB", min=1.0, help="Megabytes that clips may take; "
                                                "those that are old and not hard go first.")] = 500.0,
            most: Annotated[int, typer.Option("--most", metavar="N", min=1, max=3600, help="Clips an hour at most.")
                            ] = 60,
            teacher: Annotated[str | None, typer.Option(metavar="TOPIC", help="Keep a topic of labels too, as "
                                                        "sim/objects.")] = None,
            threshold: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Confidence from which on vision "
                                 "tells of a thing. Default: that of the weights that ship.")] = None,
            folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Of the clips.")] = CLIPS,
            router: Router = None, brain_secure: BrainSecure = None, domain: Domain = None,
            namespace: Namespace = "", as_json: Json = False) -> None:
    """Keeps short clips of what was hard for this robot; they stay on it until its owner lets them leave.

    It runs beside `brain edge`, at a low priority.
    """
    from brain_security.fleet_keys import FleetNameProblem, check_robot
    from brain_training.incremental.rules import UnknownRule, named

    folder = folder.expanduser().absolute()
    try:
        check_robot(name)
        chosen = named(rules)
        threshold = _threshold() if threshold is None else threshold
    except (FleetNameProblem, UnknownRule) as problem:
        fail(str(problem), 2)
    if recordings:
        _from(recordings, name, folder, keep, chosen, most, threshold, teacher, as_json)
        return
    use_domain(domain)
    use_security(brain_secure)
    become("brain_training.incremental.run_collect", name=name, folder=folder, keep=keep, most=most,
           threshold=threshold, rules=rules, teacher=teacher, router=router, namespace=namespace or None)


def _threshold() -> float:
    from brain_regions.vision import weights

    return weights.threshold(weights.SHIPPED, weights.load())


def _from(recordings: list[Path], name: str, folder: Path, keep: float, rules: object, most: int, threshold: float,
          teacher: str | None, as_json: bool) -> None:
    from brain_training.incremental.clip_files import ClipFolder, ClipProblem
    from brain_training.incremental.from_recordings import Found, choose
    from brain_training.recordings.bags import RecordingError

    def say(found: Found) -> None:
        if not as_json:
            kept = ", ".join(f"{count} {rule}" for rule, count in sorted(found.clips.items())) or "nothing"
            lacks = f"; without {', '.join(found.lacks)} some rules find nothing" if found.lacks else ""
            tell(f"{found.recording}: {kept}{lacks}")

    try:
        with ClipFolder(folder, keep * 1e6) as clips:
            found = choose([one.expanduser() for one in recordings], name, clips, rules, most,  # type: ignore[arg-type]
                           threshold, teacher, say)
    except (RecordingError, ClipProblem) as problem:
        fail(str(problem))
    except OSError as error:
        fail(f"cannot read {error.filename}: {error.strerror or error}")
    if as_json:
        tell_json({"folder": str(folder), "recordings": [one._asdict() for one in found]})


class Stage(str, Enum):
    """The stages of Sedna's incremental learning, and how weights that a fleet has learned together come to them."""

    take = "take"
    train = "train"
    eval = "eval"
    deploy = "deploy"


def incremental(stage: Annotated[Stage, typer.Argument(help="take, train, eval, or deploy.")],
                clips: Annotated[Path | None, typer.Option(metavar="LIST", help="Clips, a path a line, as `brain fleet "
                                 "clips` writes it. Default: TRAIN_DATASET_URL, TEST_DATASET_URL.")] = None,
                base: Annotated[Path | None, typer.Option(metavar="FILE", help="Weights in use. Default: "
                                "BASE_MODEL_URL, the second of MODEL_URLS.")] = None,
                model: Annotated[Path | None, typer.Option(metavar="FILE", help="New weights: what train writes, eval "
                                 "compares, deploy rolls out. Default: MODEL_URL, the first of MODEL_URLS.")] = None,
                learned: Annotated[Path | None, typer.Option(metavar="FILE", help="Of take: the model.safetensors of "
                                   "what the fleet has learned together.")] = None,
                labels: Annotated[str, typer.Option(metavar="SOURCE", help="Where labels come from: self, outcomes, or "
                                                    "a recorded topic of a teacher.")] = "self",
                steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Of the training.")] = 200,
                replay: Annotated[float, typer.Option(min=0.0, max=0.95, help="Share of old clips that is mixed in, so "
                                                      "that old rooms are not forgotten.")] = 0.5,
                rooms: Annotated[int, typer.Option(min=1, max=1000, help="Old rooms that are examined.")] = 20,
                most_lost: Annotated[float, typer.Option(min=0.0, max=1.0, help="F1 that may be lost there.")] = 0.03,
                seed: Annotated[int, typer.Option(min=0, help="Of the training.")] = 0,
                canary: Annotated[int, typer.Option(min=0, help="Robots that get it first; 0: all at once.")] = 1,
                goals: Annotated[int, typer.Option(min=0, help="Goals that each of these is watched for.")] = 10,
                once: Annotated[bool, typer.Option("--once", help="Of deploy: end when it is ordered.")] = False,
                cloud: Annotated[str | None, typer.Option("--cloud", metavar="ENDPOINT", envvar="BRAIN_CLOUD",
                                 help="Of deploy: where the cloud is.")] = None,
                secure: Annotated[Path | None, typer.Option("--secure", metavar="FILE",
                                  envvar="BRAIN_FLEET_SECURITY", help="Of deploy: a person's credentials, which sign.")
                                  ] = None,
                as_json: Json = False) -> None:
    """A stage of incremental learning in the cloud, by itself or as a worker of Sedna's IncrementalLearningJob.

    take makes of what a fleet has learned together weights that robots can take, with a threshold; train goes on from
    the weights in use with the new clips and old ones; eval compares both on clips that neither has learned from,
    and ends with status 1 where the new ones are not better; deploy adds them to the fleet's models and begins a
    roll-out.
    """
    from brain_training.incremental.learning import Course
    from brain_training.incremental.sedna_worker import WorkerProblem
    from brain_training.incremental.stages import Settings
    from brain_training.incremental import working
    from brain_regions.weight_files import WeightsError

    # Sedna's manager divides a list, and writes the parts elsewhere: what they name is still beside the whole one.
    whole = os.environ.get("ORIGINAL_DATASET_URL") if clips is None else None
    settings = Settings(labels, rooms, Course(steps=steps, replay=replay), most_lost, seed,
                        None if whole is None else Path(whole).parent)

    def say(text: str) -> None:
        tell(text, err=as_json)

    try:
        if stage is Stage.take:
            found = working.take(learned, clips, model, settings, say)
        elif stage is Stage.train:
            found = working.train(clips, base, model, settings, say)
        elif stage is Stage.eval:
            found = working.evaluate(clips, base, model, settings, say)
        else:
            found = working.deploy(model, canary, goals, once, cloud, secure, say)
    except (WorkerProblem, WeightsError, ValueError) as problem:
        fail(str(problem))
    except OSError as error:
        fail(f"cannot read or write {error.filename}: {error.strerror or error}")
    if as_json:
        tell_json(found)
    raise typer.Exit(1 if found.get("better") is False and not found["reported"] else 0)
