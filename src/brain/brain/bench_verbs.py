# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: its verbs put together."""
from __future__ import annotations

from brain.bench import app
from brain.bench_gaps import gaps
from brain.bench_integration import integration
from brain.bench_sentences import sentences

for verb in (integration, sentences, gaps):
    app.command()(verb)

__all__ = ["app"]
