"""Nouns of captions in groups: what a thing could have been instead, and where that excludes it.

A paragraph is "group | places | kinds" and goes on in indented lines. Kinds are separated by
spaces; words of one kind stand between slashes and are never exchanged for each other, since both
may be true. The first word of a kind is what others are replaced by, unless it begins with "-".
Words with "_" are two words. A word in two kinds (a "bike") is exchanged for neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_LINES = """
pets | any |
    dog/puppy/pup/hound/greyhound/retriever/terrier/bulldog/poodle/collie/labrador/husky
    cat/kitten/kitty rabbit/bunny monkey fox
farm | any | horse/pony/foal/stallion cow/bull/calf/ox/cattle/buffalo sheep/lamb/ram/goat
    pig/hog donkey/mule camel
wild | any | elephant/baby_elephant giraffe zebra bear/cub lion tiger
birds | any |
    bird/pigeon/seagull/duck/goose/swan/parrot/owl/crow/sparrow/eagle/hawk/flamingo/pelican
    squirrel butterfly
players | any | baseball_player/batter/pitcher/catcher/umpire tennis_player
    football_player/rugby_player soccer_player/goalie basketball_player hockey_player
riders | any | skateboarder/skater surfer skier snowboarder
    -cyclist/bicyclist/biker/motorcyclist/rider
walkers | any | -hiker/climber/rock_climber swimmer/diver golfer -runner/jogger
people | any | -person/people/pedestrian/spectator/onlooker/passenger robot
    monkey
ages | any | -child/kid/toddler/baby/infant/youngster/teenager/boy/girl
    adult/grown-up/man/woman/guy/lady/gentleman
road | things | car/sedan/taxi/race_car/suv/van bus/city_bus truck/van/pickup_truck/fire_truck
    bicycle/bike/mountain_bike/dirt_bike motorcycle/bike/motorbike/dirt_bike/scooter/moped
    train/passenger_train/subway_train/train_car/tram
aircraft | things | airplane/plane/jet/airliner/jetliner/aircraft helicopter
boards | things | skateboard/skate_board surfboard/surf_board snowboard
    bicycle/bike
toys | things |
    ball/tennis_ball/soccer_ball/football/basketball/baseball/beach_ball/volleyball/toy
    frisbee/disc/disk/toy stick/branch
bats | things | tennis_racket/racket/racquet/tennis_racquet baseball_bat/bat golf_club
    hockey_stick
air_toys | things | kite balloon umbrella/parasol flag
held | things | book/newspaper/magazine laptop/laptop_computer/computer
    cell_phone/cellphone/phone/smartphone/mobile_phone camera guitar
instruments | things | guitar violin trumpet drum accordion
luggage | things | backpack suitcase/luggage purse/handbag basket
dishes | things | pizza sandwich/burger/hamburger/hot_dog/hotdog cake/birthday_cake/cupcake
    salad
sweets | things | doughnut/donut/bagel cookie sandwich
fruit | things | banana apple orange/tangerine strawberry pear
vegetables | things | carrot potato tomato cucumber
drinks | things | wine beer milk coffee
vessels | things | bottle cup/mug/glass/wine_glass bowl
cutlery | things | knife fork spoon
seats | on | bench/park_bench bed couch/sofa/loveseat table/desk/picnic_table chair/stool
rooms | in | kitchen bathroom/restroom bedroom living_room garage classroom
lands | in | field/pasture/meadow/grass_field/yard/park forest/woods/wood desert parking_lot
roads | on | beach street/road/highway/sidewalk/city_street/dirt_road/path/trail/runway
    mountain/hill/slope/cliff/ski_slope roof/rooftop
ground | in_on | grass/lawn sand snow mud
waters | in | swimming_pool/pool ocean/sea/lake/river/pond/creek/stream
head | worn | hat/cap/beanie/visor helmet crown
body | worn |
    suit/shirt/t-shirt/jersey/sweater/sweatshirt/jacket/coat/vest/hoodie/uniform/tuxedo/tee
    dress/gown/skirt swimsuit/bikini/wetsuit/bathing_suit robe
legs | worn | short jean/pant/trouser/slack/legging
street_things | subject | fire_hydrant/hydrant parking_meter mailbox trash_can
soft_toys | things | teddy_bear/teddy/stuffed_animal/stuffed_bear doll robot
"""

PLACES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "any": frozenset(),
        "things": frozenset(("on", "in", "with", "of", "into", "onto", "inside", "for", "at")),
        "subject": frozenset(),
        "on": frozenset(("on", "onto")),
        "in": frozenset(("in", "through", "inside", "into", "across")),
        "in_on": frozenset(("in", "on", "through", "across")),
        "worn": frozenset(("in", "with")),
    }
)
"""Prepositions after which two things of a group exclude each other; none means any."""
SUBJECTS = frozenset(("any", "things", "subject"))
"""Groups whose nouns are also replaced as subjects and objects."""


class Group(NamedTuple):
    """Things of one sort that exclude each other in one place."""

    name: str
    place: str
    """Where: a key of PLACES."""
    kinds: tuple[tuple[str, ...], ...]
    """Words of each kind, with spaces; the first is what others are replaced by."""
    sources: frozenset[int]
    """Kinds that are replaced only."""

    def others(self, word: str) -> tuple[str, ...]:
        """What the word may be replaced by: the first words of kinds that it is not in."""
        return tuple(
            kind[0]
            for at, kind in enumerate(self.kinds)
            if word not in kind and at not in self.sources
        )


def _group(line: str) -> Group:
    name, place, rest = (part.strip() for part in line.split("|"))
    kinds = rest.split()
    return Group(
        name,
        place,
        tuple(tuple(kind.lstrip("-").replace("_", " ").split("/")) for kind in kinds),
        frozenset(at for at, kind in enumerate(kinds) if kind.startswith("-")),
    )


GROUPS: tuple[Group, ...] = tuple(
    _group(line) for line in _LINES.replace("\n    ", " ").strip().splitlines()
)


def _by_word() -> Mapping[str, tuple[Group, ...]]:
    found: dict[str, tuple[Group, ...]] = {}
    for group in GROUPS:
        for word in {word for kind in group.kinds for word in kind}:
            found[word] = (*found.get(word, ()), group)
    return MappingProxyType(found)


GROUPS_OF: Mapping[str, tuple[Group, ...]] = _by_word()
"""By lemma: every group the word is in."""

_GENDERS = """
man: woman girl
guy: woman girl
gentleman: lady woman
woman: man boy
lady: man boy
boy: girl
girl: boy
male: female
female: male
bride: groom
groom: bride
mother: father
mom: dad
father: mother
dad: mom
"""


def _lines(text: str) -> Mapping[str, tuple[str, ...]]:
    parts = (line.partition(":") for line in text.strip().splitlines())
    return MappingProxyType({word: tuple(rest.split()) for word, _, rest in parts})


_GAMES = """
tennis baseball soccer basketball football volleyball racket racquet bat serve pitch pitcher batter
player hit golf rugby cricket match game
"""
IN_GAMES = frozenset(_GAMES.split())
"""Where one of these is said, a ball is no toy."""
GENDERED: Mapping[str, tuple[str, ...]] = _lines(_GENDERS)
"""People by sex, with what excludes them."""
MASCULINE = frozenset(("he", "his", "him", "himself"))
FEMININE = frozenset(("she", "her", "hers", "herself"))
MEN = frozenset(("man", "guy", "gentleman", "boy", "male", "groom", "father", "dad"))

HERDS = frozenset(("herd", "flock"))
HERDED = frozenset(("cow", "sheep", "elephant", "horse", "zebra", "giraffe", "bird", "goat"))
_MEASURE_WORDS = """
    school pack litter swarm slice piece pair bunch loaf glass cup bottle game type kind part back
    front top leg head tail side pride colony team portion
    """
MEASURES = frozenset(_MEASURE_WORDS.split())
"""Before "of", these are said of some things only."""
_NAMING_WORDS = """
hot polar grizzly teddy stuffed guide sea guinea german american toy wild naked nude topless
"""
NAMED_BY = frozenset(_NAMING_WORDS.split())
"""Before a noun, these make a name of it, say that it is no real one, or are best left alone."""
