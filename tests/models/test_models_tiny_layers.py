"""Layers of the tiny dual encoder: as many as blocks and two, ending where its vectors begin."""

import pytest
import torch
from torch.nn.functional import normalize

from unbag.models.layers import blocks_of, laid_out, of_maps, recorded
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.types import LayerEncoder

CONFIG = TinyConfig(
    pixels=32, picture_width=32, picture_depth=2, caption_width=16, caption_depth=3, joint=16,
    context=8, words=("a", "blue", "left", "of", "red", "star"),
)  # fmt: skip
CAPTIONS = ["a red star", "star", "a red star left of a blue star"]


@pytest.fixture(scope="module")
def model() -> Tiny:
    return Tiny(untrained(CONFIG, seed=1), name="tiny:test")


def pixels(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_it_is_a_layer_encoder(model: Tiny) -> None:
    assert isinstance(model, LayerEncoder)


def test_an_encoder_of_k_blocks_has_k_and_two_layers(model: Tiny) -> None:
    images, captions = model.image_layers(pixels()), model.text_layers(CAPTIONS)
    assert [one.shape for one in images.vector_NLW] == [(3, 16, 32)] * 4
    assert [one.shape for one in captions.vector_NLW] == [(3, 8, 16)] * 5
    assert [one.shape for one in images.pooled_NW if one is not None] == [(3, 32)] * 4
    assert [one.shape for one in captions.pooled_NW if one is not None] == [(3, 16)] * 5
    assert images.mask_NL.all()
    assert captions.mask_NL.sum(dim=1).tolist() == [4, 2, 8]


@torch.no_grad()
def test_the_last_layer_projected_is_the_vector(model: Tiny) -> None:
    image, caption = model.network.picture, model.network.caption
    seen, read = model.image_layers(pixels()), model.text_layers(CAPTIONS)
    for encoder, last, vectors in (
        (image, seen.pooled_NW[-1], model.encode_images(pixels())),
        (caption, read.pooled_NW[-1], model.encode_texts(CAPTIONS)),
        (image, seen.vector_NLW[-1], model.encode_patches(pixels()).vector_NLW),
        (caption, read.vector_NLW[-1], model.encode_tokens(CAPTIONS).vector_NLW),
    ):
        found = normalize(encoder.project(last), dim=-1)
        torch.testing.assert_close(found, vectors, rtol=0, atol=1e-5)


@torch.no_grad()
def test_each_layer_is_its_block_of_the_one_before(model: Tiny) -> None:
    encoder, found = model.network.picture, model.image_layers(pixels())
    whole = [
        torch.cat([pooled[:, None], vector], dim=1)
        for pooled, vector in zip(found.pooled_NW, found.vector_NLW, strict=True)
        if pooled is not None
    ]
    torch.testing.assert_close(whole[0][:, 0], (encoder.cls + encoder.position[0]).expand(3, -1))
    for block, before, after in zip(encoder.blocks, whole[:-2], whole[1:-1], strict=True):
        torch.testing.assert_close(block(before), after)
    torch.testing.assert_close(encoder.norm(whole[-2]), whole[-1])


def test_what_enters_the_caption_encoder_knows_its_place(model: Tiny) -> None:
    first = model.text_layers(["star star"]).vector_NLW[0][0]
    places = model.network.caption.position.detach()
    torch.testing.assert_close(first[1] - first[0], places[1] - places[0], rtol=0, atol=1e-6)


def test_a_reader_can_be_trained_on_layers(model: Tiny) -> None:
    """Tensors of inference mode would refuse."""
    reader = torch.nn.Linear(32, 1)
    reader(model.image_layers(pixels()).vector_NLW[1]).sum().backward()
    assert reader.weight.grad is not None
    assert not model.image_layers(pixels()).vector_NLW[1].requires_grad


def test_finer_maps_are_averaged_over_the_places_of_the_last() -> None:
    fine = torch.arange(16.0).reshape(1, 1, 4, 4)
    coarse = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]])
    first, last = of_maps([fine, coarse])
    # Means of the four quarters: rows 0-1 hold 0 1 4 5 | 2 3 6 7, rows 2-3 hold 8 9 12 13 | ...
    assert first.tolist() == [[[2.5], [4.5], [10.5], [12.5]]]
    assert last.tolist() == [[[1, 5], [2, 6], [3, 7], [4, 8]]]


def test_recording_leaves_no_hook_behind() -> None:
    blocks = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]

    def fails() -> None:
        blocks[0](torch.zeros(1, 2))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        recorded(blocks, fails)
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in blocks)
    out, found = recorded(blocks, lambda: blocks[1](blocks[0](torch.ones(1, 2))))
    assert len(found) == 3
    assert torch.equal(found[0], torch.ones(1, 2))
    assert torch.equal(found[2], out)


def test_blocks_are_found_where_they_usually_stand() -> None:
    encoder = torch.nn.Module()
    assert blocks_of(encoder) == []
    encoder.encoder = torch.nn.Module()
    encoder.encoder.layer = torch.nn.ModuleList([torch.nn.Identity()])
    assert blocks_of(encoder) == [encoder.encoder.layer[0]]


def test_layers_come_in_single_precision() -> None:
    half = torch.ones(2, 3, 4, dtype=torch.bfloat16)
    found = laid_out([half], [None])
    assert found.vector_NLW[0].dtype == torch.float32
    assert found.mask_NL.tolist() == [[True] * 3] * 2
