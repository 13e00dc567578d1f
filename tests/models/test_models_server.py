"""A chat model behind a real local HTTP server that speaks the protocol."""

import base64
import math
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unbag.api import evaluate
from unbag.cli import main
from unbag.cli.score import ask
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.models.huggingface.chat import Ask
from unbag.models.server import ServerModel, load
from unbag.scorers.resolve import make_scorers
from unbag.types import Generator
from unbag.world.benchmarks import SWAP

from .local_chat import Chat, Told, served

RED = PixelImage(np.full((4, 6, 3), (250, 10, 10), np.uint8), "red")


@pytest.fixture
def chat() -> Iterator[Chat]:
    with served(Chat()) as found:
        yield found


def model(chat: Chat, **options: Any) -> ServerModel:
    return load(f"org/llava@{chat.url}", **options)


def test_it_is_a_generator_and_scores_the_next_token(chat: Chat) -> None:
    found = model(chat)
    assert isinstance(found, Generator)
    assert found.name == "llava"
    (yes,), (no,) = found.logprobs(RED, "Is it red?", ["Yes", "No"])
    assert math.exp(yes) == pytest.approx(0.6)
    assert math.exp(no) == pytest.approx(0.3)


def test_the_request_has_the_image_without_loss_and_asks_for_one_token(chat: Chat) -> None:
    model(chat).logprobs(RED, 'Say "yes"?', ["Yes"])
    (body,) = chat.bodies
    image, text = body["messages"][0]["content"]
    assert text == {"type": "text", "text": 'Say "yes"?'}
    data = base64.b64decode(image["image_url"]["url"].partition("base64,")[2])
    assert np.array_equal(np.asarray(Image.open(BytesIO(data))), RED.pixels)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("org/llava", 1, 0)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)


def test_the_language_prior_is_asked_without_an_image(chat: Chat) -> None:
    model(chat).logprobs(None, "Is it red?", ["Yes"])
    assert [part["type"] for part in chat.bodies[0]["messages"][0]["content"]] == ["text"]


def test_a_space_before_the_word_is_the_same_word(chat: Chat) -> None:
    chat.tells = lambda body: {"▁Yes": 0.5, " Yes": 0.2, "No": 0.1}
    assert math.exp(model(chat).logprobs(RED, "?", ["Yes"])[0][0]) == pytest.approx(0.5)


def test_what_is_not_listed_is_bounded_and_counted(chat: Chat) -> None:
    chat.tells = lambda body: {"Maybe": 0.9, "Perhaps": 0.07}
    found = model(chat)
    with pytest.warns(UserWarning, match="'Yes' is not among the 2 likeliest tokens"):
        (score,) = found.logprobs(RED, "?", ["Yes"])[0]
    assert math.exp(score) == pytest.approx(0.03)
    assert found.bounded == 1


def test_what_is_bounded_is_a_note_of_the_run_and_heads_its_report(
    chat: Chat, tmp_path: Path
) -> None:
    """For three of four items, of three captions each, the server lists no Yes."""

    def no_yes(body: dict[str, Any]) -> Told:
        text = body["messages"][0]["content"][-1]["text"]
        return {"No": 0.9, "Maybe": 0.05} if '"1 ' in text else {"Yes": 0.6, "No": 0.3}

    chat.tells = no_yes
    items = [
        replace(item, captions=tuple(f"{min(n, 1)} {c}" for c in item.captions))
        for n, item in enumerate(SWAP.load(None)[:4])
    ]
    benchmark = replace(SWAP, load=lambda root: items)
    (scorer,) = make_scorers(model(chat), "yes", "published")
    with pytest.warns(UserWarning, match="is not among the 2 likeliest"):
        first = run(Job([scorer], [benchmark], tmp_path / "run"))
    said = "llava: 9 probabilities are upper bounds, because the server lists the likeliest"
    assert first.contents.record.notes == {"world-swap": (f"{said} tokens only",)}
    assert first.contents.warnings == (f"world-swap: {said} tokens only",)
    (again,) = make_scorers(model(chat), "yes", "published")
    repeated = run(Job([again], [benchmark], tmp_path / "run")).contents
    assert repeated.record.notes == first.contents.record.notes
    assert read_contents(tmp_path / "run").warnings == first.contents.warnings


def test_a_bound_is_a_note_of_one_image_too(chat: Chat, tmp_path: Path) -> None:
    chat.tells = lambda body: {"No": 0.9, "Maybe": 0.05}
    RED.open().save(tmp_path / "red.png")
    (scorer,) = make_scorers(model(chat), "yes", "published")
    with pytest.warns(UserWarning, match="is not among the 2 likeliest"):
        column = ask(tmp_path / "red.png", ["a red square"], scorer)
    expected = "llava: 1 probability is an upper bound, because the server lists the likeliest"
    assert column.notes == (f"{expected} tokens only",)


def test_a_server_needs_no_device_here(
    chat: Chat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RED.open().save(tmp_path / "red.png")
    model = ["--model", f"server:llava@{chat.url}", "--device", "cuda:99"]
    assert main(["score", str(tmp_path / "red.png"), "a red square", *model]) == 0
    assert "0.6000" in capsys.readouterr().out


def test_a_tokenizer_that_splits_the_answer_is_said(chat: Chat) -> None:
    chat.tells = lambda body: {"Y": 0.9, "N": 0.05}
    with pytest.raises(UnbagError, match="cannot score 'Yes', which it begins with 'Y'") as error:
        model(chat).logprobs(RED, "?", ["Yes"])
    # Not the scorer that is running.
    assert "use --scorer answer, which" in error.value.hint


def test_the_end_of_an_answer_cannot_be_scored(chat: Chat) -> None:
    with pytest.raises(UnbagError, match="cannot score the end of an answer"):
        model(chat).logprobs_of([Ask(RED, "?", ("A",), ends=True)])


def test_many_asks_and_free_answers_come_in_order_and_are_kept(chat: Chat, tmp_path: Path) -> None:
    chat.tells = lambda body: {body["messages"][0]["content"][-1]["text"]: 0.9}
    asks = [Ask(RED, f"answer {n}") for n in range(20)]
    assert model(chat, cache=tmp_path).answers_of(asks) == [f"answer {n}" for n in range(20)]
    sent = len(chat.bodies)
    again = model(chat, cache=tmp_path)
    assert again.answers_of(asks) == [f"answer {n}" for n in range(20)]
    assert (len(chat.bodies), again.client.spent) == (sent, 0)
    assert again.answer(None, "plain") == "plain"


@pytest.mark.parametrize("rest", ["llava", "llava@localhost:8000", "@http://localhost/v1", ""])
def test_a_name_without_a_server_is_explained(rest: str) -> None:
    with pytest.raises(UnbagError, match="names no server") as error:
        load(rest)
    assert "server:MODEL@URL" in str(error.value)


def test_the_fingerprint_is_of_address_and_name(chat: Chat) -> None:
    one, other = load("a@http://x/v1").fingerprint, load("b@http://x/v1").fingerprint
    assert one != other
    assert one == load("a@http://x/v1/").fingerprint


def test_a_run_asks_the_server_and_the_blind_prior_is_not_asked(chat: Chat, tmp_path: Path) -> None:
    """Yes-probability of a world benchmark, end to end; the longer caption is liked better."""

    def longer(body: dict[str, Any]) -> Told:
        share = len(body["messages"][0]["content"][-1]["text"]) / 1000
        return {"Yes": share, "No": 1 - share}

    chat.tells = longer
    items = SWAP.load(None)[:4]
    (scorer,) = make_scorers(model(chat), "yes", "published")
    found = evaluate(scorer, replace(SWAP, load=lambda root: items))[0]
    assert found.overall["original"].n == 4
    assert found.protocol.scoring.startswith("yes")
    asked = {part["text"] for body in chat.bodies for part in body["messages"][0]["content"][1:]}
    assert all(any(str(c) in text for text in asked) for item in items for c in item.captions)


@pytest.mark.parametrize("name", ["letters", "answer", "yes-normalised", "yes-contrast"])
def test_other_scorers_work_with_a_server(chat: Chat, name: str) -> None:
    chat.tells = lambda body: {"A": 0.5, "B": 0.3, "C": 0.1, "Yes": 0.05, "No": 0.05}
    items = SWAP.load(None)[:2]
    (scorer,) = make_scorers(model(chat), name, "published")
    result = evaluate(scorer, replace(SWAP, load=lambda root: items))[0]
    assert result.overall["original"].n == 2


def test_texts_of_several_words_cannot_be_scored(chat: Chat) -> None:
    with pytest.raises(UnbagError, match="cannot score 'a red cube'") as error:
        model(chat).logprobs(RED, "?", ["a red cube"])
    assert "yes-contrast, letters or answer" in str(error.value)
    assert chat.bodies == []


def test_of_tokens_that_read_alike_the_likelier_counts(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(self: Chat, body: dict[str, Any]) -> dict[str, Any]:
        listed = [{"token": "Yes", "logprob": math.log(p)} for p in (0.8, 0.001)]
        logprobs = {"content": [{"token": "Yes", "logprob": 0.0, "top_logprobs": listed}]}
        return {"choices": [{"message": {"content": "Yes"}, "logprobs": logprobs}]}

    monkeypatch.setattr(Chat, "reply", twice)
    assert math.exp(model(chat).logprobs(RED, "?", ["Yes"])[0][0]) == pytest.approx(0.8)


@pytest.mark.parametrize("value", [1000.0, 10**400, "x", None])
def test_a_probability_that_is_none_is_garbage_and_never_kept(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    def odd(self: Chat, body: dict[str, Any]) -> dict[str, Any]:
        listed = [{"token": "No", "logprob": value}]
        logprobs = {"content": [{"token": "No", "logprob": 0.0, "top_logprobs": listed}]}
        return {"choices": [{"message": {"content": "No"}, "logprobs": logprobs}]}

    monkeypatch.setattr(Chat, "reply", odd)
    found = model(chat)
    object.__setattr__(found.client.manners, "sleep", lambda seconds: None)
    with pytest.raises(UnbagError, match="an answer that is no reply"):
        found.logprobs(RED, "?", ["Yes"])


@pytest.mark.parametrize("url", ["http://[::1/v1", "http://a..b/v1", f"http://{'x' * 70}.org"])
def test_an_address_that_is_none_is_explained(url: str) -> None:
    with pytest.raises(UnbagError, match="names no server"):
        load(f"m@{url}")


@pytest.mark.parametrize("key", ["caf\u00e9", "a\nb"])
def test_a_key_that_no_server_takes_is_explained(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNBAG_SERVER_KEY", key)
    with pytest.raises(UnbagError, match="UNBAG_SERVER_KEY holds a character") as error:
        load("m@http://localhost/v1")
    assert key not in str(error.value)
