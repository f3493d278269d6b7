# SPDX-License-Identifier: Apache-2.0
"""Large messages in shared memory: between whom, what when there is none, and what of it is left by the dead."""
import contextlib
import select
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zenoh

from brain_wire import Node, QoS, messages, open_session, shared_memory
from brain_wire.router import Router, free_port
from brain_wire.session import OVERRIDE_VARIABLE, ROUTER_VARIABLE

IMAGE = "sensor_msgs/msg/Image"
ONE = QoS(reliable=True, latched=False, depth=1)
LATCHED = QoS(reliable=True, latched=True, depth=1)
LARGE = 4 * shared_memory.WORTH
PATIENCE = 120.0     # s; only ends a hang
SHARED = Path("/dev/shm")
# Holds the newest message and tells the number in it; "look" on standard input: whether what it holds can be read.
HOLDER = f"""
import sys
from brain_wire import QoS, messages, open_node
with open_node("holder", patience={PATIENCE}) as node:
    ear = node.subscription("image", "{IMAGE}", QoS(reliable=True, latched=False, depth=1))
    print("up", flush=True)
    arrival = None
    while arrival is None:
        arrival = (ear.wait(1.0) or [None])[-1]
    print(messages.decode(arrival.data, ear.type).height, arrival.payload.as_shm() is not None, flush=True)
    for line in sys.stdin:
        try:
            print(messages.decode(arrival.data, ear.type).height, flush=True)
        except messages.MessageError as error:
            print(error, flush=True)
"""

# A router, who publishes something large and who hears it, in one process; it ends where nobody waits for its end.
ALONE = f"""
import sys, time
from brain_wire import Node, QoS, messages, open_session
from brain_wire.router import Router, free_port
endpoint, one = f"tcp/127.0.0.1:{{free_port()}}", QoS(reliable=True, latched=False, depth=1)
with (Router([endpoint]), open_session(endpoint, patience={PATIENCE}) as session,
      open_session(endpoint, patience={PATIENCE}) as other):
    publisher, ear = (Node(session, "alone").publisher("image", "{IMAGE}", one),
                      Node(other, "other").subscription("image", "{IMAGE}", one))
    while not (came := ear.wait(0.2)):
        publisher.publish(messages.make("{IMAGE}", data=bytes({LARGE})))
    assert len(messages.decode(came[0].data, ear.type).data) == {LARGE}
    print("shared" if session.pool.shared else "unshared", came[0].payload.as_shm() is not None, flush=True)
    time.sleep(float(sys.argv[1]))
"""


def image(number, size=LARGE):
    return messages.make(IMAGE, height=number, data=np.full(size, number % 256, np.uint8))


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
    return found


if not shared_memory.may_lock():
    pytest.skip("this process may lock too little in memory (ulimit -l)", allow_module_level=True)


@pytest.fixture
def router(monkeypatch):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    monkeypatch.setenv(ROUTER_VARIABLE, endpoint)
    monkeypatch.setenv("ROS_DOMAIN_ID", "77")
    with Router([endpoint]):
        yield endpoint


@contextlib.contextmanager
def node(name, monkeypatch=None, override=""):
    if monkeypatch is not None:
        monkeypatch.setenv(OVERRIDE_VARIABLE, override)
    with open_session(patience=PATIENCE) as session:
        if monkeypatch is not None:
            monkeypatch.delenv(OVERRIDE_VARIABLE)
        made = Node(session, name)
        yield made
        made.close()


def heard(publisher, ear, message):
    """What comes of a message that is published until it comes."""
    data = messages.encode(message)

    def come():
        publisher.publish(message)
        return [arrival for arrival in ear.wait(0.2) if arrival.data == data]
    return until(come)[-1]


def test_large_messages_are_shared_and_others_are_not(router):
    with node("says") as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE)
        assert heard(publisher, ear, image(1, 100)).payload.as_shm() is None
        assert says.session.pool.shared == 0
        arrival = heard(publisher, ear, image(2))
        assert arrival.payload.as_shm() is not None and says.session.pool.shared >= 1
        data, pool = messages.encode(image(3)), says.session.pool
        publisher.publish_bytes(data)
        assert until(lambda: [a for a in ear.take() if a.data == data])[0].payload.as_shm() is not None
        assert pool.unshared == 0


def test_a_picture_is_copied_once_to_where_it_is_read(router):
    with node("says") as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE, in_place=True)
        heard(publisher, ear, image(1))     # by which both ends know where the address stands
        said = image(2, 16 * LARGE)
        ear.take()
        tracemalloc.start()
        try:
            came = until(lambda: publisher.publish(said) or [a for a in ear.wait(0.2) if a.size > 16 * LARGE])[-1]
            picture = messages.decode(came.data, IMAGE).data
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < LARGE     # neither end has held it in memory of its own
        address = picture.ctypes.data
        assert any(start <= address and address + picture.nbytes <= end for start, end in shared_memory._segments())
        assert np.array_equal(picture, said.data) and not picture.flags.writeable
        assert says.session.pool.unshared == 0


def test_what_is_read_in_place_stays_while_it_is_held(router, monkeypatch):
    with node("says", monkeypatch, f"{shared_memory.POOL_SIZE}={6 * LARGE}") as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE, in_place=True)
        kept = messages.decode(heard(publisher, ear, image(1)).data, IMAGE).data
        for number in range(2, 30):     # the pool's memory is used again and again meanwhile
            heard(publisher, ear, image(number))
        assert np.all(kept == 1)


def test_where_the_address_is_not_known_messages_are_copied(router, monkeypatch):
    monkeypatch.setattr(shared_memory, "_places", dict.fromkeys((zenoh.shm.ZShm, zenoh.shm.ZShmMut)))
    with node("says") as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE, in_place=True)
        arrival = heard(publisher, ear, image(1))
        assert type(arrival.data) is bytes and arrival.payload.as_shm() is not None and says.session.pool.shared


@pytest.mark.parametrize("which", ["says", "hears"])
def test_an_end_without_shared_memory_gets_the_same(router, monkeypatch, which):
    off = {which: "transport/shared_memory/enabled=false"}
    with (node("says", monkeypatch, off.get("says", "")) as says,
          node("hears", monkeypatch, off.get("hears", "")) as hears):
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE)
        assert heard(publisher, ear, image(1)).payload.as_shm() is None
        assert bool(says.session.pool.shared) == (which == "hears")


def test_what_is_latched_is_not_shared_and_whoever_comes_late_gets_it(router):
    with node("says") as says, node("hears") as hears:
        says.publisher("image", IMAGE, LATCHED).publish(image(5))
        ear = hears.subscription("image", IMAGE, LATCHED)
        assert until(lambda: ear.wait(0.2))[0].payload.as_shm() is None and says.session.pool.shared == 0


def test_what_finds_no_room_is_sent_as_ever_and_counted(router, monkeypatch):
    small = f"{shared_memory.POOL_SIZE}={3 * LARGE}"
    with node("says", monkeypatch, small) as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE)
        kept = [heard(publisher, ear, image(number)) for number in range(1, 7)]
        assert says.session.pool.shared and says.session.pool.unshared
        assert [messages.decode(a.data, IMAGE).height for a in kept] == list(range(1, 7))
        before = says.session.pool.unshared
        heard(publisher, ear, image(9, 4 * LARGE))
        assert says.session.pool.unshared > before     # larger than the pool


def test_without_a_place_for_shared_memory_messages_are_sent_as_ever(router, monkeypatch):
    # More than any machine has: as in a container whose /dev/shm is small.
    with node("says", monkeypatch, f"{shared_memory.POOL_SIZE}={1 << 60}") as says, node("hears") as hears:
        publisher, ear = says.publisher("image", IMAGE, ONE), hears.subscription("image", IMAGE, ONE)
        heard(publisher, ear, image(1))
        assert says.session.pool.shared == 0 and says.session.pool.unshared == 1
        assert says.session.pool.threshold > 1 << 60


def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    return process


def first_word(process, publisher):
    """What a holder says of the first message that reaches it."""
    until(lambda: publisher.publish(image(7)) or select.select([process.stdout], [], [], 0.05)[0])
    return process.stdout.readline()


def test_what_the_killed_held_is_taken_back(router, monkeypatch):
    with node("says", monkeypatch, f"{shared_memory.POOL_SIZE}={3 * LARGE}") as says:
        publisher, pool = says.publisher("image", IMAGE, ONE), says.session.pool
        for _ in range(3):
            process = holder()
            before = pool.shared
            assert first_word(process, publisher).startswith("7 ")
            until(lambda: publisher.publish(image(7)) or pool.shared > before)      # whatever those before held
            process.kill()
            process.wait()


def test_who_did_not_run_for_a_while_does_not_take_another_message_for_its_own(router, monkeypatch):
    with node("says", monkeypatch, f"{shared_memory.POOL_SIZE}={3 * LARGE}") as says:
        publisher, pool = says.publisher("image", IMAGE, ONE), says.session.pool
        process = holder()
        try:
            assert first_word(process, publisher) == "7 True\n"
            process.send_signal(signal.SIGSTOP)
            until(lambda: publisher.publish(image(8)) or pool.unshared)
            before = pool.shared

            def taken_back():
                publisher.publish(image(8))
                return pool.shared > before + 3
            until(taken_back)
            process.send_signal(signal.SIGCONT)
            process.stdin.write("look\n")
            process.stdin.flush()
            assert "its publisher's again" in process.stdout.readline()
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(not SHARED.is_dir(), reason="no /dev/shm")
def test_what_the_killed_leave_lying_goes_when_the_next_session_is_opened():
    process = subprocess.Popen([sys.executable, "-c", ALONE, "60"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "shared True\n"
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    theirs = {path for path in SHARED.glob("*.zenoh") if f"{path}\n" in maps}
    process.kill()
    process.wait()
    assert theirs and all(path.exists() for path in theirs)
    again = subprocess.run([sys.executable, "-c", ALONE, "0"], stdout=subprocess.PIPE, text=True, timeout=400)
    assert again.stdout == "shared True\n" and not [path for path in theirs if path.exists()]


def with_another(options, command):
    """What came of a command that runs with a /dev/shm of its own."""
    def inside(command):
        return subprocess.run(["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs /dev/shm && "$@"',
                               "sh", *command], capture_output=True, text=True, timeout=400)
    if not shutil.which("unshare") or inside(["true"]).returncode:
        pytest.skip("another /dev/shm cannot be mounted here")
    return inside(command)


def test_where_the_pool_has_room_but_not_its_books_messages_are_sent_as_ever():
    done = with_another("size=17m", [sys.executable, "-c", (
        "import zenoh\nfrom brain_wire import shared_memory\npool = shared_memory.Pool(zenoh.Config())\n"
        "assert pool.share([bytes(99999)]) == bytes(99999) and pool.shared == 0 and pool.unshared == 1\n"
        "assert pool.threshold == shared_memory.NEVER")])
    assert done.returncode == 0 and "no shared memory of 16777216 bytes: called" in done.stderr, done.stderr


@pytest.mark.parametrize("options, warns", [("ro", "no shared memory: Unable to create POSIX shm segment"),
                                            ("size=200k", "no shared memory of 16777216 bytes")])
def test_where_there_is_no_room_in_dev_shm_messages_are_sent_as_ever_with_one_warning(options, warns):
    done = with_another(options, [sys.executable, "-c", ALONE, "0"])
    assert (done.returncode, done.stdout) == (0, "unshared False\n"), done.stderr
    assert done.stderr.count("no shared memory") == 1 and warns in done.stderr
    assert "--shm-size" in done.stderr and "pool_size" in done.stderr      # the remedy


@pytest.mark.parametrize("kib, may", [(64, False), (8192, False), (1 << 20, True)])
def test_who_may_lock_how_much(kib, may):
    check = ("import os, resource\nfrom brain_wire import shared_memory\n"
             f"limit = {kib} << 10\n"
             "resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))\n"
             "if not os.getuid():\n    os.setuid(65534)\n"
             "print(shared_memory.may_lock())")
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=400)
    if "not allowed" in done.stderr or "permitted" in done.stderr:
        pytest.skip("the limit cannot be raised here")
    assert (done.returncode, done.stdout) == (0, f"{may}\n"), done.stderr


def test_who_may_lock_too_little_in_memory_has_none_and_gets_all_messages(router, monkeypatch):
    with node("says") as says, node("hears") as hears:
        monkeypatch.setattr(shared_memory, "may_lock", lambda: False)
        with node("little") as little:
            assert little.session.pool.threshold == shared_memory.NEVER
            publisher, ears = says.publisher("image", IMAGE, ONE), [n.subscription("image", IMAGE, ONE)
                                                                    for n in (little, hears)]
            shared = [heard(publisher, ear, image(3)).payload.as_shm() is not None for ear in ears]
            assert shared == [False, True]
            heard(little.publisher("image", IMAGE, ONE), ears[1], image(4))
            assert little.session.pool.shared == 0
