# SPDX-License-Identifier: Apache-2.0
"""`brain bench sentences`: how much of a list is understood, by the networks that ship and by the grammar."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Callable

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
Reader = Callable[[str], tuple[int, ...]]


def readers() -> dict[str, Reader]:
    """What reads a sentence as it is read live: the spiking network, its ANN baseline, and the grammar by hand.

    Each answers with verb, color and shape of the target, color and shape of what is avoided; all 0: not understood.

    Raises:
        WeightsError: a weight file that ships does not fit.
    """
    from brain_regions.language import parse, sizes, weights
    from brain_regions.language.decode import decode, framed, spell
    from brain_regions.language.network import AnnReader, SpikingReader

    def by(path: Path, cls: Any) -> Reader:
        network = cls(weights.load(path, cls)[0])

        def read(text: str) -> tuple[int, ...]:
            sentence = framed(spell(text))
            if len(sentence) > sizes.LONGEST:       # is refused unread
                return 0, 0, 0, 0, 0
            return decode(spell(text), network.hear(sentence))[0].slots
        return read

    return {"spiking": by(weights.SHIPPED, SpikingReader), "ann": by(weights.ANN, AnnReader),
            "grammar": lambda text: parse(text).slots}


def measure(file: Path, which: dict[str, Reader]) -> dict[str, Any]:
    """Shares of a list that are understood, and rightly refused, with Wilson intervals, and what was read wrongly.

    Its ``language`` is ``ja`` where most of its sentences have Japanese letters, else ``en``.

    Raises:
        ValueError: the list cannot be read, or a line of it.
    """
    from brain_eval.results import share
    from brain_training.language_score import listed

    rows = listed(file)
    if not rows:
        raise ValueError(f"{file} holds no sentence; write some, as `go red ball / blue any : go to the red ball but "
                         f"avoid what is blue`, or `- : hello` for one that is to be refused")
    japanese = sum(bool(JAPANESE.search(row.text)) for row in rows)
    found: dict[str, Any] = {"file": file.name, "language": "ja" if 2 * japanese > len(rows) else "en", "networks": {}}
    for name, read in which.items():
        answers = [tuple(read(row.text)) for row in rows]
        right = [answer == row.slots for answer, row in zip(answers, rows)]
        asks = [bool(row.slots[0]) for row in rows]
        found["networks"][name] = {
            "understood": share(sum(r for r, a in zip(right, asks) if a), sum(asks)) | {"of": sum(asks)},
            "refused": share(sum(r for r, a in zip(right, asks) if not a), len(asks) - sum(asks))
            | {"of": len(asks) - sum(asks)},
            "failures": [{"text": row.text, "meant": row.slots, "heard": answer}
                         for row, answer, fine in zip(rows, answers, right) if not fine]}
    return found


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums of lists: by language (``en``, ``ja``, and ``both``), network, and what is to be done with a sentence."""
    from brain_eval.results import share

    def summed(lists: list[dict[str, Any]], name: str, what: str) -> dict[str, Any]:
        cells = [told["networks"][name][what] for told in lists]
        of = sum(cell["of"] for cell in cells)
        return share(sum(cell["count"] for cell in cells), of) | {"of": of}

    sides = {language: [t for t in found if t["language"] == language] for language in ("en", "ja")} | {"both": found}
    return {side: {name: {what: summed(lists, name, what) for what in ("understood", "refused")}
                   for name in found[0]["networks"]} for side, lists in sides.items() if lists}


def sentences(files: Annotated[list[Path], typer.Argument(
                  help="Lists: a sentence a line, with what it asks for in front, as `go red ball / blue any : go to "
                       "the red ball but avoid what is blue`; `-` for one that is to be refused.")],
              failures: Annotated[bool, typer.Option("--failures", help="List the sentences read wrongly.")] = False,
              as_json: Json = False) -> None:
    """Reads sentences with the language networks that ship, and with the grammar by hand.

    All slots must be right: verb, color and shape of the target, color and shape of what is to be avoided.
    """
    from rich.box import SIMPLE_HEAD
    from brain_runtime.command.terminal import Terminal
    from rich.table import Table

    from brain_regions.weight_files import WeightsError

    try:
        which = readers()
        found = [measure(file, which) for file in files]
    except (ValueError, WeightsError) as error:
        fail(str(error), 2)
    if as_json:
        told = found if failures else [
            {**one, "networks": {name: {k: v for k, v in shares.items() if k != "failures"}
                                 for name, shares in one["networks"].items()}} for one in found]
        tell_json({"lists": told, "together": together(found)})
        return
    table = Table(title="all slots right, with Wilson 95 % intervals", box=SIMPLE_HEAD)
    for heading in ("list", "", "of", *which):
        table.add_column(heading, justify="left" if heading in ("list", "") else "right", no_wrap=heading != "list")
    for told in found:
        for what in ("understood", "refused"):
            cells = [told["networks"][name][what] for name in which]
            if cells[0]["of"]:
                table.add_row(told["file"], what, str(cells[0]["of"]), *(
                    f"{c['share']:.3f} ({c['wilson95'][0]:.2f}-{c['wilson95'][1]:.2f})" for c in cells))
    Terminal().print(table)
    for told in found if failures else ():
        for name in which:
            for wrong in told["networks"][name]["failures"]:
                tell(f"{told['file']}, {name}: {wrong['text']!r}: {_words(wrong['heard'])}, not "
                     f"{_words(wrong['meant'])}")


def _words(slots: tuple[int, ...]) -> str:
    """Slots as a list's lines have them."""
    from brain_training.language_score import NAMES_COLORS, NAMES_SHAPES, NAMES_VERBS

    verbs, colors, shapes = (
        {int(v): k for k, v in names.items()} for names in (NAMES_VERBS, NAMES_COLORS, NAMES_SHAPES))
    verb, color, shape, avoid_color, avoid_shape = slots
    told = verbs[verb] + (f" {colors[color]} {shapes[shape]}" if color or shape else "")
    return told + (f" / {colors[avoid_color]} {shapes[avoid_shape]}" if avoid_color or avoid_shape else "")
