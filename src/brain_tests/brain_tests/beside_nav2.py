# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what stands beside a brain under Nav2, each a process of its own on a real wire.

``python -m brain_tests.beside_nav2 nav2 sound|hangs|mute`` serves NavigateToPose and drives; ``... mux FILE`` chooses
between velocities as twist_mux does, by a file of its parameters. Both tell what they do on ``test/events``.
"""
from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any, Callable

from brain_regions import nav2
from brain_runtime import yaml_text
from brain_wire import Act, Server, messages, open_node, register
from brain_wire.messages import decode, make
from brain_wire.qos import FEATURE, SENSOR, QoS

STAMPED, TEXT = "geometry_msgs/msg/TwistStamped", "std_msgs/msg/String"
LOGGED = QoS(reliable=True, latched=False, depth=1000)
SPEED, NEAR = 0.2, 0.25     # m/s, and m from the goal within which it is reached
PERIOD = 0.05


def serve(mode: str) -> None:
    """Serves NavigateToPose.

    Args:
        mode: ``sound``; ``hangs``, takes goals and drives on whatever comes, and answers nothing else; ``mute``, is
            there and answers nothing at all.
    """
    register("nav2_msgs", Path(nav2.__file__).parent / "jazzy")
    act = Act("navigate_to_pose", "nav2_msgs/action/NavigateToPose")
    with open_node("fake_nav2") as node:
        events = node.publisher("test/events", TEXT, LOGGED)
        out = node.publisher("twist_mux/nav2", STAMPED, FEATURE)
        odom = node.subscription("odom", "nav_msgs/msg/Odometry", SENSOR)
        goals: dict[bytes, Any] = {}

        def tell(text: str) -> None:
            events.publish(make(TEXT, data=text))

        def take(goal: Any) -> None:
            tell("cancel" if goal.canceling else "goal")
            goals[goal.id] = goal

        if mode == "mute":
            for part, kind in (("send_goal", act.types.send_goal), ("cancel_goal", act.types.cancel_goal),
                               ("get_result", act.types.get_result)):
                node.service(f"{act.topic}/_action/{part}", kind, lambda: None)
            tell("ready")
            time.sleep(3600)
        server = Server(node)
        action = server.action(act, take)
        place = (0.0, 0.0)
        tell("ready")
        while True:
            if mode != "hangs" or not goals:
                server.serve(PERIOD)
            else:
                time.sleep(PERIOD)
            for arrival in odom.take():
                at = decode(arrival.data, odom.type).pose.pose.position
                place = at.x, at.y
            drives = False
            for number, goal in list(goals.items()):
                newest = goal is list(goals.values())[-1]
                to = goal.request.pose.pose.position
                left = math.hypot(to.x - place[0], to.y - place[1])
                if mode == "hangs":
                    drives = True
                elif goal.canceling or not newest:
                    end = act.canceled if goal.canceling else act.aborted
                    action.tell(end(goals.pop(number)))
                elif left < NEAR:
                    tell("reached")
                    action.tell(act.succeeded(goals.pop(number)))
                else:
                    drives = True
                    action.tell(act.feedback(goal, distance_remaining=left))
            if drives:
                command = make(STAMPED)
                command.twist.linear.x = SPEED
                out.publish(command)


def mux(file: str) -> None:
    """Chooses between velocities: an input passes that is the highest of those that are fresh and not locked."""
    told = yaml_text.read(Path(file))["twist_mux"]["ros__parameters"]
    with open_node("fake_twist_mux") as node:
        events = node.publisher("test/events", TEXT, LOGGED)
        out = node.publisher("cmd_vel", STAMPED, FEATURE)
        inputs = {name: (node.subscription(one["topic"], STAMPED, FEATURE), one) for name, one in
                  told["topics"].items()}
        locks = [(node.subscription(one["topic"], "std_msgs/msg/Bool", FEATURE), one) for one in
                 told["locks"].values()]
        heard: dict[Any, float] = {}
        shut: dict[Any, bool] = {}
        events.publish(make(TEXT, data="ready"))
        while True:
            time.sleep(0.005)
            now = time.monotonic()
            for subscription, _ in locks:
                for arrival in subscription.take():
                    heard[subscription] = now
                    shut[subscription] = bool(decode(arrival.data, subscription.type).data)
            locked = max([one["priority"] for subscription, one in locks if shut.get(subscription) or one["timeout"]
                          and now - heard.get(subscription, -math.inf) > one["timeout"]], default=0)
            came = {name: subscription.take() for name, (subscription, _) in inputs.items()}
            for name, arrivals in came.items():
                if arrivals:
                    heard[name] = now
            open_ = [one["priority"] for name, (_, one) in inputs.items() if one["priority"] >= locked
                     and now - heard.get(name, -math.inf) <= one["timeout"]]
            for name, arrivals in came.items():
                if arrivals and inputs[name][1]["priority"] >= locked and inputs[name][1]["priority"] == max(open_):
                    out.publish(messages.decode(arrivals[-1].data, STAMPED))


PROGRAMS: dict[str, Callable[[str], None]] = {"nav2": serve, "mux": mux}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2])
