"""BiVLC from self-made Parquet files in the schema of the hub."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.bivlc import BIVLC
from unbag.benchmarks.files import ParquetImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import absent_images
from unbag.types import Estimate

from .small import Columns, bivlc_columns, write_bivlc

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_rows_of_all_files_and_groups(tmp_path: Path) -> None:
    write_bivlc(tmp_path, bivlc_columns(5, 3), "00001-of-00002")
    write_bivlc(tmp_path, bivlc_columns(0, 5))
    items = BIVLC.load(tmp_path)
    assert [item.id for item in items][4:6] == [
        "test-00000-of-00002.parquet/4",
        "test-00001-of-00002.parquet/0",
    ]
    assert items[1].captions == ("a man 1", "a man and a child 1")
    assert items[1].tags == {"type": "swap", "subtype": "swap att"}
    colours = [[p.open().getpixel((0, 0)) for p in item.images] for item in items]
    assert colours == [[(i, 0, 0), (0, i, 0)] for i in range(8)]
    assert len({image.key for item in items for image in item.images}) == 15
    assert items[0].images[0].key == items[0].images[1].key
    assert not absent_images(items)


def test_published_numbers_follow_the_words_of_the_authors() -> None:
    # Image to text means that each image picks its caption: our text score.
    assert {number.metric: number.value for number in BIVLC.published} == {
        "text": 0.758,
        "image": 0.524,
        "group": 0.491,
    }


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"bivlc has no file .*data/test-\*\.parquet"):
        BIVLC.load(tmp_path)
    path = write_bivlc(tmp_path, bivlc_columns(0, 2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(UnbagError, match=r"test-00000-of-00002\.parquet of bivlc cannot be read"):
        BIVLC.load(tmp_path)
    content = bivlc_columns(0, 2)
    del content["subtype"]
    write_bivlc(tmp_path, content)
    with pytest.raises(UnbagError, match="of bivlc has no column 'subtype'"):
        BIVLC.load(tmp_path)
    write_bivlc(tmp_path, bivlc_columns(0, 2) | {"image": ["a.jpg", "b.jpg"]})
    with pytest.raises(UnbagError, match="of bivlc has no image column 'image'"):
        BIVLC.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption": ["a man", " "]}, "row 1: caption is empty"),
        ({"caption": ["a man", None]}, r"row 1\.caption is null"),
        ({"type": [1, 2]}, r"row 0\.type is 1"),
    ],
)
def test_bad_rows_are_named(change: Columns, message: str, tmp_path: Path) -> None:
    write_bivlc(tmp_path, bivlc_columns(0, 2) | change)
    with pytest.raises(UnbagError, match=message):
        BIVLC.load(tmp_path)


def test_damaged_images_are_said_when_opened(tmp_path: Path) -> None:
    cells: list[object] = [
        {"bytes": b"no image", "path": None},
        {"bytes": None, "path": "x.jpg"},
        None,
    ]
    path = write_bivlc(tmp_path, bivlc_columns(0, 3) | {"image": cells})
    images = [item.images[0] for item in BIVLC.load(tmp_path)]
    for image in images:
        with pytest.raises((OSError, ValueError)):
            image.open()
        assert image.key
    with pytest.raises(ValueError, match="holds no bytes"):
        images[2].open()
    path.unlink()
    assert (
        len(absent_images(BIVLC.load(write_bivlc(tmp_path, bivlc_columns(0, 1)).parents[1]))) == 0
    )
    with pytest.raises(OSError, match="nowhere"):
        ParquetImage(tmp_path / "nowhere", "image", 0, 0).open()
    assert ParquetImage(tmp_path / "nowhere", "image", 0, 0).key.startswith("missing:")


def test_pixels_are_the_encoded_ones(tmp_path: Path) -> None:
    write_bivlc(tmp_path, bivlc_columns(0, 2))
    opened = BIVLC.load(tmp_path)[1].images[1].open()
    assert np.asarray(opened).tolist() == [[[0, 1, 0]] * 4] * 4
