# SPDX-License-Identifier: Apache-2.0
"""Files of a learning job's round: ``python3 -m brain_cloud.jobs.rounds begin|put``, where the data are.

*begin* makes the round's folder, and divides the new samples into a list to train on and one to examine by. *put* puts
what was trained in the place of what is deployed, whole or not at all. Both may be done again, and come to the same.
"""
from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Sequence

from brain_cloud.jobs.samples import read_samples, write_samples
from brain_edge.schema import FormProblem
from brain_wire.safe_text import line, quoted


def divide(path: Path, form: str, since: int, until: int, share: float, to: Path) -> tuple[int, int]:
    """Writes ``train.FORM`` and ``eval.FORM`` of a list's new samples; returns how many each has.

    Args:
        path, form: of the list.
        since, until: samples that it had when it was trained before, and has now.
        share: of the new ones that are trained on.
        to: folder.

    Raises:
        FormProblem: it has fewer samples now, or cannot be divided.
        OSError: it cannot be read, or the others not be written.
    """
    header, lines = read_samples(path, form)
    if len(lines) < until:
        raise FormProblem(f"{quoted(str(path))} had {until} samples and has {len(lines)}; let a list only grow, or "
                          f"begin another job with another list")
    new = lines[since:until]
    count = round(len(new) * share)
    write_samples(to / f"train.{form}", header, new[:count])
    write_samples(to / f"eval.{form}", header, new[count:])
    return count, len(new) - count


def only(folder: Path) -> Path:
    """The one file in a folder, as a worker leaves its model; where there are none or several, the folder."""
    files = [one for one in sorted(folder.glob("*")) if one.is_file()] if folder.is_dir() else []
    return files[0] if len(files) == 1 else folder


def put(source: Path, target: Path) -> None:
    """Puts a file or folder in another's place; who opens it has the old one or the new one. Raises OSError."""
    source = only(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    for one in (new, old):
        _remove(one)
    if not source.is_dir():
        shutil.copy(source, new)
    else:
        shutil.copytree(source, new)
    if target.is_dir() or new.is_dir() and target.exists():
        target.rename(old)
    new.replace(target)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="round", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    begins = verbs.add_parser("begin")
    begins.add_argument("folder", type=Path)
    begins.add_argument("--split", nargs=6, metavar=("LIST", "FORMAT", "SINCE", "UNTIL", "SHARE", "TO"))
    puts = verbs.add_parser("put")
    puts.add_argument("source", type=Path)
    puts.add_argument("target", type=Path)
    puts.add_argument("--hot", type=Path, help="where a worker that looks for new models is told of it")
    puts.add_argument("--round", default="1")
    given = parser.parse_args(argv)
    try:
        if given.verb == "put":
            put(given.source, given.target)
            if given.hot is not None:
                write_samples(given.hot, None, [json.dumps({"model_config": {
                    "model_path": str(given.target), "model_update_time": given.round}})])
            said = f"{given.target} is what {given.source} has"
        else:
            given.folder.mkdir(parents=True, exist_ok=True)
            said = f"{given.folder} is there"
            if given.split is not None:
                path, form, since, until, share, to = given.split
                train, examine = divide(Path(path), form, int(since), int(until), float(share), Path(to))
                said = f"{train} new samples are trained on, and {examine} examined by"
    except (FormProblem, OSError) as problem:
        print(f"round: {line(problem)}", file=sys.stderr)
        return 1
    print(f"round: {line(said)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
