# SPDX-License-Identifier: Apache-2.0
"""Reads sentences and single keys from a terminal without ever waiting for them."""
from __future__ import annotations

import codecs
import os
import select
import sys
import termios
import tty
from typing import IO

ENTER, BACKSPACE, CANCEL, END = "\r\n", "\x7f\b", "\x15", "\x04\x1b"


class Keyboard:
    """A line being typed. Use it as a context; the terminal is set back at the end.

    Attributes:
        line: what has been typed since the last Enter.
        ended: Ctrl-D or Escape was pressed, or the terminal is gone.
    """

    def __init__(self, stream: IO | None = None) -> None:
        self._fd = (stream or sys.stdin).fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._saved: list | None = None
        self.line = ""
        self.ended = False

    def __enter__(self) -> Keyboard:
        self._saved = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)

    def poll(self) -> list[str]:
        """Keys that do something by themselves, and whole lines, which end in a newline; in their order.

        A digit on an empty line is a key; all else is typed into :attr:`line`.
        """
        found: list[str] = []
        while select.select([self._fd], [], [], 0)[0]:
            data = os.read(self._fd, 1024)
            if not data:
                self.ended = True
                break
            text = self._decoder.decode(data)
            if text.startswith("\x1b["):  # an arrow or function key
                continue
            for character in text:
                self._take(character, found)
        return found

    def _take(self, character: str, found: list[str]) -> None:
        if character in ENTER:
            found.append(self.line + "\n")
            self.line = ""
        elif character in BACKSPACE:
            self.line = self.line[:-1]
        elif character in CANCEL:
            self.line = ""
        elif character in END:
            self.ended = True
        elif character.isdecimal() and not self.line:
            found.append(character)
        elif character.isprintable():
            self.line += character
