# SPDX-License-Identifier: Apache-2.0
"""Snapshots: what they must have been made by, the generation before, and what becomes of those that do not fit."""
import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from brain_runtime import Region
from brain_runtime.contract import snapshot
from brain_runtime.hosts.snapshot_writer import SnapshotWriter
from brain_runtime.contract.snapshot import SnapshotError

REFUSED = 5     # that are kept
HEADER = b'{"count":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
BFLOAT = len(HEADER).to_bytes(8, "little") + HEADER + bytes(4)


class Count(Region):
    """Has a state, and tells of weights."""

    def initial_state(self):
        return {"count": np.zeros(2, np.float32), "map": np.zeros((2, 3), np.float32)}

    def snapshot_metadata(self):
        return {"weights": "w1"}

    def step(self, inbox, state, dt, rng):
        return {}, state


class Other(Count):
    pass


@pytest.fixture
def region():
    made = Count("counter")
    made.configure({})
    return made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "counter.safetensors"


def counted(number):
    return {"count": np.full(2, number, np.float32), "map": np.arange(6, dtype=np.float32).reshape(2, 3)}


def test_a_state_comes_back_and_the_one_before_is_kept(region, path):
    assert snapshot.restore(path, region) == (None, [])
    with pytest.raises(FileNotFoundError):
        snapshot.read(path, region)
    snapshot.write(path, region, {"count": [1.0, 1.0], "map": np.arange(6.0).reshape(3, 2).T})
    assert snapshot.read(path, region)["map"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    for number in (2, 3):
        snapshot.write(path, region, counted(number))
        for file, held in ((path, number), (snapshot.previous(path), number - 1)):
            found = snapshot.read(file, region)
            assert found["count"].tolist() == [held, held] and found["count"].dtype == np.float32
    state, warnings = snapshot.restore(path, region)
    assert state["count"].tolist() == [3.0, 3.0] and warnings == []
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, f"{path.name}.previous"]
    path.unlink()
    assert snapshot.restore(path, region)[0]["count"].tolist() == [2.0, 2.0]


def test_it_is_on_the_disk_before_it_takes_the_place_of_the_old_one_and_there_is_always_one(region, path, monkeypatch):
    snapshot.write(path, region, counted(1))
    done, begun = [], {name: getattr(os, name) for name in ("fsync", "replace")}

    def noted(name):
        def call(*args):
            done.append(name)
            assert path.exists() and os.stat(args[0]).st_size > 100     # of a file that is open, or by its name
            return begun[name](*args)
        return call

    for name in begun:
        monkeypatch.setattr(os, name, noted(name))
    left = path.with_name(f"{path.name}.{os.getpid()}.link")
    left.write_bytes(b"of a run that was killed")
    snapshot.write(path, region, counted(2))
    assert done == ["fsync", "replace", "replace"] and not left.exists()

    def no_links(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "replace", begun["replace"])
    snapshot.write(path, region, counted(3))
    assert [snapshot.read(file, region)["count"][0] for file in (path, snapshot.previous(path))] == [3.0, 2.0]


@pytest.mark.parametrize("key", ["format", "class", "code", "weights"])
@pytest.mark.parametrize("value", ["another", None])
def test_what_was_made_otherwise_is_refused_by_name(region, path, key, value):
    snapshot.write(path, region, counted(1))
    with safe_open(path, framework="numpy") as file:
        made = file.metadata()
    assert made == snapshot.metadata(region) and set(made) == {"format", "class", "code", "weights"}
    assert made["format"] == "1" and made["class"].endswith("test_snapshot:Count") and len(made["code"]) == 16
    made.pop(key)
    path.write_bytes(save(counted(1), metadata={**made, **({} if value is None else {key: value})}))
    with pytest.raises(SnapshotError, match=f"does not fit counter: {key} is {value!r}, but .* is needed"):
        snapshot.read(path, region)
    state, (warning,) = snapshot.restore(path, region)
    assert state is None and key in warning and "kept as counter.safetensors.refused-1; counter starts" in warning


def test_the_code_of_another_module_has_another_hash():
    assert snapshot._code(Count) == snapshot._code(Other) != snapshot._code(Region)
    nowhere = type("Nowhere", (Count,), {"__module__": "nowhere"})
    assert len(snapshot._code(nowhere)) == 16 and snapshot._code(nowhere) != snapshot._code(Count)


@pytest.mark.parametrize(("arrays", "why"), [
    ({"count": np.zeros(2, np.float32)}, "other shapes of map"),
    ({**counted(1), "more": np.zeros(1, np.float32)}, "other shapes of more"),
    ({**counted(1), "count": np.zeros(3, np.float32), "map": np.zeros(6, np.float32)}, "other shapes of count, map"),
    ({**counted(1), "count": np.zeros(2)}, "count not float32"), (b"torn", "torn or no snapshot"),
    (BFLOAT, "is BF16, which numpy has not")])
def test_what_holds_something_else_is_refused(region, path, arrays, why):
    snapshot.write(path, region, counted(1))
    path.write_bytes(arrays if isinstance(arrays, bytes) else save(arrays, metadata=snapshot.metadata(region)))
    with pytest.raises(SnapshotError, match=why) as found:
        snapshot.read(path, region)
    assert str(path) in str(found.value)


def test_both_generations_may_be_refused_and_the_newest_few_of_them_are_kept(region, path):
    snapshot.write(path, region, counted(1))
    (path.parent / f"{path.name}.refused-x").write_text("not ours")
    (path.parent / f"{path.name}.refused-٣").write_text("not ours")
    for number in range(1, REFUSED + 4):
        path.write_bytes(b"torn %d" % number)
        snapshot.previous(path).write_bytes(snapshot.pack(region, counted(number)))
        state, (warning,) = snapshot.restore(path, region)
        assert state["count"][0] == number and f"refused-{number};" in warning and not path.exists()
    kept = {p.name.rpartition("-")[2]: p.read_bytes() for p in path.parent.glob(f"{path.name}.refused-*")}
    assert {name: data for name, data in kept.items() if name.isascii() and name.isdecimal()} == {
        str(number): b"torn %d" % number for number in range(4, REFUSED + 4)} and {"x", "٣"} <= kept.keys()
    for file in (path, snapshot.previous(path)):
        file.write_bytes(b"torn")
    state, warnings = snapshot.restore(path, region)
    assert state is None and len(warnings) == 2 and "previous.refused-1" in warnings[1]


def test_what_cannot_be_written_or_set_aside_is_told_with_the_remedy(region, path, monkeypatch):
    snapshot.write(path, region, counted(1))
    begun = os.replace

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SnapshotError, match="state of counter to .*No space left on device. The last snapshot is kept"):
        snapshot.write(path, region, counted(2))
    with pytest.raises(SnapshotError, match="cannot be used, and not be set aside either"):
        snapshot.set_aside(path)
    assert not list(path.parent.glob("*.tmp"))
    monkeypatch.setattr(os, "replace", begun)
    assert snapshot.read(path, region)["count"].tolist() == [1.0, 1.0]


def test_a_writer_writes_the_newest_in_a_thread_of_its_own(region, path):
    told = []
    writer = SnapshotWriter(path, "counter", told.append)
    assert writer.settle(0.0)
    for number in range(1, 20):
        writer.hand_in(snapshot.pack(region, counted(number)))
    assert writer.settle(20.0) and snapshot.read(path, region)["count"][0] == 19.0 and told == []
    assert writer._thread.daemon, "a disk that never answers must not keep the process"
    path.parent.rename(path.parent.with_name("away"))
    path.parent.touch()
    writer.hand_in(snapshot.pack(region, counted(1)))
    assert writer.settle(20.0) and len(told) == 1 and "cannot save the state of counter" in told[0]
