# SPDX-License-Identifier: Apache-2.0
"""The process that collects beside a brain that runs: what was hard is on the disk a moment later, and it ends well."""
import os
import signal
import subprocess
import sys
import time

import pytest
from bags_by_hand import BALL, OBJECTS, image, noise, told

from brain_regions.vision.network import HEIGHT, WIDTH
from brain_runtime.interfaces import Trace
from brain_training.incremental.collecting import IMAGE
from brain_training.recordings.library import find
from brain_training.recordings.reading import frames
from brain_wire import Node, open_session
from brain_wire.messages import make
from brain_wire.qos import FEATURE, SENSOR, STREAM
from brain_wire.router import Router, free_port

PATIENCE = 600.0    # s; only ends a hang: who collects gives way to all others, also while it starts
DOMAIN = 87


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_reflex_of_a_running_brain_is_kept_and_the_rest_is_not(tmp_path):
    endpoint, clips = f"tcp/127.0.0.1:{free_port()}", tmp_path / "clips"
    log = (tmp_path / "log").open("wb")
    outer = {key: value for key, value in os.environ.items() if key not in ("BRAIN_ROUTER", "BRAIN_SECURITY")}
    process = subprocess.Popen(
        [sys.executable, "-m", "brain", "fleet", "collect", "--name", "robot1", "--folder", str(clips), "--rules",
         "reflex", "--router", endpoint, "--domain", str(DOMAIN), "--threshold", "0.6", "--teacher", "told", "--most",
         "600"], stderr=log, env=outer)
    try:
        with Router([endpoint]), open_session(endpoint, identity="robot", patience=60.0) as session, \
                Node(session, "robot", "", DOMAIN) as node:     # it came before the router
            eye = node.publisher("camera/image_raw", IMAGE, SENSOR)
            teacher = node.publisher("told", OBJECTS, FEATURE)
            trace = node.publisher("brain/trace", "brain_interfaces/msg/Trace", STREAM)
            pictures, begin, found = noise(4, rows=120, columns=160), time.monotonic(), []
            step, heard = 0, False
            while not (found := list(clips.glob("hard-robot1-*-reflex-80.mcap"))):
                assert time.monotonic() < begin + PATIENCE and process.poll() is None, (
                    tmp_path / "log").read_text()
                stamp = 0.05 * step
                eye.publish(image(pictures[step % 4], stamp))
                teacher.publish(told(stamp, BALL))
                # Who collects is there, and hears first that there is no reflex; then one comes again and again.
                heard = heard or step % 40 == 0 and eye.heard and teacher.heard and trace.heard
                near = heard and step % 40 >= 30
                trace.publish(make("brain_interfaces/msg/Trace", action=Trace.ACTION_REFLEX if near else
                                   Trace.ACTION_PASSED))
                step += 1
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            said = (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
        log.close()
    assert process.returncode == 0 and "kept hard-robot1-" in said and "Traceback" not in said, said
    (recording,) = find([found[0]])
    kept = list(frames(recording, "told"))
    assert len(kept) > 1 and kept[0].image.shape == (HEIGHT, WIDTH, 3) and any(one.seen for one in kept)
