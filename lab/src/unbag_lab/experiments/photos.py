"""The experiment `photos`: heads on two frozen parts, trained on a user's own photographs.

Both pretrained parts are frozen, so their features of photographs and captions are computed once
and arms take minutes on a CPU. The arms are heads, repairs of them, and a linear reader of captions
alone. Of a base only the seed in its name is used; arms of a seed train on the same batches.

    FOLDER/captions.jsonl: {"image": "images/1.jpg", "captions": ["...", "..."]}

The captions are edited once, and a tenth of the photographs is held out for measuring. Small runs
use a drawn collection with random features instead. Dimensions: T triples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import combinations, product
from math import ceil
from pathlib import Path

import numpy as np
import torch

from unbag.data import PixelImage
from unbag.data.captions import Source
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import form_of, open_pairs
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.errors import UnbagError, unknown_name
from unbag.models.photo import WIDE, WORDS_WIDE, check_parts, load, load_heads
from unbag.runs.cache import VECTOR, FeatureTable, default_cache
from unbag.runs.files import make_folder
from unbag.runs.progress import Silent
from unbag.training.before_after import differences, fit_reader
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.cached_features import CachedEncoders, image_table, text_table
from unbag.training.recipes import Freeze, Recipe
from unbag.types import Edit, FloatArray
from unbag_lab.bases import seed_of
from unbag_lab.claims import PHOTOGRAPHS, ArmKey, Claim
from unbag_lab.experiments.photos_training import (
    BUILD,
    FEWEST,
    METRICS,
    READER_LEARNS_FROM,
    PhotoQuestions,
    answers,
    drawable_texts,
    groups_of,
    make_questions,
    repair_arms,
    seen_edits,
    train_to,
    triple_values,
)
from unbag_lab.experiments.repair_training import PUBLISHED_REPAIRS
from unbag_lab.plan import Experiment, Order, Request, Say
from unbag_lab.results import ArmResult, Extent, Size, find_same, result_path, write_result
from unbag_lab.training import precision_of

NAME = "photos"
START, BLIND = "heads", "blind"
REPAIRS = tuple(PUBLISHED_REPAIRS)
_EXTENTS = {START: Extent(180, 512, 1), BLIND: Extent(0, 0, 1)}
_REPAIRED = Extent(190, 256, 1)
"""The same steps for any number of photographs: 20 and 10 epochs of five thousand."""
_SMALL_STEPS = 3
_SECONDS = 30.0
"""Estimated seconds of an arm on one CPU core."""


@dataclass(frozen=True)
class PhotosExperiment:
    """Arms on the user's own photographs; see `unbag_lab.plan.Experiment`."""

    name: str = NAME
    reads_bases: bool = False
    on_processor: bool = True
    most_processes: int = 1
    about: str = "heads on two frozen parts, on photographs: repairs, and a reader of captions"
    arms: tuple[str, ...] = (START, *REPAIRS, BLIND)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Return the heads of the seed, from which repairs continue."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        return ((self.name, START),) if arm in REPAIRS else ()

    def seconds(self, arm: str) -> float:
        """Estimate the seconds on one core, without features."""
        self.needs(arm)
        return _SECONDS

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent, for any number of photographs; the blind reader takes no steps."""
        self.needs(arm)
        extent = _EXTENTS.get(arm, _REPAIRED)
        return extent if size == "full" or arm == BLIND else Extent(_SMALL_STEPS, 64, 1)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order resumes an interrupted run."""
        for arm in order.arms:
            self.needs(arm)
        for base in order.bases:
            seed_of(base)
        if order.size == "small":
            collection = drawn_collection()
        elif order.photos is None:
            raise _no_photographs("--photos is missing")
        else:
            folder = edits_folder(order.out)
            make_folder(folder, what="folder for edits", hint="name another folder with --out")
            collection = collection_of(order.photos, folder, say=say)
            check_size(collection, self.extent(START, size=order.size).batch_size)
        bench = Bench(order, collection, say)
        for base in order.bases:
            for arm in order.arms:
                path = result_path(order.out, self.name, base.stem, arm)
                unmeasured = _wanted(bench, self, base, arm)
                if find_same(unmeasured, path) is not None:
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                # Compute what all arms share first: no arm's time includes it.
                assert bench.asked is not None
                started = time.monotonic()
                result = (
                    _blind(bench, unmeasured) if arm == BLIND else _train(bench, unmeasured, path)
                )
                write_result(path, replace(result, seconds=round(time.monotonic() - started, 1)))
                say(f"{base.stem}: {arm}")


PHOTOS = PhotosExperiment()

BENCHMARKS = {
    "all": "photos-all",
    "seen": "photos-seen",
    "swap, seen": "photos-swap",
    "replace, seen": "photos-replace",
    "unseen": "photos-unseen",
}
"""Groups of triples, and their names in results."""


@dataclass(frozen=True, eq=False)
class Bench:
    """What all arms share; features are computed on first use."""

    order: Order
    collection: Collection
    say: Say

    @cached_property
    def seen(self) -> PhotoFeatures:
        """The features of all images and captions."""
        if self.order.size == "small":
            return drawn_features(self.collection)
        return look(self.collection, cache=default_cache(), device=self.order.device, say=self.say)

    @cached_property
    def asked(self) -> PhotoQuestions:
        """Questions about held-out photographs; raises UnbagError if there are too few edits."""
        place_of = self.seen.images.row_of
        pairs = [pair for pair in self.collection.held_out.pairs if pair.image.name in place_of]
        has_edits = any(
            not edit.is_positive for pair in pairs for edits in pair.edits for edit in edits
        )
        questions = make_questions(pairs, place_of) if has_edits else None
        groups = groups_of(questions.kinds) if questions is not None else {}
        missing_groups = [name for group, name in BENCHMARKS.items() if group not in groups]
        if questions is None or missing_groups:
            raise UnbagError(
                f"{len(pairs):,} held-out photographs have too few edits: "
                f"{', '.join(missing_groups)}",
                expected=f"at least {FEWEST} of each, of captions that also have a true rewording",
                hint="name a larger collection with --photos",
            )
        return questions

    def heads(self, start: Path | None, seed: int) -> CachedEncoders:
        """Load heads from a file, or initialize them."""
        network = make_trainable(load_heads(start, seed=seed), device=self.order.device)
        return CachedEncoders(network, images=self.seen.images, texts=self.seen.captions)


def recipe_of(arm: str, extent: Extent, photographs: int) -> Recipe:
    """Return the recipe of `photos_training` without `freeze`: the frozen parts are not loaded."""
    arm_of_heads = BUILD[START] if arm == START else repair_arms(START)[f"{arm}-heads"]
    epochs = ceil(extent.steps / (photographs // extent.batch_size))
    warmup_steps = min(arm_of_heads.recipe.warmup_steps, extent.steps // 3)
    return replace(
        arm_of_heads.recipe,
        freeze=Freeze(),
        batch_size=extent.batch_size,
        epochs=epochs,
        warmup_steps=warmup_steps,
    )


def _wanted(bench: Bench, experiment: Experiment, base: Path, arm: str) -> ArmResult:
    order, seed = bench.order, seed_of(base)
    extent = experiment.extent(arm, size=order.size)
    return ArmResult(
        experiment=experiment.name,
        base=base.stem,
        # Arms of a seed can be compared if they use the same photographs.
        fingerprint=f"photos-{seed}-{bench.collection.train.fingerprint[:12]}",
        arm=arm,
        steps=extent.steps,
        batch_size=extent.batch_size,
        seed=seed,
        times=extent.times,
        precision=precision_of(order.device if extent.steps else "cpu"),
        loss=None,
        numbers={},
        size=order.size,
    )


def _train(bench: Bench, unmeasured: ArmResult, path: Path) -> ArmResult:
    """Train heads from the seed, or a repair of them; writes the weights before the result."""
    device, seed = bench.order.device, unmeasured.seed
    start = None if unmeasured.arm == START else path.with_name(f"{START}.safetensors")
    if start is not None and not start.exists():
        raise UnbagError(
            f"the weights {start} are missing, but their result exists",
            expected="the weights from which repairs continue",
            hint=f"remove {start.with_suffix('.json')}: the same command makes both again",
        )
    train, steps = bench.collection.train, unmeasured.steps
    recipe = recipe_of(unmeasured.arm, unmeasured.extent, len(train))
    trained = bench.heads(start, seed)
    weights = path.with_suffix(".safetensors")
    loss = train_to(weights, trained, recipe, seed, train, device=device, steps=steps)
    # Measure the saved file, which has half precision, not the model in memory.
    replies = answers(bench.heads(weights, seed), bench.asked, device=device)
    numbers = triple_means(replies["scores"].astype(float), bench.asked.kinds)
    recall = {
        "text_to_image@1": float(np.mean(replies["caption_rank"] == 0)),
        "image_to_text@1": float(np.mean(replies["image_rank"] == 0)),
    }
    return replace(unmeasured, loss=loss, numbers={**numbers, "photos-retrieval": recall})


def _blind(bench: Bench, unmeasured: ArmResult) -> ArmResult:
    """Fit a linear reader of caption features on the kinds of edits that arms are trained on."""
    train, captions = bench.collection.train.pairs, bench.seen.captions
    dice = np.random.default_rng([unmeasured.seed, 0])
    order_N = dice.permutation(len(train))[:READER_LEARNS_FROM]
    learned = seen_edits((place, train[place]) for place in sorted(order_N.tolist()))
    vector_NC = captions.vectors
    weight_C = fit_reader(
        differences(lambda texts: vector_NC[[captions.row_of[t] for t in texts]], learned),
        [row.image for row in learned],
    )
    value_N = (vector_NC.double() @ weight_C).numpy()
    questions = bench.asked
    place = np.array([captions.row_of[text] for text in questions.texts])
    row_T3 = questions.triple_T4[:, 1:].numpy()
    score_T3 = np.where(row_T3 < 0, np.nan, value_N[place[row_T3]])
    return replace(unmeasured, numbers=triple_means(score_T3, questions.kinds))


def triple_means(
    score_T3: FloatArray, kinds: Sequence[tuple[str, str]]
) -> dict[str, Mapping[str, float]]:
    """Return metrics by group of edits, from scores of caption, negative and positive."""
    numbers: dict[str, Mapping[str, float]] = {}
    for group, is_in_T in groups_of(kinds).items():
        if group in BENCHMARKS:
            values = triple_values([score_T3], is_in_T)
            numbers[BENCHMARKS[group]] = {
                METRICS[name]: float(value_T.mean()) for name, [value_T] in values.items()
            }
    return numbers


CAPTIONS = "captions.jsonl"


def split_photo_claims(request: Request, names: Sequence[str]) -> tuple[Request, tuple[Claim, ...]]:
    """Split off claims about photographs; raises UnbagError if they were named explicitly."""
    photo_claims = tuple(claim for claim in request.claims if claim.where == PHOTOGRAPHS)
    named_photos = [
        name for name in names if name == NAME or name in {claim.name for claim in photo_claims}
    ]
    if named_photos:
        raise _no_photographs(f"{', '.join(named_photos)}: --photos is missing")
    claims = tuple(claim for claim in request.claims if claim not in photo_claims)
    return replace(
        request, claims=claims, arms=tuple(a for a in request.arms if a[0] != NAME)
    ), photo_claims


def _no_photographs(what: str) -> UnbagError:
    return UnbagError(
        what,
        expected="a folder with your own photographs and captions; the package has none",
        hint="--photos FOLDER; lab/docs/index.md describes its format. --size small needs none",
    )


def edits_folder(out: Path) -> Path:
    """Return the folder for edits of captions in a run folder."""
    return out / "photographs"


def captions_file(path: Path) -> Path:
    """Return the file of captions in a folder, or the file itself."""
    file = path / CAPTIONS if path.is_dir() else path
    if not file.is_file():
        raise UnbagError(
            f"there is no file {file}",
            expected=f"a folder with {CAPTIONS}, or a file of captions beside its images",
            hint="check the path of --photos; lab/docs/index.md describes the format of a line",
        )
    return file


APART = 10
"""One of this many photographs is held out for measuring."""
_EDITS = "edits.jsonl"


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """Pairs in memory; see `unbag.data.pairs.Pairs`."""

    pairs: tuple[Pair, ...]
    about: str
    fingerprint: str
    has_edits: bool = True

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.pairs)

    def __getitem__(self, place: int) -> Pair:
        """Return a pair by index."""
        return self.pairs[place]


@dataclass(frozen=True, eq=False)
class Collection:
    """Photographs with edited captions, split into two parts."""

    train: ListedPairs
    held_out: ListedPairs


@dataclass(frozen=True, eq=False)
class PhotoFeatures:
    """The features of a collection."""

    images: FeatureTable
    captions: FeatureTable


def collection_of(captions: Path, folder: Path, *, say: Say) -> Collection:
    """Edit the captions of a folder or file, write the edits to `folder`, and split the pairs."""
    check_parts()
    file = captions_file(captions)
    say(f"edits of {file.name}")
    pairs = edited_pairs(file, folder)
    all_pairs = tuple(pairs[place] for place in range(len(pairs)))
    return split_pairs(all_pairs, about=pairs.about, fingerprint=pairs.fingerprint)


def check_collection(captions: Path, folder: Path) -> None:
    """Raise UnbagError if `folder` has edits of other captions."""
    if (folder / _EDITS).exists():
        edited_pairs(captions_file(captions), folder)


def edited_pairs(file: Path, folder: Path) -> Pairs:
    """Edit the captions of a file, or read existing edits."""
    edits = folder / _EDITS
    try:
        run_edit(EditJob(Source(str(file), form_of(str(file), "the captions file")), edits))
        return open_pairs(str(edits), images=file.parent)
    except UnbagError as error:
        # Replace hints about the options of other commands.
        hint = error.hint
        if "--out" in hint:
            hint = f"name another folder with --out, or remove {folder} if no arm was run yet"
        elif "--" in hint or not hint:
            hint = f"correct {file}; lab/docs/index.md describes the format of a line"
        expected = error.expected.partition(", or the name of another field")[0]
        raise UnbagError(error.message, expected=expected, hint=hint) from error


def split_pairs(pairs: Sequence[Pair], *, about: str, fingerprint: str) -> Collection:
    """Split pairs by a hash of the image file, so that copies of an image are in one part."""
    train: list[Pair] = []
    held_out: list[Pair] = []
    for pair in pairs:
        digest = blake2b(pair.image.key.encode(), digest_size=6).digest()
        (train if int.from_bytes(digest, "big") % APART else held_out).append(pair)
    parts = (ListedPairs(tuple(part), about, fingerprint) for part in (train, held_out))
    return Collection(*parts)


def check_size(collection: Collection, batch_size: int) -> None:
    """Raise UnbagError if there is no full batch, or no held-out photograph."""
    if len(collection.train) < batch_size or not collection.held_out.pairs:
        count = len(collection.train) + len(collection.held_out)
        raise UnbagError(
            f"{count:,} photographs are too few: {len(collection.train):,} are left for training",
            expected=f"at least {batch_size:,} for training, better thousands",
            hint="name a larger collection with --photos",
        )


def look(collection: Collection, *, cache: Path | None, device: str, say: Say) -> PhotoFeatures:
    """Compute the features of all images and texts; cached in a folder."""
    model = load("random", device=device)
    pairs = (*collection.train.pairs, *collection.held_out.pairs)
    texts = dict.fromkeys(drawable_texts(collection.train.pairs))
    for pair in collection.held_out.pairs:
        texts.update(dict.fromkeys(pair.captions))
        texts.update((edit.text, None) for edits in pair.edits for edit in edits)
    say(f"features of {len(pairs):,} photographs and {len(texts):,} captions and edits")
    images = image_table(model, [pair.image for pair in pairs], cache, Silent())
    return PhotoFeatures(images, text_table(model, tuple(texts), cache, Silent()))


_NOUNS = ("dog", "boy", "ball", "horse", "car", "bird", "girl", "boat", "man", "cup", "tree")
_COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey")


def drawn_collection() -> Collection:
    """Return a collection of generated captions, each with an image of one pixel."""
    pairs = []
    for number, ((first, second), colour) in enumerate(product(combinations(_NOUNS, 2), _COLOURS)):
        caption = f"the {colour} {first} and the big {second}"
        edits = (
            Edit(f"the {colour} {second} and the big {first}", "swap_nouns", False, (0, 0)),
            Edit(f"the pink {first} and the big {second}", "replace_colour", False, (0, 0)),
            Edit(f"no {colour} {first} and no big {second}", "negate", False, (0, 0)),
            Edit(f"the {colour} {first} and the large {second}", "synonym", True, (0, 0)),
        )
        dot = np.array([[(*divmod(number, 256), 0)]], dtype=np.uint8)
        pairs.append(Pair(str(number), PixelImage(dot, str(number)), (caption,), (edits,)))
    return split_pairs(pairs, about="drawn", fingerprint="drawn")


def drawn_features(collection: Collection) -> PhotoFeatures:
    """Return random features, the same each time."""
    pairs = (*collection.train.pairs, *collection.held_out.pairs)
    texts = [text for pair in pairs for text in pair.captions]
    texts += [edit.text for pair in pairs for edits in pair.edits for edit in edits]
    images = [pair.image.name for pair in pairs]
    return PhotoFeatures(
        _drawn_table(images, WIDE), _drawn_table(list(dict.fromkeys(texts)), WORDS_WIDE)
    )


def _drawn_table(names: list[str], width: int) -> FeatureTable:
    dice = np.random.default_rng(width)
    vector_NC = torch.from_numpy(dice.standard_normal((len(names), width), dtype=np.float32))
    return FeatureTable({name: row for row, name in enumerate(names)}, {VECTOR: vector_NC})
