"""Constructed reference spaces with known verdicts.

They calibrate every probe on the world, in tests and examples: a bag of words, a perfect space, a
collapsed space and one that knows edits but not meaning. All vectors are hashes of names.

Dimensions: N images or captions, D joint space, S facts with a coordinate each, F facts with random
directions.
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
"""Width of spaces that do not distinguish words."""
_BITS = 512
"""Bits of one hash."""
DRAWN, OWN = 1_024, 256
"""Dimensions for relations, numbers and places; dimensions for what is unique to one input."""
ROOM = 64.0
"""Squared length of the facts of a scene above which they are scaled down."""
SHARE = 0.9
"""Maximum share of facts in the squared length of an image."""
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
"""Attributes by which a number or a relation can mention a thing."""
_NONE = np.zeros(OWN)


@dataclass(frozen=True, eq=False)
class ConstructedSpace:
    """A space that is constructed, not learned, with known verdicts."""

    name: str
    fingerprint: str
    of_image: Callable[[ImageSource], FloatArray]
    """Returns a vector [D] of any length but 0."""
    of_caption: Callable[[str], FloatArray]
    layers: None = None
    tokens: None = None
    damaged: Mapping[str, str] = field(default_factory=dict)
    _image: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    _caption: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Return unit vectors [N, D]."""
        keys = [image.key for image in images]
        for key, image in zip(keys, images, strict=True):
            if key not in self._image:
                self._image[key] = scaled(self.of_image(image))
        return np.array([self._image[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Return unit vectors [N, D]."""
        for caption in captions:
            if caption not in self._caption:
                self._caption[caption] = scaled(self.of_caption(caption))
        return np.array([self._caption[caption] for caption in captions])


@dataclass(frozen=True)
class SpaceScorer:
    """The cosine in a space, for probes that use a scorer."""

    space: ConstructedSpace
    scoring: str = "cosine"
    is_blind: bool = False

    @property
    def name(self) -> str:
        """The same as that of the space."""
        return self.space.name

    @property
    def fingerprint(self) -> str:
        """The same as that of the space."""
        return self.space.fingerprint

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Return one cosine per query; an ensemble counts as the mean of its prompts."""
        image_ND = self.space.images([query.image for query in queries])
        caption_ND = np.array([self._caption(query.caption) for query in queries])
        cosine_N: FloatArray = (image_ND * caption_ND).sum(axis=-1)
        return cosine_N

    def _caption(self, caption: str | Ensemble) -> FloatArray:
        texts = prompts_of(caption)
        mean_D: FloatArray = self.space.captions(texts).mean(axis=0)
        return mean_D if len(texts) == 1 else scaled(mean_D)


def constructed_subject(
    space: ConstructedSpace, *, other: ProbedModel | None = None
) -> ProbedModel:
    """Wrap a constructed space as a probed model."""
    scorer = SpaceScorer(space)
    return ProbedModel(space.name, scorer, space, scorer, other=other)


def bag_of_words_space() -> ConstructedSpace:
    """Return a space that knows every word and no relation between words.

    An image is the sum of the directions of all shapes, colours, sizes and textures of its things;
    a caption is that of its content words, where synonyms are one word. Relations, numbers,
    negation, "thing" and positions do not count: images of the same things in other places have the
    same vector, and so have shuffled images and shuffled words.
    """

    def bag(values: Iterable[tuple[str, str]], content: str) -> FloatArray:
        # Summed in one order, so that equal bags are equal to the last bit.
        vectors = [signs(f"{name} {value}", WIDTH) for name, value in sorted(values)]
        total: FloatArray = np.sum(vectors or [signs(f"no words in {content}", WIDTH)], axis=0)
        return total

    def of_image(image: ImageSource) -> FloatArray:
        scene = scene_behind(image, through_shuffles=True)
        if scene is None:
            raise UnbagError(
                f"image {image.name!r} has no scene",
                expected="an image of the built-in world: constructed spaces read its scene",
                hint="use this space with data of the world only",
            )
        return bag(
            {(name, getattr(t, name)) for t in scene.things for name in ATTRIBUTES}, "nothing"
        )

    def of_caption(text: str) -> FloatArray:
        words = {(w.attribute, w.value) for w in content_words(text) if w.value is not None}
        return bag(words, text)

    return ConstructedSpace("bag of words", "constructed:bag/1", of_image, of_caption)


def collapsed_space(*, noise: float = 0.05) -> ConstructedSpace:
    """Return a space with one direction for all images and one for all captions, plus noise.

    Without noise, every image has the same vector.
    """

    def of_image(image: ImageSource) -> FloatArray:
        return signs("pictures", SMALL) + noise * signs(f"picture {image.key}", SMALL)

    def of_caption(text: str) -> FloatArray:
        return signs("captions", SMALL) + noise * signs(f"caption {text}", SMALL)

    return ConstructedSpace(
        "collapsed space", f"constructed:collapsed/1/{noise:g}", of_image, of_caption
    )


def detector_space(rows: Sequence[Row]) -> ConstructedSpace:
    """Return a space that knows which texts are edits, but not what texts mean.

    An original points to its images; any other text, a true or a false edit, is equally far from
    all images and from all originals. A text has one vector: a text that is original in one row and
    edit in another keeps its first role. `unmixed` returns the rows in which no text has two roles.
    """
    role: dict[str, str] = {}
    for row in rows:
        for text, text_role in _roles(row):
            role.setdefault(text, text_role)
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
        images_D = np.sum([signs(f"picture {key}", SMALL) for key in keys], axis=0)
        return _detected(images_D / np.linalg.norm(images_D), np.zeros(SMALL))

    identity = blake2b(repr(sorted(images_of.items())).encode(), digest_size=8).hexdigest()
    return ConstructedSpace(
        "perturbation detector", f"constructed:detector/1/{identity}", of_image, of_caption
    )


def unmixed(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows, in order, in which every text has its first role.

    The world's triples use each caption as original, negative and positive in turn, so that scoring
    captions alone does not help; on all of them, no space can be a detector.
    """
    role: dict[str, str] = {}
    unmixed_rows = []
    for row in rows:
        roles = _roles(row)
        if all(role.get(text, text_role) == text_role for text, text_role in roles) and len(
            dict(roles)
        ) == len(roles):
            role.update(roles)
            unmixed_rows.append(row)
    return tuple(unmixed_rows)


def _roles(row: Row) -> list[tuple[str, str]]:
    edits = [text for text in (row.negative, row.positive) if text is not None]
    return [(row.caption, "original"), *((text, "edit") for text in edits)]


def _detected(image_D: FloatArray, edit_D: FloatArray) -> FloatArray:
    """Concatenate a shared number, a part unique to images and a part unique to edits."""
    return np.concatenate([[0.5], image_D, edit_D])


def perfect_space() -> ConstructedSpace:
    """Return the best space for the world that a cosine allows.

    An image is the sum of the directions of all facts that are true of it; the rest of its length
    encodes the positions of its things, so that different scenes differ. A caption is the sum of
    the directions of its claims, scaled so that every true caption has exactly the same cosine with
    every image, and a false one a cosine that is lower by the share that is false (up to noise for
    relations and numbers, which are too many for a coordinate each and have random directions). A
    denial points away from what it denies. A text outside the world's grammar is orthogonal to all
    images.

    Limits: a sum of facts has no "another": "a star and a star" is true of one star. A thing with
    three or more attributes is encoded by every two of them, so denying it loses where half of it
    is present; it still beats a false denial. Numbers and relations mention shape and colour only.
    In crowded scenes (three different things, or four copies), all cosines shrink together.
    """
    return ConstructedSpace(
        "perfect space", "constructed:perfect/1", _perfect_image, _perfect_caption
    )


def _perfect_image(image: ImageSource) -> FloatArray:
    scene = scene_behind(image)
    if scene is None:
        return _joined(_sum({}), image=signs(f"picture {image.key}", OWN))
    facts = facts_of(scene)
    squared_length = max(ROOM, sum(_weight(fact) ** 2 for fact in facts))
    step = (SHARE / squared_length) ** 0.5
    fact_D = _sum({fact: step * _weight(fact) for fact in facts}, is_exact=True)
    rest_length = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    positions = sorted((t.shape, t.colour, t.size, t.texture, t.x, t.y) for t in scene.things)
    return _joined(fact_D, image=rest_length * signs(f"scene {positions}", OWN))


def _perfect_caption(text: str) -> FloatArray:
    try:
        ast = meaning(parse(text))
    except UnbagError:
        return _joined(_sum({}), caption=signs(f"text {text}", OWN))
    weights = {fact: TRUE * share / (STEP * _weight(fact)) for fact, share in claims(ast).items()}
    fact_D = _sum(weights)
    rest_length = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    own_D = rest_length * signs(f"meaning {ast}", OWN)
    # Orthogonal to affirmations, so that a denial is nearer to nothing than to what it denies.
    is_denial = isinstance(ast, Not | Has)
    return _joined(fact_D, denial=own_D) if is_denial else _joined(fact_D, caption=own_D)


def facts_of(scene: Scene) -> list[str]:
    """Return all facts that captions can claim, and the position of each shape, sorted."""
    things = scene.things
    facts = {SOMETHING} if things else set()
    for thing in things:
        values = _values(thing, ATTRIBUTES)
        facts |= {_is(subset) for n in (1, 2) for subset in combinations(values, n)}
        facts.add(_place(thing, scene))
    counts = Counter(_values(thing, mention) for thing in things for mention in _MENTIONS)
    facts |= {_count(n, values) for values, n in counts.items()}
    for i, relation, j in relations(scene):
        if relation in _FORWARD:
            mentions = product(*([_values(things[k], m) for m in _MENTIONS] for k in (i, j)))
            facts |= {_related(a, relation, b) for a, b in mentions}
    return sorted(facts)


def claims(ast: Ast) -> dict[str, float]:
    """Return the facts that a caption claims with their shares: they sum to 1 where all are true.

    A denied fact counts against the caption by more than the rest counts for it.
    """
    match ast:
        case Obj():
            values = _values(ast, ATTRIBUTES)
            facts = [_is(two) for two in combinations(values, 2)] or [
                _is((value,)) for value in values
            ]
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
            present_parts = (0.5, claims(present)), (0.5, {SOMETHING: 1.0})
            return _mixed(*present_parts, (-1.0, claims(absent)))


def _values(thing: Thing | Obj, attributes: tuple[Attribute, ...]) -> tuple[str, ...]:
    """Return the known attributes of a thing, in a fixed order."""
    attribute_values = ((name, getattr(thing, name)) for name in attributes)
    return tuple(f"{name} {value}" for name, value in attribute_values if value is not None)


def _is(values: tuple[str, ...]) -> str:
    return f"is {' and '.join(values)}"


def _count(n: int, values: tuple[str, ...]) -> str:
    return f"exactly {n}: {' and '.join(values)}"


def _related(first: tuple[str, ...], relation: Relation, second: tuple[str, ...]) -> str:
    return f"{' and '.join(first)} | {relation} | {' and '.join(second)}"


def _place(thing: Thing, scene: Scene) -> str:
    """Return the fact in which ninth of the canvas a shape lies."""
    pixels = WORLDS[scene.world].pixels
    return f"lies {thing.shape} {3 * thing.x // pixels} {3 * thing.y // pixels}"


def _weight(fact: str) -> float:
    """Return the weight of a fact: shape and position of a thing count more than others."""
    is_shape = fact.startswith("is shape") and " and " not in fact
    return 2.0 if is_shape or fact.startswith("lies ") or fact == SOMETHING else 1.0


def _mixed(*parts: tuple[float, dict[str, float]]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for factor, part in parts:
        for fact, share in part.items():
            shares[fact] = shares.get(fact, 0.0) + factor * share
    return shares


def _sum(weights: dict[str, float], *, is_exact: bool = False) -> FloatArray:
    """Concatenate facts with a coordinate each and the sum of random directions of the others.

    Random directions are not exactly orthogonal. If `is_exact`, the sum has exactly these products
    with its directions.
    """
    coordinate_S = np.zeros(len(_place_of()))
    other_weights = {fact: weight for fact, weight in weights.items() if fact not in _place_of()}
    for fact in weights.keys() - other_weights.keys():
        coordinate_S[_place_of()[fact]] = weights[fact]
    direction_FD = np.array([signs(fact, DRAWN) for fact in other_weights]).reshape(-1, DRAWN)
    weight_F = np.array(list(other_weights.values()))
    if is_exact:
        weight_F = np.linalg.solve(direction_FD @ direction_FD.T, weight_F)
    return np.concatenate([coordinate_S, weight_F @ direction_FD])


@cache
def _place_of() -> dict[str, int]:
    """Return the coordinates of the facts on one or two attributes of a thing."""
    shapes = [noun.name for noun in NOUNS]
    names: Sequence[Iterable[str]] = (shapes, COLOURS, SIZES, TEXTURES)
    named_values = zip(ATTRIBUTES, names, strict=True)
    values = [[f"{attribute} {name}" for name in names] for attribute, names in named_values]
    facts = [SOMETHING, *(_is((value,)) for names in values for value in names)]
    facts += [_is(two) for names in combinations(values, 2) for two in product(*names)]
    return {fact: place for place, fact in enumerate(facts)}


def _joined(
    fact_D: FloatArray,
    *,
    image: FloatArray = _NONE,
    caption: FloatArray = _NONE,
    denial: FloatArray = _NONE,
) -> FloatArray:
    """Concatenate facts and unique parts: unique parts of different kinds are orthogonal."""
    return np.concatenate([fact_D, image, caption, denial])


def scene_behind(image: ImageSource, *, through_shuffles: bool = False) -> Scene | None:
    """Return the scene of an image; None if it has none.

    A shuffled image has none either, unless `through_shuffles` ignores the order of its parts.
    """
    if through_shuffles and isinstance(image, ShuffledImage):
        return scene_behind(image.image, through_shuffles=True)
    return image.scene if isinstance(image, SceneImage) else None


def signs(name: str, width: int) -> FloatArray:
    """Return a unit vector that depends on a name only, the same on every machine.

    Vectors of different names are nearly orthogonal: cosines have mean 0 and standard deviation
    1 / sqrt(width).
    """
    blocks = [blake2b(f"{name}|{i}".encode()).digest() for i in range(ceil(width / _BITS))]
    bit_D = np.unpackbits(np.frombuffer(b"".join(blocks), dtype=np.uint8), count=width)
    vector_D: FloatArray = (2.0 * bit_D.astype(float) - 1.0) / sqrt(width)
    return vector_D


def scaled(vector_D: FloatArray) -> FloatArray:
    """Normalise to length 1."""
    unit_D: FloatArray = vector_D / np.linalg.norm(vector_D)
    return unit_D
