# SPDX-License-Identifier: Apache-2.0
"""What a cloud makes of a robot's request, without a wire: who is taken in, who is set apart, who is a second one."""
import os
import re
from dataclasses import replace

import pytest

from brain_cloud.enrolment import admission
from brain_cloud.enrolment.admission import accept, admit
from brain_edge.messages import installation as installations
from brain_edge.messages.envelope import Answer, Request
from brain_edge.messages.history import Standing, adopt, named, read, set_apart
from brain_edge.messages.installation import disk, installation
from brain_edge.messages.outbox import Limits, Outbox, Stream
from brain_edge.schema import FormProblem
from brain_edge.store import Store

OLD, NEW, HERE, THERE = "0" * 16, "1" * 16, "a" * 16, "b" * 16
FIRST = Request("robot1", "cloud", OLD, None, installation=HERE)


@pytest.fixture
def cloud(tmp_path):
    """A cloud's database."""
    with Store(tmp_path, "cloud") as store:
        yield store


@pytest.fixture
def outbox(cloud):
    return Outbox(cloud, [Stream("plain", 0)], Limits(messages=100, bytes=10_000))


def ask(store, request):
    with store.change() as db:
        return admit(db, request)


def taken_in(store, request=FIRST):
    """Requests of a robot that was taken in."""
    return replace(request, epoch=ask(store, request).epoch)


def peer(store, name="robot1"):
    with store.change() as db:
        return read(db, name)


def test_who_is_not_known_is_taken_in_and_told_of_an_epoch(cloud):
    standing = ask(cloud, FIRST)
    assert standing == Standing(standing.epoch, joined=True, found=True)
    assert not (standing.open or standing.begun or standing.second)
    assert re.fullmatch("[0-9a-f]{16}", standing.epoch)
    known = peer(cloud)
    assert known == ("robot1", OLD, standing.epoch, None, False, HERE)
    assert ask(cloud, FIRST) == Standing(standing.epoch, found=True)    # the answer was lost
    assert ask(cloud, replace(FIRST, epoch=standing.epoch)) == Standing(standing.epoch, open=True)


def test_who_has_an_epoch_of_another_cloud_is_set_apart(cloud):
    standing = ask(cloud, replace(FIRST, epoch="e" * 16))
    assert standing.apart.startswith("robot1 belongs to a fleet that the database of this cloud does not know")
    assert (standing.epoch, standing.open, standing.joined) == (None, False, False)
    assert peer(cloud).apart == standing.apart


def test_a_cloud_that_is_full_goes_on_with_those_that_it_knows(cloud, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 1)
    mine = taken_in(cloud)
    standing = ask(cloud, replace(FIRST, sender="robot2"))
    assert standing == Standing(None, apart="this cloud knows 1 robots already, and takes no more in")
    assert peer(cloud, "robot2") is None
    assert ask(cloud, mine).open


def test_another_epoch_or_another_database_is_set_apart(cloud):
    mine = taken_in(cloud)
    standing = ask(cloud, replace(mine, epoch="e" * 16))
    assert "are not in the same epoch" in standing.apart and not standing.open and standing.epoch == mine.epoch
    assert ask(cloud, mine) == Standing(mine.epoch, apart=standing.apart)      # until a person decides


def test_a_database_that_was_lost_is_set_apart(cloud):
    mine = taken_in(cloud)
    standing = ask(cloud, replace(mine, incarnation=NEW))
    assert "robot1 comes with another database than before" in standing.apart and not standing.second
    assert peer(cloud).apart == standing.apart


def test_who_says_that_it_is_apart_is(cloud):
    mine = taken_in(cloud)
    assert ask(cloud, replace(mine, apart="as I see it")) == Standing(mine.epoch, apart="as I see it")


@pytest.mark.parametrize(("incarnation", "why"), [
    (OLD, "its database was restored from an older state, or is a copy of another robot's"),
    (NEW, "the one that it had was lost, or two robots have this name")])
def test_a_second_installation_changes_nothing_for_the_first(cloud, incarnation, why):
    mine = taken_in(cloud)
    standing = ask(cloud, replace(mine, installation=THERE, incarnation=incarnation))
    assert standing == Standing(None, second=True, apart=f"robot1 comes with another database than before, as "
                                                         f"installation {THERE}: {why}")
    assert ask(cloud, mine).open and peer(cloud).apart is None


def test_who_could_say_which_installation_it_is_must(cloud):
    mine = replace(taken_in(cloud), installation=None)
    with pytest.raises(FormProblem, match="it does not say which installation it comes from"):
        ask(cloud, mine)
    assert ask(cloud, replace(mine, formats=(1, 2))).open       # it cannot
    assert peer(cloud).installation is None


def test_a_robot_from_before_installations_says_later_which_it_is(cloud):
    mine = taken_in(cloud, replace(FIRST, installation=None, formats=(1, 2)))
    assert peer(cloud).installation is None
    assert ask(cloud, replace(mine, installation=HERE)).open and peer(cloud).installation == HERE
    assert ask(cloud, replace(mine, installation=THERE)).second


def test_an_installation_is_named_by_its_id_or_else_by_its_database():
    assert (named(FIRST), named(replace(FIRST, installation=None))) == (HERE, OLD)


def test_who_is_taken_in_anew_begins_an_epoch(cloud, outbox):
    mine = taken_in(cloud)
    with cloud.change() as db:
        assert set_apart(db, "robot1", "why") and not set_apart(db, "robot1", "again")
        assert not accept(db, "robot2", outbox) and accept(db, "robot1", outbox)
    known = peer(cloud)
    assert known.pending and known.apart is None and known.epoch != mine.epoch and known.installation == HERE
    assert re.fullmatch("[0-9a-f]{16}", known.epoch)
    assert ask(cloud, mine) == Standing(known.epoch, found=True)
    assert ask(cloud, replace(mine, epoch=known.epoch, incarnation=NEW)) == Standing(known.epoch, open=True, begun=True)
    assert peer(cloud)[1:5] == (NEW, known.epoch, None, False)
    assert ask(cloud, replace(mine, epoch=known.epoch, incarnation=NEW)) == Standing(known.epoch, open=True)


@pytest.mark.parametrize(("wanted", "comes"), [(THERE, THERE), (None, THERE), (None, HERE)])
def test_another_installation_becomes_the_robot_when_a_person_says_so(cloud, outbox, wanted, comes):
    mine = taken_in(cloud)
    with cloud.change() as db:
        assert accept(db, "robot1", outbox, wanted)
    assert peer(cloud)[1] is None and peer(cloud).installation == wanted
    assert ask(cloud, replace(mine, installation=comes, incarnation=NEW)).found
    assert peer(cloud).installation == comes


def test_a_robot_begins_the_epoch_that_it_is_told(tmp_path):
    with Store(tmp_path, "robot1") as store, store.change() as db:
        outbox = Outbox(store, [Stream("plain", 0)], Limits(messages=100, bytes=10_000))
        outbox.put(db, "cloud", "plain", "number", {"number": 1})
        answer = Answer("cloud", "robot1", OLD, HERE, found=True)
        assert adopt(db, "cloud", replace(answer, found=False), outbox) is None
        assert adopt(db, "cloud", replace(answer, epoch=None), outbox) is None
        assert adopt(db, "cloud", answer, outbox) == 0
        assert read(db, "cloud") == ("cloud", OLD, HERE, None, False, None)
        assert adopt(db, "cloud", answer, outbox) is None       # it is in that epoch already
        db.execute("UPDATE outgoing SET doubt = 1")             # the cloud may have applied it
        set_apart(db, "cloud", "why")
        assert adopt(db, "cloud", replace(answer, epoch=THERE), outbox) == 1
        assert read(db, "cloud") == ("cloud", OLD, THERE, None, False, None)


def test_a_copy_of_a_disk_on_another_disk_is_another_installation(tmp_path, monkeypatch):
    """As a block copy has them: the same database, machine id and number of the file."""
    whole, number = tmp_path / "devices" / "sda", os.stat(tmp_path).st_dev
    for folder in (whole / "device", whole / "sda1" / "partition", tmp_path / "devices" / "dm-0" / "slaves",
                   tmp_path / "block"):
        folder.mkdir(parents=True)
    (tmp_path / "devices" / "dm-0" / "slaves" / "sda").symlink_to(whole)    # it is encrypted
    monkeypatch.setattr(installations, "DISKS", tmp_path / "block")
    store = Store(tmp_path / "robot", "edge")

    def on(device, **serials):
        for name, serial in serials.items():
            (whole / "device" / name).write_text(f"{serial}\n")
        place = tmp_path / "block" / f"{os.major(number)}:{os.minor(number)}"
        place.unlink(missing_ok=True)
        place.symlink_to(tmp_path / "devices" / device)
        return installation(store)

    assert disk(store.path) == set()    # as in a container
    mine = installation(store)
    assert on("sda/sda1", wwid="naa.1", serial="S1") == mine and disk(store.path) == {"naa.1", "S1"}
    assert on("sda/sda1", wwid="naa.2") == mine, "another driver tells one of its numbers otherwise"
    assert on("sda/sda1", serial="S2") != mine
    assert on("dm-0") != mine
    assert on("dm-0", serial="S1") == mine
    assert on("none") == mine, "it is not known"
    store.close()
