"""Where public files lie: addresses of hosts, and the collections of pictures benchmarks share.

Checksums of COCO are those that TensorFlow Datasets and torchvision state. The other collections
publish none: there the archive's own checks and its file list are what is verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

# Annotation files in public repositories: pinned addresses, sizes and checksums.
#
# Checksums were computed from the official files. Where they could not be had, none is given, and
# `unbag data get` prints the one it computed. A branch instead of a commit means that no commit is
# known to hold these bytes; the checksum holds in any case.

Known = Mapping[str, tuple[int, str]]
"""Name to size and sha256."""

_SUGARCREPE: Known = {
    "add_att": (158_863, "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d"),
    "add_obj": (484_593, "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682"),
    "replace_att": (176_843, "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee"),
    "replace_obj": (361_126, "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898"),
    "replace_rel": (312_629, "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9"),
    "swap_att": (154_665, "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0"),
    "swap_obj": (57_569, "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad"),
}
_SUGARCREPE_PP: Known = {
    "replace_att": (226_275, "6826413592894754eeca02aeebbcbbc8b95a7456998abcc714e71c033ce6fe87"),
    "replace_obj": (456_601, "5c6dc499ec8f511a8aa4ec1b7b5eb0eca90317488abe36ec39573355e2d361ab"),
    "replace_rel": (392_738, "040fb95d3f0619bf515db60879e99709a87a5e9b4f524ec3403b127243480fd4"),
    "swap_att": (198_206, "450d0fd9fcad3e6f44950dc634e7f901ab1c6d9c60a569ade5ae8ffb3d203ad8"),
    "swap_obj": (74_611, "5f33cae824de431a7ecd3c5de6301f689815f9497aa36d96b154bbaf117b201b"),
}
_VALSE: Known = {
    "actant-swap": (503_017, "915294ac3ade7c4c067b1c6841d0db93b60cb8a61ac8e2fb6b125c2a1c0ca93a"),
    "action-replacement": (
        664_129,
        "336ba134f29a3475d0508809067218909a6bd30f079c59309d19244eccb7917f",
    ),
    "coreference-hard": (
        95_649,
        "ef54d8d971d9e0f264e07de08d9915c6e3d6129a2f239888f2b938f5c2eb4139",
    ),
    "coreference-standard": (
        592_329,
        "dae1d9eb018acb54e29a1c4983f3563f86ec3b6beb4037a261564270b0473e95",
    ),
    "counting-adversarial": (
        407_394,
        "0d23529308449c98b37a91048a865a5f377325eceb9accd73f2947bc512d12b0",
    ),
    "counting-hard": (537_197, "2cc83615653675fb50914ce2d8ab4041cce1278eed7ac0abf6f319dbce5c967a"),
    "counting-small-quant": (
        534_996,
        "ca0645885b05738f6c6df2dffec70c669aaff64114017f33425821faab4bc374",
    ),
    "existence": (420_403, "b20fca52eba86c544083d423345a2e28e60e601ef61c56c9ac1c73a95a3a6d18"),
    "foil-it": (538_911, "6f6f0d7494271ed28f6e6f075c3ba36ba1bc45d00ecf7403920f060915130460"),
    "plurals": (1_097_122, "43760db7fc8c6f2a21d3536d52f81539cb101f3370e8d2effb09de43d91486a3"),
    "relations": (664_587, "061fc557459c318ccd6734d07c21cfa5bf5ae87aa6b1110b8f5ec3d6b2911043"),
}
_HARD_POSITIVES: Known = {
    "data/vl_checklist_attributes.json": (
        1_522_662,
        "4c7d262e77e1a1fd5a89ee0de43191fe697d4cf1c044e76c496761f07d824950",
    ),
    "data/vl_checklist_relations.json": (
        2_484_434,
        "f4aee47194df09f73c4bdb13e2f24c17901d71fbb15ab629b40c8667a841d535",
    ),
    "swapped_data/vl_checklist_attributes.json": (
        1_535_707,
        "7f6d2f2614ff8a037780ab4b6243c6e1165ceabc5e4db506ad70c63fd95f6441",
    ),
    "swapped_data/vl_checklist_relations.json": (
        2_499_572,
        "25174b3f0286c124cd7c2c844c1e57bb85179e37cdee0d55fc2857387dede9b5",
    ),
}
_VSR: Known = {
    "dev": (107_245, "0abda42fe9333ab6a8671b32886738b5cfa6d37a8c277b56d8368c339c8dffce"),
    "test": (380_380, "914d9156723b912d8f794b179248af865a68c5f81c9d8e3a21d007778cacaad4"),
}
_VL_CHECKLIST: Known = {
    "Attribute/vg/action.json": (
        175_956,
        "a20b1ee682ab2fb62978cca3a95fc27aa6b35f9238ca7c8847f74671c40db7ba",
    ),
    "Attribute/vg/color.json": (
        1_040_049,
        "93e5d316cfc964c7b4bce2182c9916533ec3aa6e006830859af7c0d2de9f76c7",
    ),
    "Attribute/vg/material.json": (
        226_906,
        "b2c1e312cba0a8efdc5113dd451e21f7fd9d0e96a222a5406ffa8dd67b30d094",
    ),
    "Attribute/vg/size.json": (
        239_074,
        "0a2a929d9dce990cfd4b05299e2d2a7fe59b5c679a3e7f52419a5375ea42f24b",
    ),
    "Attribute/vg/state.json": (
        84_899,
        "d13bc1292de364cd787fc651f4abc0ffaafe9fbf09ec8ce25af76bb349415a2e",
    ),
    "Relation/vg/action.json": (
        1_216_888,
        "2722201353c885670315f935d53cb4e08f462e629c3f88c73da9a286ea66d7a1",
    ),
    "Relation/vg/spatial.json": (
        2_753_305,
        "2582095a4b8515048ba2e33d37d2bffc109e6734924b47bf977236b7f9b72303",
    ),
}
_KARPATHY = (1_735_468, "5b202a235ee2a4e13f82b984ef9293b8e2d34f9b1f92147bf8340580f20faf15")


def _pinned(
    known: Known, repository: str, commits: str | Mapping[str, str], *, at: str, to: str
) -> tuple[Download, ...]:
    """Files of a repository; `at` and `to` hold {} for the name."""
    return tuple(
        Download(
            github(
                repository,
                commits if isinstance(commits, str) else commits[name],
                at.format(name),
            ),
            to.format(name),
            sha256,
            size,
        )
        for name, (size, sha256) in known.items()
    )


SUGARCREPE = _pinned(
    _SUGARCREPE,
    "RAIVNLab/sugar-crepe",
    "0047054b243992f0fad63d6f64f7544862daf846",
    at="data/{}.json",
    to="sugarcrepe/{}.json",
)
SUGARCREPE_PP = _pinned(
    _SUGARCREPE_PP,
    "Sri-Harsha/scpp",
    "cfdcd827e2725427752fdc582f82d1695d983417",
    at="data/{}.json",
    to="sugarcrepe_pp/{}.json",
)
VALSE = _pinned(_VALSE, "Heidelberg-NLP/VALSE", "main", at="data/{}.json", to="valse/{}.json")
# Each half was last changed in another commit.
HARD_POSITIVE_REPLACE = _pinned(
    _HARD_POSITIVES,
    "amitakamath/hard_positives",
    {
        name: "8397123a9fb0140c174765df38c08309fdd197ea"
        if name.startswith("data/")
        else "bab28ba0825c27680540db2fae36c5ec4d2be511"
        for name in _HARD_POSITIVES
    },
    at="{}",
    to="hard_positives/{}",
)
VSR = _pinned(
    _VSR,
    "cambridgeltl/visual-spatial-reasoning",
    "af55c2c21a85aa18aeea131a8b6778c8875f26cf",
    at="data/splits/zeroshot/{}.jsonl",
    to="vsr/zeroshot/{}.jsonl",
)


def karpathy_coco(folder: str) -> tuple[Download, ...]:
    """Karpathy's test split of COCO, as its users keep it."""
    name = "coco_karpathy_test.json"
    return (Download(f"{SALESFORCE}/{name}", f"{folder}/{name}", _KARPATHY[1], _KARPATHY[0]),)


def karpathy_flickr30k(folder: str) -> tuple[Download, ...]:
    """Karpathy's test split of Flickr30k."""
    return (Download(f"{SALESFORCE}/flickr30k_test.json", f"{folder}/flickr30k_test.json"),)


_VL_COMMITS = {
    "ae487f14d8c95699cc014181db13ebd6274ce547": ("Object/", "Relation/"),
    "e42e1d6be38af8981e6c97744f725685748c88b9": (
        *("Attribute/vg/action", "Attribute/vg/color", "Attribute/vg/size"),
        *("Attribute/vaw/action", "Attribute/vaw/material", "Attribute/vaw/state"),
    ),
    "0f7906839a27ebf58bdc66927523945f7680420e": (
        *("Attribute/vg/material", "Attribute/vg/state", "Attribute/vaw/size"),
    ),
}
"""Commit to the beginnings of the files that it holds in their last version."""
VL_CHECKLIST_UNSEEN = (
    "Attribute/vaw/color.json",
    "Relation/hake_action.json",
    "Object/Location/hake_location/hake_obj_center.json",
    "Object/Location/hake_location/hake_obj_mid.json",
    "Object/Location/swig_location/swig_agent/swig_agent_center.json",
    "Object/Location/vg_location/vg_obj_center.json",
    "Object/Location/vg_location/vg_obj_mid.json",
    "Object/Size/hake_size/hake_obj_large.json",
    "Object/Size/swig_size/swig_agent/swig_agent_large.json",
    "Object/Size/vg_size/vg_obj_large.json",
)
"""Files that could not be found in the copy of the repository that was at hand."""


def vl_checklist(files: Iterable[str]) -> tuple[Download, ...]:
    """The files whose place in the repository is known."""
    found = []
    for file in files:
        if file in VL_CHECKLIST_UNSEEN:
            continue
        commit = next(c for c, starts in _VL_COMMITS.items() if file.startswith(starts))
        size, sha256 = _VL_CHECKLIST.get(file, (0, ""))
        url = github("om-ai-lab/VL-CheckList", commit, f"data/{file}")
        found.append(Download(url, f"vl_checklist/{file}", sha256, size))
    return tuple(found)


# Files that lie elsewhere than in a repository, and what has to be got by hand.
#
# Google Drive and the hub publish no checksum that could be pinned here; the one that is computed
# while fetching is printed.

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

# Where the files of BiVLC, EqBen, COLA, NaturalBench as retrieval, Flickr8k and class sets lie.
#
# Addresses are those the official repositories and data pages name; none states a checksum.

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
