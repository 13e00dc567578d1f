"""Every worked number of the specification; images and captions have S = [[8, 0], [6, 8]]."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from unbag.training.losses import (
    COMMON_BATCH_WEIGHT,
    KL_WEIGHT,
    Denominator,
    contrastive,
    contrastive_negatives,
    intra_modal,
    next_threshold,
    rank,
    svlc_negative,
    svlc_positive,
)
from unbag.training.losses import RankReduction as Reduction
from unbag.training.objective import Objective, Term
from unbag.types import Embedded


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def column(embedded: Embedded, *columns: int) -> Embedded:
    """With these of the negatives only, none of them missing."""
    assert embedded.negative_BKD is not None
    return replace(
        embedded,
        negative_BKD=embedded.negative_BKD[:, list(columns)],
        negative_mask_BK=None,
        negative_kinds=tuple(embedded.negative_kinds[k] for k in columns),
    )


def unmasked(embedded: Embedded) -> Embedded:
    return replace(embedded, negative_mask_BK=None)


def sample(embedded: Embedded, number: int) -> Embedded:
    """A batch of one."""
    assert embedded.negative_BKD is not None
    assert embedded.negative_mask_BK is not None
    rows = slice(number, number + 1)
    return replace(
        embedded,
        image_BD=embedded.image_BD[rows],
        caption_BD=embedded.caption_BD[rows],
        negative_BKD=embedded.negative_BKD[rows],
        negative_mask_BK=embedded.negative_mask_BK[rows],
    )


def test_hard_negatives_in_the_denominator(toy: Embedded) -> None:
    assert contrastive_negatives(column(toy, 0)).item() == near(0.2814632)
    # 1.1541657 is half of 2.2446996 and 0.0636317; without the missing one it is 2.2352388.
    assert contrastive_negatives(unmasked(toy)).item() == near((2.2446996 + 0.0636317) / 2)
    assert contrastive_negatives(unmasked(toy)).item() == near(1.1541657)
    assert contrastive_negatives(toy).item() == near((2.2352388 + 0.0636317) / 2)


def test_negclip_with_hard_images_is_the_same_on_a_doubled_batch(toy: Embedded) -> None:
    """2B images against 4B captions; columns only over the 2B captions."""
    generator = torch.Generator().manual_seed(6)
    vectors = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    x, x_hard, t, t_hard, hn, hn_hard = (vectors / vectors.norm(dim=1, keepdim=True)).split(2)
    captions = torch.cat([t, t_hard, hn, hn_hard])
    logits = 10 * torch.cat([x, x_hard]) @ captions.T
    assert logits.shape == (4, 8)
    target = torch.arange(4)
    by_hand = (cross_entropy(logits, target) + cross_entropy(logits[:, :4].T, target)) / 2
    doubled = replace(
        toy,
        image_BD=torch.cat([x, x_hard]),
        caption_BD=torch.cat([t, t_hard]),
        negative_BKD=torch.cat([hn, hn_hard])[:, None],
        negative_mask_BK=None,
    )
    assert contrastive_negatives(doubled).item() == pytest.approx(by_hand.item(), abs=1e-12)


def test_svlc_negative(toy: Embedded) -> None:
    assert svlc_negative(column(toy, 0)).item() == near(0.0636317)


def test_svlc_positive(toy: Embedded) -> None:
    assert svlc_positive(toy).item() == near(0.0109508)
    assert svlc_positive(toy).item() == near((0.0200105 + 0.0018911) / 2)


def test_svlc_positive_adds_the_kl_of_caption_and_positive(toy: Embedded) -> None:
    assert KL_WEIGHT == 0.1
    assert COMMON_BATCH_WEIGHT == 0.01
    assert svlc_positive(toy, kl=KL_WEIGHT).item() == near(0.0109508 + 0.0362267)
    assert svlc_positive(toy, kl=1.0).item() == near(0.0109508 + 0.3622672)


def test_hard_positives_and_negatives_together(toy: Embedded) -> None:
    one = column(toy, 0)
    with_negatives = Objective(
        (
            Term("contrastive", 1.0, contrastive_negatives),
            Term("negative", 1.0, svlc_negative),
            Term("positive", 1.0, svlc_positive),
        )
    )
    assert with_negatives(one).total.item() == near(0.3560457)
    plain = replace(
        with_negatives,
        terms=(Term("contrastive", 1.0, contrastive), *with_negatives.terms[1:]),
    )
    assert plain(one).total.item() == near(0.1382142)


@pytest.mark.parametrize(
    ("denominator", "is_masked", "rows", "mean"),
    [
        ("paper", False, (1.9008319, 1.6049715), 1.7529017),
        ("paper", True, (1.9008319, 1.5967488), (1.9008319 + 1.5967488) / 2),
        ("with_positive", True, (2.0401105, 1.7811965), 1.9106535),
    ],
)
def test_intra_modal(
    toy: Embedded,
    denominator: Denominator,
    is_masked: bool,
    rows: tuple[float, float],
    mean: float,
) -> None:
    for number, expected in enumerate(rows):
        one = sample(toy, number)
        one = one if is_masked else unmasked(one)
        assert intra_modal(one, denominator=denominator).item() == near(expected)
    both = toy if is_masked else unmasked(toy)
    assert intra_modal(both, denominator=denominator).item() == near(mean)


def test_intra_modal_against_the_batch(toy: Embedded) -> None:
    whole = unmasked(toy)
    assert intra_modal(whole, denominator="batch").item() == near(2.5982291)
    assert intra_modal(whole, denominator="batch").item() == near((2.7232367 + 2.4732216) / 2)


def test_the_head_of_the_released_code_is_not_what_any_mode_gives(toy: Embedded) -> None:
    """Without the pair, negative 0 of sample 0 stands where the target points."""
    assert toy.negative_BKD is not None
    logits = 10 * toy.caption_BD @ toy.negative_BKD.flatten(0, 1).T
    wrong = cross_entropy(logits, torch.zeros(2, dtype=torch.long)).item()
    assert wrong == near(2.5202305)
    modes: tuple[Denominator, ...] = ("paper", "with_positive", "batch")
    for batch in (toy, unmasked(toy)):
        for mode in modes:
            assert abs(intra_modal(batch, denominator=mode).item() - wrong) > 0.01


@pytest.mark.parametrize(
    ("reduction", "first", "second"),
    [("sum", 3.2, 6.2), ("cell_mean", 0.4, 0.775), ("valid_mean", 0.4571429, 0.8857143)],
)
def test_rank_over_two_steps(
    toy: Embedded, reduction: Reduction, first: float, second: float
) -> None:
    assert rank(toy, reduction=reduction).item() == near(first)
    margins = next_threshold(toy)
    assert margins.tolist() == pytest.approx([2, 3.6, 6.6, 0], abs=1e-6)
    assert rank(replace(toy, threshold_K=margins), reduction=reduction).item() == near(second)


def test_ce_clip_in_all(toy: Embedded) -> None:
    def cell_mean(embedded: Embedded) -> torch.Tensor:
        return rank(embedded, reduction="cell_mean")

    intra, cross = intra_modal(toy).item(), cell_mean(toy).item()
    whole = contrastive_negatives(unmasked(toy)).item()
    assert whole + 0.2 * intra + 0.4 * cross == near(1.6962964)
    objective = Objective(
        (
            Term("contrastive", 1.0, contrastive_negatives),
            Term("intra", 0.2, intra_modal),
            Term("rank", 0.4, cell_mean),
        )
    )
    # The missing negative is missing for every term: 1.1494353 in place of 1.1541657.
    assert objective(toy).total.item() == near(1.1494353 + 0.2 * 1.9106535 + 0.4 * 0.4)
