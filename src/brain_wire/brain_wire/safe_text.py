# SPDX-License-Identifier: Apache-2.0
"""Foreign text, made safe to be shown: what peers, files, logs and people wrote must not steer a terminal.

Control characters (C0, C1, DEL), line separators, surrogates and what changes the direction of writing or is not seen
stand as escapes, in hexadecimal; what is too long is cut.
"""
from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
from typing import Any, Mapping

MOST = 4000     # characters of a line
LINES = 400     # of a block
QUOTED = 120    # characters of a quotation

# Joiners (U+200C, U+200D) stay: Persian, Hindi and emoji are written with them.
_ODD = ("\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
        "\U000e0000-\U000e007f")
_IN_A_LINE = re.compile(f"[{_ODD}]")
_IN_JSON = re.compile(f"[{_ODD.replace(chr(0) + '-' + chr(31), '')}]")     # json escapes C0 itself; a newline is layout


def is_text(text: str) -> bool:
    """False where a text holds half of a surrogate pair, which no encoding has; an escape in JSON makes one."""
    try:
        text.encode()   # a look at each character would take fifty times as long
    except UnicodeEncodeError:
        return False
    return True


def line(text: object, most: int = MOST) -> str:
    """Text as one line of at most ``most`` characters; a newline in it is escaped too."""
    text = str(text)
    cut = len(text) > most
    text = _IN_A_LINE.sub(_escape, text[:most])
    return text[:most - 3] + "..." if cut or len(text) > most else text


def block(text: object, most: int = MOST, lines: int = LINES) -> str:
    """Text in lines, each made safe by :func:`line`; those beyond ``lines`` are counted."""
    text = str(text)
    if len(text) <= most and _IN_A_LINE.search(text) is None:
        return text
    found = text.split("\n")
    left_out = len(found) - lines
    found = [line(one, most) for one in found[:lines]]
    return "\n".join(found if left_out <= 0 else [*found, f"... ({left_out} more lines)"])


def quoted(text: str) -> str:
    """Text of others within a message: in quotes, ASCII only, and not longer than a line."""
    return ascii(text if len(text) <= QUOTED else text[:QUOTED - 3] + "...")


def plain(text: str) -> str:
    """Text of a person within a message: as it is where it is one short line, else as :func:`quoted`."""
    return text if len(text) <= 200 and text.isprintable() else quoted(text)


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON of plain values, safe to be shown; a number that is not finite is null, since JSON has none."""
    return _IN_JSON.sub(_escape_json, json.dumps(_finite(value), ensure_ascii=False, indent=indent, default=str))


def log_to(stream: Any, level: int, form: str) -> None:
    """Sets logging up: lines as ``form``, safe to be shown, on a stream; what ends a thread or the process too."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Formatter(form))
    logging.basicConfig(level=level, handlers=[handler])
    sys.excepthook = lambda kind, error, trace: logging.critical("ended by an error", exc_info=(kind, error, trace))
    threading.excepthook = lambda thrown: logging.critical("a thread ended by an error", exc_info=thrown.exc_value)


class Formatter(logging.Formatter):
    """Formats log records safely: the message and its traceback in lines of their own, all else escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text; a line of it cannot be mistaken for another record's."""
        return block(super().format(record)).replace("\n", "\n    ")


def _escape(match: re.Match) -> str:
    character = match[0]
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or (
        f"\\x{ord(character):02x}" if character < "\u0100" else f"\\u{ord(character):04x}" if character < "\U00010000"
        else f"\\U{ord(character):08x}")


def _escape_json(match: re.Match) -> str:
    return json.dumps(match[0])[1:-1]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
