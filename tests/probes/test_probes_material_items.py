"""ProbeData from benchmarks: rows, pairs and galleries of items worked by hand, and small files."""

from collections import Counter
from typing import Any

import numpy as np

from unbag.data import PixelImage
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Pairs
from unbag.probes.base import ProbeData
from unbag.probes.data import (
    find_probe_data,
    gallery_from,
    gallery_item,
    items_data,
    world_probe_data,
)
from unbag.types import Aggregate, Benchmark, Ensemble, Item, Question, Sparse

EYE = np.eye(2, dtype=np.bool_)


def image(n: int) -> PixelImage:
    return PixelImage(np.full((2, 2, 3), n, dtype=np.uint8), name=f"image {n}")


def bench(*metrics: Any, **more: Any) -> Benchmark:
    return Benchmark("toy", "", lambda root: (), metrics or (Choice(),), "accuracy", **more)


def material(
    *items: Item, benchmark: Benchmark | None = None, most: int | None = None
) -> ProbeData:
    benchmark = benchmark or bench()
    return items_data([benchmark], {"toy": items}, about="toy", max_rows=most)


def test_each_false_caption_is_a_row() -> None:
    item = Item(
        "one",
        (image(0),),
        ("a cat", "a dog", "a feline", "a cow"),
        np.array([[True, False, True, False]]),
        kinds=("original", "noun", "synonym", "other noun"),
        tags={"topic": "pets"},
    )
    found = material(item)
    assert [(row.caption, row.negative, row.positive, row.kind) for row in found.rows] == [
        ("a cat", "a dog", "a feline", "noun"),
        ("a cat", "a cow", "a feline", "other noun"),
    ]
    assert [row.id for row in found.rows] == ["toy/one/0/1", "toy/one/0/3"]
    assert {row.cluster for row in found.rows} == {"toy/one"}
    assert found.rows[0].tags == {"topic": "pets", "benchmark": "toy"}
    assert found.pairs == ()
    # One image is no gallery.
    assert found.gallery is None


def test_what_is_true_only_has_no_negative_and_what_is_false_only_is_no_row() -> None:
    true = Item("true", (image(0),), ("a cat",), np.array([[True]]))
    false = Item("false", (image(1),), ("a dog",), np.array([[False]]))
    (row,) = material(true, false).rows
    assert (row.caption, row.negative, row.positive) == ("a cat", None, None)


def test_a_false_caption_that_is_the_true_one_is_none() -> None:
    truth = np.array([[True, False, False, True]])
    item = Item("one", (image(0),), ("a cat", "a cat", "a dog", "a cat"), truth)
    (row,) = material(item).rows
    assert (row.caption, row.negative, row.positive) == ("a cat", "a dog", None)


def test_two_images_are_a_pair() -> None:
    tags = {"relation": "on/under"}
    item = Item("two", (image(0), image(1)), ("on", "under"), EYE, tags=tags, group="g")
    found = material(item)
    (pair,) = found.pairs
    assert (pair.first, pair.second) == item.images
    assert pair.captions == ("on", "under")
    assert (pair.relation, pair.cluster) == ("on/under", "toy/g")
    assert [(row.caption, row.negative) for row in found.rows] == [("on", "under"), ("under", "on")]
    assert found.gallery is not None
    assert found.gallery.captions == ("on", "under")


def test_captions_must_be_true_of_one_image_only() -> None:
    truth = np.array([[True, True], [False, True]])
    (pair,) = material(Item("two", (image(0), image(1)), ("on", "near"), truth)).pairs
    assert pair.captions is None
    one_caption = Item("svo", (image(0), image(1)), ("a dog runs",), np.array([[True], [False]]))
    (pair,) = material(one_caption).pairs
    assert pair.captions is None


def test_pairs_of_four_are_those_of_the_metric() -> None:
    four = Item("four", tuple(map(image, range(4))), tuple("lrou"), np.eye(4, dtype=np.bool_))
    named = bench(Pairs({"left/right": (0, 1), "on/under": (3, 2), "far": (0, 7)}))
    found = [(p.relation, p.captions) for p in material(four, benchmark=named).pairs]
    assert found == [("left/right", ("l", "r")), ("on/under", ("u", "o"))]
    plain = material(four, benchmark=bench(Pairs()))
    assert [(p.relation, p.captions) for p in plain.pairs] == [
        ("toy", tuple("lr")),
        ("toy", tuple("ou")),
    ]
    assert len({pair.id for pair in plain.pairs}) == 2


def test_the_same_image_twice_is_no_pair() -> None:
    same = image(0)
    assert material(Item("two", (same, same), ("on", "under"), EYE)).pairs == ()


def asked(name: str, n: int, text: str, true: int, group: str = "g") -> Item:
    truth = np.array([[true == 0, true == 1]])
    return Item(name, (image(n),), ("Yes", "No"), truth, question=Question(text), group=group)


def test_a_question_that_tells_two_images_apart_makes_a_pair() -> None:
    found = material(
        asked("1", 0, "Up?", 0), asked("2", 1, "Up?", 1),
        # Another question about the same two, and one with the same answer for both.
        asked("3", 0, "Down?", 1), asked("4", 1, "Down?", 0),
        asked("5", 2, "Red?", 0, "h"), asked("6", 3, "Red?", 0, "h"),
    )  # fmt: skip
    (pair,) = found.pairs
    assert (pair.first.name, pair.second.name) == ("image 0", "image 1")
    assert pair.captions is None
    assert found.rows == ()
    assert found.gallery is None
    assert found.notes == ("toy: 6 of 6 items are questions, whose answers are no captions",)


def test_grouped_captions_of_two_images_are_those_of_the_pair() -> None:
    items = [
        Item(f"{n}", (image(n),), ("open", "shut"), EYE[n : n + 1], group="door") for n in (0, 1)
    ]
    (pair,) = material(*items).pairs
    assert pair.captions == ("open", "shut")
    assert pair.id == "toy/0/1"


def test_ratings_classes_and_long_lists_are_said_to_be_left_out() -> None:
    rated = Item("rated", (image(0),), ("a cat",), np.array([[0.7]]))
    classes = Item("class", (image(1),), (Ensemble("cat", ("a cat",)),), np.array([[True]]))
    many = Item("many", (image(2),), tuple("abcdefghijklmnopq"), np.zeros((1, 17), dtype=np.bool_))
    found = material(rated, classes, many)
    assert (found.rows, found.pairs, found.gallery) == ((), (), None)
    assert found.notes == ("toy: 3 of 3 items have ratings, classes or more than 16 captions",)


def search(name: str, count: int, **tags: str) -> Item:
    """Two captions an image."""
    place_T = np.arange(2 * count)
    return Item(
        name,
        tuple(map(image, range(count))),
        tuple(f"{name} {n}" for n in range(2 * count)),
        Sparse((count, 2 * count), place_T // 2, place_T),
        tags=tags,
    )


def test_the_gallery_is_the_one_with_its_words_in_order() -> None:
    benchmark = bench(aggregates=(Aggregate(only=(("order", "kept"),)),))
    items = (search("shuffled", 3, order="shuffled"), search("kept", 3, order="kept"))
    gallery = material(*items, benchmark=benchmark).gallery
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
    assert gallery_item(Item("one", (image(0),), ("a",), np.array([[True]]))) is None


def test_a_caption_of_two_images_is_true_of_both() -> None:
    gallery = gallery_from([(image(0), "a cat"), (image(1), "a cat"), (image(0), "a dog")])
    assert gallery is not None
    assert gallery.captions == ("a cat",)
    assert (gallery.image_T.tolist(), gallery.caption_T.tolist()) == ([0, 1], [0, 0])


def test_a_part_keeps_whole_clusters() -> None:
    items = [
        Item(
            f"{n}",
            (image(n),),
            ("a", "b", "c"),
            np.array([[True, False, False]]),
            group=f"{n % 9}",
        )
        for n in range(18)
    ]
    found = material(*items, most=10)
    counts = Counter(row.cluster for row in found.rows)
    assert set(counts.values()) == {4}
    assert len(found.rows) == 8
    assert found.notes == ("8 of 36 captions with their edits are used",)
    turned = material(*items[::-1], most=10)
    assert {row.id for row in turned.rows} == {row.id for row in found.rows}


def test_the_world_has_all_kinds_of_material() -> None:
    found = world_probe_data()
    assert found.is_world
    assert {pair.relation for pair in found.pairs} >= {"left/right", "on/under", "front/behind"}
    assert all(pair.captions for pair in found.pairs)
    assert all(row.negative and row.negative != row.caption for row in found.rows)
    assert len({row.id for row in found.rows}) == len(found.rows)
    assert len({pair.id for pair in found.pairs}) == len(found.pairs)
    assert found.gallery is not None
    assert len(found.gallery.images) == 400
    for data in (None, "world"):
        assert len(find_probe_data(data).rows) == len(found.rows)
