# SPDX-License-Identifier: Apache-2.0
"""Findings of the machine: Python and its packages, the router's port, clocks, memory, disk and the environment."""
from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding

PYTHON = (3, 11)
RMW = "rmw_zenoh_cpp"
JUMP = 0.05             # s by which the clock may go on faster or slower than the steady one
ROOM = 64 << 20         # bytes that shared memory and the disk should have
SHARED = 1 << 16        # bytes from which on a message goes by shared memory
UNSYNCHRONISED = 5      # what adjtimex() gives then
PRODUCTS = 2e9         # multiply-accumulates a second that numpy should make; Debian's plain BLAS makes one billion
LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Machine:
    """Facts of this machine.

    Attributes:
        python: version.
        lacking: requirements of our packages that are not met, in words.
        endpoint: of the router.
        router: one answers there.
        taken: something else listens there.
        synchronised: the clock is, by the kernel; None: it does not say.
        jumped: s by which the clock went otherwise than the steady one.
        may_lock: as much memory as shared memory takes can be locked.
        rmw, domain_variable: RMW_IMPLEMENTATION and ROS_DOMAIN_ID of the environment; empty: not set.
        domain: of the brain.
        shared_free, disk_free: bytes.
        folder: of the disk that is meant.
        cores: of the processor, that this process may use.
        largest: bytes of the largest message that came.
        products: multiply-accumulates a second of numpy's matrix products.
    """

    python: tuple[int, int] = PYTHON
    lacking: tuple[str, ...] = ()
    endpoint: str = "tcp/localhost:7447"
    router: bool = True
    taken: bool = False
    synchronised: bool | None = None
    jumped: float = 0.0
    may_lock: bool = True
    rmw: str = ""
    domain_variable: str = ""
    domain: int = 0
    shared_free: int = 1 << 30
    disk_free: int = 1 << 30
    folder: str = ""
    cores: int = 2
    largest: int = 0
    products: float = 1e10

    @property
    def remote(self) -> bool:
        """True if the router is on another machine, whose clock counts too."""
        return not any(host in self.endpoint for host in LOCAL)


def findings(machine: Machine) -> list[Finding]:
    """All that is wrong with the machine."""
    return [*_python(machine), *_router(machine), *_environment(machine), *_clock(machine), *_room(machine)]


def _python(machine: Machine) -> Iterator[Finding]:
    if machine.python < PYTHON:
        yield Finding("python-old", STOPS, "Python", "it is {}.{}".format(*machine.python),
                      "install Python {}.{} or newer".format(*PYTHON))
    for one in machine.lacking:
        yield Finding("package-version", DEGRADES, "packages", one, "make venv, or pip install -r requirements-ros.txt")


def _router(machine: Machine) -> Iterator[Finding]:
    if machine.taken:
        yield Finding("router-port", STOPS, machine.endpoint, "a program that is no Zenoh router listens there",
                      "end it, or choose another port with --router or BRAIN_ROUTER")
    elif not machine.router:
        yield Finding("router-missing", STOPS, machine.endpoint, "no Zenoh router answers, so that nothing is heard",
                      "start one: `brain up`, `python -m brain_wire.router` or rmw_zenohd")


def _environment(machine: Machine) -> Iterator[Finding]:
    if machine.rmw and machine.rmw != RMW:
        yield Finding("rmw", DEGRADES, "RMW_IMPLEMENTATION", f"it is {machine.rmw}: ROS 2 nodes from this terminal and "
                      f"a brain on Zenoh do not hear each other",
                      f"export RMW_IMPLEMENTATION={RMW} for the robot's nodes")
    if machine.domain_variable not in ("", str(machine.domain)):
        yield Finding("domain-variable", DEGRADES, "ROS_DOMAIN_ID", f"it is {machine.domain_variable}, and the "
                      f"brain's domain is {machine.domain}",
                      f"export ROS_DOMAIN_ID={machine.domain}, or leave --domain out")
    if machine.cores < 2:
        yield Finding("one-core", NOTE, "processor", "there is one core", "brain up --one-process takes less")
    if machine.products < PRODUCTS:
        yield Finding("numpy-slow", DEGRADES, "numpy", f"it makes {machine.products / 1e9:.1f} billion multiplications "
                      f"a second, so that vision takes tens of milliseconds for a picture",
                      "sudo apt install libopenblas0, which takes the place of the plain BLAS")


def _clock(machine: Machine) -> Iterator[Finding]:
    if abs(machine.jumped) > JUMP:
        yield Finding("clock-jumps", DEGRADES, "clock", f"it jumped by {machine.jumped:+.2f} s meanwhile",
                      "let chrony slew it, and start the drivers after it is set")
    if machine.synchronised is False and machine.remote:
        yield Finding("clock-unsynchronised", DEGRADES, "clock", "the kernel says that nothing synchronises it, and "
                      "the router is on another machine", "start chrony or systemd-timesyncd on both")


def _room(machine: Machine) -> Iterator[Finding]:
    if machine.disk_free < ROOM:
        yield Finding("disk-full", DEGRADES, machine.folder, f"{machine.disk_free >> 20} MiB are free: what the brain "
                      f"knows and its logs are not kept", "make room, or name another folder with --state-dir")
    if machine.largest < SHARED:    # nothing goes by shared memory
        return
    if not machine.may_lock:
        yield Finding("memory-lock", NOTE, "ulimit -l", "this process may lock too little memory, so that pictures are "
                      "copied through the router", "raise it to 1 GiB: LimitMEMLOCK= of the unit, or limits.conf")
    if machine.shared_free < ROOM:
        yield Finding("shared-memory", DEGRADES, "/dev/shm", f"{machine.shared_free >> 20} MiB are free",
                      "make room; in a container: --shm-size=1g")


def look(endpoint: str, domain: int, domain_variable: str, folder: Path, *, router: bool, jumped: float,
         largest: int) -> Machine:
    """Looks at this machine.

    Args:
        endpoint, domain, domain_variable, router, jumped, largest: as of :class:`Machine`.
        folder: that the brain will write into; its nearest parent that exists is looked at.
    """
    from brain_wire.shared_memory import may_lock

    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    shared = Path("/dev/shm")
    return Machine(sys.version_info[:2], tuple(lacking()), endpoint, router, not router and _answers(endpoint),
                   _synchronised(), jumped, may_lock(), os.environ.get("RMW_IMPLEMENTATION", "").strip(),
                   domain_variable.strip(), domain, shutil.disk_usage(shared).free if shared.is_dir() else 0,
                   shutil.disk_usage(there).free, str(there), len(os.sched_getaffinity(0)), largest, products())


def lacking() -> Iterator[str]:
    """Requirements of our installed packages that are not met; those of extras nobody needs to meet."""
    for ours in metadata.distributions():
        name = ours.metadata["Name"] or ""
        for text in (ours.requires or ()) if name.replace("_", "-").startswith("brain-") or name == "brain" else ():
            try:
                wanted = Requirement(text)
                if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                    continue
                has = metadata.version(wanted.name)
            except metadata.PackageNotFoundError:
                yield f"{name} needs {wanted.name}, which is not installed"
            except InvalidRequirement:
                continue
            else:
                if not wanted.specifier.contains(has, prereleases=True):
                    yield f"{name} needs {wanted.name} {wanted.specifier}, and {has} is installed"


def _answers(endpoint: str) -> bool:
    """Checks whether anything listens at an endpoint of this machine."""
    from brain_wire.connect_errors import address

    _, host, port = address(endpoint)
    if host not in LOCAL or not port:
        return False
    try:
        with socket.create_connection((host, int(port)), timeout=0.5):
            return True
    except OSError:
        return False


def _synchronised() -> bool | None:
    try:
        libc = ctypes.CDLL(None)
        state = libc.adjtimex(ctypes.create_string_buffer(512))     # asks, and changes nothing: its modes are 0
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != UNSYNCHRONISED


def products() -> float:
    """Multiply-accumulates a second of a matrix product of the sizes that vision has, the quickest of some."""
    import numpy as np

    one, other = np.ones((384, 1440), np.float32), np.ones((1440, 96), np.float32)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        np.dot(one, other)
        took.append(time.perf_counter() - began)
    return one.size * other.shape[1] / min(took)


def offset() -> float:
    """By how much the clock is ahead of the steady one (s)."""
    return time.time() - time.monotonic()
