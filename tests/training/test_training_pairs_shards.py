"""Shards as pairs: read by seeking, gone through almost in order, broken ones named."""

from __future__ import annotations

import io
import json
import tarfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from unbag.data.readers import open_pairs
from unbag.data.webdataset import ShardPairs
from unbag.errors import UnbagError
from unbag.training.data.pairs import WINDOW, PairBatches, order_of

from .pair_files import Bytes, lines, recipe, spoken


def encoded(shade: int) -> bytes:
    from PIL import Image

    found = io.BytesIO()
    Image.new("RGB", (4, 3), (shade, 0, 0)).save(found, "PNG")
    return found.getvalue()


def shard(path: Path, **members: bytes) -> Path:
    """A tar file; x__png stands for x.png."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_samples_are_read_where_they_stand(tmp_path: Path) -> None:
    edits = [{"text": "mat on dog", "kind": "swap_nouns", "is_positive": False, "changes": []}]
    shard(
        tmp_path / "s" / "a.tar",
        x__png=encoded(1),
        x__txt=b"dog on\nmat",
        y__json=json.dumps({"caption": "unseen"}).encode(),
        y__png=encoded(2),
        y__edits__json=json.dumps([{"id": "y", "caption": "dog on mat", "edits": edits}]).encode(),
    )
    shard(tmp_path / "s" / "b.tar", z__json=b'{"captions": ["one", " "]}', z__png=encoded(3))
    near = lines(tmp_path / "near.jsonl", {"image": "x.png", "neighbours": ["z.png", "gone.png"]})
    pairs = open_pairs(str(tmp_path / "s"), neighbours=near)
    assert isinstance(pairs, ShardPairs)
    assert pairs.has_edits
    assert pairs.about == "2 webdataset shards s: 3 images"
    assert pairs.block_ends.tolist() == [2, 3]
    found = [pairs[place] for place in range(3)]
    assert [pair.id for pair in found] == ["a/x.png", "a/y.png", "b/z.png"]
    assert [pair.captions for pair in found] == [("dog on mat",), ("dog on mat",), ("one",)]
    assert [len(pair.edits[0]) for pair in found] == [0, 1, 0]
    assert [pair.nearest for pair in found] == [(2,), (), ()]
    assert [pair.image.open().getpixel((0, 0)) for pair in found] == [
        (shade, 0, 0) for shade in (1, 2, 3)
    ]
    assert found[0].image.name == f"{tmp_path / 's' / 'a.tar'}[x.png]"
    assert found[0].image.key.startswith("bytes:")
    named = open_pairs(str(tmp_path / "s" / "b.tar"), caption_column="captions")
    assert named[0].captions == ("one",)


def test_the_order_stays_within_windows_of_shards(tmp_path: Path) -> None:
    for at in range(WINDOW + 4):
        members: dict[str, bytes] = {}
        for n in range(3):
            members |= {f"{n}__png": encoded(at), f"{n}__txt": b"a dog"}
        shard(tmp_path / "s" / f"{at:02}.tar", **members)
    pairs = open_pairs(str(tmp_path / "s"))
    order_N = order_of(pairs, seed=3, epoch=0)
    assert sorted(order_N.tolist()) == list(range(len(pairs)))
    first = set((order_N[: 3 * WINDOW] // 3).tolist())
    assert len(first) == WINDOW, "whole shards before others begin"
    assert any(b - a != 1 for a, b in pairwise(order_N.tolist()))
    assert not np.array_equal(order_N, order_of(pairs, seed=3, epoch=1))
    assert np.array_equal(order_N, order_of(pairs, seed=3, epoch=0))


def test_a_sample_that_cannot_be_read_is_replaced_while_training(tmp_path: Path) -> None:
    path = shard(
        tmp_path / "a.tar",
        x__png=encoded(1),
        x__txt=b"dog",
        y__png=encoded(2),
        y__json=b"{broken",
        z__png=b"no image",
        z__txt=b"cup",
    )
    made = PairBatches(open_pairs(str(path)), recipe(batch_size=3, negatives=()), Bytes(), 0)
    batch = made[0]
    assert [(shade, caption) for shade, caption, *_ in spoken(batch)] == [(1, "dog")] * 3
    assert batch.skipped == 3
    assert {name for name, _ in batch.unread} == {"pair 2", f"{path}[z.png]"}


def test_empty_and_broken_shards_are_named(tmp_path: Path) -> None:
    good = {"x__png": encoded(1), "x__txt": b"dog"}
    shard(tmp_path / "s" / "a.tar", **good)
    shard(tmp_path / "s" / "b.tar")
    with pytest.raises(UnbagError, match=r"the shard .*b\.tar contains no sample") as caught:
        open_pairs(str(tmp_path / "s"))
    assert caught.value.hint == "remove it, or create it again"
    (tmp_path / "s" / "b.tar").write_bytes(b"")
    with pytest.raises(UnbagError, match=r"b\.tar is not a complete shard"):
        open_pairs(str(tmp_path / "s"))
    whole = shard(tmp_path / "s" / "b.tar", **good, y__png=bytes(5000), y__txt=b"cup").read_bytes()
    (tmp_path / "s" / "b.tar").write_bytes(whole[:4000])
    with pytest.raises(UnbagError, match=r"b\.tar is not a complete shard: unexpected end of data"):
        open_pairs(str(tmp_path / "s"))


def test_samples_without_an_image_or_a_caption(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tar", x__png=encoded(1), y__txt=b"a", z__png=encoded(3), z__txt=b"b")
    with pytest.raises(
        UnbagError, match=r"a\.tar, sample 'x' has no caption, only x\.png"
    ) as caught:
        open_pairs(str(path))
    assert "--bad-lines skip" in caught.value.hint
    pairs = open_pairs(str(path), skips_bad=True)
    assert pairs[0].id == "a/z.png"
    assert pairs.about == "1 webdataset shards a.tar: 1 images, 2 malformed samples left out"


def test_a_shard_that_changed_while_training(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tar", x__png=encoded(1), x__txt=b"dog")
    pairs = open_pairs(str(path))
    pair = pairs[0]
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"a\.tar ends before byte .*: it has changed"):
        pair.image.open()
    assert pair.image.key.startswith("missing:")
    with pytest.raises(UnbagError, match=r"a\.tar, sample 'x\.png' cannot be read"):
        pairs[0]
