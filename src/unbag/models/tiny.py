"""The tiny dual encoder as a model: shipped (`tiny:base`), `tiny:random`, or a file of your own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.nn import functional

from unbag.errors import UserError, unknown_name
from unbag.models.finite import check_finite
from unbag.models.seeded import seeded
from unbag.models.tiny_layers import caption_layers, picture_layers
from unbag.models.tiny_towers import TinyConfig, TinyTowers
from unbag.models.tiny_words import PAD, WordTokenizer
from unbag.types import Layers, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

SHIPPED = ("base", "hard_negative", "hard_positive", "ce_clip_fixed")
"""The first was trained plainly; the others are repairs of it, by name of their recipe."""
RANDOM_SEED = 0


class Tiny:
    """A dual encoder small enough to train in minutes and to ship in megabytes."""

    bias = 0.0

    def __init__(self, towers: TinyTowers, *, name: str, device: str = "cpu") -> None:
        """Wrap towers; their config carries the vocabulary."""
        self.towers = towers.to(device=device, dtype=torch.float32).eval()
        self.config = towers.config
        self.name = name
        self.device = device
        self.context = self.config.context
        self.scale = float(towers.log_scale.detach().exp())
        self.tokenize = WordTokenizer(self.config.words, context=self.context)
        self.fingerprint = _fingerprint(towers)

    def prepare(self, image: Image) -> Tensor:
        """RGB to [3, H, W] in [-1, 1]; never flipped or cropped, since captions speak of sides."""
        side = self.config.pixels
        if image.size != (side, side):
            from PIL.Image import Resampling

            image = image.resize((side, side), Resampling.BICUBIC)
        pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Words and the end token."""
        return [len(self.tokenize.split(caption)) for caption in captions]

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Words that are all one token to it: each once, in their order."""
        return self.tokenize.unknown_words(captions)

    @torch.inference_mode()
    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """[N, 3, H, W] to unit vectors [N, D]."""
        return self.towers.embed_pictures(pixels.to(self.device)).cpu()

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D], run at their real length."""
        token_NL, end_N = (torch.from_numpy(a).to(self.device) for a in self.tokenize(captions))
        return self.towers.embed_captions(token_NL, end_N).cpu()

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> Tokens:
        """Projected patch vectors [N, patches, D], unit norm."""
        vector_NLD = functional.normalize(self.towers.picture(pixels.to(self.device)), dim=-1).cpu()
        mask_NL = torch.ones(vector_NLD[:, 1:].shape[:2], dtype=torch.bool)
        return Tokens(vector_NLD[:, 1:], mask_NL, vector_NLD[:, 0])

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> Tokens:
        """Projected word vectors [N, L, D], unit norm; the mask ends with the end token."""
        token_NL, end_N = (torch.from_numpy(a) for a in self.tokenize(captions))
        vector_NLD = functional.normalize(
            self.towers.caption(token_NL.to(self.device)), dim=-1
        ).cpu()
        mask_NL = torch.arange(token_NL.shape[1])[None, :] <= end_N[:, None]
        return Tokens(vector_NLD, mask_NL, vector_NLD[torch.arange(len(end_N)), end_N])

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> Tokens:
        """The same at so many places, padding included; a longer caption keeps its end token."""
        length = min(length, self.context)
        tokenize = WordTokenizer(self.config.words, context=length)
        token_NK, end_N = (torch.from_numpy(a) for a in tokenize(captions))
        token_NL = functional.pad(token_NK, (0, length - token_NK.shape[1]), value=PAD)
        vector_NLD = functional.normalize(
            self.towers.caption(token_NL.to(self.device)), dim=-1
        ).cpu()
        return Tokens(vector_NLD, torch.arange(length)[None, :] <= end_N[:, None])

    @torch.no_grad()
    def picture_layers(self, pixels: Tensor) -> Layers:
        """Patches and CLS after each of the depth + 2 layers."""
        return picture_layers(self.towers.picture, pixels.to(self.device))

    @torch.no_grad()
    def caption_layers(self, captions: Sequence[str]) -> Layers:
        """Words and the end token after each of the depth + 2 layers."""
        token_NL, end_N = (torch.from_numpy(a).to(self.device) for a in self.tokenize(captions))
        return caption_layers(self.towers.caption, token_NL, end_N)


def load(name: str, *, device: str = "cpu") -> Tiny:
    """One of `SHIPPED`, `random` (the untrained twin of `base`), or else a .safetensors file."""
    if name in SHIPPED:
        with as_file(files("unbag.models") / "weights" / f"tiny-{name}.safetensors") as path:
            return read(path, name=f"tiny:{name}", device=device)
    if name == "random":
        config = load("base").config
        return Tiny(untrained(config, seed=RANDOM_SEED), name="tiny:random", device=device)
    path = Path(name).expanduser()
    if not path.suffix:
        raise unknown_name("model", f"tiny:{name}", [f"tiny:{n}" for n in (*SHIPPED, "random")])
    return read(path, name=f"tiny:{path.stem}", device=device)


def untrained(config: TinyConfig, *, seed: int) -> TinyTowers:
    """Towers as they are before training, the same for the same seed."""
    with seeded(seed):
        return TinyTowers(config)


def read(path: Path, *, name: str, device: str = "cpu") -> Tiny:
    """A checkpoint written by `write`; the file is data only, nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("config", "null"))
            state = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        header["words"] = tuple(header["words"])
        towers = TinyTowers(TinyConfig(**header))
        towers.load_state_dict(state)
        check_finite(state, source=str(path))
    except FileNotFoundError as error:
        raise UserError(
            f"no checkpoint at {path}", way_out="check the path, or train one: see docs/world.md"
        ) from error
    except (SafetensorError, TypeError, KeyError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} is not a tiny dual encoder: {error}",
            expected="a .safetensors file written by `python -m unbag.lab.pretrain`",
        ) from error
    return Tiny(towers, name=name, device=device)


def write(towers: TinyTowers, path: Path, *, dtype: torch.dtype = torch.float16) -> None:
    """Safetensors with the config in the header; half precision, as they are shipped."""
    state = {key: value.detach().to(dtype).cpu() for key, value in towers.state_dict().items()}
    save_file(state, path, metadata={"config": json.dumps(towers.config.as_json())})


def _fingerprint(towers: TinyTowers) -> str:
    digest = blake2b(json.dumps(towers.config.as_json(), sort_keys=True).encode(), digest_size=12)
    for key, value in sorted(towers.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    # The version of `prepare` and of the forward pass: raise it whenever either changes a number.
    digest.update(b"tiny-1")
    return f"tiny-{digest.hexdigest()}"
