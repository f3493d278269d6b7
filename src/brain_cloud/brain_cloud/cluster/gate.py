# SPDX-License-Identifier: Apache-2.0
"""The data gate, an init container: fetches and checks a worker's data, and by its end releases the worker.

``python -m brain_cloud.cluster.gate --data URL PATH SHA256 ...``. Status 0: all is there and right; 1: not, and why.
"""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Sequence

from brain_cloud.blobs.inputs import InputProblem, digest, fetch
from brain_wire import safe_text

ANY = "any"


def check(path: Path, sha256: str) -> None:
    """Raises InputProblem where a file or a folder of this node is not there, or is another than it must be."""
    try:
        if not path.exists():
            raise InputProblem(f"{path} is not on this node; copy the data there, or set nodeName of the Dataset")
        if sha256 != ANY and (found := digest(path)) != sha256:
            raise InputProblem(f"{path} has sha256 {found}, and must have {sha256}; it is another file, or torn")
        os.listdir(path) if path.is_dir() else path.open("rb").close()
    except OSError as error:
        raise InputProblem(f"{path} cannot be read: {error.strerror or error}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Opens the gate, or says why not; returns the exit status."""
    parser = argparse.ArgumentParser(prog="data gate", description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs=3, action="append", required=True, metavar=("URL", "PATH", "SHA256"))
    for url, path, sha256 in parser.parse_args(argv).data:
        try:
            if url.startswith(("http://", "https://")):
                fetch(url, Path(path), None if sha256 == ANY else sha256, told=_say)
            else:
                check(Path(path), sha256)
        except InputProblem as problem:
            _say(str(problem))
            return 1
        print(f"data gate: {safe_text.line(path)} is there and right", flush=True)
    return 0


def _say(text: str) -> None:
    print(f"data gate: {safe_text.line(text)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
