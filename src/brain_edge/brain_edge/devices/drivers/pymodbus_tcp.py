# SPDX-License-Identifier: Apache-2.0
"""Modbus TCP, by pymodbus: coils, discrete inputs, holding and input registers."""
from __future__ import annotations

from typing import Any, ClassVar, Mapping

from brain_edge.devices.driver import TEXT, WHOLE, Driver, Teller, Unreachable, form

TYPES = {"int16": 1, "uint16": 1, "int32": 2, "uint32": 2, "int64": 4, "uint64": 4, "float32": 2, "float64": 4}
BITS = ("coil", "discrete")     # of one bit; the others are registers of 16
READS = {"coil": "read_coils", "discrete": "read_discrete_inputs", "holding": "read_holding_registers",
         "input": "read_input_registers"}
# What a device answers instead of a value, as the protocol numbers it.
EXCEPTIONS = {1: "it does not know such requests (illegal function)", 2: "it has no such register (illegal address)",
              3: "it does not take such a value (illegal value)", 4: "it failed at it", 6: "it is busy",
              10: "the gateway has no path to it", 11: "the gateway gets no answer of it"}
MISSING = "Modbus needs pymodbus, which is not installed: pip install 'pymodbus>=3.16.1,<4'"


class Modbus(Driver):
    """A device that answers Modbus over TCP."""

    settings_form = form("port", "unit", "timeout", host=TEXT, port={"type": "integer", "minimum": 1, "maximum": 65535},
                         unit={"type": "integer", "minimum": 0, "maximum": 255},
                         timeout={"type": "number", "minimum": 0.1, "maximum": 60})
    visitor_form = form("type", "words", "bytes", "bit", register={"enum": list(READS)},
                        address={**WHOLE, "minimum": 0, "maximum": 65535}, type={"enum": list(TYPES)},
                        words={"enum": ["big", "little"]},
                        bytes={"enum": ["big", "little"]}, bit={**WHOLE, "minimum": 0, "maximum": 15})
    polls: ClassVar[bool] = True
    _client: Any = None

    @classmethod
    def check(cls, visitor: Mapping[str, Any], writable: bool) -> None:
        """See the base."""
        register = visitor["register"]
        if register in BITS and visitor.keys() & {"type", "words", "bytes", "bit"}:
            raise ValueError(f"a {register} is one bit, which has neither type nor words, bytes or bit")
        if "bit" in visitor and visitor.get("type", "uint16") not in ("int16", "uint16"):
            raise ValueError("a bit is one of a single register, so the type is uint16")
        if writable and (register in ("discrete", "input") or "bit" in visitor):
            what = "a bit of a register" if "bit" in visitor else f"register {register}"
            raise ValueError(f"{what} can only be read, and the model says ReadWrite; take a coil or holding register")
        if visitor["address"] + TYPES[visitor.get("type", "uint16")] > 65536:
            raise ValueError("it goes beyond the last address, 65535")

    def open(self, tell: Teller) -> None:
        """See the base."""
        try:
            from pymodbus.client import ModbusTcpClient
        except ImportError as error:
            raise Unreachable(MISSING) from error
        host, port = self.settings["host"], self.settings.get("port", 502)
        self._client = ModbusTcpClient(host, port=port, timeout=self.settings.get("timeout", 2.0), retries=0,
                                       reconnect_delay=0)
        if not self._client.connect():
            raise Unreachable(f"nobody answers Modbus at {host}, port {port}")

    def read(self, visitor: Mapping[str, Any]) -> Any:
        """See the base."""
        register, kind = visitor["register"], visitor.get("type", "uint16")
        count = 1 if register in BITS else TYPES[kind]
        answer = self._ask(READS[register], visitor["address"], count=count)
        if register in BITS:
            if len(answer.bits) < 1:
                raise ValueError("it answers with no bit")
            return bool(answer.bits[0])
        if len(answer.registers) != count:
            raise ValueError(f"it answers with {len(answer.registers)} registers, not {count}")
        registers = _swapped(answer.registers, visitor)
        if "bit" in visitor:
            return bool(registers[0] >> visitor["bit"] & 1)
        return self._client.convert_from_registers(registers, self._type(kind), visitor.get("words", "big"))

    def write(self, visitor: Mapping[str, Any], value: Any) -> None:
        """See the base."""
        if visitor["register"] == "coil":
            if not isinstance(value, bool):
                raise ValueError("a coil is either on or off; its property is a boolean")
            self._ask("write_coil", visitor["address"], value)
            return
        kind = visitor.get("type", "uint16")
        if isinstance(value, str):
            raise ValueError(f"a string does not go into a {kind}")
        if kind.startswith("float"):
            value = float(value)
        else:
            value = round(value)
            bits, signed = 16 * TYPES[kind], not kind.startswith("u")
            low, high = (-2**(bits - 1), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
            if not low <= value <= high:
                raise ValueError(f"{value} does not go into a {kind}, which holds {low} to {high}")
        registers = _swapped(self._client.convert_to_registers(value, self._type(kind), visitor.get("words", "big")),
                             visitor)
        if len(registers) == 1:     # which every device knows
            self._ask("write_register", visitor["address"], registers[0])
        else:
            self._ask("write_registers", visitor["address"], registers)

    def close(self) -> None:
        """See the base."""
        if self._client is not None:
            self._client.close()

    def _type(self, kind: str) -> Any:
        return getattr(self._client.DATATYPE, kind.upper())

    def _ask(self, what: str, *words: Any, **more: Any) -> Any:
        from pymodbus.exceptions import ModbusException

        try:
            answer = getattr(self._client, what)(*words, device_id=self.settings.get("unit", 1), **more)
        except ModbusException as error:
            text = str(error).partition("] ")[2] or str(error)
            raise Unreachable(f"it does not answer as Modbus has it ({text[:150]})") from error
        if answer.isError():
            code = getattr(answer, "exception_code", 0)
            raise ValueError(EXCEPTIONS.get(code, f"it answers with the exception {code}"))
        return answer


def _swapped(registers: list[int], visitor: Mapping[str, Any]) -> list[int]:
    """Registers of a device that has the low byte of each first."""
    return [(one & 255) << 8 | one >> 8 for one in registers] if visitor.get("bytes") == "little" else registers
