"""What a model must offer to be trained: its two towers with gradients, and its weights by layer.

Dimensions: N pictures or captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from unbag.types import DualEncoder, Picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor, nn

    from unbag.train.batch import Inputs


class Trainable(Protocol):
    """The towers of a dual encoder. All weights are float32; autocast decides what computes."""

    @property
    def name(self) -> str:
        """Of the model it came from."""

    @property
    def fingerprint(self) -> str:
        """Of the model it came from, before training."""

    @property
    def module(self) -> nn.Module:
        """Every weight, temperature and bias included, under its name in the library it is from."""

    @property
    def picture_layers(self) -> Sequence[Sequence[nn.Module | nn.Parameter]]:
        """The picture tower from input to output: embedding, blocks, what follows them."""

    @property
    def caption_layers(self) -> Sequence[Sequence[nn.Module | nn.Parameter]]:
        """The caption tower likewise."""

    @property
    def temperature(self) -> Sequence[nn.Parameter]:
        """The logarithm of the scale, then the bias if there is one."""

    @property
    def reads(self) -> Reads:
        """What data workers need; it can be sent to another process."""

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """[N, ...] on the device to unit vectors [N, D] in float32, with gradient."""

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Tokens on the device to unit vectors [N, D] in float32, with gradient."""

    def encoder(self, name: str) -> DualEncoder:
        """The weights as they are now, as an encoder of their own with a new fingerprint."""


class Reads(Protocol):
    """Preparation of pictures and captions, without weights."""

    def prepare(self, image: Image) -> Tensor:
        """As for evaluation; never flipped or cropped at random, since captions speak of sides."""

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Padded to the longest of them, where the tower allows."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Of each caption, special ones included."""


@runtime_checkable
class KeptReads(Protocol):
    """Preparation that has met the pictures before, and opens none of them again."""

    def kept(self, picture: Picture) -> Tensor:
        """What the picture tower, or what is trained of it, is given."""


def read_picture(reads: Reads, picture: Picture) -> Tensor:
    """From memory where it is kept, else opened and prepared."""
    return reads.kept(picture) if isinstance(reads, KeptReads) else reads.prepare(picture.open())
