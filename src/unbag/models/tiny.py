"""The tiny dual encoder: shipped (`tiny:base`), untrained (`tiny:random`), or a checkpoint file.

Dimensions: N inputs, L patches or tokens (with CLS or end), W width of an encoder, D joint space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError, unknown_name
from unbag.models.layers import make_layers
from unbag.models.shipped import find_shipped
from unbag.models.weights import check_finite, read_safetensors, seeded
from unbag.types import IntArray, Layers, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

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
        """Apply attention, then the MLP."""
        batch, length, width = x_NLW.shape
        qkv = self.qkv(self.norm1(x_NLW)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x_NLW = x_NLW + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        output: Tensor = x_NLW + self.mlp(self.norm2(x_NLW))
        return output


class ImageEncoder(nn.Module):
    """A vision transformer with a CLS token."""

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
        """Embed [N, 3, H, W] in [-1, 1] for the first block, CLS first."""
        patch_NLW = self.patches(pixels).flatten(2).transpose(1, 2)
        cls = self.cls.expand(len(pixels), 1, -1)
        return torch.cat([cls, patch_NLW], dim=1) + self.position

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode [N, 3, H, W] in [-1, 1] to projected vectors [N, 1 + patches, D], CLS first."""
        out: Tensor = self.project(self.norm(self.blocks(self.enter(pixels))))
        return out


class TextEncoder(nn.Module):
    """A causal text transformer, so that padding after the end token has no effect."""

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
        """Embed token ids for the first block."""
        x_NLW: Tensor = self.tokens(token_NL) + self.position[: token_NL.shape[1]]
        return x_NLW

    def forward(self, token_NL: Tensor) -> Tensor:
        """Encode token ids to projected vectors [N, L, D]."""
        out: Tensor = self.project(self.norm(self.blocks(self.enter(token_NL))))
        return out


class TinyNetwork(nn.Module):
    """Both encoders and the learned temperature."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.picture = ImageEncoder(config)
        self.caption = TextEncoder(config)
        self.log_scale = nn.Parameter(torch.tensor(log(FIRST_SCALE)))

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Return the unit vectors of CLS tokens."""
        return functional.normalize(self.picture(pixels)[:, 0], dim=-1)

    def embed_texts(self, token_NL: Tensor, end_N: Tensor) -> Tensor:
        """Return the unit vectors of end tokens, at index end_N."""
        vector_NLD = self.caption(token_NL)
        rows = torch.arange(len(token_NL), device=token_NL.device)
        return functional.normalize(vector_NLD[rows, end_N], dim=-1)

    def clamp_scale(self) -> None:
        """Clamp the temperature as in CLIP; called after each optimizer step."""
        with torch.no_grad():
            self.log_scale.clamp_(0.0, log(LARGEST_SCALE))


def _hidden_states(encoder: ImageEncoder | TextEncoder, hidden_NLW: Tensor) -> list[Tensor]:
    hidden = [hidden_NLW]
    for block in encoder.blocks:
        hidden.append(block(hidden[-1]))
    return [*hidden, encoder.norm(hidden[-1])]


PAD, END, UNKNOWN = 0, 1, 2
_WORD = re.compile(r"[a-z0-9]+")


class WordTokenizer:
    """A tokenizer of lower-case words (letters and digits) that ends every caption with END."""

    def __init__(self, words: Sequence[str], *, context: int) -> None:
        """Assign ids to `words` in order, from 3; ids 0 to 2 are the special tokens."""
        self.context = context
        self._ids = {word: i + 3 for i, word in enumerate(words)}

    def split(self, caption: str) -> list[int]:
        """Return the ids of a caption before truncation, the end token included."""
        return [self._ids.get(word, UNKNOWN) for word in _WORD.findall(caption.lower())] + [END]

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Return distinct words outside the vocabulary, in order."""
        words = dict.fromkeys(word for text in captions for word in _WORD.findall(text.lower()))
        return [word for word in words if word not in self._ids]

    def __call__(self, captions: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return ids [N, L] padded to the longest caption, and the index of each end token."""
        rows = [self.split(caption) for caption in captions]
        rows = [
            row if len(row) <= self.context else [*row[: self.context - 1], END] for row in rows
        ]
        end_N = np.array([len(row) - 1 for row in rows], dtype=np.int64)
        token_NL = np.full((len(rows), int(end_N.max(initial=0)) + 1), PAD, dtype=np.int64)
        for i, row in enumerate(rows):
            token_NL[i, : len(row)] = row
        return token_NL, end_N


SHIPPED = ("base", "hard_negative")
OF_THE_STUDY = ("hard_positive", "ce_clip_fixed")
"""Models that ship with unbag-lab. All but `base` are repairs of it, named by their recipe."""
RANDOM_SEED = 0


class Tiny:
    """A dual encoder small enough to train in minutes and to ship in megabytes."""

    bias = 0.0

    def __init__(self, network: TinyNetwork, *, name: str, device: str = "cpu") -> None:
        """Wrap encoders; their config has the vocabulary."""
        self.network = network.to(device=device, dtype=torch.float32).eval()
        self.config = network.config
        self.name = name
        self.device = device
        self.context = self.config.context
        self.scale = float(network.log_scale.detach().exp())
        self.tokenize = WordTokenizer(self.config.words, context=self.context)
        self.fingerprint = _fingerprint(network)

    def random_init(self, *, name: str, seed: int) -> Tiny:
        """Return a randomly initialized model of the same sizes."""
        return Tiny(untrained(self.config, seed=seed), name=name, device=self.device)

    def prepare(self, image: Image) -> Tensor:
        """Convert RGB to [3, H, W] in [-1, 1], uncropped, since captions mention left and right."""
        side = self.config.pixels
        if image.size != (side, side):
            from PIL.Image import Resampling

            image = image.resize((side, side), Resampling.BICUBIC)
        pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of words plus the end token."""
        return [len(self.tokenize.split(caption)) for caption in captions]

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Return distinct words outside the vocabulary, in order."""
        return self.tokenize.unknown_words(captions)

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images [N, 3, H, W] to unit vectors [N, D]."""
        return self.network.embed_images(pixels.to(self.device)).cpu()

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions at their real length to unit vectors [N, D]."""
        token_NL, end_N = (torch.from_numpy(a).to(self.device) for a in self.tokenize(captions))
        return self.network.embed_texts(token_NL, end_N).cpu()

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Encode patches to unit vectors [N, patches, D]."""
        vector_NLD = functional.normalize(
            self.network.picture(pixels.to(self.device)), dim=-1
        ).cpu()
        mask_NL = torch.ones(vector_NLD[:, 1:].shape[:2], dtype=torch.bool)
        return TokenFeatures(vector_NLD[:, 1:], mask_NL, vector_NLD[:, 0])

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Encode tokens to unit vectors [N, L, D]; the mask ends with the end token."""
        token_NL, end_N = (torch.from_numpy(a) for a in self.tokenize(captions))
        vector_NLD = functional.normalize(
            self.network.caption(token_NL.to(self.device)), dim=-1
        ).cpu()
        mask_NL = torch.arange(token_NL.shape[1])[None, :] <= end_N[:, None]
        return TokenFeatures(vector_NLD, mask_NL, vector_NLD[torch.arange(len(end_N)), end_N])

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """Encode `length` tokens, padding included; a longer caption keeps its end token."""
        length = min(length, self.context)
        tokenize = WordTokenizer(self.config.words, context=length)
        token_NK, end_N = (torch.from_numpy(a) for a in tokenize(captions))
        token_NL = functional.pad(token_NK, (0, length - token_NK.shape[1]), value=PAD)
        vector_NLD = functional.normalize(
            self.network.caption(token_NL.to(self.device)), dim=-1
        ).cpu()
        return TokenFeatures(vector_NLD, torch.arange(length)[None, :] <= end_N[:, None])

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Return patches and pooled CLS token of each of the depth + 2 layers."""
        encoder = self.network.picture
        hidden = _hidden_states(encoder, encoder.enter(pixels.to(self.device)))
        return make_layers([layer[:, 1:] for layer in hidden], [layer[:, 0] for layer in hidden])

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return tokens and pooled end token of each of the depth + 2 layers."""
        token_NL, end_N = (torch.from_numpy(a).to(self.device) for a in self.tokenize(captions))
        encoder = self.network.caption
        hidden = _hidden_states(encoder, encoder.enter(token_NL))
        rows = torch.arange(len(token_NL), device=token_NL.device)
        mask_NL = torch.arange(token_NL.shape[1], device=end_N.device) <= end_N[:, None]
        return make_layers(hidden, [layer[rows, end_N] for layer in hidden], mask_NL)


def load(name: str, *, device: str = "cpu") -> Tiny:
    """Load a shipped model, `random` (`base`, randomly initialized), or a .safetensors file."""
    if name == "random":
        config = load("base").config
        return Tiny(untrained(config, seed=RANDOM_SEED), name="tiny:random", device=device)
    path = Path(name).expanduser()
    if path.suffix:
        return read(path, name=f"tiny:{path.stem}", device=device)
    if shipped := find_shipped(f"tiny-{name}.safetensors"):
        return read(shipped, name=f"tiny:{name}", device=device)
    if name in OF_THE_STUDY:
        raise UnbagError(
            f"tiny:{name} ships with the study, unbag-lab, which is not installed",
            hint="in a clone of unbag: pip install ./lab",
        )
    known = (*SHIPPED, *OF_THE_STUDY, "random")
    raise unknown_name("model", f"tiny:{name}", [f"tiny:{n}" for n in known])


def untrained(config: TinyConfig, *, seed: int) -> TinyNetwork:
    """Make a randomly initialized network, the same for the same seed."""
    with seeded(seed):
        return TinyNetwork(config)


def read(path: Path, *, name: str, device: str = "cpu") -> Tiny:
    """Read a checkpoint of `write`; nothing in the file is executed."""
    try:
        metadata, tensors = read_safetensors(path)
        header = json.loads(metadata.get("config", "null"))
        state = {name: value.float() for name, value in tensors.items()}
        header["words"] = tuple(header["words"])
        network = TinyNetwork(TinyConfig(**header))
        network.load_state_dict(state)
        check_finite(state, source=str(path))
    except FileNotFoundError as error:
        raise UnbagError(
            f"no checkpoint at {path}",
            hint="check the path, or train one: see docs/background/world.md",
        ) from error
    except (SafetensorError, TypeError, KeyError, RuntimeError, ValueError) as error:
        raise UnbagError(
            f"{path} is not a tiny dual encoder: {error}",
            expected="a .safetensors file written by `python -m unbag_lab pretrain`",
        ) from error
    return Tiny(network, name=name, device=device)


def write(network: TinyNetwork, path: Path, *, dtype: torch.dtype = torch.float16) -> None:
    """Save as safetensors with the config in the header, by default in half precision."""
    state = {key: value.detach().to(dtype).cpu() for key, value in network.state_dict().items()}
    save_file(state, path, metadata={"config": json.dumps(asdict(network.config))})


def _fingerprint(network: TinyNetwork) -> str:
    digest = blake2b(json.dumps(asdict(network.config), sort_keys=True).encode(), digest_size=12)
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    # Version of `prepare` and of the forward pass: increase it whenever a change alters a result.
    digest.update(b"tiny-1")
    return f"tiny-{digest.hexdigest()}"
