# SPDX-License-Identifier: Apache-2.0
"""Reads bags of rosbag2, MCAP or sqlite3, message by message: one of any size takes no more memory than a small one.

A bag comes from anywhere. Whatever is wrong with it is said in one line that names the file and the remedy.
"""
from __future__ import annotations

import functools
import logging
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from brain_runtime.command.lacking import lacks
from brain_runtime.contract import git_lfs
from brain_wire import messages

log = logging.getLogger(__name__)

FILES = (".mcap", ".db3")
REPAIR = "repair it (`mcap recover`, for .db3 sqlite3's `.recover`), or take it out of the folder"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
MOST_BYTES = 2**28      # of one message or compressed chunk; what declares more is not unpacked


class RecordingError(ValueError):
    """A recording cannot be used; says which file, why, and the remedy."""


class Heard(NamedTuple):
    """A message of a bag.

    Attributes:
        topic: as it was asked for.
        at: when it was recorded (ns).
        message: decoded.
    """

    topic: str
    at: int
    message: Any

    @property
    def stamp(self) -> int:
        """Stamp of a message with a header (ns); when it was recorded where that is 0, as some drivers leave it."""
        return self.told or self.at

    @property
    def told(self) -> int:
        """Stamp that its header tells (ns)."""
        stamp = self.message.header.stamp
        return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def file_of(path: Path) -> Path:
    """Finds what to open of a recording: its folder, its file, or the one file in the folder of a cut-off recording.

    Raises:
        RecordingError: it is no bag, or the folder has several files and does not say in which order.
    """
    if not path.is_dir() or (path / "metadata.yaml").exists():
        return path
    files = bag_files(path)
    if len(files) > 1:
        raise RecordingError(f"{path} has {len(files)} files and no metadata.yaml; make one with `ros2 bag reindex "
                             f"{path}`")
    if not files:
        raise RecordingError(f"{path} is no recording: it has neither metadata.yaml nor a file that ends in "
                             f"{' or '.join(FILES)}")
    return files[0]


def bag_files(folder: Path) -> list[Path]:
    """Files of bags that lie in a folder, by name."""
    return sorted(file for file in folder.iterdir() if file.suffix in FILES and file.is_file())


class Bag:
    """A bag that is open; see :func:`opened`.

    Attributes:
        path: of the recording, as a person knows it.
    """

    def __init__(self, path: Path, reader: Any) -> None:
        self.path, self._reader = path, reader
        found = {f"/{c.topic.lstrip('/')}": c for c in reader.connections}      # some writers leave out the slash
        self._kinds = {topic: c.msgtype for topic, c in found.items()}
        self._recorded = {topic: c.topic for topic, c in found.items()}

    def of_types(self, kinds: tuple[str, ...]) -> list[str]:
        """Topics of some types, by name."""
        return sorted(topic for topic, kind in self._kinds.items() if kind in kinds)

    def topic(self, name: str) -> str | None:
        """The bag's name of a relative topic, whatever namespace it was recorded in; None: it has none.

        Raises:
            RecordingError: several have this name.
        """
        wanted = f"/{name.lstrip('/')}"
        if wanted in self._kinds:
            return wanted
        found = sorted(topic for topic in self._kinds if topic.endswith(wanted))
        if len(found) > 1:
            raise RecordingError(f"{self.path} has several topics {name}: {', '.join(found)}; say which by its whole "
                                 f"name, with its namespace")
        return found[0] if found else None

    def need(self, name: str, kinds: tuple[str, ...]) -> tuple[str, str]:
        """A topic's name in the bag and its type.

        Raises:
            RecordingError: the bag does not have it, or with another type.
        """
        found = self.topic(name)
        if found is None:
            some = ", ".join(sorted(self._kinds)[:12]) or "none"
            raise RecordingError(f"{self.path} has no topic {name} (topics: {some}); record it too, or take the "
                                 f"recording out of the folder")
        if self._kinds[found] not in kinds:
            raise RecordingError(f"{self.path}: {found} carries {self._kinds[found]}, not {' or '.join(kinds)}; name "
                                 f"another topic, or take the recording out of the folder")
        return found, self._kinds[found]

    def lens_of(self, pictures: str) -> str | None:
        """Topic of the CameraInfo of pictures; None: there is none.

        It lies beside that of the pictures; of what a transport sends (``camera/image_raw/compressed``) beside that of
        the pictures themselves.
        """
        found = self.topic(pictures)
        places = [pictures.rpartition("/")[0]]
        if found is not None and self._kinds[found] == COMPRESSED:
            places.append(places[0].rpartition("/")[0])
        return next((name for place in places if self.topic(name := f"{place}/camera_info") is not None), None)

    def messages(self, topics: Mapping[str, tuple[str, ...]]) -> Iterator[Heard]:
        """All messages of topics, in the order in which they were recorded, one at a time.

        Args:
            topics: with the types that each may have.

        Raises:
            RecordingError: a topic is missing or has another type, the bag is torn, or a message is none.
        """
        asked = {self.need(name, kinds): name for name, kinds in topics.items()}
        decoders = {self._recorded[topic]: (name, messages.decoder(kind)) for (topic, kind), name in asked.items()}
        timed = {self._recorded[topic] for topic, kind in asked if messages.has_field(kind, "header")}
        connections = [c for c in self._reader.connections if c.topic in decoders]
        left = sum(connection.msgcount for connection in connections)
        with _torn(self.path):
            for chunk in getattr(self._reader.storage, "chunks", ()):
                if max(chunk.uncompressed_size, chunk.compressed_size) > MOST_BYTES:
                    raise RecordingError(f"{self.path} has a chunk of {chunk.uncompressed_size} bytes, more than "
                                         f"{MOST_BYTES}; write it anew with smaller ones (`mcap compress`)")
            for connection, at, data in self._reader.messages(connections):
                left -= 1
                name, decode = decoders[connection.topic]
                try:
                    message = decode(data)
                except messages.MessageError as error:
                    raise RecordingError(f"{self.path}: the message of {connection.topic} at {at / 1e9:.3f} s is "
                                         f"broken ({error}); {REPAIR}") from error
                heard = Heard(name, at, message)
                if connection.topic in timed and at and not heard.told:
                    _say_unstamped(self.path, connection.topic)
                yield heard
        if left > 0:    # what a hole in a file without checksums looks like
            raise RecordingError(f"{self.path} cannot be read whole ({left} messages fewer than it says that it has); "
                                 f"{REPAIR}")


@functools.lru_cache(maxsize=256)       # a recording is opened several times, and said once
def _say_unstamped(path: Path, topic: str) -> None:
    log.warning("%s: messages of %s have no stamp; the time at which each was recorded is taken for it", path, topic)


@contextmanager
def _torn(path: Path) -> Iterator[None]:
    """Turns whatever reading a broken file raises into a RecordingError of one line."""
    try:
        yield
    except RecordingError:
        raise
    except Exception as error:      # of readers that were handed whatever bytes: struct.error, KeyError, MemoryError
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RecordingError(f"{path} cannot be read ({why}); {REPAIR}") from error


@contextmanager
def opened(path: Path) -> Iterator[Bag]:
    """Opens a recording.

    Raises:
        RecordingError: it is torn, is none, or what reads it is not installed.
    """
    try:
        from rosbags.rosbag2 import Reader
    except ModuleNotFoundError as error:
        raise RecordingError(lacks(error.name or "rosbags")) from None
    file = file_of(path)
    for part in bag_files(file) if file.is_dir() else [file]:
        if git_lfs.is_pointer(part):
            raise RecordingError(f"{part} cannot be read: {git_lfs.ADVICE}")
    with _torn(path):
        reader = Reader(file)
        reader.open()
    try:
        yield Bag(path, reader)
    finally:
        reader.close()
