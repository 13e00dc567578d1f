"""The last hidden state of chat models: padding, batch mates, layout, and what cannot be had."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import HiddenGenerator, load_chat
from unbag.models.huggingface.chat_runner import CausalRunner, last_hidden, pooled
from unbag.types import ImageSource

tf: Any = pytest.importorskip("transformers")
ChatFolder = Callable[[str], Path]
Asks = list[tuple[ImageSource | None, str]]
FAMILIES = [
    "llava", "llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "paligemma",
    "idefics2", "idefics3", "smolvlm",
]  # fmt: skip
SHORT = "Represent the given image"
LONG = (
    "Represent the given image with the following question: Is the cup on or under the long table?"
)


def asks_of(images: list[PixelImage]) -> Asks:
    seeing: Asks = [(image, text) for image in images for text in (SHORT, LONG)]
    return [*seeing, (None, "a red cube"), (None, "a red cube to the left of a blue ball")]


@pytest.mark.parametrize("family", FAMILIES)
def test_batch_and_padding_have_no_effect(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    model = load_chat(str(chat_folder(family)))
    assert isinstance(model, HiddenGenerator)
    assert isinstance(model.runner, CausalRunner)
    asks = asks_of(images)
    found_NW = model.last_hidden(asks)
    assert found_NW.dtype == torch.float32
    assert found_NW.device.type == "cpu"
    alone_NW = torch.cat([model.last_hidden([ask]) for ask in asks])
    assert torch.allclose(found_NW, alone_NW, atol=2e-5)
    rows = model.hidden_rows(asks)
    for part in (slice(0, 6), slice(6, 8)):
        with torch.inference_mode():
            right_NW = model.runner.hidden(rows[part], left=False)
        assert torch.allclose(right_NW, found_NW[part], atol=2e-5)
    # Images, questions and texts are told apart by far more than rounding.
    assert torch.pdist(found_NW).min() > 1e-3


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "idefics3", "internvl"])
def test_hidden_state_equals_transformers(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    folder = chat_folder(family)
    processor = tf.AutoProcessor.from_pretrained(folder)
    plain = tf.AutoModelForImageTextToText.from_pretrained(folder).eval()
    mark = {"qwen2_vl": "<|vision_start|><|image_pad|><|vision_end|>"}.get(
        family, processor.image_token
    )
    inputs = processor(text=[f"{mark}\n{LONG}"], images=[images[0].open()], return_tensors="pt")
    with torch.inference_mode():
        expected_W = plain(**inputs, output_hidden_states=True).hidden_states[-1][0, -1]
        text = processor.tokenizer(["a red cube"], return_tensors="pt")
        blind_W = plain(**text, output_hidden_states=True).hidden_states[-1][0, -1]
    found_NW = load_chat(str(folder)).last_hidden([(images[0], LONG), (None, "a red cube")])
    assert torch.allclose(found_NW[0], expected_W, atol=2e-5)
    assert torch.allclose(found_NW[1], blind_W, atol=2e-5)


def test_pooled_by_hand() -> None:
    hidden_NLW = torch.arange(24.0).reshape(3, 4, 2)
    right_NL = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    left_NL = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]])
    by_sum = hidden_NLW[torch.arange(3), right_NL.sum(dim=1) - 1]
    assert torch.equal(pooled(hidden_NLW, right_NL), by_sum)
    assert torch.equal(pooled(hidden_NLW, left_NL), hidden_NLW[:, -1])


def test_tokenizer_without_padding_token(
    chat_folder: ChatFolder, images: list[PixelImage], tmp_path: Path
) -> None:
    folder = chat_folder("llava")
    processor = tf.AutoProcessor.from_pretrained(folder)
    processor.tokenizer.pad_token = None
    processor.save_pretrained(tmp_path / "padless")
    tf.AutoModelForImageTextToText.from_pretrained(folder).save_pretrained(tmp_path / "padless")
    padless = load_chat(str(tmp_path / "padless"))
    asks = asks_of(images)
    expected_NW = load_chat(str(folder)).last_hidden(asks)
    assert torch.allclose(padless.last_hidden(asks), expected_NW, atol=1e-5)


@pytest.mark.parametrize("family", ["instructblip", "instructblip_t5"])
def test_instructblip_has_no_hidden_state(family: str, chat_folder: ChatFolder) -> None:
    model = load_chat(str(chat_folder(family)))
    with pytest.raises(UnbagError, match="is an InstructBLIP, which has no hidden state"):
        model.last_hidden([(None, "a red cube")])


def test_bad_texts(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    model = load_chat(str(chat_folder("llava")))
    assert model.last_hidden([]).shape[0] == 0
    for image in (None, images[0]):
        with pytest.raises(UnbagError, match="llava was given an empty text to embed"):
            model.last_hidden([(image, "  ")])
    with pytest.raises(UnbagError, match="the prompt 'a <image> of it' contains '<image>'"):
        model.last_hidden([(None, "a <image> of it")])
    with pytest.raises(UnbagError, match="llava: the prompt 'cube cube ") as error:
        model.last_hidden([(None, "cube " * 600)])
    assert "at most 512" in str(error.value)


class OtherLayout(nn.Module):
    """A chat model whose hidden states leave the image's tokens out, or are not there."""

    def __init__(self, hidden: Any) -> None:
        super().__init__()
        self.hidden = hidden

    @property
    def base_model(self) -> nn.Module:
        return self

    def forward(self, **inputs: Any) -> SimpleNamespace:
        return SimpleNamespace(hidden_states=self.hidden)


@pytest.mark.parametrize(
    ("hidden", "shape"), [((torch.zeros(2, 3, 8),), r"\(2, 3, 8\)"), (None, "None")]
)
def test_other_layouts_of_hidden_states(hidden: Any, shape: str) -> None:
    said = rf"a OtherLayout gives hidden states of shape {shape} for tokens of shape \(2, 5\)"
    with pytest.raises(UnbagError, match=said):
        last_hidden(OtherLayout(hidden), {}, torch.ones(2, 5))


def test_half_precision_gives_float32(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    half = load_chat(str(chat_folder("llava")), dtype="bfloat16")
    whole = load_chat(str(chat_folder("llava")))
    asks = asks_of(images)
    found_NW = half.last_hidden(asks)
    assert found_NW.dtype == torch.float32
    cosine_N = torch.cosine_similarity(found_NW, whole.last_hidden(asks))
    assert cosine_N.min() > 0.99
