# SPDX-License-Identifier: Apache-2.0
"""A Modbus device: ``modbus_server.py PORT``; each line of standard input is a change: ``holding 3 250``.

pymodbus's own server. What was written to it is printed.
"""
import asyncio
import sys
import threading

from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

BLOCKS = ("coil", "discrete", "holding", "input")


async def main() -> None:
    values = {"coil": {0: 0}, "discrete": {0: 1}, "holding": {0: 215, 1: 0, 2: 0, 3: 0},
              "input": {0: 65526, 1: 0, 2: 0, 3: 5}}
    speaks = threading.Event()
    speaks.set()
    writes = {5: "coil", 15: "coil", 6: "holding", 16: "holding"}
    reads = {1: "coil", 2: "discrete", 3: "holding", 4: "input"}

    async def act(function, start, address, count, registers, written):
        await asyncio.to_thread(speaks.wait)
        if written is not None:
            block = writes[function]
            for number, value in enumerate(written):
                values[block][address + number] = int(value)
            print("written", block, address, *map(int, written), flush=True)
            return None
        block = reads.get(function) or writes[function]     # what was written is read back by itself
        for place in range(len(registers)):
            if start + place in values[block]:
                registers[place] = values[block][start + place]
        return None

    bits = [SimData(0, count=16, values=False, datatype=DataType.BITS)]
    words = [SimData(0, count=4, values=0, datatype=DataType.REGISTERS)]
    device = SimDevice(id=1, simdata=(bits, bits, words, words), action=act)
    server = ModbusTcpServer(device, address=("127.0.0.1", int(sys.argv[1])))

    def listen() -> None:
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "silent":
                speaks.clear()
            elif word == "speak":
                speaks.set()
            else:
                values[word][int(rest[0])] = int(rest[1])
            print("changed", *line.split(), flush=True)

    threading.Thread(target=listen, daemon=True).start()
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
