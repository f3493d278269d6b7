# SPDX-License-Identifier: Apache-2.0
"""What is latched comes while a port is being connected, and counts all the same."""
import json
import threading
import time

from brain_runtime.hosts.zenoh import ZenohHost
from brain_tests.regions import Shows
from brain_wire import Node
from brain_wire.messages import make
from brain_wire.qos import FEATURE, LATCHED

PATIENCE = 120.0     # s; only ends a hang
DOMAIN = 8
STRING = "std_msgs/msg/String"


class Slow(ZenohHost):
    """Is held up between a subscription and what follows it, as on a loaded machine."""

    def subscribe(self, inbound):
        found = super().subscribe(inbound)
        if inbound.name == "goal":
            end = time.monotonic() + PATIENCE
            while found.edges(time.monotonic()) == [] and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.3)     # its worker has looked for what came
        return found


def test_a_latched_message_that_came_before_its_port_was_connected_is_taken_in(sessions):
    ours, theirs = sessions
    with Node(theirs, "tester", domain=DOMAIN) as node:
        node.publisher("goal", STRING, LATCHED).publish(make(STRING, data="an old goal"))
        told = node.subscription("held", STRING, LATCHED)
        host = Slow(Shows("mirror"), ours, domain=DOMAIN)
        thread = threading.Thread(target=host.run)
        thread.start()
        try:
            shown = node.subscription("shown", STRING, FEATURE)
            held, end = {}, time.monotonic() + PATIENCE
            while not held.get("goal") and time.monotonic() < end:
                held = next((json.loads(message.data) for message in told.messages(timeout=5.0)), held)
            assert held["goal"] and shown.wait(PATIENCE)
        finally:
            host.stop()
            thread.join(PATIENCE)
        assert host.failure is None
