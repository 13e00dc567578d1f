"""Language models of decoders: loaded from a folder, made from scratch, or without transformers.

A core installation has no transformers, and importing it takes longer than scoring a few hundred
images with a small head. `SmallLanguage` implements a plain small Llama; it agrees with
transformers up to rounding (tested).

Dimensions: N rows, L tokens, W width, H heads, E width of a head.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError, said_by
from unbag.models.huggingface.loading import HfSource, read_language_model, read_weights
from unbag.readouts.decoder.lessons import DecoderSettings, Pretrained, Words
from unbag.training.encoders.lora import inject_lora

CacheUpdate: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes keys and values of the new tokens and returns all that attention reads."""
_PLAIN = {
    "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True,
}  # fmt: skip
"""Configuration of `scratch_language`; transformers runs all other kinds."""


def read_language(source: str, *, asks: bool) -> Language:
    """Load a folder, a .gguf file or a hub name; raise UnbagError if it cannot be trained."""
    model, tokenizer = read_language_model(source)
    size = int(model.config.vocab_size)
    words = Pretrained(tokenizer, source, size, asks)
    _check_logits(model, source)
    return Language(_without_quantisation_mark(model).requires_grad_(True), words)


@dataclass(frozen=True, eq=False)
class Language:
    """A causal language model of transformers, in float32, with its tokenizer."""

    model: Any
    words: Pretrained


def _without_quantisation_mark(model: Any) -> Any:
    """Remove the quantisation mark of a GGUF model, which transformers refuses to save."""
    if getattr(model.config, "quantization_config", None) is None:
        return model
    config = type(model.config)(**model.config.to_diff_dict())
    del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    return plain.eval()


@torch.no_grad()
def _check_logits(language: Any, name: str) -> None:
    """Raise UnbagError if a model caps or scales its logits, by trying it."""
    token_BT = torch.zeros((1, 2), dtype=torch.long)
    hidden = language.base_model(input_ids=token_BT, use_cache=False).last_hidden_state
    plain = language.get_output_embeddings()(hidden)
    if not torch.allclose(plain, language(input_ids=token_BT).logits, atol=1e-4):
        raise UnbagError(
            f"the language model {name} changes its logits after its last layer",
            expected="logits that are the last layer times a matrix, as Llama has them",
            hint="use another language model",
        )


def scratch_language(settings: DecoderSettings, words: Words, *, places: int) -> Any:
    """Make a small Llama with weights of torch's generator."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words.size,
        hidden_size=settings.width,
        intermediate_size=3 * settings.width,
        num_hidden_layers=settings.depth,
        num_attention_heads=settings.heads,
        max_position_embeddings=places + settings.context,
        pad_token_id=words.pad,
        eos_token_id=words.end,
        bos_token_id=None,
        tie_word_embeddings=True,
        # The usual 0.02 is for large widths. So narrow a model would start with uniform attention
        # and ignore patches for thousands of steps.
        initializer_range=settings.width**-0.5,
    )
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call]


def saved_language(folder: Path) -> Any:
    """Load a language model that transformers saved."""
    from transformers import AutoModelForCausalLM

    return read_weights(HfSource(str(folder)), AutoModelForCausalLM).float()


def add_lora(language: Any, rank: int) -> None:
    """Freeze a language model and add LoRA matrices to its linear layers, except its head."""
    head = language.get_output_embeddings()
    targets = [
        name
        for name, module in language.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    ]
    inject_lora(language, targets, r=rank, lora_alpha=2 * rank)


def small_language(folder: Path) -> Any:
    """Load a language model: a plain small Llama as `SmallLanguage`, others with transformers."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = _config(values)
        if config is None:
            return saved_language(folder)
        state = load_file(folder / "model.safetensors")
        model = SmallLanguage(config)
        # The head shares the weights of the embedding, which are saved once.
        state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
        model.load_state_dict({name: value.float() for name, value in state.items()})
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UnbagError(
            f"{folder} is not a language model: {said_by(error)}",
            expected="config.json and model.safetensors as transformers writes them for a Llama",
            hint="use an unchanged folder of `unbag train`",
        ) from error
    return model.eval().requires_grad_(False)


@contextmanager
def lean(net: Any) -> Iterator[None]:
    """Run a decoder's language model as `SmallLanguage` with the same weights inside the context.

    transformers makes a mask only while a GPU records, and uses more and smaller kernels. A model
    that is no plain Llama is not changed.
    """
    original = net.language
    config = _config(original.config.to_dict()) if hasattr(original.config, "to_dict") else None
    if config is not None:
        with torch.device("meta"):
            small = SmallLanguage(config)
        for name, weight in original.named_parameters():
            place, _, last = name.rpartition(".")
            setattr(small.get_submodule(place), last, weight)
        small.lm_head.weight = small.model.embed_tokens.weight
        net.language = small.train(original.training)
    try:
        yield
    finally:
        net.language = original


def _config(values: dict[str, Any]) -> SmallConfig | None:
    """Return the configuration of a plain Llama, else None."""
    rope = values.get("rope_parameters") or {}
    heads = int(values.get("num_attention_heads", 1))
    if (
        any(values.get(name) != value for name, value in _PLAIN.items())
        or values.get("num_key_value_heads") != heads
        or rope.get("rope_type", "default") != "default"
        or values.get("head_dim", values["hidden_size"] // heads) * heads != values["hidden_size"]
    ):
        return None
    return SmallConfig(
        vocab_size=int(values["vocab_size"]),
        hidden_size=int(values["hidden_size"]),
        intermediate_size=int(values["intermediate_size"]),
        num_hidden_layers=int(values["num_hidden_layers"]),
        num_attention_heads=heads,
        rms_norm_eps=float(values["rms_norm_eps"]),
        theta=float(rope.get("rope_theta", values.get("rope_theta", 10_000.0))),
    )


@dataclass(frozen=True)
class SmallConfig:
    """Sizes of a Llama, with the names of transformers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    rms_norm_eps: float
    theta: float


class SmallLanguage(nn.Module):
    """A Llama whose weights have the names of transformers."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    @property
    def base_model(self) -> nn.Module:
        """Return the model without its head."""
        return self.model

    def get_input_embeddings(self) -> nn.Module:
        """Return the layer from tokens to vectors."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """Return the layer from vectors to logits."""
        return self.lm_head


@dataclass(frozen=True, eq=False)
class Hidden:
    """Output of a forward pass, with its key-value cache if requested."""

    last_hidden_state: Tensor
    past_key_values: KeyValueCache | None = None


class KeyValueCache:
    """Key-value cache: keys and values of the tokens read so far, per layer, [N, H, L, E]."""

    def __init__(self, layers: int) -> None:
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    @property
    def length(self) -> int:
        """Return the number of tokens read so far, padding included."""
        return 0 if self._layers[0] is None else self._layers[0][0].shape[2]

    def batch_select_indices(self, row_N: Tensor) -> None:
        """Keep only these rows; the name is that of transformers."""
        self._layers = [both and (both[0][row_N], both[1][row_N]) for both in self._layers]

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of new tokens to a layer and return all of them."""
        cached = self._layers[layer]
        if cached is not None:
            key, value = torch.cat([cached[0], key], dim=2), torch.cat([cached[1], value], dim=2)
        self._layers[layer] = key, value
        return key, value


class _Body(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        inputs_embeds: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: KeyValueCache | None = None,
        use_cache: bool = False,
        return_dict: bool = True,
    ) -> Hidden:
        """Run all layers on the tokens, after those of a cache; rows may be padded on either side.

        The mask covers all tokens, those of the cache too.
        """
        cache = past_key_values
        if cache is None and use_cache:
            cache = KeyValueCache(len(self.layers))
        cached = cache.length if cache else 0
        new, device = inputs_embeds.shape[1], inputs_embeds.device
        if position_ids is None:
            position_ids = torch.arange(cached, cached + new, device=device)[None]
        is_whole = attention_mask is None or bool(attention_mask.all())
        allowed = None
        if cached or not is_whole:
            causal_LT = torch.ones(new, cached + new, dtype=torch.bool, device=device)
            causal_LT = causal_LT.tril(diagonal=cached)
            allowed = causal_LT[None, None]
            if attention_mask is not None:
                # Padding attends to itself: a row without any allowed token would be NaN.
                own_LT = causal_LT & ~causal_LT.tril(diagonal=cached - 1)
                allowed = ((causal_LT & attention_mask.bool()[:, None]) | own_LT)[:, None]
        rotation = _rotary_angles(position_ids, self.config)
        x_NLW = inputs_embeds
        for number, layer in enumerate(self.layers):
            update = partial(cache.append, number) if cache else _no_cache
            x_NLW = layer(x_NLW, rotation, allowed, update)
        return Hidden(self.norm(x_NLW), cache)


class _Layer(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        x_NLW: Tensor,
        rotation: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        update: CacheUpdate,
    ) -> Tensor:
        x_NLW = x_NLW + self.self_attn(self.input_layernorm(x_NLW), rotation, allowed, update)
        output: Tensor = x_NLW + self.mlp(self.post_attention_layernorm(x_NLW))
        return output


class _Attention(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x_NLW: Tensor,
        rotation: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        update: CacheUpdate,
    ) -> Tensor:
        parts = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (part(x_NLW).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        k, v = update(_rotate(k, rotation), v)
        seen_NHLE = functional.scaled_dot_product_attention(
            _rotate(q, rotation), k, v, attn_mask=allowed, is_causal=allowed is None
        )
        output: Tensor = self.o_proj(seen_NHLE.transpose(1, 2).flatten(2))
        return output


class _Mlp(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x_NLW: Tensor) -> Tensor:
        output: Tensor = self.down_proj(
            functional.silu(self.gate_proj(x_NLW)) * self.up_proj(x_NLW)
        )
        return output


def _rotary_angles(position_NL: Tensor, config: SmallConfig) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles of positions, [N, 1, L, E]."""
    width = config.hidden_size // config.num_attention_heads
    half = torch.arange(0, width, 2, device=position_NL.device, dtype=torch.float32)
    angle_NLE = position_NL[..., None].float() * (1.0 / config.theta ** (half / width))
    both = torch.cat([angle_NLE, angle_NLE], dim=-1)[:, None]
    return both.cos(), both.sin()


def _rotate(x_NHLE: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x_NHLE.chunk(2, dim=-1)
    return x_NHLE * rotation[0] + torch.cat([-second, first], dim=-1) * rotation[1]


def _no_cache(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return key, value
