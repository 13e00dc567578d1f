"""A loaded model comes in; its towers, ready to be trained, go out."""

from __future__ import annotations

from unbag.errors import UserError
from unbag.models.hf_dual import HfDual
from unbag.models.joined import Joined
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.photo import Photo
from unbag.models.tiny import Tiny
from unbag.train.hf_trainable import HfTrainable
from unbag.train.joined_trainable import JoinedTrainable
from unbag.train.open_clip_trainable import OpenClipTrainable
from unbag.train.photo_trainable import PhotoTrainable
from unbag.train.tiny_trainable import TinyTrainable
from unbag.train.trainable import Trainable


def make_trainable(encoder: object, *, device: str) -> Trainable:
    """A copy in float32 with every weight of both towers open; the encoder stays as it is."""
    if isinstance(encoder, Tiny):
        return TinyTrainable(encoder, device=device)
    if isinstance(encoder, OpenClip):
        return OpenClipTrainable(encoder, device=device)
    if isinstance(encoder, HfDual):
        return HfTrainable(encoder, device=device)
    if isinstance(encoder, Photo):
        return PhotoTrainable(encoder, device=device)
    if isinstance(encoder, Joined):
        pictures = make_trainable(encoder.picture, device=device)
        return JoinedTrainable(encoder, pictures, device=device)
    raise UserError(
        f"{getattr(encoder, 'name', type(encoder).__name__)} cannot be trained: it is no dual "
        "encoder of a known library",
        expected="tiny:..., photo:..., open_clip:..., or a dual encoder of hf:... (CLIP, SigLIP, "
        "ALIGN ...)",
        way_out="`unbag list models` shows what each name is",
    )
