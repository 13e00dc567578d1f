"""An architecture or an exported config comes in; how its pictures are prepared goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbag.models.levels import Levels, levels
from unbag.models.open_clip.library import library

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

PARTS = ("mean", "std", "interpolation", "resize_mode")


def of_config(said: Mapping[str, Any]) -> dict[str, Any]:
    """What an open_clip_config.json says; open_clip's default for the rest."""
    found = said.get("preprocess_cfg") or {}
    return {key: found[key] for key in (*PARTS, "fill_color") if found.get(key) is not None}


def usual(arch: str) -> dict[str, Any]:
    """What all published weights of an architecture have; nothing (the default) if they differ."""
    tags = library().list_pretrained_tags_by_model(arch)
    known = [library().get_pretrained_cfg(arch, tag) for tag in tags]
    found = [{key: one[key] for key in PARTS if key in one} for one in known]
    return found[0] if found and all(one == found[0] for one in found) else {}


def unlike_default(arch: str) -> str:
    """Said where this is not what open_clip takes for a bare file (SigLIP, CLIPA, MobileCLIP)."""
    found = usual(arch)
    default = asdict(library().transform.PreprocessCfg())
    if all(default[key] == value for key, value in found.items()):
        return ""
    return (
        f"{arch}: pictures are prepared as for all published weights of {arch} "
        f"({', '.join(f'{key} {value}' for key, value in found.items())}); open_clip itself takes "
        "the preparation of OpenAI's weights for a bare file"
    )


def whole(preparation: Mapping[str, Any], size: object) -> dict[str, Any]:
    """Every part, with the size the picture tower wants."""
    default = asdict(library().transform.PreprocessCfg())
    return {**default, "size": size, **preparation}


def transform(preparation: Mapping[str, Any]) -> Callable[[Image], Tensor]:
    """open_clip's own transform for evaluation."""
    package = library().transform
    made: Callable[[Image], Tensor] = package.image_transform_v2(
        package.PreprocessCfg(**preparation), is_train=False
    )
    return made


def in_bytes(whole: Callable[[Image], Tensor]) -> tuple[Callable[[Image], Tensor], Levels] | None:
    """A transform up to its bytes, and what becomes of them; None if it does not end so."""
    parts: Any = import_module("torchvision.transforms")
    steps = getattr(whole, "transforms", [])
    first = parts.Compose([*steps[:-2], parts.PILToTensor()])
    found = levels(whole, first, parts.Compose(steps[-2:]))
    return (first, found) if found else None
