"""Words that a caption's truth hangs on: negations, numbers, colours, sides and opposites."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NEGATIONS = """
no not never without none nobody nothing nowhere neither nor cannot n't
"""
NEGATIONS = frozenset(_NEGATIONS.split())

_NUMBERS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty
"""
NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_NUMBERS.split(), start=2)}
    | {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100", "dozen": "12"}
)
"""From two on: "one" often stands for "a"."""
PAIRS = frozenset(("couple", "pair", "both", "twin", "twins", "duo"))
"""May stand for "two", and need not."""

_COLOURS = """
black white red green blue yellow orange purple violet pink brown grey beige tan gold silver blond
turquoise teal navy maroon crimson scarlet ivory lavender magenta cyan khaki burgundy bronze
"""
_SPELT_OTHERWISE = """
gray: grey
golden: gold
blonde: blond
"""
COLOURS: Mapping[str, str] = MappingProxyType(
    {word: word for word in _COLOURS.split()}
    | dict(line.split(": ") for line in _SPELT_OTHERWISE.strip().splitlines())
)

SIDES: Mapping[str, str] = MappingProxyType(
    {
        word: side
        for side, words in {
            "left": "left",
            "right": "right",
            "above": "above over overhead",
            "below": "below under beneath underneath",
            "front": "in_front",
            "behind": "behind",
            "bigger": "bigger larger",
            "smaller": "smaller littler",
            "taller": "taller",
            "shorter": "shorter",
            "older": "older elder",
            "younger": "younger",
        }.items()
        for word in words.split()
    }
)
_TURNED = "left/right above/below front/behind bigger/smaller taller/shorter older/younger"
OPPOSITE_SIDE: Mapping[str, str] = MappingProxyType(
    {
        one: other
        for pair in _TURNED.split()
        for one, other in (pair.split("/"), pair.split("/")[::-1])
    }
)

_OPPOSITES = """
big large huge giant enormous massive / small little tiny mini miniature
biggest largest / smallest littlest
tall high / short low
higher / lower
long / short
longer / shorter
wide broad / narrow
wider broader / narrower
thick / thin
thicker / thinner
fat / thin skinny slim
heavy / light
heavier / lighter
dark / light bright
darker / lighter brighter
young / old elderly aged
new / old used worn
open opened / closed shut
opening opens / closing closes
full filled / empty
wet soaked damp / dry
hot warm / cold cool icy
clean tidy / dirty messy cluttered
happy cheerful / sad unhappy
smiling laughing smiles laughs / crying frowning cries frowns
fast quick quickly / slow slowly
faster / slower
deep / shallow
sharp / blunt dull
smooth / rough bumpy
soft / hard
sunny / cloudy overcast rainy
cooked baked / raw uncooked
dressed clothed / naked nude shirtless
lit / unlit
male man men boy boys gentleman gentlemen guy guys father dad son brother husband / female woman \
women girl girls lady ladies mother mom daughter sister wife
he him his himself / she her hers herself
baby babies child children kid kids toddler boy boys girl girls / adult adults man men woman women
day daytime / night nighttime
morning / evening
inside indoors indoor within / outside outdoors outdoor
in into / out
up upward upwards uphill / down downward downwards downhill
on / off
near close next beside / far distant
standing stands stand stood / sitting sits sit sat seated lying lies lie laying lays
asleep sleeping sleeps / awake
moving moves / still stationary parked
stopped stops stopping / going goes
coming comes / going goes
pushing pushes / pulling pulls
throwing throws / catching catches
entering enters / leaving leaves exiting exits
ascending ascends climbing climbs / descending descends
arriving arrives / departing departs
landing lands / flying flies
more / less fewer
most / least fewest
many several numerous / few
all every / some none
first / last
top / bottom
front / back rear
before / after
same / different
alone / together
alive / dead
real / fake toy stuffed
"""


def _poles(text: str) -> Mapping[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for line, pair in enumerate(text.replace("\\\n", "").strip().splitlines()):
        for pole, words in enumerate(pair.split(" / ")):
            for word in words.split():
                found.setdefault(word, []).append((line, pole))
    return MappingProxyType({word: tuple(places) for word, places in found.items()})


POLES = _poles(_OPPOSITES)
"""For each word the lines of opposites in which it stands, with its side of the line, 0 or 1."""
