# SPDX-License-Identifier: Apache-2.0
"""Light processes for ``brain bench scale``: each a ROS 2 node with one publisher and one subscription, and no torch.

``python -m experiments.scale_nodes`` has the orders of all nodes as its first order, forks a process for each once
everything is imported, so that many share their memory, and passes on one order to all of them at a time: ``declare``,
``run``. What they answer is one answer.
"""
from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from typing import Any, Callable

from brain_runtime.run.end_with_parent import die_with
from brain_wire import Node, messages, open_session
from brain_wire.qos import QoS
from experiments.costs import Scheduled
from experiments.orders import Orders

TYPE = "std_msgs/msg/String"
QUALITY = QoS(reliable=True, latched=False, depth=10)
SIZE = 200          # characters of a message
READY = 300.0       # s for a node to find its router, and for its publisher to be heard
LAST = 1.0          # s after the last message in which it may still come
TURN = 0.6180339887498949   # of a period; nodes that begin so much apart never crowd


class LightNode:
    """One node: publishes a topic of its own, and hears that of another.

    Args:
        order: ``endpoint`` of its router, ``domain``, ``number``, ``hears`` (another's number), ``rate`` (Hz).
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._session = open_session(order["endpoint"], patience=READY, stop=threading.Event())
        self._node = Node(self._session, f"n{order['number']}", "/scale", order["domain"])

    def declare(self) -> dict[str, Any]:
        """Declares publisher and subscription; how long until somebody hears the publisher (s)."""
        begin = time.monotonic()
        self._publisher = self._node.publisher(f"t{self._order['number']}", TYPE, QUALITY)
        self._heard = self._node.subscription(f"t{self._order['hears']}", TYPE, QUALITY, hops=True,
                                              at_once=lambda payload, received: True)
        while not self._publisher.heard:
            if time.monotonic() - begin > READY:
                raise TimeoutError(f"nobody hears node {self._order['number']}")
            time.sleep(0.005)
        return {"found": time.monotonic() - begin}

    def run(self, seconds: float) -> dict[str, Any]:
        """Publishes for so long; what was sent and heard (latencies in ns), and how it got a core (s)."""
        cdr = bytes(messages.encode(messages.make(TYPE, data="x" * SIZE)))
        period = 1.0 / self._order["rate"]
        count = round(seconds / period)
        before = Scheduled(os.getpid())
        begin = time.monotonic() + period * (self._order["number"] * TURN % 1.0)
        for number in range(count):
            time.sleep(max(0.0, begin + number * period - time.monotonic()))
            self._publisher.publish_bytes(cdr)
        late = time.monotonic() - (begin + (count - 1) * period)
        time.sleep(LAST)
        ran, waited = Scheduled(os.getpid()).since(before)
        hops = self._heard.hops
        assert hops is not None
        passages = hops.passages(time.monotonic())
        hop = None if len(passages) != 1 else hops.of(passages[0].gid)
        return {"sent": count, "heard": passages[0].messages if hop else 0, "publishers": len(passages), "late": late,
                "overwritten": passages[0].overwritten if hop else 0, "ns": hop.latest() if hop else [],
                "ran": ran, "waited": waited}

    def close(self) -> None:
        """Leaves."""
        self._node.close()
        self._session.close()


def _live(make: Callable[[dict[str, Any]], Any], order: dict[str, Any], orders: Any, parent: int, given: Orders
          ) -> None:
    """Runs the node that ``make`` makes, in each forked process."""
    die_with(parent)
    given.close()       # its connection is none of the node's
    try:
        node = make(order)
        try:
            orders.send({"ready": True})
            while (word := orders.recv())["do"] != "end":
                orders.send(node.declare() if word["do"] == "declare" else node.run(word["seconds"]))
        finally:
            node.close()
    except EOFError:
        return  # who gave the orders has gone
    except Exception as error:  # whatever it is, who gave the orders is told
        traceback.print_exc()
        orders.send({"error": f"{type(error).__name__}: {error}"})


def main(make: Callable[[dict[str, Any]], Any] = LightNode) -> None:
    """Runs until there are no more orders.

    Args:
        make: what makes a node of an order: :class:`LightNode`, or what has the same methods.
    """
    fork = multiprocessing.get_context("fork")
    messages.encode(messages.make(TYPE, data=""))   # made ready once, for all
    given = Orders()
    orders = iter(given)
    pipes, processes = [], []
    for order in next(orders, ()):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_live, args=(make, order, theirs, os.getpid(), given))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        _answer(given, pipes)
        for word in orders:
            for pipe in pipes:
                pipe.send(word)
            _answer(given, pipes)
        for pipe in pipes:
            pipe.send({"do": "end"})
    except BrokenPipeError:
        print("a node has ended", file=sys.stderr)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(10.0)
            if process.is_alive():
                process.kill()
                process.join()


def _answer(given: Orders, pipes: list[Any]) -> None:
    try:
        answers = [pipe.recv() for pipe in pipes]
    except EOFError:
        answers = [{"error": "a node ended without a word"}]
    given.tell(**next((one for one in answers if "error" in one), {"nodes": answers}))


if __name__ == "__main__":
    main()
