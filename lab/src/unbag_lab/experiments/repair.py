"""The repair experiments: trains all arms of a base on edited captions and measures them.

The experiments are `default`, `ordered` and `held_out`. Each arm takes the steps of `unbag train`;
arms and training are in `repair_training`, tables in `pages.tables`. An interrupted run resumes:
arms in training from their last checkpoint; an arm whose weights are in the folder is only
measured, and one with a result is skipped. The weights of all arms are written before the first is
measured.

Dimensions: S steps, K kinds of negatives, N pairs of texts, V words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.models.tiny import Tiny, read, untrained
from unbag.readouts.data import WORLD_NEGATIVES
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.data.world import SceneTexts, WorldBatches
from unbag.training.encoders.adapters import TinyTrainable
from unbag.training.losses import UPPER
from unbag.world.grammar import Ast, Rel, words
from unbag_lab.claims import ArmKey
from unbag_lab.experiments.repair_training import (
    ARMS,
    EXPERIMENTS,
    LOCKED,
    VARIANTS,
    RepairArm,
    RepairSettings,
    checkpoint_of,
    make_recipe,
    seed_of,
    train_arms,
)
from unbag_lab.plan import Order, Say
from unbag_lab.questions import Questions, Score, metrics_of
from unbag_lab.results import (
    BEFORE,
    UNTRAINED,
    ArmResult,
    Extent,
    Size,
    find_same,
    write_result,
)
from unbag_lab.scheduler import Share, run_shares
from unbag_lab.training import TrainedArm, ask, run_arms

SMALL = RepairSettings(steps=4, batch_size=16, times=1, size="small")
"""For trial runs."""
SMALL_BENCH = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-pairs-b",
)
"""Benchmarks of the claims about repairs."""
_SMALL_EVERY = 23
"""A small run measures each n-th item; n does not divide the number of forms of a scene."""
_OPEN = 12.0
_LOCKED = 6.0
_ASKED = 4.0
"""Seconds of one arm alone on one H200."""


@dataclass(frozen=True)
class RepairExperiment:
    """Arms trained on one kind of captions; see `unbag_lab.plan.Experiment`."""

    name: str
    trained: tuple[str, ...]
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 1
    """Arms of a base share their scenes, which every process renders again."""

    @property
    def about(self) -> str:
        """What its arms are trained on."""
        return EXPERIMENTS[self.name].about

    @property
    def arms(self) -> tuple[str, ...]:
        """The random network, the base, the blind reader, and the trained arms."""
        return (UNTRAINED, BEFORE, BLIND, *self.trained)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Return nothing: every arm starts from the base."""
        return ()

    def seconds(self, arm: str) -> float:
        """Estimate the seconds of one arm alone."""
        if arm not in self.trained:
            return _ASKED
        return _ASKED + (_LOCKED if arm.endswith(LOCKED) else _OPEN)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent, the same for all trained arms."""
        settings = _settings(size)
        steps = settings.steps if arm in self.trained else 0
        return Extent(steps, settings.batch_size, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Train and measure what is missing."""
        settings = replace(
            _settings(order.size),
            experiment=self.name,
            arms=order.arms,
            device=order.device,
            workers=order.workers,
        )
        bench = SMALL_BENCH if order.size == "small" else None
        repair_bases(
            order.bases, order.out, settings, bench=bench, processes=order.processes, say=say
        )


def _settings(size: Size) -> RepairSettings:
    return SMALL if size == "small" else RepairSettings()


DEFAULT = RepairExperiment(
    "default", (*ARMS, *(arm for arm in VARIANTS if arm != "rephrased")), most_processes=2
)
"""Two processes, since one with all arms would be the last to end."""
ORDERED = RepairExperiment(
    "ordered", ("clip_ft", "hard_negative", "hard_positive", "positives_only", "rephrased")
)
HELD_OUT = RepairExperiment("held_out", ("hard_positive",))


def repair_bases(
    bases: Sequence[Path],
    out: Path,
    settings: RepairSettings,
    *,
    bench: Sequence[str] | None = None,
    processes: int = 1,
    say: Say = print,
) -> None:
    """Run what is missing; with several processes, bases and parts of their arms in parallel."""
    step = _SMALL_EVERY if settings.size == "small" else 1
    # Made before processes are forked, so that they share the items.
    questions = FamilyQuestions(bench, times=settings.times, every=step)
    parts = parts_of(settings, -(-processes // len(bases))) if processes > 1 else [settings]
    shares = [
        Share(
            f"{base.stem}: {', '.join(part.arms)}",
            partial(repair, base, out, questions, part, say=say),
        )
        for part in parts
        for base in bases
    ]
    run_shares(shares, processes=processes, say=say)


def parts_of(settings: RepairSettings, count: int) -> list[RepairSettings]:
    """Split the arms into parts; the first part also measures the base."""
    chosen = [settings.arms[at::count] for at in range(min(count, len(settings.arms)))]
    return [replace(settings, arms=arms, asks_base=at == 0) for at, arms in enumerate(chosen)]


def repair(
    base: Path, out: Path, questions: Questions, settings: RepairSettings, *, say: Say = print
) -> None:
    """Train and measure all arms of one base without a result in the folder."""
    encoder = read(base, name=base.stem)
    unmeasured = ArmResult(
        experiment=settings.experiment,
        base=base.stem,
        fingerprint=encoder.fingerprint,
        arm=BEFORE,
        steps=0,
        batch_size=settings.batch_size,
        seed=seed_of(base, settings),
        times=settings.times,
        precision=settings.precision,
        loss=None,
        numbers={},
        size=settings.size,
    )
    folder = out / settings.experiment / base.stem
    folder.mkdir(parents=True, exist_ok=True)
    # The random network is the baseline of pair metrics: similar images have similar vectors.
    null = Tiny(untrained(encoder.config, seed=unmeasured.seed), name=UNTRAINED)
    measurements: dict[str, Callable[[], Mapping[str, Mapping[str, float]]]] = {}
    if settings.asks_base:
        for name, tiny in {BEFORE: encoder, UNTRAINED: null}.items():
            measurements[name] = partial(ask, tiny, questions, device=settings.device)
    if BLIND in settings.arms:
        measurements[BLIND] = partial(_blind_numbers, unmeasured.seed, encoder, settings)
    for name, work in measurements.items():
        unmeasured_arm, path = replace(unmeasured, arm=name), folder / f"{name}.json"
        if find_same(unmeasured_arm, path) is None:
            start = time.monotonic()
            numbers = work()
            seconds = time.monotonic() - start
            write_result(path, replace(unmeasured_arm, numbers=numbers, seconds=seconds))

    def train(missing: Sequence[ArmResult]) -> dict[str, TrainedArm]:
        arms = train_arms(
            base, [result.arm for result in missing], settings, folder=folder, say=say
        )
        return {
            name: TrainedArm(arm.trainable.module, arm.last_loss, arm.seconds, curve_numbers(arm))
            for name, arm in arms.items()
        }

    trained = [arm for arm in settings.arms if arm not in (BEFORE, UNTRAINED, BLIND)]
    missing = [replace(unmeasured, arm=arm, steps=settings.steps) for arm in trained]
    run_arms(missing, folder, train, lambda: questions, device=settings.device, say=say)
    for arm in trained:
        checkpoint_of(folder, arm).unlink(missing_ok=True)


EXCHANGED = "world-relation/exchanged"
REPLACED = "world-relation/replaced"
_WHOLE = "world-relation"
_FAMILIES: Mapping[str, str] = MappingProxyType(
    {EXCHANGED: "relation/", REPLACED: "replace_relation/"}
)
"""Prefixes of the ids of their items."""


class FamilyQuestions(Questions):
    """The benchmarks of the world, and both families of relations by themselves."""

    def measured(self, score: Score) -> dict[str, dict[str, float]]:
        """Return metrics by benchmark or family."""
        numbers = super().measured(score)
        for bench in self._asked:
            if bench.benchmark.name == _WHOLE:
                for name, begins in _FAMILIES.items():
                    at = [n for n, item in enumerate(bench.items) if item.id.startswith(begins)]
                    family = replace(
                        bench,
                        items=[bench.items[n] for n in at],
                        images=[bench.images[n] for n in at],
                        captions=[bench.captions[n] for n in at],
                    )
                    numbers[name] = metrics_of(family, score)
        return numbers


THRESHOLD = "threshold-"
"""Prefix of the name of the curve of a kind of negatives."""
SHARES = (1, 2, 5, 10, 20, 40, 60, 80, 100)
"""Percentages of the steps after which a threshold is recorded."""
HALF = 0.5
"""Fraction of the paper's upper bound at which a threshold counts as risen."""


def curve_numbers(arm: RepairArm) -> dict[str, dict[str, float]]:
    """Return, by kind of negatives, the threshold over the steps, and when it rose.

    In units of the paper's bound, so that 1 is the largest that it allows.
    """
    if arm.threshold_K is None:
        return {}
    curve_SK = arm.curve_SK.cpu() / UPPER
    numbers = {}
    for at, slot in enumerate(arm.recipe.negatives):
        curve = curve_SK[:, at].tolist()
        risen = next((step for step, value in enumerate(curve) if value >= HALF), len(curve))
        numbers[f"{THRESHOLD}{slot.name}"] = {
            **{f"{share}%": curve[ceil(share * len(curve) / 100) - 1] for share in SHARES},
            "mean": sum(curve) / len(curve),
            "largest": max(curve),
            "waited": risen / len(curve),
        }
    return numbers


BLIND = "blind"
"""Name of the arm that is the blind reader."""
LEAK = "leak"
"""Name of its numbers in results."""
TURNED = "turned"
"""A relation with its two things exchanged: the edit that a fixed naming order gives away."""
POSITIVE = "positive"
"""How often it prefers a caption to its positive, although both are true."""
STEPS = 6
"""Steps whose captions train the blind reader; as many following steps test it."""


def _blind_numbers(
    seed: int, encoder: Tiny, settings: RepairSettings
) -> dict[str, dict[str, float]]:
    """Return the accuracy of a blind reader on edits of captions of a base's scenes."""
    experiment = EXPERIMENTS[settings.experiment]
    batches = WorldBatches(
        recipe=make_recipe(ARMS[0], experiment, batch_size=settings.batch_size),
        reads=TinyTrainable(encoder, device="cpu").reads,
        seed=seed,
        preset=experiment.preset,
        per_epoch=max(settings.steps, 2 * STEPS),
    )
    return {LEAK: leak_of(batches)}


def leak_of(batches: WorldBatches, *, steps: int = STEPS) -> dict[str, float]:
    """Return the share of captions preferred to their edit, by slot, without empty slots."""
    rows_by_step = [batches.scenes_and_texts(step)[1] for step in range(2 * steps)]
    train_rows, test_rows = (
        [row for step_rows in part for row in step_rows]
        for part in (rows_by_step[:steps], rows_by_step[steps:])
    )
    rows = list(_negatives(train_rows))
    weight_V = fit_reader(differences(_places, rows), [row.image for row in rows])
    negatives = list(_negatives(test_rows))
    groups = {
        slot.name: [contrast for contrast in negatives if contrast.kind == slot.name]
        for slot in WORLD_NEGATIVES
    }
    turned, positives = [], []
    for number, row in enumerate(test_rows):
        text = row.caption.text
        for negative in row.negatives:
            if negative is not None and _is_turned(row.caption.ast, negative.ast):
                turned.append(Contrast(number, text, negative.text, TURNED))
        for positive in row.positives:
            if positive is not None:
                positives.append(Contrast(number, text, positive.text, POSITIVE))
    groups |= {"all": negatives, TURNED: turned, POSITIVE: positives}
    return {name: _share(contrasts, weight_V) for name, contrasts in groups.items() if contrasts}


def _negatives(rows: Sequence[SceneTexts]) -> Iterator[Contrast]:
    for number, row in enumerate(rows):
        for slot, negative in zip(WORLD_NEGATIVES, row.negatives, strict=True):
            if negative is not None:
                yield Contrast(number, row.caption.text, negative.text, slot.name)


def _is_turned(statement: Ast, changed: Ast) -> bool:
    match statement, changed:
        case Rel(first, relation, second), Rel(other_first, other_relation, other_second):
            things = (first, second) == (other_second, other_first)
            return things and first != second and relation == other_relation
    return False


def _share(rows: Sequence[Contrast], weight_V: Tensor) -> float:
    """Return the share of captions preferred to their edit; ties count half."""
    ahead_N = differences(_places, rows) @ weight_V
    return float(((ahead_N > 0).double() + (ahead_N == 0).double() / 2).mean())


def _places(texts: Sequence[str]) -> Tensor:
    """Return features [N, 2V]: the count of each word, and its position from -1 to 1."""
    row = {word: at for at, word in enumerate(words())}
    count_NV = np.zeros((len(texts), 2 * len(row)))
    for n, text in enumerate(texts):
        text_words = text.split()
        for place, word in enumerate(text_words):
            count_NV[n, row[word]] += 1
            count_NV[n, len(row) + row[word]] += 2 * place / max(len(text_words) - 1, 1) - 1
    return torch.from_numpy(count_NV)
