"""Recipes: the settings of a training run, and functions that return those of published repairs.

A paper's name means the form in the paper. Numbers that a paper does not state are taken from its
released code or from NegCLIP's, and `source` says so. A slot holds, for each caption, one edit of
its kinds or none.
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
    """A column of edits: for each caption one edit of one of these kinds, or none."""

    name: str
    """Its name in the log and of its threshold."""
    kinds: tuple[str, ...]
    """Kinds or groups of edits, as `unbag list edits` names them."""


@dataclass(frozen=True)
class Lora:
    """LoRA: trainable low-rank matrices added to frozen linear layers (with peft)."""

    rank: int = bounded(4, low=1)
    alpha: float = bounded(4.0, above=0)
    dropout: float = bounded(0.0, low=0, below=1)

    def __post_init__(self) -> None:
        """Check the bounds of all fields."""
        check_bounds(self, "a recipe", prefix="lora.")


@dataclass(frozen=True)
class Freeze:
    """Which layers are frozen, counted from the input; frozen layers are in eval mode."""

    image: int | Literal["part", "all"] = 0
    """Layers of the image encoder: 1 is the patch embedding alone, "part" all but the last layer
    (the head, or what follows the blocks), "all" the whole encoder."""
    text: int | Literal["part", "all"] = 0
    """The same for the text encoder."""
    scale: bool = False
    """Whether temperature and bias are frozen."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the trained weights, besides model, data and seed."""

    name: str
    source: str
    """Paper or code of the settings, and where they differ from it."""
    objective: Objective
    negatives: tuple[Slot, ...] = ()
    positives: tuple[Slot, ...] = ()
    epochs: int = bounded(5, low=1)
    batch_size: int = bounded(256, low=1)
    """Images per optimizer step, over all processes."""
    learning_rate: float = bounded(5e-6, above=0)
    weight_decay: float = bounded(0.1, low=0)
    betas: tuple[float, float] = bounded((0.9, 0.98), low=0, below=1)
    epsilon: float = bounded(1e-6, above=0)
    warmup_steps: int = bounded(50, low=0)
    """Steps with a rising learning rate; then it falls by half a cosine to zero."""
    clip_norm: float | None = bounded(1.0, above=0)
    """Largest norm of the gradient of all weights; None: no clipping."""
    max_logit_scale: float = bounded(100.0, low=1)
    freeze: Freeze = Freeze()
    lora: Lora | None = None
    masks_equal: bool = True
    """Whether captions with the same text as an image's own are left out of its negatives."""
    hard_images: bool = False
    """Whether one of the nearest neighbours of each image is added, as in NegCLIP; this doubles the
    batch."""
    l2_to_init: float = bounded(0.0, low=0)
    """Weight of the squared distance to the initial weights."""

    def __post_init__(self) -> None:
        """Check the bounds of all fields."""
        check_bounds(self, "a recipe")


_FIXED = ("name", "source", "objective", "negatives", "positives")
"""Fields that --set cannot change."""
_PARTS = {
    "lora": tuple(field.name for field in fields(Lora)),
    "freeze": tuple(field.name for field in fields(Freeze)),
}
_DISTIL = "distil"
"""The setting that adds the loss `distil` with a weight; every recipe accepts it."""


def make_recipe(name: str, settings: Sequence[str] = ()) -> Recipe:
    """Make a registered recipe, or that of package.module:function, with `field=value` settings.

    A setting is an argument of the recipe's function (upper=5), a field of the recipe
    (learning_rate=1e-6), a nested field (freeze.image=all, lora.rank=8), or the weight of
    distillation from the initial weights (distil=0.5).
    """
    function = find("recipe", name)
    if not callable(function):
        raise UnbagError(
            f"the recipe {name!r} is a {type(function).__name__}",
            expected="a function that returns a Recipe",
        )
    values = parsed(settings)
    parameters = signature(function).parameters
    hints = hints_of(function)
    arguments = {
        key: fit(values[key], hints.get(key, Any), key=key) for key in parameters if key in values
    }
    _check_needed(name, parameters, arguments)
    recipe = cast(Callable[..., object], function)(**arguments)
    if not isinstance(recipe, Recipe):
        raise UnbagError(
            f"the recipe {name!r} returns a {type(recipe).__name__}",
            expected="a Recipe of unbag.training.recipes",
        )
    for key, value in values.items():
        if key not in arguments:
            recipe = _changed(recipe, key, value, options=list(parameters))
    return recipe


def _check_needed(
    name: str, parameters: Mapping[str, Parameter], arguments: Mapping[str, object]
) -> None:
    plain = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.kind in plain and parameter.default is Parameter.empty and key not in arguments
    ]
    if missing:
        raise UnbagError(
            f"the recipe {name!r} needs {', '.join(missing)}",
            expected="a value for each",
            hint=f"--set {missing[0]}=...",
        )


def _changed(recipe: Recipe, key: str, value: object, *, options: list[str]) -> Recipe:
    outer, _, inner = key.partition(".")
    settable = [f.name for f in fields(Recipe) if f.name not in _FIXED]
    if key == _DISTIL:
        added = Term(_DISTIL, fit(value, float, key=key), distil, needs_start=True)
        objective = replace(recipe.objective, terms=(*recipe.objective.terms, added))
        return replace(recipe, objective=objective)
    names = [
        *options,
        *settable,
        _DISTIL,
        *(f"{name}.{part}" for name in _PARTS for part in _PARTS[name]),
    ]
    if (outer not in settable) if not inner else (inner not in _PARTS.get(outer, ())):
        raise unknown_setting(key, names, of=recipe.name)
    if not inner:
        return replace(recipe, **{outer: fit(value, hints_of(Recipe)[outer], key=key)})
    part = (recipe.lora or Lora()) if outer == "lora" else recipe.freeze
    changed = replace(part, **{inner: fit(value, hints_of(type(part))[inner], key=key)})
    return replace(recipe, **{outer: changed})  # type: ignore[arg-type]


Family = Literal["both", "swap", "replace"]
SWAP_NEGATIVES = ("neg_clip_fixed", "swap_arguments", "swap_attributes")
"""Negatives that swap words, as groups and kinds of edits."""
REPLACE_NEGATIVES = ("svlc_fixed", "replace_noun", "replace_relation", "spatial", "antonym")
"""Negatives that replace a word."""
SWAP_POSITIVES = ("conjunct_swap", "relation_inverse")
"""Positives that swap words."""
SYNONYM_POSITIVES = ("synonym", "synonym_wordnet")
"""Positives that replace a word."""
REPHRASED_POSITIVES = ("article", "word_form", "passive")
"""Positives that are not hard: the same words in another form."""


def clip_ft() -> Recipe:
    """Plain fine-tuning on the same captions: the control for every repair."""
    return Recipe(
        name="clip_ft",
        source="CLIP-FT of Yuksekgonul et al. 2023; epochs, rate and batch as for NegCLIP",
        objective=Objective((Term("contrastive", 1.0, contrastive),)),
    )


def neg_clip(*, hard_images: bool = True) -> Recipe:
    """NegCLIP: captions with swapped words in the denominator, and similar images in the batch.

    Without `hard_images` only the captions are used, and no neighbours of images are needed.
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
    """SVLC: negatives by word replacement with a loss of their own, trained with LoRA.

    `with_positives` adds rephrased captions (SVLC+Pos), which are not hard positives.
    """
    terms = [
        Term("contrastive_negatives", 1.0, contrastive_negatives),
        Term("svlc_negative", 1.0, svlc_negative),
    ]
    positives: tuple[Slot, ...] = ()
    if with_positives:
        terms.append(Term("svlc_positive", 1.0, svlc_positive))
        positives = (Slot("rephrased", REPHRASED_POSITIVES),)
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
    """One hard negative per caption and no positive: the HN model of the hard-positive paper."""
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
    """One hard negative and one hard positive per caption: HP+HN of the hard-positive paper.

    Args:
        negative: Weight of the loss of negatives, 0 to 1; with 0 no loss uses them.
        positive: Weight of the loss of positives, 0 to 1.
        family: Edits that swap words, that replace words, or both.
        neg_in_contrastive: Whether negatives are also in the contrastive denominator, as in the
            released code.
        rephrases: Use rephrased captions instead of hard positives, as a control.
    """
    for name, weight in (("negative", negative), ("positive", positive)):
        if not 0 <= weight <= 1:
            raise UnbagError(f"a weight of {weight} for {name}", expected="0 to 1")
    has_negatives = negative > 0
    contrastive_loss = (
        contrastive_negatives if has_negatives and neg_in_contrastive else contrastive
    )
    positive_kinds = {
        "swap": SWAP_POSITIVES,
        "replace": SYNONYM_POSITIVES,
        "both": (*SWAP_POSITIVES, *SYNONYM_POSITIVES),
    }[family]
    negative_kinds = {
        "swap": SWAP_NEGATIVES,
        "replace": REPLACE_NEGATIVES,
        "both": (*SWAP_NEGATIVES, *REPLACE_NEGATIVES),
    }[family]
    return Recipe(
        name="hard_positive",
        source="Kamath et al. 2024, SVLC's losses at weight 1, 5 epochs; optimiser from SVLC's "
        "code (rate 5e-6, decay 0.1, 128 a GPU on 4); the paper does not say whether LoRA is used",
        objective=Objective(
            (
                Term(contrastive_loss.__name__, 1.0, contrastive_loss),
                Term("svlc_negative", negative, svlc_negative),
                Term("svlc_positive", positive, svlc_positive),
            )
        ),
        negatives=(Slot("negative", negative_kinds),) if has_negatives else (),
        positives=(Slot("positive", REPHRASED_POSITIVES if rephrases else positive_kinds),)
        if positive
        else (),
        batch_size=512,
    )


_FILL_SLOTS = (
    Slot("relation", ("swap_nouns",)),
    Slot("attribute", ("fill_attribute",)),
    Slot("object", ("fill_object",)),
    Slot("action", ("fill_action",)),
)
"""CE-CLIP's four types: a masked language model chose the words."""
_RULE_SLOTS = (
    Slot("relation", ("neg_clip_fixed", "swap_arguments", "spatial", "replace_relation")),
    Slot("attribute", ("replace_attribute", "swap_attributes", "antonym")),
    Slot("object", ("replace_noun",)),
    Slot("action", ("replace_action",)),
)
"""The same four types by rules, without a model."""


def _ce_clip_terms(denominator: Denominator, reduction: RankReduction) -> tuple[Term, ...]:
    return (
        Term("contrastive_negatives", 1.0, contrastive_negatives),
        Term("intra_modal", 0.2, partial(intra_modal, denominator=denominator)),
        Term("rank", 0.4, partial(rank, reduction=reduction)),
    )


def ce_clip(
    *, upper: float | None = 10.0, thresholds: ThresholdMode = "adaptive", fixed: float = 0.0
) -> Recipe:
    """CE-CLIP as in the paper; its intra-modal loss has no lower bound, see ce_clip_fixed.

    Args:
        upper: Largest threshold of the rank loss; None: no bound.
        thresholds: The paper's ablations: `adaptive`, `largest` gap, or `fixed`.
        fixed: The threshold in the mode `fixed` (2, 5 and 10 in the paper).
    """
    return Recipe(
        name="ce_clip",
        source="Zhang et al. 2024: weights 0.2 and 0.4, 5 epochs, batch 256, equations 2 to 7 "
        "with the means of the released code, whose own script differs (0.3, 0.2, 10 epochs, 378)",
        objective=Objective(
            _ce_clip_terms("paper", "cell_mean"),
            ThresholdRule(mode=thresholds, upper=upper, fixed=fixed),
        ),
        negatives=_FILL_SLOTS,
    )


def ce_clip_fixed(
    *, upper: float | None = 10.0, thresholds: ThresholdMode = "adaptive", fixed: float = 0.0
) -> Recipe:
    """CE-CLIP with the true pair in the intra-modal denominator and means over existing negatives.

    The arguments are those of `ce_clip`.
    """
    return Recipe(
        name="ce_clip_fixed",
        source="Zhang et al. 2024 with our repairs: the intra-modal loss is a cross-entropy, the "
        "rank loss and its thresholds count valid negatives only and go on across epochs",
        objective=Objective(
            _ce_clip_terms("with_positive", "valid_mean"),
            ThresholdRule(mode=thresholds, upper=upper, fixed=fixed),
        ),
        negatives=_RULE_SLOTS,
    )


def locked_image(*, sides: bool = False) -> Recipe:
    """Train the text encoder with the image encoder frozen: the control on the same data.

    `sides` adds captions with left and right swapped to the denominator.
    """
    contrastive_loss = contrastive_negatives if sides else contrastive
    return Recipe(
        name="locked_image",
        source="Li et al. 2024, appendix B.1: 5 epochs, rate 5e-6, 50 steps of warmup, batch 512; "
        "no decay, from the released code",
        objective=Objective((Term(contrastive_loss.__name__, 1.0, contrastive_loss),)),
        negatives=(Slot("sides", ("left_right",)),) if sides else (),
        batch_size=512,
        weight_decay=0.0,
        freeze=Freeze(image="all"),
    )


def siglip_hn() -> Recipe:
    """Sigmoid loss with hard negatives as additional columns, for SigLIP."""
    return Recipe(
        name="siglip_hn",
        source="ours: SigLIP's loss (Zhai et al. 2023), negatives and optimiser as for NegCLIP",
        objective=Objective((Term("sigmoid", 1.0, partial(sigmoid, reduction="rows")),)),
        negatives=(Slot("negative", (*SWAP_NEGATIVES, *REPLACE_NEGATIVES)),),
        # Released SigLIPs have a scale of 117, which CLIP's bound would cut at the first step.
        max_logit_scale=1000.0,
    )
