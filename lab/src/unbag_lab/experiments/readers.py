"""Trains the readers of the experiment `readouts` on the features of frozen bases.

All arms of a base are trained on the same rows: images, captions and hard negatives, as in the
repair experiments (`unbag_lab.experiments.repair_training`). Every reader is first trained on a few
thousand fixed examples and measured on them: one that cannot fit them shows nothing about the
features it reads. Batch size and learning rate are shared, except by arms named `-fast` and those
with many steps; the number of steps is shared, except by these and by readers of maps. An
interrupted run resumes arm by arm.

Dimensions: N images or captions, M pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from unbag.errors import UnbagError, unknown_name
from unbag.models.features import View, stacked
from unbag.models.loading import load_model
from unbag.models.tiny import Tiny, read, untrained
from unbag.readouts.base import find_readout
from unbag.readouts.data import RELATION, Pool, WorldRows, world_pool, world_rows
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.training import DecoderData, of_world
from unbag.readouts.reader import Reader, ReaderHeader, save_head
from unbag.readouts.training import (
    ReaderEffort,
    ReaderReadout,
    ReaderTask,
    accuracy,
    sizes_of,
)
from unbag.runs.checkpoint import load_checkpoint, save_checkpoint
from unbag.runs.progress import Silent
from unbag.training.settings import choose
from unbag.training.trainer import Trainer
from unbag.types import DualEncoder, FloatArray, IntArray, Item, TokenFeatures
from unbag_lab.plan import Say
from unbag_lab.questions import Questions, Score
from unbag_lab.results import (
    BEFORE,
    FEW_DROPOUT,
    FEW_RATE,
    FEW_STEPS,
    ArmResult,
    Size,
    write_result,
)
from unbag_lab.training import ask, run_to_end

EXPERIMENT = "readouts"
BATCH = 256
"""Also in the results of arms that are not trained."""
_CAPTIONS = 4_096
_MAP_FIT = 2_400


@dataclass(frozen=True)
class ReadoutSettings:
    """Settings of the experiment besides bases and arms; the defaults are those of readers.

    The shipped results were made with these and `FOR_DECODERS`, and a test compares them, so that
    new results can be joined to them. Only `fit_steps` was 800 for some of them.
    """

    scenes: int = 60_000
    steps: int = 5_000
    map_steps: int = 3_000
    """Steps of readers of maps, whose steps cost three times as much."""
    long_steps: int = 20_000
    """Steps of arms that are trained for long."""
    fit_rows: int = 2_048
    """Fixed examples that a reader must be able to fit."""
    fit_steps: int = 4_000
    """Steps to fit them; at most `_MAP_FIT` for readers of maps."""
    vector_steps: int = 1_200
    """Steps of VLM2Vec."""
    seed: int = 0
    times: int = 3
    device: str = "cpu"
    workers: int = 0
    text: str = "minilm"
    """Name or folder of the text encoder of arms with another text encoder."""
    size: Size = "full"

    def seed_of(self, base: Path) -> int:
        """Return the seed of a base, from the number in its name: tiny-0, tiny-1 ..."""
        digits = "".join(c for c in base.stem if c.isdigit()) or "0"
        return self.seed + 1_000 + int(digits)

    def steps_of(self, arm: ReaderArm) -> int:
        """Return the training steps of a reader."""
        if arm.is_long:
            return self.long_steps
        return self.map_steps if arm.reads_maps else self.steps

    def fit_steps_of(self, arm: ReaderArm) -> int:
        """Return the steps in which a reader fits the fixed examples."""
        return min(self.fit_steps, _MAP_FIT) if arm.reads_maps else self.fit_steps


FOR_DECODERS = ReadoutSettings(scenes=40_000, steps=6_000, fit_rows=512, fit_steps=1_500)
"""Also for VLM2Vec, which continues from a decoder."""


class Base:
    """A frozen base with its training rows, and pools of its features by view."""

    def __init__(self, path: Path, questions: Questions, settings: ReadoutSettings) -> None:
        self.path, self.questions, self.settings = path, questions, settings
        self.seed = settings.seed_of(path)
        self._key = ""
        self._kept: tuple[Pool, TokenFeatures, TokenFeatures] | None = None
        self._looked: tuple[tuple[str, ...], DecoderData] | None = None

    # Nothing touches a GPU before its first use: processes that share the rows are forked.

    @cached_property
    def encoder(self) -> Tiny:
        """The frozen base."""
        return read(self.path, name=self.path.stem, device=self.settings.device)

    @cached_property
    def random(self) -> Tiny:
        """The same network, randomly initialized."""
        random_model = untrained(self.encoder.config, seed=self.seed)
        return Tiny(random_model, name=f"{self.path.stem}-random", device=self.settings.device)

    @cached_property
    def joined(self) -> DualEncoder:
        """The image encoder with another text model."""
        spec = f"joined:tiny:{self.path}+{self.settings.text}"
        model = load_model(spec, device=self.settings.device)
        assert isinstance(model, DualEncoder)
        return model

    @cached_property
    def rows(self) -> list[WorldRows]:
        """The rows that all arms are trained on."""
        return world_rows(self.settings.scenes, seed=self.seed, workers=self.settings.workers)

    def make_rows(self, whose: str, say: Say) -> None:
        """Make the rows now, so that processes forked later share them."""
        # Report a missing or broken base first.
        read(self.path, name=self.path.stem, device="cpu")
        count = sum(len(rows.captions) for rows in self.rows)
        say(f"{self.path.stem}: {count:,} scenes for {whose}")

    def forget(self) -> None:
        """Drop the features cached for the next arm."""
        self._kept = self._looked = None

    def parts(self, arm: ReaderArm, view: View) -> tuple[Pool, TokenFeatures, TokenFeatures]:
        """Return the pool, and token features of benchmark images and captions, for one view."""
        encoder: DualEncoder = self.random if arm.is_random else self.encoder
        if arm.text:
            encoder = self.joined
        key = f"{encoder.name} {view.name}"
        if self._kept is None or key != self._key:
            self._kept = None
            device = self.settings.device
            pool = world_pool(encoder, view, self.rows, device=device)
            images = self.question_images(encoder, view, torch.float16)
            texts = self.questions.captions
            captions = [
                view.encode_texts(encoder, texts[at : at + _CAPTIONS]).to(device, torch.float16)
                for at in range(0, len(texts), _CAPTIONS)
            ]
            self._key, self._kept = key, (pool, images, stacked(captions))
        return self._kept

    def question_images(
        self, encoder: DualEncoder, view: View, dtype: torch.dtype | None = None
    ) -> TokenFeatures:
        """Return the features of a view for the images of the benchmarks."""
        device = self.settings.device
        parts = [
            view.encode_images(encoder, pixels.to(device).float() / 127.5 - 1.0).to(device, dtype)
            for pixels in self.questions.pixels
        ]
        return stacked(parts)

    def material(self, settings: DecoderSettings) -> DecoderData:
        """Return the data of decoders for the rows; caches one view at a time."""
        key = (settings.sees, settings.layer, settings.keeps)
        if self._looked is None or self._looked[0] != key:
            self._looked = None
            device = self.settings.device
            data = of_world(self.encoder, self.rows, settings, device=device, progress=Silent())
            self._looked = key, data
        return self._looked[1]

    def result(
        self,
        arm: str,
        numbers: dict[str, dict[str, float]],
        *,
        steps: int = 0,
        batch_size: int = BATCH,
        loss: float | None = None,
        precision: str = "float32",
    ) -> ArmResult:
        """Return the result of an arm on this base, without its duration."""
        return ArmResult(
            experiment=EXPERIMENT,
            base=self.path.stem,
            fingerprint=self.encoder.fingerprint,
            arm=arm,
            steps=steps,
            batch_size=batch_size,
            seed=self.seed,
            times=self.settings.times,
            precision=precision,
            loss=loss,
            numbers=numbers,
            size=self.settings.size,
        )


_NO_SHARES = (FEW_STEPS, FEW_DROPOUT, FEW_RATE)
_SHOWN = (("world-relation", "original"), ("world-pairs-a", "pair"))


def finish(
    result: ArmResult,
    folder: Path,
    began: float,
    say: Say,
    *,
    shown: Sequence[tuple[str, str]] = _SHOWN,
) -> None:
    """Write a result with its duration, and print its main numbers."""
    seconds = time.perf_counter() - began
    write_result(folder / f"{result.arm}.json", replace(result, seconds=seconds))
    numbers = result.numbers
    fit = numbers.get("fit", {})
    texts = [f"{name} {share:.3f}" for name, share in fit.items() if name not in _NO_SHARES]
    texts += [f"{name} {metric} {numbers[name][metric]:.3f}" for name, metric in shown
             if name in numbers]  # fmt: skip
    say(f"{result.base} {result.arm}: {seconds:.0f} s, {', '.join(texts)}")


_FEW = ("contrast_size=8",)
"""A map costs a hundred times as much as a cosine, so a step has fewer of them."""
_SMALL_NET = (*_FEW, "net=mlp", "length=16")
"""DCSM's other network, with only the columns that the longest caption of the world needs, so that
the file is small enough to ship."""
_BY_HEART = ("dropout=0", "learning_rate=1e-2")
"""How readers of patches fit the fixed examples. Dropout prevents such fits: where a text encoder
gives a caption and its edit almost the same vector, a dropout of a tenth exceeds their difference.
At the shared learning rate, 8,000 steps are too few."""
_PLACES = ("rope=2d", *_BY_HEART)
SHARED = ("learning_rate=1e-3", "warmup_steps=200", "weight_decay=0.01", "batch_size=256")


@dataclass(frozen=True)
class ReaderArm:
    """A reader of the features of a frozen base."""

    readout: str
    settings: tuple[str, ...] = ()
    is_random: bool = False
    """Reads a randomly initialized model: the baseline for what the reader can do by itself."""
    text: bool = False
    """Reads captions with another text encoder (MiniLM), frozen as the image encoder is."""
    taught_as: str = ""
    """Another arm whose weights it takes, to score them differently."""
    is_long: bool = False
    """Trained for many more steps, to rule out that a null result is due to too few steps."""
    only_relations: bool = False
    """Trained only on captions that state a relation, each against its opposite: what the reader
    can do if it has nothing else to learn."""

    @property
    def reads_maps(self) -> bool:
        """Whether it reads maps: the cosines of all patches with all words."""
        return self.readout.startswith("dcsm")

    @property
    def reads_patches(self) -> bool:
        """Whether its read-out has dropout by default, as read-outs of patches do."""
        return bool(asdict(self.read_out().settings).get("dropout"))

    def read_out(self) -> ReaderReadout:
        """Return the registered read-out."""
        readout = find_readout(self.readout)
        if not isinstance(readout, ReaderReadout):
            raise UnbagError(f"{self.readout!r} is no reader of parts")
        return readout

    def effort(self, steps: int, *, by_heart: bool = False) -> ReaderEffort:
        """Return its settings with the shared ones, and `_BY_HEART` to fit the fixed examples."""
        fit_settings = _BY_HEART if by_heart and self.reads_patches else ()
        assignments = (*SHARED, f"steps={steps}", *self.settings, *fit_settings)
        return choose(self.read_out().settings, assignments, readout=self.readout)


def _relations(readout: str, settings: tuple[str, ...] = ()) -> ReaderArm:
    """Return an arm that is trained for long, only on relations."""
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


def find_arm(name: str) -> ReaderArm:
    """Return a reader by name."""
    if name not in READERS:
        raise unknown_name("arm", name, READERS)
    return READERS[name]


def run_base(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """Run arms in order; results and weights go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if base.settings.device != "cpu":
        torch.set_float32_matmul_precision("high")
    for name in arms:
        began = time.perf_counter()
        if name == BEFORE:
            # The cosine that every other arm is compared with.
            numbers = ask(base.encoder, base.questions, device=base.settings.device)
            result = base.result(BEFORE, numbers)
        else:
            result = _run_arm(name, base, folder)
        finish(result, folder, began, say)
    base.forget()


def _run_arm(name: str, base: Base, folder: Path) -> ArmResult:
    arm, settings = find_arm(name), base.settings
    effort = arm.effort(settings.steps_of(arm))
    pool, images, captions = base.parts(arm, _view(arm))
    if arm.only_relations:
        pool = pool.only(RELATION)
    sizes, held_out = sizes_of(pool), pool.held_out
    device = settings.device
    if arm.taught_as:
        reader = arm.read_out().fresh(effort, sizes, seed=base.seed).to(device)
        path = folder / f"{arm.taught_as}.weights"
        if not path.is_file():
            raise UnbagError(
                f"the weights {path} of another arm are missing",
                expected="weights next to the result of the trained arm",
                hint=f"remove {path.with_suffix('.json').name} next to it and run that arm again",
            )
        reader.load_state_dict(load_checkpoint(path).group("reader"))
        fit_numbers, loss = _fit_numbers(reader, pool, held_out, device), None
    else:
        few_rows = pool.rows(0, settings.fit_rows)
        by_heart = arm.effort(settings.fit_steps_of(arm), by_heart=True)
        few_reader = arm.read_out().fresh(by_heart, sizes, seed=base.seed)
        Trainer(ReaderTask(few_reader, few_rows, by_heart, device=device, seed=base.seed)).run()
        few_shares = _shares("few", few_reader, few_rows, device)
        reader = arm.read_out().fresh(effort, sizes, seed=base.seed)
        rows = pool.rows(0, len(pool) - held_out)
        loss = run_to_end(Trainer(ReaderTask(reader, rows, effort, device=device, seed=base.seed)))
        fit_numbers = {
            **few_shares,
            FEW_STEPS: float(by_heart.steps),
            FEW_RATE: by_heart.learning_rate,
            **({FEW_DROPOUT: asdict(by_heart)["dropout"]} if arm.reads_patches else {}),
            **_fit_numbers(reader, pool, held_out, device),
        }
        # Full precision, for arms that load them; files for release have half precision.
        save_checkpoint(folder / f"{name}.weights", {}, {"reader": reader.state_dict()})
        head = ReaderHeader(
            arm.readout, asdict(effort), sizes, base.encoder.name, base.encoder.fingerprint
        )
        save_head(reader, folder / f"{name}.safetensors", head)
    reader.eval()
    numbers = base.questions.measured(_score(reader, images, captions))
    return base.result(name, {**numbers, "fit": fit_numbers}, steps=effort.steps, loss=loss)


def _fit_numbers(reader: Reader, pool: Pool, held_out: int, device: str) -> dict[str, float]:
    learned_rows, held_rows = pool.rows(0, held_out), pool.rows(len(pool) - held_out, len(pool))
    return {
        **_shares("learned", reader, learned_rows, device),
        **_shares("held", reader, held_rows, device),
    }


def _shares(name: str, reader: Reader, rows: Pool, device: str) -> dict[str, float]:
    """Return the accuracy over all negatives, and of relations against their opposites."""
    shares = {name: accuracy(reader, rows, device=device)}
    if rows.negative_NK.shape[1] > 1 and len(stated := rows.only(RELATION)):
        shares[f"{name} relation"] = accuracy(reader, stated, device=device)
    return shares


_PAIRS = 4_096


def _score(reader: Reader, images: TokenFeatures, captions: TokenFeatures) -> Score:
    """Return a score function; a reader whose scores depend on the call scores item by item."""
    device = images.vector_NLW.device

    def select(parts: TokenFeatures, row_N: Tensor) -> TokenFeatures:
        return parts.rows(row_N).to(str(device), torch.float32)

    @torch.inference_mode()
    def by_item(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        parts, end = [], 0
        for item in items:
            rows, columns = len(item.images), len(item.captions)
            start, end = end, end + rows * columns
            at_P = torch.from_numpy(image_M[start:end:columns]).to(device)
            at_C = torch.from_numpy(caption_M[start : start + columns]).to(device)
            cells = reader.compare_all(select(images, at_P), select(captions, at_C))
            parts.append(cells.flatten())
        value_M: FloatArray = torch.cat(parts).double().cpu().numpy()
        return value_M

    @torch.inference_mode()
    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        cells = (torch.from_numpy(image_M).to(device), torch.from_numpy(caption_M).to(device))
        parts: list[Tensor] = [
            reader.compare(select(images, p), select(captions, c))
            for p, c in zip(*(torch.split(row_M, _PAIRS) for row_M in cells), strict=True)
        ]
        value_M: FloatArray = torch.cat(parts).double().cpu().numpy()
        return value_M

    return by_item if reader.depends_on_call else score


def reader_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Return groups of arms that can run in parallel, sorted by the features they read.

    An arm that takes another's weights is in its group, after it.
    """
    return families(sorted(arms, key=_sort_key), _teacher, processes=processes)


def families(
    arms: Sequence[str], teacher: Callable[[str], str], *, processes: int
) -> list[list[str]]:
    """Return one group for one process, else a group for each arm with those that depend on it."""
    if processes <= 1:
        return [list(arms)]
    groups: dict[str, list[str]] = {}
    for name in arms:
        groups.setdefault(teacher(name), []).append(name)
    return list(groups.values())


def _teacher(name: str) -> str:
    """Return the arm whose weights it takes, or itself."""
    return name if name == BEFORE else find_arm(name).taught_as or name


def _sort_key(name: str) -> tuple[bool, bool, str, bool]:
    teacher = _teacher(name)
    if teacher == BEFORE:
        return False, False, "", False
    arm = find_arm(teacher)
    return arm.is_random, arm.text, _view(arm).name, name != teacher


def _view(arm: ReaderArm) -> View:
    return arm.read_out().view(arm.effort(1))
