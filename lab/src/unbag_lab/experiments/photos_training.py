"""The arms on photographs: how they are trained, what is asked of all of them, and their tables.

    unbag edit --captions train.jsonl --out train-edits.jsonl   (and val likewise)
    python -m unbag_lab photos build --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag_lab photos repair --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag_lab photos-table runs/p --val val-edits.jsonl --out arms.json
    python -m unbag_lab photos-table arms.json

The script `photos` builds the photo model and repairs it, also with parts open that the experiment
of this name leaves frozen. Every setting was fixed before the first number on val was seen. Arms of
a seed take their steps on the same batches. Pixels and features of all photographs lie on the
device, so that an epoch of five thousand opens no file. An interval is a bootstrap over photographs
of the mean over seeds; a difference is paired within seeds and has Student's interval over them.

Dimensions: N photographs, Q captions, S seeds, T triples.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
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
from safetensors.numpy import load_file, save_file
from torch import Tensor

from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.metrics.intervals import bootstrap, generator
from unbag.metrics.triples import triple_outcomes
from unbag.models.photo import Photo, PhotoConfig, PhotoNetwork, build, load, read, write
from unbag.reports.formatting import signed_text, with_interval
from unbag.runs.cache import VECTOR, FeatureTable
from unbag.runs.files import open_run_folder, write_atomically, write_text
from unbag.runs.identity import RunIdentity
from unbag.training.before_after import Contrast
from unbag.training.data.batch import Batch
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import PhotoReads, PhotoTrainable
from unbag.training.encoders.base import Trainable
from unbag.training.encoders.cached_features import CachedEncoders
from unbag.training.fine_tuning import FineTuning, TrainJob
from unbag.training.recipes import Freeze, Recipe, Slot, clip_ft
from unbag.training.trainer import Trainer
from unbag.types import BoolArray, FloatArray, ImageSource, IntArray
from unbag_lab.experiments.repair_training import CONTROL, PUBLISHED_REPAIRS
from unbag_lab.pages import table
from unbag_lab.training import precision_of, run_to_end, training_folder
from unbag_lab.verdict import interval

WHOLE_PART = 18
"""Layers of the image encoder before its head."""
WHOLE_TEXT = 7
"""Layers of the text encoder before its head."""
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
PHOTOS_RUN, RESUMES = "run of arms on photographs", "arms that are there stay"
"""The kind of a folder of `photos`, and what becomes of a stopped run."""
READER_LEARNS_FROM = 1_500
"""Photographs whose captions a reader without images is trained on."""
_AT_ONCE = 512


@dataclass(frozen=True)
class PhotosArm:
    """One way to train."""

    start: str
    """The arm it starts from; empty for heads before training."""
    recipe: Recipe


def _plain(name: str, *, freeze: Freeze, rate: float, epochs: int, batch_size: int = 512) -> Recipe:
    return replace(
        clip_ft(),
        name=name,
        source="fixed before the first run",
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=rate,
        weight_decay=0.1,
        warmup_steps=50,
        freeze=freeze,
    )


BUILD: Mapping[str, PhotosArm] = MappingProxyType(
    {
        "heads": PhotosArm(
            "", _plain("heads", freeze=Freeze(WHOLE_PART, WHOLE_TEXT), rate=1e-3, epochs=20)
        ),
        "text": PhotosArm(
            "heads", _plain("text", freeze=Freeze(WHOLE_PART, 0), rate=5e-5, epochs=10)
        ),
        "both": PhotosArm("heads", _plain("both", freeze=Freeze(0, 0), rate=5e-5, epochs=10)),
    }
)


def repair_arms(base: str) -> dict[str, PhotosArm]:
    """Each loss with all open, with the image part locked, and with both parts locked."""
    found = {}
    parts = {"": (0, 0), "-locked": (WHOLE_PART, 0), "-heads": (WHOLE_PART, WHOLE_TEXT)}
    for suffix, (image, caption) in parts.items():
        # Heads alone learn little at the rate of encoders.
        rate = 3e-4 if caption else 5e-5
        for name, loss in PUBLISHED_REPAIRS.items():
            recipe = _plain(
                name + suffix, freeze=Freeze(image, caption), rate=rate, epochs=10, batch_size=256
            )
            recipe = replace(
                recipe, objective=loss.objective, negatives=SEEN, positives=SEEN_POSITIVES
            )
            found[name + suffix] = PhotosArm(base, recipe)
    return found


def train_to(
    weights: Path,
    trainable: Trainable,
    recipe: Recipe,
    seed: int,
    pairs: Pairs,
    *,
    parts: Sequence[str] = (),
    device: str = "cpu",
    workers: int = 0,
    steps: int | None = None,
) -> float:
    """Take the first steps of a recipe, or all, and write the weights; gives the last loss.

    In bfloat16 on a GPU. A stopped training resumes from what is kept beside the weights.
    """
    assert isinstance(trainable.module, PhotoNetwork)
    with training_folder(weights.parent / "training" / weights.stem) as folder:
        job = TrainJob(
            trainable,
            PairBatches(pairs, recipe, trainable.reads, seed),
            recipe,
            out=folder.path,
            # Of dropout: the same for all seeds, as results that ship were made.
            seed=0,
            device=device,
            precision=precision_of(device),
            workers=workers,
        )
        task = PhotosTask(job, steps=steps)
        run_to_end(Trainer(task, save_minutes=1.0), folder)
        write_atomically(weights, partial(write, trainable.module, parts=parts))
    return task.last_loss.item()


class PhotosTask(FineTuning):
    """The first steps of a recipe. Results have the last loss, so checkpoints have it too."""

    def __init__(self, job: TrainJob, *, steps: int | None) -> None:
        super().__init__(job)
        self.optimizer = replace(self.optimizer, steps=steps or self.optimizer.steps)
        # Epochs take seconds: the clock alone says when a checkpoint is due.
        self.steps_per_epoch = None
        self.last_loss = torch.zeros(())

    def identity(self) -> dict[str, object]:
        """Also in how many steps."""
        return {**super().identity(), "steps": self.optimizer.steps}

    def gradient(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Keep its loss."""
        numbers = super().gradient(batch, step)
        self.last_loss = numbers["loss"]
        return numbers

    def extra_state(self) -> dict[str, Any]:
        """Also the last loss."""
        return {**super().extra_state(), "last_loss": self.last_loss}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` gave."""
        super().load_extra_state(state)
        self.last_loss = state["last_loss"]


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
            kept = [edit for edit in edits if edit.is_positive]
            for edit in edits:
                if edit.is_positive:
                    continue
                other = None
                if kept:
                    digest = blake2b(edit.text.encode(), digest_size=4).digest()
                    other = kept[int.from_bytes(digest, "big") % len(kept)]
                positive = row.setdefault(other.text, len(row)) if other else -1
                triples.append((at, number, row.setdefault(edit.text, len(row)), positive))
                kinds.append((edit.kind, other.kind if other else ""))
    said = torch.tensor(captions)
    place_N = torch.tensor([place[pair.image.name] for pair in pairs])
    return PhotoQuestions(
        place_N, tuple(row), said[:, 0], said[:, 1], torch.tensor(triples), tuple(kinds)
    )


def seen_edits(pairs: Iterable[tuple[int, Pair]]) -> list[Contrast]:
    """Captions beside edits of the kinds that arms are trained on, for readers without images."""
    return [
        Contrast(place, caption, edit.text, edit.kind)
        for place, pair in pairs
        for caption, edits in zip(pair.captions, pair.edits, strict=True)
        for edit in edits
        if edit.kind in SEEN_KINDS
    ]


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
    image_ND = trainable.embed_images(asked.place_N.to(device)).float()
    parts = []
    for at in range(0, len(asked.texts), _AT_ONCE):
        inputs = trainable.reads.tokenize(asked.texts[at : at + _AT_ONCE])
        parts.append(trainable.embed_texts({k: v.to(device) for k, v in inputs.items()}))
    text_ND = torch.cat(parts).float()
    score_QN = text_ND[asked.caption_Q.to(device)] @ image_ND.T
    own_Q = score_QN.gather(1, asked.owner_Q.to(device)[:, None])
    rank_Q = (score_QN > own_Q).sum(dim=1)
    is_own_QN = asked.owner_Q.to(device)[:, None] == torch.arange(len(image_ND), device=device)
    best_N = torch.where(is_own_QN, score_QN, -torch.inf).max(dim=0).values
    rank_N = ((score_QN > best_N) & ~is_own_QN).sum(dim=0)
    t = asked.triple_T4.to(device)
    scores = [
        torch.where(t[:, k] < 0, torch.nan, (image_ND[t[:, 0]] * text_ND[t[:, k]]).sum(dim=1))
        for k in (1, 2, 3)
    ]
    return {
        "caption_rank": rank_Q.cpu().numpy().astype(np.int16),
        "image_rank": rank_N.cpu().numpy().astype(np.int16),
        "scores": torch.stack(scores, dim=1).cpu().numpy().astype(np.float32),
    }


def photos_script() -> None:
    """Build the photo model and repair it on photographs with edited captions."""
    parser = argparse.ArgumentParser(description=photos_script.__doc__)
    parser.add_argument("stage", choices=("build", "repair"))
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--images", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", help="default: all")
    text = "what is repaired; one for a folder (default: %(default)s)"
    parser.add_argument("--base", choices=tuple(BUILD), default="heads", help=text)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--limit", type=int, help="photographs of val, to try it")
    given = parser.parse_args()
    train, held = (open_pairs(name, images=given.images) for name in (given.train, given.val))
    with open_run_folder(given.out, PHOTOS_RUN, resumes=RESUMES) as folder:
        identity = RunIdentity(
            train=train.fingerprint,
            val=held.fingerprint,
            limit=given.limit,
            base=given.base,
            precision=precision_of(given.device),
        )
        folder.begin(identity, {})
        val = opened(held, limit=given.limit)
        encoder = load("random", device=given.device)
        store = Store([*opened(train), *val], encoder, device=given.device)
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
    recipe, freeze, device = arm.recipe, arm.recipe.freeze, bench.device
    trainable: Trainable = StoredPhoto(encoder, bench.store, device=device)
    if freeze.image == WHOLE_PART:
        trainable = CachedEncoders(trainable, images=bench.store.features, texts=None)
    started = time.monotonic()
    sides = (("picture", freeze.image), ("caption", freeze.text))
    parts = [part for part, count in sides if not count]
    loss = train_to(
        folder / f"{name}.safetensors",
        trainable,
        recipe,
        seed,
        bench.train,
        parts=parts,
        device=device,
        workers=bench.workers,
    )
    seconds = time.monotonic() - started
    found = answers(trainable, bench.asked, device=device)
    said = {"arm": name, "seed": seed, "start": arm.start, "loss": loss, "seconds": seconds}
    write_text(folder / f"{name}.json", json.dumps(said) + "\n")
    write_atomically(answered, partial(save_file, found))
    recalls = [100 * float(np.mean(found[key] == 0)) for key in ("caption_rank", "image_rank")]
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
    """All photographs of some collections on the device: pixels, and features of the part as it is.

    Arms that leave the part so start from these.
    """

    def __init__(self, pairs: Sequence[Pair], encoder: Photo, *, device: str) -> None:
        images = [pair.image for pair in pairs]
        self.place = {image.name: at for at, image in enumerate(images)}
        reads = PhotoReads(encoder.tokenizer)
        with ThreadPoolExecutor(16) as pool:
            prepared = list(pool.map(lambda one: reads.prepare(one.open()), images))
        self.pixels = torch.stack(prepared).to(device)
        parts = [
            encoder.image_features((self.pixels[at : at + _AT_ONCE].float() - 127.0) / 128.0)
            for at in range(0, len(self.pixels), _AT_ONCE)
        ]
        self.features = FeatureTable(self.place, {VECTOR: torch.cat(parts).to(device)})


class StoredPhoto(PhotoTrainable):
    """Encoders that take places of a store."""

    def __init__(self, encoder: Photo, store: Store, *, device: str) -> None:
        super().__init__(encoder, device=device)
        self.store = store
        self.reads = StoredReads(encoder.tokenizer, store.place)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Places [N] to unit vectors [N, D]."""
        return super().embed_images(self.store.pixels[pixels])


class StoredReads(PhotoReads):
    """An image is its place in the store."""

    def __init__(self, tokenizer: Any, place: dict[str, int]) -> None:
        super().__init__(tokenizer)
        self._place = place

    def kept(self, image: ImageSource) -> Tensor:
        """Nothing is opened."""
        return torch.tensor(self._place[image.name])


FEWEST = 20
"""Triples of a group, below which its numbers are not shown."""
ARMS = tuple(name for name in PUBLISHED_REPAIRS if name != CONTROL)
LOCKED = {
    "": "All open",
    "-locked": "Image part locked",
    "-heads": "Both parts locked, heads open",
}
RECALLS = ("text to image R@1", "text to image R@5", "image to text R@1", "image to text R@5")
SHOWN = (
    "text to image R@1", "image to text R@1", "swap, seen: original", "swap, seen: augmented",
    "swap, seen: brittleness", "replace, seen: original", "replace, seen: augmented",
    "replace, seen: brittleness", "unseen: original", "unseen: augmented", "unseen: brittleness",
)  # fmt: skip
"""Columns of the tables, in percent."""


def photos_table_script() -> None:
    """Print the tables of the photo experiment: numbers by seed, with intervals."""
    parser = argparse.ArgumentParser(description=photos_table_script.__doc__)
    parser.add_argument("results", type=Path, help="folder of arms, or the file made of it")
    parser.add_argument("--val", help="what the arms were asked about")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.results.is_dir():
        pairs = opened(open_pairs(given.val, images=given.images))
        place = {pair.image.name: at for at, pair in enumerate(pairs)}
        asked = make_questions(pairs, place)
        numbers = []
        for stage in ("build", "repair"):
            folders = (given.results / stage).iterdir()
            seeds = sorted(folders, key=lambda path: int(path.name))
            for arm in [path.stem for path in sorted(seeds[0].glob("*.answers"))]:
                found = [load_file(seed / f"{arm}.answers") for seed in seeds]
                numbers += numbers_of(arm, found, asked)
    else:
        numbers = read_numbers(given.results)
    if given.out:
        write_numbers(numbers, given.out)
    print(tables(numbers))


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

    @property
    def text(self) -> str:
        """Percent with the interval."""
        return with_interval(self.mean, self.low, self.high)


def numbers_of(
    arm: str,
    answers: Sequence[Mapping[str, FloatArray]],
    asked: PhotoQuestions,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """Everything that is shown of an arm, or only some metrics, from the answers of its seeds."""
    found = []
    everyone = np.arange(len(asked.place_N))
    for k in (1, 5):
        for name, key, owner in (
            ("text to image", "caption_rank", asked.owner_Q.numpy()),
            ("image to text", "image_rank", everyone),
        ):
            if only is None or f"{name} R@{k}" in only:
                rank = [np.asarray(one[key] < k, dtype=float) for one in answers]
                found.append(number_of(arm, f"{name} R@{k}", rank, owner))
    scores = [one["scores"].astype(float) for one in answers]
    return found + triple_numbers(arm, scores, asked, only=only)


def triple_numbers(
    arm: str,
    scores: Sequence[FloatArray],
    asked: PhotoQuestions,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """By kind of edit, from scores [T, 3] of each seed: caption, negative, positive."""
    photo_T = asked.triple_T4[:, 0].numpy()
    return [
        number_of(arm, f"{group}: {metric}", value, photo_T[is_in_T])
        for group, is_in_T in groups_of(asked.kinds).items()
        for metric, value in judged(scores, is_in_T).items()
        if only is None or f"{group}: {metric}" in only
    ]


def groups_of(kinds: Sequence[tuple[str, str]]) -> dict[str, BoolArray]:
    """Triples with a positive, by whether their edits are of kinds that arms were trained on."""
    negative = np.array([kind for kind, _ in kinds])
    has_both = np.array([bool(positive) for _, positive in kinds])
    is_seen = np.isin(negative, list(SEEN_KINDS))
    is_swap = np.char.startswith(negative, "swap")
    knows_p = np.isin([positive for _, positive in kinds], list(SEEN_POSITIVE_KINDS))
    groups = {
        "all": has_both,
        "seen": has_both & is_seen,
        "swap, seen": has_both & is_seen & is_swap,
        "replace, seen": has_both & is_seen & ~is_swap,
        "unseen": has_both & ~is_seen,
        "positive seen": has_both & knows_p,
        "positive unseen": has_both & ~knows_p,
    }
    groups |= {f"kind {kind}": has_both & (negative == kind) for kind in sorted(set(negative))}
    return {name: is_in for name, is_in in groups.items() if is_in.sum() >= FEWEST}


METRICS = {
    "original": "original",
    "augmented": "augmented",
    "brittleness": "brittleness",
    "mean c": "mean_original",
    "mean n": "mean_negative",
    "mean p": "mean_positive",
}
"""As tables name them, and as `unbag.metrics.triples` does."""


def judged(scores: Sequence[FloatArray], is_in_T: BoolArray) -> dict[str, list[FloatArray]]:
    """By metric, the values of some triples for each seed; a tie is wrong."""
    # Caption, negative, positive.
    is_true_T3 = np.tile([True, False, True], (is_in_T.sum(), 1))
    found = [triple_outcomes(one[is_in_T], is_true_T3) for one in scores]
    return {name: [one[metric].value_N for one in found] for name, metric in METRICS.items()}


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


def difference_text(one: ArmNumber, control: ArmNumber) -> str:
    """Points of percent with the interval over seeds."""
    mean, half = difference(one, control)
    return with_interval(mean, mean - half, mean + half, signed_text)


def write_numbers(numbers: Sequence[ArmNumber], path: Path) -> None:
    """A line each."""
    rows = [json.dumps(asdict(one)) for one in numbers]
    write_text(path, "[\n" + ",\n".join(rows) + "\n]\n")


def read_numbers(path: Path) -> list[ArmNumber]:
    """What `write_numbers` wrote."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [ArmNumber(**(row | {"by_seed": tuple(row["by_seed"])})) for row in rows]


def tables(numbers: Sequence[ArmNumber]) -> str:
    """Building, repair, and differences to plain fine-tuning with the same lock, in Markdown."""
    of = {(one.arm, one.metric): one for one in numbers}
    arms = list(dict.fromkeys(one.arm for one in numbers))
    built = [arm for arm in ("heads", "text", "both") if arm in arms]
    seeds = len(numbers[0].by_seed)

    def absolute(arm: str, metric: str) -> str:
        return of[arm, metric].text

    parts = [
        f"Retrieval among the photographs of val, {seeds} seeds; in brackets 95 % intervals over "
        "photographs.",
        _table(built, RECALLS, absolute),
    ]
    for suffix, about in LOCKED.items():
        control = f"{CONTROL}{suffix}"
        mine = [f"{name}{suffix}" for name in ARMS if f"{name}{suffix}" in arms]
        if control not in arms:
            continue

        def apart(arm: str, metric: str, control: str = control) -> str:
            return difference_text(of[arm, metric], of[control, metric])

        parts += [
            f"**{about}.** Means over {seeds} seeds:",
            _table(["heads", control, *mine], SHOWN, absolute),
            f"Difference to `{control}`, paired within seeds: mean [95 % t interval over seeds, "
            f"n = {seeds}]:",
            _table(mine, SHOWN, apart),
        ]
    return "\n\n".join(parts)


def _table(arms: Sequence[str], metrics: Sequence[str], cell: Callable[[str, str], str]) -> str:
    rows = [[f"`{arm}`", *(cell(arm, metric) for metric in metrics)] for arm in arms]
    return table(["arm", *metrics], rows).rstrip()
