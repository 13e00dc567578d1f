"""Evaluates models in memory (training runs, readers, decoders) on all benchmarks of the world.

Items, scores and metrics are those of `unbag run`, without its cache, intervals and files. Items
are made once and reused for many models.

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
"""Maps indices of images and of captions to the scores of these pairs. The pairs of an item are
contiguous, image by image."""
PAIR_COSINE = "pair_cosine"
"""Mean cosine of the first two images of a set, which show "left of" and "right of"."""
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
            # Recall depends on the size of the gallery, so the gallery keeps its size.
            (world.RETRIEVAL, lambda n: retrieval_items(n=400)),
        )
    }
)
"""Makes n times the items of a registered benchmark; the first items are the registered ones."""


@dataclass(frozen=True, eq=False)
class BenchmarkItems:
    """The items of one benchmark, with the indices of their images and captions."""

    benchmark: Benchmark
    items: Sequence[Item]
    images: list[IntArray]
    captions: list[IntArray]


class Questions:
    """The benchmarks of the world, ready to evaluate any number of models."""

    def __init__(
        self, names: Sequence[str] | None = None, *, times: int = 1, every: int = 1
    ) -> None:
        """Make the items of the named benchmarks, or of all.

        Args:
            names: Benchmarks; all by default.
            times: Multiplies the number of items.
            every: Keeps each n-th item only, for quick trial runs.
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
        """The unique captions of all items."""
        self.pixels = [drawn(scenes[at : at + _AT_ONCE]) for at in range(0, len(scenes), _AT_ONCE)]
        """The unique images, in chunks."""

    def answers(self, trainable: Trainable, *, device: str) -> dict[str, dict[str, float]]:
        """Return metrics by benchmark: fractions, and means of cosines."""
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
        """Return metrics by benchmark for any score function."""
        return {bench.benchmark.name: metrics_of(bench, score) for bench in self._asked}

    def measured_on(self, name: str, score: Score) -> dict[str, float]:
        """Return the metrics of one benchmark."""
        return metrics_of(
            next(bench for bench in self._asked if bench.benchmark.name == name), score
        )

    @property
    def names(self) -> list[str]:
        """Names of the benchmarks."""
        return [bench.benchmark.name for bench in self._asked]


def _numbered(values: Iterator[Scene] | Iterator[str], row: dict) -> IntArray:  # type: ignore[type-arg]
    return np.array([row.setdefault(value, len(row)) for value in values], dtype=np.int64)


def scene_of(image: object) -> Scene:
    """Return the scene of an image of the world."""
    assert isinstance(image, SceneImage)
    return image.scene


def metrics_of(bench: BenchmarkItems, score: Score) -> dict[str, float]:
    """Return the metrics of one benchmark; all cells are scored in one call, as items are small."""
    rows_and_columns = list(zip(bench.images, bench.captions, strict=True))
    image_M = np.concatenate([np.repeat(p, len(c)) for p, c in rows_and_columns])
    caption_M = np.concatenate([np.tile(c, len(p)) for p, c in rows_and_columns])
    value_M = score(image_M, caption_M, bench.items)
    cases, end = [], 0
    for item, (p, c) in zip(bench.items, rows_and_columns, strict=True):
        start, end = end, end + len(p) * len(c)
        cases.append(Case(item, Scores(item.id, value_M[start:end].reshape(len(p), len(c)))))
    return averages(bench.benchmark, cases, protocol=EvalProtocol())
