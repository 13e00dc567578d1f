"""`open_clip:ARCH/TAG` or `open_clip:ARCH@PATH` comes in; a dual encoder goes out."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Literal

from unbag.errors import UserError, said_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.open_clip.sources import Source
    from unbag.models.open_clip.tokens import Tokenizer

VERSION = "open_clip-1"
"""Of the forward pass and of `prepare`: raised whenever either changes a number."""


def load(
    name: str,
    *,
    device: str = "cpu",
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    compiles: bool = False,
) -> OpenClip:
    """A model by tag, file, folder or hub name; see `unbag.models.open_clip.names`."""
    import torch

    from unbag.models.open_clip import preparation, tokens
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.open_clip.names import parse
    from unbag.models.open_clip.sources import find

    source = find(parse(name))
    model = _with_weights(source)
    tokenizer = tokens.load_tokenizer(source.tokenizer, source.arch)
    _check_text(model, tokenizer, source.arch)
    prepared = preparation.whole(source.preparation, model.visual.image_size)
    kind: torch.dtype = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    encoder = OpenClip(
        model,
        name=source.name,
        fingerprint=fingerprint_of(model, source.config, prepared, tokenizer, kind),
        tokenizer=tokenizer,
        prepare=preparation.transform(prepared),
        device=device,
        dtype=kind,
        compiles=compiles,
        trained_on=source.trained_on,
        config=source.config,
        preparation=prepared,
    )
    for note in (*source.notes, _at_full_length(encoder)):
        if note:
            warnings.warn(note, stacklevel=2)
    return encoder


def _with_weights(source: Source) -> Any:
    from unbag.models.open_clip import checkpoint, weights

    state = checkpoint.read(source.weights)
    try:
        model = weights.build(source.config, has_bias="logit_bias" in state)
    except (OSError, RuntimeError, TypeError, KeyError, ValueError) as error:
        raise UserError(
            f"open_clip cannot build {source.arch}: {said_by(error)}",
            expected="a config of open_clip whose towers are on this machine; towers of "
            "transformers take their config from the hub or its cache (HF_HOME)",
            way_out="run it once with a network, or name a folder as hf_model_name",
        ) from error
    weights.put(model, state, source=source.weights.name, arch=source.arch, hint=source.hint)
    return model


def _check_text(model: Any, tokenizer: Tokenizer, arch: str) -> None:
    from unbag.models.open_clip.text import Classed, Masked, Native, text_tower
    from unbag.models.open_clip.tokens import check_fit

    text = text_tower(model)
    if isinstance(text, Masked):
        check_fit(tokenizer, arch=arch, rows=int(text.tower.config.vocab_size), pool="", end=None)
    elif isinstance(text, Native | Classed):
        rows = int(text.tower.token_embedding.num_embeddings)
        pool, end = (text.pool, text.end) if isinstance(text, Native) else ("class", None)
        check_fit(tokenizer, arch=arch, rows=rows, pool=pool, end=end)


def _at_full_length(encoder: OpenClip) -> str:
    why = encoder.text.whole_because
    said = f"{encoder.name}: captions run at all {encoder.context} tokens, since {why}"
    return said if why else ""


def fingerprint_of(
    model: Any,
    config: Mapping[str, Any],
    prepared: Mapping[str, Any],
    tokenizer: Tokenizer,
    dtype: torch.dtype,
) -> str:
    """Of all that decides a number; the model before it is moved or rounded."""
    from unbag.models.fingerprint import fingerprint

    hub = getattr(getattr(model, "text", None), "config", None)
    return fingerprint(
        "open_clip",
        model.state_dict(),
        json.dumps(config, sort_keys=True, default=str),
        hub.to_json_string() if hub is not None else "",
        json.dumps(prepared, sort_keys=True, default=str),
        tokenizer.identity,
        str(dtype),
        VERSION,
    )
