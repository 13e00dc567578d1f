"""Saved scores are judged under the benchmark's own rules: its average, its ties."""

from dataclasses import replace
from pathlib import Path

import pytest

from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.types import Aggregate, Benchmark, EvalProtocol, TieRule

from .stub import Odd, lengths


def test_models_are_compared_under_the_first_averaging_rule(toy: Benchmark, tmp_path: Path) -> None:
    red = Aggregate(only=(("colour", "red"),))
    for rule, n in ((red, 10), (Aggregate(by=("colour",)), 30)):
        benchmark = replace(toy, aggregates=(rule, Aggregate()))
        job = Job(
            [Odd(lengths(-1), name="short"), Odd(lengths(0), name="none")],
            [benchmark],
            tmp_path / rule.name,
        )
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
    job = Job([Odd(lengths(0))], [toy], tmp_path / "run", protocol=EvalProtocol(ties=ties))
    assert [result.protocol.ties for result in run(job).contents.results] == [ties]
