"""A decoder that was trained further ships as a change of the first, and of no other."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.readouts.decoder_made import begun, encoder

from unbag.errors import UnbagError
from unbag.models.tiny import write
from unbag.readouts.decoder.language import small_language
from unbag.readouts.decoder.model import DecoderParts
from unbag.readouts.decoder.saving import (
    CHANGE,
    DecoderOrigin,
    read_decoder,
    save_change,
    save_decoder,
)
from unbag_lab.experiments.readouts import ChangeOf, ship_head

ORIGIN = DecoderOrigin("small", "small", encoder().fingerprint)


def trained_further(made: DecoderParts) -> DecoderParts:
    """Every weight moved a little, as training does."""
    torch.manual_seed(3)
    net = begun().made.net
    net.load_state_dict(made.net.state_dict())
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return replace(made, net=net.eval(), embeds=True)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """The first decoder, and the second as a change that is exact but for half precision."""
    first, second = tmp_path / "small.decoder", tmp_path / "small.vlm2vec"
    save_decoder(first, begun().made, ORIGIN)
    save_change(second, trained_further(begun().made), ORIGIN, base=first, rank=1000)
    return first, second


def test_it_is_read_as_it_was_made(both: tuple[Path, Path]) -> None:
    first, second = both
    wanted = trained_further(read_decoder(first).made)
    found = read_decoder(second)
    assert found.origin == ORIGIN
    assert found.made.embeds
    assert not read_decoder(first).made.embeds
    assert found.made.words == wanted.words
    for name, value in wanted.net.state_dict().items():
        torch.testing.assert_close(found.made.net.state_dict()[name], value, atol=1e-3, rtol=0)
    head, embedding = (
        found.made.net.state_dict()[f"language.{name}.weight"]
        for name in ("lm_head", "model.embed_tokens")
    )
    assert torch.equal(head, embedding)


def test_without_transformers_it_is_the_same(both: tuple[Path, Path]) -> None:
    theirs, ours = read_decoder(both[1]).made, read_decoder(both[1], read=small_language).made
    for name, value in theirs.net.state_dict().items():
        assert torch.equal(ours.net.state_dict()[name], value), name


def test_of_another_decoder_or_of_none_it_is_refused(both: tuple[Path, Path]) -> None:
    first, second = both
    weights = load_file(first / "connector.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, first / "connector.safetensors")
    with pytest.raises(
        UnbagError, match=r"another decoder than the one in small\.decoder/"
    ) as error:
        read_decoder(second)
    assert error.value.hint == "copy the decoder that it changes next to it"
    shutil.rmtree(first)
    with pytest.raises(UnbagError, match=r"change of the decoder small\.decoder/") as error:
        read_decoder(second)
    assert error.value.expected == f"both folders in {second.parent}"


def test_a_change_of_itself_is_refused(both: tuple[Path, Path]) -> None:
    config = both[1] / "config.json"
    config.write_text(config.read_text().replace("small.decoder", "small.vlm2vec"))
    with pytest.raises(UnbagError, match=r"change of the decoder small\.vlm2vec/"):
        read_decoder(both[1])


def test_it_is_found_from_inside(both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(both[1])
    assert read_decoder(Path()).made.embeds


def test_a_file_that_does_not_fit_is_refused(both: tuple[Path, Path]) -> None:
    change = load_file(both[1] / CHANGE)
    name = next(name for name in change if "norm" in name)
    save_file({**change, name: change[name][:3]}, both[1] / CHANGE)
    with pytest.raises(UnbagError, match=r"change\.safetensors does not fit small\.decoder/"):
        read_decoder(both[1])
    del change[name]
    save_file(change, both[1] / CHANGE)
    with pytest.raises(UnbagError, match=r"change\.safetensors does not fit small\.decoder/"):
        read_decoder(both[1])
    (both[1] / CHANGE).unlink()
    with pytest.raises(UnbagError, match=r"is not a decoder: it has no change\.saf") as error:
        read_decoder(both[1])
    assert error.value.expected == "a folder with config.json and change.safetensors"


def test_the_script_writes_thin_matrices_in_half_precision(tmp_path: Path) -> None:
    write(encoder().network, tmp_path / "small.safetensors", dtype=torch.float32)
    spec = f"tiny:{tmp_path}/small.safetensors"
    save_decoder(tmp_path / "decoder", begun().made, ORIGIN)
    save_decoder(tmp_path / "vlm2vec", trained_further(begun().made), ORIGIN)
    ship_head(tmp_path / "decoder", spec, tmp_path / "out.decoder")
    ship_head(
        tmp_path / "vlm2vec",
        spec,
        tmp_path / "out.vlm2vec",
        beside=ChangeOf(tmp_path / "out.decoder", rank=2),
    )
    said = json.loads((tmp_path / "out.vlm2vec/config.json").read_text())
    assert said["change_of"]["folder"] == "out.decoder"
    assert said["origin"]["spec"] == spec
    change = load_file(tmp_path / "out.vlm2vec" / CHANGE)
    assert {value.dtype for value in change.values()} == {torch.float16}
    tall = [value for name, value in change.items() if name.endswith(".tall_OR")]
    assert {value.shape[1] for value in tall} == {2}
    assert read_decoder(tmp_path / "out.vlm2vec").made.embeds
