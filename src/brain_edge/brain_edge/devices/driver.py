# SPDX-License-Identifier: Apache-2.0
"""Interface of drivers: a class that reads, and perhaps writes, the properties of one device over one protocol.

It runs in a process of its own (:mod:`brain_edge.devices.process`), so it may block, fail and die as it likes. What it
reads is raw: scale, offset, types and limits are looked after elsewhere. A whole driver::

    class Dice(Driver):
        visitor_form = form(sides=WHOLE)

        def read(self, visitor):
            return random.randint(1, visitor["sides"])
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Iterable, Mapping

TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 500}
NUMBER: Mapping[str, Any] = {"type": "number"}
WHOLE: Mapping[str, Any] = {"type": "integer"}
FLAG: Mapping[str, Any] = {"type": "boolean"}
# A file of the robot. In an order it is a name that the robot's owner gave the file; the driver gets its path.
FILE: Mapping[str, Any] = {**TEXT, "format": "file"}
LARGEST = 64 * 1024     # bytes of a payload that a driver looks into


def form(*optional: str, **fields: Mapping[str, Any]) -> dict[str, Any]:
    """A form for settings or a visitor.

    Args:
        optional: names of those that may be left out.
        fields: each as JSON Schema has it, of which :mod:`brain_edge.schema` says what is understood.
    """
    return {"type": "object", "required": [name for name in fields if name not in optional], "properties": fields}


class Unreachable(Exception):
    """The device, or what leads to it, is gone: the driver is closed and opened again, after a while."""


@dataclass(frozen=True)
class Sample:
    """Reading of a property, with more than its value.

    Attributes:
        unit: that came with it; another than the model's makes the value invalid. None: none came.
        kept: it is of unknown age, since something kept it: shown as the last that is known, and never as fresh.
    """

    value: Any
    unit: str | None = None
    kept: bool = False


@dataclass(frozen=True)
class Around:
    """Environment of a driver: its device, the brain's router, and files.

    Attributes:
        device: its name.
        router, namespace: of the brain; None: the router of this machine.
        files: that the robot's owner has named, see :mod:`brain_edge.devices.owned_files`; None: who describes the
            device is the owner, and says paths; else it is an order.
    """

    device: str
    router: str | None = None
    namespace: str = ""
    files: Mapping[str, Any] | None = None

    @property
    def named(self) -> bool:
        """True where drivers and files are said by their names only: what the cloud orders must not choose others."""
        return self.files is not None


class Teller:
    """Takes what a driver has not been asked for, from any thread of it: of each property the newest.

    Args:
        names: of the properties; a driver may only speak of those.

    Attributes:
        why_gone: the device is gone, for this reason; None: it is there.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names, self._lock = frozenset(names), threading.Lock()
        self._news: dict[str, tuple[float, Any, str | None]] = {}
        self.why_gone: str | None = None

    def value(self, name: str, value: Any) -> None:
        """A property has a value now, or a :class:`Sample`."""
        self._put(name, value, None)

    def failed(self, name: str, why: str) -> None:
        """Of a property something came that is no value."""
        self._put(name, None, str(why))

    def _put(self, name: str, value: Any, why: str | None) -> None:
        if name in self._names:
            with self._lock:
                self._news[name] = time.monotonic(), value, why

    def gone(self, why: str) -> None:
        """The device is gone: the same as to raise :class:`Unreachable`."""
        self.why_gone = str(why) or "it is gone"

    def take(self, due: Callable[[str], bool]) -> list[tuple[str, float, Any, str | None]]:
        """Takes the newest reports of properties that are due: name, steady time (s), value, or why it is none."""
        with self._lock:
            return [(name, *self._news.pop(name)) for name in list(self._news) if due(name)]


class Driver:
    """The base of all drivers.

    Args:
        settings: of the device, as :attr:`settings_form` has them.
        visitors: by property, as :attr:`visitor_form` has them.
        around: where it runs.

    Attributes:
        settings_form, visitor_form: see :func:`form`; anything goes where a driver has none.
        polls: whether :meth:`read` is called every period; otherwise it tells by itself.
    """

    settings_form: ClassVar[Mapping[str, Any]] = {"type": "object", "additionalProperties": True}
    visitor_form: ClassVar[Mapping[str, Any]] = {"type": "object", "additionalProperties": True}
    polls: ClassVar[bool] = True

    def __init__(self, settings: Mapping[str, Any], visitors: Mapping[str, Mapping[str, Any]], around: Around) -> None:
        self.settings, self.visitors, self.around = settings, visitors, around

    @classmethod
    def check(cls, visitor: Mapping[str, Any], writable: bool) -> None:
        """Raises ValueError where a visitor of the right form cannot be meant so. Opens nothing."""

    @classmethod
    def check_together(cls, settings: Mapping[str, Any], visitors: Mapping[str, Mapping[str, Any]]) -> None:
        """Raises ValueError where settings and visitors cannot be meant so together. Opens nothing."""

    def open(self, tell: Teller) -> None:
        """Connects. What it raises is why the device is offline; it is called again after a while.

        Raises:
            FormProblem: the device cannot be meant so: it is refused.
        """

    def read(self, visitor: Mapping[str, Any]) -> Any:
        """The raw value of a property, or a :class:`Sample`.

        Raises:
            Unreachable: the device is gone.
            Exception: whatever else, this one property cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__} has no read()")

    def write(self, visitor: Mapping[str, Any], value: Any) -> None:
        """Sets a property to a raw value; raises as :meth:`read` does."""
        raise NotImplementedError(f"{type(self).__name__} cannot set anything")

    def look(self) -> None:
        """Called about once a second; raises Unreachable where the device is gone."""

    def close(self) -> None:
        """Lets go of everything; may be called after an ``open`` that failed."""
