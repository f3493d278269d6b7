# SPDX-License-Identifier: Apache-2.0
"""CDR: functions that turn messages of one type into bytes and back, written for that type and compiled.

A codec such as rosbags' calls a function for every nested message, and reads one number at a time. Between two
processes each call costs microseconds, since the processor's caches are cold by then, so here a type becomes one
function in which neighboring numbers are read and written together.
The layout is that of XCDR1 (OMG formal/02-06-51): each number is aligned to its size, counted from behind the four
bytes of encapsulation; texts and sequences begin with their length.
"""
from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any, Callable, Literal

import numpy as np

from brain_wire.arrays import flat
from brain_wire.definitions import TEXTS, Fields, Nodetype

ENCAPSULATION = 4       # bytes in front of the message: two for the kind of CDR, two for options
FORMATS = {"bool": "?", "byte": "b", "char": "B", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
           "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f", "float64": "d"}
ZEROS = tuple(bytes(n) for n in range(8))

Lookup = Callable[[str], tuple[type, Fields]]
"""From the name of a type to its class and its fields."""
FieldsOf = Callable[[str], Fields]
"""From the name of a type to its fields."""


class _Code(ABC):
    """A function under construction.

    Attributes:
        names: what it uses.
        modulus, rest: what is known of the place in the message at this point: place % modulus == rest.
    """

    def __init__(self, order: Literal["<", ">"]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.modulus, self.rest = 8, 0
        self.order = order      # "<" or ">"
        self._indent = 1
        self._numbers = 0
        self._run: list[tuple[str, str]] = []   # struct format and what it stands for, not yet written as a line

    def name(self, prefix: str = "v") -> str:
        """A name that nothing else has."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def constant(self, value: Any, prefix: str = "k") -> str:
        """The name under which the function finds ``value``."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.name(prefix)
        self.names[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    def number(self, kind: str, what: str) -> None:
        """The next number of the message, of the type ``kind``: kept back, to be read or written with its neighbors."""
        self.align(struct.calcsize("=" + FORMATS[kind]))
        self.skip(struct.calcsize("=" + FORMATS[kind]))
        self._run.append((FORMATS[kind], what))

    def filler(self, count: int) -> None:
        """``count`` bytes of zero."""
        if count:
            self._run.append((f"{count}x", ""))
            self.skip(count)

    def align(self, size: int) -> None:
        """Goes on to the next multiple of ``size``."""
        if size <= self.modulus:
            self.filler(-self.rest % size)
        else:
            self.flush()
            self.pad(size)
            self.place(size)

    def skip(self, count: int) -> None:
        self.rest = (self.rest + count) % self.modulus

    def place(self, modulus: int) -> None:
        """Sets what is known of the place: that it is a multiple of ``modulus``."""
        self.modulus, self.rest = modulus, 0

    def flush(self) -> None:
        """Writes the line for the numbers that were kept back."""
        if self._run:
            form = self.order + "".join(f for f, _ in self._run)
            self.together(struct.Struct(form), [what for _, what in self._run if what])
            self._run.clear()

    @abstractmethod
    def pad(self, size: int) -> None:
        """Writes what goes on to the next multiple of ``size`` from a place that is not known."""

    @abstractmethod
    def together(self, layout: struct.Struct, what: list[str]) -> None:
        """Writes the line for some numbers with nothing between them."""

    def loop(self, head: str, body: Callable[[], Any], modulus: int) -> None:
        """A loop over elements, of which ``body`` writes one whole, so that nothing is kept back.

        Where each ends as it began, as far as places go, its numbers can stay together.
        """
        for known in dict.fromkeys((modulus, 1)):
            saved = len(self.lines), self._numbers
            self.place(known)
            self.line(head)
            self._indent += 1
            body()
            self._indent -= 1
            if self.modulus % known == 0 and self.rest % known == 0:
                break
            del self.lines[saved[0]:]
        self.place(known)

    def function(self, arguments: str) -> Callable:
        """The compiled function."""
        source = "\n".join([f"def run({arguments}):", *self.lines])
        scope = dict(self.names)
        exec(compile(source, "<cdr>", "exec"), scope)  # of our own lines only; names of fields are identifiers
        return scope["run"]


class _Reader(_Code):
    """Writes a decoder: ``o`` is the place in ``data``, which ends at ``size``."""

    def __init__(self, order: Literal["<", ">"], base: int, view: bool) -> None:
        super().__init__(order)
        self.base = base        # where in data the message begins
        self.view = view        # data is a memoryview, and no bytes

    def pad(self, size: int) -> None:
        # the next o for which o - base is a multiple
        self.line(f"o = (o + {(size - 1 - self.base) % size}) // {size} * {size} + {self.base % size}"
                  if self.base % size else f"o = (o + {size - 1}) & -{size}")

    def together(self, layout: struct.Struct, what: list[str]) -> None:
        if what:
            self.line(f"{', '.join(what)}, = {self.constant(layout.unpack_from, 'unpack')}(data, o)")
        self.line(f"o += {layout.size}")

    def count(self, bound: int) -> str:
        """Reads a length."""
        n = self.name("n")
        self.number("uint32", n)
        self.flush()
        if bound:
            self.line(f"if {n} > {bound}: raise ValueError(f'{{{n}}} elements, but at most {bound} are allowed')")
        return n

    def text(self, bound: int) -> str:
        n = self.name("n")
        self.number("uint32", n)
        self.flush()
        s = self.name("s")
        self.line(f"e = o + {n}")
        self.line(f"if not {n} or e > size or data[e - 1]: raise ValueError('a text without an end')")
        if bound:
            self.line(f"if {n} > {bound + 1}: raise ValueError(f'{{{n} - 1}} bytes of text, but at most {bound} are "
                      "allowed')")
        self.line(f"{s} = str(data[o:e - 1], 'utf-8')" if self.view else f"{s} = data[o:e - 1].decode()")
        self.line("o = e")
        self.place(1)
        return s

    def wide_text(self, bound: int) -> str:
        """Reads a text of UTF-16: its length, then each unit as a number of its own, without an end."""
        units = self.numbers("uint32", self.count(bound))
        self.place(4)
        return f"{self.constant(_text_of)}({units})"

    def numbers(self, kind: str, n: str) -> str:
        """Reads an array of ``n`` numbers."""
        dtype = np.dtype(FORMATS[kind]).newbyteorder(self.order)
        v = self.name()
        self.line(f"e = o + {n} * {dtype.itemsize}")
        self.line("if e > size: raise ValueError('an array without an end')")
        native = "" if dtype.isnative else f".astype({self.constant(dtype.newbyteorder('='))})"
        self.line(f"{v} = {self.constant(np.frombuffer)}(data, {self.constant(dtype)}, {n}, o){native}")
        self.line("o = e")
        return v

    def value(self, definition: tuple, lookup: Lookup) -> str:
        """Reads one field; returns the expression that is its value."""
        kind, detail = definition
        if kind == Nodetype.BASE:
            base, bound = detail
            if base in TEXTS:
                return self.text(bound) if base == "string" else self.wide_text(bound)
            v = self.name()
            self.number(base, v)
            return v
        if kind == Nodetype.NAME:
            cls, fields = lookup(detail)
            return f"{self.constant(cls, 'C')}({', '.join([self.value(d, lookup) for _, d in fields])})"
        element, count = detail
        is_number = element[0] == Nodetype.BASE and element[1][0] not in TEXTS
        width = struct.calcsize("=" + FORMATS[element[1][0]]) if is_number else 0
        if kind == Nodetype.ARRAY:
            n, first = str(count), 1
            if is_number:
                self.align(width)
            self.flush()
        else:
            n, first = self.count(count), 4
            if width > 4:
                self.line(f"if {n}:")
                self._indent += 1
                self.pad(width)
                self._indent -= 1
        if is_number:
            v = self.numbers(element[1][0], n)
            self.place(min(width, first) if kind == Nodetype.SEQUENCE else width)
            return v
        v = self.name()
        self.line(f"if {n} > size - o: raise ValueError('a sequence without an end')")
        self.line(f"{v} = []")
        self.loop(f"for _ in range({n}):", lambda: self._append(v, element, lookup), first)
        return v

    def _append(self, v: str, element: tuple, lookup: Lookup) -> None:
        item = self.value(element, lookup)
        self.flush()
        self.line(f"{v}.append({item})")


class _Writer(_Code):
    """Writes an encoder: ``out`` holds the parts, ``p`` is the place in the message."""

    def __init__(self) -> None:
        super().__init__("<")
        self.padded = False     # whether the place must be known at run time
        self._run.append(("4s", self.constant(bytes((0, 1, 0, 0)))))
        self._parts: list[str] = []     # expressions, not yet written as a line
        self._sizes: list[str] = []     # expressions: bytes of what may be large

    def part(self, expression: str) -> None:
        self._parts.append(expression)

    def finish(self) -> None:
        """Writes the end."""
        self.flush()
        share = f"if share and {' + '.join(self._sizes)} >= least: return share" if self._sizes else ""
        if not any(line.lstrip().startswith("out") for line in self.lines):
            parts = ", ".join(self._parts)
            if share:
                self.line(f"{share}(({parts}))")
            self.line(f"return {parts}" if len(self._parts) == 1 else f"return join(({parts}))")
            return
        self.lines.insert(0, "    out = []")
        self.put()
        if share:
            self.line(f"{share}(out)")
        self.line("return join(out)")

    def may_be_large(self, size: str) -> None:
        """Notes the expression ``size``, unless it is one of many in a loop."""
        if self._indent == 1:
            self._sizes.append(size)

    def put(self) -> None:
        """Writes the line for the parts that were kept back."""
        if self._parts:
            self.line(f"out += ({', '.join(self._parts)},)")
            self._parts.clear()

    def pad(self, size: int) -> None:
        self.put()
        self.padded = True
        self.line(f"k = -p & {size - 1}; p += k; out += (ZEROS[k],)")

    def together(self, layout: struct.Struct, what: list[str]) -> None:
        self.part(f"{self.constant(layout.pack, 'pack')}({', '.join(what)})" if what else self.constant(layout.pack()))
        self.line(f"p += {layout.size}")

    def text(self, value: str, bound: int) -> None:
        s = self.name("s")
        self.line(f"{s} = {value}.encode()")
        if bound:
            self.line(f"if len({s}) > {bound}: "
                      f"raise ValueError(f'{{len({s})}} bytes of text, but at most {bound} fit')")
        self.number("uint32", f"len({s}) + 1")
        self.flush()
        self.part(s)
        self.line(f"p += len({s})")
        self.may_be_large(f"len({s})")
        self.place(1)
        self.filler(1)  # ends the text

    def wide_text(self, value: str, bound: int) -> None:
        u = self.name("u")
        self.line(f"{u} = {self.constant(_units_of)}({value})")
        if bound:
            self.line(f"if len({u}) > {bound}: "
                      f"raise ValueError(f'{{len({u})}} units of text, but at most {bound} fit')")
        self.number("uint32", f"len({u})")
        self.flush()
        self.part(u)
        self.line(f"p += {u}.nbytes")
        self.place(4)

    def write(self, value: str, definition: tuple, fields_of: FieldsOf) -> None:
        """Writes the field that the expression ``value`` gives."""
        kind, detail = definition
        if kind == Nodetype.BASE:
            base, bound = detail
            if base in TEXTS:
                (self.text if base == "string" else self.wide_text)(value, bound)
            else:
                self.number(base, value)
            return
        if kind == Nodetype.NAME:
            m = self.name("m")
            self.line(f"{m} = {value}")
            for field, d in fields_of(detail):
                self.write(f"{m}.{field}", d, fields_of)
            return
        element, count = detail
        is_number = element[0] == Nodetype.BASE and element[1][0] not in TEXTS
        v = self.name()
        if is_number:
            dtype = np.dtype(FORMATS[element[1][0]]).newbyteorder("<")
            self.line(f"{v} = flat({value}, {self.constant(dtype)})")
        else:
            self.line(f"{v} = {value}")
        if kind == Nodetype.ARRAY:
            first = 1
            self.line(f"if len({v}) != {count}: raise ValueError(f'{{len({v})}} elements, but there must be {count}')")
            if is_number:
                self.align(dtype.itemsize)
        else:
            first = 4
            if count:
                self.line(f"if len({v}) > {count}: raise ValueError(f'{{len({v})}} elements, but at most {count} fit')")
            self.number("uint32", f"len({v})")
        self.flush()
        if is_number:
            if kind == Nodetype.SEQUENCE and dtype.itemsize > 4:
                self.put()
                self.line(f"if len({v}):")
                self._indent += 1
                self.pad(dtype.itemsize)
                self._indent -= 1
            self.part(v)
            self.line(f"p += {v}.nbytes")
            self.may_be_large(f"{v}.nbytes")
            self.place(min(dtype.itemsize, first) if kind == Nodetype.SEQUENCE else dtype.itemsize)
            return
        self.put()
        i = self.name("i")
        self.loop(f"for {i} in {v}:", lambda: self._write_one(i, element, fields_of), first)

    def _write_one(self, value: str, element: tuple, fields_of: FieldsOf) -> None:
        self.write(value, element, fields_of)
        self.flush()
        self.put()


def _text_of(units: np.ndarray) -> str:
    """Makes text of units of UTF-16, one to a uint32 as ROS 2's middlewares send them."""
    if units.max(initial=0) > 0xffff:
        raise ValueError(f"{units.max():#x} is no unit of UTF-16")
    return units.astype("<u2").tobytes().decode("utf-16-le")


def _units_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-16-le"), "<u2").astype("<u4")


def encoder(fields: Fields, fields_of: FieldsOf) -> Callable[..., Any]:
    """Compiles the function that encodes messages with these fields: little endian, encapsulation in front.

    It takes the message, and may be given ``share`` and ``least``: a message with at least so many bytes of text and
    numbers is not joined here, but what ``share`` makes of its parts (bytes and arrays) is returned.

    The function raises whatever it meets in a message that does not fit: struct.error, ValueError, AttributeError, ...
    """
    code = _Writer()
    code.names |= {"flat": flat, "ZEROS": ZEROS, "join": b"".join}
    code.line(f"p = {-ENCAPSULATION}")
    for field, definition in fields:
        code.write(f"m.{field}", definition, fields_of)
    code.finish()
    if not code.padded:
        code.lines = [line for line in code.lines if not line.lstrip().startswith("p ")]
    return code.function("m, share=None, least=0")


def decoder(cls: type, fields: Fields, lookup: Lookup, order: Literal["<", ">"], view: bool = False
            ) -> Callable[[bytes | memoryview], tuple[Any, int]]:
    """Compiles the function that decodes messages with these fields from bytes in the byte order ``order``.

    The encapsulation is in front of the bytes. With ``view`` they come as a memoryview of bytes.

    The function returns the message and where it ended. It raises whatever it meets in bytes that are not such a
    message: struct.error, ValueError, UnicodeDecodeError, ... Arrays share memory with the bytes where they lie
    aligned.
    """
    wide = _has_wide_arrays(fields, lookup)
    code = _Reader(order, 0 if wide else ENCAPSULATION, view and not wide)
    if wide:  # so that arrays of 8-byte numbers are aligned in memory too
        code.line(f"data = bytes(data[{ENCAPSULATION}:])")
    code.line("size = len(data)")
    code.line(f"o = {code.base}")
    values = [code.value(definition, lookup) for _, definition in fields]
    code.flush()
    # Without __init__, since the call of a function of Python from C costs more than what it would do.
    code.line(f"m = {code.constant(object.__new__, 'new')}({code.constant(cls, 'C')})")
    for (field, _), value in zip(fields, values):
        code.line(f"m.{field} = {value}")
    code.line(f"return m, o + {ENCAPSULATION - code.base}")
    return code.function("data")


def _has_wide_arrays(fields: Fields, lookup: Lookup) -> bool:
    for _, (kind, detail) in fields:
        if kind == Nodetype.NAME:
            if _has_wide_arrays(lookup(detail)[1], lookup):
                return True
        elif kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            element = detail[0]
            if element[0] == Nodetype.NAME:
                if _has_wide_arrays(lookup(element[1])[1], lookup):
                    return True
            elif element[1][0] in ("int64", "uint64", "float64"):
                return True
    return False
