# SPDX-License-Identifier: Apache-2.0
"""Verbs of ``brain fleet`` that other packages add, by entry points of the group ``brain.fleet.commands``.

A robot has this package without the cloud's, a simulator or training; what needs these is in a package above it, and is
found by name. A verb is imported when it is called, or its help is shown.
"""
from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

import typer
from typer.core import TyperGroup

from brain_runtime.command.options import fail, takes_more
from brain_wire.moved_modules import without_gone

GROUP = "brain.fleet.commands"
# by verb the package that has it, for who has not installed that
KNOWN = {"collect": "brain_training", "demo": "brain_training", "incremental": "brain_training",
         **dict.fromkeys(("accept", "apply", "audit", "clips", "costs", "delete", "enroll", "jobs", "learn", "learning",
                          "logs", "models", "monitoring", "plan", "revoke", "rollback", "rollout"), "brain_cloud")}


class FleetVerbs(TyperGroup):
    """The group of the fleet's verbs, those of other packages behind them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all verbs, those that are not installed among them."""
        own = super().list_commands(ctx)
        return [*own, *sorted((KNOWN.keys() | _installed().keys()) - set(own))]

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command of a verb; None where there is none of that name."""
        found = super().get_command(ctx, name)
        if found is not None:
            return found
        point = _installed().get(name)
        if point is not None:
            return _command(name, point.load())
        return _missing(name) if name in KNOWN else None


def _installed() -> dict[str, metadata.EntryPoint]:
    return without_gone(metadata.entry_points(group=GROUP))


def _missing(name: str) -> Any:
    """A command that says what to install."""
    package = KNOWN[name]
    why = (f"`brain fleet {name}` is in the package {package}, which is not installed for {sys.executable}; in a ROS 2 "
           f"workspace: python -m colcon build --packages-up-to brain {package}; without ROS: make venv")

    def say_so() -> None:
        fail(why)

    say_so.__doc__ = f"(not installed: {package})"
    return _command(name, takes_more(say_so))


def _command(name: str, verb: Any) -> Any:
    if isinstance(verb, typer.Typer):
        return typer.main.get_command(verb)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, context_settings=getattr(verb, "context_settings", None))(verb)
    return typer.main.get_command(alone)
