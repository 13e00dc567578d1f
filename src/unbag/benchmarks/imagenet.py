"""ImageNet-1k from class folders: names and prompts of CLIP where open_clip is installed to tell.

Published zero-shot numbers use CLIP's names of the 1,000 classes and its 80 prompts; open_clip
carries both. Files of the user's own (classnames.txt, templates.txt) come first. Two of CLIP's
names (missile, sunglasses) stand for two classes each, whose pictures are ties: wrong by our rule,
half of them right by the official one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from unbag.benchmarks.classes import TEMPLATES, ClassFolder, class_benchmark, split_folder
from unbag.benchmarks.sources_hosted import IMAGENET_BY_HAND
from unbag.errors import IncompleteWarning
from unbag.types import Item

_CODES = r"n\d{8}"
_CLASSES = 1000


@dataclass(frozen=True)
class ImageNet:
    """Loads one split; call it with the folder of the benchmark."""

    is_training: bool = False

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """One item a picture."""
        parts = ("train",) if self.is_training else ("val", "test")
        return ClassFolder(
            "imagenet1k",
            templates=_templates(root),
            parts=parts,
            is_training=self.is_training,
            names=_names(root, parts),
            codes=_CODES,
            may_repeat=True,
        )(root)


def _templates(root: Path | None) -> tuple[str, ...]:
    if root is None or (root / "templates.txt").is_file():
        return TEMPLATES
    if find_spec("open_clip") is None:
        warnings.warn(
            IncompleteWarning(
                "one prompt a class; published numbers average over CLIP's 80: install "
                "unbag[open_clip], which carries them, or write templates.txt"
            ),
            stacklevel=4,
        )
        return TEMPLATES
    from open_clip import (  # type: ignore[import-untyped, unused-ignore]
        OPENAI_IMAGENET_TEMPLATES,
    )

    return tuple(template("{}") for template in OPENAI_IMAGENET_TEMPLATES)


def _names(root: Path | None, parts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """CLIP's names, if the folders are the 1,000 codes, whose sorted order the names follow."""
    if root is None or (root / "classnames.txt").is_file() or find_spec("open_clip") is None:
        return ()
    folders = split_folder(root, parts)
    if len(folders) != _CLASSES:
        return ()
    from open_clip import (  # type: ignore[import-untyped, unused-ignore]
        IMAGENET_CLASSNAMES,
    )

    return tuple(zip(folders, IMAGENET_CLASSNAMES, strict=True))


IMAGENET1K = class_benchmark(
    "imagenet1k",
    "Which of 1,000 kinds of thing is in the photograph? What a repair may cost.",
    "Deng et al. 2009, ImageNet",
    "ImageNet terms: research only",
    load=ImageNet(),
    load_training=ImageNet(is_training=True),
    gated=IMAGENET_BY_HAND,
    size=50_000,
)
