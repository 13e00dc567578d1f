"""Where the files of BiVLC, EqBen, COLA, NaturalBench as retrieval, Flickr8k and class sets lie.

Addresses are those the official repositories and data pages name; none states a checksum.
"""

from __future__ import annotations

from unbag.benchmarks.sources import VISUAL_GENOME_PICTURES, github, hub
from unbag.types import Download

# Its captions and pictures lie in the same files.
BIVLC_FILES = tuple(
    Download(hub("imirandam/BiVLC", path), f"bivlc/{path}")
    for path in (f"data/test-{n:05d}-of-00002.parquet" for n in range(2))
)
_EQBEN = "https://storage.googleapis.com/eqben-data/eqben_subset"
EQBEN_FILES = (
    Download(
        f"{_EQBEN}/eqben_subset_10percent_final.json", "eqben/eqben_subset_10percent_final.json"
    ),
    Download(
        f"{_EQBEN}/subset_image.tar.gz",
        "eqben/subset_image.tar.gz",
        unpack="eqben",
        has_pictures=True,
    ),
)
_COLA = "COLA_multiobjects_matching_benchmark.json"
COLA_FILES = (
    Download(github("arijitray1993/COLA", "main", f"data/{_COLA}"), f"cola/{_COLA}"),
    *VISUAL_GENOME_PICTURES,
)
NATURALBENCH_RETRIEVAL_BY_HAND = (
    "NaturalBench-Retrieval.zip of huggingface.co/datasets/BaiqiL/NaturalBench: unpack it so that "
    "metadata.json and images lie in NaturalBench-Retrieval"
)
FLICKR8K_BY_HAND = (
    "captions, judgements and pictures: ask for Flickr8k_text and Flickr8k_Dataset by the form of "
    "the authors (Hodosh, Young and Hockenmaier 2013), and unpack both into flickr8k"
)
CLASSES_BY_HAND = (
    "see the page of its authors; `torchvision.datasets` downloads many of these sets, in the very "
    "layout that is read here: move that folder below the one of --data"
)
