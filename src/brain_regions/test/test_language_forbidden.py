# SPDX-License-Identifier: Apache-2.0
"""What is excepted or forbidden is not gone to."""
import pytest

from brain_regions.language import weights
from brain_regions.language.decode import decode, framed, spell
from brain_regions.language.network import SpikingReader

FORBIDDEN = ("go to any ball but the red one", "go to any box except the blue one", "go to anything but the red ball",
             "go to the box that isn't blue", "find something that isnt blue", "find a non-red ball",
             "赤い玉さ行ぐな", "青い箱さ行ぐでねえ", "緑の筒さ行っでわがんね", "赤い玉に行かんとって",
             "赤いボールに行きなや", "赤いボールに行っちゃいけん")


@pytest.fixture(scope="module")
def reader():
    return SpikingReader(weights.load(weights.SHIPPED, SpikingReader)[0])


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_is_excepted_or_forbidden_is_not_gone_to(reader, text):
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why is not None, meant.slots


@pytest.mark.parametrize("text", ("not the blue box but the red ball, please", "go to the red ball, not the blue one",
                                  "instead of the blue box go to the red ball", "青い箱じゃなくて赤い玉のほうに行って"))
def test_what_is_named_in_passing_hinders_nothing(reader, text):
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why is None and meant.slots[1:] == (1, 1, 0, 0)
