"""From scores to numbers: pure functions on arrays, intervals, averages and comparisons."""

from unbag.metrics.aggregate import by_tag, estimate
from unbag.metrics.chance import CHANCE, CHANCE_INDEPENDENT, hit_chance, simulate
from unbag.metrics.choice import Choice
from unbag.metrics.classify import Classify, class_weights
from unbag.metrics.compare import Contest, compare, compare_all, holm, mcnemar
from unbag.metrics.correlation import Correlation, kendall
from unbag.metrics.definitions import DEFINITIONS, Definition, recall_definition
from unbag.metrics.flips import Flips
from unbag.metrics.granularity import Cell, averages, check_average, counts, fits
from unbag.metrics.groups import Groups, judge_groups
from unbag.metrics.intervals import Interval, bootstrap, wilson
from unbag.metrics.joined import Joined, JoinedPairs
from unbag.metrics.measure import Measured, judge, measure
from unbag.metrics.pairs import Pairs, judge_pair
from unbag.metrics.pick import PickPicture
from unbag.metrics.ranking import Block, hits, rank, rank_blocks
from unbag.metrics.relaxed import (
    additive_margin,
    perplexity_margin,
    printed_perplexity_margin,
    ratio_margin,
)
from unbag.metrics.relaxed_pairs import Relaxed
from unbag.metrics.resample import generator
from unbag.metrics.retrieval import Recall, Retention
from unbag.metrics.statements import Statements, area_values, best_threshold
from unbag.metrics.text_only import TextOnly
from unbag.metrics.ties import Credit, credit
from unbag.metrics.triples import Triples, judge_triples

__all__ = [
    "CHANCE",
    "CHANCE_INDEPENDENT",
    "DEFINITIONS",
    "Block",
    "Cell",
    "Choice",
    "Classify",
    "Contest",
    "Correlation",
    "Credit",
    "Definition",
    "Flips",
    "Groups",
    "Interval",
    "Joined",
    "JoinedPairs",
    "Measured",
    "Pairs",
    "PickPicture",
    "Recall",
    "Relaxed",
    "Retention",
    "Statements",
    "TextOnly",
    "Triples",
    "additive_margin",
    "area_values",
    "averages",
    "best_threshold",
    "bootstrap",
    "by_tag",
    "check_average",
    "class_weights",
    "compare",
    "compare_all",
    "counts",
    "credit",
    "estimate",
    "fits",
    "generator",
    "hit_chance",
    "hits",
    "holm",
    "judge",
    "judge_groups",
    "judge_pair",
    "judge_triples",
    "kendall",
    "mcnemar",
    "measure",
    "perplexity_margin",
    "printed_perplexity_margin",
    "rank",
    "rank_blocks",
    "ratio_margin",
    "recall_definition",
    "simulate",
    "wilson",
]
