"""A benchmark and one scorer's results on it come in; published numbers beside ours go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unbag.published.consistency import doubts
from unbag.published.names import is_same, published_name
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


def model_of(scorer: Scorer, published_as: Mapping[str, str]) -> str:
    """What papers call the model behind a scorer: as the user says, it says itself, or is known."""
    model = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    said = getattr(scorer, "published_as", "") or getattr(model, "published_as", "")
    return published_name(scorer.name, published_as.get(scorer.name, "") or str(said))


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
        reference = Reference(
            benchmark=benchmark.name,
            scorer=result.scorer,
            published=number,
            ours=estimate,
            is_same_model=is_ours,
            is_comparable=bool(number.aggregate)
            and number.scoring == result.protocol.scoring
            and not incomplete,
            doubts=_rule_doubts(number, result.aggregate) + doubts(number),
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

    for result in sorted(results, key=distance):
        estimate = _estimate(result, rule, number.metric)
        if estimate is not None and estimate.n:
            return result, estimate
    return None


def _estimate(result: Result, rule: str, metric: str) -> Estimate | None:
    if result.aggregate == rule:
        return result.overall.get(metric)
    tag = rule.removeprefix("micro[").removesuffix("]")
    return result.by_tag.get(tag, {}).get(metric) if rule == f"micro[{tag}]" else None


def _rule_doubts(number: Published, rule: str) -> tuple[str, ...]:
    said = () if number.aggregate else (f"the source does not say how it averages; ours is {rule}",)
    return (*said, number.note) if number.note else said


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
