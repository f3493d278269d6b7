# SPDX-License-Identifier: Apache-2.0
"""Regions on ZenohHost that are peers: linked with each other, and no router anywhere.

ZenohHost takes its session's settings from the environment, so nothing of it is changed: ``ZENOH_CONFIG_OVERRIDE``
makes each process a peer that listens at a port of its own and is linked with those before it.
"""
from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any, Iterator, Mapping

from brain_runtime.run import end_with_parent
from brain_runtime.run.loop import ONE_THREAD
from brain_wire import Node, open_session
from brain_wire.router import free_port
from brain_wire.session import CHECK_VARIABLE, OVERRIDE_VARIABLE
from brain_wire.shared_memory import ENABLED, SETTINGS

UNSHARED = {**SETTINGS, ENABLED: False}


def settings(listen: str, connect: list[str], shared: bool) -> dict[str, Any]:
    """Zenoh's settings of a peer, by key."""
    return {"mode": "peer", "listen/endpoints": [listen], "connect/endpoints": connect, "connect/timeout_ms": -1,
            "connect/exit_on_failure": False, ENABLED: shared}


@contextlib.contextmanager
def beside(*command: str, environment: Mapping[str, str] = {}) -> Iterator[subprocess.Popen]:
    """A command of Python as a process beside this one, which ends with it."""
    argv = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), sys.executable, "-m", *command]
    process = subprocess.Popen(argv, env={**ONE_THREAD, **os.environ, **environment}, stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def peers(classes: Mapping[str, str], shared: bool) -> Iterator[Node]:
    """Regions as peers, each a process; yields a node outside of them, which is a peer too.

    Args:
        classes: ``package.module:Class`` by name.
        shared: large messages go in shared memory.
    """
    domain, endpoints = free_port() % 200, []
    with contextlib.ExitStack() as exits:
        for name, cls in classes.items():
            own = f"tcp/127.0.0.1:{free_port()}"
            told = ";".join(f"{key}={json.dumps(value)}" for key, value in settings(own, endpoints, shared).items())
            exits.enter_context(beside(
                "brain_runtime.process", "--class", cls, "--name", name,
                environment={OVERRIDE_VARIABLE: told, CHECK_VARIABLE: "-1", "ROS_DOMAIN_ID": str(domain)}))
            endpoints.append(own)
        before = os.environ.get(CHECK_VARIABLE)
        os.environ[CHECK_VARIABLE] = "-1"   # there is no router to look for
        try:
            session = exits.enter_context(open_session(
                endpoints[0], more=settings(f"tcp/127.0.0.1:{free_port()}", endpoints, shared)))
        finally:
            if before is None:
                del os.environ[CHECK_VARIABLE]
            else:
                os.environ[CHECK_VARIABLE] = before
        node = Node(session, "bench", domain=domain)
        exits.callback(node.close)
        yield node
