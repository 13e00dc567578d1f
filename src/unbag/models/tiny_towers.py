"""The two small transformers of the tiny dual encoder: pixels or token ids in, vectors out.

Dimensions: N batch, L patches or tokens (with CLS / end), W width, D joint space.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

FIRST_SCALE = 1 / 0.07
LARGEST_SCALE = 100.0


@dataclass(frozen=True)
class TinyConfig:
    """Sizes of a tiny dual encoder; stored beside its weights."""

    pixels: int = 64
    patch: int = 8
    picture_width: int = 192
    picture_depth: int = 5
    caption_width: int = 128
    caption_depth: int = 3
    joint: int = 128
    heads: int = 4
    context: int = 32
    words: tuple[str, ...] = ()
    """The vocabulary, without the special tokens."""

    @property
    def vocabulary(self) -> int:
        """Words and the three special tokens: padding, end, unknown."""
        return len(self.words) + 3

    def as_json(self) -> dict[str, object]:
        """For the header of a checkpoint."""
        return asdict(self)


class Block(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width: int, heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.is_causal = is_causal
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x_NLW: Tensor) -> Tensor:
        """Attend, then think."""
        n, length, width = x_NLW.shape
        qkv = self.qkv(self.norm1(x_NLW)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x_NLW = x_NLW + self.out(seen.transpose(1, 2).reshape(n, length, width))
        out: Tensor = x_NLW + self.mlp(self.norm2(x_NLW))
        return out


class PictureTower(nn.Module):
    """Patches and a CLS token through full attention."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        width = config.picture_width
        self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch)
        self.cls = nn.Parameter(torch.randn(width) * 0.02)
        count = (config.pixels // config.patch) ** 2
        self.position = nn.Parameter(torch.randn(count + 1, width) * 0.02)
        self.blocks = nn.Sequential(
            *(Block(width, config.heads, is_causal=False) for _ in range(config.picture_depth))
        )
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, config.joint, bias=False)

    def enter(self, pixels: Tensor) -> Tensor:
        """[N, 3, H, W] in [-1, 1] to what the first block is given, CLS first."""
        patch_NLW = self.patches(pixels).flatten(2).transpose(1, 2)
        cls = self.cls.expand(len(pixels), 1, -1)
        return torch.cat([cls, patch_NLW], dim=1) + self.position

    def forward(self, pixels: Tensor) -> Tensor:
        """[N, 3, H, W] in [-1, 1] to projected vectors [N, 1 + patches, D], CLS first."""
        out: Tensor = self.project(self.norm(self.blocks(self.enter(pixels))))
        return out


class CaptionTower(nn.Module):
    """Tokens through causal attention, so that what follows the end token cannot matter."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        width = config.caption_width
        self.tokens = nn.Embedding(config.vocabulary, width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.position = nn.Parameter(torch.randn(config.context, width) * 0.02)
        self.blocks = nn.Sequential(
            *(Block(width, config.heads, is_causal=True) for _ in range(config.caption_depth))
        )
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, config.joint, bias=False)

    def enter(self, token_NL: Tensor) -> Tensor:
        """Token ids to what the first block is given."""
        x_NLW: Tensor = self.tokens(token_NL) + self.position[: token_NL.shape[1]]
        return x_NLW

    def forward(self, token_NL: Tensor) -> Tensor:
        """Token ids to projected vectors [N, L, D]."""
        out: Tensor = self.project(self.norm(self.blocks(self.enter(token_NL))))
        return out


class TinyTowers(nn.Module):
    """Both towers and the learned temperature."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.picture = PictureTower(config)
        self.caption = CaptionTower(config)
        self.log_scale = nn.Parameter(torch.tensor(log(FIRST_SCALE)))

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Unit vectors from the CLS token."""
        return functional.normalize(self.picture(pixels)[:, 0], dim=-1)

    def embed_captions(self, token_NL: Tensor, end_N: Tensor) -> Tensor:
        """Unit vectors from the end token, which stands at index end_N."""
        vector_NLD = self.caption(token_NL)
        rows = torch.arange(len(token_NL), device=token_NL.device)
        return functional.normalize(vector_NLD[rows, end_N], dim=-1)

    def clamp_scale(self) -> None:
        """Keep the temperature where CLIP keeps it; called after each optimiser step."""
        with torch.no_grad():
            self.log_scale.clamp_(0.0, log(LARGEST_SCALE))
