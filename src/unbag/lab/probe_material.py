"""The seed of a base comes in; all that its arms are asked, made once for all of them, goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unbag.lab.arm_result import Size
from unbag.lab.questions import Questions
from unbag.probes.base import Gallery
from unbag.probes.classifiers import Effort
from unbag.probes.concepts import Ring, rings
from unbag.probes.extract_data import Sheet, orbit_sheet
from unbag.probes.order import Shuffled, WorldTagger, shuffle_captions
from unbag.types import Item, Picture, Sparse
from unbag.world.benchmarks import pair_items, retrieval_items, set_items, triple_items


@dataclass(frozen=True)
class Amount:
    """How much is asked."""

    times: int
    """Items of benchmarks, in the number of the registered."""
    gallery: int
    """Pictures to search among."""
    draws: int
    """Of each shuffle of captions; pictures are shuffled once, since each must be encoded anew."""
    rings: int
    """Of four things each."""
    sets: int
    """Of four pictures to read from; each of 16 pairs of things has as many."""
    edited: int
    """Captions with edits by which a reader of captions is taught; a third of them test it."""
    quads: int
    """Whose captions and edits are compared, of each benchmark of edits; and as many sets of
    pictures of each kind. They are among the items of benchmarks, so little is encoded for them."""
    effort: Effort
    """Of readers of pictures; strengths are those of standardised features."""
    penalties: tuple[float, ...]
    """Among which a reader of captions chooses."""
    benchmarks: tuple[str, ...] | None = None
    """That models are asked; all of them if None."""
    every: int = 1
    """Which of their items models are asked: each so-many-th."""


AMOUNTS: Mapping[Size, Amount] = MappingProxyType(
    {
        "full": Amount(
            times=2,
            gallery=400,
            draws=3,
            rings=12,
            sets=512,
            edited=6_144,
            quads=200,
            effort=Effort(folds=4, inverse_strengths=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
            penalties=(1e-5, 1e-4, 1e-3, 1e-2),
        ),
        "small": Amount(
            times=1,
            gallery=24,
            draws=1,
            rings=2,
            sets=16,
            edited=384,
            quads=4,
            effort=Effort(inverse_strengths=(1e-3,)),
            penalties=(1e-3,),
            benchmarks=("world-relation", "world-pairs-a", "world-retrieval"),
            every=8,
        ),
    }
)

_FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "world-swap": ("swap",),
        "world-relation": ("relation", "replace_relation"),
        "world-replace": ("replace_colour", "replace_shape", "replace_size", "replace_texture"),
    }
)


@dataclass(frozen=True)
class Triple:
    """A picture, its caption, a hard negative and a hard positive."""

    picture: Picture
    caption: str
    negative: str
    positive: str


@dataclass(frozen=True, eq=False)
class Asked:
    """What every model of a base is asked."""

    questions: Questions
    triples: Mapping[str, tuple[Triple, ...]]
    """By benchmark."""
    pairs: Mapping[str, tuple[tuple[Picture, Picture], ...]]
    """Different pictures of the same things, by what differs."""
    gallery: Gallery
    shuffled: tuple[Shuffled, ...]
    """Every draw of every shuffle of the gallery's captions."""
    rings: tuple[Ring, ...]
    sheet: Sheet[Picture]
    effort: Effort
    seed: int


def make_asked(questions: Questions, amount: Amount, *, seed: int) -> Asked:
    """Benchmarks, edits and pairs are the same for all bases; the rest is drawn by the seed."""
    gallery = _gallery(amount.gallery)
    seeds = range(seed, seed + amount.draws)
    return Asked(
        questions,
        {name: _triples(kinds, amount.quads) for name, kinds in _FAMILIES.items()},
        _pairs(amount.quads),
        gallery,
        tuple(shuffle_captions(gallery.captions, seeds=seeds, tagger=WorldTagger())),
        rings(amount.rings, seed=seed),
        orbit_sheet("left of", amount.sets, seed=seed),
        amount.effort,
        seed,
    )


def _triples(families: Sequence[str], quads: int) -> tuple[Triple, ...]:
    """Each once: the world turns caption and positive round, after which positives cost nothing."""
    each = -(-quads // len(families))
    seen: set[tuple[object, str, str]] = set()
    found = []
    for item in triple_items(families, n=each):
        (picture,), (caption, negative, positive) = item.pictures, item.captions
        one = Triple(picture, str(caption), str(negative), str(positive))
        if (picture.key, one.positive, one.caption) not in seen:
            seen.add((picture.key, one.caption, one.positive))
            found.append(one)
    return tuple(found)


def _pairs(sets: int) -> dict[str, tuple[tuple[Picture, Picture], ...]]:
    a, b = set_items("a", n=sets), set_items("b", n=sets)
    return {
        "left/right": _two(a, 0),
        "on/under": _two(a, 2),
        "left/right of set b": _two(b, 0),
        "front/behind": _two(b, 2),
        "colours": _two(pair_items("swap", n=sets), 0),
    }


def _two(items: Sequence[Item], at: int) -> tuple[tuple[Picture, Picture], ...]:
    return tuple((item.pictures[at], item.pictures[at + 1]) for item in items)


def _gallery(pictures: int) -> Gallery:
    kept = retrieval_items(n=pictures)[0]
    assert isinstance(kept.truth, Sparse)
    captions = tuple(map(str, kept.captions))
    return Gallery(tuple(kept.pictures), captions, kept.truth.row_T, kept.truth.column_T)
