# SPDX-License-Identifier: Apache-2.0
"""Run a whole brain: every region of the graph as a lifecycle node, with world:=sim its simulated robot too.

Launch starts again what ends; the supervisor of ``brain up`` takes no part. A process that is only stopped (SIGSTOP)
is made safe by the brainstem, which then misses its heartbeat, but it is not started again.
"""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain bringup.launch.py --show-args` tells the arguments."""
    return description(router=True)
