"""Training of a reader: the read-out that a reader makes, its run in a folder, its steps, its file.

A reader learns on frozen features that are computed once. An interrupted run resumes from the
checkpoint in its folder and ends with the same weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unbag.errors import UserError, said_by
from unbag.models.features import View
from unbag.models.shipped import more_ships
from unbag.models.weights import seeded
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.composites import composite_pool, composites
from unbag.readouts.data import Pool, RowOrder, mixed, pool_of, rows_of, world_pool, world_rows
from unbag.readouts.reader import (
    FILE,
    LAST,
    Reader,
    ReaderHeader,
    Sizes,
    load_reader,
    read_head,
    save_head,
    shipped_reader,
    told_apart,
)
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.reports.cards import ReaderCard, render_reader_card
from unbag.runs.checkpoint import load_optimizer_state, optimizer_state
from unbag.runs.distributed import Team
from unbag.runs.files import (
    check_run_folder,
    explain_full_disk,
    locked_folder,
    make_folder,
    remove_leftovers,
    write_atomically,
    write_text,
)
from unbag.runs.progress import Progress, stops_gently
from unbag.training.optim import Recorded, decay_groups, lr_factor, set_lr
from unbag.training.repair import WORLD, Where
from unbag.training.settings import choose
from unbag.types import DualEncoder, Scorer

if TYPE_CHECKING:
    from unbag.models.loading import Model

CARD = "README.md"
_HELD = 0.1
"""Share of the rows that no step sees, for the numbers of the card."""
_MOST_HELD = 2_000
_LOOK = 50
"""Steps after which the loss is read: asking a GPU for a number makes it wait."""
_HEADER = "unbag_reader_training"
WEIGHT, MOMENT = "weight.", "moment."
"""Before the names of tensors in a checkpoint."""


@dataclass(frozen=True)
class ReaderReadout:
    """A reader under the name by which it is trained and scored."""

    name: str
    settings: ReaderEffort
    """The defaults; their fields are what --set can change."""
    view: Callable[[Any], View]
    """How a reader with these settings looks at an encoder."""
    build: Callable[[Any, Sizes], Reader]
    """A fresh reader for settings and sizes, its first weights drawn from torch's generator."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On frozen parts that are computed once; the same job goes on where it stopped."""
        settings = choose(self.settings, job.settings, readout=self.name)
        encoder = encoder_of(job.model, self.name)
        return train_reader(
            self.name,
            job,
            settings,
            encoder,
            view=self.view(settings),
            fresh=partial(self.fresh, settings, seed=job.seed),
            progress=progress,
        )

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One, of a folder; without a folder the one that is shipped for the model, if any is."""
        encoder = encoder_of(model, self.name)
        place = folder or shipped_reader(self.name, encoder)
        if place is None:
            raise UserError(
                f"the read-out {self.name!r} scores with a trained reader, and none is named",
                expected=f"--scorer {self.name}@FOLDER",
                way_out=f"`unbag train --recipe {self.name} ...` makes one: docs/readouts.md"
                + more_ships(),
            )
        reader, _ = load_reader(
            place, encoder, readout=self.name, settings=type(self.settings), build=self.build
        )
        kind = ItemReaderScorer if reader.depends_on_call else ReaderScorer
        return [kind(encoder, reader, name=named(encoder, self.name, folder))]

    def fresh(self, settings: ReaderEffort, sizes: Sizes, *, seed: int) -> Reader:
        """With first weights of a seed."""
        with seeded(seed):
            return self.build(settings, sizes)


@dataclass(frozen=True)
class ReaderEffort:
    """How long and how fast a reader learns; read-outs add settings of their own."""

    steps: int = 2_000
    batch: int = 256
    """Pictures of a step."""
    crowd: int = 32
    """Pictures and captions that are told apart at a time; each picture has its negatives beside
    them."""
    learning_rate: float = 1e-3
    warm_up: int = 100
    weight_decay: float = 0.01
    negatives: bool = True
    """Whether hard negatives of the pairs are used."""
    scenes: int = 20_000
    """Of the world, where it is trained on that."""
    opposites: bool = False
    """Of the world: pairs of scenes that are each other's opposite, side by side in a batch."""


def encoder_of(model: Model, name: str) -> DualEncoder:
    """The dual encoder whose parts are read."""
    if isinstance(model, DualEncoder):
        return model
    inner = getattr(model, "encoder", None)
    if isinstance(inner, DualEncoder):
        return inner
    raise UserError(
        f"the read-out {name!r} reads patches and words, and {model.name!r} shows none",
        expected="a dual encoder: tiny:, open_clip:, hf: or photo:",
        way_out="name another with --model",
    )


def named(encoder: DualEncoder, readout: str, folder: Path | None) -> str:
    """As tables show it: whoever forgets the folder sees that it is not their own reader."""
    return f"{encoder.name}+{readout}{'' if folder else ' (shipped)'}"


def train_reader(
    name: str,
    job: ReadoutJob,
    settings: ReaderEffort,
    encoder: DualEncoder,
    *,
    view: View,
    fresh: Callable[[Sizes], Reader],
    progress: Progress,
) -> ReadoutTrained:
    """Parts once, then steps; an interrupted run resumes from its last checkpoint."""
    check_effort(settings)
    check_folder(job.out, what="a reader", made=FILE)
    make_folder(job.out, what="folder of the run", way_out="name another folder with --out")
    taken = UserError(
        f"another process trains in {job.out}",
        way_out="wait until it is done, or name another folder with --out",
    )
    with locked_folder(job.out, taken), explain_full_disk(job.out):
        remove_leftovers(job.out)
        where = job.where or Where()
        pool = _make_pool(job, settings, encoder, view, where, progress)
        progress.say(f"data: {pool.about}")
        sizes = sizes_of(pool)
        held = held_rows(pool)
        device = encoder.device
        fit = Fit(
            fresh(sizes),
            pool.rows(0, len(pool) - held).near(device),
            settings,
            device=device,
            seed=job.seed,
        )
        asked = _asked(name, job, settings, encoder, pool)
        path, seconds = job.out / LAST, 0.0
        if path.exists():
            seconds = restore(path, fit, asked)
            progress.say(f"going on after step {fit.step} of {settings.steps}")
        seconds = _take_steps(
            fit, path, asked, progress, minutes=where.save_minutes, before=seconds
        )
        if fit.step < settings.steps:
            return ReadoutTrained(job.out, is_done=False)
        head = ReaderHeader(name, asdict(settings), sizes, encoder.name, encoder.fingerprint)
        save_head(fit.reader, job.out / FILE, head)
        # Numbers are those of the weights as they were rounded for the file.
        fit.reader.load_state_dict(read_head(job.out / FILE)[1])
        learned, kept, count = _numbers(fit, pool, held)
        card = ReaderCard(
            readout=name,
            called=job.called or name,
            model=job.spec,
            fingerprint=encoder.fingerprint,
            settings=asdict(settings),
            data=pool.about,
            rows=len(pool) - held,
            held=held,
            seed=job.seed,
            seconds=seconds,
            device=device,
            weights=sum(w.numel() for w in fit.reader.parameters()),
            learned=learned,
            kept=kept,
            kept_count=count,
        )
        write_text(job.out / CARD, render_reader_card(card))
        return ReadoutTrained(job.out, is_done=True, lines=card.lines(job.out))


def _make_pool(
    job: ReadoutJob,
    settings: ReaderEffort,
    encoder: DualEncoder,
    view: View,
    where: Where,
    progress: Progress,
) -> Pool:
    """Of the world, of opposite scenes of it, or of pairs in files."""
    wanted = job.pairs
    if wanted.path == WORLD and settings.opposites:
        twos = composites(settings.scenes // 2, seed=job.seed)
        return composite_pool(encoder, view, twos, progress=progress)
    if wanted.path == WORLD:
        scenes = world_rows(
            settings.scenes, seed=job.seed, workers=where.workers, progress=progress
        )
        return world_pool(encoder, view, scenes, progress=progress)
    pairs = wanted.opened()
    if not pairs.has_edits:
        progress.say(
            "the pairs have no edits, so that a reader learns to tell pictures apart and nothing "
            "about word order; `unbag edit` makes hard negatives"
        )
    rows = mixed(rows_of(pairs, progress=progress))
    return pool_of(rows, encoder, view, cache=where.cache, progress=progress, about=pairs.about)


def _take_steps(
    fit: Fit, path: Path, asked: str, progress: Progress, *, minutes: float, before: float
) -> float:
    """To the end, or until somebody stops it; gives the seconds, those before included."""
    began = saved = perf_counter()
    left = fit.effort.steps - fit.step
    with (
        stops_gently(Team()) as stopping,
        progress.task(f"training {fit.reader.name}", max(0, left)) as advance,
    ):

        def on_step(taken: ReaderStep) -> bool:
            nonlocal saved
            advance(1)
            if perf_counter() - saved > 60 * minutes or stopping.agreed():
                saved = perf_counter()
                save(path, fit, asked, seconds=before + saved - began)
            return stopping.agreed()

        fit.run(on_step)
    seconds = before + (perf_counter() - began if left > 0 else 0)
    save(path, fit, asked, seconds=seconds)
    return seconds


def _asked(
    name: str, job: ReadoutJob, settings: ReaderEffort, encoder: DualEncoder, pool: Pool
) -> str:
    """All that decides the weights; two runs of one folder must agree on it."""
    said = {
        "read-out": name,
        "model": f"{encoder.name} {encoder.fingerprint}",
        "settings": asdict(settings),
        "data": pool.fingerprint,
        "seed": job.seed,
    }
    return json.dumps(said, sort_keys=True)


def _numbers(fit: Fit, pool: Pool, held: int) -> tuple[float | None, float | None, int]:
    """Share of captions above all their negatives: of rows trained on, of others, and how many."""
    if not (pool.negative_NK >= 0).any():
        return None, None, 0
    device = fit.device
    seen = pool.rows(0, min(len(pool) - held, _MOST_HELD))
    learned = share_told_apart(fit.reader, seen, device=device)
    rest = pool.rows(len(pool) - held, len(pool))
    count = int((rest.negative_NK >= 0).any(dim=1).sum())
    kept = share_told_apart(fit.reader, rest, device=device) if count else None
    return learned, kept, count


def sizes_of(pool: Pool) -> Sizes:
    """Of the features in a pool."""
    return Sizes(
        patches=pool.picture.vector_NLW.shape[1],
        picture_width=pool.picture.vector_NLW.shape[2],
        caption_width=pool.caption.vector_NLW.shape[2],
    )


def held_rows(pool: Pool) -> int:
    """How many rows at the end of the pool are kept from training; whole groups."""
    held = min(_MOST_HELD, int(_HELD * len(pool)))
    cut = len(pool) - (held - held % pool.group)
    while 0 < cut < len(pool) and _are_together(pool, cut - 1, cut):
        cut += pool.group
    return max(0, len(pool) - cut)


def _are_together(pool: Pool, row: int, other: int) -> bool:
    """Whether both are of one picture, or of two whose captions are each other's edits."""
    before, after = (pool.picture_N == pool.picture_N[at] for at in (row, other))
    if before[other]:
        return True
    return all(
        bool(torch.isin(pool.caption_N[own], pool.negative_NK[rest]).any())
        for own, rest in ((before, after), (after, before))
    )


def share_told_apart(reader: Reader, pool: Pool, *, device: str, batch: int = 256) -> float:
    """Share of pictures whose caption is above all of its negatives; a tie is a miss.

    On the pool it was trained on this says whether the reader can learn at all: a reader that
    cannot fit a few thousand fixed examples says nothing about the features.
    """
    reader.eval()
    has_any = (pool.negative_NK >= 0).any(dim=1).nonzero().flatten()
    if not len(has_any):
        raise UserError("no caption of the pool has a negative", expected="at least one")
    found = [
        told_apart(reader, pool.batch(rows, device=device)) for rows in torch.split(has_any, batch)
    ]
    return float(torch.cat(found).float().mean())


class Fit:
    """A reader in training. Everything of a step depends on (pool, effort, seed, step) alone."""

    def __init__(
        self, reader: Reader, pool: Pool, effort: ReaderEffort, *, device: str, seed: int = 0
    ) -> None:
        """Raises UserError where nothing can be learned."""
        check_effort(effort)
        _check_pool(pool, effort)
        self.reader = reader.to(device)
        self.pool, self.effort, self.device, self.seed = pool, effort, device, seed
        self.order = RowOrder(pool, batch=effort.batch, seed=seed)
        weights = {n: w for n, w in reader.named_parameters() if w.requires_grad}
        is_recorded = device.startswith("cuda")
        rate = effort.learning_rate
        self.optimiser = torch.optim.AdamW(
            decay_groups(weights, effort.weight_decay),
            lr=torch.tensor(rate, device=device) if is_recorded else rate,
            capturable=is_recorded,
            fused=is_recorded,
        )
        self._recorded: Recorded | None = None
        self._row_B = torch.zeros(0, dtype=torch.int64)
        self.step = 0
        """Steps that were taken."""

    def take_step(self) -> Tensor:
        """One more; gives the loss, on the device."""
        effort = self.effort
        self.reader.train()
        share = lr_factor(self.step, steps=effort.steps, warmup_steps=effort.warm_up)
        set_lr(self.optimiser, effort.learning_rate * share)
        row_B = self.order(self.step)
        # Dropout of a step is the same whether the run was stopped before it or not.
        seed = self.seed * 1_000_003 + self.step
        if self._recorded is None and self._can_record(row_B):
            self._row_B = row_B.clone()
            with _drawing(self.device, seed):
                self._recorded = Recorded(
                    lambda: {"loss": self._learn(self._row_B)}, self.optimiser, device=self.device
                )
        with _drawing(self.device, seed):
            if self._recorded is None:
                loss = self._learn(row_B)
            else:
                self._row_B.copy_(row_B)
                loss = self._recorded()["loss"]
        self.step += 1
        return loss

    def go_on_after(self, step: int) -> None:
        """Weights and moments are those after a step; a recording knew where the old ones lay."""
        self.step, self._recorded = step, None

    def _learn(self, row_B: Tensor) -> Tensor:
        batch = self.pool.batch(row_B, device=self.device, with_negatives=self.effort.negatives)
        loss = self.reader.loss(batch, crowd=self.effort.crowd)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _can_record(self, row_B: Tensor) -> bool:
        """On a GPU that holds the pool: batches that are copied to it cannot be recorded."""
        return self.device.startswith("cuda") and self.pool.caption_N.is_cuda and row_B.is_cuda

    def run(self, on_step: Callable[[ReaderStep], bool] | None = None) -> None:
        """To the last step, or until `on_step` says True: somebody stopped it."""
        while self.step < self.effort.steps:
            loss = self.take_step()
            is_read = self.step % _LOOK == 0 or self.step == self.effort.steps
            value = float(loss) if is_read else None
            if value is not None and not torch.isfinite(loss):
                raise UserError(
                    f"the loss of {self.reader.name} became {value} at step {self.step}",
                    expected="a finite number",
                    way_out="a smaller rate: --set learning_rate=1e-4",
                )
            if on_step is not None and on_step(ReaderStep(self.step, value)):
                break
        self.reader.eval()


@dataclass(frozen=True)
class ReaderStep:
    """A step that was taken."""

    step: int
    loss: float | None
    """None where it was not read."""


def check_effort(effort: ReaderEffort) -> None:
    """Raise UserError for numbers that no data could make sense of."""
    least = {"steps": 1, "batch": 1, "crowd": 1, "scenes": 2, "warm_up": 0}
    for name, bound in least.items():
        if getattr(effort, name) < bound:
            raise UserError(f"{name}={getattr(effort, name)}", expected=f"at least {bound}")
    if not effort.learning_rate > 0 or effort.weight_decay < 0:
        raise UserError(
            f"learning_rate={effort.learning_rate} weight_decay={effort.weight_decay}",
            expected="a rate above 0 and a decay of at least 0",
        )


def _check_pool(pool: Pool, effort: ReaderEffort) -> None:
    """Refuse a pool from which nothing can be learned."""
    if len(pool) < 2:
        raise UserError(f"{len(pool)} pictures to train on", expected="at least two, to tell apart")
    if effort.crowd == 1 and not (effort.negatives and pool.negative_NK.shape[1]):
        raise UserError(
            "a crowd of one and no hard negatives: there is nothing to tell a caption from",
            expected="a larger crowd, or pairs with edits",
            way_out="--set crowd=32, or `unbag edit` on the captions first",
        )


@contextmanager
def _drawing(device: str, seed: int) -> Iterator[None]:
    """Draws of a seed inside, and generators as they were behind it.

    What `torch.random.fork_rng` and `torch.manual_seed` do for every device and library, in a
    hundredth of a step: states of generators lie in the memory of the processor.
    """
    every = [torch.default_generator]
    if device.startswith("cuda"):
        at = torch.device(device).index
        every.append(
            torch.cuda.default_generators[torch.cuda.current_device() if at is None else at]
        )
    before = [one.get_state() for one in every]
    for one in every:
        one.manual_seed(seed)
    try:
        yield
    finally:
        for one, state in zip(every, before, strict=True):
            one.set_state(state)


@dataclass(frozen=True)
class ReadoutStanding:
    """Where a training stands."""

    step: int
    asked: str
    """All that decides the weights, as JSON."""
    seconds: float = 0.0
    """Spent so far."""


def save(path: Path, fit: Fit, asked: str, *, seconds: float = 0.0) -> None:
    """Weights, moments, the step and the seconds so far."""
    tensors = {f"{WEIGHT}{name}": value for name, value in fit.reader.state_dict().items()}
    moments = optimizer_state(dict(fit.reader.named_parameters()), fit.optimiser)
    tensors |= {f"{MOMENT}{name}": value for name, value in moments.items()}
    write_standing(path, tensors, ReadoutStanding(fit.step, asked, seconds))


def restore(path: Path, fit: Fit, asked: str) -> float:
    """Put back what `save` wrote and give the seconds; refused where something else was asked."""
    standing, tensors = read_standing(path, asked, what="a reader")
    fit.reader.load_state_dict(under(WEIGHT, tensors))
    load_optimizer_state(dict(fit.reader.named_parameters()), fit.optimiser, under(MOMENT, tensors))
    fit.go_on_after(standing.step)
    return standing.seconds


def check_folder(folder: Path, *, what: str, made: str) -> None:
    """Raise UserError, before anything is computed, unless such a training began there or can.

    The checkpoint comes first of all that a training writes; `made` is what its end writes, and
    without a checkpoint nothing says how it was made.
    """
    if (folder / LAST).exists():
        _read(folder / LAST, what=what, with_tensors=False)
    elif (folder / made).exists():
        raise trained_already(folder, what=what)
    else:
        check_run_folder(folder, f"training of {what}")


def trained_already(folder: Path, *, what: str) -> UserError:
    """The error for a folder whose training came to its end."""
    return UserError(
        f"{folder} holds a trained {what.removeprefix('a ')}",
        expected="an empty folder, or one of a run that was stopped",
        way_out="name another folder with --out",
    )


def write_standing(path: Path, tensors: Mapping[str, Tensor], standing: ReadoutStanding) -> None:
    """In one file that is whole or old."""
    # Copied, since safetensors refuses weights that two names share.
    apart = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    header = {_HEADER: json.dumps(asdict(standing))}
    write_atomically(path, lambda temporary: save_file(apart, temporary, metadata=header))


def read_standing(
    path: Path, asked: str, *, what: str
) -> tuple[ReadoutStanding, dict[str, Tensor]]:
    """What `write_standing` wrote; refused where something else was asked for."""
    standing, tensors = _read(path, what=what)
    if standing.asked != asked:
        raise other_run(path.parent, json.loads(standing.asked), json.loads(asked))
    return standing, tensors


def _read(
    path: Path, *, what: str, with_tensors: bool = True
) -> tuple[ReadoutStanding, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            standing = ReadoutStanding(**json.loads((file.metadata() or {})[_HEADER]))
            names = file.keys() if with_tensors else ()
            return standing, {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not a checkpoint of {what}: {said_by(error)}",
            expected="what an earlier run with the same --out wrote",
            way_out="name another folder with --out, or delete it",
        ) from error


def under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def other_run(folder: Path, found: Mapping[str, Any], asked: Mapping[str, Any]) -> UserError:
    """Says the first thing that differs, a setting by its own name."""
    known, wanted = _flat(found), _flat(asked)
    differ = [key for key in {**wanted, **known} if known.get(key) != wanted.get(key)]
    first = differ[0]
    more = f" (and {', '.join(differ[1:])})" if differ[1:] else ""
    return UserError(
        f"{folder} holds a run with another {first}{more}: {known.get(first, 'none')}",
        expected=f"{wanted.get(first, 'none')}",
        way_out="name another folder with --out, or ask for what that run was asked for",
    )


def _flat(said: Mapping[str, Any]) -> dict[str, object]:
    plain = {key: value for key, value in said.items() if key != "settings"}
    return {**plain, **said.get("settings", {})}
