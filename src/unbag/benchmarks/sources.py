"""Where public files lie: addresses of hosts, and the collections of pictures benchmarks share.

Checksums of COCO are those that TensorFlow Datasets and torchvision state. The other collections
publish none: there the archive's own checks and its file list are what is verified.
"""

from __future__ import annotations

from urllib.parse import quote

from unbag.types import Download

COCO = "http://images.cocodataset.org/zips"
VISUAL_GENOME = "https://cs.stanford.edu/people/rak248/VG_100K_2"
SALESFORCE = "https://storage.googleapis.com/sfr-vision-language-research/datasets"


def github(repository: str, commit: str, path: str) -> str:
    """A file of a repository at one commit, which never changes."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{quote(path)}"


def drive(file: str) -> str:
    """A public file of Google Drive by its id. Large ones may answer with a page instead."""
    return f"https://drive.usercontent.google.com/download?id={file}&export=download&confirm=t"


def hub(dataset: str, path: str) -> str:
    """A file of a data set on the Hugging Face hub that needs no account."""
    return f"https://huggingface.co/datasets/{dataset}/resolve/main/{quote(path)}"


def _coco(split: str, size: int, sha256: str) -> Download:
    name = f"{split}.zip"
    return Download(f"{COCO}/{name}", f"coco/{name}", sha256, size, "coco", has_pictures=True)


COCO_VAL2017 = _coco(
    "val2017", 815_585_330, "4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05"
)
COCO_TRAIN2017 = _coco(
    "train2017", 19_336_861_798, "69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929"
)
COCO_VAL2014 = _coco(
    "val2014", 6_645_013_297, "fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0"
)
COCO_TRAIN2014 = _coco(
    "train2014", 13_510_573_713, "ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775"
)

# About 9.2 and 5.5 GB; the exact sizes are not published. They hold VG_100K and VG_100K_2.
VISUAL_GENOME_PICTURES = tuple(
    Download(
        f"{VISUAL_GENOME}/{name}",
        f"visual_genome/{name}",
        unpack="visual_genome",
        has_pictures=True,
    )
    for name in ("images.zip", "images2.zip")
)
SWIG = Download(
    "https://swig-data-weights.s3.us-east-2.amazonaws.com/images_512.zip",
    "swig/images_512.zip",
    unpack="swig",
    has_pictures=True,
)
VISUAL7W = Download(
    "http://vision.stanford.edu/yukezhu/visual7w_images.zip",
    "visual7w/visual7w_images.zip",
    unpack="visual7w",
    has_pictures=True,
)
VISDIAL_VAL = Download(
    "https://www.dropbox.com/s/twmtutniktom7tu/VisualDialog_val2018.zip?dl=1",
    "visdial/VisualDialog_val2018.zip",
    unpack="visdial",
    has_pictures=True,
)
