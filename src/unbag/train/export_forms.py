"""A dual encoder and a folder come in; its files in the form of one library go out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from unbag.errors import UserError
from unbag.models.hf_dual import HfDual
from unbag.models.hf_source import quietly
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.open_clip.sources import CONFIG
from unbag.models.open_clip.tokens import ClipTokenizer, HubTokenizer
from unbag.train import clip_config
from unbag.train.clip_config import NoOtherFormError
from unbag.train.clip_names import BIAS, to_open_clip, to_transformers
from unbag.train.clip_tokens import (
    ORDINARY,
    ROWS,
    clip_tokenizer,
    differing,
    save_tokenizer,
    simple_tokenizer,
)

if TYPE_CHECKING:
    from torch import Tensor

OPEN_CLIP_WEIGHTS = "open_clip_model.safetensors"


def write_own_open_clip(encoder: OpenClip, folder: Path) -> None:
    """As `open_clip.push_to_hf_hub` would, with the whole preparation."""
    if encoder.config is None or encoder.preparation is None:
        raise UserError(
            f"{encoder.name} does not say open_clip's config and preparation of it",
            expected="a model loaded by name, as open_clip:ARCH/TAG",
            way_out="give OpenClip(...) config and preparation",
        )
    config = deepcopy(dict(encoder.config))
    tokenizer = encoder.tokenize
    if isinstance(tokenizer, HubTokenizer):
        # For a folder open_clip reads the tokenizer from there if this is set to anything.
        config["text_cfg"].setdefault("hf_tokenizer_name", encoder.name)
        with quietly():
            tokenizer.inner.tokenizer.save_pretrained(folder)
    _write_open_clip(folder, config, encoder.preparation, encoder.model.state_dict())


def write_transformers_from(encoder: OpenClip, folder: Path) -> None:
    """The same CLIP for transformers; raises NoOtherFormError where that has no such model."""
    _need("transformers")
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    assert encoder.config is not None
    assert encoder.preparation is not None
    # The towers first: where they have no form, that says more than the tokenizer.
    config = clip_config.to_transformers_config(encoder.config, end=encoder.tokenize.end or 0)
    if not isinstance(encoder.tokenize, ClipTokenizer):
        raise NoOtherFormError("its tokenizer is not CLIP's own")
    options = clip_config.to_processor(encoder.preparation)
    tokenizer = clip_tokenizer(encoder.context)
    _check_words(encoder.tokenize.inner, tokenizer, encoder.context)
    with quietly(), torch.random.fork_rng(devices=[]):
        model = CLIPModel(CLIPConfig(**config))
        model.load_state_dict(to_transformers(_plain(encoder.model.state_dict())))
        model.save_pretrained(folder)
        CLIPImageProcessor(**options).save_pretrained(folder)
        save_tokenizer(tokenizer, folder)


def write_own_transformers(encoder: HfDual, folder: Path) -> None:
    """As `save_pretrained` writes model, tokenizer and image processor."""
    state = _plain(encoder.model.state_dict())
    if encoder.model_type == "clip":
        # A bias that was trained beside it has no place in CLIPModel.
        state.pop(BIAS, None)
    with quietly():
        encoder.model.save_pretrained(folder, state_dict=state)
        encoder.pictures.processor.save_pretrained(folder)
        save_tokenizer(encoder.captions.tokenizer, folder)


def write_open_clip_from(encoder: HfDual, folder: Path) -> None:
    """The same CLIP for open_clip; raises NoOtherFormError where that has no such model."""
    if encoder.model_type != "clip":
        raise NoOtherFormError(f"its kind is {encoder.model_type!r}, not 'clip'")
    _need("open_clip")
    config, tokenizer = encoder.model.config, encoder.captions.tokenizer
    places = int(config.text_config.max_position_embeddings)
    if encoder.context != places:
        raise NoOtherFormError(
            f"its tokenizer cuts at {encoder.context} tokens, its text tower has {places} places"
        )
    end = int(tokenizer("a")["input_ids"][-1])
    largest = max(tokenizer.get_vocab().values())
    made = clip_config.to_open_clip_config(config, end=end, largest=largest)
    side = int(made["vision_cfg"]["image_size"])
    preparation = clip_config.to_preparation(encoder.pictures.processor, side=side)
    if not is_clips_own(encoder):
        made["text_cfg"]["hf_tokenizer_name"] = encoder.name
        with quietly():
            save_tokenizer(tokenizer, folder)
    _write_open_clip(folder, made, preparation, to_open_clip(encoder.model.state_dict()))


def is_clips_own(encoder: HfDual) -> bool:
    """Whether open_clip's own tokenizer gives the same ids."""
    if encoder.captions.vocabulary != ROWS:
        return False
    simple, tokenizer = simple_tokenizer(encoder.context), encoder.captions.tokenizer
    return not differing(simple, tokenizer, ORDINARY, context=encoder.context)


def _check_words(simple: Any, tokenizer: Any, context: int) -> None:
    odd = differing(simple, tokenizer, ORDINARY, context=context)
    if odd:
        raise NoOtherFormError(f"its tokenizer splits {odd[0][:40]!r} in another way")


def _write_open_clip(
    folder: Path,
    config: dict[str, Any],
    preparation: Mapping[str, Any],
    state: Mapping[str, Tensor],
) -> None:
    plain = _plain(state)
    if BIAS in plain:
        # Without it open_clip makes no place for the bias and cannot load the weights.
        config.setdefault("init_logit_bias", float(plain[BIAS]))
    said = {"model_cfg": config, "preprocess_cfg": dict(preparation)}
    (folder / CONFIG).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    save_file(plain, folder / OPEN_CLIP_WEIGHTS, metadata={"format": "pt"})


def _plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, each tensor with memory of its own, as safetensors wants them."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise NoOtherFormError(f"the package {package!r} is not installed")
