"""The store of features: computed once, bounded in memory, checked when read."""

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
from unbag.models.features import JOINT, FeatureStore
from unbag.runs.progress import Silent
from unbag.types import DualEncoder, ImageSource, TokenFeatures

from .core_encoder import Broken, Counting, halves, rows, small

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
