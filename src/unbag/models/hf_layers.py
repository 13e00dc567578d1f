"""Inputs of a tower of transformers come in; what stands after each of its layers goes out.

Read by hooks rather than `output_hidden_states`, whose last entry stands before the final norm in
some models and behind it in others, from version to version.

Dimensions: N inputs, L patches or tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from unbag.errors import UserError
from unbag.models.hf_kinds import KINDS, Kind
from unbag.models.layers import blocks_of, laid_out, of_maps, recorded
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


def picture_layers(model: Any, kind: Kind, inputs: Mapping[str, Tensor]) -> Layers:
    """Patches without the class token, which is what is read out where there is one.

    SigLIP pools by attention: its last patches are what that is given, its last pooled vector is
    what it gives. Maps of ALIGN are averaged to the grid of the last.
    """
    if kind.looks is None:
        known = [name for name, one in KINDS.items() if one.looks is not None]
        raise _unknown("picture", model, known)
    found, hidden = states(model.vision_model, inputs)
    if kind.looks == "class":
        hidden[-1] = model.vision_model.post_layernorm(found.last_hidden_state)
        return laid_out([one[:, 1:] for one in hidden], [one[:, 0] for one in hidden])
    pooled = [*[None] * (len(hidden) - 1), found.pooler_output]
    vectors = of_maps(hidden) if kind.looks == "map" else hidden
    return laid_out(vectors, pooled, inputs.get("pixel_attention_mask"))


def caption_layers(model: Any, kind: Kind, inputs: Mapping[str, Tensor], real_NL: Tensor) -> Layers:
    """Tokens, special ones included, and the one that is read out."""
    if kind.tokens is None:
        known = [name for name, one in KINDS.items() if one.tokens is not None]
        raise _unknown("caption", model, known)
    _, hidden = states(model.text_model, inputs)
    place_N = _places(kind, model.config.text_config, inputs["input_ids"])
    row_N = torch.arange(len(place_N), device=place_N.device)
    return laid_out(hidden, [one[row_N, place_N] for one in hidden], real_NL)


def states(tower: Any, inputs: Mapping[str, Tensor]) -> tuple[Any, list[Tensor]]:
    """What a tower gives; what enters its first block, leaves each, and its last hidden state."""
    # AltCLIP's text tower is one of RoBERTa with a norm and a linear layer on top.
    blocks = blocks_of(getattr(tower, "roberta", tower))
    found, hidden = recorded(blocks, lambda: tower(**inputs))
    return found, [*hidden, found.last_hidden_state]


def _places(kind: Kind, text_config: Any, token_NL: Tensor) -> Tensor:
    """Where each caption's vector is read, as transformers finds it."""
    if kind.pools != "end":
        place = 0 if kind.pools == "first" else token_NL.shape[1] - 1
        return torch.full((len(token_NL),), place, device=token_NL.device)
    if kind.pools_at_largest and text_config.eos_token_id == 2:
        return token_NL.argmax(dim=1)
    is_end_NL: Tensor = token_NL == int(text_config.eos_token_id)
    return is_end_NL.int().argmax(dim=1)


def _unknown(what: str, model: Any, known: list[str]) -> UserError:
    return UserError(
        f"layers of the {what} tower of a {model.config.model_type!r} are not known",
        expected=f"one of {', '.join(sorted(known))}",
        way_out=f"use the {what} vector",
    )
