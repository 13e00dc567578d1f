"""Pools: rows, negatives, also-true captions, held-out rows, scenes and pairs of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from unbag.data.pairs import Pair
from unbag.errors import UnbagError
from unbag.models.features import JOINT, POOLED_ONLY
from unbag.models.tiny import load
from unbag.readouts import data as pools
from unbag.readouts.data import (
    Pool,
    PoolRow,
    RowOrder,
    cast_finite,
    pool_of,
    rows_of,
    shuffled,
    world_pool,
    world_rows,
)
from unbag.readouts.decoder.lessons import DecoderFact
from unbag.readouts.decoder.training import DecoderData
from unbag.runs.progress import Silent
from unbag.training.data.batch import Truth
from unbag.training.data.world import WorldBatches
from unbag.training.recipes import hard_negative
from unbag.types import Edit, ImageSource, TokenFeatures
from unbag.world.grammar import holds
from unbag.world.rendering import SceneImage

from .core_encoder import Broken, halves, rows, small


def parts(count: int, width: int = 2) -> TokenFeatures:
    """Vector n is full of n."""
    vector_NW = torch.arange(float(count))[:, None].expand(count, width).clone()
    return TokenFeatures(vector_NW[:, None], torch.ones((count, 1)).bool(), vector_NW)


def same_colour(code: Mapping[str, Tensor]) -> Truth:
    colour_B = code["colour"]
    return Truth(colour_B[:, None] == colour_B)


def pool(*, group: int = 1) -> Pool:
    return Pool(
        image=parts(3),
        caption=parts(9),
        image_N=torch.tensor([0, 1, 2, 0]),
        caption_N=torch.tensor([5, 6, 7, 8]),
        negative_NK=torch.tensor([[0, 1], [2, -1], [-1, -1], [3, 4]]),
        code={"colour": torch.tensor([1, 2, 1, 1])},
        find_truth=same_colour,
        group=group,
    )


def firsts(given: TokenFeatures | None) -> list[float]:
    assert given is not None
    return given.pooled[:, 0].tolist()


def test_a_batch_holds_the_rows_asked_for() -> None:
    batch = pool().batch(torch.tensor([3, 1]), device="cpu")
    assert firsts(batch.image) == [0, 1]
    assert firsts(batch.caption) == [8, 6]
    assert firsts(batch.negative) == [3, 4, 2, 0]
    # The last of them stands where there is none.
    assert batch.negative_mask_BK.tolist() == [[True, True], [True, False]]


def test_rows_with_one_negative_alone() -> None:
    found = pool().only(1)
    assert len(found) == 2
    batch = found.batch(torch.tensor([0, 1]), device="cpu")
    assert firsts(batch.image) == [0, 0]
    assert firsts(batch.caption) == [5, 8]
    assert firsts(batch.negative) == [1, 4]
    assert batch.negative_mask_BK.tolist() == [[True], [True]]
    assert batch.also_true_BB.tolist() == [[False, True], [True, False]]
    assert len(pool().rows(1, 3).only(1)) == 0


def test_also_true_is_of_other_rows_only() -> None:
    batch = pool().batch(torch.tensor([0, 1, 2, 3]), device="cpu")
    assert batch.also_true_BB.long().tolist() == [
        [0, 0, 1, 1],
        [0, 0, 0, 0],
        [1, 0, 0, 1],
        [1, 0, 1, 0],
    ]


def test_without_negatives_there_are_none() -> None:
    batch = pool().batch(torch.tensor([0]), device="cpu", with_negatives=False)
    assert batch.negative is None
    assert batch.negative_mask_BK.shape == (1, 0)


def test_half_precision_is_kept_and_batches_are_whole() -> None:
    half = pool().to("cpu", torch.float16)
    assert half.image.vector_NLW.dtype == torch.float16
    assert half.nbytes == 12 * (2 * 2 * 2 + 1)
    assert half.batch(torch.tensor([0]), device="cpu").image.vector_NLW.dtype == torch.float32
    assert half.near("cpu").image.vector_NLW.dtype == torch.float16


def test_some_rows_share_images_and_strings() -> None:
    some = pool().rows(1, 3)
    assert len(some) == 2
    assert some.image.vector_NLW.shape == (3, 1, 2)
    batch = some.batch(torch.tensor([1, 0]), device="cpu")
    assert firsts(batch.caption) == [7, 6]
    assert not batch.also_true_BB.any()


def test_an_epoch_has_every_row_once_whatever_came_before() -> None:
    order = RowOrder(pool(), batch_size=2, seed=3)
    assert order.per_epoch == 2
    steps = [order(step).tolist() for step in range(6)]
    for epoch in range(3):
        assert sorted(steps[2 * epoch] + steps[2 * epoch + 1]) == [0, 1, 2, 3]
    assert RowOrder(pool(), batch_size=2, seed=3)(5).tolist() == steps[5]
    other = [RowOrder(pool(), batch_size=2, seed=4)(step).tolist() for step in range(6)]
    assert other != steps


def test_groups_stay_together_and_side_by_side() -> None:
    order = RowOrder(pool(group=2), batch_size=3, seed=0)
    # A batch of three has room for one group of two.
    assert order.per_epoch == 2
    assert sorted(order(step).tolist() for step in range(2)) == [[0, 1], [2, 3]]


def test_a_batch_larger_than_the_pool_is_the_pool() -> None:
    order = RowOrder(pool(), batch_size=100, seed=0)
    assert sorted(order(0).tolist()) == [0, 1, 2, 3]


def test_features_beyond_half_precision_are_told() -> None:
    large = parts(3)
    large.vector_NLW[1, 0, 0] = 1e6
    assert cast_finite(large, "cpu", torch.float32).vector_NLW.max() == 1e6
    with pytest.raises(UnbagError) as caught:
        cast_finite(large, "cpu", torch.float16)
    assert caught.value.message == "features of up to 1e+06"
    assert caught.value.expected == "finite values of at most 65504, the precision of pools"


def test_scenes_are_as_many_as_asked_and_the_same_with_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "STEP", 8)
    alone, helped = world_rows(20, seed=3), world_rows(20, seed=3, workers=2)
    assert [len(step.captions) for step in alone] == [8, 8, 4]
    for one, other in zip(alone, helped, strict=True):
        assert (one.captions, one.negatives) == (other.captions, other.negatives)
        assert torch.equal(one.pixels.to("cpu"), other.pixels.to("cpu"))
        assert all(torch.equal(one.code[name], other.code[name]) for name in one.code)
        assert not any(value.untyped_storage().is_shared() for value in other.code.values())
    assert len(alone[2].scenes) == len(alone[2].pixels) == len(alone[2].negatives) == 4
    assert world_rows(20, seed=4)[0].captions != alone[0].captions


def test_a_pool_of_scenes_holds_what_the_encoder_says_of_them() -> None:
    encoder, scenes = load("base"), world_rows(6)
    pool = world_pool(encoder, JOINT, scenes, dtype=torch.float32)
    (step,) = scenes
    assert len(pool) == 6
    pixels = torch.stack([encoder.prepare(SceneImage(one, "").open()) for one in step.scenes])
    wanted = JOINT.encode_images(encoder, pixels)
    assert torch.allclose(pool.image.vector_NLW, wanted.vector_NLW, atol=1e-5)
    # Encoders work in inference mode, and gradients may need what they are given.
    assert not any(one.vector_NLW.is_inference() for one in (pool.image, pool.caption))
    batch = pool.batch(torch.tensor([4]), device="cpu")
    caption = JOINT.encode_texts(encoder, [step.captions[4]])
    length = caption.vector_NLW.shape[1]
    assert torch.allclose(batch.caption.vector_NLW[:, :length], caption.vector_NLW, atol=1e-5)
    assert batch.negative_mask_BK[0].tolist() == [one is not None for one in step.negatives[4]]
    for at, text in enumerate(step.negatives[4]):
        if text is not None and batch.negative is not None:
            vector_1D = JOINT.encode_texts(encoder, [text]).pooled
            assert torch.allclose(batch.negative.pooled[at], vector_1D[0], atol=1e-5)


def test_captions_that_hold_in_another_scene_are_no_negatives_of_it() -> None:
    encoder, (step,) = load("base"), world_rows(48)
    pool = world_pool(encoder, POOLED_ONLY, [step])
    also_BB = pool.batch(torch.arange(48), device="cpu").also_true_BB
    negatives = pools.WORLD_NEGATIVES
    recipe = replace(hard_negative(), negatives=negatives, positives=(), epochs=1, batch_size=48)
    samples, texts = WorldBatches(recipe, pools._NoInputs(), per_epoch=1).scenes_and_texts(0)
    assert tuple(one.caption.text for one in texts) == step.captions
    for i, sample in enumerate(samples):
        wanted = [i != j and holds(one.caption.ast, sample.scene) for j, one in enumerate(texts)]
        assert also_BB[i].tolist() == wanted
    assert also_BB.any()
    assert world_pool(encoder, POOLED_ONLY, [step]).fingerprint == pool.fingerprint
    fewer = world_rows(48, slots=pools.WORLD_NEGATIVES[:1])
    assert fewer[0].captions == step.captions
    assert world_pool(encoder, POOLED_ONLY, fewer).fingerprint != pool.fingerprint


@dataclass(frozen=True, eq=False)
class Listed:
    """Pairs in memory; None cannot be read."""

    every: Sequence[Pair | None]
    about: str = "listed"
    fingerprint: str = "listed-1"
    has_edits: bool = True

    def __len__(self) -> int:
        return len(self.every)

    def __getitem__(self, place: int) -> Pair:
        found = self.every[place]
        if found is None:
            raise UnbagError(f"line {place} is broken")
        return found


def edit(kind: str, text: str, *, is_positive: bool = False) -> Edit:
    return Edit(text, kind, is_positive, (0, 1))


def pair(*edits: Edit, captions: tuple[str, ...] = ("red left of blue", "a red")) -> Pair:
    more = tuple(() for _ in captions[1:])
    return Pair("one", halves("red", "blue"), captions, (edits, *more))


def test_negatives_are_of_different_kinds_first_and_never_true() -> None:
    found = rows_of(
        Listed([
            pair(
                *[edit("swap", f"blue left of {n}") for n in "abcde"],
                edit("replace", "green left of blue"),
                edit("synonym", "crimson left of blue", is_positive=True),
                edit("shorten", "A red."),
            )
        ])
    )  # fmt: skip
    assert [row.caption for row in found] == ["red left of blue", "a red"]
    first, second = (row.negatives for row in found)
    assert len(first) == pools.NEGATIVES_PER_CAPTION
    assert "green left of blue" in first[:2]
    assert sum(str(text).startswith("blue left of") for text in first) == 3
    assert "crimson left of blue" not in first
    assert "A red." not in first
    assert second == (None,) * 4
    again = rows_of(Listed([pair(*reversed([edit("swap", f"blue left of {n}") for n in "abcde"]))]))
    once = rows_of(Listed([pair(*[edit("swap", f"blue left of {n}") for n in "abcde"])]))
    assert again[0].negatives == once[0].negatives


def test_lines_that_cannot_be_read_are_counted() -> None:
    progress = Silent()
    assert len(rows_of(Listed([None, pair(), None]), progress=progress)) == 2
    assert progress.said == ["2 pairs cannot be read and are left out: line 0 is broken"]
    with pytest.raises(UnbagError, match="no pair can be read: listed"):
        rows_of(Listed([None]))


def pooled(given: Sequence[PoolRow], progress: Silent | None = None) -> Pool:
    return pool_of(given, small(), JOINT, cache=None, progress=progress or Silent(), about="halves")


def test_captions_of_the_same_image_and_equal_captions_are_no_negatives() -> None:
    red, blue = halves("red", "blue"), halves("blue", "red")
    given = [
        PoolRow(red, "a red"),
        PoolRow(red, "red left of blue"),
        PoolRow(blue, "A red."),
        PoolRow(blue, "of"),
    ]
    batch = pooled(given).batch(torch.arange(4), device="cpu")
    assert batch.also_true_BB.long().tolist() == [
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 1],
        [0, 0, 1, 0],
    ]


def test_unreadable_images_are_left_out_and_said() -> None:
    progress = Silent()
    pool = pooled([PoolRow(Broken(), "red"), *rows()], progress)
    assert len(pool) == 12
    assert progress.said[0] == "1 image cannot be read and is left out"
    assert progress.said[1].startswith("  left out: torn.jpg: ")
    assert progress.said[1].endswith("the file ends too early")
    with pytest.raises(UnbagError, match="no image can be opened"):
        pooled([PoolRow(Broken(), "red")])
    with pytest.raises(UnbagError) as caught:
        pool_of(
            [PoolRow(Broken(), "red"), *rows()[:3]], small(), JOINT, cache=None, progress=Silent(),
            about="", group=2,
        )  # fmt: skip
    assert caught.value.expected == "readable images, since each belongs to an opposite pair"


def test_what_memory_cannot_hold_is_told_before_it_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "MOST_BYTES", 1_000)
    encoder = small()
    with pytest.raises(UnbagError) as caught:
        pool_of(rows(), encoder, JOINT, cache=None, progress=Silent(), about="")
    assert caught.value.message.startswith("features of 12 images and of 12 captions and negatives")
    assert caught.value.hint.startswith("train on fewer pairs")
    assert (encoder.images_seen, encoder.captions_read) == (1, 1)


def test_no_image_is_on_both_sides_of_what_is_kept_apart() -> None:
    given = [
        PoolRow(halves(a, b), text) for a in ("red", "blue") for b in ("green",) for text in "ab"
    ]
    every = shuffled([*given, *given])
    names = [row.image.name for row in every]
    changes = sum(a != b for a, b in pairwise(names))
    assert changes == len(set(names)) - 1
    two: list[ImageSource] = [halves("red", "blue"), halves("blue", "red")]
    pool = pooled([PoolRow(two[n >= 17], f"a {'of ' * n}") for n in range(20)])
    # A tenth is two rows, and they are of the same image as the row before them.
    assert pool.held_out == 0
    pool = pooled([PoolRow(two[n >= 18], f"a {'of ' * n}") for n in range(20)])
    assert pool.held_out == 2


@pytest.mark.parametrize(("edit", "held"), [("a cup left of a plate", 1), ("a plate", 2)])
def test_opposite_images_are_on_one_side_of_what_is_kept_apart(edit: str, held: int) -> None:
    first = [PoolRow(halves("red", "green"), f"a {'of ' * n}", (None,)) for n in range(17)]
    opposite = [
        PoolRow(halves("red", "blue"), "a cup left of a plate", ("a cup right of a plate",)),
        PoolRow(halves("blue", "red"), "a cup right of a plate", (edit,)),
    ]
    last = PoolRow(halves("green", "blue"), "a spoon", (None,))
    # A tenth is two rows, which would part the two.
    every = [*first, *opposite, last]
    assert pooled(every).held_out == held
    facts = tuple(
        DecoderFact(n, row.caption, tuple(one for one in row.negatives if one is not None))
        for n, row in enumerate(every)
    )
    assert DecoderData(None, facts, 20, "", "").held_out == held
