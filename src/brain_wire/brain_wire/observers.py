# SPDX-License-Identifier: Apache-2.0
"""Observers that cannot fail: who only shows what happens must not end those whom it watches."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable


def guarded(callback: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A callback that raises nothing; what it raises first is said once on standard error, and None is returned.

    Args:
        what: it does, for the message: "showing events".
    """
    said: list[str] = []

    @functools.wraps(callback, assigned=(), updated=())
    def call(*arguments: Any, **more: Any) -> Any:
        try:
            return callback(*arguments, **more)
        except Exception as error:  # whatever it is, the brain goes on
            if not said:
                said.append(what)
                complain(f"{what} failed ({type(error).__name__}: {error}); the brain goes on. It is said once")
            return None
    return call


def complain(text: str) -> None:
    """Says a line on standard error, if anybody can hear it."""
    from brain_wire import safe_text

    try:
        print(f"brain: {safe_text.line(text)}", file=sys.stderr, flush=True)
    except OSError:
        return  # there is no one left to tell: the terminal is gone, or the disk behind it is full


class LastingFile:
    """A stream that goes on where nobody reads it any more: what cannot be written is said once, and lost.

    Args:
        stream: as ``sys.stdout``; its other attributes are this one's.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._write = guarded(stream.write, f"writing to {stream.name}")
        self._flush = guarded(stream.flush, f"writing to {stream.name}")

    def write(self, text: str) -> int:
        """Writes what can be written."""
        self._write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes what can be flushed."""
        self._flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
