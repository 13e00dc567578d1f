"""Exports: the same vectors in both libraries, and what is refused."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize

from unbag.cli import main
from unbag.errors import UnbagError
from unbag.models.huggingface.dual import HfDual
from unbag.models.loading import load_model
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.open_clip.library import library
from unbag.models.tiny import Tiny, load, untrained
from unbag.reports.cards import Card, Cost, Exported, LeftOut, card_of_copy
from unbag.training.export import formats
from unbag.training.export.clip import to_open_clip, to_transformers
from unbag.training.export.export import export
from unbag.types import DualEncoder

from .export_models import SIDE, open_clip_config, save_clip, save_open_clip

open_clip: Any = pytest.importorskip("open_clip")
tf: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
ExportedClip = tuple[DualEncoder, Exported]
CAPTIONS = ("a", "a red ball is left of a dog", "a horse eats a red cube and a blue ball " * 12)
CONFIGS = {
    "gelu": open_clip_config(),
    "quickgelu": open_clip_config(quick_gelu=True, custom_text=True),
    "bias": open_clip_config(
        init_logit_bias=-9.5, text={"norm_kwargs": {"eps": 0.01}, "context_length": 16}
    ),
}
CARD = Card("mine", "open_clip:base", recipe="hard_positive", cost=Cost(5, 640, 3700.0, "CPU"))


@pytest.fixture(scope="module", params=CONFIGS)
def exported_clip(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DualEncoder, Exported]:
    root = tmp_path_factory.mktemp("export")
    squash = {"resize_mode": "squash", "interpolation": "bilinear", "mean": [0.5, 0.4, 0.3]}
    preparation = squash if request.param == "bias" else {}
    name = save_open_clip(root / "source", CONFIGS[request.param], **preparation)
    encoder = load_model(name)
    assert isinstance(encoder, DualEncoder)
    return encoder, export(encoder, root / "out", card=CARD)


def noise() -> list[Image]:
    rng = np.random.default_rng(0)
    shapes = ((SIDE, SIDE, 3), (70, 50, 3), (41, 90, 3))
    return [Images.fromarray(rng.integers(0, 256, s, dtype=np.uint8)) for s in shapes]


def mine(encoder: DualEncoder, images: Sequence[Image]) -> tuple[Tensor, Tensor]:
    pixels = torch.stack([encoder.prepare(loaded) for loaded in images])
    return encoder.encode_images(pixels), encoder.encode_texts(CAPTIONS)


def test_plain_open_clip_gives_the_same_vectors(
    exported_clip: ExportedClip,
) -> None:
    encoder, result = exported_clip
    name = f"local-dir:{result.path / 'open_clip'}"
    model, _, transform = open_clip.create_model_and_transforms(name)
    tokens = open_clip.get_tokenizer(name)(list(CAPTIONS))
    assert tokens.shape[1] == encoder.context
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack(list(map(transform, noise()))))
        captions = model.encode_text(tokens)
    image_ND, caption_ND = mine(encoder, noise())
    torch.testing.assert_close(normalize(images, dim=-1), image_ND, atol=1e-6, rtol=0)
    torch.testing.assert_close(normalize(captions, dim=-1), caption_ND, atol=1e-6, rtol=0)
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    assert encoder.bias == (0.0 if model.logit_bias is None else model.logit_bias.item())


def test_plain_transformers_gives_the_same_vectors(
    exported_clip: ExportedClip,
) -> None:
    encoder, result = exported_clip
    model = tf.CLIPModel.from_pretrained(result.path / "transformers").eval()
    processor = tf.AutoProcessor.from_pretrained(result.path / "transformers")
    inputs = processor(
        text=list(CAPTIONS), padding="max_length", truncation=True, return_tensors="pt"
    )
    assert inputs["input_ids"].shape[1] == encoder.context
    pixels = torch.stack([encoder.prepare(loaded) for loaded in noise()])
    with torch.no_grad():
        images = model.get_image_features(pixel_values=pixels).pooler_output
        captions = model.get_text_features(**inputs).pooler_output
    image_ND, caption_ND = mine(encoder, noise())
    torch.testing.assert_close(normalize(images, dim=-1), image_ND, atol=1e-5, rtol=0)
    torch.testing.assert_close(normalize(captions, dim=-1), caption_ND, atol=1e-5, rtol=0)
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    # Resized by other code; the first image has the encoder's size and is not resized.
    theirs = processor(images=noise(), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(theirs[0], pixels[0], atol=1e-6, rtol=0)
    assert ((theirs - pixels).abs() * 0.3 * 255).max() < 2.0


def test_unbag_loads_both_under_names_of_their_own(
    exported_clip: ExportedClip,
) -> None:
    encoder, result = exported_clip
    again = [load_model(form.model_name(result.path)) for form in result.folders]
    assert [loaded.name for loaded in again] == ["out/open_clip", "out/transformers"]
    for loaded in again:
        assert isinstance(loaded, DualEncoder)
        captions = loaded.encode_texts(CAPTIONS)
        torch.testing.assert_close(captions, encoder.encode_texts(CAPTIONS), atol=1e-5, rtol=0)
        assert loaded.context == encoder.context


def test_the_record_says_what_was_written(exported_clip: ExportedClip) -> None:
    encoder, result = exported_clip
    record = json.loads((result.path / "unbag.json").read_text(encoding="utf-8"))
    assert record["fingerprint"] == encoder.fingerprint
    assert record["card"]["cost"]["steps"] == 5
    assert record["left_out"] == {}
    weights = dict(pair for form in result.folders for pair in form.weights)
    assert len(weights) == 2
    for file, checksum in weights.items():
        assert sha256((result.path / file).read_bytes()).hexdigest() == checksum
    assert all(form.agreement.vectors < 1e-6 for form in result.folders)
    assert sorted(p.name for p in result.path.iterdir()) == [
        "README.md", "open_clip", "transformers", "unbag.json",
    ]  # fmt: skip
    assert not list(result.path.parent.glob(".*.part"))
    has_bias = encoder.bias == -9.5
    assert has_bias == any("-9.5000, has no place in transformers" in n for n in result.notes)


def test_a_cut_that_is_a_pixel_apart_is_noted(exported_clip: ExportedClip) -> None:
    """Of three columns open_clip cuts two on the left, transformers one; squashing cuts none."""
    encoder, result = exported_clip
    other = next(form for form in result.folders if form.library == "transformers")
    is_cut = encoder.bias == 0
    assert (other.agreement.levels > 20) == is_cut
    assert (other.agreement.cosine < 0.999) == is_cut
    note = "Images prepared by transformers get different vectors"
    assert any(note in text for text in result.notes) == is_cut


def test_the_weights_of_both_folders_are_bit_for_bit_the_same(
    exported_clip: ExportedClip,
) -> None:
    _, result = exported_clip
    ours = load_file(result.path / "open_clip" / "open_clip_model.safetensors")
    theirs = to_open_clip(load_file(result.path / "transformers" / "model.safetensors"))
    # The second form of open_clip's CLIP comes back as the first.
    plain = {name.removeprefix("text."): value for name, value in ours.items()}
    assert set(plain) - set(theirs) <= {"logit_bias"}
    assert all(torch.equal(theirs[name], plain[name]) for name in theirs)


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
    encoder, result = exported(save_clip(tmp_path / "source", act=act), tmp_path / "out")
    assert [form.library for form in result.folders] == ["transformers", "open_clip"]
    assert result.left_out == ()
    model = check_open_clip(encoder, result.path / "open_clip")
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    config = json.loads((result.path / "open_clip" / "open_clip_config.json").read_text())
    assert config["model_cfg"]["quick_gelu"] == (act == "quick_gelu")
    # open_clip's own tokenizer does, so that the folder needs no other package.
    assert "hf_tokenizer_name" not in config["model_cfg"]["text_cfg"]


@pytest.mark.parametrize("kind", ["clip", "clip-legacy"])
def test_a_tokenizer_of_its_own_goes_along(kind: str, hf_folder: HfFolder, tmp_path: Path) -> None:
    encoder, result = exported(f"hf:{hf_folder(kind)}", tmp_path / "out")
    check_open_clip(encoder, result.path / "open_clip")
    again = load_model(f"open_clip:local-dir:{result.path / 'open_clip'}")
    captions = again.encode_texts(CAPTIONS)  # type: ignore[union-attr]
    torch.testing.assert_close(captions, encoder.encode_texts(CAPTIONS), atol=1e-5, rtol=0)
    assert not any("cleans captions" in note for note in result.notes)


def test_an_end_token_that_is_not_the_largest_is_set_in_open_clip(
    hf_folder: HfFolder, tmp_path: Path
) -> None:
    plain = load_model(f"hf:{hf_folder('clip')}")
    assert isinstance(plain, HfDual)
    tokenizer, model = plain.captions.tokenizer, plain.model
    tokenizer.add_tokens(["horse"])
    end = tokenizer.eos_token_id
    table = model.text_model.embeddings
    table.token_embedding = torch.nn.Embedding(len(tokenizer), 16)
    model.config.text_config.vocab_size = len(tokenizer)
    assert model.config.text_config.eos_token_id == end
    encoder = HfDual(model, tokenizer, plain.images.processor, name="longer")
    result = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    check_open_clip(encoder, result.path / "open_clip")
    config = json.loads((result.path / "open_clip" / "open_clip_config.json").read_text())
    assert config["model_cfg"]["text_cfg"]["pool_type"] == "eos"
    assert config["model_cfg"]["text_cfg"]["eos_id"] == end == len(tokenizer) - 2


@pytest.mark.parametrize("kind", ["siglip", "align"])
def test_other_kinds_keep_their_own_form_only(
    kind: str, hf_folder: HfFolder, tmp_path: Path
) -> None:
    encoder, result = exported(f"hf:{hf_folder(kind)}", tmp_path / "out")
    assert [form.library for form in result.folders] == ["transformers"]
    assert result.left_out == (LeftOut("open_clip", f"its kind is {kind!r}, not 'clip'"),)
    assert not (result.path / "open_clip").exists()
    card = (result.path / "README.md").read_text(encoding="utf-8")
    assert f"Not exported to open_clip: its kind is '{kind}', not 'clip'." in card
    again = load_model(f"hf:{result.path / 'transformers'}")
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
    result = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    model = check_open_clip(encoder, result.path / "open_clip")
    assert model.logit_bias.item() == -4.5
    _, info = tf.CLIPModel.from_pretrained(result.path / "transformers", output_loading_info=True)
    assert not info["unexpected_keys"]
    assert result.notes[0].startswith("The bias of the sigmoid loss, -4.5000, has no place in")


def test_a_tokenizer_that_cuts_before_the_encoder_ends_is_no_form_of_open_clip(
    hf_folder: HfFolder, tmp_path: Path
) -> None:
    plain = load_model(f"hf:{hf_folder('clip')}")
    assert isinstance(plain, HfDual)
    words = plain.captions.tokenizer
    words.model_max_length = 20
    encoder = HfDual(plain.model, words, plain.images.processor, name="short")
    result = export(encoder, tmp_path / "out", card=card_of_copy("x", name="x"))
    why = "its tokenizer cuts at 20 tokens, its text encoder has 30 positions"
    assert result.left_out == (LeftOut("open_clip", why),)


COPY_CARD = card_of_copy("tiny:base", name="tiny:base")
RESNET = {"vision": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 32}}
OWN = "the tiny encoder is an architecture of unbag's own"


@pytest.fixture
def small(tmp_path: Path) -> OpenClip:
    # Few tokens: its tokenizer is CLIP's own whatever the context.
    name = save_open_clip(tmp_path / "small", open_clip_config(text={"context_length": 16}))
    encoder = load_model(name)
    assert isinstance(encoder, OpenClip)
    return encoder


def test_the_tiny_encoder_is_written_in_full_precision(tmp_path: Path) -> None:
    encoder = Tiny(untrained(load("base").config, seed=5), name="tiny:mine")
    out = tmp_path / "out"
    # An empty folder is used.
    out.mkdir()
    result = export(encoder, out, card=Card("t", "tiny:base", command="unbag x"))
    assert load(str(out / "tiny.safetensors")).fingerprint == encoder.fingerprint
    assert result.folders[0].model_name(out) == f"tiny:{out}/tiny.safetensors"
    assert result.left_out == (LeftOut("open_clip", OWN), LeftOut("transformers", OWN))
    # The card of a copy says that nothing was trained.
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "An export of `tiny:base` with unchanged weights: nothing was trained" in card
    assert "## Made by\n\n```\nunbag x\n```" in card


def test_a_resnet_is_left_out_for_transformers_with_the_reason(tmp_path: Path) -> None:
    encoder = load_model(save_open_clip(tmp_path / "resnet", open_clip_config(**RESNET)))
    assert isinstance(encoder, OpenClip)
    result = export(encoder, tmp_path / "out", card=COPY_CARD)
    assert [form.library for form in result.folders] == ["open_clip"]
    assert result.left_out == (LeftOut("transformers", "its image encoder is a ResNet"),)
    card = (result.path / "README.md").read_text(encoding="utf-8")
    assert "Not exported to transformers: its image encoder is a ResNet." in card
    assert not (result.path / "transformers").exists()


def test_a_library_that_is_not_installed_is_the_reason(
    small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    result = export(small, tmp_path / "out", card=COPY_CARD)
    reason = "the package 'transformers' is not installed"
    assert result.left_out == (LeftOut("transformers", reason),)


@pytest.mark.parametrize(("file", "suffix"), [("unbag.json", " and is an export"), ("x.txt", "")])
def test_a_folder_that_is_not_empty_is_refused(file: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("mine")
    with pytest.raises(UnbagError) as caught:
        export(load("base"), tmp_path, card=COPY_CARD)
    assert caught.value.message == f"{tmp_path} exists{suffix}"
    assert "--out" in caught.value.hint
    assert (tmp_path / file).read_text() == "mine"


def test_a_model_of_another_class_or_with_nan_is_refused(tmp_path: Path) -> None:
    class Mine:
        name = "mine"

    mine: Any = Mine()
    with pytest.raises(UnbagError, match="mine is a Mine"):
        export(mine, tmp_path / "out", card=COPY_CARD)
    encoder = load("random")
    with torch.no_grad():
        next(encoder.network.parameters()).view(-1)[0] = float("nan")
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        export(encoder, tmp_path / "out", card=COPY_CARD)
    assert not list(tmp_path.iterdir())


def in_bfloat16(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
    small.model.to(torch.bfloat16)


def without_config(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
    small.config = None


def with_another_activation(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
    assert small.config is not None
    small.config = {**small.config, "quick_gelu": True}


def wrongly_converted(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
    def convert(state: Any) -> Any:
        converted = to_transformers(state)
        converted["visual_projection.weight"] = converted["visual_projection.weight"].flip(0)
        return converted

    patch.setattr(formats, "to_transformers", convert)


def with_an_old_open_clip(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
    def old(name: str, **_: Any) -> None:
        raise RuntimeError(f"Model config for {name[:10]} not found")

    patch.setattr(library(), "create_model_and_transforms", old)


def on_a_full_disk(error: Exception) -> Callable[[OpenClip, pytest.MonkeyPatch], None]:
    def break_(small: OpenClip, patch: pytest.MonkeyPatch) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise error

        patch.setattr(formats, "save_file", full)

    return break_


@pytest.mark.parametrize(
    ("break_", "message"),
    [
        (in_bfloat16, r"the weights of small are torch\.bfloat16"),
        (without_config, "small has no config or preparation of open_clip"),
        (with_another_activation, "small for open_clip computes different vectors: a number"),
        (wrongly_converted, "small for transformers computes different vectors: a number"),
        (with_an_old_open_clip, r"open_clip cannot load .*: Model config for local-dir: not found"),
        (on_a_full_disk(OSError(28, "No space left")), r"out cannot be written: .*space"),
        (on_a_full_disk(SafetensorError("I/O: no space")), r"out cannot be written: .*space"),
    ],
)
def test_a_failed_export_leaves_nothing(
    break_: Any, message: str, small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_(small, monkeypatch)
    with pytest.raises(UnbagError, match=message):
        export(small, tmp_path / "out", card=COPY_CARD)
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_the_command_says_how_each_form_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--model", "tiny:base", "--out", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny:base, written to out"
    assert lines[-3:] == [
        "evaluate it:",
        "  unbag run --model tiny:out/tiny.safetensors",
        "model card: out/README.md",
    ]


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["--model", "tiny:base", "--out", "taken"], ["unbag: taken exists"]),
        (["--model", "caption:short"], ["caption:short has no image and text embeddings"]),
        (["--model", "tiny:base", "--checkpoint", "last"], ["--checkpoint last was", "--run"]),
        (["--model", "tiny:base", "--checkpoint", "best"], ["--checkpoint best was", "--run"]),
    ],
)
def test_what_the_command_refuses(
    options: list[str],
    messages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    assert main(["export", "--out", "out", *options]) == 1
    text = capsys.readouterr().err
    assert all(message in text for message in messages), text
    assert not (tmp_path / "out").exists()


def test_the_help_names_every_kind_of_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "open_clip:, hf:, photo:, joined: or tiny:" in text


@pytest.fixture
def narrow() -> Iterator[None]:
    """Files of a user that a group may read."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("narrow")
def test_files_have_the_permissions_of_the_umask(small: OpenClip, tmp_path: Path) -> None:
    for encoder, name in ((small, "small"), (load("base"), "tiny")):
        result = export(encoder, tmp_path / "out" / name, card=COPY_CARD)
        files = [path for path in result.path.rglob("*") if path.is_file()]
        assert any(path.suffix == ".safetensors" for path in files)
        assert {path.stat().st_mode & 0o777 for path in files} == {0o640}
        assert ".mode" not in {path.name for path in files}
