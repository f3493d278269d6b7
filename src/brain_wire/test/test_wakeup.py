# SPDX-License-Identifier: Apache-2.0
"""What wakes a thread, from other threads and from signal handlers."""
import signal
import threading

from brain_wire.wakeup import Flag


def test_a_flag_stays_set_and_wakes_who_waits():
    flag = Flag()
    assert not flag.is_set() and not flag.wait(0.0)
    threading.Timer(0.05, flag.set).start()
    assert flag.wait() and flag.is_set() and flag.wait(0.0)
    flag.set()
    assert flag.wait(5.0)


def test_a_flag_is_set_by_a_signal_whatever_its_thread_is_at():
    """An Event would wait for ever, sooner or later: for the lock that the interrupted thread has."""
    count = 0
    flag = Flag()

    def handle(number, frame):
        nonlocal count
        count += 1
        flag.set()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while count < 300:
            flag = Flag()
            flag.wait(0.001)
            flag.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_flag_is_seen_though_whoever_set_it_woke_nobody():
    """As the handler of a signal that came just before the thread slept: it runs when the thread wakes by itself."""
    flag = Flag()
    late = threading.Timer(0.2, setattr, (flag, "_is_set", True))
    late.start()
    assert flag.wait()
    late.join()
    assert not Flag().wait(0.05)
