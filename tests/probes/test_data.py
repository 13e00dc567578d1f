"""The data of probes: the world, benchmarks, and files and folders of a user."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbag.data import FileImage, PixelImage
from unbag.data.readers import open_pairs
from unbag.edits.editor import CaptionEditor, EditTally
from unbag.edits.parsing import find_installed
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Pairs
from unbag.probes import data as probe_data
from unbag.probes.base import ProbeData
from unbag.probes.data import (
    benchmark_data,
    find_probe_data,
    gallery_from,
    gallery_item,
    items_data,
    near_pairs,
    pairs_data,
    world_probe_data,
)
from unbag.runs.progress import Silent
from unbag.types import (
    Aggregate,
    Benchmark,
    Edit,
    Edited,
    Ensemble,
    FloatArray,
    Given,
    ImageSource,
    Item,
    Question,
    Sparse,
)


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
        result = []
        for one in given:
            swapped = one.text.replace("red", "?").replace("green", "red").replace("?", "green")
            edits = (
                Edit(swapped, "swap", False, (0, 0)),
                Edit(one.text.replace("red", "blue"), "colour", False, (0, 0)),
                Edit(one.text.replace("dog", "puppy"), "synonym", True, (0, 0)),
            )
            result.append(Edited(one.id, one.text, edits if "red" in one.text else ()))
        return result, EditTally()


def test_captions_get_negatives_and_a_positive(tmp_path: Path) -> None:
    pairs = open_pairs(str(write_lines(tmp_path)))
    result = pairs_data(pairs, editor=Swapping())
    assert len(result.rows) == 8
    first, second = result.rows[:2]
    assert first.caption == "a red dog sits on a green hill at 0 o'clock"
    assert first.negative == "a green dog sits on a red hill at 0 o'clock"
    assert first.positive == second.positive == "a red puppy sits on a green hill at 0 o'clock"
    assert (first.kind, second.kind) == ("swap", "colour")
    assert first.cluster == second.cluster == "images/0.png"
    assert len({row.id for row in result.rows}) == 8
    assert result.gallery is not None
    assert len(result.gallery.captions) == len(result.gallery.images) == 4
    assert [image.name for image in result.images] == [
        str(tmp_path / "images" / f"{n}.png") for n in range(4)
    ]
    assert result.pairs == ()
    assert result.about == "JSON lines captions.jsonl: 4 images, 8 captions"
    assert result.notes == ()


@pytest.mark.skipif(find_installed() is None, reason="no spaCy pipeline is installed")
def test_captions_are_really_edited(tmp_path: Path) -> None:
    pairs = open_pairs(str(write_lines(tmp_path)))
    kinds = ("replace_colour", "swap_attributes")
    result = pairs_data(pairs, kinds=kinds, seed=1)
    assert {row.kind for row in result.rows} <= set(kinds)
    assert any(r.negative == "a green dog sits on a red hill at 0 o'clock" for r in result.rows)
    assert pairs_data(pairs, kinds=kinds, seed=1).rows == result.rows
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_moods'"):
        pairs_data(pairs, kinds=("swap_moods",))


def test_without_a_pipeline_there_are_no_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_data, "find_installed", lambda: None)
    result = pairs_data(open_pairs(str(write_lines(tmp_path))))
    assert [row.negative for row in result.rows] == [None] * 4
    assert result.notes == (
        "captions are not edited, since there is no spaCy pipeline: install the extra "
        "unbag[edits] and `python -m spacy download en_core_web_sm`",
    )


def test_captions_without_a_negative_are_counted(tmp_path: Path) -> None:
    more = [json.dumps({"image": "images/9.png", "captions": ["a cat"]})]
    file = write_lines(tmp_path, more=more)
    draw(tmp_path / "images" / "9.png", 90)
    result = pairs_data(open_pairs(str(file)), editor=Swapping())
    assert result.notes == ("1 of 5 captions have no hard negative",)
    assert result.rows[-1].caption == "a cat"
    assert result.rows[-1].negative is None


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
    result = find_probe_data(str(file))
    assert [(row.negative, row.positive) for row in result.rows] == [
        ("a blue cup 0", "a red mug 0"),
        ("a blue cup 1", "a red mug 1"),
    ]


def test_a_part_is_chosen_by_seed(tmp_path: Path) -> None:
    pairs = open_pairs(str(write_lines(tmp_path, 9)))
    result = [pairs_data(pairs, editor=Swapping(), max_images=4, seed=seed) for seed in (0, 0, 1)]
    names = [[image.name for image in one.images] for one in result]
    assert names[0] == names[1] != names[2]
    assert names[0] == sorted(names[0])
    assert result[0].notes == ("4 of 9 images are used",)


def test_entries_about_one_image_become_one(tmp_path: Path) -> None:
    more = [json.dumps({"image": "copy.png", "captions": ["a red dog again"]})]
    file = write_lines(tmp_path, 3, more=more)
    (tmp_path / "copy.png").write_bytes((tmp_path / "images" / "1.png").read_bytes())
    result = pairs_data(open_pairs(str(file)), editor=Swapping())
    assert len(result.images) == 3
    assert result.notes == ("1 of 4 entries show the image of another entry",)


def empty_file(path: Path) -> Path:
    path.write_text("a cat")
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: write_lines(f, 1), r"captions\.jsonl: 1 images, 2 captions: only 1 different"),
        (
            lambda f: draw(f / "one.png", 1).parent,
            r"holds 1 image\n.*at least two different",
        ),
        (lambda f: draw(f / "one.png", 1), r"one\.png is a single image\n[\s\S]*name a folder"),
        (lambda f: write_lines(f).parent, r"holds captions\.jsonl\n[\s\S]*name .*captions\.jsonl"),
        (lambda f: f, "holds neither images nor captions"),
        (lambda f: empty_file(f / "a.doc"), r"is not that of a known format[\s\S]*: +rename it$"),
        (lambda f: f / "lost.jsonl", r"there is no file or folder .*lost\.jsonl"),
        (lambda f: "sugarcrep", r"'sugarcrep'[\s\S]*did you mean 'sugarcrepe'[\s\S]*unbag list"),
        (lambda f: "", r"unknown data ''[\s\S]*unbag list"),
    ],
    ids=[
        "one entry",
        "one image",
        "a file",
        "captions",
        "empty",
        "form",
        "lost",
        "name",
        "no name",
    ],
)
def test_bad_input(make: Callable[[Path], Path | str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=words):
        find_probe_data(str(make(tmp_path)))


def test_other_forms_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_data, "find_installed", lambda: None)
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
    monkeypatch.setattr(probe_data, "find_installed", lambda: None)
    for n, name in enumerate(("cat/0", "cat/1", "sea_lion/2")):
        draw(tmp_path / f"{name}.png", n)
    result = find_probe_data(str(tmp_path))
    assert result.gallery is not None
    assert result.gallery.captions == ("a photo of a cat.", "a photo of a sea lion.")
    assert result.gallery.image_T.tolist() == [0, 1, 2]
    assert result.gallery.caption_T.tolist() == [0, 0, 1]


def test_images_without_captions_have_no_rows(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for n in range(3):
        draw(folder / f"{n}.png", n)
    (folder / "copy.png").write_bytes((folder / "0.png").read_bytes())
    (folder / "read me.txt").write_text("hello")
    # A folder that contains a single folder stands for that one.
    for result in (find_probe_data(str(tmp_path)), find_probe_data(str(folder))):
        assert (result.rows, result.pairs, result.gallery) == ((), (), None)
        assert len(result.images) == 3
        assert result.about == "the folder photos: 3 images without captions"
        assert result.notes == (
            "there are no captions, so only the image encoder is probed: name a file with captions",
            "1 images are copies of others",
        )


def test_broken_lines_and_missing_images_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_data, "find_installed", lambda: None)
    lost = json.dumps({"image": "images/lost.png", "captions": ["a ghost"]})
    file = write_lines(tmp_path, more=["{broken", lost])
    # The model will say that this one is damaged.
    (tmp_path / "images" / "2.png").write_bytes(b"torn")
    result = find_probe_data(str(file))
    assert len(result.images) == 4
    assert all(isinstance(image, FileImage) for image in result.images)
    assert result.about == (
        "JSON lines captions.jsonl: 4 images, 8 captions, 1 missing ones left out, 1 malformed "
        "lines left out"
    )


EYE = np.eye(2, dtype=np.bool_)


def shade(n: int) -> PixelImage:
    return PixelImage(np.full((2, 2, 3), n, dtype=np.uint8), name=f"image {n}")


def bench(*metrics: Any, **more: Any) -> Benchmark:
    return Benchmark("toy", "", lambda root: (), metrics or (Choice(),), "accuracy", **more)


def make_data(
    *items: Item, benchmark: Benchmark | None = None, most: int | None = None
) -> ProbeData:
    benchmark = benchmark or bench()
    return items_data([benchmark], {"toy": items}, about="toy", max_rows=most)


def test_each_false_caption_is_a_row() -> None:
    item = Item(
        "one",
        (shade(0),),
        ("a cat", "a dog", "a feline", "a cow"),
        np.array([[True, False, True, False]]),
        kinds=("original", "noun", "synonym", "other noun"),
        tags={"topic": "pets"},
    )
    result = make_data(item)
    assert [(row.caption, row.negative, row.positive, row.kind) for row in result.rows] == [
        ("a cat", "a dog", "a feline", "noun"),
        ("a cat", "a cow", "a feline", "other noun"),
    ]
    assert [row.id for row in result.rows] == ["toy/one/0/1", "toy/one/0/3"]
    assert {row.cluster for row in result.rows} == {"toy/one"}
    assert result.rows[0].tags == {"topic": "pets", "benchmark": "toy"}
    assert result.pairs == ()
    # One image is no gallery.
    assert result.gallery is None


def test_rows_need_a_true_caption_and_no_negative_equals_it() -> None:
    true = Item("true", (shade(0),), ("a cat",), np.array([[True]]))
    false = Item("false", (shade(1),), ("a dog",), np.array([[False]]))
    (row,) = make_data(true, false).rows
    assert (row.caption, row.negative, row.positive) == ("a cat", None, None)
    truth = np.array([[True, False, False, True]])
    item = Item("one", (shade(0),), ("a cat", "a cat", "a dog", "a cat"), truth)
    (row,) = make_data(item).rows
    assert (row.caption, row.negative, row.positive) == ("a cat", "a dog", None)


def test_two_images_are_a_pair() -> None:
    tags = {"relation": "on/under"}
    item = Item("two", (shade(0), shade(1)), ("on", "under"), EYE, tags=tags, group="g")
    result = make_data(item)
    (pair,) = result.pairs
    assert (pair.first, pair.second) == item.images
    assert pair.captions == ("on", "under")
    assert (pair.relation, pair.cluster) == ("on/under", "toy/g")
    assert [(row.caption, row.negative) for row in result.rows] == [
        ("on", "under"),
        ("under", "on"),
    ]
    assert result.gallery is not None
    assert result.gallery.captions == ("on", "under")


def test_pairs_of_four_are_those_of_the_metric() -> None:
    four = Item("four", tuple(map(shade, range(4))), tuple("lrou"), np.eye(4, dtype=np.bool_))
    named = bench(Pairs({"left/right": (0, 1), "on/under": (3, 2), "far": (0, 7)}))
    result = [(p.relation, p.captions) for p in make_data(four, benchmark=named).pairs]
    assert result == [("left/right", ("l", "r")), ("on/under", ("u", "o"))]
    plain = make_data(four, benchmark=bench(Pairs()))
    assert [(p.relation, p.captions) for p in plain.pairs] == [
        ("toy", tuple("lr")),
        ("toy", tuple("ou")),
    ]
    assert len({pair.id for pair in plain.pairs}) == 2


def test_pairs_need_two_images_and_captions_true_of_one_only() -> None:
    truth = np.array([[True, True], [False, True]])
    (pair,) = make_data(Item("two", (shade(0), shade(1)), ("on", "near"), truth)).pairs
    assert pair.captions is None
    one_caption = Item("svo", (shade(0), shade(1)), ("a dog runs",), np.array([[True], [False]]))
    (pair,) = make_data(one_caption).pairs
    assert pair.captions is None
    same = (shade(0),) * 2
    assert make_data(Item("two", same, ("on", "under"), EYE)).pairs == ()


def asked(name: str, n: int, text: str, true: int, group: str = "g") -> Item:
    truth = np.array([[true == 0, true == 1]])
    return Item(name, (shade(n),), ("Yes", "No"), truth, question=Question(text), group=group)


def test_a_question_that_tells_two_images_apart_makes_a_pair() -> None:
    result = make_data(
        asked("1", 0, "Up?", 0), asked("2", 1, "Up?", 1),
        # Another question about the same two, and one with the same answer for both.
        asked("3", 0, "Down?", 1), asked("4", 1, "Down?", 0),
        asked("5", 2, "Red?", 0, "h"), asked("6", 3, "Red?", 0, "h"),
    )  # fmt: skip
    (pair,) = result.pairs
    assert (pair.first.name, pair.second.name) == ("image 0", "image 1")
    assert pair.captions is None
    assert result.rows == ()
    assert result.gallery is None
    assert result.notes == ("toy: 6 of 6 items are questions, whose answers are not captions",)


def test_grouped_captions_of_two_images_are_those_of_the_pair() -> None:
    items = [
        Item(f"{n}", (shade(n),), ("open", "shut"), EYE[n : n + 1], group="door") for n in (0, 1)
    ]
    (pair,) = make_data(*items).pairs
    assert pair.captions == ("open", "shut")
    assert pair.id == "toy/0/1"


def test_ratings_classes_and_long_lists_are_said_to_be_left_out() -> None:
    rated = Item("rated", (shade(0),), ("a cat",), np.array([[0.7]]))
    classes = Item("class", (shade(1),), (Ensemble("cat", ("a cat",)),), np.array([[True]]))
    many = Item("many", (shade(2),), tuple("abcdefghijklmnopq"), np.zeros((1, 17), dtype=np.bool_))
    result = make_data(rated, classes, many)
    assert (result.rows, result.pairs, result.gallery) == ((), (), None)
    assert result.notes == ("toy: 3 of 3 items have ratings, classes or more than 16 captions",)


def search(name: str, count: int, **tags: str) -> Item:
    """Two captions an image."""
    place_T = np.arange(2 * count)
    return Item(
        name,
        tuple(map(shade, range(count))),
        tuple(f"{name} {n}" for n in range(2 * count)),
        Sparse((count, 2 * count), place_T // 2, place_T),
        tags=tags,
    )


def test_the_gallery_is_the_one_with_its_words_in_order() -> None:
    benchmark = bench(aggregates=(Aggregate(only=(("order", "kept"),)),))
    items = (search("shuffled", 3, order="shuffled"), search("kept", 3, order="kept"))
    gallery = make_data(*items, benchmark=benchmark).gallery
    assert gallery is not None
    assert gallery.captions[:2] == ("kept 0", "kept 1")


def test_a_large_gallery_is_cut_and_keeps_its_truth() -> None:
    item = search("big", 9)
    gallery = gallery_item(item, max_images=4)
    assert gallery is not None
    assert len(gallery.images) == 4
    assert len(gallery.captions) == 8
    for row, column in zip(gallery.image_T, gallery.caption_T, strict=True):
        number = int(gallery.captions[column].split()[1])
        assert gallery.images[row].name == f"image {number // 2}"
    assert gallery_item(Item("one", (shade(0),), ("a",), np.array([[True]]))) is None


def test_a_caption_of_two_images_is_true_of_both() -> None:
    gallery = gallery_from([(shade(0), "a cat"), (shade(1), "a cat"), (shade(0), "a dog")])
    assert gallery is not None
    assert gallery.captions == ("a cat",)
    assert (gallery.image_T.tolist(), gallery.caption_T.tolist()) == ([0, 1], [0, 0])


def test_a_part_keeps_whole_clusters() -> None:
    items = [
        Item(
            f"{n}",
            (shade(n),),
            ("a", "b", "c"),
            np.array([[True, False, False]]),
            group=f"{n % 9}",
        )
        for n in range(18)
    ]
    result = make_data(*items, most=10)
    counts = Counter(row.cluster for row in result.rows)
    assert set(counts.values()) == {4}
    assert len(result.rows) == 8
    assert result.notes == ("8 of 36 captions with their edits are used",)
    turned = make_data(*items[::-1], most=10)
    assert {row.id for row in turned.rows} == {row.id for row in result.rows}


def test_the_world_has_all_kinds_of_material() -> None:
    result = world_probe_data()
    assert result.is_world
    assert {pair.relation for pair in result.pairs} >= {"left/right", "on/under", "front/behind"}
    assert all(pair.captions for pair in result.pairs)
    assert all(row.negative and row.negative != row.caption for row in result.rows)
    assert len({row.id for row in result.rows}) == len(result.rows)
    assert len({pair.id for pair in result.pairs}) == len(result.pairs)
    assert result.gallery is not None
    assert len(result.gallery.images) == 400
    for data in (None, "world"):
        assert len(find_probe_data(data).rows) == len(result.rows)


def test_a_part_of_the_world_is_the_world_too() -> None:
    result = find_probe_data("world-pairs")
    assert result.is_world
    assert result.about == "world-pairs-a, world-pairs-b"
    assert len(result.pairs) == 400


def write_winoground(root: Path, count: int, *, without: int = 0) -> Path:
    from PIL import Image

    folder = root / "winoground" / "images"
    folder.mkdir(parents=True)
    lines = []
    for n in range(count):
        images = [f"ex_{n}_img_{i}" for i in (0, 1)]
        for i, name in enumerate(images if n >= without else ()):
            Image.new("RGB", (4, 4), (n, i, 0)).save(folder / f"{name}.png")
        captions = {"caption_0": f"cup on plate {n}", "caption_1": f"plate on cup {n}"}
        shown = {"image_0": images[0], "image_1": images[1]}
        tags = {"tag": "Noun", "collapsed_tag": "Object"}
        lines.append(json.dumps({"id": n, **shown, **captions, **tags}))
    (root / "winoground" / "examples.jsonl").write_text("\n".join(lines))
    return root


def test_a_benchmark_is_read_from_its_folder(tmp_path: Path) -> None:
    root = write_winoground(tmp_path, 3)
    result = find_probe_data("winoground", root=root)
    assert result.about == "winoground"
    assert not result.is_world
    assert result.pairs[0].captions == ("cup on plate 0", "plate on cup 0")
    assert {pair.relation for pair in result.pairs} == {"Object"}
    assert len(result.rows) == 6
    assert result.gallery is not None
    assert len(result.gallery.images) == 6


def test_items_without_images_are_left_out_and_told(tmp_path: Path) -> None:
    root, progress = write_winoground(tmp_path, 3, without=1), Silent()
    result = benchmark_data(["winoground"], root, progress=progress)
    assert len(result.pairs) == 2
    assert result.notes == (
        "winoground: 1 of 3 items are left out, since 2 images are missing; the numbers are not "
        "those of the whole benchmark",
    )
    assert progress.said == list(result.notes)


def test_benchmarks_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_winoground(tmp_path, 2, without=2)
    with pytest.raises(UnbagError, match="none of the 2 items of 'winoground'") as error:
        find_probe_data("winoground", root=root)
    assert "unbag data check winoground" in error.value.hint
    with pytest.raises(UnbagError, match=r"there is no folder .*winoground[\s\S]*--data"):
        find_probe_data("winoground", root=tmp_path / "winoground")
    with pytest.raises(UnbagError, match=r"'winoground' is read from files[\s\S]*--data"):
        find_probe_data("winoground")
    # A folder of the user has priority over a family of benchmarks.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnbagError, match="is read from files"):
        find_probe_data("whatsup")
    (tmp_path / "whatsup").mkdir()
    with pytest.raises(UnbagError, match="the folder whatsup holds neither images nor captions"):
        find_probe_data("whatsup")


def test_captions_that_lie_beside_images_are_named(tmp_path: Path) -> None:
    from PIL import Image

    for n in range(2):
        Image.new("RGB", (4, 4), (n, 0, 0)).save(tmp_path / f"{n}.png")
    (tmp_path / "captions.jsonl").write_text('{"image": "0.png", "caption": "a star"}\n')
    assert find_probe_data(str(tmp_path)).notes == (
        "a folder is read without captions, so only the image encoder is probed: "
        f"name {tmp_path / 'captions.jsonl'} if it holds captions",
    )


@pytest.mark.parametrize(
    ("name", "text", "result"),
    [
        ("a.jsonl", '{"file": "0.png", "words": "a star"}', "line 1 has neither caption nor"),
        ("a.jsonl", "a star", "line 1 is not JSON"),
        ("a.csv", "file,words\n0.png,a star", "has no column of captions"),
        ("a.jsonl", '{"file": "0.png", "caption": "a star"}', "has no image"),
    ],
)
def test_captions_of_which_no_line_can_be_read_say_why(
    tmp_path: Path, name: str, text: str, result: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n")
    with pytest.raises(UnbagError, match=result) as error:
        find_probe_data(str(tmp_path / name))
    # No option that a diagnosis does not have.
    assert "--" not in f"{error.value.expected} {error.value.hint}"
    assert error.value.hint.startswith(("fix it; ", "rename it: "))


IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))


CLASSES = Benchmark(
    "classes",
    "",
    lambda root: [Item("1", (IMAGE,), (Ensemble("cat", ("a cat",)),), np.array([[True]]))],
    (Choice(),),
    "accuracy",
)


def test_a_benchmark_that_probes_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.world.benchmarks.SWAP", CLASSES)
    with pytest.raises(UnbagError, match=r"classes: nothing that probes can use; .* 1 of 1 items"):
        find_probe_data("unbag.world.benchmarks:SWAP")


class Placed:
    """A space in which vectors are given by the names of images."""

    name, fingerprint, layers, tokens = "placed", "placed-1", None, None

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.damaged: dict[str, str] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([self.vectors[image.name] for image in images], dtype=float)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        raise NotImplementedError


def shaded(name: str, shade: int) -> PixelImage:
    return PixelImage(np.full((2, 2, 3), shade, dtype=np.uint8), name=name)


def test_the_nearest_images_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    nan = float("nan")
    space = Placed({"a": (1, 0), "b": (0.8, 0.6), "c": (0, 1), "torn": (nan, nan), "d": (-1, 0)})
    every = [shaded(name, n) for n, name in enumerate(space.vectors)]
    copy = replace(every[0], name="a again")
    for block in (1, 2, 512):
        monkeypatch.setattr(probe_data, "BLOCK", block)
        result = near_pairs(space, [*every, copy], max_pairs=3)
        # Cosines: a-b .8, b-c .6, a-c 0 and c-d 0, b-d -.8, a-d -1.
        assert [one.id for one in result] == ["a/b", "b/c", "a/c"]
        assert len(near_pairs(space, every, max_pairs=100)) == 6
    assert {one.relation for one in result} == {"nearest images"}
    assert result[0].captions is None
    assert near_pairs(space, every[:1]) == ()
