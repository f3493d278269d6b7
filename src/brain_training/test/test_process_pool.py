# SPDX-License-Identifier: Apache-2.0
"""Jobs in processes of their own: results come as they are done, and one that ends otherwise holds nobody up."""
from __future__ import annotations

import operator
import os
from pathlib import Path

import pytest

from brain_training.process_pool import Failed, Job, at_once
from brain_training.runs import Settings, train_networks

pytestmark = pytest.mark.slow


@pytest.fixture
def forked():
    """Nothing: workers are spawned here, as they are for a user."""


def test_each_job_has_its_result_or_why_it_has_none(tmp_path: Path, capfd):
    (tmp_path / "file").write_text("kept")
    told = []
    jobs = {
        "counts": Job(operator.countOf, ([1, 2],), nice=5),     # counts its bar among them
        "asks for no bar": Job(os.getpid, ()),
        "has a result that cannot be sent": Job(dict.fromkeys, (["bar"],)),
        "cannot write": Job(train_networks, ("motor", ("spiking",), tmp_path / "file" / "m.safetensors",
                                             Settings(quick=True))),
    }
    found = dict(at_once(jobs, lambda *news: told.append(news)))
    assert found.pop("counts") == 0
    assert found.pop("asks for no bar") == Failed("it ended with 1; what it said stands above")
    assert found.pop("has a result that cannot be sent") == Failed("it ended with 1; what it said stands above")
    assert "file" in found["cannot write"].why and "\n" not in found["cannot write"].why
    said = capfd.readouterr().err       # what is not foreseen is seen whole
    assert "TypeError" in said


def test_the_bars_of_a_job_are_heard(tmp_path: Path):
    told = []
    jobs = {"motor": Job(train_networks, ("motor", ("ann",), tmp_path / "m.safetensors", Settings(quick=True)))}
    (_, made), = at_once(jobs, lambda *news: told.append(news))
    assert set(made) == {"ann"} and (tmp_path / "m_ann.safetensors").is_file()
    assert ("ann", 12, 12) in [news[:3] for news in told]      # the end of each bar is never left out
    assert (tmp_path / "m_ann.checkpoint").is_file()       # left for who asked for the job
