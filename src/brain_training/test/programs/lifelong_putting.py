# SPDX-License-Identifier: Apache-2.0
"""Puts tasks into a library for ever: two that take turns, so that each file is written again and again."""
import sys
from pathlib import Path

from lifelong_tasks import task

from brain_training.lifelong.library import Library


def main() -> None:
    library, number = Library(Path(sys.argv[1])), 0
    made = [task(name, seed) for seed, name in enumerate(("first", "second"))]
    while True:
        with library.writing():
            library.put(made[number % 2], {"task": made[number % 2].name, "what": "new", "f1": {}})
        number += 1
        print(number, flush=True)


if __name__ == "__main__":
    main()
