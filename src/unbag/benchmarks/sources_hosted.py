"""Files that lie elsewhere than in a repository, and what has to be got by hand.

Google Drive and the hub publish no checksum that could be pinned here; the one that is computed
while fetching is printed.
"""

from __future__ import annotations

from unbag.benchmarks.sources import drive, github, hub
from unbag.benchmarks.sources_pinned import VL_CHECKLIST_UNSEEN
from unbag.types import Download

ARO_RELATION = (
    Download(drive("1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3"), "aro/visual_genome_relation.json"),
)
ARO_ATTRIBUTION = (
    Download(drive("13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw"), "aro/visual_genome_attribution.json"),
)
ARO_PICTURES = Download(
    drive("1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9"),
    "aro/vgr_vga_images.zip",
    unpack="aro",
    has_pictures=True,
)
WHATSUP_A = (
    Download(
        drive("1ap8mmmpQjLIjPGuplkpBgc1hoEHCj4hm"), "whatsup_a/controlled_images_dataset.json"
    ),
    Download(
        drive("19KGYVQjrV3syb00GgcavB2nZTW5NXX0H"),
        "whatsup_a/controlled_images.tar.gz",
        unpack="whatsup_a",
        has_pictures=True,
    ),
)
WHATSUP_B = (
    Download(drive("1unNNosLbdy9NDjgj4l8fsQP3WiAAGA6z"), "whatsup_b/controlled_clevr_dataset.json"),
    Download(
        drive("13jdBpg8t3NqW3jrL6FK8HO93vwsUjDxG"),
        "whatsup_b/controlled_clevr.tar.gz",
        unpack="whatsup_b",
        has_pictures=True,
    ),
)
COCO_SPATIAL = (
    Download(drive("1RsMdpE9mmwnK4zzMPpC1-wTU_hNis-dq"), "coco_spatial/coco_qa_one_obj.json"),
    Download(drive("1TCEoM0mgFmz8T4cF7PQ3XJmO6JjtiQ-s"), "coco_spatial/coco_qa_two_obj.json"),
)
GQA_SPATIAL = (
    Download(drive("1ARMRzRdohs9QTr1gpIfzyUzvW20wYp_p"), "gqa_spatial/vg_qa_one_obj.json"),
    Download(drive("1sjVG5O3QMY8s118k7kQM8zzDZH12i_95"), "gqa_spatial/vg_qa_two_obj.json"),
    Download(
        drive("1idW7Buoz7fQm4-670n-oERw9U-2JLJvE"),
        "gqa_spatial/vg_images.tar.gz",
        unpack="gqa_spatial",
        has_pictures=True,
    ),
)
MMVP = (
    Download(hub("MMVP/MMVP", "Questions.csv"), "mmvp/Questions.csv"),
    *(
        Download(
            hub("MMVP/MMVP", f"MMVP Images/{number}.jpg"),
            f"mmvp/MMVP Images/{number}.jpg",
            has_pictures=True,
        )
        for number in range(1, 301)
    ),
)
MMVP_VLM = (Download(hub("MMVP/MMVP_VLM", "Questions.csv"), "mmvp_vlm/Questions.csv"),)
MMVP_VLM_BY_HAND = (
    "the pictures: clone huggingface.co/datasets/MMVP/MMVP_VLM with git-lfs and put its folder "
    "'MLLM_VLM Images' into mmvp_vlm"
)
SVO_PROBES = (
    Download(
        github("google-deepmind/svo_probes", "main", "svo_probes.csv"), "svo_probes/svo_probes.csv"
    ),
)
SVO_PROBES_BY_HAND = (
    "the pictures: svo_probes.csv gives an address for each (pos_url, neg_url); save them as "
    "svo_probes/images/<image id>.jpg. Many of the addresses are dead by now"
)
WINOGROUND = (
    Download(
        github(
            "ajd12342/why-winoground-hard",
            "2b1611c419ba3b9d0029dd4b64a315f3ef778c4e",
            "new_tag_assignments.json",
        ),
        "winoground/new_tag_assignments.json",
    ),
)
WINOGROUND_BY_HAND = (
    "examples.jsonl and the pictures: accept the licence at "
    "huggingface.co/datasets/facebook/winoground (an account is needed), and put them into "
    "winoground and, unpacked, winoground/images"
)
COLORSWAP_BY_HAND = (
    "test.json and the pictures: ask for access at huggingface.co/datasets/stanfordnlp/colorswap "
    "(an account is needed), and put them into colorswap and colorswap/images"
)
NATURALBENCH_BY_HAND = (
    "test_set.json (four rows a group: question, image, answer, type) and the pictures: see "
    "huggingface.co/datasets/BaiqiL/NaturalBench and github.com/Baiqi-Li/NaturalBench; put them "
    "into naturalbench and naturalbench/images. The hub holds another form of the same questions"
)
CREPE_BY_HAND = (
    "the tables: follow the page of CREPE (github.com/RAIVNLab/CREPE) and put its folders "
    "prod_hard_negatives and syst_hard_negatives into crepe"
)
FLICKR30K_BY_HAND = (
    "the pictures: ask for them at shannon.cs.illinois.edu/DenotationGraph (a form), and unpack "
    "them to flickr30k/flickr30k-images"
)
HARD_POSITIVE_SWAP_BY_HAND = (
    "data/visual_genome_attribution.json and swapped_data/visual_genome_attribution.json: take "
    "them from a clone of github.com/amitakamath/hard_positives and put them into "
    "hard_positives/data and hard_positives/swapped_data"
)
VL_CHECKLIST_BY_HAND = (
    f"{len(VL_CHECKLIST_UNSEEN)} of the 56 files ({', '.join(VL_CHECKLIST_UNSEEN)}): look for "
    "them in github.com/om-ai-lab/VL-CheckList, folder data, and put them below vl_checklist; "
    "without them the average is over fewer files. The pictures of HAKE: see DATASETS.md of that "
    "repository; they go into hake"
)
IMAGENET_BY_HAND = (
    "the pictures of the validation split: ask for an account at image-net.org, and lay them out "
    "as imagenet1k/val/<class folder>/<picture>, with imagenet1k/classnames.txt beside"
)


def _cifar(name: str, archive: str, sha256: str) -> tuple[Download, ...]:
    """The binary version; checksums as TensorFlow Datasets states them."""
    url = f"https://www.cs.toronto.edu/~kriz/{archive}"
    return (Download(url, f"{name}/{archive}", sha256, unpack=name, has_pictures=True),)


CIFAR10_FILES = _cifar(
    "cifar10",
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
CIFAR100_FILES = _cifar(
    "cifar100",
    "cifar-100-binary.tar.gz",
    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
)
