"""Chat models of every family: sharing an image changes nothing, the numbers are the model's."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbag.data import PixelImage
from unbag.models.huggingface.chat import Ask, ChatModel, load_chat

tf: Any = pytest.importorskip("transformers")
ChatFolder = Callable[[str], Path]
FAMILIES = [
    "llava", "llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "paligemma",
    "idefics2", "idefics3", "smolvlm", "instructblip", "instructblip_t5",
]  # fmt: skip
PROMPTS = [
    'Does this figure show "a red cube"? Please answer yes or no.',
    "Is the cup on or under the long table, or where is it?",
    "Which «caption» fits — «œuvre» or 猫?",
]
ANSWERS = ("Yes", "No", "a red cube left of it")


def asks_about(images: Sequence[PixelImage]) -> list[Ask]:
    return [Ask(p, prompt, ANSWERS, n == 1) for p in images for n, prompt in enumerate(PROMPTS)]


def flat(found: list[list[list[float]]]) -> list[float]:
    return [number for one in found for tokens in one for number in tokens]


def parts(folder: Path) -> tuple[Any, Any]:
    """Processor and model as plain transformers code has them."""
    model = tf.AutoModelForImageTextToText.from_pretrained(folder).eval()
    return tf.AutoProcessor.from_pretrained(folder), model


def plainly(model: ChatModel, asks: Sequence[Ask]) -> list[list[list[float]]]:
    """One image, prompt and continuation a pass."""
    alone = replace(model, runner=replace(model.runner, is_shared=False))
    return [
        [alone.logprobs_of([ask._replace(continuations=(c,))])[0][0] for c in ask.continuations]
        for ask in asks
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_sharing_an_image_has_no_effect(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    model = load_chat(str(chat_folder(family)))
    asks = asks_about(images)
    shared, plain = model.logprobs_of(asks), plainly(model, asks)
    assert np.allclose(flat(shared), flat(plain), atol=1e-4)
    sums = [[np.mean(tokens) for tokens in one] for one in shared]
    expected = [[np.mean(tokens) for tokens in one] for one in plain]
    assert [np.argsort(one).tolist() for one in sums] == [np.argsort(w).tolist() for w in expected]
    assert len({round(number, 3) for number in flat(shared)}) > 20


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "paligemma", "instructblip_t5"])
def test_batch_size_has_no_effect(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    asks = [*asks_about(images), Ask(None, PROMPTS[0], ANSWERS)]
    found = [
        flat(load_chat(str(chat_folder(family)), rows=rows).logprobs_of(asks))
        for rows in (1, 4, 64)
    ]
    assert np.allclose(found[0], found[1], atol=1e-5)
    assert np.allclose(found[0], found[2], atol=1e-5)
    model = load_chat(str(chat_folder(family)))
    turned = model.logprobs_of(asks[::-1])[::-1]
    assert np.allclose(flat(turned), found[0], atol=1e-5)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "smolvlm", "internvl"])
def test_probability_is_the_softmax_of_logits(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    folder = chat_folder(family)
    processor, plain = parts(folder)
    content = [{"type": "image"}, {"type": "text", "text": PROMPTS[0]}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    inputs = processor(text=[text], images=[images[0].open()], return_tensors="pt")
    with torch.inference_mode():
        logit_V = plain(**inputs).logits[0, -1]
    lead = " " if family in ("llava", "smolvlm") else ""
    token = processor.tokenizer(f"{lead}Yes", add_special_tokens=False)["input_ids"]
    assert len(token) == 1
    by_hand = float(torch.exp(logit_V[token[0]]) / torch.exp(logit_V).sum())
    ((found,),) = load_chat(str(folder)).logprobs(images[0], PROMPTS[0], ["Yes"])
    assert np.exp(found) == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.parametrize("family", ["llava", "llava_next", "qwen2_vl", "qwen3_vl", "idefics3"])
def test_answer_equals_greedy_generation(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    folder = chat_folder(family)
    processor, plain = parts(folder)
    model = load_chat(str(folder))
    found = model.answers_of([Ask(p, PROMPTS[1]) for p in images], longest=7)
    for image, answer in zip(images, found, strict=True):
        rendered = model.preparer.prompts.render(PROMPTS[1], sees=True)
        inputs = processor(text=[rendered.text], images=[image.open()], return_tensors="pt")
        made = plain.generate(**inputs, do_sample=False, max_new_tokens=7, pad_token_id=3)
        new = made[0, inputs["input_ids"].shape[1] :]
        assert answer == processor.tokenizer.decode(new, skip_special_tokens=True).strip()
    assert len(set(found)) == 3


def test_language_prior(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    folder = chat_folder("llava")
    model = load_chat(str(folder))
    processor, plain = parts(folder)
    words = processor.tokenizer
    tokens = words(f"USER: {PROMPTS[0]} ASSISTANT:", return_tensors="pt")
    with torch.inference_mode():
        log_V = plain(**tokens).logits[0, -1].log_softmax(dim=-1)
    ((found,),) = model.logprobs(None, PROMPTS[0], ["Yes"])
    yes = words(" Yes", add_special_tokens=False)["input_ids"][0]
    assert found == pytest.approx(float(log_V[yes]), abs=1e-5)
    ((seen,),) = model.logprobs(images[0], PROMPTS[0], ["Yes"])
    assert abs(seen - found) > 1e-3


def test_images_are_identified_by_content(
    chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    model = load_chat(str(chat_folder("qwen2_vl")))
    same = PixelImage(images[0].pixels.copy())
    asks = [Ask(p, PROMPTS[0], ("Yes",)) for p in (images[0], same, images[1])]
    ((first,),), ((again,),), ((other,),) = model.logprobs_of(asks)
    assert first == again
    assert first != other


def test_extra_installs_packages_of_smolvlm(chat_folder: ChatFolder) -> None:
    """Its processor is not built without num2words; transformers itself does not ask for it."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["transformers"]
    assert any(one.startswith("num2words") for one in extra)
    assert load_chat(str(chat_folder("smolvlm"))).name == "smolvlm"
