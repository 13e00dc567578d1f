"""Published numbers beside ours come in and plain JSON objects go out, and back, strictly."""

from __future__ import annotations

from unbag.types.as_json import JsonObject, estimate_from_json, estimate_to_json
from unbag.types.benchmarks import Published
from unbag.types.json_fields import Fields
from unbag.types.results import Reference


def published_to_json(published: Published) -> JsonObject:
    """Every field of a published number, as a fraction."""
    return {
        "model": published.model,
        "metric": published.metric,
        "value": published.value,
        "source": published.source,
        "aggregate": published.aggregate,
        "scoring": published.scoring,
        "has_errata": published.has_errata,
        "digits": published.digits,
        "note": published.note,
    }


def published_from_json(value: object, where: str = "published") -> Published:
    """The published number that `published_to_json` wrote."""
    fields = Fields.of(value, where)
    return Published(
        model=fields.text("model"),
        metric=fields.text("metric"),
        value=fields.number("value"),
        source=fields.text("source"),
        aggregate=fields.text("aggregate"),
        scoring=fields.text("scoring"),
        has_errata=fields.truth("has_errata"),
        digits=fields.whole("digits"),
        note=fields.text("note"),
    )


def reference_to_json(reference: Reference) -> JsonObject:
    """Every field of a reference, and what follows from them for other programs."""
    return {
        "benchmark": reference.benchmark,
        "scorer": reference.scorer,
        "published": published_to_json(reference.published),
        "ours": estimate_to_json(reference.ours),
        "is_same_model": reference.is_same_model,
        "is_comparable": reference.is_comparable,
        "is_inside": reference.is_inside,
        "doubts": list(reference.doubts),
    }


def reference_from_json(value: object, *, where: str = "reference") -> Reference:
    """The reference that `reference_to_json` wrote; what follows from it is computed again."""
    fields = Fields.of(value, where)
    return Reference(
        benchmark=fields.text("benchmark"),
        scorer=fields.text("scorer"),
        published=fields.read("published", published_from_json),
        ours=fields.read("ours", estimate_from_json),
        is_same_model=fields.truth("is_same_model"),
        is_comparable=fields.truth("is_comparable"),
        doubts=fields.texts("doubts"),
    )
