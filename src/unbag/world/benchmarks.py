"""The benchmarks of the built-in world; they need no files.

Every caption of an item is true of one image of its group and false of another, so that a scorer
without images gains nothing (methods.md 12.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Literal

import numpy as np

from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Groups, Pairs
from unbag.metrics.retrieval import Recall, Retention
from unbag.metrics.triples import Triples
from unbag.types import MICRO, Aggregate, Benchmark, Item, Metric, Sparse
from unbag.world.grammar import And, Ast, Obj, Rel, holds, realise
from unbag.world.placement import place_apart, sample_look, what_sup_set
from unbag.world.quads import FLAT, Quad, orbit, quads, triples
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, is_clear
from unbag.world.stream import split_seed
from unbag.world.truth import holds_matrix
from unbag.world.vocabulary import DEFAULT, INVERSE, Relation, World, withheld_combinations

SEED = split_seed("test", 0)

_SETS: dict[Literal["a", "b"], tuple[Relation, ...]] = {
    "a": ("left of", "right of", "on", "under"),
    "b": ("left of", "right of", "in front of", "behind"),
}
REPLACED_LOOKS = ("replace_colour", "replace_shape", "replace_size", "replace_texture")


def _benchmark(
    name: str,
    about: str,
    make: Callable[[], Sequence[Item]],
    metrics: tuple[Metric, ...],
    headline: str,
    *,
    aggregate: Aggregate = MICRO,
) -> Benchmark:
    # The items are the same at every call.
    cached_make = cache(make)
    return Benchmark(
        name=name,
        about=about,
        load=lambda root: cached_make(),
        metrics=metrics,
        headline=headline,
        licence="MIT",
        sources=("unbag world",),
        aggregates=(aggregate,),
    )


SWAP = _benchmark(
    "world-swap",
    "Which colour belongs to which shape: 'a red star and a blue cup' with the colours exchanged.",
    lambda: triple_items(["swap"], n=100),
    (Triples(),),
    "original",
)

REPLACE = _benchmark(
    "world-replace",
    "Which words fit: one colour, shape, size or texture is replaced. A bag of words can do it.",
    lambda: triple_items(REPLACED_LOOKS, n=40),
    (Triples(),),
    "original",
)

RELATION = _benchmark(
    "world-relation",
    "Who is where: 'a star left of a cup' with the things exchanged or the relation reversed.",
    lambda: triple_items(["relation", "replace_relation"], n=60),
    (Triples(),),
    "original",
)

ORDER = _benchmark(
    "world-order",
    "Four sentences of exactly the same words, one of them true.",
    lambda: order_items(n=60),
    (Choice(),),
    "accuracy",
)

PAIRS_A = _benchmark(
    "world-pairs-a",
    "One pair of things left of, right of, on and under each other (What'sUp, subset A).",
    lambda: set_items("a", n=100),
    (Pairs({"left/right": (0, 1), "on/under": (2, 3)}),),
    "pair",
)

PAIRS_B = _benchmark(
    "world-pairs-b",
    "One pair of things left of, right of, in front of and behind each other (subset B).",
    lambda: set_items("b", n=100),
    (Pairs({"left/right": (0, 1), "front/behind": (2, 3)}),),
    "pair",
)

BINDING = _benchmark(
    "world-binding",
    "Two images that differ only in which thing has which colour, two captions (Winoground).",
    lambda: pair_items("swap", n=100),
    (Groups(), Pairs()),
    "group",
)

COUNT = _benchmark(
    "world-count",
    "Two images with n and n + 1 copies of a thing, two captions that give the number.",
    lambda: pair_items("count", n=100),
    (Groups(), Pairs()),
    "group",
)

TEXTURE = _benchmark(
    "world-texture",
    "Two images that differ only in the texture of a thing: plain, striped, dotted, checkered.",
    lambda: pair_items("replace_texture", n=80),
    (Groups(), Pairs()),
    "group",
)

NEGATION = _benchmark(
    "world-negation",
    "Two images with and without a thing: 'a star and a cup', 'a star but no cup'.",
    lambda: pair_items("negate", n=100),
    (Groups(), Pairs()),
    "group",
)

RETRIEVAL = _benchmark(
    "world-retrieval",
    "Find the image of a caption among 400, and again with all words of the caption shuffled.",
    lambda: retrieval_items(n=400),
    (Recall(), Retention()),
    "text_to_image@1",
    aggregate=Aggregate(only=(("order", "kept"),)),
)


def triple_items(families: Sequence[str], *, n: int) -> tuple[Item, ...]:
    """Eight triples (c, c_n, c_p) from each of n quads per family."""
    return tuple(
        Item(
            id=f"{family}/{i}/{k}",
            images=(SceneImage(t.scene, f"world/{family}/{i}/{k // 4}"),),
            captions=(t.caption, t.negative, t.positive),
            truth=np.array([[True, False, True]]),
            group=f"{family}/{i}",
            tags={**quad_tags(q), "form": t.order},
            # A negative of the other form differs by both kinds of edits of its family.
            kinds=(
                "original",
                q.negative if t.order == "kept" else f"{q.negative} and {q.positive}",
                q.positive,
            ),
        )
        for family in families
        for i, q in enumerate(quads(family, DEFAULT, n=n, seed=SEED))
        for k, t in enumerate(triples(q))
    )


def pair_items(family: str, *, n: int) -> tuple[Item, ...]:
    """2 x 2: the two scenes of a quad, each with its caption of the first form."""
    return tuple(
        Item(
            id=f"{family}/{i}",
            images=tuple(
                SceneImage(scene, f"world/{family}/{i}/{k}") for k, scene in enumerate(q.scenes)
            ),
            captions=(q.captions[0][0], q.captions[1][0]),
            truth=np.eye(2, dtype=np.bool_),
            tags=quad_tags(q),
        )
        for i, q in enumerate(quads(family, DEFAULT, n=n, seed=SEED))
    )


def order_items(*, n: int) -> tuple[Item, ...]:
    """1 x 4: four captions of the same words in different order, one of them true.

    ARO shuffles words into nonsense, which a language model detects without the image. Here all
    four are sentences, and each is true of another scene.
    """
    items = []
    for i in range(n):
        relation = FLAT[i % len(FLAT)]
        o = orbit(DEFAULT, np.random.default_rng((SEED, 1, i)), relation=relation)
        for k, scene in enumerate(o.scenes):
            # Index 1 exchanges the things, 2 the colours, 3 both: exclusive or relates them.
            item = Item(
                id=f"order/{i}/{k}",
                images=(SceneImage(scene, f"world/order/{i}/{k}"),),
                captions=tuple(o.captions[k ^ change] for change in range(4)),
                truth=np.array([[True, False, False, False]]),
                group=f"order/{i}",
                tags={"relation": o.relation, "combination": combination(o.scenes)},
                kinds=("original", "swap_arguments", "swap_attributes", "swap_both"),
            )
            items.append(item)
    return tuple(items)


def set_items(subset: Literal["a", "b"], *, n: int) -> tuple[Item, ...]:
    """4 x 4: one pair of things in four arrangements, as in What'sUp."""
    items: list[Item] = []
    number = 0
    while len(items) < n:
        rng = np.random.default_rng((SEED, 2, ord(subset), number))
        number += 1
        item = _set_item(DEFAULT, subset, len(items), rng)
        if item is not None:
            items.append(item)
    return tuple(items)


def _set_item(
    world: World, subset: Literal["a", "b"], i: int, rng: np.random.Generator
) -> Item | None:
    """One item; None where the two things do not give four unambiguous scenes."""
    first, second = sample_look(world, rng), sample_look(world, rng)
    if first.shape == second.shape or first.colour == second.colour:
        return None
    second = replace(second, size=first.size)
    scenes = what_sup_set(world, first, second, subset, rng)
    asts = [Rel(Obj(first.shape), r, Obj(second.shape)) for r in _SETS[subset]]
    truth = np.array([[holds(ast, scene) for ast in asts] for scene in scenes])
    if not np.array_equal(truth, np.eye(4, dtype=np.bool_)) or not all(map(is_clear, scenes)):
        return None
    return Item(
        id=f"pairs-{subset}/{i}",
        images=tuple(
            SceneImage(scene, f"world/pairs-{subset}/{i}/{k}") for k, scene in enumerate(scenes)
        ),
        captions=tuple(realise(ast) for ast in asts),
        truth=truth,
        tags={"size": first.size},
    )


def retrieval_items(*, n: int) -> tuple[Item, ...]:
    """Two galleries of the same n images: with the captions, and with all words shuffled.

    Captions name both things with their colours. A caption may be true of several images.
    """
    scenes: list[Scene] = []
    asts: list[Ast] = []
    texts: set[str] = set()
    for i in range(2 * n):
        rng = np.random.default_rng((SEED, 3, i))
        a, b = sample_look(DEFAULT, rng), sample_look(DEFAULT, rng)
        scene = place_apart(DEFAULT, (a, b), rng)
        ast = And(Obj(a.shape, a.colour), Obj(b.shape, b.colour))
        if a.shape != b.shape and a.colour != b.colour and realise(ast) not in texts:
            texts.add(realise(ast))
            scenes.append(scene)
            asts.append(ast)
        if len(scenes) == n:
            break
    row_T, column_T = np.nonzero(holds_matrix(asts, scenes))
    captions = [realise(ast) for ast in asts]
    images = tuple(SceneImage(s, f"world/retrieval/{i}") for i, s in enumerate(scenes))
    return tuple(
        Item(
            id=f"retrieval/{order}",
            images=images,
            captions=tuple(captions if order == "kept" else map(shuffled, captions)),
            truth=Sparse((n, n), row_T, column_T),
            group="retrieval",
            tags={"order": order},
        )
        for order in ("kept", "shuffled")
    )


def shuffled(caption: str) -> str:
    """All words in another order; the caption itself is the seed."""
    seed = int.from_bytes(blake2b(caption.encode(), digest_size=8).digest(), "big")
    rng = np.random.default_rng(seed)
    words = caption.split()
    for _ in range(20):
        text = " ".join(rng.permutation(words).tolist())
        if text != caption:
            return text
    return caption


def quad_tags(q: Quad) -> dict[str, str]:
    """The tags of a quad, by which results are broken down."""
    tags = {"kind": q.negative, "combination": combination(q.scenes)}
    if q.relation:
        # The axis, not the word: the captions of a quad contain both words, and splitting them
        # would break the symmetry that holds blind scorers at chance.
        tags["relation"] = "/".join(sorted((q.relation, INVERSE[q.relation]))).replace(" of", "")
    if q.family == "count":
        tags["counts"] = "-".join(map(str, sorted(len(scene.things) for scene in q.scenes)))
    return tags


def combination(scenes: Iterable[Scene]) -> str:
    """Whether the scenes contain a (shape, colour) combination that `tiny:base` never saw."""
    withheld = withheld_combinations(DEFAULT)
    present = {(thing.shape, thing.colour) for scene in scenes for thing in scene.things}
    return "unseen" if present & withheld else "seen"
