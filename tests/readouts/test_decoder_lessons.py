"""Questions, tokens and settings of a decoder, worked by hand."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.readouts.decoder.lessons import (
    KINDS,
    NOTHING,
    SPECIAL,
    DecoderFact,
    DecoderSettings,
    Lesson,
    LessonSampler,
    WordLevel,
    lessons_of,
    make_lessons,
    prompt_texts,
    words_of,
)
from unbag.scorers.prompts import PROMPTS
from unbag.training.settings import choose

FACT = DecoderFact(3, "a star left of a moon", ("a star right of a moon",))
PLAIN = DecoderSettings()


def asked(fact: DecoderFact, settings: DecoderSettings = PLAIN) -> list[tuple[str, str, str]]:
    found = lessons_of([fact], settings, seed=0)
    assert {one.image for one in found} == {fact.image}
    return [(one.kind, one.prompt, one.answer) for one in found]


def test_a_caption_and_its_negative_make_seven_questions() -> None:
    found = asked(FACT)
    ask = "Which caption fits the picture?\nA. {}\nB. {}\nAnswer with the option's letter from the "
    ask += "given choices directly."
    true, false = FACT.caption, FACT.negatives[0]
    assert found[:5] == [
        ("describe", "Describe the picture in one sentence.", true),
        ("yes", f'Does this figure show "{true}"? Please answer yes or no.', "Yes"),
        ("yes", f'Does this figure show "{false}"? Please answer yes or no.', "No"),
        ("letters", ask.format(true, false), "A"),
        ("letters", ask.format(false, true), "B"),
    ]
    assert [(kind, answer) for kind, _, answer in found[5:]] == [("answer", "to the left")] * 2
    # Both orders of the relations, in the words that `--scorer answer` uses.
    left_first, right_first = (prompt for _, prompt, _ in found[5:])
    assert left_first.startswith("Is the star to the left of or to the right of the moon?")
    assert right_first.startswith("Is the star to the right of or to the left of the moon?")


def test_captions_that_differ_otherwise_are_a_free_choice() -> None:
    found = asked(DecoderFact(0, "a red star", ("a blue star",)))
    free = [(prompt, answer) for kind, prompt, answer in found if kind == "answer"]
    for prompt, answer in free:
        assert f"{answer}. a red star" in prompt
    assert {answer for _, answer in free} == {"A", "B"}


def test_answers_say_nothing_before_the_image_is_seen() -> None:
    fact = DecoderFact(0, "a red star", ("a blue star", "a red moon"))
    for kind in ("yes", "letters", "answer"):
        count = Counter(answer for own, _, answer in asked(fact) if own == kind)
        assert len(count) == 2
        assert len(set(count.values())) == 1


def test_without_questions_only_captions_are_left() -> None:
    found = asked(FACT, DecoderSettings(asks=False))
    assert [(kind, answer) for kind, _, answer in found] == [("describe", FACT.caption)]


def test_a_kind_without_a_share_is_left_out() -> None:
    assert {kind for kind, _, _ in asked(FACT, DecoderSettings(letters=0, answer=0))} == {
        "yes", "describe",
    }  # fmt: skip


def test_all_wordings_are_used_and_decided_by_seed_and_caption() -> None:
    settings = DecoderSettings(prompts="all")
    many = [replace(FACT, image=n) for n in range(40)]
    found = lessons_of(many, settings, seed=0)
    yes = {one.prompt for one in found if one.answer == "Yes"}
    assert len(yes) == 4
    assert lessons_of(many[7:8], settings, seed=0) == [one for one in found if one.image == 7]


def test_the_vocabulary_knows_every_fixed_prompt() -> None:
    words = words_of(prompt_texts())
    every = [p for some in PROMPTS.values() for p in some]
    texts = [re.sub(r"\{\w+\}", "", t) for p in every for t in (p.caption, p.question)]
    assert all(SPECIAL.index("<unknown>") not in words.plain(text) for text in texts)


def test_tokens_by_hand() -> None:
    words = WordLevel(("?", "A", "a", "star"))
    assert words.size == 9
    assert words.plain("A star?") == [6, 8, 5]
    assert words.ask("a star?") == [2, 7, 8, 5, 3]
    # An article is not a letter; a word nobody knows is looked for in lower case.
    assert words.plain("a A Star moon") == [7, 6, 8, 1]
    assert words.decode([7, 8, 5, 4]) == "a star?"
    assert replace(words, asks=False).ask("a star?") == [3]
    with pytest.raises(UnbagError, match="the answer '' has no word"):
        words.answer("a star?", "")


def test_lessons_as_tensors_by_hand() -> None:
    words = WordLevel(("No", "Yes", "a", "star"))
    lessons = [Lesson(4, "yes", "a star", "Yes"), Lesson(1, "describe", "a", "a star")]
    found = make_lessons(lessons, words, context=6)
    assert found.token_MT.tolist() == [[2, 7, 8, 3, 6], [2, 7, 3, 7, 8]]
    # After which token each token of the answer comes, the end last.
    assert found.at_MA.tolist() == [[3, 4, 0], [2, 3, 4]]
    assert found.target_MA.tolist() == [[6, 4, NOTHING], [7, 8, 4]]
    assert found.image_M.tolist() == [4, 1]
    assert found.kind_M.tolist() == [KINDS.index("yes"), KINDS.index("describe")]
    cut = found.batch(np.array([0]))
    assert cut.target_BA.tolist() == [[6, 4]]


def test_what_is_too_long_is_left_out_and_counted() -> None:
    words = WordLevel(("Yes", "a", "star"))
    lessons = [Lesson(0, "yes", "a star", "Yes"), Lesson(0, "yes", "a star a star", "Yes")]
    assert make_lessons(lessons, words, context=5).left_out == 1
    with pytest.raises(UnbagError, match="none of 2 questions has at most 4 tokens") as error:
        make_lessons(lessons, words, context=4)
    assert error.value.hint == "--set context=256"


def test_a_step_is_given_the_shares_that_were_asked_for() -> None:
    lessons = lessons_of([replace(FACT, image=n) for n in range(30)], PLAIN, seed=0)
    made = make_lessons(lessons, words_of(prompt_texts()), context=128)
    draws = LessonSampler(made, PLAIN.shares, batch_size=11, seed=5)
    row_B, drawn = draws(3)
    count = Counter(KINDS[k] for k in made.kind_M[row_B])
    # 4.4, 2.2, 2.2 and 2.2: the largest remainder gets the last.
    assert count == {"yes": 5, "letters": 2, "describe": 2, "answer": 2}
    again, same = LessonSampler(made, PLAIN.shares, batch_size=11, seed=5)(3)
    assert (again.tolist(), same) == (row_B.tolist(), drawn)
    assert LessonSampler(made, PLAIN.shares, batch_size=11, seed=5)(4)[0].tolist() != row_B.tolist()


def test_captions_without_negatives_cannot_be_asked_about() -> None:
    lessons = lessons_of([DecoderFact(0, "a star")], PLAIN, seed=0)
    made = make_lessons(lessons, words_of(prompt_texts()), context=128)
    with pytest.raises(UnbagError, match="no question of the kind yes, letters, answer") as error:
        LessonSampler(made, PLAIN.shares, batch_size=8, seed=0)
    assert "unbag edit" in error.value.hint


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("steps=0", "a decoder with steps=0"),
        ("yes=-1", "a decoder with yes=-1.0"),
        ("connector_rate=0", "a decoder with connector_rate=0.0"),
        ("blind=2", "a decoder with blind=2.0"),
        ("heads=5", "a decoder of width=192 with heads=5"),
        ("lora=4", "a decoder with lora=4 and a language model from scratch"),
        ("connector_steps=20001", "a decoder with connector_steps=20001 of 20000 steps"),
        ("sees=words", "the setting sees=words"),
        ("patches=3", "unknown setting 'patches'"),
    ],
)
def test_settings_that_cannot_be_meant(typed: str, found: str) -> None:
    with pytest.raises(UnbagError, match=re.escape(found)):
        choose(PLAIN, [typed], readout="decoder")


def test_a_decoder_that_is_asked_nothing() -> None:
    with pytest.raises(UnbagError, match="every share is 0"):
        choose(PLAIN, [f"{kind}=0" for kind in KINDS], readout="decoder")


def test_stages_and_rates_follow_from_the_language_model() -> None:
    assert (PLAIN.frozen_steps, PLAIN.rate) == (0, 3e-4)
    real = DecoderSettings(language="somewhere", steps=200)
    assert (real.frozen_steps, real.rate) == (20, 2e-5)
