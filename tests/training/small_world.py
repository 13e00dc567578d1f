"""A tiny encoder of a few numbers, and two benchmarks of a few drawings."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from unbag.metrics.retrieval import Recall
from unbag.metrics.triples import Triples
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.types import Benchmark, Item
from unbag.world.benchmarks import triple_items

WORDS = (
    "a", "red", "star", "to", "the", "left", "of", "small", "striped", "cup", "two", "crimson",
    "discs", "above", "large", "dotted", "square", "but", "no", "tree", "blue", "green", "and",
)  # fmt: skip
CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=8, heads=2, context=16, words=WORDS,
)  # fmt: skip


def small(seed: int, *, name: str = "", config: TinyConfig = CONFIG) -> Tiny:
    """Untrained, so two seeds are two models."""
    return Tiny(untrained(config, seed=seed), name=name or f"tiny:{seed}")


@cache
def _triples() -> tuple[Item, ...]:
    return triple_items(["swap"], n=3)


def _load_triples(root: Path | None) -> tuple[Item, ...]:
    return _triples()


SWAP = Benchmark("small-swap", "Colours exchanged.", _load_triples, (Triples(),), "original")


def _load_gallery(root: Path | None) -> tuple[Item, ...]:
    from unbag.world.benchmarks import retrieval_items

    return tuple(item for item in retrieval_items(n=12) if item.tags["order"] == "kept")


FIND = Benchmark("small-find", "Find the image.", _load_gallery, (Recall((1,)),), "text_to_image@1")
