"""A chat model comes in; what it says yes to goes out: the probe `yes_bias`.

Dimensions: N statements (a caption about a picture), P pairs, 2 pictures, 2 captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unbag.engine.progress import Progress, Silent
from unbag.metrics.chance import CHANCE
from unbag.metrics.pairs import judge_pair
from unbag.metrics.statements import best_threshold
from unbag.metrics.ties import finite_rows
from unbag.probes.chat_asked import ask_items, is_pair, items_of, not_asked, told
from unbag.probes.chat_prior import NOTHING
from unbag.probes.chat_statements import Statements, right_at_threshold, statements_of
from unbag.probes.finding import Better, Finding, Known, Options, Quantity, mean, statistic
from unbag.probes.material import Material
from unbag.probes.plots import Bars
from unbag.probes.probe import Probe, Subject, Verdict
from unbag.probes.saying import bar, shown
from unbag.scorers.chat import YES_NORMALISED
from unbag.types import Case, Generator, IntArray

NAME = "yes_bias"
FALSE, TRUE = "yes to false captions", "yes to true captions"
STRICT, RELAXED = "both pictures right", "both pictures right, relaxed"
ABOUT = """\
Each caption is asked about as in VQAScore: "Does this figure show ...? Please answer yes or no."
(methods.md 8.1), with a true caption for every false one. P(yes) is exp of the mean log-probability
of the tokens of Yes, over the sum of that of Yes and No; the model says yes where it is above 1/2.
Yes bias: the mean of said yes minus true; 0 for a model that is always right, 0.5 for one that
always says yes. The threshold is the P(yes) above which statements are best called true; what is
right at it is judged on one half of the material with the threshold of the other half. A pair is
right if both pictures give their own caption the higher P(yes); relaxed, if the right assignment
beats the crossed one, s11/(s11+s12) > s21/(s21+s22) (methods.md 8.6; Li et al. 2024): what a prior
that is the same for both pictures cannot hide. Limits: one prompt, the published one; without
probabilities (some servers) only what is said can be counted."""


def yes_bias(
    model: Generator, material: Material, options: Options, progress: Progress | None = None
) -> Finding:
    """Ask whether captions are true of their pictures; 60 pairs and 60 rows, or all."""
    items = items_of(material, options)
    if not items:
        return Finding(NAME, skipped=NOTHING)
    heard = ask_items(model, YES_NORMALISED, items, what="yes or no", progress=progress or Silent())
    statements = statements_of(heard.cases)
    quantities = [*_said(statements, options)]
    if not heard.is_spoken:
        quantities += _probabilities(statements, options)
        quantities += _pairs([one for one in heard.cases if is_pair(one.item)], options)
    notes = (*heard.notes, *told(items, material))
    return Finding(NAME, tuple(quantities), FALSE, (_bars(quantities),), notes)


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Of chat models only."""
    if not isinstance(subject.model, Generator):
        return Finding(NAME, skipped=not_asked(subject.name))
    return yes_bias(subject.model, material, options, progress)


def say(finding: Finding) -> Verdict:
    """What it says yes to, and what a relaxed verdict on pairs finds."""
    false, true = finding[FALSE].estimate, finding[TRUE].estimate
    if np.isnan(false.value) or np.isnan(true.value):
        return Verdict("None of its answers could be read.", "told")
    sentence = (
        f"It says yes to {shown(false)} of false captions and to {true.show(true.value)} % of "
        "true ones"
    )
    strict, relaxed = finding.get(STRICT), finding.get(RELAXED)
    if strict is not None and relaxed is not None:
        one, other = strict.estimate, relaxed.estimate
        sentence += (
            f"; both pictures of a pair are told apart in {one.show(one.value)} %, in "
            f"{other.show(other.value)} % where a prior that is common to both is allowed for"
        )
    if false.low > 0.5 or true.high < 0.5:
        return Verdict(f"{sentence}.", "fails")
    return Verdict(f"{sentence}.", "holds" if false.high < 0.5 < true.low else "mixed")


PROBE = Probe(
    NAME,
    question="Does it say yes to anything?",
    about=ABOUT,
    ask=ask,
    say=say,
)


def _said(of: Statements, options: Options) -> Iterator[Quantity]:
    said_N, true_N = of.said, of.true_N
    about = "share of false captions that are called true"
    yield of.share(
        FALSE, said_N, about, options, of_N=~true_N, known=Known(perfect=0, chance=0.5),
        better="lower",
    )  # fmt: skip
    about = "share of true captions that are called true"
    yield of.share(
        TRUE, said_N, about, options, of_N=true_N, known=Known(perfect=1, chance=0.5),
        better="higher",
    )  # fmt: skip
    about = "mean of said yes (1 or 0) minus true (1 or 0); 0.5 where it always says yes"
    yield of.share(
        "yes bias", said_N - true_N, about, options, known=Known(perfect=0, chance=0), is_rate=False
    )
    right_N = np.where(np.isnan(said_N), np.nan, said_N == true_N)
    about = "share of captions rightly called true or false"
    yield of.share(
        "right", right_N, about, options, known=Known(perfect=1, chance=0.5), better="higher"
    )


def _probabilities(of: Statements, options: Options) -> Iterator[Quantity]:
    for name, of_N, best in (("false", ~of.true_N, 0.0), ("true", of.true_N, 1.0)):
        about = f"mean probability of yes, {name} captions"
        better: Better = "higher" if best else "lower"
        yield of.share(
            f"P(yes), {name} captions", of.yes_N, about, options, of_N=of_N,
            known=Known(perfect=best), better=better,
        )  # fmt: skip

    def threshold(places: IntArray) -> float:
        return float(np.clip(best_threshold(of.yes_N[places], of.true_N[places]), 0.0, 1.0))

    yield statistic(
        "threshold",
        threshold,
        len(of.units),
        about="P(yes) above which captions are best called true",
        options=options,
        clusters=of.clusters,
        is_rate=True,
    )
    about = "share rightly called true or false, at the threshold of the other half"
    yield of.share(
        "right at its threshold", right_at_threshold(of), about, options,
        known=Known(perfect=1, chance=0.5), better="higher",
    )  # fmt: skip


def _pairs(cases: Sequence[Case], options: Options) -> Iterator[Quantity]:
    """Strict and relaxed, and what the second forgives."""
    if not cases:
        return
    nothing = np.full((2, 2), np.nan)
    score_P22 = np.array([nothing if s.values is None else s.values for _, s in cases])
    valid_P = finite_rows(score_P22.reshape(-1, 4))
    own_P2 = np.tile([0, 1], (len(cases), 1))
    filled_P22 = np.where(valid_P[:, None, None], score_P22, 1.0)
    found = judge_pair(filled_P22, own_P2, (0, 1), form="ratio")
    strict_P, relaxed_P = (
        np.where(valid_P, found[name].credit_N, np.nan) for name in ("pair", "relaxed")
    )
    units = [item.id for item, _ in cases]
    clusters = [item.group for item, _ in cases]
    pair, relaxed = CHANCE["pair"], CHANCE["relaxed"]
    for name, value_P, chance, about in (
        (STRICT, strict_P, pair, "share of pairs in which both pictures prefer their caption"),
        (RELAXED, relaxed_P, relaxed, "share of pairs in which the right assignment is likelier"),
        ("hidden by the prior", relaxed_P - strict_P, relaxed - pair, "relaxed minus strict"),
    ):
        yield mean(
            name,
            value_P,
            about=about,
            options=options,
            units=units,
            clusters=clusters,
            known=Known(perfect=float(name != "hidden by the prior"), chance=chance),
            better="neither" if name.startswith("hidden") else "higher",
            is_rate=True,
        )


def _bars(quantities: Sequence[Quantity]) -> Bars:
    rates = (one for one in quantities if one.estimate.is_rate)
    told = (one for one in rates if not np.isnan(one.estimate.value))
    return Bars("What it says yes to", tuple(bar(one, one.name) for one in told))
