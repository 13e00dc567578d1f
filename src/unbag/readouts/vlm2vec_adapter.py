"""A chat model and a rank come in; a copy whose language model can learn to embed goes out.

The copy shares all weights that stay as they are, so that a large model is in memory once. What is
trained is saved alone, as safetensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from unbag.errors import UserError
from unbag.models.hf_chat_model import ChatModel
from unbag.models.hf_chat_run import CausalRunner

PROJECTIONS = (
    "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "out_proj", "gate_proj", "up_proj",
    "gate_up_proj", "down_proj",
)  # fmt: skip
"""Names of the linear layers that get small matrices, in the language model only."""


@dataclass(frozen=True)
class Adapting:
    """What is trained."""

    lora: int = 8
    """Rank; 0 trains the whole language model."""
    alpha: float = 64.0
    dropout: float = 0.1
    dora: bool = True
    """Train the length of each matrix's columns apart from their direction."""

    def __post_init__(self) -> None:
        if self.lora < 0 or self.alpha <= 0 or not 0 <= self.dropout < 1:
            raise UserError(
                f"lora={self.lora} alpha={self.alpha} dropout={self.dropout}",
                expected="a rank of 0 or more, an alpha above 0, a dropout from 0 to below 1",
                way_out="--set lora=8 alpha=64 dropout=0.1",
            )


@dataclass(frozen=True, eq=False)
class Adapted:
    """A copy of a chat model, ready to learn."""

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
            raise UserError(
                f"{source} holds other weights than {self.model.name} has a place for: {wrong[0]}",
                expected=f"{len(shapes)} tensors beside its language model",
                way_out="take the folder as training wrote it",
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


def trained_fingerprint(model: ChatModel, state: Mapping[str, Tensor]) -> str:
    """Of the base and of what was trained on top of it."""
    digest = blake2b(digest_size=8)
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().numpy().tobytes())
    return f"{model.fingerprint}-{digest.hexdigest()}"


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
    """Its name in the model."""
    module: Any = model.runner.model
    # Decoders on patches keep theirs under a name of its own.
    own = getattr(getattr(module, "language", None), "base_model", None)
    decoder = module.get_decoder() if hasattr(module, "get_decoder") else own
    names = [str(name) for name, part in module.named_modules() if part is decoder and name]
    if not names:
        raise UserError(
            f"{model.name} does not say which of its parts is the language model",
            expected="a chat model of transformers with get_decoder()",
            way_out="unbag.readouts.vlm2vec_core trains anything that embeds",
        )
    return names[0]


def _add_lora(module: nn.Module, name: str, adapting: Adapting, *, seed: int, device: str) -> None:
    targets = [
        f"{name}.{inner}"
        for inner, part in module.get_submodule(name).named_modules()
        if isinstance(part, nn.Linear) and inner.rpartition(".")[2] in PROJECTIONS
    ]
    if not targets:
        raise UserError(
            f"the language model {name} has none of the layers {', '.join(PROJECTIONS)}",
            expected="linear layers of attention and MLP under these names",
            way_out="--set lora=0 trains the whole language model",
        )
    config = _peft().LoraConfig(
        r=adapting.lora,
        lora_alpha=adapting.alpha,
        lora_dropout=adapting.dropout,
        use_dora=adapting.dora,
        init_lora_weights="gaussian",
        # As a pattern: of a list, peft takes every name that ends in one, so the eyes' too.
        target_modules="|".join(map(re.escape, targets)),
        bias="none",
    )
    torch.manual_seed(seed)
    _peft().inject_adapter_in_model(config, module)
    for inner, part in module.named_parameters():
        if ".lora_" in f".{inner}":
            part.data = part.data.to(device=device, dtype=torch.float32)


def _peft() -> Any:
    try:
        return import_module("peft")
    except ImportError as error:
        raise UserError(
            f"lora needs the package 'peft' ({error})",
            way_out="pip install 'unbag[train]', or --set lora=0 to train the language model",
        ) from error
