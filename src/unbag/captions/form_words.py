"""Words that are written in two ways, and verbs that captions use in both present tenses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from unbag.captions.agreement import inflected

_SPELLINGS = """
grey = gray
colour = color
colours = colors
coloured = colored
colourful = colorful
multicolored = multi-colored
multicoloured = multi-coloured
centre = center
theatre = theater
tyre = tire
tyres = tires
jewellery = jewelry
donut = doughnut
donuts = doughnuts
pyjamas = pajamas
moustache = mustache
kerb = curb
favourite = favorite
harbour = harbor
neighbour = neighbor
neighbourhood = neighborhood
traveling = travelling
traveler = traveller
omelette = omelet
yoghurt = yogurt
toward = towards
blonde = blond
cosy = cozy
plough = plow
grey-haired = gray-haired
t-shirt = tee shirt
t-shirts = tee shirts
tshirt > t-shirt
t shirt > tee shirt
tee shirt = t-shirt
closeup = close-up
close up > closeup
hotdog = hot dog
hotdogs = hot dogs
bath tub > bathtub
surf board > surfboard
surf boards > surfboards
skate board > skateboard
skate boards > skateboards
snow board > snowboard
snow boards > snowboards
wet suit > wetsuit
wet suits > wetsuits
book shelf > bookshelf
firetruck = fire truck
lifejacket = life jacket
cell phone = cellphone
cell phones = cellphones
mid-air = midair
mid air > midair
base ball > baseball
foot ball > football
basket ball > basketball
tooth brush > toothbrush
tooth brushes > toothbrushes
hair cut > haircut
side walk > sidewalk
motor cycle > motorcycle
motor bike > motorbike
back pack > backpack
sun glasses > sunglasses
pick up truck > pickup truck
pick-up truck > pickup truck
air plane > airplane
rail road > railroad
water melon > watermelon
birdhouse = bird house
tablecloth = table cloth
playpen = play pen
stop light > stoplight
street light = streetlight
street lights = streetlights
ok > okay
barbecue = barbeque
ketchup = catsup
racquet = racket
racquets = rackets
woollen = woolen
axe = ax
artefact = artifact
aeroplane = airplane
speciality = specialty
"""

_ACTIVITIES = """
balance bat bite blow board bounce bow brush carry catch chase chew climb cook crawl cross crouch
cut dance dig dive drag drink drive eat face feed fight float fly follow gallop gather gaze graze
grab hang help hike hit hold hop hug hurdle jog juggle jump kayak kick kiss kneel laugh lead lean
leap lick lie lift listen march observe pace paddle paint pass pedal peek perform pet play point
pose pour prepare pull push race rake read relax rest ride roll row run sail scream shake shout
sing sit skate skateboard ski skip sleep slide smile smoke sniff snowboard speak spin splash sprint
squat stand stare stretch stroll surf sweep swim swing tackle talk throw toss touch tow travel trot
tumble use wade wait walk wash watch wave wear work wrestle write yawn zoom
"""
_TAGS = ("VB", "VBZ", "VBG")


def _both_ways(text: str) -> Mapping[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for line in text.strip().splitlines():
        one, sign, other = line.partition(" = ") if " = " in line else line.partition(" > ")
        found.setdefault(_tokens(one), other)
        if sign == " = ":
            found.setdefault(_tokens(other), one)
    return MappingProxyType(found)


def _tokens(text: str) -> tuple[str, ...]:
    """As the parser cuts it: hyphens are words of their own."""
    return tuple(text.replace("-", " - ").split())


SPELLINGS = _both_ways(_SPELLINGS)
"""By the words as they stand in lower case."""
MOST_TOKENS = max(map(len, SPELLINGS))
FIRST_TOKENS = frozenset(tokens[0] for tokens in SPELLINGS)

_NUMBERS = "two three four five six seven eight nine ten eleven twelve"
NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_NUMBERS.split(" "), start=2)}
    | {str(at): word for at, word in enumerate(_NUMBERS.split(" "), start=2)}
)
"""Two to twelve, as words and as digits."""

CONTRACTIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("is", "not"): "isn't",
        ("are", "not"): "aren't",
        ("was", "not"): "wasn't",
        ("does", "not"): "doesn't",
        ("do", "not"): "don't",
        ("did", "not"): "didn't",
        ("has", "not"): "hasn't",
        ("is", "n't"): "is not",
        ("are", "n't"): "are not",
        ("was", "n't"): "was not",
        ("does", "n't"): "does not",
        ("do", "n't"): "do not",
        ("did", "n't"): "did not",
        ("has", "n't"): "has not",
        ("ca", "n't"): "cannot",
        ("there", "is"): "there's",
        ("there", "'s"): "there is",
        ("it", "is"): "it's",
        ("it", "'s"): "it is",
        ("he", "is"): "he's",
        ("he", "'s"): "he is",
        ("she", "is"): "she's",
        ("she", "'s"): "she is",
        ("they", "are"): "they're",
        ("they", "'re"): "they are",
        ("who", "'s"): "who is",
        ("that", "'s"): "that is",
    }
)
"""Two words and how they are written together, or apart if they are together."""


@cache
def activities() -> Mapping[str, str]:
    """Present forms of verbs of doing, with their base form."""
    return MappingProxyType(
        {inflected(verb, tag): verb for verb in _ACTIVITIES.split() for tag in _TAGS}
    )
