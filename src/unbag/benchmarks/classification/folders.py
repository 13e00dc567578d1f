"""ImageNet-1k from class folders: names and prompts of CLIP where open_clip is installed to tell.

Published zero-shot numbers use CLIP's names of the 1,000 classes and its 80 prompts; open_clip
carries both. Files of the user's own (classnames.txt, templates.txt) come first. Two of CLIP's
names (missile, sunglasses) stand for two classes each, whose pictures are ties: wrong by our rule,
half of them right by the official one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources import by_hand
from unbag.errors import IncompleteWarning, UserError
from unbag.metrics.choice import Classify, check_names
from unbag.published.lookup import published_for
from unbag.types import MICRO, Aggregate, Benchmark, BoolArray, Download, Ensemble, Item, Loader

# What classes are called in captions, where the files of a data set do not say it: data.
#
# From data/prompts.md of openai/CLIP (MIT), which most published zero-shot numbers use.

DIGITS = tuple("0123456789")

EUROSAT = (
    ("AnnualCrop", "annual crop land"),
    ("Forest", "forest"),
    ("HerbaceousVegetation", "brushland or shrubland"),
    ("Highway", "highway or road"),
    ("Industrial", "industrial buildings or commercial buildings"),
    ("Pasture", "pasture land"),
    ("PermanentCrop", "permanent crop land"),
    ("Residential", "residential buildings or homes or apartments"),
    ("River", "river"),
    ("SeaLake", "lake or sea"),
)
"""Folder, name."""

CALTECH101 = (
    ("BACKGROUND_Google", "background"),
    ("Faces", "off-center face"),
    ("Faces_easy", "centered face"),
    ("Leopards", "leopard"),
    ("Motorbikes", "motorbike"),
    ("airplanes", "airplane"),
    ("car_side", "side of a car"),
    ("cougar_body", "body of a cougar cat"),
    ("cougar_face", "face of a cougar cat"),
    ("crocodile_head", "head of a  crocodile"),
    ("flamingo_head", "head of a flamingo"),
    ("snoopy", "snoopy (cartoon beagle)"),
    ("yin_yang", "yin and yang symbol"),
)
"""Folder, name; the others are called as their folders are."""

FACES = (("disgust", "disgusted"), ("fear", "fearful"), ("surprise", "surprised"))
"""Folder, name. CLIP gives some faces several names, of which this is the first."""

TISSUES = (
    ("0", "lymph node"),
    ("1", "lymph node containing metastatic tumor tissue"),
)
"""Folder (the label), name."""

TRAFFIC_SIGNS = (
    "red and white circle 20 kph speed limit",
    "red and white circle 30 kph speed limit",
    "red and white circle 50 kph speed limit",
    "red and white circle 60 kph speed limit",
    "red and white circle 70 kph speed limit",
    "red and white circle 80 kph speed limit",
    "end / de-restriction of 80 kph speed limit",
    "red and white circle 100 kph speed limit",
    "red and white circle 120 kph speed limit",
    "red and white circle red car and black car no passing",
    "red and white circle red truck and black car no passing",
    "red and white triangle road intersection warning",
    "white and yellow diamond priority road",
    "red and white upside down triangle yield right-of-way",
    "stop",
    "empty red and white circle",
    "red and white circle no truck entry",
    "red circle with white horizonal stripe no entry",
    "red and white triangle with exclamation mark warning",
    "red and white triangle with black left curve approaching warning",
    "red and white triangle with black right curve approaching warning",
    "red and white triangle with black double curve approaching warning",
    "red and white triangle rough / bumpy road warning",
    "red and white triangle car skidding / slipping warning",
    "red and white triangle with merging / narrow lanes warning",
    "red and white triangle with person digging / construction / road work warning",
    "red and white triangle with traffic light approaching warning",
    "red and white triangle with person walking warning",
    "red and white triangle with child and person walking warning",
    "red and white triangle with bicyle warning",
    "red and white triangle with snowflake / ice warning",
    "red and white triangle with deer warning",
    "white circle with gray strike bar no speed limit",
    "blue circle with white right turn arrow mandatory",
    "blue circle with white left turn arrow mandatory",
    "blue circle with white forward arrow mandatory",
    "blue circle with white forward or right turn arrow mandatory",
    "blue circle with white forward or left turn arrow mandatory",
    "blue circle with white keep right arrow mandatory",
    "blue circle with white keep left arrow mandatory",
    "blue circle with white arrows indicating a traffic circle",
    "white circle with gray strike bar indicating no passing for cars has ended",
    "white circle with gray strike bar indicating no passing for trucks has ended",
)
"""In the order of their numbers, from 0."""

FLOWERS = (
    "pink primrose",
    "hard-leaved pocket orchid",
    "canterbury bells",
    "sweet pea",
    "english marigold",
    "tiger lily",
    "moon orchid",
    "bird of paradise",
    "monkshood",
    "globe thistle",
    "snapdragon",
    "colt's foot",
    "king protea",
    "spear thistle",
    "yellow iris",
    "globe flower",
    "purple coneflower",
    "peruvian lily",
    "balloon flower",
    "giant white arum lily",
    "fire lily",
    "pincushion flower",
    "fritillary",
    "red ginger",
    "grape hyacinth",
    "corn poppy",
    "prince of wales feathers",
    "stemless gentian",
    "artichoke",
    "sweet william",
    "carnation",
    "garden phlox",
    "love in the mist",
    "mexican aster",
    "alpine sea holly",
    "ruby-lipped cattleya",
    "cape flower",
    "great masterwort",
    "siam tulip",
    "lenten rose",
    "barbeton daisy",
    "daffodil",
    "sword lily",
    "poinsettia",
    "bolero deep blue",
    "wallflower",
    "marigold",
    "buttercup",
    "oxeye daisy",
    "common dandelion",
    "petunia",
    "wild pansy",
    "primula",
    "sunflower",
    "pelargonium",
    "bishop of llandaff",
    "gaura",
    "geranium",
    "orange dahlia",
    "pink and yellow dahlia",
    "cautleya spicata",
    "japanese anemone",
    "black-eyed susan",
    "silverbush",
    "californian poppy",
    "osteospermum",
    "spring crocus",
    "bearded iris",
    "windflower",
    "tree poppy",
    "gazania",
    "azalea",
    "water lily",
    "rose",
    "thorn apple",
    "morning glory",
    "passion flower",
    "lotus",
    "toad lily",
    "anthurium",
    "frangipani",
    "clematis",
    "hibiscus",
    "columbine",
    "desert-rose",
    "tree mallow",
    "magnolia",
    "cyclamen",
    "watercress",
    "canna lily",
    "hippeastrum",
    "bee balm",
    "air plant",
    "foxglove",
    "bougainvillea",
    "camellia",
    "mallow",
    "mexican petunia",
    "bromelia",
    "blanket flower",
    "trumpet creeper",
    "blackberry lily",
)
"""In the order of their numbers, from 1."""

# Recognition from class folders: <root>/<class>/<picture>, a caption (or several prompts) a class.
#
# Beside the folders may lie classnames.txt (one name a line, in the sorted order of the folders,
# or folder, tab, name) and templates.txt (one prompt a line, with {} for the name).

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm"})
TEMPLATES = ("a photo of a {}.",)
"""Used where there is no templates.txt."""


@dataclass(frozen=True)
class ClassFolder:
    """Loads any data set laid out in class folders; call it with the folder."""

    name: str
    templates: tuple[str, ...] = TEMPLATES
    parts: tuple[str, ...] = ("val", "test")
    """Folders of the evaluated split; without any of them the classes lie in the root itself."""
    is_training: bool = False
    """The split must then be one of the parts: the root could be the test split."""
    names: tuple[tuple[str, str], ...] = ()
    """Folder and name of classes to be called otherwise, where there is no classnames.txt."""
    codes: str = ""
    """Folder names of this pattern are codes that no model knows: classnames.txt must be there."""
    may_repeat: bool = False
    """Two classes may have one name: the published names of ImageNet do. They always tie."""

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """One item a picture, with all classes as captions."""
        folder = Folder.of(root, self.name)
        top = self._top(folder.root)
        classes = _class_folders(top, self.name)
        names = _classes_names(folder, classes, dict(self.names), self.codes)
        if not self.may_repeat:
            check_names(names)
        templates = templates_of(folder, self.templates)
        captions = tuple(
            Ensemble(name, tuple(template.replace("{}", name) for template in templates))
            for name in names
        )
        items: list[Item] = []
        for at, (place, name) in enumerate(zip(classes, names, strict=True)):
            truth = one_of(at, len(classes))
            tag = name if names.count(name) == 1 else f"{name} ({place})"
            for picture in _pictures(top / place):
                items.append(
                    Item(
                        id=f"{place}/{picture}",
                        pictures=(folder.picture(top / place, picture, f"{place}/{picture}"),),
                        captions=captions,
                        truth=truth,
                        tags={"class": tag},
                    )
                )
        return items

    def _top(self, root: Path) -> Path:
        found = [root / part for part in self.parts if (root / part).is_dir()]
        if self.is_training and not found:
            raise UserError(
                f"{root} has no folder {' or '.join(self.parts)}",
                expected="the training split, in class folders as the test split",
                way_out="lay it out beside the test split; a linear probe is fitted to it",
            )
        return found[0] if found else root


def split_folder(root: Path, parts: Sequence[str]) -> list[str]:
    """The class folders of the first of these parts that is there, sorted; of the root if none."""
    top = next((root / part for part in parts if (root / part).is_dir()), root)
    return _folders(top)


def _folders(top: Path) -> list[str]:
    return sorted(
        place.name
        for place in (top.iterdir() if top.is_dir() else ())
        if place.is_dir() and not place.name.startswith(".")
    )


def _class_folders(top: Path, name: str) -> list[str]:
    found = _folders(top)
    if len(found) < 2:
        raise UserError(
            f"{top} of {name} has {len(found)} class folders",
            expected="one folder of pictures for each class",
            way_out="lay the pictures out as <root>/<class name>/<picture>",
        )
    return found


def _pictures(place: Path) -> list[str]:
    found = sorted(path.name for path in place.iterdir() if path.suffix.lower() in ENDINGS)
    if not found:
        raise UserError(
            f"the class folder {place} has no pictures",
            expected=f"files ending in {', '.join(sorted(ENDINGS))}",
            way_out="fill or remove the folder",
        )
    return found


def lines_of(folder: Folder, file: str) -> list[str]:
    """The lines of a file that are not empty."""
    return [line.strip() for line in folder.text(file).splitlines() if line.strip()]


def _classes_names(
    folder: Folder, classes: Sequence[str], usual: Mapping[str, str], codes: str
) -> list[str]:
    """The name of each class: its folder's or the usual one, unless a file gives another."""
    if not folder.has("classnames.txt"):
        unnamed = [place for place in classes if place not in usual]
        if codes and unnamed and all(re.fullmatch(codes, place) for place in unnamed):
            raise UserError(
                f"the class folders of {folder.benchmark} are named by codes such as {classes[0]}",
                expected="classnames.txt with a name for each, which the captions are made of",
                way_out="write it: one name a line in their sorted order, or folder<tab>name",
            )
        names = [usual.get(place, place.replace("_", " ")) for place in classes]
    else:
        lines = lines_of(folder, "classnames.txt")
        by_folder = _by_folder(lines)
        names = [by_folder[c] for c in classes if c in by_folder] if by_folder else lines
        if len(names) != len(classes):
            raise UserError(
                f"classnames.txt of {folder.benchmark}: {len(names)} names, {len(classes)} folders",
                expected="a line for each class folder, in their sorted order, or folder<tab>name",
                way_out="complete the file, or remove it to use the names of the folders",
            )
    return names


def _by_folder(lines: Sequence[str]) -> Mapping[str, str]:
    """Names by folder if every line has both."""
    pairs = [line.partition("\t") for line in lines]
    if not all(tab for _, tab, _ in pairs):
        return {}
    return {place.strip(): name.strip() for place, _, name in pairs}


def templates_of(folder: Folder, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts of templates.txt, or the usual ones where there is no such file."""
    if not folder.has("templates.txt"):
        return usual
    found = tuple(lines_of(folder, "templates.txt"))
    wrong = [template for template in found if "{}" not in template]
    if wrong or not found:
        shown = repr(wrong[0]) if wrong else "nothing"
        raise UserError(
            f"templates.txt of {folder.benchmark} holds {shown}",
            expected="prompts with {} for the class name, one a line",
            way_out="write it as 'a photo of a {}.'",
        )
    return found


def one_of(at: int, classes: int) -> BoolArray:
    """The truth that all pictures of a class share."""
    truth: BoolArray = np.zeros((1, classes), dtype=np.bool_)
    truth[0, at] = True
    truth.flags.writeable = False
    return truth


def class_benchmark(
    name: str,
    about: str,
    cite: str,
    licence: str,
    *,
    load: Loader,
    load_training: Loader | None = None,
    downloads: tuple[Download, ...] = (),
    gated: str = "",
    size: int = 0,
) -> Benchmark:
    """A recognition set as a benchmark: top-1 accuracy over pictures, and over classes."""
    return Benchmark(
        name=name,
        about=about,
        load=load,
        load_training=load_training,
        metrics=(Classify(),),
        headline="accuracy",
        aggregates=(MICRO, Aggregate(by=("class",))),
        # Public code takes the argmax over classes in the order of their folders.
        official_ties="argmax_first",
        cite=cite,
        licence=licence,
        files=("*/*",),
        sources=(cite.split(", ")[-1],),
        published=published_for(name),
        downloads=downloads,
        gated=gated,
        size=size,
    )


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
            names=_imagenet_names(root, parts),
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


def _imagenet_names(root: Path | None, parts: Sequence[str]) -> tuple[tuple[str, str], ...]:
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
    gated=by_hand("imagenet"),
    size=50_000,
)
