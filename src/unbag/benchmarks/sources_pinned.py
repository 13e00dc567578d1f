"""Annotation files in public repositories: pinned addresses, sizes and checksums.

Checksums were computed from the official files. Where they could not be had, none is given, and
`unbag data get` prints the one it computed. A branch instead of a commit means that no commit is
known to hold these bytes; the checksum holds in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unbag.benchmarks.sources import SALESFORCE, github
from unbag.types import Download

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
