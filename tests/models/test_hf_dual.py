"""Dual encoders of transformers against the plain code a researcher would write."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from torch.nn.functional import normalize

from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load
from unbag.types import DualEncoder, TokenEncoder

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
KINDS = (
    "clip", "clip-legacy", "metaclip_2", "siglip", "siglip2", "align", "chinese_clip", "altclip",
    "vision-text-dual-encoder",
)  # fmt: skip
CAPTIONS = ("a red cube", "a dog eats a horse", "a", "a blue ball is left of a red cube", "a dog")


def images(count: int = 3) -> list[Image]:
    noise = np.random.default_rng(0)
    sizes = [(40, 30), (32, 32), (31, 65), (200, 20)][:count]
    return [Images.fromarray(noise.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes]


def dual(folder: Path, **options: Any) -> HfDual:
    found = load(str(folder), **options)
    assert isinstance(found, HfDual)
    return found


def plain(folder: Path, captions: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors as the model cards compute them: one batch, captions padded."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(
        images=images(), return_tensors="pt"
    )
    is_siglip = "siglip" in folder.name
    padding = {"padding": "max_length", "max_length": 64} if is_siglip else {"padding": True}
    with torch.no_grad():
        image_ND = model.get_image_features(**pixels).pooler_output
        tokens = words(list(captions), return_tensors="pt", **padding)
        caption_ND = model.get_text_features(**tokens).pooler_output
    return normalize(image_ND, dim=-1), normalize(caption_ND, dim=-1)


def pixels_of(encoder: DualEncoder) -> torch.Tensor:
    return torch.stack([encoder.prepare(image) for image in images()])


@pytest.mark.parametrize("kind", KINDS)
def test_cosines_equal_transformers(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    assert isinstance(encoder, TokenEncoder)
    image_ND, caption_ND = plain(hf_folder(kind), CAPTIONS)
    ours = encoder.encode_images(pixels_of(encoder)) @ encoder.encode_texts(CAPTIONS).T
    torch.testing.assert_close(ours, image_ND @ caption_ND.T, atol=1e-6, rtol=0)
    # Vectors that hardly differ would agree whatever the code does.
    assert (caption_ND @ caption_ND.T)[0, 1:].max() < 0.999


@pytest.mark.parametrize("kind", KINDS)
def test_real_length_equals_full_length(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    lengths = encoder.captions(CAPTIONS)["input_ids"].shape[1]
    assert (lengths == encoder.context) == ("siglip" in kind)
    short = encoder.encode_texts(CAPTIONS)
    encoder.captions = encoder.captions.padded()
    assert encoder.captions(CAPTIONS)["input_ids"].shape[1] == encoder.context
    torch.testing.assert_close(short, encoder.encode_texts(CAPTIONS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_order_have_no_effect(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    pixels = pixels_of(encoder)
    caption_ND, image_ND = encoder.encode_texts(CAPTIONS), encoder.encode_images(pixels)
    for i, caption in enumerate(CAPTIONS):
        torch.testing.assert_close(
            encoder.encode_texts([caption])[0], caption_ND[i], atol=1e-5, rtol=0
        )
    backwards = encoder.encode_texts(CAPTIONS[::-1]).flip(0)
    torch.testing.assert_close(backwards, caption_ND, atol=1e-5, rtol=0)
    alone = torch.cat([encoder.encode_images(one[None]) for one in pixels])
    torch.testing.assert_close(alone, image_ND, atol=1e-5, rtol=0)
    for found in (caption_ND, image_ND):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.norm(dim=1), torch.ones(len(found)))


@pytest.mark.parametrize("kind", KINDS)
def test_long_captions_are_counted_and_truncated(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    long = "a red cube " * 40
    count = encoder.count_tokens([long, "a"])
    assert count[0] > encoder.context
    assert encoder.captions([long])["input_ids"].shape == (1, encoder.context)
    # What was cut off cannot be seen.
    same = encoder.encode_texts([long, long + "dog"])
    torch.testing.assert_close(same[0], same[1])


def test_token_counts_include_special_tokens(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("chinese_clip"))
    assert encoder.count_tokens(["a red cube", "", "a"]) == [5, 2, 3]
    assert dual(hf_folder("clip")).count_tokens(["red", "a red"]) == [3, 4]
    assert dual(hf_folder("siglip")).count_tokens(["a"]) == [2]


@pytest.mark.parametrize(
    ("kind", "context"), [("clip", 30), ("siglip", 64), ("align", 64), ("altclip", 75)]
)
def test_context_of_training(kind: str, context: int, hf_folder: HfFolder) -> None:
    # ALIGN's config says 100, RoBERTa counts its 77 positions from the padding token on.
    assert dual(hf_folder(kind)).context == context


def test_scale_and_bias(hf_folder: HfFolder) -> None:
    clip, siglip, align = (dual(hf_folder(kind)) for kind in ("clip", "siglip", "align"))
    assert clip.scale == pytest.approx(np.exp(2.6592), rel=1e-5)
    assert clip.bias == 0
    model = transformers.AutoModel.from_pretrained(hf_folder("siglip"))
    assert siglip.scale == pytest.approx(model.logit_scale.detach().exp().item())
    assert siglip.bias == pytest.approx(model.logit_bias.item())
    assert siglip.bias != 0
    assert align.scale == pytest.approx(1.0)


POOLED_AT = {"clip": -1, "metaclip_2": -1, "altclip": 0, "align": 0, "chinese_clip": 0}


@pytest.mark.parametrize("kind", POOLED_AT)
def test_pooled_token_is_the_caption(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    tokens = encoder.encode_tokens(CAPTIONS)
    assert tokens.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    for i, vector in enumerate(encoder.encode_texts(CAPTIONS)):
        real_LD = tokens.vector_NLW[i][tokens.mask_NL[i]]
        torch.testing.assert_close(real_LD[POOLED_AT[kind]], vector, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_siglip_pools_padding(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    tokens = encoder.encode_tokens(CAPTIONS)
    assert tokens.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    assert not tokens.mask_NL[:, -1].any()
    torch.testing.assert_close(
        tokens.vector_NLW[:, -1], encoder.encode_texts(CAPTIONS), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(("kind", "patches"), [("clip", 16), ("siglip", 16), ("align", 64)])
def test_patches_are_unit_vectors(kind: str, patches: int, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    found = encoder.encode_patches(pixels_of(encoder))
    width = encoder.encode_texts(["a"]).shape[1]
    assert found.vector_NLW.shape == (3, patches, width)
    assert found.mask_NL.all()
    torch.testing.assert_close(found.vector_NLW.norm(dim=-1), torch.ones(3, patches))


def test_patches_of_clip_are_projected_like_the_class_token(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("clip"))
    model, pixels = encoder.model, pixels_of(encoder)
    with torch.no_grad():
        hidden = model.vision_model(pixel_values=pixels).last_hidden_state
        all_NLD = normalize(
            model.visual_projection(model.vision_model.post_layernorm(hidden)), dim=-1
        )
    torch.testing.assert_close(encoder.encode_images(pixels), all_NLD[:, 0])
    torch.testing.assert_close(encoder.encode_patches(pixels).vector_NLW, all_NLD[:, 1:])


def test_patches_of_align_average_to_the_image(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("align"))
    pixels = pixels_of(encoder)
    hidden = encoder.model.vision_model(pixel_values=pixels).last_hidden_state
    mean_ND = normalize(hidden.flatten(2).mean(dim=2), dim=-1)
    torch.testing.assert_close(encoder.encode_images(pixels), mean_ND)
    cells = encoder.encode_patches(pixels).vector_NLW
    torch.testing.assert_close(cells[0, 9], normalize(hidden[0, :, 1, 1], dim=-1))


def test_siglip_image_of_one_patch(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("siglip2"))
    processor = transformers.AutoImageProcessor.from_pretrained(hf_folder("siglip2"))
    one = processor(images=images(1)[0], return_tensors="pt", max_num_patches=1)
    grid = one["spatial_shapes"].expand(1, 2)
    packed = torch.cat([one["pixel_values"][0], one["pixel_attention_mask"][0][:, None], grid], 1)
    pixels = packed[None].float()
    found = encoder.encode_patches(pixels)
    torch.testing.assert_close(found.vector_NLW[:, 0], encoder.encode_images(pixels))


def test_naflex_shapes_and_masks(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("siglip2"))
    pixels = torch.stack([encoder.prepare(image) for image in images(4)])
    found = encoder.encode_patches(pixels)
    grids = pixels[:, 0, -2:].long()
    assert len({tuple(grid.tolist()) for grid in grids}) > 1
    assert found.mask_NL.sum(dim=1).tolist() == grids.prod(dim=1).tolist()
    # Padding is not looked at.
    changed = pixels.clone()
    changed[..., :-3][~found.mask_NL] = 7.0
    torch.testing.assert_close(
        encoder.encode_images(changed), encoder.encode_images(pixels), atol=1e-6, rtol=0
    )


@torch.no_grad()
def test_padding_of_clip_equals_transformers(hf_folder: HfFolder) -> None:
    """Padded and cut by the tokenizer, its mask given to the encoder."""
    folder = hf_folder("clip")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = words(
        list(CAPTIONS), padding="max_length", max_length=7, truncation=True, return_tensors="pt"
    )
    hidden = model.text_model(
        input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
    ).last_hidden_state
    found = dual(folder).encode_padded(CAPTIONS, length=7)
    expected = normalize(model.text_projection(hidden), dim=-1)
    torch.testing.assert_close(found.vector_NLW, expected, atol=1e-5, rtol=0)
    assert torch.equal(found.mask_NL, tokens["attention_mask"].bool())


@pytest.mark.parametrize("kind", ["siglip", "altclip"])
def test_padding_does_not_change_tokens(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    found, plain = encoder.encode_padded(CAPTIONS, length=40), encoder.encode_tokens(CAPTIONS)
    assert found.vector_NLW.shape[1] == 40
    for row, count in enumerate(encoder.count_tokens(CAPTIONS)):
        torch.testing.assert_close(
            found.vector_NLW[row, :count], plain.vector_NLW[row, :count], atol=1e-5, rtol=0
        )
