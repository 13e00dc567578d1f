"""Names after `open_clip:`: what they mean, what is near an unknown one, what offline says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.loading import Placement, load_model
from unbag.models.open_clip.library import library, parse, trained_on
from unbag.models.open_clip.loading import load

Made = Callable[[str], Any]


def test_parse() -> None:
    tag = parse("ViT-B-32/openai")
    assert (tag.arch, tag.tag, tag.path, tag.revision) == ("ViT-B-32", "openai", None, None)
    assert parse("ViT-B-32/openai@abc123").revision == "abc123"
    file = parse("ViT-B-32@runs/a@b/epoch_1.pt")
    assert (file.arch, file.path) == ("ViT-B-32", Path("runs/a@b/epoch_1.pt"))
    assert parse("hf-hub:timm/ViT-B-16-SigLIP@main").hub == "timm/ViT-B-16-SigLIP"
    assert parse("hf-hub:timm/ViT-B-16-SigLIP@main").revision == "main"
    folder = parse("local-dir:runs/mine")
    assert (folder.path, folder.has_config) == (Path("runs/mine"), True)


@pytest.mark.parametrize(
    ("name", "message", "words"),
    [
        ("RN50", "open_clip:RN50 names no weights", "the tags of RN50: openai, yfcc15m, cc12m"),
        ("RN50/", "open_clip:RN50/ names no weights", "the tags of RN50"),
        ("RN50@", "open_clip:RN50@ names no checkpoint", "epoch_10.pt"),
        ("hf-hub:", "open_clip:hf-hub: names no model", "OWNER/NAME"),
        ("hf-hub:name", "open_clip:hf-hub:name names no model", "OWNER/NAME"),
        ("local-dir:", "open_clip:local-dir: names no model", "FOLDER"),
        ("ViT-B32/openai", "unknown architecture of open_clip 'ViT-B32'", "'ViT-B-32'"),
        # list_pretrained() has only the 115 of 144 architectures with weights.
        ("ViT-B32/openai", "unknown architecture of open_clip 'ViT-B32'", "list_models()"),
        ("ViT-B-32/laion2b", "unknown weights of ViT-B-32 'laion2b'", "'laion2b_e16'"),
        (
            "ViT-B-32/zzz",
            "unknown weights of ViT-B-32 'zzz'",
            "one of commonpool_m_basic_s128m_b4k",
        ),
        ("ViT-B-32/zzz", "unknown weights of ViT-B-32 'zzz'", "list_pretrained()"),
    ],
)
def test_incomplete_and_unknown_names(name: str, message: str, words: str) -> None:
    with pytest.raises(UnbagError, match=message) as error:
        load(name)
    assert words in str(error.value)


def test_failed_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without a network, or with HF_HUB_OFFLINE=1 and an empty cache."""

    def offline(*args: object, **kwargs: object) -> str:
        raise FileNotFoundError("Failed to download file\nand more")

    monkeypatch.setattr(library(), "download_pretrained", offline)
    monkeypatch.setattr(library().pretrained, "download_pretrained_from_hf", offline)
    for name in (
        "ViT-B-32/laion2b_s34b_b79k",
        "ViT-B-32/laion2b_s34b_b79k@main",
        "hf-hub:timm/ViT-B-16-SigLIP",
    ):
        with pytest.raises(UnbagError) as error:
            load(name)
        assert error.value.message == (
            f"the weights of open_clip:{name} could not be downloaded: Failed to download file "
            "and more"
        )
        assert "HF_HUB_OFFLINE=1" in error.value.expected
        assert "open_clip:ARCH@PATH" in error.value.hint


def test_pinned_revision(monkeypatch: pytest.MonkeyPatch, saved: Made) -> None:
    asked: list[object] = []

    def fetch(model: str, file: str | None, *, revision: str | None) -> str:
        asked.extend((model, file, revision))
        raise OSError("no network")

    monkeypatch.setattr(library().pretrained, "download_pretrained_from_hf", fetch)
    with pytest.raises(UnbagError):
        load("ViT-B-32/laion2b_s34b_b79k@1a2b3c")
    assert asked == ["laion/CLIP-ViT-B-32-laion2B-s34B-b79K", None, "1a2b3c"]


def test_encoder_and_tokenizer_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "mine.pt")

    def offline(*args: object, **kwargs: object) -> str:
        raise OSError("offline mode is enabled\nmore")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", offline)
    with pytest.raises(UnbagError) as error:
        load(f"roberta-ViT-B-32-quickgelu@{tmp_path / 'mine.pt'}")
    assert error.value.message == (
        "open_clip cannot build roberta-ViT-B-32-quickgelu: offline mode is enabled more"
    )
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", offline)
    from unbag.models.open_clip.text import load_tokenizer

    with pytest.raises(UnbagError) as error:
        load_tokenizer("ViT-B-16-SigLIP", "ViT-B-16-SigLIP")
    assert error.value.message == (
        "the tokenizer of ViT-B-16-SigLIP could not be loaded: offline mode is enabled"
    )
    assert "open_clip:local-dir:FOLDER" in error.value.hint


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(UnbagError) as error:
        load("ViT-B-32/openai")
    assert error.value.message.startswith("open_clip: models need the package 'open_clip_torch'")
    assert error.value.hint == "pip install 'unbag[open_clip]'"


@pytest.mark.filterwarnings("ignore:.*no metadata states the activation")
def test_load_model_with_placement(saved: Made) -> None:
    model = load_model(
        f"open_clip:tiny-clip@{saved('clip')}", placement=Placement("cpu", "bfloat16")
    )
    assert model.name == "tiny-clip@clip"
    assert getattr(model, "dtype", None) == torch.bfloat16
    assert getattr(model, "device", None) == "cpu"


def test_trained_on() -> None:
    assert trained_on("laion2b_s34b_b79k") == ("LAION-2B",)
    assert trained_on("mscoco_finetuned_laion2b_s13b_b90k") == ("LAION-2B", "COCO")
    assert trained_on("datacomp_xl_s13b_b90k") == ("DataComp",)
    assert trained_on("openai") == ()
