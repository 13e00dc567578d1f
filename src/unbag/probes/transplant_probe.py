"""Which part of a model was repaired? Parts of two models are combined and each whole is scored.

Dimensions: N rows, D joint space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.probes.chosen import choose_rows, cluster_of, hashed, unite
from unbag.probes.encoded import EncoderSpace
from unbag.probes.finding import Finding, Known, Options, Quantity, mean
from unbag.probes.material import Material, Row
from unbag.probes.plots import Grid
from unbag.probes.probe import Probe, Subject
from unbag.probes.space import Space
from unbag.probes.transplant import SOURCES, Choice, Donors, Source, open_donors
from unbag.probes.transplant_said import (
    DIFFERENCE,
    EVERY,
    PARTS,
    alone,
    label,
    lost,
    say,
    with_part,
)
from unbag.probes.vectors import TIE
from unbag.types import DualEncoder, FloatArray

MOST_ROWS = 160
"""Of a kind on which the models differ most, unless all are asked for."""
LEAST_ROWS = 20
"""Of a kind that can be named as one on which the models differ."""
MOST_KINDS = 2
"""Kinds on which the models differ most that are shown by themselves."""

Variant = tuple[Source, Source]
"""Which tower, and whose projection follows it."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of rows by one variant of both towers."""

    picture_ND: FloatArray
    caption_ND: FloatArray
    negative_ND: FloatArray


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Combine the parts of both models; only two new models have to be encoded."""
    rows = [row for row in material.rows if row.negative is not None]
    if subject.other is None:
        return Finding("transplant", skipped="needs a second model: --against")
    if subject.space is None or subject.other.space is None:
        return Finding("transplant", skipped="needs two dual encoders: others have no two towers")
    if not rows:
        return Finding("transplant", skipped="needs captions with negatives, and there are none")
    base, model = subject.other.model, subject.model
    if not isinstance(base, DualEncoder) or not isinstance(model, DualEncoder):
        return Finding("transplant", skipped="needs two dual encoders: others have no two towers")
    try:
        donors = open_donors(base, model)
    except UserError as error:
        return Finding("transplant", skipped=error.found)
    spaces = (subject.other.space, subject.space)
    scopes = choose_scopes(rows, spaces, options)
    if not scopes:
        return Finding("transplant", skipped="no picture could be opened")
    used = tuple({row.id: row for some in scopes.values() for row in some}.values())
    right = credits(donors.choices, encode_variants(donors, spaces, used, progress))
    place = {row.id: at for at, row in enumerate(used)}
    found = {scope: _part(right, [place[row.id] for row in some]) for scope, some in scopes.items()}
    names = (subject.other.name, subject.name)
    return Finding(
        "transplant",
        tuple(
            q for scope, some in scopes.items() for q in _all(scope, some, found[scope], options)
        ),
        headline=f"{list(scopes)[-1]}: {DIFFERENCE}",
        plots=tuple(_grid(scope, right, names) for scope, right in found.items()),
        notes=(
            f"parts come from {names[0]}, or where they are named from {names[1]}",
            *donors.parts.notes,
        ),
    )


def choose_scopes(
    rows: Sequence[Row], spaces: tuple[Space, Space], options: Options
) -> dict[str, tuple[Row, ...]]:
    """Some of every kind, and more of those on which the two models differ most, the most last.

    Empty if no picture could be opened.
    """
    some = choose_rows(rows, options)
    base_N, other_N = (wins(one.picture_ND, one) for one in (encode(s, some) for s in spaces))
    changes: dict[str, list[float]] = {}
    for row, change in zip(some, (other_N - base_N).tolist(), strict=True):
        if np.isfinite(change):
            changes.setdefault(row.kind, []).append(change)
    apart = {k: abs(float(np.mean(c))) for k, c in changes.items() if len(c) >= LEAST_ROWS}
    kinds = sorted(apart, key=lambda kind: (apart[kind], kind))[-MOST_KINDS:]
    most = None if options.is_full else MOST_ROWS
    by_kind = {kind: _first([row for row in rows if row.kind == kind], most) for kind in kinds}
    if len(changes) == len(by_kind) == 1:
        return {kind or EVERY: found for kind, found in by_kind.items()}
    return {EVERY: tuple(some)} | by_kind if changes else {}


def _first(rows: Sequence[Row], most: int | None) -> tuple[Row, ...]:
    """By hash, cluster by cluster, as rows are chosen for all probes."""
    order = sorted(rows, key=lambda row: (hashed(cluster_of(row)), hashed(row.id)))
    return tuple(unite(order[:most]))


def _part(right: Mapping[Choice, FloatArray], at: Sequence[int]) -> dict[Choice, FloatArray]:
    return {choice: value_N[at] for choice, value_N in right.items()}


def encode_variants(
    donors: Donors, spaces: tuple[Space, Space], rows: Sequence[Row], progress: Progress
) -> dict[Variant, Encoded]:
    """Rows by every tower with every projection: all combinations are scored from these.

    A picture's vector depends on the picture tower and its projection only, so the two models and
    the two with their read-outs exchanged hold the vectors of all eight.
    """
    found = {(s, s): encode(space, rows) for s, space in zip(SOURCES, spaces, strict=True)}
    if donors.parts.read_out:
        for tower, read_out in (SOURCES, SOURCES[::-1]):
            encoder = donors.combine(Choice(tower, tower, read_out))
            found[tower, read_out] = encode(EncoderSpace(encoder, progress=progress), rows)
    return found


def encode(space: Space, rows: Sequence[Row]) -> Encoded:
    """Pictures, captions and negatives of rows."""
    captions = [row.caption for row in rows]
    vector_MD = space.captions([*captions, *(str(row.negative) for row in rows)])
    picture_ND = space.pictures([row.picture for row in rows])
    return Encoded(picture_ND, vector_MD[: len(rows)], vector_MD[len(rows) :])


def credits(
    choices: Sequence[Choice], encoded: Mapping[Variant, Encoded]
) -> dict[Choice, FloatArray]:
    """Wins of each combination, [N]."""
    found = {}
    for choice in choices:
        picture_ND = encoded[choice.picture, choice.read_out or choice.picture].picture_ND
        found[choice] = wins(picture_ND, encoded[choice.text, choice.read_out or choice.text])
    return found


def wins(picture_ND: FloatArray, said: Encoded) -> FloatArray:
    """1 where the caption beats its negative, 0 where not or at a tie, NaN without a picture."""
    true_N, false_N = (
        (picture_ND * said_ND).sum(axis=-1) for said_ND in (said.caption_ND, said.negative_ND)
    )
    return np.where(np.isfinite(true_N), (true_N - false_N > TIE).astype(float), np.nan)


def _all(
    scope: str, rows: Sequence[Row], right: Mapping[Choice, FloatArray], options: Options
) -> Iterator[Quantity]:
    """The share of each combination, and what each part brings alone and loses when away."""
    units = [row.id for row in rows]
    clusters = [cluster_of(row) for row in rows]
    base, *_, other = right

    def one(name: str, value_N: FloatArray, about: str, known: Known, is_rate: bool) -> Quantity:
        return mean(
            f"{scope}: {name}",
            value_N,
            about=about,
            options=options,
            units=units,
            clusters=clusters,
            known=known,
            is_rate=is_rate,
        )

    for choice, value_N in right.items():
        about = f"captions above their negatives; from the model under examination: {label(choice)}"
        yield one(label(choice), value_N, about, Known(perfect=1.0, chance=0.5), True)
    change_N = right[other] - right[base]
    yield one(DIFFERENCE, change_N, "share of this model minus that of the other", Known(), False)
    for part in PARTS if base.read_out else PARTS[:2]:
        added_N = right[with_part(base, part, "other")] - right[base]
        lost_N = right[other] - right[with_part(other, part, "base")]
        yield one(alone(part), added_N, f"gained by the {part.name} of this model", Known(), False)
        yield one(lost(part), lost_N, f"lost with the {part.name} of the other", Known(), False)


def _grid(scope: str, right: Mapping[Choice, FloatArray], names: tuple[str, str]) -> Grid:
    who = dict(zip(SOURCES, names, strict=True))
    share = {choice: float(np.nanmean(value_N)) for choice, value_N in right.items()}
    columns = [(c.text, c.read_out) for c in share if c.picture == "base"]
    said = [f"text of {who[t]}" + (f", read-out of {who[r]}" if r else "") for t, r in columns]
    return Grid(
        title=f"Parts of two models: {scope}",
        rows=tuple(f"pictures of {who[source]}" for source in SOURCES),
        columns=tuple(said),
        values=tuple(tuple(share[Choice(p, t, r)] for t, r in columns) for p in SOURCES),
        row_name="picture tower",
        column_name="text tower and read-out",
        about="share of captions that beat their negatives",
    )


TRANSPLANT = Probe(
    name="transplant",
    question="Which part was repaired?",
    about="The picture tower, the text tower and the read-out (both projections and the scale) of "
    "two models are combined in all eight ways; each whole is scored by the share of captions that "
    "beat their negative, a tie being a miss. Alone: the other model with one part of this one, "
    "minus the other model. Lost: this model minus itself with that part of the other. Kinds "
    "shown are those on which the two differ most, so their differences are a little flattered. "
    "Parts fit only between models of one origin; of two trained apart all combinations are at "
    "chance.",
    ask=ask,
    say=say,
)
