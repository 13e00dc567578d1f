"""A chat model comes in; how much of its choices is its language prior goes out: the probe `prior`.

Dimensions: N pictures, O = 2 orders of the options, C = 2 captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from unbag.engine.progress import Progress, Silent
from unbag.metrics.flips import Flips
from unbag.pictures import PixelPicture
from unbag.probes.chat_asked import Instead, Replies, ask_items, is_pair, items_of, not_asked, told
from unbag.probes.chat_choices import (
    Choices,
    choices_of,
    first_letter,
    right_choice,
    same_choice,
)
from unbag.probes.finding import Better, Finding, Known, Options, Quantity, mean
from unbag.probes.material import Material
from unbag.probes.plots import Bars
from unbag.probes.probe import Probe, Subject, Verdict
from unbag.probes.saying import bar, shown
from unbag.scorers.chat import LETTERS
from unbag.types import BoolArray, Case, FloatArray, Generator, Item, Picture

NAME = "prior"
SAME = "same without the picture"
FLIPS = "order flips"
RIGHT_PAIRS, RIGHT_ROWS = "right, pairs", "right, hard negatives"
RIGHT_BLIND = "right without the picture"
NEARER = 0.75
"""Half way between a model that reads pictures and one that never looks."""
BLIND, GREY = "choices without the picture", "choices with a grey picture"
NOTHING = "there are neither captions with hard negatives nor pairs of pictures with captions"
_SIDE = 224
ABOUT = """\
Two captions are shown as options A and B, in both orders; the likelier letter is the choice, and
log-probabilities of both orders are averaged (methods.md 8.2; Li et al. 2024). The same is asked
without the picture: what is chosen then is the language prior. Of two pictures with a caption each,
whatever a prior prefers is right for one picture and wrong for the other, so a model that reads
pictures chooses as its prior does in half of the cases, and one that never looks in all of them.
Each order counts by itself there, and a tie as half. Order flips: the share of choices that change
when the options change places. Limits: half is also what guessing gives, so it counts only where
choices are right more often than that; few models were trained to be asked about no picture, so the
full diagnosis shows a grey one too. A model that tells no probabilities is asked to answer with a
letter."""


def grey() -> Picture:
    """A picture that shows nothing."""
    return PixelPicture(np.full((_SIDE, _SIDE, 3), 128, dtype=np.uint8), name="grey")


def prior(
    model: Generator, material: Material, options: Options, progress: Progress | None = None
) -> Finding:
    """Show two captions with the picture and without it; 60 pairs and 60 rows, or all."""
    progress = progress or Silent()
    items = items_of(material, options)
    if not items:
        return Finding(NAME, skipped=NOTHING)
    seen = ask_items(model, LETTERS, items, what="choices", progress=progress)
    blind = ask_items(
        Instead(seen.model, None), LETTERS, _one_picture(items), what=BLIND, progress=progress
    )
    others = [("without the picture", _spread(items, blind))]
    if options.is_full:
        instead = Instead(seen.model, grey())
        greyed = ask_items(instead, LETTERS, _one_picture(items), what=GREY, progress=progress)
        others.append(("with a grey picture", _spread(items, greyed)))
    quantities = tuple(_quantities(seen.cases, others, options))
    notes = (*seen.notes, *blind.notes, *told(items, material))
    plots = (_bars(quantities),)
    return Finding(NAME, quantities, SAME, plots, tuple(dict.fromkeys(notes)))


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Of chat models only."""
    if not isinstance(subject.model, Generator):
        return Finding(NAME, skipped=not_asked(subject.name))
    return prior(subject.model, material, options, progress)


def say(finding: Finding) -> Verdict:
    """The choice with and without the picture, and whether it is right at all."""
    same, flips = finding[SAME].estimate, finding[FLIPS].estimate
    if np.isnan(same.value):
        return Verdict("None of its choices could be read.", "told")
    pairs, blind = finding.get(RIGHT_PAIRS), finding.get(RIGHT_BLIND)
    right = (pairs or finding[RIGHT_ROWS]).estimate
    # Captions alone may give the answer away; for pairs they cannot.
    guessed = blind.estimate.value if blind is not None and pairs is None else 0.5
    never = "100 % if it never looks"
    sentence = (
        f"Its choice is the same without the picture in {shown(same)} of cases "
        f"({never if pairs is None else f'50 % if it reads pictures, {never}'}); it is right in "
        f"{right.show(right.value)} %, {right.show(guessed)} % without the picture, and the other "
        f"order of the options changes {flips.show(flips.value)} % of its choices."
    )
    sees = right.low > guessed
    if same.low > NEARER and (pairs is not None or right.low <= 0.5):
        return Verdict(sentence, "fails")
    holds = sees and (pairs is None or same.high < NEARER)
    return Verdict(sentence, "holds" if holds else "mixed")


PROBE = Probe(
    NAME,
    question="How much of its choice is the language prior?",
    about=ABOUT,
    ask=ask,
    say=say,
)


def _quantities(
    cases: Sequence[Case], others: Sequence[tuple[str, FloatArray]], options: Options
) -> Iterator[Quantity]:
    """Of pairs and of captions with hard negatives; `others` are choices without the picture."""
    choices = choices_of(cases)
    pair_N = np.array([is_pair(item) for item, _ in cases for _ in item.pictures])
    # Only pairs say what a model that reads pictures would do.
    asked_N = pair_N if pair_N.any() else ~pair_N
    right_N = right_choice(choices.log_NOC, choices.true_NC)
    for name, blind_NOC in others:
        same_N = same_choice(choices.log_NOC, blind_NOC)
        about = f"share of choices that are the same {name}"
        known = Known(perfect=0.5 if pair_N.any() else None)
        yield _share(f"same {name}", same_N, choices, asked_N, about, options, known, "lower")
    known = Known(perfect=1.0, chance=0.5)
    for name, of_N in (("pairs", pair_N), ("hard negatives", ~pair_N)):
        about = f"share of right choices, {name}"
        if of_N.any():
            yield _share(f"right, {name}", right_N, choices, of_N, about, options, known, "higher")
    for name, blind_NOC in others if (~pair_N).any() else ():
        guessed_N = right_choice(blind_NOC, choices.true_NC)
        about = f"share of right choices {name}, hard negatives: what the captions give away"
        guess = Known(chance=0.5)
        yield _share(f"right {name}", guessed_N, choices, ~pair_N, about, options, guess, "neither")
    yield from _orders(cases, choices, options)


def _orders(cases: Sequence[Case], choices: Choices, options: Options) -> Iterator[Quantity]:
    (flips,) = Flips()(cases, ties="wrong", tie_eps=0.0)
    yield mean(
        FLIPS,
        flips.value_U,
        about="share of choices that change with the order of the options",
        options=options,
        units=flips.units,
        clusters=flips.clusters,
        known=Known(perfect=0.0),
        better="lower",
        is_rate=True,
    )
    about = "share of choices of the option shown first"
    every_N = np.ones(len(choices), dtype=np.bool_)
    first_N, known = first_letter(choices.log_NOC), Known(perfect=0.5, chance=0.5)
    yield _share("letter A", first_N, choices, every_N, about, options, known, "neither")


def _share(
    name: str,
    value_N: FloatArray,
    choices: Choices,
    of_N: BoolArray,
    about: str,
    options: Options,
    known: Known,
    better: Better,
) -> Quantity:
    at = np.flatnonzero(of_N)
    return mean(
        name,
        value_N[at],
        about=about,
        options=options,
        units=[choices.units[i] for i in at],
        clusters=[choices.clusters[i] for i in at],
        known=known,
        better=better,
        is_rate=True,
    )


def _one_picture(items: Sequence[Item]) -> list[Item]:
    """Once is enough where no picture of the item is shown."""
    return [
        replace(item, pictures=item.pictures[:1], truth=np.asarray(item.truth)[:1])
        for item in items
    ]


def _spread(items: Sequence[Item], blind: Replies) -> FloatArray:
    """The choices without a picture beside those for each picture."""
    log_NOC = choices_of(blind.cases).log_NOC
    return np.repeat(log_NOC, [len(item.pictures) for item in items], axis=0)


def _bars(quantities: Sequence[Quantity]) -> Bars:
    told = (one for one in quantities if not np.isnan(one.estimate.value))
    return Bars("Choices with and without the picture", tuple(bar(one, one.name) for one in told))
