"""Readers of the experiment `readouts`: its arms, trained on features of frozen bases and measured.

    python -m unbag_lab readouts --bases tiny-0.safetensors tiny-1.safetensors --out runs/arms

Every reader is first trained on a few thousand fixed examples and measured on these: one that
cannot fit them says nothing about the features it reads. Batch and rate are the same for all but
the arms named `-fast` and those with many steps; the number of steps for all but these and readers
of maps. A stopped run resumes with the same command: an arm whose result is there is left alone.

Dimensions: N images or captions, M pairs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from unbag.errors import UserError, unknown_name
from unbag.models.features import View
from unbag.readouts.base import find_readout
from unbag.readouts.data import RELATION, Pool
from unbag.readouts.reader import Reader, ReaderHeader, save_head
from unbag.readouts.training import (
    ReaderEffort,
    ReaderReadout,
    ReaderTask,
    share_told_apart,
    sizes_of,
)
from unbag.training.settings import choose
from unbag.training.towers.adapters import TinyTrainable
from unbag.training.trainer import Trainer
from unbag.types import FloatArray, IntArray, Item, TokenFeatures
from unbag_lab.experiments.readout_base import (
    EXPERIMENT,
    Base,
    ReadoutSettings,
    add_options,
    finish,
    missing,
    settings_of,
)
from unbag_lab.plan import Say
from unbag_lab.questions import Questions, Score
from unbag_lab.results import BEFORE, FEW_DROPOUT, FEW_RATE, FEW_STEPS, ArmResult, result_path
from unbag_lab.scheduler import each_apart, shares
from unbag_lab.training import run_to_end

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
        return bool(asdict(self.read_out().settings).get("dropout"))

    def read_out(self) -> ReaderReadout:
        """The registered read-out."""
        found = find_readout(self.readout)
        if not isinstance(found, ReaderReadout):
            raise UserError(f"{self.readout!r} is no reader of parts")
        return found

    def effort(self, steps: int) -> ReaderEffort:
        """Its settings, with those that all share."""
        return self._chosen(steps)

    def by_heart(self, steps: int) -> ReaderEffort:
        """Likewise, of a few fixed examples: readers of patches as `_BY_HEART` says."""
        return self._chosen(steps, *(_BY_HEART if self.reads_patches else ()))

    def _chosen(self, steps: int, *also: str) -> ReaderEffort:
        asked = (*SHARED, f"steps={steps}", *self.settings, *also)
        return choose(self.read_out().settings, asked, readout=self.readout)


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


def find_arm(name: str) -> ReaderArm:
    """By name."""
    if name not in READERS:
        raise unknown_name("arm", name, READERS)
    return READERS[name]


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


def _before(base: Base) -> ArmResult:
    """The cosine that everything else is read against."""
    trainable = TinyTrainable(base.encoder, device=base.settings.device)
    trainable.module.eval()
    return base.result(BEFORE, base.questions.answers(trainable, device=base.settings.device))


def _run_arm(name: str, base: Base, folder: Path) -> ArmResult:
    arm, settings = find_arm(name), base.settings
    effort = arm.effort(settings.steps_of(arm))
    pool, pictures, captions = base.parts(arm, _view(arm))
    if arm.only_relations:
        pool = pool.only(RELATION)
    sizes, held = sizes_of(pool), pool.held_out
    device = settings.device
    if arm.taught_as:
        reader = arm.read_out().fresh(effort, sizes, seed=base.seed).to(device)
        reader.load_state_dict(_weights(folder / f"{arm.taught_as}.pt"))
        fit_numbers, loss = _fit_numbers(reader, pool, held, device), None
    else:
        few = pool.rows(0, settings.fit_rows)
        by_heart = arm.by_heart(settings.fit_steps_of(arm))
        small = arm.read_out().fresh(by_heart, sizes, seed=base.seed)
        Trainer(ReaderTask(small, few, by_heart, device=device, seed=base.seed)).run()
        can_fit = _shares("few", small, few, device)
        reader = arm.read_out().fresh(effort, sizes, seed=base.seed)
        rows = pool.rows(0, len(pool) - held)
        loss = run_to_end(Trainer(ReaderTask(reader, rows, effort, device=device, seed=base.seed)))
        fit_numbers = {
            **can_fit,
            FEW_STEPS: float(by_heart.steps),
            FEW_RATE: by_heart.learning_rate,
            **({FEW_DROPOUT: asdict(by_heart)["dropout"]} if arm.reads_patches else {}),
            **_fit_numbers(reader, pool, held, device),
        }
        torch.save(reader.state_dict(), folder / f"{name}.pt")
        head = ReaderHeader(
            arm.readout, asdict(effort), sizes, base.encoder.name, base.encoder.fingerprint
        )
        save_head(reader, folder / f"{name}.safetensors", head)
    reader.eval()
    numbers = base.questions.measured(_score(reader, pictures, captions))
    return base.result(name, {**numbers, "fit": fit_numbers}, steps=effort.steps, loss=loss)


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


_PAIRS = 4_096


def _score(reader: Reader, pictures: TokenFeatures, captions: TokenFeatures) -> Score:
    """By its parts; one whose scores depend on the call is asked item by item."""
    device = pictures.vector_NLW.device

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


def _float(parts: TokenFeatures) -> TokenFeatures:
    return parts.to(str(parts.vector_NLW.device), torch.float32)


def reader_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Those that may be run apart: all in one, if there is one process, else as many as can be.

    In one, arms that look at the same features stand together; the base itself comes first. An arm
    that takes another's weights follows it.
    """
    ordered = sorted(arms, key=_sort_key)
    if processes <= 1:
        return [ordered]
    families: dict[str, list[str]] = {}
    for name in ordered:
        families.setdefault(_teacher(name), []).append(name)
    return list(families.values())


def _teacher(name: str) -> str:
    """The arm that is taught: itself, or the one whose weights it takes."""
    return name if name == BEFORE else find_arm(name).taught_as or name


def _sort_key(name: str) -> tuple[bool, bool, str, bool]:
    teacher = _teacher(name)
    if teacher == BEFORE:
        return False, False, "", False
    arm = find_arm(teacher)
    return arm.is_random, arm.text, _view(arm).name, name != teacher


def _view(arm: ReaderArm) -> View:
    return arm.read_out().view(arm.effort(1))


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
