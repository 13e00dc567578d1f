"""M3ID: the worked numbers, what switches it off, and real answers of a tiny model."""

from collections.abc import Callable
from dataclasses import replace
from math import expm1, inf, log
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import Ask
from unbag.models.huggingface.chat_runner import M3ID


def logs(*probabilities: float) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


SEEN, PRIOR = logs(0.5, 0.3, 0.2), logs(0.7, 0.1, 0.2)


def at(time: int, seen: Tensor = SEEN, prior: Tensor = PRIOR, rule: M3ID | None = None) -> Tensor:
    """At the time t of the formula, whatever the number of the first step."""
    rule = rule or M3ID()
    return rule(seen, prior, time - rule.first)


def test_worked_example() -> None:
    assert torch.equal(at(0), SEEN)
    assert M3ID().weight(0) == pytest.approx(0.1618342, abs=1e-7)
    assert at(1)[0].tolist() == pytest.approx([-0.747600, -1.026180, -1.609438], abs=1e-6)
    first = at(1).softmax(dim=-1)[0].tolist()
    assert first == pytest.approx([0.458875, 0.347303, 0.193822], abs=1e-6)
    assert M3ID().weight(4) == pytest.approx(1.1170000, abs=1e-7)
    fifth = at(5).softmax(dim=-1)[0].tolist()
    assert fifth == pytest.approx([0.219144, 0.653207, 0.127648], abs=1e-6)


def test_choice_changes_at_the_third_step() -> None:
    assert [int(at(t).argmax()) for t in range(1, 6)] == [0, 0, 1, 1, 1]
    assert M3ID().weight(2) == pytest.approx(0.5683122, abs=1e-7)


def test_confident_token_is_unchanged() -> None:
    sure = logs(0.7, 0.2, 0.1)
    assert float(sure.max()) > log(0.6)
    assert torch.equal(at(5, seen=sure), sure)


def test_settings_without_effect() -> None:
    for time in (0, 1, 7):
        assert torch.equal(at(time, prior=SEEN), SEEN)
        assert torch.equal(at(time, rule=M3ID(forgetting=0.0)), SEEN)
        assert torch.equal(at(time, rule=M3ID(alpha=0.0)), SEEN)


def test_first_step() -> None:
    late = M3ID(first=0)
    assert torch.equal(late(SEEN, PRIOR, 0), SEEN)
    assert late.weight(1) == M3ID().weight(0) == pytest.approx(expm1(0.15))


def test_weight_is_capped() -> None:
    assert M3ID().weight(10**6) == 50.0
    assert M3ID(cap=inf).weight(20) == pytest.approx(expm1(0.15 * 21))
    with pytest.raises(UnbagError, match="M3ID with alpha -1"):
        M3ID(alpha=-1)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "instructblip_t5"])
def test_answers_follow_the_formula(
    family: str, chat_folder: Callable[[str], Path], images: list[PixelImage]
) -> None:
    from unbag.models.huggingface.chat import load_chat

    rule = M3ID(forgetting=0.5)
    model = replace(load_chat(str(chat_folder(family))), m3id=rule)
    prompt, decoded = "Is it on or under the table?", [""]
    asks = [Ask(image, prompt) for image in images[:2]]
    found = model.answers_of_m3id(asks, longest=4)
    for ask, answer in zip(asks, found, strict=True):
        rows, _ = model._rows([ask], answers=False)
        blind, _ = model._rows([Ask(None, prompt)], answers=False)
        tokens: tuple[int, ...] = ()
        for step in range(4):
            seen, prior = (
                model.runner.logits([replace(row, given=tokens)], 1)[:, -1].log_softmax(dim=-1)
                for row in (rows[0], blind[0])
            )
            tokens += (int(rule(seen, prior, step).argmax()),)
            if tokens[-1] in model.ends:
                break
        decoded.append(answer)
        kept = [token for token in tokens if token not in model.ends]
        words = model.preparer.prompts.tokenizer.decode(kept, skip_special_tokens=True)
        assert answer == words.strip()
    assert found != model.answers_of(asks, longest=4)
