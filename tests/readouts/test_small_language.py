"""A small Llama without transformers: the same numbers, and everything else left or refused."""

import json
from pathlib import Path

import pytest
import torch

from unbag.errors import UserError
from unbag.readouts import small_language as small
from unbag.readouts.decoder_language import saved_language

from .decoder_made import begun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("language")
    begun().made.net.language.save_pretrained(found)
    return found


def said(folder: Path, out: Path, **changed: object) -> Path:
    """The folder with another config."""
    config = json.loads((folder / "config.json").read_text()) | changed
    out.joinpath("config.json").write_text(json.dumps(config))
    out.joinpath("model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    return out


@pytest.mark.parametrize("left", [True, False])
def test_it_computes_what_transformers_does(folder: Path, left: bool) -> None:
    ours, theirs = small.small_language(folder), saved_language(folder)
    assert isinstance(ours, small.SmallLanguage)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    vector_NLW = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))
    mask_NL = torch.ones(2, 6, dtype=torch.long)
    mask_NL[1, slice(0, 2) if left else slice(4, 6)] = 0
    position_NL = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
    with torch.inference_mode():
        found, wanted = (
            one.base_model(
                inputs_embeds=vector_NLW, attention_mask=mask_NL, position_ids=position_NL
            ).last_hidden_state
            for one in (ours, theirs)
        )
        alone = ours.base_model(inputs_embeds=vector_NLW[:1]).last_hidden_state
    torch.testing.assert_close(found[mask_NL.bool()], wanted[mask_NL.bool()], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[:1], alone, atol=1e-5, rtol=1e-5)
    assert found.isfinite().all()


def test_it_keeps_nothing_for_a_next_token(folder: Path) -> None:
    with pytest.raises(NotImplementedError, match="for the model of transformers"):
        small.small_language(folder).base_model(torch.zeros(1, 1, 32), use_cache=True)


@pytest.mark.parametrize("changed", [{"hidden_act": "gelu"}, {"num_key_value_heads": 1}])
def test_another_kind_is_left_to_transformers(
    folder: Path, tmp_path: Path, changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "saved_language", lambda place: f"theirs: {place.name}")
    found = small.small_language(said(folder, tmp_path, **changed))
    assert found == f"theirs: {tmp_path.name}"


def test_weights_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a language model") as error:
        small.small_language(said(folder, tmp_path, num_hidden_layers=3))
    assert "config.json and model.safetensors" in error.value.expected
    assert error.value.way_out == "take the folder as training wrote it"
    with pytest.raises(UserError, match="is not a language model"):
        small.small_language(tmp_path / "nothing")


def test_a_decoder_is_computed_here_with_its_very_weights_and_given_back() -> None:
    net = begun().made.net
    whole, names = net.language, set(net.state_dict())
    token_BT = torch.tensor([[1, 2, 3, 4]])
    wanted = net.hidden(None, token_BT)
    with small.lean(net):
        assert isinstance(net.language, small.SmallLanguage)
        assert set(net.state_dict()) == names
        assert {id(one) for one in net.parameters()} == {
            *(id(one) for one in whole.parameters()),
            *(id(one) for one in net.connector.parameters()),
        }
        found = net.hidden(None, token_BT)
        with torch.no_grad():
            net.language.lm_head.weight.mul_(2)
    assert net.language is whole
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert not torch.equal(net.hidden(None, token_BT), wanted)


def test_a_language_model_that_is_no_plain_llama_stays(folder: Path) -> None:
    net = begun().made.net
    net.language.config.hidden_act = "gelu"
    whole = net.language
    with small.lean(net):
        assert net.language is whole
    net.language = ours = small.small_language(folder)
    with small.lean(net):
        assert net.language is ours
