"""Metrics: pure functions from scores to outcomes, averages, intervals and comparisons."""

from unbag.metrics.aggregate import Measured, by_tag, estimate, measure, outcomes_by_metric
from unbag.metrics.choice import Choice, Classify, Flips, PickImage, class_weights
from unbag.metrics.compare import Contest, compare, compare_all, holm, mcnemar
from unbag.metrics.definitions import DEFINITIONS, Definition, recall_definition
from unbag.metrics.granularity import Cell, averages, check_average, counts, fits
from unbag.metrics.intervals import Interval, bootstrap, generator, wilson
from unbag.metrics.pairs import (
    Groups,
    Joined,
    JoinedPairs,
    Pairs,
    Relaxed,
    additive_margin,
    group_outcomes,
    pair_outcomes,
    perplexity_margin,
    printed_perplexity_margin,
    ratio_margin,
)
from unbag.metrics.retrieval import Block, Recall, Retention, hits, rank, rank_blocks
from unbag.metrics.statements import Correlation, Statements, area_values, best_threshold, kendall
from unbag.metrics.ties import CHANCE, CHANCE_INDEPENDENT, Credit, credit, hit_chance, simulate
from unbag.metrics.triples import TextOnly, Triples, triple_outcomes

__all__ = [
    "CHANCE", "CHANCE_INDEPENDENT", "DEFINITIONS", "Block", "Cell", "Choice", "Classify",
    "Contest", "Correlation", "Credit", "Definition", "Flips", "Groups", "Interval", "Joined",
    "JoinedPairs", "Measured", "Pairs", "PickImage", "Recall", "Relaxed", "Retention",
    "Statements", "TextOnly", "Triples", "additive_margin", "area_values", "averages",
    "best_threshold", "bootstrap", "by_tag", "check_average", "class_weights", "compare",
    "compare_all", "counts", "credit", "estimate", "fits", "generator", "group_outcomes",
    "hit_chance", "hits", "holm", "kendall", "mcnemar", "measure", "outcomes_by_metric",
    "pair_outcomes", "perplexity_margin", "printed_perplexity_margin", "rank", "rank_blocks",
    "ratio_margin", "recall_definition", "simulate", "triple_outcomes", "wilson",
]  # fmt: skip
