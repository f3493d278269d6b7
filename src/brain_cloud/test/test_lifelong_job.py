# SPDX-License-Identifier: Apache-2.0
"""Sedna's lifelong job of docs/fleet-learning.md by the local runner: processes that train, evaluate and infer."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from local_jobs import check_status, until

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleet-learning.md"
FIRST, SECOND = "look:rooms=8", "look:hue=0.5,tint=0.7/0.85/1,rooms=8,first=100"
LATER = "look:hue=0.5,tint=0.7/0.85/1,rooms=2,first=200"


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.is_file(), reason="the package alone has no docs")
def test_the_job_of_the_docs_learns_two_sites_deploys_them_and_gives_weights_of_the_one_that_it_sees(jobs, tmp_path):
    pytest.importorskip("brain_training")
    (text,) = re.findall(r"```yaml\n# lifelong.yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (tmp_path / "sites.txt").write_text(f"{FIRST}\n{SECOND}\n{LATER}\n")
    jobs.apply(*text.replace("/data/", f"{tmp_path}/").replace(
        "[brain, lifelong", "[python3, -m, brain, lifelong").split("\n---\n"))
    until(lambda: "its weights are" in jobs.said("vision"), lambda: jobs.said("vision"))
    said, deployed = jobs.said("vision"), tmp_path / "lifelong" / "deploy"
    assert f"{FIRST}: new, site-1" in said and f"{SECOND}: new, site-2" in said and f"{LATER}: site-2, F1" in said
    assert "nothing is deployed yet" in said        # what infers runs before anything was learned
    assert {path.name for path in deployed.iterdir()} == {"index.pkl", "library"}
    assert {path.name for path in (deployed / "library").iterdir()} == {
        "library.json", "site-1.task.safetensors", "site-2.task.safetensors"}
    assert (tmp_path / "lifelong" / "robot" / "vision.safetensors").is_file()
    check_status(jobs.one("vision"))
