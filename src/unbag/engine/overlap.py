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
        "Visual7W": frozenset(
            ("Visual Genome", "COCO", "COCO train2014", "COCO val2014", "COCO train2017")
        ),
        "VAW": frozenset(("Visual Genome",)),
        "Flickr30k": frozenset(("Flickr8k",)),
    }
)
"""Collection -> others it shares pictures with; it is read both ways."""


ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "vg": "Visual Genome",
        "visualgenome": "Visual Genome",
        "mscoco": "COCO",
        "mscoco2014": "COCO",
        "coco2014": "COCO",
        "coco2017": "COCO",
        "cocokarpathy": "COCO Karpathy train",
        "flickr30": "Flickr30k",
        "imagenet1k": "ImageNet",
    }
)
"""Other names of collections, written without spaces, dashes and capitals."""

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
        for seen in map(usual_name, trained_on)
        for asked in sources
        if seen.casefold() == asked.casefold()
        or frozenset((seen.casefold(), asked.casefold())) in _PAIRS
    ]


def usual_name(collection: str) -> str:
    """A collection by the name that benchmarks use."""
    plain = "".join(letter for letter in collection.casefold() if letter.isalnum())
    return ALIASES.get(plain, collection)


def overlap_warnings(
    trained_on: Mapping[str, Sequence[str]], benchmarks: Sequence[Benchmark]
) -> list[str]:
    """One sentence for each model and benchmark that share pictures."""
    known = {name.casefold() for pair in _PAIRS for name in pair}
    known |= {source.casefold() for benchmark in benchmarks for source in benchmark.sources}
    found = []
    for model, seen in trained_on.items():
        found += [
            f"nothing is known about the pictures of {name!r}, which {model} was trained on; check "
            "its overlap with the benchmarks yourself"
            for name in seen
            if usual_name(name).casefold() not in known
        ]
        for benchmark in benchmarks:
            shared = overlaps(seen, benchmark.sources)
            if shared:
                pairs = sorted({a if a == b else f"{a} (shares with {b})" for a, b in shared})
                found.append(
                    f"{model} was trained on {', '.join(pairs)}, and {benchmark.name} is made from "
                    "it: the model may have seen these pictures"
                )
    return found
