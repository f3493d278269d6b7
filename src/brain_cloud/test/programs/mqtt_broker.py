# SPDX-License-Identifier: Apache-2.0
"""A broker for tests where none is installed: ``mqtt_broker.py PORT``. MQTT 3.1.1: exact topics, QoS 0 and 1, retained.

paho-mqtt has no server, and a whole broker in Python wants other versions of what this project needs. Where mosquitto
is installed the tests run with that instead.
"""
import asyncio
import struct
import sys

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14
listeners: dict[str, set[asyncio.StreamWriter]] = {}
retained: dict[str, bytes] = {}


def packet(kind: int, flags: int, body: bytes) -> bytes:
    size, left = b"", len(body)
    while True:
        left, digit = left >> 7, left & 0x7F
        size += bytes([digit | (0x80 if left else 0)])
        if not left:
            return bytes([kind << 4 | flags]) + size + body


def text(body: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("!H", body, at)
    return body[at + 2:at + 2 + size].decode(), at + 2 + size


async def read(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    (first,) = await reader.readexactly(1)
    size = shift = 0
    while True:
        (digit,) = await reader.readexactly(1)
        size |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return first >> 4, first & 0xF, await reader.readexactly(size)


def said(topic: str, payload: bytes, keep: bool) -> bytes:
    return packet(PUBLISH, int(keep), struct.pack("!H", len(topic.encode())) + topic.encode() + payload)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            kind, flags, body = await read(reader)
            if kind == CONNECT:
                writer.write(packet(CONNACK, 0, b"\0\0"))
            elif kind == SUBSCRIBE:
                at, granted, kept = 2, b"", []
                while at < len(body):
                    topic, at = text(body, at)
                    at += 1
                    granted += b"\0"
                    listeners.setdefault(topic, set()).add(writer)
                    kept += [said(topic, retained[topic], True)] if topic in retained else []
                writer.write(packet(SUBACK, 0, body[:2] + granted) + b"".join(kept))
            elif kind == PUBLISH:
                topic, at = text(body, 0)
                if flags & 6:
                    writer.write(packet(PUBACK, 0, body[at:at + 2]))
                    at += 2
                if flags & 1:
                    retained[topic] = body[at:]
                for other in listeners.get(topic, ()):
                    other.write(said(topic, body[at:], False))
            elif kind == PINGREQ:
                writer.write(packet(PINGRESP, 0, b""))
            elif kind == DISCONNECT:
                return
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        for others in listeners.values():
            others.discard(writer)
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
