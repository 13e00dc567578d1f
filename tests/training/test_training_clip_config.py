"""Configs and image preparation of a CLIP in both libraries, and every reason not to convert."""

from typing import Any

import pytest

from unbag.training.export.clip import (
    NoOtherFormError,
    to_open_clip_config,
    to_preparation,
    to_processor,
    to_transformers_config,
)

from .export_models import open_clip_config

pytest.importorskip("open_clip")
tf: Any = pytest.importorskip("transformers")
PREPARED = {
    "size": (224, 224), "mode": "RGB", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4),
    "interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0,
}  # fmt: skip


def clip_config(**more: Any) -> Any:
    both = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3}
    eyes = both | {"intermediate_size": 48, "image_size": 64, "patch_size": 16}
    text = both | {"intermediate_size": 128, "max_position_embeddings": 20, "vocab_size": 90}
    return tf.CLIPConfig(
        vision_config=eyes | more.get("vision", {}),
        text_config=text | more.get("text", {}),
        projection_dim=8,
    )


def test_a_config_of_open_clip_for_transformers() -> None:
    config = open_clip_config(
        vision={"mlp_ratio": 1.5, "norm_kwargs": {"eps": 1e-6}, "patch_dropout": 0.5},
        quick_gelu=True,
    )
    found = to_transformers_config(config, end=49407)
    assert found["projection_dim"] == 24
    assert found["vision_config"] == {
        "hidden_act": "quick_gelu", "projection_dim": 24, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "layer_norm_eps": 1e-6,
        "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    assert found["text_config"] == {
        "hidden_act": "quick_gelu", "projection_dim": 24, "hidden_size": 16,
        "intermediate_size": 64, "num_hidden_layers": 2, "layer_norm_eps": 1e-5,
        "num_attention_heads": 2, "max_position_embeddings": 77, "vocab_size": 49408,
        "bos_token_id": 49406, "eos_token_id": 49407, "pad_token_id": 49407,
    }  # fmt: skip


def test_a_config_of_transformers_for_open_clip() -> None:
    config = clip_config(vision={"layer_norm_eps": 1e-6})
    found = to_open_clip_config(config, end=88, largest=89)
    assert found == {
        "embed_dim": 8,
        "quick_gelu": True,
        "vision_cfg": {"layers": 3, "width": 32, "mlp_ratio": 1.5, "head_width": 16,
                       "image_size": 64, "patch_size": 16, "norm_kwargs": {"eps": 1e-6}},
        "text_cfg": {"layers": 3, "width": 32, "mlp_ratio": 4.0, "heads": 2,
                     "context_length": 20, "vocab_size": 90, "pool_type": "eos", "eos_id": 88},
    }  # fmt: skip
    assert "pool_type" not in to_open_clip_config(config, end=89, largest=89)["text_cfg"]


@pytest.mark.parametrize(
    ("config", "why"),
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
def test_what_transformers_has_not_is_named(config: dict[str, Any], why: str) -> None:
    with pytest.raises(NoOtherFormError) as raised:
        to_transformers_config(open_clip_config(**config), end=49407)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"text": {"hidden_act": "gelu"}}, "its activation is gelu and quick_gelu"),
        ({"text": {"hidden_act": "relu"}, "vision": {"hidden_act": "relu"}},
         "its activation is relu"),
        ({"vision": {"image_size": [32, 64]}}, "its image_size is [32, 64], not square"),
    ],
)  # fmt: skip
def test_what_open_clip_has_not_is_named(more: dict[str, Any], why: str) -> None:
    with pytest.raises(NoOtherFormError) as raised:
        to_open_clip_config(clip_config(**more), end=89, largest=89)
    assert str(raised.value) == why


@pytest.mark.parametrize("how", ["shortest", "squash"])
@pytest.mark.parametrize("filter_name", ["bicubic", "bilinear"])
def test_preparation_comes_back_from_transformers(how: str, filter_name: str) -> None:
    said = PREPARED | {"resize_mode": how, "interpolation": filter_name}
    processor = tf.CLIPImageProcessor(**to_processor(said))
    assert to_preparation(processor, side=224) == {
        "size": 224, "mode": "RGB", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4],
        "interpolation": filter_name, "resize_mode": how,
    }  # fmt: skip


@pytest.mark.parametrize(
    "more", [{"resize_mode": "longest"}, {"interpolation": "random"}, {"size": (224, 448)}]
)
def test_preparation_that_transformers_has_not_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(NoOtherFormError, match=r"transformers has not|not square"):
        to_processor(PREPARED | more)


@pytest.mark.parametrize(
    "more",
    [
        {"do_normalize": False},
        {"rescale_factor": 1 / 127.5},
        {"size": {"shortest_edge": 256}},
        {"do_center_crop": False},
        {"resample": 0},
    ],
)
def test_preparation_that_open_clip_has_not_is_refused(more: dict[str, Any]) -> None:
    processor = tf.CLIPImageProcessor(**({"size": {"shortest_edge": 224}} | more))
    with pytest.raises(NoOtherFormError, match=r"open_clip has not|in way 0 of PIL"):
        to_preparation(processor, side=224)
