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


def said_of_joined(encoder: JoinedEncoder) -> str:
    """For the card: what the folder holds, and what must be found beside it."""
    changed = encoder.changed
    inside = _trained(f" and of {encoder.origin.image}", changed.image)
    inside += _trained(f" and of {encoder.origin.text}", changed.text)
    origin = encoder.origin
    return (
        f"The folder holds the connector{inside}. It needs both parts beside it, by the names in "
        f"joined.json: `{origin.image}` ({origin.image_fingerprint}) and `{origin.text}` "
        f"({origin.text_fingerprint}); others are refused."
    )


def _trained(what: str, weights: Mapping[str, Tensor]) -> str:
    numbers = sum(weight.numel() for weight in weights.values())
    return f"{what} {numbers:,} numbers that were trained" if weights else ""


_PARTS = {"picture": "EfficientNet-Lite0", "caption": "MiniLM"}


def trained_parts(encoder: Photo) -> tuple[str, ...]:
    """Encoders whose part is no longer as its package has it."""
    network = encoder.network
    found = []
    for name, now, first in (
        ("picture", network.picture.part, image_part()),
        ("caption", network.caption.part, caption_part()[0]),
    ):
        before = first.state_dict()
        if any(not torch.equal(w.cpu(), before[key]) for key, w in now.state_dict().items()):
            found.append(name)
    return tuple(found)


def said_of_parts(encoder: Photo) -> str:
    """For the card: what the file holds, and what must be installed beside it."""
    trained = trained_parts(encoder)
    inside = "".join(f", {_PARTS[one]} as it was trained" for one in trained)
    beside = [name for one, name in _PARTS.items() if one not in trained]
    rest = (
        f" {' and '.join(beside)} {'is' if len(beside) == 1 else 'are'} not in it."
        if beside
        else ""
    )
    return f"The file holds two heads{inside}.{rest} It needs unbag[photo]: {parts_said()}."


def write_own_open_clip(encoder: OpenClip, folder: Path) -> None:
    """As `open_clip.push_to_hf_hub` would, with the whole preparation."""
    if encoder.config is None or encoder.preparation is None:
        raise UnbagError(
            f"{encoder.name} does not say open_clip's config and preparation of it",
            expected="a model loaded by name, as open_clip:ARCH/TAG",
            hint="give OpenClip(...) config and preparation",
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
    # The encoders first: where they have no form, that says more than the tokenizer.
    config = to_transformers_config(encoder.config, end=encoder.tokenize.end or 0)
    if not isinstance(encoder.tokenize, ClipTokenizer):
        raise NoOtherFormError("its tokenizer is not CLIP's own")
    options = to_processor(encoder.preparation)
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
        encoder.images.processor.save_pretrained(folder)
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
            f"its tokenizer cuts at {encoder.context} tokens, its text encoder has {places} places"
        )
    end = int(tokenizer("a")["input_ids"][-1])
    largest = max(tokenizer.get_vocab().values())
    made = to_open_clip_config(config, end=end, largest=largest)
    side = int(made["vision_cfg"]["image_size"])
    preparation = to_preparation(encoder.images.processor, side=side)
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
