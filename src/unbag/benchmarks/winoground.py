"""Winoground: two pictures and two captions of the same words in another order.

Read from examples.jsonl and the unpacked pictures as the hub distributes them. If the file
new_tag_assignments.json of "Why is Winoground hard?" lies beside, its reasons become tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder
from unbag.benchmarks.sources import by_hand, downloads
from unbag.metrics.pairs import Groups, Relaxed
from unbag.published.lookup import published_for
from unbag.types import MICRO, Benchmark, Item
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
"""Why an item is hard for another reason than composition (Diwan et al. 2022)."""


def load(root: Path | None) -> Sequence[Item]:
    """One item an example."""
    folder = Folder.of(root, "winoground")
    file = "data/examples.jsonl" if folder.has("data/examples.jsonl") else "examples.jsonl"
    pictures = folder.picture_folder("images", "data/images")
    why = _why(folder)
    items = []
    for record in folder.lines(file):
        number = str(record.read("id", int))
        items.append(
            Item(
                id=f"example/{number}",
                pictures=tuple(
                    # Names stand in the file without their ending.
                    folder.picture(pictures, f"{record.caption(name)}.png", record.where)
                    for name in ("image_0", "image_1")
                ),
                captions=(record.caption("caption_0"), record.caption("caption_1")),
                truth=MATCHING_2,
                tags={
                    **{name: record.text(name) for name in ("tag", "collapsed_tag")},
                    **({} if why is None else _reasons(why.get(number, ()))),
                },
            )
        )
    return items


def _why(folder: Folder) -> Mapping[str, tuple[str, ...]] | None:
    """Reasons by the id of an example; None where the file is not there."""
    if not folder.has(WHY_FILE):
        return None
    return from_json(dict[str, tuple[str, ...]], folder.json(WHY_FILE), WHY_FILE)


def _reasons(found: Sequence[str]) -> dict[str, str]:
    """An example may have several reasons, so each is a tag of its own beside `why`."""
    each = {f"why {name.lower()}": "yes" if name in found else "no" for name in REASONS}
    return {"why": ", ".join(sorted(found)) or "clean", **each}


WINOGROUND = Benchmark(
    name="winoground",
    about="The same words in two orders, with a picture for each: only the order tells which.",
    load=load,
    metrics=(Groups(), Relaxed()),
    headline="group",
    aggregates=(MICRO,),
    official_ties="wrong",
    cite="Thrush et al. 2022, Winoground",
    licence="META IMAGES research licence (gated on the hub)",
    files=("examples.jsonl",),
    sources=("Getty Images",),
    size=400,
    downloads=downloads("winoground"),
    gated=by_hand("winoground"),
    published=published_for("winoground"),
)
