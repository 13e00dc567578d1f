"""Recipes: what decides a training run, and published repairs as functions that give one.

A paper's name means the paper's form. Numbers that a paper does not say are taken from its released
code or from NegCLIP's, and `source` says so. Slots name kinds of edits; a slot holds for each
caption one edit of its kinds, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any, Literal, cast

from unbag.errors import UnbagError
from unbag.registry import find
from unbag.training.losses import (
    Denominator,
    RankReduction,
    ThresholdMode,
    contrastive,
    contrastive_negatives,
    distil,
    intra_modal,
    rank,
    sigmoid,
    svlc_negative,
    svlc_positive,
)
from unbag.training.objective import Objective, Term, ThresholdRule
from unbag.training.settings import bounded, check_bounds, fit, hints_of, parsed, unknown_setting

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Slot:
    """A column of edits: each caption brings one edit of one of these kinds, or none."""

    name: str
    """What logs and thresholds call it."""
    kinds: tuple[str, ...]
    """Kinds or groups of edits, as `unbag list edits` names them."""


@dataclass(frozen=True)
class Lora:
    """Low-rank changes beside frozen matrices instead of training them (peft)."""

    rank: int = bounded(4, low=1)
    alpha: float = bounded(4.0, above=0)
    dropout: float = bounded(0.0, low=0, below=1)

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        check_bounds(self, "a recipe", prefix="lora.")


@dataclass(frozen=True)
class Freeze:
    """Which layers are frozen, counted from the input; a frozen encoder is in eval mode."""

    image: int | Literal["part", "all"] = 0
    """Layers of the image encoder: 1 is the patch embedding alone, "part" everything but the last
    layer (a head, or what follows the blocks), "all" that too."""
    text: int | Literal["part", "all"] = 0
    scale: bool = False
    """Keep temperature and bias."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, besides model, data and seed."""

    name: str
    source: str
    """Paper or code that the numbers are from, and where they differ."""
    objective: Objective
    negatives: tuple[Slot, ...] = ()
    positives: tuple[Slot, ...] = ()
    epochs: int = bounded(5, low=1)
    batch_size: int = bounded(256, low=1)
    """Images of one optimiser step, over all processes."""
    learning_rate: float = bounded(5e-6, above=0)
    weight_decay: float = bounded(0.1, low=0)
    betas: tuple[float, float] = bounded((0.9, 0.98), low=0, below=1)
    epsilon: float = bounded(1e-6, above=0)
    warmup_steps: int = bounded(50, low=0)
    """Steps with a rising learning rate, before half a cosine to zero."""
    clip_norm: float | None = bounded(1.0, above=0)
    """Longest gradient, over all weights."""
    max_logit_scale: float = bounded(100.0, low=1)
    freeze: Freeze = Freeze()
    lora: Lora | None = None
    masks_equal: bool = True
    """Captions of the batch that say the same as another image's are no negatives of it."""
    hard_images: bool = False
    """Each image brings one of its nearest ones, as NegCLIP does; the batch is twice as large."""
    l2_to_init: float = bounded(0.0, low=0)
    """Weight of the squared distance to the first weights."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        check_bounds(self, "a recipe")


_FIXED = ("name", "source", "objective", "negatives", "positives")
"""Fields that only a recipe's function sets."""
_PARTS = {
    "lora": tuple(field.name for field in fields(Lora)),
    "freeze": tuple(field.name for field in fields(Freeze)),
}
_DISTIL = "distil"
"""Adds that loss with this weight: the one term that any recipe can take."""


def make_recipe(name: str, settings: Sequence[str] = ()) -> Recipe:
    """A registered recipe or package.module:function, changed by `field=value` settings.

    A setting is an argument of the recipe's function (upper=5), a field of the recipe
    (learning_rate=1e-6), a part of one (freeze.image=all, lora.rank=8), or the weight of
    distillation from the first weights (distil=0.5).
    """
    function = find("recipe", name)
    if not callable(function):
        raise UnbagError(
            f"the recipe {name!r} is a {type(function).__name__}",
            expected="a function that gives a Recipe",
        )
    known = parsed(settings)
    wanted = signature(function).parameters
    hints = hints_of(function)
    own = {key: fit(known[key], hints.get(key, Any), key=key) for key in wanted if key in known}
    _check_needed(name, wanted, own)
    recipe = cast(Callable[..., object], function)(**own)
    if not isinstance(recipe, Recipe):
        raise UnbagError(
            f"the recipe {name!r} gives a {type(recipe).__name__}",
            expected="a Recipe of unbag.training.recipes",
        )
    for key, value in known.items():
        if key not in own:
            recipe = _changed(recipe, key, value, options=list(wanted))
    return recipe


def _check_needed(name: str, wanted: Mapping[str, Parameter], own: Mapping[str, object]) -> None:
    plain = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        key
        for key, one in wanted.items()
        if one.kind in plain and one.default is Parameter.empty and key not in own
    ]
    if needed:
        raise UnbagError(
            f"the recipe {name!r} says nothing of {', '.join(needed)}",
            expected="a value for each",
            hint=f"--set {needed[0]}=...",
        )


def _changed(recipe: Recipe, key: str, value: object, *, options: list[str]) -> Recipe:
    outer, _, inner = key.partition(".")
    settable = [f.name for f in fields(Recipe) if f.name not in _FIXED]
    if key == _DISTIL:
        added = Term(_DISTIL, fit(value, float, key=key), distil, needs_start=True)
        objective = replace(recipe.objective, terms=(*recipe.objective.terms, added))
        return replace(recipe, objective=objective)
    every = [
        *options,
        *settable,
        _DISTIL,
        *(f"{name}.{part}" for name in _PARTS for part in _PARTS[name]),
    ]
    if (outer not in settable) if not inner else (inner not in _PARTS.get(outer, ())):
        raise unknown_setting(key, every, of=recipe.name)
    if not inner:
        return replace(recipe, **{outer: fit(value, hints_of(Recipe)[outer], key=key)})
    part = (recipe.lora or Lora()) if outer == "lora" else recipe.freeze
    changed = replace(part, **{inner: fit(value, hints_of(type(part))[inner], key=key)})
    return replace(recipe, **{outer: changed})  # type: ignore[arg-type]


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


def neg_clip(*, hard_images: bool = True) -> Recipe:
    """NegCLIP: captions with words exchanged in the denominator, and images that are alike.

    Without `hard_images` no neighbours are needed, and it is NegCLIP's captions alone.
    """
    return Recipe(
        name="neg_clip",
        source="Yuksekgonul et al. 2023: the loss and 256 before doubling from its code, swaps by "
        "its rule; 5 epochs, rate 5e-6 of {1e-6, 5e-6, 1e-5} and 50 steps of warmup are the "
        "field's and stand in neither",
        objective=Objective((Term("contrastive_negatives", 1.0, contrastive_negatives),)),
        negatives=(Slot("swap", ("neg_clip",)),),
        hard_images=hard_images,
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
        batch_size=128,
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
            raise UnbagError(f"a weight of {weight} for {name}", expected="0 to 1")
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
        batch_size=512,
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


def _ce_clip_terms(denominator: Denominator, reduction: RankReduction) -> tuple[Term, ...]:
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
    """The image encoder as it is, the text encoder trained: the same-data control.

    `sides` puts left and right exchanged into the denominator.
    """
    first = contrastive_negatives if sides else contrastive
    return Recipe(
        name="locked_image",
        source="Li et al. 2024, appendix B.1: 5 epochs, rate 5e-6, 50 steps of warmup, batch 512; "
        "no decay, from the released code",
        objective=Objective((Term(first.__name__, 1.0, first),)),
        negatives=(Slot("sides", ("left_right",)),) if sides else (),
        batch_size=512,
        weight_decay=0.0,
        freeze=Freeze(image="all"),
    )


def siglip_hn() -> Recipe:
    """Sigmoid loss with hard negatives as further columns, for SigLIP."""
    return Recipe(
        name="siglip_hn",
        source="ours: SigLIP's loss (Zhai et al. 2023), negatives and optimiser as for NegCLIP",
        objective=Objective((Term("sigmoid", 1.0, partial(sigmoid, reduction="rows")),)),
        negatives=(Slot("negative", (*SWAPPED, *REPLACED)),),
        # Released SigLIPs stand at 117, which CLIP's bound would cut at the first step.
        max_logit_scale=1000.0,
    )
