"""Places of a tower and a sheet of labels come in; what each reader finds there goes out.

Dimensions: N pictures or captions, F features, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.probes.extract_places import Places
from unbag.probes.extract_sheets import Label
from unbag.probes.finding import Known, Options, Quantity, mean
from unbag.probes.plots import Lines, Plot, Series
from unbag.probes.reader_tasks import FULL, QUICK, Effort, Feature
from unbag.probes.readers import Reader, Reading, read
from unbag.types import BoolArray, FloatArray

SELECTIVITY = "selectivity"
RANDOM = "random encoder"
QUARTERS = "patches by quarter"
"""Means over quarters keep where things lie, and need fewer pictures than a learned query."""


@dataclass(frozen=True)
class Side:
    """Words for one tower."""

    part: str
    many: str

    @property
    def whole(self) -> str:
        """The place of all of them."""
        return f"all {self.many}"

    @property
    def mean(self) -> str:
        """The place of their mean."""
        return f"mean {self.part}"


PICTURE_SIDE = Side("patch", "patches")
CAPTION_SIDE = Side("word", "words")


@dataclass(frozen=True, eq=False)
class Spot:
    """One place and the readers that are put to it."""

    name: str
    feature: Feature
    """[N, F] or [N, L, W]."""
    readers: tuple[Reader, ...]
    mask_NL: BoolArray | None = None


def spots(places: Places, side: Side, options: Options) -> list[Spot]:
    """Where is read from, and by what: cheap readers only, all of them in full."""
    vector: tuple[Reader, ...] = ("linear", "mlp") if options.is_full else ("linear",)
    found = [Spot("projected", places.projected_ND, ("linear", "mlp"))]
    if places.last is not None and places.last.pooled_NW is not None:
        found.append(Spot("unprojected", places.last.pooled_NW, vector))
    if places.last is not None:
        found.append(Spot(side.mean, places.last.mean_NW, vector))
    if places.last is not None and places.last.quarter_NQ is not None:
        found.append(Spot(QUARTERS, places.last.quarter_NQ, ("linear",)))
    if places.whole is not None:
        whole = places.whole
        found.append(Spot(side.whole, whole.vector_NLW, ("attentive",), whole.mask_NL))
    return found


def curve_spots(places: Places, side: Side) -> list[Spot]:
    """The layers before the last: what is read out there, and its patches or words."""
    found = []
    for layer, summary in sorted(places.layers.items())[:-1]:
        place, feature = side.mean, summary.mean_NW
        if summary.quarter_NQ is not None:
            place, feature = QUARTERS, summary.quarter_NQ
        found.append(Spot(at_layer(place, layer), feature, ("linear",)))
        if summary.pooled_NW is not None:
            found.append(Spot(at_layer("unprojected", layer), summary.pooled_NW, ("linear",)))
    return found


def at_layer(place: str, layer: int) -> str:
    """The name of a place before the last layer."""
    return f"{place} at layer {layer}"


def readings(
    spots: Sequence[Spot], label: Label, groups: Sequence[str], options: Options, effort: Effort
) -> Iterator[tuple[str, Reader, Reading]]:
    """Each reader at each place."""
    for spot in spots:
        for reader in spot.readers:
            yield (
                spot.name,
                reader,
                read(
                    spot.feature,
                    label.class_N,
                    groups,
                    reader=reader,
                    mask_NL=spot.mask_NL,
                    effort=effort,
                    seed=options.seed,
                ),
            )


def quantities(
    found: Sequence[tuple[str, Reader, Reading]],
    label: Label,
    groups: Sequence[str],
    options: Options,
) -> Iterator[Quantity]:
    """Accuracy, and selectivity beside it where there was a control."""
    for place, reader, reading in found:
        name = f"{label.name}, {place}, {reader}"
        bag = label.bag if place == "projected" else None
        where = _WHERE.get(place, place)
        yield mean(
            name,
            reading.correct_N,
            about=f"{label.name} read from {where} by {_BY[reader]}, unseen pairs",
            options=options,
            clusters=groups,
            known=Known(bag=bag, perfect=1.0, chance=reading.chance),
            better="higher",
            is_rate=True,
        )
        if np.isfinite(reading.control_N).any():
            yield mean(
                f"{name}, {SELECTIVITY}",
                reading.correct_N - reading.control_N,
                about="the same minus a reader that was fitted to shuffled labels",
                options=options,
                clusters=groups,
                known=Known(bag=None if bag is None else bag - reading.chance, chance=0.0),
                better="higher",
            )


_BY: dict[Reader, str] = {
    "linear": "a logistic regression",
    "mlp": "a network with one hidden layer",
    "attentive": "one learned query",
}


_WHERE = {
    "projected": "the vector that is compared",
    "unprojected": "the vector before the projection",
}


def curves(
    made: Sequence[Quantity], label: Label, places: Places, side: Side, *, title: str
) -> Lines | None:
    """Accuracy of the linear reader by layer; None where there is no layer to go by."""
    value_of = {quantity.name: quantity.estimate for quantity in made}
    last = max(places.layers, default=0)
    series = []
    for place in (QUARTERS, side.mean, "unprojected"):
        rows = []
        for layer in sorted(places.layers):
            spot = place if layer == last else at_layer(place, layer)
            value = value_of.get(f"{label.name}, {spot}, linear")
            rows += [(layer, value)] if value is not None else []
        if len(rows) > 1:
            series.append(
                Series(
                    "vector that is read out" if place == "unprojected" else place,
                    tuple(float(layer) for layer, _ in rows),
                    tuple(value.value for _, value in rows),
                    tuple(value.low for _, value in rows),
                    tuple(value.high for _, value in rows),
                )
            )
    if not series:
        return None
    return Lines(
        title,
        x="layer",
        y="accuracy on unseen pairs",
        series=tuple(series),
        chance=1 / (int(label.class_N.max()) + 1),
        about="0 enters the first block, the last enters the projection; logistic regression",
    )


def read_label(
    places: Places, label: Label, groups: Sequence[str], side: Side, options: Options
) -> tuple[list[Quantity], list[Plot]]:
    """All that is found out about one label."""
    effort = FULL if options.is_full else QUICK
    last, before = spots(places, side, options), curve_spots(places, side)
    found = list(readings(last, label, groups, options, effort))
    found += readings(before, label, groups, options, replace(effort, shuffles=0))
    made = list(quantities(found, label, groups, options))
    curve = curves(made, label, places, side, title=f"{label.name}: readable at which layer")
    return made, [curve] if curve is not None else []


def read_twin(
    projected_ND: FloatArray, label: Label, groups: Sequence[str], options: Options
) -> list[Quantity]:
    """What the vector that is compared gives without training."""
    effort = replace(FULL if options.is_full else QUICK, shuffles=0)
    spot = Spot("projected", projected_ND, ("linear", "mlp"))
    return [
        mean(
            f"{label.name}, {place}, {reader}, {RANDOM}",
            reading.correct_N,
            about="the same of the model with random weights",
            options=options,
            clusters=groups,
            known=Known(chance=reading.chance),
            is_rate=True,
        )
        for place, reader, reading in readings([spot], label, groups, options, effort)
    ]
