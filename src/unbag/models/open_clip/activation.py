"""A config and what is known of its weights come in; the right activation, or an error, goes out.

OpenAI's CLIP and some later models were trained with QuickGELU, x * sigmoid(1.702 x); most others
with GELU. The weights have the same names and shapes, load without a word under the wrong one, and
give numbers a few points too low. Nothing in the tensors tells the two apart, so what was written
beside them is asked: open_clip's table for a tag; for a file its config, the trainer's parameters
and its name. Where nothing says, the activation that was used is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbag.errors import UserError
from unbag.models.open_clip.library import library
from unbag.models.open_clip.names import QUICK, architecture


@dataclass(frozen=True)
class Evidence:
    """That weights were trained with (or without) QuickGELU, and how that is known."""

    is_quick: bool
    because: str


def is_quick(config: Mapping[str, Any]) -> bool:
    """Whether a model of this config computes with QuickGELU."""
    return bool(config.get("quick_gelu", False))


def name_of(quick: bool) -> str:
    """As a sentence calls it."""
    return "QuickGELU" if quick else "GELU"


def has_choice(config: Mapping[str, Any]) -> bool:
    """False if both towers come from other libraries, which bring their own activation."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    own_picture = not vision.get("timm_model_name") and not isinstance(vision.get("layers"), list)
    return bool(own_picture or not text.get("hf_model_name"))


def other(arch: str) -> str:
    """The same architecture with the other activation."""
    return arch.removesuffix(QUICK) if arch.endswith(QUICK) else arch + QUICK


def for_tag(arch: str, tag: str, config: dict[str, Any], *, is_tag_quick: bool) -> str:
    """Checks, and for OpenAI's own weights sets, the activation; gives what must be said, or ""."""
    if is_tag_quick == is_quick(config) or not has_choice(config):
        return ""
    if is_tag_quick and tag.lower() == "openai":
        # This name meant QuickGELU in every open_clip before 3, and in every paper.
        config["quick_gelu"] = True
        return (
            f"{arch}/{tag}: OpenAI's weights were trained with QuickGELU, so it is used; open_clip "
            f"since version 3 would compute {arch} with GELU"
        )
    if not is_tag_quick:
        return (
            f"{arch}/{tag}: open_clip's table does not say QuickGELU and its architecture does; "
            "computed with QuickGELU, as the architecture says"
        )
    raise UserError(
        f"{arch}/{tag} was trained with QuickGELU, and {arch} computes with GELU",
        expected="the activation the weights were trained with: the scores would be wrong",
        way_out=f"write open_clip:{other(arch)}/{tag}",
    )


def for_file(arch: str, config: Mapping[str, Any], weights: Path, written: str) -> str:
    """Checks the activation of a checkpoint; gives what must be said if nothing tells it."""
    if not has_choice(config):
        return ""
    quick = is_quick(config)
    found = [e for e in (_by_parameters(arch, weights), _by_name(weights)) if e is not None]
    against = next((e for e in found if e.is_quick != quick), None)
    if against is not None:
        raise wrong(arch, quick, against, written)
    if found or arch.endswith(QUICK) or _is_always_gelu(arch):
        return ""
    return (
        f"{arch}@{weights.name}: nothing beside the file says its activation; computed with "
        f"{name_of(quick)}, as {arch} is. If the weights come from OpenAI's, DFN's or MetaCLIP's, "
        f"write open_clip:{other(arch)}@{written}"
    )


def wrong(arch: str, quick: bool, evidence: Evidence, written: str) -> UserError:
    """The error for a checkpoint whose activation is known to be the other one."""
    return UserError(
        f"{arch} computes with {name_of(quick)}, and {evidence.because}",
        expected="the activation the weights were trained with: the scores would be wrong",
        way_out=f"write open_clip:{other(arch)}@{written}",
    )


def _is_always_gelu(arch: str) -> bool:
    """Whether all published weights of an architecture have GELU."""
    tags = library().list_pretrained_tags_by_model
    return bool(tags(arch)) and not tags(arch + QUICK)


def _by_parameters(arch: str, weights: Path) -> Evidence | None:
    """What the trainer of open_clip wrote: params.txt, beside its folder of checkpoints."""
    said = parameters(weights)
    trained = said.get("model", "")
    is_same = trained.removesuffix(QUICK) == arch.removesuffix(QUICK)
    if not is_same or library().get_model_config(trained) is None:
        # Weights of another architecture do not fit, and then that is said.
        return None
    if said.get("force_quick_gelu") == "True":
        return Evidence(True, "the trainer's params.txt says force_quick_gelu")
    quick = is_quick(architecture(trained))
    if said.get("pretrained", "").lower() == "openai" and not quick:
        # Before version 3 the trainer took QuickGELU for these weights, since then GELU.
        return None
    return Evidence(quick, f"the trainer's params.txt says model: {trained} ({name_of(quick)})")


def parameters(weights: Path) -> dict[str, str]:
    """The trainer's params.txt, if there is one."""
    for folder in (weights.parent, weights.parent.parent):
        try:
            lines = (folder / "params.txt").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        return {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    return {}


def _by_name(weights: Path) -> Evidence | None:
    """Files that open_clip published carry it in their name."""
    if "quickgelu" in weights.name.lower().replace("_", "").replace("-", ""):
        return Evidence(True, f"the name of {weights.name} says QuickGELU")
    return None
