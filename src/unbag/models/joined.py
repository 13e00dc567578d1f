"""A picture tower and a text model of their own come in; one dual encoder goes out.

Li et al. 2024 put a language model beside the locked picture tower of CLIP: its pooled vector goes
through two linear layers with a GELU between them, as in LLaVA-1.5, into the joint space.

Dimensions: N pictures or captions, L tokens, E width of the text part, D joint space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UserError
from unbag.models.fingerprint import fingerprint
from unbag.models.seeded import seeded
from unbag.models.text_part import TextPart
from unbag.types import DualEncoder, LayerEncoder, Layers, TokenEncoder, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = "joined-1"
"""Raise it whenever the code here changes a number."""


class Connector(nn.Sequential):
    """Linear, GELU, Linear; or nothing, for text vectors that lie in the joint space already."""

    def __init__(self, width: int, joint: int, *, hidden: int | None) -> None:
        """`hidden` of None is nothing."""
        self.sizes = (width, joint, hidden)
        if hidden is None:
            super().__init__()
        else:
            super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, joint))


def make_connector(width: int, joint: int, *, seed: int = 0, is_plain: bool = False) -> Connector:
    """As torch begins it, the same for the same seed; as wide inside as its wider end.

    LLaVA-1.5 goes from 1,024 to 4,096 and is 4,096 wide inside, which this gives.
    """
    if is_plain:
        if width != joint:
            raise UserError(
                f"text vectors of {width} numbers, and a joint space of {joint}",
                expected="the same number, where no connector stands between them",
                way_out="leave plain: out, and train a connector",
            )
        return Connector(width, joint, hidden=None)
    with seeded(seed):
        return Connector(width, joint, hidden=max(width, joint))


@dataclass(frozen=True)
class Origin:
    """Where the parts are from: what they are loaded by, and what they then are."""

    picture: str
    picture_fingerprint: str
    text: str
    text_fingerprint: str


@dataclass(frozen=True, eq=False)
class Changed:
    """Weights of the parts that training changed, by their names there."""

    picture: Mapping[str, Tensor] = field(default_factory=dict)
    text: Mapping[str, Tensor] = field(default_factory=dict)


class Joined:
    """The picture tower of one model, and another text model through a connector."""

    def __init__(
        self,
        picture: DualEncoder,
        text: TextPart,
        connector: Connector,
        *,
        name: str,
        origin: Origin,
        changed: Changed | None = None,
        temperature: tuple[float, float] | None = None,
    ) -> None:
        """Wrap loaded parts; the connector is moved. Scale and bias are the picture model's."""
        self.picture, self.text = picture, text
        self.name, self.origin, self.changed = name, origin, changed or Changed()
        self.device = picture.device
        moved = connector.to(device=self.device, dtype=torch.float32)
        self.connector = moved.eval().requires_grad_(False)
        self.scale, self.bias = temperature or (picture.scale, picture.bias)
        self.context = text.reads.context
        self._kinds = sorted({str(one.dtype) for one in text.module.parameters()})
        said = (
            origin.picture_fingerprint,
            origin.text_fingerprint,
            repr((self.scale, self.bias, connector.sizes, self._kinds)),
            _VERSION,
        )
        self.fingerprint = fingerprint("joined", self.own_weights(), *said)

    def own_weights(self) -> dict[str, Tensor]:
        """All that is not in the parts as they are loaded by name."""
        found = {f"connector.{k}": v for k, v in self.connector.state_dict().items()}
        found |= {f"picture.{name}": value for name, value in self.changed.picture.items()}
        return found | {f"text.{name}": value for name, value in self.changed.text.items()}

    def prepare(self, image: Image) -> Tensor:
        """As the picture model does."""
        return self.picture.prepare(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Of the text part, before cutting, special ones included."""
        return self.text.reads.count(captions) if captions else []

    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """As the picture model does."""
        return self.picture.encode_pictures(pixels)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D], run at their real length."""
        return _unit(self.connector(self.text.pooled(self._placed(captions))))

    def encode_patches(self, pixels: Tensor) -> Tokens:
        """As the picture model does."""
        if not isinstance(self.picture, TokenEncoder):
            raise self._lacks("patches")
        return self.picture.encode_patches(pixels)

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> Tokens:
        """Each token through the connector, as if it were the whole caption."""
        hidden_NLE, mask_NL = self.text.words(self._placed(captions))
        return Tokens(_unit(self.connector(hidden_NLE.float())), mask_NL.bool().cpu())

    def picture_layers(self, pixels: Tensor) -> Layers:
        """As the picture model does."""
        if not isinstance(self.picture, LayerEncoder):
            raise self._lacks("layers")
        return self.picture.picture_layers(pixels)

    @torch.no_grad()
    def caption_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens of the text part, special ones included, pooled at each layer as at the last."""
        return self.text.layers(self._placed(captions))

    def picture_features(self, pixels: Tensor) -> Tensor:
        """What a locked picture tower makes of pictures: unit vectors [N, D]."""
        return self.picture.encode_pictures(pixels)

    @torch.inference_mode()
    def caption_features(self, captions: Sequence[str]) -> Tensor:
        """What the connector is given, [N, E]."""
        return self.text.pooled(self._placed(captions)).cpu()

    def part_fingerprint(self, tower: str) -> str:
        """Of what a locked tower makes of its inputs, for what is kept of it."""
        is_picture = tower == "picture"
        changed = self.changed.picture if is_picture else self.changed.text
        origin = self.origin
        first = origin.picture_fingerprint if is_picture else origin.text_fingerprint
        kinds = () if is_picture else self._kinds
        return fingerprint("joined-part", changed, first, repr(kinds), _VERSION)

    def _placed(self, captions: Sequence[str]) -> dict[str, Tensor]:
        return {name: one.to(self.device) for name, one in self.text.reads(captions).items()}

    def _lacks(self, what: str) -> UserError:
        return UserError(
            f"{self.picture.name} shows no {what} of a picture",
            expected="a picture model that does: tiny:, photo:, open_clip: or hf:",
            way_out="use the picture vector",
        )


def _unit(vector: Tensor) -> Tensor:
    return functional.normalize(vector.float(), dim=-1).cpu()
