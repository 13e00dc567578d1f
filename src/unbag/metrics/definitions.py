"""The name of a metric comes in; what it means, its formula and its chance level go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# What a metric means, in words: a record.


@dataclass(frozen=True)
class Definition:
    """A metric in words, for the report and the documentation."""

    name: str
    title: str
    meaning: str
    """One sentence without formulas."""
    formula: str
    chance: str
    """Credit of random scores, in words or as a fraction; empty where there is no such level."""


# Definitions of metrics that judge all items of a benchmark together, not one by one.

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

__all__ = ["DEFINITIONS", "Definition", "recall_definition"]

_TRIPLE = "c the caption, n its hard negative, p its hard positive"

_ALL = (
    Definition(
        "accuracy",
        "Accuracy",
        "Share of pictures for which a true caption scores above all false ones.",
        "max s(true) > max s(false)",
        "true captions / captions, averaged over the items",
    ),
    Definition(
        "top5",
        "Top-5 accuracy",
        "Share of pictures whose class is among the five best-scored ones.",
        "1 + other classes at or above s(true) <= 5",
        "5 / classes",
    ),
    Definition(
        "original",
        "Original accuracy",
        "Share of pictures whose caption scores above its hard negative.",
        f"s(c) > s(n); {_TRIPLE}",
        "1/2",
    ),
    Definition(
        "augmented",
        "Augmented accuracy",
        "Share of pictures whose caption and hard positive both score above the hard negative.",
        f"s(c) > s(n) and s(p) > s(n); {_TRIPLE}",
        "1/3; 1/4 if both comparisons are independent coins",
    ),
    Definition(
        "brittleness",
        "Brittleness",
        "Share of pictures whose hard negative scores between the caption and its hard positive, "
        "so that an edit which keeps the meaning flips the verdict. Less is better.",
        f"s(c) > s(n) > s(p) or s(p) > s(n) > s(c); {_TRIPLE}",
        "1/3; 1/2 if both comparisons are independent coins",
    ),
    Definition(
        "share_augmented",
        "Share: both above",
        "Caption and hard positive both strictly above the hard negative.",
        "s(c) > s(n) and s(p) > s(n)",
        "1/3",
    ),
    Definition(
        "share_neg_like_hp",
        "Share: positive taken for a negative",
        "The hard positive falls below the hard negative: the model punishes any edit.",
        "s(c) > s(n) > s(p)",
        "1/6",
    ),
    Definition(
        "share_hp_over_orig",
        "Share: only the positive above",
        "The hard positive beats the hard negative although the caption itself does not.",
        "s(p) > s(n) > s(c)",
        "1/6",
    ),
    Definition(
        "share_both_below",
        "Share: both below",
        "The hard negative scores above both true captions.",
        "s(n) > s(c) and s(n) > s(p)",
        "1/3",
    ),
    Definition(
        "share_tie",
        "Share: tied",
        "The hard negative scores exactly as one of the true captions.",
        "s(n) = s(c) or s(n) = s(p)",
        "0",
    ),
    Definition(
        "mean_original",
        "Mean score of the caption",
        "Mean raw score of the true caption; training on hard negatives tends to lower it.",
        "mean s(c)",
        "",
    ),
    Definition(
        "mean_negative",
        "Mean score of the hard negative",
        "Mean raw score of the caption whose meaning was changed.",
        "mean s(n)",
        "",
    ),
    Definition(
        "mean_positive",
        "Mean score of the hard positive",
        "Mean raw score of the caption that was reworded without changing its meaning.",
        "mean s(p)",
        "",
    ),
    Definition(
        "individual",
        "Individual accuracy",
        "Share of pictures that pick their caption over that of the opposite picture.",
        "s(i, own) > s(i, opposite)",
        "1/2",
    ),
    Definition(
        "pair",
        "Pair accuracy",
        "Share of opposite pairs in which both pictures pick their caption; exactly 0 if the two "
        "pictures have one embedding.",
        "s(1,1) > s(1,2) and s(2,2) > s(2,1)",
        "1/4",
    ),
    Definition(
        "same_answer",
        "Same answer",
        "Share of opposite pairs in which the same caption won for both pictures; high values "
        "mean the pictures were not told apart.",
        "one caption wins for both pictures",
        "1/2",
    ),
    Definition(
        "relaxed",
        "Relaxed pair accuracy",
        "Share of pairs whose right assignment scores above the crossed one as a whole, so that a "
        "prior for one caption does not matter.",
        "s(1,1) + s(2,2) > s(1,2) + s(2,1); for probabilities p: p(1,1) p(2,2) > p(1,2) p(2,1)",
        "1/2",
    ),
    Definition(
        "order_flip",
        "Flip rate",
        "Share of pictures for which not every order of the options leads to the same choice. "
        "Options are shown in as many orders as there are of them, each at every letter once. "
        "Less is better.",
        "argmax log p(order o) != argmax log p(order o') for some o, o'",
        "",
    ),
    Definition(
        "individual4",
        "Individual accuracy, four-way",
        "Share of pictures of a set that pick their caption among all four.",
        "s(i, own) > s(i, c) for the other three c",
        "1/4; .50 for a scorer that sees the layout but not who is who",
    ),
    Definition(
        "pair4",
        "Pair accuracy, four-way",
        "Share of opposite pairs in which both pictures pick their caption among all four.",
        "individual4 for both pictures of a pair",
        "1/16; .25 for a scorer that sees the layout but not who is who",
    ),
    Definition(
        "set",
        "Set accuracy",
        "Share of sets in which all four pictures pick their caption among all four.",
        "individual4 for all four pictures",
        "1/256; .0625 for a scorer that sees the layout but not who is who",
    ),
    Definition(
        "text",
        "Text score",
        "Share of items in which each of the two pictures picks its caption.",
        "s(1,1) > s(1,2) and s(2,2) > s(2,1)",
        "1/4",
    ),
    Definition(
        "image",
        "Image score",
        "Share of items in which each of the two captions picks its picture.",
        "s(1,1) > s(2,1) and s(2,2) > s(1,2)",
        "1/4",
    ),
    Definition(
        "group",
        "Group score",
        "Share of items in which pictures and captions all pick each other.",
        "text and image",
        "1/6",
    ),
    Definition(
        "picture_accuracy",
        "Picture accuracy",
        "Share of captions for which a true picture scores above all false ones.",
        "max s(true picture) > max s(false picture)",
        "true pictures / pictures, averaged over the items",
    ),
    Definition(
        "question_pair",
        "Question accuracy",
        "Share of questions that are answered right about both pictures of a group.",
        "right(q, 1) and right(q, 2)",
        "1/4",
    ),
    Definition(
        "image_pair",
        "Image accuracy",
        "Share of pictures about which both questions of a group are answered right.",
        "right(1, i) and right(2, i)",
        "1/4",
    ),
    Definition(
        "all_four",
        "Group accuracy",
        "Share of groups in which both questions are answered right about both pictures.",
        "right(q, i) for all four",
        "1/16",
    ),
    *WHOLE,
    Definition(
        "text_only",
        "Text-only accuracy",
        "Share of triples in which the two captions that mean the same are closer to each other "
        "than either is to the one that does not; only the text encoder takes part.",
        "s(c, c_p) > max(s(c, c_n), s(c_p, c_n))",
        "1/3",
    ),
    Definition(
        "retention",
        "Retention",
        "Text-to-image recall with shuffled captions (or pictures) as a share of that with both as "
        "they are; near 1 means that order was never needed.",
        "R@1(shuffled) / R@1(kept)",
        "",
    ),
    Definition(
        "image_to_text_retention",
        "Image-to-text retention",
        "Image-to-text recall with shuffled captions or pictures as a share of that with both as "
        "they are; near 1 means that order was never needed.",
        "R@1(shuffled) / R@1(kept)",
        "",
    ),
)


def recall_definition(name: str) -> Definition:
    """The definition of text_to_image@k or image_to_text@k for any k."""
    direction, _, k = name.partition("@")
    asker, found = (
        ("caption", "picture") if direction == "text_to_image" else ("picture", "caption")
    )
    return Definition(
        name,
        f"{direction.replace('_', ' ').capitalize()} R@{k}",
        f"Share of {asker}s for which a true {found} is among the {k} best-scored ones, with "
        "ties counted against the model.",
        f"1 + false candidates at or above s(true) <= {k}",
        f"{k} / gallery for one true {found}; 1 - C(n-m,{k})/C(n,{k}) for m of n",
    )


_RECALL = tuple(
    recall_definition(f"{direction}@{k}")
    for direction in ("text_to_image", "image_to_text")
    for k in (1, 5, 10)
)

DEFINITIONS: Mapping[str, Definition] = MappingProxyType(
    {definition.name: definition for definition in (*_ALL, *_RECALL)}
)
"""Every metric by name."""
