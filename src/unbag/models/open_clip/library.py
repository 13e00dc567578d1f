"""Lazy import of the open_clip library, and the names of its models.

Imports are absolute, so `open_clip` is always the library in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unbag.errors import UnbagError

QUICK = "-quickgelu"
"""Suffix of an architecture with QuickGELU."""
_MAX_LISTED = 40
"""Number of names in a message if none is similar; no architecture has more tags."""

# Training datasets by prefix of a tag; the longest prefix counts. Source: open_clip's
# docs/PRETRAINED.md.
_DATASETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cc12m": ("CC12M",),
        "commonpool_": ("CommonPool",),
        "datacomp": ("DataComp",),
        "dfn2b": ("DFN-2B",),
        "dfn5b": ("DFN-5B",),
        "laion2b": ("LAION-2B",),
        "laion400m": ("LAION-400M",),
        "laion5b": ("LAION-5B",),
        "frozen_laion5b": ("LAION-5B",),
        "laion_aesthetic": ("LAION-Aesthetic",),
        "merged2b": ("LAION-2B", "COYO-700M"),
        "metaclip_": ("MetaCLIP",),
        "metaclip2_": ("MetaCLIP 2",),
        "mscoco_finetuned_laion2b": ("LAION-2B", "COCO"),
        "webli": ("WebLI",),
        "yfcc15m": ("YFCC15M",),
    }
)


def library() -> Any:
    """Import the library when it is needed: it takes seconds and is an optional extra."""
    try:
        import open_clip  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise UnbagError(
            f"open_clip: models need the package 'open_clip_torch' ({error})",
            hint="pip install 'unbag[open_clip]'",
        ) from error
    return open_clip


def parse(text: str) -> ModelSpec:
    """Parse the name of a model; an architecture without weights is an error.

    ARCH/TAG            weights open_clip knows by name, optionally pinned: ARCH/TAG@REVISION
    ARCH@PATH           a checkpoint file, or a folder with one
    hf-hub:OWNER/NAME   a repository with an open_clip_config.json, optionally @REVISION
    local-dir:PATH      the same as a folder on disk
    """
    if text.startswith("local-dir:") and text != "local-dir:":
        folder = Path(text.removeprefix("local-dir:")).expanduser()
        return ModelSpec(text, path=folder, has_config=True)
    if text.startswith(("hf-hub:", "local-dir:")):
        hub, _, revision = text.partition(":")[2].partition("@")
        if hub.count("/") != 1:
            raise UnbagError(
                f"open_clip:{text} names no model",
                expected="hf-hub:OWNER/NAME or local-dir:FOLDER",
            )
        return ModelSpec(text, hub=hub, revision=revision or None)
    before, at, after = text.partition("@")
    if at and "/" not in before:
        if not after:
            raise UnbagError(
                f"open_clip:{text} names no checkpoint",
                expected="a file or a folder after the @",
                hint=f"as in open_clip:{before or 'ViT-B-32'}@runs/epoch_10.pt",
            )
        return ModelSpec(text, before, path=Path(after).expanduser())
    arch, slash, tag = before.partition("/")
    if not slash or not tag:
        architecture(arch)
        tags = library().list_pretrained_tags_by_model(arch)
        raise UnbagError(
            f"open_clip:{text} names no weights",
            expected=f"open_clip:{arch}/TAG or open_clip:{arch}@PATH",
            hint=f"the tags of {arch}: {', '.join(tags) or 'none'}",
        )
    return ModelSpec(text, arch, tag=tag, revision=after or None)


@dataclass(frozen=True)
class ModelSpec:
    """Parsed name of a model; one of tag, hub and path is set."""

    text: str
    """The name as written."""
    arch: str = ""
    tag: str = ""
    hub: str = ""
    path: Path | None = None
    has_config: bool = False
    """Whether the path is a folder with an open_clip_config.json."""
    revision: str | None = None


def architecture(name: str) -> dict[str, Any]:
    """Return the config of an architecture; NAME-quickgelu is NAME with QuickGELU."""
    config = library().get_model_config(name)
    if config is not None:
        return deepcopy(dict(config))
    base_config = (
        library().get_model_config(name.removesuffix(QUICK)) if name.endswith(QUICK) else None
    )
    if base_config is not None:
        return {**deepcopy(dict(base_config)), "quick_gelu": True}
    raise nearest("architecture of open_clip", name, library().list_models(), listed="list_models")


def tokenizer_name(arch: str) -> str:
    """Return open_clip's name of the tokenizer of an architecture."""
    return arch if library().get_model_config(arch) is not None else arch.removesuffix(QUICK)


def nearest(
    kind: str, name: str, known: Iterable[str], *, listed: str = "list_pretrained"
) -> UnbagError:
    """Return the error for an unknown name, with the nearest known names.

    `listed` is the function of open_clip that lists all names.
    """
    names = sorted(known)
    near = get_close_matches(name.lower(), [n.lower() for n in names], n=3, cutoff=0.4)
    shown = [n for low in near for n in names if n.lower() == low] or names[:_MAX_LISTED]
    return UnbagError(
        f"unknown {kind} {name!r}",
        expected=f"did you mean {' or '.join(map(repr, shown))}?"
        if near
        else f"one of {', '.join(shown)}{' ...' if len(names) > len(shown) else ''}",
        hint=f"`python -c 'import open_clip; print(open_clip.{listed}())'` shows all",
    )


def trained_on(tag: str) -> tuple[str, ...]:
    """Return the training datasets of a tag; empty for OpenAI's, which are not public."""
    tag_name = tag.lower().replace("-", "_")
    prefixes = [prefix for prefix in _DATASETS if tag_name.startswith(prefix)]
    return _DATASETS[max(prefixes, key=len)] if prefixes else ()
