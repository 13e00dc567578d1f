"""Text that JSON allows and no file or model can hold: refused, with the record named."""

import json
from pathlib import Path

import pytest

from unbag.benchmarks.files import Folder, Record
from unbag.errors import UnbagError


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.of(tmp_path, "mine")


def write(folder: Folder, text: str) -> str:
    (folder.root / "a.json").write_text(text)
    return "a.json"


def test_half_a_character_is_refused_with_the_record(folder: Folder) -> None:
    name = write(folder, json.dumps([{"caption": "a dog"}, {"caption": "a \ud800 dog"}]))
    first, second = folder.records(name)
    assert first.caption("caption") == "a dog"
    message = r"field a\.json, record 1\.caption is 'a \\ud800 dog'"
    with pytest.raises(UnbagError, match=message) as error:
        second.caption("caption")
    assert error.value.expected == "whole characters: this holds half of one"


def test_half_a_character_in_a_list_or_a_key(folder: Folder) -> None:
    with pytest.raises(UnbagError, match=r"field x\.captions\[1\] is"):
        Record({"captions": ["a", "\udc00"]}, "1", "x").read("captions", tuple[str, ...])
    with pytest.raises(UnbagError, match=r"the key '\\ud800' holds half a character"):
        folder.records(write(folder, json.dumps({"\ud800": 1})))


def test_whole_characters_of_every_kind_stay(folder: Folder) -> None:
    name = write(folder, json.dumps([{"caption": "ein Hündchen 🐕", "all": ["é", "🐕"]}]))
    (record,) = folder.records(name)
    assert record.caption("caption") == "ein Hündchen 🐕"
    assert record.read("all", tuple[str, ...]) == ("é", "🐕")


@pytest.mark.parametrize("name", ["a\0b.jpg", "a\nb.jpg", "x/\x1f.jpg", "\x7f"])
def test_control_characters_are_no_image_name(folder: Folder, name: str) -> None:
    with pytest.raises(UnbagError, match=r"record 3: .* is not an image name") as error:
        folder.image(folder.root, name, "record 3")
    assert "without control characters" in error.value.expected


@pytest.mark.parametrize(("name", "count"), [("a" * 256, 256), ("x/" + "é" * 128 + "/b.jpg", 256)])
def test_an_image_name_no_file_system_holds(folder: Folder, name: str, count: int) -> None:
    with pytest.raises(UnbagError, match=rf"record 3: the image name .* has {count} bytes"):
        folder.image(folder.root, name, "record 3")


def test_the_longest_image_name_stays(folder: Folder) -> None:
    name = "a" * 255 + "/" + "é" * 127
    assert folder.image(folder.root, name, "record 3").path == folder.root / name


def test_a_key_twice_in_a_line(folder: Folder) -> None:
    name = write(folder, '{"caption": "a"}\n{"caption": "a", "caption": "b"}')
    with pytest.raises(UnbagError, match=r"a\.json, line 2 .*the key 'caption' stands twice"):
        folder.lines(name)


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_a_file_without_records(folder: Folder, text: str) -> None:
    with pytest.raises(UnbagError, match=r"a\.json of mine has no records") as error:
        folder.records(write(folder, text))
    assert error.value.hint == "download it again"


def test_lines_and_tables_without_records(folder: Folder) -> None:
    with pytest.raises(UnbagError, match="has no records"):
        folder.lines(write(folder, "\n \n"))
    with pytest.raises(UnbagError, match="has no records"):
        folder.table(write(folder, "caption,image\n"), columns=("caption",))
    records = folder.table(write(folder, "caption\na\n"), columns=("caption",))
    assert records == [Record({"caption": "a"}, "1", "a.json, row 1")]
