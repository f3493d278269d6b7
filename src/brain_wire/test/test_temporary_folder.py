# SPDX-License-Identifier: Apache-2.0
"""Folders of processes that end, and of those that are killed."""
import errno
import fcntl
import subprocess
import sys
import tempfile

import pytest
from brain_wire.temporary_folder import TemporaryFolder, clear

CODE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from brain_wire.temporary_folder import TemporaryFolder, clear
made = [TemporaryFolder("it") for _ in range(2)]
print(made[0].name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def start(place):
    process = subprocess.Popen([sys.executable, "-c", CODE, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    return process, process.stdout.readline().strip()


def test_what_the_killed_left_goes_and_what_is_in_use_stays(place):
    (place / "brain-other.1").mkdir()
    (place / "brain-it.link").symlink_to(place / "brain-other.1")
    (place / "brain-it-1").mkdir()      # of a release before, which locks none
    killed, left = start(place)
    lives, used = start(place)
    try:
        killed.kill()
        killed.communicate()
        assert left
        before = set(place.iterdir())
        with TemporaryFolder("it") as name:
            gone = before - set(place.iterdir())
            assert len(gone) == 2 and left in map(str, gone)
            assert name not in map(str, before) and used in map(str, place.iterdir())
            assert (place / "brain-it.link").is_symlink() and (place / "brain-it-1").is_dir()
        assert set(place.iterdir()) == before - gone
    finally:
        lives.communicate()
    assert {path.name for path in place.iterdir()} == {"brain-other.1", "brain-it.link", "brain-it-1"}


def test_many_that_begin_at_once_have_one_each(place):
    processes = [start(place) for _ in range(4)]
    assert len({name for _, name in processes}) == 4
    assert len(list(place.iterdir())) == 8
    for process, _ in processes:
        process.communicate()
    assert not list(place.iterdir())


def test_a_file_system_without_locks_has_folders_too_and_none_is_cleared(place, monkeypatch):
    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with TemporaryFolder("it") as name:
        clear("it")
        assert name in map(str, place.iterdir())
    assert not list(place.iterdir())
