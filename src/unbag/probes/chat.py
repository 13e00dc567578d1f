"""Two probes of chat models: `prior`, choices without the image, and `yes_bias`, what it affirms.

A model that tells no probabilities is asked to answer freely instead.

Dimensions: N images or statements (a caption about an image), O = 2 orders of the options, C = 2
captions, P pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

import numpy as np

from unbag.data import PixelImage
from unbag.errors import ImageError, UnbagError
from unbag.evaluation.scoring import QueryScoring
from unbag.metrics.choice import Flips
from unbag.metrics.pairs import pair_outcomes
from unbag.metrics.statements import best_threshold
from unbag.metrics.ties import CHANCE, credit, finite_rows
from unbag.models.huggingface.chat import Ask, answers_of, logprobs_of, scores_ends
from unbag.probes.base import (
    Bars,
    Better,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Thresholds,
    Tone,
    Value,
    Verdict,
    bar,
    fill,
    mean,
    statistic,
)
from unbag.probes.sampling import deal, unite
from unbag.runs.progress import Progress, Silent
from unbag.scorers.chat import LETTERS, YES_NORMALISED, Protocol
from unbag.scorers.questions import CLOSED, read_answer
from unbag.types import BoolArray, Case, FloatArray, Generator, ImageSource, IntArray, Item

PRIOR_NAME = "prior"
YES_NAME = "yes_bias"
SAME = "same without the image"
FLIPS = "order flips"
RIGHT_PAIRS, RIGHT_ROWS = "right, pairs", "right, hard negatives"
RIGHT_BLIND = "right without the image"
BLIND, GREY = "choices without the image", "choices with a grey image"
FALSE, TRUE = "yes to false captions", "yes to true captions"
STRICT, RELAXED = "both images right", "both images right, relaxed"
NOTHING = "there are neither captions with hard negatives nor pairs of images with captions"


class ChatThresholds(Thresholds):
    """Of the share of choices that are the same without the image, then of what is guessed."""

    NEARER = 0.75, "half way between a model that reads images and one that never looks"
    EVEN = 0.5, "right choices, or yes, of a model that guesses"


_PRIOR = (
    "Its choice is the same without the image in {same} of cases ({known}); it is right in "
    "{right:value} %, {guessed} % without the image, and the other order of the options changes "
    "{flips:value} % of its choices."
)
_YES = "It says yes to {false} of false captions and to {true:value} % of true ones{pairs}."
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "no choice": ("told", "None of its choices could be read."),
    "prior": ("fails", _PRIOR),
    "pictures": ("holds", _PRIOR),
    "both": ("mixed", _PRIOR),
    "no answer": ("told", "None of its answers could be read."),
    "biased": ("fails", _YES),
    "fair": ("holds", _YES),
    "undecided": ("mixed", _YES),
}
PHRASES = {
    "pairs": "50 % if it reads images, 100 % if it never looks",
    "rows": "100 % if it never looks",
    "told apart": (
        "; both images of a pair are told apart in {strict:value} %, in {relaxed:value} % where "
        "a prior that is common to both is allowed for"
    ),
}
MOST = 60
"""Pairs and rows that are asked about unless all are wanted: chat models are slow."""
CHUNK = 8
"""Items asked about together."""
LONGEST = 16
"""Tokens of a free answer, which is yes, no or a letter."""
SAID, UNSAID = 0.0, -20.0
"""Stand for the log-probabilities of a word that was answered and of one that was not."""
GREY_SIDE = 224
"""Pixels of the grey image."""
PRIOR_ABOUT = """\
Two captions are shown as options A and B, in both orders; the likelier letter is the choice, and
log-probabilities of both orders are averaged (methods.md 8.2; Li et al. 2024). The same is asked
without the image: what is chosen then is the language prior. Of two images with a caption each,
whatever a prior prefers is right for one image and wrong for the other, so a model that reads
images chooses as its prior does in half of the cases, and one that never looks in all of them.
Each order counts by itself there, and a tie as half. Order flips: the share of choices that change
when the options change places. Limits: half is also what guessing gives, so it counts only where
choices are right more often than that; few models were trained to be asked about no image, so the
full diagnosis shows a grey one too. A model that tells no probabilities is asked to answer with a
letter."""
YES_ABOUT = """\
Each caption is asked about as in VQAScore: "Does this figure show ...? Please answer yes or no."
(methods.md 8.1), with a true caption for every false one. P(yes) is exp of the mean log-probability
of the tokens of Yes, over the sum of that of Yes and No; the model says yes where it is above 1/2.
Yes bias: the mean of said yes minus true; 0 for a model that is always right, 0.5 for one that
always says yes. The threshold is the P(yes) above which statements are best called true; what is
right at it is judged on one half of the material with the threshold of the other half. A pair is
right if both images give their own caption the higher P(yes); relaxed, if the right assignment
beats the crossed one, s11/(s11+s12) > s21/(s21+s22) (methods.md 8.6; Li et al. 2024): what a prior
that is the same for both images cannot hide. Limits: one prompt, the published one; without
probabilities (some servers) only what is said can be counted."""


def ask_prior(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Of chat models only."""
    if not isinstance(subject.model, Generator):
        return ProbeResult(PRIOR_NAME, skipped=not_asked(subject.name))
    return prior(subject.model, material, options, progress)


def say_prior(finding: ProbeResult) -> Verdict:
    """The choice with and without the image, and whether it is right at all."""
    same, flips = finding[SAME].estimate, finding[FLIPS].estimate
    if np.isnan(same.value):
        return Verdict(*VERDICTS["no choice"])
    pairs, blind = finding.get(RIGHT_PAIRS), finding.get(RIGHT_BLIND)
    right = (pairs or finding[RIGHT_ROWS]).estimate
    at = ChatThresholds
    # Captions alone may give the answer away; for pairs they cannot.
    guessed = blind.estimate.value if blind is not None and pairs is None else float(at.EVEN)
    if same.low > at.NEARER and (pairs is not None or right.low <= at.EVEN):
        case = "prior"
    else:
        is_seen = right.low > guessed and (pairs is None or same.high < at.NEARER)
        case = "pictures" if is_seen else "both"
    values: dict[str, Value] = {
        "same": same,
        "known": PHRASES["rows" if pairs is None else "pairs"],
        "right": right,
        "guessed": right.show(guessed),
        "flips": flips,
    }
    return Verdict(*VERDICTS[case], values)


PRIOR = Probe(
    PRIOR_NAME,
    question="How much of its choice is the language prior?",
    about=PRIOR_ABOUT,
    ask=ask_prior,
    say=say_prior,
    thresholds=tuple(ChatThresholds),
)


def ask_yes_bias(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Of chat models only."""
    if not isinstance(subject.model, Generator):
        return ProbeResult(YES_NAME, skipped=not_asked(subject.name))
    return yes_bias(subject.model, material, options, progress)


def say_yes_bias(finding: ProbeResult) -> Verdict:
    """What it says yes to, and what a relaxed verdict on pairs finds."""
    false, true = finding[FALSE].estimate, finding[TRUE].estimate
    strict, relaxed = finding.get(STRICT), finding.get(RELAXED)
    even = ChatThresholds.EVEN
    if np.isnan(false.value) or np.isnan(true.value):
        case = "no answer"
    elif false.low > even or true.high < even:
        case = "biased"
    else:
        case = "fair" if false.high < even < true.low else "undecided"
    values: dict[str, Value] = {"false": false, "true": true, "pairs": ""}
    if strict is not None and relaxed is not None:
        values["pairs"] = fill(
            PHRASES["told apart"], strict=strict.estimate, relaxed=relaxed.estimate
        )
    return Verdict(*VERDICTS[case], values)


YES_BIAS = Probe(
    YES_NAME,
    question="Does it say yes to anything?",
    about=YES_ABOUT,
    ask=ask_yes_bias,
    say=say_yes_bias,
    thresholds=(ChatThresholds.EVEN,),
)


def prior(
    model: Generator, material: ProbeData, options: Options, progress: Progress | None = None
) -> ProbeResult:
    """Show two captions with the image and without it; 60 pairs and 60 rows, or all."""
    progress = progress or Silent()
    items = items_of(material, options)
    if not items:
        return ProbeResult(PRIOR_NAME, skipped=NOTHING)
    seen = ask_items(model, LETTERS, items, what="choices", progress=progress)
    blind = ask_items(
        Instead(seen.model, None), LETTERS, _one_image(items), what=BLIND, progress=progress
    )
    others = [("without the image", _spread(items, blind))]
    if options.is_full:
        instead = Instead(seen.model, grey())
        greyed = ask_items(instead, LETTERS, _one_image(items), what=GREY, progress=progress)
        others.append(("with a grey image", _spread(items, greyed)))
    quantities = tuple(_choice_quantities(seen.cases, others, options))
    notes = (*seen.notes, *blind.notes, *told(items, material))
    plots = (_bars("Choices with and without the image", quantities),)
    return ProbeResult(PRIOR_NAME, quantities, SAME, plots, tuple(dict.fromkeys(notes)))


def _choice_quantities(
    cases: Sequence[Case], others: Sequence[tuple[str, FloatArray]], options: Options
) -> Iterator[Quantity]:
    """Of pairs and of captions with hard negatives; `others` are choices without the image."""
    choices = choices_of(cases)
    share = partial(_share, choices, options)
    pair_N = np.array([is_pair(item) for item, _ in cases for _ in item.images])
    # Only pairs say what a model that reads images would do.
    asked_N = pair_N if pair_N.any() else ~pair_N
    known = Known(perfect=0.5 if pair_N.any() else None)
    for name, blind_NOC in others:
        same_N = same_choice(choices.log_NOC, blind_NOC)
        about = f"share of choices that are the same {name}"
        yield share(f"same {name}", same_N, about, of_N=asked_N, known=known, better="lower")
    right_N = right_choice(choices.log_NOC, choices.true_NC)
    known = Known(perfect=1.0, chance=0.5)
    for name, of_N in (("pairs", pair_N), ("hard negatives", ~pair_N)):
        about = f"share of right choices, {name}"
        if of_N.any():
            yield share(f"right, {name}", right_N, about, of_N=of_N, known=known, better="higher")
    for name, blind_NOC in others if (~pair_N).any() else ():
        guessed_N = right_choice(blind_NOC, choices.true_NC)
        about = f"share of right choices {name}, hard negatives: what the captions give away"
        yield share(f"right {name}", guessed_N, about, of_N=~pair_N, known=Known(chance=0.5))
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
    first_N = first_letter(choices.log_NOC)
    yield share("letter A", first_N, about, known=Known(perfect=0.5, chance=0.5))


def grey() -> ImageSource:
    """An image that shows nothing."""
    return PixelImage(np.full((GREY_SIDE, GREY_SIDE, 3), 128, dtype=np.uint8), name="grey")


def _one_image(items: Sequence[Item]) -> list[Item]:
    """Once is enough where no image of the item is shown."""
    return [
        replace(item, images=item.images[:1], truth=np.asarray(item.truth)[:1]) for item in items
    ]


def _spread(items: Sequence[Item], blind: Replies) -> FloatArray:
    """The choices without an image beside those for each image."""
    log_NOC = choices_of(blind.cases).log_NOC
    return np.repeat(log_NOC, [len(item.images) for item in items], axis=0)


def yes_bias(
    model: Generator, material: ProbeData, options: Options, progress: Progress | None = None
) -> ProbeResult:
    """Ask whether captions are true of their images; 60 pairs and 60 rows, or all."""
    items = items_of(material, options)
    if not items:
        return ProbeResult(YES_NAME, skipped=NOTHING)
    heard = ask_items(model, YES_NORMALISED, items, what="yes or no", progress=progress or Silent())
    statements = statements_of(heard.cases)
    quantities = [*_answer_quantities(statements, options)]
    if not heard.is_spoken:
        quantities += _probability_quantities(statements, options)
        quantities += _pair_quantities([one for one in heard.cases if is_pair(one.item)], options)
    notes = (*heard.notes, *told(items, material))
    return ProbeResult(
        YES_NAME, tuple(quantities), FALSE, (_bars("What it says yes to", quantities),), notes
    )


def _answer_quantities(of: StatementScores, options: Options) -> Iterator[Quantity]:
    share = partial(_share, of, options)
    said_N, true_N = of.said, of.true_N
    about = "share of false captions that are called true"
    known = Known(perfect=0, chance=0.5)
    yield share(FALSE, said_N, about, of_N=~true_N, known=known, better="lower")
    about = "share of true captions that are called true"
    known = Known(perfect=1, chance=0.5)
    yield share(TRUE, said_N, about, of_N=true_N, known=known, better="higher")
    about = "mean of said yes (1 or 0) minus true (1 or 0); 0.5 where it always says yes"
    none = Known(perfect=0, chance=0)
    yield share("yes bias", said_N - true_N, about, known=none, is_rate=False)
    right_N = np.where(np.isnan(said_N), np.nan, said_N == true_N)
    about = "share of captions rightly called true or false"
    yield share("right", right_N, about, known=known, better="higher")


def _probability_quantities(of: StatementScores, options: Options) -> Iterator[Quantity]:
    share = partial(_share, of, options)
    about = "mean probability of yes, {} captions"
    for name, of_N, best in (("false", ~of.true_N, 0.0), ("true", of.true_N, 1.0)):
        yield share(
            f"P(yes), {name} captions",
            of.yes_N,
            about.format(name),
            of_N=of_N,
            known=Known(perfect=best),
            better="higher" if best else "lower",
        )

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
    known = Known(perfect=1, chance=0.5)
    yield share(
        "right at its threshold", right_at_threshold(of), about, known=known, better="higher"
    )


def _pair_quantities(cases: Sequence[Case], options: Options) -> Iterator[Quantity]:
    """Strict and relaxed, and what the second forgives."""
    if not cases:
        return
    nothing = np.full((2, 2), np.nan)
    score_P22 = np.array([nothing if s.values is None else s.values for _, s in cases])
    valid_P = finite_rows(score_P22.reshape(-1, 4))
    own_P2 = np.tile([0, 1], (len(cases), 1))
    filled_P22 = np.where(valid_P[:, None, None], score_P22, 1.0)
    found = pair_outcomes(filled_P22, own_P2, (0, 1), form="ratio")
    strict_P, relaxed_P = (
        np.where(valid_P, found[name].credit_N, np.nan) for name in ("pair", "relaxed")
    )
    units = [item.id for item, _ in cases]
    clusters = [item.group for item, _ in cases]
    pair, relaxed = CHANCE["pair"], CHANCE["relaxed"]
    for name, value_P, chance, about in (
        (STRICT, strict_P, pair, "share of pairs in which both images prefer their caption"),
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


def _share(
    of: Choices | StatementScores,
    options: Options,
    name: str,
    value_N: FloatArray,
    about: str,
    *,
    of_N: BoolArray | None = None,
    known: Known,
    better: Better = "neither",
    is_rate: bool = True,
) -> Quantity:
    """The mean over all of them, or over some."""
    at = np.arange(len(value_N)) if of_N is None else np.flatnonzero(of_N)
    return mean(
        name,
        value_N[at],
        about=about,
        options=options,
        units=[of.units[i] for i in at],
        clusters=[of.clusters[i] for i in at],
        known=known,
        better=better,
        is_rate=is_rate,
    )


def _bars(title: str, quantities: Sequence[Quantity]) -> Bars:
    """The rates that are known."""
    rates = (one for one in quantities if one.estimate.is_rate)
    known = (one for one in rates if not np.isnan(one.estimate.value))
    return Bars(title, tuple(bar(one, one.name) for one in known))


@dataclass(frozen=True, eq=False)
class Choices:
    """What was chosen about N images."""

    log_NOC: FloatArray
    """Log-probability of each caption's letter in each order; NaN where nothing was answered."""
    true_NC: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]


def choices_of(cases: Sequence[Case]) -> Choices:
    """Each image of each item with two captions."""
    nothing_OC = np.full((2, 2), np.nan)
    logs, truths, units, clusters = [], [], [], []
    for item, scores in cases:
        given = np.array(scores.order_logprobs).reshape(-1, 2, 2)
        for at in range(len(item.images)):
            logs.append(given[at] if len(given) else nothing_OC)
            truths.append(np.asarray(item.truth)[at])
            units.append(f"{item.id}/picture {at}")
            clusters.append(item.group or item.id)
    return Choices(
        np.array(logs).reshape(-1, 2, 2),
        np.array(truths, dtype=np.bool_).reshape(-1, 2),
        tuple(units),
        tuple(clusters),
    )


def right_choice(log_NOC: FloatArray, true_NC: BoolArray) -> FloatArray:
    """1 where the true caption is likelier over both orders, 1/2 for a tie: it is a guess."""
    # Sorted, since a sum in another order ends in other digits, and breaks an exact tie.
    score_NC = np.sort(log_NOC, axis=1).mean(axis=1)
    return credit(score_NC, true_NC, ties="half").credit_N


def same_choice(log_NOC: FloatArray, blind_NOC: FloatArray) -> FloatArray:
    """Share of orders in which the second chooses what the first does, image by image.

    A tie on either side is a coin that agrees half of the time. NaN where a value is none.
    """
    same_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * _signs(blind_NOC)).mean(axis=1)
    return same_N


def first_letter(log_NOC: FloatArray) -> FloatArray:
    """Share of orders in which the option shown first is chosen; a tie counts half.

    In the second order it is the second caption that comes first.
    """
    chosen_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * np.array([1.0, -1.0])).mean(axis=1)
    return chosen_N


def _signs(log_NOC: FloatArray) -> FloatArray:
    """1 where the first caption is chosen, -1 where the second is, 0 for a tie."""
    with np.errstate(invalid="ignore"):
        found_NO: FloatArray = np.sign(log_NOC[..., 0] - log_NOC[..., 1])
    return found_NO


@dataclass(frozen=True, eq=False)
class StatementScores:
    """Captions, each about an image, with how probable a yes is."""

    yes_N: FloatArray
    """P(yes); NaN where there was no answer."""
    true_N: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]

    @property
    def said(self) -> FloatArray:
        """1 for yes, 0 for no, NaN without an answer."""
        return np.where(np.isnan(self.yes_N), np.nan, self.yes_N > 0.5)


def statements_of(cases: Sequence[Case]) -> StatementScores:
    """Every caption of every image."""
    yes, true, units, clusters = [], [], [], []
    for item, scores in cases:
        shape = item.truth.shape
        yes.append(np.full(shape, np.nan) if scores.values is None else scores.values)
        true.append(np.asarray(item.truth, dtype=np.bool_))
        places = [(p, c) for p in range(shape[0]) for c in range(shape[1])]
        units += [f"{item.id}/picture {p}, caption {c}" for p, c in places]
        clusters += [item.group or item.id] * len(places)
    return StatementScores(
        np.concatenate([one.ravel() for one in yes]),
        np.concatenate([one.ravel() for one in true]),
        tuple(units),
        tuple(clusters),
    )


def right_at_threshold(of: StatementScores) -> FloatArray:
    """1 where a statement is judged rightly at the best threshold of the other half, 0 where not.

    Halves are made of whole clusters, taken in turn in the order of a hash; NaN if there is but
    one.
    """
    half_N = deal(of.clusters, 2)
    right_N = np.full(len(of.units), np.nan)
    for side in (0, 1) if len(set(of.clusters)) > 1 else ():
        here_N = half_N == side
        threshold = best_threshold(of.yes_N[~here_N], of.true_N[~here_N])
        right_N[here_N] = ((of.yes_N > threshold) == of.true_N)[here_N]
    return np.where(np.isnan(of.yes_N), np.nan, right_N)


def items_of(material: ProbeData, options: Options) -> tuple[Item, ...]:
    """Pairs with captions as 2 x 2 items, then captions with their negatives as 1 x 2 items.

    As many of each as are quick, unless all are wanted.
    """
    pairs = [
        Item(
            id=pair.id,
            images=(pair.first, pair.second),
            captions=pair.captions,
            truth=np.eye(2, dtype=np.bool_),
            group=pair.cluster or pair.id,
            tags={"relation": pair.relation},
        )
        for pair in material.pairs
        if pair.captions is not None and len(set(pair.captions)) == 2
    ]
    rows = [
        Item(
            id=row.id,
            images=(row.image,),
            captions=(row.caption, row.negative),
            truth=np.array([[True, False]]),
            group=row.cluster or row.id,
            tags={"kind": row.kind},
        )
        # A few of many seldom share an image, and to know it all files would have to be read.
        for row in (unite(material.rows) if options.is_full else material.rows)
        if row.negative is not None and row.negative != row.caption
    ]
    return (*_chosen(pairs, options), *_chosen(rows, options))


def _chosen(items: Sequence[Item], options: Options) -> list[Item]:
    """By a hash of seed and id: neither the order nor the number of the others matters."""
    if options.is_full or len(items) <= MOST:
        return list(items)
    drawn = sorted(items, key=lambda item: blake2b(f"{options.seed}\0{item.id}".encode()).digest())
    wanted = {item.id for item in drawn[:MOST]}
    return [item for item in items if item.id in wanted]


def is_pair(item: Item) -> bool:
    """Two images and a caption for each: what a prior prefers is right for one of them."""
    return len(item.images) == 2


def told(items: Sequence[Item], material: ProbeData) -> tuple[str, ...]:
    """What part of the material was asked about."""
    pairs = sum(map(is_pair, items))
    counts = (
        (pairs, len(material.pairs), "pairs"),
        (len(items) - pairs, len(material.rows), "hard negatives"),
    )
    return tuple(f"{n:,} of {of:,} {what} were asked about" for n, of, what in counts if n < of)


def not_asked(name: str) -> str:
    """Why a model that gives scores alone is left out, though a chat model may stand behind it."""
    return f"{name} gives scores; chat models are asked (--model hf:FOLDER, decoder:FOLDER)"


def ask_items(
    model: Generator, protocol: Protocol, items: Sequence[Item], *, what: str, progress: Progress
) -> Replies:
    """Every item by a protocol of `unbag.scorers.chat`, by free answers where that cannot be done.

    Images that cannot be opened give NaN, and a note.
    """
    try:
        return _replies(model, protocol, items, what, progress)
    except ImageError:
        raise
    except UnbagError as error:
        spoken = _replies(Spoken(model), protocol, items, what, progress)
        why = f"read from free answers, without probabilities: {error.message}"
        return replace(spoken, notes=(why, *spoken.notes))


def _replies(
    model: Generator, protocol: Protocol, items: Sequence[Item], what: str, progress: Progress
) -> Replies:
    scoring = QueryScoring(protocol(model))
    cases: list[Case] = []
    # Log-probabilities of -inf for all answers, or NaN, are counted as invalid later.
    with np.errstate(invalid="ignore"), progress.task(what, _questions(items)) as advance:
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            cases += map(Case, part, scoring.chunk(part))
            advance(_questions(part))
    damaged = sorted(scoring.damaged.items())
    notes = [f"image {name} cannot be used: {why}" for name, why in damaged]
    found = Replies(tuple(cases), model)
    if found.is_spoken:
        unread = 0
        for item, scores in cases:
            if scores.values is None or any(p.name in scoring.damaged for p in item.images):
                continue
            # One answer a caption, or one an order in which the captions were shown.
            orders = np.array(scores.order_logprobs)
            unread += int(np.isnan(orders[:, 0] if len(orders) else scores.values).sum())
        if unread:
            notes.append(f"{unread:,} of {_questions(items):,} answers could not be read ({what})")
    return replace(found, notes=tuple(notes))


def _questions(items: Sequence[Item]) -> int:
    """A question a caption, or as many orders as there are captions."""
    return sum(len(item.images) * len(item.captions) for item in items)


@dataclass(frozen=True, eq=False)
class Replies:
    """What a chat model said of some items."""

    cases: tuple[Case, ...]
    model: Generator
    """As it was asked: by probabilities, or by free answers."""
    notes: tuple[str, ...] = ()

    @property
    def is_spoken(self) -> bool:
        """Read from free answers: there are no probabilities."""
        inner = self.model.model if isinstance(self.model, Instead) else self.model
        return isinstance(inner, Spoken)


@dataclass(frozen=True)
class Instead:
    """A chat model that is shown one and the same image, or none, whatever it is asked about."""

    model: Generator
    image: ImageSource | None

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Of the model and what it is shown."""
        return f"{self.model.fingerprint}-{self.image.key if self.image else 'blind'}"

    @property
    def scores_ends(self) -> bool:
        """As the model does."""
        return scores_ends(self.model)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Those of the model, shown something else."""
        return self.model.logprobs(self.image, prompt, continuations)

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Likewise for many."""
        return logprobs_of(self.model, [ask._replace(image=self.image) for ask in asks])

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """That of the model, shown something else."""
        return self.model.answer(self.image, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Likewise for many."""
        shown = [ask._replace(image=self.image) for ask in asks]
        return answers_of(self.model, shown, longest=longest)


@dataclass(frozen=True)
class Spoken:
    """A chat model by its free answers: what it answers is likely, all else is not."""

    model: Generator

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Of the model and this way to ask."""
        return f"{self.model.fingerprint}-spoken"

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """One number a continuation, NaN where the answer cannot be read."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Likewise for many."""
        answers = answers_of(self.model, asks, longest=LONGEST)
        return [_read(answer, ask) for answer, ask in zip(answers, asks, strict=True)]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """That of the model."""
        return self.model.answer(image, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Those of the model."""
        return answers_of(self.model, asks, longest=longest)


def _read(answer: str, ask: Ask) -> list[list[float]]:
    is_closed = set(ask.continuations) <= set(CLOSED)
    # The probability of Yes alone may be asked for; a No is an answer all the same.
    words = CLOSED if is_closed else ask.continuations
    keywords = [(word,) for word in CLOSED] if is_closed else []
    meant = read_answer(answer, keywords, labels=() if is_closed else words)
    if meant is None:
        return [[float("nan")] for _ in ask.continuations]
    return [[SAID if one == words[meant] else UNSAID] for one in ask.continuations]
