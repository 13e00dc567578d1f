"""Names of CLIP's weights in both libraries: by hand, there and back, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.training.export.clip import to_open_clip, to_transformers

from .export_models import open_clip_config, scatter

open_clip: Any = pytest.importorskip("open_clip.model")
tf: Any = pytest.importorskip("transformers")


def state_of(*, custom: bool = False, **more: Any) -> dict[str, Tensor]:
    kind = open_clip.CustomTextCLIP if custom else open_clip.CLIP
    small = {"vocab_size": 40, "context_length": 9}
    model = kind(**open_clip_config(text=small, **more))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    scatter(state)
    return state


def test_query_key_and_value_are_thirds_in_this_order() -> None:
    fused = torch.arange(18.0).reshape(6, 3)
    found = to_transformers({"transformer.resblocks.1.attn.in_proj_weight": fused})
    start = "text_model.encoder.layers.1.self_attn"
    assert found[f"{start}.q_proj.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found[f"{start}.k_proj.weight"].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert found[f"{start}.v_proj.weight"].tolist() == [[12, 13, 14], [15, 16, 17]]
    assert len(found) == 3


def test_projections_are_turned_and_the_rest_is_only_renamed() -> None:
    found = to_transformers(
        {
            "visual.proj": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
            "visual.ln_pre.bias": torch.tensor([7.0]),
            "logit_scale": torch.tensor([2.5]),
        }
    )
    assert found["visual_projection.weight"].tolist() == [[1, 3, 5], [2, 4, 6]]
    assert found["vision_model.pre_layrnorm.bias"].tolist() == [7]
    assert found["logit_scale"].shape == ()


@pytest.mark.parametrize("custom", [False, True])
def test_there_and_back_is_bit_for_bit_the_same(custom: bool) -> None:
    state = state_of(custom=custom)
    back = to_open_clip(to_transformers(state))
    plain = {name.removeprefix("text."): value for name, value in state.items()}
    assert set(back) == set(plain)
    assert all(torch.equal(back[name], plain[name]) for name in plain)


def test_the_names_are_all_those_of_clip_model_and_no_others() -> None:
    config = tf.CLIPConfig(
        text_config={"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    )
    with torch.device("meta"):
        theirs = tf.CLIPModel(config).state_dict()
    names = {name for name in theirs if not name.endswith("position_ids")}
    assert set(to_transformers(state_of())) == names


def test_a_bias_is_left_out_for_transformers_and_kept_for_open_clip() -> None:
    bias = {"logit_bias": torch.tensor(-10.0)}
    assert to_transformers(bias) == {}
    assert to_open_clip(bias) == bias


def test_positions_that_old_versions_saved_are_no_weights() -> None:
    assert to_open_clip({"text_model.embeddings.position_ids": torch.arange(3)}) == {}


@pytest.mark.parametrize(
    "name", ["visual.transformer.resblocks.0.ls_1.gamma", "visual.attn_pool.probe", "cls_emb"]
)
def test_a_tensor_of_another_encoder_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnbagError, match=f"the tensor '{name}' has no name in the other library"):
        to_transformers({name: torch.zeros(1)})


@pytest.mark.parametrize(
    "name",
    [
        "text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight",
        "vision_model.head.probe",
        "text_model.encoder.layers.0.self_attn.q_proj.weight",
    ],
)
def test_a_tensor_that_is_not_of_clip_model_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnbagError, match="has no name in the other library") as raised:
        to_open_clip({name: torch.zeros(1)})
    assert "merge adapters (LoRA)" in raised.value.hint
