"""What models say they were trained on and benchmarks are made of come in; warnings go out.

A model that saw the pictures of a test in training is not measured by it. Collections are known by
name; some contain pictures of others, and that is written down here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from unbag.types import Benchmark, EmbeddingScorer, Scorer

SHARES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # COCO 2017 is COCO 2014 cut anew: its training part holds most of val2014, and all of
        # val2017 was val2014 before. Karpathy's training split adds 30,504 pictures of val2014.
        "COCO": frozenset(("COCO train2014", "COCO val2014", "COCO train2017", "COCO val2017")),
        "COCO train2017": frozenset(("COCO train2014", "COCO val2014")),
        "COCO val2017": frozenset(("COCO val2014",)),
        "COCO Karpathy train": frozenset(
            ("COCO train2014", "COCO val2014", "COCO train2017", "COCO val2017")
        ),
        # About half of Visual Genome's pictures are COCO's, from both halves.
        "Visual Genome": frozenset(
            ("COCO", "COCO train2014", "COCO val2014", "COCO train2017", "COCO val2017")
        ),
        # Made from pictures of Visual Genome.
        "GQA": frozenset(("Visual Genome",)),
        "Visual7W": frozenset(("Visual Genome", "COCO")),
        "VAW": frozenset(("Visual Genome",)),
        "Flickr30k": frozenset(("Flickr8k",)),
    }
)
"""Collection -> others it shares pictures with; it is read both ways."""


_PAIRS = frozenset(
    frozenset((name.casefold(), other.casefold()))
    for name, others in SHARES.items()
    for other in others
)


def declared(scorer: Scorer) -> tuple[str, ...]:
    """What a scorer, or the model behind it, says in an attribute `trained_on`; often nothing."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    found: object = getattr(scorer, "trained_on", None) or getattr(model, "trained_on", ())
    if isinstance(found, str):
        return (found,)
    return tuple(map(str, found)) if isinstance(found, Iterable) else ()


def overlaps(trained_on: Iterable[str], sources: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (training collection, test collection) that share pictures, the same one included."""
    return [
        (seen, asked)
        for seen in trained_on
        for asked in sources
        if seen.casefold() == asked.casefold()
        or frozenset((seen.casefold(), asked.casefold())) in _PAIRS
    ]


def overlap_warnings(
    trained_on: Mapping[str, Sequence[str]], benchmarks: Sequence[Benchmark]
) -> list[str]:
    """One sentence for each model and benchmark that share pictures."""
    found = []
    for model, seen in trained_on.items():
        for benchmark in benchmarks:
            shared = overlaps(seen, benchmark.sources)
            if shared:
                pairs = sorted({a if a == b else f"{a} (shares with {b})" for a, b in shared})
                found.append(
                    f"{model} was trained on {', '.join(pairs)}, and {benchmark.name} is made from "
                    "it: the model may have seen these pictures"
                )
    return found
