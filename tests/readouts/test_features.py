"""Views and the store of features: padding, rows, encoded once, bounded in memory, checked."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unbag.errors import ImageError, UnbagError
from unbag.models import features as module
from unbag.models.features import (
    JOINT,
    LAST,
    LAST_AND_JOINT,
    POOLED_ONLY,
    FeatureStore,
    View,
    stacked,
)
from unbag.runs.progress import Silent
from unbag.types import DualEncoder, ImageSource, TokenFeatures

from .core_encoder import Broken, Counting, halves, rows, small
from .reader_batches import Bare

TWO_CAPTIONS = ["red left of blue", "white"]


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
    seen, read = JOINT.encode_images(encoder, pixels()), JOINT.encode_texts(encoder, TWO_CAPTIONS)
    tokens = encoder.encode_tokens(TWO_CAPTIONS)
    assert torch.equal(seen.vector_NLW, encoder.encode_patches(pixels()).vector_NLW)
    assert torch.equal(seen.pooled, encoder.encode_images(pixels()))
    assert torch.equal(read.mask_NL, tokens.mask_NL)
    assert read.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(TWO_CAPTIONS)
    assert torch.equal(read.vector_NLW[read.mask_NL], tokens.vector_NLW[tokens.mask_NL])
    assert not read.vector_NLW[~read.mask_NL].any()
    assert torch.allclose(read.pooled, encoder.encode_texts(TWO_CAPTIONS), atol=1e-6)


def test_the_last_view_shows_what_the_projection_is_given() -> None:
    encoder = small()
    seen, layers = LAST.encode_images(encoder, pixels()), encoder.image_layers(pixels())
    assert seen.vector_NLW.shape == (2, 4, 16)
    assert torch.equal(seen.vector_NLW, layers.vector_NLW[-1])
    assert layers.pooled_NW[-1] is not None
    assert torch.equal(seen.pooled, layers.pooled_NW[-1])
    assert LAST.encode_texts(encoder, TWO_CAPTIONS).vector_NLW.shape[2] == 12
    assert LAST_AND_JOINT.encode_images(encoder, pixels()).vector_NLW.shape[2] == 16
    assert LAST_AND_JOINT.encode_texts(encoder, TWO_CAPTIONS).vector_NLW.shape[2] == 8


def test_the_pooled_view_keeps_one_vector_and_no_part_in_memory() -> None:
    encoder = small()
    seen, read = (
        POOLED_ONLY.encode_images(encoder, pixels()),
        POOLED_ONLY.encode_texts(encoder, TWO_CAPTIONS),
    )
    assert torch.equal(seen.pooled, LAST.encode_images(encoder, pixels()).pooled)
    assert seen.vector_NLW.shape == (2, 0, 16)
    assert read.vector_NLW.shape == (2, 0, 12)
    assert seen.vector_NLW.untyped_storage().nbytes() == 0
    assert stacked([seen, seen]).vector_NLW.shape == (4, 0, 16)


@pytest.mark.parametrize("view", [JOINT, LAST, POOLED_ONLY], ids=lambda view: view.name)
def test_a_model_without_parts_is_refused(view: View) -> None:
    with pytest.raises(UnbagError) as caught:
        view.encode_images(Bare(), torch.zeros(1))
    assert caught.value.message == (
        "bare shows one vector for an image and one for a caption, and no parts"
    )
    assert "encode_patches" in caught.value.hint
    with pytest.raises(UnbagError, match="and no parts"):
        view.encode_texts(Bare(), ["a"])


CAPTIONS = [row.caption for row in rows()] + ["red", "a blue"]


def images() -> list[ImageSource]:
    return [row.image for row in rows()]


def look(encoder: Counting, every: Sequence[ImageSource]) -> TokenFeatures:
    return JOINT.encode_images(encoder, torch.stack([encoder.prepare(one.open()) for one in every]))


def same(found: TokenFeatures, wanted: TokenFeatures) -> bool:
    return (
        torch.equal(found.mask_NL, wanted.mask_NL)
        and torch.allclose(found.vector_NLW, wanted.vector_NLW, atol=1e-6)
        and torch.allclose(found.pooled, wanted.pooled, atol=1e-6)
    )


def test_parts_are_those_of_direct_encoding_in_any_order_and_encoded_once() -> None:
    encoder = small()
    store = FeatureStore(encoder, JOINT)
    store.precompute(images() * 2, CAPTIONS * 2)
    assert (encoder.images_seen, encoder.captions_read) == (12, 14)
    mixed = [images()[at] for at in (5, 0, 5, 11)]
    texts = ["a blue", CAPTIONS[3], "a blue", "red"]
    seen, read = store.images(mixed), store.texts(texts)
    assert (encoder.images_seen, encoder.captions_read) == (12, 14)
    assert same(seen, look(small(), mixed))
    assert same(read, JOINT.encode_texts(small(), texts))


def test_memory_is_bounded_and_what_left_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IMAGE_BATCH", 2)
    encoder = small()
    store = FeatureStore(encoder, JOINT, cache=tmp_path, max_bytes=2)
    store.precompute(images(), CAPTIONS)
    rows = store._image_rows
    one = next(iter(rows._in_memory)).nbytes
    assert len(rows._in_memory) == 1
    assert rows._bytes == one
    assert same(store.images(images()), look(small(), images()))
    assert len(rows._in_memory) == 1
    assert rows._bytes == one
    assert encoder.images_seen == 12


def test_a_second_process_finds_everything_in_the_cache(tmp_path: Path) -> None:
    first = FeatureStore(small(), JOINT, cache=tmp_path)
    first.precompute(images(), CAPTIONS)
    encoder = small()
    second = FeatureStore(encoder, JOINT, cache=tmp_path)
    assert torch.equal(second.images(images()).vector_NLW, first.images(images()).vector_NLW)
    assert torch.equal(second.texts(CAPTIONS).vector_NLW, first.texts(CAPTIONS).vector_NLW)
    assert (encoder.images_seen, encoder.captions_read) == (0, 0)


def test_another_view_or_model_finds_nothing_of_it(tmp_path: Path) -> None:
    FeatureStore(small(), JOINT, cache=tmp_path).precompute(images(), [])
    other = small(seed=1)
    FeatureStore(other, JOINT, cache=tmp_path).precompute(images(), [])
    assert other.images_seen == 12
    again = small()
    FeatureStore(again, replace(JOINT, name="other"), cache=tmp_path).precompute(images(), [])
    assert again.images_seen == 12


@pytest.mark.parametrize("harm", ["cut", "changed", "renamed"])
def test_a_damaged_file_is_said_and_computed_again(tmp_path: Path, harm: str) -> None:
    FeatureStore(small(), JOINT, cache=tmp_path).precompute(images(), [])
    (path,) = tmp_path.rglob("joint-images/*.safetensors")
    content = bytearray(path.read_bytes())
    if harm == "cut":
        path.write_bytes(content[:-5])
    elif harm == "changed":
        content[-1] ^= 1
        path.write_bytes(content)
    else:
        path.rename(path.with_name("0" * 32 + ".rows-1.safetensors"))
    encoder, progress = small(), Silent()
    store = FeatureStore(encoder, JOINT, cache=tmp_path, progress=progress)
    assert same(store.images(images()), look(small(), images()))
    assert encoder.images_seen == 12
    (said,) = progress.said
    assert said.startswith("cache file ")
    assert said.endswith("; computing it again")
    (left,) = tmp_path.rglob("joint-images/*.safetensors")
    assert left.name == path.name


def test_temporary_files_go_with_the_store() -> None:
    store = FeatureStore(small(), JOINT, max_bytes=2)
    store.precompute(images(), CAPTIONS)
    folder = store._text_rows._folder
    assert folder is not None
    assert list(folder.iterdir())
    del store
    gc.collect()
    assert not folder.exists()


def test_what_fits_into_memory_needs_no_files() -> None:
    store = FeatureStore(small(), JOINT)
    store.precompute(images(), CAPTIONS)
    assert store._image_rows._folder is None
    assert store._text_rows._folder is None


def test_an_image_that_cannot_be_opened_is_told_when_asked_for() -> None:
    store = FeatureStore(small(), JOINT)
    store.precompute([Broken(), *images()], CAPTIONS)
    assert store.damaged == {"broken": "OSError: the file ends too early"}
    assert len(store.images(images())) == 12
    with pytest.raises(ImageError) as caught:
        store.images([halves("red", "blue"), Broken()])
    assert caught.value.key == "broken"
    assert caught.value.message == "torn.jpg: OSError: the file ends too early"
    # The evaluation takes it for a damaged image.
    assert isinstance(caught.value, ValueError)


def test_memory_that_is_too_small_halves_the_batch() -> None:
    def look_at_few(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
        if len(pixels) > 4:
            raise RuntimeError("CUDA out of memory")
        return JOINT.encode_images(encoder, pixels)

    progress = Silent()
    store = FeatureStore(small(), replace(JOINT, encode_images=look_at_few), progress=progress)
    assert same(store.images(images()), look(small(), images()))
    assert "out of memory with 12 inputs at once, going on with 6" in progress.said[0]


def test_a_view_must_give_a_row_for_each() -> None:
    one_less = replace(
        JOINT, encode_texts=lambda encoder, captions: JOINT.encode_texts(encoder, captions[1:])
    )
    with pytest.raises(UnbagError) as caught:
        FeatureStore(small(), one_less).texts(["red", "blue"])
    assert caught.value.message == "1 rows of features for 2 inputs"
    assert caught.value.expected == "a row for each"
