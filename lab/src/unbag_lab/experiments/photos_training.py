"""Trains and measures the arms on photographs, and makes their tables.

    unbag edit --captions train.jsonl --out train-edits.jsonl   (and val likewise)
    python -m unbag_lab photos build --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag_lab photos repair --train train-edits.jsonl --val val-edits.jsonl --out runs/p
    python -m unbag_lab photos-table runs/p --val val-edits.jsonl --out arms.json
    python -m unbag_lab photos-table arms.json

The script `photos` builds the photo model and repairs it, also with trainable encoders, which the
experiment of this name freezes. Every setting was fixed before the first number on val was seen.
Arms of a seed take their steps on the same batches. Pixels and features of all photographs are on
the device, so that an epoch opens no file. An interval is a bootstrap over photographs of the mean
over seeds; a difference is paired within seeds and has a t-interval over them.

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
"""Negatives of all arms. Numbers, actions, states, sides, antonyms and negations are left out, to
measure generalization to unseen edits."""
SEEN_POSITIVES: tuple[Slot, ...] = (Slot("positive", ("synonym", "conjunct_swap")),)
SEEN_KINDS = frozenset(kind for slot in SEEN for kind in slot.kinds)
SEEN_POSITIVE_KINDS = frozenset(kind for slot in SEEN_POSITIVES for kind in slot.kinds)
PHOTOS_RUN, RESUMES = "run of arms on photographs", "existing arms stay"
"""Kind of a folder of `photos`, and what happens when a run resumes."""
READER_LEARNS_FROM = 1_500
"""Photographs whose captions the blind reader is trained on."""
_AT_ONCE = 512


@dataclass(frozen=True)
class PhotosArm:
    """A recipe with the arm it starts from."""

    start: str
    """The arm it starts from; empty for random heads."""
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
    """Return each loss with both encoders trainable, the image encoder frozen, and both frozen."""
    arms = {}
    parts = {"": (0, 0), "-locked": (WHOLE_PART, 0), "-heads": (WHOLE_PART, WHOLE_TEXT)}
    for suffix, (image, caption) in parts.items():
        # Heads alone learn little at the learning rate of encoders.
        rate = 3e-4 if caption else 5e-5
        for name, loss in PUBLISHED_REPAIRS.items():
            recipe = _plain(
                name + suffix, freeze=Freeze(image, caption), rate=rate, epochs=10, batch_size=256
            )
            recipe = replace(
                recipe, objective=loss.objective, negatives=SEEN, positives=SEEN_POSITIVES
            )
            arms[name + suffix] = PhotosArm(base, recipe)
    return arms


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
    """Take the first steps of a recipe, or all, and write the weights; return the last loss.

    In bfloat16 on a GPU. An interrupted training resumes from checkpoints next to the weights.
    """
    assert isinstance(trainable.module, PhotoNetwork)
    with training_folder(weights.parent / "training" / weights.stem) as folder:
        job = TrainJob(
            trainable,
            PairBatches(pairs, recipe, trainable.reads, seed),
            recipe,
            out=folder.path,
            # The seed of dropout: the same for all seeds, as in the shipped results.
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
    """Fine-tuning for the first steps of a recipe, which saves the last loss in checkpoints."""

    def __init__(self, job: TrainJob, *, steps: int | None) -> None:
        super().__init__(job)
        self.optimizer = replace(self.optimizer, steps=steps or self.optimizer.steps)
        # Epochs take seconds, so checkpoints are saved by time only.
        self.steps_per_epoch = None
        self.last_loss = torch.zeros(())

    def identity(self) -> dict[str, object]:
        """Add the number of steps."""
        return {**super().identity(), "steps": self.optimizer.steps}

    def gradient(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Compute the gradient and store the loss."""
        numbers = super().gradient(batch, step)
        self.last_loss = numbers["loss"]
        return numbers

    def extra_state(self) -> dict[str, Any]:
        """Add the last loss."""
        return {**super().extra_state(), "last_loss": self.last_loss}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` gave."""
        super().load_extra_state(state)
        self.last_loss = state["last_loss"]


@dataclass(frozen=True, eq=False)
class PhotoQuestions:
    """The questions for every arm: all captions of all photographs, and their edits."""

    place_N: Tensor
    texts: tuple[str, ...]
    """The unique captions and edits."""
    caption_Q: Tensor
    """Indices of the captions among the texts; `owner_Q` has their photographs."""
    owner_Q: Tensor
    triple_T4: Tensor
    """Indices of photograph, caption, negative and positive; -1 without a positive."""
    kinds: tuple[tuple[str, str], ...]
    """Kinds of the negative and the positive of each triple."""


def make_questions(pairs: Sequence[Pair], place: Mapping[str, int]) -> PhotoQuestions:
    """Make a triple for every negative of a caption, with a positive chosen by a hash."""
    row: dict[str, int] = {}
    captions, triples, kinds = [], [], []
    for at, pair in enumerate(pairs):
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            number = row.setdefault(caption, len(row))
            captions.append((number, at))
            positives = [edit for edit in edits if edit.is_positive]
            for edit in edits:
                if edit.is_positive:
                    continue
                chosen = None
                if positives:
                    digest = blake2b(edit.text.encode(), digest_size=4).digest()
                    chosen = positives[int.from_bytes(digest, "big") % len(positives)]
                positive = row.setdefault(chosen.text, len(row)) if chosen else -1
                triples.append((at, number, row.setdefault(edit.text, len(row)), positive))
                kinds.append((edit.kind, chosen.kind if chosen else ""))
    caption_owners = torch.tensor(captions)
    place_N = torch.tensor([place[pair.image.name] for pair in pairs])
    return PhotoQuestions(
        place_N,
        tuple(row),
        caption_owners[:, 0],
        caption_owners[:, 1],
        torch.tensor(triples),
        tuple(kinds),
    )


def seen_edits(pairs: Iterable[tuple[int, Pair]]) -> list[Contrast]:
    """Return captions with edits of the kinds that arms are trained on, for blind readers."""
    return [
        Contrast(place, caption, edit.text, edit.kind)
        for place, pair in pairs
        for caption, edits in zip(pair.captions, pair.edits, strict=True)
        for edit in edits
        if edit.kind in SEEN_KINDS
    ]


def drawable_texts(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield every text that training can use."""
    for pair in pairs:
        yield from pair.captions
        edits = (edit for edits_of_caption in pair.edits for edit in edits_of_caption)
        yield from (edit.text for edit in edits if edit.kind in SEEN_KINDS | SEEN_POSITIVE_KINDS)


@torch.inference_mode()
def answers(trainable: Trainable, questions: PhotoQuestions, *, device: str) -> dict[str, Any]:
    """Return the ranks of both directions and the scores of every triple, as arrays."""
    trainable.module.eval()
    image_ND = trainable.embed_images(questions.place_N.to(device)).float()
    parts = []
    for at in range(0, len(questions.texts), _AT_ONCE):
        inputs = trainable.reads.tokenize(questions.texts[at : at + _AT_ONCE])
        parts.append(trainable.embed_texts({k: v.to(device) for k, v in inputs.items()}))
    text_ND = torch.cat(parts).float()
    score_QN = text_ND[questions.caption_Q.to(device)] @ image_ND.T
    own_Q = score_QN.gather(1, questions.owner_Q.to(device)[:, None])
    rank_Q = (score_QN > own_Q).sum(dim=1)
    is_own_QN = questions.owner_Q.to(device)[:, None] == torch.arange(len(image_ND), device=device)
    best_N = torch.where(is_own_QN, score_QN, -torch.inf).max(dim=0).values
    rank_N = ((score_QN > best_N) & ~is_own_QN).sum(dim=0)
    t = questions.triple_T4.to(device)
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
    options = parser.parse_args()
    train, val_pairs = (
        open_pairs(name, images=options.images) for name in (options.train, options.val)
    )
    with open_run_folder(options.out, PHOTOS_RUN, resumes=RESUMES) as folder:
        identity = RunIdentity(
            train=train.fingerprint,
            val=val_pairs.fingerprint,
            limit=options.limit,
            base=options.base,
            precision=precision_of(options.device),
        )
        folder.begin(identity, {})
        val = opened(val_pairs, limit=options.limit)
        encoder = load("random", device=options.device)
        store = Store([*opened(train), *val], encoder, device=options.device)
        bench = TrainingBench(
            train,
            store,
            make_questions(val, store.place),
            options.out,
            options.device,
            options.workers,
        )
        arms = dict(BUILD) if options.stage == "build" else repair_arms(options.base)
        for seed in options.seeds:
            for name in options.arms or arms:
                run_arm(name, arms[name], seed, options.stage, bench)


@dataclass(frozen=True)
class TrainingBench:
    """The data and settings that all arms of a run share."""

    train: Pairs
    store: Store
    asked: PhotoQuestions
    out: Path
    device: str
    workers: int


def opened(pairs: Pairs, *, limit: int | None = None) -> tuple[Pair, ...]:
    """Return all pairs, or the first `limit`, in memory."""
    return tuple(pairs[at] for at in range(min(len(pairs), limit or len(pairs))))


def run_arm(name: str, arm: PhotosArm, seed: int, stage: str, bench: TrainingBench) -> None:
    """Train and measure an arm and write both results, unless they exist."""
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
    replies = answers(trainable, bench.asked, device=device)
    record = {"arm": name, "seed": seed, "start": arm.start, "loss": loss, "seconds": seconds}
    write_text(folder / f"{name}.json", json.dumps(record) + "\n")
    write_atomically(answered, partial(save_file, replies))
    recalls = [100 * float(np.mean(replies[key] == 0)) for key in ("caption_rank", "image_rank")]
    print(
        f"{stage} {seed} {name}: loss {loss:.3f}, R@1 text to image {recalls[0]:.1f}, "
        f"image to text {recalls[1]:.1f}, {seconds:.0f} s",
        flush=True,
    )


def start_of(path: Path | None, seed: int, device: str = "cpu") -> Photo:
    """Load the weights in a file, or initialize heads."""
    if path is not None:
        return read(path, name=path.stem, device=device)
    return build({}, PhotoConfig(), name="start", device=device, seed=seed)


class Store:
    """Pixels and frozen features of photographs, on the device."""

    def __init__(self, pairs: Sequence[Pair], encoder: Photo, *, device: str) -> None:
        images = [pair.image for pair in pairs]
        self.place = {image.name: at for at, image in enumerate(images)}
        reads = PhotoReads(encoder.tokenizer)
        with ThreadPoolExecutor(16) as pool:
            prepared = list(pool.map(lambda image: reads.prepare(image.open()), images))
        self.pixels = torch.stack(prepared).to(device)
        parts = [
            encoder.image_features((self.pixels[at : at + _AT_ONCE].float() - 127.0) / 128.0)
            for at in range(0, len(self.pixels), _AT_ONCE)
        ]
        self.features = FeatureTable(self.place, {VECTOR: torch.cat(parts).to(device)})


class StoredPhoto(PhotoTrainable):
    """Encoders that take indices of a store instead of images."""

    def __init__(self, encoder: Photo, store: Store, *, device: str) -> None:
        super().__init__(encoder, device=device)
        self.store = store
        self.reads = StoredReads(encoder.tokenizer, store.place)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Map indices [N] to unit vectors [N, D]."""
        return super().embed_images(self.store.pixels[pixels])


class StoredReads(PhotoReads):
    """Prepares an image as its index in the store."""

    def __init__(self, tokenizer: Any, place: dict[str, int]) -> None:
        super().__init__(tokenizer)
        self._place = place

    def kept(self, image: ImageSource) -> Tensor:
        """Return the index of an image, without opening it."""
        return torch.tensor(self._place[image.name])


FEWEST = 20
"""Triples that a group needs for its numbers to be shown."""
ARMS = tuple(name for name in PUBLISHED_REPAIRS if name != CONTROL)
LOCKED = {
    "": "Both encoders trainable",
    "-locked": "Image encoder frozen",
    "-heads": "Both encoders frozen, heads trainable",
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
    options = parser.parse_args()
    if options.results.is_dir():
        pairs = opened(open_pairs(options.val, images=options.images))
        place = {pair.image.name: at for at, pair in enumerate(pairs)}
        questions = make_questions(pairs, place)
        numbers = []
        for stage in ("build", "repair"):
            folders = (options.results / stage).iterdir()
            seeds = sorted(folders, key=lambda path: int(path.name))
            for arm in [path.stem for path in sorted(seeds[0].glob("*.answers"))]:
                answers_by_seed = [load_file(seed / f"{arm}.answers") for seed in seeds]
                numbers += numbers_of(arm, answers_by_seed, questions)
    else:
        numbers = read_numbers(options.results)
    if options.out:
        write_numbers(numbers, options.out)
    print(tables(numbers))


@dataclass(frozen=True)
class ArmNumber:
    """One metric of one arm."""

    arm: str
    metric: str
    by_seed: tuple[float, ...]
    low: float
    """Interval over photographs, of the mean over seeds."""
    high: float
    n: int
    """Units: captions, photographs or triples."""

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.by_seed)

    @property
    def text(self) -> str:
        """The mean in percent, with the interval."""
        return with_interval(self.mean, self.low, self.high)


def numbers_of(
    arm: str,
    answers: Sequence[Mapping[str, FloatArray]],
    questions: PhotoQuestions,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """Return all metrics of an arm, or those in `only`, from the answers of its seeds."""
    numbers = []
    everyone = np.arange(len(questions.place_N))
    for k in (1, 5):
        for name, key, owner in (
            ("text to image", "caption_rank", questions.owner_Q.numpy()),
            ("image to text", "image_rank", everyone),
        ):
            if only is None or f"{name} R@{k}" in only:
                rank = [np.asarray(reply[key] < k, dtype=float) for reply in answers]
                numbers.append(number_of(arm, f"{name} R@{k}", rank, owner))
    scores = [reply["scores"].astype(float) for reply in answers]
    return numbers + triple_numbers(arm, scores, questions, only=only)


def triple_numbers(
    arm: str,
    scores: Sequence[FloatArray],
    questions: PhotoQuestions,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """Return metrics by kind of edit, from scores [T, 3] of caption, negative and positive."""
    photo_T = questions.triple_T4[:, 0].numpy()
    return [
        number_of(arm, f"{group}: {metric}", value, photo_T[is_in_T])
        for group, is_in_T in groups_of(questions.kinds).items()
        for metric, value in triple_values(scores, is_in_T).items()
        if only is None or f"{group}: {metric}" in only
    ]


def groups_of(kinds: Sequence[tuple[str, str]]) -> dict[str, BoolArray]:
    """Return masks of triples with a positive, by kind and by whether training used the kind."""
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
"""Names of metrics in tables, and in `unbag.metrics.triples`."""


def triple_values(scores: Sequence[FloatArray], is_in_T: BoolArray) -> dict[str, list[FloatArray]]:
    """Return, by metric, the values of some triples for each seed; a tie is wrong."""
    # Caption, negative, positive.
    is_true_T3 = np.tile([True, False, True], (is_in_T.sum(), 1))
    results_by_seed = [triple_outcomes(score_T3[is_in_T], is_true_T3) for score_T3 in scores]
    return {
        name: [score_T3[metric].value_N for score_T3 in results_by_seed]
        for name, metric in METRICS.items()
    }


def number_of(arm: str, metric: str, values: Sequence[FloatArray], owner_U: IntArray) -> ArmNumber:
    """Return a metric with its bootstrap interval; units of a photograph are one cluster."""
    mean_U = np.mean(values, axis=0)
    low, high, _ = bootstrap(
        mean_U,
        clusters=[str(owner) for owner in owner_U.tolist()],
        resamples=5_000,
        rng=generator(0, metric),
    )
    by_seed = tuple(round(float(value_U.mean()), 6) for value_U in values)
    return ArmNumber(arm, metric, by_seed, round(low, 6), round(high, 6), len(mean_U))


def difference(number: ArmNumber, control: ArmNumber) -> tuple[float, float]:
    """Return the mean and half width of the interval of the paired difference over seeds."""
    differences = [a - b for a, b in zip(number.by_seed, control.by_seed, strict=True)]
    return interval(differences)


def difference_text(number: ArmNumber, control: ArmNumber) -> str:
    """Format the paired difference in points, with its interval over seeds."""
    mean, half = difference(number, control)
    return with_interval(mean, mean - half, mean + half, signed_text)


def write_numbers(numbers: Sequence[ArmNumber], path: Path) -> None:
    """Write numbers as JSON, one a line."""
    rows = [json.dumps(asdict(number)) for number in numbers]
    write_text(path, "[\n" + ",\n".join(rows) + "\n]\n")


def read_numbers(path: Path) -> list[ArmNumber]:
    """Read the file of `write_numbers`."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [ArmNumber(**(row | {"by_seed": tuple(row["by_seed"])})) for row in rows]


def tables(numbers: Sequence[ArmNumber]) -> str:
    """Return tables of building, repairs, and differences to plain fine-tuning, in Markdown."""
    numbers_by_key = {(number.arm, number.metric): number for number in numbers}
    arms = list(dict.fromkeys(number.arm for number in numbers))
    built = [arm for arm in ("heads", "text", "both") if arm in arms]
    seeds = len(numbers[0].by_seed)

    def absolute(arm: str, metric: str) -> str:
        return numbers_by_key[arm, metric].text

    parts = [
        f"Retrieval among the photographs of val, {seeds} seeds; in brackets 95 % intervals over "
        "photographs.",
        _table(built, RECALLS, absolute),
    ]
    for suffix, about in LOCKED.items():
        control = f"{CONTROL}{suffix}"
        repairs = [f"{name}{suffix}" for name in ARMS if f"{name}{suffix}" in arms]
        if control not in arms:
            continue

        def difference_cell(arm: str, metric: str, control: str = control) -> str:
            return difference_text(numbers_by_key[arm, metric], numbers_by_key[control, metric])

        parts += [
            f"**{about}.** Means over {seeds} seeds:",
            _table(["heads", control, *repairs], SHOWN, absolute),
            f"Difference to `{control}`, paired within seeds: mean [95 % t interval over seeds, "
            f"n = {seeds}]:",
            _table(repairs, SHOWN, difference_cell),
        ]
    return "\n\n".join(parts)


def _table(arms: Sequence[str], metrics: Sequence[str], cell: Callable[[str, str], str]) -> str:
    rows = [[f"`{arm}`", *(cell(arm, metric) for metric in metrics)] for arm in arms]
    return table(["arm", *metrics], rows).rstrip()
