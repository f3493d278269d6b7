# SPDX-License-Identifier: Apache-2.0
"""The library: a folder with a file for each task, and ``library.json`` with what was learned when.

Each file is replaced in one go, and a task's file is written before the list says so: a process that is killed at any
moment leaves a library that is whole, at worst without the last line of its history.
"""
from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, Mapping

from brain_training.checkpoint import TEMPORARY, CheckpointError, held
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.task_file import (ENDING, NAME, VERSION, LibraryProblem, Task, check_name, check_version,
                                               read, write)

LIST = "library.json"
MOST_HISTORY = 1000     # lines; the oldest are left out
MOST_TASKS = 500
MOST_LIST = 2**26       # bytes of the list; what is larger is not read


class Library:
    """A library of tasks.

    Args:
        folder: of it.

    Raises:
        LibraryProblem: its list cannot be read, or is of a newer version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._history = self._read()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keeps other processes from changing it; the folder is made where there is none.

        Raises:
            LibraryProblem: another one changes it, or nothing can be written there.
        """
        try:
            with held(self.folder / LIST):
                self._history = self._read()
                yield
        except CheckpointError:
            raise LibraryProblem(f"another process is learning into {self.folder}; wait for its end") from None
        except OSError as error:
            raise LibraryProblem(f"cannot write into {self.folder} ({error.strerror or error}); name a folder that can "
                                 f"be written") from error

    def names(self) -> list[str]:
        """Of all tasks; raises LibraryProblem where a file has a name that no task has, or there are too many."""
        files = sorted(self.folder.glob(f"*{ENDING}")) if self.folder.is_dir() else []
        if len(files) > MOST_TASKS:
            raise LibraryProblem(f"{self.folder} has {len(files)} tasks, more than {MOST_TASKS}; move some to another "
                                 f"folder")
        found = [file.name.removesuffix(ENDING) for file in files]
        for name in found:
            if not NAME.fullmatch(name):
                raise LibraryProblem(f"{self.folder} has a file {name[:80] + ENDING!r}, whose name is none of a task; "
                                     f"take it out of the folder")
        return found

    def task(self, name: str) -> Task:
        """A task; raises LibraryProblem where there is none of this name, or its file cannot be used."""
        path = self._path(name)
        if not path.is_file():
            there = ", ".join(self.names()[:12]) or "none yet; `brain lifelong learn` begins one"
            raise LibraryProblem(f"{self.folder} has no task {name}; its tasks: {there}")
        return read(path)

    def tasks(self) -> dict[str, Task]:
        """All tasks, by name; raises LibraryProblem where one cannot be used."""
        return {name: read(self._path(name)) for name in self.names()}

    def put(self, task: Task, told: Mapping[str, Any]) -> None:
        """Writes a task, and then a line of history. Call it within :meth:`writing`.

        Args:
            task: new, or in the place of that of its name.
            told: of the history.

        Raises:
            LibraryProblem: it cannot be written.
        """
        write(self._path(task.name), task)
        self._history = [*self._history, dict(told)][-MOST_HISTORY:]
        path = self.folder / LIST
        temporary = path.with_name(f"{LIST}{TEMPORARY}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump({"version": str(VERSION), "history": self._history}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise LibraryProblem(f"cannot write {path} ({error.strerror or error}); make room. The task itself is "
                                 f"written") from error

    @property
    def history(self) -> list[dict[str, Any]]:
        """History of learning, the oldest first: ``task``, ``what``, and ``f1`` of all tasks then, by name."""
        return list(self._history)

    def _path(self, name: str) -> Path:
        return self.folder / f"{check_name(name)}{ENDING}"

    def _read(self) -> list[dict[str, Any]]:
        path = self.folder / LIST
        if not path.exists():
            return []
        try:
            if not path.is_file() or path.stat().st_size > MOST_LIST:
                raise ValueError(f"it is no file of at most {MOST_LIST} bytes")
            told = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(told, dict):
                raise ValueError("it is no object")
        except (OSError, ValueError, RecursionError) as error:
            raise _torn(path, " ".join(str(error).split())[:100]) from error
        check_version(path, told.get("version"))
        history = told.get("history")
        if not isinstance(history, list) or not all(map(_is_line, history)):
            raise _torn(path, "its history is none")
        return history


def _torn(path: Path, why: str) -> LibraryProblem:
    return LibraryProblem(f"{path} is torn or no list of a library ({why}); remove it: the tasks stay, and their "
                          f"history begins anew")


def _is_line(one: Any) -> bool:
    return (isinstance(one, dict) and isinstance(one.get("task"), str) and isinstance(one.get("what"), str)
            and isinstance(one.get("f1"), dict)
            and all(isinstance(value, (int, float)) and 0 <= value <= 1 for value in one["f1"].values()))


def descriptors(tasks: Mapping[str, Task]) -> dict[str, Descriptor]:
    """Returns the descriptors of tasks' pictures, by name."""
    return {name: task.descriptor for name, task in tasks.items()}
