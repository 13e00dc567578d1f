"""Measures repaired heads of the photo model: order precision, mixed weights, blind readers.

    python -m unbag_lab photos-heads --train train-edits.jsonl --val val-edits.jsonl
        --out runs/heads --cache features --numbers photo_heads.json

The arms freeze both pretrained parts, so features are computed once and no GPU is needed. An
interrupted run resumes with the same command. Order precision is precision at 1 among a caption and
its four shuffles of ARO, as `aro_order_flickr30k` makes them (methods.md 3.3); a tie is wrong. The
blind reader is that of `unbag.training.before_after` on MiniLM's frozen features, trained on the
kinds of edits that photo arms are trained on: its accuracy on other photographs needs no image.

Dimensions: N pairs of texts, F features, Q captions, K kinds of shuffles, T triples.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.benchmarks.aro import options_of
from unbag.benchmarks.taggers import find_tagger, tag_captions
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.edits.shuffles import SHUFFLES, Tagger, spaced
from unbag.models.baselines import load_likelihood
from unbag.models.photo import Photo, load
from unbag.runs.cache import FeatureTable
from unbag.runs.files import open_run_folder
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Silent
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.cached_features import CachedEncoders, image_table, text_table
from unbag.training.merge import interpolate, state_of
from unbag.types import FloatArray
from unbag_lab.experiments.photos_training import (
    BUILD,
    READER_LEARNS_FROM,
    RESUMES,
    SHOWN,
    ArmNumber,
    PhotoQuestions,
    PhotosArm,
    answers,
    drawable_texts,
    make_questions,
    number_of,
    numbers_of,
    opened,
    repair_arms,
    seen_edits,
    start_of,
    train_to,
    triple_numbers,
    write_numbers,
)

HEADS: Mapping[str, PhotosArm] = MappingProxyType(
    {
        "heads": BUILD["heads"],
        **{name: arm for name, arm in repair_arms("heads").items() if name.endswith("-heads")},
    }
)
"""Arms with both parts frozen, the base first."""
HEADS_RUN = "run of heads on photographs"
"""Kind of a folder of `photos-heads`."""
WEIGHTS = tuple(k / 8 for k in range(9))
MIXED = "hard_negative-heads"
BLIND = "blind reader"
LIKELIHOOD = "language model"
ReadsTexts = Callable[[Sequence[str]], Sequence[float]]


def photos_heads_script() -> None:
    """Measure order precision and mixed weights of the repaired heads of the photo model."""
    parser = argparse.ArgumentParser(description=photos_heads_script.__doc__)
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--images", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--out", type=Path, required=True, help="for the weights of all arms")
    parser.add_argument("--cache", type=Path, help="for features")
    parser.add_argument("--numbers", type=Path, required=True)
    parser.add_argument("--language-model", help="folder or name: one more blind baseline")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=int, help="photographs of val, to try it")
    options = parser.parse_args()
    train = open_pairs(options.train, images=options.images)
    with open_run_folder(options.out, HEADS_RUN, resumes=RESUMES) as folder:
        folder.begin(RunIdentity(train=train.fingerprint), {})
        write_numbers(_numbers(options, train), options.numbers)


def _numbers(options: argparse.Namespace, train: Pairs) -> list[ArmNumber]:
    contrasts = seen_edits(enumerate(opened(train, limit=READER_LEARNS_FROM)))
    bench = _bench(options, train, contrasts)
    # A linear reader of caption features.
    weight_F = fit_reader(differences(bench.read, contrasts), [row.image for row in contrasts])

    def score(texts: Sequence[str]) -> list[float]:
        scores: list[float] = (bench.read(texts).double() @ weight_F).tolist()
        return scores

    numbers = bench.by_reading(BLIND, score)
    if options.language_model:
        numbers += bench.by_reading(LIKELIHOOD, load_likelihood(options.language_model).of)
    return [*numbers, *bench.arms(options.seeds)]


@dataclass(frozen=True, eq=False)
class HeadsBench:
    """The data that all arms share."""

    train: Pairs
    asked: PhotoQuestions
    ordered: tuple[Ordered, ...]
    images: FeatureTable
    captions: FeatureTable
    out: Path

    def network(self, encoder: Photo) -> CachedEncoders:
        """Return a trainable model on cached features."""
        network = make_trainable(encoder, device="cpu")
        return CachedEncoders(network, images=self.images, texts=self.captions)

    def read(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts."""
        return self.captions.vectors[[self.captions.row_of[text] for text in texts]]

    def trained(self, name: str, seed: int) -> Path:
        """Train an arm unless its weights exist; return their path."""
        arm, path = HEADS[name], self.out / str(seed) / f"{name}.safetensors"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            start = self.out / str(seed) / f"{arm.start}.safetensors"
            network = self.network(start_of(start if arm.start else None, seed))
            loss = train_to(path, network, arm.recipe, seed, self.train)
            print(f"{seed} {name}: loss {loss:.3f}", flush=True)
        return path

    def arms(self, seeds: Sequence[int]) -> list[ArmNumber]:
        """Return the numbers of heads, repairs of them, and mixes of heads with one repair."""
        by_name: dict[str, list[dict[str, FloatArray]]] = {}
        for seed in seeds:
            paths = {name: self.trained(name, seed) for name in HEADS}
            for name, path in paths.items():
                by_name.setdefault(name, []).append(self.measure(start_of(path, seed)))
            model, tuned = (start_of(paths[name], seed) for name in ("heads", MIXED))
            start, end = state_of(model.network), state_of(tuned.network)
            for weight in WEIGHTS:
                model.network.load_state_dict(interpolate(start, end, weight))
                by_name.setdefault(f"mix {weight:g}", []).append(self.measure(model))
        return [
            number
            for name, answers_by_seed in by_name.items()
            for number in (
                *numbers_of(name, answers_by_seed, self.asked, only=SHOWN),
                *self.order_numbers(name, answers_by_seed),
            )
        ]

    @torch.inference_mode()
    def measure(self, encoder: Photo) -> dict[str, FloatArray]:
        """Measure a model: retrieval ranks, scores and order precision."""
        network = self.network(encoder)
        numbers = answers(network, self.asked, device="cpu")
        image_ND = network.embed_images(self.asked.place_N)
        texts = list(dict.fromkeys(text for entry in self.ordered for text in entry.texts))
        place = {text: at for at, text in enumerate(texts)}
        text_ND = network.embed_texts(network.reads.tokenize(texts))

        def score(photograph: int, some: Sequence[str]) -> list[float]:
            rows = [place[text] for text in some]
            scores: list[float] = (text_ND[rows] @ image_ND[photograph]).tolist()
            return scores

        return numbers | order_right(self.ordered, score)

    def order_numbers(
        self, name: str, answers_by_seed: Sequence[Mapping[str, FloatArray]]
    ) -> list[ArmNumber]:
        """Return order precision, in total and for each kind of shuffle, over seeds."""
        owner_Q = np.array([entry.photograph for entry in self.ordered])
        numbers = []
        for metric in (key for key in answers_by_seed[0] if key.startswith("order: ")):
            is_finite_Q = np.isfinite(answers_by_seed[0][metric])
            values = [answers_of_seed[metric][is_finite_Q] for answers_of_seed in answers_by_seed]
            numbers.append(number_of(name, metric, values, owner_Q[is_finite_Q]))
        return numbers

    def by_reading(self, name: str, score: ReadsTexts) -> list[ArmNumber]:
        """Return the numbers of a reader of texts alone; without retrieval, which needs images."""
        questions = self.asked
        shuffles = (text for entry in self.ordered for text in entry.texts)
        texts = list(dict.fromkeys((*questions.texts, *shuffles)))
        value = dict(zip(texts, score(texts), strict=True))
        value_T3 = np.array(
            [
                [np.nan if at < 0 else value[questions.texts[at]] for at in row]
                for row in questions.triple_T4[:, 1:].tolist()
            ]
        )
        numbers = triple_numbers(name, [value_T3], questions, only=SHOWN)
        right = order_right(self.ordered, lambda _, texts: [value[text] for text in texts])
        return numbers + self.order_numbers(name, [right])


def _bench(options: argparse.Namespace, train: Pairs, contrasts: Sequence[Contrast]) -> HeadsBench:
    val = opened(open_pairs(options.val, images=options.images), limit=options.limit)
    tagger = find_tagger()
    assert tagger is not None, "two of the four shuffles need a tagger"
    ordered = tuple(make_ordered(val, tagger))
    paths = [
        options.out / str(seed) / f"{name}.safetensors" for seed in options.seeds for name in HEADS
    ]
    # Without training, only the features of val are needed.
    train_pairs = () if all(path.exists() for path in paths) else opened(train)
    model, progress = load("random"), Silent()
    images = image_table(model, [p.image for p in (*train_pairs, *val)], options.cache, progress)
    questions = make_questions(val, images.row_of)
    texts = dict.fromkeys((*drawable_texts(train_pairs), *questions.texts))
    texts.update((text, None) for entry in ordered for text in entry.texts)
    texts.update((text, None) for row in contrasts for text in (row.caption, row.negative))
    captions = text_table(model, tuple(texts), options.cache, progress)
    print(f"features of {len(images.row_of):,} photographs, {len(texts):,} texts", flush=True)
    return HeadsBench(train, questions, ordered, images, captions, options.out)


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
        """Precision of a guess."""
        return 1 / len(self.texts)


def make_ordered(pairs: Sequence[Pair], tagger: Tagger, *, seed: int = 0) -> list[Ordered]:
    """Return one entry for every caption that has another word order."""
    captions = [
        (at, n, text) for at, pair in enumerate(pairs) for n, text in enumerate(pair.captions)
    ]
    tags = tag_captions(tagger, [spaced(text) for *_, text in captions])
    all_ordered = []
    for (at, n, text), tagged in zip(captions, tags, strict=True):
        names = ("photographs", f"{pairs[at].id}#{n}")
        options = options_of(text, names, seed=seed, tagged=tagged)
        all_ordered.append(Ordered(at, tuple(options), tuple(options.values())))
    return [entry for entry in all_ordered if len(entry.texts) > 1]


def order_right(
    entries: Sequence[Ordered], score: Callable[[int, Sequence[str]], Sequence[float]]
) -> dict[str, FloatArray]:
    """Return 1 where a caption beats all its shuffles, or one kind of shuffle; NaN without any.

    `score` takes the index of a photograph and texts.
    """
    right_by_metric = {metric: np.full(len(entries), np.nan) for metric in ORDER_METRICS}
    for at, entry in enumerate(entries):
        own_score, *other_scores = score(entry.photograph, entry.texts)
        right_by_metric[PRECISION][at] = own_score > max(other_scores)
        for kind, other_score in zip(entry.kinds[1:], other_scores, strict=True):
            right_by_metric[f"order: {kind}"][at] = own_score > other_score
    return right_by_metric
