"""Files of pairs: NegCLIP's TSV, webdataset shards, and bad files."""

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

from .pair_files import (
    DOG,
    MAN,
    Bytes,
    image,
    lines,
    negative,
    recipe,
    said,
    spoken,
    two_images,
    two_lines,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return two_images(tmp_path)


def test_missing_images_are_all_found_before_training(folder: Path) -> None:
    gone = [{"image": f"gone{n}.png", "caption": DOG} for n in range(6)]
    near = lines(folder / "near.jsonl", {"image": "in/y.png", "neighbours": ["gone0.png", "x.png"]})
    path = lines(
        folder / "a.jsonl",
        *gone,
        {"image": "x.png", "caption": DOG},
        {"image": "in/y.png", "caption": MAN},
    )
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(path))
    assert caught.value.message == (
        "6 of 8 images of JSON lines a.jsonl are missing: "
        "gone0.png, gone1.png, gone2.png, gone3.png, gone4.png, ..."
    )
    assert caught.value.expected == f"files below {folder}"
    assert "--missing skip" in caught.value.hint
    pairs = open_pairs(str(path), skips_missing=True, neighbours=near)
    assert [row[0] for row in said(pairs)] == ["x.png", "in/y.png"]
    assert pairs[1].nearest == (0,), "places are those of the pairs that stay"
    assert pairs.about.endswith("2 images, 2 captions, 6 missing ones left out")
    with pytest.raises(UnbagError, match="6 of 6 images") as caught:
        open_pairs(str(lines(folder / "b.jsonl", *gone)), skips_missing=True)
    assert caught.value.hint == "give their folder with --images"


BAD_LINES = {
    "no image": ({"caption": DOG}, "a.jsonl, line 1 has no image", "--image-column"),
    "no words": ({"image": "x.png", "caption": "  "}, "JSON lines a.jsonl holds no pairs", ""),
    "edits": ({"image": "x.png", "caption": DOG, "edits": "no"}, "line 1: edits is 'no'", ""),
    "edit": ({"image": "x.png", "caption": DOG, "edits": ["no"]}, "line 1: an edit is 'no'", ""),
    "kind": (
        {"image": "x.png", "caption": DOG, "edits": [{"text": "b"}]},
        "field a.jsonl, line 1, edits.kind is missing",
        "",
    ),
    "too few": (
        {"image": "x.png", "captions": [DOG, MAN], "edits": [[]]},
        "edits is not one list for each of 2 captions",
        "",
    ),
}


@pytest.mark.parametrize(("record", "message", "hint"), BAD_LINES.values(), ids=BAD_LINES)
def test_bad_lines(folder: Path, record: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(lines(folder / "a.jsonl", record)))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_empty_captions_are_dropped_with_their_edits(folder: Path) -> None:
    record = {"image": "x.png", "captions": [" ", DOG], "edits": [[], [negative("b")]]}
    assert said(open_pairs(str(lines(folder / "c.jsonl", record)))) == [
        ("x.png", (DOG,), [[("b", "swap_nouns", False)]])
    ]


def test_broken_lines_can_be_left_out(folder: Path) -> None:
    path = two_lines(folder)
    path.write_text("{no\n" + path.read_text() + json.dumps({"caption": DOG}))
    with pytest.raises(UnbagError, match=r"a\.jsonl, line 1 is not JSON") as caught:
        open_pairs(str(path))
    assert "--bad-lines skip" in caught.value.hint
    pairs = open_pairs(str(path), skips_bad=True)
    assert pairs.about == "JSON lines a.jsonl: 2 images, 3 captions, 2 malformed lines left out"


@pytest.mark.parametrize(
    ("name", "form", "message", "hint"),
    [
        ("b.jsonl", None, r"there is no file .*b", "check the path given with --pairs"),
        ("b", "folders", r"there is no file .*b", "check the path given with --pairs"),
        ("b-*.tar", None, r"there is no file .*b", "check the path given with --pairs"),
        ("two.json", None, r"two\.json is not JSON", "--pairs-format jsonl"),
        ("a.jsonl", "jsonk", "unknown form of pairs 'jsonk'", ""),
        ("x.png", None, r"the extension of .*x.png is not that", "--pairs-format"),
    ],
)
def test_bad_paths_and_forms(
    folder: Path, name: str, form: str | None, message: str, hint: str
) -> None:
    two_lines(folder)
    (folder / "two.json").write_text('{"image": "x.png"}\n{}')
    with pytest.raises(UnbagError, match=message) as caught:
        open_pairs(str(folder / name), form=form)
    assert hint in caught.value.hint


HEADER = "\ttitle\tfilepath\tneg_caption\tneg_image\n"


def tsv(folder: Path, *rows: str) -> Path:
    for shade, name in enumerate("xyz"):
        image(folder / f"{name}.png", shade)
    path = folder / "train.tsv"
    path.write_text(HEADER + "".join(row + "\n" for row in rows))
    return path


def test_rows_with_negatives_and_near_rows(tmp_path: Path) -> None:
    path = tsv(
        tmp_path,
        "0\ta dog on a sofa\tx.png\t['a sofa on a dog', \"it's\"]\t[2, 1, 0]",
        "1\t a  dog again\tx.png\t[]\t[2]",
        "2\ta cup\ty.png\t['cup a']\t[]",
    )
    pairs = open_pairs(str(path))
    assert len(pairs) == 3
    assert pairs.has_edits
    assert pairs.about == "NegCLIP's TSV train.tsv: 3 images, 3 captions"
    first = pairs[0]
    assert (first.id, first.captions) == ("row 0", ("a dog on a sofa",))
    [edits] = first.edits
    assert [(e.text, e.kind, e.is_positive) for e in edits] == [
        ("a sofa on a dog", "neg_clip_swap", False),
        ("it's", "neg_clip_swap", False),
    ]
    assert first.nearest == (2, 1), "no image is its own neighbour"
    assert pairs[1].captions == ("a dog again",)
    assert pairs[1].edits == ((),)
    assert pairs[2].nearest == ()


def test_near_rows_whose_images_are_missing_are_left_out(tmp_path: Path) -> None:
    path = tsv(
        tmp_path,
        "0\ta\tgone.png\t[]\t[1]",
        "1\tb\tx.png\t[]\t[0, 2]",
        "2\tc\ty.png\t[]\t[1]",
    )
    pairs = open_pairs(str(path), skips_missing=True)
    assert [pairs[place].nearest for place in (0, 1)] == [(1,), (0,)]


TEXTS, NUMBERS = "a list of texts as Python writes it", "a list of numbers of rows as Python"


@pytest.mark.parametrize(
    ("row", "message", "expected"),
    [
        ("0\ta\tx.png\t['b'\t[]", "neg_caption is \"['b'\"", TEXTS),
        ("0\ta\tx.png\t[1]\t[]", "neg_caption is '[1]'", TEXTS),
        ("0\ta\tx.png\t[]\t[True]", "neg_image is '[True]'", NUMBERS),
        ("0\ta\tx.png\t[]\t7", "neg_image is '7'", NUMBERS),
        ("0\ta\tx.png\t[]\t[1]", "neg_image contains row 1", "numbers from 0 to 0"),
        ("0\t \tx.png\t[]\t[]", "has an empty title", "a caption"),
        ("0\ta\tx.png", "has 3 columns", "5, as the header"),
    ],
)
def test_bad_rows(tmp_path: Path, row: str, message: str, expected: str) -> None:
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(tsv(tmp_path, row)))
    assert caught.value.message.startswith("train.tsv, line 2")
    assert caught.value.message.endswith(message)
    assert caught.value.expected.startswith(expected)


def test_a_plain_table_is_no_tsv_of_negclip(tmp_path: Path) -> None:
    image(tmp_path / "x.png", 0)
    (tmp_path / "t.tsv").write_text("title\tfilepath\na dog\tx.png\n")
    assert open_pairs(str(tmp_path / "t.tsv"))[0].captions == ("a dog",)
    with pytest.raises(
        UnbagError, match=r"t\.tsv has no column neg_caption, neg_image, only title"
    ):
        open_pairs(str(tmp_path / "t.tsv"), form="negclip")


def encoded(shade: int) -> bytes:
    from PIL import Image

    samples = io.BytesIO()
    Image.new("RGB", (4, 3), (shade, 0, 0)).save(samples, "PNG")
    return samples.getvalue()


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
    samples = [pairs[place] for place in range(3)]
    assert [pair.id for pair in samples] == ["a/x.png", "a/y.png", "b/z.png"]
    assert [pair.captions for pair in samples] == [("dog on mat",), ("dog on mat",), ("one",)]
    assert [len(pair.edits[0]) for pair in samples] == [0, 1, 0]
    assert [pair.nearest for pair in samples] == [(2,), (), ()]
    assert [pair.image.open().getpixel((0, 0)) for pair in samples] == [
        (shade, 0, 0) for shade in (1, 2, 3)
    ]
    assert samples[0].image.name == f"{tmp_path / 's' / 'a.tar'}[x.png]"
    assert samples[0].image.key.startswith("bytes:")
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
