# SPDX-License-Identifier: Apache-2.0
"""Twice what it hears, with eclipse-zenoh and nothing else: ``python doubler_zenoh.py ENDPOINT``."""
import json
import signal
import struct
import sys
import threading

import zenoh


def main(endpoint):
    """Runs until SIGINT or SIGTERM."""
    stop, config = threading.Event(), zenoh.Config()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    config.insert_json5("mode", json.dumps("client"))
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    with zenoh.open(config) as session:
        doubled = session.declare_publisher("bench/doubled")

        def step(sample):
            doubled.put(struct.pack("<f", 2.0 * struct.unpack("<f", sample.payload.to_bytes())[0]))
        session.declare_subscriber("bench/number", step)
        stop.wait()


if __name__ == "__main__":
    main(sys.argv[1])
