"""Parts and views: padding, rows, and the encoder's own vectors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from PIL.Image import Image
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.features import JOINT, LAST, LAST_AND_JOINT, POOLED_ONLY, View, stacked
from unbag.types import TokenFeatures

from .core_encoder import halves, small

CAPTIONS = ["red left of blue", "white"]


def pixels() -> Tensor:
    encoder = small()
    every = [halves("red", "blue"), halves("white", "green")]
    return torch.stack([encoder.prepare(one.open()) for one in every])


def parts(count: int, length: int, *, marks: bool = False) -> TokenFeatures:
    """Numbers that say where they stand."""
    vector_NLW = torch.arange(float(count * length * 2)).view(count, length, 2) + 1
    mark_NL = torch.ones((count, length), dtype=torch.int64) if marks else None
    return TokenFeatures(vector_NLW, torch.ones((count, length)).bool(), vector_NLW[:, 0], mark_NL)


def test_stacking_pads_with_absent_zeros_to_the_most_parts() -> None:
    both = stacked([parts(1, 1), parts(2, 3)])
    assert both.vector_NLW.shape == (3, 3, 2)
    assert both.vector_NLW[0].tolist() == [[1, 2], [0, 0], [0, 0]]
    assert both.mask_NL.tolist() == [[True, False, False], [True] * 3, [True] * 3]
    assert both.pooled.tolist() == [[1, 2], [1, 2], [7, 8]]
    assert both.mark_NL is None
    marked = stacked([parts(1, 1, marks=True), parts(1, 2, marks=True)]).mark_NL
    assert marked is not None
    assert marked.tolist() == [[1, 0], [1, 1]]


def test_rows_come_in_the_order_asked_for_with_their_marks() -> None:
    given = parts(3, 2, marks=True)
    found = given.rows(torch.tensor([2, 0, 2]))
    assert found.pooled.tolist() == [[9, 10], [1, 2], [9, 10]]
    assert found.mark_NL is not None
    assert len(found) == len(found.mark_NL) == 3
    assert given.rows(slice(1, 2)).vector_NLW.tolist() == [[[5, 6], [7, 8]]]


def test_a_type_is_for_vectors_and_a_size_is_of_all() -> None:
    half = parts(2, 3, marks=True).to("cpu", torch.float16)
    assert half.vector_NLW.dtype == half.pooled.dtype == torch.float16
    assert half.mask_NL.dtype == torch.bool
    # 2 x 3 x 2 and 2 x 2 half floats, 6 booleans, 6 long integers.
    assert half.nbytes == 24 + 8 + 6 + 48


def test_the_joint_view_shows_what_the_encoder_shows() -> None:
    encoder = small()
    seen, read = JOINT.encode_images(encoder, pixels()), JOINT.encode_texts(encoder, CAPTIONS)
    tokens = encoder.encode_tokens(CAPTIONS)
    assert torch.equal(seen.vector_NLW, encoder.encode_patches(pixels()).vector_NLW)
    assert torch.equal(seen.pooled, encoder.encode_images(pixels()))
    assert torch.equal(read.mask_NL, tokens.mask_NL)
    assert read.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    assert torch.equal(read.vector_NLW[read.mask_NL], tokens.vector_NLW[tokens.mask_NL])
    assert not read.vector_NLW[~read.mask_NL].any()
    assert torch.allclose(read.pooled, encoder.encode_texts(CAPTIONS), atol=1e-6)


def test_the_last_view_shows_what_the_projection_is_given() -> None:
    encoder = small()
    seen, layers = LAST.encode_images(encoder, pixels()), encoder.image_layers(pixels())
    assert seen.vector_NLW.shape == (2, 4, 16)
    assert torch.equal(seen.vector_NLW, layers.vector_NLW[-1])
    assert layers.pooled_NW[-1] is not None
    assert torch.equal(seen.pooled, layers.pooled_NW[-1])
    assert LAST.encode_texts(encoder, CAPTIONS).vector_NLW.shape[2] == 12
    assert LAST_AND_JOINT.encode_images(encoder, pixels()).vector_NLW.shape[2] == 16
    assert LAST_AND_JOINT.encode_texts(encoder, CAPTIONS).vector_NLW.shape[2] == 8


def test_the_pooled_view_keeps_one_vector_and_no_part_in_memory() -> None:
    encoder = small()
    seen, read = (
        POOLED_ONLY.encode_images(encoder, pixels()),
        POOLED_ONLY.encode_texts(encoder, CAPTIONS),
    )
    assert torch.equal(seen.pooled, LAST.encode_images(encoder, pixels()).pooled)
    assert seen.vector_NLW.shape == (2, 0, 16)
    assert read.vector_NLW.shape == (2, 0, 12)
    assert seen.vector_NLW.untyped_storage().nbytes() == 0
    assert stacked([seen, seen]).vector_NLW.shape == (4, 0, 16)


class OneVector:
    """A dual encoder without parts."""

    name, fingerprint, device, dim, context = "plain", "plain-1", "cpu", 2, 77
    scale, bias = 1.0, 0.0

    def prepare(self, image: Image) -> Tensor:
        return torch.zeros(1)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [1 for _ in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        return torch.eye(2)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        return torch.eye(2)


@pytest.mark.parametrize("view", [JOINT, LAST, POOLED_ONLY], ids=lambda view: view.name)
def test_a_model_without_parts_is_refused(view: View) -> None:
    with pytest.raises(UnbagError) as caught:
        view.encode_images(OneVector(), torch.zeros(1))
    assert caught.value.message == (
        "plain shows one vector for an image and one for a caption, and no parts"
    )
    assert "encode_patches" in caught.value.hint
    with pytest.raises(UnbagError, match="and no parts"):
        view.encode_texts(OneVector(), ["a"])
