"""Edited photographs come in; order precision and mixed weights of repaired heads go out.

    python -m unbag_lab photos-heads --train train-edits.jsonl --val val-edits.jsonl
        --out runs/heads --cache features --numbers photo_heads.json

The arms of `unbag_lab photos-heads` that leave both parts as they are installed, so their features are
computed once and no GPU is needed. The same command goes on after a stop.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional

from unbag.benchmarks.aro import options_of
from unbag.benchmarks.taggers import find_tagger, tags_of
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.edits.shuffles import SHUFFLES, Tagger, spaced
from unbag.metrics.intervals import bootstrap, generator
from unbag.models.baselines import load_likelihood
from unbag.models.photo import Photo, PhotoConfig, build, load, read, write
from unbag.runs.distributed import Team
from unbag.runs.files import write_atomically
from unbag.runs.progress import Silent
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.data.loader import Waiting
from unbag.training.data.loader import load as flow_of
from unbag.training.data.pairs import PairBatches
from unbag.training.merge import interpolate, state_of
from unbag.training.optim import change_weights, make_optimiser
from unbag.training.recipes import (
    Locks,
    Recipe,
    Slot,
    ce_clip_fixed,
    clip_ft,
    hard_negative,
    hard_positive,
    neg_clip,
)
from unbag.training.step import Plan, add_gradient
from unbag.training.towers.adapters import PhotoReads, PhotoTrainable
from unbag.training.towers.base import Trainable, apply_locks
from unbag.training.towers.cached_features import Features, KeptPhoto, caption_table, picture_table
from unbag.types import Edit, FloatArray, IntArray, Picture
from unbag_lab.verdict import interval

# NOTE lab.photos_data
# Photographs with captions and edits come in; what arms are trained on and asked goes out.
#
# Pixels and features of all photographs lie on the device, so that an epoch of five thousand opens
# no
# file. Dimensions: N photographs, Q captions, T triples.

_AT_ONCE = 512
WHOLE_PART = 18
"""Layers of the picture tower before its head."""


def opened(pairs: Pairs, *, limit: int | None = None) -> tuple[Pair, ...]:
    """All pairs, or the first of them; a few thousand fit in memory unpacked."""
    return tuple(pairs[at] for at in range(min(len(pairs), limit or len(pairs))))


class Store:
    """All photographs of some collections, prepared, on the device."""

    def __init__(self, pairs: Sequence[Pair], reads: PhotoReads, *, device: str) -> None:
        pictures = [pair.picture for pair in pairs]
        self.place = {picture.name: at for at, picture in enumerate(pictures)}
        with ThreadPoolExecutor(16) as pool:
            prepared = list(pool.map(lambda one: reads.prepare(one.open()), pictures))
        self.pixels = torch.stack(prepared).to(device)
        self.feature: Tensor | None = None

    def look(self, encoder: Photo) -> None:
        """Features of the part as it is installed, for arms that leave it so."""
        parts = [
            encoder.picture_features((self.pixels[at : at + _AT_ONCE].float() - 127.0) / 128.0)
            for at in range(0, len(self.pixels), _AT_ONCE)
        ]
        self.feature = torch.cat(parts).to(self.pixels.device)


class StoredReads(PhotoReads):
    """A picture is its place in the store."""

    def __init__(self, tokenizer: Any, place: dict[str, int]) -> None:
        super().__init__(tokenizer)
        self._place = place

    def kept(self, picture: Picture) -> Tensor:
        """Nothing is opened."""
        return torch.tensor(self._place[picture.name])


class StoredPhoto(PhotoTrainable):
    """Towers that take places of a store; with `is_part_locked` they start from its features."""

    def __init__(self, encoder: Photo, store: Store, *, device: str, is_part_locked: bool) -> None:
        super().__init__(encoder, device=device)
        self.store = store
        self.is_part_locked = is_part_locked
        self.reads = StoredReads(encoder.tokenizer, store.place)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N] to unit vectors [N, D]."""
        if self.is_part_locked:
            assert self.store.feature is not None
            vector_ND = self.module.picture.head(self.store.feature[pixels])
            return functional.normalize(vector_ND.float(), dim=-1)
        return super().embed_pictures(self.store.pixels[pixels])


@dataclass(frozen=True, eq=False)
class PhotoQuestions:
    """What is asked of every arm: all captions of all photographs, and their edits."""

    place_N: Tensor
    texts: tuple[str, ...]
    """Every caption and edit once."""
    caption_Q: Tensor
    """Texts that are captions, and whose."""
    owner_Q: Tensor
    triple_T4: Tensor
    """Photograph, caption, negative, positive, as rows; -1 where there is no positive."""
    kinds: tuple[tuple[str, str], ...]
    """Of the negative and the positive of each triple."""


def make_questions(pairs: Sequence[Pair], place: Mapping[str, int]) -> PhotoQuestions:
    """A triple for every negative of a caption, with the positive that a hash chooses."""
    row: dict[str, int] = {}
    captions, triples, kinds = [], [], []
    for at, pair in enumerate(pairs):
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            number = row.setdefault(caption, len(row))
            captions.append((number, at))
            kept = [edit for edit in edits if edit.keeps_meaning]
            for edit in edits:
                if edit.keeps_meaning:
                    continue
                other = _chosen(kept, edit.text)
                positive = row.setdefault(other.text, len(row)) if other else -1
                triples.append((at, number, row.setdefault(edit.text, len(row)), positive))
                kinds.append((edit.kind, other.kind if other else ""))
    said = torch.tensor(captions)
    place_N = torch.tensor([place[pair.picture.name] for pair in pairs])
    return PhotoQuestions(
        place_N, tuple(row), said[:, 0], said[:, 1], torch.tensor(triples), tuple(kinds)
    )


def _chosen(edits: Sequence[Edit], text: str) -> Edit | None:
    if not edits:
        return None
    return edits[int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % len(edits)]


@torch.inference_mode()
def answers(trainable: Trainable, asked: PhotoQuestions, *, device: str) -> dict[str, Any]:
    """Ranks of both directions and scores of every triple, as arrays of a few bytes each."""
    trainable.module.eval()
    picture_ND = trainable.embed_pictures(asked.place_N.to(device)).float()
    parts = []
    for at in range(0, len(asked.texts), _AT_ONCE):
        inputs = trainable.reads.tokenize(asked.texts[at : at + _AT_ONCE])
        parts.append(trainable.embed_captions({k: v.to(device) for k, v in inputs.items()}))
    text_ND = torch.cat(parts).float()
    score_QN = text_ND[asked.caption_Q.to(device)] @ picture_ND.T
    own_Q = score_QN.gather(1, asked.owner_Q.to(device)[:, None])
    rank_Q = (score_QN > own_Q).sum(dim=1)
    is_own_QN = asked.owner_Q.to(device)[:, None] == torch.arange(len(picture_ND), device=device)
    best_N = torch.where(is_own_QN, score_QN, -torch.inf).max(dim=0).values
    rank_N = ((score_QN > best_N) & ~is_own_QN).sum(dim=0)
    t = asked.triple_T4.to(device)
    scores = [
        torch.where(t[:, k] < 0, torch.nan, (picture_ND[t[:, 0]] * text_ND[t[:, k]]).sum(dim=1))
        for k in (1, 2, 3)
    ]
    return {
        "caption_rank": rank_Q.cpu().numpy().astype(np.int16),
        "picture_rank": rank_N.cpu().numpy().astype(np.int16),
        "scores": torch.stack(scores, dim=1).cpu().numpy().astype(np.float32),
    }


# NOTE lab.photos
# The photo model, built and repaired: photographs with edited captions come in; arms go out.
#
#     unbag edit --captions train.jsonl --out train-edits.jsonl   (and val likewise)
#     python -m unbag_lab photos build --train train-edits.jsonl --val
# val-edits.jsonl --out runs/p
#     python -m unbag_lab photos repair --train train-edits.jsonl --val
# val-edits.jsonl --out runs/p
#
# Every setting was fixed before the first number on val was seen. Arms of a seed take their steps
# on
# the same batches.


WHOLE_TEXT = 7
"""Layers of the caption tower before its head."""
SEEN: tuple[Slot, ...] = (
    Slot(
        "swap",
        ("swap_nouns", "swap_adjectives", "swap_phrases", "swap_arguments", "swap_attributes"),
    ),
    Slot("relation", ("replace_relation", "above_below", "front_behind", "inside_outside")),
    Slot("attribute", ("replace_colour", "replace_material", "replace_size")),
    Slot("object", ("replace_noun",)),
)
"""Negatives of all arms. Numbers, actions, states, sides, antonyms and denials are left out, so
that they show what carries over."""
SEEN_POSITIVES: tuple[Slot, ...] = (Slot("positive", ("synonym", "conjunct_swap")),)


@dataclass(frozen=True)
class PhotosArm:
    """One way to train."""

    start: str
    """The arm it starts from; empty for heads before training."""
    recipe: Recipe


def _plain(name: str, *, locks: Locks, rate: float, epochs: int, batch: int = 512) -> Recipe:
    return replace(
        clip_ft(),
        name=name,
        source="fixed before the first run",
        epochs=epochs,
        batch=batch,
        learning_rate=rate,
        weight_decay=0.1,
        warm_up=50,
        locks=locks,
    )


BUILD: Mapping[str, PhotosArm] = MappingProxyType(
    {
        "heads": PhotosArm(
            "", _plain("heads", locks=Locks(WHOLE_PART, WHOLE_TEXT), rate=1e-3, epochs=20)
        ),
        "text": PhotosArm("heads", _plain("text", locks=Locks(WHOLE_PART, 0), rate=5e-5, epochs=10)),
        "both": PhotosArm("heads", _plain("both", locks=Locks(0, 0), rate=5e-5, epochs=10)),
    }
)
_LOSSES: Mapping[str, Recipe] = MappingProxyType(
    {
        one.name: one
        for one in (
            clip_ft(),
            neg_clip(hard_pictures=False),
            hard_negative(),
            hard_positive(),
            ce_clip_fixed(),
        )
    }
)


def repair_arms(base: str) -> dict[str, PhotosArm]:
    """Each loss with all open, with the picture part locked, and with both parts locked."""
    found = {}
    parts = {"": (0, 0), "-locked": (WHOLE_PART, 0), "-heads": (WHOLE_PART, WHOLE_TEXT)}
    for suffix, (picture, caption) in parts.items():
        # Heads alone learn little at the rate of towers.
        rate = 3e-4 if caption else 5e-5
        for name, loss in _LOSSES.items():
            recipe = _plain(
                name + suffix, locks=Locks(picture, caption), rate=rate, epochs=10, batch=256
            )
            recipe = replace(
                recipe, objective=loss.objective, negatives=SEEN, positives=SEEN_POSITIVES
            )
            found[name + suffix] = PhotosArm(base, recipe)
    return found


@dataclass(frozen=True)
class TrainingBench:
    """What all arms of a run share."""

    train: Pairs
    store: Store
    asked: PhotoQuestions
    out: Path
    device: str
    workers: int


def photos_script() -> None:
    """Build the photo model and repair it on photographs with edited captions."""
    parser = argparse.ArgumentParser(description=photos_script.__doc__)
    parser.add_argument("stage", choices=("build", "repair"))
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--pictures", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", help="default: all")
    parser.add_argument("--base", choices=tuple(BUILD), default="heads", help="what is repaired")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--limit", type=int, help="photographs of val, to try it")
    given = parser.parse_args()
    train = open_pairs(given.train, pictures=given.pictures)
    val = opened(open_pairs(given.val, pictures=given.pictures), limit=given.limit)
    encoder = load("random", device=given.device)
    store = Store([*opened(train), *val], PhotoReads(encoder.tokenizer), device=given.device)
    store.look(encoder)
    bench = TrainingBench(
        train, store, make_questions(val, store.place), given.out, given.device, given.workers
    )
    arms = dict(BUILD) if given.stage == "build" else repair_arms(given.base)
    for seed in given.seeds:
        for name in given.arms or arms:
            run_arm(name, arms[name], seed, given.stage, bench)


def run_arm(name: str, arm: PhotosArm, seed: int, stage: str, bench: TrainingBench) -> None:
    """Train, write the weights, ask, write the answers; what is there already is left alone."""
    folder = bench.out / stage / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    answered = folder / f"{name}.answers"
    if answered.exists():
        return
    start = bench.out / "build" / str(seed) / f"{arm.start}.safetensors"
    encoder = start_of(start if arm.start else None, seed, bench.device)
    trainable, loss, seconds = train_arm(encoder, arm.recipe, seed, bench)
    locks = arm.recipe.locks
    parts = [part for part in ("picture", "caption") if not getattr(locks, part)]
    write_atomically(folder / f"{name}.safetensors", partial(write, trainable.module, parts=parts))
    found = answers(trainable, bench.asked, device=bench.device)
    said = {"arm": name, "seed": seed, "start": arm.start, "loss": loss, "seconds": seconds}
    (folder / f"{name}.json").write_text(json.dumps(said) + "\n", encoding="utf-8")
    write_atomically(answered, partial(save_file, found))
    recalls = [100 * float(np.mean(found[key] == 0)) for key in ("caption_rank", "picture_rank")]
    print(
        f"{stage} {seed} {name}: loss {loss:.3f}, R@1 text to image {recalls[0]:.1f}, "
        f"image to text {recalls[1]:.1f}, {seconds:.0f} s",
        flush=True,
    )


def start_of(path: Path | None, seed: int, device: str = "cpu") -> Photo:
    """The weights in a file, or heads before training."""
    if path is not None:
        return read(path, name=path.stem, device=device)
    return build({}, PhotoConfig(), name="start", device=device, seed=seed)


def train_arm(
    encoder: Photo, recipe: Recipe, seed: int, bench: TrainingBench
) -> tuple[StoredPhoto, float, float]:
    """All steps; gives the last loss and the seconds."""
    is_locked = recipe.locks.picture == WHOLE_PART
    trainable = StoredPhoto(encoder, bench.store, device=bench.device, is_part_locked=is_locked)
    started = time.monotonic()
    loss = take_steps(
        trainable, recipe, seed, bench.train, device=bench.device, workers=bench.workers
    )
    return trainable, loss, time.monotonic() - started


def take_steps(
    trainable: Trainable,
    recipe: Recipe,
    seed: int,
    pairs: Pairs,
    *,
    device: str = "cpu",
    workers: int = 0,
    steps: int | None = None,
) -> float:
    """The first steps of a recipe, or all, in bfloat16 on a GPU; gives the last loss."""
    apply_locks(trainable, recipe.locks)
    optimiser = make_optimiser(trainable, recipe)
    batches = PairBatches(pairs, recipe, trainable.reads, seed)
    plan = Plan(
        recipe=recipe,
        team=Team(),
        device=device,
        precision="float32" if device == "cpu" else "bfloat16",
        find_truth=batches.find_truth,
    )
    rule = recipe.objective.threshold
    threshold_K = rule.first(len(recipe.negatives)).to(device) if rule else None
    loss = torch.zeros(())
    flow = flow_of(batches, first=0, workers=workers, device=device, waiting=Waiting())
    steps = len(batches) if steps is None else steps
    for step, batch in zip(range(steps), flow, strict=False):
        taken = add_gradient(trainable, batch, plan, step=step, threshold_K=threshold_K)
        threshold_K = taken.threshold_K
        change_weights(trainable, optimiser, recipe, step=step, steps=steps)
        loss = taken.losses.total.detach()
    return loss.item()


# NOTE lab.photos_table
# Answers of photo arms come in; numbers by seed, with intervals, and tables go out.
#
#     python -m unbag_lab photos-table runs/photos --val val-edits.jsonl --out
# arms.json
#     python -m unbag_lab photos-table arms.json
#
# An interval is a bootstrap over photographs of the mean over seeds; a difference is paired within
# seeds and has Student's interval over them. Dimensions: N photographs, S seeds, T triples.


SEEN_KINDS = frozenset(kind for slot in SEEN for kind in slot.kinds)
SEEN_POSITIVE_KINDS = frozenset(kind for slot in SEEN_POSITIVES for kind in slot.kinds)
FEWEST = 20
"""Triples of a group, below which its numbers are not shown."""
CONTROL = "clip_ft"
ARMS = ("neg_clip", "hard_negative", "hard_positive", "ce_clip_fixed")
LOCKED = {
    "": "All open",
    "-locked": "Picture part locked",
    "-heads": "Both parts locked, heads open",
}
RECALLS = ("text to image R@1", "text to image R@5", "image to text R@1", "image to text R@5")
SHOWN = (
    "text to image R@1", "image to text R@1", "swap, seen: original", "swap, seen: augmented",
    "swap, seen: brittleness", "replace, seen: original", "replace, seen: augmented",
    "replace, seen: brittleness", "unseen: original", "unseen: augmented", "unseen: brittleness",
)  # fmt: skip
"""Columns of the tables, in percent."""


@dataclass(frozen=True)
class ArmNumber:
    """One metric of one arm."""

    arm: str
    metric: str
    by_seed: tuple[float, ...]
    low: float
    """Over photographs, of the mean over seeds."""
    high: float
    n: int
    """Units: captions, photographs or triples."""

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.by_seed)


@dataclass(frozen=True, eq=False)
class Owners:
    """Who owns what among the answers."""

    owner_Q: IntArray
    photo_T: IntArray
    kinds: tuple[tuple[str, str], ...]
    photographs: int


def numbers_of(
    arm: str,
    answers: Sequence[Mapping[str, FloatArray]],
    told: Owners,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """Everything that is shown of an arm, or only some metrics, from the answers of its seeds."""
    found = []
    everyone = np.arange(told.photographs)
    for k in (1, 5):
        for name, key, owner in (
            ("text to image", "caption_rank", told.owner_Q),
            ("image to text", "picture_rank", everyone),
        ):
            if only is None or f"{name} R@{k}" in only:
                rank = [np.asarray(one[key] < k, dtype=float) for one in answers]
                found.append(number_of(arm, f"{name} R@{k}", rank, owner))
    scores = [one["scores"].astype(float) for one in answers]
    return found + triple_numbers(arm, scores, told, only=only)


def triple_numbers(
    arm: str, scores: Sequence[FloatArray], told: Owners, *, only: Container[str] | None = None
) -> list[ArmNumber]:
    """By kind of edit, from scores [T, 3] of each seed: caption, negative, positive."""
    return [
        number_of(arm, f"{group}: {metric}", value, told.photo_T[is_in_T])
        for group, is_in_T in groups_of(told).items()
        for metric, value in judged(scores, is_in_T).items()
        if only is None or f"{group}: {metric}" in only
    ]


def groups_of(told: Owners) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Triples with a positive, by whether their edits are of kinds that arms were trained on."""
    negative = np.array([kind for kind, _ in told.kinds])
    has_both = np.array([bool(positive) for _, positive in told.kinds])
    is_seen = np.isin(negative, list(SEEN_KINDS))
    is_swap = np.char.startswith(negative, "swap")
    knows_p = np.isin([positive for _, positive in told.kinds], list(SEEN_POSITIVE_KINDS))
    groups = {
        "all": has_both,
        "seen": has_both & is_seen,
        "swap, seen": has_both & is_seen & is_swap,
        "replace, seen": has_both & is_seen & ~is_swap,
        "unseen": has_both & ~is_seen,
        "positive seen": has_both & knows_p,
        "positive unseen": has_both & ~knows_p,
    }
    kinds = {f"kind {kind}": has_both & (negative == kind) for kind in sorted(set(negative))}
    return {name: is_in for name, is_in in (groups | kinds).items() if is_in.sum() >= FEWEST}


def judged(
    scores: Sequence[FloatArray], is_in_T: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> dict[str, list[FloatArray]]:
    """As `unbag.metrics.triples` judges; a tie is wrong."""
    parts = [one[is_in_T].T for one in scores]
    return {
        "original": [np.asarray(c > n, dtype=float) for c, n, _ in parts],
        "augmented": [np.asarray((c > n) & (p > n), dtype=float) for c, n, p in parts],
        "brittleness": [np.asarray((c > n) != (p > n), dtype=float) for c, n, p in parts],
        "mean c": [c for c, _, _ in parts],
        "mean n": [n for _, n, _ in parts],
        "mean p": [p for _, _, p in parts],
    }


def number_of(arm: str, metric: str, values: Sequence[FloatArray], owner_U: IntArray) -> ArmNumber:
    """Units of one photograph are resampled together."""
    mean_U = np.mean(values, axis=0)
    low, high, _ = bootstrap(
        mean_U,
        clusters=[str(owner) for owner in owner_U.tolist()],
        resamples=5_000,
        rng=generator(0, metric),
    )
    by_seed = tuple(round(float(one.mean()), 6) for one in values)
    return ArmNumber(arm, metric, by_seed, round(low, 6), round(high, 6), len(mean_U))


def difference(one: ArmNumber, control: ArmNumber) -> tuple[float, float]:
    """Mean and half the interval of the paired difference over seeds."""
    apart = [a - b for a, b in zip(one.by_seed, control.by_seed, strict=True)]
    return interval(apart)


def read_told(path: str, pictures: Path | None) -> Owners:
    """The same questions as `unbag_lab.experiments.photos_training` asks."""
    from unbag.data.readers import open_pairs

    pairs = opened(open_pairs(path, pictures=pictures))
    place = {pair.picture.name: at for at, pair in enumerate(pairs)}
    asked = make_questions(pairs, place)
    triple = asked.triple_T4.numpy()
    return Owners(asked.owner_Q.numpy(), triple[:, 0], asked.kinds, len(pairs))


def photos_table_script() -> None:
    """Print the tables of the photo experiment: numbers by seed, with intervals."""
    parser = argparse.ArgumentParser(description=photos_table_script.__doc__)
    parser.add_argument("results", type=Path, help="folder of arms, or the file made of it")
    parser.add_argument("--val", help="what the arms were asked about")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.results.is_dir():
        numbers = _measured(given.results, read_told(given.val, given.pictures))
    else:
        numbers = read_numbers(given.results)
    if given.out:
        write_numbers(numbers, given.out)
    print(tables(numbers))


def write_numbers(numbers: Sequence[ArmNumber], path: Path) -> None:
    """A line each."""
    rows = [json.dumps(asdict(one)) for one in numbers]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def read_numbers(path: Path) -> list[ArmNumber]:
    """What `write_numbers` wrote."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [ArmNumber(**(row | {"by_seed": tuple(row["by_seed"])})) for row in rows]


def _measured(folder: Path, told: Owners) -> list[ArmNumber]:
    from safetensors.numpy import load_file

    found = []
    for stage in ("build", "repair"):
        seeds = sorted((folder / stage).iterdir(), key=lambda path: int(path.name))
        arms = [path.stem for path in sorted(seeds[0].glob("*.answers"))]
        for arm in arms:
            answers = [load_file(seed / f"{arm}.answers") for seed in seeds]
            found += numbers_of(arm, answers, told)
    return found


def tables(numbers: Sequence[ArmNumber]) -> str:
    """Building, repair, and differences to plain fine-tuning with the same lock, in Markdown."""
    of = {(one.arm, one.metric): one for one in numbers}
    arms = list(dict.fromkeys(one.arm for one in numbers))
    built = [arm for arm in ("heads", "text", "both") if arm in arms]
    seeds = len(numbers[0].by_seed)
    parts = [
        f"Retrieval among the photographs of val, {seeds} seeds; in brackets 95 % intervals over "
        "photographs.",
        _table(built, RECALLS, lambda arm, metric: _absolute(of[arm, metric])),
    ]
    for suffix, about in LOCKED.items():
        control = f"{CONTROL}{suffix}"
        mine = [f"{name}{suffix}" for name in ARMS if f"{name}{suffix}" in arms]
        if control not in arms:
            continue
        parts += [
            f"**{about}.** Means over {seeds} seeds:",
            _table(
                ["heads", control, *mine], SHOWN, lambda arm, metric: _absolute(of[arm, metric])
            ),
            f"Difference to `{control}`, paired within seeds: mean [95 % t interval over seeds, "
            f"n = {seeds}]:",
            _table(mine, SHOWN, partial(_apart, of=of, control=control)),
        ]
    return "\n\n".join(parts)


def _table(arms: Sequence[str], metrics: Sequence[str], cell: Callable[[str, str], str]) -> str:
    head = ["arm", *metrics]
    rows = [[f"`{arm}`", *(cell(arm, metric) for metric in metrics)] for arm in arms]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _absolute(one: ArmNumber) -> str:
    return f"{100 * one.mean:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _apart(arm: str, metric: str, *, of: Mapping[tuple[str, str], ArmNumber], control: str) -> str:
    mean, half = difference(of[arm, metric], of[control, metric])
    return f"{100 * mean:+.1f} [{100 * (mean - half):+.1f}, {100 * (mean + half):+.1f}]"


# NOTE lab.photos_blind
# Edited captions come in; how far a reader that never sees a picture tells them apart goes out.
#
#     python -m unbag_lab photos-blind --train train-edits.jsonl --val
# val-edits.jsonl
#
# The reader of `unbag.training.before_after` on MiniLM's frozen features, told of kinds of edits
# that
# photo arms are trained on. What it reaches on other photographs can be had by reading alone.
# Dimensions: N pairs of texts, F features.


"""Edited captions come in; how far a reader that never sees a picture tells them apart goes out.

    python -m unbag_lab photos-blind --train train-edits.jsonl --val val-edits.jsonl

The reader of `unbag.training.before_after` on MiniLM's frozen features, told of kinds of edits that
photo arms are trained on. What it reaches on other photographs can be had by reading alone.
Dimensions: N pairs of texts, F features.
"""


def edited(
    path: str, pictures: Path | None, *, limit: int | None = None, needs_positive: bool = False
) -> list[Contrast]:
    """Negatives of all captions, or of those that have a positive too, as tables count them."""
    pairs, found = open_pairs(path, pictures=pictures), []
    for at in range(min(len(pairs), limit or len(pairs))):
        pair = pairs[at]
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            if not needs_positive or any(edit.keeps_meaning for edit in edits):
                negatives = [edit for edit in edits if not edit.keeps_meaning]
                found += [Contrast(at, caption, edit.text, edit.kind) for edit in negatives]
    return found


def share(right_N: FloatArray, rows: Sequence[Contrast], name: str) -> str:
    """Percent with an interval over photographs."""
    low, high, _ = bootstrap(
        right_N,
        clusters=[str(row.picture) for row in rows],
        resamples=5_000,
        rng=generator(0, name),
    )
    shown = f"{100 * right_N.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{name} ({len(rows):,}): {shown}"


def photos_blind_script() -> None:
    """Measure how well a reader that never sees an image tells edited captions from originals."""
    parser = argparse.ArgumentParser(description=photos_blind_script.__doc__)
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--pictures", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--limit", type=int, default=1_500, help="photographs to train on")
    given = parser.parse_args()
    read = load("random").caption_features
    train = edited(given.train, given.pictures, limit=given.limit)
    train = [row for row in train if row.kind in SEEN_KINDS]
    weight_F = fit_reader(differences(read, train), [row.picture for row in train])
    val = edited(given.val, given.pictures, needs_positive=True)
    right_N = (differences(read, val) @ weight_F > 0).double().numpy()
    groups = {
        "swap, seen": [r.kind in SEEN_KINDS and r.kind.startswith("swap") for r in val],
        "replace, seen": [r.kind in SEEN_KINDS and not r.kind.startswith("swap") for r in val],
        "unseen": [r.kind not in SEEN_KINDS for r in val],
        "all": [True] * len(val),
    }
    for name, is_in in groups.items():
        print(share(right_N[is_in], [r for r, keep in zip(val, is_in, strict=True) if keep], name))


# NOTE lab.photos_order
# Photographs with captions come in; each caption beside its shuffles, and who prefers it, go out.
#
# The four shuffles of ARO as `aro_order_flickr30k` makes them (methods.md 3.3): precision at 1
# among
# a caption and those that differ. A tie is wrong. Dimensions: Q captions, K kinds of shuffles.

PRECISION = "order: precision"
ORDER_METRICS = (PRECISION, *(f"order: {kind}" for kind in SHUFFLES))


@dataclass(frozen=True)
class Ordered:
    """A caption and its shuffles."""

    photograph: int
    texts: tuple[str, ...]
    """The caption first."""
    kinds: tuple[str, ...]

    @property
    def chance(self) -> float:
        """Of a guess."""
        return 1 / len(self.texts)


def make_ordered(pairs: Sequence[Pair], tagger: Tagger, *, seed: int = 0) -> list[Ordered]:
    """One for every caption that has another order."""
    captions = [
        (at, n, text) for at, pair in enumerate(pairs) for n, text in enumerate(pair.captions)
    ]
    tags = tags_of(tagger, [spaced(text) for *_, text in captions])
    found = []
    for (at, n, text), tagged in zip(captions, tags, strict=True):
        names = ("photographs", f"{pairs[at].id}#{n}")
        options = options_of(text, names, seed=seed, tagged=tagged)
        found.append(Ordered(at, tuple(options), tuple(options.values())))
    return [one for one in found if len(one.texts) > 1]


def order_right(
    asked: Sequence[Ordered], score: Callable[[int, Sequence[str]], Sequence[float]]
) -> dict[str, FloatArray]:
    """1 where the caption beats all its shuffles, and where it beats that of a kind; NaN: none.

    `score` is given the number of a photograph and texts.
    """
    found = {metric: np.full(len(asked), np.nan) for metric in ORDER_METRICS}
    for at, one in enumerate(asked):
        own, *others = score(one.photograph, one.texts)
        found[PRECISION][at] = own > max(others)
        for kind, other in zip(one.kinds[1:], others, strict=True):
            found[f"order: {kind}"][at] = own > other
    return found


# NOTE lab.photos_heads


HEADS: Mapping[str, PhotosArm] = MappingProxyType(
    {
        "heads": BUILD["heads"],
        **{name: arm for name, arm in repair_arms("heads").items() if name.endswith("-heads")},
    }
)
"""Arms that leave both parts as they are installed, the base first."""
ReadsTexts = Callable[[Sequence[str]], Sequence[float]]
WEIGHTS = tuple(k / 8 for k in range(9))
MIXED = "hard_negative-heads"
BLIND = "blind reader"
LIKELIHOOD = "language model"
READER_LEARNS_FROM = 1_500
"""Photographs, as in `unbag_lab.experiments.photos_training`."""


@dataclass(frozen=True, eq=False)
class HeadsBench:
    """What all arms share."""

    train: Pairs
    asked: PhotoQuestions
    ordered: tuple[Ordered, ...]
    pictures: Features
    captions: Features
    out: Path

    @property
    def told(self) -> Owners:
        """Who owns what among the answers."""
        asked = self.asked
        photo_T = asked.triple_T4[:, 0].numpy()
        return Owners(asked.owner_Q.numpy(), photo_T, asked.kinds, len(asked.place_N))

    def towers(self, encoder: Photo) -> KeptPhoto:
        """A model that starts at its heads."""
        return KeptPhoto(encoder, device="cpu", pictures=self.pictures, captions=self.captions)

    def read(self, texts: Sequence[str]) -> Tensor:
        """Features of texts."""
        return self.captions.vector_NC[[self.captions.place_of[text] for text in texts]]


def photos_heads_script() -> None:
    """Measure order precision and mixed weights of the repaired heads of the photo model."""
    parser = argparse.ArgumentParser(description=photos_heads_script.__doc__)
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--pictures", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--out", type=Path, required=True, help="for the weights of all arms")
    parser.add_argument("--cache", type=Path, help="for features")
    parser.add_argument("--numbers", type=Path, required=True)
    parser.add_argument("--language-model", help="folder or name: one more blind baseline")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=int, help="photographs of val, to try it")
    given = parser.parse_args()
    rows = edited(given.train, given.pictures, limit=READER_LEARNS_FROM)
    learned = [row for row in rows if row.kind in SEEN_KINDS]
    bench = _bench(given, learned)
    numbers = _blind(bench, learned)
    if given.language_model:
        numbers += _by_reading(LIKELIHOOD, load_likelihood(given.language_model).of, bench)
    numbers += _arms(bench, given.seeds)
    write_numbers(numbers, given.numbers)


def _bench(given: argparse.Namespace, learned: Sequence[Contrast]) -> HeadsBench:
    train = open_pairs(given.train, pictures=given.pictures)
    val = opened(open_pairs(given.val, pictures=given.pictures), limit=given.limit)
    tagger = find_tagger()
    assert tagger is not None, "two of the four shuffles need a tagger"
    ordered = tuple(make_ordered(val, tagger))
    paths = [given.out / str(seed) / f"{n}.safetensors" for seed in given.seeds for n in HEADS]
    # What is only asked about needs no features of what was trained on.
    every = () if all(path.exists() for path in paths) else opened(train)
    model, said = load("random"), Silent()
    pictures = picture_table(model, [p.picture for p in (*every, *val)], given.cache, said)
    asked = make_questions(val, pictures.place_of)
    texts = dict.fromkeys((*_read(every), *asked.texts, *(t for one in ordered for t in one.texts)))
    texts.update((text, None) for row in learned for text in (row.caption, row.negative))
    captions = caption_table(model, tuple(texts), given.cache, said)
    print(f"features of {len(pictures.place_of):,} photographs, {len(texts):,} texts", flush=True)
    return HeadsBench(train, asked, ordered, pictures, captions, given.out)


def _read(pairs: Sequence[Pair]) -> Iterator[str]:
    """Every string that an arm may draw."""
    for pair in pairs:
        yield from pair.captions
        edits = (edit for some in pair.edits for edit in some)
        yield from (edit.text for edit in edits if edit.kind in SEEN_KINDS | SEEN_POSITIVE_KINDS)


def _arms(bench: HeadsBench, seeds: Sequence[int]) -> list[ArmNumber]:
    """Heads, repairs of them, and mixes of heads with one repair."""
    by_name: dict[str, list[dict[str, FloatArray]]] = {}
    for seed in seeds:
        for name, arm in HEADS.items():
            towers = bench.towers(start_of(_trained(name, arm, seed, bench), seed))
            by_name.setdefault(name, []).append(_asked(towers, bench))
        for weight, encoder in _mixes(seed, bench):
            found = _asked(bench.towers(encoder), bench)
            by_name.setdefault(f"mix {weight:g}", []).append(found)
    return [number for name, some in by_name.items() for number in _numbers(name, some, bench)]


def _trained(name: str, arm: PhotosArm, seed: int, bench: HeadsBench) -> Path:
    """Where the weights are; what is there already is left alone."""
    path = bench.out / str(seed) / f"{name}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        start = bench.out / str(seed) / f"{arm.start}.safetensors"
        towers = bench.towers(start_of(start if arm.start else None, seed))
        loss = take_steps(towers, arm.recipe, seed, bench.train)
        write_atomically(path, partial(write, towers.module))
        print(f"{seed} {name}: loss {loss:.3f}", flush=True)
    return path


def _mixes(seed: int, bench: HeadsBench) -> Iterator[tuple[float, Photo]]:
    """One model whose weights are changed from step to step."""
    folder = bench.out / str(seed)
    model, tuned = (start_of(folder / f"{name}.safetensors", seed) for name in ("heads", MIXED))
    start, end = state_of(model.towers), state_of(tuned.towers)
    for weight in WEIGHTS:
        model.towers.load_state_dict(interpolate(start, end, weight))
        yield weight, model


@torch.inference_mode()
def _asked(towers: KeptPhoto, bench: HeadsBench) -> dict[str, FloatArray]:
    found = answers(towers, bench.asked, device="cpu")
    picture_ND = towers.embed_pictures(bench.asked.place_N)
    texts = list(dict.fromkeys(text for one in bench.ordered for text in one.texts))
    place = {text: at for at, text in enumerate(texts)}
    text_ND = towers.embed_captions(towers.reads.tokenize(texts))

    def score(photograph: int, some: Sequence[str]) -> list[float]:
        scores: list[float] = (
            text_ND[[place[text] for text in some]] @ picture_ND[photograph]
        ).tolist()
        return scores

    return found | order_right(bench.ordered, score)


def _numbers(
    name: str, some: Sequence[Mapping[str, FloatArray]], bench: HeadsBench
) -> list[ArmNumber]:
    found = numbers_of(name, some, bench.told, only=SHOWN)
    return found + _order_numbers(name, some, bench)


def _order_numbers(
    name: str, some: Sequence[Mapping[str, FloatArray]], bench: HeadsBench
) -> list[ArmNumber]:
    owner_Q = np.array([one.photograph for one in bench.ordered])
    found = []
    for metric in (key for key in some[0] if key.startswith("order: ")):
        there = np.isfinite(some[0][metric])
        values = [one[metric][there] for one in some]
        found.append(number_of(name, metric, values, owner_Q[there]))
    return found


def _blind(bench: HeadsBench, learned: Sequence[Contrast]) -> list[ArmNumber]:
    """A linear reader of the caption part's features, told of the same edits."""
    weight_F = fit_reader(differences(bench.read, learned), [row.picture for row in learned])

    def score(texts: Sequence[str]) -> list[float]:
        scores: list[float] = (bench.read(texts).double() @ weight_F).tolist()
        return scores

    return _by_reading(BLIND, score, bench)


def _by_reading(name: str, score: ReadsTexts, bench: HeadsBench) -> list[ArmNumber]:
    """The same questions to one who is given no picture; retrieval cannot be asked."""
    asked = bench.asked
    shuffles = (text for one in bench.ordered for text in one.texts)
    texts = list(dict.fromkeys((*asked.texts, *shuffles)))
    value = dict(zip(texts, score(texts), strict=True))
    value_T3 = np.array(
        [
            [np.nan if at < 0 else value[asked.texts[at]] for at in row]
            for row in asked.triple_T4[:, 1:].tolist()
        ]
    )
    found = triple_numbers(name, [value_T3], bench.told, only=SHOWN)
    right = order_right(bench.ordered, lambda _, some: [value[text] for text in some])
    return found + _order_numbers(name, [right], bench)
