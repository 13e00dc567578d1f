"""Write a dual encoder in the forms of open_clip and transformers, or in unbag's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from unbag.errors import UnbagError
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import quietly
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.open_clip.loading import CONFIG
from unbag.models.open_clip.text import ClipTokenizer, HubTokenizer
from unbag.models.photo import caption_part, image_part, parts_said
from unbag.training.export.clip import (
    BIAS,
    ORDINARY,
    ROWS,
    NoOtherFormError,
    clip_tokenizer,
    differing,
    save_tokenizer,
    simple_tokenizer,
    to_open_clip,
    to_open_clip_config,
    to_preparation,
    to_processor,
    to_transformers,
    to_transformers_config,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.joined import JoinedEncoder
    from unbag.models.photo import Photo


OPEN_CLIP_WEIGHTS = "open_clip_model.safetensors"


def joined_contents(encoder: JoinedEncoder) -> str:
    """Describe, for the card, what the folder of a joined model holds and what else it needs."""
    changed = encoder.changed
    trained = _parameter_count(f" and of {encoder.origin.image}", changed.image)
    trained += _parameter_count(f" and of {encoder.origin.text}", changed.text)
    origin = encoder.origin
    return (
        f"The folder holds the connector{trained}. It also needs both parts, by the names in "
        f"joined.json: `{origin.image}` ({origin.image_fingerprint}) and `{origin.text}` "
        f"({origin.text_fingerprint}); others are refused."
    )


def _parameter_count(what: str, weights: Mapping[str, Tensor]) -> str:
    count = sum(weight.numel() for weight in weights.values())
    return f"{what} {count:,} trained parameters" if weights else ""


_PARTS = {"picture": "EfficientNet-Lite0", "caption": "MiniLM"}


def trained_parts(encoder: Photo) -> tuple[str, ...]:
    """Return the encoders whose part differs from that of its package."""
    network = encoder.network
    names = []
    for name, part, original in (
        ("picture", network.picture.part, image_part()),
        ("caption", network.caption.part, caption_part()[0]),
    ):
        state = original.state_dict()
        if any(
            not torch.equal(weight.cpu(), state[key]) for key, weight in part.state_dict().items()
        ):
            names.append(name)
    return tuple(names)


def photo_contents(encoder: Photo) -> str:
    """Describe, for the card, what the file of a photo model holds and what must be installed."""
    trained = trained_parts(encoder)
    trained_text = "".join(f", {_PARTS[name]} as it was trained" for name in trained)
    not_included = [package for name, package in _PARTS.items() if name not in trained]
    rest = (
        f" {' and '.join(not_included)} {'is' if len(not_included) == 1 else 'are'} not in it."
        if not_included
        else ""
    )
    return f"The file holds two heads{trained_text}.{rest} It needs unbag[photo]: {parts_said()}."


def write_own_open_clip(encoder: OpenClip, folder: Path) -> None:
    """Write an open_clip model as `open_clip.push_to_hf_hub` does, with all of its preparation."""
    if encoder.config is None or encoder.preparation is None:
        raise UnbagError(
            f"{encoder.name} has no config or preparation of open_clip",
            expected="a model loaded by name, as open_clip:ARCH/TAG",
            hint="pass config and preparation to OpenClip(...)",
        )
    config = deepcopy(dict(encoder.config))
    tokenizer = encoder.tokenize
    if isinstance(tokenizer, HubTokenizer):
        # If this key is set, open_clip loads the tokenizer from the folder.
        config["text_cfg"].setdefault("hf_tokenizer_name", encoder.name)
        with quietly():
            tokenizer.inner.tokenizer.save_pretrained(folder)
    _write_open_clip(folder, config, encoder.preparation, encoder.model.state_dict())


def write_transformers_from(encoder: OpenClip, folder: Path) -> None:
    """Write an open_clip CLIP for transformers; NoOtherFormError where that has no such model."""
    _need("transformers")
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    assert encoder.config is not None
    assert encoder.preparation is not None
    # The config first: its errors say more than those of the tokenizer.
    config = to_transformers_config(encoder.config, end=encoder.tokenize.end or 0)
    if not isinstance(encoder.tokenize, ClipTokenizer):
        raise NoOtherFormError("its tokenizer is not CLIP's own")
    options = to_processor(encoder.preparation)
    tokenizer = clip_tokenizer(encoder.context)
    _check_words(encoder.tokenize.inner, tokenizer, encoder.context)
    with quietly(), torch.random.fork_rng(devices=[]):
        model = CLIPModel(CLIPConfig(**config))
        model.load_state_dict(to_transformers(_cpu_copies(encoder.model.state_dict())))
        model.save_pretrained(folder)
        CLIPImageProcessor(**options).save_pretrained(folder)
        save_tokenizer(tokenizer, folder)


def write_own_transformers(encoder: HfDual, folder: Path) -> None:
    """Write model, tokenizer and image processor with `save_pretrained`."""
    state = _cpu_copies(encoder.model.state_dict())
    if encoder.model_type == "clip":
        # CLIPModel has no place for a bias that was trained with it.
        state.pop(BIAS, None)
    with quietly():
        encoder.model.save_pretrained(folder, state_dict=state)
        encoder.images.processor.save_pretrained(folder)
        save_tokenizer(encoder.captions.tokenizer, folder)


def write_open_clip_from(encoder: HfDual, folder: Path) -> None:
    """Write a CLIP of transformers for open_clip; NoOtherFormError where that has no such model."""
    if encoder.model_type != "clip":
        raise NoOtherFormError(f"its kind is {encoder.model_type!r}, not 'clip'")
    _need("open_clip")
    config, tokenizer = encoder.model.config, encoder.captions.tokenizer
    positions = int(config.text_config.max_position_embeddings)
    if encoder.context != positions:
        raise NoOtherFormError(
            f"its tokenizer cuts at {encoder.context} tokens, its text encoder has {positions} "
            "positions"
        )
    end = int(tokenizer("a")["input_ids"][-1])
    largest = max(tokenizer.get_vocab().values())
    open_clip_config = to_open_clip_config(config, end=end, largest=largest)
    side = int(open_clip_config["vision_cfg"]["image_size"])
    preparation = to_preparation(encoder.images.processor, side=side)
    if not is_clips_own(encoder):
        open_clip_config["text_cfg"]["hf_tokenizer_name"] = encoder.name
        with quietly():
            save_tokenizer(tokenizer, folder)
    _write_open_clip(
        folder, open_clip_config, preparation, to_open_clip(encoder.model.state_dict())
    )


def is_clips_own(encoder: HfDual) -> bool:
    """Return whether open_clip's own tokenizer returns the same ids."""
    if encoder.captions.vocabulary != ROWS:
        return False
    simple, tokenizer = simple_tokenizer(encoder.context), encoder.captions.tokenizer
    return not differing(simple, tokenizer, ORDINARY, context=encoder.context)


def _check_words(simple: Any, tokenizer: Any, context: int) -> None:
    differing_captions = differing(simple, tokenizer, ORDINARY, context=context)
    if differing_captions:
        raise NoOtherFormError(
            f"its tokenizer splits {differing_captions[0][:40]!r} in another way"
        )


def _write_open_clip(
    folder: Path,
    config: dict[str, Any],
    preparation: Mapping[str, Any],
    state: Mapping[str, Tensor],
) -> None:
    weights = _cpu_copies(state)
    if BIAS in weights:
        # Without this key, open_clip creates no bias and cannot load the weights.
        config.setdefault("init_logit_bias", float(weights[BIAS]))
    settings = {"model_cfg": config, "preprocess_cfg": dict(preparation)}
    (folder / CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    save_file(weights, folder / OPEN_CLIP_WEIGHTS, metadata={"format": "pt"})


def _cpu_copies(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the CPU, each with its own memory, as safetensors requires."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise NoOtherFormError(f"the package {package!r} is not installed")
