"""Model cards (README.md) of exports and of read-outs, and the records that they show."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unbag.models.loading import name_of_form
from unbag.version import __version__

_SAME_LICENCE = "That of the weights it was made from; nothing is granted here beside it."
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)")
_HUB_LIBRARIES = {"open_clip": "open_clip", "transformers": "transformers"}
Library = Literal["open_clip", "transformers", "tiny", "photo", "joined"]


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
    licence: str = _SAME_LICENCE
    command: str = ""
    version: str = __version__


@dataclass(frozen=True)
class Cost:
    """What a training took."""

    steps: int
    samples: int
    """Images seen, over all steps and processes."""
    seconds: float
    device: str
    """And how many, such as 8 x NVIDIA H200."""


def card_of_copy(model: str, *, name: str, command: str = "") -> Card:
    """For an export without training."""
    return Card(title=name, base=model, command=command)


def card_settings(recipe: Mapping[str, Any], *, seed: int, precision: str) -> str:
    """Lines of Markdown; `recipe` is what `described` made of one."""
    terms = recipe["objective"]["terms"]
    freeze, lora = recipe["freeze"], recipe["lora"]
    lines = [
        f"- source: {recipe['source']}",
        *(f"- loss: {term['weight']:g} x {term['name']}" for term in terms if term["weight"]),
        f"- {recipe['epochs']} epochs, batch size {recipe['batch_size']}, "
        f"learning rate {recipe['learning_rate']:g}, weight decay {recipe['weight_decay']:g}, "
        f"{recipe['warmup_steps']} warmup steps",
        f"- frozen: image encoder {freeze['image']}, text encoder {freeze['text']}"
        + (f"; LoRA of rank {lora['rank']}" if lora else ""),
        f"- seed {seed}, {precision}",
    ]
    return "\n".join(lines)


def render_card(card: Card, exported: Exported) -> str:
    """README.md with the head that the Hugging Face hub reads."""
    parts = [
        _head(card, exported),
        f"# {_line(card.title)}",
        _what(card),
        _use(exported),
        _training(card),
        f"## Before and after\n\n{card.table.strip()}" if card.table else "",
        _agreement_table(exported),
        f"## Licence\n\n{card.licence.strip()}",
        f"Written by unbag {card.version}; `unbag.json` has all of this as data.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(card: Card, exported: Exported) -> str:
    first = exported.folders[0].library
    lines = [
        f"library_name: {_HUB_LIBRARIES.get(first, 'unbag')}",
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
        "behaviour: knowing which words fit an image, but not how they belong together."
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


def _code(folder: LibraryForm) -> str:
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
    return f"{cost.steps:,} steps, {cost.samples:,} images, {took} on {cost.device}"


def _agreement_table(exported: Exported) -> str:
    rows = ["| folder | vectors | pixels | cosine of images |", "|---|---|---|---|"]
    rows += [
        f"| `{one.place}` | {one.agreement.vectors:.1e} | {one.agreement.levels:.2f} of 255 "
        f"| {one.agreement.cosine:.6f} |"
        for one in exported.folders
    ]
    said = (
        "After writing, each form was read again by its library and compared with the model, on "
        "drawn images and on captions of all lengths. *vectors*: the largest difference of a "
        "number of unit vectors, from the same pixels; *pixels*: the largest difference of the two "
        "libraries' prepared images, which are resized by different code; *cosine of images*: "
        "the smallest between an image so prepared and the model's own vector."
    )
    notes = "\n".join(f"- {note}" for note in exported.notes)
    parts = ["## The forms agree", said, "\n".join(rows), notes]
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Exported:
    """All of it."""

    path: Path
    name: str
    """Of the model."""
    fingerprint: str
    """Of the model, as it was before it was written."""
    scale: float
    bias: float
    folders: tuple[LibraryForm, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """What differs between the forms, in whole sentences."""

    def as_json(self) -> Mapping[str, Any]:
        """For unbag.json; without the place, so that the folder can be moved."""
        return {
            "model": self.name,
            "fingerprint": self.fingerprint,
            "scale": self.scale,
            "bias": self.bias,
            "folders": {
                one.place: {
                    "library": one.library,
                    "weights": dict(one.weights),
                    "largest_difference": one.agreement.vectors,
                    "pixel_levels": one.agreement.levels,
                    "smallest_cosine": one.agreement.cosine,
                }
                for one in self.folders
            },
            "left_out": {one.library: one.why for one in self.left_out},
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class LibraryForm:
    """One library's form of the model."""

    library: Library
    place: str
    """Below the export: a folder, for an encoder of our own a file."""
    agreement: Agreement
    weights: tuple[tuple[str, str], ...]
    """Files of weights, below the export, with their sha256."""
    kind: str = "AutoModel"
    """The class of transformers that reads it."""

    def load_line(self, out: Path | str = "DIR") -> str:
        """Python that loads it."""
        at = f"{out}/{self.place}"
        if self.library == "open_clip":
            return f'open_clip.create_model_and_transforms("local-dir:{at}")'
        if self.library == "transformers":
            return f'transformers.{self.kind}.from_pretrained("{at}")'
        return f'{self.module}.load("{at}")'

    @property
    def module(self) -> str:
        """Ours that reads it, where the library is unbag."""
        return f"unbag.models.{self.library}"

    def model_name(self, out: Path | str = "DIR") -> str:
        """As `unbag run --model` takes it."""
        return name_of_form(self.library, f"{out}/{self.place}")


@dataclass(frozen=True)
class Agreement:
    """How far the vectors of a folder, read again by its library, are from the model's."""

    vectors: float
    """Largest difference of a number of unit vectors, from the same pixels and captions."""
    levels: float = 0.0
    """Largest difference of a prepared pixel from the model's own preparation, in levels of 255."""
    cosine: float = 1.0
    """Smallest cosine of an image prepared by this library with the model's own vector."""


@dataclass(frozen=True)
class LeftOut:
    """A form that was not written."""

    library: Library
    why: str


@dataclass(frozen=True)
class ReadoutCard:
    """What only the training of a read-out knows; texts are Markdown."""

    title: str
    about: str
    """What was trained, and for which model alone."""
    commands: Sequence[str]
    """That score with it, FOLDER being its folder."""
    training: str
    """Data, seed, duration."""
    settings: Mapping[str, object]
    numbers: str
    licence: str = (
        "That of the model and of the images it was trained on; nothing is granted here beside it."
    )


def render_readout_card(card: ReadoutCard) -> str:
    """README.md of the folder of a reader, a decoder or a model that embeds."""
    commands = "\n".join(f"    {command}" for command in card.commands)
    settings = "\n".join(f"| {key} | {value} |" for key, value in card.settings.items())
    parts = [
        f"# {card.title}",
        card.about,
        commands,
        f"## Training\n\n{card.training}",
        f"| setting | value |\n| --- | --- |\n{settings}",
        f"## Numbers\n\n{card.numbers}",
        f"## Licence\n\n{card.licence}",
        f"Written by unbag {__version__}.",
    ]
    return "\n\n".join(parts) + "\n"
