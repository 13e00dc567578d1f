"""A model and a state dict come in; the model with these weights goes out, or what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError
from unbag.models.finite import check_finite
from unbag.models.open_clip.library import library

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = 3
"""Names of tensors in a message."""
_TEXT = ("text_projection", "positional_embedding", "token_embedding", "transformer.", "ln_final")
# Sizes OpenAI kept among the tensors, and positions that transformers once did: no weights.
_NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size")
_POSITIONS = ".embeddings.position_ids"


def put(model: Any, state: Mapping[str, Tensor], *, source: str, arch: str, hint: str = "") -> None:
    """Load all of it, or raise; positions and vocabularies are never resized to fit."""
    wanted: dict[str, Tensor] = model.state_dict()
    state = _renamed(model, dict(state), wanted)
    missing = [name for name in wanted if name not in state]
    unexpected = sorted(name for name in state if name not in wanted)
    shaped = [n for n in wanted if n in state and wanted[n].shape != state[n].shape]
    _check_text(wanted, state, shaped, source, arch)
    if missing or unexpected or shaped:
        raise UserError(
            f"{source} does not fit {arch}: {_listed(missing, unexpected, shaped, wanted, state)}",
            expected=f"all {len(wanted)} tensors of {arch}, and no others",
            way_out=hint or "name the architecture it was trained with before the @",
        )
    check_finite(state, source=source)
    model.load_state_dict(state)


def _renamed(
    model: Any, state: dict[str, Tensor], wanted: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Other spellings of the same weights, as open_clip's own reader accepts them."""
    from open_clip.convert import convert_state_dict  # type: ignore[import-untyped, unused-ignore]

    state = convert_state_dict(model, state)
    for name in [n for n in state if n in _NO_WEIGHTS or n.endswith(_POSITIONS)]:
        if name not in wanted:
            del state[name]
    # The text tower stands at the top in the first form of CLIP, and below `text.` in the second.
    if "text.token_embedding.weight" in wanted and "token_embedding.weight" in state:
        state = {f"text.{n}" if n.startswith(_TEXT) else n: v for n, v in state.items()}
    elif "token_embedding.weight" in wanted and "text.token_embedding.weight" in state:
        state = {n.removeprefix("text."): v for n, v in state.items()}
    for name in ("logit_scale", "logit_bias"):
        if name in state and name in wanted and state[name].numel() == 1:
            state[name] = state[name].reshape(wanted[name].shape)
    return state


def _check_text(
    wanted: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    shaped: Sequence[str],
    source: str,
    arch: str,
) -> None:
    """Another vocabulary or context means another tokenizer: said before all else."""
    for ending, what in (("token_embedding.weight", "words"), ("positional_embedding", "places")):
        for name in shaped:
            is_text = name in (ending, f"text.{ending}")
            if is_text and wanted[name].shape[1:] == state[name].shape[1:]:
                raise UserError(
                    f"the text tower of {source} has {len(state[name])} {what}, and the tokenizer "
                    f"of {arch} gives {len(wanted[name])}",
                    expected="weights trained with this tokenizer: the scores would be wrong",
                    way_out="name the architecture it was trained with before the @",
                )


def _listed(
    missing: Sequence[str],
    unexpected: Sequence[str],
    shaped: Sequence[str],
    wanted: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
) -> str:
    other = [f"{n} is {tuple(state[n].shape)}, not {tuple(wanted[n].shape)}" for n in shaped]
    parts = (
        ("missing", missing),
        ("not part of it", unexpected),
        ("of another shape", other),
    )
    return "; ".join(f"{len(names)} {what} ({_some(names)})" for what, names in parts if names)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")


def build(config: Mapping[str, Any], *, has_bias: bool) -> Any:
    """The untrained model of a config, as open_clip's factory makes it, without a download.

    The factory itself says "no pretrained weights loaded" of every model whose weights come later.
    """
    from copy import deepcopy

    said = deepcopy(dict(config))
    text = said["text_cfg"]
    is_custom = bool(said.pop("custom_text", False)) or bool(text.get("hf_model_name"))
    if text.get("hf_model_name"):
        text["hf_model_pretrained"] = False
    if said["vision_cfg"].get("timm_model_name"):
        said["vision_cfg"]["timm_model_pretrained"] = False
    if has_bias:
        # Trained with the sigmoid loss: the trainer adds a bias to any architecture.
        said.setdefault("init_logit_bias", 0.0)
    names = ("CoCa" if "multimodal_cfg" in said else "CustomTextCLIP") if is_custom else "CLIP"
    return getattr(library(), names)(**said)
