# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of pictures and clips: a cloud's router and door, and a robot that has enrolled."""
from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.blobs.serving import Serving
from brain_cloud.enrolment.authority import Authority
from brain_cloud.enrolment.server import EnrolmentServer
from brain_cloud.enrolment.uploads import Uploads
from brain_cloud.router_reload import routing
from brain_edge.blobs.carry import CLIPS, Carrier
from brain_edge.enrolment import tokens
from brain_edge.enrolment.credentials import enroll
from brain_edge.messages.question import NoAnswer, NotGiven
from brain_edge.processes.settings import ZENOH
from brain_wire import open_session
from brain_wire.router import free_port
from brain_wire.session import Elsewhere


class Clouded(NamedTuple):
    """What is there: the cloud's parts, its endpoint, and the robot's file of credentials."""

    authority: Authority
    uploads: Uploads
    serving: Serving
    door: tuple[str, int]
    cloud: str
    file: Path


@contextlib.contextmanager
def clips_cloud(folder: Path, edge: Path, most: float = 1e6, told: Callable[[str], Any] = lambda text: None,
                clock: Callable[[], float] = time.time) -> Iterator[Clouded]:
    """A secured cloud that keeps ``most`` bytes of each robot in ``folder``, and robot1, whose folder is ``edge``."""
    keys = edge.parent / "keys"
    assert CliRunner().invoke(app, ["keys", str(keys), "--node", "robot9"]).exit_code == 0
    authority, cloud = Authority(keys), f"tls/localhost:{free_port()}"
    with contextlib.ExitStack() as ends:
        session = ends.enter_context(routing([cloud.replace("localhost", "127.0.0.1")], keys))
        serving = Serving(session, authority.revoked)
        uploads = ends.enter_context(contextlib.closing(Uploads(
            folder, most, told=lambda robot, person, text: told(text), clock=clock)))
        door = ends.enter_context(contextlib.closing(EnrolmentServer(authority, [("127.0.0.1", 0)], uploads.take_in)))
        where = ("localhost", door.ports[0])
        file = enroll(edge, tokens.parse(authority.token("robot1", "ann")), where, lambda seconds: True)
        with open_session(cloud, identity="robot1", patience=60.0, more=ZENOH, elsewhere=Elsewhere(file)) as robot:
            while True:     # until the router knows it, or the test's time is over
                try:
                    Carrier("robot1", CLIPS, robot, patience=1.0).about("sha256:" + "0" * 64)
                except NotGiven:
                    break
                except NoAnswer:
                    time.sleep(0.05)
        serving.collections[CLIPS] = uploads
        yield Clouded(authority, uploads, serving, where, cloud, file)
