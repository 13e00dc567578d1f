"""Write the model cards (README.md) of exports and read-outs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unbag.models.loading import name_of_form
from unbag.version import __version__

_SAME_LICENCE = "That of the original weights; nothing further is granted here."
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)")
_HUB_LIBRARIES = {"open_clip": "open_clip", "transformers": "transformers"}
Library = Literal["open_clip", "transformers", "tiny", "photo", "joined"]


@dataclass(frozen=True)
class Card:
    """What the export itself cannot know about the model; texts are Markdown."""

    title: str
    base: str
    """The original model, as `--model` takes it."""
    recipe: str = ""
    """Name of the training recipe; empty if the weights are those of `base`."""
    settings: str = ""
    data: str = ""
    table: str = ""
    """Scores before and after training, as a Markdown table."""
    cost: Cost | None = None
    licence: str = _SAME_LICENCE
    command: str = ""
    version: str = __version__


@dataclass(frozen=True)
class Cost:
    """Cost of a training run."""

    steps: int
    samples: int
    """Images seen, over all steps and processes."""
    seconds: float
    device: str
    """With the number of devices, such as 8 x NVIDIA H200."""


def card_of_copy(model: str, *, name: str, command: str = "") -> Card:
    """Return the card of an export without training."""
    return Card(title=name, base=model, command=command)


def card_settings(recipe: Mapping[str, Any], *, seed: int, precision: str) -> str:
    """Return the hyperparameters as lines of Markdown; `recipe` is a recipe as JSON."""
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
    """Return README.md with the metadata that the Hugging Face hub reads."""
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
        # The hub accepts only its own names here. JSON strings are valid YAML.
        lines.append(f"base_model: {json.dumps(hub[1])}")
    return "---\n" + "\n".join(lines) + "\n---"


def _what(card: Card) -> str:
    if not card.recipe:
        return (
            f"An export of `{card.base}` with unchanged weights: nothing was trained, so no score "
            "changed."
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
    parts += [f"Not exported to {form.library}: {form.why}." for form in exported.left_out]
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
    duration = f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    return f"{cost.steps:,} steps, {cost.samples:,} images, {duration} on {cost.device}"


def _agreement_table(exported: Exported) -> str:
    rows = ["| folder | vectors | pixels | cosine of images |", "|---|---|---|---|"]
    rows += [
        f"| `{form.place}` | {form.agreement.vectors:.1e} | {form.agreement.levels:.2f} of 255 "
        f"| {form.agreement.cosine:.6f} |"
        for form in exported.folders
    ]
    explanation = (
        "After writing, each export was loaded with its library and compared with the model, on "
        "drawn images and on captions of all lengths. *vectors*: the largest difference between "
        "components of unit vectors, from the same pixels; *pixels*: the largest difference "
        "between the preprocessed images, since the libraries resize with different code; *cosine "
        "of images*: the smallest cosine between an image preprocessed by the library and the "
        "model's own vector."
    )
    notes = "\n".join(f"- {note}" for note in exported.notes)
    parts = ["## Agreement of the exports", explanation, "\n".join(rows), notes]
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Exported:
    """An export: its folder, formats and checks."""

    path: Path
    name: str
    """Of the model."""
    fingerprint: str
    """Fingerprint of the model before it was written."""
    scale: float
    bias: float
    folders: tuple[LibraryForm, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """Differences between the formats, as full sentences."""

    def as_json(self) -> Mapping[str, Any]:
        """Return the content of unbag.json, without the path, so that the folder can be moved."""
        return {
            "model": self.name,
            "fingerprint": self.fingerprint,
            "scale": self.scale,
            "bias": self.bias,
            "folders": {
                form.place: {
                    "library": form.library,
                    "weights": dict(form.weights),
                    "largest_difference": form.agreement.vectors,
                    "pixel_levels": form.agreement.levels,
                    "smallest_cosine": form.agreement.cosine,
                }
                for form in self.folders
            },
            "left_out": {form.library: form.why for form in self.left_out},
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class LibraryForm:
    """The model in the format of one library."""

    library: Library
    place: str
    """Path inside the export: a folder, or a file for unbag's own encoders."""
    agreement: Agreement
    weights: tuple[tuple[str, str], ...]
    """Weight files inside the export, with their sha256."""
    kind: str = "AutoModel"
    """The class of transformers that loads it."""

    def load_line(self, out: Path | str = "DIR") -> str:
        """Return the line of Python that loads it."""
        path = f"{out}/{self.place}"
        if self.library == "open_clip":
            return f'open_clip.create_model_and_transforms("local-dir:{path}")'
        if self.library == "transformers":
            return f'transformers.{self.kind}.from_pretrained("{path}")'
        return f'{self.module}.load("{path}")'

    @property
    def module(self) -> str:
        """The module of unbag that loads it, for unbag's own encoders."""
        return f"unbag.models.{self.library}"

    def model_name(self, out: Path | str = "DIR") -> str:
        """Return the name that `unbag run --model` takes."""
        return name_of_form(self.library, f"{out}/{self.place}")


@dataclass(frozen=True)
class Agreement:
    """Differences between the model and an export loaded with its library."""

    vectors: float
    """Largest difference between components of unit vectors, from the same pixels and captions."""
    levels: float = 0.0
    """Largest difference of a preprocessed pixel from the model's own, in levels of 255."""
    cosine: float = 1.0
    """Smallest cosine between an image preprocessed by this library and the model's own vector."""


@dataclass(frozen=True)
class LeftOut:
    """A format that was not written."""

    library: Library
    why: str


@dataclass(frozen=True)
class ReadoutCard:
    """Content of the model card of a read-out; texts are Markdown."""

    title: str
    about: str
    """What was trained, and for which model."""
    commands: Sequence[str]
    """Commands that score with it, where FOLDER is its folder."""
    training: str
    """Data, seed and duration of the training."""
    settings: Mapping[str, object]
    numbers: str
    licence: str = "That of the model and of the training images; nothing further is granted here."


def render_readout_card(card: ReadoutCard) -> str:
    """Return README.md for the folder of a read-out."""
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
