# SPDX-License-Identifier: Apache-2.0
"""Drivers that are well, and drivers that die, hang and lie: what their manager has to live with."""
import mmap
import os
import threading

from brain_edge.devices.driver import Driver, Sample, Unreachable


class Well(Driver):
    """Counts its own readings, and keeps what is written to it."""

    def open(self, tell):
        self.kept = {}

    def read(self, visitor):
        return self.kept.get(str(visitor), visitor.get("is", os.getpid()))

    def write(self, visitor, value):
        if visitor.get("stubborn"):
            return
        self.kept[str(visitor)] = value


class Dies(Well):
    """Ends its process at the third reading."""

    readings = 0

    def read(self, visitor):
        self.readings += 1
        if self.readings > 2:
            print("goodbye", flush=True)
            os._exit(7)
        return 1.0


class Hangs(Well):
    """Never comes back from the second reading."""

    readings = 0

    def read(self, visitor):
        self.readings += 1
        if self.readings > 1:
            threading.Event().wait()
        return 2.0


class Says(Well):
    """Reads what its visitor says, whatever that is."""

    def read(self, visitor):
        return {"nan": float("nan"), "infinite": float("inf"), "list": [1.0], "none": None, "text": "2.5 or so",
                "huge": "x" * 10**7, "whole": 10**400, "flag": True, "high": 101.0, "good": 50.0,
                "unit": Sample(50.0, unit="degF"), "kept": Sample(50.0, kept=True)}[visitor["what"]]


class Raises(Well):
    """Cannot read one of its properties."""

    def read(self, visitor):
        raise ZeroDivisionError("by\nnothing \udc80")


class Away(Well):
    """Is never reached."""

    def open(self, tell):
        raise Unreachable("nobody is at home")


class Floods(Well):
    """Says more than anybody can hear, past the base that would hold it back."""

    def read(self, visitor):
        for descriptor in range(3, 20):     # the socket to who keeps it is one of them
            try:
                while True:
                    os.write(descriptor, b'{"progress":1}\n' * 1000)
            except OSError:
                continue
        return 0.0


class Garbles(Well):
    """Says one line that is far too long."""

    def read(self, visitor):
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b"x" * 300_000)
            except OSError:
                continue
        return 0.0


class Eats(Well):
    """Takes all the memory that it gets."""

    def read(self, visitor):
        eaten = []
        try:
            while True:
                eaten.append(mmap.mmap(-1, 2**26, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:     # not MemoryError: it is asked of the kernel itself
            os._exit(9)
