"""Compare our numbers with published ones, and warn if a model was trained on test images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from unbag.published.lookup import doubts, is_same, published_name
from unbag.types import (
    Benchmark,
    EmbeddingScorer,
    Estimate,
    EvalProtocol,
    Published,
    Reference,
    Result,
    Scorer,
)

_COCO = frozenset(("COCO train2014", "COCO val2014", "COCO train2017", "COCO val2017"))
SHARES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # COCO 2017 is a new split of COCO 2014: its training part holds most of val2014, and all
        # of val2017 was in val2014. Karpathy's training split adds 30,504 images of val2014.
        "COCO": _COCO,
        "COCO train2017": frozenset(("COCO train2014", "COCO val2014")),
        "COCO val2017": frozenset(("COCO val2014",)),
        "COCO Karpathy train": _COCO,
        # About half of Visual Genome's images are from COCO, from both splits.
        "Visual Genome": _COCO | {"COCO"},
        # Uses images of Visual Genome.
        "GQA": frozenset(("Visual Genome",)),
        "Visual7W": (_COCO | {"Visual Genome", "COCO"}) - {"COCO val2017"},
        "VAW": frozenset(("Visual Genome",)),
        "Flickr30k": frozenset(("Flickr8k",)),
    }
)
"""Collection -> others that share images with it; the relation is symmetric."""
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
"""Other names of collections, in lower case without spaces and dashes."""
_PAIRS = frozenset(
    frozenset((name.casefold(), other.casefold()))
    for name, others in SHARES.items()
    for other in others
)


def references(
    benchmark: Benchmark, results: Sequence[Result], *, model: str, incomplete: Sequence[str] = ()
) -> tuple[Reference, ...]:
    """Published numbers of this model, and the headline numbers of other models for comparison.

    `results` belong to one scorer, under one or more protocols. Blind scorers get none, because no
    published model is blind.
    """
    seeing_results = [result for result in results if not result.is_blind]
    all_references = []
    for number in _numbers_to_show(benchmark, model):
        match = _nearest_result(number, benchmark, seeing_results)
        if match is None:
            continue
        result, estimate = match
        is_same_model = is_same(number.model, model)
        notes = [number.note] if number.note else []
        if not number.aggregate:
            notes.insert(0, f"the source does not say how it averages; ours is {result.aggregate}")
        reference = Reference(
            benchmark=benchmark.name,
            scorer=result.scorer,
            published=number,
            ours=estimate,
            is_same_model=is_same_model,
            is_comparable=bool(number.aggregate)
            and number.scoring == result.protocol.scoring
            and not incomplete,
            doubts=tuple(notes) + doubts(number),
        )
        if is_same_model:
            protocol_notes = _protocol_doubts(number, result.protocol, benchmark, incomplete)
            reference = replace(reference, doubts=protocol_notes + reference.doubts)
        all_references.append(reference)
    return tuple(all_references)


def scale_rule(benchmark: Benchmark) -> str:
    """The averaging rule for comparing models: ours, or else the first published one."""
    ours = benchmark.aggregates[0].name
    rules = [p.aggregate for p in benchmark.published if p.metric == benchmark.headline]
    return ours if ours in rules or not any(rules) else next(filter(None, rules))


def _numbers_to_show(benchmark: Benchmark, model: str) -> list[Published]:
    """The numbers of this model, then of others; numbers that a paper repeats appear once."""
    rule = scale_rule(benchmark)
    rules = (rule, "") if rule == benchmark.aggregates[0].name else (rule,)
    own_numbers = [p for p in benchmark.published if is_same(p.model, model)]
    other_numbers = [
        p
        for p in benchmark.published
        if not is_same(p.model, model) and p.metric == benchmark.headline and p.aggregate in rules
    ]
    unique: dict[object, Published] = {}
    for p in (*own_numbers, *other_numbers):
        paper = p.source.partition(", ")[0]
        key = (p.model, p.metric, p.aggregate, p.value, p.scoring, p.has_errata, paper)
        unique.setdefault(key, p)
    return list(unique.values())


def _nearest_result(
    number: Published, benchmark: Benchmark, results: Sequence[Result]
) -> tuple[Result, Estimate] | None:
    """Our number for the same metric and rule, under the protocol nearest to the source's."""
    official = benchmark.official_ties or "wrong"
    rule = number.aggregate or benchmark.aggregates[0].name

    def distance(result: Result) -> tuple[bool, bool]:
        protocol = result.protocol
        return protocol.ties != official, bool(protocol.errata) != number.has_errata

    tag = rule.removeprefix("micro[").removesuffix("]")
    for result in sorted(results, key=distance):
        numbers: Mapping[str, Estimate] = {}
        if result.aggregate == rule:
            numbers = result.overall
        elif rule == f"micro[{tag}]":
            numbers = result.by_tag.get(tag, {})
        estimate = numbers.get(number.metric)
        if estimate is not None and estimate.n:
            return result, estimate
    return None


def _protocol_doubts(
    number: Published, protocol: EvalProtocol, benchmark: Benchmark, incomplete: Sequence[str]
) -> tuple[str, ...]:
    """Differences between the source's protocol and ours."""
    differences = []
    if number.scoring != protocol.scoring:
        differences.append(f"scored by {number.scoring} there, by {protocol.scoring} here")
    if benchmark.errata is not None and number.has_errata != bool(protocol.errata):
        there, here = ("there", "not here") if number.has_errata else ("here", "not there")
        differences.append(f"known errors ({benchmark.errata.name}) are corrected {there}, {here}")
    official = benchmark.official_ties
    if official is not None and protocol.ties != official:
        differences.append(f"ties are {official} there, {protocol.ties} here")
    return (*differences, *(f"incomplete here: {why}" for why in incomplete))


def model_of(scorer: Scorer, published_as: Mapping[str, str]) -> str:
    """The name of a scorer's model in papers: from the user, the scorer itself, or our list."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    given_name = getattr(scorer, "published_as", "") or getattr(model, "published_as", "")
    return published_name(scorer.name, published_as.get(scorer.name, "") or str(given_name))


def overlap_warnings(
    trained_on: Mapping[str, Sequence[str]], benchmarks: Sequence[Benchmark]
) -> list[str]:
    """A warning for each model and benchmark that share images."""
    known_names = {name.casefold() for pair in _PAIRS for name in pair}
    known_names |= {source.casefold() for benchmark in benchmarks for source in benchmark.sources}
    warnings = []
    for model, collections in trained_on.items():
        warnings += [
            f"the images of {name!r}, which {model} was trained on, are unknown; check its overlap "
            "with the benchmarks yourself"
            for name in collections
            if usual_name(name).casefold() not in known_names
        ]
        for benchmark in benchmarks:
            shared = overlaps(collections, benchmark.sources)
            if shared:
                pairs = sorted({a if a == b else f"{a} (shares with {b})" for a, b in shared})
                warnings.append(
                    f"{model} was trained on {', '.join(pairs)}, and {benchmark.name} is made from "
                    "it: the model may have seen these images"
                )
    return warnings


def declared(scorer: Scorer) -> tuple[str, ...]:
    """The training collections that a scorer or its model declares in `trained_on`."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    collections: object = getattr(scorer, "trained_on", None) or getattr(model, "trained_on", ())
    if isinstance(collections, str):
        return (collections,)
    return tuple(map(str, collections)) if isinstance(collections, Iterable) else ()


def overlaps(trained_on: Iterable[str], sources: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (training collection, test collection) that share images or are the same."""
    return [
        (seen, tested)
        for seen in map(usual_name, trained_on)
        for tested in sources
        if seen.casefold() == tested.casefold()
        or frozenset((seen.casefold(), tested.casefold())) in _PAIRS
    ]


def usual_name(collection: str) -> str:
    """The name of a collection as benchmarks use it."""
    plain = "".join(letter for letter in collection.casefold() if letter.isalnum())
    return ALIASES.get(plain, collection)
