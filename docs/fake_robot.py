# SPDX-License-Identifier: Apache-2.0
"""A robot without a body: says what a brain hears, and follows cmd_vel in its odometry. Run it beside `brain up`."""
import math
import time

import numpy as np

from brain_wire import open_node
from brain_wire.messages import make
from brain_wire.qos import FEATURE, SENSOR

PERIOD = 0.05               # s, of a turn of the loop: 20 Hz
TIMEOUT = 0.5               # s without a command, after which the base stops by itself
WIDTH, HEIGHT = 96, 64      # pixels of a camera that sees 90 degrees


def header(frame):
    now = time.time_ns()
    stamp = make("builtin_interfaces/msg/Time", sec=now // 10**9, nanosec=now % 10**9)
    return make("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


with open_node("fake_robot") as node:
    scan = node.publisher("scan", "sensor_msgs/msg/LaserScan", SENSOR)
    odom = node.publisher("odom", "nav_msgs/msg/Odometry", SENSOR)
    image = node.publisher("camera/image_raw", "sensor_msgs/msg/Image", SENSOR)
    info = node.publisher("camera/camera_info", "sensor_msgs/msg/CameraInfo", SENSOR)
    commands = node.subscription("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE)
    x = y = yaw = speed = turn = 0.0
    heard, rng = -math.inf, np.random.default_rng(1)
    while True:
        for command in commands.messages(PERIOD):       # waits for PERIOD, and gives what comes meanwhile
            heard, before = time.monotonic(), (speed, turn)
            speed, turn = command.twist.linear.x, command.twist.angular.z
            if (speed, turn) != before:
                print(f"cmd_vel: {speed:+.2f} m/s, {turn:+.2f} rad/s", flush=True)
        if time.monotonic() - heard > TIMEOUT:
            speed = turn = 0.0
        x, y, yaw = x + speed * math.cos(yaw) * PERIOD, y + speed * math.sin(yaw) * PERIOD, yaw + turn * PERIOD

        moved = make("nav_msgs/msg/Odometry", header=header("odom"), child_frame_id="base_link")
        moved.pose.pose.position.x, moved.pose.pose.position.y = x, y
        moved.pose.pose.orientation.z, moved.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        moved.twist.twist.linear.x, moved.twist.twist.angular.z = speed, turn
        odom.publish(moved)
        scan.publish(make("sensor_msgs/msg/LaserScan", header=header("base_link"), angle_min=-math.pi,
                          angle_max=math.pi, angle_increment=math.tau / 180, range_min=0.1, range_max=8.0,
                          ranges=rng.normal(3.0, 0.01, 180)))     # equal ranges are a dead lidar's
        light = rng.normal(np.linspace(200, 60, HEIGHT)[:, None], 3.0, (HEIGHT, 3 * WIDTH))    # the floor is darker
        image.publish(make("sensor_msgs/msg/Image", header=header("camera"), height=HEIGHT, width=WIDTH,
                           encoding="rgb8", step=3 * WIDTH, data=light.astype(np.uint8).reshape(-1)))
        focal = WIDTH / 2                               # pixels, at 90 degrees
        info.publish(make("sensor_msgs/msg/CameraInfo", header=header("camera"), height=HEIGHT, width=WIDTH,
                          k=[focal, 0, WIDTH / 2, 0, focal, HEIGHT / 2, 0, 0, 1]))
