# SPDX-License-Identifier: Apache-2.0
"""The tasks that there are, by name. Nothing is imported to tell their names."""
from __future__ import annotations

import importlib
from types import MappingProxyType

from brain_training.task import Task

TASKS = MappingProxyType({      # the prefrontal cortex is wired, not trained
    "vision": "brain_training.vision:VisionTask",
    "language": "brain_training.language:LanguageTask",
    "motor": "brain_training.motor:MotorTask",
})


def names() -> tuple[str, ...]:
    """Of all tasks."""
    return tuple(TASKS)


def load(name: str) -> type[Task]:
    """The class of a task.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in TASKS:
        raise ValueError(f"there is no training {name!r}; there are {', '.join(names())}")
    module, _, cls = TASKS[name].partition(":")
    return getattr(importlib.import_module(module), cls)
