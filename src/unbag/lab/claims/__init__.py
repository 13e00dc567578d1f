"""Published claims, one file each, written down before their verdicts."""

from __future__ import annotations

from importlib import import_module

from unbag.errors import unknown_name
from unbag.lab.claim import Claim

CLAIMS = {
    "collision_low_high": "unbag.lab.claims.collision_low_high:CLAIM",
    "scale_alone": "unbag.lab.claims.scale_alone:CLAIM",
    "plain_fine_tuning": "unbag.lab.claims.plain_fine_tuning:CLAIM",
    "negatives_open": "unbag.lab.claims.negatives_open:CLAIM",
    "negatives_locked": "unbag.lab.claims.negatives_locked:CLAIM",
    "negatives_brittle": "unbag.lab.claims.negatives_brittle:CLAIM",
    "leaky_negatives_brittle": "unbag.lab.claims.leaky_negatives_brittle:CLAIM",
    "mean_scores_fall": "unbag.lab.claims.mean_scores_fall:CLAIM",
    "positives_help": "unbag.lab.claims.positives_help:CLAIM",
    "leaky_positives_help": "unbag.lab.claims.leaky_positives_help:CLAIM",
    "positives_held_out": "unbag.lab.claims.positives_held_out:CLAIM",
    "positives_only": "unbag.lab.claims.positives_only:CLAIM",
    "positives_ratio": "unbag.lab.claims.positives_ratio:CLAIM",
    "families_apart": "unbag.lab.claims.families_apart:CLAIM",
    "rephrased_positives": "unbag.lab.claims.rephrased_positives:CLAIM",
    "ce_clip_beats_neg_clip": "unbag.lab.claims.ce_clip_beats_neg_clip:CLAIM",
    "ce_clip_as_printed": "unbag.lab.claims.ce_clip_as_printed:CLAIM",
    "ce_clip_terms": "unbag.lab.claims.ce_clip_terms:CLAIM",
    "ce_clip_thresholds": "unbag.lab.claims.ce_clip_thresholds:CLAIM",
    "ce_clip_upper_bound": "unbag.lab.claims.ce_clip_upper_bound:CLAIM",
    "threshold_curves": "unbag.lab.claims.threshold_curves:CLAIM",
    "dcsm_reads_maps": "unbag.lab.claims.dcsm_reads_maps:CLAIM",
    "dcsm_released": "unbag.lab.claims.dcsm_released:CLAIM",
    "dcsm_taught_longer": "unbag.lab.claims.dcsm_taught_longer:CLAIM",
    "pooling_by_text": "unbag.lab.claims.pooling_by_text:CLAIM",
    "rotary_patches": "unbag.lab.claims.rotary_patches:CLAIM",
    "places_in_two_dimensions": "unbag.lab.claims.places_in_two_dimensions:CLAIM",
    "many_words": "unbag.lab.claims.many_words:CLAIM",
    "stronger_text": "unbag.lab.claims.stronger_text:CLAIM",
    "stronger_text_locked": "unbag.lab.claims.stronger_text_locked:CLAIM",
    "decoder_against_cosine": "unbag.lab.claims.decoder_against_cosine:CLAIM",
    "decoder_taught_longer": "unbag.lab.claims.decoder_taught_longer:CLAIM",
    "question_in_the_prompt": "unbag.lab.claims.question_in_the_prompt:CLAIM",
    "one_token": "unbag.lab.claims.one_token:CLAIM",
    "m3id_prior": "unbag.lab.claims.m3id_prior:CLAIM",
    "order_free_retrieval": "unbag.lab.claims.order_free_retrieval:CLAIM",
    "order_free_pictures": "unbag.lab.claims.order_free_pictures:CLAIM",
    "modality_gap": "unbag.lab.claims.modality_gap:CLAIM",
    "perturbation_detector": "unbag.lab.claims.perturbation_detector:CLAIM",
    "ideal_concepts": "unbag.lab.claims.ideal_concepts:CLAIM",
    "ideal_conditions": "unbag.lab.claims.ideal_conditions:CLAIM",
    "superposition": "unbag.lab.claims.superposition:CLAIM",
    "cone": "unbag.lab.claims.cone:CLAIM",
    "erroneous_agreement": "unbag.lab.claims.erroneous_agreement:CLAIM",
    "readable_patches": "unbag.lab.claims.readable_patches:CLAIM",
    "relaxed_pairs": "unbag.lab.claims.relaxed_pairs:CLAIM",
    "weight_mixing": "unbag.lab.claims.weight_mixing:CLAIM",
    "caption_only_solvable": "unbag.lab.claims.caption_only_solvable:CLAIM",
    "one_order_leaks": "unbag.lab.claims.one_order_leaks:CLAIM",
    "photos_negatives": "unbag.lab.claims.photos_negatives:CLAIM",
    "photos_kinds_apart": "unbag.lab.claims.photos_kinds_apart:CLAIM",
    "photos_positives": "unbag.lab.claims.photos_positives:CLAIM",
    "photos_read_blind": "unbag.lab.claims.photos_read_blind:CLAIM",
}
"""Name and place of each claim, in the order in which the overview shows them."""
NAMES = tuple(CLAIMS)


def find_claim(name: str) -> Claim:
    """By name; only that claim is imported."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES)
    module, _, attribute = CLAIMS[name].partition(":")
    found: Claim = getattr(import_module(module), attribute)
    return found


def all_claims() -> tuple[Claim, ...]:
    """Every claim."""
    return tuple(find_claim(name) for name in NAMES)
