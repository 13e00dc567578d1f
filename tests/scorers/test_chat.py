"""Scores from a chat model's probabilities, worked by hand with a model that is a small table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import Ask
from unbag.registry import names
from unbag.scorers import make_scorer, make_scorers
from unbag.types import ImageSource, Item, ItemScorer, Query, Question, Scorer

IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8), name="black")
OTHER = PixelImage(np.ones((2, 2, 3), dtype=np.uint8), name="nearly black")
Say = Callable[[ImageSource | None, str, str], Sequence[float]]


@dataclass(frozen=True)
class Table:
    """A chat model that says what it is told to."""

    say: Say = lambda image, prompt, continuation: [log(0.5)]
    replies: Callable[[ImageSource | None, str], str] = lambda image, prompt: "?"
    name: str = "table"
    fingerprint: str = "table-1"
    asked: list[Ask] = field(default_factory=list)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        self.asked.append(Ask(image, prompt, tuple(continuations)))
        return [list(self.say(image, prompt, c)) for c in continuations]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        self.asked.append(Ask(image, prompt))
        return self.replies(image, prompt)


def item(*captions: str, true: int = 0, question: Question | None = None, name: str = "i") -> Item:
    truth = np.array([[n == true for n in range(len(captions))]])
    return Item(name, (IMAGE,), captions, truth, question=question)


def whole(scorer: Scorer) -> ItemScorer:
    assert isinstance(scorer, ItemScorer)
    return scorer


def test_the_natural_scorer_of_a_chat_model_is_the_probability_of_yes() -> None:
    model = Table(lambda image, prompt, c: [log(0.37)])
    scorer = make_scorer(model)
    assert scorer.scoring == "yes-probability"
    assert scorer.name == "table"
    assert list(np.asarray(scorer.score([Query(IMAGE, "a dog")]))) == pytest.approx([0.37])
    (ask,) = model.asked
    assert ask.prompt == 'Does this figure show "a dog"? Please answer yes or no.'
    assert ask.continuations == ("Yes",)


def test_yes_of_several_tokens_is_the_geometric_mean() -> None:
    scorer = make_scorer(Table(lambda image, prompt, c: [log(0.5), log(0.25), log(0.8)]), "yes")
    (found,) = np.asarray(scorer.score([Query(IMAGE, "a dog")]))
    # The perplexity of these three is 2.1544347, and the score its inverse.
    assert 1 / found == pytest.approx(2.1544347, abs=1e-6)


def test_normalised_yes_is_the_share_of_yes() -> None:
    chance = {"Yes": 0.3, "No": 0.1}
    scorer = make_scorer(Table(lambda p, t, c: [log(chance[c])]), "yes-normalised")
    assert scorer.scoring == "yes-probability, normalised"
    assert np.asarray(scorer.score([Query(IMAGE, "a dog")])) == pytest.approx([0.75])


def test_contrast_asks_the_prior_once_a_prompt() -> None:
    model = Table(lambda image, t, c: [log(0.8 if image else 0.2)])
    scorer = make_scorer(model, "yes-contrast")
    queries = [Query(IMAGE, "a dog"), Query(OTHER, "a dog")]
    assert np.asarray(scorer.score(queries)) == pytest.approx([log(4), log(4)])
    assert [ask.image for ask in model.asked] == [IMAGE, OTHER, None]


@pytest.mark.parametrize(
    "caption", ['a "red" dog', "a {text} dog", "œuvre — 猫 {question}", "a\ndog"]
)
def test_captions_stand_in_prompts_as_they_are(caption: str) -> None:
    model = Table()
    for scorer in make_scorers(model, "yes"):
        scorer.score([Query(IMAGE, caption)])
        scorer.score([Query(IMAGE, caption, Question("What is {text}?"))])
    assert len(model.asked) == 8
    assert all(caption in ask.prompt for ask in model.asked)
    assert all("What is {text}?" in ask.prompt for ask in model.asked[1::2])


def test_a_question_asks_whether_a_caption_is_its_answer() -> None:
    model = Table()
    make_scorer(model, "yes").score([Query(IMAGE, "Open", Question("Is the door open?"))])
    assert model.asked[0].prompt == (
        'Is the door open? Is the answer "Open"? Please answer yes or no.'
    )


def test_a_closed_question_is_asked_as_it_is() -> None:
    model = Table(lambda p, t, c: [log({"Yes": 0.2, "No": 0.6}[c])])
    question = Question("Is it red?Please answer Yes or No.")
    queries = [Query(IMAGE, answer, question) for answer in ("Yes", "No")]
    assert np.asarray(make_scorer(model, "yes").score(queries)) == pytest.approx([0.2, 0.6])
    assert {ask.prompt for ask in model.asked} == {question.text}
    found = np.asarray(make_scorer(model, "yes-normalised").score(queries))
    assert found == pytest.approx([0.25, 0.75])


def test_letters_are_averaged_over_both_orders() -> None:
    def say(image: ImageSource | None, prompt: str, letter: str) -> list[float]:
        first = prompt.index("a dog") < prompt.index("a cat")
        chance = {"A": 0.6, "B": 0.3} if first else {"A": 0.5, "B": 0.4}
        return [log(chance[letter])]

    (found,) = whole(make_scorer(Table(say), "letters")).score_items([item("a dog", "a cat")])
    # The dog is A at first, then B; the letter A is liked best both times.
    assert np.allclose(found.order_logprobs, [[log(0.6), log(0.3)], [log(0.4), log(0.5)]])
    assert found.values is not None
    assert np.allclose(found.values, [[log(0.24) / 2, log(0.15) / 2]])


@pytest.mark.parametrize("options", [2, 3, 4])
def test_a_letter_that_is_liked_wherever_it_stands_makes_no_caption_better(options: int) -> None:
    chance = dict(zip("ABCD", (0.1, 0.6, 0.17, 0.13), strict=True))
    model = Table(lambda image, prompt, letter: [log(chance[letter])])
    captions = ("a dog", "a cat", "a cow", "a hen")[:options]
    scorer = whole(make_scorer(model, "letters"))
    (found,) = scorer.score_items([item(*captions)])
    expected = sum(log(chance[letter]) for letter in "ABCD"[:options]) / options
    assert found.values is not None
    assert len(set(found.values[0])) == 1
    assert np.allclose(found.values, expected)
    assert len(found.order_logprobs) == len(model.asked) == options
    # Every caption stands at every letter once.
    assert all(
        sum(f"{letter}. {caption}" in ask.prompt for ask in model.asked) == 1
        for caption in captions
        for letter in "ABCD"[:options]
    )


def test_yes_and_no_without_a_question_are_captions_like_others() -> None:
    model = Table(lambda p, t, c: [log({"A": 0.7, "B": 0.2}[c])])
    (found,) = whole(make_scorer(model, "letters")).score_items([item("Yes", "No")])
    assert len(found.order_logprobs) == len(model.asked) == 2
    assert found.values is not None
    assert found.values[0, 0] == found.values[0, 1] == pytest.approx(log(0.14) / 2)


def test_letters_show_the_question_and_all_options() -> None:
    model = Table()
    scorer = make_scorer(model, "letters")
    whole(scorer).score_items([item("Open", "Shut", question=Question("Is it open?"))])
    assert [ask.prompt for ask in model.asked] == [
        f"Is it open?\nA. {a}\nB. {b}\n"
        "Answer with the option's letter from the given choices directly."
        for a, b in (("Open", "Shut"), ("Shut", "Open"))
    ]
    assert scorer.scoring == "letters, as many orders as options, without end"
    by_query = [Query(IMAGE, c, Question("Is it open?")) for c in ("Open", "Shut")]
    assert np.allclose(np.asarray(scorer.score(by_query)), log(0.5))


def test_a_question_with_letters_of_its_own_is_asked_in_one_order() -> None:
    model = Table(lambda p, t, c: [log({"A": 0.7, "B": 0.2}[c])])
    question = Question("Which? A: dog; B: cat", ("A", "B"))
    scorer = whole(make_scorer(model, "letters"))
    (found,) = scorer.score_items([item("A", "B", question=question)])
    assert [ask.prompt for ask in model.asked] == [question.text]
    assert found.order_logprobs == ()
    assert found.values is not None
    assert np.allclose(found.values, np.log([[0.7, 0.2]]))


def test_one_caption_is_no_choice() -> None:
    with pytest.raises(UnbagError, match="has one caption, and a letter chooses among several"):
        whole(make_scorer(Table(), "letters")).score_items([item("a dog")])


def test_more_options_than_letters_are_refused() -> None:
    with pytest.raises(UnbagError, match="27 options to choose from"):
        whole(make_scorer(Table(), "letters")).score_items([item(*(f"c{n}" for n in range(27)))])


def test_perplexity_is_of_the_option_as_the_question_lists_it() -> None:
    model = Table(lambda p, t, c: [log(0.5), log(0.25), log(0.8)])
    question = Question("Is it open?", ("(a) Open", "(b) Shut"))
    query = Query(IMAGE, "Shut", question)
    mean = make_scorer(model, "perplexity")
    assert exp(-float(np.asarray(mean.score([query]))[0])) == pytest.approx(2.1544347, abs=1e-6)
    assert model.asked[0].prompt == "Is it open? (a) Open (b) Shut"
    assert model.asked[0].continuations == ("(b) Shut",)
    total = make_scorer(model, "likelihood")
    assert np.asarray(total.score([query])) == pytest.approx([log(0.1)])
    assert (mean.scoring, total.scoring) == (
        "option perplexity, without end", "option likelihood, without end"
    )  # fmt: skip


def test_each_prompt_is_a_scorer_with_a_name_and_a_fingerprint_of_its_own() -> None:
    for protocol in ("yes", "letters", "perplexity", "answer"):
        made = make_scorers(Table(), protocol)
        assert len(made) >= 3
        assert made[0].name == "table"
        assert {s.name for s in made[1:]} == {f"table ({s.prompt})" for s in made[1:]}  # type: ignore[attr-defined]
        assert len({s.fingerprint for s in made}) == len({s.name for s in made}) == len(made)
        assert [s.is_variant for s in made] == [False] + [True] * (len(made) - 1)  # type: ignore[attr-defined]


def test_prompts_are_chosen_by_name() -> None:
    (found,) = make_scorers(Table(), "yes", "published")
    assert found.name == "table"
    (other,) = make_scorers(Table(), None, "true-of")
    assert other.name == "table (true-of)"
    with pytest.raises(UnbagError, match="prompt 'best'"):
        make_scorers(Table(), "yes", "best")


def test_what_a_model_cannot_do_is_said() -> None:
    class Constant:
        name, fingerprint, scoring, is_blind = "constant", "1", "none", False

        def score(self, queries: Sequence[Query]) -> list[float]:
            return [0.0 for _ in queries]

    with pytest.raises(UnbagError, match="asks questions, and 'constant' cannot answer them"):
        make_scorer(Constant(), "yes")
    with pytest.raises(
        UnbagError, match="the scorer 'm3id' needs an interface that 'table' does not have"
    ):
        make_scorer(Table(), "m3id")
    assert make_scorers(Constant())[0].name == "constant"


def test_every_scorer_is_listed_with_a_line() -> None:
    assert all(entry.about for entry in names("scorer").values())
