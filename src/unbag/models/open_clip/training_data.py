"""A tag of open_clip comes in; the collections its weights were trained on go out, if certain."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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


def trained_on(tag: str) -> tuple[str, ...]:
    """Names of collections; nothing for OpenAI's, whose pictures nobody outside has seen."""
    clean = tag.lower().replace("-", "_")
    fitting = [start for start in _BY_START if clean.startswith(start)]
    return _BY_START[max(fitting, key=len)] if fitting else ()
