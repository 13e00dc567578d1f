"""The probes prior and yes_bias on chat models with known biases."""

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.data import FileImage
from unbag.models.loading import load_model
from unbag.probes.base import ImagePair, Options, Probe, ProbeData, ProbedModel, ProbeResult, Row
from unbag.probes.chat import (
    FALSE,
    FLIPS,
    MAX_ITEMS,
    PRIOR,
    RELAXED,
    RIGHT_BLIND,
    RIGHT_PAIRS,
    RIGHT_ROWS,
    SAME,
    STRICT,
    TRUE,
    VERDICTS,
    YES_BIAS,
    StatementScores,
    first_letter,
    items_of,
    prior,
    right_at_threshold,
    right_choice,
    same_choice,
    yes_bias,
)
from unbag.probes.data import world_probe_data
from unbag.registry import find
from unbag.runs.progress import Silent
from unbag.scorers.resolve import make_scorer
from unbag.types import ImageSource

from .asking import case_of, run_probe
from .ruled_chat import Believes, Ruled, drawn, few, is_cat, prefers, reads, sees_cats

QUICK = Options(resamples=200)


WORLD = world_probe_data()


def value(result: ProbeResult, name: str) -> float:
    return result[name].estimate.value


def subject(model: Ruled) -> ProbedModel:
    return ProbedModel(model.name, model, None, make_scorer(model))


def values(result: ProbeResult, *names: str) -> list[float]:
    return [result[name].estimate.value for name in names]


@pytest.mark.parametrize(
    ("believes", "expected", "tone"),
    [
        # Same without the image; accuracy on pairs and on hard negatives; accuracy without the
        # image; flips. Without the image, the reader guesses.
        (reads, [0.5, 1, 1, 0.5, 0], "holds"),
        (prefers, [1, 0.5, None, None, 0], "fails"),
    ],
    ids=["reads scenes", "pure prior"],
)
def test_the_prior_of_known_models(
    believes: Believes, expected: list[float | None], tone: str, snapshot: SnapshotAssertion
) -> None:
    result = run_probe(PRIOR, subject(Ruled(believes)), WORLD, QUICK)
    names = (SAME, RIGHT_PAIRS, RIGHT_ROWS, RIGHT_BLIND, FLIPS)
    for found, known in zip(values(result, *names), expected, strict=True):
        assert known is None or found == known
    if believes is prefers:
        assert value(result, RIGHT_BLIND) == value(result, RIGHT_ROWS)
    else:
        assert value(result, "letter A") == 0.5
    assert result.headline == SAME
    verdict = PRIOR.say(result)
    assert verdict.tone == tone
    assert verdict.sentence == snapshot


def test_a_model_that_always_says_a_flips_with_the_order() -> None:
    result = prior(Ruled(sees_cats, first=1e9), few(rows=2), QUICK)
    assert value(result, "order flips") == 1
    assert value(result, "letter A") == 1
    assert value(result, "same without the image") == 1
    # Over both orders its love of A cancels, and what it sees is left.
    assert value(result, "right, pairs") == 1


def test_a_reader_says_yes_to_true_captions_only(snapshot: SnapshotAssertion) -> None:
    result = run_probe(YES_BIAS, subject(Ruled(reads)), WORLD, QUICK)
    assert values(result, FALSE, TRUE, "yes bias", STRICT, "hidden by the prior") == [0, 1, 0, 1, 0]
    assert values(
        result, "P(yes), false captions", "P(yes), true captions", "threshold"
    ) == pytest.approx([0.1, 0.9, 0.5])
    verdict = YES_BIAS.say(result)
    assert verdict.tone == "holds"
    assert verdict.sentence == snapshot


def test_a_model_that_always_says_yes_is_right_at_its_own_threshold(
    snapshot: SnapshotAssertion,
) -> None:
    model = Ruled(reads, yes=lambda belief: 0.8 + belief / 10)
    result = yes_bias(model, WORLD, QUICK)
    names = (FALSE, "yes bias", "right", "right at its threshold")
    assert values(result, *names) == [1, 0.5, 0.5, 1]
    assert value(result, "threshold") == pytest.approx(0.85)
    verdict = YES_BIAS.say(result)
    assert verdict.tone == "fails"
    assert verdict.sentence == snapshot


def test_a_model_that_always_says_no_fails() -> None:
    result = yes_bias(Ruled(reads, yes=lambda belief: belief / 3), WORLD, QUICK)
    assert values(result, FALSE, "yes bias") == [0, -0.5]
    assert YES_BIAS.say(result).tone == "fails"


def test_a_prior_hides_pairs_that_the_relaxed_rule_finds(snapshot: SnapshotAssertion) -> None:
    def likes_cats(image: ImageSource | None, caption: str) -> float:
        liked = 0.6 if "cat" in caption else 0.2
        fits = image is not None and is_cat(image) == ("cat" in caption)
        return liked + 0.05 * fits

    result = yes_bias(Ruled(likes_cats), few(rows=1), QUICK)
    # Both images prefer the cat: .65 and .2 for the first, .6 and .25 for the second.
    assert values(result, STRICT, RELAXED, "hidden by the prior") == [0, 1, 1]
    assert YES_BIAS.say(result).sentence == snapshot


def test_without_probabilities_free_answers_are_used() -> None:
    model = Ruled(reads, tells=False, sure=lambda word: f"{word}.")
    result = yes_bias(model, WORLD, QUICK)
    assert [q.name for q in result.quantities] == [FALSE, TRUE, "yes bias", "right"]
    assert value(result, "right") == 1
    assert result.notes[0].endswith("without probabilities: the server gives no logprobs")
    assert YES_BIAS.say(result).tone == "holds"
    choices = prior(replace(model, believes=sees_cats), few(rows=1), QUICK)
    assert choices.notes[0] == result.notes[0]
    # Without the image it always answers A, the first of two equally likely options.
    assert value(choices, SAME) == 0.5


def test_answers_that_cannot_be_parsed_are_counted() -> None:
    model = Ruled(sees_cats, tells=False, sure=lambda word: "Hm.")
    result = yes_bias(model, few(rows=1), QUICK)
    assert result.notes[1] == "18 of 18 answers could not be read (yes or no)"
    assert result["right"].estimate.invalid == 18
    assert case_of(YES_BIAS.say(result), VERDICTS) == "no answer"
    choices = prior(model, few(rows=1), QUICK)
    assert choices.notes[1:3] == (
        "18 of 18 answers could not be read (choices)",
        "10 of 10 answers could not be read (choices without the image)",
    )
    assert case_of(PRIOR.say(choices), VERDICTS) == "no choice"


def test_numbers_that_are_none_are_left_out() -> None:
    class Broken(Ruled):
        def logprobs(self, image: Any, prompt: str, continuations: Any) -> list[list[float]]:
            if "0" not in prompt:
                return super().logprobs(image, prompt, continuations)
            return [[nan if image else -np.inf] for _ in continuations]

    for ask in (prior, yes_bias):
        result = ask(Broken(prefers), few(), QUICK)
        assert result.quantities[0].estimate.invalid == 2
        assert all(np.isfinite(one.estimate.value) for one in result.quantities)


def test_a_damaged_image_is_said_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"\x89PNG torn")
    torn = FileImage(tmp_path / "torn.png")
    data = few()
    pairs = (replace(data.pairs[0], second=torn), *data.pairs[1:])
    for ask, lost in ((prior, 2), (yes_bias, 1)):
        result = ask(Ruled(prefers), replace(data, pairs=pairs), QUICK)
        (note,) = (one for one in result.notes if "torn" in one)
        assert note.startswith(f"image {torn.path} cannot be used: UnidentifiedImageError")
        assert result.quantities[0].estimate.invalid == lost


@pytest.mark.parametrize("probe", [PRIOR, YES_BIAS], ids=["prior", "yes_bias"])
def test_it_is_skipped_for_other_models_and_without_captions(
    probe: Probe, snapshot: SnapshotAssertion
) -> None:
    assert find("probe", probe.name) is probe
    model = load_model("tiny:random")
    dual = ProbedModel("tiny:random", model, None, make_scorer(model))
    bare = ProbeData(
        "bare",
        (Row("row", drawn(0), "a cat"), Row("same", drawn(0), "a cat", "a cat")),
        (ImagePair("pair", drawn(0), drawn(1), "noun"),),
    )
    results = run_probe(probe, dual, few()), run_probe(probe, subject(Ruled(prefers)), bare)
    assert [result.skipped for result in results] == snapshot


def test_captions_alone_are_enough(snapshot: SnapshotAssertion) -> None:
    result = prior(Ruled(prefers), few(0, rows=60), QUICK)
    assert value(result, SAME) == 1
    assert result.get(RIGHT_PAIRS) is None
    verdict = PRIOR.say(result)
    assert verdict.tone == "fails"
    assert verdict.sentence == snapshot


def test_captions_that_give_the_answer_away_decide_nothing() -> None:
    def sees_well(image: ImageSource | None, caption: str) -> float:
        return 0.6 if image is None and "cat" in caption else sees_cats(image, caption)

    cats = few(0, rows=60)
    result = prior(Ruled(sees_well), cats, QUICK)
    assert values(result, SAME, RIGHT_BLIND) == [1, 1]
    assert PRIOR.say(result).tone == "mixed"
    dogs = [
        replace(r, image=drawn(1), caption=str(r.negative), negative=r.caption) for r in cats.rows
    ]
    result = prior(Ruled(sees_well), replace(cats, rows=(*cats.rows[:30], *dogs[30:])), QUICK)
    assert values(result, RIGHT_ROWS, RIGHT_BLIND) == [1, 0.5]
    assert PRIOR.say(result).tone == "holds"


def test_a_full_diagnosis_asks_all_and_shows_a_grey_image() -> None:
    model = Ruled(prefers)
    full = replace(QUICK, is_full=True)
    data = few(3, rows=1)
    result = prior(model, data, full)
    assert value(result, "same with a grey image") == 1
    assert result.get("right with a grey image") is not None
    greys = [ask for ask in model.asked if ask.image and ask.image.name == "grey"]
    blind = [ask for ask in model.asked if ask.image is None]
    # Two orders for each of four items; with their images, seven.
    assert (len(greys), len(blind), len(model.asked)) == (8, 8, 30)
    assert len(items_of(WORLD, full)) == len(WORLD.pairs) + len(WORLD.rows)


def test_items_are_chosen_by_hash_and_seed() -> None:
    items = items_of(WORLD, QUICK)
    assert len(items) == 2 * MAX_ITEMS
    chosen = {item.id for item in items}
    reverse = replace(WORLD, rows=WORLD.rows[::-1], pairs=WORLD.pairs[::-1])
    assert {item.id for item in items_of(reverse, QUICK)} == chosen
    assert {item.id for item in items_of(WORLD, replace(QUICK, seed=1))} != chosen
    assert yes_bias(Ruled(reads), WORLD, QUICK).notes == (
        "60 of 780 pairs are used",
        "60 of 6,920 hard negatives are used",
    )


def test_progress_counts_questions() -> None:
    class Counted(Silent):
        def __init__(self) -> None:
            super().__init__()
            self.tasks: list[tuple[str, int]] = []

        def task(self, what: str, total: int) -> Any:
            self.tasks.append((what, total))
            return super().task(what, total)

    progress, model = Counted(), Ruled(prefers)
    prior(model, few(3, rows=2), QUICK, progress)
    assert progress.tasks == [("choices", 16), ("choices without the image", 10)]
    assert len(model.asked) == 26


def test_same_choice_by_hand() -> None:
    log_NOC = np.log([[[0.7, 0.3], [0.6, 0.4]], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]])
    blind_NOC = np.log([[[0.9, 0.1], [0.4, 0.6]], [[0.1, 0.9], [0.9, 0.1]], [[0.1, 0.9]] * 2])
    assert same_choice(log_NOC, blind_NOC).tolist() == [0.5, 0.0, 0.75]
    assert same_choice(log_NOC, log_NOC * np.nan).tolist() == pytest.approx([nan] * 3, nan_ok=True)
    # In the second order the second caption is option A.
    assert first_letter(log_NOC).tolist() == [0.5, 1.0, 0.75]
    true_NC = np.array([[True, False], [False, True], [True, False]])
    # Sums of logs: .42 > .12; .28 > .18; .1 < .4.
    assert right_choice(log_NOC, true_NC).tolist() == [1.0, 0.0, 0.0]


def test_a_threshold_is_that_of_the_other_half() -> None:
    yes_N = np.array([0.9, 0.6, 0.4, 0.1, nan])
    true_N = np.array([True, False, True, False, True])
    result = right_at_threshold(
        StatementScores(yes_N, true_N, tuple("12345"), ("a", "a", "b", "b", "b"))
    )
    # That of b is .25, which calls both of a true; that of a is .75, which calls both of b false.
    assert result.tolist() == pytest.approx([1, 0, 0, 1, nan], nan_ok=True)
    single = StatementScores(yes_N[:2], true_N[:2], ("1", "2"), ("a", "a"))
    assert np.isnan(right_at_threshold(single)).all()
