# SPDX-License-Identifier: Apache-2.0
"""What runs, as plain data: which of its regions are ranks of a static group."""
from brain_runtime.graph.resolved import Resolved, ResolvedRegion

REGIONS = (ResolvedRegion("camera", "here:Camera", device=True), ResolvedRegion("vision", "here:Vision"),
           ResolvedRegion("language", "here:Language", external=True), ResolvedRegion("motor", "here:Motor"))


def test_ranks_of_a_static_group_are_what_is_started_but_a_worlds_devices():
    brain = Resolved("brain", REGIONS, host="torch")
    assert brain.grouped == Resolved.from_json(brain.to_json()).grouped == ("vision", "motor")
    assert Resolved("devices", REGIONS[:1], host="torch").grouped == ()


def test_other_hosts_have_no_group():
    assert {Resolved("brain", REGIONS, host=host).grouped for host in ("zenoh", "ros", "local")} == {()}
