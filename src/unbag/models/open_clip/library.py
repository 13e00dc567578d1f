"""The open_clip library, imported when it is needed, and the names it knows.

Imports are absolute, so in this package `open_clip` is always the library.
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
"""Ending of an architecture that computes with QuickGELU."""
_SHOWN = 40
"""Names in a message where none is near; no architecture has more tags."""

# By how a tag begins; the longest that fits counts. Sources: open_clip's docs/PRETRAINED.md.
_BY_START: Mapping[str, tuple[str, ...]] = MappingProxyType(
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
    """The library, imported late: it takes seconds and is an optional extra."""
    try:
        import open_clip  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise UnbagError(
            f"open_clip: models need the package 'open_clip_torch' ({error})",
            hint="pip install 'unbag[open_clip]'",
        ) from error
    return open_clip


def parse(text: str) -> WantedWeights:
    """Which weights a name asks for; an architecture without weights is refused.

    ARCH/TAG            weights open_clip knows by name, optionally pinned: ARCH/TAG@REVISION
    ARCH@PATH           a checkpoint, or a folder that holds one
    hf-hub:OWNER/NAME   a repository with an open_clip_config.json, optionally @REVISION
    local-dir:PATH      the same as a folder on disk
    """
    if text.startswith("local-dir:") and text != "local-dir:":
        folder = Path(text.removeprefix("local-dir:")).expanduser()
        return WantedWeights(text, path=folder, has_config=True)
    if text.startswith(("hf-hub:", "local-dir:")):
        hub, _, revision = text.partition(":")[2].partition("@")
        if hub.count("/") != 1:
            raise UnbagError(
                f"open_clip:{text} names no model",
                expected="hf-hub:OWNER/NAME or local-dir:FOLDER",
            )
        return WantedWeights(text, hub=hub, revision=revision or None)
    before, at, after = text.partition("@")
    if at and "/" not in before:
        if not after:
            raise UnbagError(
                f"open_clip:{text} names no checkpoint",
                expected="a file or a folder after the @",
                hint=f"as in open_clip:{before or 'ViT-B-32'}@runs/epoch_10.pt",
            )
        return WantedWeights(text, before, path=Path(after).expanduser())
    arch, slash, tag = before.partition("/")
    if not slash or not tag:
        architecture(arch)
        tags = library().list_pretrained_tags_by_model(arch)
        raise UnbagError(
            f"open_clip:{text} names no weights",
            expected=f"open_clip:{arch}/TAG or open_clip:{arch}@PATH",
            hint=f"the tags of {arch}: {', '.join(tags) or 'none'}",
        )
    return WantedWeights(text, arch, tag=tag, revision=after or None)


@dataclass(frozen=True)
class WantedWeights:
    """Weights as a user asks for them; one of tag, hub and path is set."""

    text: str
    """As it was written."""
    arch: str = ""
    tag: str = ""
    hub: str = ""
    path: Path | None = None
    has_config: bool = False
    """The path is a folder whose open_clip_config.json says the architecture."""
    revision: str | None = None


def architecture(name: str) -> dict[str, Any]:
    """The config of an architecture; NAME-quickgelu is NAME with the other activation."""
    found = library().get_model_config(name)
    if found is not None:
        return deepcopy(dict(found))
    base = library().get_model_config(name.removesuffix(QUICK)) if name.endswith(QUICK) else None
    if base is not None:
        return {**deepcopy(dict(base)), "quick_gelu": True}
    raise nearest("architecture of open_clip", name, library().list_models(), listed="list_models")


def tokenizer_name(arch: str) -> str:
    """The name under which open_clip knows this architecture's tokenizer."""
    return arch if library().get_model_config(arch) is not None else arch.removesuffix(QUICK)


def nearest(
    kind: str, name: str, known: Iterable[str], *, listed: str = "list_pretrained"
) -> UnbagError:
    """The error for an unknown name: the nearest ones, as open_clip knows more than a hundred.

    `listed` is the function of open_clip that lists all; only architectures with weights have tags.
    """
    names = sorted(known)
    near = get_close_matches(name.lower(), [n.lower() for n in names], n=3, cutoff=0.4)
    offered = [n for low in near for n in names if n.lower() == low] or names[:_SHOWN]
    return UnbagError(
        f"unknown {kind} {name!r}",
        expected=f"did you mean {' or '.join(map(repr, offered))}?"
        if near
        else f"one of {', '.join(offered)}{' ...' if len(names) > len(offered) else ''}",
        hint=f"`python -c 'import open_clip; print(open_clip.{listed}())'` shows all",
    )


def trained_on(tag: str) -> tuple[str, ...]:
    """Names of collections; nothing for OpenAI's, whose images nobody outside has seen."""
    clean = tag.lower().replace("-", "_")
    fitting = [start for start in _BY_START if clean.startswith(start)]
    return _BY_START[max(fitting, key=len)] if fitting else ()
