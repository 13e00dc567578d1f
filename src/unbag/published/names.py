"""Names of models and sources as the tables write them, and the models we can load by that name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CLIP_B32 = "CLIP ViT-B/32 (openai)"
CLIP_L14 = "CLIP ViT-L/14 (openai)"
CLIP_L14_336 = "CLIP ViT-L/14-336 (openai)"
SIGLIP = "SigLIP-L/16-384"
NEGCLIP = "NegCLIP"
CE_CLIP = "CE-CLIP"
CE_CLIP_PLUS = "CE-CLIP+"
LLAVA = "LLaVA-1.5-7B"
HUMAN = "human"

ARO_PAPER = "Yuksekgonul et al. 2023 (ARO)"
HARD_POSITIVES_PAPER = "Kamath et al. 2024 (hard positives)"
CE_CLIP_PAPER = "Zhang et al. 2024 (CE-CLIP)"
ERRONEOUS_PAPER = "Li et al. 2024 (erroneous agreements)"
SLIDES = "Li et al. (chat models against CLIP), slides"
VL_COMPO = "Oh et al. 2024 (ytaek-oh/vl_compo)"

LOADED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # In open_clip the tag `openai` itself turns QuickGELU on, which these weights need.
        CLIP_B32: (
            "open_clip:ViT-B-32/openai",
            "open_clip:ViT-B-32-quickgelu/openai",
            "hf:openai/clip-vit-base-patch32",
        ),
        CLIP_L14: (
            "open_clip:ViT-L-14/openai",
            "open_clip:ViT-L-14-quickgelu/openai",
            "hf:openai/clip-vit-large-patch14",
        ),
        CLIP_L14_336: (
            "open_clip:ViT-L-14-336/openai",
            "open_clip:ViT-L-14-336-quickgelu/openai",
            "hf:openai/clip-vit-large-patch14-336",
        ),
        SIGLIP: (
            "open_clip:ViT-L-16-SigLIP-384/webli",
            "hf:google/siglip-large-patch16-384",
        ),
        LLAVA: ("hf:llava-hf/llava-1.5-7b-hf",),
    }
)
"""Published name to the names under which that very model is loaded; only where this is sure."""


def published_name(name: str, published_as: str = "") -> str:
    """What papers call the model of this name; the name itself where nothing else is known.

    `published_as` is what the user, or the model itself, says it is.
    """
    return published_as or known_as(name) or name


def known_as(name: str) -> str:
    """What papers call the model that is loaded by this name; empty where that is not sure.

    A scorer of OpenCLIP is called ARCH/TAG, which says as much as what the user typed. One of
    transformers is called after the last part of its path only, which says too little.
    """
    written = (name, f"open_clip:{name}")
    return next((m for m, loaded in LOADED_AS.items() if any(w in loaded for w in written)), "")


def is_same(published: str, name: str) -> bool:
    """Whether two names are of one model; capitals do not matter."""
    return published.casefold() == name.casefold()
