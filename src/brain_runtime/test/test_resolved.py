# SPDX-License-Identifier: Apache-2.0
"""What runs, as plain data: which of its regions are ranks of a static group."""
import subprocess
import sys

from brain_runtime.graph.resolved import Resolved, ResolvedRegion

REGIONS = (ResolvedRegion("camera", "here:Camera", device=True), ResolvedRegion("vision", "here:Vision"),
           ResolvedRegion("language", "here:Language", external=True), ResolvedRegion("motor", "here:Motor"))


def test_ranks_of_a_static_group_are_what_is_started_but_a_worlds_devices():
    brain = Resolved("brain", REGIONS, host="torch")
    assert brain.grouped == Resolved.from_json(brain.to_json()).grouped == ("vision", "motor")
    assert Resolved("devices", REGIONS[:1], host="torch").grouped == ()


def test_other_hosts_have_no_group():
    assert {Resolved("brain", REGIONS, host=host).grouped for host in ("zenoh", "ros", "local")} == {()}


def test_a_brain_without_ranks_is_refused_by_the_group_in_one_line(tmp_path):
    path = tmp_path / "brain.json"
    path.write_text(Resolved("brain", REGIONS, host="zenoh").to_json())
    done = subprocess.run([sys.executable, "-m", "brain_runtime.static_group", str(path)], capture_output=True,
                          text=True)
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "cannot start: graph brain has no region that could run in a static group, with the host zenoh; write the file "
        "by `brain up --host torch --dry-run --json`"]
