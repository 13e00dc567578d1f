"""Activations and tokenizers: errors of a mismatch in both directions, and notes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.open_clip.checkpoint import check_file_activation
from unbag.models.open_clip.library import architecture, library, parse
from unbag.models.open_clip.loading import find_source, load

Made = Callable[[str], Any]
CAPTIONS = ["a red dog", "a dog left of a cube"]


@pytest.fixture
def tagged(saved: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tags as open_clip's table has them, whose weights are on disk."""
    from open_clip.pretrained import _PRETRAINED  # type: ignore[import-untyped, unused-ignore]

    look = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic",
            "resize_mode": "squash", "file": str(saved("clip"))}  # fmt: skip
    quick = {**look, "quick_gelu": True}
    table = {"laion2b_plain": look, "dfn2b": quick, "openai": quick}
    monkeypatch.setitem(_PRETRAINED, "tiny-clip", table)
    monkeypatch.setitem(_PRETRAINED, "tiny-clip-quickgelu", {"dfn2b": quick, "openai": quick})


@pytest.fixture
def quiet() -> Any:
    """Every warning is an error, as in all tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("tagged")
def test_tag_of_the_other_activation() -> None:
    with pytest.raises(UnbagError) as error:
        load("tiny-clip/dfn2b")
    assert error.value.message == (
        "tiny-clip/dfn2b was trained with QuickGELU, and tiny-clip computes with GELU"
    )
    assert error.value.hint == "write open_clip:tiny-clip-quickgelu/dfn2b"
    with pytest.raises(UnbagError) as error:
        load("tiny-clip-quickgelu/laion2b_plain")
    assert error.value.message == (
        "tiny-clip/laion2b_plain was trained with GELU, and tiny-clip-quickgelu uses QuickGELU"
    )
    assert error.value.hint == "write open_clip:tiny-clip/laion2b_plain"


@pytest.mark.usefixtures("tagged", "quiet")
def test_hints_of_tags_work_and_differ() -> None:
    plain, quick = load("tiny-clip/laion2b_plain"), load("tiny-clip-quickgelu/dfn2b")
    assert plain.name == "tiny-clip/laion2b_plain"
    assert quick.name == "tiny-clip-quickgelu/dfn2b"
    assert plain.fingerprint != quick.fingerprint
    difference = plain.encode_texts(CAPTIONS) - quick.encode_texts(CAPTIONS)
    assert difference.abs().max() > 1e-3
    assert plain.trained_on == ("LAION-2B",)
    assert quick.trained_on == ("DFN-2B",)
    assert "mean=(0.5, 0.5, 0.5)" in repr(plain._prepare)
    assert "Resize(size=(32, 32)" in repr(plain._prepare)


@pytest.mark.usefixtures("tagged")
def test_weights_of_openai_get_quickgelu() -> None:
    with pytest.warns(UserWarning, match="OpenAI's weights were trained with QuickGELU, so it is"):
        found = load("tiny-clip/openai")
    other = load("tiny-clip-quickgelu/openai")
    assert torch.equal(found.encode_texts(CAPTIONS), other.encode_texts(CAPTIONS))
    assert found.trained_on == ()


def test_activations_of_all_published_tags() -> None:
    """Every pair of architecture and tag is refused, mended, or right."""
    open_clip = library()
    from unbag.models.open_clip.checkpoint import check_tag_activation, is_quick

    refused, mended = [], 0
    for arch, tag in open_clip.list_pretrained():
        config = architecture(arch)
        quick = bool(open_clip.get_pretrained_cfg(arch, tag).get("quick_gelu"))
        try:
            said = check_tag_activation(arch, tag, config, is_tag_quick=quick)
        except UnbagError:
            refused.append((arch, tag))
            continue
        if said and "OpenAI" in said:
            mended += 1
        # The one whose table and architecture disagree without a twin to turn to.
        assert is_quick(config) == quick or (arch, tag) == ("roberta-ViT-B-32", "laion2b_s12b_b32k")
    assert mended == 9
    assert len(refused) == 18
    assert all(open_clip.get_pretrained_cfg(f"{arch}-quickgelu", tag) for arch, tag in refused)


def beside(tmp_path: Path, weights: Path, **lines: str) -> Path:
    """A checkpoint as the trainer leaves it: RUN/params.txt and RUN/checkpoints/epoch_1.pt."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}: {value}\n" for key, value in lines.items())
    (tmp_path / "run" / "params.txt").write_text(text)
    path = tmp_path / "run" / "checkpoints" / "epoch_1.safetensors"
    save_file(load_file(weights), path)
    return path


def test_activation_in_the_trainers_parameters(saved: Made, tmp_path: Path) -> None:
    path = beside(tmp_path, saved("clip"), model="tiny-clip-quickgelu", force_quick_gelu="False")
    with pytest.raises(UnbagError) as error:
        load(f"tiny-clip@{path}")
    assert error.value.message == (
        "tiny-clip computes with GELU, and the trainer's params.txt says model: "
        "tiny-clip-quickgelu (QuickGELU)"
    )
    assert error.value.hint == f"write open_clip:tiny-clip-quickgelu@{path}"
    path = beside(tmp_path, saved("clip"), model="tiny-clip", force_quick_gelu="False")
    with pytest.raises(
        UnbagError, match=r"computes with QuickGELU, and .* model: tiny-clip \(GELU"
    ):
        load(f"tiny-clip-quickgelu@{path}")
    path = beside(tmp_path, saved("clip"), model="tiny-clip", force_quick_gelu="True")
    with pytest.raises(UnbagError, match=r"params.txt says force_quick_gelu"):
        load(f"tiny-clip@{path}")


@pytest.mark.usefixtures("quiet")
def test_no_note_if_parameters_agree(saved: Made, tmp_path: Path) -> None:
    path = beside(tmp_path, saved("clip"), model="tiny-clip", force_quick_gelu="False")
    assert load(f"tiny-clip@{path}").name == "tiny-clip@run/epoch_1"


def test_activation_in_the_file_name(saved: Made, tmp_path: Path) -> None:
    path = tmp_path / "vit_b_32-quickgelu-laion400m.safetensors"
    save_file(load_file(saved("clip")), path)
    with pytest.raises(UnbagError, match=r"the name of vit_b_32-quickgelu-laion400m.* contains Q"):
        load(f"tiny-clip@{path}")


def test_activation_in_the_config(saved: Made, home: Path, tmp_path: Path) -> None:
    save_file(load_file(saved("clip")), tmp_path / "mine.safetensors")
    config = json.loads((home / "tiny-clip.json").read_text())
    write_config(tmp_path, {**config, "quick_gelu": True})
    with pytest.raises(UnbagError) as error:
        load(f"tiny-clip@{tmp_path}")
    assert "the open_clip_config.json beside the file has QuickGELU" in error.value.message
    assert error.value.hint == f"write open_clip:tiny-clip-quickgelu@{tmp_path}"
    write_config(tmp_path, config)
    with pytest.raises(UnbagError, match="beside the file has GELU"):
        load(f"tiny-clip-quickgelu@{tmp_path}")


def write_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))


def test_note_on_unknown_activation(saved: Made) -> None:
    path = saved("clip")
    with pytest.warns(UserWarning, match="activation") as said:
        load(f"tiny-clip@{path}")
    assert [str(one.message) for one in said] == [
        "tiny-clip@clip.safetensors: no metadata states the activation; computed with GELU, as in "
        "tiny-clip. If the weights come from OpenAI's, DFN's or MetaCLIP's, write "
        f"open_clip:tiny-clip-quickgelu@{path}"
    ]


@pytest.mark.usefixtures("quiet")
def test_other_activation_for_any_architecture(saved: Made) -> None:
    quick = load(f"tiny-custom-quickgelu@{saved('custom')}")
    assert quick.name == "tiny-custom-quickgelu@custom"
    assert type(quick.model.text.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU"


def test_no_note_for_architectures_with_gelu_only() -> None:
    """SigLIP was never published with QuickGELU; RN50 was, and so was ViT-B-32."""
    file = Path("mine.safetensors")
    for arch, is_said in (("ViT-B-16-SigLIP", False), ("ViT-B-32", True), ("RN50", True)):
        assert bool(check_file_activation(arch, architecture(arch), file, str(file))) == is_said


def test_preparation_of_siglip(tmp_path: Path) -> None:
    (tmp_path / "mine.safetensors").touch()
    source = find_source(parse(f"ViT-B-16-SigLIP@{tmp_path / 'mine.safetensors'}"))
    assert source.preparation["mean"] == (0.5, 0.5, 0.5)
    assert source.preparation["resize_mode"] == "squash"
    assert "as for all published weights of ViT-B-16-SigLIP" in source.notes[0]
    assert not find_source(parse(f"ViT-L-14-quickgelu@{tmp_path / 'mine.safetensors'}")).notes


def test_text_encoder_of_another_tokenizer(saved: Made) -> None:
    with pytest.raises(UnbagError) as error:
        load(f"tiny-clip@{saved('other-words')}")
    assert error.value.message == (
        "the text encoder of other-words.safetensors has 49500 words; the tokenizer of "
        "tiny-clip gives 49408"
    )
    with pytest.raises(UnbagError, match="has 16 places; the tokenizer of tiny-clip gives 77"):
        load(f"tiny-clip@{saved('short')}")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("other-words", "has 49408 tokens, and the text encoder was trained with 49500"),
        ("few-words", "has 12 tokens, and the text encoder knows 8"),
        ("other-eos", "ends a caption with 4, and the text encoder expects 2"),
        ("largest", "does not end a caption with its largest id"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*no metadata states the activation")
def test_tokenizer_of_another_text_encoder(name: str, found: str, saved: Made) -> None:
    with pytest.raises(UnbagError, match=f"the tokenizer of tiny-{name} {found}"):
        load(f"tiny-{name}@{saved(name)}")


def test_config_with_another_tokenizer(saved: Made, home: Path, tmp_path: Path) -> None:
    save_file(load_file(saved("eos")), tmp_path / "mine.safetensors")
    config = json.loads((home / "tiny-eos.json").read_text())
    config["text_cfg"]["hf_tokenizer_name"] = "xlm-v"
    write_config(tmp_path, config)
    with pytest.raises(UnbagError, match=r"has hf_tokenizer_name 'xlm-v', tiny-eos has "):
        load(f"tiny-eos@{tmp_path}")


def test_note_on_captions_at_full_length(saved: Made) -> None:
    with pytest.warns(UserWarning, match="padded to 77 tokens") as said:
        load(f"tiny-looking-quickgelu@{saved('looking')}")
    assert [str(one.message) for one in said] == [
        "tiny-looking-quickgelu@looking: captions are padded to 77 tokens, since its text encoder "
        "attends to padding"
    ]
