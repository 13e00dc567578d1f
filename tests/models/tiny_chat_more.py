"""More families of tiny chat models: tiles, perceivers, prefix attention, encoder and decoder."""

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from .tiny_chat import CHATML, EYES, IDEFICS, SIDE, TEXT, tf, words


def internvl() -> tuple[Any, Any]:
    tokenizer = words(
        bos=False,
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )
    image = tf.GotOcr2ImageProcessor(size=SIDE, crop_to_patches=True, min_patches=1, max_patches=4)
    template = CHATML.replace("<|vision_start|><|image_pad|><|vision_end|>", "<IMG_CONTEXT>\n")
    processor = tf.InternVLProcessor(
        image, tokenizer, tf.InternVLVideoProcessor(), image_seq_length=4, chat_template=template
    )
    eyes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": [24, 24], "patch_size": [6, 6]}  # fmt: skip
    config = tf.InternVLConfig(
        vision_config=eyes, text_config=tf.Qwen2Config(**TEXT), image_seq_length=4,
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )  # fmt: skip
    return tf.InternVLForConditionalGeneration(config), processor


def paligemma() -> tuple[Any, Any]:
    tokenizer = words(bos=False, extra_special_tokens={"image_token": "<image>"})
    image = tf.SiglipImageProcessor(size=SIDE)
    image.image_seq_length = 16
    processor = tf.PaliGemmaProcessor(image, tokenizer)
    text = tf.GemmaConfig(**{**TEXT, "vocab_size": len(tokenizer)})
    config = tf.PaliGemmaConfig(
        vision_config=tf.SiglipVisionConfig(**EYES), text_config=text, projection_dim=32,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), hidden_size=32,
    )  # fmt: skip
    return tf.PaliGemmaForConditionalGeneration(config), processor


def idefics2() -> tuple[Any, Any]:
    tokenizer = words()
    image = tf.Idefics2ImageProcessor(
        size={"shortest_edge": 24, "longest_edge": 48}, do_image_splitting=False
    )
    processor = tf.Idefics2Processor(image, tokenizer, image_seq_len=4, chat_template=IDEFICS)
    eyes = {k: v for k, v in EYES.items() if k != "projection_dim"} | {"image_size": 48}
    config = tf.Idefics2Config(
        vision_config=eyes, text_config={**TEXT, "model_type": "mistral"},
        perceiver_config={"resampler_n_latents": 4, "resampler_depth": 1, "resampler_n_heads": 4,
                          "resampler_head_dim": 8, "num_key_value_heads": 2, "hidden_size": 32},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    return tf.Idefics2ForConditionalGeneration(config), processor


def _tiles(made: Any) -> Any:
    return made(size={"longest_edge": 48}, max_image_size={"longest_edge": 24})


def _third(model: Any, config: Any, processor: Any, tokenizer: Any) -> tuple[Any, Any]:
    eyes = {k: v for k, v in EYES.items() if k != "projection_dim"}
    made = config(
        vision_config=eyes, text_config={**TEXT, "model_type": "llama"}, scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    return model(made), processor


def idefics3() -> tuple[Any, Any]:
    tokenizer = words(bos=False)
    processor = tf.Idefics3Processor(
        _tiles(tf.Idefics3ImageProcessor), tokenizer, image_seq_len=4, chat_template=IDEFICS
    )
    return _third(tf.Idefics3ForConditionalGeneration, tf.Idefics3Config, processor, tokenizer)


def smolvlm() -> tuple[Any, Any]:
    tokenizer = words(bos=False)
    processor = tf.SmolVLMProcessor(
        _tiles(tf.SmolVLMImageProcessor), tokenizer, tf.SmolVLMVideoProcessor(),
        image_seq_len=4, chat_template=IDEFICS,
    )  # fmt: skip
    return _third(tf.SmolVLMForConditionalGeneration, tf.SmolVLMConfig, processor, tokenizer)


def _instructblip(text: Any) -> tuple[Any, Any]:
    tokenizer = words()
    named = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "is", "it", "red", "this", "figure"])}
    plain = Tokenizer(models.WordLevel(named, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    own = tf.BertTokenizerFast(tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]")
    image = tf.BlipImageProcessor(size=SIDE)
    processor = tf.InstructBlipProcessor(image, tokenizer, own, num_query_tokens=4)
    eyes = {k: v for k, v in EYES.items() if k != "projection_dim"}
    former = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 12,
              "num_attention_heads": 4, "encoder_hidden_size": 32,
              "initializer_range": 0.3}  # fmt: skip
    config = tf.InstructBlipConfig(
        vision_config=eyes, qformer_config=former, text_config=text, num_query_tokens=4,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    return tf.InstructBlipForConditionalGeneration(config), processor


def instructblip() -> tuple[Any, Any]:
    return _instructblip(tf.LlamaConfig(**TEXT))


def instructblip_t5() -> tuple[Any, Any]:
    return _instructblip(
        tf.T5Config(
            vocab_size=460, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
            initializer_factor=1.0, decoder_start_token_id=3, pad_token_id=3, eos_token_id=1,
        )
    )  # fmt: skip


MORE: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    "internvl": internvl,
    "paligemma": paligemma,
    "idefics2": idefics2,
    "idefics3": idefics3,
    "smolvlm": smolvlm,
    "instructblip": instructblip,
    "instructblip_t5": instructblip_t5,
}
