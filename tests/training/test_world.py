"""Batches of the world: they depend on the step alone, are checked by `holds`, and can be cut."""

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from PIL.Image import Image
from torch import Tensor

from unbag.edits.kinds import GROUPS
from unbag.errors import UnbagError
from unbag.registry import names
from unbag.training.data.batch import Batch, Share
from unbag.training.data.world import PRESETS, SAME_AS, DrawnPixels, WorldBatches, columns_of
from unbag.training.encoders.adapters import TinyReads
from unbag.training.recipes import Recipe, Slot, ce_clip_fixed, clip_ft, hard_positive, neg_clip
from unbag.world.benchmarks import SEED as TEST_SEED
from unbag.world.edits import NEGATIVES, POSITIVES
from unbag.world.grammar import And, Rel, holds, objects_of, parse, words
from unbag.world.rendering import draw
from unbag.world.stream import batch as stream
from unbag.world.stream import split_seed
from unbag.world.vocabulary import DEFAULT, UNIT, withheld_combinations

SIZE = 24
RECIPE = replace(
    clip_ft(),
    batch_size=SIZE,
    epochs=2,
    negatives=(
        Slot("swap", ("swap_attributes", "swap_arguments")),
        Slot("relation", ("replace_relation",)),
        Slot("word", ("replace_colour", "replace_shape")),
    ),
    positives=(Slot("positive", ("conjunct_swap", "inverse", "synonym_shape")),),
)
READS = TinyReads(side=64, words=words(), context=32)


def make(recipe: Recipe = RECIPE, **changes: object) -> WorldBatches:
    made = WorldBatches(recipe, READS, per_epoch=3)
    return replace(made, **changes)  # type: ignore[arg-type]


def texts_of(batch: Batch) -> list[list[int] | None]:
    """Tokens of captions, negatives and positives of each image."""
    tokens: dict[int, list[int]] = {}
    for group in batch.groups:
        for row, token_L, end in zip(
            group.row_G.tolist(), group.inputs["token_NL"], group.inputs["end_N"], strict=True
        ):
            tokens[row] = token_L[: int(end) + 1].tolist()
    rows = torch.cat([batch.caption_B[:, None], batch.negative_BK, batch.positive_BP], dim=1)
    return [None if row < 0 else tokens[row] for row in rows.flatten().tolist()]


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    statement, two = make(), make()
    two[4], two[0]
    assert texts_of(statement[1]) == texts_of(two[1])
    assert torch.equal(statement[1].pixels.to("cpu"), two[1].pixels.to("cpu"))
    assert texts_of(statement[1]) != texts_of(statement[2])
    other = make(seed=1)
    assert texts_of(statement[1]) != texts_of(other[1])
    assert len(statement) == 6
    with pytest.raises(IndexError):
        statement[6]


def test_shares_of_three_processes_make_the_whole() -> None:
    whole, thirds = make(), [make(share=Share(rank, 3)) for rank in range(3)]
    parts = [third[2] for third in thirds]
    assert [len(part) for part in parts] == [SIZE // 3] * 3
    assert list(chain(*(texts_of(p) for p in parts))) == texts_of(whole[2])
    assert torch.equal(torch.cat([p.pixels.to("cpu") for p in parts]), whole[2].pixels.to("cpu"))
    for name, code in whole[2].code.items():
        assert torch.equal(torch.cat([part.code[name] for part in parts]), code)


def test_slices_draw_the_pixels_of_the_whole_which_are_those_of_the_world() -> None:
    batches = make()
    pixels = batches[0].pixels
    assert isinstance(pixels, DrawnPixels)
    whole = pixels.to("cpu")
    assert torch.equal(torch.cat([pixels[:7].to("cpu"), pixels[7:].to("cpu")]), whole)
    samples, _ = batches.scenes_and_texts(0)
    drawn = np.stack([draw(sample.scene) for sample in samples])
    assert np.array_equal(whole.numpy().transpose(0, 2, 3, 1), drawn)


def test_edits_are_what_they_claim_in_their_own_scene() -> None:
    batches = make(world=UNIT)
    counts = {"negatives": 0, "positives": 0, "none": 0}
    for step in range(6):
        for sample, texts in zip(*batches.scenes_and_texts(step), strict=True):
            assert texts.caption.text == sample.caption
            assert holds(texts.caption.ast, sample.scene)
            for negative in texts.negatives:
                counts["none" if negative is None else "negatives"] += 1
                assert negative is None or not holds(negative.ast, sample.scene)
            for positive in texts.positives:
                counts["positives"] += positive is not None
                assert positive is None or holds(positive.ast, sample.scene)
            # A relation has the two edits of relations; nothing else has them.
            is_relation = isinstance(texts.caption.ast, Rel)
            assert (texts.negatives[1] is not None) == is_relation
            assert not isinstance(texts.caption.ast, Rel) or texts.negatives[0] is not None
    assert min(counts.values()) > 20


def test_missing_edits_have_no_string() -> None:
    batches = make()
    batch, (_, texts) = batches[0], batches.scenes_and_texts(0)
    missing = [[statement is None for statement in row.negatives] for row in texts]
    assert (batch.negative_BK < 0).tolist() == missing
    assert (batch.positive_BP[:, 0] < 0).tolist() == [row.positives[0] is None for row in texts]
    text = {s.text for row in texts for s in (row.caption, *row.negatives, *row.positives) if s}
    assert len(batch.place_U) == len(text)


def test_the_truth_of_a_gathered_batch_is_that_of_holds_in_every_cell() -> None:
    # The small world, where captions often fit another image.
    parts = [make(world=UNIT, share=Share(rank, 2)) for rank in range(2)]
    samples, texts = (
        list(chain(*both)) for both in zip(*(p.scenes_and_texts(3) for p in parts), strict=True)
    )
    codes = [part[3].code for part in parts]
    find_truth = parts[0].find_truth
    assert find_truth is not None
    truth = find_truth({name: torch.cat([c[name] for c in codes]) for name in codes[0]})
    assert truth.negative_true_BBK is not None
    count = 0
    for i, sample in enumerate(samples):
        for j, row in enumerate(texts):
            expected = i != j and holds(row.caption.ast, sample.scene)
            assert bool(truth.also_true_BB[i, j]) == expected
            count += expected
            for k, negative in enumerate(row.negatives):
                expected = negative is not None and holds(negative.ast, sample.scene)
                assert bool(truth.negative_true_BBK[i, j, k]) == expected
    assert count
    assert truth.negative_true_BBK.any()
    assert make(replace(RECIPE, masks_equal=False)).find_truth is None
    # Without negatives there is a truth of the captions.
    bare = make(replace(RECIPE, negatives=(), positives=()))
    assert bare[0].negative_BK.shape == (SIZE, 0)
    assert bare.find_truth is not None
    assert bare.find_truth(bare[0].code).negative_true_BBK is None


@pytest.mark.parametrize("preset", PRESETS)
def test_withheld_combinations_are_never_shown_nor_named(preset: str) -> None:
    withheld = withheld_combinations(DEFAULT)
    batches = make(preset=preset)
    for step in range(3):
        for sample, texts in zip(*batches.scenes_and_texts(step), strict=True):
            assert withheld.isdisjoint((t.shape, t.colour) for t in sample.scene.things)
            for statement in (texts.caption, *texts.negatives, *texts.positives):
                if statement is not None:
                    named = objects_of(statement.ast)
                    assert withheld.isdisjoint((o.shape, o.colour) for o in named)


def test_a_third_of_the_captions_state_a_relation() -> None:
    seed = split_seed("train", 0)
    for knobs in PRESETS.values():
        samples = stream(DEFAULT, knobs, seed=seed, step=0, size=1_500)
        assert 0.29 < np.mean([isinstance(s.ast, Rel) for s in samples]) < 0.37


def test_ordered_captions_name_things_in_one_order_and_positives_alone_in_the_other() -> None:
    place = {shape: number for number, shape in enumerate(DEFAULT.shapes)}

    def is_ordered(text: str) -> bool | None:
        match parse(text):
            case And(first, second) | Rel(first, _, second) if first.shape and second.shape:
                return place[first.shape] < place[second.shape]
        return None

    batches = make(preset="ordered")
    for step in range(3):
        for row in batches.scenes_and_texts(step)[1]:
            assert is_ordered(row.caption.text) is not False
    turned = make(replace(RECIPE, positives=(Slot("p", ("inverse", "conjunct_swap")),)))
    turned = replace(turned, preset="ordered")
    tokens = [row.positives[0] for row in turned.scenes_and_texts(0)[1]]
    assert {is_ordered(statement.text) for statement in tokens if statement} <= {False, None}
    assert any(is_ordered(statement.text) is False for statement in tokens if statement)


def test_scenes_are_neither_those_of_tests_nor_those_of_pretraining() -> None:
    batches = make()
    ours = {sample.scene for sample in batches.scenes_and_texts(0)[0]}
    knobs = PRESETS["default"]
    for seed in (split_seed("train", 0), split_seed("val", 0), TEST_SEED):
        others = stream(DEFAULT, knobs, seed=seed, step=0, size=SIZE)
        assert ours.isdisjoint(sample.scene for sample in others)
    assert len(ours | {s.scene for s in batches.scenes_and_texts(1)[0]}) == 2 * SIZE


@pytest.mark.parametrize("recipe", [neg_clip(hard_images=False), hard_positive(), ce_clip_fixed()])
def test_recipes_of_papers_find_their_edits_on_the_world(recipe: Recipe) -> None:
    batches = make(replace(recipe, batch_size=16))
    batch = batches[0]
    assert batch.negative_BK.shape == (16, len(recipe.negatives))
    assert (batch.negative_BK >= 0).any()
    assert f"preset default: {len(batches)} steps of 16" in batches.about
    if recipe.name == "ce_clip_fixed":
        assert (batch.negative_BK[:, -1] < 0).all()
        assert "action: none on the world" in batches.about


def test_every_kind_and_group_of_real_edits_has_an_entry() -> None:
    for kind in (*names("edit"), *GROUPS):
        columns_of((Slot("one", (kind, "negate")),), (Slot("two", (kind, "digit")),))
    for tokens in SAME_AS.values():
        assert set(tokens) <= {*NEGATIVES, *POSITIVES}


def test_another_fingerprint_for_whatever_changes_a_batch() -> None:
    changed = [
        make(),
        make(seed=1),
        make(preset="ordered"),
        make(world=UNIT),
        make(replace(RECIPE, batch_size=2 * SIZE)),
        make(replace(RECIPE, positives=())),
        make(per_epoch=4),
    ]
    assert len({statement.fingerprint for statement in changed}) == len(changed)
    assert make(share=Share(1, 2)).fingerprint == make().fingerprint


class _Floats(TinyReads):
    """A preparation of another model."""

    def prepare(self, image: Image) -> Tensor:
        return super().prepare(image).float() / 2


def test_a_model_with_its_own_preparation_gets_prepared_images() -> None:
    batches = make(reads=_Floats(side=32, words=words(), context=32))
    pixels = batches[0].pixels
    assert isinstance(pixels, Tensor)
    assert pixels.shape == (SIZE, 3, 32, 32)
    assert pixels.dtype == torch.float32


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        (RECIPE, {"preset": "sideways"}, "preset of the world 'sideways'"),
        (RECIPE, {"seed": -1}, "seed -1"),
        (RECIPE, {"per_epoch": 0}, "0 steps in an epoch"),
        (RECIPE, {"share": Share(0, 5)}, "cannot be shared by 5 processes"),
        (neg_clip(), {}, "have no neighbours"),
        (replace(RECIPE, negatives=(Slot("n", ("fly",)),)), {}, "edit on the world 'fly'"),
        (replace(RECIPE, negatives=(Slot("n", ("replace_action", "digit")),)), {}, "no negative"),
        (replace(RECIPE, positives=(Slot("n", ("passive",)),)), {}, "no positive of this recipe"),
    ],
)  # fmt: skip
def test_what_the_world_cannot_make(recipe: Recipe, changes: Any, message: str) -> None:
    with pytest.raises(UnbagError, match=message):
        make(recipe, **changes)
