"""Two pretrained towers with small heads into a joint space: pixels or token ids in, vectors out.

Dimensions: N batch, C channels, H x W places, L places or tokens, D joint space.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.models.photo_parts import WIDE, WORDS_WIDE


@dataclass(frozen=True)
class PhotoConfig:
    """Sizes of the heads; stored beside their weights."""

    hidden: int = 512
    joint: int = 256
    dropout: float = 0.1

    def as_json(self) -> dict[str, object]:
        """For the header of a checkpoint."""
        return asdict(self)


class Head(nn.Module):
    """From a part's features to the joint space."""

    def __init__(self, width: int, config: PhotoConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.project = nn.Linear(config.hidden, config.joint)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to [..., D]."""
        out: Tensor = self.project(self.dropout(functional.gelu(self.hidden(self.norm(x)))))
        return out


class PhotoPicture(nn.Module):
    """Convolutions and a head on the mean over places."""

    def __init__(self, part: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.part = part
        self.head = Head(WIDE, config)

    def places(self, pixels: Tensor) -> Tensor:
        """[N, 3, 224, 224] to features [N, 49, C], row by row from the top left."""
        map_NCHW: Tensor = self.part.extract_features(pixels)
        return map_NCHW.flatten(2).transpose(1, 2)

    def forward(self, pixels: Tensor) -> Tensor:
        """To [N, D], not at unit norm."""
        out: Tensor = self.head(self.places(pixels).mean(dim=1))
        return out


class PhotoCaption(nn.Module):
    """A sentence encoder and a head on the mean of its words."""

    def __init__(self, part: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.part = part
        self.head = Head(WORDS_WIDE, config)

    def words(self, token_NL: Tensor, mask_NL: Tensor) -> Tensor:
        """Features of every token, [N, L, C]."""
        found: Tensor = self.part(input_ids=token_NL, attention_mask=mask_NL).last_hidden_state
        return found

    def forward(self, token_NL: Tensor, mask_NL: Tensor) -> Tensor:
        """To [N, D], not at unit norm."""
        out: Tensor = self.head(mean_words(self.words(token_NL, mask_NL), mask_NL))
        return out


class PhotoTowers(nn.Module):
    """Both towers and the learned temperature."""

    def __init__(self, picture: Any, caption: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.config = config
        self.picture = PhotoPicture(picture, config)
        self.caption = PhotoCaption(caption, config)
        self.log_scale = nn.Parameter(torch.tensor(log(1 / 0.07)))


def mean_words(vector_NLC: Tensor, mask_NL: Tensor) -> Tensor:
    """The mean over real tokens."""
    weight_NL1 = mask_NL[:, :, None].to(vector_NLC.dtype)
    return (vector_NLC * weight_NL1).sum(dim=1) / weight_NL1.sum(dim=1)
