"""Small collections of images on disk, a recipe and a model's preparation, for several tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unbag.data.pairs import Pairs
from unbag.training.data.batch import Batch
from unbag.training.objective import Objective, Term
from unbag.training.recipes import Recipe, Slot
from unbag.types import Embedded

if TYPE_CHECKING:
    from PIL.Image import Image

DOG, MAN = "a dog on a sofa", "a man on a horse"
SWAP = Slot("swap", ("swap_nouns",))
ARTICLE = Slot("article", ("article",))


def no_loss(embedded: Embedded) -> Tensor:
    """Batches know nothing of losses."""
    return embedded.scale


def recipe(
    *,
    batch_size: int = 4,
    epochs: int = 2,
    negatives: tuple[Slot, ...] = (SWAP,),
    positives: tuple[Slot, ...] = (),
    hard_images: bool = False,
    masks_equal: bool = True,
) -> Recipe:
    """A recipe of which only what decides batches matters."""
    return Recipe(
        "test",
        "ours",
        Objective((Term("itc", 1.0, no_loss),)),
        negatives=negatives,
        positives=positives,
        batch_size=batch_size,
        epochs=epochs,
        hard_images=hard_images,
        masks_equal=masks_equal,
    )


@dataclass(frozen=True)
class Bytes:
    """Reads an image as its mean colour, a caption as its UTF-8 bytes."""

    def prepare(self, image: Image) -> Tensor:
        """[3] in 0 ... 255."""
        return torch.from_numpy(np.asarray(image, np.float64).mean((0, 1)))

    def tokenize(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Padded with zeros."""
        longest = max(self.count_tokens(captions))
        padded = [list(one.encode().ljust(longest, b"\0")) for one in captions]
        return {"token_NL": torch.tensor(padded)}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Bytes."""
        return [len(one.encode()) for one in captions]


def image(path: Path, shade: int) -> Path:
    """A small one of one colour, by which it can be known."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (shade, 0, 0)).save(path)
    return path


def lines(path: Path, *records: Mapping[str, object]) -> Path:
    """One record a line."""
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def negative(text: str, kind: str = "swap_nouns") -> dict[str, object]:
    """An edit as `unbag edit` writes it."""
    return {"text": text, "kind": kind, "is_positive": False, "changes": []}


def numbered(folder: Path, count: int) -> Path:
    """Images 0.png, 1.png ... with two captions each, each with an edit of its own."""
    for shade in range(count):
        image(folder / f"{shade}.png", shade)
    return lines(
        folder / "pairs.jsonl",
        *(
            {
                "image": f"{n}.png",
                "captions": [f"dog {n} on mat", f"mat {n} under dog"],
                "edits": [[negative(f"mat {n} on dog")], [negative(f"dog {n} under mat")]],
            }
            for n in range(count)
        ),
    )


def strings(batch: Batch) -> list[str]:
    """Unique strings of a batch by their row."""
    found = [""] * len(batch.place_U)
    for group in batch.groups:
        for row, tokens in zip(
            group.row_G.tolist(), group.inputs["token_NL"].tolist(), strict=True
        ):
            found[row] = bytes(tokens).rstrip(b"\0").decode()
    return found


def spoken(batch: Batch) -> list[tuple[int, str, list[str | None], list[str | None]]]:
    """For each image its shade, its caption, its negatives and positives."""
    text = strings(batch)
    pixels = batch.pixels
    assert isinstance(pixels, Tensor)
    return [
        (
            round(float(pixels[at, 0])),
            text[int(batch.caption_B[at])],
            [text[row] if row >= 0 else None for row in batch.negative_BK[at].tolist()],
            [text[row] if row >= 0 else None for row in batch.positive_BP[at].tolist()],
        )
        for at in range(len(batch))
    ]


def two_images(folder: Path) -> Path:
    """x.png and in/y.png below it."""
    image(folder / "x.png", 10)
    image(folder / "in" / "y.png", 20)
    return folder


def two_lines(folder: Path) -> Path:
    """Captions of those, three in all."""
    return lines(
        folder / "a.jsonl",
        {"image": "x.png", "captions": [DOG, "two"]},
        {"image": "in/y.png", "caption": MAN},
    )


def said(pairs: Pairs) -> list[tuple[str, tuple[str, ...], list[list[tuple[str, str, bool]]]]]:
    """All but the images."""
    found = []
    for place in range(len(pairs)):
        pair = pairs[place]
        edits = [[(e.text, e.kind, e.is_positive) for e in some] for some in pair.edits]
        found.append((pair.id, pair.captions, edits))
    return found
