"""A model comes in; whether answers can be read from its pictures' features goes out.

Dimensions: N pictures, K classes, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.extract_pictures import picture_sheets
from unbag.probes.extract_places import picture_places
from unbag.probes.extract_readings import PICTURE_SIDE, read_label, read_twin
from unbag.probes.extract_said import OWN, say_of
from unbag.probes.extract_sheets import Label
from unbag.probes.finding import Finding, Known, Options, Quantity, mean
from unbag.probes.material import Material
from unbag.probes.plots import Plot
from unbag.probes.probe import Probe, Subject, Verdict
from unbag.probes.space import Space
from unbag.types import FloatArray, Picture

NAME = "extract"
PICTURES, ALL_PICTURES = 512, 1_536
"""Of each sheet, by default and in full: 8 and 24 sets of four for each pair of shapes."""
SAID = ("left/right", "binding")
"""What the sentence is about; the rest stands in the table."""
TIE = 1e-9
NO_SCENES = "needs scenes in balanced sets: diagnose on the world's pictures as well"
NO_VECTORS = "has no vectors to read from"
ABOUT = """\
Is the answer in the features though the score ignores it? (methods.md 4.3; it generalises the
argument of S2: the same encoder, a better reader.) Pictures are drawn in sets of four: two things
exchanged or not, their colours exchanged or not. Each picture has a shape and a colour of either
hand of cards, so both answers have the same words and a bag of words is at chance. Features:
projected (the unit vector that is compared), unprojected (what enters the projection), and of the
last layer the mean patch, the means of patches over each quarter of the picture, and all patches;
also a curve over layers. Readers: logistic regression with the
strength of its L2 penalty chosen by cross-validation, a network with one hidden layer of 256, and
one learned query over all patches with a linear layer. Every picture is judged by a reader that
never saw its pair of shapes. Control: the same reader fitted to shuffled labels; selectivity =
accuracy - control. The random twin is the other control: what it gives can be read from any
network of that build. Own score: the caption with the greater cosine, on the same pictures; a tie
counts half. Intervals resample pairs of shapes. Limits: that a reader fails does not show that
nothing is there, only that these readers find nothing in so many pictures; intervals leave out the
luck of the folds, and pairs share shapes; the number of things can in part be told from the
coloured area."""


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Draw, encode, read; skipped without vectors or without scenes."""
    if not material.is_world:
        return Finding(NAME, skipped=f"{material.about}: {NO_SCENES}")
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_PICTURES if options.is_full else PICTURES
    sheets = picture_sheets(seed=options.seed, pictures=count, is_full=options.is_full)
    made: list[Quantity] = []
    plots: list[Plot] = []
    notes: list[str] = []
    with progress.task(f"{subject.name}: readers", sum(len(s.labels) for s in sheets)) as advance:
        for sheet in sheets:
            places = picture_places(subject.space, sheet.given, options)
            notes += places.notes
            for label in sheet.labels:
                found, drawn = read_label(places, label, sheet.groups, PICTURE_SIDE, options)
                made += [
                    *found,
                    own_score(subject.space, sheet.given, label, sheet.groups, options),
                ]
                plots += drawn
                if subject.twin is not None and subject.twin.space is not None:
                    twin_ND = subject.twin.space.pictures(sheet.given)
                    made += read_twin(twin_ND, label, sheet.groups, options)
                advance(1)
    notes = list(dict.fromkeys(notes))
    return Finding(NAME, tuple(made), f"{SAID[0]}, projected, linear", tuple(plots), tuple(notes))


def own_score(
    space: Space,
    pictures: Sequence[Picture],
    label: Label,
    groups: Sequence[str],
    options: Options,
) -> Quantity:
    """How often the model itself gives the caption of the true class the greatest cosine."""
    classes = len(label.captions[0])
    picture_ND = space.pictures(pictures)
    said = [space.captions([row[k] for row in label.captions]) for k in range(classes)]
    score_NK = np.stack([(picture_ND * caption_ND).sum(axis=1) for caption_ND in said], axis=1)
    return mean(
        f"{label.name}, {OWN}",
        credits(score_NK, label),
        about=f"{label.name} by the cosine with a caption for each answer, without any reader",
        options=options,
        clusters=groups,
        known=Known(bag=None, perfect=1.0, chance=1 / classes),
        better="higher",
        is_rate=True,
    )


def credits(score_NK: FloatArray, label: Label) -> FloatArray:
    """1 if the true class is alone on top, its share among those that tie there, else 0."""
    top_N1 = score_NK.max(axis=1, keepdims=True)
    is_top_NK = score_NK >= top_N1 - TIE
    own_N = is_top_NK[np.arange(len(score_NK)), label.class_N] / np.maximum(is_top_NK.sum(1), 1)
    credit_N: FloatArray = np.where(np.isfinite(top_N1[:, 0]), own_N, np.nan)
    return credit_N


def say(finding: Finding) -> Verdict:
    """Where left/right and binding can be read, and whether the score uses it."""
    return say_of(finding, SAID, PICTURE_SIDE)


EXTRACT = Probe(
    NAME,
    "Is the answer in the picture features though the score ignores it?",
    ABOUT,
    ask,
    say,
)
