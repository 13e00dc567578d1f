"""Questions made from items, free answers read by keywords, and what they are worth."""

import numpy as np
import pytest

from unbag.api import score
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.scorers.chat import FreeAnswer
from unbag.scorers.prompts import ANSWER, PROMPTS, Prompt, choose_prompts, filled
from unbag.scorers.questions import is_turned, question_for, read_answer
from unbag.types import Case, ImageSource, Item, Query, Question, Scores, TieRule

IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8), name="black")
SIDES = [["left", "to the left", "on the left"], ["right", "to the right"], ["on"], ["under"]]


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("Left.", 0),
        ("The mug is to the LEFT of the table", 0),
        ("on the left", 0),
        ("It is on it", 2),
        ("left, not right", None),
        ("I cannot say", None),
        ("", None),
        ("upright", None),
    ],
)
def test_keywords_are_whole_words_and_longer_ones_come_first(
    answer: str, meant: int | None
) -> None:
    assert read_answer(answer, SIDES) == meant


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("(a)", 0),
        ("(B) Shut", 1),
        ("b", 1),
        ("A.", 0),
        ("b) Open", 1),  # the label is the first rule
        ("The answer is B", 1),
        ("Option: a", 0),
        ("Shut", 1),
        ("A door that is open", 0),
        ("A dog", None),
        ("(a) or (b)", None),
        ("open or shut", None),
    ],
)
def test_labels_are_read_before_words(answer: str, meant: int | None) -> None:
    assert read_answer(answer, [["Open"], ["Shut"]], labels=["a", "b"]) == meant


def item(*captions: str, images: int = 1, question: Question | None = None,
         name: str = "i") -> Item:  # fmt: skip
    truth = np.zeros((images, len(captions)), dtype=np.bool_)
    np.fill_diagonal(truth, True)
    return Item(name, (IMAGE,) * images, captions, truth, question=question)


def test_the_published_questions_about_two_things() -> None:
    sides = item("A mug to the left of a table", "A mug to the right of a table", images=2)
    assert question_for(sides).text == (
        "Is the mug to the left of or to the right of the table? Answer left or right."
    )
    on = item("A beer bottle on a armchair", "A beer bottle under a armchair", images=2)
    assert question_for(on).text == (
        "Is the beer bottle on or under the armchair? Choose from the two options."
    )
    front = item("A cup in front of a fork", "A cup behind a fork", images=2)
    assert question_for(front).text == (
        "Is the cup in front of or behind the fork? Answer front or behind."
    )


def test_a_set_of_four_is_asked_about_all_four_relations() -> None:
    things = [f"A mug {r} a table" for r in ("to the left of", "to the right of", "on", "under")]
    asked = question_for(item(*things, images=4))
    assert asked.text == (
        "Is the mug to the left of, to the right of, on or under the table? "
        "Choose from the four options."
    )
    said = ["left", "to the right", "on the table", "under"]
    assert [read_answer(a, asked.keywords) for a in said] == [0, 1, 2, 3]


def test_with_one_image_the_order_is_a_coin_made_from_the_id() -> None:
    place = ("A photo of a bench on the left", "A photo of a bench on the right")
    texts = {question_for(item(*place, name=str(n))).text for n in range(20)}
    assert texts == {
        "Is the bench on the left or on the right? Give a short answer.",
        "Is the bench on the right or on the left? Give a short answer.",
    }
    pair = ("A photo of a dog above a cat", "A photo of a dog below a cat")
    texts = {question_for(item(*pair, name=str(n))).text for n in range(20)}
    assert texts == {
        "Is the dog above or below the cat? Give a short answer.",
        "Is the dog below or above the cat? Give a short answer.",
    }
    assert 400 < sum(is_turned(f"coco_qa_one_obj.json/{n}") for n in range(1000)) < 600


def test_questions_of_an_item_are_kept() -> None:
    options = Question("Is it open?", ("(a) Open", "(b) Shut"))
    asked = question_for(item("Open", "Shut", question=options))
    assert (asked.text, asked.labels) == ("Is it open? (a) Open (b) Shut", ("a", "b"))
    closed = question_for(
        item("Yes", "No", question=Question("Is it red?Please answer Yes or No."))
    )
    assert closed.text == "Is it red?Please answer Yes or No."
    assert read_answer("Yes, it is", closed.keywords) == 0
    letters = question_for(
        item("A", "B", question=Question("Option: A:Cap; B:Helmet;", ("A", "B")))
    )
    assert read_answer("B", letters.keywords, labels=letters.labels) == 1


def test_other_captions_become_a_choice_that_gives_nothing_away() -> None:
    shown = [question_for(item("a dog runs", "a cat runs", name=str(n))) for n in range(20)]
    assert {asked.labels for asked in shown} == {("A", "B"), ("B", "A")}
    asked = shown[0]
    assert f"{asked.labels[0]}. a dog runs" in asked.text
    assert read_answer(asked.labels[0], asked.keywords, labels=asked.labels) == 0


class Says:
    name, fingerprint = "says", "says-1"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: object
    ) -> list[list[float]]:
        raise AssertionError("nothing is scored here")

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0)


def free(model: Says, prompt: Prompt = ANSWER[0]) -> FreeAnswer:
    return FreeAnswer(model, prompt, "says", "says-1")


def test_an_answer_gives_its_caption_the_credit() -> None:
    sides = item("A mug to the left of a table", "A mug to the right of a table", images=2)
    model = Says("Left", "It is on the left")
    (found,) = free(model).score_items([sides])
    assert found.values is not None
    assert found.values.tolist() == [[1.0, 0.5], [1.0, 0.0]]
    assert found.answers == ("Left", "It is on the left")
    assert found.unparsed == 0


def test_outside_of_a_benchmark_what_is_not_meant_gets_nothing() -> None:
    """Nobody said what is true of the image, so nothing can be a half."""
    shown = ("A mug to the left of a table", "A mug to the right of a table")
    assert score(IMAGE, shown, free(Says("Right"))).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ties", ["wrong", "half", "right", "argmax_first", "argmax_last"])
def test_an_answer_that_cannot_be_read_is_wrong_under_every_tie_rule(ties: TieRule) -> None:
    asked = item("Open", "Shut", question=Question("Is it open?"))
    (found,) = free(Says("hm")).score_items([asked])
    assert found.unparsed == 1
    (judged,) = Choice()([Case(asked, found)], ties=ties, tie_eps=0.0)
    assert judged.value_U.tolist() == [0.0]
    assert judged.unparsed_U.tolist() == [1]


@pytest.mark.parametrize(
    ("answer", "is_true", "value"),
    [("Yes.", True, 1.0), ("No", True, 0.0), ("Yes", False, 1.0), ("?", True, 0.0),
     ("?", False, 1.0)],
)  # fmt: skip
def test_a_statement_is_answered_with_yes_or_no(answer: str, is_true: bool, value: float) -> None:
    alone = Item("s", (IMAGE,), ("the cat is under the table",), np.array([[is_true]]))
    model = Says(answer)
    (found,) = free(model).score_items([alone])
    assert isinstance(found, Scores)
    assert found.values is not None
    assert found.values.tolist() == [[value]]
    assert model.prompts == [
        'Does this figure show "the cat is under the table"? Please answer yes or no.'
    ]


def test_what_has_no_single_answer_is_refused() -> None:
    rated = Item("r", (IMAGE,), ("a", "b"), np.array([[0.5, 0.2]]))
    with pytest.raises(UnbagError, match="has ratings or a gallery, and an answer names one"):
        free(Says()).score_items([rated])
    with pytest.raises(UnbagError, match="was given 1 captions without their items"):
        free(Says()).score([Query(IMAGE, "a")])


def test_every_protocol_has_a_published_prompt_and_others() -> None:
    for prompts in PROMPTS.values():
        assert 3 <= len(choose_prompts(prompts)) <= 5
        assert [p.is_published for p in choose_prompts(prompts)].index(True) == 0
    with pytest.raises(UnbagError, match="prompts named a"):
        choose_prompts([Prompt("a", "", "")])


def test_marks_inside_a_text_are_left_alone() -> None:
    assert filled("{question} or {text}?", question="{text}", text="b") == "{text} or b?"
