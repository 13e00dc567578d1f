"""What a quick probe looks at, what edits are, and units that are resampled together."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.probes.base import Options, Row, statistic
from unbag.probes.data import world_probe_data
from unbag.probes.sampling import (
    choose_gallery,
    choose_rows,
    first_images,
    is_swap,
    part_note,
    truth_of,
    unite,
)
from unbag.probes.sensitivity import OTHER_WORDS, SAME_WORDS, drop_reversed, edit_type, words_changed
from unbag.types import IntArray

from .named_images import Named


def test_rows_and_galleries_are_chosen_whatever_their_order() -> None:
    rows = [
        Row(f"{i}", Named(f"{i}"), "a b", "c", kind="k", cluster=f"{i // 2}") for i in range(99)
    ]
    chosen = choose_rows(rows, Options())
    assert len(chosen) == 40
    assert {row.id for row in choose_rows(rows[::-1], Options())} == {row.id for row in chosen}
    assert choose_rows(rows, Options(is_full=True)) == rows
    assert len({row.cluster for row in chosen}) in (20, 21)


def test_clusters_that_share_an_image_are_one() -> None:
    given = [("p", "one"), ("q", "two"), ("r", ""), ("q", "three"), ("p", "three"), ("s", "four")]
    rows = [Row(f"{i}", Named(p), "a", "b", cluster=c) for i, (p, c) in enumerate(given)]
    found = unite(rows)
    assert [row.cluster for row in found] == ["one", "one", "", "one", "one", "four"]
    assert [row.id for row in found] == [row.id for row in rows]
    assert found[2] is rows[2]


def test_no_image_of_the_world_is_in_two_clusters() -> None:
    """Two benchmarks of the world show the same scenes: each scene must count once."""
    every = world_probe_data().rows
    told = {(row.image.key, row.cluster) for row in every}
    assert len(told) > len({key for key, _ in told})
    chosen = choose_rows(every, Options(is_full=True))
    assert len(chosen) == len(every)
    clusters = {(row.image.key, row.cluster) for row in chosen}
    assert len(clusters) == len({key for key, _ in clusters})


def test_a_smaller_gallery_keeps_what_belongs_together() -> None:
    whole_gallery = world_probe_data().gallery
    assert whole_gallery is not None
    few = choose_gallery(whole_gallery, 5)
    assert len(few.images) == 5
    assert (first_images(few) >= 0).all()
    whole = {
        (whole_gallery.images[p].key, whole_gallery.captions[c])
        for p, c in zip(whole_gallery.image_T, whole_gallery.caption_T, strict=True)
    }
    kept = {
        (few.images[p].key, few.captions[c])
        for p, c in zip(few.image_T, few.caption_T, strict=True)
    }
    names = {image.key for image in few.images}
    assert kept == {pair for pair in whole if pair[0] in names}
    assert truth_of(few).shape == (5, len(few.captions))


def test_swaps_are_other_sentences_of_the_same_words() -> None:
    def row(negative: str, kind: str = "swap") -> Row:
        return Row("r", Named("p"), "A cup on a star", negative, kind=kind)

    assert is_swap(row("a star on a cup"))
    assert not is_swap(row("a star under a cup"))
    assert not is_swap(row("a cup on a star"))
    assert not is_swap(row("star a on cup a", kind="trigrams"))


def test_rows_that_turn_a_positive_round_count_once() -> None:
    first = Row("1", Named("p"), "a b", "n", "b a")
    turned = Row("2", Named("p"), "b a", "n", "a b")
    elsewhere = Row("3", Named("q"), "b a", "n", "a b")
    alone = Row("4", Named("p"), "b a", "n")
    assert drop_reversed([first, turned, elsewhere, alone, first]) == [first, elsewhere, alone, first]


def test_edits_of_one_type_are_matched() -> None:
    def kind(negative: str | None, positive: str | None) -> str:
        return edit_type(Row("1", Named("p"), "a cup on a star", negative, positive))

    assert kind("a star on a cup", "on a star a cup") == SAME_WORDS
    assert kind("a cup on a bell", "a mug on a star") == OTHER_WORDS
    assert kind("a star on a cup", "a mug on a star") == ""
    assert kind("a star on a cup", None) == SAME_WORDS


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("a red star", "a red star", 0),
        ("A red star.", "a red star.", 0),
        ("a red star", "a blue star", 1),
        ("a red star", "a star", 1),
        ("a cup on a star", "a star on a cup", 2),
        ("a red star and a blue cup", "a blue cup and a red star", 4),
        ("", "two words", 2),
    ],
)
def test_words_changed(first: str, second: str, distance: int) -> None:
    assert words_changed(first, second) == words_changed(second, first) == distance


def test_clusters_are_resampled_whole() -> None:
    value_N = np.repeat(np.random.default_rng(0).normal(size=50), 4)
    clusters = [f"{i // 4}" for i in range(200)]

    def middle(place_M: IntArray) -> float:
        assert (np.bincount(place_M, minlength=200).reshape(50, 4).std(axis=1) == 0).all()
        return float(value_N[place_M].mean())

    found = statistic(
        "m", middle, 200, about="", options=Options(resamples=500), clusters=clusters
    ).estimate
    assert found.interval == "clustered bootstrap"
    assert found.n == 200
    half = 1.96 * value_N.std() / np.sqrt(50)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.15)


def test_what_is_left_out_is_told() -> None:
    assert part_note(5, 5, "rows") == ()
    assert part_note(40, 6920, "rows") == (
        "40 of 6,920 rows are looked at, chosen by hash; --full takes all.",
    )
