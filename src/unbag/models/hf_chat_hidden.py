"""What a chat model of transformers reads comes in; its last hidden state at the end goes out.

The text stands as it is behind the picture, without a chat template: so VLM2Vec reads it.

Dimensions: N rows, L tokens, W width of the language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError
from unbag.models.hf_chat_inputs import Preparer
from unbag.models.hf_chat_prompt import Rendered

if TYPE_CHECKING:
    from torch import Tensor

_BETWEEN = "\n"
"""Stands between the picture and the text, as in the data that VLM2Vec was trained on."""


def plainly(preparer: Preparer, text: str, *, sees: bool) -> Rendered:
    """A text behind the mark of a picture, or alone."""
    prompts = preparer.prompts
    if not text.strip():
        raise UserError(
            f"{prompts.name} was given an empty text to embed",
            expected="words: a caption, an answer or an instruction",
            way_out="leave out the items or pairs with an empty caption",
        )
    if prompts.family == "paligemma" and prompts.template is None:
        # Its processor writes the start token and a line end by itself, whatever it is given.
        return prompts.render(text, sees=sees)
    prompts.check_words(text)
    whole = f"{_mark(preparer)}{_BETWEEN}{text}" if sees else text
    return Rendered(whole, whole, "")


def last_hidden(model: Any, inputs: Mapping[str, Any], mask_NL: Tensor) -> Tensor:
    """At the last token of every row that is not padding, [N, W], in the model's own precision."""
    base = model.base_model
    if base is model:
        found = model(**inputs, output_hidden_states=True, use_cache=False, return_dict=True)
        hidden = (getattr(found, "hidden_states", None) or [None])[-1]
    else:
        # Without the head, whose logits nobody asks for here.
        found = base(**inputs, use_cache=False, return_dict=True)
        hidden = getattr(found, "last_hidden_state", None)
    shape = None if hidden is None else tuple(hidden.shape)
    if hidden is None or len(hidden.shape) != 3 or hidden.shape[:2] != mask_NL.shape:
        raise UserError(
            f"a {type(model).__name__} gives hidden states of shape {shape} for tokens of shape "
            f"{tuple(mask_NL.shape)}",
            expected="one vector a token, those of the picture included",
            way_out="this kind of model cannot be embedded with yet",
        )
    return pooled(hidden, mask_NL)


def pooled(hidden_NLW: Tensor, mask_NL: Tensor) -> Tensor:
    """Each row's vector at its last token, whichever side the padding is on, [N, W]."""
    import torch

    place_L = torch.arange(mask_NL.shape[1], device=mask_NL.device)
    # 1-based, so that a row without any token is told from one that ends at once.
    last_N = ((place_L + 1) * (mask_NL != 0)).amax(dim=1) - 1
    return hidden_NLW[torch.arange(len(hidden_NLW), device=mask_NL.device), last_N]


def _mark(preparer: Preparer) -> str:
    """What stands for a picture, with the tokens that the model knows around one."""
    prompts = preparer.prompts
    tokenizer = prompts.tokenizer
    own = prompts.image_token or str(tokenizer.convert_ids_to_tokens(preparer.image_token_id))
    if prompts.template is None:
        return own
    before, _, after = prompts.render("?", sees=True).text.partition(own)
    known = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    start = next((token for token in known if before.endswith(token)), "")
    end = next((token for token in known if after.startswith(token)), "")
    return f"{start}{own}{end}" if start and end else own
