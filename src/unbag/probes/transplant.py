"""The probe `transplant`: which part of a model was repaired, by swapping parts of two models.

A model has three parts: image encoder, text encoder, and read-out (both projections into the joint
space, and the scale). If a repair changed a score, the combinations show which part did it. Ours;
related: model stitching (Bansal et al. 2021), without layers in between.

Limits: parts of independently trained models share no space, so their combinations are at chance
and say nothing. A part that adapted to another one contributes little alone: compare its gain alone
with the loss without it.

Dimensions: N rows, M captions and negatives, D joint space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from unbag.errors import UnbagError
from unbag.probes.base import (
    Grid,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Row,
    Thresholds,
    Tone,
    Value,
    Verdict,
    fill,
    mean,
)
from unbag.probes.sampling import choose_rows, cluster_of, hashed, unite
from unbag.probes.space import TIE, EncoderSpace, Space
from unbag.runs.progress import Progress
from unbag.types import DualEncoder, Estimate, FloatArray

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unbag.training.encoders.base import Part, Trainable


Source = Literal["base", "other"]
SOURCES: tuple[Source, Source] = ("base", "other")
NAME = "transplant"
EVERY = "all kinds"
DIFFERENCE = "difference"


class TransplantThresholds(Thresholds):
    """Thresholds on shares of the difference between the two models."""

    SUFFICES = 0.8, "share that a part must contribute alone to be named as the cause"
    NEEDED = 0.5, "share that must be lost without a part for it to be called needed"


VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "same": ("told", "The two models do not differ {where} ({whole:points}): no part to name."),
    "differ": (
        "told",
        "The difference to the other model {where} is {whole:points}: {parts}; {place}.",
    ),
}
PHRASES = {
    "everywhere": "over all kinds",
    "kind": "on {kind}",
    "first part": "the {part} alone contributes {change:change}",
    "part": "the {part} {change:change}",
    "one": "the difference is in the {enough}",
    "each": "the {enough} suffices",
    "all": "all parts are needed together",
    "several": "the {needed} are needed together",
    "not alone": "the {needed} is needed, but does not suffice",
    "unknown": "there are too few rows to name a part",
    "spread": "the difference is spread over the parts",
}
MAX_ROWS = 160
"""Rows per kind on which the models differ most, in a quick diagnosis."""
MIN_ROWS = 20
"""Minimum rows of a kind for a scope of its own."""
MAX_KINDS = 2
"""Number of scopes for single kinds, those on which the models differ most."""
HINT = "parts fit between a model and the model it was fine-tuned from; name that one as --against"
_PROJECTIONS = frozenset({"proj", "project", "text_projection", "visual_projection"})
"""Names of separate projections at the end of an encoder in common libraries."""


class ModelPart(NamedTuple):
    """A part of a model."""

    field: Literal["image", "text", "read_out"]
    name: str


PARTS = (
    ModelPart("image", "image encoder"),
    ModelPart("text", "text encoder"),
    ModelPart("read_out", "read-out"),
)


class Combination(NamedTuple):
    """The model that each part is taken from."""

    image: Source
    text: Source
    read_out: Source | None
    """None where there is no separate projection."""


Variant = tuple[Source, Source]
"""The model of the encoder, and the model of its projection."""


def ask(subject: ProbedModel, data: ProbeData, options: Options, progress: Progress) -> ProbeResult:
    """Combine the parts of both models; only two new models have to encode."""
    rows = [row for row in data.rows if row.negative is not None]
    if subject.other is None:
        return ProbeResult(NAME, skipped="it needs a second model: --against")
    if subject.space is None or subject.other.space is None:
        return ProbeResult(NAME, skipped="it needs two dual encoders")
    if not rows:
        return ProbeResult(NAME, skipped="it needs captions with negatives")
    base, model = subject.other.model, subject.model
    if not isinstance(base, DualEncoder) or not isinstance(model, DualEncoder):
        return ProbeResult(NAME, skipped="it needs two dual encoders")
    try:
        donors = open_donors(base, model)
    except UnbagError as error:
        return ProbeResult(NAME, skipped=error.message)
    spaces = (subject.other.space, subject.space)
    scopes = choose_scopes(rows, spaces, options)
    if not scopes:
        return ProbeResult(NAME, skipped="no image could be opened")
    used = tuple({row.id: row for scope_rows in scopes.values() for row in scope_rows}.values())
    credits_by_choice = credits(donors.choices, encode_variants(donors, spaces, used, progress))
    place = {row.id: places for places, row in enumerate(used)}
    credits_by_scope = {}
    for scope, scope_rows in scopes.items():
        places = [place[row.id] for row in scope_rows]
        credits_by_scope[scope] = {
            choice: value_N[places] for choice, value_N in credits_by_choice.items()
        }
    names = (subject.other.name, subject.name)
    return ProbeResult(
        NAME,
        tuple(
            q
            for scope, scope_rows in scopes.items()
            for q in _quantities(scope, scope_rows, credits_by_scope[scope], options)
        ),
        headline=f"{list(scopes)[-1]}: {DIFFERENCE}",
        plots=tuple(
            _grid(scope, credits_by_choice, names)
            for scope, credits_by_choice in credits_by_scope.items()
        ),
        notes=(
            f"named parts come from {names[1]}, all others from {names[0]}",
            *donors.parts.notes,
        ),
    )


def say(result: ProbeResult) -> Verdict:
    """Say which part explains the difference, on the kind with the largest difference."""
    scope = result.headline.removesuffix(f": {DIFFERENCE}")
    difference = result[result.headline].estimate
    where = PHRASES["everywhere"] if scope == EVERY else fill(PHRASES["kind"], kind=scope)
    # Written so that a NaN interval counts as undecided.
    if not (difference.low > 0 or difference.high < 0):
        return Verdict(*VERDICTS["same"], {"where": where, "whole": difference})
    parts = [part for part in PARTS if result.get(f"{scope}: {alone(part)}")]
    gains = [result[f"{scope}: {alone(part)}"].estimate for part in parts]
    losses = [result[f"{scope}: {lost(part)}"].estimate for part in parts]
    part_texts = [
        fill(PHRASES["part" if place else "first part"], part=part.name, change=change)
        for place, (part, change) in enumerate(zip(parts, gains, strict=True))
    ]
    place = _place(
        [part.name for part in parts],
        [_has(change, difference, TransplantThresholds.SUFFICES) for change in gains],
        [_has(change, difference, TransplantThresholds.NEEDED) for change in losses],
    )
    values: dict[str, Value] = {
        "whole": difference,
        "where": where,
        "parts": ", ".join(part_texts),
        "place": place,
    }
    return Verdict(*VERDICTS["differ"], values)


TRANSPLANT = Probe(
    name=NAME,
    question="Which part was repaired?",
    about="Image encoder, text encoder and read-out (both projections and the scale) of two models "
    "are combined in all eight ways; each combination is scored by the share of captions that beat "
    "their negative, where a tie is wrong. Alone: the other model with one part of this "
    "one, minus the other model. Lost: this model minus itself with that part of the other. Single "
    "kinds are those on which the two differ most, so their differences are slightly optimistic. "
    "Parts fit only between models of one origin; combinations of independently trained models are "
    "at chance.",
    ask=ask,
    say=say,
    thresholds=tuple(TransplantThresholds),
)


def _has(change: Estimate, difference: Estimate, share: float) -> bool | None:
    """Whether a part has this share of the difference; None where its interval includes 0."""
    if not change.value / difference.value >= share:
        return False
    return True if (change.low > 0 if difference.value > 0 else change.high < 0) else None


def _place(
    names: Sequence[str], has_gain: Sequence[bool | None], has_loss: Sequence[bool | None]
) -> str:
    sufficient = [name for name, has in zip(names, has_gain, strict=True) if has]
    needed = [name for name, has in zip(names, has_loss, strict=True) if has]
    if sufficient:
        case = "one" if len(sufficient) == 1 else "each"
    elif len(needed) == len(names):
        case = "all"
    elif needed:
        case = "several" if len(needed) > 1 else "not alone"
    else:
        case = "unknown" if None in (*has_gain, *has_loss) else "spread"
    return fill(PHRASES[case], enough=" or the ".join(sufficient), needed=" and the ".join(needed))


def choose_scopes(
    rows: Sequence[Row], spaces: tuple[Space, Space], options: Options
) -> dict[str, tuple[Row, ...]]:
    """Choose rows of every kind, and more of the kinds with the largest differences, largest last.

    Empty if no image could be opened.
    """
    chosen = choose_rows(rows, options)
    base_N, other_N = (
        wins(encoded.image_ND, encoded) for encoded in (encode(s, chosen) for s in spaces)
    )
    changes: dict[str, list[float]] = {}
    for row, change in zip(chosen, (other_N - base_N).tolist(), strict=True):
        if np.isfinite(change):
            changes.setdefault(row.kind, []).append(change)
    differences = {k: abs(float(np.mean(c))) for k, c in changes.items() if len(c) >= MIN_ROWS}
    kinds = sorted(differences, key=lambda kind: (differences[kind], kind))[-MAX_KINDS:]
    max_rows = None if options.is_full else MAX_ROWS
    rows_by_kind = {
        kind: _choose([row for row in rows if row.kind == kind], max_rows) for kind in kinds
    }
    if len(changes) == len(rows_by_kind) == 1:
        return {kind or EVERY: scope_rows for kind, scope_rows in rows_by_kind.items()}
    return {EVERY: tuple(chosen)} | rows_by_kind if changes else {}


def _choose(rows: Sequence[Row], max_rows: int | None) -> tuple[Row, ...]:
    """Choose rows by hash, cluster by cluster, as for all probes."""
    order = sorted(rows, key=lambda row: (hashed(cluster_of(row)), hashed(row.id)))
    return tuple(unite(order[:max_rows]))


def encode_variants(
    donors: Donors, spaces: tuple[Space, Space], rows: Sequence[Row], progress: Progress
) -> dict[Variant, Encoded]:
    """Encode rows with every encoder and every projection: these give all combinations.

    The vector of an image depends only on the image encoder and its projection, so the two models
    and the two with swapped read-outs have the vectors of all eight combinations.
    """
    encoded = {(s, s): encode(space, rows) for s, space in zip(SOURCES, spaces, strict=True)}
    if donors.parts.read_out:
        for encoders, read_out in (SOURCES, SOURCES[::-1]):
            encoder = donors.combine(Combination(encoders, encoders, read_out))
            encoded[encoders, read_out] = encode(EncoderSpace(encoder, progress=progress), rows)
    return encoded


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of rows from one variant of both encoders."""

    image_ND: FloatArray
    caption_ND: FloatArray
    negative_ND: FloatArray


def encode(space: Space, rows: Sequence[Row]) -> Encoded:
    """Encode images, captions and negatives of rows."""
    captions = [row.caption for row in rows]
    vector_MD = space.captions([*captions, *(str(row.negative) for row in rows)])
    image_ND = space.images([row.image for row in rows])
    return Encoded(image_ND, vector_MD[: len(rows)], vector_MD[len(rows) :])


def credits(
    choices: Sequence[Combination], encoded: Mapping[Variant, Encoded]
) -> dict[Combination, FloatArray]:
    """Return the wins of each combination, [N]."""
    credits_by_choice = {}
    for choice in choices:
        image_ND = encoded[choice.image, choice.read_out or choice.image].image_ND
        credits_by_choice[choice] = wins(
            image_ND, encoded[choice.text, choice.read_out or choice.text]
        )
    return credits_by_choice


def wins(image_ND: FloatArray, encoded: Encoded) -> FloatArray:
    """Return 1 where the caption beats its negative, else 0 (also a tie); NaN without an image."""
    true_N, false_N = (
        (image_ND * text_ND).sum(axis=-1) for text_ND in (encoded.caption_ND, encoded.negative_ND)
    )
    return np.where(np.isfinite(true_N), (true_N - false_N > TIE).astype(float), np.nan)


def _quantities(
    scope: str,
    rows: Sequence[Row],
    credits_by_choice: Mapping[Combination, FloatArray],
    options: Options,
) -> Iterator[Quantity]:
    """Yield the share of each combination, the gain of each part alone and the loss without it."""
    units = [row.id for row in rows]
    clusters = [cluster_of(row) for row in rows]
    base, *_, other = credits_by_choice

    over_rows = partial(mean, options=options, units=units, clusters=clusters)
    known = Known(perfect=1.0, chance=0.5)
    for choice, value_N in credits_by_choice.items():
        name = label(choice)
        about = f"captions above their negatives; parts from this model: {name}"
        yield over_rows(f"{scope}: {name}", value_N, about=about, known=known, is_rate=True)
    about = "share of this model minus that of the other"
    yield over_rows(
        f"{scope}: {DIFFERENCE}", credits_by_choice[other] - credits_by_choice[base], about=about
    )
    for part in PARTS if base.read_out else PARTS[:2]:
        added_N = credits_by_choice[with_part(base, part, "other")] - credits_by_choice[base]
        about = f"gain with the {part.name} of this model"
        yield over_rows(f"{scope}: {alone(part)}", added_N, about=about)
        lost_N = credits_by_choice[other] - credits_by_choice[with_part(other, part, "base")]
        about = f"loss with the {part.name} of the other"
        yield over_rows(f"{scope}: {lost(part)}", lost_N, about=about)


def _grid(
    scope: str, credits_by_choice: Mapping[Combination, FloatArray], names: tuple[str, str]
) -> Grid:
    name_of = dict(zip(SOURCES, names, strict=True))
    share = {choice: float(np.nanmean(value_N)) for choice, value_N in credits_by_choice.items()}
    columns = [(c.text, c.read_out) for c in share if c.image == "base"]
    column_names = [
        f"text of {name_of[t]}" + (f", read-out of {name_of[r]}" if r else "") for t, r in columns
    ]
    return Grid(
        title=f"Parts of two models: {scope}",
        rows=tuple(f"images of {name_of[source]}" for source in SOURCES),
        columns=tuple(column_names),
        values=tuple(tuple(share[Combination(p, t, r)] for t, r in columns) for p in SOURCES),
        row_name="image encoder",
        column_name="text encoder and read-out",
        about="share of captions that beat their negatives",
    )


def label(choice: Combination) -> str:
    """Return the parts that come from this model."""
    part_names = [part.name for part in PARTS if getattr(choice, part.field) == "other"]
    part_count = len([source for source in choice if source])
    return {0: "none", part_count: "all"}.get(len(part_names), " + ".join(part_names))


def alone(part: ModelPart) -> str:
    """Return the name of the gain of a part alone."""
    return f"{part.name} alone"


def lost(part: ModelPart) -> str:
    """Return the name of the loss without a part."""
    return f"lost without {part.name}"


def with_part(choice: Combination, part: ModelPart, source: Source) -> Combination:
    """Return the combination with one part from another source."""
    return choice._replace(**{part.field: source})


def transplant(base: DualEncoder, other: DualEncoder) -> tuple[Transplant, ...]:
    """Build every combination, all in memory; the two models themselves are first and last."""
    donors = open_donors(base, other)
    return tuple(Transplant(choice, donors.combine(choice)) for choice in donors.choices)


@dataclass(frozen=True, eq=False)
class Transplant:
    """One combination."""

    choice: Combination
    encoder: DualEncoder


def open_donors(base: DualEncoder, other: DualEncoder) -> Donors:
    """Split both models into parts; raise UnbagError if these do not fit.

    Architectures must agree in the name and shape of every weight. Preprocessing, tokenizer and
    activation are tested: the base with all weights of the other must give the other's vectors.
    """
    from unbag.training.merge import check_same_vectors, check_same_weights, state_of

    trainable = _as_trainable(base, device=base.device if isinstance(base, DualEncoder) else "cpu")
    state = state_of(trainable.module)
    other_state = state_of(_as_trainable(other, device="cpu").module)
    check_same_weights(state, other_state, names=(base.name, other.name), hint=HINT)
    donors = Donors(parts_of(trainable), (base.name, other.name), trainable, state, other_state)
    check_same_vectors(base, other, donors.combine(donors.choices[-1]), hint=HINT)
    return donors


def _as_trainable(encoder: DualEncoder, *, device: str) -> Trainable:
    from unbag.training.encoders.adapters import make_trainable

    try:
        return make_trainable(encoder, device=device)
    except UnbagError as error:
        raise UnbagError(
            f"{encoder.name} cannot be split into two encoders and a read-out",
            expected="tiny:..., open_clip:..., or a dual encoder of hf:... (CLIP, SigLIP, ALIGN "
            "...); chat models and matching heads have no two encoders",
        ) from error


@dataclass(frozen=True, eq=False)
class Donors:
    """Two models whose parts fit each other."""

    parts: ModelParts
    names: tuple[str, str]
    trainable: Trainable
    """A model of the base's class; its weights are those of the last combination."""
    base: Mapping[str, Tensor]
    other: Mapping[str, Tensor]

    @property
    def choices(self) -> tuple[Combination, ...]:
        """All eight combinations, or four without a read-out; the base first, the other last."""
        read_outs: tuple[Source | None, ...] = SOURCES if self.parts.read_out else (None,)
        return tuple(Combination(p, t, r) for p, t, r in product(SOURCES, SOURCES, read_outs))

    def combine(self, choice: Combination) -> DualEncoder:
        """Build a model of these parts, independent of all others."""
        from_other = self.parts.of(choice)
        state = {n: self.other[n] if n in from_other else weight for n, weight in self.base.items()}
        self.trainable.module.load_state_dict(state)
        return self.trainable.encoder(self._name(choice))

    def _name(self, choice: Combination) -> str:
        name_of = dict(zip(SOURCES, self.names, strict=True))
        name = f"images of {name_of[choice.image]}, captions of {name_of[choice.text]}"
        return f"{name}, read-out of {name_of[choice.read_out]}" if choice.read_out else name


@dataclass(frozen=True)
class ModelParts:
    """Names of all weights of a model, each in exactly one part."""

    image: frozenset[str]
    text: frozenset[str]
    """Includes weights of neither encoder, such as the decoder of CoCa."""
    read_out: frozenset[str]
    """Empty if neither encoder has a projection; the scale then belongs to the text encoder."""
    notes: tuple[str, ...] = ()

    def of(self, choice: Combination) -> frozenset[str]:
        """Return the names of the weights that come from the other model."""
        parts = (self.image, self.text, self.read_out)
        from_other = [
            names for names, source in zip(parts, choice, strict=True) if source == "other"
        ]
        return frozenset().union(*from_other)


def parts_of(trainable: Trainable) -> ModelParts:
    """Assign every weight and buffer to one part, by its place in the layers."""
    _check_apart(trainable)
    places = _places(trainable.module)
    names = tuple(trainable.module.state_dict())
    image, text = (
        _below((place for layer in layers for part in layer for place in places[id(part)]), names)
        for layers in (trainable.image_layers, trainable.text_layers)
    )
    ends = [
        _below(_projections(layers[-1], places), names)
        for layers in (trainable.image_layers, trainable.text_layers)
    ]
    scale = _below(
        (place for weight in trainable.temperature for place in places[id(weight)]), names
    )
    read_out = ends[0] | ends[1] | scale if ends[0] | ends[1] else frozenset()
    unassigned = [name for name in names if name not in image | text | scale]
    image = (image | {name for name in unassigned if _is_within(name, image, text)}) - read_out
    return ModelParts(image, frozenset(names) - image - read_out, read_out, _notes(ends))


def _notes(ends: Sequence[frozenset[str]]) -> tuple[str, ...]:
    missing = [side for side, names in zip(("image", "text"), ends, strict=True) if not names]
    if len(missing) == 2:
        return ("neither encoder has a separate projection: only encoders are swapped",)
    note = "the {} encoder has no separate projection: the read-out is that of the other, and the "
    note += "scale"
    return tuple(note.format(side) for side in missing)


def _check_apart(trainable: Trainable) -> None:
    from unbag.training.encoders.base import weights_of

    layers = trainable.image_layers, trainable.text_layers
    first, second = (
        {id(weight) for weight in weights_of(encoder_layers)} for encoder_layers in layers
    )
    if shared := len(first & second):
        raise UnbagError(
            f"{trainable.name} cannot be split: its encoders share {shared} weights",
            expected="two encoders without common weights",
        )


def _places(module: nn.Module) -> dict[int, list[str]]:
    """Return the dotted names of every module and weight; shared ones have several."""
    places: dict[int, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        places.setdefault(id(part), []).append(name)
    for name, weight in module.named_parameters(remove_duplicate=False):
        places.setdefault(id(weight), []).append(name)
    return places


def _below(places: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """Return the weights at some places, or inside the modules there."""
    starts = tuple(places)
    inside = tuple(f"{place}." for place in starts)
    return frozenset(name for name in names if name in starts or name.startswith(inside))


def _is_within(name: str, image: frozenset[str], text: frozenset[str]) -> bool:
    """Whether a buffer is in a module with weights of the image encoder only."""
    owner = name.rpartition(".")[0] + "."
    is_near = [any(weight.startswith(owner) for weight in side) for side in (image, text)]
    return owner != "." and is_near == [True, False]


def _projections(layer: Sequence[Part], places: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield the places of the last projection into the joint space.

    Names can mislead: the head of SigLIP's image encoder pools, and so does that of timm models,
    which contains a projection.
    """
    from torch import nn

    for part in layer:
        for place in places[id(part)]:
            leaf = place.rpartition(".")[2]
            if leaf in _PROJECTIONS or (leaf == "head" and isinstance(part, nn.Linear)):
                yield place
            elif leaf == "head" and isinstance(part, nn.Sequential):
                yield from (f"{place}.{child}" for child in ("proj", "mlp"))
            elif leaf == "attnpool":
                yield f"{place}.c_proj"
