"""ProbeData from a user's files: images with captions, without them, and bad ones."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from unbag.data import FileImage
from unbag.data.readers import open_pairs
from unbag.edits import parsing as pipelines
from unbag.edits.editor import CaptionEditor, EditTally
from unbag.errors import UnbagError
from unbag.probes import data as material_pairs
from unbag.probes.data import find_probe_data, folder_data, pairs_data
from unbag.types import Edit, Edited, Given


def draw(path: Path, shade: int) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (shade, 255 - shade, 7)).save(path)
    return path


def write_lines(folder: Path, count: int = 4, *, more: Sequence[str] = ()) -> Path:
    """A collection of small images with two captions each."""
    lines = []
    for n in range(count):
        draw(folder / "images" / f"{n}.png", n)
        said = [f"a red dog sits on a green hill at {n} o'clock", f"a dog, {n}"]
        lines.append(json.dumps({"image": f"images/{n}.png", "captions": said}))
    file = folder / "captions.jsonl"
    file.write_text("\n".join([*lines, *more]) + "\n")
    return file


class Swapping(CaptionEditor):
    """Exchanges red and green; says puppy for dog."""

    def __init__(self) -> None:
        pass

    def __call__(self, given: Sequence[Given]) -> tuple[list[Edited], EditTally]:
        found = []
        for one in given:
            swapped = one.text.replace("red", "?").replace("green", "red").replace("?", "green")
            edits = (
                Edit(swapped, "swap", False, (0, 0)),
                Edit(one.text.replace("red", "blue"), "colour", False, (0, 0)),
                Edit(one.text.replace("dog", "puppy"), "synonym", True, (0, 0)),
            )
            found.append(Edited(one.id, one.text, edits if "red" in one.text else ()))
        return found, EditTally()


def test_captions_get_negatives_and_a_positive(tmp_path: Path) -> None:
    pairs = open_pairs(str(write_lines(tmp_path)))
    found = pairs_data(pairs, editor=Swapping())
    assert len(found.rows) == 8
    first, second = found.rows[:2]
    assert first.caption == "a red dog sits on a green hill at 0 o'clock"
    assert first.negative == "a green dog sits on a red hill at 0 o'clock"
    assert first.positive == second.positive == "a red puppy sits on a green hill at 0 o'clock"
    assert (first.kind, second.kind) == ("swap", "colour")
    assert first.cluster == second.cluster == "images/0.png"
    assert len({row.id for row in found.rows}) == 8
    assert found.gallery is not None
    assert len(found.gallery.captions) == len(found.gallery.images) == 4
    assert [image.name for image in found.images] == [
        str(tmp_path / "images" / f"{n}.png") for n in range(4)
    ]
    assert found.pairs == ()
    assert found.about == "JSON lines captions.jsonl: 4 images, 8 captions"
    assert found.notes == ()


def test_captions_are_really_edited(tmp_path: Path) -> None:
    if pipelines.find_installed() is None:
        pytest.skip("no spaCy pipeline is installed")
    pairs = open_pairs(str(write_lines(tmp_path)))
    found = pairs_data(pairs, kinds=("replace_colour", "swap_attributes"), seed=1)
    assert {row.kind for row in found.rows} <= {"replace_colour", "swap_attributes"}
    assert any(row.negative == "a green dog sits on a red hill at 0 o'clock" for row in found.rows)
    again = pairs_data(pairs, kinds=("replace_colour", "swap_attributes"), seed=1)
    assert again.rows == found.rows


def test_an_unknown_kind_is_an_error_not_a_note(tmp_path: Path) -> None:
    if pipelines.find_installed() is None:
        pytest.skip("no spaCy pipeline is installed")
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_moods'"):
        pairs_data(open_pairs(str(write_lines(tmp_path))), kinds=("swap_moods",))


def test_without_a_pipeline_there_are_no_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material_pairs, "find_installed", lambda: None)
    found = pairs_data(open_pairs(str(write_lines(tmp_path))))
    assert [row.negative for row in found.rows] == [None] * 4
    assert found.notes == (
        "captions are not edited, since no spaCy pipeline was found: install the extra "
        "unbag[edits] and `python -m spacy download en_core_web_sm`",
    )


def test_captions_without_a_negative_are_counted(tmp_path: Path) -> None:
    more = [json.dumps({"image": "images/9.png", "captions": ["a cat"]})]
    file = write_lines(tmp_path, more=more)
    draw(tmp_path / "images" / "9.png", 90)
    found = pairs_data(open_pairs(str(file)), editor=Swapping())
    assert found.notes == ("1 of 5 captions have no hard negative",)
    assert found.rows[-1].caption == "a cat"
    assert found.rows[-1].negative is None


def test_edits_that_were_made_before_are_taken(tmp_path: Path) -> None:
    lines = [
        {
            "image": f"{n}.png",
            "caption": f"a red cup {n}",
            "edits": [
                {"text": f"a blue cup {n}", "kind": "colour", "is_positive": False},
                {"text": f"a red mug {n}", "kind": "synonym", "is_positive": True},
            ],
        }
        for n in range(2)
    ]
    for n in range(2):
        draw(tmp_path / f"{n}.png", n)
    file = tmp_path / "edited.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = find_probe_data(str(file))
    assert [(row.negative, row.positive) for row in found.rows] == [
        ("a blue cup 0", "a red mug 0"),
        ("a blue cup 1", "a red mug 1"),
    ]


def test_a_part_is_chosen_by_seed(tmp_path: Path) -> None:
    pairs = open_pairs(str(write_lines(tmp_path, 9)))
    found = [pairs_data(pairs, editor=Swapping(), max_images=4, seed=seed) for seed in (0, 0, 1)]
    names = [[image.name for image in one.images] for one in found]
    assert names[0] == names[1] != names[2]
    assert names[0] == sorted(names[0])
    assert found[0].notes == ("4 of 9 images are used",)


def test_entries_about_one_image_become_one(tmp_path: Path) -> None:
    more = [json.dumps({"image": "copy.png", "captions": ["a red dog again"]})]
    file = write_lines(tmp_path, 3, more=more)
    (tmp_path / "copy.png").write_bytes((tmp_path / "images" / "1.png").read_bytes())
    found = pairs_data(open_pairs(str(file)), editor=Swapping())
    assert len(found.images) == 3
    assert found.notes == ("1 of 4 entries show an image that another shows",)


def test_one_image_cannot_be_told_apart(tmp_path: Path) -> None:
    file = write_lines(tmp_path, 1)
    with pytest.raises(UnbagError) as error:
        find_probe_data(str(file))
    assert str(error.value) == (
        "JSON lines captions.jsonl: 1 images, 2 captions: only 1 different image\n"
        "  expected: at least two images, since models are asked to tell them apart\n"
        "  hint:     name a collection with more images"
    )


def test_broken_lines_and_missing_images_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material_pairs, "find_installed", lambda: None)
    lost = json.dumps({"image": "images/lost.png", "captions": ["a ghost"]})
    file = write_lines(tmp_path, more=["{broken", lost])
    found = find_probe_data(str(file))
    assert len(found.images) == 4
    assert found.about == (
        "JSON lines captions.jsonl: 4 images, 8 captions, 1 missing ones left out, 1 broken "
        "lines left out"
    )


def test_a_damaged_image_is_the_model_s_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material_pairs, "find_installed", lambda: None)
    file = write_lines(tmp_path)
    (tmp_path / "images" / "2.png").write_bytes(b"torn")
    assert len(find_probe_data(str(file)).images) == 4


def test_other_forms_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(material_pairs, "find_installed", lambda: None)
    write_lines(tmp_path, 2)
    table = tmp_path / "pairs.tsv"
    table.write_text("image\tcaption\nimages/0.png\ta cat\nimages/1.png\ta dog\n")
    coco = tmp_path / "coco.json"
    images = [{"id": n, "file_name": f"images/{n}.png"} for n in (0, 1)]
    notes = [{"id": n, "image_id": n, "caption": f"a thing {n}"} for n in (0, 1)]
    coco.write_text(json.dumps({"images": images, "annotations": notes}))
    assert [row.caption for row in find_probe_data(str(table)).rows] == ["a cat", "a dog"]
    assert [row.caption for row in find_probe_data(str(coco)).rows] == ["a thing 0", "a thing 1"]


def test_class_folders_share_captions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(material_pairs, "find_installed", lambda: None)
    for n, name in enumerate(("cat/0", "cat/1", "sea_lion/2")):
        draw(tmp_path / f"{name}.png", n)
    found = find_probe_data(str(tmp_path))
    assert found.gallery is not None
    assert found.gallery.captions == ("a photo of a cat.", "a photo of a sea lion.")
    assert found.gallery.image_T.tolist() == [0, 1, 2]
    assert found.gallery.caption_T.tolist() == [0, 0, 1]


def test_images_without_captions_have_no_rows(tmp_path: Path) -> None:
    for n in range(3):
        draw(tmp_path / f"{n}.png", n)
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    (tmp_path / "read me.txt").write_text("hello")
    for found in (find_probe_data(str(tmp_path)), folder_data(tmp_path)):
        assert (found.rows, found.pairs, found.gallery) == ((), (), None)
        assert len(found.images) == 3
        assert found.about == f"the folder {tmp_path.name}: 3 images without captions"
        assert found.notes == (
            "there are no captions, so only the image encoder is asked: name a file with captions",
            "1 images are copies of others",
        )


def test_a_folder_in_a_folder_is_found(tmp_path: Path) -> None:
    for n in range(2):
        draw(tmp_path / "photos" / f"{n}.png", n)
    assert len(find_probe_data(str(tmp_path)).images) == 2


@pytest.mark.parametrize(("count", "found"), [(0, "no images"), (1, "1 image")])
def test_a_folder_with_too_few_images(tmp_path: Path, count: int, found: str) -> None:
    for n in range(count):
        draw(tmp_path / f"{n}.png", n)
    with pytest.raises(UnbagError) as error:
        folder_data(tmp_path)
    assert error.value.message == f"the folder {tmp_path} holds {found}"
    assert error.value.expected == (
        "at least two different images, since models are asked to tell them apart"
    )
    assert error.value.hint == (
        "name a folder with more images; without one, the built-in world is asked about"
    )


def test_a_single_image_is_no_material(tmp_path: Path) -> None:
    image = draw(tmp_path / "one.png", 1)
    with pytest.raises(UnbagError) as error:
        find_probe_data(str(image))
    assert error.value.message == f"{image} is a single image"
    assert error.value.hint == "name a folder; without one, the built-in world is asked about"


def test_a_folder_beside_captions_names_the_file(tmp_path: Path) -> None:
    file = write_lines(tmp_path)
    with pytest.raises(UnbagError) as error:
        find_probe_data(str(tmp_path))
    assert error.value.message == f"the folder {tmp_path} holds captions.jsonl"
    assert error.value.hint == f"name {file}"


def test_an_ending_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "captions.doc").write_text("a cat")
    with pytest.raises(UnbagError) as error:
        find_probe_data(str(tmp_path / "captions.doc"))
    assert "says nothing about its form" in error.value.message
    assert error.value.hint == "rename it"


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as error:
        find_probe_data(str(tmp_path / "lost.jsonl"))
    assert error.value.message == f"there is no file or folder {tmp_path / 'lost.jsonl'}"
    for name in ("sugarcrep", ""):
        with pytest.raises(UnbagError, match=f"unknown data '{name}'") as error:
            find_probe_data(name)
        assert error.value.hint == (
            "`unbag list benchmarks` shows every name; a file or folder of images works too"
        )
    with pytest.raises(UnbagError) as error:
        find_probe_data("sugarcrep")
    assert error.value.expected.startswith("did you mean 'sugarcrepe'")


def test_images_of_a_collection_are_files(tmp_path: Path) -> None:
    found = pairs_data(open_pairs(str(write_lines(tmp_path))), editor=Swapping())
    assert all(isinstance(image, FileImage) for image in found.images)
