# SPDX-License-Identifier: Apache-2.0
"""Labels of pictures that are not ours to copy: where each is from, by which bytes it is known, and what it shows.

A file of YAML or JSON. What is not said is unknown: a view of 62 degrees, a level camera, a height that is estimated::

    format: brain-score-1
    sources:
    - name: some-package 1.2            # pictures of one source resemble each other
      link: the wheel of some-package 1.2
      licence: CC0-1.0
      half: first                       # to look at; second: only to score
      by: [a person]                    # who labelled
      view: 62                          # horizontal, degrees
      pitch: unknown                    # degrees, positive down
      height: unknown                   # m above the floor
      pictures:
      - path: data/cup.png
        sha256: 3f0a...                 # of the file, or of the data of a recording's message
        objects:
        - {box: [172, 16, 410, 286], color: red, kind: cylinder}
        - {box: [0, 30, 50, 90], ignore: two labellers differ}

A box is left, top, right and bottom in pixels, round the visible part; ``hidden`` is the share that is not visible.
Each of ``view``, ``pitch``, ``height``, ``licence`` and ``by`` may be said of one picture or object too.
"""
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple

from brain_runtime.contract.optics import Mount

FORMAT = "brain-score-1"
FOLDER = Path(__file__).parent / "labelled"
"""Label files that are shipped."""
VIEW = math.radians(62.0)       # of a camera of which nothing is known
COLORS = ("red", "green", "blue", "yellow", "other")
OTHERS = dict.fromkeys(("orange", "white", "purple", "black", "brown", "gray", "grey"), "other")
KINDS = ("ball", "box", "cylinder", "cone", "other")
HALVES = ("first", "second")
MOST_BYTES = 2**25      # of a file
_SOURCE = {"name", "link", "licence", "half", "by", "view", "pitch", "height", "note", "pictures"}
_PICTURE = {"path", "sha256", "licence", "by", "view", "pitch", "height", "note", "marks", "objects"}
_OBJECT = {"box", "color", "kind", "hidden", "ignore", "by", "note"}


class LabelError(ValueError):
    """A file holds no labels; names it and the place in it, in one line."""


class Labelled(NamedTuple):
    """An object in a picture.

    Attributes:
        box: left, top, right and bottom (px).
        color: of :data:`COLORS`; kind: of :data:`KINDS`; both empty where it is ignored.
        hidden: share that is not visible.
        ignore: why nothing is asked of it, whatever is told; empty: it counts.
        by: who labelled it.
    """

    box: tuple[float, float, float, float]
    color: str
    kind: str
    hidden: float = 0.0
    ignore: str = ""
    by: tuple[str, ...] = ()


class Camera(NamedTuple):
    """Camera of a picture.

    Attributes:
        view: horizontal (rad); NaN where it is unknown.
        mount: level where the pitch is unknown; its height is NaN where that is.
    """

    view: float = math.nan
    mount: Mount = Mount(height=math.nan)


class Picture(NamedTuple):
    """A picture that was labelled.

    Attributes:
        source: name of it.
        half: one of :data:`HALVES`.
        path: of the file in its source.
        sha256: of its bytes; empty: it is known by the name of its file.
        licence: of it.
        camera: that made it.
        objects: in it.
        marks: by which a part of it is known; see :mod:`.held_out`.
    """

    source: str
    half: str
    path: str
    sha256: str
    licence: str
    camera: Camera
    objects: tuple[Labelled, ...]
    marks: tuple[str, ...] = ()


class Labels:
    """Labelled pictures, found by their bytes or their name.

    Args:
        pictures: of any number of files.

    Raises:
        LabelError: one is there twice.
    """

    def __init__(self, pictures: Iterable[Picture]) -> None:
        self.pictures = list(pictures)
        self._known: dict[str, Picture] = {}
        for one in self.pictures:
            key = one.sha256 or Path(one.path).name
            if key in self._known:
                raise LabelError(f"{one.path} of {one.source} is labelled twice, as {self._known[key].path} of "
                                 f"{self._known[key].source} too; label it once")
            self._known[key] = one

    def of(self, digest: str, name: str) -> Picture | None:
        """Returns the picture of a SHA-256 (hex) or a file's name; None: nobody has labelled it."""
        return self._known.get(digest) or self._known.get(name)


def read(path: Path) -> list[Picture]:
    """Reads a file of labels.

    Raises:
        LabelError: it is none; says where.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LabelError(f"it has more than {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
        told = json.loads(text) if path.suffix == ".json" else _yaml(text)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise LabelError(f"it does not say `format: {FORMAT}`")
        _known(told, {"format", "sources", "note"}, "the file")
        return [picture for source in _list(told, "sources", "the file") for picture in _source(source)]
    except LabelError as error:
        raise LabelError(f"{path} holds no labels: {error}; see docs/evidence.md, pictures of real cameras") from None
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:160]
        raise LabelError(f"{path} cannot be read: {why}") from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _source(told: Any) -> list[Picture]:
    where = "a source"
    _known(told, _SOURCE, where)
    name = _text(told, "name", where)
    where = f"source {name!r:.60}"
    half = told.get("half", HALVES[0])
    if half not in HALVES:
        raise LabelError(f"half of {where} is {half!r:.40}; it is {' or '.join(HALVES)}")
    return [_picture(one, told, name, half) for one in _list(told, "pictures", where)]


def _picture(told: Any, source: Mapping[str, Any], name: str, half: str) -> Picture:
    where = f"a picture of {name!r:.60}"
    _known(told, _PICTURE, where)
    path = _text(told, "path", where)
    where = f"{path!r:.80} of {name!r:.60}"
    digest = str(told.get("sha256", ""))
    if digest and not (len(digest) == 64 and all(digit in "0123456789abcdef" for digit in digest)):
        raise LabelError(f"sha256 of {where} is not 64 hex digits")
    said = {**{key: source.get(key, "unknown") for key in ("view", "pitch", "height")}, **told}
    view, pitch, height = (_number(said, key, low, high, where) for key, low, high in (
        ("view", 10.0, 180.0), ("pitch", -90.0, 90.0), ("height", 0.0, 100.0)))
    mount = Mount(height=math.nan if height is None else height, pitch=math.radians(pitch or 0.0))
    camera = Camera(math.nan if view is None else math.radians(view), mount)
    by = _names(told.get("by", source.get("by", ())), where)
    return Picture(name, half, path, digest, str(told.get("licence", source.get("licence", "unknown"))), camera,
                   tuple(_object(one, by, where) for one in _list(told, "objects", where)),
                   tuple(map(str, told.get("marks", ()))))


def _object(told: Any, by: tuple[str, ...], where: str) -> Labelled:
    where = f"an object in {where}"
    _known(told, _OBJECT, where)
    box = told.get("box")
    if not (isinstance(box, list) and len(box) == 4 and all(type(v) in (int, float) and math.isfinite(v) for v in box)
            and box[0] < box[2] and box[1] < box[3]):
        raise LabelError(f"box of {where} is not [left, top, right, bottom]")
    hidden = told.get("hidden", 0.0)
    if type(hidden) not in (int, float) or not 0.0 <= hidden <= 1.0:
        raise LabelError(f"hidden of {where} is a share, 0 to 1")
    ignore = told.get("ignore") or ""
    left, top, right, bottom = map(float, box)
    by = _names(told["by"], where) if "by" in told else by
    if ignore:
        return Labelled((left, top, right, bottom), "", "", float(hidden), str(ignore), by)
    color = told.get("color")
    color, kind = OTHERS.get(color, color), told.get("kind")
    if color not in COLORS or kind not in KINDS:
        raise LabelError(f"{where} needs a color ({', '.join(COLORS)}) and a kind ({', '.join(KINDS)}), or `ignore` "
                         f"with the reason")
    return Labelled((left, top, right, bottom), color, kind, float(hidden), "", by)


def _known(told: Any, keys: set[str], where: str) -> None:
    if not isinstance(told, dict):
        raise LabelError(f"{where} is no mapping")
    if unknown := sorted(map(str, told.keys() - keys)):
        raise LabelError(f"{where} has the unknown key {unknown[0]!r:.40}; there are {', '.join(sorted(keys))}")


def _list(told: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = told.get(key, [])
    if not isinstance(found, list):
        raise LabelError(f"{key} of {where} is no list")
    return found


def _text(told: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(told.get(key), str) or not told[key]:
        raise LabelError(f"{where} has no {key}")
    return told[key]


def _names(told: Any, where: str) -> tuple[str, ...]:
    if isinstance(told, str):
        return (told,)
    if not isinstance(told, (list, tuple)) or not all(isinstance(one, str) for one in told):
        raise LabelError(f"by of {where} is no list of names")
    return tuple(told)


def _number(told: Mapping[str, Any], key: str, low: float, high: float, where: str) -> float | None:
    """Returns a number; None where it is unknown."""
    value = told[key]
    if value == "unknown":
        return None
    if type(value) not in (int, float) or not low <= value <= high:
        raise LabelError(f"{key} of {where} is {value!r:.40}; it is a number from {low:g} to {high:g}, or unknown")
    return float(value)
