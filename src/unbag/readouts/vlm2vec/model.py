"""VLM2Vec: a chat model as a dual encoder, and the copy of a chat model that is fine-tuned.

The vector of an image is the last hidden state after "Represent the given image", that of a caption
the one after the caption. So a chat model runs on all benchmarks and probes of dual encoders.

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
"""Names of the linear layers of the language model that get LoRA matrices."""
_SIDES = 8
"""Bytes before the pixels of a prepared image: its height and width."""
_UNLIMITED = 1_000_000
_TRAIN = (
    "`unbag train --readout decoder`, then `unbag train --readout vlm2vec --model decoder:FOLDER`: "
    "docs/background/vlm2vec.md"
)


@dataclass(frozen=True, eq=False)
class Vlm2Vec:
    """A dual encoder that embeds images and captions with a chat model."""

    model: HiddenGenerator
    scale: float = 1.0
    """Inverse temperature of the training loss; 1 for a model that was not trained to embed."""
    bias: float = 0.0

    @property
    def name(self) -> str:
        """Return the model's name, marked as VLM2Vec."""
        return f"{self.model.name} (vlm2vec)"

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model and the instruction."""
        return f"{self.model.fingerprint}-vlm2vec{VERSION}"

    @property
    def device(self) -> str:
        """Return the device of the model."""
        return str(getattr(self.model, "device", "cpu"))

    @property
    def context(self) -> int:
        """Return the model's context; longer captions raise an error and are not truncated."""
        return getattr(self.model, "context", None) or _UNLIMITED

    def prepare(self, image: Image) -> Tensor:
        """Return height, width and pixels as bytes, since chat processors need the image."""
        pixels = np.asarray(image.convert("RGB"))
        sides = np.array(pixels.shape[:2], dtype="<i4").view(np.uint8)
        return torch.from_numpy(np.concatenate([sides, pixels.reshape(-1)]))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Count tokens if the model can, else words."""
        count = getattr(self.model, "count_tokens", None)
        if count is None:
            return [len(caption.split()) for caption in captions]
        counts: list[int] = count(captions)
        return counts

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Embed prepared images, [N, F] to [N, D]; NaN for shapes that the model cannot process."""
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
        return torch.stack([self._embed_one(ask, nothing_D) for ask in asks])

    def _embed_one(self, ask: tuple[PixelImage, str], nothing_D: Tensor) -> Tensor:
        try:
            return unit(self.model.last_hidden([ask]))[0]
        except ImageError:
            return nothing_D

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Embed captions, [N, D]."""
        return unit(self.model.last_hidden([(None, caption) for caption in captions]))

    def encode_questions(self, questions: Sequence[str]) -> Tensor:
        """Embed questions without an image, [N, D]."""
        return self.encode_texts([text_instruction(question) for question in questions])


def unit(vector_ND: Tensor) -> Tensor:
    """Normalise vectors in float32 or more: squares of hidden states overflow half precision."""
    dtype = torch.promote_types(vector_ND.dtype, torch.float32)
    return functional.normalize(vector_ND.to(dtype), dim=-1)


def hidden_generator(model: object) -> HiddenGenerator:
    """Return the model if it has hidden states; raise UnbagError if not."""
    if isinstance(model, HiddenGenerator):
        return model
    raise UnbagError(
        f"{getattr(model, 'name', type(model).__name__)} returns no hidden state of a prompt",
        expected="a chat model on this machine, such as hf:FOLDER of a LLaVA or Qwen-VL",
        hint="name one with --model or vlm2vec:; this model can be scored without vlm2vec",
    )


def on_patches(encoder: DualEncoder, folder: Path | None, *, readout: str) -> PatchDecoder:
    """Return the decoder of a folder, or the shipped one, on an encoder.

    It is a decoder (`unbag.readouts.decoder.saving`) that was trained further to embed.
    """
    path = folder or shipped_decoder(readout, encoder)
    if path is None:
        raise UnbagError(
            f"the read-out {readout!r} needs a language model: {encoder.name} "
            f"({encoder.fingerprint}) has none, and none is shipped for its patches",
            expected="a chat model on this machine (hf:FOLDER, decoder:FOLDER), "
            + ("tiny:base with --scorer vlm2vec, " if has_study() else "")
            + f"or --scorer {readout}@FOLDER with a head for this model",
            hint=f"train one with {_TRAIN}{more_ships()}",
        )
    saved = read_decoder(
        path, read=small_language, hint=f"check the path, or train one with {_TRAIN}"
    )
    if not saved.made.embeds:
        raise UnbagError(
            f"{path} was trained to answer, not to embed",
            expected="a head that `python -m unbag_lab arms` trained to embed",
            hint=f"score it with --scorer decoder@{path}, or train it to embed: "
            f"unbag train --readout {readout} --model decoder:{path}",
        )
    return on_encoder(saved, encoder, path, name=encoder.name)


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of the weights that are trained: LoRA, or the whole language model."""

    lora: int = bounded(8, low=0)
    """LoRA rank; 0 trains the whole language model."""
    alpha: float = bounded(64.0, above=0)
    dropout: float = bounded(0.1, low=0, below=1)
    dora: bool = True
    """Train the magnitude of matrix columns separately from their direction (DoRA)."""

    def __post_init__(self) -> None:
        check_bounds(self, "VLM2Vec")


@dataclass(frozen=True, eq=False)
class Adapted:
    """A copy of a chat model for fine-tuning.

    It shares all frozen weights with the original, so that a large model is in memory once. Only
    the trained weights are saved, as safetensors.
    """

    model: ChatModel
    weights: Mapping[str, nn.Parameter]
    """The trained weights by name."""

    @property
    def runner(self) -> CausalRunner:
        """Return the runner of the copy."""
        assert isinstance(self.model.runner, CausalRunner)
        return self.model.runner

    def train(self, is_training: bool = True) -> None:
        """Switch the dropout of LoRA layers; all else is always in evaluation mode."""
        for part in self.runner.model.modules():
            if hasattr(part, "lora_dropout"):
                part.train(is_training)

    def state(self) -> dict[str, Tensor]:
        """Return the trained weights on the CPU."""
        return {name: weight.detach().cpu().clone() for name, weight in self.weights.items()}

    def load(self, state: Mapping[str, Tensor], *, source: str) -> None:
        """Load trained weights; raise UnbagError if they do not fit."""
        shapes = {name: tuple(weight.shape) for name, weight in self.weights.items()}
        state_shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if shapes != state_shapes:
            wrong = sorted(set(shapes.items()) ^ set(state_shapes.items()))[0]
            raise UnbagError(
                f"{source} has weights that do not fit {self.model.name}: {wrong[0]}",
                expected=f"{len(shapes)} tensors for its language model",
                hint="use an unchanged folder of `unbag train`",
            )
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state[name])


def adapt(model: ChatModel, settings: AdapterSettings, *, seed: int = 0) -> Adapted:
    """Return a copy with weights to train; the model itself is not changed."""
    if not isinstance(model.runner, CausalRunner):
        # Raises an error that says why the model cannot embed.
        model.hidden_rows([])
    module, name = model.runner.model, _language_model(model)
    copied = deepcopy(module, _shared(module, name, settings))
    copied.requires_grad_(False)
    if settings.lora:
        _add_lora(copied, name, settings, seed=seed, device=model.device)
        weights = {n: p for n, p in copied.named_parameters() if ".lora_" in n}
    else:
        # Updates of 2e-5 are lost in half precision; float32 has the same frozen weights.
        copied = copied.float()
        language = copied.get_submodule(name)
        weights = {f"{name}.{n}": p for n, p in language.named_parameters()}
    for weight in weights.values():
        weight.requires_grad_(True)
    copied.eval()
    runner: Any = replace(model.runner, model=copied)
    return Adapted(replace(model, runner=runner), weights)


def _shared(module: nn.Module, name: str, settings: AdapterSettings) -> dict[int, Any]:
    """Return the weights that the copy can share with the model, by id."""
    frozen = {id(weight): weight for weight in module.parameters()}
    if settings.lora:
        return frozen
    if any(weight.dtype != torch.float32 for weight in frozen.values()):
        # The copy is converted to float32, which changes weights in place.
        return {}
    inside = {id(weight) for weight in module.get_submodule(name).parameters()}
    return {key: weight for key, weight in frozen.items() if key not in inside}


def _language_model(model: ChatModel) -> str:
    """Return the name of the language model among the modules of the model."""
    module: Any = model.runner.model
    # Decoders on patches have it under another name.
    patch_decoder_model = getattr(getattr(module, "language", None), "base_model", None)
    decoder = module.get_decoder() if hasattr(module, "get_decoder") else patch_decoder_model
    names = [str(name) for name, part in module.named_modules() if part is decoder and name]
    if not names:
        raise UnbagError(
            f"{model.name} does not tell which of its modules is the language model",
            expected="a chat model of transformers with get_decoder()",
            hint="unbag.readouts.vlm2vec.training trains anything that embeds",
        )
    return names[0]


def _add_lora(
    module: nn.Module, name: str, settings: AdapterSettings, *, seed: int, device: str
) -> None:
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
        r=settings.lora,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        use_dora=settings.dora,
        init_lora_weights="gaussian",
    )
    for inner, part in module.named_parameters():
        if ".lora_" in f".{inner}":
            part.data = part.data.to(device=device, dtype=torch.float32)


def trained_fingerprint(model: ChatModel, state: Mapping[str, Tensor]) -> str:
    """Return a fingerprint of the base model and the trained weights."""
    digest = blake2b(digest_size=8)
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().numpy().tobytes())
    return f"{model.fingerprint}-{digest.hexdigest()}"
