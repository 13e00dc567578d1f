"""Repair of tiny models on the world: bases come in; all arms, trained and asked, go out.

    python -m unbag_lab repair --bases tiny-0.safetensors tiny-1.safetensors --out runs/repair

Each arm takes the steps of `unbag train`. The same command goes on after a stop: arms in training
from their last checkpoint; an arm whose weights are in the folder is only asked, and one whose
result is there is left alone. The weights of all arms are written before the first is asked.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isfinite, nan
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.models.loading import choose_device
from unbag.models.tiny import Tiny, read, untrained, write
from unbag.readouts.data import POOL_WORLD_NEGATIVES as NEGATIVES
from unbag.runs.files import write_atomically
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.data.world import Told, WorldBatches
from unbag.training.losses import UPPER
from unbag.training.towers.adapters import TinyTrainable
from unbag.world.grammar import Ast, Rel, words
from unbag_lab.claim import ArmKey
from unbag_lab.experiments.repair_training import (
    ARMS,
    CONTROL,
    EXPERIMENTS,
    LOCKED,
    VARIANTS,
    RepairArm,
    Say,
    RepairSettings,
    checkpoint_of,
    curve_of,
    make_recipe,
    seed_of,
    train_arms,
)
from unbag_lab.plan import Order
from unbag_lab.plan import Say as ExperimentSay
from unbag_lab.questions import PAIR_COSINE, Questions, Score, BenchmarkItems, metrics_of
from unbag_lab.results import (
    BEFORE,
    UNTRAINED,
    ArmResult,
    Extent,
    Size,
    find_same,
    in_order,
    numbers,
    read_results,
    write_result,
    write_results,
)
from unbag_lab.scheduler import Share, apart, each_apart, one_thread
from unbag_lab.verdict import interval

# NOTE lab.repair_curve
# An arm with thresholds comes in; what their curves say goes out, as numbers of its result.
#
# Dimensions: S steps, K kinds of negatives.

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
    kinds = [slot.name for slot in arm.recipe.negatives]
    return {
        f"{THRESHOLD}{kind}": _of_one(curve_SK[:, at].tolist()) for at, kind in enumerate(kinds)
    }


def _of_one(curve: list[float]) -> dict[str, float]:
    after = {f"{share}%": curve[ceil(share * len(curve) / 100) - 1] for share in SHARES}
    risen = next((step for step, value in enumerate(curve) if value >= HALF), len(curve))
    return {
        **after,
        "mean": sum(curve) / len(curve),
        "largest": max(curve),
        "waited": risen / len(curve),
    }


# NOTE lab.repair_leak
# Training captions and their edits come in; how far they can be told without a picture goes out.
#
# A linear reader of which words a caption has and where they stand, told that captions are better
# than their negatives, on captions that it was not told of. 0.5 where there is nothing to read.
#
# Dimensions: N pairs of texts, V words.

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


def leak_of(batches: WorldBatches, *, steps: int = STEPS) -> dict[str, float]:
    """Share of captions found better than their edit, by slot; what no caption has is left out."""
    told = [one for step in range(steps) for one in batches.told(step)[1]]
    asked = [one for step in range(steps, 2 * steps) for one in batches.told(step)[1]]
    rows = list(_negatives(told))
    weight_V = fit_reader(differences(_places, rows), [row.picture for row in rows])
    negatives = list(_negatives(asked))
    groups = {slot.name: [one for one in negatives if one.kind == slot.name] for slot in NEGATIVES}
    groups |= {"all": negatives, TURNED: list(_turned(asked)), POSITIVE: list(_positives(asked))}
    return {name: _share(some, weight_V) for name, some in groups.items() if some}


def _negatives(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for slot, negative in zip(NEGATIVES, one.negatives, strict=True):
            if negative is not None:
                yield Contrast(number, one.caption.text, negative.text, slot.name)


def _turned(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for negative in one.negatives:
            if negative is not None and _is_turned(one.caption.ast, negative.ast):
                yield Contrast(number, one.caption.text, negative.text, TURNED)


def _is_turned(said: Ast, changed: Ast) -> bool:
    match said, changed:
        case Rel(first, relation, second), Rel(other_first, other_relation, other_second):
            things = (first, second) == (other_second, other_first)
            return things and first != second and relation == other_relation
    return False


def _positives(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for positive in one.positives:
            if positive is not None:
                yield Contrast(number, one.caption.text, positive.text, POSITIVE)


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


# NOTE lab.repair_table
# Results of arms come in; the tables of the docs go out: means, differences, every base.
#
#     python -m unbag_lab repair-table runs/repair --out arms.json
#
# Verdicts are about the built-in world and no more. An interval is over bases (Student's t), which
# are few; items are the same for all. An arm that has only begun is named and stands in no table.


_TRAINED = (*ARMS, *VARIANTS)
_TRIPLE = ("original", "augmented", "brittleness")
_MEANS = ("mean_original", "mean_negative", "mean_positive")
FEWEST = 3
"""Bases that an arm of a table has, unless no trained arm has as many.

With two, an interval is thirteen times as wide as its standard error and says nothing.
"""


@dataclass(frozen=True)
class TableColumn:
    """Some numbers of one benchmark, shown together."""

    title: str
    benchmark: str
    metrics: tuple[str, ...]
    is_percent: bool = True

    def values(self, result: ArmResult) -> list[float]:
        """Of one arm on one base; NaN where it was not asked."""
        found = result.numbers.get(self.benchmark, {})
        return [found.get(metric, nan) for metric in self.metrics]

    def shown(self, value: float, *, signed: bool = False) -> str:
        """Percent with one digit, cosines with three."""
        if not isfinite(value):
            return "–"
        sign = "+" if signed else ""
        return f"{100 * value:{sign}.1f}" if self.is_percent else f"{value:{sign}.3f}"


COLUMNS: tuple[TableColumn, ...] = (
    TableColumn("swap orig / aug / brittle", "world-swap", _TRIPLE),
    TableColumn("replace orig / aug / brittle", "world-replace", _TRIPLE),
    TableColumn("relation orig / aug / brittle", "world-relation", _TRIPLE),
    TableColumn("relation mean c / n / p", "world-relation", _MEANS, is_percent=False),
    TableColumn("pairs-a indiv / pair", "world-pairs-a", ("individual", "pair")),
    TableColumn("pairs-b indiv / pair", "world-pairs-b", ("individual", "pair")),
    TableColumn("pair cosine", "world-pairs-a", (PAIR_COSINE,), is_percent=False),
    TableColumn("order", "world-order", ("accuracy",)),
    TableColumn("binding group", "world-binding", ("group",)),
    TableColumn("count group", "world-count", ("group",)),
    TableColumn("negation group", "world-negation", ("group",)),
    TableColumn("R@1 text, image", "world-retrieval", ("text_to_image@1", "image_to_text@1")),
    TableColumn("retention", "world-retrieval", ("retention",)),
)
COMPARED: tuple[TableColumn, ...] = (
    TableColumn("swap orig", "world-swap", ("original",)),
    TableColumn("swap brittle", "world-swap", ("brittleness",)),
    TableColumn("replace orig", "world-replace", ("original",)),
    TableColumn("replace brittle", "world-replace", ("brittleness",)),
    TableColumn("relation orig", "world-relation", ("original",)),
    TableColumn("relation aug", "world-relation", ("augmented",)),
    TableColumn("relation brittle", "world-relation", ("brittleness",)),
    TableColumn("relation mean c", "world-relation", ("mean_original",), is_percent=False),
    TableColumn("pairs-a pair", "world-pairs-a", ("pair",)),
    TableColumn("pairs-b pair", "world-pairs-b", ("pair",)),
    TableColumn("count group", "world-count", ("group",)),
    TableColumn("R@1 text", "world-retrieval", ("text_to_image@1",)),
)


def table(results: Sequence[ArmResult]) -> str:
    """Three tables for each experiment, in Markdown."""
    found = []
    for name in EXPERIMENTS:
        chosen = [result for result in results if result.experiment == name]
        if chosen:
            found.append(_experiment(name, chosen))
    return "\n\n".join(found)


def _experiment(name: str, results: Sequence[ArmResult]) -> str:
    known = {arm: in_order(_of(arm, results)) for arm in (UNTRAINED, BEFORE, *_TRAINED)}
    on = {arm: bases for arm, bases in known.items() if bases}
    # A base and its untrained twin are asked before any arm is trained, so they say nothing here.
    fewest = min(FEWEST, max((len(on[arm]) for arm in on if arm in _TRAINED), default=1))
    arms = [arm for arm, bases in on.items() if len(bases) >= fewest]
    begun = [f"`{arm}` ({len(bases)})" for arm, bases in on.items() if len(bases) < fewest]
    shown = in_order(base for arm in arms for base in on[arm])
    trained = next((result for result in results if result.arm in _TRAINED), results[0])
    compared = {
        arm: [base for base in on[arm] if base in on.get(_control(arm), ())]
        for arm in arms
        if arm in _TRAINED and arm != _control(arm)
    }
    parts = [
        f"### {name}: {EXPERIMENTS[name].about}",
        f"On the world: {trained.steps} steps of {trained.batch}, {len(shown)} bases "
        f"({', '.join(shown)}), {trained.times} x the registered items. Means over the bases of "
        "each arm, which the second column has by their numbers.",
        _rows(COLUMNS, {arm: on[arm] for arm in arms}, lambda c, arm: _mean(c, arm, results)),
        f"Difference to {CONTROL} with the same lock on the same captions, paired within each "
        "base that both have: mean [95 % t interval over these bases].",
        _rows(COMPARED, compared, lambda column, arm: _difference(column, arm, results)),
        "Every base:",
        _rows(COMPARED, {arm: on[arm] for arm in arms}, lambda c, arm: _each(c, arm, results)),
    ]
    if begun:
        parts.append(
            f"On fewer than {fewest} bases so far, and so in no table (how many, in brackets): "
            f"{', '.join(begun)}."
        )
    return "\n\n".join(parts)


def _control(arm: str) -> str:
    """The arm with CLIP's own loss and the same lock."""
    return CONTROL + LOCKED if arm.endswith(LOCKED) else CONTROL


def _rows(
    columns: Sequence[TableColumn],
    on: Mapping[str, Sequence[str]],
    cell: Callable[[TableColumn, str], str],
) -> str:
    lines = [["arm", "bases", *(column.title for column in columns)], ["---"] * (len(columns) + 2)]
    for arm, bases in on.items():
        lines.append([arm, numbers(bases) or "–", *(cell(column, arm) for column in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _of(arm: str, results: Iterable[ArmResult]) -> dict[str, ArmResult]:
    return {result.base: result for result in results if result.arm == arm}


def _mean(column: TableColumn, arm: str, results: Sequence[ArmResult]) -> str:
    rows = [column.values(result) for result in _of(arm, results).values()]
    return " / ".join(column.shown(fmean(values)) for values in zip(*rows, strict=True))


def _each(column: TableColumn, arm: str, results: Sequence[ArmResult]) -> str:
    found = _of(arm, results)
    return ", ".join(column.shown(column.values(found[base])[0]) for base in in_order(found))


def _difference(column: TableColumn, arm: str, results: Sequence[ArmResult]) -> str:
    control = _of(_control(arm), results)
    both = [
        column.values(result)[0] - column.values(control[base])[0]
        for base, result in _of(arm, results).items()
        if base in control
    ]
    apart = [value for value in both if isfinite(value)]
    if not apart:
        return "–"
    middle, half = interval(apart)
    low, high = (column.shown(value, signed=True) for value in (middle - half, middle + half))
    shown = column.shown(middle, signed=True)
    return shown if len(apart) == 1 else f"{shown} [{low}, {high}]"


def ask_for_table(table: Callable[[Sequence[ArmResult]], str], about: str) -> None:
    """The command line of a script that prints the tables of an experiment."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("found", type=Path, nargs="+", help="folders or files with results")
    parser.add_argument("--out", type=Path, help="one .json file for all of them")
    options = parser.parse_args()
    results = [result for path in options.found for result in read_results(path)]
    if options.out:
        write_results(options.out, results)
    print(table(results))


def repair_table_script() -> None:
    """Print the tables of the repair experiment: means, differences, every base."""
    ask_for_table(table, repair_table_script.__doc__ or "")


# NOTE lab.repair


def repair(
    base: Path, out: Path, questions: Questions, settings: RepairSettings, *, say: Say = print
) -> None:
    """Train and ask all arms of one base that the folder does not have yet."""
    encoder = read(base, name=base.stem)
    nothing = _nothing(base, encoder, settings)
    folder = out / settings.experiment / base.stem
    folder.mkdir(parents=True, exist_ok=True)
    known = {BEFORE: encoder, UNTRAINED: _untrained(encoder, nothing.seed)}
    for name, tiny in known.items():
        one = replace(nothing, arm=name)
        if settings.asks_base and find_same(one, folder / f"{name}.json") is None:
            _ask(tiny, one, folder, questions, settings)
    if BLIND in settings.arms:
        _read_blindly(replace(nothing, arm=BLIND), encoder, folder, settings)
    trained = [arm for arm in settings.arms if arm not in (BEFORE, UNTRAINED, BLIND)]
    wanted = [replace(nothing, arm=arm, steps=settings.steps) for arm in trained]
    missing = [one for one in wanted if find_same(one, folder / f"{one.arm}.json") is None]
    if not missing:
        say(f"{base.stem}: every arm is in {folder}")
        return
    for one in _trained(base, missing, folder, settings, say=say):
        # The file is asked, not the model it was written from: it has half the digits.
        tiny = read(folder / f"{one.arm}.safetensors", name=one.arm)
        _ask(tiny, one, folder, questions, settings)
        _state(folder, one.arm).unlink(missing_ok=True)
        say(f"{base.stem}: {one.arm} asked")


def _nothing(base: Path, encoder: Tiny, settings: RepairSettings) -> ArmResult:
    return ArmResult(
        experiment=settings.experiment,
        base=base.stem,
        fingerprint=encoder.fingerprint,
        arm=BEFORE,
        steps=0,
        batch=settings.batch,
        seed=seed_of(base, settings),
        times=settings.times,
        precision=settings.precision,
        loss=None,
        numbers={},
        size=settings.size,
    )


def _untrained(encoder: Tiny, seed: int) -> Tiny:
    """The null of every pair number: pictures that are alike have vectors that are alike."""
    return Tiny(untrained(encoder.config, seed=seed), name=UNTRAINED)


def _state(folder: Path, arm: str) -> Path:
    """An arm before it is asked, with its loss once it is trained; no result, so not .json."""
    return folder / f"{arm}.state"


def _trained(
    base: Path, wanted: Sequence[ArmResult], folder: Path, settings: RepairSettings, *, say: Say
) -> list[ArmResult]:
    """With their losses; those that are not trained yet are, and all weights are written."""
    states = [find_same(one, _state(folder, one.arm)) for one in wanted]
    rest = [
        one for one, state in zip(wanted, states, strict=True) if not state or state.loss is None
    ]
    for one in rest:
        if not _state(folder, one.arm).exists():
            # A checkpoint without a state is of settings that nobody knows.
            checkpoint_of(folder, one.arm).unlink(missing_ok=True)
            write_result(_state(folder, one.arm), one)
    if rest:
        arms = train_arms(base, [one.arm for one in rest], settings, folder=folder, say=say)
        for one in rest:
            arm = arms[one.arm]
            path = folder / f"{one.arm}.safetensors"
            write_atomically(path, partial(write, arm.trainable.module))
            done = replace(
                one, loss=arm.loss.item(), numbers=curve_numbers(arm), seconds=arm.seconds
            )
            write_result(_state(folder, one.arm), done)
            checkpoint = checkpoint_of(folder, one.arm)
            for left in (checkpoint, curve_of(checkpoint)):
                left.unlink(missing_ok=True)
    found = [find_same(one, _state(folder, one.arm)) for one in wanted]
    return [one for one in found if one is not None]


def _ask(
    encoder: Tiny, result: ArmResult, folder: Path, questions: Questions, settings: RepairSettings
) -> None:
    """Ask a model everything and keep the answers, beside what training said."""
    start = time.monotonic()
    trainable = TinyTrainable(encoder, device=settings.device)
    trainable.module.eval()
    numbers = {**result.numbers, **questions.answers(trainable, device=settings.device)}
    # A model that was not trained took no time to train; one that went on took nobody knows what.
    trained = 0.0 if result.loss is None else result.seconds
    seconds = None if trained is None else trained + time.monotonic() - start
    write_result(folder / f"{result.arm}.json", replace(result, numbers=numbers, seconds=seconds))


def _read_blindly(wanted: ArmResult, encoder: Tiny, folder: Path, settings: RepairSettings) -> None:
    """How far the captions of a base's own scenes give their edits away."""
    path = folder / f"{wanted.arm}.json"
    if find_same(wanted, path) is not None:
        return
    start, experiment = time.monotonic(), EXPERIMENTS[settings.experiment]
    batches = WorldBatches(
        recipe=make_recipe(ARMS[0], experiment, batch=settings.batch),
        reads=TinyTrainable(encoder, device="cpu").reads,
        seed=wanted.seed,
        preset=experiment.preset,
        per_epoch=max(settings.steps, 2 * STEPS),
    )
    found = leak_of(batches)
    seconds = time.monotonic() - start
    write_result(path, replace(wanted, numbers={LEAK: found}, seconds=seconds))


def repair_script() -> None:
    """Run the experiment `repair`: train and measure all arms on existing bases."""
    parser = argparse.ArgumentParser(description=repair_script.__doc__)
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--experiment", choices=tuple(EXPERIMENTS), default=RepairSettings.experiment)
    every = (BLIND, *ARMS, *VARIANTS)
    parser.add_argument("--arms", nargs="+", choices=every, default=ARMS)
    parser.add_argument("--steps", type=int, default=RepairSettings.steps)
    parser.add_argument("--batch", type=int, default=RepairSettings.batch)
    parser.add_argument("--seed", type=int, default=RepairSettings.seed)
    parser.add_argument(
        "--times", type=int, default=RepairSettings.times, help="test items, in multiples"
    )
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    parser.add_argument("--device", default="auto")
    text = "processes that make scenes, for each that trains"
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1), help=text)
    text = "side by side on one device: bases, then parts of their arms"
    parser.add_argument("--processes", type=int, default=1, help=text)
    options = parser.parse_args()
    # Asked in a process of its own: one that has touched a GPU cannot fork others that use it.
    device = apart(partial(choose_device, options.device), device=options.device)
    settings = RepairSettings(
        experiment=options.experiment,
        arms=tuple(options.arms),
        steps=options.steps,
        batch=options.batch,
        seed=options.seed,
        times=options.times,
        device=device,
        workers=options.workers,
    )
    with one_thread(options.processes > 1):
        repair_bases(
            options.bases, options.out, settings, bench=options.bench, processes=options.processes
        )
    print(table(read_results(options.out)))


# NOTE lab.repair_families
# Questions of the world, with numbers of their own for two kinds of relation triples.
#
# Things exchanged (with inverse relations as positives) and relations replaced (with synonyms) are
# one benchmark; whether a repair carries over from one kind of edit to the other shows only apart.

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
                    found[name] = metrics_of(_only(asked, begins), score)
        return found


def _only(asked: BenchmarkItems, begins: str) -> BenchmarkItems:
    at = [n for n, item in enumerate(asked.items) if item.id.startswith(begins)]
    return replace(
        asked,
        items=[asked.items[n] for n in at],
        pictures=[asked.pictures[n] for n in at],
        captions=[asked.captions[n] for n in at],
    )


# NOTE lab.repair_bases
# Bases and settings come in; all their arms, run in one process or several, go out as files.

_FEW = 23
"""A small run asks one item of so many: no divisor of the forms that stand beside each other."""


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
    every = _FEW if settings.size == "small" else 1
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


# NOTE lab.repair_experiment
# The repair experiments as the lab runs them: an order comes in, results of its arms go out.

SMALL = RepairSettings(steps=4, batch=16, times=1, size="small")
"""Shows that everything runs."""
SMALL_BENCH = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-pairs-b",
)
"""What the claims about repairs ask."""
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
        return Extent(steps, settings.batch, settings.times)

    def run(self, order: Order, *, say: ExperimentSay = print) -> None:
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
