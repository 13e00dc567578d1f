"""Dual encoders of transformers with unexpected parts: warnings, fallbacks and errors."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images

from unbag.errors import UnbagError
from unbag.models.huggingface import dual as hf_dual
from unbag.models.huggingface.dual import KINDS, HfDual, ImagePreparation, ModelFamily
from unbag.models.huggingface.inputs import make_captions
from unbag.models.huggingface.loading import load
from unbag.types import DualEncoder, Generator

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
CAPTIONS = ("a red cube", "a", "a dog eats a horse")


def dual(folder: Path, **options: Any) -> HfDual:
    found = load(str(folder), **options)
    assert isinstance(found, HfDual)
    return found


def pixels_of(encoder: HfDual) -> torch.Tensor:
    noise = np.random.default_rng(1).integers(0, 256, (2, 40, 30, 3), dtype=np.uint8)
    return torch.stack([encoder.prepare(Images.fromarray(one)) for one in noise])


def parts(folder: Path) -> tuple[Any, Any, Any]:
    return (
        transformers.AutoModel.from_pretrained(folder).eval().requires_grad_(False),
        transformers.AutoTokenizer.from_pretrained(folder),
        transformers.AutoImageProcessor.from_pretrained(folder),
    )


def test_unknown_kind_runs_at_full_length(
    hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dual(hf_folder("clip")).encode_texts(CAPTIONS)
    monkeypatch.setattr(hf_dual, "KINDS", {})
    with pytest.warns(UserWarning, match="unknown kind, so captions are padded to 30 tokens"):
        encoder = dual(hf_folder("clip"))
    assert encoder.captions(["a"])["input_ids"].shape == (1, 30)
    torch.testing.assert_close(encoder.encode_texts(CAPTIONS), expected, atol=1e-5, rtol=0)
    with pytest.raises(UnbagError, match="patches of a 'clip' have no place in the joint space"):
        encoder.encode_patches(pixels_of(encoder))


def test_wrong_padding_setting_is_detected(
    hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dual(hf_folder("siglip")).encode_texts(CAPTIONS)
    monkeypatch.setattr(hf_dual, "KINDS", {**KINDS, "siglip": ModelFamily("last", has_mask=False)})
    with pytest.warns(UserWarning, match="gives other vectors without padding"):
        encoder = dual(hf_folder("siglip"))
    torch.testing.assert_close(encoder.encode_texts(CAPTIONS), expected)


def test_padding_is_tested_in_full_precision(
    hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, words, processor = parts(hf_folder("siglip"))
    with torch.no_grad():
        # A difference so small that bfloat16 could not tell it from rounding.
        model.text_model.embeddings.token_embedding.weight.mul_(1e-4)
        model.text_model.embeddings.position_embedding.weight.mul_(1e-4)
    monkeypatch.setattr(hf_dual, "KINDS", {**KINDS, "siglip": ModelFamily("last", has_mask=False)})
    with pytest.warns(UserWarning, match="gives other vectors without padding"):
        encoder = HfDual(model, words, processor, name="half", dtype="bfloat16")
    assert encoder.model.dtype == torch.bfloat16
    assert encoder.captions.is_padded


def test_siglip_reads_padding_with_any_tokenizer_setting(hf_folder: HfFolder) -> None:
    folder = hf_folder("siglip")
    model, words, processor = parts(folder)
    expected = dual(folder).encode_texts(CAPTIONS)
    words.model_input_names = ["input_ids", "attention_mask"]
    words.padding_side = "left"
    encoder = HfDual(model, words, processor, name="other")
    torch.testing.assert_close(encoder.encode_texts(CAPTIONS), expected)


def test_tokens_outside_the_joint_space(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("vision-text-dual-encoder"))
    with pytest.raises(
        UnbagError, match="tokens of a 'vision-text-dual-encoder' have no place"
    ) as e:
        encoder.encode_tokens(CAPTIONS)
    assert "altclip, chinese_clip, clip, metaclip_2, siglip, siglip2" in str(e.value)


@pytest.mark.parametrize("kind", ["clip", "siglip2", "align"])
def test_half_precision(kind: str, hf_folder: HfFolder) -> None:
    whole, half = dual(hf_folder(kind)), dual(hf_folder(kind), dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    assert half.fingerprint != whole.fingerprint
    assert half.scale == whole.scale
    for ours, theirs in (
        (half.encode_texts(CAPTIONS), whole.encode_texts(CAPTIONS)),
        (half.encode_images(pixels_of(half)), whole.encode_images(pixels_of(whole))),
    ):
        assert ours.dtype == torch.float32
        assert (ours * theirs).sum(dim=1).min() > 0.995
        assert not torch.equal(ours, theirs)


def test_half_precision_weights_run_in_float32(hf_folder: HfFolder, tmp_path: Path) -> None:
    model, words, processor = parts(hf_folder("clip"))
    for part in (model.half(), words, processor):
        part.save_pretrained(tmp_path / "half")
    encoder = dual(tmp_path / "half")
    assert encoder.model.dtype == torch.float32
    assert encoder.name == "half"


def test_both_encoders_are_compiled(hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_(function: Any, *, dynamic: bool | None = None) -> Any:
        def wrapped(**inputs: Any) -> Any:
            compiled.append(f"{function.__name__} {dynamic}")
            return function(**inputs)

        return wrapped

    monkeypatch.setattr(torch, "compile", compile_)
    encoder = dual(hf_folder("clip"), compiles=True)
    plain = dual(hf_folder("clip"))
    assert not compiled
    torch.testing.assert_close(encoder.encode_texts(["a"]), plain.encode_texts(["a"]))
    encoder.encode_images(pixels_of(encoder))
    # Captions change their length from batch to batch.
    assert compiled == ["get_text_features True", "get_image_features None"]


def test_vectors_of_two_widths(hf_folder: HfFolder) -> None:
    model, words, processor = parts(hf_folder("clip"))
    model.visual_projection = torch.nn.Linear(16, 5)
    with pytest.raises(UnbagError, match=r"of shape \(5,\) for an image and \(12,\) for a caption"):
        HfDual(model, words, processor, name="odd")


def test_image_processor_with_more_inputs() -> None:
    def processor(*, images: Any, return_tensors: str) -> dict[str, torch.Tensor]:
        return {"pixel_values": torch.zeros(1, 3, 4, 4), "image_sizes": torch.zeros(1, 2)}

    with pytest.raises(
        UnbagError, match="odd: its image processor gives image_sizes, pixel_values"
    ):
        ImagePreparation(processor, name="odd")


def test_unknown_context_length(hf_folder: HfFolder) -> None:
    words = transformers.AutoTokenizer.from_pretrained(hf_folder("sentence"))
    words.model_max_length = 10**30
    config = SimpleNamespace(model_type="endless", vocab_size=100)
    with pytest.raises(UnbagError, match="'endless' states no maximum number of tokens"):
        make_captions(config, words, is_padded=True, has_mask=True)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1, 200)])
def test_odd_image_sizes(size: tuple[int, int], hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("clip"))
    width, height = size
    image = Images.new("RGB", (width, height), (10, 200, 30))
    large = Images.new("RGB", (64, 64), (10, 200, 30))
    torch.testing.assert_close(encoder.prepare(image), encoder.prepare(large))


def test_chat_model_is_a_generator(chat_folder: Callable[[str], Path]) -> None:
    found = load(str(chat_folder("llava")))
    assert isinstance(found, Generator)
    assert not isinstance(found, DualEncoder)
