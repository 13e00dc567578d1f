"""The store of parts: computed once, in bounded memory, checked when read, gone when temporary."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unbag.errors import PictureError, UserError
from unbag.readouts import features as module
from unbag.readouts.features import JOINT, Parts, PartsStore
from unbag.runs.progress import Silent
from unbag.types import DualEncoder, Picture

from .core_encoder import Broken, Counting, halves, rows, small

CAPTIONS = [row.caption for row in rows()] + ["red", "a blue"]


def pictures() -> list[Picture]:
    return [row.picture for row in rows()]


def look(encoder: Counting, every: Sequence[Picture]) -> Parts:
    return JOINT.look(encoder, torch.stack([encoder.prepare(one.open()) for one in every]))


def same(found: Parts, wanted: Parts) -> bool:
    return (
        torch.equal(found.mask_NL, wanted.mask_NL)
        and torch.allclose(found.part_NLW, wanted.part_NLW, atol=1e-6)
        and torch.allclose(found.pooled_NW, wanted.pooled_NW, atol=1e-6)
    )


def test_parts_are_those_of_direct_encoding_in_any_order_and_encoded_once() -> None:
    encoder = small()
    store = PartsStore(encoder, JOINT)
    store.meet(pictures() * 2, CAPTIONS * 2)
    assert (encoder.pictures_seen, encoder.captions_read) == (12, 14)
    mixed = [pictures()[at] for at in (5, 0, 5, 11)]
    texts = ["a blue", CAPTIONS[3], "a blue", "red"]
    seen, read = store.pictures(mixed), store.captions(texts)
    assert (encoder.pictures_seen, encoder.captions_read) == (12, 14)
    assert same(seen, look(small(), mixed))
    assert same(read, JOINT.read(small(), texts))


def test_memory_is_bounded_and_what_left_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PICTURES", 2)
    encoder = small()
    store = PartsStore(encoder, JOINT, cache=tmp_path, most_bytes=2)
    store.meet(pictures(), CAPTIONS)
    shelf = store._pictures
    one = next(iter(shelf._open.values())).nbytes
    assert len(shelf._open) == 1
    assert shelf._bytes == one
    assert same(store.pictures(pictures()), look(small(), pictures()))
    assert len(shelf._open) == 1
    assert shelf._bytes == one
    assert encoder.pictures_seen == 12


def test_a_second_process_finds_everything_in_the_cache(tmp_path: Path) -> None:
    first = PartsStore(small(), JOINT, cache=tmp_path)
    first.meet(pictures(), CAPTIONS)
    encoder = small()
    second = PartsStore(encoder, JOINT, cache=tmp_path)
    assert torch.equal(second.pictures(pictures()).part_NLW, first.pictures(pictures()).part_NLW)
    assert torch.equal(second.captions(CAPTIONS).part_NLW, first.captions(CAPTIONS).part_NLW)
    assert (encoder.pictures_seen, encoder.captions_read) == (0, 0)


def test_another_view_or_model_finds_nothing_of_it(tmp_path: Path) -> None:
    PartsStore(small(), JOINT, cache=tmp_path).meet(pictures(), [])
    other = small(seed=1)
    PartsStore(other, JOINT, cache=tmp_path).meet(pictures(), [])
    assert other.pictures_seen == 12
    again = small()
    PartsStore(again, replace(JOINT, name="other"), cache=tmp_path).meet(pictures(), [])
    assert again.pictures_seen == 12


@pytest.mark.parametrize("harm", ["cut", "changed", "renamed"])
def test_a_damaged_file_is_said_and_computed_again(tmp_path: Path, harm: str) -> None:
    PartsStore(small(), JOINT, cache=tmp_path).meet(pictures(), [])
    (path,) = tmp_path.rglob("joint-pictures/*.safetensors")
    content = bytearray(path.read_bytes())
    if harm == "cut":
        path.write_bytes(content[:-5])
    elif harm == "changed":
        content[-1] ^= 1
        path.write_bytes(content)
    else:
        path.rename(path.with_name("0" * 32 + ".safetensors"))
    encoder, progress = small(), Silent()
    store = PartsStore(encoder, JOINT, cache=tmp_path, progress=progress)
    assert same(store.pictures(pictures()), look(small(), pictures()))
    assert encoder.pictures_seen == 12
    (said,) = progress.said
    assert said.startswith("cache file ")
    assert said.endswith("; computing it again")
    (left,) = tmp_path.rglob("joint-pictures/*.safetensors")
    assert left.name == path.name


def test_temporary_files_go_with_the_store() -> None:
    store = PartsStore(small(), JOINT)
    store.meet(pictures(), CAPTIONS)
    folder = store._pictures._folder
    assert list(folder.iterdir())
    del store
    gc.collect()
    assert not folder.parent.exists()


def test_a_picture_that_cannot_be_opened_is_told_when_asked_for() -> None:
    store = PartsStore(small(), JOINT)
    store.meet([Broken(), *pictures()], CAPTIONS)
    assert store.damaged == {"broken": "OSError: the file ends too early"}
    assert len(store.pictures(pictures())) == 12
    with pytest.raises(PictureError) as caught:
        store.pictures([halves("red", "blue"), Broken()])
    assert caught.value.key == "broken"
    assert caught.value.found == "torn.jpg: OSError: the file ends too early"
    # The evaluation takes it for a damaged picture.
    assert isinstance(caught.value, ValueError)


def test_memory_that_is_too_small_halves_the_batch() -> None:
    def look_at_few(encoder: DualEncoder, pixels: Tensor) -> Parts:
        if len(pixels) > 4:
            raise RuntimeError("CUDA out of memory")
        return JOINT.look(encoder, pixels)

    progress = Silent()
    store = PartsStore(small(), replace(JOINT, look=look_at_few), progress=progress)
    assert same(store.pictures(pictures()), look(small(), pictures()))
    assert "out of memory with 12 inputs at once, going on with 6" in progress.said[0]


def test_a_view_must_give_a_row_for_each() -> None:
    one_less = replace(JOINT, read=lambda encoder, captions: JOINT.read(encoder, captions[1:]))
    with pytest.raises(UserError) as caught:
        PartsStore(small(), one_less).captions(["red", "blue"])
    assert caught.value.found == "1 rows of parts for 2 inputs"
    assert caught.value.expected == "a row for each"
