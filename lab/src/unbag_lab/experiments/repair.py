"""The repair experiments: all arms of a base, trained on edited captions and measured.

The experiments are `default`, `ordered` and `held_out`. Each arm takes the steps of `unbag train`;
arms and training are in `repair_training`, tables in `pages.tables`. A stopped run resumes: arms in
training from their last checkpoint; an arm whose weights are in the folder is only measured, and
one whose result is there is left alone. The weights of all arms are written before the first is
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
from unbag_lab.scheduler import Share, each_apart
from unbag_lab.training import TrainedArm, ask, run_arms

SMALL = RepairSettings(steps=4, batch_size=16, times=1, size="small")
"""Shows that everything runs."""
SMALL_BENCH = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-pairs-b",
)
"""What the claims about repairs ask."""
_SMALL_EVERY = 23
"""A small run asks one item of so many: no divisor of the forms that stand beside each other."""
_OPEN = 12.0
_LOCKED = 6.0
_ASKED = 4.0
"""Seconds of one arm alone on one H200."""


@dataclass(frozen=True)
class RepairExperiment:
    """Arms of one kind of captions; see `unbag_lab.plan.Experiment`."""

    name: str
    trained: tuple[str, ...]
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 1
    """Arms of a base share their scenes, which each process makes again."""

    @property
    def about(self) -> str:
        """What its arms are trained on."""
        return EXPERIMENTS[self.name].about

    @property
    def arms(self) -> tuple[str, ...]:
        """The network before any training, the base, the blind reader, and what was trained."""
        return (UNTRAINED, BEFORE, BLIND, *self.trained)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Nothing: every arm begins with the base."""
        return ()

    def seconds(self, arm: str) -> float:
        """Of one arm alone; less for each where several processes share the device."""
        if arm not in self.trained:
            return _ASKED
        return _ASKED + (_LOCKED if arm.endswith(LOCKED) else _OPEN)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """The same for all that are trained."""
        settings = _settings(size)
        steps = settings.steps if arm in self.trained else 0
        return Extent(steps, settings.batch_size, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Train and ask what is missing."""
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
"""One process with all its arms would be the last to end."""
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
    """What is missing of every base; with several processes, bases and parts of their arms."""
    every = _SMALL_EVERY if settings.size == "small" else 1
    # Made before processes are forked, which share them.
    questions = FamilyQuestions(bench, times=settings.times, every=every)
    parts = parts_of(settings, -(-processes // len(bases))) if processes > 1 else [settings]
    shares = [
        Share(
            f"{base.stem}: {', '.join(part.arms)}",
            partial(repair, base, out, questions, part, say=say),
        )
        for part in parts
        for base in bases
    ]
    each_apart(shares, processes=processes, say=say)


def parts_of(settings: RepairSettings, count: int) -> list[RepairSettings]:
    """The arms shared out; the first part asks the base too."""
    chosen = [settings.arms[at::count] for at in range(min(count, len(settings.arms)))]
    return [replace(settings, arms=arms, asks_base=at == 0) for at, arms in enumerate(chosen)]


def repair(
    base: Path, out: Path, questions: Questions, settings: RepairSettings, *, say: Say = print
) -> None:
    """Train and ask all arms of one base that the folder does not have yet."""
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
    # The null of every pair number: images that are alike have vectors that are alike.
    null = Tiny(untrained(encoder.config, seed=unmeasured.seed), name=UNTRAINED)
    asked: dict[str, Callable[[], Mapping[str, Mapping[str, float]]]] = {}
    if settings.asks_base:
        for name, tiny in {BEFORE: encoder, UNTRAINED: null}.items():
            asked[name] = partial(ask, tiny, questions, device=settings.device)
    if BLIND in settings.arms:
        asked[BLIND] = partial(_read_blindly, unmeasured.seed, encoder, settings)
    for name, work in asked.items():
        wanted, path = replace(unmeasured, arm=name), folder / f"{name}.json"
        if find_same(wanted, path) is None:
            start = time.monotonic()
            numbers = work()
            seconds = time.monotonic() - start
            write_result(path, replace(wanted, numbers=numbers, seconds=seconds))

    def train(missing: Sequence[ArmResult]) -> dict[str, TrainedArm]:
        arms = train_arms(base, [one.arm for one in missing], settings, folder=folder, say=say)
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
"""How the ids of their items begin."""


class FamilyQuestions(Questions):
    """Every benchmark of the world, and both families of relations by themselves."""

    def measured(self, score: Score) -> dict[str, dict[str, float]]:
        """By benchmark or family, and metric."""
        found = super().measured(score)
        for asked in self._asked:
            if asked.benchmark.name == _WHOLE:
                for name, begins in _FAMILIES.items():
                    at = [n for n, item in enumerate(asked.items) if item.id.startswith(begins)]
                    family = replace(
                        asked,
                        items=[asked.items[n] for n in at],
                        images=[asked.images[n] for n in at],
                        captions=[asked.captions[n] for n in at],
                    )
                    found[name] = metrics_of(family, score)
        return found


THRESHOLD = "threshold-"
"""Begins the name under which the curve of a kind of negatives is kept."""
SHARES = (1, 2, 5, 10, 20, 40, 60, 80, 100)
"""Of the steps, in percent, after which a threshold is kept."""
HALF = 0.5
"""Of the largest threshold of the paper: where a threshold counts as risen."""


def curve_numbers(arm: RepairArm) -> dict[str, dict[str, float]]:
    """By kind of negatives: the threshold after shares of the steps, and how early it rose.

    In units of the paper's bound, so that 1 is the largest that it allows.
    """
    if arm.threshold_K is None:
        return {}
    curve_SK = arm.curve_SK.cpu() / UPPER
    found = {}
    for at, slot in enumerate(arm.recipe.negatives):
        curve = curve_SK[:, at].tolist()
        risen = next((step for step, value in enumerate(curve) if value >= HALF), len(curve))
        found[f"{THRESHOLD}{slot.name}"] = {
            **{f"{share}%": curve[ceil(share * len(curve) / 100) - 1] for share in SHARES},
            "mean": sum(curve) / len(curve),
            "largest": max(curve),
            "waited": risen / len(curve),
        }
    return found


BLIND = "blind"
"""The name under which the reader stands beside the arms."""
LEAK = "leak"
"""Under which its numbers stand."""
TURNED = "turned"
"""A relation whose two things change places: the edit that a fixed naming order gives away."""
POSITIVE = "positive"
"""How often it finds a caption better than its positive, which is as true."""
STEPS = 6
"""Of training, whose captions the reader is told of, and as many that follow, to ask it."""


def _read_blindly(
    seed: int, encoder: Tiny, settings: RepairSettings
) -> dict[str, dict[str, float]]:
    """How far the captions of a base's own scenes give their edits away."""
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
    """Share of captions found better than their edit, by slot; what no caption has is left out."""
    told = [one for step in range(steps) for one in batches.scenes_and_texts(step)[1]]
    asked = [one for step in range(steps, 2 * steps) for one in batches.scenes_and_texts(step)[1]]
    rows = list(_negatives(told))
    weight_V = fit_reader(differences(_places, rows), [row.image for row in rows])
    negatives = list(_negatives(asked))
    groups = {
        slot.name: [one for one in negatives if one.kind == slot.name] for slot in WORLD_NEGATIVES
    }
    turned, positives = [], []
    for number, one in enumerate(asked):
        text = one.caption.text
        for negative in one.negatives:
            if negative is not None and _is_turned(one.caption.ast, negative.ast):
                turned.append(Contrast(number, text, negative.text, TURNED))
        for positive in one.positives:
            if positive is not None:
                positives.append(Contrast(number, text, positive.text, POSITIVE))
    groups |= {"all": negatives, TURNED: turned, POSITIVE: positives}
    return {name: _share(some, weight_V) for name, some in groups.items() if some}


def _negatives(told: Sequence[SceneTexts]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for slot, negative in zip(WORLD_NEGATIVES, one.negatives, strict=True):
            if negative is not None:
                yield Contrast(number, one.caption.text, negative.text, slot.name)


def _is_turned(said: Ast, changed: Ast) -> bool:
    match said, changed:
        case Rel(first, relation, second), Rel(other_first, other_relation, other_second):
            things = (first, second) == (other_second, other_first)
            return things and first != second and relation == other_relation
    return False


def _share(rows: Sequence[Contrast], weight_V: Tensor) -> float:
    """Ties count half."""
    ahead_N = differences(_places, rows) @ weight_V
    return float(((ahead_N > 0).double() + (ahead_N == 0).double() / 2).mean())


def _places(texts: Sequence[str]) -> Tensor:
    """[N, 2V]: how often each word stands there, and how far from the middle, -1 to 1."""
    row = {word: at for at, word in enumerate(words())}
    found = np.zeros((len(texts), 2 * len(row)))
    for n, text in enumerate(texts):
        said = text.split()
        for place, word in enumerate(said):
            found[n, row[word]] += 1
            found[n, len(row) + row[word]] += 2 * place / max(len(said) - 1, 1) - 1
    return torch.from_numpy(found)
