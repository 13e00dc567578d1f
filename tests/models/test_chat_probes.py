"""Probes of chat models on real ones: of transformers with random weights, and behind a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbag.models.server import load
from unbag.probes.base import Options, ProbeData
from unbag.probes.chat import prior, yes_bias
from unbag.probes.data import world_probe_data
from unbag.types import Generator

from .local_chat import Chat, served

QUICK = Options(resamples=100)


@pytest.fixture(scope="module")
def material() -> ProbeData:
    every = world_probe_data()
    return ProbeData("few", every.rows[::900], every.pairs[::200])


@pytest.fixture(scope="module")
def llava(chat_folder: Callable[[str], Path]) -> Generator:
    from unbag.models.huggingface.chat import load_chat

    return load_chat(str(chat_folder("llava")))


def test_probes_of_a_local_model(llava: Generator, material: ProbeData) -> None:
    choices, answers = (ask(llava, material, QUICK) for ask in (prior, yes_bias))
    assert choices["right, pairs"].estimate.n == 2 * len(material.pairs)
    assert answers["right"].estimate.n == 4 * len(material.pairs) + 2 * len(material.rows)
    for found in (choices, answers):
        assert found.notes == ()
        assert all(np.isfinite(one.estimate.value) for one in found.quantities)
        assert all(one.estimate.invalid == 0 for one in found.quantities)


def test_prior_is_the_model_without_image(llava: Generator, material: ProbeData) -> None:
    class Blinded:
        name, fingerprint = "blinded", "blinded-1"

        def logprobs(self, image: Any, prompt: str, continuations: Any) -> list[list[float]]:
            return llava.logprobs(None, prompt, continuations)

        def answer(self, image: Any, prompt: str, *, longest: int = 32) -> str:
            return llava.answer(None, prompt, longest=longest)

    found = prior(Blinded(), material, QUICK)
    assert found["same without the image"].estimate.value == 1
    blind, right = found["right without the image"], found["right, hard negatives"]
    assert blind.estimate.value == right.estimate.value


def test_server_that_always_answers_a_and_yes(material: ProbeData) -> None:
    pytest.importorskip("httpx")
    likes = {"A": 0.5, "B": 0.1, "Yes": 0.3, "No": 0.05}
    with served(Chat(lambda body: likes)) as chat:
        model = load(f"some/likes-a@{chat.url}")
        choices, answers = (ask(model, material, QUICK) for ask in (prior, yes_bias))
    assert choices["order flips"].estimate.value == 1
    assert choices["letter A"].estimate.value == 1
    assert choices["same without the image"].estimate.value == 1
    assert answers["yes to false captions"].estimate.value == 1
    assert answers["P(yes), false captions"].estimate.value == pytest.approx(0.3 / 0.35)
    shown = [body["messages"][0]["content"] for body in chat.bodies]
    assert {len(content) for content in shown} == {1, 2}  # Without an image, and with one.


def test_server_without_probabilities(material: ProbeData) -> None:
    pytest.importorskip("httpx")

    class Mute(Chat):
        def reply(self, body: dict[str, Any]) -> dict[str, Any]:
            found = super().reply(body)
            found["choices"][0]["logprobs"] = None
            return found

    with served(Mute(lambda body: {"No, it does not.": 0.9})) as chat:
        model = load(f"some/mute@{chat.url}")
        found = yes_bias(model, material, QUICK)
    assert found["yes to true captions"].estimate.value == 0
    assert found.get("P(yes), false captions") is None
    assert found.notes[0].startswith(
        f"answers in free text, without probabilities: the server {chat.url} gives no logprobs"
    )
