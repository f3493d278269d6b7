# SPDX-License-Identifier: Apache-2.0
"""The English verbs, by kind, in their base form; inflected here.

``base`` and ``ing`` may command; ``third`` ("goes") and ``past`` are STATE, with the name of the kind as
value.
"""
from __future__ import annotations

from brain_regions.language.lexicon import Kind, Lexicon

MOVES = (
    "swing over|hang out|hang around|come over|drop in|scoot over|go|go 2|goto|head|travel|proceed|navigate|"
    "approach|reach|come|visit|make your way|make it|find your way|"
    "set off|set out|set course|make a beeline|rush|dash|hurry|zoom|speed|sprint|cruise|march|jog|crawl|"
    "glide|wander|stroll|step|position yourself|place yourself|put yourself|park yourself|arrive|"
    "bring yourself|take yourself|get yourself|move yourself|transport yourself|direct yourself|"
    "drive yourself|go see|go and see|go visit|go check|go check out|go look at|go and look at|go meet|"
    "go have a look at|go take a look at|go up|meet|journey|home in|close in|zero in|pull up|draw near|"
    "draw close|draw up|end up|join|pop over|pop round|swing by|stop by|drop by|pass by|go get close|"
    "get near|get close|get closer|get next|get beside|go near|go close|come near|come close|"
    "come closer|move near|move close|move closer|move in|pay a visit|be on your way|turn up|show up|"
    "make for|make tracks|start out|start off|send the robot|drive the robot|move the robot|"
    "take the robot|navigate the robot|bring the robot|steer the robot|guide the robot|get going|"
    "get moving|get over|check out|take the path|take a path|take the route|take a route|"
    "take the shortest path|"
    "take the shortest route|take the shortest way|take the fastest route|take the fastest way|"
    "take the quickest route|take the quickest way|take the direct route|take the direct way|"
    "take the safest route|take the long way|on your way|on the way|en route|work your way|"
    "follow the path|follow a path|roll yourself|wheel yourself|wheel|trundle|scoot|scurry|mosey|trot|"
    "hop|gravitate|progress|continue on|carry on|press on|move ahead|move on|move forward|move forwards|"
    "drive forward|drive on|rendezvous|dock|catch up")
# an object that follows these without a preposition is what would be moved, and that the robot cannot do
MOVES_BARE = (
    "get me|get us|take me|lead me|guide me|escort me|drive me|take us|lead us|bring me|bring us|move|drive|"
    "walk|run|"
    "roll|get|steer|park|shift|relocate|ride|fly|slide|race|return|advance|aim|stand|sail|transfer|"
    "push on|lead")
FINDS = (
    "find|find me|locate|look for|look around for|search|search for|search out|search around for|seek|"
    "seek out|hunt|hunt for|hunt down|track down|spot|discover|detect|scan for|scan the room for|"
    "search the room for|scout for|scout out|explore for|keep an eye out for|be on the lookout for|"
    "find out where|figure out where|see where|show me|show us|pinpoint|trace|uncover|ferret out|"
    "go find|go and find|look out where|chase|pursue|go after|check where|get eyes on|identify|look up|"
    "sniff out|root out|dig up|seek for|until you find|until you see|till you find|until you spot|"
    "until you locate|until you have found|until you've found|have a look for|take a look for|"
    "have a look around for|search everywhere for|look everywhere for")
FINDS_BARE = "scan|explore|check"
AVOIDS = (
    "careful with|careful of|careful around|careful about|avoid|evade|dodge|bypass|skirt|skirt around|"
    "go round|drive round|walk round|move round|get round|"
    "circumvent|sidestep|shun|watch out for|look out for|"
    "beware|beware of|be careful of|be careful with|be careful around|be careful about|be wary of|"
    "be mindful of|mind|be cautious of|be cautious around|detour around|make a detour around|"
    "take a detour around|detour|give a wide berth to|steer around|swerve around|stay off|keep off|"
    "keep out of|stay out of|make way for|work around|go wide of|circle wide around|veer around|"
    "veer off|give way to|keep your hands off|be clear of|maintain distance|maintain a distance|"
    "maintain a safe distance|maintain your distance|maintain clearance|keep distance|keep a distance|"
    "keep your distance|keep a safe distance|keep some distance|keep plenty of distance|"
    "keep a good distance|keep a wide distance|stay distant|leave space around|leave some space around|"
    "leave room around")
STOPS = (
    "stop|halt|freeze|stay|wait|pause|hold|hold on|hold it|hold still|hold up|hold position|"
    "hold your position|hold your horses|stay put|stay still|stay where you are|stay there|stay here|"
    "stay in place|stand still|stand down|remain|remain still|remain where you are|keep still|be still|"
    "brake|hit the brakes|apply the brakes|put on the brakes|slam on the brakes|abort|cancel|quit|cease|"
    "desist|terminate|hang on|come to a stop|come to a halt|come to rest|make a stop|come to a standstill|"
    "emergency stop|emergency halt|full stop|whoa|no further|standstill|suspend|stop right there|"
    "stop where you are|cut it out|stop it|stop that|stop this|stop everything|stop the robot|"
    "stop the motors|stop the motor|stop the car|stop the machine|stop the movement|stop all movement|"
    "stop all motion|halt the robot|kill the motors|rest|be motionless|stay motionless|"
    "remain motionless|stop dead|enough|far enough|that's far enough|knock it off|that's enough|"
    "that is enough|discontinue|end it|finish")
TOUCHES = (
    "touch|hit|clip|bump|bump into|bump against|collide with|crash into|crash|run into|drive into|contact|"
    "make contact with|come into contact with|strike|graze|brush|brush against|scrape|ram|run over|"
    "knock over|knock|knock down|disturb|bother|nudge|cross|enter|pass|cross paths with|"
    "come in contact with|get in contact with|tread on|step on|interact with|get in the way of|"
    "brush past")
OTHERS = (
    "pick|pick up|lift|carry|push|pull|kick|throw|catch|grab|grasp|fetch|drop|put|open|close|eat|drink|"
    "buy|sell|paint|draw|wash|clean|break|destroy|cut|cook|give|hand|hand me|bring|bring back|take|"
    "steal|count|describe|name|tell|explain|read|write|print|play|play with|sing|dance|jump|fight|shoot|"
    "photograph|take a picture of|film|record|sort|stack|collect|gather|deliver|drag|tow|spin|rotate|"
    "turn|face|look at|watch|stare at|point at|point to|inspect|examine|observe|circle|circle around|"
    "orbit|follow|climb|hide|hide behind|go get|go fetch|go and get|come back|go back|imagine|make|"
    "build|create|remove|delete|replace|squeeze|shake|compare|choose|pick out|select|measure|call|"
    "attack|smash|hug|kiss|guard|protect|get rid of|pick me|send|send me|show off")
KEEPS = "keep|leave|give"
STATES = "see|sees|saw|seen|seeing|have|like|likes|liked|love|want|wants|wanted"

_DOUBLED = frozenset("stop get hit run swim cut quit put sit step spin grab pop bypass hop drop jog trot dig"
                     " ram spot scan hug scrap skip hum swing".split()) - {"bypass", "swing"}
_PAST = {"go": "went", "come": "came", "get": "got", "find": "found", "seek": "sought", "make": "made",
         "take": "took", "drive": "drove", "run": "ran", "bring": "brought", "lead": "led", "meet": "met",
         "keep": "kept", "give": "gave", "hold": "held", "freeze": "froze", "stand": "stood",
         "see": "saw", "tell": "told", "say": "said", "buy": "bought", "eat": "ate", "throw": "threw",
         "break": "broke", "fly": "flew", "ride": "rode", "sit": "sat", "hide": "hid", "sing": "sang"}


def _ing(verb: str) -> str:
    first, _, rest = verb.partition(" ")
    if first in _DOUBLED:
        first += first[-1]
    elif first.endswith("ie"):
        first = first[:-2] + "y"
    elif first.endswith("e") and not first.endswith(("ee", "be")):
        first = first[:-1]
    return f"{first}ing {rest}".strip()


def _stating(verb: str) -> tuple[str, str]:
    """Third person and past."""
    first, _, rest = verb.partition(" ")
    third = first + ("es" if first.endswith(("s", "sh", "ch", "x", "o")) else "s")
    if first.endswith("y") and first[-2] not in "aeou":
        third = first[:-1] + "ies"
    past = _PAST.get(first) or (first + "d" if first.endswith("e") else
                                first + first[-1] + "ed" if first in _DOUBLED else first + "ed")
    return f"{third} {rest}".strip(), f"{past} {rest}".strip()


def _verbs(words: Lexicon, verbs: str, kind: Kind, value: str = "") -> None:
    for verb in verbs.split("|"):
        words.add(verb, kind, value, "base")
        words.add(_ing(verb), kind, value, "ing")
        third, past = _stating(verb)
        words.add(third, Kind.STATE, kind.name, "third")
        words.add(past, Kind.STATE, kind.name, "past")


def fill(words: Lexicon) -> None:
    """Adds the verbs. Earlier additions win where one spelling has two uses."""
    words.add_all(STATES, Kind.STATE)
    for verbs, kind, value in (
            (STOPS, Kind.STOP, ""), (KEEPS, Kind.KEEP, ""), (AVOIDS, Kind.AVOID, ""), (FINDS, Kind.FIND, ""),
            (FINDS_BARE, Kind.FIND, "bare"), (MOVES, Kind.MOVE, ""), (MOVES_BARE, Kind.MOVE, "bare"),
            (TOUCHES, Kind.TOUCH, ""), (OTHERS, Kind.OTHER, "")):
        _verbs(words, verbs, kind, value)
