"""An order for `photos` comes in; its arms are trained on kept features, asked, and written.

Arms of a seed take their steps on the same batches. Dimensions: T triples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path

import numpy as np

from unbag.errors import UserError
from unbag.lab.arm_result import ArmResult, Extent, find_same, result_path, write_result
from unbag.lab.bases import seed_of
from unbag.lab.experiment import Experiment, Order, Say
from unbag.lab.photos import BUILD, repair_arms, take_steps
from unbag.lab.photos_collection import Collection, Seen, check_size, collection_of, look
from unbag.lab.photos_data import Questions, answers, make_questions
from unbag.lab.photos_drawn import drawn_collection, drawn_features
from unbag.lab.photos_experiment import BLIND, START
from unbag.lab.photos_table import FEWEST, SEEN_KINDS, Told, groups_of, judged
from unbag.lab.photos_wanted import edits_folder
from unbag.models.photo import load_heads, write
from unbag.runs.cache import default_cache
from unbag.runs.files import make_folder, write_atomically
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.recipes import Locks, Recipe
from unbag.training.towers.cached_features import KeptPhoto
from unbag.types import FloatArray

READER_LEARNS_FROM = 1_500
"""Photographs that a seed draws."""
BENCHMARKS = {
    "all": "photos-all",
    "seen": "photos-seen",
    "swap, seen": "photos-swap",
    "replace, seen": "photos-replace",
    "unseen": "photos-unseen",
}
"""Groups of triples, and what they are called among results."""
METRICS = {
    "original": "original",
    "augmented": "augmented",
    "brittleness": "brittleness",
    "mean c": "mean_original",
    "mean n": "mean_negative",
    "mean p": "mean_positive",
}


def run_photos(order: Order, experiment: Experiment, *, say: Say) -> None:
    """All arms of all seeds that are missing."""
    for base in order.bases:
        seed_of(base)
    bench = Bench(order, _collection(order, experiment, say), say)
    for base in order.bases:
        for arm in order.arms:
            path = result_path(order.out, experiment.name, base.stem, arm)
            wanted = _wanted(bench, experiment, base, arm)
            if find_same(wanted, path) is not None:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            bench.make_ready()
            started = time.monotonic()
            result = _blind(bench, wanted) if arm == BLIND else _trained(bench, wanted, path)
            write_result(path, replace(result, seconds=round(time.monotonic() - started, 1)))
            say(f"{base.stem}: {arm}")


@dataclass(frozen=True, eq=False)
class Bench:
    """What all arms share; features are made when the first arm asks for them."""

    order: Order
    collection: Collection
    say: Say

    @cached_property
    def seen(self) -> Seen:
        """What both parts make of everything."""
        if self.order.size == "small":
            return drawn_features(self.collection)
        return look(self.collection, cache=default_cache(), device=self.order.device, say=self.say)

    @cached_property
    def asked(self) -> Questions:
        """Of photographs that could be opened; refused where they say too little."""
        place_of = self.seen.pictures.place_of
        pairs = [pair for pair in self.collection.asked.pairs if pair.picture.name in place_of]
        has_edits = any(not edit.keeps_meaning for p in pairs for some in p.edits for edit in some)
        asked = make_questions(pairs, place_of) if has_edits else None
        groups = groups_of(_told(asked)) if asked is not None else {}
        few = [name for group, name in BENCHMARKS.items() if group not in groups]
        if asked is None or few:
            raise UserError(
                f"{len(pairs):,} photographs that are asked about have too few edits: "
                f"{', '.join(few)}",
                expected=f"at least {FEWEST} of each, of captions that have a true rewording too",
                way_out="name a larger collection with --photos",
            )
        return asked

    def make_ready(self) -> None:
        """Make what all arms share, so that none of them is charged with it."""
        assert self.asked is not None

    @property
    def told(self) -> Told:
        """Who owns what among the answers."""
        return _told(self.asked)

    def heads(self, start: Path | None, seed: int) -> KeptPhoto:
        """As a file has them, or before training."""
        return KeptPhoto(
            load_heads(start, seed=seed),
            device=self.order.device,
            pictures=self.seen.pictures,
            captions=self.seen.captions,
        )


def _told(asked: Questions) -> Told:
    photo_T = asked.triple_T4[:, 0].numpy()
    return Told(asked.owner_Q.numpy(), photo_T, asked.kinds, len(asked.place_N))


def _collection(order: Order, experiment: Experiment, say: Say) -> Collection:
    if order.size == "small":
        return drawn_collection()
    if order.photos is None:
        raise UserError(
            "no photographs were named",
            expected="a folder of your own, with captions",
            way_out="--photos FOLDER; docs/lab.md has its form. --size small needs none",
        )
    folder = edits_folder(order.out)
    make_folder(folder, what="folder for edits", way_out="name another folder with --out")
    found = collection_of(order.photos, folder, say=say)
    check_size(found, experiment.extent(START, size=order.size).batch)
    return found


def recipe_of(arm: str, extent: Extent, photographs: int) -> Recipe:
    """That of `unbag.lab.photos`, whose locks are met by not loading what they lock."""
    made = BUILD[START] if arm == START else repair_arms(START)[f"{arm}-heads"]
    epochs = ceil(extent.steps / (photographs // extent.batch))
    warm_up = min(made.recipe.warm_up, extent.steps // 3)
    return replace(made.recipe, locks=Locks(), batch=extent.batch, epochs=epochs, warm_up=warm_up)


def _wanted(bench: Bench, experiment: Experiment, base: Path, arm: str) -> ArmResult:
    order, seed = bench.order, seed_of(base)
    extent = experiment.extent(arm, size=order.size)
    return ArmResult(
        experiment=experiment.name,
        base=base.stem,
        # Arms of a seed belong together, if they are of the same photographs.
        fingerprint=f"photos-{seed}-{bench.collection.train.fingerprint[:12]}",
        arm=arm,
        steps=extent.steps,
        batch=extent.batch,
        seed=seed,
        times=extent.times,
        precision="bfloat16" if extent.steps and order.device != "cpu" else "float32",
        loss=None,
        numbers={},
        size=order.size,
    )


def _trained(bench: Bench, wanted: ArmResult, path: Path) -> ArmResult:
    """Heads from the seed, or a repair of them; the weights are written before the result."""
    device, seed = bench.order.device, wanted.seed
    start = None if wanted.arm == START else path.with_name(f"{START}.safetensors")
    if start is not None and not start.exists():
        raise UserError(
            f"{start} is not there, though its result is",
            expected="the weights that repairs go on from",
            way_out=f"remove {start.with_suffix('.json')}: the same command makes both again",
        )
    train, steps = bench.collection.train, wanted.steps
    recipe = recipe_of(wanted.arm, wanted.extent, len(train))
    trained = bench.heads(start, seed)
    loss = take_steps(trained, recipe, seed, train, device=device, steps=steps)
    weights = path.with_suffix(".safetensors")
    write_atomically(weights, partial(write, trained.module))
    # The file is asked, not the model it was written from: it has half the digits.
    found = answers(bench.heads(weights, seed), bench.asked, device=device)
    numbers = triple_means(found["scores"].astype(float), bench.told)
    recall = {
        "text_to_image@1": float(np.mean(found["caption_rank"] == 0)),
        "image_to_text@1": float(np.mean(found["picture_rank"] == 0)),
    }
    return replace(wanted, loss=loss, numbers={**numbers, "photos-retrieval": recall})


def _blind(bench: Bench, wanted: ArmResult) -> ArmResult:
    """A linear reader of caption features, told of edits of the kinds that arms are trained on."""
    train, captions = bench.collection.train.pairs, bench.seen.captions
    dice = np.random.default_rng([wanted.seed, 0])
    some = dice.permutation(len(train))[:READER_LEARNS_FROM]
    learned = [
        Contrast(place, caption, edit.text, edit.kind)
        for place in sorted(some.tolist())
        for caption, edits in zip(train[place].captions, train[place].edits, strict=True)
        for edit in edits
        if edit.kind in SEEN_KINDS
    ]
    vector_NC = captions.vector_NC
    weight_C = fit_reader(
        differences(lambda texts: vector_NC[[captions.place_of[t] for t in texts]], learned),
        [row.picture for row in learned],
    )
    value_N = (vector_NC.double() @ weight_C).numpy()
    asked = bench.asked
    place = np.array([captions.place_of[text] for text in asked.texts])
    row_T3 = asked.triple_T4[:, 1:].numpy()
    score_T3 = np.where(row_T3 < 0, np.nan, value_N[place[row_T3]])
    return replace(wanted, numbers=triple_means(score_T3, bench.told))


def triple_means(score_T3: FloatArray, told: Told) -> dict[str, Mapping[str, float]]:
    """By group of edits and metric, from scores of caption, negative and positive."""
    found: dict[str, Mapping[str, float]] = {}
    for group, is_in_T in groups_of(told).items():
        if group in BENCHMARKS:
            values = judged([score_T3], is_in_T)
            found[BENCHMARKS[group]] = {
                METRICS[name]: float(one.mean()) for name, [one] in values.items()
            }
    return found
