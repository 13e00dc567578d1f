"""Rewrites by a chat model: answers that pass or are rejected, servers, and models on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from unbag.data.captions import Source
from unbag.edits.editor import CaptionEditor, make_editor
from unbag.edits.generated.rewrites import (
    CUT,
    PROBE,
    REPLACE_PROMPT,
    REWRITE_REPLACE,
    REWRITE_SWAP,
    SWAP_PROMPT,
    TOO_LONG,
    LocalWriter,
    Rewriter,
    Writer,
    clean_answer,
    fits_replace,
    fits_swap,
    is_exchange,
    load_writer,
)
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.jobs.workers import InProcess
from unbag.edits.kinds import EditParts, Kind, apply
from unbag.edits.parsing import Parser
from unbag.errors import UnbagError
from unbag.models.server import CHECK_AFTER, Manners
from unbag.types import Edited, Given

from .tiny_words import save_causal
from .writing_server import Writing, served

CAPTION = "A small boat is on the sea."


@dataclass
class ScriptedWriter:
    """A writer with a given answer for each caption."""

    answers: dict[str, str]
    prompts: list[str] = field(default_factory=list)

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        self.prompts += prompts
        return [next(a for c, a in self.answers.items() if c in prompt) for prompt in prompts]


def editing(parser: Parser, writer: Writer, kind: Kind = REWRITE_REPLACE) -> CaptionEditor:
    prompt, fits = (
        (REPLACE_PROMPT, fits_replace) if kind is REWRITE_REPLACE else (SWAP_PROMPT, fits_swap)
    )
    return CaptionEditor(parser, (kind,), (Rewriter(writer, prompt, 30, fits),))


def outcome(parser: Parser, caption: str, answer: str, kind: Kind = REWRITE_REPLACE) -> str:
    """The text of the edit, or the reason why it was rejected."""
    [edited], tally = editing(parser, ScriptedWriter({caption: answer}), kind)(
        [Given("1", caption)]
    )
    for made in edited.edits:
        assert apply(edited.text, made.changes) == made.text
        assert made.is_positive
    return edited.edits[0].text if edited.edits else next(iter(tally.kinds[kind.name].rejected))


@pytest.mark.parametrize(
    ("answer", "old", "new"),
    [
        ("A small ship is on the sea.", "boat", "ship"),
        ("a small ship is on the sea", "boat", "ship"),
        ("**A small ship is on the sea.**", "boat", "ship"),
        ("***A small ship is on the sea***", "boat", "ship"),
        ("__A small ship is on the sea.__", "boat", "ship"),
        ("_A small ship is on the sea._", "boat", "ship"),
        ("`A small ship is on the sea.`", "boat", "ship"),
        ("```\nA small ship is on the sea.\n```", "boat", "ship"),
        ("## A small ship is on the sea.", "boat", "ship"),
        ("- A small ship is on the sea.", "boat", "ship"),
        ("* A small ship is on the sea.", "boat", "ship"),
        ("1. A small **ship** is on the sea.", "boat", "ship"),
        ("> **Caption:** A small ship is on the sea.", "boat", "ship"),
        ("**Caption:**\n- A small ship is on the sea.", "boat", "ship"),
        ('"A little boat is on the sea."', "small", "little"),
        ("Caption: A little boat is on the sea.", "small", "little"),
        ("Here is the caption:\n\nA little boat is on the sea.", "small", "little"),
        ('The caption is: "A small boat is on the ocean."', "sea", "ocean"),
    ],
)
def test_good_answers_are_cleaned(parser: Parser, answer: str, old: str, new: str) -> None:
    assert outcome(parser, CAPTION, answer) == CAPTION.replace(old, new)


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
        ("No small boat is on the sea.", "changes the meaning"),
        ("Two small boats is on the sea.", "changes the meaning"),
        ("🙂🙂🙂", "empty answer"),
        ("\0\n\n\n", "empty answer"),
    ],
)
def test_bad_answers_are_rejected_with_a_reason(parser: Parser, answer: str, reason: str) -> None:
    assert outcome(parser, CAPTION, answer) == reason


def test_phrases_of_the_caption_are_not_chatter(parser: Parser) -> None:
    answer = "Sure, a sign reads: please stop."
    assert outcome(parser, "Sure, a sign says: please stop.", answer) == answer


@pytest.mark.parametrize(
    ("caption", "answer", "is_valid"),
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
def test_exchanges_around_and(parser: Parser, caption: str, answer: str, is_valid: bool) -> None:
    [parsed] = parser([caption])
    assert is_exchange(parsed, answer) == is_valid


def test_only_suitable_captions_are_sent_and_only_exchanges_pass(parser: Parser) -> None:
    captions = ["a cup near a plate", "a cup and a plate", "a dog and a cat " + "by a tree " * 4]
    writer = ScriptedWriter({"a cup and a plate": "a plate and a cup"})
    results, tally = editing(parser, writer, REWRITE_SWAP)([Given(c, c) for c in captions])
    [prompt] = writer.prompts
    assert prompt.endswith("Sentence: a cup and a plate\nAnswer:")
    assert [len(edited.edits) for edited in results] == [0, 1, 0]
    assert tally.kinds["rewrite_swap"].places == 1
    caption, wrong = "A cup and a plate are on a table.", "A table and a cup are on a plate."
    assert outcome(parser, caption, wrong, REWRITE_SWAP) == "no exchange around and"


def test_answers_end_and_start_like_the_caption() -> None:
    assert clean_answer("A dog runs.", "a cat runs") == "a dog runs"
    assert clean_answer("a dog runs", "A cat runs.") == "A dog runs."
    assert clean_answer("TV on a table", "a screen on a table") == "TV on a table"
    assert clean_answer("«a dog»", "a cat") == "a dog"
    assert clean_answer("a hound *here*", "a dog *here*") == "a hound *here*"
    assert (
        clean_answer("2 hounds in a snake_case shirt", "2 dogs") == "2 hounds in a snake_case shirt"
    )


GOOD = {"a boat on a lake": "a ship on a lake", "a big rock": "a large rock"}
GIVEN = [Given(text, text) for text in (*GOOD, "a dog on a sofa", "an empty bench")]


def answering(prompt: str) -> str | None:
    caption = prompt.rpartition("\n")[2]
    return GOOD.get(caption, "I'm sorry, I cannot do that." if "dog" in caption else None)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    quick = Manners(concurrency=2, attempts=2, sleep=lambda seconds: None)
    monkeypatch.setattr("unbag.models.server.Manners", lambda concurrency: quick)
    load_writer.cache_clear()
    yield
    load_writer.cache_clear()


def server_editor(url: str, **more: Any) -> CaptionEditor:
    parts = EditParts(rewrite=f"server:some/chat@{url}", **more)
    return make_editor(["rewrite_replace"], parts=parts)


def texts(results: Sequence[Edited]) -> list[list[str]]:
    return [[made.text for made in edited.edits] for edited in results]


def test_a_server_writes_and_its_refusals_are_counted() -> None:
    with served(Writing(answering)) as writing:
        results, tally = server_editor(writing.url)(GIVEN)
    assert texts(results) == [["a ship on a lake"], ["a large rock"], [], []]
    rejected = {"refusal or chatter": 1, "empty answer": 1}
    assert dict(tally.kinds["rewrite_replace"].rejected) == rejected
    body = writing.bodies[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("some/chat", 30, 0)
    assert "logprobs" not in body


def test_an_answer_that_was_cut_is_counted() -> None:
    with served(Writing(answering, ends="length")) as writing:
        _, tally = server_editor(writing.url)(GIVEN[:2])
    assert dict(tally.kinds["rewrite_replace"].rejected) == {"answer cut off": 2}


def test_a_reply_without_an_answer_is_requested_again() -> None:
    with served(Writing(answering, nonsense=1)) as writing:
        results, _ = server_editor(writing.url)(GIVEN[:1])
    assert len(writing.bodies) == 2
    assert texts(results) == [["a ship on a lake"]]


def test_answers_of_a_server_that_dies_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Manners(attempts=2, sleep=lambda seconds: None)
    monkeypatch.setattr("unbag.models.server.Manners", lambda concurrency: alone)
    with served(Writing(answering, lives=2)) as writing:
        cached = {"cache": str(tmp_path / "cache"), "concurrency": 1}
        with pytest.raises(UnbagError, match="refuses the request: status 400"):
            server_editor(writing.url, **cached)(GIVEN)
        assert len(writing.bodies) >= 3
        load_writer.cache_clear()
        writing.lives, before = 1_000_000, len(writing.bodies)
        results, _ = server_editor(writing.url, **cached)(GIVEN)
        assert len(writing.bodies) - before == 2
    assert [len(edited.edits) for edited in results] == [1, 1, 0, 0]


def test_a_server_that_is_gone() -> None:
    with pytest.raises(UnbagError, match="gave no usable answer in 2 attempts") as error:
        server_editor("http://127.0.0.1:9/v1")(GIVEN[:1])
    assert "give the same command again" in error.value.hint


def test_the_budget_is_respected() -> None:
    spent = pytest.raises(UnbagError, match="the budget of 2 requests is spent")
    with served(Writing(answering)) as writing, spent:
        server_editor(writing.url, budget=2)(GIVEN)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        *((spec, f"rewriting needs a chat model, and {spec!r} names none") for spec in ("", "hf:")),
        ("tiny:base", "rewriting needs a chat model, and 'tiny:base' names none"),
        ("server:chat", "the model 'server:chat' names no server"),
        ("hf:/no/such", "there is no language model at '/no/such'"),
    ],
)
def test_models_that_do_not_exist(spec: str, message: str) -> None:
    with pytest.raises(UnbagError) as error:
        load_writer(EditParts(rewrite=spec, device="cpu"))
    assert error.value.message.startswith(message)
    assert error.value.expected or error.value.hint


KNIVES = ("a boat on a lake", "A BIG KNIFE ON A TABLE", "a boat in a harbour")


def as_ship(prompt: str) -> str:
    return prompt.rpartition("\n")[2].replace("boat", "ship")


def refusing(word: str, code: int) -> Callable[[str], int]:
    return lambda prompt: code if word in prompt.lower() else 200


def numbered(captions: Sequence[str] = KNIVES) -> list[Given]:
    return [Given(str(i), text) for i, text in enumerate(captions)]


@pytest.mark.parametrize(
    ("code", "requests", "reason"),
    [
        (400, 1, "the server refused the caption"),
        (422, 1, "the server refused the caption"),
        (500, 2, "no answer from the server"),
    ],
)
def test_an_unanswered_caption_is_counted(code: int, requests: int, reason: str) -> None:
    with served(Writing(as_ship, status=refusing("knife", code))) as writing:
        editor = server_editor(writing.url)
        results, tally = editor(numbered())
        [alone], _ = editor(numbered()[1:2])
    assert texts(results) == [["a ship on a lake"], [], ["a ship in a harbour"]]
    assert dict(tally.kinds["rewrite_replace"].rejected) == {reason: 1}
    assert alone.edits == ()
    prompts = [body["messages"][0]["content"] for body in writing.bodies]
    assert sum("KNIFE" in prompt for prompt in prompts) == 2 * requests
    assert prompts.count(PROBE) == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "refuses the request: status 400"),
        (401, "refuses the key"),
        (404, "refuses the request: status 404"),
        *((code, f"no usable answer in 2 attempts: status {code}") for code in (429, 500, 503)),
    ],
)
def test_a_server_that_answers_nothing_stops_the_job(code: int, message: str) -> None:
    error = pytest.raises(UnbagError, match=message)
    with served(Writing(as_ship, status=lambda prompt: code)) as writing, error as caught:
        server_editor(writing.url)(numbered())
    assert "vision" not in str(caught.value)


def test_many_refused_captions_stop_the_job() -> None:
    captions = [f"a knife on {i} plates" for i in range(20 * CHECK_AFTER)]
    with served(Writing(as_ship, status=refusing("knife", 400))) as writing:
        editor = server_editor(writing.url)
        with pytest.raises(UnbagError, match="refuses the request: status 400"):
            editor(numbered(captions[:CHECK_AFTER]))
        assert len(editor(numbered([*captions[:CHECK_AFTER], KNIVES[0]]))[0][-1].edits) == 1
    load_writer.cache_clear()
    error = pytest.raises(UnbagError, match="no usable answer")
    with served(Writing(as_ship, status=lambda prompt: 500)) as writing, error:
        server_editor(writing.url)(numbered(captions))
    # The job stops long before the end.
    assert len(writing.bodies) < 2 * 10 * CHECK_AFTER


def test_a_job_continues_after_a_refused_caption(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"caption": text}) + "\n" for text in KNIVES))
    with served(Writing(as_ship, status=refusing("knife", 400))) as writing:
        job = EditJob(
            Source(str(path), "jsonl"),
            tmp_path / "b.jsonl",
            kinds=("rewrite_replace",),
            parts=EditParts(rewrite=f"server:x@{writing.url}"),
            chunk=1,
        )
        tally = run_edit(job, runner=InProcess()).tally.kinds["rewrite_replace"]
    assert (tally.edits, dict(tally.rejected)) == (2, {"the server refused the caption": 1})


TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
PROMPTS = ("say it", "say something longer than that", "a", "say it", "two words and more")


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_causal(tmp_path_factory.mktemp("writers") / "chat", template=TEMPLATE, context=2000)


def local(folder: Path) -> LocalWriter:
    writer = load_writer(EditParts(rewrite=f"hf:{folder}", device="cpu"))
    assert isinstance(writer, LocalWriter)
    return writer


def by_hand(writer: LocalWriter, prompt: str, longest: int) -> str:
    """The likeliest token each time, one forward pass a token and no padding."""
    tokens = writer.tokenizer.encode(f"<s>user: {prompt}\nassistant:", add_special_tokens=False)
    before = len(tokens)
    for _ in range(longest):
        with torch.inference_mode():
            logits = writer.model(input_ids=torch.tensor([tokens])).logits[0, -1]
        token = int(logits.argmax())
        if token == 1:
            return str(writer.tokenizer.decode(tokens[before:])).strip()
        tokens.append(token)
    answer = writer.tokenizer.decode(tokens[before:], skip_special_tokens=True)
    return str(answer).strip() + CUT


def test_answers_are_greedy_and_do_not_depend_on_the_batch(
    chat_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = local(chat_folder)
    together = writer(PROMPTS, longest=6)
    assert together == [by_hand(writer, prompt, 6) for prompt in PROMPTS]
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 2)
    assert writer(PROMPTS[::-1], longest=6)[::-1] == together
    assert [writer([prompt], longest=6)[0] for prompt in PROMPTS] == together
    assert writer([], longest=6) == []


def test_the_end_token_is_not_part_of_the_answer(
    chat_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = local(chat_folder)
    answer = [*writer.tokenizer.encode("hi"), 1, 1]

    def generate(token_NL: torch.Tensor, **options: object) -> torch.Tensor:
        answer_NL = torch.tensor([answer]).expand(len(token_NL), 4)
        return torch.cat([token_NL, answer_NL], dim=1)

    monkeypatch.setattr(writer.model, "generate", generate)
    assert writer(["a", "b c"], longest=4) == ["hi", "hi"]


def test_nonsense_of_a_real_model_is_counted(chat_folder: Path) -> None:
    captions = ["a cup and a plate on a table", "A dog runs.", "a man and a woman"]
    editor = make_editor(["rewrites"], parts=EditParts(rewrite=f"hf:{chat_folder}", device="cpu"))
    results, tally = editor([Given(c, c) for c in captions])
    assert texts(results) == [[], [], []]
    assert tally.kinds["rewrite_replace"].rejected.total() == 3
    assert tally.kinds["rewrite_swap"].rejected.total() == 2


def test_prompts_that_are_too_long(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    writer = local(save_causal(tmp_path / "short", template=TEMPLATE, context=40))
    # <s>, "user: ", 30 letters, a new line, "assistant:" and the answer: 1 + 6 + 30 + 1 + 10 + 9.
    answer, long = writer(["a", "x" * 30], longest=9)
    assert long == TOO_LONG
    assert [answer] == writer(["a"], longest=9)
    with pytest.raises(UnbagError, match="has 57 tokens or more, and the chat model reads 40"):
        writer(["x" * 30 + "y" * more for more in range(CHECK_AFTER)], longest=9)


def test_a_model_without_template_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UnbagError, match="bare has no chat template") as error:
        local(save_causal(tmp_path / "bare"))
    assert "instruction-tuned" in error.value.hint
