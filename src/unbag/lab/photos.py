"""The photo model, built and repaired: photographs with edited captions come in; arms go out.

    unbag edit --captions train.jsonl --out train-edits.jsonl   (and val likewise)
    python -m unbag.lab.photos build --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag.lab.photos repair --train train-edits.jsonl --val val-edits.jsonl --out runs/p

Every setting was fixed before the first number on val was seen. Arms of a seed take their steps on
the same batches.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from safetensors.numpy import save_file

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.lab.photos_data import (
    WHOLE_PART,
    Questions,
    Store,
    StoredPhoto,
    answers,
    make_questions,
    opened,
)
from unbag.lab.script import run_script
from unbag.models.photo import Photo, PhotoConfig, build, load, read, write
from unbag.runs.distributed import Team
from unbag.runs.files import write_atomically
from unbag.training.data.loader import Waiting
from unbag.training.data.loader import load as flow_of
from unbag.training.data.pairs import PairBatches
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
from unbag.training.towers.adapters import PhotoReads
from unbag.training.towers.base import Trainable, apply_locks

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
class Arm:
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


BUILD: Mapping[str, Arm] = MappingProxyType(
    {
        "heads": Arm(
            "", _plain("heads", locks=Locks(WHOLE_PART, WHOLE_TEXT), rate=1e-3, epochs=20)
        ),
        "text": Arm("heads", _plain("text", locks=Locks(WHOLE_PART, 0), rate=5e-5, epochs=10)),
        "both": Arm("heads", _plain("both", locks=Locks(0, 0), rate=5e-5, epochs=10)),
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


def repair_arms(base: str) -> dict[str, Arm]:
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
            found[name + suffix] = Arm(base, recipe)
    return found


@dataclass(frozen=True)
class Bench:
    """What all arms of a run share."""

    train: Pairs
    store: Store
    asked: Questions
    out: Path
    device: str
    workers: int


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
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
    bench = Bench(
        train, store, make_questions(val, store.place), given.out, given.device, given.workers
    )
    arms = dict(BUILD) if given.stage == "build" else repair_arms(given.base)
    for seed in given.seeds:
        for name in given.arms or arms:
            run_arm(name, arms[name], seed, given.stage, bench)


def run_arm(name: str, arm: Arm, seed: int, stage: str, bench: Bench) -> None:
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
    encoder: Photo, recipe: Recipe, seed: int, bench: Bench
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


if __name__ == "__main__":
    run_script(main)
