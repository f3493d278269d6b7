# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: its verbs put together."""
from __future__ import annotations

from brain.bench import app
from brain.bench_gaps import gaps
from brain.bench_integration import integration
from brain.bench_sentences import sentences
from brain_runtime.command.saved import savable

for verb in (integration, sentences, gaps):
    app.command()(verb)
for info in app.registered_commands:
    info.callback = savable(info.callback, info.name or info.callback.__name__)

__all__ = ["app"]
