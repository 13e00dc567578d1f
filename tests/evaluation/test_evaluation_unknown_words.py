"""Words that a model does not know are told once a run, and not at all for captions it knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbag.api import make_scorer
from unbag.benchmarks.names import benchmark
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.scoring import unknown_words, unknown_words_message
from unbag.models.loading import load_model
from unbag.models.tiny import load
from unbag.runs.progress import Silent
from unbag.types import Benchmark, Item


def test_the_first_are_named_and_the_others_counted() -> None:
    rest = "unknown words are all one token to it"
    assert unknown_words_message("tiny", ["dog"]) == f"tiny does not know: dog: {rest}"
    nine = [f"w{n}" for n in range(9)]
    shown = ", ".join(nine[:8])
    assert (
        unknown_words_message("tiny", nine)
        == f"tiny does not know: {shown} (and 1 more word): {rest}"
    )
    assert "(and 2 more words)" in unknown_words_message("tiny", [*nine, "x"])


def test_read_outs_say_what_their_encoder_or_their_words_do_not_know() -> None:
    model = load("base")
    for name in (None, "dcsm_fixed", "decoder"):
        scorer = make_scorer(model, name)
        assert unknown_words(scorer, ["a red ring", "a zebra"]) == ["zebra"], name
    assert unknown_words(make_scorer(load_model("caption:short")), ["a zebra"]) == []


def few(*, renamed: bool) -> Benchmark:
    """Two items of the world; renamed, with a word that is none of it."""
    whole = benchmark("world-swap")

    def items(root: Path | None) -> tuple[Item, ...]:
        found = tuple(whole.load(root))[:2]
        if not renamed:
            return found
        return tuple(
            replace(one, captions=tuple(f"{caption} zebra" for caption in one.captions))
            for one in found
        )

    return replace(whole, load=items)


def test_a_run_tells_it_once_and_never_of_the_world(tmp_path: Path) -> None:
    for renamed in (False, True):
        progress = Silent()
        job = Job([make_scorer(load("base"))], [few(renamed=renamed)], tmp_path / str(renamed))
        run(job, progress=progress)
        told = [line for line in progress.said if "does not know" in line]
        expected = ["tiny:base does not know: zebra: unknown words are all one token to it"]
        assert told == (expected if renamed else [])
