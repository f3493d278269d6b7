# SPDX-License-Identifier: Apache-2.0
"""The English words but for verbs, by kind, spelled as normalization leaves them: hyphens are spaces."""
from __future__ import annotations

from brain_regions.language import verbs_english
from brain_regions.language.lexicon import (
    COLOR_BLUE, COLOR_GREEN, COLOR_RED, COLOR_YELLOW, SHAPE_BALL, SHAPE_BOX, SHAPE_CYLINDER, Kind, Lexicon)

COLORS = {
    COLOR_RED: "red|reddish|scarlet|crimson|vermilion|ruby",
    COLOR_GREEN: "green|greenish|emerald|lime",
    COLOR_BLUE: "blue|bluish|azure|navy|cobalt|sapphire",
    COLOR_YELLOW: "yellow|yellowish|lemon",
}
OTHER_COLORS = (
    "orange|purple|violet|pink|black|white|gray|grey|brown|cyan|magenta|turquoise|teal|golden|silver|"
    "beige|maroon|indigo|tan|ivory|olive|mauve|lilac|bronze")
NOUNS = {
    SHAPE_BALL: "ball|sphere|orb|globe|spheroid",
    SHAPE_BOX: "box|cube|crate|block|cuboid|carton|parcel|package|square|chest|brick",
    SHAPE_CYLINDER: "cylinder|can|tube|pillar|column|tin|canister|barrel|drum|pipe|post|pole|tin can",
}
HINTS = {
    SHAPE_BALL: "round|spherical|ball like|globular|circular",
    SHAPE_BOX: "cubic|cubical|boxy|box like|rectangular|cuboidal",
    SHAPE_CYLINDER: "cylindrical|tubular|cylinder like",
}
BARRIERS = (
    "anything|everything|anyone|obstacle|obstruction|wall|collision|other object|other thing|"
    "anything else|everything else|any object|any other object|any obstacle|all obstacles|any obstacles|"
    "hazard|barrier|all other objects|the others|the rest|any of the objects|something|any wall|"
    "any walls|trouble|any collision|any collisions|danger|bump|all the obstacles|other stuff|stuff|"
    "things|the other objects|the other things|anybody|nothing|any contact|contact|everywhere")
THINGS = "one|thing|object|item|figure|whatever|whichever"
WORDS: list[tuple[Kind, str, str]] = [
    (Kind.BE, "", (
        "is|are|be|was|were|am|been|lies|stands|sits|sit|is located|is standing|is lying|"
        "is situated|is placed|is sitting|is found")),
    (Kind.REQUEST, "", (
        "be a dear and|be a pal and|be nice and|be kind and|be so good as to|we need you|we want you|"
        "we need you over|i need you over|i want you over|i wish you|"
        "i wish that you|my wish is that you|i hope you|i'd rather you|i would rather you|"
        "i'd prefer you|rather you|"
        "please|pls|plz|kindly|can you|could you|would you|will you|can u|could u|would u|will ya|would ya|"
        "can ya|could ya|"
        "would you mind|do you mind|would you be able to|are you able to|would you be so kind as to|"
        "would you be so kind to|would you kindly|you to|it is important that you|"
        "it's important that you|you should|you must|you need to|you have to|you ought to|you shall|"
        "you will|you'll|you are to|you're to|you can|you could|you may|you might|you would|"
        "you might want to|you better|you'd better|you had better|you are supposed to|you've got to|"
        "you gotta|you got to|you are going to|you're going to|you're gonna|if you could|if you would|"
        "it if you could|it if you would|it if you can|if you can|if you don't mind|"
        "if you wouldn't mind|if possible|if you please|if you want|if that's ok|if it's ok|if it is ok|"
        "if it isn't too much trouble|if it's not too much trouble|if you like|be so kind as to|"
        "be so kind and|be kind enough to|be good enough to|can we|could we|see you|be happy if you|"
        "be glad if you|be nice if you|be great if you|be good if you|appreciate it if you|"
        "love it if you|like it if you|grateful if you|be lovely if you|prefer if you|prefer it if you|"
        "be best if you|be better if you|let's|lets|let us|why don't you|why not|why don't we|shall we|"
        "we should|we need to|we have to|we must|how about you|how about|what about|what if you|"
        "do me a favor and|do me a favour and|do me a favor|do me a favour|i want you|i need you|"
        "i'd like you|i would like you|help me|help me to|help us|help us to|go ahead and|go on and|"
        "make sure to|make sure you|make sure that you|make sure|be sure to|be sure you|be sure|ensure|"
        "ensure you|ensure that you|see to it that you|remember to|don't forget to|do not forget to|"
        "try to|try and|try|attempt to|manage to|see if you can|see whether you can|feel free to|start|"
        "start by|start to|begin|begin by|begin to|continue|continue to|it's time to|it is time to|"
        "time to|i said|i repeat|i want to see you|let me see you|can the robot|could the robot|"
        "the robot should|the robot must|the robot has to|the robot needs to|robot should|robot must|"
        "the robot shall|the robot is to|have the robot|tell the robot to|make the robot|"
        "ask the robot to|get the robot to|let the robot|i want the robot to|i'd like the robot to|"
        "i would like the robot to|i need the robot to|may i ask you to|can't you|couldn't you|"
        "won't you|wouldn't you|would it be possible to|would it be possible for you to|"
        "is it possible to|is it possible for you to|hurry up and|hurry and|quick and|get ready to|"
        "be ready to|prepare to|mind you|would you please|can you please|could you please|"
        "will you please|i ask that you|i suggest you|i suggest that you|i request that you|"
        "i insist that you|use your camera to|use your sensors to|you just|you only need to|"
        "all you need to do is|all you have to do is|what i want is for you to|the plan is to|"
        "the idea is to|your orders are to|go straight and|turn and|turn around and|look around and|"
        "while you|as you|take care to|take care")),
    (Kind.YOU, "", (
        "you|yourself|robot|the robot|robo|bot|machine|dear robot|little robot|mr robot|hey robot|"
        "ok robot|hello robot|u|buddy|pal|friend|my friend|dude|mate|man|sir|boy|good boy|good robot|"
        "rover|assistant|computer|brain")),
    (Kind.WHO, "", (
        "i|we|he|she|they|i'm|i'd|i'll|i've|we're|we'll|we've|he's|she's|they're|someone|somebody|who|"
        "people|everybody|everyone|his|her|their|him|myself|am i|should i|may i|can i|could i|"
        "do i|did i|shall i|must i|will i|should we|do we|did we|are we|if i")),
    (Kind.ASK, "", (
        "what|what's|whats|where|where's|wheres|why|which|how|how many|how far|how big|whose|whom|"
        "do you|do you want to|did you|have you|has|are you|were you|is there|are there|does|did|is it|"
        "was it|do|would you like|would you like to|do you like|can you see|can you tell|is that|"
        "is this|could it|can it|had|having|don't you|didn't you|haven't you|doesn't|didn't|aren't you|"
        "isn't it|how come|what if|what color|which color")),
    (Kind.CONDITION, "", (
        "if|when|whenever|unless|until|till|once|after|as soon as|in case|provided|assuming|because|"
        "although|as long as|before|whether|the moment|otherwise")),
    (Kind.SEEN, "", (
        "if you see|when you see|once you see|if you find|when you find|once you find|if you spot|"
        "when you spot|if there is|if there's|there is|there's|you see|do you see|i see|"
        "i can see|there are|as soon as you see|as soon as you find|there should be|there must be|"
        "somewhere there is|here is|here's|if you meet|when you meet|if you come across|"
        "when you come across|should you see|if you encounter|you know|do you know|you remember|"
        "i know there is|you will see|you'll see|you can see|if you happen to see|in case you see|"
        "if you notice|you'll find|you will find")),
    (Kind.AIM, "", (
        "your goal|the goal|goal|new goal|your target|the target|target|new target|your destination|"
        "the destination|destination|new destination|your objective|the objective|objective|"
        "your mission|the mission|your task|the task|task|your job|the job|job|your aim|next target|"
        "next goal|next destination|next task|next stop|the next target|the next goal|the next stop|"
        "the next destination|your next target|your next goal|your next destination|your next task|"
        "your next stop|your current target|your new target|your new goal|your new destination|"
        "your assignment|my command|my order|your order")),
    (Kind.ITS, "", (
        "it|there|over there|them|that place|that direction|its location|its position|thereto|"
        "that object|that thing|that one|this one|those|the same|this object|this thing")),
    (Kind.TO, "to", (
        "to|towards|toward|up to|over to|onto|into|at|for|in the direction of|all the way to|"
        "straight to|straight for|right up to|right to|directly to|down to|across to|on to|over towards|"
        "over toward|unto|forward to|back to|on over to|straight towards|straight toward|on towards|"
        "off to|out to|through to|till you reach|until you reach|until you get to|until you are at|"
        "until you're at|until you arrive at|until you come to|as far as|as close as possible to|"
        "as close as you can to|as near as possible to|within reach of|within half a meter of|"
        "within a meter of|within range of|so that you are at|so you are at|close up to")),
    (Kind.NEAR, "", (
        "near|near to|by|beside|next to|close to|closer to|alongside|in front of|right in front of|"
        "just in front of|directly in front of|around|nearby|right by|right next to|just next to|behind|"
        "opposite|across from|under|on|in|inside|within|with|left of|right of|to the left of|"
        "to the right of|adjacent to|on top of|at the side of|against|beneath|below|above|"
        "to the side of|on the side of|beyond|outside|in the vicinity of|in the neighborhood of|"
        "nearest to|anywhere near|too near|too close to|any closer to|any nearer to|anywhere close to|"
        "so close to|as near to|among|amongst|upon|right beside|not far from|wherever|on the left of|"
        "on the right of|to the front of|in the presence of")),
    (Kind.FROM, "source", "from|out of|starting from|coming from|starting at|off"),
    (Kind.FROM, "away", (
        "away from|far from|far away from|clear of|well clear of|well away from|at a distance from|"
        "at a safe distance from|distant from|wide of|a distance from|a safe distance from|"
        "distance from|your distance from|far off from|well wide of|free of|out of the way of|"
        "in the opposite direction of|in the opposite direction from|in the opposite direction to|"
        "the opposite direction of|the opposite direction from|the opposite direction to|the opposite way of|"
        "the opposite way from|the opposite way to|the other way from|"
        "out of reach of|clear from|further from|a good distance from|some distance from|"
        "the heck away from|the hell away from")),
    (Kind.PAST, "around", "round about|all around"),
    (Kind.PAST, "past", (
        "past|via|through|across|over|between|along|by way of|straight through|in between")),
    (Kind.OF, "", "of|whose"),
    (Kind.RELATIVE, "", (
        "that is|that's|thats|that are|which is|which are|who is|that looks|that has|which has|"
        "that have|which|that was|it should be|it must be|it has to be|it needs to be|it will be|"
        "it ought to be|painted|dyed|in color|it's|it is|they're")),
    (Kind.INSTEAD, "", (
        "instead of|rather than|as opposed to|other than|ignore|ignoring|forget about|forget|never mind|"
        "any but|anyone but|anything but|anywhere but|everywhere but|excluding|aside from|"
        "disregard|disregarding|unlike|in place of|besides|not to be confused with|leaving out|skip|"
        "skipping|except|except for|apart from|leaving aside|no longer")),
    (Kind.NOT, "", (
        "no more|not|don't|dont|do not|donot|don t|do nt|non|wouldnt|wont|"
        "shouldnt|mustnt|dont't|don't't|isnt|arent|wasnt|aint|ain't|neednt|no way|no chance|not a chance|"
        "i don't think so|i'd rather you didn't|absolutely not|certainly not|definitely not|of course not|"
        "isn't|aren't|wasn't|weren't|nobody|no one|noone|"
        "forbid|forbids|forbade|prohibit|prohibits|hate|dislike|doubt|bad if you|bad idea if you|"
        "wrong if you|hate it if you|dislike it if you|terrible if you|mad if you|angry if you|upset if you|"
        "sad if you|worse if you|dangerous if you|unhappy if you|annoyed if you|a mistake if you|"
        "not like it if you|"
        "hardly|scarcely|barely|rarely|seldom|"
        "never|never ever|must not|mustn't|should not|shouldn't|cannot|can not|"
        "can't|cant|without|without ever|no|nor|neither|refrain from|under no circumstances|in no case|"
        "on no account|not allowed to|not to|keep from|may not|not ever|by no means|be careful not to|"
        "don't you|won't|wouldn't|don't ever|do not ever|don't you dare|not permitted to|forbidden to|"
        "forbidden from|prohibited from|so as not to|in order not to|you must not|you mustn't|"
        "you should not|you shouldn't|you may not|you can't|you cannot|try not to|make sure not to|"
        "make sure you don't|make sure you do not|be sure not to|take care not to|careful not to|"
        "ensure you don't|ensure you do not|make sure you never|don't even think about|"
        "don't think about|don't think of|don't even think of|don't dare|don't dare to|"
        "don't you dare to|do not even think about|not even think about|don't try to|don't attempt to|"
        "don't let yourself|no need to|needn't|need not|don't need to|don't have to|stop yourself from|"
        "resist")),
    (Kind.OUT, "", (
        "off limits|is off limits|is forbidden|is prohibited|is dangerous|is a no go|is not allowed|"
        "is taboo|is hot|is to be avoided|should be avoided|must be avoided|has to be avoided|"
        "needs to be avoided|that must be avoided|which must be avoided|"
        "are off limits|are dangerous|are forbidden|must not be touched|should not be touched|"
        "must not be approached|should not be approached|is an obstacle|is fragile|is not safe|"
        "is unsafe|is poison|is poisonous|is lava|is bad|must not be hit|is to be left alone|"
        "is not to be touched|is not to be approached|can't be touched|is hazardous|is a hazard")),
    (Kind.APART, "", (
        "at a distance|alone|a wide berth|wide berth|plenty of space|some space|space|plenty of room|"
        "some room|room|at bay|at arm's length|far away|at a safe distance|out of your way|"
        "out of the way|away|clear|lots of space|lots of room|a lot of space|enough room|enough space|"
        "a miss|in peace|untouched|undisturbed|well away|well alone|be|a wide margin|well clear")),
    (Kind.AND, "and", "and|and also|as well as|plus|along with|and be sure to|together with"),
    (Kind.AND, "then", (
        "then|and then|afterwards|after that|and after that|followed by|next|and next|finally|"
        "and finally")),
    (Kind.AND, "or", "or|or else|either|or maybe|or perhaps"),
    (Kind.AND, "but", (
        "but|but rather|however|though|but only|yet|but instead|but just|just make sure|on the condition")),
    (Kind.AND, "while", (
        "while|whilst|all the while|at the same time|by|also|while also|and while|thereby|thus|"
        "taking care|being sure|making sure|making sure you|making sure to|so|so that")),
    (Kind.HUE, "", "color|colour|colored|coloured|colors|colours|hue|tinted|toned|in colour|hued"),
    (Kind.SHAPED, "like", (
        "shaped like a|shaped like an|in the shape of a|in the form of a|with the shape of a|"
        "that looks like a|which looks like a|looking like a")),
    (Kind.SHAPED, "", "shaped|shape|formed"),
    (Kind.DETERMINER, "", (
        "the|a|an|that|this|some|my|your|our|its|these|any|another|one of the|one of|certain")),
    (Kind.MODIFIER, "", (
        "big|large|small|little|tiny|huge|tall|short|long|wide|narrow|high|low|nearest|closest|near|"
        "nearby|other|old|new|nice|pretty|beautiful|shiny|bright|dark|light|deep|pale|vivid|pure|plain|"
        "solid|wooden|metal|plastic|rubber|cardboard|glass|paper|steel|heavy|hollow|empty|visible|first|"
        "second|last|single|lovely|cute|famous|said|particular|specific|only|lone|same|correct|right|"
        "real|smooth|soft|hard|striking|ordinary|standing|lying|hidden|giant|medium|sized|medium sized|"
        "nasty|evil|ugly|stupid|damn|bloody|awesome|gorgeous|brilliant|strange|weird|dull|matte|glossy|"
        "far|distant|farthest|furthest|mysterious|brightly|remaining|biggest|largest|smallest|tallest|"
        "leftmost|rightmost|dangerous|fat|thin|toy|painted|scary|precious|fragile")),
    (Kind.MANY, "", (
        "both|two|three|four|five|all|all the|all of the|every|each|each of the|many|several|"
        "both of the|2|3|4|5")),
    (Kind.PLACE, "", (
        "side|corner|room|left|right|front|back|rear|end|middle|center|centre|floor|ground|area|arena|"
        "place|spot|location|position|vicinity|direction|house|kitchen|hall|hallway|window|door|table|"
        "shelf|north|south|east|west|ahead|base|edge|surface|neighborhood|space|point|foot|surroundings|"
        "maze|lab|office|garden|building|map|zone|whereabouts|coordinates|site|distance|opposite side|"
        "other side|far side|far end|region")),
    (Kind.FILLER, "", (
        "together|now|right now|quickly|quick|fast|slow|slowly|carefully|ok|okay|alright|all right|"
        "right then|"
        "well|hey|hi|hello|yo|oi|hey there|hi there|hello there|good morning|good evening|"
        "good afternoon|dear|so|just|simply|straight|straight ahead|direct|forward|forwards|onward|"
        "onwards|over|up|down|out|along|again|once more|one more time|once again|first|first of all|"
        "before all else|above all|above all else|first and foremost|before anything else|"
        "most importantly|keep looking|under any circumstances|in any circumstances|for any reason|"
        "on any account|in any case|anywhere|nowhere|immediately|at once|right away|straight away|asap|"
        "as soon as possible|as soon as you can|as fast as possible|as fast as you can|"
        "as quickly as possible|as quickly as you can|as directly as possible|instantly|urgently|thanks|"
        "thank you|thank you very much|thanks a lot|thx|ty|many thanks|cheers|thanks in advance|"
        "thank you so much|being|could|would|um|uh|er|erm|hmm|ah|oh|eh|no problem|yes|yeah|yep|sure|"
        "listen|look here|look|attention|come on|c'mon|me|us|for me|for us|with me|to me|here|from here|"
        "from there|from where you are|from your position|in the room|in this room|around here|"
        "around you|somewhere|somewhere around here|out there|right there|up ahead|in sight|in view|"
        "on the way|on your way|along the way|on the way there|while you're at it|while doing so|"
        "in doing so|in the process|when you get there|when you arrive|when you are there|"
        "when you're there|when you reach it|once you get there|once you arrive|once you're there|"
        "once you are there|when you are ready|when you're ready|whenever you are ready|"
        "whenever you're ready|when you can|when you have time|when you get a chance|for now|for today|"
        "today|tonight|this time|at least|at most|meter|meters|metre|metres|feet|a meter|a bit|a little|"
        "a little bit|little by little|very|really|real|too|quite|much|even|still|yet|already|maybe|"
        "perhaps|actually|instead|anyway|by the way|at full speed|full speed|full speed ahead|"
        "at top speed|in a straight line|with caution|with care|cautious|safe|safe and sound|safely|"
        "be careful|careful|be quick|hurry|hurry up|here we go|that way|this way|way|ever|"
        "whatever happens|whatever you do|at all|at all costs|at any cost|no matter what|in any way|"
        "anytime|as well|too close|too near|close|close by|close up|close enough|will do|turn left|"
        "turn right|turn around|look around|look left|look right|look carefully|spin around|"
        "look closely|explore|explore the room|look around the room|if necessary|if needed|if you must|"
        "if you haven't already|if it is there|if it's there|if you see it|if you find it|"
        "if you can find it|when you see it|when you find it|wherever it is|wherever it may be|"
        "wherever it might be|wherever that is|where it is|right|correct|a second|a moment|a minute|"
        "a sec|one second|for a second|for a moment|for a minute|for a while|for a bit|one moment|"
        "and only|only|this instant|this very moment|this second|at this point|right here|in place|"
        "right this second|moving|motion|movement|all motion|all movement|what you are doing|"
        "what you're doing|whatever you are doing|whatever you're doing|immediately please|dead|"
        "in your tracks|and wait for me|and report|and report back|and tell me|and let me know|"
        "let me know|and look at it|would you|will you|can you|could you|don't worry|that's it|"
        "that is all|that's all|over and out|over there please|as usual|the hell|the heck|just in case|"
        "of course|definitely|in one go|without delay|without hesitation|without stopping|"
        "without a stop|without hurry|without any detour|no rush|take your time|gently|all the way|"
        "of yours|of mine|of ours|accidentally|by accident|in particular|especially|including|"
        "with your camera|using your camera|using your sensors|using the camera|with your eyes|"
        "before you|to you|from you|of you|your|own|you see|you know|quietly|calmly|nicely|smoothly|"
        "gradually|steadily|swiftly|promptly|speedily|nice and easy|anyhow|basically|closer|nearer|"
        "further|farther|far|back|off|on|away|time|a few|no|nope|nah|wait|one sec|sorry|excuse me|"
        "pardon|great|good|fine|perfect|cool|nice|awesome|half|half a meter|would be great|"
        "would be nice|would be good|that would be great|that would be nice|that would be lovely|"
        "i would appreciate it|i'd appreciate it|it would be great|it would be nice|it'd be great|"
        "that'd be great|that'd be nice|that'd be lovely|that would be appreciated|that'd be appreciated|"
        "it would be good|it would be lovely")),
]
_FIRST = (Kind.REQUEST, Kind.AIM, Kind.SEEN, Kind.NOT, Kind.OUT)     # they win over verbs of one spelling


def _nouns(words: Lexicon, nouns: str, kind: Kind, value: int | str = "") -> None:
    for noun in nouns.split("|"):
        words.add(noun, kind, value)
        words.add(noun + ("es" if noun.endswith(("x", "s", "ch")) else "s"), kind, value)


def fill(words: Lexicon) -> None:
    """Adds the English words. Earlier additions win where one spelling has two uses."""
    for value, text in COLORS.items():
        words.add_all(text, Kind.COLOR, value)
    words.add_all(OTHER_COLORS, Kind.OTHER_COLOR)
    for value, text in NOUNS.items():
        _nouns(words, text, Kind.SHAPE, value)
    for value, text in HINTS.items():
        words.add_all(text, Kind.HINT, value)
    for kind, value, text in WORDS:
        if kind in _FIRST:
            words.add_all(text, kind, value)
    verbs_english.fill(words)
    _nouns(words, BARRIERS, Kind.BARRIER)
    _nouns(words, THINGS, Kind.THING)
    for kind, value, text in WORDS:
        if kind not in _FIRST:
            words.add_all(text, kind, value)
