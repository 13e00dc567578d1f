"""Joined models: the image encoder of one model beside another text model, with a connector.

Li et al. 2024 put a language model beside the frozen image encoder of CLIP: its pooled vector goes
through two linear layers with a GELU between them, as in LLaVA-1.5, into the joint space.

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
"""Raise it whenever the code here changes a number."""
RECORD = "joined.json"
WEIGHTS = "joined.safetensors"
_FORMAT = "unbag-joined-1"
PLAIN = "plain:"
"""Before a text part whose vectors lie in the joint space already: no connector."""
_BELOW = (".", "joined", "export/joined")
"""Where in a folder of an export, or of a training run, the record lies."""


def load(name: str, *, device: str = "cpu", dtype: str = "auto") -> JoinedEncoder:
    """The precision is that of the text part; image encoder and connector compute in float32."""
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        place = next((folder / b for b in _BELOW if (folder / b / RECORD).is_file()), folder)
        return read_joined(place, device=device, dtype=dtype)
    image, text = split(name)
    return join(image, text, device=device, dtype=dtype)


def join(
    image: str, text: str, *, device: str = "cpu", dtype: str = "auto", seed: int = 0
) -> JoinedEncoder:
    """Both parts by name, with a connector before training; `plain:` before the text has none."""
    eyes = _load_image_model(image, device=device)
    part = load_part(text.removeprefix(PLAIN), device=device, dtype=dtype)
    connector = make_connector(
        part.width, _joint_width(eyes), seed=seed, is_plain=text.startswith(PLAIN)
    )
    origin = PartOrigin(image, eyes.fingerprint, text, part.fingerprint)
    # For tables: of a path its last part.
    settings, colon, place = text.rpartition(":")
    name = f"{eyes.name}+{settings}{colon}{Path(place).name}".replace("+hf:", "+")
    return JoinedEncoder(eyes, part, connector, name=name, origin=origin)


def split(name: str) -> tuple[str, str]:
    """Image model and text part; of several + the last that has a known part behind it."""
    places = [at for at, letter in enumerate(name) if letter == "+"]
    if not places:
        raise UnbagError(
            f"joined:{name} names no image model and text part, and no folder",
            expected="joined:PICTURE+TEXT, as joined:tiny:base+minilm, or the folder of an export",
            hint="write both with a + between them, or check the path",
        )
    known = [at for at in places if is_known(name[at + 1 :].removeprefix(PLAIN))]
    at = (known or places)[-1]
    return name[:at], name[at + 1 :]


def _load_image_model(spec: str, *, device: str) -> DualEncoder:
    """Any registered kind that has one vector for an image."""
    kind, _, rest = spec.partition(":")
    usable = [one for one in names("model") if one != "joined"]
    if kind not in usable:
        raise unknown_name(
            "image model",
            spec,
            usable,
            hint="before the + stands a model with its prefix, such as tiny:base",
        )
    loader = find("model", kind)
    assert callable(loader)
    given = {"device": device} if "device" in signature(loader).parameters else {}
    found = loader(rest, **given)
    if not isinstance(found, DualEncoder):
        raise UnbagError(
            f"{spec} gives no vector for an image",
            expected="a dual encoder before the +: tiny:, photo:, open_clip: or hf:",
            hint="chat models and matching heads have no image vector to join with",
        )
    return found


def _joint_width(encoder: DualEncoder) -> int:
    """D, tried on a grey image."""
    from PIL import Image

    pixels = encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))
    return int(encoder.encode_images(pixels[None]).shape[1])


class JoinedEncoder:
    """The image encoder of one model, and another text model through a connector."""

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
        """Wrap loaded parts; the connector is moved. Scale and bias are the image model's."""
        self.image, self.text = image, text
        self.name, self.origin, self.changed = name, origin, changed or Changed()
        self.device = image.device
        moved = connector.to(device=self.device, dtype=torch.float32)
        self.connector = moved.eval().requires_grad_(False)
        self.scale, self.bias = temperature or (image.scale, image.bias)
        self.context = text.reads.context
        self._kinds = sorted({str(one.dtype) for one in text.module.parameters()})
        said = (
            origin.image_fingerprint,
            origin.text_fingerprint,
            repr((self.scale, self.bias, connector.sizes, self._kinds)),
            _VERSION,
        )
        self.fingerprint = fingerprint("joined", self.own_weights(), *said)

    def own_weights(self) -> dict[str, Tensor]:
        """All that is not in the parts as they are loaded by name."""
        found = {f"connector.{k}": v for k, v in self.connector.state_dict().items()}
        found |= {f"picture.{name}": value for name, value in self.changed.image.items()}
        return found | {f"text.{name}": value for name, value in self.changed.text.items()}

    def prepare(self, image: Image) -> Tensor:
        """As the image model does."""
        return self.image.prepare(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Of the text part, before cutting, special ones included."""
        return self.text.reads.count(captions) if captions else []

    def encode_images(self, pixels: Tensor) -> Tensor:
        """As the image model does."""
        return self.image.encode_images(pixels)

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D], run at their real length."""
        return unit_vectors(self.connector(self.text.pooled(self._placed(captions))))

    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """As the image model does."""
        if not isinstance(self.image, TokenEncoder):
            raise self._lacks("patches")
        return self.image.encode_patches(pixels)

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Each token through the connector, as if it were the whole caption."""
        hidden_NLE, mask_NL = self.text.words(self._placed(captions))
        return TokenFeatures(unit_vectors(self.connector(hidden_NLE.float())), mask_NL.bool().cpu())

    def image_layers(self, pixels: Tensor) -> Layers:
        """As the image model does."""
        if not isinstance(self.image, LayerEncoder):
            raise self._lacks("layers")
        return self.image.image_layers(pixels)

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens of the text part, special ones included, pooled at each layer as at the last."""
        return self.text.layers(self._placed(captions))

    def image_features(self, pixels: Tensor) -> Tensor:
        """What a frozen image encoder makes of images: unit vectors [N, D]."""
        return self.image.encode_images(pixels)

    @torch.inference_mode()
    def text_features(self, captions: Sequence[str]) -> Tensor:
        """What the connector is given, [N, E]."""
        return self.text.pooled(self._placed(captions)).cpu()

    def part_fingerprint(self, encoder: str) -> str:
        """Of what a frozen encoder makes of its inputs, for what is kept of it."""
        is_image = encoder == "image"
        changed = self.changed.image if is_image else self.changed.text
        origin = self.origin
        first = origin.image_fingerprint if is_image else origin.text_fingerprint
        kinds = () if is_image else self._kinds
        return fingerprint("joined-part", changed, first, repr(kinds), _VERSION)

    def _placed(self, captions: Sequence[str]) -> dict[str, Tensor]:
        return {name: one.to(self.device) for name, one in self.text.reads(captions).items()}

    def _lacks(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.image.name} shows no {what} of an image",
            expected="an image model that does: tiny:, photo:, open_clip: or hf:",
            hint="use the image vector",
        )


@dataclass(frozen=True)
class PartOrigin:
    """Where the parts are from: what they are loaded by, and what they then are."""

    image: str
    image_fingerprint: str
    text: str
    text_fingerprint: str


@dataclass(frozen=True, eq=False)
class Changed:
    """Weights of the parts that training changed, by their names there."""

    image: Mapping[str, Tensor] = field(default_factory=dict)
    text: Mapping[str, Tensor] = field(default_factory=dict)


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
            raise UnbagError(
                f"text vectors of {width} numbers, and a joint space of {joint}",
                expected="the same number, where no connector stands between them",
                hint="leave plain: out, and train a connector",
            )
        return Connector(width, joint, hidden=None)
    with seeded(seed):
        return Connector(width, joint, hidden=max(width, joint))


def write_joined(encoder: JoinedEncoder, folder: Path) -> None:
    """Weights as they are, in float32, and the record.

    `joined.json` names both parts with their fingerprints; `joined.safetensors` holds the
    connector, and of the parts the weights that training changed. Nothing in it is executed.
    """
    # Copied, since safetensors refuses weights that two names share.
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
    """Load both parts by name, see that they are the same as then, and put the weights in."""
    record, state = _read(folder)
    origin, sizes = record["origin"], record["connector"]
    image = _load_image_model(origin.image, device=device)
    text = load_part(origin.text.removeprefix(PLAIN), device=device)
    for what, place, wanted, found in (
        ("image model", origin.image, origin.image_fingerprint, image.fingerprint),
        ("text part", origin.text, origin.text_fingerprint, text.fingerprint),
    ):
        if wanted != found:
            raise UnbagError(
                f"the {what} {place} is not the one that {folder} was trained with: its "
                f"fingerprint is {found}",
                expected=wanted,
                hint=f"put the old weights back, or mend the place in {RECORD}",
            )
    changed = Changed(_below(state, "picture."), _below(state, "text."))
    _fill(module_of(image), changed.image, folder)
    _fill(text.module, changed.text, folder)
    connector = Connector(sizes["width"], sizes["joint"], hidden=sizes["hidden"])
    if (text.width, _joint_width(image)) != connector.sizes[:2]:
        raise _damaged(folder, f"its connector is {connector.sizes[:2]}, its parts are not")
    _fill(connector, _below(state, "connector."), folder, is_whole=True)
    if not name:
        # Of an export that stands in `joined` below it, or in a run, what tells it from others.
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
    """The weights of an image model, under the names of its library."""
    found = getattr(encoder, "network", None) or getattr(encoder, "model", None)
    if not isinstance(found, nn.Module):
        raise UnbagError(
            f"the weights of {encoder.name} are not known here",
            expected="tiny:, photo:, open_clip: or a dual encoder of hf:",
            hint="freeze the image encoder: --set freeze.image=all",
        )
    return found


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not (folder / RECORD).is_file():
        raise UnbagError(
            f"the folder {folder} has no {RECORD}",
            expected="what training a joined model exported",
            hint="check the path; two parts are written joined:PICTURE+TEXT",
        )
    try:
        said = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if said["format"] != _FORMAT:
            raise ValueError(f"its format is {said['format']!r}, not {_FORMAT}")
        origin = PartOrigin(**{key: str(said[key]) for key in PartOrigin.__dataclass_fields__})
        record = {
            "origin": origin,
            "connector": {key: said["connector"][key] for key in ("width", "joint", "hidden")},
            "scale": float(said["scale"]),
            "bias": float(said["bias"]),
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
        raise _damaged(folder, f"{(unknown or missing)[0]} is not where it should be")


def _below(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}


def _damaged(folder: Path, why: str) -> UnbagError:
    return UnbagError(
        f"{folder} is no joined model that can be read: {why}",
        expected=f"{RECORD} and {WEIGHTS}, as training a joined model writes them",
        hint="export the training run again: unbag export --run RUN --out FOLDER",
    )
