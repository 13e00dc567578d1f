"""`joined:PICTURE+TEXT` or `joined:FOLDER` comes in; the joined dual encoder goes out."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.errors import UserError, unknown_name
from unbag.registry import find, names
from unbag.types import DualEncoder

if TYPE_CHECKING:
    from unbag.models.joined import Joined

RECORD = "joined.json"
_BELOW = (".", "joined", "export/joined")
"""Where in a folder of an export, or of a training run, the record lies."""
PLAIN = "plain:"


def load(name: str, *, device: str = "cpu", dtype: str = "auto") -> Joined:
    """The precision is that of the text part; picture tower and connector compute in float32."""
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        from unbag.models.joined_files import read_joined

        place = next((folder / b for b in _BELOW if (folder / b / RECORD).is_file()), folder)
        return read_joined(place, device=device, dtype=dtype)
    picture, text = split(name)
    return join(picture, text, device=device, dtype=dtype)


def join(
    picture: str, text: str, *, device: str = "cpu", dtype: str = "auto", seed: int = 0
) -> Joined:
    """Both parts by name, with a connector before training; `plain:` before the text has none."""
    from unbag.models.joined import Joined, Origin, make_connector
    from unbag.models.text_parts import load_part

    eyes = load_picture_model(picture, device=device)
    part = load_part(text.removeprefix(PLAIN), device=device, dtype=dtype)
    connector = make_connector(
        part.width, joint_width(eyes), seed=seed, is_plain=text.startswith(PLAIN)
    )
    origin = Origin(picture, eyes.fingerprint, text, part.fingerprint)
    return Joined(eyes, part, connector, name=_short(eyes.name, text), origin=origin)


def split(name: str) -> tuple[str, str]:
    """Picture model and text part; of several + the last that has a known part behind it."""
    from unbag.models.text_parts import is_known

    places = [at for at, letter in enumerate(name) if letter == "+"]
    if not places:
        raise UserError(
            f"joined:{name} names no picture model and text part, and no folder",
            expected="joined:PICTURE+TEXT, as joined:tiny:base+minilm, or the folder of an export",
            way_out="write both with a + between them, or check the path",
        )
    known = [at for at in places if is_known(name[at + 1 :].removeprefix(PLAIN))]
    at = (known or places)[-1]
    return name[:at], name[at + 1 :]


def load_picture_model(spec: str, *, device: str) -> DualEncoder:
    """Any registered kind that has one vector for a picture."""
    kind, _, rest = spec.partition(":")
    usable = [one for one in names("model") if one != "joined"]
    if kind not in usable:
        raise unknown_name(
            "picture model",
            spec,
            usable,
            way_out="before the + stands a model with its prefix, such as tiny:base",
        )
    loader = find("model", kind)
    assert callable(loader)
    given = {"device": device} if "device" in signature(loader).parameters else {}
    found = loader(rest, **given)
    if not isinstance(found, DualEncoder):
        raise UserError(
            f"{spec} gives no vector for a picture",
            expected="a dual encoder before the +: tiny:, photo:, open_clip: or hf:",
            way_out="chat models and matching heads have no picture vector to join with",
        )
    return found


def joint_width(encoder: DualEncoder) -> int:
    """D, tried on a grey picture."""
    from PIL import Image

    pixels = encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))
    return int(encoder.encode_pictures(pixels[None]).shape[1])


def _short(picture: str, text: str) -> str:
    """For tables: of a path its last part."""
    settings, colon, place = text.rpartition(":")
    return f"{picture}+{settings}{colon}{Path(place).name}".replace("+hf:", "+")
