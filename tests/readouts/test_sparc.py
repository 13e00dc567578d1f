"""Worked numbers of methods.md 7.4, the two things that are mended, and what must hold of cells."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.models.features import last_texts
from unbag.readouts import reader as cells
from unbag.readouts.reader import contrast
from unbag.readouts.sparc import (
    Sparc,
    SparcSettings,
    mean_direction,
    padded_captions,
    patch_weights,
)
from unbag.training.losses import word_patch_loss
from unbag.types import TokenFeatures

from .core_encoder import small as small_encoder
from .reader_batches import SIZES, Bare, batch, captions, images, padded

WORD_TD = torch.eye(2)
PATCH_LD = torch.tensor([[1.0, 0], [0, 2], [0.5, 0.5]])
ALL = torch.ones((1, 3), dtype=torch.bool)
RELEASED = SparcSettings()
FIXED = SparcSettings(padding=False, fallback=True)


def small(settings: SparcSettings = FIXED, seed: int = 0) -> Sparc:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Sparc(settings, SIZES).eval()


def as_given(settings: SparcSettings) -> Sparc:
    """A reader whose projections change nothing, so that worked numbers can be put in."""
    reader = Sparc(settings, replace(SIZES, patches=3, picture_width=2, caption_width=2))
    reader.patches, reader.words = nn.Identity(), nn.Identity()  # type: ignore[assignment]
    return reader


def worked() -> tuple[TokenFeatures, TokenFeatures]:
    no = torch.zeros((1, 2))
    return TokenFeatures(PATCH_LD[None], ALL, no), TokenFeatures(WORD_TD[None], ALL[:, :2], no)


def test_worked_weights_and_grouped_vectors() -> None:
    weight_NTL = as_given(FIXED).weights(*worked())
    assert torch.allclose(weight_NTL, torch.tensor([[[2 / 3, 0, 1 / 3], [0, 1, 0]]]), atol=1e-6)
    gathered_TD = weight_NTL[0] @ PATCH_LD
    expected = torch.tensor([[0.833333, 0.166667], [0, 2]])
    assert torch.allclose(gathered_TD, expected, atol=1e-6)
    unit = torch.tensor([[0.980581, 0.196116], [0, 1]])
    assert torch.allclose(functional.normalize(gathered_TD, dim=-1), unit, atol=1e-6)


def test_worked_local_losses() -> None:
    gathered_NTD = as_given(FIXED).weights(*worked()) @ PATCH_LD
    unit_TD = functional.normalize(gathered_NTD[0], dim=-1)
    own = torch.arange(2)
    both = [functional.cross_entropy(10 * one, own).item() for one in (unit_TD, unit_TD.T)]
    assert both == pytest.approx([0.00021858, 0.00018888], abs=5e-8)
    found = word_patch_loss(gathered_NTD, WORD_TD[None], ALL[:, :2], scale=10)
    assert found.item() == pytest.approx(0.00020373, abs=5e-8)


def test_worked_score_is_that_of_the_means() -> None:
    # Means (.490290, .598058) and (.5, .5).
    expected = (0.490290 + 0.598058) / 2**0.5 / (0.490290**2 + 0.598058**2) ** 0.5
    assert as_given(FIXED).compare(*worked()).tolist() == pytest.approx([expected], abs=1e-5)
    assert as_given(FIXED).compare_all(*worked()).tolist() == [pytest.approx([expected], abs=1e-5)]


def test_padding_leaves_no_trace_in_the_word_patch_loss() -> None:
    gathered_NTD = torch.randn((1, 2, 4), generator=torch.Generator().manual_seed(0))
    word_NTD, mask_NT = gathered_NTD.flip(1), torch.ones((1, 2), dtype=torch.bool)
    plain = word_patch_loss(gathered_NTD, word_NTD, mask_NT, scale=10)
    noise = torch.full((1, 1, 4), 7.0)
    longer = word_patch_loss(
        torch.cat([gathered_NTD, noise], dim=1),
        torch.cat([word_NTD, noise], dim=1),
        torch.tensor([[True, True, False]]),
        scale=10,
    )
    assert longer.item() == pytest.approx(plain.item(), abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**20), st.integers(2, 9), st.integers(0, 3), st.booleans())
def test_weights_sum_to_one(seed: int, count: int, missing: int, fallback: bool) -> None:
    fit_NTL = torch.randn((2, 3, count), generator=torch.Generator().manual_seed(seed))
    mask_NTL = torch.arange(count) < max(2, count - missing)
    weight_NTL = patch_weights(fit_NTL, mask_NTL, fallback=fallback)
    assert torch.allclose(weight_NTL.sum(dim=-1), torch.ones((2, 3)), atol=1e-5)
    assert bool((weight_NTL >= 0).all())
    assert not weight_NTL[..., ~mask_NTL].any()
    best = fit_NTL.masked_fill(~mask_NTL, -torch.inf).argmax(dim=-1)
    assert torch.equal(weight_NTL.argmax(dim=-1), best)


def test_equal_patches_gather_nothing_as_released_and_evenly_when_mended() -> None:
    fit_NTL, mask_NTL = torch.full((1, 2, 4), 3.0), torch.tensor([True, True, False, True])
    fit_NTL[0, 1, 1] += 2e-7
    assert not patch_weights(fit_NTL[:, :1], mask_NTL, fallback=False).any()
    third = [1 / 3, 1 / 3, 0, 1 / 3]
    found_TL = patch_weights(fit_NTL, mask_NTL, fallback=True)[0]
    assert found_TL.tolist() == [pytest.approx(third), pytest.approx(third)]
    alike = images(2)
    alike.vector_NLW[:] = alike.vector_NLW[:, :1].clone()
    released, fixed = (small(one).compare(alike, captions(2)) for one in (RELEASED, FIXED))
    # An image of one patch repeated is that patch; released, it is no vector at all.
    one = TokenFeatures(alike.vector_NLW[:, :1], alike.mask_NL[:, :1], alike.pooled_NW)
    assert torch.allclose(fixed, small().compare(one, captions(2)), atol=1e-5)
    assert released.abs().max().item() < 1e-3


@pytest.mark.parametrize("chosen", [RELEASED, FIXED, replace(FIXED, rope="1d", width=4)])
def test_a_matrix_holds_what_its_pairs_have_whoever_else_is_there(
    chosen: SparcSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MOST_NUMBERS", 150)  # Two cells a block.
    reader, image = small(chosen), padded(images(3, missing=1), 1)
    caption = captions(5)
    # The released form counts empty places, which its view gives all captions in equal number.
    found_PC = reader.compare_all(image, caption if chosen.padding else padded(caption, 2))
    assert found_PC.shape == (3, 5)
    for p in range(3):
        for c in range(5):
            alone = reader.compare(image.rows(slice(p, p + 1)), caption.rows(slice(c, c + 1)))
            assert found_PC[p, c].item() == pytest.approx(alone.item(), abs=1e-6)


def test_released_means_count_empty_places_and_fixed_ones_do_not() -> None:
    reader, caption = small(RELEASED), captions(2)
    caption.vector_NLW[1, 3:] = 1.5
    by_hand = functional.normalize(reader.words(caption.vector_NLW), dim=-1)
    for chosen, places in ((RELEASED, 5), (FIXED, 3)):
        mean_D = functional.normalize(by_hand[1, :places].mean(dim=0), dim=-1)
        found_ND = mean_direction(*small(chosen).word_vectors(caption))
        assert torch.allclose(found_ND[1], mean_D, atol=1e-6)


def test_empty_places_hold_what_the_encoder_makes_of_them() -> None:
    encoder = small_encoder()
    few, many = padded_captions(encoder, ["red"]), padded_captions(encoder, ["red", "red of red"])
    assert few.vector_NLW.shape == (1, encoder.context, 12)
    assert many.mask_NL.sum(dim=1).tolist() == [2, 4]
    assert torch.allclose(few.vector_NLW[0], many.vector_NLW[0], atol=1e-6)
    plain = last_texts(encoder, ["red of red"])
    assert torch.allclose(many.vector_NLW[1, :4], plain.vector_NLW[0], atol=1e-6)
    assert torch.allclose(many.pooled[1], plain.pooled[0], atol=1e-6)
    # Causal encoders let an empty place look back at its caption.
    assert not torch.allclose(many.vector_NLW[0, 10], many.vector_NLW[1, 10], atol=1e-3)


def test_a_model_without_words_says_what_is_missing() -> None:
    with pytest.raises(UnbagError, match="bare shows one vector for an image and one for a cap"):
        padded_captions(Bare(), ["red"])


def test_loss_is_half_the_whole_and_the_words() -> None:
    given, reader = batch(3, 2), small()
    patch_BLD, (word_BTD, counted_BT) = (
        reader.patch_vectors(given.image),
        reader.word_vectors(given.caption),
    )
    image_BD = functional.normalize(patch_BLD.mean(dim=1), dim=-1)
    logit_BB = 10 * image_BD @ mean_direction(word_BTD, counted_BT).T
    assert given.negative is not None
    negative_BKD = mean_direction(*reader.word_vectors(given.negative)).view(3, 2, -1)
    negative_BK = 10 * torch.einsum("bd,bkd->bk", image_BD, negative_BKD)
    negative_BK[2, 1] = -torch.inf
    own = torch.arange(3)
    whole = functional.cross_entropy(torch.cat([logit_BB, negative_BK], dim=1), own)
    whole = (whole + functional.cross_entropy(logit_BB.T, own)) / 2
    gathered_BTD = reader.weights(given.image, given.caption) @ patch_BLD
    local = word_patch_loss(gathered_BTD, word_BTD, given.caption.mask_NL, scale=10)
    expected = (0.5 * whole + local).item()
    assert reader.loss(given, contrast_size=3).item() == pytest.approx(expected, abs=1e-6)
    paired = small(replace(FIXED, pairs=2.0)).loss(given, contrast_size=3).item()
    assert paired - expected == pytest.approx(
        2 * contrast(reader, given, contrast_size=3).item(), abs=1e-5
    )


def test_a_batch_of_one_half_precision_and_every_weight_learns() -> None:
    reader, given = small(), batch(1, 0)
    local = reader.loss(given, contrast_size=4)
    assert local.item() > 0
    only_whole = small(replace(FIXED, local=0.0)).loss(given, contrast_size=4)
    assert only_whole.item() == pytest.approx(0, abs=1e-6)
    half = [one.to("cpu", torch.float16) for one in (given.image, given.caption)]
    plain = reader.compare(given.image, given.caption)
    assert torch.allclose(reader.compare(*half), plain, atol=3e-3)
    reader.loss(batch(4, 2), contrast_size=2).backward()  # type: ignore[no-untyped-call]
    for name, weight in reader.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name
        assert bool(weight.grad.any()), name


def test_gradients_are_finite_where_all_patches_are_alike() -> None:
    for chosen in (RELEASED, FIXED):
        reader, given = small(chosen), batch(2, 1)
        given.image.vector_NLW[:] = 1.0
        reader.loss(given, contrast_size=2).backward()  # type: ignore[no-untyped-call]
        assert all(bool(w.grad.isfinite().all()) for w in reader.parameters() if w.grad is not None)


def test_places_that_cannot_be_told_are_refused_before_training() -> None:
    with pytest.raises(UnbagError, match="6 patches do not form a square"):
        Sparc(SparcSettings(rope="2d"), replace(SIZES, patches=6))
