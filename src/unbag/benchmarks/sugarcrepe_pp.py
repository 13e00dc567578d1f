"""SugarCrepe++: one image, two captions that both describe it, and a hard negative.

The official image-text hit (both captions above the negative) is our `augmented`; the official
text-only hit, which uses only the text encoder, is `text_only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import FIRST_AND_THIRD
from unbag.benchmarks.sources import benchmark_fields
from unbag.benchmarks.sugarcrepe import rows
from unbag.metrics.triples import TextOnly, Triples
from unbag.types import MICRO, Aggregate, Benchmark, Item

KINDS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def load(root: Path | None) -> Sequence[Item]:
    """Load all five files; images are COCO val2017."""
    return [
        Item(
            id=f"{tags['kind']}/{record.read('id', int)}",
            images=(image,),
            captions=record.captions("caption", "negative_caption", "caption2"),
            truth=FIRST_AND_THIRD,
            tags=tags,
            kinds=("original", tags["kind"], "paraphrase"),
        )
        for record, image, tags in rows(root, "sugarcrepe_pp", KINDS)
    ]


SUGARCREPE_PP = Benchmark(
    **benchmark_fields("sugarcrepe_pp"),
    load=load,
    metrics=(Triples(), TextOnly()),
    compares_captions=True,
    headline="augmented",
    aggregates=(
        Aggregate(by=("kind",), label="macro5"),
        Aggregate(by=("family", "kind"), label="macro2"),
        MICRO,
    ),
    official_ties="wrong",
    files=tuple(f"{kind}.json" for kind in KINDS),
)
