"""The probes prior and yes_bias on chat models with known biases."""

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbag.data import FileImage
from unbag.models.loading import load_model
from unbag.probes.base import ImagePair, Options, ProbeData, ProbedModel, ProbeResult, Row
from unbag.probes.chat import (
    MAX_ITEMS,
    PRIOR,
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
from unbag.registry import find, names
from unbag.runs.progress import Silent
from unbag.scorers.resolve import make_scorer
from unbag.types import ImageSource

from .asking import put
from .ruled_chat import Ruled, drawn, few, is_cat, prefers, reads, sees_cats

QUICK = Options(resamples=200)


WORLD = world_probe_data()


def value(finding: ProbeResult, name: str) -> float:
    return finding[name].estimate.value


def subject(model: Ruled) -> ProbedModel:
    return ProbedModel(model.name, model, None, make_scorer(model))


def test_a_reader_of_scenes_has_no_prior() -> None:
    found = put(PRIOR, subject(Ruled(reads)), WORLD, QUICK)
    assert value(found, "same without the image") == 0.5
    assert value(found, "right, pairs") == 1
    assert value(found, "right, hard negatives") == 1
    # Without the image it guesses.
    assert value(found, "right without the image") == 0.5
    assert value(found, "order flips") == 0
    assert value(found, "letter A") == 0.5
    assert found.headline == "same without the image"
    verdict = PRIOR.say(found)
    assert verdict.tone == "holds"
    assert verdict.sentence == (
        "Its choice is the same without the image in 50.0 % [46.9, 53.1] of cases (50 % if it "
        "reads images, 100 % if it never looks); it is right in 100.0 %, 50.0 % without the "
        "image, and the other order of the options changes 0.0 % of its choices."
    )


def test_a_pure_prior_chooses_the_same_without_the_image() -> None:
    found = put(PRIOR, subject(Ruled(prefers)), WORLD, QUICK)
    assert value(found, "same without the image") == 1
    assert value(found, "right, pairs") == 0.5
    assert value(found, "right without the image") == value(found, "right, hard negatives")
    verdict = PRIOR.say(found)
    assert verdict.tone == "fails"
    assert "in 100.0 % [93.9, 100.0] of cases" in verdict.sentence


def test_a_model_that_always_says_a_flips_with_the_order() -> None:
    found = prior(Ruled(sees_cats, first=1e9), few(rows=2), QUICK)
    assert value(found, "order flips") == 1
    assert value(found, "letter A") == 1
    assert value(found, "same without the image") == 1
    # Over both orders its love of A cancels, and what it sees is left.
    assert value(found, "right, pairs") == 1


def test_a_reader_says_yes_to_true_captions_only() -> None:
    found = put(YES_BIAS, subject(Ruled(reads)), WORLD, QUICK)
    assert value(found, "yes to false captions") == 0
    assert value(found, "yes to true captions") == 1
    assert value(found, "yes bias") == 0
    assert value(found, "P(yes), false captions") == pytest.approx(0.1)
    assert value(found, "P(yes), true captions") == pytest.approx(0.9)
    assert value(found, "threshold") == pytest.approx(0.5)
    assert value(found, "both images right") == 1
    assert value(found, "hidden by the prior") == 0
    verdict = YES_BIAS.say(found)
    assert verdict.tone == "holds"
    assert verdict.sentence.startswith("It says yes to 0.0 % [0.0, 3.4] of false captions and to ")


def test_one_that_says_yes_to_all_is_right_at_its_own_threshold() -> None:
    model = Ruled(reads, yes=lambda belief: 0.8 + belief / 10)
    found = yes_bias(model, WORLD, QUICK)
    assert value(found, "yes to false captions") == 1
    assert value(found, "yes bias") == 0.5
    assert value(found, "right") == 0.5
    assert value(found, "threshold") == pytest.approx(0.85)
    assert value(found, "right at its threshold") == 1
    verdict = YES_BIAS.say(found)
    assert verdict.tone == "fails"
    assert "yes to 100.0 % [96.6, 100.0] of false captions and to 100.0 % of true" in (
        verdict.sentence
    )


def test_one_that_says_no_to_all_is_not_called_good() -> None:
    found = yes_bias(Ruled(reads, yes=lambda belief: belief / 3), WORLD, QUICK)
    assert value(found, "yes to false captions") == 0
    assert value(found, "yes bias") == -0.5
    assert YES_BIAS.say(found).tone == "fails"


def test_a_prior_hides_what_a_relaxed_verdict_finds() -> None:
    def likes_cats(image: ImageSource | None, caption: str) -> float:
        liked = 0.6 if "cat" in caption else 0.2
        fits = image is not None and is_cat(image) == ("cat" in caption)
        return liked + 0.05 * fits

    found = yes_bias(Ruled(likes_cats), few(rows=1), QUICK)
    # Both images prefer the cat: .65 and .2 for the first, .6 and .25 for the second.
    assert value(found, "both images right") == 0
    assert value(found, "both images right, relaxed") == 1
    assert value(found, "hidden by the prior") == 1
    assert "told apart in 0.0 %, in 100.0 % where a prior" in YES_BIAS.say(found).sentence


def test_without_probabilities_free_answers_are_read() -> None:
    model = Ruled(reads, tells=False, sure=lambda word: f"{word}.")
    found = yes_bias(model, WORLD, QUICK)
    assert [one.name for one in found.quantities] == [
        "yes to false captions", "yes to true captions", "yes bias", "right",
    ]  # fmt: skip
    assert value(found, "right") == 1
    why = "read from free answers, without probabilities: the server gives no logprobs"
    assert found.notes[0] == why
    assert YES_BIAS.say(found).tone == "holds"
    choices = prior(replace(model, believes=sees_cats), few(rows=1), QUICK)
    assert choices.notes[0] == why
    # Without the image it always answers A, as the first of two that it believes as much.
    assert value(choices, "same without the image") == 0.5


def test_answers_that_say_nothing_are_counted() -> None:
    model = Ruled(sees_cats, tells=False, sure=lambda word: "Hm.")
    found = yes_bias(model, few(rows=1), QUICK)
    assert found.notes[1] == "18 of 18 answers could not be read (yes or no)"
    assert found["right"].estimate.invalid == 18
    assert YES_BIAS.say(found).sentence == "None of its answers could be read."
    choices = prior(model, few(rows=1), QUICK)
    assert choices.notes[1:3] == (
        "18 of 18 answers could not be read (choices)",
        "10 of 10 answers could not be read (choices without the image)",
    )
    assert PRIOR.say(choices).sentence == "None of its choices could be read."
    assert PRIOR.say(choices).tone == "told"


def test_numbers_that_are_none_are_left_out() -> None:
    class Broken(Ruled):
        def logprobs(self, image: Any, prompt: str, continuations: Any) -> list[list[float]]:
            if "0" not in prompt:
                return super().logprobs(image, prompt, continuations)
            return [[nan if image else -np.inf] for _ in continuations]

    for ask in (prior, yes_bias):
        found = ask(Broken(prefers), few(), QUICK)
        assert found.quantities[0].estimate.invalid == 2
        assert all(np.isfinite(one.estimate.value) for one in found.quantities)


def test_a_damaged_image_is_said_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"\x89PNG torn")
    torn = FileImage(tmp_path / "torn.png")
    material = few()
    pairs = (replace(material.pairs[0], second=torn), *material.pairs[1:])
    for ask, lost in ((prior, 2), (yes_bias, 1)):
        found = ask(Ruled(prefers), replace(material, pairs=pairs), QUICK)
        (note,) = (one for one in found.notes if "torn" in one)
        assert note.startswith(f"image {torn.path} cannot be used: UnidentifiedImageError")
        assert found.quantities[0].estimate.invalid == lost


def test_who_has_no_prior_is_not_asked() -> None:
    model = load_model("tiny:random")
    dual = ProbedModel("tiny:random", model, None, make_scorer(model))
    for probe in (PRIOR, YES_BIAS):
        assert put(probe, dual, few()).skipped == (
            "tiny:random gives scores; chat models are asked (--model hf:FOLDER, decoder:FOLDER)"
        )


@pytest.mark.parametrize("probe", [PRIOR, YES_BIAS])
def test_without_captions_there_is_nothing_to_ask(probe: Any) -> None:
    bare = ProbeData(
        "bare",
        (Row("row", drawn(0), "a cat"), Row("same", drawn(0), "a cat", "a cat")),
        (ImagePair("pair", drawn(0), drawn(1), "noun"),),
    )
    found = put(probe, subject(Ruled(prefers)), bare)
    assert found.skipped == (
        "there are neither captions with hard negatives nor pairs of images with captions"
    )


def test_captions_alone_are_enough() -> None:
    found = prior(Ruled(prefers), few(0, rows=60), QUICK)
    assert value(found, "same without the image") == 1
    assert found.get("right, pairs") is None
    verdict = PRIOR.say(found)
    assert verdict.tone == "fails"
    assert "(100 % if it never looks)" in verdict.sentence


def test_captions_that_give_the_answer_away_decide_nothing() -> None:
    def sees_well(image: ImageSource | None, caption: str) -> float:
        return 0.6 if image is None and "cat" in caption else sees_cats(image, caption)

    cats = few(0, rows=60)
    found = prior(Ruled(sees_well), cats, QUICK)
    assert value(found, "same without the image") == 1
    assert value(found, "right without the image") == 1
    assert PRIOR.say(found).tone == "mixed"
    dogs = [
        replace(r, image=drawn(1), caption=str(r.negative), negative=r.caption) for r in cats.rows
    ]
    found = prior(Ruled(sees_well), replace(cats, rows=(*cats.rows[:30], *dogs[30:])), QUICK)
    assert value(found, "right, hard negatives") == 1
    assert value(found, "right without the image") == 0.5
    assert PRIOR.say(found).tone == "holds"
    assert "it is right in 100.0 %, 50.0 % without the image" in PRIOR.say(found).sentence


def test_a_full_diagnosis_asks_all_and_shows_a_grey_image() -> None:
    model = Ruled(prefers)
    full = replace(QUICK, is_full=True)
    material = few(3, rows=1)
    found = prior(model, material, full)
    assert value(found, "same with a grey image") == 1
    assert found.get("right with a grey image") is not None
    greys = [ask for ask in model.asked if ask.image and ask.image.name == "grey"]
    blind = [ask for ask in model.asked if ask.image is None]
    # Two orders for each of four items; with their images, seven.
    assert (len(greys), len(blind), len(model.asked)) == (8, 8, 30)
    assert len(items_of(WORLD, full)) == len(WORLD.pairs) + len(WORLD.rows)


def test_a_few_are_chosen_whatever_their_order() -> None:
    items = items_of(WORLD, QUICK)
    assert len(items) == 2 * MAX_ITEMS
    turned = replace(WORLD, rows=WORLD.rows[::-1], pairs=WORLD.pairs[::-1])
    assert {one.id for one in items_of(turned, QUICK)} == {one.id for one in items}
    other = items_of(WORLD, replace(QUICK, seed=1))
    assert {one.id for one in other} != {one.id for one in items}
    found = yes_bias(Ruled(reads), WORLD, QUICK)
    assert found.notes == (
        "60 of 780 pairs were asked about",
        "60 of 6,920 hard negatives were asked about",
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


def test_both_probes_are_registered() -> None:
    assert {"prior", "yes_bias"} <= set(names("probe"))
    assert find("probe", "prior") is PRIOR
    assert find("probe", "yes_bias") is YES_BIAS


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


def test_a_threshold_never_sees_what_it_judges() -> None:
    yes_N = np.array([0.9, 0.6, 0.4, 0.1, nan])
    true_N = np.array([True, False, True, False, True])
    found = right_at_threshold(
        StatementScores(yes_N, true_N, tuple("12345"), ("a", "a", "b", "b", "b"))
    )
    # That of b is .25, which calls both of a true; that of a is .75, which calls both of b false.
    assert found.tolist() == pytest.approx([1, 0, 0, 1, nan], nan_ok=True)


def test_a_threshold_needs_two_halves() -> None:
    of = StatementScores(np.array([0.9, 0.1]), np.array([True, False]), ("1", "2"), ("a", "a"))
    assert np.isnan(right_at_threshold(of)).all()
