"""Read-outs on the world: bases come in; readers, trained on frozen parts and asked, go out.

    python -m unbag_lab readouts --bases tiny-0.safetensors tiny-1.safetensors --out runs/arms

The same command goes on after a stop: an arm whose result is there is left alone. Every reader is
first taught a few thousand fixed examples and asked these: one that cannot fit them says nothing
about the features it reads.

Dimensions: N pictures or captions, M pairs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from unbag.errors import UserError, unknown_name
from unbag.models.huggingface.loading import quietly
from unbag.models.tiny import Tiny, read, untrained
from unbag.models.weights import seeded
from unbag.readouts.base import find_readout
from unbag.readouts.data import RELATION, Pool, WorldRows, world_pool, world_rows
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.saving import (
    Origin,
    on_encoder,
    read_decoder,
    save_change,
    save_decoder,
)
from unbag.readouts.decoder.training import Material, of_world
from unbag.readouts.features import Parts, View, stacked
from unbag.readouts.reader import Head, Reader, check_encoder, read_head, save_head, write_head
from unbag.readouts.training import (
    Effort,
    Fit,
    ReaderReadout,
    Taken,
    encoder_of,
    held_rows,
    share_told_apart,
    sizes_of,
)
from unbag.runs.progress import Silent
from unbag.scorers.resolve import load_model
from unbag.training.settings import choose
from unbag.training.towers.adapters import TinyTrainable
from unbag.types import DualEncoder, FloatArray, IntArray, Item
from unbag.world.grammar import words as words_of_world
from unbag_lab.plan import Say
from unbag_lab.questions import Questions, Score
from unbag_lab.results import (
    BEFORE,
    FEW_DROPOUT,
    FEW_RATE,
    FEW_STEPS,
    ArmResult,
    Size,
    result_path,
    write_result,
)
from unbag_lab.scheduler import each_apart, shares

# NOTE lab.readout_arms
# The arms of the read-out experiment: names come in; how each is built, and on what, goes out.
#
# All arms of a base are taught with the same rows: pictures, captions and hard negatives that the
# repair experiment draws (`unbag_lab.experiments.repair_training`). Batch and rate are the same for
# all but those
# named `-fast` and those that are taught for long, steps for all but these and readers of maps.


_FEW = ("crowd=8",)
"""A map costs a hundred times what a cosine does: fewer of them in a step."""
_SMALL_NET = (*_FEW, "net=mlp", "length=16")
"""DCSM's other network, with no more columns than the longest caption of the world needs: a small
enough file to ship."""
_BY_HEART = ("dropout=0", "learning_rate=1e-2")
"""How readers of patches learn by heart. Dropout is there so that nothing is learned so: where a
text tower gives a caption and its edit almost the same vector, a tenth of it is louder than what
tells them apart. At the rate that all share, 8,000 steps are too few."""
_PLACES = ("rope=2d", *_BY_HEART)
SHARED = ("learning_rate=1e-3", "warm_up=200", "weight_decay=0.01", "batch=256")


@dataclass(frozen=True)
class ReaderArm:
    """A reader of the parts of a frozen base."""

    readout: str
    settings: tuple[str, ...] = ()
    is_random: bool = False
    """Reads an untrained twin of the base: what the reader can do by itself."""
    text: bool = False
    """Reads captions with another text tower (MiniLM), locked as the picture tower is."""
    taught_as: str = ""
    """Another arm whose weights it takes, to be scored in another way."""
    is_long: bool = False
    """Taught in many more steps: a null of the usual ones may be one of steps."""
    only_relations: bool = False
    """Taught with captions that state a relation alone, each against its opposite: what it can read
    if nothing else is asked of it."""

    @property
    def reads_maps(self) -> bool:
        """Whether it is a network over cosines of all patches with all words."""
        return self.readout.startswith("dcsm")

    @property
    def reads_patches(self) -> bool:
        """Whether its read-out has dropout unless told otherwise, as those of patches have."""
        return bool(asdict(self.found().settings).get("dropout"))

    def found(self) -> ReaderReadout:
        """The registered read-out."""
        found = find_readout(self.readout)
        if not isinstance(found, ReaderReadout):
            raise UserError(f"{self.readout!r} is no reader of parts")
        return found

    def effort(self, steps: int) -> Effort:
        """Its settings, with those that all share."""
        return self._chosen(steps)

    def by_heart(self, steps: int) -> Effort:
        """Likewise, of a few fixed examples: readers of patches as `_BY_HEART` says."""
        return self._chosen(steps, *(_BY_HEART if self.reads_patches else ()))

    def _chosen(self, steps: int, *also: str) -> Effort:
        asked = (*SHARED, f"steps={steps}", *self.settings, *also)
        return choose(self.found().settings, asked, readout=self.readout)


def _relations(readout: str, settings: tuple[str, ...] = ()) -> ReaderArm:
    """For long, with nothing but relations."""
    return ReaderArm(readout, settings, is_long=True, only_relations=True)


READERS: Mapping[str, ReaderArm] = MappingProxyType(
    {
        "pooled": ReaderArm("pooled"),
        "dcsm": ReaderArm("dcsm", _FEW),
        "dcsm_fixed": ReaderArm("dcsm_fixed", _FEW),
        "dcsm_fixed-shuffled": ReaderArm("dcsm_fixed", (*_FEW, "shuffle_patches=each")),
        "dcsm_fixed-cls_eos": ReaderArm("dcsm_fixed", (*_FEW, "only=cls_eos")),
        "dcsm_fixed-random": ReaderArm("dcsm_fixed", _FEW, is_random=True),
        "pacl": ReaderArm("pacl"),
        "pacl_uniform": ReaderArm("pacl_uniform", taught_as="pacl"),
        "pacl_fixed": ReaderArm("pacl_fixed"),
        "pacl_rotary": ReaderArm("pacl_rotary"),
        "pacl_fixed-rotary": ReaderArm("pacl_fixed", ("rope=1d",)),
        "pacl_fixed-rotary-2d": ReaderArm("pacl_fixed", ("rope=2d",)),
        "pacl_fixed-rotary-2d-fast": ReaderArm("pacl_fixed", _PLACES),
        "pooled-text": ReaderArm("pooled", text=True),
        "pacl_fixed-text": ReaderArm("pacl_fixed", text=True),
        "pacl_fixed-rotary-2d-text": ReaderArm("pacl_fixed", ("rope=2d",), text=True),
        "sparc": ReaderArm("sparc"),
        "sparc_fixed": ReaderArm("sparc_fixed"),
        "sparc_fixed-fast": ReaderArm("sparc_fixed", _BY_HEART),
        "pooled-long": ReaderArm("pooled", is_long=True),
        "dcsm_fixed-long": ReaderArm("dcsm_fixed", _FEW, is_long=True),
        "dcsm_fixed-shuffled-long": ReaderArm(
            "dcsm_fixed", (*_FEW, "shuffle_patches=each"), is_long=True
        ),
        "dcsm_fixed-cls_eos-long": ReaderArm("dcsm_fixed", (*_FEW, "only=cls_eos"), is_long=True),
        "dcsm_fixed-mlp-long": ReaderArm("dcsm_fixed", _SMALL_NET, is_long=True),
        "dcsm_fixed-mlp-shuffled-long": ReaderArm(
            "dcsm_fixed", (*_SMALL_NET, "shuffle_patches=each"), is_long=True
        ),
        "pacl_fixed-rotary-2d-long": ReaderArm("pacl_fixed", _PLACES, is_long=True),
        "pacl_fixed-rotary-2d-text-long": ReaderArm("pacl_fixed", _PLACES, text=True, is_long=True),
        "sparc_fixed-long": ReaderArm("sparc_fixed", _BY_HEART, is_long=True),
        "pooled-relations": _relations("pooled"),
        "dcsm_fixed-relations": _relations("dcsm_fixed", _FEW),
        "pacl_fixed-rotary-2d-relations": _relations("pacl_fixed", _PLACES),
        "sparc_fixed-relations": _relations("sparc_fixed", _BY_HEART),
    }
)


@dataclass(frozen=True)
class VectorArm:
    """Which decoder on patches it goes on from, and whether the question stands in the prompt."""

    decoder: str = "decoder"
    asks: bool = True


VECTOR_ARMS: Mapping[str, VectorArm] = MappingProxyType(
    {
        "vlm2vec": VectorArm(),
        "vlm2vec-plain": VectorArm(asks=False),
        "vlm2vec-long": VectorArm("decoder-long"),
        "vlm2vec-plain-long": VectorArm("decoder-long", asks=False),
    }
)


def find_arm(name: str) -> ReaderArm:
    """By name."""
    if name not in READERS:
        raise unknown_name("arm", name, READERS)
    return READERS[name]


# NOTE lab.readout_base
# A base of the read-out experiment: a file and settings come in; rows and frozen parts go out.
#
# Dimensions: N pictures or captions.

EXPERIMENT = "readouts"
BATCH = 256
"""Also said of arms that are not trained."""
_CAPTIONS = 4_096
_MAP_FIT = 2_400


@dataclass(frozen=True)
class ReadoutSettings:
    """Everything about the experiment besides bases and arms; the defaults are those of readers.

    Results that ship were made with these and `FOR_DECODERS`, and a test compares them: what is
    run today can be judged together with them. Only `fit_steps` was 800 for some of them.
    """

    scenes: int = 60_000
    steps: int = 5_000
    map_steps: int = 3_000
    """Of readers of maps, of which a step costs three times as much."""
    long_steps: int = 20_000
    """Of arms that are taught for long, whatever they read."""
    fit_rows: int = 2_048
    """Fixed examples that a reader must be able to learn."""
    fit_steps: int = 4_000
    """In which they are learned; readers of maps learn them in `_MAP_FIT`, or not at all."""
    vector_steps: int = 1_200
    """Of VLM2Vec."""
    seed: int = 0
    times: int = 3
    device: str = "cpu"
    workers: int = 0
    text: str = "minilm"
    """Another text tower, by name or folder, for the arms that read captions with it."""
    size: Size = "full"

    def seed_of(self, base: Path) -> int:
        """Another one for each base, by its place among bases: tiny-0, tiny-1 ..."""
        digits = "".join(c for c in base.stem if c.isdigit()) or "0"
        return self.seed + 1_000 + int(digits)

    def steps_of(self, arm: ReaderArm) -> int:
        """Of a reader."""
        if arm.is_long:
            return self.long_steps
        return self.map_steps if arm.reads_maps else self.steps

    def fit_steps_of(self, arm: ReaderArm) -> int:
        """Of a reader that learns by heart."""
        return min(self.fit_steps, _MAP_FIT) if arm.reads_maps else self.fit_steps


FOR_DECODERS = ReadoutSettings(scenes=40_000, steps=6_000, fit_rows=512, fit_steps=1_500)
"""Also for VLM2Vec, which goes on from a decoder."""


class Base:
    """A frozen base, its rows, and pools of its parts by view."""

    def __init__(self, path: Path, questions: Questions, settings: ReadoutSettings) -> None:
        self.path, self.questions, self.settings = path, questions, settings
        self.seed = settings.seed_of(path)
        self._key = ""
        self._kept: tuple[Pool, Parts, Parts] | None = None
        self._looked: tuple[tuple[str, ...], Material] | None = None

    # Nothing touches a GPU before it is asked for: processes that share the rows are forked.

    @cached_property
    def encoder(self) -> Tiny:
        """Frozen."""
        return read(self.path, name=self.path.stem, device=self.settings.device)

    @cached_property
    def random(self) -> Tiny:
        """The same network before any training."""
        twin = untrained(self.encoder.config, seed=self.seed)
        return Tiny(twin, name=f"{self.path.stem}-random", device=self.settings.device)

    @cached_property
    def joined(self) -> DualEncoder:
        """The picture tower with another text model."""
        spec = f"joined:tiny:{self.path}+{self.settings.text}"
        found = load_model(spec, device=self.settings.device)
        assert isinstance(found, DualEncoder)
        return found

    @cached_property
    def rows(self) -> list[WorldRows]:
        """What all arms are taught with."""
        return world_rows(self.settings.scenes, seed=self.seed, workers=self.settings.workers)

    def make_rows(self, whose: str, say: Say) -> None:
        """Now, so that processes that are forked later share them."""
        # A base that is not there, or is none, is told before that.
        read(self.path, name=self.path.stem, device="cpu")
        count = sum(len(one.captions) for one in self.rows)
        say(f"{self.path.stem}: {count:,} scenes for {whose}")

    def forget(self) -> None:
        """Features that were kept for the next arm."""
        self._kept = self._looked = None

    def _encoder(self, arm: ReaderArm) -> DualEncoder:
        if arm.text:
            return self.joined
        return self.random if arm.is_random else self.encoder

    def parts(self, arm: ReaderArm, view: View) -> tuple[Pool, Parts, Parts]:
        """The pool, and parts of the questions' pictures and captions; one view at a time."""
        encoder = self._encoder(arm)
        key = f"{encoder.name} {view.name}"
        if self._kept is None or key != self._key:
            self._kept = None
            device = self.settings.device
            pool = world_pool(encoder, view, self.rows, device=device)
            pictures = [
                view.look(encoder, pixels.to(device).float() / 127.5 - 1.0).to(
                    device, torch.float16
                )
                for pixels in self.questions.pixels
            ]
            texts = self.questions.captions
            captions = [
                view.read(encoder, texts[at : at + _CAPTIONS]).to(device, torch.float16)
                for at in range(0, len(texts), _CAPTIONS)
            ]
            self._key, self._kept = key, (pool, stacked(pictures), stacked(captions))
        return self._kept

    def material(self, settings: DecoderSettings) -> Material:
        """What decoders see of the rows' pictures; one view at a time is kept."""
        key = (settings.sees, settings.layer, settings.keeps)
        if self._looked is None or self._looked[0] != key:
            self._looked = None
            device = self.settings.device
            found = of_world(self.encoder, self.rows, settings, device=device, progress=Silent())
            self._looked = key, found
        return self._looked[1]

    def result(
        self,
        arm: str,
        numbers: dict[str, dict[str, float]],
        *,
        steps: int = 0,
        batch: int = BATCH,
        loss: float | None = None,
        precision: str = "float32",
    ) -> ArmResult:
        """What an arm on this base came to; its seconds are not known yet."""
        return ArmResult(
            experiment=EXPERIMENT,
            base=self.path.stem,
            fingerprint=self.encoder.fingerprint,
            arm=arm,
            steps=steps,
            batch=batch,
            seed=self.seed,
            times=self.settings.times,
            precision=precision,
            loss=loss,
            numbers=numbers,
            size=self.settings.size,
        )


def add_options(parser: argparse.ArgumentParser, default: ReadoutSettings) -> None:
    """Those that every script of the experiment has."""
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--scenes", type=int, default=default.scenes)
    parser.add_argument("--steps", type=int, default=default.steps)
    text = "steps of readers of maps"
    parser.add_argument("--map-steps", type=int, default=default.map_steps, help=text)
    text = "steps of arms that are taught for long"
    parser.add_argument("--long-steps", type=int, default=default.long_steps, help=text)
    parser.add_argument("--fit-rows", type=int, default=default.fit_rows)
    parser.add_argument("--fit-steps", type=int, default=default.fit_steps)
    text = "steps of VLM2Vec"
    parser.add_argument("--vector-steps", type=int, default=default.vector_steps, help=text)
    parser.add_argument("--times", type=int, default=default.times)
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    text = "text model of the arms with a stronger text tower: a name or a folder"
    parser.add_argument("--text", default=default.text, help=text)
    # Asking whether there is a GPU would forbid processes to fork.
    parser.add_argument("--device", default="cpu")
    text = "processes in which the arms of a base are run side by side"
    parser.add_argument("--processes", type=int, default=1, help=text)
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1))


def settings_of(options: argparse.Namespace) -> ReadoutSettings:
    """As they were asked for."""
    return ReadoutSettings(
        scenes=options.scenes,
        steps=options.steps,
        map_steps=options.map_steps,
        long_steps=options.long_steps,
        fit_rows=options.fit_rows,
        fit_steps=options.fit_steps,
        vector_steps=options.vector_steps,
        times=options.times,
        device=options.device,
        workers=options.workers,
        text=options.text,
    )


# NOTE lab.readouts


_PAIRS = 4_096
_NO_SHARES = (FEW_STEPS, FEW_DROPOUT, FEW_RATE)
_SHOWN = (("world-relation", "original"), ("world-pairs-a", "pair"))


def run_base(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """The arms, one after the other; results and weights go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if base.settings.device != "cpu":
        torch.set_float32_matmul_precision("high")
    for name in arms:
        began = time.perf_counter()
        result = _before(base) if name == BEFORE else _run_arm(name, base, folder)
        finish(result, folder, began, say)
    base.forget()


def finish(
    result: ArmResult,
    folder: Path,
    began: float,
    say: Say,
    *,
    shown: Sequence[tuple[str, str]] = _SHOWN,
) -> None:
    """Write it with its seconds, and say the numbers that are looked at first."""
    seconds = time.perf_counter() - began
    write_result(folder / f"{result.arm}.json", replace(result, seconds=seconds))
    found = result.numbers
    fit = found.get("fit", {})
    told = [f"{name} {share:.3f}" for name, share in fit.items() if name not in _NO_SHARES]
    told += [f"{name} {metric} {found[name][metric]:.3f}" for name, metric in shown
             if name in found]  # fmt: skip
    say(f"{result.base} {result.arm}: {seconds:.0f} s, {', '.join(told)}")


def _before(base: Base) -> ArmResult:
    """The cosine that everything else is read against."""
    trainable = TinyTrainable(base.encoder, device=base.settings.device)
    trainable.module.eval()
    return base.result(BEFORE, base.questions.answers(trainable, device=base.settings.device))


def _weights(path: Path) -> dict[str, Tensor]:
    """What the arm that was taught left beside its result."""
    if not path.is_file():
        raise UserError(
            f"there is no {path}, the weights of another arm",
            expected="weights beside the result of the arm that was taught",
            way_out=f"remove {path.with_suffix('.json').name} beside it and run that arm again",
        )
    found: dict[str, Tensor] = torch.load(path, weights_only=True)
    return found


def missing(arms: Sequence[str], folder: Path) -> list[str]:
    """Those whose result the folder does not have yet."""
    return [name for name in arms if not (folder / f"{name}.json").exists()]


def reader_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Those that may be run apart: all in one, if there is one process, else as many as can be.

    In one, arms that look at the same features stand together; the base itself comes first. An arm
    that takes another's weights follows it.
    """
    ordered = sorted(arms, key=_order)
    if processes <= 1:
        return [ordered]
    families: dict[str, list[str]] = {}
    for name in ordered:
        families.setdefault(_teacher(name), []).append(name)
    return list(families.values())


def _teacher(name: str) -> str:
    """The arm that is taught: itself, or the one whose weights it takes."""
    return name if name == BEFORE else find_arm(name).taught_as or name


def _order(name: str) -> tuple[bool, bool, str, bool]:
    teacher = _teacher(name)
    if teacher == BEFORE:
        return False, False, "", False
    arm = find_arm(teacher)
    return arm.is_random, arm.text, _view(arm).name, name != teacher


def _view(arm: ReaderArm) -> View:
    return arm.found().view(arm.effort(1))


def _run_arm(name: str, base: Base, folder: Path) -> ArmResult:
    arm, settings = find_arm(name), base.settings
    effort = arm.effort(settings.steps_of(arm))
    pool, pictures, captions = base.parts(arm, _view(arm))
    if arm.only_relations:
        pool = pool.only(RELATION)
    sizes, held = sizes_of(pool), held_rows(pool)
    device = settings.device
    if arm.taught_as:
        reader = arm.found().fresh(effort, sizes, seed=base.seed).to(device)
        reader.load_state_dict(_weights(folder / f"{arm.taught_as}.pt"))
        fit_numbers, loss = _fit_numbers(reader, pool, held, device), None
    else:
        few = pool.rows(0, settings.fit_rows)
        by_heart = arm.by_heart(settings.fit_steps_of(arm))
        small = arm.found().fresh(by_heart, sizes, seed=base.seed)
        Fit(small, few, by_heart, device=device, seed=base.seed).run()
        can_fit = _shares("few", small, few, device)
        reader = arm.found().fresh(effort, sizes, seed=base.seed)
        fit = Fit(reader, pool.rows(0, len(pool) - held), effort, device=device, seed=base.seed)
        loss = _run(fit)
        fit_numbers = {
            **can_fit,
            FEW_STEPS: float(by_heart.steps),
            FEW_RATE: by_heart.learning_rate,
            **({FEW_DROPOUT: asdict(by_heart)["dropout"]} if arm.reads_patches else {}),
            **_fit_numbers(reader, pool, held, device),
        }
        torch.save(reader.state_dict(), folder / f"{name}.pt")
        head = Head(arm.readout, asdict(effort), sizes, base.encoder.name, base.encoder.fingerprint)
        save_head(reader, folder / f"{name}.safetensors", head)
    reader.eval()
    numbers = base.questions.measured(_score(reader, pictures, captions))
    return base.result(name, {**numbers, "fit": fit_numbers}, steps=effort.steps, loss=loss)


def _run(fit: Fit) -> float | None:
    """To the end; gives the last loss that was read."""
    found: list[float] = []

    def on_step(taken: Taken) -> bool:
        if taken.loss is not None:
            found.append(taken.loss)
        return False

    fit.run(on_step)
    return found[-1] if found else None


def _fit_numbers(reader: Reader, pool: Pool, held: int, device: str) -> dict[str, float]:
    seen, rest = pool.rows(0, held), pool.rows(len(pool) - held, len(pool))
    return {
        **_shares("learned", reader, seen, device),
        **_shares("held", reader, rest, device),
    }


def _shares(name: str, reader: Reader, rows: Pool, device: str) -> dict[str, float]:
    """Told from all negatives; and, where rows have several, relations from their opposites."""
    found = {name: share_told_apart(reader, rows, device=device)}
    if rows.negative_NK.shape[1] > 1 and len(stated := rows.only(RELATION)):
        found[f"{name} relation"] = share_told_apart(reader, stated, device=device)
    return found


def _score(reader: Reader, pictures: Parts, captions: Parts) -> Score:
    """By its parts; one whose scores depend on the call is asked item by item."""
    device = pictures.part_NLW.device

    @torch.inference_mode()
    def by_item(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        found, end = [], 0
        for item in items:
            rows, columns = len(item.pictures), len(item.captions)
            start, end = end, end + rows * columns
            at_P = torch.from_numpy(picture_M[start:end:columns]).to(device)
            at_C = torch.from_numpy(caption_M[start : start + columns]).to(device)
            cells = reader.compare_all(_float(pictures.rows(at_P)), _float(captions.rows(at_C)))
            found.append(cells.flatten())
        value_M: FloatArray = torch.cat(found).double().cpu().numpy()
        return value_M

    @torch.inference_mode()
    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        both = (torch.from_numpy(picture_M).to(device), torch.from_numpy(caption_M).to(device))
        found: list[Tensor] = [
            reader.compare(_float(pictures.rows(p)), _float(captions.rows(c)))
            for p, c in zip(*(torch.split(one, _PAIRS) for one in both), strict=True)
        ]
        value_M: FloatArray = torch.cat(found).double().cpu().numpy()
        return value_M

    return by_item if reader.depends_on_call else score


def _float(parts: Parts) -> Parts:
    return parts.to(str(parts.part_NLW.device), torch.float32)


def readouts_script() -> None:
    """Train and measure readers on the frozen encoders of existing bases."""
    parser = argparse.ArgumentParser(description=readouts_script.__doc__)
    add_options(parser, ReadoutSettings())
    every = (BEFORE, *READERS)
    parser.add_argument("--arms", nargs="+", choices=every, default=every)
    options = parser.parse_args()
    settings, say = settings_of(options), partial(print, flush=True)
    questions = Questions(options.bench, times=settings.times)
    for path in options.bases:
        base = Base(path, questions, settings)
        folder = result_path(options.out, EXPERIMENT, path.stem, BEFORE).parent
        if arms := missing(options.arms, folder):
            base.make_rows("readers", say)
            run = partial(run_base, base, folder, say=say)
            groups = reader_groups(arms, processes=options.processes)
            each_apart(shares(run, groups), processes=options.processes, say=say)


# NOTE lab.ship_head
# A decoder, VLM2Vec or reader of the lab comes in; what ships for its encoder goes out.
#
#     python -m unbag_lab ship runs/arms/readouts/tiny-0/decoder-long --model
# tiny:base --out OUT
#
# With `--change-of DECODER --rank R` it is written as a change of a decoder that ships beside it.
# A reader is a file, and so is what ships of it: OUT ends in `.READOUT.reader.safetensors`.
# Weights are rounded to half precision, and the origin is the name that loads the encoder anywhere.


@dataclass(frozen=True)
class ChangeOf:
    """What a head is a change of."""

    decoder: Path
    rank: int


def ship_head(place: Path, spec: str, out: Path, *, beside: ChangeOf | None = None) -> None:
    """Write it; what was trained for another encoder is refused."""
    if place.is_file():
        _ship_reader(place, spec, out)
    else:
        _ship_decoder(place, spec, out, beside)


def _ship_reader(path: Path, spec: str, out: Path) -> None:
    """Readers are kept in half precision already."""
    head, state = read_head(path)
    encoder = encoder_of(load_model(spec), head.readout)
    check_encoder(path, encoder, spec=head.encoder, fingerprint=head.fingerprint)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_head(state, out, replace(head, encoder=spec))


def _ship_decoder(folder: Path, spec: str, out: Path, beside: ChangeOf | None) -> None:
    kept, encoder = read_decoder(folder), encoder_of(load_model(spec), "decoder")
    on_encoder(kept, encoder, folder, name=spec)
    made = kept.made
    shipped = replace(
        made,
        context=made.places + made.settings.context,
        # Folders of before `embeds` was written have the name of their arm.
        embeds=made.embeds or folder.name in VECTOR_ARMS,
    )
    origin = Origin(spec, encoder.name, encoder.fingerprint)
    if beside:
        save_change(out, shipped, origin, base=beside.decoder, rank=beside.rank)
    else:
        save_decoder(out, replace(shipped, net=made.net.half()), origin)


def ship_head_script() -> None:
    """Write the file that ships from a decoder, VLM2Vec head or reader of the lab."""
    parser = argparse.ArgumentParser(description=ship_head_script.__doc__)
    parser.add_argument("place", type=Path, help="folder of a decoder or VLM2Vec, or a reader")
    parser.add_argument("--model", required=True, help="the name that loads its encoder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--change-of", type=Path, help="a decoder that ships and was its start")
    parser.add_argument("--rank", type=int, default=48, help="of the change of each matrix")
    options = parser.parse_args()
    beside = ChangeOf(options.change_of, options.rank) if options.change_of else None
    ship_head(options.place, options.model, options.out, beside=beside)


# NOTE lab.small_text
# A folder comes in; a text model of random weights that knows the world's words goes out in it.
#
# It stands for MiniLM in small runs, which show that the code runs and need no download.

_UNKNOWN = "[UNK]"
_CONTEXT = 32


def write_small_text(folder: Path, *, seed: int = 0) -> Path:
    """An encoder of one layer with a tokenizer of words, as transformers saves them."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    library: Any = transformers
    known = {word: at for at, word in enumerate((_UNKNOWN, *words_of_world()))}
    words = Tokenizer(models.WordLevel(known, unk_token=_UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    config = library.BertConfig(
        vocab_size=len(known),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=_CONTEXT,
    )
    with quietly(), seeded(seed):
        library.PreTrainedTokenizerFast(
            tokenizer_object=words, model_max_length=_CONTEXT, pad_token=_UNKNOWN
        ).save_pretrained(folder)
        library.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
