"""Two probes of chat models: `prior` (choices without the image) and `yes_bias` (how often yes).

Models that give no probabilities answer in free text instead.

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
NO_ITEMS = "there are neither captions with hard negatives nor pairs of images with captions"


class ChatThresholds(Thresholds):
    """Thresholds on the share of choices that do not change without the image, and on guessing."""

    NEARER = 0.75, "half way between a model that reads images and one that ignores them"
    EVEN = 0.5, "share of right choices, or of yes, of a model that guesses"


_PRIOR = (
    "Without the image it makes the same choice in {same} of cases ({known}); its accuracy is "
    "{right:value} %, {guessed} % without the image, and swapping the options changes "
    "{flips:value} % of its choices."
)
_YES = "It says yes to {false} of false captions and to {true:value} % of true ones{pairs}."
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "no choice": ("told", "None of its choices could be read."),
    "prior": ("fails", _PRIOR),
    "image": ("holds", _PRIOR),
    "both": ("mixed", _PRIOR),
    "no answer": ("told", "None of its answers could be read."),
    "biased": ("fails", _YES),
    "fair": ("holds", _YES),
    "undecided": ("mixed", _YES),
}
PHRASES = {
    "pairs": "50 % for a model that reads images, 100 % for one that ignores them",
    "rows": "100 % for a model that ignores images",
    "accuracy": (
        "; it distinguishes both images of a pair in {strict:value} % of pairs, and in "
        "{relaxed:value} % after correcting for a prior that both images share"
    ),
}
MAX_ITEMS = 60
"""Pairs and rows in a quick diagnosis: chat models are slow."""
CHUNK = 8
"""Items per batch."""
MAX_TOKENS = 16
"""Maximum tokens of a free answer, which is yes, no or a letter."""
ANSWERED, NOT_ANSWERED = 0.0, -20.0
"""Log-probabilities assumed for the word that was answered and for the other words."""
GREY_SIDE = 224
"""Side of the grey image in pixels."""
PRIOR_ABOUT = """\
Two captions are shown as options A and B, in both orders; the likelier letter is the choice, and
log-probabilities of both orders are averaged (methods.md 8.2; Li et al. 2024). The same question
without the image gives the choice of the language prior. For two images with a caption each, the
caption that a prior prefers is right for one image and wrong for the other, so a model that reads
images agrees with its prior in half of the cases, and one that ignores them in all. Each order
counts by itself here, and a tie counts half. Order flips: the share of choices that change when the
options are swapped. Limits: guessing also gives half, so half counts only where the accuracy is
higher; few models are trained on questions without an image, so the full diagnosis also shows a
grey one. A model that gives no probabilities answers with a letter in free text."""
YES_ABOUT = """\
The question about each caption is that of VQAScore: "Does this figure show ...? Please answer yes
or no." (methods.md 8.1), with a true caption for every false one. P(yes) is exp of the mean
log-probability of the tokens of Yes, over the sum of that of Yes and No; the model says yes where
it is above 1/2. Yes bias: the mean of answers (1 for yes) minus truth; 0 for a model that is always
right, 0.5 for one that always says yes. The threshold is the P(yes) that best separates true from
false statements; the accuracy at it is measured on one half of the data with the threshold of the
other half. A pair is right if both images give their own caption the higher P(yes). It is right by
the relaxed rule if the right assignment beats the crossed one, s11/(s11+s12) > s21/(s21+s22)
(methods.md 8.6; Li et al. 2024), which a prior common to both images cannot hide. Limits: only the
published prompt; without probabilities (some servers), only the answers count."""


def ask_prior(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Measure the prior of a chat model; skipped for other models."""
    if not isinstance(subject.model, Generator):
        return ProbeResult(PRIOR_NAME, skipped=no_chat_model(subject.name))
    return prior(subject.model, data, options, progress)


def say_prior(result: ProbeResult) -> Verdict:
    """Compare the choice with and without the image, and its accuracy."""
    same, flips = result[SAME].estimate, result[FLIPS].estimate
    if np.isnan(same.value):
        return Verdict(*VERDICTS["no choice"])
    pairs, blind = result.get(RIGHT_PAIRS), result.get(RIGHT_BLIND)
    accuracy = (pairs or result[RIGHT_ROWS]).estimate
    at = ChatThresholds
    # For hard negatives, captions alone may give the answer away; for pairs they cannot.
    guess_rate = blind.estimate.value if blind is not None and pairs is None else float(at.EVEN)
    if same.low > at.NEARER and (pairs is not None or accuracy.low <= at.EVEN):
        case = "prior"
    else:
        uses_image = accuracy.low > guess_rate and (pairs is None or same.high < at.NEARER)
        case = "image" if uses_image else "both"
    values: dict[str, Value] = {
        "same": same,
        "known": PHRASES["rows" if pairs is None else "pairs"],
        "right": accuracy,
        "guessed": accuracy.show(guess_rate),
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
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Measure the yes bias of a chat model; skipped for other models."""
    if not isinstance(subject.model, Generator):
        return ProbeResult(YES_NAME, skipped=no_chat_model(subject.name))
    return yes_bias(subject.model, data, options, progress)


def say_yes_bias(result: ProbeResult) -> Verdict:
    """Say how often it says yes, and the accuracy on pairs."""
    false, true = result[FALSE].estimate, result[TRUE].estimate
    strict, relaxed = result.get(STRICT), result.get(RELAXED)
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
            PHRASES["accuracy"], strict=strict.estimate, relaxed=relaxed.estimate
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
    model: Generator, data: ProbeData, options: Options, progress: Progress | None = None
) -> ProbeResult:
    """Offer two captions with and without the image; 60 pairs and 60 rows, or all."""
    progress = progress or Silent()
    items = items_of(data, options)
    if not items:
        return ProbeResult(PRIOR_NAME, skipped=NO_ITEMS)
    replies = ask_items(model, LETTERS, items, label="choices", progress=progress)
    blind_replies = ask_items(
        FixedImageModel(replies.model, None),
        LETTERS,
        _with_one_image(items),
        label=BLIND,
        progress=progress,
    )
    blind_choices = [("without the image", _repeat_per_image(items, blind_replies))]
    if options.is_full:
        grey_model = FixedImageModel(replies.model, grey())
        grey_replies = ask_items(
            grey_model, LETTERS, _with_one_image(items), label=GREY, progress=progress
        )
        blind_choices.append(("with a grey image", _repeat_per_image(items, grey_replies)))
    quantities = tuple(_choice_quantities(replies.cases, blind_choices, options))
    notes = (*replies.notes, *blind_replies.notes, *coverage_notes(items, data))
    plots = (_bars("Choices with and without the image", quantities),)
    return ProbeResult(PRIOR_NAME, quantities, SAME, plots, tuple(dict.fromkeys(notes)))


def _choice_quantities(
    cases: Sequence[Case], blind_choices: Sequence[tuple[str, FloatArray]], options: Options
) -> Iterator[Quantity]:
    """Measure pairs and captions with hard negatives; `blind_choices` are without the image."""
    choices = choices_of(cases)
    share = partial(_share, choices, options)
    pair_N = np.array([is_pair(item) for item, _ in cases for _ in item.images])
    # Only for pairs is it known what a model that reads images would do.
    decides_N = pair_N if pair_N.any() else ~pair_N
    known = Known(perfect=0.5 if pair_N.any() else None)
    for name, blind_NOC in blind_choices:
        same_N = same_choice(choices.log_NOC, blind_NOC)
        about = f"share of choices that are the same {name}"
        yield share(f"same {name}", same_N, about, subset_N=decides_N, known=known, better="lower")
    right_N = right_choice(choices.log_NOC, choices.true_NC)
    known = Known(perfect=1.0, chance=0.5)
    for name, subset_N in (("pairs", pair_N), ("hard negatives", ~pair_N)):
        about = f"share of right choices, {name}"
        if subset_N.any():
            yield share(
                f"right, {name}", right_N, about, subset_N=subset_N, known=known, better="higher"
            )
    for name, blind_NOC in blind_choices if (~pair_N).any() else ():
        guessed_N = right_choice(blind_NOC, choices.true_NC)
        about = f"share of right choices {name}, hard negatives: known from captions alone"
        yield share(f"right {name}", guessed_N, about, subset_N=~pair_N, known=Known(chance=0.5))
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
    """Return an image that shows nothing."""
    return PixelImage(np.full((GREY_SIDE, GREY_SIDE, 3), 128, dtype=np.uint8), name="grey")


def _with_one_image(items: Sequence[Item]) -> list[Item]:
    """Reduce items to one image: where none is shown, asking once is enough."""
    return [
        replace(item, images=item.images[:1], truth=np.asarray(item.truth)[:1]) for item in items
    ]


def _repeat_per_image(items: Sequence[Item], replies: Replies) -> FloatArray:
    """Repeat the choices without an image for each image of an item."""
    log_NOC = choices_of(replies.cases).log_NOC
    return np.repeat(log_NOC, [len(item.images) for item in items], axis=0)


def yes_bias(
    model: Generator, data: ProbeData, options: Options, progress: Progress | None = None
) -> ProbeResult:
    """Ask whether captions are true of their images; 60 pairs and 60 rows, or all."""
    items = items_of(data, options)
    if not items:
        return ProbeResult(YES_NAME, skipped=NO_ITEMS)
    replies = ask_items(
        model, YES_NORMALISED, items, label="yes or no", progress=progress or Silent()
    )
    statements = statements_of(replies.cases)
    quantities = [*_answer_quantities(statements, options)]
    if not replies.is_free_text:
        quantities += _probability_quantities(statements, options)
        quantities += _pair_quantities(
            [case for case in replies.cases if is_pair(case.item)], options
        )
    notes = (*replies.notes, *coverage_notes(items, data))
    return ProbeResult(
        YES_NAME, tuple(quantities), FALSE, (_bars("What it says yes to", quantities),), notes
    )


def _answer_quantities(statements: StatementScores, options: Options) -> Iterator[Quantity]:
    share = partial(_share, statements, options)
    yes_N, true_N = statements.answers, statements.true_N
    about = "share of false captions that are called true"
    known = Known(perfect=0, chance=0.5)
    yield share(FALSE, yes_N, about, subset_N=~true_N, known=known, better="lower")
    about = "share of true captions that are called true"
    known = Known(perfect=1, chance=0.5)
    yield share(TRUE, yes_N, about, subset_N=true_N, known=known, better="higher")
    about = "mean of yes (1 or 0) minus true (1 or 0); 0.5 for a model that always says yes"
    unbiased = Known(perfect=0, chance=0)
    yield share("yes bias", yes_N - true_N, about, known=unbiased, is_rate=False)
    right_N = np.where(np.isnan(yes_N), np.nan, yes_N == true_N)
    about = "share of captions that are rightly called true or false"
    yield share("right", right_N, about, known=known, better="higher")


def _probability_quantities(statements: StatementScores, options: Options) -> Iterator[Quantity]:
    share = partial(_share, statements, options)
    about = "mean probability of yes, {} captions"
    for name, subset_N, perfect in (
        ("false", ~statements.true_N, 0.0),
        ("true", statements.true_N, 1.0),
    ):
        yield share(
            f"P(yes), {name} captions",
            statements.yes_N,
            about.format(name),
            subset_N=subset_N,
            known=Known(perfect=perfect),
            better="higher" if perfect else "lower",
        )

    def threshold(places: IntArray) -> float:
        return float(
            np.clip(best_threshold(statements.yes_N[places], statements.true_N[places]), 0.0, 1.0)
        )

    yield statistic(
        "threshold",
        threshold,
        len(statements.units),
        about="P(yes) above which captions are best called true",
        options=options,
        clusters=statements.clusters,
        is_rate=True,
    )
    about = "share rightly called true or false, at the threshold of the other half"
    known = Known(perfect=1, chance=0.5)
    yield share(
        "right at its threshold",
        right_at_threshold(statements),
        about,
        known=known,
        better="higher",
    )


def _pair_quantities(cases: Sequence[Case], options: Options) -> Iterator[Quantity]:
    """Measure the accuracy on pairs, strict and relaxed, and the difference of both."""
    if not cases:
        return
    missing = np.full((2, 2), np.nan)
    score_P22 = np.array([missing if s.values is None else s.values for _, s in cases])
    valid_P = finite_rows(score_P22.reshape(-1, 4))
    own_P2 = np.tile([0, 1], (len(cases), 1))
    filled_P22 = np.where(valid_P[:, None, None], score_P22, 1.0)
    outcomes = pair_outcomes(filled_P22, own_P2, (0, 1), form="ratio")
    strict_P, relaxed_P = (
        np.where(valid_P, outcomes[name].credit_N, np.nan) for name in ("pair", "relaxed")
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
    answers: Choices | StatementScores,
    options: Options,
    name: str,
    value_N: FloatArray,
    about: str,
    *,
    subset_N: BoolArray | None = None,
    known: Known,
    better: Better = "neither",
    is_rate: bool = True,
) -> Quantity:
    """Return the mean over all answers, or over a subset."""
    place = np.arange(len(value_N)) if subset_N is None else np.flatnonzero(subset_N)
    return mean(
        name,
        value_N[place],
        about=about,
        options=options,
        units=[answers.units[i] for i in place],
        clusters=[answers.clusters[i] for i in place],
        known=known,
        better=better,
        is_rate=is_rate,
    )


def _bars(title: str, quantities: Sequence[Quantity]) -> Bars:
    """Draw the rates that were measured."""
    rates = (rate for rate in quantities if rate.estimate.is_rate)
    measured = (rate for rate in rates if not np.isnan(rate.estimate.value))
    return Bars(title, tuple(bar(rate, rate.name) for rate in measured))


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices for N images."""

    log_NOC: FloatArray
    """Log-probability of each caption's letter in each order; NaN without an answer."""
    true_NC: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]


def choices_of(cases: Sequence[Case]) -> Choices:
    """Collect the choices for each image of items with two captions."""
    missing_OC = np.full((2, 2), np.nan)
    logs, truths, units, clusters = [], [], [], []
    for item, scores in cases:
        logprobs = np.array(scores.order_logprobs).reshape(-1, 2, 2)
        for place in range(len(item.images)):
            logs.append(logprobs[place] if len(logprobs) else missing_OC)
            truths.append(np.asarray(item.truth)[place])
            units.append(f"{item.id}/picture {place}")
            clusters.append(item.group or item.id)
    return Choices(
        np.array(logs).reshape(-1, 2, 2),
        np.array(truths, dtype=np.bool_).reshape(-1, 2),
        tuple(units),
        tuple(clusters),
    )


def right_choice(log_NOC: FloatArray, true_NC: BoolArray) -> FloatArray:
    """Return 1 where the true caption is likelier over both orders, 1/2 for a tie, else 0."""
    # Sorted, since adding in another order changes the last digits, which breaks exact ties.
    score_NC = np.sort(log_NOC, axis=1).mean(axis=1)
    return credit(score_NC, true_NC, ties="half").credit_N


def same_choice(log_NOC: FloatArray, blind_NOC: FloatArray) -> FloatArray:
    """Return for each image the share of orders in which both make the same choice.

    A tie on either side agrees half of the time. NaN where a value is missing.
    """
    same_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * _signs(blind_NOC)).mean(axis=1)
    return same_N


def first_letter(log_NOC: FloatArray) -> FloatArray:
    """Return the share of orders in which the first option is chosen; a tie counts half.

    In the second order, the second caption comes first.
    """
    chosen_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * np.array([1.0, -1.0])).mean(axis=1)
    return chosen_N


def _signs(log_NOC: FloatArray) -> FloatArray:
    """Return 1 where the first caption is chosen, -1 for the second, 0 for a tie."""
    with np.errstate(invalid="ignore"):
        sign_NO: FloatArray = np.sign(log_NOC[..., 0] - log_NOC[..., 1])
    return sign_NO


@dataclass(frozen=True, eq=False)
class StatementScores:
    """Statements (a caption about an image) with the probability of yes."""

    yes_N: FloatArray
    """P(yes); NaN without an answer."""
    true_N: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]

    @property
    def answers(self) -> FloatArray:
        """1 for yes, 0 for no, NaN without an answer."""
        return np.where(np.isnan(self.yes_N), np.nan, self.yes_N > 0.5)


def statements_of(cases: Sequence[Case]) -> StatementScores:
    """Collect the statements of every caption about every image."""
    yes, true, units, clusters = [], [], [], []
    for item, scores in cases:
        shape = item.truth.shape
        yes.append(np.full(shape, np.nan) if scores.values is None else scores.values)
        true.append(np.asarray(item.truth, dtype=np.bool_))
        places = [(p, c) for p in range(shape[0]) for c in range(shape[1])]
        units += [f"{item.id}/picture {p}, caption {c}" for p, c in places]
        clusters += [item.group or item.id] * len(places)
    return StatementScores(
        np.concatenate([values.ravel() for values in yes]),
        np.concatenate([values.ravel() for values in true]),
        tuple(units),
        tuple(clusters),
    )


def right_at_threshold(statements: StatementScores) -> FloatArray:
    """Return 1 where a statement is right at the best threshold of the other half, else 0.

    Halves consist of whole clusters, assigned in turn in the order of a hash; NaN for a single
    cluster.
    """
    half_N = deal(statements.clusters, 2)
    right_N = np.full(len(statements.units), np.nan)
    for side in (0, 1) if len(set(statements.clusters)) > 1 else ():
        in_half_N = half_N == side
        threshold = best_threshold(statements.yes_N[~in_half_N], statements.true_N[~in_half_N])
        right_N[in_half_N] = ((statements.yes_N > threshold) == statements.true_N)[in_half_N]
    return np.where(np.isnan(statements.yes_N), np.nan, right_N)


def items_of(data: ProbeData, options: Options) -> tuple[Item, ...]:
    """Make 2 x 2 items of pairs with captions, then 1 x 2 items of captions with their negatives.

    A quick diagnosis uses a part of each.
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
        for pair in data.pairs
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
        # A small part seldom shares images, and checking would read all image files.
        for row in (unite(data.rows) if options.is_full else data.rows)
        if row.negative is not None and row.negative != row.caption
    ]
    return (*_choose(pairs, options), *_choose(rows, options))


def _choose(items: Sequence[Item], options: Options) -> list[Item]:
    """Choose by a hash of seed and id: neither order nor number of the other items matters."""
    if options.is_full or len(items) <= MAX_ITEMS:
        return list(items)
    order = sorted(items, key=lambda item: blake2b(f"{options.seed}\0{item.id}".encode()).digest())
    chosen = {item.id for item in order[:MAX_ITEMS]}
    return [item for item in items if item.id in chosen]


def is_pair(item: Item) -> bool:
    """Whether an item has two images with a caption each."""
    return len(item.images) == 2


def coverage_notes(items: Sequence[Item], data: ProbeData) -> tuple[str, ...]:
    """Return notes on the part of the data that is used."""
    pairs = sum(map(is_pair, items))
    counts = (
        (pairs, len(data.pairs), "pairs"),
        (len(items) - pairs, len(data.rows), "hard negatives"),
    )
    return tuple(f"{n:,} of {total:,} {kind} are used" for n, total, kind in counts if n < total)


def no_chat_model(name: str) -> str:
    """Say why a model that only gives scores is skipped, even if it wraps a chat model."""
    return f"{name} gives scores; this probe needs a chat model (--model hf:FOLDER, decoder:FOLDER)"


def ask_items(
    model: Generator, protocol: Protocol, items: Sequence[Item], *, label: str, progress: Progress
) -> Replies:
    """Score items by a protocol of `unbag.scorers.chat`, or by free answers without probabilities.

    Images that cannot be opened give NaN and a note.
    """
    try:
        return _replies(model, protocol, items, label, progress)
    except ImageError:
        raise
    except UnbagError as error:
        replies = _replies(FreeTextModel(model), protocol, items, label, progress)
        note = f"answers in free text, without probabilities: {error.message}"
        return replace(replies, notes=(note, *replies.notes))


def _replies(
    model: Generator, protocol: Protocol, items: Sequence[Item], label: str, progress: Progress
) -> Replies:
    scoring = QueryScoring(protocol(model))
    cases: list[Case] = []
    # Log-probabilities of -inf for all answers, or NaN, are counted as invalid later.
    with np.errstate(invalid="ignore"), progress.task(label, _questions(items)) as advance:
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            cases += map(Case, chunk, scoring.chunk(chunk))
            advance(_questions(chunk))
    damaged = sorted(scoring.damaged.items())
    notes = [f"image {name} cannot be used: {why}" for name, why in damaged]
    replies = Replies(tuple(cases), model)
    if replies.is_free_text:
        unparsed = 0
        for item, scores in cases:
            if scores.values is None or any(image.name in scoring.damaged for image in item.images):
                continue
            # One answer per caption, or one per order in which the captions were shown.
            orders = np.array(scores.order_logprobs)
            unparsed += int(np.isnan(orders[:, 0] if len(orders) else scores.values).sum())
        if unparsed:
            notes.append(
                f"{unparsed:,} of {_questions(items):,} answers could not be read ({label})"
            )
    return replace(replies, notes=tuple(notes))


def _questions(items: Sequence[Item]) -> int:
    """Count the questions: one per caption, or one per order of the captions."""
    return sum(len(item.images) * len(item.captions) for item in items)


@dataclass(frozen=True, eq=False)
class Replies:
    """The answers of a chat model about items."""

    cases: tuple[Case, ...]
    model: Generator
    """The model, wrapped if it gave free answers or saw another image."""
    notes: tuple[str, ...] = ()

    @property
    def is_free_text(self) -> bool:
        """Whether the answers are free text, without probabilities."""
        inner = self.model.model if isinstance(self.model, FixedImageModel) else self.model
        return isinstance(inner, FreeTextModel)


@dataclass(frozen=True)
class FixedImageModel:
    """A chat model that sees the same image, or none, in every question."""

    model: Generator
    image: ImageSource | None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Identity of the model and of the image."""
        return f"{self.model.fingerprint}-{self.image.key if self.image else 'blind'}"

    @property
    def scores_ends(self) -> bool:
        """Whether the model scores the end of an answer."""
        return scores_ends(self.model)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Return the log-probabilities of the model for this wrapper's image."""
        return self.model.logprobs(self.image, prompt, continuations)

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Return log-probabilities for many questions."""
        return logprobs_of(self.model, [ask._replace(image=self.image) for ask in asks])

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """Return the answer of the model for this wrapper's image."""
        return self.model.answer(self.image, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Return the answers to many questions."""
        replaced = [ask._replace(image=self.image) for ask in asks]
        return answers_of(self.model, replaced, longest=longest)


@dataclass(frozen=True)
class FreeTextModel:
    """A chat model whose free answers stand for probabilities: its answer is likely, others not."""

    model: Generator

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Identity of the model and of this protocol."""
        return f"{self.model.fingerprint}-spoken"

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Return one number per continuation, NaN where the answer cannot be parsed."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Return the same for many questions."""
        answers = answers_of(self.model, asks, longest=MAX_TOKENS)
        return [_parse(answer, ask) for answer, ask in zip(answers, asks, strict=True)]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """Return the answer of the model."""
        return self.model.answer(image, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Return the answers of the model."""
        return answers_of(self.model, asks, longest=longest)


def _parse(answer: str, ask: Ask) -> list[list[float]]:
    is_closed = set(ask.continuations) <= set(CLOSED)
    # A question may ask for the probability of Yes only; No is an answer as well.
    words = CLOSED if is_closed else ask.continuations
    keywords = [(word,) for word in CLOSED] if is_closed else []
    choice = read_answer(answer, keywords, labels=() if is_closed else words)
    if choice is None:
        return [[float("nan")] for _ in ask.continuations]
    return [[ANSWERED if word == words[choice] else NOT_ANSWERED] for word in ask.continuations]
