"""A dual encoder comes in; the same architecture with random weights goes out.

What can be read from the twin was put there by the architecture, not by training.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from unbag.models.seeded import seeded

if TYPE_CHECKING:
    from unbag.models.hf_blip import Blip
    from unbag.models.hf_dual import HfDual
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.photo import Photo
    from unbag.types import DualEncoder


def random_twin(encoder: DualEncoder, *, seed: int = 0) -> DualEncoder | None:
    """Same sizes, preparation, tokenizer, precision and device; weights as its library begins.

    The same for the same seed, whatever the weights of `encoder` are; the state of no random
    generator is changed. None for an encoder of a kind that is not known here, such as your own,
    and for one of open_clip that was made without its `config` and `preparation`.
    """
    from unbag.models.hf_blip import Blip
    from unbag.models.hf_dual import HfDual
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.photo import Photo
    from unbag.models.tiny import Tiny, untrained

    name = f"{encoder.name}, random weights"
    if isinstance(encoder, Tiny):
        return Tiny(untrained(encoder.config, seed=seed), name=name, device=encoder.device)
    if isinstance(encoder, OpenClip):
        return _of_open_clip(encoder, name=name, seed=seed)
    if isinstance(encoder, HfDual | Blip):
        return _of_transformers(encoder, name=name, seed=seed)
    if isinstance(encoder, Photo):
        return _of_photo(encoder, name=name, seed=seed)
    return None


def _of_open_clip(encoder: OpenClip, *, name: str, seed: int) -> OpenClip | None:
    from unbag.models.open_clip import fingerprint_of, preparation
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.open_clip.weights import build

    config, prepared = encoder.config, encoder.preparation
    if config is None or prepared is None:
        return None
    with seeded(seed):
        has_bias = getattr(encoder.model, "logit_bias", None) is not None
        model = build(config, has_bias=has_bias)
    return OpenClip(
        model,
        name=name,
        fingerprint=fingerprint_of(model, config, prepared, encoder.tokenize, encoder.dtype),
        tokenizer=encoder.tokenize,
        prepare=preparation.transform(prepared),
        device=encoder.device,
        dtype=encoder.dtype,
        config=config,
        preparation=prepared,
    )


def _of_transformers(encoder: HfDual | Blip, *, name: str, seed: int) -> HfDual | Blip:
    old = encoder.model
    with seeded(seed):
        # The class makes its own weights from a config; the config is changed by what it builds.
        model = type(old)(deepcopy(old.config))
    with catch_warnings():
        # All that is said of captions that run padded was said of the encoder.
        simplefilter("ignore")
        return type(encoder)(
            model.eval().requires_grad_(False),
            encoder.captions.tokenizer,
            encoder.pictures.processor,
            name=name,
            device=encoder.device,
            dtype=str(old.dtype).removeprefix("torch."),
        )


def _of_photo(encoder: Photo, *, name: str, seed: int) -> Photo:
    """Parts before training too, whatever the heads stand on.

    Batch norms before training divide by one, and fifty convolutions then leave nothing of any
    picture: a twin that is blind by accident would flatter the model. So they are given the
    averages of drawn noise, as a first step of training would give them those of its batch.
    """
    from unbag.models.photo import Photo
    from unbag.models.photo_parts import average_norms, picture_part, untrained_caption_part
    from unbag.models.photo_towers import PhotoTowers

    with seeded(seed):
        picture = picture_part(is_trained=False)
        average_norms(picture)
        towers = PhotoTowers(picture, untrained_caption_part(), encoder.config)
    return Photo(towers, encoder.tokenizer, name=name, device=encoder.device)
