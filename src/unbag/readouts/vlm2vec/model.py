"""VLM2Vec as a dual encoder, and the copy of a chat model that training adapts.

The vector of an image is read behind "Represent the given image", that of a caption behind the
caption alone; so every benchmark and probe takes a chat model as it takes a CLIP.

Dimensions: N images or captions, D width of the language model, F bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.data.images import PixelImage
from unbag.errors import ImageError, UnbagError
from unbag.models.huggingface.chat import ChatModel, HiddenGenerator
from unbag.models.huggingface.chat_runner import CausalRunner
from unbag.models.shipped import more_ships
from unbag.readouts.decoder.language import small_language
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.decoder.saving import on_encoder, read_decoder
from unbag.readouts.reader import shipped_decoder
from unbag.readouts.vlm2vec.data import VERSION, instruction, text_instruction
from unbag.registry import has_study
from unbag.training.encoders.lora import inject_lora
from unbag.training.settings import bounded, check_bounds
from unbag.types import DualEncoder

if TYPE_CHECKING:
    from PIL.Image import Image

PROJECTIONS = (
    "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "out_proj", "gate_proj", "up_proj",
    "gate_up_proj", "down_proj",
)  # fmt: skip
"""Names of the linear layers that get small matrices, in the language model only."""
_SIDES = 8
"""Bytes in front of a prepared image: its height and its width."""
_UNLIMITED = 1_000_000
_TRAIN = (
    "`unbag train --readout decoder`, then `unbag train --readout vlm2vec --model decoder:FOLDER`: "
    "docs/vlm2vec.md"
)


@dataclass(frozen=True, eq=False)
class Vlm2Vec:
    """Embeds images and captions with a chat model."""

    model: HiddenGenerator
    scale: float = 1.0
    """Inverse temperature of the training loss; 1 if it was not trained to embed."""
    bias: float = 0.0

    @property
    def name(self) -> str:
        """The model's, and that it embeds."""
        return f"{self.model.name} (vlm2vec)"

    @property
    def fingerprint(self) -> str:
        """Of the model and the instruction."""
        return f"{self.model.fingerprint}-vlm2vec{VERSION}"

    @property
    def device(self) -> str:
        """Where the model computes."""
        return str(getattr(self.model, "device", "cpu"))

    @property
    def context(self) -> int:
        """The model's; a longer caption is refused, not cut."""
        return getattr(self.model, "context", None) or _UNLIMITED

    def prepare(self, image: Image) -> Tensor:
        """Height, width and pixels as bytes: processors of chat models need the image itself."""
        pixels = np.asarray(image.convert("RGB"))
        sides = np.array(pixels.shape[:2], dtype="<i4").view(np.uint8)
        return torch.from_numpy(np.concatenate([sides, pixels.reshape(-1)]))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Tokens where the model tells them, else words."""
        count = getattr(self.model, "count_tokens", None)
        if count is None:
            return [len(caption.split()) for caption in captions]
        found: list[int] = count(captions)
        return found

    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, F] prepared images to [N, D]; NaN where the model cannot take one for its shape."""
        asks = []
        for byte_F in pixels.cpu().numpy():
            height, width = (int(side) for side in byte_F[:_SIDES].view("<i4"))
            pixels_HW3 = byte_F[_SIDES : _SIDES + height * width * 3].reshape(height, width, 3)
            asks.append((PixelImage(pixels_HW3), instruction(None)))
        try:
            return unit(self.model.last_hidden(asks))
        except ImageError as error:
            warn(f"without a vector: {error.message}", stacklevel=2)
        nothing_D = torch.full_like(self.encode_texts([instruction(None)])[0], torch.nan)
        return torch.stack([self._alone(ask, nothing_D) for ask in asks])

    def _alone(self, ask: tuple[PixelImage, str], nothing_D: Tensor) -> Tensor:
        try:
            return unit(self.model.last_hidden([ask]))[0]
        except ImageError:
            return nothing_D

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """N captions to [N, D]."""
        return unit(self.model.last_hidden([(None, caption) for caption in captions]))

    def encode_questions(self, questions: Sequence[str]) -> Tensor:
        """N questions without an image to [N, D]: nearest to what the model would say unseen."""
        return self.encode_texts([text_instruction(question) for question in questions])


def unit(vector_ND: Tensor) -> Tensor:
    """At unit norm, in float32 or more: squares of hidden states do not fit into half precision."""
    wide = torch.promote_types(vector_ND.dtype, torch.float32)
    return functional.normalize(vector_ND.to(wide), dim=-1)


def hidden_generator(model: object) -> HiddenGenerator:
    """The model, if it can show what it made of all that it read."""
    if isinstance(model, HiddenGenerator):
        return model
    raise UnbagError(
        f"{getattr(model, 'name', type(model).__name__)} shows no hidden state behind a prompt",
        expected="a chat model on this machine, such as hf:FOLDER of a LLaVA or Qwen-VL",
        hint="name one with --model (or behind vlm2vec:); this model is scored without vlm2vec",
    )


def on_patches(encoder: DualEncoder, folder: Path | None, *, readout: str) -> PatchDecoder:
    """The head of a folder, or the one that is shipped for this encoder.

    A head is a decoder (`unbag.readouts.decoder.saving`) that was trained further to embed.
    """
    place = folder or shipped_decoder(readout, encoder)
    if place is None:
        raise UnbagError(
            f"the read-out {readout!r} needs a language model: {encoder.name} "
            f"({encoder.fingerprint}) has none, and none is shipped for its patches",
            expected="a chat model on this machine (hf:FOLDER, decoder:FOLDER), "
            + ("tiny:base with --scorer vlm2vec, " if has_study() else "")
            + f"or --scorer {readout}@FOLDER with a head for this model",
            hint=f"train one with {_TRAIN}{more_ships()}",
        )
    kept = read_decoder(place, read=small_language, hint=f"check the path; train one with {_TRAIN}")
    if not kept.made.embeds:
        raise UnbagError(
            f"{place} was taught to answer, not to embed",
            expected="a head that `python -m unbag_lab arms` trained to embed",
            hint=f"score it with --scorer decoder@{place}, or train it to embed: "
            f"unbag train --readout {readout} --model decoder:{place}",
        )
    return on_encoder(kept, encoder, place, name=encoder.name)


@dataclass(frozen=True)
class Adapting:
    """Which weights of a chat model are trained."""

    lora: int = bounded(8, low=0)
    """Rank; 0 trains the whole language model."""
    alpha: float = bounded(64.0, above=0)
    dropout: float = bounded(0.1, low=0, below=1)
    dora: bool = True
    """Train the length of each matrix's columns apart from their direction."""

    def __post_init__(self) -> None:
        check_bounds(self, "VLM2Vec")


@dataclass(frozen=True, eq=False)
class Adapted:
    """A copy of a chat model, ready to learn.

    It shares all weights that stay as they are, so that a large model is in memory once. What is
    trained is saved alone, as safetensors.
    """

    model: ChatModel
    weights: Mapping[str, nn.Parameter]
    """What training changes, by name."""

    @property
    def runner(self) -> CausalRunner:
        """Runs it, with gradients where they are on."""
        assert isinstance(self.model.runner, CausalRunner)
        return self.model.runner

    def train(self, is_training: bool = True) -> None:
        """Dropout beside the language model's matrices; all else is as when it is asked."""
        for part in self.runner.model.modules():
            if hasattr(part, "lora_dropout"):
                part.train(is_training)

    def state(self) -> dict[str, Tensor]:
        """The trained weights, on the CPU."""
        return {name: weight.detach().cpu().clone() for name, weight in self.weights.items()}

    def load(self, state: Mapping[str, Tensor], *, source: str) -> None:
        """Put trained weights in their places."""
        shapes = {name: tuple(weight.shape) for name, weight in self.weights.items()}
        given = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if shapes != given:
            wrong = sorted(set(shapes.items()) ^ set(given.items()))[0]
            raise UnbagError(
                f"{source} holds other weights than {self.model.name} has a place for: {wrong[0]}",
                expected=f"{len(shapes)} tensors beside its language model",
                hint="take the folder as training wrote it",
            )
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state[name])


def adapt(model: ChatModel, adapting: Adapting, *, seed: int = 0) -> Adapted:
    """A copy with matrices to train; the model stays as it is."""
    if not isinstance(model.runner, CausalRunner):
        # Says why there is nothing to embed with.
        model.hidden_rows([])
    module, name = model.runner.model, _language_model(model)
    copied = deepcopy(module, _shared(module, name, adapting))
    copied.requires_grad_(False)
    if adapting.lora:
        _add_lora(copied, name, adapting, seed=seed, device=model.device)
        found = {n: p for n, p in copied.named_parameters() if ".lora_" in n}
    else:
        # Steps of 2e-5 are lost in half precision; widening changes no frozen bit.
        copied = copied.float()
        language = copied.get_submodule(name)
        found = {f"{name}.{n}": p for n, p in language.named_parameters()}
    for weight in found.values():
        weight.requires_grad_(True)
    copied.eval()
    runner: Any = replace(model.runner, model=copied)
    return Adapted(replace(model, runner=runner), found)


def _shared(module: nn.Module, name: str, adapting: Adapting) -> dict[int, Any]:
    """Weights that the copy may have in common with the model."""
    frozen = {id(weight): weight for weight in module.parameters()}
    if adapting.lora:
        return frozen
    if any(weight.dtype != torch.float32 for weight in frozen.values()):
        # The copy is widened, which changes weights in their place.
        return {}
    inside = {id(weight) for weight in module.get_submodule(name).parameters()}
    return {key: weight for key, weight in frozen.items() if key not in inside}


def _language_model(model: ChatModel) -> str:
    """Name of the language model among the parts of the model."""
    module: Any = model.runner.model
    # Decoders on patches keep theirs under a name of its own.
    own = getattr(getattr(module, "language", None), "base_model", None)
    decoder = module.get_decoder() if hasattr(module, "get_decoder") else own
    names = [str(name) for name, part in module.named_modules() if part is decoder and name]
    if not names:
        raise UnbagError(
            f"{model.name} does not say which of its parts is the language model",
            expected="a chat model of transformers with get_decoder()",
            hint="unbag.readouts.vlm2vec.training trains anything that embeds",
        )
    return names[0]


def _add_lora(module: nn.Module, name: str, adapting: Adapting, *, seed: int, device: str) -> None:
    targets = [
        f"{name}.{inner}"
        for inner, part in module.get_submodule(name).named_modules()
        if isinstance(part, nn.Linear) and inner.rpartition(".")[2] in PROJECTIONS
    ]
    if not targets:
        raise UnbagError(
            f"the language model {name} has none of the layers {', '.join(PROJECTIONS)}",
            expected="linear layers of attention and MLP under these names",
            hint="--set lora=0 trains the whole language model",
        )
    torch.manual_seed(seed)
    inject_lora(
        module,
        targets,
        hint=", or --set lora=0 to train the language model",
        r=adapting.lora,
        lora_alpha=adapting.alpha,
        lora_dropout=adapting.dropout,
        use_dora=adapting.dora,
        init_lora_weights="gaussian",
    )
    for inner, part in module.named_parameters():
        if ".lora_" in f".{inner}":
            part.data = part.data.to(device=device, dtype=torch.float32)


def trained_fingerprint(model: ChatModel, state: Mapping[str, Tensor]) -> str:
    """Of the base and of what was trained on top of it."""
    digest = blake2b(digest_size=8)
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().numpy().tobytes())
    return f"{model.fingerprint}-{digest.hexdigest()}"
