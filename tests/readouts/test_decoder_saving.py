"""Folders of decoders: trained, loaded, changed by thin matrices, and refused where damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbag.api import make_scorers
from unbag.errors import UnbagError
from unbag.models.huggingface.loading import read_language_model
from unbag.models.loading import Placement, load_model
from unbag.models.tiny import Tiny, load, write
from unbag.readouts.base import ReadoutTrained, train_readout
from unbag.readouts.decoder import language as decoder_language
from unbag.readouts.decoder.readout import DECODER
from unbag.readouts.decoder.readout import load as load_decoder
from unbag.readouts.decoder.saving import apply_change, factored, read_decoder
from unbag.runs.checkpoint import LAST, PREVIOUS
from unbag.runs.progress import Progress, Silent
from unbag.types import Query

from .decoder_made import encoder, images, language_folder

QUICK = (

    "scenes=24", "steps=4", "batch_size=8", "width=16", "depth=1", "heads=2", "warmup_steps=1",

)  # fmt: skip
PROMPT = 'Does this figure show "a red star"? Please answer yes or no.'


def trained(
    out: Path,
    settings: Sequence[str] = QUICK,
    *,
    pairs: str = "world",
    spec: str = "small",
    model: Tiny | None = None,
    progress: Progress | None = None,
) -> ReadoutTrained:
    return train_readout(
        "decoder", model or encoder(), pairs, out, spec=spec, settings=settings, progress=progress
    )


def state(folder: Path) -> dict[str, torch.Tensor]:
    return dict(read_decoder(folder).made.net.state_dict())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, Path]:
    """An encoder that loads by name, and a decoder on it."""
    root = tmp_path_factory.mktemp("decoder")
    write(encoder().network, root / "small.safetensors", dtype=torch.float32)
    own = load(str(root / "small.safetensors"))
    trained(root / "made", model=own, spec=f"tiny:{root / 'small.safetensors'}")
    return own, root / "made"


def test_the_encoder_stays_as_it_is(tmp_path: Path) -> None:
    own = encoder()
    before = {name: value.clone() for name, value in own.network.state_dict().items()}
    found = trained(tmp_path / "made", model=own)
    assert found.is_done
    for name, value in own.network.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_folder_says_what_it_is(small: tuple[Tiny, Path]) -> None:
    own, folder = small
    card = (folder / "README.md").read_text()
    assert own.fingerprint in card
    assert "questions about 22 images, 2\nimages held out; seed 0" in card
    assert "| steps | 4 |" in card
    said = json.loads((folder / "config.json").read_text())
    assert said["origin"]["fingerprint"] == own.fingerprint
    assert (folder / LAST).exists()
    assert not (folder / PREVIOUS).exists()


def test_as_a_model_and_as_a_scorer_it_gives_the_same_numbers(small: tuple[Tiny, Path]) -> None:
    own, folder = small
    model = load_model(f"decoder:{folder}")
    assert model.name == "decoder:made"
    queries = [Query(image, "a red star") for image in images(2)]
    (asked,) = make_scorers(model, "yes", "published")
    (scorer,) = make_scorers(own, f"decoder@{folder}")
    assert (scorer.name, scorer.scoring) == (f"{own.name}+decoder", "yes-probability")
    assert np.array_equal(np.asarray(asked.score(queries)), np.asarray(scorer.score(queries)))
    assert asked.fingerprint == scorer.fingerprint


def test_controls_score_as_they_were_taught(tmp_path: Path) -> None:
    own = encoder()
    trained(tmp_path / "blind", (*QUICK, "sees=nothing"), model=own)
    trained(tmp_path / "plain", (*QUICK, "asks=false", "sees=cls"), model=own)
    (blind,) = DECODER.scorers(own, tmp_path / "blind")
    (plain,) = DECODER.scorers(own, tmp_path / "plain")
    assert blind.is_blind
    assert not plain.is_blind
    assert plain.scoring == "option perplexity"
    queries = [Query(image, "a red star") for image in images(2)]
    first, second = np.asarray(blind.score(queries))
    assert first == second
    first, second = np.asarray(plain.score(queries))
    assert first != second


def written_pairs(folder: Path, *, edits: bool = True) -> str:
    """Twelve images, of which one is damaged."""
    lines = []
    for n, image in enumerate(images(12)):
        image.open().save(folder / f"{n}.png")
        edit = {"text": "a blue star", "kind": "replace_colour", "is_positive": False}
        line = {"id": str(n), "image": f"{n}.png", "caption": "a red star"}
        lines.append(json.dumps(line | ({"edits": [edit]} if edits else {})))
    (folder / "3.png").write_bytes(b"no image")
    (folder / "edits.jsonl").write_text("\n".join(lines))
    return str(folder / "edits.jsonl")


def test_your_own_images_without_a_damaged_one(tmp_path: Path) -> None:
    silent = Silent()
    trained(tmp_path / "made", pairs=written_pairs(tmp_path), progress=silent)
    at = silent.said.index("1 image cannot be read and is left out")
    assert silent.said[at + 1].startswith(f"  left out: {tmp_path / '3.png'}: ")
    assert "questions about 10 images" in (tmp_path / "made" / "README.md").read_text()


def test_captions_without_edits(tmp_path: Path) -> None:
    pairs = written_pairs(tmp_path, edits=False)
    with pytest.raises(UnbagError, match="no question of the kind yes, letters, answer"):
        trained(tmp_path / "made", pairs=pairs)
    found = trained(tmp_path / "captions", (*QUICK, "asks=false"), pairs=pairs)
    assert found.is_done
    assert found.lines[-1].endswith("--scorer likelihood")
    assert "--scorer likelihood" in (tmp_path / "captions" / "README.md").read_text()


def test_a_decoder_of_another_encoder_is_refused_with_both_fingerprints(
    small: tuple[Tiny, Path],
) -> None:
    own, folder = small
    other = encoder(seed=1)
    with pytest.raises(UnbagError, match="was trained for tiny:") as error:
        DECODER.scorers(other, folder)
    assert own.fingerprint in str(error.value)
    assert other.fingerprint in str(error.value)


def test_half_precision_is_refused(small: tuple[Tiny, Path]) -> None:
    with pytest.raises(UnbagError, match="cannot compute in float16"):
        load_model(f"decoder:{small[1]}", placement=Placement(dtype="float16"))


@pytest.mark.parametrize("lora", [0, 2])
def test_a_real_language_model(tmp_path: Path, lora: int) -> None:
    if lora:
        pytest.importorskip("peft")
    language = language_folder(tmp_path / "language")
    own = encoder()
    quick = (
        "scenes=24", "steps=4", "batch_size=8", "connector_steps=1", "context=96", "warmup_steps=1",
    )  # fmt: skip
    found = trained(tmp_path / "made", (*quick, f"language={language}", f"lora={lora}"), model=own)
    assert found.is_done
    (scorer,) = DECODER.scorers(own, tmp_path / "made")
    first, second = np.asarray(scorer.score([Query(p, "a red star") for p in images(2)]))
    assert 0 < first < 1
    assert first != second
    kept = state(tmp_path / "made")
    assert not any("lora" in name for name in kept)
    decoder = DECODER.scorers(own, tmp_path / "made")[0].model  # type: ignore[attr-defined]
    words = decoder.preparer.prompts.processor
    assert words.decode(words.ask("Is it?")) == "USER: Is it? ASSISTANT:"
    assert words.decode(words.answer("Is it?", "Yes")) == " Yes"


def test_language_models_that_cannot_be_used(tmp_path: Path) -> None:
    def said(*settings: str) -> UnbagError:
        with pytest.raises(UnbagError) as error:
            trained(tmp_path / "made", (*QUICK, *settings))
        return error.value

    assert "there is no language model at" in str(said(f"language={tmp_path / 'none'}"))
    (tmp_path / "empty").mkdir()
    assert "empty has no config.json" in str(said(f"language={tmp_path / 'empty'}"))
    endless = language_folder(tmp_path / "endless", ends=False)
    assert "has no token that ends an answer" in str(said(f"language={endless}"))
    short = language_folder(tmp_path / "short", context=40)
    error = said(f"language={short}")
    assert error.message == "4 tokens of an image and 128 of text"
    assert (error.expected, error.hint) == (
        "at most 40, the context of the language model", "--set context=36",
    )  # fmt: skip


def test_a_model_without_an_image_encoder() -> None:
    with pytest.raises(UnbagError, match="the read-out 'decoder' reads patches and words"):
        make_scorers(load_model("caption:short"), "decoder@somewhere")


def test_an_odd_image_size_is_the_encoders_own_affair(small: tuple[Tiny, Path]) -> None:
    """The encoder prepares images, so any size is asked about as it would be encoded."""
    from unbag.data import PixelImage

    model = load_model(f"decoder:{small[1]}")
    large = Image.fromarray(np.asarray(images(1)[0].open())).resize((40, 30))
    found = replace(PixelImage(np.asarray(large)))
    assert model.logprobs(found, PROMPT, ["Yes"])[0][0] < 0  # type: ignore[union-attr]


def test_a_language_model_marked_as_quantised_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers marks what it read from a GGUF file, and then refuses to save it."""
    folder = str(language_folder(tmp_path / "language"))

    def marked(place: str) -> tuple[Any, Any]:
        model, tokenizer = read_language_model(place)
        model.config.quantization_config = {"quant_method": "gguf"}
        return model, tokenizer

    plain = decoder_language.read_language(folder, asks=True).model
    monkeypatch.setattr(decoder_language, "read_language_model", marked)
    found = decoder_language.read_language(folder, asks=True).model
    assert not hasattr(found.config, "quantization_config")
    weights = found.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in plain.state_dict().items())
    assert all(weight.requires_grad for weight in found.parameters())


@pytest.fixture(scope="module")
def folder(small: tuple[Tiny, Path]) -> Path:
    return small[1]


def test_folders_that_hold_no_decoder(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "config.json").write_text('{"kind": "clip"}')
    with pytest.raises(UnbagError, match=r"its config\.json has the kind 'clip'"):
        load_decoder(str(tmp_path))
    with pytest.raises(UnbagError, match="needs a trained decoder; no folder is named"):
        make_scorers(encoder(), "decoder")


def none(place: Path) -> None:
    """Nothing is there."""


def file(place: Path) -> None:
    place.touch()


def says(text: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        place.mkdir()
        (place / "config.json").write_text(text)

    return write


@pytest.mark.parametrize("named", ["decoder:{}", "decoder@{}", "vlm2vec@{}", "vlm2vec:{}"])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (none, "there is no such folder"),
        (file, "it is a file"),
        (Path.mkdir, "it has no config.json"),
        (says("{"), "its config.json cannot be read: Expecting property name"),
        (says("[]"), "its config.json has no kind"),
        (says('{"model_type": "clip"}'), "its config.json has no kind"),
        (says('{"kind": "toast"}'), "its config.json has the kind 'toast'"),
    ],
)
def test_what_is_missing_is_told_with_the_files_and_how_to_make_them(
    tmp_path: Path, named: str, make: Callable[[Path], None], why: str
) -> None:
    place = tmp_path / "place"
    make(place)
    text = named.format(place)
    with pytest.raises(UnbagError) as caught:
        make_scorers(encoder(), text) if "@" in named else load_model(text)
    is_adapter = named.startswith("vlm2vec:")
    what = "holds no trained VLM2Vec" if is_adapter else "is not a decoder"
    assert caught.value.message.startswith(f"{place} {what}: {why}")
    files = "adapter.safetensors and config.json" if is_adapter else "config.json, connector.saf"
    assert caught.value.expected.startswith(f"a folder with {files}")
    recipe = "vlm2vec" if is_adapter else "decoder"
    assert caught.value.hint.startswith("check the path, or train one")
    assert f"`unbag train --readout {recipe}" in caught.value.hint


def test_files_that_a_decoder_lacks_are_named(tmp_path: Path, folder: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "connector.safetensors").write_bytes(b"x")
    with pytest.raises(UnbagError, match=r"its connector\.safetensors cannot be read: "):
        load_decoder(str(copy))
    save_file({"0.bias": torch.zeros(1)}, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"its connector\.safetensors has no matrix 0\.weight"):
        load_decoder(str(copy))
    (copy / "connector.safetensors").unlink()
    with pytest.raises(UnbagError, match=r"is not a decoder: it has no connector\.safetensors"):
        load_decoder(str(copy))
    said = json.loads((copy / "config.json").read_text())
    del said["settings"]
    (copy / "config.json").write_text(json.dumps(said))
    with pytest.raises(UnbagError, match=r"its config\.json has no 'settings'"):
        load_decoder(str(copy))
    (copy / "config.json").unlink()
    (copy / "last.safetensors").touch()
    with pytest.raises(UnbagError, match="an unfinished training run") as caught:
        load_decoder(str(copy))
    assert caught.value.hint == "run the same `unbag train` command again to resume it"


def test_folders_with_parts_of_two_decoders_or_without_one(tmp_path: Path, folder: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "connector.safetensors")
    wide = {name: torch.cat([value, value]) for name, value in weights.items()}
    save_file(wide, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"does not fit its language model: 0\.weight is \(32,"):
        load_decoder(str(copy))
    del weights["2.bias"]
    save_file(weights, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"language model: 2\.bias is missing"):
        load_decoder(str(copy))
    shutil.rmtree(copy / "language")
    with pytest.raises(UnbagError, match="is not a decoder: it has no language/"):
        load_decoder(str(copy))


def weights(seed: int) -> dict[str, Tensor]:
    """A matrix under two names, a vector, and a tall matrix."""
    torch.manual_seed(seed)
    square = torch.randn(12, 12)
    return {"in": square, "norm": torch.randn(12), "tall": torch.randn(40, 12), "out": square}


def test_a_change_of_small_rank_comes_back_as_it_was() -> None:
    first, second = weights(0), weights(1)
    second["tall"] = first["tall"] + torch.randn(40, 2) @ torch.randn(2, 12)
    change = factored(first, second, rank=2)
    assert change["tall.tall_OR"].shape == (40, 2)
    assert change["tall.wide_RI"].shape == (2, 12)
    apply_change(first, change)
    torch.testing.assert_close(first["tall"], second["tall"], atol=1e-5, rtol=1e-5)
    # A vector is as it is, whatever the rank.
    torch.testing.assert_close(first["norm"], second["norm"])


def test_no_other_change_of_that_rank_is_nearer() -> None:
    first, second = weights(0), weights(1)
    before, wanted = first["tall"].clone(), second["tall"] - first["tall"]
    apply_change(first, factored(first, second, rank=3))
    found = first["tall"] - before
    left = torch.linalg.matrix_norm(wanted - found)
    strength = torch.linalg.svdvals(wanted)
    torch.testing.assert_close(left, strength[3:].square().sum().sqrt(), atol=1e-4, rtol=1e-4)
    assert int(torch.linalg.matrix_rank(found, tol=1e-4)) == 3


def test_a_weight_under_two_names_is_changed_once() -> None:
    first, second = weights(0), weights(1)
    change = factored(first, second, rank=100)
    assert not [name for name in change if name.startswith("out")]
    apply_change(first, change)
    torch.testing.assert_close(first["in"], second["in"])
    torch.testing.assert_close(first["out"], second["out"])


def test_a_change_of_other_weights_changes_none() -> None:
    first, second = weights(0), weights(1)
    change = factored(first, second, rank=2)
    for wrong in (
        {name: value for name, value in change.items() if not name.startswith("norm")},
        {**change, "norm.whole": torch.ones(3)},
        {**change, "tall.wide_RI": torch.ones(2, 1)},
        {**change, "tall.wide_RI": torch.ones(3, 12)},
    ):
        with pytest.raises((KeyError, RuntimeError)):
            apply_change(first, wrong)
    assert all(torch.equal(first[name], value) for name, value in weights(0).items())


def test_thin_matrices_that_would_take_more_room_are_not_made() -> None:
    change = factored(weights(0), weights(1), rank=6)
    # 6 * (12 + 12) numbers are no fewer than 12 * 12; 6 * (40 + 12) are fewer than 40 * 12.
    assert "in.whole" in change
    assert "tall.tall_OR" in change
