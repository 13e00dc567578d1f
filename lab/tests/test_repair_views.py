"""What arms are shown: the same batches, one family of edits alone, other positives; and leaks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.models.tiny import read as read_tiny
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import TinyTrainable
from unbag.training.encoders.base import Reads
from unbag.world.grammar import read
from unbag_lab.experiments.repair import leak_of
from unbag_lab.experiments.repair_training import (
    EXPERIMENTS,
    VARIANTS,
    RepairBatch,
    RepairBatches,
    make_recipe,
    rephrase,
    view_of,
    views_on_device,
)

ALL = frozenset(view_of(arm) for arm in VARIANTS)


@pytest.fixture(scope="module")
def reads(base: Path) -> Reads:
    return TinyTrainable(read_tiny(base, name="small"), device="cpu").reads


def batches(reads: Reads, experiment: str = "default", size: int = 24) -> RepairBatches:
    recipe = make_recipe("clip_ft", EXPERIMENTS[experiment], batch_size=size)
    preset = EXPERIMENTS[experiment].preset
    return RepairBatches(recipe, reads, seed=3, preset=preset, per_epoch=40, views=ALL)


def test_the_first_arms_see_what_they_always_saw(reads: Reads) -> None:
    made = batches(reads)
    before = WorldBatches(made.recipe, reads, seed=3, per_epoch=40)[5]
    now = made[5]
    assert isinstance(now, RepairBatch)
    assert set(ALL) == {"all", "swap", "replace", "rephrased"}
    assert torch.equal(before.pixels.to("cpu"), now.pixels.to("cpu"))
    for name in ("caption_B", "negative_BK", "positive_BP", "place_U"):
        assert torch.equal(getattr(before, name), getattr(now, name))
    for one, two in zip(before.groups, now.groups, strict=True):
        assert torch.equal(one.row_G, two.row_G)
        assert all(torch.equal(one.inputs[key], two.inputs[key]) for key in one.inputs)


def test_families_are_parts_of_the_same_edits(reads: Reads) -> None:
    made = batches(reads)
    _, told = made.scenes_and_texts(0)
    views = next(views_on_device(made, first=0, workers=0, device="cpu"))
    whole, swap, replace = (views[name] for name in ("all", "swap", "replace"))
    for edits in ("negative_BK", "positive_BP"):
        every, some, others = (getattr(view, edits) for view in (whole, swap, replace))
        assert not ((some >= 0) & (others >= 0)).any()
        assert torch.equal(torch.maximum(some, others), every)
    assert (swap.negative_BK[:, 0] == whole.negative_BK[:, 0]).all()
    assert (swap.negative_BK[:, 1:] == -1).all()
    turned = [one.positives[0] is not None and one.positives[0].ast != one.caption.ast
              for one in told]  # fmt: skip
    assert (swap.positive_BP[:, 0] >= 0).tolist() == turned
    assert any(turned)
    assert swap.pixels is whole.pixels


def test_other_positives_stand_beside_the_same_captions_and_negatives(reads: Reads) -> None:
    made = batches(reads)
    now = made[0]
    assert isinstance(now, RepairBatch)
    assert now.rephrased is not None
    assert now.rephrased.pixels is now.pixels
    assert torch.equal(now.rephrased.negative_BK, now.negative_BK)
    assert (now.rephrased.positive_BP >= 0).all()
    views = next(views_on_device(made, first=0, workers=0, device="cpu"))
    assert views["rephrased"].code is views["all"].code


@pytest.mark.parametrize(
    ("said", "forms"),
    [
        ("a star left of a cup", {"the star left of the cup", "a star to the left of a cup"}),
        (
            "a star and a cup",
            {"the star and the cup", "a star with a cup", "there is a star and there is a cup"},
        ),
        ("two cups", {"2 cups"}),
    ],
)
def test_a_paraphrase_has_the_same_words_for_things(said: str, forms: set[str]) -> None:
    found = {rephrase(read(said), np.random.default_rng(seed)) for seed in range(40)}
    assert found == forms
    assert all(text is not None and read(text).ast == read(said).ast for text in found)


def test_a_fixed_naming_order_can_be_read_and_a_random_one_cannot(reads: Reads) -> None:
    leaks = leak_of(batches(reads, "ordered", 100), steps=6)
    none = leak_of(batches(reads, "default", 100), steps=6)
    assert set(leaks) == {"swap", "relation", "attribute", "object", "all", "turned", "positive"}
    assert leaks["turned"] > 0.65
    assert 0.35 < none["turned"] < 0.65
    # The opposite relation leaves the order as it was.
    assert 0.35 < leaks["relation"] < 0.65
