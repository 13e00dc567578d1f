"""PACL: worked numbers of methods.md 7.2 and 7.3, rotation, and what must hold of every pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.readouts import reader as cells
from unbag.readouts.pacl import Form, Pacl, PaclSettings, Rope, attention, pool, turned
from unbag.readouts.reader import contrast
from unbag.types import TokenFeatures

from .reader_batches import SIZES, batch, captions, images, padded

PATCH_LD = torch.tensor([[2.0, 0], [0, 1], [0.6, 0.8]])
TEXT_D = torch.tensor([1.0, 0])
RELEASED = PaclSettings()
ALL = torch.ones((1, 3), dtype=torch.bool)


def small(settings: PaclSettings = RELEASED, seed: int = 0) -> Pacl:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Pacl(settings, SIZES).eval()


def as_given(settings: PaclSettings) -> Pacl:
    """A reader whose projections change nothing, so that worked numbers can be put in."""
    reader = Pacl(settings, replace(SIZES, patches=3, picture_width=2, caption_width=2))
    reader.patches, reader.captions = nn.Identity(), nn.Identity()  # type: ignore[assignment]
    return reader


def worked() -> tuple[TokenFeatures, TokenFeatures]:
    no = torch.zeros((1, 2))
    return TokenFeatures(PATCH_LD[None], ALL, no), TokenFeatures(
        TEXT_D[None, None], ALL[:, :1], TEXT_D[None]
    )


def test_worked_weights_pooled_vector_and_score() -> None:
    weight_NL = attention(PATCH_LD[None], TEXT_D[None], ALL, 10.0)
    assert torch.allclose(weight_NL, torch.tensor([[0.999955, 0.5, 0.997527]]), atol=1e-6)
    summed = weight_NL @ PATCH_LD
    assert torch.allclose(summed, torch.tensor([[2.598426, 1.298022]]), atol=1e-6)
    pooled = pool(weight_NL[:, None], PATCH_LD[None])[0]
    assert torch.allclose(pooled, torch.tensor([[0.894591, 0.446886]]), atol=1e-6)


@pytest.mark.parametrize(("how", "score"), [("text", 0.894591), ("uniform", 0.822192)])
def test_worked_score_of_a_batch_of_one(how: Literal["text", "uniform"], score: float) -> None:
    reader, (image, caption) = as_given(PaclSettings(pool=how)), worked()
    assert reader.compare(image, caption).tolist() == pytest.approx([score], abs=1e-6)
    assert reader.compare_all(image, caption).tolist() == [pytest.approx([score], abs=1e-6)]


def test_worked_uniform_vector_is_the_plain_sum_at_unit_norm() -> None:
    pooled = pool(ALL[:, None].float(), PATCH_LD[None])[0, 0]
    assert pooled.tolist() == pytest.approx([0.822192, 0.569210], abs=1e-6)
    assert torch.allclose(pooled, functional.normalize(PATCH_LD.sum(dim=0), dim=0))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**20), st.integers(1, 6))
def test_uniform_is_the_plain_sum(seed: int, count: int) -> None:
    reader, image = small(PaclSettings(pool="uniform")), images(count, seed=seed)
    caption = captions(count, seed=seed + 1)
    summed_ND = functional.normalize(reader.projected(image)[0].sum(dim=1), dim=-1)
    found_NN = reader.compare_all(image, caption)
    assert torch.allclose(found_NN, summed_ND @ reader.caption_vectors(caption).T, atol=1e-5)


SETTINGS = [
    PaclSettings(),
    PaclSettings(pool="uniform"),
    PaclSettings(rope="1d"),
    PaclSettings(rope="2d", form="interleaved"),
    PaclSettings(rope="1d", rope_at="weights", width=4),
]


@pytest.mark.parametrize("chosen", SETTINGS)
def test_a_matrix_holds_what_its_pairs_have_whoever_else_is_there(
    chosen: PaclSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MOST_NUMBERS", 30)  # Two cells a block.
    reader, image, caption = small(chosen), images(3, missing=0), captions(5)
    if chosen.rope != "2d":
        image = padded(images(3, missing=1), 2)
    found_PC = reader.compare_all(image, caption)
    assert found_PC.shape == (3, 5)
    for p in range(3):
        for c in range(5):
            alone = reader.compare(image.rows(slice(p, p + 1)), caption.rows(slice(c, c + 1)))
            assert found_PC[p, c].item() == pytest.approx(alone.item(), abs=1e-6)


def test_places_without_a_patch_have_no_weight_and_change_nothing() -> None:
    reader, image, caption = small(), images(2, missing=1), captions(2)
    weight_NL = reader.weights(padded(image, 1), caption)
    assert weight_NL[1, 3:].tolist() == [0, 0]
    assert bool((weight_NL[0, :4] > 0).all())
    plain, longer = (reader.compare(one, caption) for one in (image, padded(image, 3)))
    assert torch.allclose(plain, longer, atol=1e-6)


def test_rotary_weights_leave_the_sum_as_it_is() -> None:
    turned, plain = small(PaclSettings(rope="1d", rope_at="weights")), small()
    image, caption = images(2), captions(2)
    summed, looked = turned.projected(image)
    assert torch.equal(summed, plain.projected(image)[0])
    assert not torch.allclose(looked, summed)
    even = replace(turned.settings, pool="uniform"), PaclSettings(pool="uniform")
    one, other = (small(each).compare(image, caption) for each in even)
    assert torch.equal(one, other)


def test_places_of_patches_matter_only_where_they_are_turned() -> None:
    image, caption = images(2), captions(2)
    moved = TokenFeatures(image.vector_NLW.flip(1), image.mask_NL, image.pooled_NW)
    plain, turned = small(), small(PaclSettings(rope="1d"))
    assert torch.allclose(plain.compare(image, caption), plain.compare(moved, caption), atol=1e-6)
    difference = turned.compare(image, caption) - turned.compare(moved, caption)
    assert difference.abs().min().item() > 1e-3


def test_half_precision_features_do_not_overflow() -> None:
    patch_NLD = torch.full((1, 600, 2), 60_000.0, dtype=torch.float16)
    assert not torch.isfinite(patch_NLD.sum(dim=1, dtype=torch.float16)).any()
    with torch.autocast("cpu", dtype=torch.float16):
        pooled = pool(torch.ones((1, 1, 600), dtype=torch.float16), patch_NLD)
    assert pooled.dtype == torch.float32
    assert torch.allclose(pooled, torch.full((1, 1, 2), 0.5**0.5))
    reader, image, caption = small(), images(3), captions(3)
    half = [one.to("cpu", torch.float16) for one in (image, caption)]
    assert torch.allclose(reader.compare(*half), reader.compare(image, caption), atol=3e-3, rtol=0)


def test_released_training_pools_with_the_own_caption_whatever_it_is_compared_with() -> None:
    reader, given = small(), batch(3, 2)
    patch_BLD, caption_BD = reader.projected(given.image)[0], reader.caption_vectors(given.caption)
    weight_BL = attention(patch_BLD, caption_BD, given.image.mask_NL, 10.0)
    pooled_BD = functional.normalize((weight_BL[..., None] * patch_BLD).sum(dim=1), dim=-1)
    assert given.negative is not None
    negative_BKD = reader.caption_vectors(given.negative).view(3, 2, -1)
    logit_BB = 10 * pooled_BD @ caption_BD.T
    negative_BK = 10 * torch.einsum("bd,bkd->bk", pooled_BD, negative_BKD)
    negative_BK[2, 1] = -torch.inf
    own = torch.arange(3)
    rows = functional.cross_entropy(torch.cat([logit_BB, negative_BK], dim=1), own)
    by_hand = (rows + functional.cross_entropy(logit_BB.T, own)) / 2
    assert reader.loss(given, contrast_size=3).item() == pytest.approx(by_hand.item(), abs=1e-6)


@pytest.mark.parametrize("contrast_size", [1, 2, 5])
def test_the_fixed_form_trains_the_score_that_is_tested(contrast_size: int) -> None:
    also_true = torch.zeros((5, 5), dtype=torch.bool)
    also_true[0, 1] = True
    given = batch(5, 2, also_true=also_true)
    reader = small(PaclSettings(taught="each"))
    expected = contrast(reader, given, contrast_size=contrast_size)
    assert reader.loss(given, contrast_size=contrast_size).item() == pytest.approx(
        expected.item(), abs=1e-6
    )
    released = small().loss(given, contrast_size=contrast_size)
    assert released.item() != pytest.approx(expected.item(), abs=1e-4)


def test_uniform_training_is_that_of_the_uniform_score() -> None:
    given, reader = batch(4, 2), small(PaclSettings(pool="uniform", taught="uniform"))
    expected = contrast(reader, given, contrast_size=4).item()
    assert reader.loss(given, contrast_size=4).item() == pytest.approx(expected, abs=1e-6)


def test_a_batch_of_one_has_nothing_to_find_and_negatives_can_be_left_out() -> None:
    assert small().loss(batch(1, 0), contrast_size=8).item() == pytest.approx(0, abs=1e-6)
    assert small().loss(batch(1, 2), contrast_size=8).item() > 0.1


@pytest.mark.parametrize("taught", ["own", "each"])
def test_gradients_are_those_of_the_loss(taught: Literal["own", "each"]) -> None:
    given = batch(2, 1)
    reader = small(PaclSettings(taught=taught, rope="1d"))

    loss = reader.loss(given, contrast_size=2)
    loss.backward()  # type: ignore[no-untyped-call]
    for weight in reader.parameters():
        assert weight.grad is not None
        at = int(weight.grad.abs().argmax())
        moved = []
        for step in (1e-2, -1e-2):
            with torch.no_grad():
                weight.view(-1)[at] += step
                moved.append(reader.loss(given, contrast_size=2).item())
                weight.view(-1)[at] -= step
        assert (moved[0] - moved[1]) / 2e-2 == pytest.approx(
            weight.grad.view(-1)[at].item(), rel=2e-2, abs=2e-3
        )


def test_places_that_cannot_be_told_are_refused_before_training() -> None:
    with pytest.raises(UnbagError, match="6 patches do not form a square"):
        Pacl(PaclSettings(rope="2d"), replace(SIZES, patches=6))
    with pytest.raises(UnbagError, match="vectors of width 7 cannot be rotated with rope=1d"):
        Pacl(PaclSettings(rope="1d", rope_at="weights", width=7), SIZES)


FORMS: tuple[Form, ...] = ("concatenated", "interleaved")


def test_worked_numbers_of_place_1() -> None:
    vector_NLW = torch.tensor([1.0, 0, 0, 1]).expand(1, 2, 4)
    halves = torch.tensor([0.540302, -0.010000, 0.841471, 0.999950])
    pairs = torch.tensor([0.540302, 0.841471, -0.010000, 0.999950])
    assert torch.allclose(turned(vector_NLW, "1d")[0, 1], halves, atol=1e-6)
    assert torch.allclose(turned(vector_NLW, "1d", "interleaved")[0, 1], pairs, atol=1e-6)


def test_place_0_stays_and_one_form_is_a_permutation_of_the_other() -> None:
    vector_NLW = torch.randn((2, 9, 8), generator=torch.Generator().manual_seed(1))
    pairs, halves = (turned(vector_NLW, "1d", form) for form in ("interleaved", "concatenated"))
    assert torch.equal(pairs[:, 0], vector_NLW[:, 0])
    assert torch.equal(halves, torch.cat([pairs[..., 0::2], pairs[..., 1::2]], dim=-1))
    assert not torch.allclose(pairs[:, 1], vector_NLW[:, 1])


def test_2d_turns_half_by_row_and_half_by_column() -> None:
    vector_NLW = torch.randn((1, 9, 8), generator=torch.Generator().manual_seed(2))
    found_NLW = turned(vector_NLW, "2d", "interleaved")
    for place in range(9):
        row, column = divmod(place, 3)
        by_row = turned(vector_NLW[:, place, :4].expand(1, 3, 4), "1d", "interleaved")[0, row]
        by_column = turned(vector_NLW[:, place, 4:].expand(1, 3, 4), "1d", "interleaved")[0, column]
        assert torch.allclose(found_NLW[0, place], torch.cat([by_row, by_column]), atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["1d", "2d"]),
    st.sampled_from(FORMS),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2**20),
)
def test_norms_stay(rope: Rope, form: Form, side: int, quads: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    vector_NLW = torch.randn((2, side * side, 4 * quads), generator=rng)
    assert torch.allclose(turned(vector_NLW, rope, form).norm(dim=-1), vector_NLW.norm(dim=-1))


def test_products_depend_on_the_distance_of_places_only() -> None:
    one, other = torch.randn((2, 8), generator=torch.Generator().manual_seed(3))
    first, second = (turned(v.expand(1, 700, 8), "1d")[0] for v in (one, other))
    assert float(first[2] @ second[5]) == pytest.approx(float(first[650] @ second[653]), abs=1e-5)


def test_none_is_what_came_in() -> None:
    vector_NLW = torch.ones((1, 2, 3))
    assert turned(vector_NLW, "none") is vector_NLW


@pytest.mark.parametrize(
    ("rope", "shape", "said"),
    [
        ("1d", (1, 4, 5), "vectors of width 5 cannot be rotated with rope=1d"),
        ("2d", (1, 4, 6), "vectors of width 6 cannot be rotated with rope=2d"),
        ("2d", (1, 6, 8), "6 patches do not form a square"),
    ],
)
def test_what_cannot_be_turned_is_said(rope: Rope, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UnbagError, match=said):
        turned(torch.zeros(shape), rope)
