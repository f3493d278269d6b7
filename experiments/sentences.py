# SPDX-License-Identifier: Apache-2.0
"""`brain bench sentences`: how much of a list is understood, by the networks that ship and by the grammar."""
from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Annotated, Any, Callable, Iterable, Iterator, Mapping

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_eval.bench.rows import Table
from brain_eval.results import share
from brain_regions.language import halves, sizes, weights
from brain_regions.language.decode import decided, decode, framed, spell
from brain_regions.language.network import AnnReader, Heard, SpikingReader
from brain_regions.language.reasons import Why
from brain_regions.language.sizes import MEANINGS
from brain_regions.weight_files import WeightsError
from brain_training.language_data import slip
from brain_training.language_score import NAMES_COLORS, NAMES_SHAPES, NAMES_VERBS, Asked, listed, suite
from experiments.grammar.parser import parse
from experiments.weights import read as read_weights


JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
Reader = Callable[[str], tuple[int, ...]]
NO_RATES = np.zeros(0, np.float32)
GROUPS = {"withheld": "phrasings of the suite's `val` and `test`",
          "typos": "outside writers, a slip of the keyboard in each",
          "dialect": "dialects, by who wrote the rules", "": "outside writers"}
"""What lists are, by the beginning of their names."""
APART = {True: "nothing near one was trained", False: "not one was trained, but what contains it, or is near, was"}
TO_DO = ("understood", "refused")
SEED = 20_261_123       # of objects in withheld phrasings, and of slips
EACH = 4                # objects for each withheld phrasing


def shipped() -> dict[str, SpikingReader]:
    """The networks that ship, ``spiking`` and ``ann``. Raises WeightsError where a weight file does not fit."""
    return {name: cls(weights.load(path, cls)[0])
            for name, path, cls in (("spiking", weights.SHIPPED, SpikingReader), ("ann", weights.ANN, AnnReader))}


def readers() -> dict[str, Reader]:
    """Builds the readers: the spiking network, its ANN baseline and the grammar by hand, each as it is read live.

    Besides, the spiking network without the lexicon (``network``), and the lexicon without it (``lexicon``). Each
    answers with verb, color and shape of the target, color and shape of what is avoided; all 0: not understood.

    Raises:
        WeightsError: a weight file that ships does not fit.
        ModuleNotFoundError: this is not run at the top of the checkout, where the grammar is.
    """
    networks = shipped()
    return {"spiking": by(networks["spiking"], decode), "ann": by(networks["ann"], decode),
            "grammar": lambda text: parse(text).slots,
            "network": by(networks["spiking"], lambda spelled, heard: halves.of_network(heard), mend=False),
            "lexicon": by(None, decode)}


def by(network: SpikingReader | None, understand: Callable[[str, Heard], Any], mend: bool = True) -> Reader:
    """Builds a reader that works as language does live: slips are mended, what is too long is refused unread.

    Args:
        network: what hears the sentence; None: the lexicon alone.
        understand: makes slots of what was heard.
        mend: whether slips are mended.
    """
    def read(text: str) -> tuple[int, ...]:
        spelled = spell(text, mend)
        if len(framed(spelled)) > sizes.LONGEST:
            return 0, 0, 0, 0, 0
        heard = network.hear(framed(spelled)) if network else Heard(**halves.of_lexicon(spelled), rates=NO_RATES)
        return tuple(map(int, understand(spelled, heard)[0].slots))
    return read


def read_list(file: Path) -> list[Asked]:
    """Sentences of a list, with what they ask for.

    Raises:
        ValueError: the list cannot be read, or a line of it, or it is empty.
    """
    rows = listed(file)
    if not rows:
        raise ValueError(f"{file} holds no sentence; write some, as `go red ball / blue any : go to the red ball but "
                         f"avoid what is blue`, or `- : hello` for one that is to be refused")
    return rows


def withheld() -> dict[str, list[Asked]]:
    """By a name as of a list: the phrasings that are kept out of training, with some objects in each."""
    return {f"withheld_{name}": [row for split in ("val", "test")
                                 for rows in suite(language, split, EACH, SEED).values() for row in rows]
            for language, name in (("en", "english"), ("ja", "japanese"))}


def typos(lists: dict[str, list[Asked]]) -> dict[str, list[Asked]]:
    """English lists with a slip of the keyboard in each sentence, by ``typos_`` and their names."""
    return {f"typos_{name}": [row._replace(text=slip(row.text, random.Random(f"{SEED} {number} {row.text}")))
                              for number, row in enumerate(rows)]
            for name, rows in lists.items() if _language(rows) == "en"}


def _language(rows: Iterable[Asked]) -> str:
    """Japanese where most sentences have Japanese letters."""
    japanese = [bool(JAPANESE.search(row.text)) for row in rows]
    return "ja" if 2 * sum(japanese) > len(japanese) else "en"


def measure(name: str, rows: list[Asked], which: dict[str, Reader]) -> dict[str, Any]:
    """Shares of a list that are understood, and rightly refused, with Wilson intervals, and what was read wrongly.

    ``wrong`` counts the sentences at which the robot would set out for an object that was not asked for, be it that no
    other was, or none. Its ``language`` is ``ja`` where most of its sentences have Japanese letters, else ``en``.
    """
    found: dict[str, Any] = {"file": name, "language": _language(rows), "networks": {}}
    asks = [bool(row.slots[0]) for row in rows]
    for reader, read in which.items():
        answers = [tuple(map(int, read(row.text))) for row in rows]     # the grammar's are enumerations
        right = [answer == row.slots for answer, row in zip(answers, rows)]
        wrong = [sends_astray(answer, row.slots) for answer, row in zip(answers, rows)]
        found["networks"][reader] = {
            "understood": share(sum(r for r, a in zip(right, asks) if a), sum(asks)) | {
                "of": sum(asks), "wrong": sum(w for w, a in zip(wrong, asks) if a)},
            "refused": share(sum(r for r, a in zip(right, asks) if not a), len(asks) - sum(asks)) | {
                "of": len(asks) - sum(asks), "wrong": sum(w for w, a in zip(wrong, asks) if not a)},
            "failures": [{"text": row.text, "meant": row.slots, "heard": answer}
                         for row, answer, fine in zip(rows, answers, right) if not fine]}
    return found


def sends_astray(answer: tuple[int, ...], meant: tuple[int, ...]) -> bool:
    """Tells whether an answer sends the robot to an object that was not asked for."""
    return answer[0] in (1, 2) and answer[1:3] != meant[1:3]


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums of lists: by language (``en``, ``ja``, and ``both``), network, and what is to be done with a sentence."""
    sides = {language: [t for t in found if t["language"] == language] for language in ("en", "ja")} | {"both": found}
    return {side: {name: {what: _summed(lists, name, what) for what in TO_DO}
                   for name in found[0]["networks"]} for side, lists in sides.items() if lists}


def by_group(found: list[dict[str, Any]], apart: bool) -> list[dict[str, Any]]:
    """A row for each of :data:`GROUPS`, language, and what is to be done: how many sentences, and each reader's sums.

    Args:
        found: lists, as :func:`measure` tells of them.
        apart: nothing near a withheld phrasing was trained, see :mod:`brain_training.language_withheld`.
    """
    rows = []
    for begin, what in GROUPS.items():
        for language, to_do in itertools.product(("en", "ja"), TO_DO):
            lists = [told for told in found if _group(told["file"]) == begin and told["language"] == language]
            sums = {name: _summed(lists, name, to_do) for name in found[0]["networks"]}
            if sums["spiking"]["of"]:
                note = f": {APART[apart]}" if begin == "withheld" else ""
                rows.append({"sentences": what + note, "language": language, "to_do": to_do,
                             "of": sums["spiking"]["of"], "networks": sums})
    return rows


def _group(file: str) -> str:
    return next(begin for begin in GROUPS if file.startswith(begin))


def _summed(lists: list[dict[str, Any]], name: str, what: str) -> dict[str, Any]:
    cells = [told["networks"][name][what] for told in lists]
    of = sum(cell["of"] for cell in cells)
    return share(sum(cell["count"] for cell in cells), of) | {"of": of, "wrong": sum(c["wrong"] for c in cells)}


def limits(networks: Mapping[str, SpikingReader]) -> list[dict[str, Any]]:
    """Measures how phrasings are read that no training has: of what a goal cannot hold, of no order, and nearly so.

    Args:
        networks: by name.

    Returns:
        A row for each language and meaning: ``of`` sentences, and of each network the share that is ``right`` (slots,
        and what is no order leaves the goal alone), that has the right ``meaning``, and how many are ``carried_out``
        otherwise than said, and taken for ``stop`` that are none. Of "stop" there is also a row with a slip of the
        keyboard in each.
    """
    from brain_training.language_suite import suite

    rows = []
    for language in ("en", "ja"):
        asked = [(MEANINGS[one.meaning], one.text, (int(one.verb), *one.target, *one.avoid))
                 for one in suite(language, EACH, SEED)]
        stops = [text for what, text, _ in asked if what == "stop"] if language == "en" else []
        asked += [("stop, a slip in each", slip(text, random.Random(f"{SEED} {text} {number}")), (3, 0, 0, 0, 0))
                  for text in stops for number in range(EACH)]
        for what in dict.fromkeys(what for what, *_ in asked):
            chosen = [(text, slots) for name, text, slots in asked if name == what]
            row: dict[str, Any] = {"language": language, "meaning": what, "of": len(chosen), "networks": {}}
            for name, network in networks.items():
                right = meaning = carried = stopped = 0
                for text, slots in chosen:
                    heard = network.hear(framed(spell(text)))
                    meant, why, _ = decode(spell(text), heard)
                    done = tuple(map(int, meant.slots))
                    right += done == slots and (what != MEANINGS[0] or why is Why.NO_ORDER)
                    told = decided(heard.verb)
                    meaning += (told[2] or MEANINGS[told[0]]) == what.partition(",")[0]
                    carried += done[0] in (1, 2) and done != slots
                    stopped += done[0] == 3 and slots[0] != 3
                row["networks"][name] = {"right": share(right, len(chosen)), "meaning": share(meaning, len(chosen)),
                                         "carried_out": carried, "stop": stopped}
            rows.append(row)
    return rows


def _kept_apart() -> bool:
    """Tells whether the weights that ship were trained on nothing near a withheld phrasing: they say so."""
    return any("kept apart" in name for name in read_weights(weights.SHIPPED)["held_out"]["held_out"])


def _words(slots: tuple[int, ...]) -> str:
    """Slots as a list's lines have them."""
    verbs, colors, shapes = (
        {int(v): k for k, v in names.items()} for names in (NAMES_VERBS, NAMES_COLORS, NAMES_SHAPES))
    verb, color, shape, avoid_color, avoid_shape = slots
    told = verbs[verb] + (f" {colors[color]} {shapes[shape]}" if color or shape else "")
    return told + (f" / {colors[avoid_color]} {shapes[avoid_shape]}" if avoid_color or avoid_shape else "")


class Sentences(Experiment):
    """Reads sentences with the language networks that ship, with each half of the spiking one, and by hand.

    The halves are the network without the lexicon, and the lexicon without the network; by hand is a grammar. All slots
    must be right: verb, color and shape of the target, color and shape of what is to be avoided. Wrong are those at
    which the robot would set out for an object that was not asked for.
    """

    refused = 2
    problems = (ValueError, WeightsError)

    def measure(self, files: Annotated[list[Path], typer.Argument(
                    help="Lists: a sentence a line, with what it asks for in front, as `go red ball / blue any : go to "
                         "the red ball but avoid what is blue`; `-` for one that is to be refused.")],
                failures: Annotated[bool, typer.Option("--failures", help="List the sentences read wrongly.")] = False,
                withheld_too: Annotated[bool, typer.Option(
                    "--withheld", help="Read the phrasings that are kept out of training, too.")] = False,
                typos_too: Annotated[bool, typer.Option(
                    "--typos", help="Read the English lists again, with a slip of the keyboard in each.")] = False,
                limits_too: Annotated[bool, typer.Option(
                    "--limits", help="Read, too, what a goal cannot hold, and what is no order, in phrasings that no "
                                     "training has.")] = False) -> dict[str, Any]:
        """Reads all lists."""
        which = readers()
        lists = {file.name: read_list(file) for file in files}
        lists |= (withheld() if withheld_too else {}) | (typos(lists) if typos_too else {})
        return {"lists": [measure(name, rows, which) for name, rows in lists.items()],
                "limits": limits(shipped()) if limits_too else [], "failures": failures}

    def figures(self, found: dict[str, Any]) -> dict[str, Any]:
        told = found["lists"] if found["failures"] else [
            {**one, "networks": {name: {k: v for k, v in shares.items() if k != "failures"}
                                 for name, shares in one["networks"].items()}} for one in found["lists"]]
        given = [one for one in found["lists"] if not _group(one["file"])]
        return {"lists": told, "together": together(given or found["lists"]),
                "groups": by_group(found["lists"], _kept_apart()), "limits": found["limits"]}

    def rows(self, found: dict[str, Any]) -> Iterator[str | Table]:
        which = found["lists"][0]["networks"]
        every = [(told["file"], what, [told["networks"][name][what] for name in which])
                 for told in found["lists"] for what in TO_DO]
        yield Table("all slots right, with Wilson 95 % intervals", ("list", "", "of", *which), [
            (file, what, str(cells[0]["of"]), *(
                f"{c['share']:.3f} ({c['wilson95'][0]:.2f}-{c['wilson95'][1]:.2f}), {c['wrong']} wrong" for c in cells))
            for file, what, cells in every if cells[0]["of"]], left=2)
        for row in found["limits"]:
            yield f"{row['language']}, {row['meaning']}, {row['of']}: " + "; ".join(
                f"{name} {one['right']['count']} right, {one['carried_out']} carried out otherwise than said, "
                f"{one['stop']} taken for stop" for name, one in row["networks"].items())
        for told in found["lists"] if found["failures"] else ():
            for name in which:
                for wrong in told["networks"][name]["failures"]:
                    yield (f"{told['file']}, {name}: {wrong['text']!r}: {_words(wrong['heard'])}, not "
                           f"{_words(wrong['meant'])}")
