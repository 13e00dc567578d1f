"""A small Llama without transformers: the same numbers, and everything else left or refused."""

import json
from pathlib import Path

import pytest
import torch

from unbag.errors import UnbagError
from unbag.readouts.decoder import language as small
from unbag.readouts.decoder.language import saved_language

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


def test_rows_go_on_from_what_was_kept_as_with_transformers(folder: Path) -> None:
    """Two beginnings are read once, the second padded; then three rows go on from them."""
    every = small.small_language(folder), saved_language(folder)
    every_NLW = torch.randn(5, 4, 32, generator=torch.Generator().manual_seed(0))
    begun_NLW, rest_NLW = every_NLW[:2], every_NLW[2:]
    place_N = torch.tensor([1, 0, 1])
    begun_NL = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    rest_NL = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]])
    mask_NL = torch.cat([begun_NL[place_N], rest_NL], dim=1)
    position_NL = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
    found = []
    with torch.inference_mode():
        for one in every:
            kept = one.base_model(
                inputs_embeds=begun_NLW,
                attention_mask=begun_NL,
                position_ids=(begun_NL.cumsum(dim=1) - 1).clamp(min=0),
                use_cache=True,
            ).past_key_values
            kept.batch_select_indices(place_N)
            for part in (slice(0, 3), slice(3, 4)):
                end = 4 + part.stop
                last = one.base_model(
                    inputs_embeds=rest_NLW[:, part],
                    attention_mask=mask_NL[:, :end],
                    position_ids=position_NL[:, 4 + part.start : end],
                    past_key_values=kept,
                    use_cache=True,
                )
                kept = last.past_key_values
            found.append(last.last_hidden_state[:, -1])
        whole = every[0].base_model(
            inputs_embeds=torch.cat([begun_NLW[place_N], rest_NLW], dim=1),
            attention_mask=mask_NL,
            position_ids=position_NL,
        )
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[0], whole.last_hidden_state[:, -1], atol=1e-5, rtol=1e-5)
    assert whole.past_key_values is None


def test_tokens_without_a_mask_go_on_one_by_one(folder: Path) -> None:
    ours = small.small_language(folder)
    vector_NLW = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = ours.base_model(vector_NLW).last_hidden_state
        kept, found = None, []
        for at in range(3):
            step = ours.base_model(vector_NLW[:, at : at + 1], past_key_values=kept, use_cache=True)
            kept = step.past_key_values
            found.append(step.last_hidden_state)
    torch.testing.assert_close(torch.cat(found, dim=1), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("changed", [{"hidden_act": "gelu"}, {"num_key_value_heads": 1}])
def test_another_kind_is_left_to_transformers(
    folder: Path, tmp_path: Path, changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "saved_language", lambda place: f"theirs: {place.name}")
    found = small.small_language(said(folder, tmp_path, **changed))
    assert found == f"theirs: {tmp_path.name}"


def test_weights_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="is not a language model") as error:
        small.small_language(said(folder, tmp_path, num_hidden_layers=3))
    assert "config.json and model.safetensors" in error.value.expected
    assert error.value.hint == "use an unchanged folder of `unbag train`"
    with pytest.raises(UnbagError, match="is not a language model"):
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
