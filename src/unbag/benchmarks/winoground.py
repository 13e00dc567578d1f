"""Winoground: two images and two captions with the same words in different order.

It is read from examples.jsonl and the unpacked images of the Hugging Face hub. If the file
new_tag_assignments.json of "Why is Winoground hard?" is in the same folder, its reasons become
tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.pairs import Groups, Relaxed
from unbag.types import Benchmark, Item
from unbag.types.json import from_json

WHY_FILE = "new_tag_assignments.json"
REASONS = (
    "Non Minimal",
    "Ambiguously Correct",
    "Visually Difficult",
    "Unusual Image",
    "Unusual Text",
    "Complex Reasoning",
)
"""Reasons other than composition why an item is hard (Diwan et al. 2022)."""


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per example."""
    folder = Folder.of(root, "winoground")
    file = "data/examples.jsonl" if folder.has("data/examples.jsonl") else "examples.jsonl"
    images = folder.image_folder("images", "data/images")
    why: Mapping[str, tuple[str, ...]] | None = None
    if folder.has(WHY_FILE):
        why = from_json(dict[str, tuple[str, ...]], folder.json(WHY_FILE), WHY_FILE)
    items = []
    for record in folder.lines(file):
        number = str(record.read("id", int))
        # The file lists image names without extension.
        names = [f"{image_name}.png" for image_name in record.captions("image_0", "image_1")]
        items.append(
            Item(
                id=f"example/{number}",
                images=folder.images(images, names, record.where),
                captions=record.captions("caption_0", "caption_1"),
                truth=MATCHING_2,
                tags={
                    **{name: record.text(name) for name in ("tag", "collapsed_tag")},
                    **({} if why is None else _reasons(why.get(number, ()))),
                },
            )
        )
    return items


def _reasons(reasons: Sequence[str]) -> dict[str, str]:
    """Tags of an example: `why` with all its reasons, and one tag for each reason."""
    flags = {f"why {name.lower()}": "yes" if name in reasons else "no" for name in REASONS}
    return {"why": ", ".join(sorted(reasons)) or "clean", **flags}


WINOGROUND = Benchmark(
    **benchmark_fields("winoground"),
    load=load,
    metrics=(Groups(), Relaxed()),
    headline="group",
    official_ties="wrong",
    files=("examples.jsonl",),
)
