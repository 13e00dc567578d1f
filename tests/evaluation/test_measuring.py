"""Saved scores are measured under the benchmark's own rules: its average, its ties."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.pairs import Pairs
from unbag.types import Aggregate, Benchmark, EvalProtocol, Item, Scores, TieRule

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
        (comparison,) = contents.comparisons
        short, none = (
            result.overall["accuracy"].value
            for result in contents.results
            if result.aggregate == rule.name
        )
        assert (comparison.aggregate, comparison.n) == (rule.name, n)
        assert comparison.difference == pytest.approx(none - short)


@pytest.mark.parametrize("ties", ["wrong", "half"])
def test_without_an_official_tie_rule_there_is_one_result(
    toy: Benchmark, tmp_path: Path, ties: TieRule
) -> None:
    job = Job([Odd(lengths(0))], [toy], tmp_path / "run", protocol=EvalProtocol(ties=ties))
    assert [result.protocol.ties for result in run(job).contents.results] == [ties]


IMAGES = [PixelImage(np.full((2, 2, 3), n, dtype=np.uint8), name=str(n)) for n in range(2)]


class Prompted(Odd):
    prompt = "published"
    relaxed_form = "ratio"

    def __init__(self, name: str, prompt: str) -> None:
        super().__init__(name=name)
        self.prompt = prompt
        self.fingerprint = name
        self.is_variant = prompt != "published"

    def score_items(self, subset: Sequence[Item]) -> list[Scores]:
        orders = ((-0.1, -2.0), (-0.2, -1.0))
        return [
            Scores(i.id, np.array([[0.9, 0.1], [0.8, 0.7]]), order_logprobs=orders * 2)
            for i in subset
        ]


def test_prompt_orders_and_form_reach_the_result(tmp_path: Path) -> None:
    pair = Item("p", (IMAGES[0], IMAGES[1]), ("a", "b"), np.eye(2, dtype=np.bool_))
    benchmark = Benchmark("pairs", "pairs", lambda root: [pair], (Pairs(),), "pair")
    scorers = [Prompted("m", "published"), Prompted("m (other)", "other")]
    contents = run(Job(scorers, [benchmark], tmp_path / "run")).contents
    assert [r.protocol.prompt for r in contents.results] == ["published", "other"]
    assert "prompt=other" in contents.results[1].protocol.key
    # .9 x .7 > .1 x .8; the sum of differences says the same, the strict pair does not.
    overall = contents.results[0].overall
    assert (overall["relaxed"].value, overall["pair"].value) == (1.0, 0.0)
    assert (overall["order_flip"].value, overall["order_flip"].n) == (0.0, 2)
    # Another prompt of the same model is neither a rival nor shown as failing.
    assert contents.comparisons == ()
    assert {failure.scorer for failure in contents.failures} == {"m"}
