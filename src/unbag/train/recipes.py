"""Published repairs as functions that give a recipe. A paper's name means the paper's form.

Numbers that a paper does not say are taken from its released code or from NegCLIP's, and `source`
says so. Slots name kinds of edits; a slot holds for each caption one edit of its kinds, or none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from unbag.errors import UserError
from unbag.losses.contrastive import contrastive
from unbag.losses.contrastive_negatives import contrastive_negatives
from unbag.losses.intra_modal import Denominator, intra_modal
from unbag.losses.objective import Objective, Term, ThresholdRule
from unbag.losses.rank import Reduction, ThresholdMode, rank
from unbag.losses.sigmoid import sigmoid
from unbag.losses.svlc import svlc_negative, svlc_positive
from unbag.train.config import Locks, Lora, Recipe, Slot

Family = Literal["both", "swap", "replace"]

SWAPPED = ("neg_clip_fixed", "swap_arguments", "swap_attributes")
"""Negatives that exchange words, as groups and kinds of edits."""
REPLACED = ("svlc_fixed", "replace_noun", "replace_relation", "spatial", "antonym")
"""Negatives that put another word."""
TURNED = ("conjunct_swap", "relation_inverse")
"""Positives that exchange words."""
RENAMED = ("synonym", "synonym_wordnet")
"""Positives that put another word."""
REPHRASED = ("article", "word_form", "passive")
"""Positives that are not hard: the words of the caption in another form."""


def clip_ft() -> Recipe:
    """Plain fine-tuning on the same captions: the control that every repair is read against."""
    return Recipe(
        name="clip_ft",
        source="CLIP-FT of Yuksekgonul et al. 2023; epochs, rate and batch as for NegCLIP",
        objective=Objective((Term("contrastive", 1.0, contrastive),)),
    )


def neg_clip(*, hard_pictures: bool = True) -> Recipe:
    """NegCLIP: captions with words exchanged in the denominator, and pictures that are alike.

    Without `hard_pictures` no neighbours are needed, and it is NegCLIP's captions alone.
    """
    return Recipe(
        name="neg_clip",
        source="Yuksekgonul et al. 2023: the loss and 256 before doubling from its code, swaps by "
        "its rule; 5 epochs, rate 5e-6 of {1e-6, 5e-6, 1e-5} and 50 steps of warm-up are the "
        "field's and stand in neither",
        objective=Objective((Term("contrastive_negatives", 1.0, contrastive_negatives),)),
        negatives=(Slot("swap", ("neg_clip",)),),
        hard_pictures=hard_pictures,
    )


def svlc(*, with_positives: bool = False) -> Recipe:
    """SVLC: words replaced by rules, a loss of their own; low-rank weights.

    `with_positives` adds rephrased captions (SVLC+Pos), which are not hard positives.
    """
    terms = [
        Term("contrastive_negatives", 1.0, contrastive_negatives),
        Term("svlc_negative", 1.0, svlc_negative),
    ]
    positives: tuple[Slot, ...] = ()
    if with_positives:
        terms.append(Term("svlc_positive", 1.0, svlc_positive))
        positives = (Slot("rephrased", REPHRASED),)
    return Recipe(
        name="svlc",
        source="Doveh et al. 2023 and its code: rate 5e-6, decay 0.1, 128 a GPU, LoRA of rank 4. "
        "Negatives by rules of ours that check what the published word lists do not",
        objective=Objective(tuple(terms)),
        negatives=(Slot("replace", ("svlc_fixed",)),),
        positives=positives,
        batch=128,
        lora=Lora(rank=4),
    )


def hard_negative(*, family: Family = "both", neg_in_contrastive: bool = True) -> Recipe:
    """One hard negative a caption and nothing else: the HN model of the hard-positive paper."""
    return replace(
        hard_positive(positive=0.0, family=family, neg_in_contrastive=neg_in_contrastive),
        name="hard_negative",
    )


def hard_positive(
    *,
    negative: float = 1.0,
    positive: float = 1.0,
    family: Family = "both",
    neg_in_contrastive: bool = True,
    rephrases: bool = False,
) -> Recipe:
    """One hard negative and one hard positive a caption: HP+HN of the hard-positive paper.

    Args:
        negative: Weight of the negatives' loss, 0 to 1; at 0 they are in no loss at all.
        positive: Weight of the positives' loss, 0 to 1.
        family: Edits that exchange words, that replace them, or both.
        neg_in_contrastive: Negatives in the denominator too, as the released code has it.
        rephrases: Rephrased captions in place of hard positives, as a control.
    """
    for name, weight in (("negative", negative), ("positive", positive)):
        if not 0 <= weight <= 1:
            raise UserError(f"a weight of {weight} for {name}", expected="0 to 1")
    has_negatives = negative > 0
    first = contrastive_negatives if has_negatives and neg_in_contrastive else contrastive
    renamed = {"swap": TURNED, "replace": RENAMED, "both": (*TURNED, *RENAMED)}[family]
    changed = {"swap": SWAPPED, "replace": REPLACED, "both": (*SWAPPED, *REPLACED)}[family]
    return Recipe(
        name="hard_positive",
        source="Kamath et al. 2024, SVLC's losses at weight 1, 5 epochs; optimiser from SVLC's "
        "code (rate 5e-6, decay 0.1, 128 a GPU on 4); the paper does not say whether LoRA is used",
        objective=Objective(
            (
                Term(first.__name__, 1.0, first),
                Term("svlc_negative", negative, svlc_negative),
                Term("svlc_positive", positive, svlc_positive),
            )
        ),
        negatives=(Slot("negative", changed),) if has_negatives else (),
        positives=(Slot("positive", REPHRASED if rephrases else renamed),) if positive else (),
        batch=512,
    )


_FILLED = (
    Slot("relation", ("swap_nouns",)),
    Slot("attribute", ("fill_attribute",)),
    Slot("object", ("fill_object",)),
    Slot("action", ("fill_action",)),
)
"""CE-CLIP's four types: a masked language model chose the words."""
_RULED = (
    Slot("relation", ("neg_clip_fixed", "swap_arguments", "spatial", "replace_relation")),
    Slot("attribute", ("replace_attribute", "swap_attributes", "antonym")),
    Slot("object", ("replace_noun",)),
    Slot("action", ("replace_action",)),
)
"""The same four types by rules, so that no model is needed."""


def _ce_clip_terms(denominator: Denominator, reduction: Reduction) -> tuple[Term, ...]:
    return (
        Term("contrastive_negatives", 1.0, contrastive_negatives),
        Term("intra_modal", 0.2, partial(intra_modal, denominator=denominator)),
        Term("rank", 0.4, partial(rank, reduction=reduction)),
    )


def ce_clip(
    *, upper: float | None = 10.0, thresholds: ThresholdMode = "adaptive", fixed: float = 0.0
) -> Recipe:
    """CE-CLIP as the paper prints it. Its intra-modal loss has no lower bound: see ce_clip_fixed.

    Args:
        upper: Bounds the thresholds of the rank loss; None bounds nothing.
        thresholds: The paper's ablations: `adaptive`, `largest` gap, or `fixed`.
        fixed: The threshold, where it is fixed (2, 5 and 10 in the paper).
    """
    return Recipe(
        name="ce_clip",
        source="Zhang et al. 2024: weights 0.2 and 0.4, 5 epochs, batch 256, equations 2 to 7 "
        "with the means of the released code, whose own script differs (0.3, 0.2, 10 epochs, 378)",
        objective=Objective(
            _ce_clip_terms("paper", "cell_mean"),
            ThresholdRule(mode=thresholds, upper=upper, fixed=fixed),
        ),
        negatives=_FILLED,
    )


def ce_clip_fixed(
    *, upper: float | None = 10.0, thresholds: ThresholdMode = "adaptive", fixed: float = 0.0
) -> Recipe:
    """CE-CLIP with the true pair in the intra-modal denominator and means over what is there.

    Its arguments are those of `ce_clip`.
    """
    return Recipe(
        name="ce_clip_fixed",
        source="Zhang et al. 2024 with our repairs: the intra-modal loss is a cross-entropy, the "
        "rank loss and its thresholds count valid negatives only and go on across epochs",
        objective=Objective(
            _ce_clip_terms("with_positive", "valid_mean"),
            ThresholdRule(mode=thresholds, upper=upper, fixed=fixed),
        ),
        negatives=_RULED,
    )


def locked_image(*, sides: bool = False) -> Recipe:
    """The picture tower as it is, the caption tower trained: the same-data control.

    `sides` puts left and right exchanged into the denominator.
    """
    first = contrastive_negatives if sides else contrastive
    return Recipe(
        name="locked_image",
        source="Li et al. 2024, appendix B.1: 5 epochs, rate 5e-6, 50 steps of warm-up, batch 512; "
        "no decay, from the released code",
        objective=Objective((Term(first.__name__, 1.0, first),)),
        negatives=(Slot("sides", ("left_right",)),) if sides else (),
        batch=512,
        weight_decay=0.0,
        locks=Locks(picture="all"),
    )


def siglip_hn() -> Recipe:
    """Sigmoid loss with hard negatives as further columns, for SigLIP."""
    return Recipe(
        name="siglip_hn",
        source="ours: SigLIP's loss (Zhai et al. 2023), negatives and optimiser as for NegCLIP",
        objective=Objective((Term("sigmoid", 1.0, partial(sigmoid, reduction="rows")),)),
        negatives=(Slot("negative", (*SWAPPED, *REPLACED)),),
        # Released SigLIPs stand at 117, which CLIP's bound would cut at the first step.
        largest_scale=1000.0,
    )
