# SPDX-License-Identifier: Apache-2.0
"""Models: files, signatures, pieces that come through cuts and kills, a robot's disk, and regions that get them."""
from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.models.registry import Registry
from brain_edge.blobs.store import PIECE, NoRoom, digest_of
from brain_edge.models.model_cache import ModelCache
from brain_edge.models.model_file import ModelProblem, read_model
from brain_cloud.models.signing import state
from brain_edge.models.model_signature import read_statement
from brain_edge.processes.settings import ZENOH
from brain_edge.store import Store
from brain_security.signing import authority_of
from brain_wire import open_session

from model_stage import at, big_model, make_model, order, report, verb, with_length


def test_a_file_that_is_no_model_is_refused_in_a_line(tmp_path):
    path = tmp_path / "w.safetensors"
    digest = big_model(path, 1000)
    whole = path.read_bytes()
    assert read_model(path).digest == digest and read_model(path).metadata == {"region": "motor"}
    tensor = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    cases = {"cut": (whole[:500], "not fully covered"), "longer": (whole + b"x", "not fully covered"),
             "empty": (b"", "torn"), "no header": (b"x" * 100, "torn, or no safetensors file"),
             "a header that is huge": ((2**62).to_bytes(8, "little") + b"{}", "length of a header"),
             "no JSON": ((2).to_bytes(8, "little") + b"{[", "invalid JSON"),
             "a negative place": (with_length(tensor.replace(b"[0,8", b"[-8,0")), "invalid value: integer `-8`"),
             "another size": (with_length(tensor.replace(b"[2]", b"[3]")) + b"x" * 8, "invalid shape"),
             "a gap": (with_length(tensor.replace(b"[0,8", b"[8,16")) + b"x" * 16, "invalid offset"),
             "a type that is none": (with_length(tensor.replace(b"F32", b"F99")), "unknown variant `F99`")}
    wrong = {}
    for name, (data, why) in cases.items():
        path.write_bytes(data)
        try:
            told = f"taken as {read_model(path)}"
        except ModelProblem as problem:
            told = str(problem)
        if not re.search(why, told) or "\n" in told:
            wrong[name] = told
    assert wrong == {}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    done = CliRunner().invoke(app, ["keys", str(folder), "--node", "robot1", "--operator", "ann"])
    assert done.exit_code == 0, done.output
    return folder


def test_a_signature_holds_for_what_was_signed_by_who_may_sign_and_for_nothing_else(keys, tmp_path):
    other = tmp_path / "other"
    assert CliRunner().invoke(app, ["keys", str(other), "--node", "robot1"]).exit_code == 0
    authority = authority_of(keys / "robot1.json5")
    digest = "sha256:" + "a" * 64
    record = state(digest, "motor", 100, "a card", "{}", keys / "ann.json5")
    stated, signer = read_statement(record, authority)
    assert (stated["digest"], stated["region"], signer) == (digest, "motor", "ann")
    assert read_statement(record, None)[1] == ""
    with pytest.raises(ModelProblem, match="may not sign: only operators"):
        state(digest, "motor", 100, "", "", keys / "robot1.json5")
    stranger = state(digest, "motor", 100, "a card", "{}", other / "operator.json5")
    wrong = {
        "is not signed, and this fleet has keys": {**record, "signature": ""},
        "the card of model .* is another": {**record, "card": "a better card"},
        "the evaluation of model .* is another": {**record, "evaluation": '{"success": 1.0}'},
        "what was signed is something else": {**record, "statement": record["statement"].replace("motor", "vision")},
        "another authority": stranger, "does not read": {**record, "signature": "é"},
        "the signature does not read": {**record, "certificate": "none"},
        "statement must be a string": {**record, "statement": 3}, "certificate is missing": {"statement": "",
                                                                                             "signature": ""},
        "format must be 1": {**record, "statement": record["statement"].replace('"format": 1', '"format": 2')}}
    told = {}
    for why, one in wrong.items():
        with pytest.raises(ModelProblem) as problem:
            read_statement(one, authority)
        if not re.search(why, str(problem.value)) or "\n" in str(problem.value):
            told[why] = str(problem.value)
    assert told == {}
    # A robot's own certificate is from the same authority, and vouches for nothing.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    import base64

    key = load_pem_private_key((keys / "robot1.key").read_bytes(), None)
    forged = {**record, "certificate": (keys / "robot1.crt").read_text(), "signature": base64.b64encode(key.sign(
        b"brain fleet model\n" + record["statement"].encode(), ec.ECDSA(hashes.SHA256()))).decode()}
    with pytest.raises(ModelProblem, match="may not sign: only an operator's may"):
        read_statement(forged, authority)


def test_old_models_are_let_go_of_but_never_what_is_or_was_in_use(tmp_path):
    with Store(tmp_path, "robot1") as store:
        cache = ModelCache(store, quota=3500)
        digests = []
        for number in range(3):
            path = tmp_path / f"{number}"
            digests.append(big_model(path, 900, number))
            data = path.read_bytes()
            cache.blobs.write(digests[-1], 0, data)
            cache.blobs.finish(digests[-1], len(data))
            cache.take(digests[-1], "motor", len(data), "")
        before, current = digests[1:]
        with store.change() as db:
            db.execute("INSERT INTO loaded VALUES ('motor', ?, ?, '', NULL, '')", (current, before))
        new, wanted = "sha256:" + "c" * 64, "sha256:" + "d" * 64
        cache.make_room(new, 400, [])
        assert all(map(cache.path, digests))        # there is room
        cache.make_room(new, 1300, [wanted])
        assert [cache.path(digest) is not None for digest in digests] == [False, True, True]
        with pytest.raises(NoRoom, match="give `brain edge` more with --models-mb"):
            cache.make_room(new, 1800, [])
        assert all(map(cache.path, (before, current)))
        cache.blobs.write(wanted, 0, bytes(1000))     # pieces of one that is wanted stay, of one that is not they go
        with pytest.raises(NoRoom):
            cache.make_room(new, 1000, [wanted])
        cache.make_room(new, 1000, [])
        assert cache.blobs.have(wanted) == 0


def test_what_the_release_before_has_on_a_robots_disk_is_used_on(tmp_path):
    """A folder and its tables as that has left them: a model in use, one that was used before, and one half come."""
    paths = [tmp_path / str(number) for number in range(3)]
    digests = [big_model(path, 900, number) for number, path in enumerate(paths)]
    folder = tmp_path / "edge" / "models"
    with Store(tmp_path / "edge", "robot1") as store:
        folder.mkdir(mode=0o700)
        for digest, path in zip(digests[:2], paths, strict=False):
            path.rename(folder / f"{digest.removeprefix('sha256:')}.safetensors")
        half = paths[2].read_bytes()[:500]
        (folder / f"{digests[2].removeprefix('sha256:')}.part").write_bytes(half)
        with store.change() as db:
            for used, digest in enumerate(digests[:2], 1):
                db.execute("INSERT INTO shelf VALUES (?, 'motor', 1000, 'ann', ?)", (digest, used))
            db.execute("INSERT INTO loaded VALUES ('motor', ?, 'own', '', NULL, '')", (digests[1],))
        cache = ModelCache(store, quota=3500)
        assert [cache.path(digest) is not None for digest in digests] == [True, True, False]
        assert cache.signer(digests[0]) == "ann" and cache.blobs.have(digests[2]) == 500
        cache.make_room(digests[2], paths[2].stat().st_size, [digests[2]])
        assert cache.path(digests[0])       # there is room for all
        whole = paths[2].read_bytes()
        cache.blobs.write(digests[2], 500, whole[500:])
        assert cache.blobs.finish(digests[2], len(whole)).read_bytes() == whole
        cache.take(digests[2], "motor", len(whole), "ann")
        cache.make_room("sha256:" + "f" * 64, 1200, [])
        assert [cache.path(digest) is not None for digest in digests] == [False, True, True]


@pytest.mark.slow
def test_a_large_model_reaches_a_robot_through_cuts_and_kills_and_is_whole(fleet, tmp_path, until):
    path = tmp_path / "large.safetensors"
    digest = big_model(path, 24 * 2**20)        # more than one message may have
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    status, told = verb("models", "add", path, "--region", "motor", *at(fleet))
    assert status == 0 and f"model {digest} for motor" in told and "not signed, since this fleet has no keys" in told
    order(fleet, digest)
    folder = fleet.database("robot1") / "models"
    name = digest.removeprefix("sha256:")

    def have() -> int:
        return max([one.stat().st_size for one in folder.glob(f"{name}.*")], default=0)

    for number in range(1, 4):
        until(lambda: have() > number * 4 * 2**20, lambda: (fleet.said("robot1"), fleet.said("cloud")))
        if have() == path.stat().st_size:
            break       # it was faster than the cut
        assert not (folder / f"{name}.safetensors").exists()
        if number == 1:
            fleet.relay.cut()
        elif number == 2:
            fleet.end("robot1")
            fleet.edge()
        else:
            fleet.end("cloud")
            fleet.cloud()
    until(lambda: (folder / f"{name}.safetensors").exists(), lambda: fleet.said("robot1"))
    assert digest_of(folder / f"{name}.safetensors") == digest
    # Nobody runs a brain there, which is said; and the cloud has each model once.
    until(lambda: "no brain runs on this robot" in report(fleet).get("why", ""), lambda: report(fleet))
    assert "of which" in verb("models", "add", path, *at(fleet))[1]
    found = json.loads(verb("models", "--json", *at(fleet))[1])["models"]
    assert [one["digest"] for one in found] == [digest]
    # One that nobody has is waited for, and said.
    order(fleet, "sha256:" + "0" * 64, "nobodys")
    until(lambda: "the cloud has no model" in report(fleet, "nobodys").get("why", ""), lambda: report(fleet, "nobodys"))


def test_what_comes_on_the_keys_of_models_is_checked(fleet, tmp_path):
    fleet.cloud()
    fleet.ask("status")
    digest = "sha256:" + "a" * 64
    with open_session(f"tcp/127.0.0.1:{fleet.port}", identity="robot1", more=ZENOH) as session:
        def ask(key: str, payload: bytes, attachment: bytes | None = None) -> str:
            while True:     # until the way to the cloud is known, or the test's time is over
                for reply in session.zenoh.get(key, payload=payload, attachment=attachment, timeout=10.0):
                    assert reply.ok is None, reply.ok.payload.to_bytes()[:200]
                    return reply.err.payload.to_bytes().decode()
                time.sleep(0.02)

        cases = {
            ("brain_fleet/robot1/models", b""): "no JSON", ("brain_fleet/Robot/models", b"{}"): "is no robot's key",
            ("brain_fleet/cloud/models", b"{}"): "is no robot's key", ("brain_fleet/robot1/models", b"[]"): "an object",
            ("brain_fleet/robot1/models", b"x" * 2000): "at most 1000 bytes",
            ("brain_fleet/robot1/models", json.dumps({"digest": "../../etc/passwd"}).encode()): "digest must read",
            ("brain_fleet/robot1/models", json.dumps({"digest": digest, "offset": -1}).encode()): "at least 0",
            ("brain_fleet/robot1/models", json.dumps({"digest": digest, "offset": 1e300}).encode()): "an integer",
            ("brain_fleet/robot1/models", json.dumps({"digest": digest}).encode()): "the cloud has no model",
            ("brain_fleet/robot1/models", json.dumps({"digest": digest, "offset": 5}).encode()): "has no model"}
        cases |= {("brain_fleet/cloud/orders/ann", json.dumps(order).encode()): why for order, why in (
            ({"do": "model_put"}, "digest is missing"), ({"do": "model_put", "digest": "sha256:x"}, "digest must read"),
            ({"do": "model_add"}, "record is missing"), ({"do": "model_add", "record": {"statement": "{}"}}, "missing"),
            ({"do": "rollout"}, "model is missing"),
            ({"do": "rollout", "model": "a", "on": ["Robot"]}, "cannot be called"),
            ({"do": "rollout", "model": "a", "on": ["robot9"]}, "no robot 'robot9' has come yet"),
            ({"do": "rollout", "model": "a"}, "1 canaries are asked for, and 0 of those robots are connected"),
            ({"do": "rollout", "model": "a", "canary": 0, "expect": 7}, "at most 1"),
            ({"do": "rollout", "model": "a", "canary": 0}, "there is no model 'a'"),
            ({"do": "model", "model": "%"}, "no digest"),
            ({"do": "rollback", "region": "x" * 99}, "at most 80 characters"),
            ({"do": "model_put", "digest": digest, "data": ""}, "has no field 'data'"))}
        wrong = {place: told for place, why in cases.items() if why not in (told := ask(*place)) or "\n" in told}
        assert wrong == {}
        put = json.dumps({"do": "model_put", "digest": digest}).encode()
        assert "at most" in ask("brain_fleet/cloud/orders/ann", put, bytes(PIECE + 1))
    assert "Traceback" not in fleet.said("cloud")
    assert list((fleet.database("cloud")).glob("models/*")) == []


@pytest.mark.slow
def test_in_a_secured_fleet_unsigned_models_are_refused_by_cloud_and_robot(fleet, keys, tmp_path, until):
    path = tmp_path / "legs.safetensors"
    digest = make_model(path, 1)
    fleet.secure = keys
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    card = tmp_path / "card.md"
    card.write_text("legs that walk\n")
    secure = ("--secure", keys / "ann.json5")
    assert verb("models", "add", path, "--card", card, *at(fleet), *secure)[0] == 0
    shown = verb("models", "show", digest[7:15], *at(fleet), *secure)[1]
    assert "signed by ann" in shown and "legs that walk" in shown and '"success": 0.9' in shown
    order(fleet, digest)
    until(lambda: (fleet.database("robot1") / "models" / f"{digest[7:]}.safetensors").exists(),
          lambda: (fleet.said("robot1"), report(fleet)))
    fleet.until_said("robot1", "signed by ann")
    # The cloud takes no unsigned one; and where somebody put one into its database, robots refuse it.
    record = state(digest, "motor", path.stat().st_size, "", "", None)
    with pytest.raises(Exception, match="is not signed, and this fleet has keys"):
        fleet.ask("model_add", record=record)
    other = tmp_path / "other.safetensors"
    unsigned = make_model(other, 2)
    fleet.end("cloud")
    with Store(fleet.database("cloud"), "cloud") as store:
        registry = Registry(store)
        registry.put(unsigned, 0, other.read_bytes())
        registry.add(state(unsigned, "motor", other.stat().st_size, "", "", None), "mallory")
    fleet.cloud()
    order(fleet, unsigned)
    told = until(lambda: (one := report(fleet))["state"] == "refused" and one, lambda: report(fleet))
    assert "is not signed, and this fleet has keys: an operator adds it" in told["why"]
    assert not (fleet.database("robot1") / "models" / f"{unsigned[7:]}.safetensors").exists()


def test_a_fetch_that_was_cut_goes_on_though_the_rest_of_it_only_has_room(tmp_path, monkeypatch):
    from brain_edge.models.model_cache import RESERVE

    with Store(tmp_path, "robot1") as store:
        cache = ModelCache(store)
        digest, size, disk = "sha256:" + "a" * 64, 10 * 10**6, RESERVE + 12 * 10**6
        monkeypatch.setattr(cache.blobs, "free", lambda: disk - cache.blobs.have(digest))
        cache.make_room(digest, size, [digest])             # there is room
        cache.blobs.write(digest, 0, bytes(8 * 10**6))      # then the link is cut, and comes back
        cache.make_room(digest, size, [digest])             # 2 MB are missing, 4 MB are free behind the reserve


def test_pieces_that_a_power_cut_has_torn_are_fetched_anew_and_take_nothing_back(tmp_path, until):
    """An order that is `refused` takes the whole roll-out back: what is wrong here is one robot's disk."""
    from brain_cloud.blobs.serving import Serving
    from brain_edge.blobs.carry import MODELS
    from brain_edge.models.fetching import Fetching
    from brain_wire import Session
    from brain_wire.router import Router, free_port

    path, port, states = tmp_path / "w.safetensors", free_port(), []
    digest = big_model(path, 3 * PIECE)
    data = path.read_bytes()
    with Store(tmp_path / "cloud", "cloud") as cloud, Store(tmp_path / "edge", "robot1") as store, \
            Router([f"tcp/127.0.0.1:{port}"], more=ZENOH) as router, Session(router.session, "here") as there, \
            open_session(f"tcp/127.0.0.1:{port}", identity="robot1", more=ZENOH) as session:
        registry = Registry(cloud)
        for place in range(0, len(data), PIECE):
            registry.put(digest, place, data[place:place + PIECE])
        registry.add(state(digest, "motor", len(data), "", "", None), "ann")
        Serving(there, lambda robot: False).collections[MODELS] = registry
        cache = ModelCache(store)
        cache.blobs.write(digest, 0, bytes(PIECE))          # zeros, as a file system leaves behind after a power cut
        fetching = Fetching("robot1", cache, lambda: None, lambda: states.append(fetching.status(digest)["state"]))
        fetching.want({digest: "motor"})
        fetching.link(session)
        until(lambda: states, lambda: fetching.status(digest))
        fetching.again()
        until(lambda: cache.path(digest), lambda: fetching.status(digest))
        fetching.close()
        assert "refused" not in states, states
        assert cache.path(digest).read_bytes() == data
