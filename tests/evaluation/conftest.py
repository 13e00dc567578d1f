"""A small real encoder, images on disk and a benchmark, shared by the tests of the evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from torch import Tensor

from unbag.data import FileImage
from unbag.metrics.choice import Choice
from unbag.types import Benchmark, Item


@dataclass
class Colours:
    """Mean colour of an image, letters of a caption; counts what it is asked for."""

    name: str = "colours"
    fingerprint: str = "colours-1"
    device: str = "cpu"
    scale: float = 1.0
    bias: float = 0.0
    context: int = 40
    encoded: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    opened: int = 0

    def prepare(self, image: Image) -> Tensor:
        self.opened += 1
        return torch.from_numpy(np.asarray(image, dtype=np.float32)).mean(dim=(0, 1))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [len(caption) for caption in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.batches.append(len(pixels))
        return torch.nn.functional.normalize(pixels + 1, dim=-1)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        self.encoded += captions
        rows = [[float(c.count(letter)) + 0.01 for letter in "rgb"] for c in captions]
        return torch.nn.functional.normalize(torch.tensor(rows), dim=-1)


COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250)}
TRUE = {"red": "rrr red one", "green": "ggg green one", "blue": "bbb blue one"}


def make_items(folder: Path, count: int = 30) -> list[Item]:
    """Items over a few images, as SugarCrepe has many for each image."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(COLOURS)
    for i in range(6):
        colour = COLOURS[names[i % 3]]
        noisy = np.clip(np.array(colour) + 3 * i, 0, 255).astype(np.uint8)
        Images.fromarray(np.broadcast_to(noisy, (8, 8, 3)).copy()).save(folder / f"{i}.png")
    items = []
    for i in range(count):
        name, other = names[i % 3], names[(i + 1) % 3]
        items.append(
            Item(
                f"item{i}",
                (FileImage(folder / f"{i % 6}.png"),),
                (TRUE[name], TRUE[other] + " x" * (i % 4)),
                np.array([[True, False]]),
                tags={"colour": name},
            )
        )
    return items


def make_benchmark(load: Callable[[Path | None], Sequence[Item]], name: str = "toy") -> Benchmark:
    return Benchmark(name=name, about="a toy", load=load, metrics=(Choice(),), headline="accuracy")


@pytest.fixture
def encoder() -> Colours:
    return Colours()


@pytest.fixture
def items(tmp_path: Path) -> list[Item]:
    return make_items(tmp_path / "pictures")


@pytest.fixture
def toy(items: list[Item]) -> Benchmark:
    return make_benchmark(lambda root: items)


@pytest.fixture
def make() -> Callable[..., Benchmark]:
    return make_benchmark
