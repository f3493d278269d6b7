# SPDX-License-Identifier: Apache-2.0
"""Ranks of one machine, which tell each other past the network: real processes, sockets and memory."""
from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import torch
from neighbours_here import counted, exchanged, left, parted, posted, unposted
from several import several

from brain_training.parallel import neighbours
from brain_training.parallel.neighbours import Neighbours, met


@pytest.mark.extended(3)
@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_they_tell_and_sum_what_the_backend_does_in_the_order_of_ranks(tmp_path, count):
    found = several(tmp_path, count, exchanged)
    for one in found:
        assert one["near at all"] and not one["far at all"] and len(one["near"]) == len(one["far"])
        for near, far in zip(one["near"], one["far"]):
            assert near.dtype == far.dtype and torch.equal(near, far)
    whole = [tensor for tensor in found[0]["near"] if tensor.shape == (1001,)]
    assert len(whole) == 5 and not torch.equal(whole[0], whole[2])
    # half of what is summed is told and half is read, by each part of it
    assert several(tmp_path / "bytes", count, counted) == [(24 * (count - 1), {2: 1200, 3: 1600}[count])] * count


@pytest.mark.slow
def test_a_neighbour_that_is_killed_is_heard_of(tmp_path):
    with pytest.raises(AssertionError):
        several(tmp_path, 2, left, tmp_path / "heard")
    lines = (tmp_path / "heard").read_text().splitlines()
    assert len(lines) == 2 and all(line.startswith("True the connection to rank 1 of this machine") for line in lines)


@pytest.mark.slow
def test_messages_from_rank_to_rank_come_in_order_and_what_has_no_room_goes_by_the_backend(tmp_path):
    for here, elsewhere in several(tmp_path, 2, posted):
        assert here + elsewhere == 60 and here > 20 and elsewhere > 3


@pytest.mark.slow
def test_a_message_of_a_rank_that_has_left_since_is_there(tmp_path):
    assert several(tmp_path, 2, parted) == [True, True]


@pytest.mark.slow
def test_who_waits_for_a_message_of_a_rank_that_is_killed_hears_of_it(tmp_path):
    with pytest.raises(AssertionError):
        several(tmp_path, 2, unposted, tmp_path / "heard")
    assert (tmp_path / "heard").read_text().startswith("True the connection to rank 1 of this machine")


def test_who_is_not_on_this_machine_is_no_neighbour():
    """Two ranks by hand: the other one tells of a socket that there is not."""
    answers = iter([lambda own: [own, torch.frombuffer(bytearray(
        neighbours.CARD.pack(b"elsewhere", 1, os.getuid())), dtype=torch.uint8)][::-1], lambda own: [own, own]])
    assert met(1, 2, lambda own: next(answers)(own), 5.0, Neighbours) is None


def test_a_stranger_who_connects_is_turned_away():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(60.0)
        listener.bind(neighbours._address(b"test" + os.urandom(12)))
        listener.listen(2)
        program = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(bytes.fromhex(sys.argv[1])); "
                   "print('in', flush=True); print(s.recv(1))")
        stranger = subprocess.Popen([sys.executable, "-c", program, listener.getsockname().hex()],
                                    stdout=subprocess.PIPE, text=True)
        assert stranger.stdout.readline() == "in\n"
        own, peers = socket.socket(socket.AF_UNIX), {}
        with own:
            own.connect(listener.getsockname())
            neighbours._accepted(listener, {(os.getpid(), os.getuid()): 4}, peers)
        assert list(peers) == [4] and stranger.communicate(timeout=400)[0] == "b''\n"
        peers[4].close()
