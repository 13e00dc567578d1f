"""Choice of rows and galleries, clusters and swaps."""

from __future__ import annotations

import numpy as np

from unbag.probes.base import Options, Row
from unbag.probes.data import world_probe_data
from unbag.probes.sampling import (
    choose_gallery,
    choose_rows,
    deal,
    first_images,
    is_swap,
    part_note,
    truth_of,
    unite,
)

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
    result = unite(rows)
    assert [row.cluster for row in result] == ["one", "one", "", "one", "one", "four"]
    assert [row.id for row in result] == [row.id for row in rows]
    assert result[2] is rows[2]


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


def test_what_is_left_out_is_told() -> None:
    assert part_note(5, 5, "rows") == ()
    assert part_note(40, 6920, "rows") == (
        "40 of 6,920 rows are used, chosen by hash; --full uses all.",
    )


GROUPS = 12


EACH = 20


NAMES = tuple(f"pair {at}" for at in range(GROUPS) for _ in range(EACH))


def test_folds_do_not_depend_on_the_order_of_units() -> None:
    fold_N = deal(NAMES, 4, salt="1")
    assert np.array_equal(deal(NAMES[::-1], 4, salt="1"), fold_N[::-1])
    assert np.bincount(fold_N).tolist() == [60] * 4
    assert not np.array_equal(deal(NAMES, 4, salt="2"), fold_N)
