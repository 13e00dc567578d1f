"""The experiment `probes`: probes existing models; only linear readers are trained.

An arm is a base, the same network randomly initialized, a repair with weights of the experiment
`default` in the same folder, or weights interpolated between the base and such a repair. These arms
have the numbers of `probes_measuring`. All arms of a base get the same questions, with a seed from
the name of the base.

The arms `blind` and `blind-ordered` are a reader that never sees an image: they measure how well
text alone separates true captions from their edits. The reader is a logistic regression over
phrases of one to three words, with marks for start and end, trained on which of two captions is the
true one. "caption-only"
is its accuracy on each benchmark, image by image, trained on the edits that repairs are trained on;
"caption-only own" is trained on the other half of that benchmark's items; "caption-only edits" is
its accuracy on edits of other scenes, by kind. Galleries of images cannot be read, so retrieval is
left out; strict pairs and groups are 0 for whatever does not look.

Dimensions: N pairs of captions, F runs of words, M cells of all items.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from unbag.errors import UnbagError, unknown_name
from unbag.models.tiny import Tiny, TinyNetwork, read, untrained
from unbag.probes.classifiers import Effort
from unbag.readouts.data import world_rows
from unbag.training.recipes import Slot
from unbag.types import FloatArray, IntArray, Item, Sparse
from unbag_lab.claims import ArmKey
from unbag_lab.experiments.probes_measuring import (
    Amount,
    Numbers,
    ProbeQuestions,
    TinySpace,
    ask,
    make_probe_questions,
)
from unbag_lab.experiments.repair_training import PUBLISHED_REPAIRS
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, UNTRAINED, ArmResult, Extent, Size, result_path, write_result
from unbag_lab.scheduler import run_shares, shares

REPAIRS_OF = "default"
"""The experiment whose repairs are probed."""
REPAIRED = tuple(PUBLISHED_REPAIRS)
MIXED = "hard_negative"
"""The repair for interpolated weights."""
_MIX = "mix-"
WEIGHTS = (0.25, 0.5, 0.75)
MIXES = tuple(f"{_MIX}{weight:g}" for weight in WEIGHTS)
BLIND = {"blind": "default", "blind-ordered": "ordered"}
"""Blind readers, with the preset of the captions they are trained on."""
MODELS: tuple[str, ...] = (BEFORE, UNTRAINED, *REPAIRED, *MIXES)
ARMS: tuple[str, ...] = (*MODELS, *BLIND)


class Probes:
    """Existing models, probed; see `unbag_lab.plan.Experiment`."""

    name = "probes"
    about = "existing models, probed for where images and captions lie and what can be read"
    arms = ARMS
    reads_bases = True
    on_processor = True
    most_processes = 4

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Return the repair whose weights an arm reads."""
        if arm not in ARMS:
            raise unknown_name("arm", arm, ARMS)
        if arm in MIXES:
            return ((REPAIRS_OF, MIXED),)
        return ((REPAIRS_OF, arm),) if arm in REPAIRED else ()

    def seconds(self, arm: str) -> float:
        """Estimate the seconds; readers are fitted on the CPU, whatever the device."""
        self.needs(arm)
        return 30.0 if arm in BLIND else 45.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent; nothing is trained."""
        self.needs(arm)
        return Extent(steps=0, batch_size=0, times=AMOUNTS[size].times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run base by base, the arms of a base in parallel."""
        amount = AMOUNTS[order.size]
        missing = {path: arms_left(order, self, path, seed=seed_of(path)) for path in order.bases}
        if not any(missing.values()):
            return
        questions = Questions(amount.benchmarks, times=amount.times, every=amount.every)
        for path, arms in missing.items():
            base = _ProbedBase(path, questions, amount, order)
            count = max(1, min(order.processes, len(arms)))
            groups = [arms[at::count] for at in range(count)]
            work = shares(partial(_run_arms, base, count, say), groups)
            run_shares(work, processes=count, say=say)


PROBES = Probes()


def seed_of(base: Path) -> int:
    """Return the seed of a base, from its name."""
    return crc32(f"{Probes.name}/{base.stem}".encode()) & 0x7FFF_FFFF


def load_arm(arm: str, base: Path, out: Path, *, seed: int, device: str) -> Tiny:
    """Load the model of an arm; `seed` initializes the random network."""
    first = read(base, name=base.stem, device=device)
    if arm == BEFORE:
        return first
    if arm == UNTRAINED:
        return Tiny(untrained(first.config, seed=seed), name=arm, device=device)
    ((experiment, repair),) = PROBES.needs(arm)
    path = result_path(out, experiment, base.stem, repair).with_suffix(".safetensors")
    if not path.exists():
        raise UnbagError(
            f"the weights of {repair} are missing: {path}",
            expected=f"the weights of the experiment {experiment!r}",
            hint=f"run its arm {repair} on {base.stem} into the same folder first",
        )
    tuned = read(path, name=arm, device=device)
    return tuned if arm in REPAIRED else _mixed(first, tuned, arm)


def _mixed(first: Tiny, tuned: Tiny, arm: str) -> Tiny:
    # Imported late: it imports all kinds of models, and PIL with them.
    from unbag.training.merge import interpolate

    weight = float(arm.removeprefix(_MIX))
    network = TinyNetwork(first.config)
    state = interpolate(first.network.state_dict(), tuned.network.state_dict(), weight)
    network.load_state_dict(state)
    return Tiny(network, name=arm, device=first.device)


AMOUNTS: Mapping[Size, Amount] = MappingProxyType(
    {
        "full": Amount(
            times=2,
            gallery=400,
            draws=3,
            rings=12,
            sets=512,
            edited=6_144,
            quads=200,
            effort=Effort(folds=4, inverse_strengths=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
            penalties=(1e-5, 1e-4, 1e-3, 1e-2),
        ),
        "small": Amount(
            times=1,
            gallery=24,
            draws=1,
            rings=2,
            sets=16,
            edited=384,
            quads=4,
            effort=Effort(inverse_strengths=(1e-3,)),
            penalties=(1e-3,),
            benchmarks=("world-relation", "world-pairs-a", "world-retrieval"),
            every=8,
        ),
    }
)


class _ProbedBase:
    """The data that arms of a base share."""

    def __init__(self, path: Path, questions: Questions, amount: Amount, order: Order) -> None:
        self.path, self.questions, self.amount, self.order = path, questions, amount, order
        self.seed = seed_of(path)

    @cached_property
    def asked(self) -> ProbeQuestions:
        """The questions for every model."""
        return make_probe_questions(self.questions, self.amount, seed=self.seed)

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the base itself."""
        return read(self.path, name=self.path.stem).fingerprint


def _run_arms(base: _ProbedBase, processes: int, say: Say, arms: Sequence[str]) -> None:
    """Run arms in order; each result is written at once."""
    if processes > 1:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
    for arm in arms:
        started = time.monotonic()
        numbers = _numbers(base, arm)
        seconds = time.monotonic() - started
        result = ArmResult(
            experiment=Probes.name,
            base=base.path.stem,
            fingerprint=base.fingerprint,
            arm=arm,
            steps=0,
            batch_size=0,
            seed=base.seed,
            times=base.amount.times,
            precision="float32",
            loss=None,
            numbers=numbers,
            size=base.order.size,
            seconds=seconds,
        )
        path = result_path(base.order.out, Probes.name, base.path.stem, arm)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_result(path, result)
        say(f"{base.path.stem}: {arm} measured in {seconds:.0f} s")


def _numbers(base: _ProbedBase, arm: str) -> Numbers:
    if arm in BLIND:
        return blind_numbers(BLIND[arm], base.amount, seed=base.seed)
    device = base.order.device
    encoder = load_arm(arm, base.path, base.order.out, seed=base.seed, device=device)
    return ask(TinySpace(encoder), base.asked)


KINDS = (
    "swap_arguments",
    "swap_attributes",
    "replace_relation",
    "replace_colour",
    "replace_shape",
)
"""Kinds of edits that a blind reader is trained on."""
_OF_ONE_IMAGE = ("original", "accuracy", "individual")
"""Metrics of single images; a benchmark has one of them."""
LONGEST = 3
_READ = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-order",
    "world-pairs-a",
    "world-pairs-b",
    "world-binding",
    "world-count",
    "world-texture",
    "world-negation",
)


def blind_numbers(preset: str, amount: Amount, *, seed: int) -> dict[str, dict[str, float]]:
    """Return the accuracy of a blind reader that is trained on captions of a preset."""
    rows = [
        row
        for world_batch in world_rows(
            amount.edited, seed=seed, slots=[Slot(kind, (kind,)) for kind in KINDS], preset=preset
        )
        for row in zip(world_batch.captions, world_batch.negatives, strict=True)
    ]
    # By kind of edit: two thirds of all captions for training, the others for testing.
    train: dict[str, list[CaptionContrast]] = {kind: [] for kind in KINDS}
    test: dict[str, list[CaptionContrast]] = {kind: [] for kind in KINDS}
    for at, (caption, negatives) in enumerate(rows):
        part = test if at >= 2 * amount.edited // 3 else train
        for kind, negative in zip(KINDS, negatives, strict=True):
            if negative is not None:
                part[kind].append(CaptionContrast(caption, negative))
    reader = taught(
        [contrast for contrasts in train.values() for contrast in contrasts], amount.penalties
    )
    right = {
        kind: [reader.score(contrast.true) > reader.score(contrast.false) for contrast in contrasts]
        for kind, contrasts in test.items()
        if contrasts
    }
    numbers: dict[str, dict[str, float]] = {
        "caption-only": {},
        "caption-only own": {},
        "caption-only edits": {
            kind: float(np.mean(is_right_N)) for kind, is_right_N in right.items()
        },
    }
    all_right = [is_right for is_right_N in right.values() for is_right in is_right_N]
    numbers["caption-only edits"]["all"] = float(np.mean(all_right))
    for name in _READ:
        questions = Questions([name], times=amount.times)
        numbers["caption-only"][name] = _asked(questions, name, lambda item: reader)
        numbers["caption-only own"][name] = _asked_own(questions, name, amount.penalties)
    return numbers


def _asked(questions: Questions, name: str, reader_of: Callable[[Item], PhraseReader]) -> float:
    """Return the metric of single images, with a reader for each item."""

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        parts = [
            np.tile([reader_of(item).score(str(c)) for c in item.captions], len(item.images))
            for item in items
        ]
        return np.concatenate(parts)

    metrics = questions.measured(score)[name]
    return next(metrics[metric] for metric in _OF_ONE_IMAGE if metric in metrics)


def _asked_own(questions: Questions, name: str, penalties: Sequence[float]) -> float:
    """Measure each half of the items with a reader trained on the other half."""
    readers: list[PhraseReader] = []

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        for half in (1, 0):
            half_items = [item for item in items if _half(item) == half]
            contrasts = [contrast for item in half_items for contrast in _contrasts(item)]
            readers.append(taught(contrasts, penalties))
        return np.zeros(len(image_M))

    # Items are only passed to score functions: the first pass trains, the second measures.
    questions.measured(score)
    return _asked(questions, name, lambda item: readers[_half(item)])


def _half(item: Item) -> int:
    return blake2b((item.group or item.id).encode(), digest_size=1).digest()[0] % 2


def _contrasts(item: Item) -> Iterator[CaptionContrast]:
    """Yield every pair of a true and a false caption of an image."""
    assert not isinstance(item.truth, Sparse)
    for true_C in item.truth:
        for true in np.flatnonzero(true_C):
            for false in np.flatnonzero(~true_C):
                yield CaptionContrast(str(item.captions[true]), str(item.captions[false]))


class CaptionContrast(NamedTuple):
    """Two captions of one image."""

    true: str
    false: str


@dataclass(frozen=True, eq=False)
class PhraseReader:
    """Scores captions by their phrases."""

    weight: dict[str, float]
    _known: dict[str, float] = field(default_factory=dict, repr=False)

    def score(self, caption: str) -> float:
        """Return the sum of weights; a hash of the caption breaks ties."""
        if caption not in self._known:
            coin = int.from_bytes(blake2b(caption.encode(), digest_size=4).digest(), "big") / 2**32
            total = sum(self.weight.get(run, 0.0) for run in runs(caption))
            self._known[caption] = total + 1e-9 * coin
        return self._known[caption]


def runs(caption: str) -> Iterator[str]:
    """Yield the phrases of one to three words, with marks for start and end."""
    words = ["^", *caption.split(), "$"]
    for length in range(1, LONGEST + 1):
        for at in range(len(words) - length + 1):
            yield " ".join(words[at : at + length])


def taught(contrasts: Sequence[CaptionContrast], penalties: Sequence[float]) -> PhraseReader:
    """Fit a reader by logistic loss, with the penalty that is best on every fifth contrast."""
    from scipy.sparse import csr_matrix

    place: dict[str, int] = {}
    cells = [
        (row, place.setdefault(run, len(place)), sign)
        for row, pair in enumerate(contrasts)
        for caption, sign in ((pair.true, 1.0), (pair.false, -1.0))
        for run in runs(caption)
    ]
    row_C, column_C, sign_C = (np.array(column) for column in zip(*cells, strict=True))
    # Phrases that both captions have sum to 0.
    apart_NF = csr_matrix((sign_C, (row_C, column_C)), shape=(len(contrasts), len(place)))
    penalty = penalties[0]
    if len(penalties) > 1:
        is_held_N = np.arange(len(contrasts)) % 5 == 0
        rest_NF, held_NF = apart_NF[~is_held_N], apart_NF[is_held_N]
        right = [
            float(((held_NF @ _fit_phrases(rest_NF, candidate)) > 0).mean())
            for candidate in penalties
        ]
        penalty = penalties[int(np.argmax(right))]
    weight_F = _fit_phrases(apart_NF, penalty)
    return PhraseReader(dict(zip(place, weight_F.tolist(), strict=True)))


def _fit_phrases(apart_NF: Any, penalty: float) -> FloatArray:
    from scipy.optimize import minimize

    def loss(weight_F: FloatArray) -> tuple[float, FloatArray]:
        ahead_N = apart_NF @ weight_F
        missed_N = 1 / (1 + np.exp(np.clip(ahead_N, -500, 500)))
        value = float(np.logaddexp(0, -ahead_N).mean() + penalty / 2 * weight_F @ weight_F)
        return value, penalty * weight_F - (apart_NF.T @ missed_N) / len(missed_N)

    first_F = np.zeros(apart_NF.shape[1])
    result = minimize(loss, first_F, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    weight_F: FloatArray = result.x
    return weight_F
