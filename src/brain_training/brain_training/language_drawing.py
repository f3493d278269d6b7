# SPDX-License-Identifier: Apache-2.0
"""Draws sentences from the rules of :mod:`.language_phrases`."""
from __future__ import annotations

import random

from brain_regions.language.understanding import Verb
from brain_training.language_phrases import Part, Rules, Sentence, Thing, rules

APART = ("Tc", "Ts", "Thue", "Ac", "As", "Ahue")    # only the color or the shape of the target, or of what is avoided


class _Draw:
    """One sentence in the making."""

    def __init__(self, of: Rules, rng: random.Random, correction: bool) -> None:
        self.of, self.rng = of, rng
        self.parts: list[Part] = []
        self.inherited = 0
        target = self._thing(lambda t: t.color or not correction)
        self.things = {"T": target, "T2": target, "A": self._thing(lambda t: not t.covers(target)),
                       "U": self._thing(lambda t: not t.fits(target)), "B": self._thing(), "t": target}
        other = self._thing(lambda t: not t.fits(target))
        self.things |= {"N": other, "n": other, "N2": self._thing(lambda t: not t.fits(other)), "V": self._thing(
            lambda t: not t.fits(target))}
        self.things["B"] = self._thing(lambda t: not t.fits(self.things["A"]))
        if correction and not target.shape:     # "the red ball, no, the blue one": the blue ball
            self.inherited = other.shape
        if rng.random() < 0.3 and target.color and target.shape:    # only its color is said again, or only its shape
            self.things["T2"] = Thing(target.color, 0) if rng.random() < 0.5 else Thing(0, target.shape)
        self.things |= {"a": self.things["A"], "M": self.things["N2"]}
        self.used: set[str] = set()
        self.said: dict[str, set[str]] = {"T": set(), "A": set()}   # what of a thing is said apart

    def _thing(self, good=lambda thing: True) -> Thing:
        while True:
            said = self.rng.random()
            color = 0 if said < 0.15 else self.rng.randint(1, 4)
            shape = 0 if 0.15 <= said < 0.3 else self.rng.randint(1, 3)
            if good(Thing(color, shape)):
                return Thing(color, shape)

    def expand(self, name: str, action: str | None = None, role: str | None = None, thing: Thing | None = None) -> None:
        """Adds what a rule makes."""
        action = self.of.actions.get(name, action)
        for literal, place, chance in self.of.rules[name].draw(self.rng):
            if literal:
                self.parts.append(Part(literal, action))
            if place is None or chance < 100 and self.rng.random() * 100 >= chance:
                continue
            if place in APART and thing is None:
                self._say_apart(place)
            elif place in self.things and thing is None:
                self.name(place)
            elif place in self.of.colors or place in self.of.shapes or place in ("C2", "Ss"):
                self._word(place, role, thing)
            else:
                self.expand(place, action, role, thing)

    def name(self, place: str) -> None:
        """Adds the name of a thing."""
        thing = self.things[place]
        role = "T" if place in ("T", "t", "T2", "U", "V") else "A" if place in ("A", "a", "B") else "N"
        self.used.add("A" if place == "a" else place)
        self.said.setdefault(role, set()).add("whole")
        kind = "_" + ("c" if thing.color else "") + ("s" if thing.shape else "")
        bare = "bare" if place in ("t", "n", "a") else "thing"
        form = "avoid" if role == "A" and bare == "thing" and "avoid" + kind in self.of.rules else bare
        self.expand(form + kind, None, role, thing)

    def _say_apart(self, place: str) -> None:
        """Adds only the color or only the shape of a thing; whether it has them is left to :meth:`whole`."""
        which, word = place[0], place[1:]
        self.used.add(which)
        self.said[which].add("S" if word == "s" else "C")
        if word == "c" and "C_root" in self.of.colors:
            word = "root"
        thing = self.things[which]
        has = thing.shape if word == "s" else thing.color
        self._word({"s": "S", "c": "C", "hue": "C_hue", "root": "C_root"}[word], which, thing if has else None)

    def whole(self, which: str) -> Thing | None:
        """A thing as far as it was said; None: what was said apart is more than it has."""
        thing, said = self.things[which], self.said[which]
        if "C" in said and not thing.color or "S" in said and not thing.shape:
            return None
        if not said or "whole" in said:
            return thing
        return Thing(thing.color if "C" in said else 0, thing.shape if "S" in said else 0)

    def _word(self, place: str, role: str | None, thing: Thing | None) -> None:
        plural = place == "Ss"
        place = {"C2": "C", "Ss": "S"}.get(place, place)
        if place in self.of.colors:
            color = thing.color if thing else self.rng.randint(1, 4)
            word = self.of.colors[place][color].draw(self.rng)
            self.parts.append(Part(word, None, role or "N", color, 0))
            return
        shape = thing.shape if thing and thing.shape else self.rng.randint(1, 3)
        role = "T" if self.inherited == shape and role == "N" else role
        word = self.of.shapes[place][shape].draw(self.rng)
        if plural:
            word += "es" if word.endswith(("x", "s", "ch")) else "s"
        self.parts.append(Part(word, None, role or "N", 0, shape))


def draw(language: str, rng: random.Random) -> Sentence:
    """A random sentence of a language (``en`` or ``ja``), as normalization and folding leave it."""
    return draw_from(rules(language), rng)


def draw_from(of: Rules, rng: random.Random, start: tuple[Verb, str] | None = None) -> Sentence:
    """A random sentence of some rules.

    Args:
        start: what it asks for, and the rule where it starts; None: one of those that the rules start with.
    """
    verb, rule = start or of.starts.draw(rng)
    understood = verb in (Verb.GO, Verb.FIND)
    while True:
        made = _Draw(of, rng, rule.endswith("_fix"))
        made.expand(rule)
        target, avoid = made.whole("T"), made.whole("A")
        if target is not None and avoid is not None and not (understood and "A" in made.used and avoid.covers(target)):
            break
    target = target if understood else Thing(0, 0)
    if understood and not target.shape:
        target = Thing(target.color, made.inherited)
    avoid = avoid if understood and "A" in made.used else Thing(0, 0)
    return Sentence(_tidy(made.parts), verb, target, avoid, rule)


def _tidy(parts: list[Part]) -> list[Part]:
    """Without spaces that are too many: at the ends, after another, before a mark; without marks at the start."""
    tidy: list[Part] = []
    before = " "
    for part in parts:
        kept = ""
        for letter in part.text:
            if letter == " " and before == " " or letter in ",.!?" and not (tidy or kept):
                continue
            if letter in ",.!?" and before == " ":
                if kept:
                    kept = kept[:-1]
                else:
                    tidy[-1] = tidy[-1]._replace(text=tidy[-1].text[:-1])
            kept += letter
            before = letter
        if kept:
            tidy.append(part._replace(text=kept))
    while tidy and not tidy[-1].text.rstrip(" "):
        tidy.pop()
    if tidy:
        tidy[-1] = tidy[-1]._replace(text=tidy[-1].text.rstrip(" "))
    return tidy
