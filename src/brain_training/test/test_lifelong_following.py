# SPDX-License-Identifier: Apache-2.0
"""A robot that comes to another site gets its weights: not at once, not for a moment, and not while it seeks."""
import contextlib
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from bags_by_hand import image
from lifelong_tasks import clips_of

from brain_regions.vision import weights
from brain_runtime.interfaces import GoalStatus
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_training.driving import Drive
from brain_training.lifelong.choosing import Choosing
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.following import Following, Taken
from brain_training.lifelong.learning import shipped
from brain_training.lifelong.library import Library
from brain_training.lifelong.memory import Reservoir
from brain_training.lifelong.pictures import looked, windows
from brain_training.lifelong.task_file import LibraryProblem, Task
from brain_training.looks import Look
from brain_training.vision_data import Studio
from brain_wire import Node, messages, open_session
from brain_wire.parameter_services import value_of
from brain_wire.qos import LATCHED, STREAM
from brain_wire.router import Router, free_port

PATIENCE = 240.0        # s; only ends a hang
LOOKS = {"plain": Look(), "cold": Look(hue=0.5, tint=(0.7, 0.85, 1.0), light=0.9)}
ALL = {**LOOKS, "dark": Look(light=0.3)}
STATUS = "brain_interfaces/msg/GoalStatus"


def pictures(look, rooms, first):
    """uint8 [rooms * 8, HEIGHT, WIDTH, 3]."""
    return Studio(rooms, 8, 1, split="val", first_seed=first, look=look).take_all().images[:, 0]


def unlevelled(look, rooms, first):
    """Pictures as the simulated robot's camera takes them."""
    for number in range(rooms):
        room = look.over(generate_room("val", first + number))
        camera, rng = RayCamera(room_xml(room)), np.random.default_rng(number)
        drive = Drive(room, rng)
        yield from (camera.render(*drive.place(near=False), rng) for _ in range(8))


@pytest.fixture(scope="module")
def known():
    """What two sites look like."""
    return {name: Descriptor(windows(looked(pictures(look, 20, 73_000 + 100 * number))))
            for number, (name, look) in enumerate(LOOKS.items())}


@pytest.fixture(scope="module")
def seen():
    """Pictures of both sites in other rooms, and of none."""
    return {name: pictures(look, 4, 73_500) for name, look in ALL.items()}


def test_it_takes_three_windows_in_a_row_and_a_moment_elsewhere_changes_nothing(known, seen):
    choosing = Choosing(known)
    agreed = [choosing.take(picture) for picture in seen["plain"]]
    assert choosing.task == "plain" and agreed.count(True) == 1 and agreed.index(True) >= 23
    for picture in seen["cold"][:16]:       # two windows: it passes a door
        choosing.take(picture)
    assert choosing.task == "plain"
    for picture in (*seen["plain"][:8], *seen["cold"][:16]):
        choosing.take(picture)
    assert choosing.task == "plain"
    agreed = [choosing.take(picture) for picture in seen["cold"]]
    assert any(agreed) and choosing.task == "cold"


def test_what_nobody_has_learned_is_said_and_a_robot_that_stands_learns_nothing_new(known, seen):
    choosing = Choosing(known)
    for picture in seen["cold"]:
        choosing.take(picture)
    for picture in seen["dark"]:
        choosing.take(picture)
    assert (choosing.task, choosing.unknown) == ("cold", True)
    standing = Choosing(known, agreed=1)
    assert not any(standing.take(seen["plain"][0]) for _ in range(40)) and standing.task is None


@pytest.mark.slow
def test_vision_gets_the_weights_of_the_site_when_no_goal_is_pursued(tmp_path, known):
    library = Library(tmp_path / "library")
    with library.writing():
        for number, name in enumerate(LOOKS):
            memory, held = Reservoir(6, 0), Reservoir(4, 0)
            memory.add(clips_of(6))
            held.add(clips_of(4))
            own = {key: value + 1e-4 * (number + 1) for key, value in shipped().items()}
            task = Task(name, own, known[name], memory, held, 0.5, 0.25, 1)
            library.put(task, {"task": name, "what": "new", "f1": {}})
    port = free_port()
    at, domain, told, end = f"tcp/127.0.0.1:{port}", port % 200, [], time.monotonic() + PATIENCE
    with contextlib.ExitStack() as ends:
        ends.enter_context(Router([at]))
        log = ends.enter_context((tmp_path / "log").open("w"))
        node = ends.enter_context(Node(ends.enter_context(open_session(at, patience=30.0)), "tester", "/", domain))

        def start():
            words = ["--class", "brain_regions.vision:Vision", "--name", "vision", "--router", at,
                     "--state-dir", str(tmp_path / "state")]
            process = subprocess.Popen([sys.executable, "-m", "brain_runtime.process", *words], stdout=log, stderr=log,
                                       env={**os.environ, "ROS_DOMAIN_ID": str(domain)})
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process

        process = start()
        camera = node.publisher("camera/image_raw", "sensor_msgs/msg/Image", STREAM)
        goals = node.publisher("goal/status", STATUS, LATCHED)
        following = Following(node, library, tell=told.append)

        driven = {name: list(unlevelled(look, 4, 73_500)) for name, look in ALL.items()}

        def show(name, until):
            """Drives through a site until something is so, and looks at each picture."""
            while not until():
                for picture in driven[name]:
                    before = following.taken
                    while following.taken == before:
                        assert time.monotonic() < end, told
                        camera.publish(image(picture, time.time()))
                        time.sleep(0.01)
                        following.look()

        def said(text):
            return any(text in line for line in told)

        def have():
            asked = messages.make("rcl_interfaces/srv/GetParameters_Request", names=["weights"])
            return value_of(node.client("vision/get_parameters", "rcl_interfaces/srv/GetParameters", 30.0).call(
                asked, 30.0).values[0])

        show("plain", lambda: said("vision has the weights of plain"))
        assert re.search(r"/library/robot/plain-[0-9a-f]{12}\.safetensors$", have())
        goals.publish(messages.make(STATUS, goal_id=1, state=GoalStatus.STATE_SEARCHING))
        show("cold", lambda: said("of cold; vision gets its weights when no goal is pursued"))
        assert "/plain-" in have()
        goals.publish(messages.make(STATUS, goal_id=1, state=GoalStatus.STATE_REACHED))
        show("cold", lambda: said("vision has the weights of cold"))
        assert "/cold-" in have()
        process.kill()      # and started again, as a supervisor does: it has its first weights
        process.wait()
        start()
        show("cold", lambda: told.count("vision has the weights of cold") == 2)
        assert "/cold-" in have()
        show("dark", lambda: said("of no site that was learned; the weights stay as they are"))
        assert "/cold-" in have()
        other = tmp_path / "other.safetensors"
        other.write_bytes(weights.SHIPPED.read_bytes())
        request = messages.make("rcl_interfaces/srv/SetParametersAtomically_Request", parameters=[messages.make(
            "rcl_interfaces/msg/Parameter", name="weights", value=messages.make(
                "rcl_interfaces/msg/ParameterValue", type=4, string_value=str(other)))])
        assert node.client("vision/set_parameters_atomically", "rcl_interfaces/srv/SetParametersAtomically", 30.0
                           ).call(request, 30.0).result.successful
        with pytest.raises(Taken, match="was given other weights .*other.safetensors"):
            show("plain", lambda: False)
        assert have() == str(other)


def test_a_library_without_tasks_or_with_a_torn_one_is_not_followed(tmp_path):
    from typer.testing import CliRunner

    from brain_training.lifelong.verbs import app

    found = CliRunner().invoke(app, ["follow", str(tmp_path)])
    assert found.exit_code == 1 and "has no task yet; begin one" in found.stderr
    (tmp_path / "hall.task.safetensors").write_bytes(b"")
    with pytest.raises(LibraryProblem, match="is torn"):
        Library(tmp_path).tasks()
    nobody = CliRunner().invoke(app, ["follow", str(tmp_path), "--router", f"tcp/127.0.0.1:{free_port()}"])
    assert nobody.exit_code == 1 and nobody.stderr.count("\n") == 1
