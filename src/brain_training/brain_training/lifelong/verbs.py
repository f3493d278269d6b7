# SPDX-License-Identifier: Apache-2.0
"""``brain lifelong``: a library of tasks, learned site by site, and which of them pictures belong to."""
from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Iterator

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, check_writable, fail, tell,
                                           tell_json, use_domain, use_security)

if TYPE_CHECKING:
    from brain_training.lifelong.allocation import Allocated
    from brain_training.lifelong.sources import Source

Folder = Annotated[Path, typer.Argument(metavar="LIBRARY", help="Folder of the library.")]
Pictures = Annotated[str, typer.Option("--recordings", metavar="FOLDER", help="Recordings of one site; or a look of "
                                       "the simulator, as look:hue=0.25,light=0.9,tint=1/0.85/0.65,rooms=40.")]
Every = Annotated[float, typer.Option(min=0.01, max=3600.0, metavar="SECONDS", help="Between two of the pictures by "
                                      "which the site is known.")]

app = typer.Typer(help="Learn vision site by site, and forget none: a library of tasks.", no_args_is_help=True)


@app.command()
def learn(library: Folder, recordings: Pictures,
          labels: Annotated[str, typer.Option(help="Of recordings: self, outcomes, or a topic; as for brain fleet "
                                              "learn.")] = "self",
          name: Annotated[str | None, typer.Option(metavar="TASK", help="Learn it as this task, new or not, whatever "
                                                   "it looks like. Default: as what it is taken for.")] = None,
          steps: Annotated[int, typer.Option(min=1, max=100_000, help="Of training.")] = 160,
          batch: Annotated[int, typer.Option(min=1, max=256, help="Clips of a step.")] = 8,
          rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Learning rate at the beginning.")] = 3e-3,
          false_alarms: Annotated[float, typer.Option(min=0.001, max=0.5, help="Of a new task: share of its own "
                                                      "windows of pictures that may be taken for unknown.")] = 0.05,
          start: Annotated[Path | None, typer.Option(metavar="FILE", help="Weights that a new task begins with. "
                                                     "Default: the nearest task's, or those that ship.")] = None,
          every: Every = 1.0, seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0,
          as_json: Json = False) -> None:
    """Learns the pictures of one site, as the task that they are taken for, or as a new one.

    Weights of other tasks stay as they are. Where what came out is worse than before in clips that are held back, the
    task keeps the weights that it had.
    """
    with _problems():
        from brain_training.lifelong.learners import Steps
        from brain_training.lifelong.learning import learn as learned
        from brain_training.lifelong.library import Library
        from brain_runtime.command.terminal import Terminal

        with Terminal(stderr=True).status("reading pictures") as shown:
            found = learned(Library(library), _source(recordings, labels, seed, every), Steps(steps, batch, rate), seed,
                            name=name, start=None if start is None else _weights(start), rate=false_alarms,
                            tell=lambda done, of: shown.update(f"step {done} of {of}"))
    if as_json:
        tell_json({"task": found.task, "what": found.what, "before": found.before, "f1": found.f1,
                   "allocated": None if found.allocated is None else found.allocated._asdict()})
        return
    if found.allocated is not None:
        tell(_said(found.allocated))
    ended = {"new": f"a new task, {found.task}, begun with weights of F1 {found.before:.2f}",
             "further": f"{found.task} has learned further, from F1 {found.before:.2f}",
             "kept": f"{found.task} keeps its weights, which are better than what was trained"}[found.what]
    tell(f"{ended}; F1 {found.f1:.2f} in clips that are held back")


@app.command()
def which(library: Folder, recordings: Pictures, every: Every = 1.0, as_json: Json = False) -> None:
    """Tells which task pictures belong to; exit status 1 where none. No labels are needed."""
    with _problems():
        from brain_training.lifelong.allocation import of_windows
        from brain_training.lifelong.library import Library, descriptors

        tasks = Library(library).tasks()
        if not tasks:
            fail(f"{library} has no task yet; begin one with `brain lifelong learn {library} --recordings FOLDER`")
        found = of_windows(_source(recordings, "self", 0, every).windows(), descriptors(tasks))
    if as_json:
        tell_json(found._asdict())
    else:
        tell(_said(found))
    raise typer.Exit(0 if found.task is not None else 1)


@app.command()
def status(library: Folder, as_json: Json = False) -> None:
    """Shows the tasks: how good each is, what of it was forgotten, and how surely it is known."""
    with _problems():
        from brain_training.lifelong.learning import status as told
        from brain_training.lifelong.library import Library

        found = Library(library)
        tasks = told(found)
    if as_json:
        tell_json({"tasks": tasks, "history": found.history})
        return
    if not tasks:
        tell(f"{library} has no task yet")
        return
    from rich.table import Table

    from brain_runtime.command.terminal import Terminal

    table = Table("task", "F1", "forgotten", "learned", "clips", "windows", "known", "unknown", "alarms set", box=None,
                  header_style="bold", pad_edge=False)      # fits 80 columns
    for one in tasks:
        table.add_row(one["task"], f"{one['f1']:.2f}", f"{one['forgotten']:.2f}", str(one["learned"]),
                      str(one["clips"]), str(one["windows"]), f"{one['recognized']:.0%}", f"{one['unknown']:.0%}",
                      f"{one['rate']:.0%}")
    Terminal().print(table)


@app.command()
def export(library: Folder, task: Annotated[str, typer.Argument(metavar="TASK", help="Whose weights.")],
           out: Annotated[Path, typer.Option(metavar="FILE", help="Weight file, as `brain fleet rollout` and the "
                                             "parameter `weights` of vision take it.")]) -> None:
    """Writes the weights of a task for a robot."""
    check_writable(out)
    with _problems():
        from brain_regions.vision import weights
        from brain_training.lifelong.learning import exported
        from brain_training.lifelong.library import Library

        weights.save(out, *exported(Library(library), task))
    tell(f"{out}: weights of {task}; give them to robots with `brain fleet rollout`, see docs/fleet-learning.md")


@app.command()
def follow(library: Folder,
           region: Annotated[str, typer.Option(metavar="REGION", help="Whose weights are set.")] = "vision",
           pictures: Annotated[str, typer.Option(metavar="TOPIC", help="Of the camera.")] = "camera/image_raw",
           every: Every = 1.0,
           agreed: Annotated[int, typer.Option(min=1, help="Windows of eight pictures that have to say the same one "
                                               "after another.")] = 3,
           router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Gives a running brain's vision the weights of the site that its camera shows, until Ctrl-C.

    They are changed when no goal is pursued. Exit status 1 where somebody else sets them too.
    """
    use_domain(domain)
    use_security(secure)
    from brain_runtime.run.ending import Ending
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    ending = Ending()
    with _problems():
        from brain_training.lifelong.following import Following, Taken
        from brain_training.lifelong.library import Library

        there = Library(library)
        if not there.names():
            fail(f"{library} has no task yet; begin one with `brain lifelong learn {library} --recordings FOLDER`")
        try:
            with open_node("brain_lifelong", namespace or "/", router=router) as node:
                following = Following(node, there, region=region, pictures=pictures, agreed=agreed, tell=tell)
                tell("looks at its pictures")
                while not ending.asked.wait(every):
                    following.look()
        except (NoRouter, SessionProblem, NameProblem, Taken) as problem:
            fail(str(problem))


@app.command()
def stage(which_one: Annotated[str, typer.Argument(metavar="STAGE", help="train, eval or infer.")],
          recordings: Annotated[str | None, typer.Option(metavar="FOLDER", help="Of infer: pictures of the site that "
                                                         "the robot is at.")] = None,
          labels: Annotated[str, typer.Option(help="Of recordings, as for learn.")] = "self",
          steps: Annotated[int, typer.Option(min=1, max=100_000, help="Of training.")] = 160,
          batch: Annotated[int, typer.Option(min=1, max=256, help="Clips of a step.")] = 8,
          rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Learning rate at the beginning.")] = 3e-3,
          seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0) -> None:
    """Is a worker of a LifelongLearningJob: its manager says by variables what there is to do."""
    from brain_runtime.run.ending import Ending

    with _problems():
        from brain_training.lifelong import stages
        from brain_training.lifelong.learners import Steps

        if which_one not in stages.STAGES:
            fail(f"there is no stage {which_one!r}; there are {', '.join(stages.STAGES)}", 2)
        if which_one == "train":
            stages.train(Steps(steps, batch, rate), labels, seed, tell)
        elif which_one == "eval":
            stages.evaluate(labels, seed, tell)
        elif recordings is None:
            fail("infer needs --recordings: pictures of the site that the robot is at", 2)
        else:
            ending = Ending()
            stages.infer(recordings, tell)
            ending.asked.wait()        # the next library comes with another process


def _said(found: Allocated) -> str:
    """Says in one line, for a person, which task pictures were taken for, and the distances to the nearest tasks."""
    nearest = sorted(found.ratios.items(), key=lambda pair: pair[1])[:5]
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in nearest)
    taken = f"taken for {found.task}" if found.task is not None else "unknown"
    return f"{taken}, by {found.share:.0%} of the windows; distances, in bounds: {told}"


def _source(recordings: str, labels: str, seed: int, every: float) -> Source:
    from brain_training.lifelong.sources import source

    return source(recordings, labels, seed, every)


def _weights(path: Path) -> dict[str, Any]:
    from brain_regions.vision import weights

    return dict(weights.load(path).tensors)


@contextmanager
def _problems() -> Iterator[None]:
    """Ends the command with one line where something is wrong."""
    from brain_regions.weight_files import WeightsError
    from brain_training.lifelong.task_file import LibraryProblem

    import torch

    torch.set_num_threads(1)
    try:
        yield
    except (LibraryProblem, ValueError, WeightsError) as problem:
        fail(str(problem))
    except OSError as problem:
        fail(f"{problem.strerror or problem}: {problem.filename or 'a file'}; see that it is there and can be used")
