# SPDX-License-Identifier: Apache-2.0
"""The experiment of joint inference at its smallest: networks, the rule and its controls, the regions, a picture."""
import json
import math

import pytest

from brain_regions.vision.asking import Rules
from brain_regions.vision.decode import Found
from brain_training.vision_data import Way
from experiments.joint import Course, Eyes, Joint, chosen, gain, told

BALL = Found(0, 0, 0.9, 0.1, 2.0, 0.2)


@pytest.mark.extended
def test_all_of_it_comes_about_and_lost_answers_leave_what_the_small_one_sees(tmp_path):
    course = Course(robots=2, rooms=1, clips=2, steps=2, batch=1, held=1, way=6)
    found = json.loads(json.dumps(Joint().of_course(course, tmp_path)))
    assert [one["lost"] for one in found["links"]] == [0.0, 0.5, 1.0] and set(found["curves"]) == {
        "rule", "carried chance", "single", "chance"}
    small = next(one for one in found["alone"] if one["name"] == "small")
    assert found["links"][2]["f1"] == pytest.approx(small["f1"], abs=1e-6)      # regions, and networks by themselves
    assert found["links"][2]["wait_most"] < 0.2 and found["links"][0]["counts"]["missed"] == 0
    kept = {path: path.read_bytes() for path in tmp_path.glob("*.safetensors")}
    assert len(kept) == 2
    again = Joint().of_course(course, tmp_path)
    assert again["alone"] == found["alone"] and kept == {path: path.read_bytes() for path in kept}
    Joint().draw(tmp_path / "joint.png", found)
    header = (tmp_path / "joint.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") > 700


def test_who_asks_about_everything_is_told_what_the_large_one_sees():
    way = Way(None, [[]] * 4, [(0.0, 0.0, 0.0)] * 4)
    eyes = Eyes([way], [[[BALL]] * 4], [[[BALL]] * 4], [[[BALL._replace(color=2)]] * 4])
    seen, share = told(eyes, Rules(share=1.0, rate=1e3, carry=0.0), lambda all_: True)
    assert share == 1.0 and seen == [eyes.large[0]]
    seen, share = told(eyes, Rules(share=1.0, carry=0.6), lambda all_: True)
    assert share == 0.25 and [[one.color for one in picture] for picture in seen[0]] == [[2]] * 4
    assert told(eyes, Rules(), lambda all_: False) == ([eyes.own[0]], 0.0)


def test_the_bound_is_the_best_of_those_that_ask_seldom_enough():
    curve = [{"share": 0.5, "f1": 0.9}, {"share": 0.15, "f1": 0.8}, {"share": 0.1, "f1": 0.7}]
    assert chosen(curve)["share"] == 0.15 and chosen(curve[:1])["share"] == 0.5
    assert gain(0.8, 0.6, 1.0) == pytest.approx(0.5) and math.isnan(gain(0.8, 0.6, 0.6))
