"""Claim: embeddings of a chat model need the question in the prompt."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="question_in_the_prompt",
    source="Li et al. 2024, later version (VLM2Vec); Jiang et al. 2024",
    statement="Embeddings of a chat model find relations with the question in the prompt, and "
    "without it they are at the level of CLIP.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are more than 15 points above cosine with the question",
            Number("vlm2vec", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "and within 5 points of it without",
            Number("vlm2vec-plain", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "within",
            0.05,
        ),
    ),
    must_fit=("vlm2vec", "vlm2vec-plain"),
    beside=(
        Number("decoder", "world-relation", "original"),
        Number("decoder-no_question", "world-relation", "original"),
    ),
    controls="the same decoder, the same steps",
    paper="chat models",
)
