"""The kind of a dual encoder comes in; how its captions run and where its vectors stand goes out.

Dimensions: N inputs, L patches or tokens, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    Project = Callable[[Any, Any], Tensor]
    """Model and hidden states [N, L, hidden] to the joint space [N, L, D]."""


@dataclass(frozen=True)
class Kind:
    """What a family of models has in common."""

    pools: Literal["end", "first", "last"]
    """The token whose vector is the caption's: the end token, the first, or the last position,
    padding included."""
    is_padded: bool = False
    """Captions must run at the full context; else they run at their real length."""
    has_mask: bool = True
    most: int | None = None
    """Tokens it was trained on, where config and tokenizer say more."""
    pools_at_largest: bool = False
    """With end token 2 in its config, pools at the largest token number instead: configs of CLIP
    said 2 by mistake for long, and transformers keeps to that."""
    looks: Literal["class", "attention", "map"] | None = None
    """What the picture tower pools with, where its layers are known: a class token, attention
    over patches, or the mean of a map."""
    patches: Project | None = None
    tokens: Project | None = None


def _clip_patches(model: Any, hidden: Any) -> Tensor:
    projected: Tensor = model.visual_projection(model.vision_model.post_layernorm(hidden[:, 1:]))
    return projected


def _projected_tokens(model: Any, hidden: Any) -> Tensor:
    projected: Tensor = model.text_projection(hidden)
    return projected


def _siglip_patches(model: Any, hidden: Any) -> Tensor:
    """SigLIP pools by attention. A patch goes through that head alone.

    It gets the vector that the picture would have if this were its only patch.
    """
    shape = hidden.shape
    pooled: Tensor = model.vision_model.head(hidden.reshape(shape[0] * shape[1], 1, shape[2]))
    return pooled.reshape(shape[0], shape[1], -1)


def _siglip_tokens(model: Any, hidden: Any) -> Tensor:
    projected: Tensor = model.text_model.head(hidden)
    return projected


def _map_patches(model: Any, hidden: Any) -> Tensor:
    """ALIGN's picture vector is the mean of its last map, [N, D, height, width]."""
    cells: Tensor = hidden.flatten(2).transpose(1, 2)
    return cells


_SIGLIP = Kind(
    "last",
    True,
    has_mask=False,
    looks="attention",
    patches=_siglip_patches,
    tokens=_siglip_tokens,
)
"""Trained on 64 tokens without a mask and pooled at the last, which mostly is padding."""
_BERT = Kind("first", looks="class", patches=_clip_patches, tokens=_projected_tokens)
"""CLIP's picture tower beside a text tower like BERT."""
_CLIP = replace(_BERT, pools="end", has_mask=False)
"""Causal and pooled at the first end token, so padding on the right cannot matter. With a mask
transformers asks the device at every pass whether anything is masked."""
KINDS: Mapping[str, Kind] = {
    "clip": replace(_CLIP, pools_at_largest=True),
    "metaclip_2": _CLIP,
    "groupvit": Kind("end", pools_at_largest=True),
    "aimv2": Kind("end"),
    "chinese_clip": _BERT,
    "altclip": _BERT,
    "align": Kind("first", most=64, looks="map", patches=_map_patches, tokens=_projected_tokens),
    "vision-text-dual-encoder": Kind("first"),
    "siglip": _SIGLIP,
    "siglip2": _SIGLIP,
}
UNKNOWN = Kind("last", is_padded=True)
"""A dual encoder of a family not listed: the full context is right, whatever it pools."""
EXCLUDED = frozenset({"blip", "blip-2", "clipseg", "flava", "owlvit", "owlv2"})
"""Kinds with both methods of a dual encoder whose vectors are not meant for scoring a caption."""


def check_end(config: Any, tokenizer: Any, kind: Kind, *, name: str) -> None:
    """The end token that the tokenizer writes is the one that the model pools at.

    If it is not, transformers takes the first token's vector, which is the same for all captions.
    """
    if kind.pools != "end":
        return
    end = config.text_config.eos_token_id
    written = int(tokenizer("a")["input_ids"][-1])
    if kind.pools_at_largest and end == 2:
        end = max(tokenizer.get_vocab().values())
    if written != end:
        raise UserError(
            f"{name}: the tokenizer ends a caption with token {written}, and the model looks for "
            f"{end}",
            expected="one end token; all captions would get the same vector",
            way_out="set eos_token_id of text_config in config.json, or mend the tokenizer",
        )
