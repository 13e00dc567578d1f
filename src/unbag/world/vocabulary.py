"""What the training stream can be told: shares of captions and scenes, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from math import isclose
from typing import Literal

from unbag.errors import UserError

# The vocabulary of the world: every word a caption can hold, with its rarer synonym.
#
# A shipped checkpoint freezes these names; add new ones only together with new weights.

Size = Literal["small", "large"]
Texture = Literal["plain", "striped", "dotted", "checkered"]
Relation = Literal["left of", "right of", "above", "below", "on", "under", "in front of", "behind"]


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
"""What a caption says when it leaves the shape open."""

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
"""Name to (synonym, RGB); the first eight are those of the unit-test world."""

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
"""Both the inverse (a r b = b r' a) and the opposite (what a replaced relation becomes)."""

NUMBERS: tuple[str, ...] = ("one", "two", "three", "four", "five")


@dataclass(frozen=True)
class World:
    """Which part of the vocabulary a scene may use, and how large it is drawn."""

    name: Literal["default", "unit"]
    shapes: tuple[str, ...]
    colours: tuple[str, ...]
    pixels: int
    radii: dict[Size, int]
    """Half the side of the box a shape fills, in pixels."""


DEFAULT = World(
    "default", tuple(n.name for n in NOUNS), tuple(COLOURS), 64, {"small": 7, "large": 10}
)
"""48 shapes and 12 colours at 64 px: pilot C of the specification, with small shapes a little
larger than there (7 px, not 6) so that people recognise them."""
UNIT = World("unit", DEFAULT.shapes[:8], DEFAULT.colours[:8], 32, {"small": 3, "large": 5})
"""8 shapes and 8 colours at 32 px, for fast tests."""

WORLDS: dict[str, World] = {w.name: w for w in (DEFAULT, UNIT)}

Combination = tuple[str, str]
"""A shape and a colour."""


@dataclass(frozen=True)
class Mixture:
    """What captions of two things say of them, as shares that sum to 1 (pilot C of the spec)."""

    two_plain: float = 0.40
    """Two shapes without colours: "a circle and a square"."""
    one_coloured: float = 0.25
    """One of the two things, with its colour: "a red circle"."""
    one_coloured_one_plain: float = 0.15
    """"a red circle and a square"."""
    two_colours: float = 0.08
    """Colours without shapes: "a red thing and a blue thing"."""
    both_bound: float = 0.10
    """Both shapes with their colours: the captions that need binding."""
    relation: float = 0.02
    """Two shapes, each coloured or not, and how they stand to each other."""

    def __post_init__(self) -> None:
        _check_shares(self)
        total = sum(self.shares)
        if not isclose(total, 1.0, abs_tol=1e-6):
            raise UserError(
                f"the caption mixture sums to {total:g}",
                expected="shares that sum to 1",
                way_out="lower two_plain by what was added elsewhere",
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares in the order of the fields."""
        return tuple(getattr(self, f.name) for f in fields(self))


@dataclass(frozen=True)
class Knobs:
    """Everything that can be turned about the training stream; the defaults are pilot C."""

    mixture: Mixture = field(default_factory=Mixture)
    """What captions of scenes with two things say."""
    p_synonym: float = 0.08
    """Chance that a word with a rarer synonym is said by it; 0 leaves the synonyms unknown."""
    p_form: float = 0.2
    """Chance of each less usual form: "with", a digit, "without a", "there is", "the" ...; 0 keeps
    the forms of test positives out of fine-tuning."""
    one_thing: float = 0.12
    """Share of scenes with a single thing."""
    counted: float = 0.05
    """Share of scenes with one to five copies of a thing, captioned by their number."""
    negated: float = 0.02
    """Share of the other captions that deny something absent."""
    related: float = 0.5
    """Share of the scenes of two things placed in one of the eight relations although the caption
    does not say so; without them an overlap in the picture would announce a relation caption."""
    p_coloured: float = 0.5
    """Chance that a mention in a relation, a count or a denial, or of a single thing, says its
    colour."""
    p_size: float = 0.05
    """Chance that a mention says the size."""
    p_texture: float = 0.05
    """Chance that a mention says the texture."""
    collision: float = 0.0
    """q: chance that the next two samples of a batch are partners: a caption that binds or relates,
    and one with the same words whose binding or relation is the other one, each true of its own
    scene only. Such pairs are drawn from both_bound and relation in proportion to their shares."""
    order: Literal["random", "larger_first", "listed_first"] = "random"
    """Which thing is named first. larger_first is the leak of pilot B (a cue only together with the
    picture, for sizes do not depend on shapes here); listed_first puts the shape that comes first
    in the vocabulary first, a leak that a caption-only scorer can use."""
    order_strength: float = 0.9
    """How often an order other than random is kept."""
    withheld_combinations: float = 0.0
    """Share of (shape, colour) combinations never shown nor named; 0.2 for test-comb."""
    withheld_pairs: float = 0.0
    """Share of shape pairs never shown nor named together; 0.2 for test-pair."""

    def __post_init__(self) -> None:
        _check_shares(self)
        if self.one_thing + self.counted > 1:
            raise UserError(
                f"one_thing + counted = {self.one_thing + self.counted:g}",
                expected="at most 1: what is left are scenes of two things",
            )
        if self.collision and not self.mixture.both_bound + self.mixture.relation:
            raise UserError(
                f"collision = {self.collision:g} in a mixture that neither binds nor relates",
                expected="a share of both_bound or relation above 0",
            )
        if max(self.withheld_combinations, self.withheld_pairs) > 0.5:
            raise UserError(
                "more than half of the combinations or pairs are withheld",
                expected="at most 0.5, so that every word is still seen in training",
            )


def _check_shares(record: Mixture | Knobs) -> None:
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise UserError(f"{f.name} = {value!r}", expected="a share between 0 and 1")
    if isinstance(record, Knobs) and record.order not in ("random", "larger_first", "listed_first"):
        raise UserError(
            f"order = {record.order!r}", expected="random, larger_first or listed_first"
        )


@dataclass(frozen=True)
class Withheld:
    """What training never shows and never names."""

    combinations: frozenset[Combination]
    pairs: frozenset[Combination]
    """Two shapes, sorted."""

    def allows(self, first: Combination, second: Combination | None = None) -> bool:
        """Whether these may be shown or named together."""
        if first in self.combinations or second in self.combinations:
            return False
        if second is None or not self.pairs:
            return True
        a, b = first[0], second[0]
        return ((a, b) if a < b else (b, a)) not in self.pairs


def withheld(world: World, knobs: Knobs) -> Withheld:
    """What these knobs hold out: the same for every seed, run and machine."""
    return Withheld(
        withheld_combinations(world, share=knobs.withheld_combinations),
        withheld_pairs(world, share=knobs.withheld_pairs),
    )


def withheld_combinations(world: World, *, share: float = 0.2) -> frozenset[Combination]:
    """The (shape, colour) combinations of test-comb."""
    return _combinations(world.shapes, world.colours, share)


def withheld_pairs(world: World, *, share: float = 0.2) -> frozenset[Combination]:
    """The pairs of different shapes of test-pair, each sorted."""
    return _pairs(world.shapes, share)


@lru_cache(maxsize=32)
def _combinations(
    shapes: tuple[str, ...], colours: tuple[str, ...], share: float
) -> frozenset[Combination]:
    return _first_by_hash([(shape, colour) for shape in shapes for colour in colours], share)


@lru_cache(maxsize=32)
def _pairs(shapes: tuple[str, ...], share: float) -> frozenset[Combination]:
    return _first_by_hash(list(combinations(sorted(shapes), 2)), share)


def _first_by_hash(found: list[Combination], share: float) -> frozenset[Combination]:
    def place(one: Combination) -> bytes:
        return blake2b("|".join(one).encode(), digest_size=8, person=b"withheld").digest()

    return frozenset(sorted(found, key=place)[: round(share * len(found))])
