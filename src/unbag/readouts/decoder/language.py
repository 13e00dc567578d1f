"""Language models of decoders: read from a folder, made from scratch, or run without transformers.

A core installation has no transformers, and to import it takes longer than to score a few hundred
images with a small head. `SmallLanguage` is the same network for a plain small Llama; its numbers
are those of transformers to rounding (tested).

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

Keep: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Keys and values of the tokens that are being read in, those to look at out."""
_PLAIN = {
    "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True,
}  # fmt: skip
"""What `scratch_language` makes; every other kind is left to transformers."""


def read_language(place: str, *, asks: bool) -> Language:
    """A folder, a .gguf file or a name on the hub; raises UnbagError if it cannot be taught."""
    model, tokenizer = read_language_model(place)
    size = int(model.config.vocab_size)
    words = Pretrained(tokenizer, place, size, asks)
    _check_head(model, place)
    return Language(_unmarked(model).requires_grad_(True), words)


@dataclass(frozen=True, eq=False)
class Language:
    """A causal language model of transformers, in float32, with its tokenizer."""

    model: Any
    words: Pretrained


def _unmarked(model: Any) -> Any:
    """What came from a GGUF file is marked as quantised, which transformers refuses to save."""
    if getattr(model.config, "quantization_config", None) is None:
        return model
    config = type(model.config)(**model.config.to_diff_dict())
    del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    return plain.eval()


@torch.no_grad()
def _check_head(language: Any, name: str) -> None:
    """Some models squeeze or scale their logits; tried, not believed."""
    token_BT = torch.zeros((1, 2), dtype=torch.long)
    hidden = language.base_model(input_ids=token_BT, use_cache=False).last_hidden_state
    plain = language.get_output_embeddings()(hidden)
    if not torch.allclose(plain, language(input_ids=token_BT).logits, atol=1e-4):
        raise UnbagError(
            f"the language model {name} changes its logits after its last layer",
            expected="logits that are the last layer times a matrix, as Llama has them",
            hint="take another language model",
        )


def scratch_language(settings: DecoderSettings, words: Words, *, places: int) -> Any:
    """A small Llama, its weights drawn from torch's generator."""
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
        # The usual 0.02 is for large widths: so narrow a model begins with attention that is the
        # same everywhere, and patches were not looked at in thousands of steps.
        initializer_range=settings.width**-0.5,
    )
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call]


def saved_language(folder: Path) -> Any:
    """Weights alone, as transformers saved them."""
    from transformers import AutoModelForCausalLM

    return read_weights(HfSource(str(folder)), AutoModelForCausalLM).float()


def add_lora(language: Any, rank: int) -> None:
    """Freeze a language model and put small matrices beside its linear layers, but its head."""
    head = language.get_output_embeddings()
    targets = [
        name
        for name, one in language.named_modules()
        if isinstance(one, nn.Linear) and one is not head
    ]
    inject_lora(language, targets, r=rank, lora_alpha=2 * rank)


def small_language(folder: Path) -> Any:
    """As the folder has it: computed here if it is a plain small Llama, else by transformers."""
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = _config(said)
        if config is None:
            return saved_language(folder)
        state = load_file(folder / "model.safetensors")
        made = SmallLanguage(config)
        # The head is the embedding again, and is not written twice.
        state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
        made.load_state_dict({name: value.float() for name, value in state.items()})
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UnbagError(
            f"{folder} is not a language model: {said_by(error)}",
            expected="config.json and model.safetensors as transformers writes them for a Llama",
            hint="take the folder as training wrote it",
        ) from error
    return made.eval().requires_grad_(False)


@contextmanager
def lean(net: Any) -> Iterator[None]:
    """Inside, the language model of a decoder is computed here, with the very same weights.

    That of transformers makes a mask while a GPU records and none before, and takes more, smaller
    kernels. One that is no plain Llama stays.
    """
    whole = net.language
    config = _config(whole.config.to_dict()) if hasattr(whole.config, "to_dict") else None
    if config is not None:
        with torch.device("meta"):
            made = SmallLanguage(config)
        for name, weight in whole.named_parameters():
            place, _, last = name.rpartition(".")
            setattr(made.get_submodule(place), last, weight)
        made.lm_head.weight = made.model.embed_tokens.weight
        net.language = made.train(whole.training)
    try:
        yield
    finally:
        net.language = whole


def _config(said: dict[str, Any]) -> SmallConfig | None:
    """None where it is anything but a plain Llama."""
    rope = said.get("rope_parameters") or {}
    heads = int(said.get("num_attention_heads", 1))
    if (
        any(said.get(name) != value for name, value in _PLAIN.items())
        or said.get("num_key_value_heads") != heads
        or rope.get("rope_type", "default") != "default"
        or said.get("head_dim", said["hidden_size"] // heads) * heads != said["hidden_size"]
    ):
        return None
    return SmallConfig(
        vocab_size=int(said["vocab_size"]),
        hidden_size=int(said["hidden_size"]),
        intermediate_size=int(said["intermediate_size"]),
        num_hidden_layers=int(said["num_hidden_layers"]),
        num_attention_heads=heads,
        rms_norm_eps=float(said["rms_norm_eps"]),
        theta=float(rope.get("rope_theta", said.get("rope_theta", 10_000.0))),
    )


@dataclass(frozen=True)
class SmallConfig:
    """Sizes, under the names of transformers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    rms_norm_eps: float
    theta: float


class SmallLanguage(nn.Module):
    """Weights under the names of transformers."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    @property
    def base_model(self) -> nn.Module:
        """All but the head."""
        return self.model

    def get_input_embeddings(self) -> nn.Module:
        """Tokens to vectors."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """Vectors to logits."""
        return self.lm_head


@dataclass(frozen=True, eq=False)
class Hidden:
    """What a run comes to, and what was kept of it for tokens that follow, if that was asked."""

    last_hidden_state: Tensor
    past_key_values: KeysKept | None = None


class KeysKept:
    """Keys and values of the tokens read so far, of each layer, [N, H, L, E]."""

    def __init__(self, layers: int) -> None:
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    @property
    def length(self) -> int:
        """Tokens read so far, padding included."""
        return 0 if self._layers[0] is None else self._layers[0][0].shape[2]

    def batch_select_indices(self, place_N: Tensor) -> None:
        """Go on with these rows, under the name that transformers has for it."""
        self._layers = [both and (both[0][place_N], both[1][place_N]) for both in self._layers]

    def with_new(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All of a layer, with those of the tokens that are being read."""
        before = self._layers[layer]
        if before is not None:
            key, value = torch.cat([before[0], key], dim=2), torch.cat([before[1], value], dim=2)
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
        past_key_values: KeysKept | None = None,
        use_cache: bool = False,
        return_dict: bool = True,
    ) -> Hidden:
        """From first to last token, or on from what was kept; a row may be padded on either side.

        The mask is about all tokens, those that were kept too.
        """
        kept = past_key_values
        if kept is None and use_cache:
            kept = KeysKept(len(self.layers))
        before = kept.length if kept else 0
        count, device = inputs_embeds.shape[1], inputs_embeds.device
        if position_ids is None:
            position_ids = torch.arange(before, before + count, device=device)[None]
        is_whole = attention_mask is None or bool(attention_mask.all())
        allowed = None
        if before or not is_whole:
            causal_LT = torch.ones(count, before + count, dtype=torch.bool, device=device)
            causal_LT = causal_LT.tril(diagonal=before)
            allowed = causal_LT[None, None]
            if attention_mask is not None:
                # Padding looks at itself: a row that may look at nothing would be NaN.
                own_LT = causal_LT & ~causal_LT.tril(diagonal=before - 1)
                allowed = ((causal_LT & attention_mask.bool()[:, None]) | own_LT)[:, None]
        turn = _turn(position_ids, self.config)
        x_NLW = inputs_embeds
        for number, layer in enumerate(self.layers):
            keep = partial(kept.with_new, number) if kept else _as_they_are
            x_NLW = layer(x_NLW, turn, allowed, keep)
        return Hidden(self.norm(x_NLW), kept)


class _Layer(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, x_NLW: Tensor, turn: tuple[Tensor, Tensor], allowed: Tensor | None, keep: Keep
    ) -> Tensor:
        x_NLW = x_NLW + self.self_attn(self.input_layernorm(x_NLW), turn, allowed, keep)
        found: Tensor = x_NLW + self.mlp(self.post_attention_layernorm(x_NLW))
        return found


class _Attention(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, x_NLW: Tensor, turn: tuple[Tensor, Tensor], allowed: Tensor | None, keep: Keep
    ) -> Tensor:
        parts = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (part(x_NLW).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        k, v = keep(_turned(k, turn), v)
        seen_NHLE = functional.scaled_dot_product_attention(
            _turned(q, turn), k, v, attn_mask=allowed, is_causal=allowed is None
        )
        found: Tensor = self.o_proj(seen_NHLE.transpose(1, 2).flatten(2))
        return found


class _Mlp(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x_NLW: Tensor) -> Tensor:
        found: Tensor = self.down_proj(functional.silu(self.gate_proj(x_NLW)) * self.up_proj(x_NLW))
        return found


def _turn(position_NL: Tensor, config: SmallConfig) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles, [N, 1, L, E]."""
    width = config.hidden_size // config.num_attention_heads
    half = torch.arange(0, width, 2, device=position_NL.device, dtype=torch.float32)
    angle_NLE = position_NL[..., None].float() * (1.0 / config.theta ** (half / width))
    both = torch.cat([angle_NLE, angle_NLE], dim=-1)[:, None]
    return both.cos(), both.sin()


def _turned(x_NHLE: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x_NHLE.chunk(2, dim=-1)
    return x_NHLE * turn[0] + torch.cat([-second, first], dim=-1) * turn[1]


def _as_they_are(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return key, value
