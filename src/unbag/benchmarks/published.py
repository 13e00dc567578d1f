"""A published table in percent comes in; `Published` values, as fractions, go out.

The averaging rule of each is the `name` of an `Aggregate`: one of the benchmark's own, or
`micro[tag=value]`, which a result holds in `by_tag` under `tag=value`. An empty rule means that
the source does not say how it averaged, or that none of ours gives its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbag.types import Published

CLIP_B32 = "CLIP ViT-B/32 (openai)"
CLIP_L14 = "CLIP ViT-L/14 (openai)"
NEGCLIP = "NegCLIP"
CE_CLIP = "CE-CLIP"
CE_CLIP_PLUS = "CE-CLIP+"

VL_COMPO = "ytaek-oh/vl_compo, individual_results.csv"
VL_COMPO_MODELS = (CLIP_B32, CLIP_L14, NEGCLIP, CE_CLIP)
ARO_PAPER = "Yuksekgonul et al. 2023 (ARO)"
ARO_MODELS = (CLIP_B32, "CLIP-FT (ARO)", NEGCLIP)
CE_CLIP_PAPER = "Zhang et al. 2024 (CE-CLIP)"
HARD_POSITIVES_PAPER = "Kamath et al. 2024 (hard positives)"


def by_model(
    source: str,
    models: Sequence[str],
    percents: Mapping[str, Sequence[float]],
    *,
    metric: str = "accuracy",
) -> tuple[Published, ...]:
    """One row an averaging rule, one column a model."""
    return tuple(
        Published(model, metric, _fraction(value), source, aggregate)
        for aggregate, row in percents.items()
        for model, value in zip(models, row, strict=True)
    )


def by_rule(
    source: str,
    aggregates: Sequence[str],
    percents: Mapping[str, Sequence[float | None]],
    *,
    metric: str = "accuracy",
) -> tuple[Published, ...]:
    """One row a model, one column an averaging rule; None where the table has no number."""
    return tuple(
        Published(model, metric, _fraction(value), source, aggregate)
        for model, row in percents.items()
        for aggregate, value in zip(aggregates, row, strict=True)
        if value is not None
    )


def _fraction(percent: float) -> float:
    return round(percent / 100, 6)
