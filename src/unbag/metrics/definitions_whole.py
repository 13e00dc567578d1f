"""Definitions of metrics that judge all items of a benchmark together, not one by one."""

from __future__ import annotations

from unbag.metrics.definition import Definition

WHOLE = (
    Definition(
        "auc",
        "Area under the curve",
        "Share of pairs of a true and a false statement in which the true one scores higher.",
        "mean over true t and false f of [s(t) > s(f)]",
        "1/2",
    ),
    Definition(
        "threshold_accuracy",
        "Accuracy at a threshold",
        "Share of statements rightly called true or false by a threshold that was chosen on the "
        "development split.",
        "s > threshold if true, s <= threshold if false",
        "1/2; near it where true and false statements are not equally many",
    ),
    Definition(
        "tau_b",
        "Kendall's tau-b",
        "Do scores order captions as people's ratings do? 1 if always, -1 if always the other way; "
        "corrected for pairs that are level in score or rating.",
        "(alike - otherwise) / sqrt(pairs of other scores x pairs of other ratings)",
        "0",
    ),
    Definition(
        "tau_c",
        "Kendall's tau-c",
        "The same agreement, made comparable where ratings have few levels; what is published for "
        "the experts of Flickr8k.",
        "2 (alike - otherwise) / (n^2 (m - 1) / m), m the smaller number of levels",
        "0",
    ),
)
