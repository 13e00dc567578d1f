"""A CLIP of transformers, exported: open_clip gives its vectors, whatever tokenizer it has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from unbag.models.huggingface.dual import HfDual
from unbag.models.loading import load_model
from unbag.reports.cards import Exported, LeftOut, card_of_copy
from unbag.training.export.export import export

from .export_models import save_clip

open_clip: Any = pytest.importorskip("open_clip")
tf: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
CAPTIONS = ("a", "a red ball is left of a dog", "a horse eats a red cube and a blue ball " * 12)


def exported(name: str, out: Path) -> tuple[HfDual, Exported]:
    encoder = load_model(name)
    assert isinstance(encoder, HfDual)
    return encoder, export(encoder, out, card=card_of_copy(name, name=encoder.name))


def check_open_clip(encoder: HfDual, folder: Path) -> Any:
    model, _, _ = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(list(CAPTIONS))
    pixels = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        images = model.eval().encode_image(pixels)
        captions = model.encode_text(tokens)
    mine = encoder.encode_images(pixels), encoder.encode_texts(CAPTIONS)
    torch.testing.assert_close(normalize(images, dim=-1), mine[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(normalize(captions, dim=-1), mine[1], atol=1e-5, rtol=0)
    return model


@pytest.mark.parametrize("act", ["gelu", "quick_gelu"])
def test_plain_open_clip_gives_the_vectors_of_a_clip_model(act: str, tmp_path: Path) -> None:
    encoder, found = exported(save_clip(tmp_path / "source", act=act), tmp_path / "out")
    assert [one.library for one in found.folders] == ["transformers", "open_clip"]
    assert found.left_out == ()
    model = check_open_clip(encoder, found.path / "open_clip")
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    said = json.loads((found.path / "open_clip" / "open_clip_config.json").read_text())
    assert said["model_cfg"]["quick_gelu"] == (act == "quick_gelu")
    # open_clip's own tokenizer does, so that the folder needs no other package.
    assert "hf_tokenizer_name" not in said["model_cfg"]["text_cfg"]


@pytest.mark.parametrize("kind", ["clip", "clip-legacy"])
def test_a_tokenizer_of_its_own_goes_along(kind: str, hf_folder: HfFolder, tmp_path: Path) -> None:
    encoder, found = exported(f"hf:{hf_folder(kind)}", tmp_path / "out")
    check_open_clip(encoder, found.path / "open_clip")
    again = load_model(f"open_clip:local-dir:{found.path / 'open_clip'}")
    captions = again.encode_texts(CAPTIONS)  # type: ignore[union-attr]
    torch.testing.assert_close(captions, encoder.encode_texts(CAPTIONS), atol=1e-5, rtol=0)
    assert not any("mends captions" in note for note in found.notes)


def test_an_end_token_that_is_not_the_largest_is_told_to_open_clip(
    hf_folder: HfFolder, tmp_path: Path
) -> None:
    plain = load_model(f"hf:{hf_folder('clip')}")
    assert isinstance(plain, HfDual)
    words, model = plain.captions.tokenizer, plain.model
    words.add_tokens(["horse"])
    end = words.eos_token_id
    table = model.text_model.embeddings
    table.token_embedding = torch.nn.Embedding(len(words), 16)
    model.config.text_config.vocab_size = len(words)
    assert model.config.text_config.eos_token_id == end
    encoder = HfDual(model, words, plain.images.processor, name="longer")
    found = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    check_open_clip(encoder, found.path / "open_clip")
    said = json.loads((found.path / "open_clip" / "open_clip_config.json").read_text())
    assert said["model_cfg"]["text_cfg"]["pool_type"] == "eos"
    assert said["model_cfg"]["text_cfg"]["eos_id"] == end == len(words) - 2


@pytest.mark.parametrize("kind", ["siglip", "align"])
def test_other_kinds_keep_their_own_form_only(
    kind: str, hf_folder: HfFolder, tmp_path: Path
) -> None:
    encoder, found = exported(f"hf:{hf_folder(kind)}", tmp_path / "out")
    assert [one.library for one in found.folders] == ["transformers"]
    assert found.left_out == (LeftOut("open_clip", f"its kind is {kind!r}, not 'clip'"),)
    assert not (found.path / "open_clip").exists()
    card = (found.path / "README.md").read_text(encoding="utf-8")
    assert f"Not exported to open_clip: its kind is '{kind}', not 'clip'." in card
    again = load_model(f"hf:{found.path / 'transformers'}")
    captions = again.encode_texts(CAPTIONS)  # type: ignore[union-attr]
    torch.testing.assert_close(captions, encoder.encode_texts(CAPTIONS), atol=1e-6, rtol=0)
    assert (again.scale, again.bias) == (encoder.scale, encoder.bias)  # type: ignore[union-attr]


def test_a_bias_that_was_trained_beside_a_clip_model_is_kept_for_open_clip_alone(
    hf_folder: HfFolder, tmp_path: Path
) -> None:
    encoder = load_model(f"hf:{hf_folder('clip')}")
    assert isinstance(encoder, HfDual)
    encoder.model.logit_bias = torch.nn.Parameter(torch.tensor(-4.5))
    encoder.bias = -4.5
    found = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    model = check_open_clip(encoder, found.path / "open_clip")
    assert model.logit_bias.item() == -4.5
    _, info = tf.CLIPModel.from_pretrained(found.path / "transformers", output_loading_info=True)
    assert not info["unexpected_keys"]
    assert found.notes[0].startswith("The bias of the sigmoid loss, -4.5000, has no place in")


def test_a_tokenizer_that_cuts_before_the_encoder_ends_is_no_form_of_open_clip(
    hf_folder: HfFolder, tmp_path: Path
) -> None:
    plain = load_model(f"hf:{hf_folder('clip')}")
    assert isinstance(plain, HfDual)
    words = plain.captions.tokenizer
    words.model_max_length = 20
    encoder = HfDual(plain.model, words, plain.images.processor, name="short")
    found = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    why = "its tokenizer cuts at 20 tokens, its text encoder has 30 places"
    assert found.left_out == (LeftOut("open_clip", why),)
