"""The photo dual encoder as a model: shipped heads (`photo:mini`) on parts that install by name.

Dimensions: N pictures or captions, L places or tokens, C features of a part, D joint space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.nn import functional

from unbag.errors import UserError, unknown_name
from unbag.models.fingerprint import fingerprint
from unbag.models.finite import check_finite
from unbag.models.photo_layers import caption_layers, picture_layers
from unbag.models.photo_parts import SIDE, caption_part, check_parts, parts_said, picture_part
from unbag.models.photo_towers import PhotoConfig, PhotoTowers, mean_words
from unbag.models.seeded import seeded
from unbag.types import Layers, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

SHIPPED = ("mini", "hard_negative")
"""The first was trained plainly; the other is a repair of its heads."""
CONTEXT = 128
"""Tokens of a caption; the longest of the 24,515 that the shipped heads were trained on has 42."""
_HEADS = ("picture.head.", "caption.head.", "log_scale")
_SAYS_NOTHING = ("photo", "export")
_VERSION = "photo-1"
"""Raise it whenever the code here changes a number."""


class Photo:
    """EfficientNet-Lite0 and MiniLM with a head each."""

    bias = 0.0

    def __init__(
        self, towers: PhotoTowers, tokenizer: Any, *, name: str, device: str = "cpu"
    ) -> None:
        """Wrap towers, which are moved."""
        self.towers = towers.to(device=device, dtype=torch.float32).eval()
        self.tokenizer = tokenizer
        self.config = towers.config
        self.name = name
        self.device = device
        self.context = CONTEXT
        self.scale = float(towers.log_scale.detach().exp())
        said = (json.dumps(self.config.as_json(), sort_keys=True), parts_said(), _VERSION)
        self.fingerprint = fingerprint("photo", towers.state_dict(), *said)

    def prepare(self, image: Image) -> Tensor:
        """RGB to [3, 224, 224], as EfficientNet-Lite was trained.

        The whole picture, squeezed to a square: a cut would lose what captions speak of.
        """
        return prepare(image)

    def tokenize(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token ids and mask [N, L], padded to the longest."""
        found = self.tokenizer(
            list(captions), padding=True, truncation=True, max_length=CONTEXT, return_tensors="pt"
        )
        return found["input_ids"], found["attention_mask"]

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        if not captions:
            return []
        # Not verbose: it would warn of a length that MiniLM has no places for, before it is cut.
        return [len(ids) for ids in self.tokenizer(list(captions), verbose=False)["input_ids"]]

    @torch.inference_mode()
    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """[N, 3, 224, 224] to unit vectors [N, D]."""
        return _unit(self.towers.picture(pixels.to(self.device)))

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D], run at their real length."""
        return _unit(self.towers.caption(*self._placed(captions)))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> Tokens:
        """Each of the 7 x 7 places through the head, as if it were the whole picture."""
        towers = self.towers.picture
        vector_NLD = _unit(towers.head(towers.places(pixels.to(self.device))))
        return Tokens(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> Tokens:
        """Each token through the head, special ones included."""
        token_NL, mask_NL = self._placed(captions)
        towers = self.towers.caption
        vector_NLD = _unit(towers.head(towers.words(token_NL, mask_NL)))
        return Tokens(vector_NLD, mask_NL.bool().cpu())

    @torch.no_grad()
    def picture_layers(self, pixels: Tensor) -> Layers:
        """Places of stem, blocks and what the head is given, with their means."""
        return picture_layers(self.towers.picture, pixels.to(self.device))

    @torch.no_grad()
    def caption_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens, special ones included, of embedding and blocks, with their means."""
        return caption_layers(self.towers.caption, *self._placed(captions))

    @torch.inference_mode()
    def picture_features(self, pixels: Tensor) -> Tensor:
        """What the head is given, [N, C]: frozen parts need to compute it once only."""
        return self.towers.picture.places(pixels.to(self.device)).mean(dim=1).float().cpu()

    @torch.inference_mode()
    def caption_features(self, captions: Sequence[str]) -> Tensor:
        """What the head is given, [N, C]."""
        token_NL, mask_NL = self._placed(captions)
        words = self.towers.caption.words(token_NL, mask_NL)
        return mean_words(words, mask_NL).float().cpu()

    def _placed(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        token_NL, mask_NL = self.tokenize(captions)
        return token_NL.to(self.device), mask_NL.to(self.device)


def squeezed(image: Image) -> Image:
    """At the size that the picture part was trained with."""
    if image.size == (SIDE, SIDE):
        return image
    from PIL.Image import Resampling

    return image.resize((SIDE, SIDE), Resampling.BICUBIC)


def prepare(image: Image) -> Tensor:
    """RGB to [3, 224, 224]."""
    pixels = (np.asarray(squeezed(image), dtype=np.float32) - 127.0) / 128.0
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def load(name: str, *, device: str = "cpu") -> Photo:
    """`mini`, `random` (heads before training), or a .safetensors file of your own."""
    check_parts()
    if name in SHIPPED:
        shipped = files("unbag.models") / "weights" / f"photo-{name}.safetensors"
        if not shipped.is_file():
            raise UserError(
                f"photo:{name} is not shipped with this version of unbag",
                expected="a version that has its heads",
                way_out="build heads of your own from photo:random: docs/photos.md",
            )
        with as_file(shipped) as path:
            return read(path, name=f"photo:{name}", device=device)
    if name == "random":
        return build({}, PhotoConfig(), name="photo:random", device=device)
    path = Path(name).expanduser()
    if not path.suffix:
        raise unknown_name("model", f"photo:{name}", [f"photo:{n}" for n in (*SHIPPED, "random")])
    return read(path, name=_named(path), device=device)


def _named(path: Path) -> str:
    """An export's file is photo.safetensors whatever is in it; then its folder says more."""
    told = [part for part in path.absolute().with_suffix("").parts if part not in _SAYS_NOTHING]
    return f"photo:{told[-1]}"


def build(
    state: Mapping[str, Tensor],
    config: PhotoConfig,
    *,
    name: str,
    device: str = "cpu",
    seed: int = 0,
) -> Photo:
    """Parts as they are installed, with the given weights put in; heads start from the seed."""
    reader, tokenizer = caption_part()
    with seeded(seed):
        towers = PhotoTowers(picture_part(), reader, config)
    _, unknown = towers.load_state_dict(dict(state), strict=False)
    if unknown:
        raise ValueError(f"{unknown[0]} is not a weight of this model")
    return Photo(towers, tokenizer, name=name, device=device)


def read(path: Path, *, name: str, device: str = "cpu") -> Photo:
    """A checkpoint written by `write`: heads, and towers where they were trained too."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("photo", "null"))
            state = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        missing = [part for part in _HEADS if not any(key.startswith(part) for key in state)]
        if missing:
            raise ValueError(f"it has no {missing[0].rstrip('.')}")
        check_finite(state, source=str(path))
        return build(state, PhotoConfig(**header), name=name, device=device)
    except FileNotFoundError as error:
        raise UserError(
            f"no checkpoint at {path}", way_out="check the path, or train one: docs/photos.md"
        ) from error
    except (SafetensorError, TypeError, KeyError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} is not a photo model: {str(error).splitlines()[0]}",
            expected="a .safetensors file with heads, as training photo:mini writes it",
        ) from error


def write(
    towers: PhotoTowers,
    path: Path,
    *,
    parts: Sequence[str] = (),
    dtype: torch.dtype = torch.float16,
) -> None:
    """Heads, and the parts named (`picture`, `caption`) where they are no longer as installed."""
    kept = (*_HEADS, *(f"{part}.part." for part in parts))
    state = {
        key: value.detach().to(dtype).cpu().contiguous()
        for key, value in towers.state_dict().items()
        if key.startswith(kept) and value.is_floating_point()
    }
    save_file(state, path, metadata={"photo": json.dumps(towers.config.as_json())})


def _unit(vector: Tensor) -> Tensor:
    return functional.normalize(vector.float(), dim=-1).cpu()
