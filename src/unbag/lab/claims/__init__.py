"""Published claims, one file each, written down before their verdicts."""

from __future__ import annotations

from importlib import import_module

from unbag.errors import unknown_name
from unbag.lab.claim import Claim

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
    """By name; only that claim is imported."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES)
    found: Claim = import_module(f"unbag.lab.claims.{name}").CLAIM
    return found


def all_claims() -> tuple[Claim, ...]:
    """Every claim."""
    return tuple(find_claim(name) for name in NAMES)
