# SPDX-License-Identifier: Apache-2.0
"""``brain teleop``: a hand on the wheel, by keyboard or gamepad, through the brainstem with its limits and reflexes."""
from __future__ import annotations

import contextlib
import math
import os
import select
import struct
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Iterator, Protocol

import typer

from brain_runtime.command.options import (Domain, Namespace, Router, Secure, fail, tell, use_domain, use_security)

PERIOD = 0.05           # s between two commands
HELD = 0.6              # s that a key counts as held down: a terminal repeats it only after half a second
SHOWN = 0.25            # s between two lines about what the robot does
KEYS = {"w": (1, 0), "\x1b[A": (1, 0), "s": (-1, 0), "\x1b[B": (-1, 0), "a": (0, 1), "\x1b[D": (0, 1), "d": (0, -1),
        "\x1b[C": (0, -1), "q": (1, 1), "e": (1, -1), "z": (-1, -1), "c": (-1, 1)}
"""Directions, ahead and to the left, by key; an arrow sends three characters."""
FASTER, SLOWER, STEP = ("+", "="), ("-", "_"), 1.1
END, STOP = ("\x03", "\x04", "x"), " "
EVENT = struct.Struct("IhBB")       # of Linux's joystick interface: time (ms), value, kind, number
BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
FULL = 32767            # an axis at its end
QUIET = 0.08            # of it: what a stick that is let go may still say
LEAST, MOST = 0.02, 2.0     # times the speeds that were given, which keys change


class Gone(Exception):
    """The hand cannot be felt any more; says why."""


class Wheel(Protocol):
    """Keys or a stick, which a hand moves."""

    def read(self, seconds: float) -> tuple[float, float] | None:
        """Waits for so long, and tells ahead and to the left, -1..1; None: the hand was taken off. Raises Gone."""


class Keyboard:
    """Keys as they come from a terminal, or from a pipe.

    Args:
        descriptor: to read from.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._pending = descriptor, ""
        self._held, self._since = (0, 0), -math.inf
        self.share = 1.0

    def read(self, seconds: float) -> tuple[float, float] | None:
        """See :class:`Wheel`."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            came = os.read(self._descriptor, 256).decode("utf-8", "replace")
            if not came or any(key in came for key in END):
                return None     # a pipe's end, or who is done
            self._take(self._pending + came)
        if time.monotonic() - self._since > HELD:
            self._held = 0, 0
        return self._held[0] * self.share, self._held[1] * self.share

    def _take(self, text: str) -> None:
        self._pending = ""
        while text:
            size = 3 if text.startswith("\x1b[") else 1
            if size > len(text) or text == "\x1b":
                self._pending = text    # of an arrow the rest comes with the next look
                return
            key, text = text[:size], text[size:]
            if key in KEYS:
                self._held, self._since = KEYS[key], time.monotonic()
            elif key == STOP:
                self._held = 0, 0
            elif key in FASTER + SLOWER:
                self.share = min(max(self.share * (STEP if key in FASTER else 1 / STEP), LEAST), MOST)


class Gamepad:
    """A stick by Linux's joystick interface (``/dev/input/js0``); it counts while a button is held down.

    Args:
        path: of the device.
        ahead, aside: numbers of the axes.
        button: number of the button.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, ahead: int = 1, aside: int = 0, button: int = 4) -> None:
        self._path, self._axes, self._button = path, (ahead, aside), button
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._at: dict[int, float] = {}
        self._down = False

    def read(self, seconds: float) -> tuple[float, float] | None:
        """See :class:`Wheel`."""
        end = time.monotonic() + seconds
        while select.select([self._descriptor], [], [], max(end - time.monotonic(), 0.0))[0]:
            try:
                data = os.read(self._descriptor, EVENT.size * 64)
            except BlockingIOError:
                break
            except OSError as error:
                raise Gone(f"{self._path} is gone ({error.strerror}): the robot stands") from error
            if not data:
                raise Gone(f"{self._path} has ended: the robot stands")
            for _, value, kind, number in EVENT.iter_unpack(data[:len(data) // EVENT.size * EVENT.size]):
                if kind & ~INITIAL == AXIS:
                    self._at[number] = -value / FULL    # up and to the left are negative
                elif kind & ~INITIAL == BUTTON and number == self._button:
                    self._down = bool(value)
        if not self._down:
            return 0.0, 0.0
        ahead, aside = (self._at.get(axis, 0.0) for axis in self._axes)
        return tuple(0.0 if abs(at) < QUIET else min(max(at, -1.0), 1.0) for at in (ahead, aside))  # type: ignore

    def close(self) -> None:
        """Lets the device go."""
        os.close(self._descriptor)


def teleop(gamepad: Annotated[Path | None, typer.Option(help="Joystick device, as /dev/input/js0. Default: the "
                                                        "keyboard.")] = None,
           button: Annotated[int, typer.Option(min=0, max=63, help="Button of the gamepad that has to be held down, a "
                                               "dead man's; 4 is the left shoulder of most.")] = 4,
           ahead: Annotated[int, typer.Option("--axis-ahead", min=0, max=63, help="Axis of the gamepad that drives."
                                              )] = 1,
           aside: Annotated[int, typer.Option("--axis-aside", min=0, max=63, help="Axis of it that turns.")] = 0,
           linear: Annotated[float, typer.Option(min=0.01, max=2.0, help="Speed ahead at full stick, m/s. The "
                                                 "brainstem's limits hold, whatever is said here.")] = 0.2,
           angular: Annotated[float, typer.Option(min=0.01, max=4.0, help="Turning speed at full stick, rad/s.")] = 0.8,
           router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Steers the robot by hand, before whatever the brain wants, with the brainstem's limits and reflexes.

    Keys: w a s d or arrows drive, q e z c curve, space stands, + and - change the speed, x or Ctrl-C gives the wheel
    back. The robot stands while nothing is held down. It stands, too, when this command dies or the gamepad is
    unplugged; then the brain drives on after the brainstem's teleop_return.

    Example: brain teleop --gamepad /dev/input/js0
    """
    use_domain(domain)
    use_security(secure)
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    try:
        with _wheel(gamepad, ahead, aside, button) as wheel, \
                open_node("brain_teleop", namespace or "/", router=router) as node:
            _steer(node, wheel, linear, angular)
    except Gone as gone:
        fail(str(gone))
    except OSError as error:
        fail(f"{gamepad or 'the keyboard'} cannot be read: {error.strerror or error}; `ls /dev/input/js*` tells which "
             f"gamepads there are", 2)
    except (NoRouter, SessionProblem, NameProblem) as error:
        fail(str(error))


@contextlib.contextmanager
def _wheel(gamepad: Path | None, ahead: int, aside: int, button: int) -> Iterator[Wheel]:
    """Opens what the hand moves, and at the end leaves the terminal as it was."""
    if gamepad is not None:
        with contextlib.closing(Gamepad(gamepad, ahead, aside, button)) as stick:
            yield stick
        return
    descriptor = sys.stdin.fileno()
    if not os.isatty(descriptor):
        yield Keyboard(descriptor)
        return
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _steer(node: Any, wheel: Wheel, linear: float, angular: float) -> None:
    """Says twenty times a second what the hand wants, and at its end that it is off. Raises Gone."""
    from brain_wire.messages import make, time_message
    from brain_wire.qos import FEATURE, STREAM

    said = node.publisher("teleop/cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE)
    off = node.publisher("teleop/release", "std_msgs/msg/Empty", FEATURE)
    traces = node.subscription("brain/trace", "brain_interfaces/msg/Trace", STREAM)
    tell("w a s d or arrows: drive, + and -: speed, space: stand, x: give the wheel back")
    shown, due = "", -math.inf
    with contextlib.suppress(KeyboardInterrupt):
        while (wanted := wheel.read(PERIOD)) is not None:
            message = make("geometry_msgs/msg/TwistStamped")
            message.header.stamp = time_message(time.time())
            message.twist.linear.x, message.twist.angular.z = wanted[0] * linear, wanted[1] * angular
            said.publish(message)
            if time.monotonic() >= due:
                due = time.monotonic() + SHOWN
                line = _does(traces)
                if line and line != shown:
                    shown = line
                    tell(line)
    for _ in range(3):      # one may be lost; more do no harm
        off.publish(make("std_msgs/msg/Empty"))
        time.sleep(PERIOD)
    tell("the brain has the wheel")


def _does(traces: Any) -> str:
    """Says what the brainstem made of it; empty: it has said nothing new."""
    from brain_wire.messages import MessageError, decode

    for arrival in reversed(traces.take()):
        with contextlib.suppress(MessageError):
            trace = decode(arrival.data, "brain_interfaces/msg/Trace")
            return f"{trace.linear:5.2f} m/s {trace.angular:5.2f} rad/s  {trace.reason}"
    return ""
