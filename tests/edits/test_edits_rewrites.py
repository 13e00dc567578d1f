"""Rewriting by a chat model: prompts, tidying, and chatter that ends in counted rejections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from unbag.edits.editor import CaptionEditor, make_editor
from unbag.edits.generated.rewrites import (
    CUT,
    REPLACE_PROMPT,
    REWRITE_REPLACE,
    REWRITE_SWAP,
    SWAP_PROMPT,
    Rewriter,
    Writer,
    clean_answer,
    fits_replace,
    fits_swap,
    is_exchange,
    load_writer,
)
from unbag.edits.kinds import EditParts, Kind, apply
from unbag.edits.parsing import Parser, find_parser
from unbag.errors import UnbagError
from unbag.models.server import Manners
from unbag.types import Given

from .writing_server import Writing, served

CAPTION = "A small boat is on the sea."


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@dataclass
class Says:
    """A writer that says what it is told for each caption."""

    answers: dict[str, str]
    asked: list[str] = field(default_factory=list)

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        self.asked += prompts
        return [next(a for c, a in self.answers.items() if c in prompt) for prompt in prompts]


def editing(parser: Parser, writer: Writer, kind: Kind = REWRITE_REPLACE) -> CaptionEditor:
    prompt, fits = (
        (REPLACE_PROMPT, fits_replace) if kind is REWRITE_REPLACE else (SWAP_PROMPT, fits_swap)
    )
    return CaptionEditor(parser, (kind,), (Rewriter(writer, prompt, 30, fits),))


def outcome(parser: Parser, caption: str, answer: str, kind: Kind = REWRITE_REPLACE) -> str:
    """The text that was kept, or the reason why none was."""
    [found], tally = editing(parser, Says({caption: answer}), kind)([Given("1", caption)])
    for made in found.edits:
        assert apply(found.text, made.changes) == made.text
        assert made.is_positive
    return found.edits[0].text if found.edits else next(iter(tally.kinds[kind.name].rejected))


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("A small ship is on the sea.", "A small ship is on the sea."),
        ("a small ship is on the sea", "A small ship is on the sea."),
        ('"A little boat is on the sea."', "A little boat is on the sea."),
        ("Caption: A little boat is on the sea.", "A little boat is on the sea."),
        ("Here is the caption:\n\nA little boat is on the sea.", "A little boat is on the sea."),
        ('The caption is: "A small boat is on the ocean."', "A small boat is on the ocean."),
        ("**A small ship is on the sea.**", "A small ship is on the sea."),
        ("***A small ship is on the sea***", "A small ship is on the sea."),
        ("__A small ship is on the sea.__", "A small ship is on the sea."),
        ("_A small ship is on the sea._", "A small ship is on the sea."),
        ("`A small ship is on the sea.`", "A small ship is on the sea."),
        ("```\nA small ship is on the sea.\n```", "A small ship is on the sea."),
        ("## A small ship is on the sea.", "A small ship is on the sea."),
        ("- A small ship is on the sea.", "A small ship is on the sea."),
        ("* A small ship is on the sea.", "A small ship is on the sea."),
        ("1. A small **ship** is on the sea.", "A small ship is on the sea."),
        ("> **Caption:** A small ship is on the sea.", "A small ship is on the sea."),
        ("**Caption:**\n- A small ship is on the sea.", "A small ship is on the sea."),
    ],
)
def test_a_rewritten_caption_is_kept(parser: Parser, answer: str, kept: str) -> None:
    assert outcome(parser, CAPTION, answer) == kept


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty answer"),
        ("...", "empty answer"),
        ('""', "empty answer"),
        (CAPTION, "same as the caption"),
        (f'"{CAPTION.lower()}"', "same as the caption"),
        ("I'm sorry, but I can't help with that.", "refusal or chatter"),
        ("As an AI language model I do not see a small boat on the sea.", "refusal or chatter"),
        ("Sure! A small ship is on the sea.", "refusal or chatter"),
        ("A small ship is on the sea (boat was replaced by a synonym)", "refusal or chatter"),
        ("A small ship is on the sea.\n\nShip means boat.", "more than a sentence"),
        ("A small ship is on the sea. It is blue.", "more than a sentence"),
        ("A boat." + CUT, "answer cut off"),
        ("A small [ship](boat) is on the sea.", "Markdown"),
        ("A small boat → ship is on the sea.", "Markdown"),
        ("A small ship is on the sea. #boat", "Markdown"),
        ("Boat.", "length"),
        ("It was a dark and stormy night there.", "overlap"),
        ("No small boat is on the sea.", "changes what is said"),
        ("Two small boats is on the sea.", "changes what is said"),
        ("🙂🙂🙂", "empty answer"),
        ("\0\n\n\n", "empty answer"),
    ],
)
def test_chatter_is_rejected_with_a_reason(parser: Parser, answer: str, reason: str) -> None:
    assert outcome(parser, CAPTION, answer) == reason


def test_what_the_caption_says_itself_is_no_chatter(parser: Parser) -> None:
    caption = "Sure, a sign says: please stop."
    assert outcome(parser, caption, "Sure, a sign reads: please stop.") == (
        "Sure, a sign reads: please stop."
    )


@pytest.mark.parametrize(
    ("caption", "answer", "is_one"),
    [
        ("a cup and a plate on a table", "a plate and a cup on a table", True),
        ("An old dog and a cat.", "A cat and an old dog.", True),
        ("The wall is tall and grey.", "The wall is grey and tall.", True),
        ("a big dog and a small cat", "a small dog and a big cat", False),
        ("a cup and a plate on a table", "a table and a plate on a cup", False),
        ("a cup and a plate on a table", "a cup and a plate on a table", False),
        ("a cup and a plate", "a plate and a mug", False),
        ("A man with a hat and a woman talk.", "A man with a woman and a hat talk.", False),
        ("a cup near a plate", "a plate near a cup", False),
    ],
)
def test_exchanges_around_and(parser: Parser, caption: str, answer: str, is_one: bool) -> None:
    [parsed] = parser([caption])
    assert is_exchange(parsed, answer) == is_one


def test_an_exchange_is_kept_and_all_else_is_counted(parser: Parser) -> None:
    caption = "A cup and a plate are on a table."
    assert outcome(parser, caption, "A plate and a cup are on a table.", REWRITE_SWAP) == (
        "A plate and a cup are on a table."
    )
    assert outcome(parser, caption, "A table and a cup are on a plate.", REWRITE_SWAP) == (
        "no exchange around and"
    )


def test_only_captions_that_fit_are_asked_for(parser: Parser) -> None:
    captions = ["a cup near a plate", "a cup and a plate", "a dog and a cat " + "by a tree " * 4]
    says = Says({"a cup and a plate": "a plate and a cup"})
    found, tally = editing(parser, says, REWRITE_SWAP)([Given(c, c) for c in captions])
    assert len(says.asked) == 1
    assert says.asked[0].endswith("Sentence: a cup and a plate\nAnswer:")
    assert [len(one.edits) for one in found] == [0, 1, 0]
    assert tally.kinds["rewrite_swap"].places == 1


def test_the_end_and_the_first_letter_are_those_of_the_caption() -> None:
    assert clean_answer("A dog runs.", "a cat runs") == "a dog runs"
    assert clean_answer("a dog runs", "A cat runs.") == "A dog runs."
    assert clean_answer("TV on a table", "a screen on a table") == "TV on a table"
    assert clean_answer("«a dog»", "a cat") == "a dog"
    assert clean_answer("a hound *here*", "a dog *here*") == "a hound *here*"
    assert (
        clean_answer("2 hounds in a snake_case shirt", "2 dogs") == "2 hounds in a snake_case shirt"
    )


GOOD = {"a boat on a lake": "a ship on a lake", "a big rock": "a large rock"}


def answering(prompt: str) -> str | None:
    caption = prompt.rpartition("\n")[2]
    return GOOD.get(caption, "I'm sorry, I cannot do that." if "dog" in caption else None)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Manners(attempts=2, sleep=lambda seconds: None)
    monkeypatch.setattr("unbag.models.server.Manners", lambda concurrency: quick)
    load_writer.cache_clear()


GIVEN = [Given(text, text) for text in (*GOOD, "a dog on a sofa", "an empty bench")]


@pytest.mark.usefixtures("_quick")
def test_a_server_writes_and_its_refusals_are_counted() -> None:
    with served(Writing(answering)) as writing:
        parts = EditParts(rewrite=f"server:some/chat@{writing.url}")
        found, tally = make_editor(["rewrite_replace"], parts=parts)(GIVEN)
    assert [[made.text for made in one.edits] for one in found] == [
        ["a ship on a lake"],
        ["a large rock"],
        [],
        [],
    ]
    assert dict(tally.kinds["rewrite_replace"].rejected) == {
        "refusal or chatter": 1,
        "empty answer": 1,
    }
    body = writing.bodies[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("some/chat", 30, 0)
    assert "logprobs" not in body


@pytest.mark.usefixtures("_quick")
def test_an_answer_of_a_server_that_was_cut_is_counted() -> None:
    with served(Writing(answering, ends="length")) as writing:
        parts = EditParts(rewrite=f"server:chat@{writing.url}")
        _, tally = make_editor(["rewrite_replace"], parts=parts)(GIVEN[:2])
    assert dict(tally.kinds["rewrite_replace"].rejected) == {"answer cut off": 2}


@pytest.mark.usefixtures("_quick")
def test_a_reply_without_an_answer_is_asked_for_again() -> None:
    with served(Writing(answering, nonsense=1)) as writing:
        parts = EditParts(rewrite=f"server:chat@{writing.url}")
        [found], _ = make_editor(["rewrite_replace"], parts=parts)(GIVEN[:1])
    assert len(writing.bodies) == 2
    assert [made.text for made in found.edits] == ["a ship on a lake"]


@pytest.mark.usefixtures("_quick")
def test_what_a_dying_server_said_is_kept(tmp_path: Path) -> None:
    with served(Writing(answering, lives=2)) as writing:
        parts = EditParts(
            rewrite=f"server:chat@{writing.url}", cache=str(tmp_path / "cache"), concurrency=1
        )
        editor = make_editor(["rewrite_replace"], parts=parts)
        with pytest.raises(UnbagError, match="refuses the request: status 400"):
            editor(GIVEN)
        assert len(writing.bodies) >= 3
        load_writer.cache_clear()
        writing.lives, before = 1_000_000, len(writing.bodies)
        found, _ = make_editor(["rewrite_replace"], parts=parts)(GIVEN)
        assert len(writing.bodies) - before == 2
    assert [len(one.edits) for one in found] == [1, 1, 0, 0]


@pytest.mark.usefixtures("_quick")
def test_a_server_that_is_gone_says_how_to_go_on() -> None:
    parts = EditParts(rewrite="server:chat@http://127.0.0.1:9/v1")
    with pytest.raises(UnbagError, match="gave no usable answer in 2 attempts") as error:
        make_editor(["rewrite_replace"], parts=parts)(GIVEN[:1])
    assert "give the same command again" in error.value.hint


@pytest.mark.usefixtures("_quick")
def test_a_budget_holds() -> None:
    with served(Writing(answering)) as writing:
        parts = EditParts(rewrite=f"server:chat@{writing.url}", budget=2)
        with pytest.raises(UnbagError, match="the budget of 2 requests is spent"):
            make_editor(["rewrite_replace"], parts=parts)(GIVEN)


@pytest.mark.parametrize("spec", ["", "hf:", "tiny:base"])
def test_a_chat_model_must_be_named(spec: str) -> None:
    load_writer.cache_clear()
    with pytest.raises(UnbagError) as error:
        load_writer(EditParts(rewrite=spec))
    assert error.value.message == f"rewriting needs a chat model, and {spec!r} names none"
    assert "--rewrite" in error.value.hint


def test_a_server_must_have_an_address() -> None:
    load_writer.cache_clear()
    with pytest.raises(UnbagError, match="the model 'server:chat' names no server"):
        load_writer(EditParts(rewrite="server:chat"))
