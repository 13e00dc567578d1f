"""A model and rows with edits come in; whether it learned meaning or only to notice edits, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.chosen import choose_rows, has_same_words, told_part
from unbag.probes.edit_distance import words_changed
from unbag.probes.finding import Finding, Options, Quantity
from unbag.probes.material import Material, Row
from unbag.probes.probe import Probe, Subject
from unbag.probes.sensitivity_costs import BY_KIND, Asked, ask_rows, costs
from unbag.probes.sensitivity_verdict import (
    OTHER_WORDS,
    SAME_DISTANCE,
    SAME_WORDS,
    headline,
    plots,
    say,
)
from unbag.probes.space import Space
from unbag.types import FloatArray

NAME = "sensitivity"
CONFIDENCE = 0.99
KIND_RESAMPLES = 1_000
"""There are many kinds, and none of them decides."""
ABOUT = """\
c is a caption, n a hard negative and p a hard positive of it, i the picture; cosines without scale.
intra_hn = mean cos(c, n) and gap = mean cos(i, c) - cos(i, n): CE-CLIP, section 4.5 and figure 8.
intra_hp and gap_hp are the same for p, selectivity = intra_hp - intra_hn (methods.md 4.6). The test
for a perturbation detector (4.7, after the hard-positive paper, section 4.3): auc is the chance
that a negative costs more than a positive, ties half; 0.5 cannot tell when an edit matters, 1 can.
rho = gap_hp / gap, 1 for a mere detector and 0 where only meaning counts. Intervals are 99 %
bootstraps over clusters of rows that share scenes. Negative and positive are those of the same row;
edits of one type only are in "same words" (both exchange words) and "other words" (both replace
some), and "same distance" holds rows in which both change as many words. Rows that turn caption
and positive of another one round are left out: together they make gap_hp 0 for every model. Limits:
where a hard negative costs nothing, rho means nothing and is not given."""


def edit_sensitivity(
    space: Space, material: Material, options: Options, *, base: Space | None = None
) -> Finding:
    """All quantities of sections 4.6 and 4.7, over all rows, by type of edit and by kind."""
    rows = [row for row in material.rows if row.negative or row.positive]
    if not rows:
        needs = "captions with hard negatives or hard positives (`unbag edit` makes them)"
        return Finding(NAME, skipped=f"{material.about}: it needs {needs}")
    options = replace(options, confidence=CONFIDENCE)
    chosen = choose_rows(rows, options)
    asked = ask_rows(space, once(chosen))
    every = asked.part([True] * len(asked.rows))
    quantities = costs(every, "", options, is_swap=False)
    for label in (SAME_WORDS, OTHER_WORDS):
        part = asked.part([edit_type(row) == label for row in asked.rows])
        quantities += costs(part, f", {label}", options, is_swap=label == SAME_WORDS)
    quantities += _same_distance(every, options) + _scores(every, options, base)
    quick = replace(options, resamples=min(options.resamples, KIND_RESAMPLES))
    for kind in sorted({row.kind for row in asked.rows}):
        part = asked.part([row.kind == kind for row in asked.rows])
        quantities += costs(part, f", {kind}", quick, only=BY_KIND, is_swap=False)
    notes = _notes(every, asked) + told_part(len(chosen), len(rows), "rows")
    found = Finding(NAME, tuple(quantities), notes=notes)
    return replace(found, headline=headline(found), plots=plots(found))


def once(rows: Sequence[Row]) -> list[Row]:
    """Without rows that turn caption and positive of an earlier one round, as the world's do.

    Over both, what positives cost adds up to 0 for every model. The first to come counts as the
    original: in the world it has the usual words, and its positive the rarer ones.
    """
    seen: set[tuple[str, str | None, str | None]] = set()
    found = []
    for row in rows:
        if (row.picture.key, row.positive, row.caption) not in seen:
            seen.add((row.picture.key, row.caption, row.positive))
            found.append(row)
    return found


def edit_type(row: Row) -> str:
    """Whether both edits exchange words or both replace some; nothing for one of each."""
    edits = [text for text in (row.negative, row.positive) if text is not None]
    same = {has_same_words(row.caption, text) for text in edits}
    if len(same) > 1:
        return ""
    return SAME_WORDS if same == {True} else OTHER_WORDS


def _same_distance(asked: Asked, options: Options) -> list[Quantity]:
    """How many words both edits change, and the test where these are as many."""
    negative_N, positive_N = _distances(asked)
    quantities = [
        asked.mean(f"words changed, {what}", value_N, f"Words that a {what} changes", options)
        for what, value_N in (("negative", negative_N), ("positive", positive_N))
        if not np.isnan(value_N).all()
    ]
    alike = asked.at(np.flatnonzero(negative_N == positive_N))
    if not alike.rows:
        return quantities
    return quantities + costs(
        alike, f", {SAME_DISTANCE}", options, only=("gap", "gap_hp", "auc"), is_swap=False
    )


def _distances(asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Words that the negative and that the positive of each row change, [N]; NaN for none."""
    found = [
        [np.nan if edit is None else words_changed(row.caption, edit) for edit in edits]
        for row in asked.rows
        for edits in [(row.negative, row.positive)]
    ]
    negative_N, positive_N = np.array(found, dtype=float).reshape(-1, 2).T
    return negative_N, positive_N


def _scores(asked: Asked, options: Options, base: Space | None) -> list[Quantity]:
    """Mean cosines of the picture with c, n and p, and what they were in the base model."""
    means = _told_scores(asked)
    quantities = [
        asked.mean(f"score {name}", value_N, f"Mean cosine of picture and {what}", options)
        for name, what, value_N in means
    ]
    if base is None:
        return quantities
    before = {name: value_N for name, _, value_N in _told_scores(ask_rows(base, asked.rows))}
    return quantities + [
        asked.mean(
            f"score {name} minus base",
            value_N - before[name],
            f"Mean cosine of picture and {what}, less that of {base.name}",
            options,
        )
        for name, what, value_N in means
    ]


def _told_scores(asked: Asked) -> list[tuple[str, str, FloatArray]]:
    found = [
        ("c", "caption", asked.score_N),
        ("n", "negative", asked.score_N - asked.found.gap_negative_N),
        ("p", "positive", asked.score_N - asked.found.gap_positive_N),
    ]
    return [one for one in found if not np.isnan(one[2]).all()]


def _notes(every: Asked, asked: Asked) -> tuple[str, ...]:
    both = [row for row in every.rows if row.negative and row.positive]
    if not both:
        return ("No row has both a negative and a positive, so a mere detector is not told apart.",)
    negative_N, positive_N = _distances(every)
    alike = int((negative_N == positive_N).sum())
    return (
        f"{len(both)} of {len(asked.rows)} rows have both a negative and a positive; all numbers "
        "but those of kinds without positives are of these rows.",
        f"A negative changes {negative_N.mean():.1f} words on average, a positive "
        f"{positive_N.mean():.1f}; in {alike} rows both change as many (same distance).",
    )


def _ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} has no vectors of pictures and captions")
    base = subject.other.space if subject.other is not None else None
    return edit_sensitivity(subject.space, material, options, base=base)


SENSITIVITY = Probe(NAME, "Did it learn meaning, or only to notice edits?", ABOUT, _ask, say)
