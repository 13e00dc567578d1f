"""The probe `transplant`: which part of a model was repaired, by exchanging parts with another.

A model falls into three parts: image encoder, text encoder, and read-out (the projections of both
into the joint space, and the scale). If a repair changed a score, the combinations say which part
did it. Ours; related: model stitching (Bansal et al. 2021), without layers in between.

Limits: parts of models that were trained apart share no space, so their combinations are at chance
and say nothing. A part that adapted to another brings little alone: read what it brings alone
beside what is lost without it.

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
    """Shares of the difference between the two models."""

    SUFFICES = 0.8, "what a part must bring alone to be named as its place"
    NEEDED = 0.5, "what must be lost without a part for it to be called needed"


VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "same": ("told", "The two models do not differ {where} ({whole:points}): no part to name."),
    "differ": (
        "told",
        "Of {whole:points} from the other model to this one {where}, {parts}: {place}.",
    ),
}
PHRASES = {
    "everywhere": "over all kinds",
    "kind": "on {kind}",
    "first part": "the {part} alone brings {change:change}",
    "part": "the {part} {change:change}",
    "one": "it sits in the {enough}",
    "each": "the {enough} suffices",
    "all": "all parts are needed together",
    "several": "the {needed} are needed together",
    "not alone": "the {needed} is needed, but does not suffice",
    "unknown": "so few rows do not say which part it sits in",
    "spread": "it is spread over the parts",
}
MOST_ROWS = 160
"""Of a kind on which the models differ most, unless all are asked for."""
LEAST_ROWS = 20
"""Of a kind that can be named as one on which the models differ."""
MOST_KINDS = 2
"""Kinds on which the models differ most that are shown by themselves."""
WAY_OUT = (
    "parts fit each other between a model and what it was fine-tuned from; name that one as "
    "--against"
)
_PROJECTIONS = frozenset({"proj", "project", "text_projection", "visual_projection"})
"""What libraries call a projection that stands by itself at the end of an encoder."""


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
    """Which model each part is taken from."""

    image: Source
    text: Source
    read_out: Source | None
    """None where there is no projection to take."""


Variant = tuple[Source, Source]
"""Which encoder, and whose projection follows it."""


def ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Combine the parts of both models; only two new models have to be encoded."""
    rows = [row for row in material.rows if row.negative is not None]
    if subject.other is None:
        return ProbeResult(NAME, skipped="needs a second model: --against")
    if subject.space is None or subject.other.space is None:
        return ProbeResult(NAME, skipped="needs two dual encoders: others have no two encoders")
    if not rows:
        return ProbeResult(NAME, skipped="needs captions with negatives, and there are none")
    base, model = subject.other.model, subject.model
    if not isinstance(base, DualEncoder) or not isinstance(model, DualEncoder):
        return ProbeResult(NAME, skipped="needs two dual encoders: others have no two encoders")
    try:
        donors = open_donors(base, model)
    except UnbagError as error:
        return ProbeResult(NAME, skipped=error.message)
    spaces = (subject.other.space, subject.space)
    scopes = choose_scopes(rows, spaces, options)
    if not scopes:
        return ProbeResult(NAME, skipped="no image could be opened")
    used = tuple({row.id: row for some in scopes.values() for row in some}.values())
    right = credits(donors.choices, encode_variants(donors, spaces, used, progress))
    place = {row.id: at for at, row in enumerate(used)}
    found = {}
    for scope, some in scopes.items():
        at = [place[row.id] for row in some]
        found[scope] = {choice: value_N[at] for choice, value_N in right.items()}
    names = (subject.other.name, subject.name)
    return ProbeResult(
        NAME,
        tuple(
            q
            for scope, some in scopes.items()
            for q in _quantities(scope, some, found[scope], options)
        ),
        headline=f"{list(scopes)[-1]}: {DIFFERENCE}",
        plots=tuple(_grid(scope, right, names) for scope, right in found.items()),
        notes=(
            f"parts come from {names[0]}, or where they are named from {names[1]}",
            *donors.parts.notes,
        ),
    )


def say(finding: ProbeResult) -> Verdict:
    """Of the kind on which the two models differ most."""
    scope = finding.headline.removesuffix(f": {DIFFERENCE}")
    whole = finding[finding.headline].estimate
    where = PHRASES["everywhere"] if scope == EVERY else fill(PHRASES["kind"], kind=scope)
    # Written so that an interval that could not be found reads as undecided.
    if not (whole.low > 0 or whole.high < 0):
        return Verdict(*VERDICTS["same"], {"where": where, "whole": whole})
    parts = [part for part in PARTS if finding.get(f"{scope}: {alone(part)}")]
    brought = [finding[f"{scope}: {alone(part)}"].estimate for part in parts]
    gone = [finding[f"{scope}: {lost(part)}"].estimate for part in parts]
    told = [
        fill(PHRASES["part" if at else "first part"], part=part.name, change=one)
        for at, (part, one) in enumerate(zip(parts, brought, strict=True))
    ]
    place = _where(
        [part.name for part in parts],
        [_has(one, whole, TransplantThresholds.SUFFICES) for one in brought],
        [_has(one, whole, TransplantThresholds.NEEDED) for one in gone],
    )
    values: dict[str, Value] = {
        "whole": whole,
        "where": where,
        "parts": ", ".join(told),
        "place": place,
    }
    return Verdict(*VERDICTS["differ"], values)


TRANSPLANT = Probe(
    name=NAME,
    question="Which part was repaired?",
    about="Image encoder, text encoder and read-out (both projections and the scale) of "
    "two models are combined in all eight ways; each whole is scored by the share of captions that "
    "beat their negative, a tie being a miss. Alone: the other model with one part of this one, "
    "minus the other model. Lost: this model minus itself with that part of the other. Kinds "
    "shown are those on which the two differ most, so their differences are a little flattered. "
    "Parts fit only between models of one origin; of two trained apart all combinations are at "
    "chance.",
    ask=ask,
    say=say,
    thresholds=tuple(TransplantThresholds),
)


def _has(one: Estimate, whole: Estimate, share: float) -> bool | None:
    """Whether a part has this share of the difference; None where it may as well have nothing."""
    if not one.value / whole.value >= share:
        return False
    return True if (one.low > 0 if whole.value > 0 else one.high < 0) else None


def _where(
    names: Sequence[str], brought: Sequence[bool | None], gone: Sequence[bool | None]
) -> str:
    enough = [name for name, has in zip(names, brought, strict=True) if has]
    needed = [name for name, has in zip(names, gone, strict=True) if has]
    if enough:
        case = "one" if len(enough) == 1 else "each"
    elif len(needed) == len(names):
        case = "all"
    elif needed:
        case = "several" if len(needed) > 1 else "not alone"
    else:
        case = "unknown" if None in (*brought, *gone) else "spread"
    return fill(PHRASES[case], enough=" or the ".join(enough), needed=" and the ".join(needed))


def choose_scopes(
    rows: Sequence[Row], spaces: tuple[Space, Space], options: Options
) -> dict[str, tuple[Row, ...]]:
    """Some of every kind, and more of those on which the two models differ most, the most last.

    Empty if no image could be opened.
    """
    some = choose_rows(rows, options)
    base_N, other_N = (wins(one.image_ND, one) for one in (encode(s, some) for s in spaces))
    changes: dict[str, list[float]] = {}
    for row, change in zip(some, (other_N - base_N).tolist(), strict=True):
        if np.isfinite(change):
            changes.setdefault(row.kind, []).append(change)
    apart = {k: abs(float(np.mean(c))) for k, c in changes.items() if len(c) >= LEAST_ROWS}
    kinds = sorted(apart, key=lambda kind: (apart[kind], kind))[-MOST_KINDS:]
    most = None if options.is_full else MOST_ROWS
    by_kind = {kind: _chosen([row for row in rows if row.kind == kind], most) for kind in kinds}
    if len(changes) == len(by_kind) == 1:
        return {kind or EVERY: found for kind, found in by_kind.items()}
    return {EVERY: tuple(some)} | by_kind if changes else {}


def _chosen(rows: Sequence[Row], most: int | None) -> tuple[Row, ...]:
    """By hash, cluster by cluster, as rows are chosen for all probes."""
    order = sorted(rows, key=lambda row: (hashed(cluster_of(row)), hashed(row.id)))
    return tuple(unite(order[:most]))


def encode_variants(
    donors: Donors, spaces: tuple[Space, Space], rows: Sequence[Row], progress: Progress
) -> dict[Variant, Encoded]:
    """Rows by every encoder with every projection: all combinations are scored from these.

    An image's vector depends on the image encoder and its projection only, so the two models and
    the two with their read-outs exchanged hold the vectors of all eight.
    """
    found = {(s, s): encode(space, rows) for s, space in zip(SOURCES, spaces, strict=True)}
    if donors.parts.read_out:
        for encoders, read_out in (SOURCES, SOURCES[::-1]):
            encoder = donors.combine(Combination(encoders, encoders, read_out))
            found[encoders, read_out] = encode(EncoderSpace(encoder, progress=progress), rows)
    return found


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of rows by one variant of both encoders."""

    image_ND: FloatArray
    caption_ND: FloatArray
    negative_ND: FloatArray


def encode(space: Space, rows: Sequence[Row]) -> Encoded:
    """Images, captions and negatives of rows."""
    captions = [row.caption for row in rows]
    vector_MD = space.captions([*captions, *(str(row.negative) for row in rows)])
    image_ND = space.images([row.image for row in rows])
    return Encoded(image_ND, vector_MD[: len(rows)], vector_MD[len(rows) :])


def credits(
    choices: Sequence[Combination], encoded: Mapping[Variant, Encoded]
) -> dict[Combination, FloatArray]:
    """Wins of each combination, [N]."""
    found = {}
    for choice in choices:
        image_ND = encoded[choice.image, choice.read_out or choice.image].image_ND
        found[choice] = wins(image_ND, encoded[choice.text, choice.read_out or choice.text])
    return found


def wins(image_ND: FloatArray, said: Encoded) -> FloatArray:
    """1 where the caption beats its negative, 0 where not or at a tie, NaN without an image."""
    true_N, false_N = (
        (image_ND * said_ND).sum(axis=-1) for said_ND in (said.caption_ND, said.negative_ND)
    )
    return np.where(np.isfinite(true_N), (true_N - false_N > TIE).astype(float), np.nan)


def _quantities(
    scope: str, rows: Sequence[Row], right: Mapping[Combination, FloatArray], options: Options
) -> Iterator[Quantity]:
    """The share of each combination, and what each part brings alone and loses when away."""
    units = [row.id for row in rows]
    clusters = [cluster_of(row) for row in rows]
    base, *_, other = right

    over_rows = partial(mean, options=options, units=units, clusters=clusters)
    known = Known(perfect=1.0, chance=0.5)
    for choice, value_N in right.items():
        name = label(choice)
        about = f"captions above their negatives; from the model under examination: {name}"
        yield over_rows(f"{scope}: {name}", value_N, about=about, known=known, is_rate=True)
    about = "share of this model minus that of the other"
    yield over_rows(f"{scope}: {DIFFERENCE}", right[other] - right[base], about=about)
    for part in PARTS if base.read_out else PARTS[:2]:
        added_N = right[with_part(base, part, "other")] - right[base]
        about = f"gained by the {part.name} of this model"
        yield over_rows(f"{scope}: {alone(part)}", added_N, about=about)
        lost_N = right[other] - right[with_part(other, part, "base")]
        about = f"lost with the {part.name} of the other"
        yield over_rows(f"{scope}: {lost(part)}", lost_N, about=about)


def _grid(scope: str, right: Mapping[Combination, FloatArray], names: tuple[str, str]) -> Grid:
    who = dict(zip(SOURCES, names, strict=True))
    share = {choice: float(np.nanmean(value_N)) for choice, value_N in right.items()}
    columns = [(c.text, c.read_out) for c in share if c.image == "base"]
    said = [f"text of {who[t]}" + (f", read-out of {who[r]}" if r else "") for t, r in columns]
    return Grid(
        title=f"Parts of two models: {scope}",
        rows=tuple(f"images of {who[source]}" for source in SOURCES),
        columns=tuple(said),
        values=tuple(tuple(share[Combination(p, t, r)] for t, r in columns) for p in SOURCES),
        row_name="image encoder",
        column_name="text encoder and read-out",
        about="share of captions that beat their negatives",
    )


def label(choice: Combination) -> str:
    """The parts that come from the model under examination."""
    taken = [part.name for part in PARTS if getattr(choice, part.field) == "other"]
    whole = len([source for source in choice if source])
    return {0: "none", whole: "all"}.get(len(taken), " + ".join(taken))


def alone(part: ModelPart) -> str:
    """Name of what it brings by itself."""
    return f"{part.name} alone"


def lost(part: ModelPart) -> str:
    """Name of what goes with it."""
    return f"lost without {part.name}"


def with_part(choice: Combination, part: ModelPart, source: Source) -> Combination:
    """The same but for one part."""
    return choice._replace(**{part.field: source})


def transplant(base: DualEncoder, other: DualEncoder) -> tuple[Transplant, ...]:
    """Every combination, all in memory at once; the two models themselves are first and last."""
    donors = open_donors(base, other)
    return tuple(Transplant(choice, donors.combine(choice)) for choice in donors.choices)


@dataclass(frozen=True, eq=False)
class Transplant:
    """One combination."""

    choice: Combination
    encoder: DualEncoder


def open_donors(base: DualEncoder, other: DualEncoder) -> Donors:
    """Take both apart; models whose parts do not fit are refused.

    Architectures must agree by the name and shape of every weight. Preparation, tokenizer and
    activation are tried: the base with all weights of the other must give the other's vectors.
    """
    from unbag.training.merge import check_same_vectors, check_same_weights, state_of

    trainable = _taken_apart(base, device=base.device if isinstance(base, DualEncoder) else "cpu")
    state = state_of(trainable.module)
    given = state_of(_taken_apart(other, device="cpu").module)
    check_same_weights(state, given, names=(base.name, other.name), hint=WAY_OUT)
    donors = Donors(parts_of(trainable), (base.name, other.name), trainable, state, given)
    check_same_vectors(base, other, donors.combine(donors.choices[-1]), hint=WAY_OUT)
    return donors


def _taken_apart(encoder: DualEncoder, *, device: str) -> Trainable:
    from unbag.training.encoders.adapters import make_trainable

    try:
        return make_trainable(encoder, device=device)
    except UnbagError as error:
        raise UnbagError(
            f"{encoder.name} cannot be taken apart into two encoders and a read-out",
            expected="tiny:..., open_clip:..., or a dual encoder of hf:... (CLIP, SigLIP, ALIGN "
            "...); chat models and matching heads have no two encoders",
        ) from error


@dataclass(frozen=True, eq=False)
class Donors:
    """Two models whose parts fit each other."""

    parts: ModelParts
    names: tuple[str, str]
    trainable: Trainable
    """Of the base's class; its weights are those of the last combination."""
    base: Mapping[str, Tensor]
    other: Mapping[str, Tensor]

    @property
    def choices(self) -> tuple[Combination, ...]:
        """All eight, or four where there is no read-out; the base first, the other model last."""
        read_outs: tuple[Source | None, ...] = SOURCES if self.parts.read_out else (None,)
        return tuple(Combination(p, t, r) for p, t, r in product(SOURCES, SOURCES, read_outs))

    def combine(self, choice: Combination) -> DualEncoder:
        """A model of these parts, independent of all others."""
        taken = self.parts.of(choice)
        state = {n: self.other[n] if n in taken else weight for n, weight in self.base.items()}
        self.trainable.module.load_state_dict(state)
        return self.trainable.encoder(self._name(choice))

    def _name(self, choice: Combination) -> str:
        who = dict(zip(SOURCES, self.names, strict=True))
        said = f"images of {who[choice.image]}, captions of {who[choice.text]}"
        return f"{said}, read-out of {who[choice.read_out]}" if choice.read_out else said


@dataclass(frozen=True)
class ModelParts:
    """Names of all weights of a model, each in exactly one part."""

    image: frozenset[str]
    text: frozenset[str]
    """What is neither encoder's, such as the decoder of CoCa, counts here."""
    read_out: frozenset[str]
    """Empty if neither encoder has a projection; the scale then counts to the text encoder."""
    notes: tuple[str, ...] = ()

    def of(self, choice: Combination) -> frozenset[str]:
        """Names of the weights that come from the other model."""
        every = (self.image, self.text, self.read_out)
        taken = [names for names, source in zip(every, choice, strict=True) if source == "other"]
        return frozenset().union(*taken)


def parts_of(trainable: Trainable) -> ModelParts:
    """Every weight and buffer in one part, by its place in the layers."""
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
    scale = _below((place for one in trainable.temperature for place in places[id(one)]), names)
    read_out = ends[0] | ends[1] | scale if ends[0] | ends[1] else frozenset()
    rest = [name for name in names if name not in image | text | scale]
    image = (image | {name for name in rest if _is_within(name, image, text)}) - read_out
    return ModelParts(image, frozenset(names) - image - read_out, read_out, _notes(ends))


def _notes(ends: Sequence[frozenset[str]]) -> tuple[str, ...]:
    lack = [side for side, names in zip(("image", "text"), ends, strict=True) if not names]
    if len(lack) == 2:
        return ("neither encoder has a separate projection: only encoders were exchanged",)
    said = "the {} encoder has no separate projection: the read-out is that of the other, and the "
    said += "scale"
    return tuple(said.format(side) for side in lack)


def _check_apart(trainable: Trainable) -> None:
    from unbag.training.encoders.base import weights_of

    layers = trainable.image_layers, trainable.text_layers
    first, second = ({id(weight) for weight in weights_of(one)} for one in layers)
    if shared := len(first & second):
        raise UnbagError(
            f"{trainable.name} cannot be taken apart: its encoders share {shared} weights",
            expected="two encoders without common weights",
        )


def _places(module: nn.Module) -> dict[int, list[str]]:
    """Dotted names of every module and weight; shared ones have several."""
    found: dict[int, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        found.setdefault(id(part), []).append(name)
    for name, weight in module.named_parameters(remove_duplicate=False):
        found.setdefault(id(weight), []).append(name)
    return found


def _below(places: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """Weights at some places or inside the modules there."""
    starts = tuple(places)
    inside = tuple(f"{place}." for place in starts)
    return frozenset(name for name in names if name in starts or name.startswith(inside))


def _is_within(name: str, image: frozenset[str], text: frozenset[str]) -> bool:
    """Whether a buffer lies right in the module of the image encoder."""
    owner = name.rpartition(".")[0] + "."
    near = [any(one.startswith(owner) for one in side) for side in (image, text)]
    return owner != "." and near == [True, False]


def _projections(layer: Sequence[Part], places: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Where the last map into the joint space lies.

    Not what only sounds like one: the head of SigLIP's image encoder pools, and so does that of
    timm's, which has a projection of its own inside.
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
