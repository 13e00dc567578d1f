"""The benchmarks of the built-in world, as ordinary registered values. They need no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from unbag.metrics.choice import Choice
from unbag.metrics.groups import Groups
from unbag.metrics.pairs import Pairs
from unbag.metrics.retrieval import Recall, Retention
from unbag.metrics.triples import Triples
from unbag.types import MICRO, Aggregate, Benchmark, Item, Metric
from unbag.world.items import order_items, pair_items, retrieval_items, set_items, triple_items

_REPLACED = ("replace_colour", "replace_shape", "replace_size", "replace_texture")


def _benchmark(
    name: str,
    about: str,
    make: Callable[[], Sequence[Item]],
    metrics: tuple[Metric, ...],
    headline: str,
    *,
    aggregate: Aggregate = MICRO,
) -> Benchmark:
    # Scenes are the same at every call; making them twice in one process would only cost time.
    once = cache(make)

    def load(root: Path | None) -> Sequence[Item]:
        return once()

    return Benchmark(
        name=name,
        about=about,
        load=load,
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
    lambda: triple_items(_REPLACED, n=40),
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
    "Two pictures that differ only in which thing has which colour, two captions (Winoground).",
    lambda: pair_items("swap", n=100),
    (Groups(), Pairs()),
    "group",
)
COUNT = _benchmark(
    "world-count",
    "Two pictures with n and n + 1 copies of a thing, two captions that give the number.",
    lambda: pair_items("count", n=100),
    (Groups(), Pairs()),
    "group",
)
TEXTURE = _benchmark(
    "world-texture",
    "Two pictures that differ only in the texture of a thing: plain, striped, dotted, checkered.",
    lambda: pair_items("replace_texture", n=80),
    (Groups(), Pairs()),
    "group",
)
NEGATION = _benchmark(
    "world-negation",
    "Two pictures with and without a thing: 'a star and a cup', 'a star but no cup'.",
    lambda: pair_items("negate", n=100),
    (Groups(), Pairs()),
    "group",
)
RETRIEVAL = _benchmark(
    "world-retrieval",
    "Find the picture of a caption among 400, and again with all words of the caption shuffled.",
    lambda: retrieval_items(n=400),
    (Recall(), Retention()),
    "text_to_image@1",
    aggregate=Aggregate(only=(("order", "kept"),)),
)
