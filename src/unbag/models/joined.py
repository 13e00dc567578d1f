"""Joined models: the image encoder of one model and another text model with a connector.

Li et al. 2024 combine a language model with the frozen image encoder of CLIP. A connector of two
linear layers with a GELU between them, as in LLaVA-1.5, projects its pooled vector into the joint
space.

Dimensions: N images or captions, L tokens, E width of the text part, D joint space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UnbagError, said_by, unknown_name
from unbag.models.huggingface.loading import torch_dtype
from unbag.models.layers import unit_vectors
from unbag.models.loading import folder_name
from unbag.models.text_encoders import TextPart, is_known, load_part
from unbag.models.weights import check_finite, fingerprint, read_safetensors, seeded
from unbag.registry import find, names
from unbag.types import DualEncoder, LayerEncoder, Layers, TokenEncoder, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = "joined-1"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
RECORD = "joined.json"
WEIGHTS = "joined.safetensors"
_FORMAT = "unbag-joined-1"
PLAIN = "plain:"
"""Prefix of a text part whose vectors are already in the joint space: no connector."""
_RECORD_FOLDERS = (".", "joined", "export/joined")
"""Folders of the record inside an export or a training run."""


def load(name: str, *, device: str = "cpu", dtype: str = "auto") -> JoinedEncoder:
    """Load by parts or folder. `dtype` is of the text part; the rest computes in float32."""
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        record_folder = next(
            (
                folder / subfolder
                for subfolder in _RECORD_FOLDERS
                if (folder / subfolder / RECORD).is_file()
            ),
            folder,
        )
        return read_joined(record_folder, device=device, dtype=dtype)
    image, text = split(name)
    return join(image, text, device=device, dtype=dtype)


def join(
    image: str, text: str, *, device: str = "cpu", dtype: str = "auto", seed: int = 0
) -> JoinedEncoder:
    """Load both parts by name, with an untrained connector, or none for a `plain:` text part."""
    image_model = _load_image_model(image, device=device)
    text_part = load_part(text.removeprefix(PLAIN), device=device, dtype=dtype)
    connector = make_connector(
        text_part.width, _joint_width(image_model), seed=seed, is_plain=text.startswith(PLAIN)
    )
    origin = PartOrigin(image, image_model.fingerprint, text, text_part.fingerprint)
    # The name in tables has only the last part of a path.
    settings, colon, path = text.rpartition(":")
    name = f"{image_model.name}+{settings}{colon}{Path(path).name}".replace("+hf:", "+")
    return JoinedEncoder(image_model, text_part, connector, name=name, origin=origin)


def split(name: str) -> tuple[str, str]:
    """Split into image model and text part, at the last + that is followed by a known part."""
    positions = [i for i, letter in enumerate(name) if letter == "+"]
    if not positions:
        raise UnbagError(
            f"joined:{name} names no image model and text part, and no folder",
            expected="joined:IMAGE+TEXT, as joined:tiny:base+minilm, or the folder of an export",
            hint="write both with a + between them, or check the path",
        )
    candidates = [i for i in positions if is_known(name[i + 1 :].removeprefix(PLAIN))]
    i = (candidates or positions)[-1]
    return name[:i], name[i + 1 :]


def _load_image_model(spec: str, *, device: str) -> DualEncoder:
    """Load a dual encoder of any registered kind."""
    kind, _, rest = spec.partition(":")
    usable = [name for name in names("model") if name != "joined"]
    if kind not in usable:
        raise unknown_name(
            "image model",
            spec,
            usable,
            hint="write a model with its prefix before the +, such as tiny:base",
        )
    loader = find("model", kind)
    assert callable(loader)
    arguments = {"device": device} if "device" in signature(loader).parameters else {}
    encoder = loader(rest, **arguments)
    if not isinstance(encoder, DualEncoder):
        raise UnbagError(
            f"{spec} gives no vector for an image",
            expected="a dual encoder before the +: tiny:, photo:, open_clip: or hf:",
            hint="chat models and matching heads have no image vector",
        )
    return encoder


def _joint_width(encoder: DualEncoder) -> int:
    """Return D, by encoding a grey image."""
    from PIL import Image

    pixels = encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))
    return int(encoder.encode_images(pixels[None]).shape[1])


class JoinedEncoder:
    """The image encoder of one model and another text model with a connector."""

    def __init__(
        self,
        image: DualEncoder,
        text: TextPart,
        connector: Connector,
        *,
        name: str,
        origin: PartOrigin,
        changed: Changed | None = None,
        temperature: tuple[float, float] | None = None,
    ) -> None:
        """Wrap loaded parts and move the connector. Scale and bias default to the image model's."""
        self.image, self.text = image, text
        self.name, self.origin, self.changed = name, origin, changed or Changed()
        self.device = image.device
        moved = connector.to(device=self.device, dtype=torch.float32)
        self.connector = moved.eval().requires_grad_(False)
        self.scale, self.bias = temperature or (image.scale, image.bias)
        self.context = text.reads.context
        self._dtypes = sorted({str(weight.dtype) for weight in text.module.parameters()})
        settings = (
            origin.image_fingerprint,
            origin.text_fingerprint,
            repr((self.scale, self.bias, connector.sizes, self._dtypes)),
            _VERSION,
        )
        self.fingerprint = fingerprint("joined", self.own_weights(), *settings)

    def own_weights(self) -> dict[str, Tensor]:
        """Return all weights that are not in the parts as loaded by name."""
        weights = {f"connector.{k}": v for k, v in self.connector.state_dict().items()}
        weights |= {f"picture.{name}": value for name, value in self.changed.image.items()}
        return weights | {f"text.{name}": value for name, value in self.changed.text.items()}

    def prepare(self, image: Image) -> Tensor:
        """Prepare an image for the image model."""
        return self.image.prepare(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return self.text.reads.count(captions) if captions else []

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images with the image model."""
        return self.image.encode_images(pixels)

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions at their real length to unit vectors [N, D]."""
        return unit_vectors(self.connector(self.text.pooled(self._on_device(captions))))

    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Encode patches with the image model."""
        if not isinstance(self.image, TokenEncoder):
            raise self._missing_features_error("patches")
        return self.image.encode_patches(pixels)

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Project each token by the connector, as if it were the pooled vector."""
        hidden_NLE, mask_NL = self.text.words(self._on_device(captions))
        return TokenFeatures(unit_vectors(self.connector(hidden_NLE.float())), mask_NL.bool().cpu())

    def image_layers(self, pixels: Tensor) -> Layers:
        """Return the layers of the image model."""
        if not isinstance(self.image, LayerEncoder):
            raise self._missing_features_error("layers")
        return self.image.image_layers(pixels)

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the tokens of the text part by layer, each pooled like the last layer."""
        return self.text.layers(self._on_device(captions))

    def image_features(self, pixels: Tensor) -> Tensor:
        """Return the output of the frozen image encoder: unit vectors [N, D]."""
        return self.image.encode_images(pixels)

    @torch.inference_mode()
    def text_features(self, captions: Sequence[str]) -> Tensor:
        """Return the input of the connector, [N, E]."""
        return self.text.pooled(self._on_device(captions)).cpu()

    def part_fingerprint(self, encoder: str) -> str:
        """Fingerprint of the features of a frozen encoder, for their cache."""
        is_image = encoder == "image"
        changed = self.changed.image if is_image else self.changed.text
        origin = self.origin
        original = origin.image_fingerprint if is_image else origin.text_fingerprint
        dtypes = () if is_image else self._dtypes
        return fingerprint("joined-part", changed, original, repr(dtypes), _VERSION)

    def _on_device(self, captions: Sequence[str]) -> dict[str, Tensor]:
        inputs = self.text.reads(captions)
        return {name: value.to(self.device) for name, value in inputs.items()}

    def _missing_features_error(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.image.name} gives no {what} of an image",
            expected="an image model with these: tiny:, photo:, open_clip: or hf:",
            hint="use the image vector",
        )


@dataclass(frozen=True)
class PartOrigin:
    """Names and fingerprints of the parts."""

    image: str
    image_fingerprint: str
    text: str
    text_fingerprint: str


@dataclass(frozen=True, eq=False)
class Changed:
    """Weights of the parts that training changed, by name."""

    image: Mapping[str, Tensor] = field(default_factory=dict)
    text: Mapping[str, Tensor] = field(default_factory=dict)


class Connector(nn.Sequential):
    """Linear, GELU, Linear; or the identity for text vectors already in the joint space."""

    def __init__(self, width: int, joint: int, *, hidden: int | None) -> None:
        """Make the layers; `hidden` None makes the identity."""
        self.sizes = (width, joint, hidden)
        if hidden is None:
            super().__init__()
        else:
            super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, joint))


def make_connector(width: int, joint: int, *, seed: int = 0, is_plain: bool = False) -> Connector:
    """Make an untrained connector, the same for the same seed.

    The hidden width is the larger of input and output, as in LLaVA-1.5 (1,024 to 4,096).
    """
    if is_plain:
        if width != joint:
            raise UnbagError(
                f"text vectors of {width} numbers and a joint space of {joint}",
                expected="the same width, since there is no connector",
                hint="leave plain: out, and train a connector",
            )
        return Connector(width, joint, hidden=None)
    with seeded(seed):
        return Connector(width, joint, hidden=max(width, joint))


def write_joined(encoder: JoinedEncoder, folder: Path) -> None:
    """Save the record and the weights in their precision.

    `joined.json` names both parts with their fingerprints. `joined.safetensors` holds the connector
    and the weights of the parts that training changed. Nothing in them is executed.
    """
    # Copied, since safetensors rejects tensors that share memory.
    state = {k: v.detach().cpu().clone().contiguous() for k, v in encoder.own_weights().items()}
    save_file(state, folder / WEIGHTS)
    width, joint, hidden = encoder.connector.sizes
    record = {
        "format": _FORMAT,
        **asdict(encoder.origin),
        "connector": {"width": width, "joint": joint, "hidden": hidden},
        "scale": encoder.scale,
        "bias": encoder.bias,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def read_joined(
    folder: Path, *, name: str = "", device: str = "cpu", dtype: str = "auto"
) -> JoinedEncoder:
    """Load both parts by name, check their fingerprints, and load the weights."""
    record, state = _read(folder)
    origin, sizes = record["origin"], record["connector"]
    image = _load_image_model(origin.image, device=device)
    text = load_part(origin.text.removeprefix(PLAIN), device=device)
    for what, spec, expected, actual in (
        ("image model", origin.image, origin.image_fingerprint, image.fingerprint),
        ("text part", origin.text, origin.text_fingerprint, text.fingerprint),
    ):
        if expected != actual:
            raise UnbagError(
                f"the {what} {spec} is not the one that {folder} was trained with: its "
                f"fingerprint is {actual}",
                expected=expected,
                hint=f"restore the old weights, or correct the path in {RECORD}",
            )
    changed = Changed(_with_prefix(state, "picture."), _with_prefix(state, "text."))
    _fill(module_of(image), changed.image, folder)
    _fill(text.module, changed.text, folder)
    connector = Connector(sizes["width"], sizes["joint"], hidden=sizes["hidden"])
    if (text.width, _joint_width(image)) != connector.sizes[:2]:
        raise _damaged(folder, f"its connector is {connector.sizes[:2]}, its parts are not")
    _fill(connector, _with_prefix(state, "connector."), folder, is_whole=True)
    if not name:
        # Skip the folders that every export and run has.
        parts = [part for part in folder.absolute().parts if part not in ("joined", "export")]
        name = f"joined:{parts[-1] if parts else folder_name(folder)}"
    return JoinedEncoder(
        image,
        text.holding(text.module.to(dtype=torch_dtype(dtype))),
        connector,
        name=name,
        origin=origin,
        changed=changed,
        temperature=(record["scale"], record["bias"]),
    )


def module_of(encoder: DualEncoder) -> nn.Module:
    """Return the module of an image model."""
    module = getattr(encoder, "network", None) or getattr(encoder, "model", None)
    if not isinstance(module, nn.Module):
        raise UnbagError(
            f"the weights of {encoder.name} are not accessible",
            expected="tiny:, photo:, open_clip: or a dual encoder of hf:",
            hint="freeze the image encoder: --set freeze.image=all",
        )
    return module


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not (folder / RECORD).is_file():
        raise UnbagError(
            f"the folder {folder} has no {RECORD}",
            expected="the export of a joined model",
            hint="check the path; two parts are written joined:IMAGE+TEXT",
        )
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {_FORMAT}")
        origin = PartOrigin(**{key: str(content[key]) for key in PartOrigin.__dataclass_fields__})
        record = {
            "origin": origin,
            "connector": {key: content["connector"][key] for key in ("width", "joint", "hidden")},
            "scale": float(content["scale"]),
            "bias": float(content["bias"]),
        }
        _, state = read_safetensors(folder / WEIGHTS)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, said_by(error)) from error
    check_finite(state, source=str(folder / WEIGHTS))
    return record, state


def _fill(
    module: nn.Module, state: Mapping[str, Tensor], folder: Path, *, is_whole: bool = False
) -> None:
    try:
        missing, unknown = module.load_state_dict(dict(state), strict=False)
    except RuntimeError as error:
        raise _damaged(folder, said_by(error)) from error
    if unknown or (is_whole and missing):
        raise _damaged(folder, f"{(unknown or missing)[0]} is missing or unknown")


def _with_prefix(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}


def _damaged(folder: Path, reason: str) -> UnbagError:
    return UnbagError(
        f"{folder} cannot be read as a joined model: {reason}",
        expected=f"{RECORD} and {WEIGHTS}, as training a joined model writes them",
        hint="export the training run again: unbag export --run RUN --out FOLDER",
    )
