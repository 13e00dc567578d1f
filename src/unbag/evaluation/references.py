"""Published numbers beside ours, and warnings about models trained on the images of a test."""

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
        # COCO 2017 is COCO 2014 cut anew: its training part holds most of val2014, and all of
        # val2017 was val2014 before. Karpathy's training split adds 30,504 images of val2014.
        "COCO": _COCO,
        "COCO train2017": frozenset(("COCO train2014", "COCO val2014")),
        "COCO val2017": frozenset(("COCO val2014",)),
        "COCO Karpathy train": _COCO,
        # About half of Visual Genome's images are COCO's, from both halves.
        "Visual Genome": _COCO | {"COCO"},
        # Made from images of Visual Genome.
        "GQA": frozenset(("Visual Genome",)),
        "Visual7W": (_COCO | {"Visual Genome", "COCO"}) - {"COCO val2017"},
        "VAW": frozenset(("Visual Genome",)),
        "Flickr30k": frozenset(("Flickr8k",)),
    }
)
"""Collection -> others it shares images with; it is read both ways."""
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


def references(
    benchmark: Benchmark, results: Sequence[Result], *, model: str, incomplete: Sequence[str] = ()
) -> tuple[Reference, ...]:
    """Every number published for this very model, and for scale the headline of the others.

    `results` are those of one scorer, under one or more protocols. A blind scorer gets nothing,
    since no paper's model is one.
    """
    seeing = [result for result in results if not result.is_blind]
    found = []
    for number in _chosen(benchmark, model):
        ours = _ours(number, benchmark, seeing)
        if ours is None:
            continue
        result, estimate = ours
        is_ours = is_same(number.model, model)
        said = [number.note] if number.note else []
        if not number.aggregate:
            said.insert(0, f"the source does not say how it averages; ours is {result.aggregate}")
        reference = Reference(
            benchmark=benchmark.name,
            scorer=result.scorer,
            published=number,
            ours=estimate,
            is_same_model=is_ours,
            is_comparable=bool(number.aggregate)
            and number.scoring == result.protocol.scoring
            and not incomplete,
            doubts=tuple(said) + doubts(number),
        )
        if is_ours:
            differing = _protocol_doubts(number, result.protocol, benchmark, incomplete)
            reference = replace(reference, doubts=differing + reference.doubts)
        found.append(reference)
    return tuple(found)


def scale_rule(benchmark: Benchmark) -> str:
    """The averaging rule under which models are lined up: ours, or else the first published."""
    ours = benchmark.aggregates[0].name
    known = [p.aggregate for p in benchmark.published if p.metric == benchmark.headline]
    return ours if ours in known or not any(known) else next(filter(None, known))


def _chosen(benchmark: Benchmark, model: str) -> list[Published]:
    """This model's numbers first; a number that one paper prints in several tables once."""
    rule = scale_rule(benchmark)
    rules = (rule, "") if rule == benchmark.aggregates[0].name else (rule,)
    same = [p for p in benchmark.published if is_same(p.model, model)]
    others = [
        p
        for p in benchmark.published
        if not is_same(p.model, model) and p.metric == benchmark.headline and p.aggregate in rules
    ]
    seen: dict[object, Published] = {}
    for p in (*same, *others):
        paper = p.source.partition(", ")[0]
        key = (p.model, p.metric, p.aggregate, p.value, p.scoring, p.has_errata, paper)
        seen.setdefault(key, p)
    return list(seen.values())


def _ours(
    number: Published, benchmark: Benchmark, results: Sequence[Result]
) -> tuple[Result, Estimate] | None:
    """Our number of the same meaning, under the protocol that is nearest to the source's."""
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
    """What was done there and otherwise here."""
    found = []
    if number.scoring != protocol.scoring:
        found.append(f"scored by {number.scoring} there, by {protocol.scoring} here")
    if benchmark.errata is not None and number.has_errata != bool(protocol.errata):
        there, here = ("there", "not here") if number.has_errata else ("here", "not there")
        found.append(f"known errors ({benchmark.errata.name}) are mended {there}, {here}")
    official = benchmark.official_ties
    if official is not None and protocol.ties != official:
        found.append(f"ties are {official} there, {protocol.ties} here")
    return (*found, *(f"not whole here: {why}" for why in incomplete))


def model_of(scorer: Scorer, published_as: Mapping[str, str]) -> str:
    """What papers call the model behind a scorer: as the user says, it says itself, or is known."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    said = getattr(scorer, "published_as", "") or getattr(model, "published_as", "")
    return published_name(scorer.name, published_as.get(scorer.name, "") or str(said))


def overlap_warnings(
    trained_on: Mapping[str, Sequence[str]], benchmarks: Sequence[Benchmark]
) -> list[str]:
    """One sentence for each model and benchmark that share images."""
    known = {name.casefold() for pair in _PAIRS for name in pair}
    known |= {source.casefold() for benchmark in benchmarks for source in benchmark.sources}
    found = []
    for model, seen in trained_on.items():
        found += [
            f"nothing is known about the images of {name!r}, which {model} was trained on; check "
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
                    "it: the model may have seen these images"
                )
    return found


def declared(scorer: Scorer) -> tuple[str, ...]:
    """What a scorer, or the model behind it, says in an attribute `trained_on`; often nothing."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    found: object = getattr(scorer, "trained_on", None) or getattr(model, "trained_on", ())
    if isinstance(found, str):
        return (found,)
    return tuple(map(str, found)) if isinstance(found, Iterable) else ()


def overlaps(trained_on: Iterable[str], sources: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (training collection, test collection) that share images, the same one included."""
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
