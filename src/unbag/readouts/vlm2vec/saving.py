"""The folder that VLM2Vec training writes: weights, what they belong to, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbag.errors import UserError, said_by
from unbag.metrics.intervals import wilson
from unbag.models.huggingface.chat import ChatModel
from unbag.readouts.decoder.saving import CONFIG, read_config, wrong_config
from unbag.readouts.training import CARD
from unbag.readouts.vlm2vec.data import WITH_QUESTION, WITHOUT
from unbag.readouts.vlm2vec.model import Adapting, adapt, trained_fingerprint
from unbag.readouts.vlm2vec.training import ShareNearest
from unbag.runs.files import write_atomically, write_text
from unbag.version import __version__

WEIGHTS = "adapter.safetensors"
_KIND = "vlm2vec"


def save(folder: Path, state: Mapping[str, Tensor], about: About) -> None:
    """Write the folder; the weights last, so that where they are, all is."""
    write_text(folder / CONFIG, json.dumps({"kind": _KIND, **asdict(about)}, indent=2) + "\n")
    write_text(folder / CARD, _card(about))
    write_atomically(folder / WEIGHTS, lambda temporary: save_file(dict(state), temporary))


@dataclass(frozen=True)
class About:
    """What belongs to trained weights."""

    readout: str
    base: str
    """The name that loads the model, as it was typed."""
    base_fingerprint: str
    temperature: float
    adapting: Adapting
    settings: Mapping[str, object]
    data: str
    seed: int
    steps: int
    seconds: float
    before: ShareNearest
    after: ShareNearest
    version: str = __version__

    def numbers(self) -> str:
        """Before and after, with n and interval."""
        return f"before {_said(self.before)}, after {_said(self.after)}"


def read_about(folder: Path) -> About:
    """What a folder was made of; raises UserError if it is none of these."""
    refused = partial(_refused, folder)
    found = read_config(folder, kind=_KIND, refused=refused)
    if not (folder / WEIGHTS).is_file():
        raise refused(f"it has no {WEIGHTS}")
    try:
        del found["kind"]
        for key, kind in (
            ("adapting", Adapting),
            ("before", ShareNearest),
            ("after", ShareNearest),
        ):
            found[key] = kind(**found[key])
        return About(**found)
    except (KeyError, TypeError, ValueError) as error:
        raise refused(wrong_config(error)) from error


def _refused(folder: Path, why: str) -> UserError:
    return UserError(
        f"{folder} holds no trained VLM2Vec: {why}",
        expected=f"a folder with {WEIGHTS} and {CONFIG}, as `unbag train` writes it",
        way_out="check the path; `unbag train --recipe vlm2vec --model hf:FOLDER --pairs world "
        "--out FOLDER` makes one: docs/vlm2vec.md",
    )


def load(model: ChatModel, folder: Path) -> tuple[ChatModel, float]:
    """The model as it was trained, and the inverse temperature; another base is refused."""
    about = read_about(folder)
    if about.base_fingerprint != model.fingerprint:
        raise UserError(
            f"{folder} was trained for {about.base} ({about.base_fingerprint}), and this is "
            f"{model.name} ({model.fingerprint})",
            expected="the same weights, processor and precision as in training",
            way_out=f"--model {about.base}, with the --dtype of the training",
        )
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{folder / WEIGHTS} cannot be read: {said_by(error)}",
            expected="a safetensors file as training wrote it",
        ) from error
    adapted = adapt(model, about.adapting)
    adapted.load(state, source=str(folder / WEIGHTS))
    print_ = trained_fingerprint(model, state)
    name = f"{model.name}, trained"
    return replace(adapted.model, name=name, fingerprint=print_), 1 / about.temperature


def is_adapter(folder: Path) -> bool:
    """Whether the folder is one that `save` wrote."""
    return (folder / WEIGHTS).exists()


def _card(about: About) -> str:
    rows = "\n".join(f"| {key} | {value} |" for key, value in about.settings.items())
    lora = about.adapting.lora
    what = f"Matrices of rank {lora} beside its language model" if lora else "Its language model"
    return f"""# {about.readout} of {about.base}

{what}, trained to embed: the hidden state at the last token of a
picture with an instruction lies near that of its caption. The picture tower is as it was. It means
nothing for another base (fingerprint {about.base_fingerprint}).

    unbag run --model {about.base} --scorer {about.readout}@DIR --bench world
    unbag run --model vlm2vec:DIR --bench world

Behind the picture stands

    {WITH_QUESTION}

or, without a question, "{WITHOUT}".

## Training

- Data: {about.data}
- Steps: {about.steps:,} in {about.seconds:,.0f} s; seed {about.seed}
- Own target nearest of all targets of its step: {about.numbers()}
  (95 %, Wilson); on fresh scenes where the data is the world, else on pairs that were trained on

| setting | value |
|---|---|
{rows}

Licence: that of the weights it was made from. Written by unbag {about.version}.
"""


def _said(share: ShareNearest) -> str:
    found = wilson(share.right, share.asked)
    part = share.right / share.asked
    between = f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{100 * part:.1f} % {between} of n = {share.asked:,}"
