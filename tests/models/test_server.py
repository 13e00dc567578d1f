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

ATTEMPTS = "no usable answer in 6 attempts: a malformed reply"

RED = PixelImage(np.full((4, 6, 3), (250, 10, 10), np.uint8), "red")


@pytest.fixture
def chat() -> Iterator[Chat]:
    with served(Chat()) as found:
        yield found


def model(chat: Chat, **options: Any) -> ServerModel:
    return load(f"org/llava@{chat.url}", **options)


def test_probabilities_of_the_next_token(chat: Chat) -> None:
    server = model(chat)
    assert isinstance(server, Generator)
    assert server.name == "llava"
    (yes,), (no,) = server.logprobs(RED, 'Is "it" red?', ["Yes", "No"])
    assert math.exp(yes) == pytest.approx(0.6)
    assert math.exp(no) == pytest.approx(0.3)
    (body,) = chat.bodies
    image, text = body["messages"][0]["content"]
    assert text == {"type": "text", "text": 'Is "it" red?'}
    data = base64.b64decode(image["image_url"]["url"].partition("base64,")[2])
    assert np.array_equal(np.asarray(Image.open(BytesIO(data))), RED.pixels)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("org/llava", 1, 0)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    # The language prior.
    server.logprobs(None, "Is it red?", ["Yes"])
    assert [part["type"] for part in chat.bodies[1]["messages"][0]["content"]] == ["text"]


@pytest.mark.parametrize(
    ("listed", "probability"),
    [
        ({"▁Yes": 0.5, " Yes": 0.2, "No": 0.1}, 0.5),
        # As for a local model, only the requested spelling counts if it is listed.
        ({"yes": 0.7, " Yes": 0.2, "No": 0.05}, 0.2),
    ],
)
def test_spellings_of_a_token(chat: Chat, listed: Told, probability: float) -> None:
    chat.tells = lambda body: listed
    assert math.exp(model(chat).logprobs(RED, "?", ["Yes"])[0][0]) == pytest.approx(probability)


@pytest.mark.parametrize("token", ["yes", " YES", "▁yes"])
def test_another_spelling_of_the_answer(chat: Chat, token: str) -> None:
    chat.tells = lambda body: {token: 0.9, "no": 0.05}
    spelling = token.strip(" ▁")
    with pytest.raises(UnbagError, match=f"llava answers '{spelling}', and 'Yes' is not") as error:
        model(chat).logprobs(RED, "?", ["Yes"])
    assert "--scorer answer" in error.value.hint


@pytest.mark.parametrize(
    ("listed", "bound"),
    [({"Maybe": 0.9, "Perhaps": 0.07}, 0.03), ({"No": 0.99, "yes": 0.005}, 0.005)],
)
def test_unlisted_answer_is_bounded_and_counted(chat: Chat, listed: Told, bound: float) -> None:
    chat.tells = lambda body: listed
    server = model(chat)
    with pytest.warns(UserWarning, match="'Yes' is not among the 2 most likely tokens"):
        (score,) = server.logprobs(RED, "?", ["Yes"])[0]
    assert math.exp(score) == pytest.approx(bound)
    assert server.bounded == 1


def test_bounds_are_a_note_of_the_run(chat: Chat, tmp_path: Path) -> None:
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
    with pytest.warns(UserWarning, match="is not among the 2 most likely"):
        first = run(Job([scorer], [benchmark], tmp_path / "run"))
    said = "llava: 9 probabilities are upper bounds, because the server lists the likeliest"
    assert first.contents.record.notes == {"world-swap": (f"{said} tokens only",)}
    assert first.contents.warnings == (f"world-swap: {said} tokens only",)
    (again,) = make_scorers(model(chat), "yes", "published")
    repeated = run(Job([again], [benchmark], tmp_path / "run")).contents
    assert repeated.record.notes == first.contents.record.notes
    assert read_contents(tmp_path / "run").warnings == first.contents.warnings


def test_bounds_are_a_note_of_one_image(chat: Chat, tmp_path: Path) -> None:
    chat.tells = lambda body: {"No": 0.9, "Maybe": 0.05}
    RED.open().save(tmp_path / "red.png")
    (scorer,) = make_scorers(model(chat), "yes", "published")
    with pytest.warns(UserWarning, match="is not among the 2 most likely"):
        column = ask(tmp_path / "red.png", ["a red square"], scorer)
    expected = "llava: 1 probability is an upper bound, because the server lists the likeliest"
    assert column.notes == (f"{expected} tokens only",)


def test_server_needs_no_local_device(
    chat: Chat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RED.open().save(tmp_path / "red.png")
    model = ["--model", f"server:llava@{chat.url}", "--device", "cuda:99"]
    assert main(["score", str(tmp_path / "red.png"), "a red square", *model]) == 0
    assert "0.6000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("listed", "ask_", "message", "hint"),
    [
        (
            {"Y": 0.9, "N": 0.05},
            Ask(RED, "?", ("Yes",)),
            "cannot score 'Yes', which it begins with 'Y'",
            "use --scorer answer, which",
        ),
        ({}, Ask(RED, "?", ("A",), ends=True), "cannot score the end of an answer", "letters"),
        ({}, Ask(RED, "?", ("a red cube",)), "cannot score 'a red cube'", "yes-contrast, letters"),
    ],
)
def test_answers_that_cannot_be_scored(
    chat: Chat, listed: Told, ask_: Ask, message: str, hint: str
) -> None:
    chat.tells = lambda body: listed
    with pytest.raises(UnbagError, match=message) as error:
        model(chat).logprobs_of([ask_])
    assert hint in error.value.hint
    assert len(chat.bodies) == bool(listed)


def test_answers_come_in_order_and_are_cached(chat: Chat, tmp_path: Path) -> None:
    chat.tells = lambda body: {body["messages"][0]["content"][-1]["text"]: 0.9}
    asks = [Ask(RED, f"answer {n}") for n in range(20)]
    assert model(chat, cache=tmp_path).answers_of(asks) == [f"answer {n}" for n in range(20)]
    sent = len(chat.bodies)
    again = model(chat, cache=tmp_path)
    assert again.answers_of(asks) == [f"answer {n}" for n in range(20)]
    assert (len(chat.bodies), again.client.spent) == (sent, 0)
    assert again.answer(None, "plain") == "plain"


@pytest.mark.parametrize(
    "rest",
    ["llava", "llava@localhost:8000", "@http://localhost/v1", "", "m@http://[::1/v1",
     "m@http://a..b/v1", f"m@http://{'x' * 70}.org"],
)  # fmt: skip
def test_bad_addresses(rest: str) -> None:
    with pytest.raises(UnbagError, match="names no server") as error:
        load(rest)
    assert "server:MODEL@URL" in error.value.expected


def test_fingerprint_of_address_and_name(chat: Chat) -> None:
    one, other = load("a@http://x/v1").fingerprint, load("b@http://x/v1").fingerprint
    assert one != other
    assert one == load("a@http://x/v1/").fingerprint


def test_evaluation_with_a_server(chat: Chat, tmp_path: Path) -> None:
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
def test_other_scorers(chat: Chat, name: str) -> None:
    chat.tells = lambda body: {"A": 0.5, "B": 0.3, "C": 0.1, "Yes": 0.05, "No": 0.05}
    items = SWAP.load(None)[:2]
    (scorer,) = make_scorers(model(chat), name, "published")
    result = evaluate(scorer, replace(SWAP, load=lambda root: items))[0]
    assert result.overall["original"].n == 2


def reply_with(logprobs: Any, **message: str) -> Any:
    return lambda self, body: {"choices": [{"message": message, "logprobs": logprobs}]}


def listing(*values: Any) -> Any:
    top = [{"token": "Yes", "logprob": value} for value in values]
    return {"content": [{"token": "Yes", "logprob": 0.0, "top_logprobs": top}]}


def test_most_likely_of_tokens_with_one_text(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = reply_with(listing(math.log(0.8), math.log(0.001)), content="Yes")
    monkeypatch.setattr(Chat, "reply", reply)
    assert math.exp(model(chat).logprobs(RED, "?", ["Yes"])[0][0]) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (reply_with(listing(1000.0), content="Yes"), f"{ATTEMPTS} .log-probabilities above 0"),
        (reply_with(listing(10**400), content="Yes"), ATTEMPTS),
        (reply_with(listing("x"), content="Yes"), ATTEMPTS),
        (reply_with(listing(None), content="Yes"), ATTEMPTS),
        (reply_with(None), rf"{ATTEMPTS} \(it has no 'content'"),
    ],
)
def test_malformed_replies(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, reply: Any, message: str
) -> None:
    monkeypatch.setattr(Chat, "reply", reply)
    server = model(chat)
    object.__setattr__(server.client.manners, "sleep", lambda seconds: None)
    with pytest.raises(UnbagError, match=message):
        server.logprobs(RED, "?", ["Yes"])


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}])
def test_server_without_logprobs(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, logprobs: Any
) -> None:
    bodies: list[dict[str, Any]] = []

    def reply(self: Chat, body: dict[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        return {"choices": [{"message": {"content": "A"}, "logprobs": logprobs}]}

    monkeypatch.setattr(Chat, "reply", reply)
    with pytest.raises(UnbagError, match="gives no logprobs: its answer has logprobs: ") as error:
        model(chat).logprobs(RED, "?", ["Yes"])
    assert "vLLM with --max-logprobs 20 or more" in error.value.expected
    assert "--scorer answer, which needs no probabilities" in error.value.hint
    assert len(bodies) == 1
    bodies.clear()
    items = SWAP.load(None)[:2]
    (scorer,) = make_scorers(model(chat), "answer", "published")
    result = evaluate(scorer, replace(SWAP, load=lambda root: items))[0]
    assert result.overall["original"].n == 2
    assert not any("logprobs" in body or "top_logprobs" in body for body in bodies)


@pytest.mark.parametrize("key", ["caf\u00e9", "a\nb"])
def test_key_with_a_forbidden_character(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNBAG_SERVER_KEY", key)
    with pytest.raises(UnbagError, match="UNBAG_SERVER_KEY holds a character") as error:
        load("m@http://localhost/v1")
    assert key not in str(error.value)
