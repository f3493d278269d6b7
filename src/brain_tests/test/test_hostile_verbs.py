# SPDX-License-Identifier: Apache-2.0
"""What a peer publishes in the brainstem's place does not keep an operator from stopping the robot."""
import threading

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_wire import messages, open_node
from brain_wire.qos import LATCHED
from brain_wire.router import Router, free_port

BOOL = "std_msgs/msg/Bool"


@pytest.mark.parametrize("verb, topic, stopped", [("estop", "estop", True), ("release", "estop/release", False)])
def test_a_broken_status_does_not_end_the_asking(verb, topic, stopped):
    endpoint, done, asked = f"tcp/127.0.0.1:{free_port()}", threading.Event(), []
    with Router([endpoint]), open_node("peer", router=endpoint, domain=9) as node:
        status = node.publisher("estop/status", BOOL, LATCHED)
        heard = node.subscription(topic, BOOL if stopped else "std_msgs/msg/Empty", LATCHED)

        def peer():
            while not done.is_set():
                asked.extend(heard.wait(0.1))
                status.publish_bytes(b"\x00\x01\x00\x00")
                if len(asked) > 3:      # it was asked again after it had heard what it cannot read
                    status.publish(messages.make(BOOL, data=stopped))

        thread = threading.Thread(target=peer)
        thread.start()
        try:
            result = CliRunner().invoke(app, [verb, "--router", endpoint, "--domain", "9"])
        finally:
            done.set()
            thread.join()
    assert result.exit_code == 0, result.output
