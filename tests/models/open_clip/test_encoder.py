"""Our vectors against plain open_clip code, for every kind of text and image encoder."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.types import DualEncoder, LayerEncoder, TokenEncoder

TRIMMED = ["clip", "clip-quickgelu", "custom", "first", "bare", "eos", "coca", "bert-mean",
           "bert-cls", "convnext", "vit-avg", "resnet"]  # fmt: skip
WHOLE = ["last", "last-top", "looking", "siglip"]
CAPTIONS = [
    "a red dog",
    "a",
    "a dog left of a red cube on a cube",
    "dog on cube!",
    "",
    " ".join(["red dog left of cube"] * 30),
]
Made = Callable[[str], Any]


def images() -> list[Image.Image]:
    """Wide, high and square, so that resizing and cropping show."""
    chance = np.random.default_rng(0)
    sizes = [(60, 40, 3), (40, 90, 3), (33, 33, 3)]
    return [Image.fromarray(chance.integers(0, 256, size, dtype=np.uint8)) for size in sizes]


@torch.no_grad()
def plain_vectors(parts: Any) -> tuple[torch.Tensor, torch.Tensor]:
    model, transform, tokenizer = parts
    pixels = torch.stack([transform(image) for image in images()])
    source = normalize(model.encode_image(pixels), dim=-1)
    return source, normalize(model.encode_text(tokenizer(CAPTIONS)), dim=-1)


@pytest.mark.parametrize("name", TRIMMED + WHOLE)
def test_cosines_equal_open_clip(name: str, loaded: Made, plain: Made) -> None:
    ours = loaded(name)
    image_ND, caption_ND = plain_vectors(plain(name))
    pixels = torch.stack([ours.prepare(image) for image in images()])
    our_image_ND, our_caption_ND = ours.encode_images(pixels), ours.encode_texts(CAPTIONS)
    cosine, our_cosine = image_ND @ caption_ND.T, our_image_ND @ our_caption_ND.T
    torch.testing.assert_close(our_cosine, cosine, rtol=0, atol=1e-6)
    torch.testing.assert_close(our_caption_ND, caption_ND, rtol=0, atol=1e-5)
    torch.testing.assert_close(our_image_ND, image_ND, rtol=0, atol=1e-5)
    # The encoders do tell captions and images apart, so that equality means something.
    assert name == "first" or (caption_ND @ caption_ND.T).min() < 0.9
    assert our_image_ND.dtype == our_caption_ND.dtype == torch.float32


def length_run(encoder: Any, captions: list[str]) -> int:
    """How many places the transformer of the text encoder saw."""
    seen: list[int] = []
    text_network = getattr(encoder.model, "text", encoder.model).transformer

    def watch(module: Any, args: Any, kwargs: Any) -> None:
        seen.append((args[0] if args else kwargs["input_ids"]).shape[1])

    hook = text_network.register_forward_pre_hook(watch, with_kwargs=True)
    encoder.encode_texts(captions)
    hook.remove()
    return seen[0]


# "a red dog" is start, three words, end; three words and an end; and CoCa adds a class token and,
# since its published mask is off by one, a place.
@pytest.mark.parametrize(
    ("name", "length"),
    [("clip", 5), ("custom", 5), ("first", 1), ("eos", 4), ("coca", 7), ("bert-mean", 4),
     ("bert-cls", 4), ("last", 77), ("last-top", 77), ("looking", 77), ("siglip", 20)],
)  # fmt: skip
def test_padding_is_removed_where_exact(name: str, length: int, loaded: Made) -> None:
    assert length_run(loaded(name), ["a", "a red dog"]) == length
    assert bool(loaded(name).text.whole_because) == (name in WHOLE)


@pytest.mark.parametrize("name", ["last", "looking", "siglip"])
def test_padding_matters_elsewhere(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    token_NL, _ = encoder.tokenize(["a red dog"])
    with torch.no_grad():
        whole = normalize(encoder.text.pooled(token_NL), dim=-1)
        cut = normalize(encoder.text.pooled(token_NL[:, :6]), dim=-1)
    assert (whole @ cut.T).item() < 0.999


@pytest.mark.parametrize("name", ["clip", "coca", "bert-mean", "siglip", "resnet"])
def test_batches_and_order_have_no_effect(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    pixels = torch.stack([encoder.prepare(image) for image in images()])
    score_PC = encoder.encode_images(pixels) @ encoder.encode_texts(CAPTIONS).T
    source = torch.cat([encoder.encode_images(one[None]) for one in pixels.flip(0)]).flip(0)
    caption = torch.cat([encoder.encode_texts([one]) for one in CAPTIONS[::-1]]).flip(0)
    torch.testing.assert_close(source @ caption.T, score_PC, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["clip", "coca", "siglip", "bert-mean", "resnet"])
def test_half_precision(name: str, loaded: Made, saved: Made) -> None:
    from unbag.models.open_clip.loading import load

    # "first" or "" would be equal for all captions; these differ.
    captions = CAPTIONS[:4]
    exact = loaded(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *a, **k: None)
        rounded = load(f"tiny-{name}@{saved(name)}", dtype="bfloat16")
    pixels = torch.stack([exact.prepare(image) for image in images()])
    score_PC = exact.encode_images(pixels) @ exact.encode_texts(captions).T
    rounded_PC = rounded.encode_images(pixels) @ rounded.encode_texts(captions).T
    assert rounded_PC.dtype == torch.float32
    # Eight bits of mantissa through two layers of large random weights.
    assert (rounded_PC - score_PC).abs().max() < 0.05
    assert (rounded_PC - score_PC).abs().max() > 0
    assert rounded.fingerprint != exact.fingerprint
    assert rounded.scale == exact.scale


def test_count_tokens(loaded: Made) -> None:
    clip, eos = loaded("clip"), loaded("eos")
    assert isinstance(clip, DualEncoder | TokenEncoder | LayerEncoder)
    assert clip.context == 77
    assert clip.count_tokens(["a red dog", "", "a " * 100]) == [5, 2, 102]
    assert eos.context == 20
    assert eos.count_tokens(["a red dog", "", "a " * 100]) == [4, 1, 101]
    assert eos.count_tokens([]) == []


def test_scale_and_bias(loaded: Made) -> None:
    assert loaded("clip").scale == pytest.approx(1 / 0.07, rel=1e-5)
    assert loaded("clip").bias == 0.0
    assert loaded("siglip").bias == -10.0


def test_full_size_vit_b_32(tmp_path: Any) -> None:
    from safetensors.torch import save_file

    from unbag.models.open_clip.checkpoint import build
    from unbag.models.open_clip.library import architecture, library
    from unbag.models.open_clip.loading import load

    torch.manual_seed(0)
    model = build(architecture("ViT-B-32-quickgelu"), has_bias=False).eval()
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "b32.safetensors"
    )
    ours = load(f"ViT-B-32-quickgelu@{tmp_path / 'b32.safetensors'}")
    transform = library().image_transform(224, is_train=False)
    tokenizer = library().get_tokenizer("ViT-B-32-quickgelu")
    parts = model, transform, tokenizer
    image_ND, caption_ND = plain_vectors(parts)
    pixels = torch.stack([ours.prepare(image) for image in images()])
    our_cosine = ours.encode_images(pixels) @ ours.encode_texts(CAPTIONS).T
    torch.testing.assert_close(our_cosine, image_ND @ caption_ND.T, rtol=0, atol=1e-6)
    assert ours.name == "ViT-B-32-quickgelu@b32"


def test_padding_is_tested(loaded: Made) -> None:
    """A text encoder that counted from the end would be run whole."""
    from unbag.models.open_clip.encoder import OpenClip

    clip = loaded("clip")
    model = deepcopy(clip.model)
    model.encode_text = lambda token_NL, normalize=False: token_NL[:, -24:] + 1.0
    odd = OpenClip(
        model, name="odd", fingerprint="odd", tokenizer=clip.tokenize, prepare=clip.prepare
    )
    assert odd.text.whole_because == "its text encoder gives other vectors without padding"
    assert odd.encode_texts(["a"]).std() == 0
    with pytest.raises(UnbagError, match="token vectors of this text encoder are not known"):
        odd.encode_tokens(["a"])


def test_compiled_encoders_give_the_same_vectors(loaded: Made, monkeypatch: Any) -> None:
    """With the compiler's first stage only: a whole compilation takes half a minute."""
    from unbag.models.open_clip.encoder import OpenClip

    compiled: list[object] = []
    inner = torch.nn.Module.compile

    def first_stage(module: torch.nn.Module, **options: Any) -> None:
        compiled.append(options)
        inner(module, backend="eager", **options)

    monkeypatch.setattr(torch.nn.Module, "compile", first_stage)
    clip = loaded("clip")
    fast = OpenClip(
        deepcopy(clip.model),
        name="fast",
        fingerprint="fast",
        tokenizer=clip.tokenize,
        prepare=clip.prepare,
        compiles=True,
    )
    assert compiled == [{}, {"dynamic": True}]
    found = fast.encode_texts(CAPTIONS[:2])
    torch.testing.assert_close(found, clip.encode_texts(CAPTIONS[:2]), rtol=0, atol=1e-5)
