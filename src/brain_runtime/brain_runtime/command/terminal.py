# SPDX-License-Identifier: Apache-2.0
"""The terminal as all verbs use it: what is shown may be foreign, so it is never read as markup and never raw."""
from __future__ import annotations

import sys
from typing import Any, Iterator

from rich.console import Console
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from brain_wire import safe_text
from brain_wire.observers import LastingFile


class Terminal(Console):
    """A Rich console without markup, emoji codes and highlighting, in which foreign text stands escaped.

    Args:
        stderr: standard error instead of standard output.
        lasting: for who watches over processes: nothing is raised where the terminal is gone or a disk is full.
        more: of :class:`rich.console.Console`.
    """

    def __init__(self, *, stderr: bool = False, lasting: bool = False, **more: Any) -> None:
        if lasting:
            more["file"] = LastingFile(sys.stderr if stderr else sys.stdout)
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False, **more)

    def tell(self, text: str, **options: Any) -> None:
        """Prints one line, whatever is in the text."""
        self.print(safe_text.line(text), soft_wrap=True, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is no ``Text`` yet comes by here, those in tables too: what is escaped has its true width."""
        return super().render_str(safe_text.block(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Renders all that is printed with its text made safe to show, whatever made it: titles, and each ``Text``."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(safe_text.block(segment.text), segment.style)

    def status(self, status: Any, **options: Any) -> Status:
        """A line that says what is waited for."""
        return _Waiting(_plain(status), console=self, **options)


class _Waiting(Status):
    """Rich would read a plain text as markup."""

    def update(self, status: Any = None, **options: Any) -> None:
        """Says something else."""
        super().update(None if status is None else _plain(status), **options)


def _plain(status: Any) -> Any:
    return Text(safe_text.line(status)) if isinstance(status, str) else status
