# SPDX-License-Identifier: Apache-2.0
"""Fetches and checks what a worker waits for: ``python -m brain_cloud.jobs.fetch URI --signal FILE``.

What an init container does on a cluster. Only when all of it is there and its digest is the one that was asked for is
the signal written, and only by the signal is the worker released.
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Sequence

from brain_cloud.blobs.inputs import InputProblem, load
from brain_wire.safe_text import line, quoted


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="loader")
    parser.add_argument("uri")
    parser.add_argument("--sha256")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--signal", type=Path, required=True)
    told = parser.parse_args(argv)
    try:
        told.signal.unlink(missing_ok=True)
        place, found = load(told.uri, told.sha256, told.to)
        temporary = told.signal.with_name(f"{told.signal.name}.tmp")
        temporary.write_text(json.dumps({"uri": told.uri, "at": str(place), "sha256": found}), encoding="utf-8")
        temporary.replace(told.signal)
    except InputProblem as problem:
        print(line(problem), file=sys.stderr)
        return 1
    except OSError as error:
        print(line(f"{quoted(told.uri)}: {error}; make room, or let it be read"), file=sys.stderr)
        return 1
    print(line(f"{told.uri} is there" + (f", sha256 {found}" if found else "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
