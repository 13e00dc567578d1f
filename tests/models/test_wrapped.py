"""`ub.wrap`: two functions score as the model they are from, and wrong ones are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import unbag as ub
from unbag.models.tiny import load
from unbag.models.wrapped import WrappedEncoder
from unbag.types import DualEncoder, EvalProtocol
from unbag.world.benchmarks import BINDING, ORDER

QUICK = EvalProtocol(resamples=100)
TINY = load("base")
FEW = replace(ORDER, name="few", load=lambda root: ORDER.load(None)[:40])
PAIRS = replace(BINDING, name="pairs", load=lambda root: BINDING.load(None)[:20])


def wrapped(**other: Any) -> WrappedEncoder:
    functions: dict[str, Any] = {
        "encode_image": TINY.encode_images,
        "encode_text": TINY.encode_texts,
        "preprocess": TINY.prepare,
        "name": "mine",
    }
    return ub.wrap(**(functions | other))


def test_functions_score_like_their_model(tmp_path: Path) -> None:
    model = wrapped()
    assert isinstance(model, DualEncoder)
    found = ub.evaluate([model, TINY], [FEW, PAIRS], protocol=QUICK)
    for name in found.benchmarks:
        assert found[model, name].overall == found["tiny:base", name].overall
    image = Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3))
    captions = ["a red cup left of a green bag", "a bag"]
    np.testing.assert_array_equal(ub.score(image, captions, model), ub.score(image, captions, TINY))


def test_any_norm_precision_and_library() -> None:
    def images(pixels: Tensor) -> Any:
        return (7 * TINY.encode_images(pixels)).numpy()

    def texts(captions: list[str]) -> Tensor:
        return 3 * TINY.encode_texts(captions).double().requires_grad_()

    other = wrapped(encode_image=images, encode_text=texts)
    pixels = torch.stack([TINY.prepare(Image.new("RGB", (64, 64), (9, 99, 199)))])
    found = other.encode_images(pixels)
    assert (found.dtype, found.device.type, found.requires_grad) == (torch.float32, "cpu", False)
    torch.testing.assert_close(found, TINY.encode_images(pixels))
    captions = ["a red cup", "a bag"]
    torch.testing.assert_close(other.encode_texts(captions), TINY.encode_texts(captions))
    assert not other.encode_texts(captions).requires_grad


def test_fingerprint_depends_on_the_vectors() -> None:
    first = wrapped().fingerprint
    assert wrapped().fingerprint == first
    assert wrapped(name="other").fingerprint != first
    random = load("random")
    assert wrapped(encode_text=random.encode_texts).fingerprint != first
    assert wrapped(encode_image=random.encode_images).fingerprint != first
    assert wrapped(fingerprint="v2").fingerprint == "v2"


def test_resume_with_the_same_functions_only(tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = ub.evaluate(wrapped(), FEW, out=out, protocol=QUICK)
    assert ub.evaluate(wrapped(), FEW, out=out, protocol=QUICK)[0].overall == (found[0].overall)
    other = wrapped(encode_text=load("random").encode_texts)
    with pytest.raises(ub.UnbagError, match="mine"):
        ub.evaluate(other, FEW, out=out, protocol=QUICK)


def test_context_and_tokens() -> None:
    plain = wrapped()
    assert plain.count_tokens(["a red cup", "bag"]) == [3, 1]
    counted = wrapped(context=4, count_tokens=lambda texts: [len(text) for text in texts])
    assert (counted.context, counted.count_tokens(["abc", "d"])) == (4, [3, 1])
    found = ub.evaluate(counted, FEW, protocol=QUICK)
    assert found.contents.record.truncated["mine"] > 0
    assert not ub.evaluate(plain, FEW, protocol=QUICK).contents.record.truncated


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"encode_text": lambda texts: torch.zeros(len(texts), 3)}, "for an image and 3 for a"),
        ({"encode_text": lambda texts: torch.zeros(1, 3)}, "returned shape [1, 3] for 4 texts"),
        ({"encode_image": lambda pixels: pixels.mean()}, "returned shape [] for 2 images"),
        ({"encode_image": lambda pixels: [1.0]}, "model 'mine' returned a list"),
        ({"preprocess": lambda image: np.asarray(image)}, "gives images of shapes [96, 64, 3]"),
        ({"count_tokens": lambda texts: [1]}, "returned 1 numbers for 4 texts"),
    ],
)
def test_wrong_functions(other: dict[str, Any], said: str) -> None:
    with pytest.raises(ub.UnbagError) as error:
        wrapped(**other)
    assert said in str(error.value)


def test_wrapped_model_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(ub.UnbagError, match="mine cannot be trained"):
        ub.train(wrapped(), pairs="world", recipe="clip_ft", out=tmp_path / "run")
