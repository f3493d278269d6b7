# SPDX-License-Identifier: Apache-2.0
"""``brain teleop``: keys and a gamepad, as Linux tells of one, and what leaves on the wire."""
from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from brain.teleop import EVENT, HELD, Gamepad, Gone, Keyboard
from brain_wire import open_node
from brain_wire.messages import decode
from brain_wire.qos import FEATURE
from brain_wire.router import Router, free_port

DOMAIN = 84


@contextmanager
def pipe():
    reading, writing = os.pipe()
    try:
        yield reading, lambda text: os.write(writing, text.encode()), lambda: os.close(writing)
    finally:
        os.close(reading)


def test_keys_drive_while_they_are_held_down():
    with pipe() as (reading, write, end):
        keys = Keyboard(reading)
        assert keys.read(0.0) == (0.0, 0.0)
        write("w")
        assert keys.read(0.1) == (1.0, 0.0)
        write("\x1b")
        assert keys.read(0.1) == (1.0, 0.0)     # half of an arrow
        write("[D")
        assert keys.read(0.1) == (0.0, 1.0)
        write("?ézu+")
        ahead, aside = keys.read(0.1)
        assert (ahead, aside) == pytest.approx((-1.1, -1.1))
        time.sleep(HELD)
        assert keys.read(0.1) == (0.0, 0.0)
        write("d ")
        assert keys.read(0.1) == (0.0, 0.0)     # space stands
        write("-" * 100 + "w")
        assert keys.read(0.1)[0] == pytest.approx(0.02)
        write("+" * 100 + "w")
        assert keys.read(0.1)[0] == pytest.approx(2.0)
        write("wx")
        assert keys.read(0.1) is None
        end()
        assert keys.read(0.1) is None


def test_a_gamepad_counts_while_its_button_is_held_and_one_that_is_unplugged_is_told(tmp_path):
    device = tmp_path / "js0"
    os.mkfifo(device)
    with closing(Gamepad(device)) as stick:
        writing = os.open(device, os.O_WRONLY)
        tell = lambda *events: os.write(writing, b"".join(EVENT.pack(0, *one) for one in events))  # noqa: E731
        tell((0, 0x82, 1), (0, 0x81, 4), (-32767, 0x02, 1))
        assert stick.read(0.05) == (0.0, 0.0)       # nobody holds the button
        tell((1, 0x01, 4))
        assert stick.read(0.05) == (1.0, 0.0)
        tell((16384, 0x02, 0), (2000, 0x02, 1), (1, 0x01, 7), (9, 0x04, 200))
        assert stick.read(0.05) == pytest.approx((0.0, -0.5), abs=0.01)
        os.write(writing, b"odd")       # of whatever it is
        assert stick.read(0.05)[0] == 0.0
        tell((0, 0x01, 4))
        os.close(writing)
        with pytest.raises(Gone, match="has ended: the robot stands"):
            for _ in range(3):
                stick.read(0.05)
    assert struct.calcsize("IhBB") == EVENT.size == 8       # as the kernel has it


def test_what_a_hand_wants_is_said_and_that_it_is_off_at_the_end():
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_node("ear", domain=DOMAIN, router=endpoint, patience=10) as node:
        said = node.subscription("teleop/cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE.with_depth(1000))
        off = node.subscription("teleop/release", "std_msgs/msg/Empty", FEATURE)
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "brain", "teleop", "--linear", "0.3", "--router", endpoint],
            stdin=slave, stdout=subprocess.PIPE, env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)})
        os.close(slave)
        try:
            def until(true):
                end = time.monotonic() + 30.0
                while time.monotonic() < end:
                    for arrival in said.wait(0.5):
                        if true(decode(arrival.data, said.type).twist):
                            return True
                return False

            assert until(lambda twist: twist.linear.x == 0.0)       # it stands before a key is pressed
            os.write(master, b"w")
            assert until(lambda twist: twist.linear.x == pytest.approx(0.3) and twist.angular.z == 0.0)
            assert until(lambda twist: twist.linear.x == 0.0)       # the key was let go
            os.write(master, b"x")
            assert process.wait(20) == 0 and off.wait(5.0)
            assert b"the brain has the wheel" in process.stdout.read()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(master)


def test_what_cannot_be_read_is_named():
    done = subprocess.run([sys.executable, "-m", "brain", "teleop", "--gamepad", "/dev/input/js97"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "/dev/input/js97 cannot be read" in done.stderr
