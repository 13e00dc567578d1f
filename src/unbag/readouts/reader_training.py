"""A job and a fresh reader come in; a trained reader in a folder goes out, with its card."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import torch

from unbag.engine.atomic import locked_folder, make_folder, remove_leftovers, write_text
from unbag.engine.full_disk import told_when_full
from unbag.engine.progress import Progress
from unbag.engine.team import Team
from unbag.errors import UserError
from unbag.readouts.composites import composite_pool, composites
from unbag.readouts.fit import Effort, Fit, Taken, check_effort, share_told_apart
from unbag.readouts.head import FILE, LAST, Head, Sizes, read_head, save_head
from unbag.readouts.parts import View
from unbag.readouts.pool import Pool
from unbag.readouts.pool_pairs import mixed, pool_of, rows_of
from unbag.readouts.pool_world import world_pool, world_rows
from unbag.readouts.reader import Reader
from unbag.readouts.reader_card import ReaderCard, render
from unbag.readouts.reader_checkpoint import check_folder, restore, save
from unbag.readouts.readout import ReadoutJob, ReadoutTrained
from unbag.train.repair import WORLD, Where
from unbag.train.stopping import stops_gently
from unbag.types import DualEncoder

CARD = "README.md"
_HELD = 0.1
"""Share of the rows that no step sees, for the numbers of the card."""
_MOST_HELD = 2_000


def train_reader(
    name: str,
    job: ReadoutJob,
    settings: Effort,
    encoder: DualEncoder,
    *,
    view: View,
    fresh: Callable[[Sizes], Reader],
    progress: Progress,
) -> ReadoutTrained:
    """Parts once, then steps; a run that was stopped goes on from its last checkpoint."""
    check_effort(settings)
    check_folder(job.out, what="a reader", made=FILE)
    make_folder(job.out, what="folder of the run", way_out="name another folder with --out")
    taken = UserError(
        f"another process trains in {job.out}",
        way_out="wait until it is done, or name another folder with --out",
    )
    with locked_folder(job.out, taken), told_when_full(job.out):
        remove_leftovers(job.out)
        where = job.where or Where()
        pool = _pool(job, settings, encoder, view, where, progress)
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
        head = Head(name, asdict(settings), sizes, encoder.name, encoder.fingerprint)
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
        write_text(job.out / CARD, render(card))
        return ReadoutTrained(job.out, is_done=True, lines=card.lines(job.out))


def sizes_of(pool: Pool) -> Sizes:
    """Of the features in a pool."""
    return Sizes(
        patches=pool.picture.part_NLW.shape[1],
        picture_width=pool.picture.part_NLW.shape[2],
        caption_width=pool.caption.part_NLW.shape[2],
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


def _pool(
    job: ReadoutJob,
    settings: Effort,
    encoder: DualEncoder,
    view: View,
    where: Where,
    progress: Progress,
) -> Pool:
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

        def on_step(taken: Taken) -> bool:
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


def _asked(name: str, job: ReadoutJob, settings: Effort, encoder: DualEncoder, pool: Pool) -> str:
    """All that decides the weights; two runs of one folder must agree on it."""
    said = {
        "read-out": name,
        "model": f"{encoder.name} {encoder.fingerprint}",
        "settings": asdict(settings),
        "data": pool.fingerprint,
        "seed": job.seed,
    }
    return json.dumps(said, sort_keys=True)
