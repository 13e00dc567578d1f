"""Scorers that are asked get the items of one image together; prompts and orders are kept."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Pairs
from unbag.types import Benchmark, Item, Query, Scores

IMAGES = [PixelImage(np.full((2, 2, 3), n, dtype=np.uint8), name=str(n)) for n in range(5)]


def items(count: int) -> list[Item]:
    """As SugarCrepe has them: the images of one file come again in the next."""
    return [
        Item(f"i{n}", (IMAGES[n % 5],), ("good", f"bad {n}"), np.array([[True, False]]))
        for n in range(count)
    ]


class Watching:
    name, fingerprint, scoring, is_blind = "watching", "1", "odd", False

    def __init__(self, stop: int | None = None) -> None:
        self.chunks: list[list[str]] = []
        self.stop = stop

    def score(self, queries: Sequence[Query]) -> list[float]:
        if self.stop is not None and len(self.chunks) == self.stop:
            raise KeyboardInterrupt
        self.chunks.append([q.image.name for q in queries])
        return [float(q.caption == "good") + 0.001 * len(queries) for q in queries]


def bench(made: list[Item]) -> Benchmark:
    return Benchmark("toy", "a toy", lambda root: made, (Choice(),), "accuracy")


def test_items_of_one_image_are_asked_together(tmp_path: Path) -> None:
    scorer = Watching()
    run(Job([scorer], [bench(items(320))], tmp_path / "run"))
    assert [sorted(set(chunk)) for chunk in scorer.chunks] == [["0"], ["1"], ["2"], ["3"], ["4"]]


def test_a_run_that_was_stopped_asks_the_same_chunks(tmp_path: Path) -> None:
    whole = Watching()
    first = run(Job([whole], [bench(items(320))], tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        run(Job([Watching(2)], [bench(items(320))], tmp_path / "cut", save_seconds=0))
    rest = Watching()
    second = run(Job([rest], [bench(items(320))], tmp_path / "cut"))
    assert rest.chunks == whole.chunks[2:]
    assert second.contents.results[0].overall == first.contents.results[0].overall


class Prompted(Watching):
    prompt = "published"
    relaxed_form = "ratio"

    def __init__(self, name: str, prompt: str) -> None:
        super().__init__()
        self.name, self.prompt = name, prompt
        self.fingerprint = name
        self.is_variant = prompt != "published"

    def score_items(self, some: Sequence[Item]) -> list[Scores]:
        orders = ((-0.1, -2.0), (-0.2, -1.0))
        return [
            Scores(i.id, np.array([[0.9, 0.1], [0.8, 0.7]]), order_logprobs=orders * 2)
            for i in some
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
