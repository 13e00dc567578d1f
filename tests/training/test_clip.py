"""Conversion of CLIP between open_clip and transformers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.training.export.clip import (
    NoOtherFormError,
    to_open_clip,
    to_open_clip_config,
    to_preparation,
    to_processor,
    to_transformers,
    to_transformers_config,
)

from .export_models import open_clip_config, scatter

open_clip: Any = pytest.importorskip("open_clip.model")
tf: Any = pytest.importorskip("transformers")
PREPARED = {
    "size": (224, 224), "mode": "RGB", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4),
    "interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0,
}  # fmt: skip


def clip_config(**more: Any) -> Any:
    both = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3}
    vision = both | {"intermediate_size": 48, "image_size": 64, "patch_size": 16}
    text = both | {"intermediate_size": 128, "max_position_embeddings": 20, "vocab_size": 90}
    return tf.CLIPConfig(
        vision_config=vision | more.get("vision", {}),
        text_config=text | more.get("text", {}),
        projection_dim=8,
    )


def test_a_config_of_open_clip_for_transformers() -> None:
    config = open_clip_config(
        vision={"mlp_ratio": 1.5, "norm_kwargs": {"eps": 1e-6}, "patch_dropout": 0.5},
        quick_gelu=True,
    )
    converted = to_transformers_config(config, end=49407)
    assert converted["projection_dim"] == 24
    assert converted["vision_config"] == {
        "hidden_act": "quick_gelu", "projection_dim": 24, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "layer_norm_eps": 1e-6,
        "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    assert converted["text_config"] == {
        "hidden_act": "quick_gelu", "projection_dim": 24, "hidden_size": 16,
        "intermediate_size": 64, "num_hidden_layers": 2, "layer_norm_eps": 1e-5,
        "num_attention_heads": 2, "max_position_embeddings": 77, "vocab_size": 49408,
        "bos_token_id": 49406, "eos_token_id": 49407, "pad_token_id": 49407,
    }  # fmt: skip


def test_a_config_of_transformers_for_open_clip() -> None:
    config = clip_config(vision={"layer_norm_eps": 1e-6})
    converted = to_open_clip_config(config, end=88, largest=89)
    assert converted == {
        "embed_dim": 8,
        "quick_gelu": True,
        "vision_cfg": {"layers": 3, "width": 32, "mlp_ratio": 1.5, "head_width": 16,
                       "image_size": 64, "patch_size": 16, "norm_kwargs": {"eps": 1e-6}},
        "text_cfg": {"layers": 3, "width": 32, "mlp_ratio": 4.0, "heads": 2,
                     "context_length": 20, "vocab_size": 90, "pool_type": "eos", "eos_id": 88},
    }  # fmt: skip
    assert "pool_type" not in to_open_clip_config(config, end=89, largest=89)["text_cfg"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"multimodal_cfg": {}}, "it is a CoCa, with a decoder"),
        ({"vision": {"layers": [1, 1, 1, 1]}}, "its image encoder is a ResNet"),
        ({"vision": {"timm_model_name": "vit"}}, "its image encoder is of timm (vit)"),
        ({"text": {"hf_model_name": "roberta"}}, "its text encoder is of another kind (roberta)"),
        ({"vision": {"pool_type": "avg"}}, "its image encoder has pool_type 'avg'"),
        ({"vision": {"ls_init_value": 0.1}}, "its image encoder has ls_init_value 0.1"),
        ({"vision": {"no_ln_pre": True}}, "its image encoder has no_ln_pre True"),
        ({"vision": {"attentional_pool": True}}, "its image encoder has attentional_pool True"),
        ({"vision": {"qk_norm": True}}, "its image encoder has qk_norm True"),
        ({"vision": {"image_size": [32, 64]}}, "its image_size is [32, 64], not square"),
        ({"vision": {"norm_kwargs": {"bias": False}}},
         "its image encoder has norm_kwargs {'bias': False}"),
        ({"text": {"pool_type": "last"}}, "its text encoder has pool_type 'last'"),
        ({"text": {"no_causal_mask": True}}, "its text encoder has no_causal_mask True"),
        ({"text": {"proj_bias": True}}, "its text encoder has proj_bias True"),
        ({"text": {"embed_cls": True}}, "its text encoder has embed_cls True"),
        ({"text": {"act_kwargs": {"approximate": "tanh"}}},
         "its text encoder has act_kwargs {'approximate': 'tanh'}"),
        ({"new_option": 3}, "its config has new_option"),
    ],
)  # fmt: skip
def test_configs_that_transformers_does_not_support(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoOtherFormError) as caught:
        to_transformers_config(open_clip_config(**config), end=49407)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"text": {"hidden_act": "gelu"}}, "its activation is gelu and quick_gelu"),
        ({"text": {"hidden_act": "relu"}, "vision": {"hidden_act": "relu"}},
         "its activation is relu"),
        ({"vision": {"image_size": [32, 64]}}, "its image_size is [32, 64], not square"),
    ],
)  # fmt: skip
def test_configs_that_open_clip_does_not_support(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoOtherFormError) as caught:
        to_open_clip_config(clip_config(**config), end=89, largest=89)
    assert str(caught.value) == reason


@pytest.mark.parametrize("resize_mode", ["shortest", "squash"])
@pytest.mark.parametrize("filter_name", ["bicubic", "bilinear"])
def test_preparation_comes_back_from_transformers(resize_mode: str, filter_name: str) -> None:
    preparation = PREPARED | {"resize_mode": resize_mode, "interpolation": filter_name}
    processor = tf.CLIPImageProcessor(**to_processor(preparation))
    assert to_preparation(processor, side=224) == {
        "size": 224, "mode": "RGB", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4],
        "interpolation": filter_name, "resize_mode": resize_mode,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"resize_mode": "longest"}, r"by transformers \(longest, bicubic\)"),
        ({"interpolation": "random"}, r"by transformers \(shortest, random\)"),
        ({"size": (224, 448)}, r"its size is \[224, 448\], not square"),
    ],
)
def test_preparation_that_transformers_does_not_support(changes: Any, reason: str) -> None:
    with pytest.raises(NoOtherFormError, match=reason):
        to_processor(PREPARED | changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"do_normalize": False}, "not supported by open_clip"),
        ({"rescale_factor": 1 / 127.5}, "not supported by open_clip"),
        ({"size": {"shortest_edge": 256}}, "not supported by open_clip"),
        ({"do_center_crop": False}, "not supported by open_clip"),
        ({"resample": 0}, "PIL's filter 0"),
    ],
)
def test_preparation_that_open_clip_does_not_support(changes: Any, reason: str) -> None:
    processor = tf.CLIPImageProcessor(**({"size": {"shortest_edge": 224}} | changes))
    with pytest.raises(NoOtherFormError, match=reason):
        to_preparation(processor, side=224)


def state_of(*, custom: bool = False, **more: Any) -> dict[str, Tensor]:
    kind = open_clip.CustomTextCLIP if custom else open_clip.CLIP
    small = {"vocab_size": 40, "context_length": 9}
    model = kind(**open_clip_config(text=small, **more))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    scatter(state)
    return state


def test_query_key_and_value_are_thirds_in_this_order() -> None:
    fused = torch.arange(18.0).reshape(6, 3)
    converted = to_transformers({"transformer.resblocks.1.attn.in_proj_weight": fused})
    start = "text_model.encoder.layers.1.self_attn"
    assert converted[f"{start}.q_proj.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert converted[f"{start}.k_proj.weight"].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert converted[f"{start}.v_proj.weight"].tolist() == [[12, 13, 14], [15, 16, 17]]
    assert len(converted) == 3


def test_projections_are_turned_and_the_rest_is_only_renamed() -> None:
    converted = to_transformers(
        {
            "visual.proj": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
            "visual.ln_pre.bias": torch.tensor([7.0]),
            "logit_scale": torch.tensor([2.5]),
        }
    )
    assert converted["visual_projection.weight"].tolist() == [[1, 3, 5], [2, 4, 6]]
    assert converted["vision_model.pre_layrnorm.bias"].tolist() == [7]
    assert converted["logit_scale"].shape == ()


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


def test_a_bias_only_in_open_clip_and_positions_of_old_versions() -> None:
    bias = {"logit_bias": torch.tensor(-10.0)}
    assert to_transformers(bias) == {}
    assert to_open_clip(bias) == bias
    assert to_open_clip({"text_model.embeddings.position_ids": torch.arange(3)}) == {}


@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (to_transformers, "visual.transformer.resblocks.0.ls_1.gamma"),
        (to_transformers, "visual.attn_pool.probe"),
        (to_transformers, "cls_emb"),
        (to_open_clip, "text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight"),
        (to_open_clip, "vision_model.head.probe"),
        # Without the keys and values of the same layer.
        (to_open_clip, "text_model.encoder.layers.0.self_attn.q_proj.weight"),
    ],
)
def test_a_tensor_of_another_model_is_refused_by_name(convert: Any, name: str) -> None:
    with pytest.raises(UnbagError, match=f"'{name}' has no name in the other library") as caught:
        convert({name: torch.zeros(1)})
    assert "merge adapters (LoRA)" in caught.value.hint
