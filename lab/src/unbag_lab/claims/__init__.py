"""The published claims of the study, one TOML file a paper, written down before their verdicts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from unbag.errors import unknown_name
from unbag_lab.claim import PHOTOGRAPHS, WORLD, Claim, Number, Prediction

NAMES = (
    "collision_low_high",
    "scale_alone",
    "plain_fine_tuning",
    "negatives_open",
    "negatives_locked",
    "negatives_brittle",
    "leaky_negatives_brittle",
    "mean_scores_fall",
    "positives_help",
    "leaky_positives_help",
    "positives_held_out",
    "positives_only",
    "positives_ratio",
    "families_apart",
    "rephrased_positives",
    "ce_clip_beats_neg_clip",
    "ce_clip_as_printed",
    "ce_clip_terms",
    "ce_clip_thresholds",
    "ce_clip_upper_bound",
    "threshold_curves",
    "dcsm_reads_maps",
    "dcsm_released",
    "dcsm_taught_longer",
    "pooling_by_text",
    "rotary_patches",
    "places_in_two_dimensions",
    "many_words",
    "stronger_text",
    "stronger_text_locked",
    "decoder_against_cosine",
    "decoder_taught_longer",
    "question_in_the_prompt",
    "one_token",
    "m3id_prior",
    "order_free_retrieval",
    "order_free_pictures",
    "modality_gap",
    "perturbation_detector",
    "ideal_concepts",
    "ideal_conditions",
    "superposition",
    "cone",
    "erroneous_agreement",
    "readable_patches",
    "relaxed_pairs",
    "weight_mixing",
    "caption_only_solvable",
    "one_order_leaks",
    "photos_negatives",
    "photos_kinds_apart",
    "photos_positives",
    "photos_read_blind",
)
"""In the order in which the overview shows them."""


def find_claim(name: str) -> Claim:
    """By name."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES)
    return _read_claims()[name]


def all_claims() -> tuple[Claim, ...]:
    """Every claim."""
    return tuple(_read_claims()[name] for name in NAMES)


@cache
def _read_claims() -> Mapping[str, Claim]:
    claims = {}
    for file in files(__name__).iterdir():
        if file.name.endswith(".toml"):
            for name, fields in tomllib.loads(file.read_text(encoding="utf-8")).items():
                claims[name] = _claim(name, **fields)
    return claims


def _claim(
    name: str,
    *,
    predictions: Sequence[Mapping[str, Any]],
    where: str = "world",
    must_fit: Sequence[str] = (),
    beside: Sequence[Sequence[str]] = (),
    **texts: Any,
) -> Claim:
    return Claim(
        name=name,
        predictions=tuple(_prediction(**fields) for fields in predictions),
        where={"world": WORLD, "photographs": PHOTOGRAPHS}[where],
        must_fit=tuple(must_fit),
        beside=tuple(Number(*parts) for parts in beside),
        **texts,
    )


def _prediction(
    *, number: Sequence[str], control: Sequence[str] | float, **fields: Any
) -> Prediction:
    """A number is written as [arm, benchmark, metric], and the experiment if it is another."""
    return Prediction(
        number=Number(*number),
        control=control if isinstance(control, float) else Number(*control),
        **fields,
    )
