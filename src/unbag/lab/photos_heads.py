"""Edited photographs come in; order precision and mixed weights of repaired heads go out.

    python -m unbag.lab.photos_heads --train train-edits.jsonl --val val-edits.jsonl
        --out runs/heads --cache features --numbers photo_heads.json

The arms of `unbag.lab.photos` that leave both parts as they are installed, so their features are
computed once and no GPU is needed. The same command goes on after a stop.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.benchmarks.taggers import find_tagger
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.lab.photos import BUILD, Arm, repair_arms, start_of, take_steps
from unbag.lab.photos_blind import edited
from unbag.lab.photos_data import Questions, answers, make_questions, opened
from unbag.lab.photos_order import Ordered, make_ordered, order_right
from unbag.lab.photos_table import (
    SEEN_KINDS,
    SEEN_POSITIVE_KINDS,
    SHOWN,
    Number,
    Told,
    number_of,
    numbers_of,
    triple_numbers,
    write_numbers,
)
from unbag.lab.script import run_script
from unbag.models.baselines import load_likelihood
from unbag.models.photo import Photo, load, write
from unbag.runs.files import write_atomically
from unbag.runs.progress import Silent
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.merge import interpolate, state_of
from unbag.training.towers.cached_features import Features, KeptPhoto, caption_table, picture_table
from unbag.types import FloatArray

HEADS: Mapping[str, Arm] = MappingProxyType(
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
"""Photographs, as in `unbag.lab.photos_blind`."""


@dataclass(frozen=True, eq=False)
class Bench:
    """What all arms share."""

    train: Pairs
    asked: Questions
    ordered: tuple[Ordered, ...]
    pictures: Features
    captions: Features
    out: Path

    @property
    def told(self) -> Told:
        """Who owns what among the answers."""
        asked = self.asked
        photo_T = asked.triple_T4[:, 0].numpy()
        return Told(asked.owner_Q.numpy(), photo_T, asked.kinds, len(asked.place_N))

    def towers(self, encoder: Photo) -> KeptPhoto:
        """A model that starts at its heads."""
        return KeptPhoto(encoder, device="cpu", pictures=self.pictures, captions=self.captions)

    def read(self, texts: Sequence[str]) -> Tensor:
        """Features of texts."""
        return self.captions.vector_NC[[self.captions.place_of[text] for text in texts]]


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
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


def _bench(given: argparse.Namespace, learned: Sequence[Contrast]) -> Bench:
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
    return Bench(train, asked, ordered, pictures, captions, given.out)


def _read(pairs: Sequence[Pair]) -> Iterator[str]:
    """Every string that an arm may draw."""
    for pair in pairs:
        yield from pair.captions
        edits = (edit for some in pair.edits for edit in some)
        yield from (edit.text for edit in edits if edit.kind in SEEN_KINDS | SEEN_POSITIVE_KINDS)


def _arms(bench: Bench, seeds: Sequence[int]) -> list[Number]:
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


def _trained(name: str, arm: Arm, seed: int, bench: Bench) -> Path:
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


def _mixes(seed: int, bench: Bench) -> Iterator[tuple[float, Photo]]:
    """One model whose weights are changed from step to step."""
    folder = bench.out / str(seed)
    model, tuned = (start_of(folder / f"{name}.safetensors", seed) for name in ("heads", MIXED))
    start, end = state_of(model.towers), state_of(tuned.towers)
    for weight in WEIGHTS:
        model.towers.load_state_dict(interpolate(start, end, weight))
        yield weight, model


@torch.inference_mode()
def _asked(towers: KeptPhoto, bench: Bench) -> dict[str, FloatArray]:
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


def _numbers(name: str, some: Sequence[Mapping[str, FloatArray]], bench: Bench) -> list[Number]:
    found = numbers_of(name, some, bench.told, only=SHOWN)
    return found + _order_numbers(name, some, bench)


def _order_numbers(
    name: str, some: Sequence[Mapping[str, FloatArray]], bench: Bench
) -> list[Number]:
    owner_Q = np.array([one.photograph for one in bench.ordered])
    found = []
    for metric in (key for key in some[0] if key.startswith("order: ")):
        there = np.isfinite(some[0][metric])
        values = [one[metric][there] for one in some]
        found.append(number_of(name, metric, values, owner_Q[there]))
    return found


def _blind(bench: Bench, learned: Sequence[Contrast]) -> list[Number]:
    """A linear reader of the caption part's features, told of the same edits."""
    weight_F = fit_reader(differences(bench.read, learned), [row.picture for row in learned])

    def score(texts: Sequence[str]) -> list[float]:
        scores: list[float] = (bench.read(texts).double() @ weight_F).tolist()
        return scores

    return _by_reading(BLIND, score, bench)


def _by_reading(name: str, score: ReadsTexts, bench: Bench) -> list[Number]:
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


if __name__ == "__main__":
    run_script(main)
