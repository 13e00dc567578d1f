"""Saved scores are judged under the benchmark's own rules: its average, its ties."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.types import Aggregate, Benchmark, EvalProtocol, Query, TieRule


class Constant:
    fingerprint, scoring, is_blind = "1", "odd", False

    def __init__(self, name: str, sign: float = 0.0) -> None:
        self.name, self.sign = name, sign

    def score(self, queries: Sequence[Query]) -> list[float]:
        """The shortest caption, the longest, or none."""
        return [self.sign * len(str(query.caption)) for query in queries]


def test_models_are_compared_under_the_first_averaging_rule(toy: Benchmark, tmp_path: Path) -> None:
    red = Aggregate(only=(("colour", "red"),))
    for rule, n in ((red, 10), (Aggregate(by=("colour",)), 30)):
        benchmark = replace(toy, aggregates=(rule, Aggregate()))
        job = Job([Constant("short", -1), Constant("none")], [benchmark], tmp_path / rule.name)
        contents = run(job).contents
        (made,) = contents.comparisons
        short, none = (
            result.overall["accuracy"].value
            for result in contents.results
            if result.aggregate == rule.name
        )
        assert (made.aggregate, made.n) == (rule.name, n)
        assert made.difference == pytest.approx(none - short)


@pytest.mark.parametrize("ties", ["wrong", "half"])
def test_without_an_official_tie_rule_there_is_one_result(
    toy: Benchmark, tmp_path: Path, ties: TieRule
) -> None:
    job = Job([Constant("none")], [toy], tmp_path / "run", protocol=EvalProtocol(ties=ties))
    assert [result.protocol.ties for result in run(job).contents.results] == [ties]
