# SPDX-License-Identifier: Apache-2.0
"""Things of a household are taught by ten pictures each, and found by the same camera in other places."""
import json
import math
import time

import numpy as np
import pytest
from PIL import Image

from brain_regions.vision import Vision, taught, weights
from brain_regions.vision.network import Looking
from brain_runtime.contract.taught import FIRST, file, names
from brain_tests.household import THINGS, shot
from brain_tests.in_process import brain
from brain_training.vision_data import usual

NUMBERS = dict(zip(THINGS, range(FIRST, FIRST + len(THINGS))))
NOTHING = np.zeros(0)
LEAST = 14              # columns of a picture, from which on a thing is asked for


def shots(name, number, seed, *, middle):
    """Pictures of a thing by the simulator's own camera that show enough of it."""
    found, rng = [], np.random.default_rng([seed, number, NUMBERS[name], middle])
    while len(found) < number:
        one = shot(THINGS[name](), rng, middle=middle, eye=usual()[0])
        found += [one] if one.columns >= LEAST else []
    return found


@pytest.fixture(scope="module")
def looking():
    return Looking(weights.load().tensors)


@pytest.fixture(scope="module")
def examples(looking):
    found = {NUMBERS[name]: [taught.example(looking, one.picture) for one in shots(name, 10, 0, middle=True)]
             for name in THINGS}
    return {number: [one for one in its if one is not None] for number, its in found.items()}


@pytest.mark.slow
def test_they_are_found_in_other_places_among_other_things(looking, examples):
    assert all(len(its) >= 8 for its in examples.values())
    made = taught.Taught(looking, examples)
    right, false, asked = dict.fromkeys(THINGS, 0), 0, 20
    for name in THINGS:
        for one in shots(name, asked, 1, middle=False):
            state = looking.rest()
            for _ in range(taught.LOOKS):
                seen = looking.look(one.picture, state, taught.STEPS)
                state = seen.state
            found = made.find(taught.Looked(one.picture, taught.rates(seen.trains), state["u"].T), one.height)
            hits = [thing for thing in found if thing.shape + 1 == NUMBERS[name]
                    and abs(thing.bearing - one.bearing) < max(math.radians(5.0), thing.width / 2)]
            right[name] += bool(hits)
            false += len(found) - len(hits)
    print(right, false, asked)
    # each of the heads looks at each of the pictures
    assert sum(right.values()) > 0.75 * asked * len(THINGS) and false < 0.15 * asked * len(THINGS) ** 2


def test_a_thing_that_was_taught_by_another_name_is_known_again(looking, examples):
    number = NUMBERS["mug"]
    assert taught.taken_for(looking, examples[number], {number: examples[number]}) == number
    assert taught.taken_for(looking, examples[NUMBERS["plant"]], {number: examples[number]}) is None


@pytest.mark.slow
def test_the_command_teaches_and_a_vision_that_runs_learns_it(tmp_path, monkeypatch):
    here = {"XDG_STATE_HOME": str(tmp_path / "state")}
    monkeypatch.setenv("XDG_STATE_HOME", here["XDG_STATE_HOME"])

    def teach(*words):
        return brain("teach", *words, environment=here)

    folder = tmp_path / "pictures"
    folder.mkdir()
    assert "nothing was taught" in teach().stdout
    assert "knows already (shape)" in teach("box", "--pictures", str(folder)).stderr
    assert "no pictures that can be read" in teach("mug", "--pictures", str(folder)).stderr
    (folder / "none.png").write_bytes(b"none")
    # level pictures of the usual camera, as one of 120 degrees would have them in their middle
    for number, one in enumerate(shots("mug", 8, 2, middle=True)):
        Image.fromarray(one.picture).save(folder / f"{number}.png")
    told = teach("mug", "--pictures", str(folder), "--view", "120", "--json")
    assert told.returncode == 0, told
    assert "none.png is skipped" in told.stderr
    assert json.loads(told.stdout)["name"] == "mug" and names() == {FIRST: "mug"}
    before = file().read_bytes()
    few = tmp_path / "few"
    few.mkdir()
    Image.fromarray(one.picture).save(few / "one.png")
    assert "1 pictures of mug, and 5 are needed" in teach("mug", "--pictures", str(few)).stderr
    monkeypatch.setattr("brain.teach.AGAIN", 1.1)       # whatever it is shown, it is not found again often enough
    told = teach("mug", "--pictures", str(folder), "--view", "120")
    assert told.returncode == 1 and "so it is not taught" in told.stderr
    assert file().read_bytes() == before        # what was taught before is not lost

    region, bare = Vision("vision"), Vision("vision")
    region.storage = tmp_path       # it keeps a state; the other one runs in lockstep
    for one in (region, bare):
        one.configure({})
    end = time.monotonic() + 120.0
    while not region._taught._taught and time.monotonic() < end:
        region._taught.find(NOTHING, (), NOTHING, 0.35)
        time.sleep(0.05)
    assert region._taught._taught.heads and bare._taught.find(NOTHING, (), NOTHING, 0.35) == []
    assert teach().stdout.strip() == "mug" and "forgotten" in teach("mug", "--forget").stdout
    assert names() == {} and "was not taught" in teach("mug", "--forget").stderr
