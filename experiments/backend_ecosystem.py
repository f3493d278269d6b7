# SPDX-License-Identifier: Apache-2.0
"""*ecosystem* of ``brain bench backends``: what tools of ROS 2 see of each backend.

A listener that speaks nothing but rmw_zenoh's format (tokens and CDR, of :mod:`brain_wire`) looks at the toy brain as
``ros2 node list``, ``ros2 topic list -t``, ``topic echo`` and ``param list`` do. On RosHost rclpy itself is asked for
what ``ros2 topic list`` prints. What RViz and Foxglove could show is told by the types of the shipped brain's topics;
neither was run.
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable

from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_wire import Node, Watch, messages, open_session
from brain_wire.names import NODE, PUBLISHER, SERVER, SUBSCRIPTION
from brain_wire.qos import FEATURE
from brain_wire.service import NoAnswer
from brain_wire.services import service_type
from brain_wire.temporary_folder import TemporaryFolder
from experiments.backend_sides import ros_peer
from experiments.processes import NoPeer
from experiments.toy_brain import ToyBrain, toys

STRING = "std_msgs/msg/String"
LOOK = 1.5              # s in which all tokens come
ANSWER = 10.0           # s for a service
PARAMETERS = "rcl_interfaces/srv/ListParameters"
# Displays of rviz_default_plugins, and panels of Foxglove beside Raw Messages, which shows any type, and Plot, which
# draws any number.
RVIZ = {"sensor_msgs/msg/Image": "Image", "sensor_msgs/msg/CameraInfo": "Camera", "sensor_msgs/msg/LaserScan":
        "LaserScan", "nav_msgs/msg/Odometry": "Odometry", "nav_msgs/msg/OccupancyGrid": "Map",
        "nav_msgs/msg/Path": "Path", "visualization_msgs/msg/MarkerArray": "MarkerArray",
        "visualization_msgs/msg/Marker": "Marker", "geometry_msgs/msg/PoseStamped": "Pose", "tf2_msgs/msg/TFMessage":
        "TF", "sensor_msgs/msg/PointCloud2": "PointCloud2", "sensor_msgs/msg/Range": "Range",
        "geometry_msgs/msg/PoseArray": "PoseArray", "geometry_msgs/msg/TwistStamped": "TwistStamped"}
FOXGLOVE = {"sensor_msgs/msg/Image": "Image", "sensor_msgs/msg/CameraInfo": "Image (calibration)",
            "sensor_msgs/msg/LaserScan": "3D", "nav_msgs/msg/OccupancyGrid": "3D", "nav_msgs/msg/Path": "3D",
            "visualization_msgs/msg/MarkerArray": "3D", "visualization_msgs/msg/Marker": "3D",
            "geometry_msgs/msg/PoseStamped": "3D", "geometry_msgs/msg/PoseArray": "3D",
            "tf2_msgs/msg/TFMessage": "3D", "sensor_msgs/msg/PointCloud2": "3D",
            "diagnostic_msgs/msg/DiagnosticArray": "Diagnostics", "rcl_interfaces/msg/Log": "Log",
            "sensor_msgs/msg/NavSatFix": "Map"}


def seen(brain: ToyBrain, seconds: float) -> dict[str, Any]:
    """Lists the parts of a running brain that a listener sees who knows nothing of brains.

    Args:
        brain: the four toys.
        seconds: that it hears a topic for.

    Returns:
        ``nodes``, ``topics``, ``endpoints`` (publishers and subscriptions), ``services``; ``processes``: sessions that
        declare the nodes of the regions; ``hashes``: all types have the hash of their definition; ``echo``: messages/s
        that come of a topic (Hz) and whether they ``decode``; ``parameters`` of the relay, by its service; ``edges``:
        how many of the toys' subscriptions name the region that has them.
    """
    with open_session(brain.node.session.endpoint, patience=ANSWER) as session:
        node = Node(session, "onlooker", domain=brain.node.domain)
        with Watch(session, brain.node.domain) as watch:
            watch.wait_for(lambda w: False, LOOK)
            names = [f"/{name}" for name in brain.names]
            endpoints = [e for e in watch.endpoints() if e.name in names]
            topics = {e.topic: e for e in endpoints if e.kind in (PUBLISHER, SUBSCRIPTION)}
            echo = _echo(node, seconds)
            listed = _parameters(node)
            found = {
                "host": brain.host, "nodes": sum(name in watch.nodes() for name in names), "topics": len(topics),
                "endpoints": sum(e.kind in (PUBLISHER, SUBSCRIPTION) for e in endpoints),
                "services": sum(e.kind == SERVER for e in endpoints),
                "processes": len({e.zid for e in endpoints if e.kind != NODE}),
                "hashes": all(e.type_hash == messages.type_hash(e.type) for e in topics.values()),
                "echo": echo[0], "decode": echo[1], "parameters": listed,
                "edges": len({(e.name, e.topic) for e in endpoints if e.kind == SUBSCRIPTION
                              and e.topic.startswith("/backends/")}), "wrong": ""}
        node.close()
    return found


def _echo(node: Node, seconds: float) -> tuple[float, bool]:
    subscription = node.subscription("backends/said", STRING, FEATURE.with_depth(100))
    until, heard, fine = time.monotonic() + seconds, 0, True
    while (left := until - time.monotonic()) > 0:
        for arrival in subscription.wait(left):
            heard += 1
            fine &= float(messages.decode(arrival.data, STRING).data) > 0.0
    return heard / seconds, fine and heard > 0


def _parameters(node: Node) -> list[str]:
    client = node.client("relay/list_parameters", PARAMETERS)
    try:
        return list(client.call(messages.make(service_type(PARAMETERS).request), ANSWER).result.names)
    except (NoAnswer, messages.MessageError):
        return []
    finally:
        node.let_go(client)


def on_ros() -> dict[str, Any]:
    """Reads rclpy's graph of two regions on RosHost, as ``ros2 topic list`` asks for it."""
    nothing = dict.fromkeys(("nodes", "topics", "endpoints", "services", "processes", "hashes", "echo", "decode",
                             "parameters", "edges"))
    with TemporaryFolder("bench") as folder:
        try:
            with ros_peer(Path(folder)) as peer:
                graph = peer.about["graph"]
                ours = [topic for topic in graph if topic.startswith("/bench/")]
                return {**nothing, "host": peer.about["about"], "nodes": len(peer.about["nodes"]), "topics": len(ours),
                        "all_topics": graph, "wrong": ""}
        except NoPeer as why:
            return {**nothing, "host": "ros", "wrong": str(why)}


def shown() -> list[dict[str, Any]]:
    """By type of the shipped brain's topics: how many have it, and what of RViz and Foxglove would show it."""
    topics: dict[str, set[str]] = {}
    for region in inspect_graph("brain", SIM_WORLD).regions:
        for port in region.load().ports().values():
            topics.setdefault(port.type, set()).add(port.topic)
    return [{"type": kind, "topics": len(named), "example": min(named), "rviz": RVIZ.get(kind, ""),
             "foxglove": FOXGLOVE.get(kind, "Raw Messages, Plot")}
            for kind, named in sorted(topics.items(), key=lambda item: (item[0] not in RVIZ, item[0]))]


def measure(seconds: float, stop: Any, tell: Callable[[str], None]) -> dict[str, Any]:
    """``seen`` of the toy brain on Zenoh and on a static group, and of RosHost; ``shown``: by type of message."""
    rows = []
    for host in ("zenoh", "torch"):
        with toys(host, stop) as brain:
            rows.append(seen(brain, seconds))
    rows.append(on_ros())
    for row in rows:
        tell(row["wrong"] or f"{row['host']}: {row['nodes']} nodes and {row['topics']} topics are seen from outside")
    return {"seen": rows, "shown": shown()}
