"""What a model is, how it was made and what was written come in; its card goes out as Markdown."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.version import __version__

if TYPE_CHECKING:
    from unbag.train.exported import Exported, Folder

_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)")
_KINDS = {"open_clip": "open_clip", "transformers": "transformers"}
SAME_LICENCE = "That of the weights it was made from; nothing is granted here beside it."


@dataclass(frozen=True)
class Cost:
    """What a training took."""

    steps: int
    samples: int
    """Pictures seen, over all steps and processes."""
    seconds: float
    device: str
    """And how many, such as 8 x NVIDIA H200."""


@dataclass(frozen=True)
class Card:
    """What only the maker of a model knows; texts are Markdown."""

    title: str
    base: str
    """The model it was made from, as `--model` names it."""
    recipe: str = ""
    """Its name; without one the weights are those of `base`, and the card says so."""
    settings: str = ""
    data: str = ""
    table: str = ""
    """Numbers before and after, as a Markdown table."""
    cost: Cost | None = None
    licence: str = SAME_LICENCE
    command: str = ""
    version: str = __version__


def card_of_copy(model: str, *, name: str, command: str = "") -> Card:
    """For an export without training."""
    return Card(title=name, base=model, command=command)


def render(card: Card, exported: Exported) -> str:
    """README.md with the head that the Hugging Face hub reads."""
    parts = [
        _head(card, exported),
        f"# {_line(card.title)}",
        _what(card),
        _use(exported),
        _training(card),
        f"## Before and after\n\n{card.table.strip()}" if card.table else "",
        _agreement(exported),
        f"## Licence\n\n{card.licence.strip()}",
        f"Written by unbag {card.version}; `unbag.json` has all of this as data.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(card: Card, exported: Exported) -> str:
    first = exported.folders[0].library
    lines = [
        f"library_name: {_KINDS.get(first, 'unbag')}",
        "pipeline_tag: zero-shot-image-classification",
        "tags:",
        *(f"- {tag}" for tag in ("clip", "compositionality", "unbag")),
    ]
    hub = _HUB.fullmatch(card.base)
    if hub:
        # The hub takes only names of its own here. JSON's strings are YAML's.
        lines.append(f"base_model: {json.dumps(hub[1])}")
    return "---\n" + "\n".join(lines) + "\n---"


def _what(card: Card) -> str:
    if not card.recipe:
        return (
            f"An export of `{card.base}`: its weights as they were. Nothing was trained, so no "
            "number changed."
        )
    return (
        f"`{card.base}`, fine-tuned with the recipe `{card.recipe}` against bag-of-words "
        "behaviour: knowing which words fit a picture, but not how they belong together."
    )


def _use(exported: Exported) -> str:
    parts = ["## Use", "`DIR` is this folder."]
    for folder in exported.folders:
        parts += [
            f"```python\n{_code(folder)}\n```",
            f"```\nunbag run --model {folder.model_name()} --bench world --out runs/mine\n```",
        ]
    parts += [f"No form for {one.library}: {one.why}." for one in exported.left_out]
    return "\n\n".join(parts)


def _code(folder: Folder) -> str:
    if folder.library == "open_clip":
        return (
            "import open_clip\n\n"
            f"model, _, prepare = {folder.load_line()}\n"
            f'tokenize = open_clip.get_tokenizer("local-dir:DIR/{folder.place}")'
        )
    if folder.library == "transformers":
        return (
            "import transformers\n\n"
            f"model = {folder.load_line()}\n"
            f'processor = transformers.AutoProcessor.from_pretrained("DIR/{folder.place}")'
        )
    return f"import {folder.module}\n\nencoder = {folder.load_line()}"


def _training(card: Card) -> str:
    if not card.recipe:
        return f"## Made by\n\n```\n{card.command}\n```" if card.command else ""
    rows = [f"- Recipe: `{card.recipe}`", f"- From: `{card.base}`"]
    if card.cost is not None:
        rows.append(f"- Cost: {_cost(card.cost)}")
    parts = ["## Training", "\n".join(rows)]
    parts += [f"### Data\n\n{card.data.strip()}"] if card.data else []
    parts += [f"### Settings\n\n{card.settings.strip()}"] if card.settings else []
    parts += [f"### Command\n\n```\n{card.command}\n```"] if card.command else []
    return "\n\n".join(parts)


def _cost(cost: Cost) -> str:
    hours, rest = divmod(round(cost.seconds), 3600)
    took = f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    return f"{cost.steps:,} steps, {cost.samples:,} pictures, {took} on {cost.device}"


def _agreement(exported: Exported) -> str:
    rows = ["| folder | vectors | pixels | cosine of pictures |", "|---|---|---|---|"]
    rows += [
        f"| `{one.place}` | {one.agreement.vectors:.1e} | {one.agreement.levels:.2f} of 255 "
        f"| {one.agreement.cosine:.6f} |"
        for one in exported.folders
    ]
    said = (
        "After writing, each form was read again by its library and compared with the model, on "
        "drawn pictures and on captions of all lengths. *vectors*: the largest difference of a "
        "number of unit vectors, from the same pixels; *pixels*: the largest difference of the two "
        "libraries' prepared pictures, which are resized by different code; *cosine of pictures*: "
        "the smallest between a picture so prepared and the model's own vector."
    )
    notes = "\n".join(f"- {note}" for note in exported.notes)
    parts = ["## The forms agree", said, "\n".join(rows), notes]
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())
