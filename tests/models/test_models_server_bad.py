"""Servers that answer, but not with what a score is made of: each is told at once what is wrong."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unbag.api import evaluate
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.server import ServerModel, load
from unbag.scorers.resolve import make_scorers
from unbag.world.benchmarks import SWAP

from .local_chat import Chat, served

RED = PixelImage(np.full((4, 6, 3), (250, 10, 10), np.uint8), "red")


class Mute(Chat):
    """Answers without probabilities, and writes them in `form`."""

    form: Any = None

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        return {"choices": [{"message": {"content": "A"}, "logprobs": self.form}]}


@pytest.fixture
def chat() -> Iterator[Chat]:
    with served(Chat()) as found:
        yield found


@pytest.fixture
def mute() -> Iterator[Mute]:
    with served(Mute()) as found:
        assert isinstance(found, Mute)
        yield found


def model(chat: Chat) -> ServerModel:
    return load(f"org/llava@{chat.url}")


@pytest.mark.parametrize("form", [None, {}, {"content": None}])
def test_a_server_without_logprobs_is_told_at_once(mute: Mute, form: Any) -> None:
    mute.form = form
    with pytest.raises(UnbagError, match="gives no logprobs: its answer has logprobs: ") as error:
        model(mute).logprobs(RED, "?", ["Yes"])
    assert "vLLM with --max-logprobs 20 or more" in error.value.expected
    assert "--scorer answer, which needs no probabilities" in error.value.hint
    assert len(mute.bodies) == 1


def test_free_answers_need_no_logprobs_and_ask_for_none(mute: Mute) -> None:
    items = SWAP.load(None)[:2]
    (scorer,) = make_scorers(model(mute), "answer", "published")
    result = evaluate(scorer, replace(SWAP, load=lambda root: items))[0]
    assert result.overall["original"].n == 2
    assert not any("logprobs" in body or "top_logprobs" in body for body in mute.bodies)


def test_a_reply_without_an_answer_is_asked_for_again_and_then_said(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chat, "reply", lambda self, body: {"choices": [{"message": {}}]})
    found = model(chat)
    object.__setattr__(found.client.manners, "sleep", lambda seconds: None)
    with pytest.raises(
        UnbagError, match=r"6 attempts: an answer that is no reply \(it has no 'cont"
    ):
        found.logprobs(RED, "?", ["Yes"])


@pytest.mark.parametrize("token", ["yes", " YES", "▁yes"])
def test_a_model_that_spells_its_answer_in_another_way_is_told_so(chat: Chat, token: str) -> None:
    chat.tells = lambda body: {token: 0.9, "no": 0.05}
    spelt = token.strip(" ▁")
    with pytest.raises(UnbagError, match=f"llava answers '{spelt}', and 'Yes' is not am") as error:
        model(chat).logprobs(RED, "?", ["Yes"])
    assert "--scorer answer" in error.value.hint


def test_only_the_wanted_spelling_counts_where_it_is_listed(chat: Chat) -> None:
    """As for a model on disk, whose score is the probability of Yes, not of yes."""
    chat.tells = lambda body: {"yes": 0.7, " Yes": 0.2, "No": 0.05}
    assert math.exp(model(chat).logprobs(RED, "?", ["Yes"])[0][0]) == pytest.approx(0.2)


def test_a_slip_of_spelling_is_no_reason_to_stop(chat: Chat) -> None:
    chat.tells = lambda body: {"No": 0.99, "yes": 0.005}
    with pytest.warns(UserWarning, match="'Yes' is not among the 2 likeliest"):
        (score,) = model(chat).logprobs(RED, "?", ["Yes"])[0]
    assert math.exp(score) == pytest.approx(0.005)
