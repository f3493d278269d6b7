# SPDX-License-Identifier: Apache-2.0
"""Foreign text: what may reach a terminal, a log file and JSON; and how much of what was set aside is kept."""
import io
import json
import logging
import unicodedata

import numpy as np

from brain_runtime import In, Out, Region
from brain_runtime.contract import snapshot
from brain_wire import safe_text

STEERING = ("\x00\x07\x08\r\x1b[2J\x1b]0;owned\x07\x7f\x85\x9b31m\u061c\u200b\u200e\u2028\u2029\u202e\u2066\ufeff"
            "\U000e0041")


def odd(text, allowed=""):
    """Characters that steer, hide or reorder; joiners are part of words."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
            or (unicodedata.category(c) == "Cf" and c in STEERING) if c not in allowed]


def test_nothing_that_steers_is_left_and_nothing_else_is_lost():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        codes = [*rng.integers(0, 0x110000, 10), *rng.integers(0, 0x100, 10), 10,
                 *(ord(STEERING[k]) for k in rng.integers(0, len(STEERING), 5))]
        text = "".join(chr(code) for code in rng.permutation(codes))
        assert not odd(safe_text.line(text)) and not odd(safe_text.block(text), "\n")
        assert not odd(safe_text.as_json({text: [text]}, 1), "\n")
        if not any("\ud800" <= c <= "\udfff" for c in text):
            assert json.loads(safe_text.as_json({text: [text]})) == {text: [text]}
        plain = "".join(c for c in text if c.isalnum())
        assert safe_text.line(plain) == safe_text.block(plain) == plain


def test_escapes_are_readable_and_lengths_bounded():
    assert safe_text.line("a\x1b[2J\n\u202eb\x9b\U000e0041") == "a\\x1b[2J\\n\\u202eb\\x9b\\U000e0041"
    assert safe_text.line("赤いボール \U0001f468\u200d\U0001f469") == "赤いボール \U0001f468\u200d\U0001f469"
    assert safe_text.line("x" * 10_000_000, 50) == "x" * 47 + "..." and len(safe_text.line("\x1b" * 10_000, 50)) == 50
    assert safe_text.block("a\nb") == "a\nb"
    many = safe_text.block("x\n" * 100_000)
    assert len(many.splitlines()) == safe_text.LINES + 1 and many.endswith("more lines)")
    assert json.loads(safe_text.as_json({"a": float("nan"), "b": [np.inf, 1.5]})) == {"a": None, "b": [None, 1.5]}


def test_a_log_line_cannot_be_mistaken_for_another():
    stream, log = io.StringIO(), logging.Logger("test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(safe_text.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.error("%s", "nobody \x1b[2J\nERROR all is lost")
    try:
        raise ValueError("in \x1b]0;x\x07")
    except ValueError:
        log.exception("failed")
    first, second, *trace = stream.getvalue().splitlines()
    assert first == "ERROR nobody \\x1b[2J" and second == "    ERROR all is lost"
    assert trace[0] == "ERROR failed" and trace[-1].strip() == "ValueError: in \\x1b]0;x\\x07"
    assert all(line.startswith("    ") for line in trace[1:])


class Kept(Region):
    heard, said = In("a", "std_msgs/msg/String"), Out("b", "std_msgs/msg/String")

    def initial_state(self):
        return {"x": np.zeros(1, np.float32)}


def test_the_newest_few_of_what_was_set_aside_are_kept(tmp_path):
    path = tmp_path / "kept.safetensors"
    (tmp_path / "kept.safetensors.refused-old").write_text("somebody's own")
    for number in range(20):
        path.write_text(f"torn {number}")
        state, warnings = snapshot.restore(path, Kept("kept"))
        assert state is None and f"refused-{number + 1}" in warnings[0] and not path.exists()
    left = {p.name.rpartition("-")[2]: p.read_text() for p in tmp_path.glob("*.refused-*")}
    assert left == {"old": "somebody's own", **{str(n + 1): f"torn {n}" for n in range(20 - snapshot.REFUSED, 20)}}
