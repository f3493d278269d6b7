# SPDX-License-Identifier: Apache-2.0
"""``brain score``: vision on pictures and recordings of real cameras."""
from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Mapping, Sequence

import typer

from brain_runtime.command.options import Json, check_writable, fail, tell, tell_json

if TYPE_CHECKING:
    from brain_eval.score.figures import Counts
    from brain_eval.score.labels import Labels, Picture
    from brain_eval.score.looker import Looker, Seen
    from brain_eval.score.recorded import Report, Shown
    from brain_eval.score.sheet import Roll

MAIN = "spiking"
MOST_TOLD = 20          # skipped files that are named to a person
MOST_BYTES = 2**28      # of a picture's file


def score(
        what: Annotated[list[Path], typer.Argument(metavar="PICTURES|BAG...", help="Pictures (JPEG, PNG), folders of "
                                                   "them, or recordings (MCAP, sqlite3).")],
        labels: Annotated[list[Path] | None, typer.Option(
            metavar="FILE", help="Labels of the pictures; may be given again. What is not labelled in them is then "
                                 "looked at, and not counted.")] = None,
        shipped: Annotated[bool, typer.Option(
            "--shipped-labels", help="Take the labels that come with this package, too.")] = False,
        half: Annotated[str, typer.Option(help="Only labelled pictures of one half of the sources: first is for "
                                               "looking at, second only for scores.")] = "",
        only: Annotated[list[str] | None, typer.Option(
            metavar="NAME", help="Look by one vision alone: spiking, ann (its ReLU twin) or conventional (color "
                                 "thresholds); may be given again. Default: all.")] = None,
        weights: Annotated[str, typer.Option(metavar="FILE", help="Weights of the spiking vision. Default: its own."
                                             )] = "",
        view: Annotated[float, typer.Option(
            min=10.0, max=160.0, metavar="DEGREES", help="Horizontal view of cameras of which neither labels nor "
                                                         "camera_info tell it.")] = 62.0,
        pictures: Annotated[str, typer.Option(metavar="TOPIC", help="Of a recording's pictures. Default: "
                                              "camera/image_raw, or the only one.")] = "",
        film: Annotated[Path | None, typer.Option(
            metavar="FILE", help="Draw what was told: a film (.gif) or a sheet of all pictures (.png, .jpg).")] = None,
        save: Annotated[str | None, typer.Option(
            metavar="NAME", help="Write the figures to results/NAME.json, for the tables of `brain docs`.")] = None,
        as_json: Json = False) -> None:
    """Looks at pictures or recordings of any camera, and tells what vision sees there, and how much of it is true.

    A still is looked at 4 times, 50 ms apart, from rest, in 10 views: the whole and its four corners of 67 %, each
    mirrored, too. A recording is played through. Without labels all that is told counts as false.
    """
    from brain_eval import saved
    from brain_eval.score.labels import FOLDER, HALVES, LabelError, Labels, read
    from brain_eval.score.looker import visions
    from brain_eval.score.recorded import RecordingProblem, recordings_in
    from brain_eval.score.sheet import ENDINGS, Roll
    from brain_regions.weight_files import WeightsError
    from brain_runtime import ParameterError
    from brain_runtime.contract.declared import DeclaredError

    if half and half not in HALVES:
        fail(f"--half {half}: there are {' and '.join(HALVES)}", 2)
    if half and not (labels or shipped):
        fail(f"--half {half}: it is the labels' that say which half a picture is of; give --labels FILE", 2)
    if film is not None and film.suffix.lower() not in ENDINGS:
        fail(f"{film}: a film is a .gif, a sheet a .png or .jpg", 2)
    check_writable(film)
    if save is not None:
        saved.check_folder()
    try:
        files = [*(labels or ()), *(sorted(FOLDER.glob("*.yaml")) if shipped else ())]
        known = Labels(picture for file in files for picture in read(file)) if files else None
        lookers = visions(weights, only)
        if unknown := sorted({*(only or ())} - lookers.keys()):
            fail(f"there is no vision {unknown[0]!r}; there are {', '.join(visions())}", 2)
        run = Run(lookers, known, half, math.radians(view), Roll() if film is not None else None)
        for path in what:
            if not path.exists():
                fail(f"{path} is not there; name a picture, a folder of pictures or a recording", 2)
            recordings = recordings_in(path)
            for one in recordings:
                try:
                    run.play(one, pictures)
                except RecordingProblem as problem:
                    if one == path:
                        raise
                    run.skipped.append({"file": str(one), "why": str(problem)})
            if path not in recordings:
                run.look_at(path, recordings, quiet=as_json)
        if not (run.recordings or run.unlabelled or any(one.views for one in run.all_counts())):
            run.tell_skipped()
            fail(f"there is nothing to look at in {', '.join(map(str, what))}", 2)
        if film is not None and run.roll is not None:
            run.roll.save(film, run.period)
    except (LabelError, RecordingProblem, WeightsError, ParameterError, DeclaredError) as error:
        fail(str(error), 2)
    except (OSError, ValueError) as error:
        fail(str(error))
    report = run.report()
    if save is not None:
        saved.write(save, {key: value for key, value in report.items() if key not in ("pictures", "skipped")},
                    {"seed": 0})
    if as_json:
        tell_json(report)
        return
    run.tell(report)
    if film is not None:
        tell(f"wrote {film}")


@dataclass
class Run:
    """Run over pictures and recordings, and what came of it.

    Attributes:
        lookers: visions, by name.
        labels: of pictures; None: there are none, and all that is told counts as false.
        half: of the sources that is counted; empty: both.
        view: of a camera of which nothing is known (rad).
        roll: that is filled with frames; None: nothing is drawn.
    """

    lookers: Mapping[str, Looker]
    labels: Labels | None
    half: str
    view: float
    roll: Roll | None
    period: float = 1.0
    skipped: list[dict[str, str]] = field(default_factory=list)
    pictures: list[dict[str, Any]] = field(default_factory=list)
    recordings: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, list[Counts]] = field(default_factory=dict)
    unlabelled: int = 0
    seen: dict[str, Counter[str]] = field(default_factory=dict)

    # -- stills ----------------------------------------------------------------------------------------------------

    def look_at(self, path: Path, besides: Sequence[Path] = (), quiet: bool = True) -> None:
        """Looks at a picture, or at all in a folder but some parts; what cannot be read is noted, and skipped."""
        from rich.progress import track

        from brain_runtime.contract.pictures import PictureError, is_gray, unpacked
        from brain_runtime.command.terminal import Terminal

        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")
                       and not {file, *file.parents} & {*besides}) if path.is_dir() else [path]
        for file in files if quiet else track(files, "looking", console=Terminal(stderr=True), transient=True):
            try:
                if file.stat().st_size > MOST_BYTES:
                    raise PictureError(f"it has more than {MOST_BYTES} bytes")
                data = file.read_bytes()
                picture = unpacked(data)
            except (PictureError, OSError) as error:
                self.skipped.append({"file": str(file), "why": getattr(error, "strerror", None) or str(error)})
                continue
            digest = hashlib.sha256(data).hexdigest()
            label = None if self.labels is None else self.labels.of(digest, file.name)
            if label is not None and self.half and label.half != self.half:
                continue
            self._still(file, digest, picture, label, is_gray(picture))

    def _still(self, file: Path, digest: str, picture: Any, label: Picture | None, gray: bool) -> None:
        from brain_eval.score.figures import Counts, judge
        from brain_eval.score.labels import Camera
        from brain_eval.score.views import views

        camera = Camera() if label is None else label.camera
        if math.isnan(camera.view):
            camera = camera._replace(view=self.view)
        objects = () if label is None else label.objects
        counted = {name: Counts(*_of(label, file.parent.name)) for name in self.lookers}
        told: dict[str, list[dict[str, Any]]] = {name: [] for name in self.lookers}
        refused: dict[str, tuple[str, str]] = {}
        for one in views(picture, camera.view, camera.mount, objects):
            for name, looker in self.lookers.items():
                found = looker.look_at_still(one.picture, one.info, camera.view, camera.mount)
                if looker.refused:
                    refused.setdefault(name, (one.name, looker.refused))
                    continue
                judged = judge(found, one.targets)
                counted[name].add(judged, one.targets)
                sure = [done for done in judged if done.seen.confidence >= looker.threshold]
                self._count_seen(name, [done.seen for done in sure])
                if one.name == "whole":
                    told[name] = [_as_plain(done.seen, done.worth.value) for done in sure]
                    if name == self.main and self.roll is not None:
                        self.roll.add(one.picture, one.lens, camera.mount, [done.seen for done in sure], one.targets,
                                      file.name)
        self.skipped += [{"file": f"{file} ({where}, {name})", "why": why} for name, (where, why) in refused.items()]
        self._take(counted, label)
        self.pictures.append({"file": str(file), "sha256": digest, "gray": gray, "labelled": label is not None,
                              "source": None if label is None else label.source, "told": told})

    # -- recordings ------------------------------------------------------------------------------------------------

    def play(self, path: Path, topic: str) -> None:
        """Plays a recording. Raises RecordingProblem."""
        from brain_eval.score.figures import Counts, judge
        from brain_eval.score.recorded import names_of, play

        seen: dict[str, Counter[str]] = {name: Counter() for name in self.lookers}
        looked = 0

        def show(shown: Shown) -> None:
            nonlocal looked
            looked += 1
            if shown.label is not None and self.half and shown.label.half != self.half:
                return
            counted = {}
            for name, told in shown.told.items():
                counted[name] = Counts(*_of(shown.label, path.stem))
                counted[name].add(judge(told, shown.targets), shown.targets)
                sure = [one for one in told if one.confidence >= self.lookers[name].threshold]
                seen[name].update(names_of(sure, 0.0))
                self._count_seen(name, sure)
                if name == self.main and self.roll is not None:
                    self.roll.add(shown.picture, shown.lens, shown.mount, sure, shown.targets, f"{shown.at:.2f} s")
            self._take(counted, shown.label)

        def label(digest: str) -> Picture | None:
            return None if self.labels is None else self.labels.of(digest, "")

        report = play(path, self.lookers, label, show, topic, self.view)
        rate = report.times[report.pictures].rate
        self.period = 1.0 / rate if rate > 0.0 else self.period
        self.recordings.append(_recording(path, report, looked, seen))

    # -- what came of it -------------------------------------------------------------------------------------------

    @property
    def main(self) -> str:
        """The vision whose figures stand first."""
        return MAIN if MAIN in self.lookers else next(iter(self.lookers))

    def all_counts(self) -> list[Counts]:
        """Counts of all visions."""
        return [one for some in self.counts.values() for one in some]

    def _count_seen(self, name: str, sure: Sequence[Seen]) -> None:
        self.seen.setdefault(name, Counter()).update(
            f"{one.color} {one.kind}" if one.color and one.kind else "something" for one in sure)

    def _take(self, counted: Mapping[str, Counts], label: Picture | None) -> None:
        """Counts a picture; one that nobody has labelled only where there are no labels at all."""
        if self.labels is not None and label is None:
            self.unlabelled += 1
            return
        for name, one in counted.items():
            self.counts.setdefault(name, []).append(one)

    def report(self) -> dict[str, Any]:
        """Everything, as plain values."""
        from brain_eval.score.figures import by, figures

        found: dict[str, Any] = {}
        for name, looker in self.lookers.items():
            some = self.counts.get(name, [])
            found[name] = {**figures(some, looker.threshold), "sources": by(some, "source", looker.threshold),
                           "halves": by(some, "half", looker.threshold), "seen": dict(self.seen.get(name, {}))}
        main = found[self.main]
        return {"vision": self.main, "views": main["views"], "false_objects_a_view": main["false_objects_a_view"],
                "something_a_view": main["something_a_view"], "f1": main["f1"], "labelled": self.labels is not None,
                "unlabelled": self.unlabelled, "skipped": self.skipped, "visions": found, "pictures": self.pictures,
                "recordings": self.recordings}

    def tell_skipped(self) -> None:
        """Names what was skipped, to a person."""
        for one in self.skipped[:MOST_TOLD]:
            tell(f"skipped {one['file']}: {one['why']}", err=True)
        if len(self.skipped) > MOST_TOLD:
            tell(f"and {len(self.skipped) - MOST_TOLD} more, which --json names", err=True)

    def tell(self, report: Mapping[str, Any]) -> None:
        """Tells a person: what was skipped, of each recording its times, and a table of all visions."""
        from brain_eval.score.figures import tally

        self.tell_skipped()
        for one in self.recordings:
            _tell_recording(one, self.main)
        for name, seen in self.seen.items():
            tell(f"{name} saw {tally(seen) or 'nothing'}")
        if report["unlabelled"]:
            tell(f"{report['unlabelled']} pictures have no labels, and are not counted")
        if not report["labelled"]:
            tell("without --labels every object counts as false, though it may be there")
        _table(report["visions"])


def _of(label: Picture | None, otherwise: str) -> tuple[str, str]:
    """Source and half that a picture counts for."""
    return (otherwise, "") if label is None else (label.source, label.half)


def _as_plain(seen: Seen, worth: str) -> dict[str, Any]:
    distance, width = float(seen.message.distance), float(seen.message.width)
    return {"color": seen.color, "kind": seen.kind, "confidence": round(seen.confidence, 4),
            "bearing": round(seen.bearing, 4), "distance": round(distance, 3) if math.isfinite(distance) else None,
            "width": round(width, 4) if math.isfinite(width) else None, "worth": worth}


def _recording(path: Path, report: Report, looked: int, seen: Mapping[str, Counter[str]]) -> dict[str, Any]:
    topics = {name: {"messages": one.count, "unstamped": one.unstamped, "rate": one.rate, "gaps": one.gaps,
                     "longest_gap": one.longest, **{key: value if math.isfinite(value) else None for key, value in zip(
                         ("age_p50", "age_p95"), one.age)}} for name, one in report.times.items()}
    return {"recording": str(path), "pictures": report.pictures, "looked_at": looked, "refused": report.refused,
            "topics": topics, "seen_in": {name: dict(some) for name, some in seen.items()}}


def _tell_recording(one: Mapping[str, Any], main: str) -> None:
    from brain_eval.score.figures import tally

    for topic, at in one["topics"].items():
        age = "no stamps" if at["age_p50"] is None else (f"{1e3 * at['age_p50']:.1f} ms old, 95 % below "
                                                         f"{1e3 * at['age_p95']:.1f} ms")
        gaps = f"{at['gaps']} gaps, the longest {at['longest_gap']:.2f} s" if at["gaps"] else "no gap"
        tell(f"{one['recording']}: {topic} {at['messages']} messages, {at['rate']:.1f} Hz, {gaps}; {age}")
    for why, count in one["refused"].items():
        tell(f"{one['recording']}: {count} pictures were refused: {why}", err=True)
    tell(f"{one['recording']}: of {one['looked_at']} pictures {main} saw in so many: "
         f"{tally(one['seen_in'][main]) or 'nothing'}")


def _table(visions: Mapping[str, Mapping[str, Any]]) -> None:
    """The same figures of each vision, and of each source by itself."""
    from rich.table import Table

    from brain_runtime.command.terminal import Terminal

    table = Table(box=None, pad_edge=False, caption="false, unnamed: objects a view that are not there; ECE: expected "
                                                    "calibration error", caption_justify="left")
    table.add_column("vision", overflow="fold")
    for name in ("views", "asked", "F1", "95 %", "false", "95 %", "unnamed", "ECE"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, found in visions.items():
        for source, one in [("", found), *(found["sources"].items() if len(found["sources"]) > 1 else ())]:
            table.add_row(f"  {source}" if source else name, str(one["views"]), str(one["asked"]),
                          *_with(one, "f1"), *_with(one, "false_objects_a_view"), _number(one["something_a_view"]),
                          _number(one["calibration_error"]))
    Terminal().print(table)


def _with(one: Mapping[str, Any], key: str) -> tuple[str, str]:
    interval = one.get(f"{key}_interval95")
    return _number(one[key]), f"{interval[0]:.2f}-{interval[1]:.2f}" if interval else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
