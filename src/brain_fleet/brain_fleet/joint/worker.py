# SPDX-License-Identifier: Apache-2.0
"""The process that answers for the cloud, ``python -m brain_fleet.joint.worker``: one region, asked over pipes.

The region hears questions on its one triggered input and answers on its first output, both as they are on the wire
(CDR), in frames (:mod:`.piped`); an empty one is no answer. The first frame out says whether it can be asked (JSON:
``ready``, or ``problem``). It ends when its input does.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from typing import IO, Any, Sequence

from brain_fleet.joint.piped import read, write
from brain_runtime.command.lacking import lacks
from brain_runtime.contract.declared import DeclaredError, named
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages, safe_text
from brain_wire.messages import MessageError


def main(argv: Sequence[str] | None = None) -> int:
    """Answers until the input ends; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain_fleet.joint.worker", description=__doc__.split("\n")[0])
    parser.add_argument("--class", dest="cls", required=True)
    parser.add_argument("--weights", required=True)
    options = parser.parse_args(argv)
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s second: %(message)s")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)       # whatever a library prints is no frame
    try:
        return _answer(options.cls, options.weights, out)
    except BrokenPipeError:     # who asked has died meanwhile
        os._exit(0)             # the interpreter would write what is left to the same pipe


def _answer(named_class: str, weights: str, out: IO[bytes]) -> int:
    try:
        cls = named(named_class, "the cloud")
        asked = next(port for port in cls.inputs().values() if port.trigger)
        said = next(iter(cls.outputs().values()))
        logging.disable()       # what is wrong is told in the first frame
        host = LocalHost({"second": cls("second")}, parameters={"second": {"weights": weights}})
        logging.disable(logging.NOTSET)
    except ModuleNotFoundError as missing:
        return _cannot(out, f"what answers hard pictures needs another package: {lacks(str(missing.name))}")
    except (DeclaredError, RuntimeError, ValueError) as problem:
        return _cannot(out, str(problem))
    answers: list[Any] = []
    host.listen(said.topic, answers.append)
    write(out, json.dumps({"ready": True}).encode())
    while (question := read(sys.stdin.buffer)) is not None:
        answers.clear()
        try:
            message = messages.decode(question, asked.type)
        except MessageError:
            write(out, b"")     # whoever asks what is no question is told nothing
            continue
        host.publish(asked.topic, message, latch=False)
        write(out, messages.encode(answers[0]) if answers else b"")
    return 0


def _cannot(out: IO[bytes], why: str) -> int:
    write(out, json.dumps({"problem": " ".join(why.split())[:1000]}).encode())
    return 1


if __name__ == "__main__":
    sys.exit(main())
