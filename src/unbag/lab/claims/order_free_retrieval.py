"""Claim: captions whose words are shuffled are found nearly as well."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="order_free_retrieval",
    source="Yuksekgonul et al. 2023, section 3 and figure 2",
    statement="Retrieval needs no order of words: with the words of all captions shuffled, a "
    "model keeps most of its recall.",
    experiment="probes",
    predictions=(
        Prediction(
            "more than 30 % of captions find their picture first, so that there is much to keep",
            Number("base", "order-free", "recall, text to image"),
            0.3,
            "above",
        ),
        Prediction(
            "captions with all words shuffled keep more than 75 % of recall",
            Number("base", "order-free", "retention all_words, text to image"),
            0.75,
            "above",
        ),
        Prediction(
            "pictures find such captions with more than 75 % of recall",
            Number("base", "order-free", "retention all_words, image to text"),
            0.75,
            "above",
        ),
        Prediction(
            "with nouns and adjectives shuffled among themselves more than 75 % is kept",
            Number("base", "order-free", "retention nouns_and_adjectives, text to image"),
            0.75,
            "above",
        ),
    ),
    beside=(
        Number("random", "order-free", "recall, text to image"),
        Number("hard_negative", "order-free", "recall, text to image"),
        Number("ce_clip_fixed", "order-free", "recall, text to image"),
    ),
    controls="the untrained twin finds nothing; repaired models are asked the same",
    knobs="400 pictures; captions name two things with their colours; queries and gallery are "
    "shuffled alike, three draws. The paper says 'marginal degradation' and gives bars without "
    "numbers: 75 % is the bound of our specification",
    paper="ARO",
)
