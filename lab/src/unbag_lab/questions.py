"""All benchmarks of the world, asked of models in memory: training runs, readers, decoders.

Items, scores and metrics are those of `unbag run`, without its cache, intervals and files. Items
are made once and asked of many models.

Dimensions: N unique images or captions, M cells of all items, D joint space, P images and C
captions of an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from unbag.errors import unknown_name
from unbag.metrics.aggregate import averages
from unbag.training.data.world import drawn
from unbag.training.encoders.base import Trainable
from unbag.types import Benchmark, Case, EvalProtocol, FloatArray, IntArray, Item, Scores
from unbag.world import benchmarks as world
from unbag.world.benchmarks import order_items, pair_items, retrieval_items, set_items, triple_items
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene

Score = Callable[[IntArray, IntArray, Sequence[Item]], FloatArray]
"""Numbers of images and of captions, pair by pair, to their scores. Pairs of an item stand
together, image by image."""
PAIR_COSINE = "pair_cosine"
"""Mean cosine of the first two images of a set: left of and right of."""
_AT_ONCE = 1_024
_SETS = (world.PAIRS_A.name, world.PAIRS_B.name)
_MAKERS: Mapping[str, tuple[Benchmark, Callable[[int], Sequence[Item]]]] = MappingProxyType(
    {
        benchmark.name: (benchmark, make)
        for benchmark, make in (
            (world.SWAP, lambda n: triple_items(["swap"], n=100 * n)),
            (world.REPLACE, lambda n: triple_items(world.REPLACED_LOOKS, n=40 * n)),
            (
                world.RELATION,
                lambda n: triple_items(["relation", "replace_relation"], n=60 * n),
            ),
            (world.ORDER, lambda n: order_items(n=60 * n)),
            (world.PAIRS_A, lambda n: set_items("a", n=100 * n)),
            (world.PAIRS_B, lambda n: set_items("b", n=100 * n)),
            (world.BINDING, lambda n: pair_items("swap", n=100 * n)),
            (world.COUNT, lambda n: pair_items("count", n=100 * n)),
            (world.TEXTURE, lambda n: pair_items("replace_texture", n=80 * n)),
            (world.NEGATION, lambda n: pair_items("negate", n=100 * n)),
            # Recall depends on the size of the gallery, so that stays.
            (world.RETRIEVAL, lambda n: retrieval_items(n=400)),
        )
    }
)
"""The registered benchmarks, with n times as many items; the first of them are the registered."""


@dataclass(frozen=True, eq=False)
class BenchmarkItems:
    """The items of one benchmark, and which unique images and captions they hold."""

    benchmark: Benchmark
    items: Sequence[Item]
    images: list[IntArray]
    captions: list[IntArray]


class Questions:
    """Every benchmark of the world, ready to be asked of any number of models."""

    def __init__(
        self, names: Sequence[str] | None = None, *, times: int = 1, every: int = 1
    ) -> None:
        """Make the items: of all benchmarks unless some are named, `times` as many as usual.

        With `every` only each so-many-th is asked, to show that everything runs.
        """
        scene_row: dict[Scene, int] = {}
        caption_row: dict[str, int] = {}
        self._asked: list[BenchmarkItems] = []
        for name in names or tuple(_MAKERS):
            if name not in _MAKERS:
                raise unknown_name("benchmark of the world", name, _MAKERS)
            benchmark, make = _MAKERS[name]
            items = make(times)[::every]
            self._asked.append(
                BenchmarkItems(
                    benchmark,
                    items,
                    [_numbered(map(scene_of, item.images), scene_row) for item in items],
                    [_numbered(map(str, item.captions), caption_row) for item in items],
                )
            )
        scenes, self.captions = list(scene_row), list(caption_row)
        """The different captions of all items."""
        self.pixels = [drawn(scenes[at : at + _AT_ONCE]) for at in range(0, len(scenes), _AT_ONCE)]
        """The different images, in parts that are drawn together."""

    def answers(self, trainable: Trainable, *, device: str) -> dict[str, dict[str, float]]:
        """By benchmark and metric; fractions, and means of cosines."""
        with torch.no_grad():
            images = [trainable.embed_images(p.to(device)).cpu() for p in self.pixels]
            captions = []
            for at in range(0, len(self.captions), _AT_ONCE):
                inputs = trainable.reads.tokenize(self.captions[at : at + _AT_ONCE])
                inputs = {name: value.to(device) for name, value in inputs.items()}
                captions.append(trainable.embed_texts(inputs).cpu())
        image_ND, caption_ND = torch.cat(images).double(), torch.cat(captions).double()

        def cosine(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
            cosine_M: FloatArray = (image_ND[image_M] * caption_ND[caption_M]).sum(dim=-1).numpy()
            return cosine_M

        numbers = self.measured(cosine)
        for bench in self._asked:
            if bench.benchmark.name in _SETS:
                first_N, second_N = (np.array([p[k] for p in bench.images]) for k in (0, 1))
                cosine_N = (image_ND[first_N] * image_ND[second_N]).sum(dim=-1)
                numbers[bench.benchmark.name][PAIR_COSINE] = float(cosine_N.mean())
        return numbers

    def measured(self, score: Score) -> dict[str, dict[str, float]]:
        """By benchmark and metric, for anything that scores an image and a caption by number."""
        return {bench.benchmark.name: metrics_of(bench, score) for bench in self._asked}

    def measured_on(self, name: str, score: Score) -> dict[str, float]:
        """By metric, of one of the benchmarks that were made."""
        return metrics_of(
            next(bench for bench in self._asked if bench.benchmark.name == name), score
        )

    @property
    def names(self) -> list[str]:
        """Of the benchmarks that were made."""
        return [bench.benchmark.name for bench in self._asked]


def _numbered(values: Iterator[Scene] | Iterator[str], row: dict) -> IntArray:  # type: ignore[type-arg]
    return np.array([row.setdefault(value, len(row)) for value in values], dtype=np.int64)


def scene_of(image: object) -> Scene:
    """What an image of the world shows."""
    assert isinstance(image, SceneImage)
    return image.scene


def metrics_of(bench: BenchmarkItems, score: Score) -> dict[str, float]:
    """By metric, of one benchmark; all cells are scored at once, since most items have three."""
    rows_and_columns = list(zip(bench.images, bench.captions, strict=True))
    image_M = np.concatenate([np.repeat(p, len(c)) for p, c in rows_and_columns])
    caption_M = np.concatenate([np.tile(c, len(p)) for p, c in rows_and_columns])
    value_M = score(image_M, caption_M, bench.items)
    cases, end = [], 0
    for item, (p, c) in zip(bench.items, rows_and_columns, strict=True):
        start, end = end, end + len(p) * len(c)
        cases.append(Case(item, Scores(item.id, value_M[start:end].reshape(len(p), len(c)))))
    return averages(bench.benchmark, cases, protocol=EvalProtocol())
