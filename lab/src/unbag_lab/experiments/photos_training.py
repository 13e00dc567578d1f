"""The arms on photographs: how they are trained, and what is asked of all of them.

    unbag edit --captions train.jsonl --out train-edits.jsonl   (and val likewise)
    python -m unbag_lab photos build --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag_lab photos repair --train train-edits.jsonl --val val-edits.jsonl --out runs/p

The script builds the photo model and repairs it, also with parts open that the experiment `photos`
leaves frozen. Every setting was fixed before the first number on val was seen. Arms of a seed take
their steps on the same batches. Pixels and features of all photographs lie on the device, so that
an epoch of five thousand opens no file.

Dimensions: N photographs, Q captions, T triples.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional

from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.models.photo import Photo, PhotoConfig, build, load, read, write
from unbag.runs.files import write_atomically
from unbag.training.data.pairs import PairBatches
from unbag.training.fine_tuning import FineTuning, TrainJob
from unbag.training.recipes import (
    Locks,
    Recipe,
    Slot,
    clip_ft,
)
from unbag.training.towers.adapters import PhotoReads, PhotoTrainable
from unbag.training.towers.base import Trainable
from unbag.training.trainer import Trainer
from unbag.types import Edit, Picture
from unbag_lab.experiments.repair_training import PUBLISHED_REPAIRS
from unbag_lab.training import run_to_end

WHOLE_PART = 18
"""Layers of the picture tower before its head."""
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
SEEN_KINDS = frozenset(kind for slot in SEEN for kind in slot.kinds)
SEEN_POSITIVE_KINDS = frozenset(kind for slot in SEEN_POSITIVES for kind in slot.kinds)
READER_LEARNS_FROM = 1_500
"""Photographs whose captions a reader without images is trained on."""
_AT_ONCE = 512


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
        "text": PhotosArm(
            "heads", _plain("text", locks=Locks(WHOLE_PART, 0), rate=5e-5, epochs=10)
        ),
        "both": PhotosArm("heads", _plain("both", locks=Locks(0, 0), rate=5e-5, epochs=10)),
    }
)


def repair_arms(base: str) -> dict[str, PhotosArm]:
    """Each loss with all open, with the picture part locked, and with both parts locked."""
    found = {}
    parts = {"": (0, 0), "-locked": (WHOLE_PART, 0), "-heads": (WHOLE_PART, WHOLE_TEXT)}
    for suffix, (picture, caption) in parts.items():
        # Heads alone learn little at the rate of towers.
        rate = 3e-4 if caption else 5e-5
        for name, loss in PUBLISHED_REPAIRS.items():
            recipe = _plain(
                name + suffix, locks=Locks(picture, caption), rate=rate, epochs=10, batch=256
            )
            recipe = replace(
                recipe, objective=loss.objective, negatives=SEEN, positives=SEEN_POSITIVES
            )
            found[name + suffix] = PhotosArm(base, recipe)
    return found


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
    job = TrainJob(
        trainable,
        PairBatches(pairs, recipe, trainable.reads, seed),
        recipe,
        out=Path(),
        # Of dropout: the same for all seeds, as results that ship were made.
        seed=0,
        device=device,
        precision="float32" if device == "cpu" else "bfloat16",
        workers=workers,
    )
    task = FineTuning(job)
    if steps is not None:
        task.optimizer = replace(task.optimizer, steps=steps)
    return run_to_end(Trainer(task)) or 0.0


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


def drawable_texts(pairs: Sequence[Pair]) -> Iterator[str]:
    """Every string that an arm may draw in training."""
    for pair in pairs:
        yield from pair.captions
        edits = (edit for some in pair.edits for edit in some)
        yield from (edit.text for edit in edits if edit.kind in SEEN_KINDS | SEEN_POSITIVE_KINDS)


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


@dataclass(frozen=True)
class TrainingBench:
    """What all arms of a run share."""

    train: Pairs
    store: Store
    asked: PhotoQuestions
    out: Path
    device: str
    workers: int


def opened(pairs: Pairs, *, limit: int | None = None) -> tuple[Pair, ...]:
    """All pairs, or the first of them; a few thousand fit in memory unpacked."""
    return tuple(pairs[at] for at in range(min(len(pairs), limit or len(pairs))))


def run_arm(name: str, arm: PhotosArm, seed: int, stage: str, bench: TrainingBench) -> None:
    """Train, write the weights, ask, write the answers; what is there already is left alone."""
    folder = bench.out / stage / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    answered = folder / f"{name}.answers"
    if answered.exists():
        return
    start = bench.out / "build" / str(seed) / f"{arm.start}.safetensors"
    encoder = start_of(start if arm.start else None, seed, bench.device)
    recipe, locks, device = arm.recipe, arm.recipe.locks, bench.device
    is_locked = locks.picture == WHOLE_PART
    trainable = StoredPhoto(encoder, bench.store, device=device, is_part_locked=is_locked)
    started = time.monotonic()
    loss = take_steps(trainable, recipe, seed, bench.train, device=device, workers=bench.workers)
    seconds = time.monotonic() - started
    parts = [part for part in ("picture", "caption") if not getattr(locks, part)]
    write_atomically(folder / f"{name}.safetensors", partial(write, trainable.module, parts=parts))
    found = answers(trainable, bench.asked, device=device)
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
