"""What all models share about their weights: fingerprint, a check for NaN, and a random twin.

The random twin of a dual encoder is the same architecture with random weights: what can be read
from it was put there by the architecture, not by training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from hashlib import blake2b
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.huggingface.blip import Blip
    from unbag.models.huggingface.dual import HfDual
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.photo import Photo
    from unbag.types import DualEncoder

_SHOWN = 3
"""Names of tensors in a message."""


def fingerprint(kind: str, state: Mapping[str, Tensor], *said: str) -> str:
    """Hash of all tensors, by name, and of texts such as a config, a dtype and a code version."""
    import torch

    digest = blake2b(digest_size=12)
    for text in said:
        digest.update(text.encode() + b"\0")
    for name, tensor in sorted(state.items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\0".encode())
        # As bytes: numpy knows no bfloat16.
        digest.update(plain.flatten().view(torch.uint8).numpy().data if plain.numel() else b"")
    return f"{kind}-{digest.hexdigest()}"


def check_finite(state: Mapping[str, Tensor], *, source: str) -> None:
    """Raise if a tensor holds NaN or infinity: every score would be NaN, or wrong in silence."""
    bad = [name for name, tensor in state.items() if not _is_finite(tensor)]
    if not bad:
        return
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    raise UserError(
        f"{len(bad)} of the {len(state)} tensors of {source} hold NaN or infinity: "
        f"{', '.join(bad[:_SHOWN])}{more}",
        expected="finite weights",
        way_out="take an earlier checkpoint: this training diverged, or the file is damaged",
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()
    # One pass without a copy: NaN is both the least and the largest, infinity one of them.
    return all(bool(value.isfinite()) for value in tensor.detach().aminmax())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws of a seed inside, and the generator as it was behind it.

    That of the CPU alone: networks are built there, so no other is drawn from.
    """
    # Not above: `unbag.probes` is read without PyTorch.
    import torch

    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also seed generators of GPUs, which the fork does not restore.
        torch.default_generator.manual_seed(seed)
        yield


def random_twin(encoder: DualEncoder, *, seed: int = 0) -> DualEncoder | None:
    """Same sizes, preparation, tokenizer, precision and device; weights as its library begins.

    The same for the same seed, whatever the weights of `encoder` are; the state of no random
    generator is changed. None for an encoder of a kind that is not known here, such as your own,
    and for one of open_clip that was made without its `config` and `preparation`.
    """
    from unbag.models.huggingface.blip import Blip
    from unbag.models.huggingface.dual import HfDual
    from unbag.models.open_clip.encoder import OpenClip
    from unbag.models.photo import Photo
    from unbag.models.tiny import Tiny, untrained

    name = f"{encoder.name}, random weights"
    if isinstance(encoder, Tiny):
        return Tiny(untrained(encoder.config, seed=seed), name=name, device=encoder.device)
    if isinstance(encoder, OpenClip):
        return _open_clip_twin(encoder, name=name, seed=seed)
    if isinstance(encoder, HfDual | Blip):
        return _transformers_twin(encoder, name=name, seed=seed)
    if isinstance(encoder, Photo):
        return _photo_twin(encoder, name=name, seed=seed)
    return None


def _open_clip_twin(encoder: OpenClip, *, name: str, seed: int) -> OpenClip | None:
    from unbag.models.open_clip.checkpoint import build
    from unbag.models.open_clip.encoder import OpenClip, make_transform
    from unbag.models.open_clip.loading import fingerprint_of

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
        prepare=make_transform(prepared),
        device=encoder.device,
        dtype=encoder.dtype,
        config=config,
        preparation=prepared,
    )


def _transformers_twin(encoder: HfDual | Blip, *, name: str, seed: int) -> HfDual | Blip:
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


def _photo_twin(encoder: Photo, *, name: str, seed: int) -> Photo:
    """Parts before training too, whatever the heads stand on.

    Batch norms before training divide by one, and fifty convolutions then leave nothing of any
    picture: a twin that is blind by accident would flatter the model. So they are given the
    averages of drawn noise, as a first step of training would give them those of its batch.
    """
    from unbag.models.photo import (
        Photo,
        PhotoTowers,
        average_norms,
        picture_part,
        untrained_caption_part,
    )

    with seeded(seed):
        picture = picture_part(is_trained=False)
        average_norms(picture)
        towers = PhotoTowers(picture, untrained_caption_part(), encoder.config)
    return Photo(towers, encoder.tokenizer, name=name, device=encoder.device)
