# SPDX-License-Identifier: Apache-2.0
"""`brain bench lesions`: what each population of spikes, the lexicon, the map and the reflexes are worth.

Each is taken away, or its spikes are (see :mod:`brain_regions.lesions`), in episodes that the whole brain plays, too,
on grounds where it can matter. Every episode is kept, one a line, in a file for each lesion and ground, so that what
was interrupted goes on where it was, and all figures can be had again from what is kept.
"""
from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Sequence

import typer

from brain_eval import saved
from brain_eval.ablations import declared, lesionable, parse
from brain_eval.bench.experiment import Experiment, Jobs
from brain_eval.episodes import run_many
from brain_eval.results import SUITES, group, paired, weights_hashes
from brain_runtime.graph.graphs import DEFAULT
from brain_runtime.graph.rooms import Split

FOLDER = saved.FOLDER / "lesions"
SECONDS = 8.0       # that an episode takes of a core, while nothing is known of it
KINDS = ("silent", "drop:0.3", "shuffle")
KEPT = ("id", "kind", "lang", "visibility", "outcome", "success", "time", "spl", "reason", "spikes", "synops",
        "simulated", "wall")


class Ground(NamedTuple):
    """Episodes, and what of the brain is another there for all who play them.

    Attributes:
        name: for a person.
        ablated: options of --ablate.
        suite: whose episodes.
        low_obstacles: that the lidar's plane misses, in each room.
        joined: classes that join the brain.
        kind: of episodes, the others being left out; empty: all.
    """

    name: str
    ablated: tuple[str, ...] = ()
    suite: str = "language-v1"
    low_obstacles: int = 0
    joined: tuple[str, ...] = ()
    kind: str = ""


GROUNDS = {
    "plain": Ground("language-v1"),
    "avoid": Ground("language-v1, what is to be avoided", kind="avoid"),
    "low": Ground("three low obstacles, sonar", low_obstacles=3, joined=("brain_sim.plugin_sensors:Sonar",)),
    "moving": Ground("language-v1-hard", suite="language-v1-hard"),
    "confused": Ground("vision errs", ("vision=confused",)),
    "late": Ground("vision is late", ("vision=late",)),
    "astray": Ground("motor errs", ("motor.output=noise:0.1",))}    # into whatever is near, but for the reflex
PLAIN = ("plain",)
WHERE = {   # populations that can matter more elsewhere than on plain ground
    "pfc.memory": ("confused", "late"), "pfc.target": ("confused",), "pfc.avoid": ("avoid",),
    "pfc.candidates": ("confused",), "pfc.commitment": ("confused",)}
OTHERS = {  # what has no spikes, and the memory's readers hearing all of its spikes, but nothing past them
    "pfc.memory=drop:0": ("confused", "late"), "lexicon=off": PLAIN, "lexicon=alone": PLAIN, "place=off": PLAIN,
    "brainstem=passive": ("low", "moving", "astray")}


class Run(NamedTuple):
    """A lesion on a ground; without a lesion the whole brain."""

    lesion: str
    ground: str

    def path(self, folder: Path) -> Path:
        """Returns the file in which its episodes are kept."""
        return folder / self.ground / f"{(self.lesion or 'brain').replace(':', '-')}.jsonl"


def parts() -> dict[str, tuple[str, ...]]:
    """Populations, as ``pfc.memory``, and the grounds on which their lesions are measured."""
    names = [f"{region}.{name}" for region, cls in declared(DEFAULT).items() for name in lesionable(cls)]
    return {name: WHERE.get(name, PLAIN) for name in names}


def runs(only: Sequence[str] = ()) -> list[Run]:
    """Lists the runs there are to play, ground by ground, the whole brain first.

    Args:
        only: names of populations (``pfc.memory``), of what is done to all of them (``silent``), of lesions
            (``pfc.memory=silent``, ``place=off``); none: all.

    Raises:
        ValueError: there is nothing of a name; says what there is.
    """
    found = {name: [Run(f"{name}={kind}", ground) for ground in where for kind in KINDS]
             for name, where in parts().items()}
    found |= {name: [Run(name, ground) for ground in where] for name, where in OTHERS.items()}
    called = {run: {part, run.lesion, run.lesion.partition("=")[2]} for part, of in found.items() for run in of}
    for name in only:
        if not any(name in names for names in called.values()):
            raise ValueError(f"there is no {name} in the table; there are {', '.join((*found, *KINDS))}")
    chosen = {run for run, names in called.items() if not only or names & set(only)}
    every = [run for of in found.values() for run in of]
    return [run for ground in GROUNDS if any(r.ground == ground for r in chosen)
            for run in (Run("", ground), *(r for r in every if r in chosen and r.ground == ground))]


def episodes(ground: Ground, split: str, seed: int, count: int) -> list[Any]:
    """The first episodes of a ground."""
    suite, found, asked = SUITES[ground.suite], [], count
    while len(found) < count:
        found = [e for e in suite.episodes(split, asked, seed, ground.low_obstacles) if ground.kind in ("", e.kind)]
        asked *= 2
    return found[:count]


def made_with(run: Run, split: str, seed: int) -> dict[str, Any]:
    """Returns the settings that all episodes of a file have in common; they are its first line."""
    ground = GROUNDS[run.ground]
    return {"suite": ground.suite, "suite_hash": SUITES[ground.suite].suite_hash(), "split": split, "seed": seed,
            "ablated": [*ground.ablated, *([run.lesion] if run.lesion else [])],
            "low_obstacles": ground.low_obstacles, "joined": list(ground.joined), "weights": _weights()}


@functools.cache
def _weights() -> dict[str, str]:
    return weights_hashes()


def kept(path: Path, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Episodes of a file; what was torn at its end is cut off. None where there is no file.

    Raises:
        ValueError: its episodes are others than those that are wanted.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        path.write_text("".join(whole), encoding="utf-8")
    try:
        rows = [json.loads(line) for line in whole]
    except ValueError as error:
        raise ValueError(f"{path} holds a line that is no JSON ({error}); move it away, or give another --folder"
                         ) from None
    if rows and rows[0] != wanted:
        other = [name for name in wanted if rows[0].get(name) != wanted[name]]
        raise ValueError(f"{path} holds episodes of another {', '.join(other)}; move it away, or give another --folder")
    return rows[1:]


def play(run: Run, chosen: list[Any], jobs: int, path: Path, head: dict[str, Any]):
    """Plays episodes and keeps them; yields each result as it comes."""
    ground, commit = GROUNDS[run.ground], (saved.commit() or "")[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        if not file.tell():
            file.write(json.dumps(head) + "\n")
        for _, result in run_many(chosen, jobs=jobs, join=ground.joined, ablation=parse(head["ablated"])):
            row = {name: result[name] for name in KEPT} | {"commit": commit}
            file.write(json.dumps(row) + "\n")
            file.flush()
            yield row


def report(folder: Path, split: str, seed: int, count: int) -> dict[str, Any]:
    """All that is kept of the first ``count`` episodes of each ground, beside those of the whole brain.

    Returns:
        ``grounds``: the whole brain's; ``populations``: by part and ground what each of :data:`KINDS` changes, under
        ``silent``, ``drop`` and ``shuffle``, None where nothing was played; ``others``: the same of :data:`OTHERS`,
        under ``off``; ``commits``: of the code that played.

    Raises:
        ValueError: a file is of other episodes.
    """
    numbers = {name: [e.id for e in episodes(ground, split, seed, count)] for name, ground in GROUNDS.items()}
    commits: set[str] = set()

    def read(run: Run) -> list[dict[str, Any]]:
        rows = {row["id"]: row for row in kept(run.path(folder), made_with(run, split, seed))}
        found = [rows[number] for number in numbers[run.ground] if number in rows]
        commits.update(row["commit"] for row in found)
        return found

    whole = {ground: read(Run("", ground)) for ground in GROUNDS}

    def change(run: Run) -> dict[str, Any] | None:
        found = read(run)
        both = {row["id"] for row in found} & {row["id"] for row in whole[run.ground]}
        found = [row for row in found if row["id"] in both]
        return {**paired(found, whole[run.ground]), "after": group(found)} if both else None

    populations = [{"what": name, "ground": GROUNDS[ground].name,
                    **{kind.partition(":")[0]: change(Run(f"{name}={kind}", ground)) for kind in KINDS}}
                   for name, where in parts().items() for ground in where]
    others = [{"what": name, "ground": GROUNDS[ground].name, "off": change(Run(name, ground))}
              for name, where in OTHERS.items() for ground in where]
    return {"split": split, "seed": seed, "pairs": count, "kinds": KINDS,
            "grounds": [{"ground": GROUNDS[name].name, "all": group(rows) if rows else None}
                        for name, rows in whole.items()],
            "populations": populations, "others": others, "commits": sorted(commits)}


def lines(found: dict[str, Any]) -> list[str]:
    """Formats a report of what was played, a line each."""
    told = [f"whole brain, {row['ground']}: {row['all']['success']['count']} of {row['all']['n']}"
            for row in found["grounds"] if row["all"]]
    for row in (*found["populations"], *found["others"]):
        for kind in ("silent", "drop", "shuffle", "off"):
            if change := row.get(kind):
                low, high = change["success"]["interval95"]
                told.append(f"{row['what']}{'' if kind == 'off' else f' {kind}'}, {row['ground']}: "
                            f"{100 * change['success']['difference']:+.1f} points ({100 * low:+.1f} to "
                            f"{100 * high:+.1f}, {change['n']} pairs)")
    return told


class Lesions(Experiment):
    """Measures what each population of spikes, the lexicon, the map and the reflexes are worth.

    Each is taken away in episodes that the whole brain plays, too: plain ones, some with low or moving obstacles, with
    a vision that errs, with one that is late. What was interrupted goes on where it was.
    """

    quick = {"pairs": 1, "only": "place=off"}
    refused = 2
    problems = (ValueError,)

    def measure(self, pairs: Annotated[int, typer.Option(min=1, help="Episodes of each lesion and ground.")] = 100,
                only: Annotated[str, typer.Option(
                    metavar="NAME,...", help="Play these alone: populations (pfc.memory), what is done to them "
                                             "(silent), lesions (pfc.memory=silent, place=off). The table has all "
                                             "that is kept.")] = "",
                split: Annotated[Split, typer.Option(help="Rooms and sentences: train, val or test.")] = Split.val,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the suites.")] = 1, jobs: Jobs = 1,
                folder: Annotated[Path, typer.Option(help="Where episodes are kept; what is there is not played again."
                                                     )] = FOLDER) -> dict[str, Any]:
        """Plays what is missing; see :func:`report`."""
        left = []
        for run in runs([name.strip() for name in only.split(",") if name.strip()]):
            head = made_with(run, split.value, seed)
            rows = kept(run.path(folder), head)
            there = {row["id"] for row in rows}
            missing = [e for e in episodes(GROUNDS[run.ground], split.value, seed, pairs) if e.id not in there]
            left.append((run, head, missing, [row["wall"] for row in rows]))
        report(folder, split.value, seed, pairs)    # refuses a file of other episodes now, not when all was played
        self._play_all(left, pairs, jobs, folder)
        return report(folder, split.value, seed, pairs)

    def _play_all(self, left: list[tuple[Run, dict, list, list[float]]], pairs: int, jobs: int, folder: Path) -> None:
        every = [wall for *_, walls in left for wall in walls]
        known = sum(every) / len(every) if every else SECONDS
        hours = sum(len(missing) * (sum(walls) / len(walls) if walls else known) for *_, missing, walls in left) / 3600
        todo, done = sum(len(missing) for _, _, missing, _ in left), 0
        self.log(f"{len(left)} runs of {pairs} episodes, of which {todo} are to be played: about {hours / jobs:.1f} h, "
                 f"{jobs} at once")
        for run, head, missing, _ in left:
            rows: list[dict[str, Any]] = []
            where = f"{run.lesion or 'whole brain'}, {GROUNDS[run.ground].name}"
            for row in play(run, missing, jobs, run.path(folder), head) if missing else ():
                rows.append(row)
                done += 1
                self.status(f"{where}: {done} of {todo}")
            if rows:
                self.log(f"{where}: {sum(row['success'] for row in rows)} of {len(rows)} succeeded, "
                         f"{sum(row['wall'] for row in rows) / len(rows):.1f} s an episode")

    def rows(self, found: dict[str, Any]) -> list[str]:
        return lines(found)
