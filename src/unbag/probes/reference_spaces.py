"""Constructed spaces whose verdicts are known beforehand.

They bracket every probe on the world, in tests and to teach: a bag of words, a perfect space, one
that is collapsed and one that knows edits but not meaning. All vectors follow from names by a hash.

Dimensions: N images or captions, D joint space, S things that are so, F facts whose directions
are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import combinations, product
from math import ceil, sqrt

import numpy as np

from unbag.data.images import ShuffledImage
from unbag.errors import UnbagError
from unbag.probes.base import ProbedModel, Row
from unbag.types import Ensemble, FloatArray, ImageSource, Query
from unbag.types.items import prompts_of
from unbag.world.grammar import (
    ATTRIBUTES,
    And,
    Ast,
    Attribute,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    content_words,
    meaning,
    parse,
)
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, Thing, relations
from unbag.world.vocabulary import COLOURS, INVERSE, NOUNS, SIZES, TEXTURES, WORLDS, Relation

WIDTH = 1_024
SMALL = 256
"""Of spaces that tell no words apart."""
_BITS = 512
"""Of one hash."""
DRAWN, OWN = 1_024, 256
"""Directions of relations, numbers and places; directions that one image or caption has alone."""
ROOM = 64.0
"""Squared length that facts of a scene may have together before they are shrunk."""
SHARE = 0.9
"""Of the squared length of an image that facts may take."""
STEP = (SHARE / ROOM) ** 0.5
"""Length of a fact of weight 1 in an image."""
TRUE = 0.6 * STEP
"""Cosine of an image with any caption that is true of it."""
SOMETHING = "something is there"
_FORWARD: tuple[Relation, ...] = ("left of", "above", "on", "in front of")
_MENTIONS: tuple[tuple[Attribute, ...], ...] = (
    (),
    ("shape",),
    ("colour",),
    ("shape", "colour"),
)
"""What a number or a relation is tied to."""
_NONE = np.zeros(OWN)


@dataclass(frozen=True, eq=False)
class ConstructedSpace:
    """A space that is made, not learned: what probes must say of it is known beforehand."""

    name: str
    fingerprint: str
    of_image: Callable[[ImageSource], FloatArray]
    """[D], of any length but 0."""
    of_caption: Callable[[str], FloatArray]
    layers: None = None
    tokens: None = None
    damaged: Mapping[str, str] = field(default_factory=dict)
    _image: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    _caption: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Unit vectors [N, D]."""
        keys = [image.key for image in images]
        for key, image in zip(keys, images, strict=True):
            if key not in self._image:
                self._image[key] = scaled(self.of_image(image))
        return np.array([self._image[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D]."""
        for caption in captions:
            if caption not in self._caption:
                self._caption[caption] = scaled(self.of_caption(caption))
        return np.array([self._caption[caption] for caption in captions])


@dataclass(frozen=True)
class SpaceScorer:
    """The cosine in a space, for probes that ask a scorer."""

    space: ConstructedSpace
    scoring: str = "cosine"
    is_blind: bool = False

    @property
    def name(self) -> str:
        """The space's."""
        return self.space.name

    @property
    def fingerprint(self) -> str:
        """The space's."""
        return self.space.fingerprint

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """One cosine a query; of an ensemble with the mean of its prompts."""
        image_ND = self.space.images([query.image for query in queries])
        caption_ND = np.array([self._caption(query.caption) for query in queries])
        found: FloatArray = (image_ND * caption_ND).sum(axis=-1)
        return found

    def _caption(self, caption: str | Ensemble) -> FloatArray:
        texts = prompts_of(caption)
        mean_D: FloatArray = self.space.captions(texts).mean(axis=0)
        return mean_D if len(texts) == 1 else scaled(mean_D)


def constructed_subject(
    space: ConstructedSpace, *, other: ProbedModel | None = None
) -> ProbedModel:
    """A constructed space as a model under examination."""
    scorer = SpaceScorer(space)
    return ProbedModel(space.name, scorer, space, scorer, other=other)


def bag_of_words_space() -> ConstructedSpace:
    """Knows every word and no tie between words.

    An image is the sum of the directions of all shapes, colours, sizes and textures that some
    thing has; a caption is that of its content words, a synonym being the same word. Relations,
    numbers, negation and "thing" count for nothing, and so does where things lie: images of the
    same things in other places are one vector, shuffled images and shuffled words too.
    """

    def bag(values: Iterable[tuple[str, str]], otherwise: str) -> FloatArray:
        # Summed in one order, so that equal bags are equal to the last bit.
        rows = [signs(f"{name} {value}", WIDTH) for name, value in sorted(values)]
        found: FloatArray = np.sum(rows or [signs(f"no words in {otherwise}", WIDTH)], axis=0)
        return found

    def of_image(image: ImageSource) -> FloatArray:
        scene = scene_behind(image, through_shuffles=True)
        if scene is None:
            raise UnbagError(
                f"image {image.name!r} has no scene",
                expected="an image of the built-in world: constructed spaces read what is in it",
                hint="put this space to the world's material only",
            )
        return bag(
            {(name, getattr(t, name)) for t in scene.things for name in ATTRIBUTES}, "nothing"
        )

    def of_caption(text: str) -> FloatArray:
        said = {(w.attribute, w.value) for w in content_words(text) if w.value is not None}
        return bag(said, text)

    return ConstructedSpace("bag of words", "constructed:bag/1", of_image, of_caption)


def collapsed_space(*, noise: float = 0.05) -> ConstructedSpace:
    """All images point one way and all captions another, up to noise of this length.

    With noise 0 every image is the same vector.
    """

    def of_image(image: ImageSource) -> FloatArray:
        return signs("pictures", SMALL) + noise * signs(f"picture {image.key}", SMALL)

    def of_caption(text: str) -> FloatArray:
        return signs("captions", SMALL) + noise * signs(f"caption {text}", SMALL)

    return ConstructedSpace(
        "collapsed space", f"constructed:collapsed/1/{noise:g}", of_image, of_caption
    )


def detector_space(rows: Sequence[Row]) -> ConstructedSpace:
    """Knows which texts are originals and which are edits, and nothing of what they say.

    An original points to its images; any other text, an edit that is true as well as one that is
    false, is equally far from all images and from all originals. A text has one vector: one that
    is an original here and an edit there keeps its first role. `unmixed` gives the rows in which
    no text plays two.
    """
    role: dict[str, str] = {}
    for row in rows:
        for text, as_ in _told(row):
            role.setdefault(text, as_)
    images_of: dict[str, list[str]] = {}
    for row in rows:
        if role[row.caption] == "original":
            images_of.setdefault(row.caption, []).append(row.image.key)

    def of_image(image: ImageSource) -> FloatArray:
        return _detected(signs(f"picture {image.key}", SMALL), np.zeros(SMALL))

    def of_caption(text: str) -> FloatArray:
        keys = sorted(set(images_of.get(text, ())))
        if not keys:
            return _detected(np.zeros(SMALL), signs(f"edit {text}", SMALL))
        own_D = np.sum([signs(f"picture {key}", SMALL) for key in keys], axis=0)
        return _detected(own_D / np.linalg.norm(own_D), np.zeros(SMALL))

    identity = blake2b(repr(sorted(images_of.items())).encode(), digest_size=8).hexdigest()
    return ConstructedSpace(
        "perturbation detector", f"constructed:detector/1/{identity}", of_image, of_caption
    )


def unmixed(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows, in order, in which every text has the role it had first.

    The world's triples use each caption as original, negative and positive in turn, so that no
    scorer of captions alone gains by it; on all of them no space can be a detector.
    """
    role: dict[str, str] = {}
    kept = []
    for row in rows:
        told = _told(row)
        if all(role.get(text, as_) == as_ for text, as_ in told) and len(dict(told)) == len(told):
            role.update(told)
            kept.append(row)
    return tuple(kept)


def _told(row: Row) -> list[tuple[str, str]]:
    edits = [text for text in (row.negative, row.positive) if text is not None]
    return [(row.caption, "original"), *((text, "edit") for text in edits)]


def _detected(image_D: FloatArray, edit_D: FloatArray) -> FloatArray:
    """One shared number, what images have of their own, what edits have of their own."""
    return np.concatenate([[0.5], image_D, edit_D])


def perfect_space() -> ConstructedSpace:
    """As perfect on the world as a cosine can be.

    An image is the sum of directions of all that is true of it; what is left of its length
    points where its things lie, so that different scenes differ. A caption is the sum of
    directions of what it says, so measured that every true caption has exactly the same cosine
    with every image, and a false one a lower cosine, by the share of it that is false (up to
    chance for relations and numbers: they are too many for a coordinate each, so that their
    directions are drawn). A denial points away from what it denies. A text that says nothing in
    the world's grammar is at right angles to all images.

    Limits: a sum of facts knows no "another": "a star and a star" is true of one star. A thing
    with three or more attributes is looked up by every two of them, so that denying one loses
    where half of it is there; it still beats a false denial. A number or a relation is tied to
    shape and colour only. In crowded scenes (three different things, or four copies) all
    cosines shrink together.
    """
    return ConstructedSpace(
        "perfect space", "constructed:perfect/1", _perfect_image, _perfect_caption
    )


def _perfect_image(image: ImageSource) -> FloatArray:
    scene = scene_behind(image)
    if scene is None:
        return _joined(_sum({}), image=signs(f"picture {image.key}", OWN))
    facts = facts_of(scene)
    room = max(ROOM, sum(_weight(fact) ** 2 for fact in facts))
    step = (SHARE / room) ** 0.5
    fact_D = _sum({fact: step * _weight(fact) for fact in facts}, is_exact=True)
    rest = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    where = sorted((t.shape, t.colour, t.size, t.texture, t.x, t.y) for t in scene.things)
    return _joined(fact_D, image=rest * signs(f"scene {where}", OWN))


def _perfect_caption(text: str) -> FloatArray:
    try:
        ast = meaning(parse(text))
    except UnbagError:
        return _joined(_sum({}), caption=signs(f"text {text}", OWN))
    wanted = {fact: TRUE * share / (STEP * _weight(fact)) for fact, share in claims(ast).items()}
    fact_D = _sum(wanted)
    rest = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    own_D = rest * signs(f"meaning {ast}", OWN)
    # Apart from what says yes, so that a denial is nearer to nothing than to what it denies.
    is_denial = isinstance(ast, Not | Has)
    return _joined(fact_D, denial=own_D) if is_denial else _joined(fact_D, caption=own_D)


def facts_of(scene: Scene) -> list[str]:
    """Everything that captions ask about, and where each shape lies, in an order of its own."""
    things = scene.things
    found = {SOMETHING} if things else set()
    for thing in things:
        said = _values(thing, ATTRIBUTES)
        found |= {_is(some) for n in (1, 2) for some in combinations(said, n)}
        found.add(_place(thing, scene))
    counts = Counter(_values(thing, mention) for thing in things for mention in _MENTIONS)
    found |= {_count(n, said) for said, n in counts.items()}
    for i, relation, j in relations(scene):
        if relation in _FORWARD:
            both = product(*([_values(things[k], m) for m in _MENTIONS] for k in (i, j)))
            found |= {_related(a, relation, b) for a, b in both}
    return sorted(found)


def claims(ast: Ast) -> dict[str, float]:
    """Facts that a caption names with the share of each: they sum to 1 where all are true.

    A denied fact counts against it by more than the rest counts for it.
    """
    match ast:
        case Obj():
            said = _values(ast, ATTRIBUTES)
            facts = [_is(two) for two in combinations(said, 2)] or [_is((one,)) for one in said]
            return {fact: 1 / len(facts) for fact in facts} or {SOMETHING: 1.0}
        case And(first, second):
            return _mixed((0.5, claims(first)), (0.5, claims(second)))
        case Rel(first, relation, second):
            a, b = (_values(obj, ("shape", "colour")) for obj in (first, second))
            is_forward = relation in _FORWARD
            fact = _related(a, relation, b) if is_forward else _related(b, INVERSE[relation], a)
            things = (0.25, claims(first)), (0.25, claims(second))
            return _mixed((0.5, {fact: 1.0}), *things)
        case Count(n, obj):
            fact = _count(n, _values(obj, ("shape", "colour")))
            return _mixed((0.5, {fact: 1.0}), (0.5, claims(obj)))
        case Not(obj):
            return _mixed((1.0, {SOMETHING: 1.0}), (-1.5, claims(obj)))
        case Has(present, Not(absent)):
            there = (0.5, claims(present)), (0.5, {SOMETHING: 1.0})
            return _mixed(*there, (-1.0, claims(absent)))


def _values(of: Thing | Obj, attributes: tuple[Attribute, ...]) -> tuple[str, ...]:
    """What is known of it, in one order."""
    known = ((name, getattr(of, name)) for name in attributes)
    return tuple(f"{name} {value}" for name, value in known if value is not None)


def _is(said: tuple[str, ...]) -> str:
    return f"is {' and '.join(said)}"


def _count(n: int, said: tuple[str, ...]) -> str:
    return f"exactly {n}: {' and '.join(said)}"


def _related(first: tuple[str, ...], relation: Relation, second: tuple[str, ...]) -> str:
    return f"{' and '.join(first)} | {relation} | {' and '.join(second)}"


def _place(thing: Thing, scene: Scene) -> str:
    """Which ninth of the canvas its shape lies in."""
    pixels = WORLDS[scene.world].pixels
    return f"lies {thing.shape} {3 * thing.x // pixels} {3 * thing.y // pixels}"


def _weight(fact: str) -> float:
    """What a thing is and where it lies count for more than what else is true of it."""
    is_shape = fact.startswith("is shape") and " and " not in fact
    return 2.0 if is_shape or fact.startswith("lies ") or fact == SOMETHING else 1.0


def _mixed(*parts: tuple[float, dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for factor, part in parts:
        for fact, share in part.items():
            found[fact] = found.get(fact, 0.0) + factor * share
    return found


def _sum(weights: dict[str, float], *, is_exact: bool = False) -> FloatArray:
    """Coordinates of what is so, and beside them the sum of drawn directions.

    These are not quite at right angles. If it shall be exact, the sum has precisely these products
    with the directions that are in it.
    """
    so_S = np.zeros(len(_place_of()))
    drawn = {fact: weight for fact, weight in weights.items() if fact not in _place_of()}
    for fact in weights.keys() - drawn.keys():
        so_S[_place_of()[fact]] = weights[fact]
    direction_FD = np.array([signs(fact, DRAWN) for fact in drawn]).reshape(-1, DRAWN)
    weight_F = np.array(list(drawn.values()))
    if is_exact:
        weight_F = np.linalg.solve(direction_FD @ direction_FD.T, weight_F)
    return np.concatenate([so_S, weight_F @ direction_FD])


@cache
def _place_of() -> dict[str, int]:
    """What a thing can be, one attribute or two: few enough for a coordinate each."""
    shapes = [noun.name for noun in NOUNS]
    names: Sequence[Iterable[str]] = (shapes, COLOURS, SIZES, TEXTURES)
    every = zip(ATTRIBUTES, names, strict=True)
    values = [[f"{attribute} {name}" for name in some] for attribute, some in every]
    facts = [SOMETHING, *(_is((one,)) for some in values for one in some)]
    facts += [_is(two) for some in combinations(values, 2) for two in product(*some)]
    return {fact: place for place, fact in enumerate(facts)}


def _joined(
    fact_D: FloatArray,
    *,
    image: FloatArray = _NONE,
    caption: FloatArray = _NONE,
    denial: FloatArray = _NONE,
) -> FloatArray:
    """Side by side: what only one image or caption has meets nothing of another kind."""
    return np.concatenate([fact_D, image, caption, denial])


def scene_behind(image: ImageSource, *, through_shuffles: bool = False) -> Scene | None:
    """The scene that an image shows; None if it shows none.

    A shuffled image shows none either, unless one looks at its parts only.
    """
    if through_shuffles and isinstance(image, ShuffledImage):
        return scene_behind(image.image, through_shuffles=True)
    return image.scene if isinstance(image, SceneImage) else None


def signs(name: str, width: int) -> FloatArray:
    """A unit vector that follows from a name alone, on every machine.

    It is nearly at right angles to that of any other name: cosines have mean 0 and standard
    deviation 1 / sqrt(width).
    """
    blocks = [blake2b(f"{name}|{i}".encode()).digest() for i in range(ceil(width / _BITS))]
    bit_D = np.unpackbits(np.frombuffer(b"".join(blocks), dtype=np.uint8), count=width)
    found: FloatArray = (2.0 * bit_D.astype(float) - 1.0) / sqrt(width)
    return found


def scaled(vector_D: FloatArray) -> FloatArray:
    """At length 1."""
    found: FloatArray = vector_D / np.linalg.norm(vector_D)
    return found
