# SPDX-License-Identifier: Apache-2.0
"""Writes what regions in lockstep publish into a bag of rosbag2, MCAP or sqlite3, as ``ros2 bag record`` does live."""
from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Callable, Mapping, Protocol

from brain_runtime import interfaces
from brain_wire import messages

STORAGES = ("mcap", "sqlite3")
SENSED = {
    "camera/image_raw": "sensor_msgs/msg/Image", "camera/camera_info": "sensor_msgs/msg/CameraInfo",
    "scan": "sensor_msgs/msg/LaserScan", "odom": "nav_msgs/msg/Odometry",
    "cmd_vel": "geometry_msgs/msg/TwistStamped", "goal/text": "std_msgs/msg/String",
    "goal/status": "brain_interfaces/msg/GoalStatus", "lang/features": "brain_interfaces/msg/LanguageFeatures",
    "vision/objects": "brain_interfaces/msg/DetectedObjects", "brain/trace": "brain_interfaces/msg/Trace",
    "sim/world": "std_msgs/msg/String", "sim/objects": "brain_interfaces/msg/DetectedObjects",
}
"""Topics that are recorded, with their types: what a robot senses, saw and did; of a simulated one the truth."""


class Told(Protocol):
    """Regions in lockstep: :class:`brain_runtime.hosts.local.LocalHost`."""

    @property
    def now(self) -> float:
        """Simulated time (s)."""

    def listen(self, topic: str, callback: Callable[[Any], None], *, latched: bool = False) -> Callable[[], None]:
        """Calls back with each message of a topic."""


class BagWriter:
    """One bag: a folder with ``metadata.yaml`` and a file. Leaving it as a context ends it in good order.

    Args:
        path: folder, which must not be there yet.
        storage: one of :data:`STORAGES`.

    Raises:
        ValueError: there is no such storage.
        OSError: the folder cannot be made, or is there.
    """

    def __init__(self, path: Path, storage: str = "mcap") -> None:
        from rosbags.rosbag2 import StoragePlugin, Writer, WriterError

        if storage not in STORAGES:
            raise ValueError(f"no storage {storage!r}; there are {' and '.join(STORAGES)}")
        plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
        try:
            self._writer = Writer(path, version=9, storage_plugin=plugin)
            self._writer.open()
            Path(path).chmod(0o700)     # it shows what the robot saw
        except WriterError as error:
            raise FileExistsError(f"{path} is there already; name another folder for the recordings") from error
        self._connections: dict[str, Any] = {}

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def hear(self, host: Told, topics: Mapping[str, str] = SENSED) -> None:
        """Writes each message of the topics from now on, at the host's time."""
        for topic, kind in topics.items():
            self.declare(topic, kind)
            host.listen(topic, lambda message, topic=topic: self.write(topic, host.now, message), latched=True)

    def declare(self, topic: str, kind: str) -> None:
        """Makes a topic known, with its type and the definition of this, which other tools read it by."""
        store = _types()
        self._connections[topic] = self._writer.add_connection(f"/{topic}", kind, typestore=store)

    def write(self, topic: str, seconds: float, message: Any) -> None:
        """Writes a message of a topic that was declared, received at ``seconds``."""
        self._writer.write(self._connections[topic], round(seconds * 1e9), messages.encode(message))


@cache
def _types() -> Any:
    """Definitions of the standard types and ours, as rosbags has them."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    found = get_typestore(Stores.ROS2_KILTED)
    for path in sorted((interfaces.definitions() / "msg").glob("*.msg")):
        found.register(get_types_from_msg(path.read_text(encoding="utf-8"), f"{interfaces.PACKAGE}/msg/{path.stem}"))
    return found
