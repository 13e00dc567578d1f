"""The vocabulary of the world: every word a caption can contain, with its rarer synonym.

Shipped checkpoints depend on these names: add names only together with new weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations, product
from typing import Literal

Size = Literal["small", "large"]
Texture = Literal["plain", "striped", "dotted", "checkered"]
Relation = Literal["left of", "right of", "above", "below", "on", "under", "in front of", "behind"]
Combination = tuple[str, str]
"""A shape and a colour."""


@dataclass(frozen=True)
class Noun:
    """A shape's name, its synonym, and both plurals."""

    name: str
    plural: str
    synonym: str
    synonym_plural: str


def _noun(name: str, synonym: str, plural: str = "", synonym_plural: str = "") -> Noun:
    return Noun(name, plural or name + "s", synonym, synonym_plural or synonym + "s")


# The first eight are the shapes of the unit-test world.
NOUNS: tuple[Noun, ...] = (
    _noun("circle", "disc"),
    _noun("square", "box", "", "boxes"),
    _noun("triangle", "wedge"),
    _noun("cross", "plus", "crosses", "pluses"),
    _noun("ring", "hoop"),
    _noun("diamond", "rhombus", "", "rhombuses"),
    _noun("bar", "beam"),
    _noun("pillar", "column"),
    _noun("star", "pentagram"),
    _noun("heart", "valentine"),
    _noun("moon", "crescent"),
    _noun("arrow", "pointer"),
    _noun("house", "cottage"),
    _noun("tree", "conifer"),
    _noun("fish", "carp", "fishes", "carps"),
    _noun("cup", "mug"),
    _noun("key", "latchkey"),
    _noun("bell", "chime"),
    _noun("flag", "banner"),
    _noun("boat", "ship"),
    _noun("anchor", "grapnel"),
    _noun("umbrella", "parasol"),
    _noun("mushroom", "toadstool"),
    _noun("bottle", "flask"),
    _noun("hammer", "mallet"),
    _noun("lamp", "lantern"),
    _noun("car", "automobile"),
    _noun("crown", "tiara"),
    _noun("bolt", "thunderbolt"),
    _noun("drop", "droplet"),
    _noun("ladder", "stepladder"),
    _noun("chair", "seat"),
    _noun("table", "desk"),
    _noun("snake", "serpent"),
    _noun("hourglass", "sandglass", "hourglasses", "sandglasses"),
    _noun("butterfly", "moth", "butterflies"),
    _noun("envelope", "letter"),
    _noun("rocket", "spaceship"),
    _noun("candle", "taper"),
    _noun("gear", "cog"),
    _noun("boot", "shoe"),
    _noun("flower", "blossom"),
    _noun("leaf", "frond", "leaves"),
    _noun("hat", "cap"),
    _noun("spoon", "ladle"),
    _noun("fork", "trident"),
    _noun("ghost", "phantom"),
    _noun("robot", "android"),
)
THING = _noun("thing", "object")
"""The noun of a caption that does not name the shape."""

COLOURS: dict[str, tuple[str, tuple[int, int, int]]] = {
    "red": ("crimson", (220, 40, 40)),
    "green": ("emerald", (40, 160, 60)),
    "blue": ("azure", (50, 90, 230)),
    "yellow": ("golden", (245, 215, 50)),
    "purple": ("violet", (140, 60, 200)),
    "orange": ("tangerine", (250, 135, 25)),
    "white": ("ivory", (240, 240, 240)),
    "cyan": ("turquoise", (50, 210, 220)),
    "pink": ("rosy", (255, 130, 190)),
    "brown": ("chestnut", (135, 80, 40)),
    "gray": ("silver", (140, 140, 140)),
    "lime": ("chartreuse", (165, 250, 70)),
}
"""Name to (synonym, RGB). The first eight are those of the unit-test world."""
SIZES: dict[Size, str] = {"small": "tiny", "large": "big"}

TEXTURES: dict[Texture, str] = {
    "plain": "solid",
    "striped": "lined",
    "dotted": "spotted",
    "checkered": "checked",
}

RELATIONS: dict[Relation, tuple[tuple[str, ...], str]] = {
    "left of": (("left of", "to the left of"), "on the left side of"),
    "right of": (("right of", "to the right of"), "on the right side of"),
    "above": (("above",), "over"),
    "below": (("below",), "beneath"),
    "on": (("on",), "atop"),
    "under": (("under",), "underneath"),
    "in front of": (("in front of",), "ahead of"),
    "behind": (("behind",), "in back of"),
}
"""Name to (ordinary forms, rarer synonym)."""

INVERSE: dict[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "on": "under",
    "under": "on",
    "in front of": "behind",
    "behind": "in front of",
}
"""Each relation with its inverse (a r b = b r' a), which is also its opposite in edits."""
NUMBERS: tuple[str, ...] = ("one", "two", "three", "four", "five")
MAX_THINGS = len(NUMBERS)
"""Maximum number of things in a scene: `NUMBERS` has a word for each."""


@dataclass(frozen=True)
class World:
    """The part of the vocabulary that scenes use, and the size at which they are drawn."""

    name: Literal["default", "unit"]
    shapes: tuple[str, ...]
    colours: tuple[str, ...]
    pixels: int
    radii: dict[Size, int] = field(hash=False)
    """Half the side of the box a shape fills, in pixels."""


DEFAULT = World(
    "default", tuple(n.name for n in NOUNS), tuple(COLOURS), 64, {"small": 7, "large": 10}
)
"""48 shapes and 12 colours at 64 px: pilot C of the specification, but with a radius of 7 px
instead of 6 for small shapes, so that people recognise them."""
UNIT = World("unit", DEFAULT.shapes[:8], DEFAULT.colours[:8], 32, {"small": 3, "large": 5})
"""8 shapes and 8 colours at 32 px, for fast tests."""
WORLDS: dict[str, World] = {w.name: w for w in (DEFAULT, UNIT)}


@lru_cache(maxsize=32)
def withheld_combinations(world: World, *, share: float = 0.2) -> frozenset[Combination]:
    """The (shape, colour) combinations that training never shows (test-comb)."""
    return _first_by_hash(list(product(world.shapes, world.colours)), share)


@lru_cache(maxsize=32)
def withheld_pairs(world: World, *, share: float = 0.2) -> frozenset[Combination]:
    """The pairs of shapes that training never shows together (test-pair), each sorted."""
    return _first_by_hash(list(combinations(sorted(world.shapes), 2)), share)


def _first_by_hash(pairs: list[Combination], share: float) -> frozenset[Combination]:
    """A fixed pseudo-random share of the pairs, the same on every machine."""

    def digest(pair: Combination) -> bytes:
        return blake2b("|".join(pair).encode(), digest_size=8, person=b"withheld").digest()

    return frozenset(sorted(pairs, key=digest)[: round(share * len(pairs))])
