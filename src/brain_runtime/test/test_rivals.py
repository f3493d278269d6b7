# SPDX-License-Identifier: Apache-2.0
"""Other publishers of what a region moves: told once they stay."""
import logging

from brain_runtime.hosts.duplicate_publishers import PERIOD, DuplicatePublishers


def test_who_stays_is_told_once_and_who_passes_by_is_not(caplog):
    caplog.set_level(logging.ERROR)
    there = []
    duplicates = DuplicatePublishers(lambda: {"command": "/cmd_vel"}, lambda name: list(there))
    looks = (number * PERIOD for number in range(100))

    def look(*nodes):
        there[:] = nodes
        duplicates.look(next(looks))
        return duplicates.text
    assert look() == "" and look("/passer") == "" and look("/other") == ""
    there[:] = ["/other"]
    duplicates.look(0.0)            # it is not time yet
    assert duplicates.text == ""
    assert look("/other") == "/other also publishes /cmd_vel: whatever listens gets both; end it, or remap one of them"
    assert look("/other", "/third").startswith("/other also publishes")
    assert look("/other", "/third").startswith("/other, /third also publish /cmd_vel")
    assert len(caplog.records) == 2
    assert look() == "" and look("/other") == ""
