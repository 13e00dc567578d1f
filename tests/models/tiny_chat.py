"""Chat models of tiny size with random weights, real tokenizers, processors and chat templates."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

# Without its types, which follow every field of every configuration.
tf: Any = import_module("transformers")
CORPUS = [
    'Does this figure show "a red cube to the left of a blue ball"? Please answer yes or no.',
    "USER: Is the cup on or under the table? ASSISTANT: Yes No yes no Yes. No.",
    "Yes No A B C D left right on under front behind (a) Open (b) Closed Which caption fits?",
    "a photo of a dog, a cat and a horse in front of a house; answer with the letter only.",
] * 8
_IMAGE = "{% if c['type'] == 'image' %}MARK{% else %}{{ c['text'] }}{% endif %}"
_PARTS = "{% for c in m['content'] %}" + _IMAGE + "{% endfor %}"
VICUNA = (
    "{% for m in messages %}{% if m['role'] == 'user' %}USER: "
    + _PARTS.replace("MARK", "<image>\n")
    + " {% else %}ASSISTANT: {{ m['content'][0]['text'] }} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)  # fmt: skip
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    + _PARTS.replace("MARK", "<|vision_start|><|image_pad|><|vision_end|>")
    + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IDEFICS = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}:"
    "{% if m['content'][0]['type'] == 'text' %} {% endif %}" + _PARTS.replace("MARK", "<image>")
    + "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)  # fmt: skip
SPECIAL = [
    "<s>", "</s>", "<unk>", "<pad>", "<image>", "<|im_start|>", "<|im_end|>", "<|image_pad|>",
    "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<img>", "</img>", "<IMG_CONTEXT>",
    "<video>", "<end_of_utterance>", "<fake_token_around_image>", "<global-img>",
]  # fmt: skip


def words(*, vocabulary: int = 420, bos: bool = True, **named: Any) -> Any:
    """A byte-level BPE trained here; a small vocabulary splits "Yes" into several tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(CORPUS, trainer)
    if bos:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
        )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        **named,
    )


TEXT = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 460, "max_position_embeddings": 512,
    "initializer_range": 0.3, "tie_word_embeddings": False, "head_dim": 8,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 3,
}  # fmt: skip
EYES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 24, "patch_size": 6, "initializer_range": 0.3, "projection_dim": 32,
}  # fmt: skip
SIDE = {"height": 24, "width": 24}


def _clip_eyes() -> Any:
    return tf.CLIPVisionConfig(**EYES)


def llava(template: str | None = VICUNA, **tokens: Any) -> tuple[Any, Any]:
    tokenizer = words(**tokens)
    image = tf.CLIPImageProcessor(size={"shortest_edge": 24}, crop_size=SIDE)
    processor = tf.LlavaProcessor(
        image, tokenizer, patch_size=6, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=template,
    )  # fmt: skip
    config = tf.LlavaConfig(
        vision_config=_clip_eyes(), text_config=tf.LlamaConfig(**TEXT),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    return tf.LlavaForConditionalGeneration(config), processor


def llava_next() -> tuple[Any, Any]:
    tokenizer = words()
    grid = [[24, 48], [48, 24], [48, 48]]
    image = tf.LlavaNextImageProcessor(
        size={"shortest_edge": 24}, crop_size=SIDE, image_grid_pinpoints=grid
    )
    processor = tf.LlavaNextProcessor(
        image, tokenizer, patch_size=6, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=VICUNA,
    )  # fmt: skip
    config = tf.LlavaNextConfig(
        vision_config=_clip_eyes(), text_config=tf.LlamaConfig(**TEXT), image_grid_pinpoints=grid,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    return tf.LlavaNextForConditionalGeneration(config), processor


def _qwen_parts(tokenizer: Any) -> dict[str, Any]:
    ids = tokenizer.convert_tokens_to_ids
    return {
        "image_token_id": ids("<|image_pad|>"),
        "video_token_id": ids("<|video_pad|>"),
        "vision_start_token_id": ids("<|vision_start|>"),
        "vision_end_token_id": ids("<|vision_end|>"),
    }


def _qwen_image(patch: int) -> Any:
    return tf.Qwen2VLImageProcessor(
        patch_size=patch, merge_size=2, min_pixels=16 * patch * patch, max_pixels=64 * patch * patch
    )


_ROPE = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}


def qwen2_vl() -> tuple[Any, Any]:
    tokenizer = words(bos=False)
    processor = tf.Qwen2VLProcessor(
        _qwen_image(6), tokenizer, tf.Qwen2VLVideoProcessor(), chat_template=CHATML
    )
    eyes = {"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 4, "mlp_ratio": 2,
            "patch_size": 6, "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
    text = {**TEXT, "rope_parameters": _ROPE}
    config = tf.Qwen2VLConfig(vision_config=eyes, text_config=text, **_qwen_parts(tokenizer))
    return tf.Qwen2VLForConditionalGeneration(config), processor


def qwen2_5_vl() -> tuple[Any, Any]:
    tokenizer = words(bos=False)
    processor = tf.Qwen2_5_VLProcessor(
        _qwen_image(6), tokenizer, tf.Qwen2VLVideoProcessor(), chat_template=CHATML
    )
    eyes = {"hidden_size": 32, "out_hidden_size": 32, "depth": 2, "num_heads": 4,
            "intermediate_size": 64, "patch_size": 6, "spatial_merge_size": 2, "window_size": 24,
            "fullatt_block_indexes": [1], "temporal_patch_size": 2}  # fmt: skip
    text = {**TEXT, "rope_parameters": _ROPE}
    config = tf.Qwen2_5_VLConfig(vision_config=eyes, text_config=text, **_qwen_parts(tokenizer))
    return tf.Qwen2_5_VLForConditionalGeneration(config), processor


def qwen3_vl() -> tuple[Any, Any]:
    tokenizer = words(bos=False)
    processor = tf.Qwen3VLProcessor(
        _qwen_image(6), tokenizer, tf.Qwen3VLVideoProcessor(), chat_template=CHATML
    )
    eyes = {"hidden_size": 32, "out_hidden_size": 32, "depth": 2, "num_heads": 4,
            "intermediate_size": 64, "patch_size": 6, "spatial_merge_size": 2,
            "temporal_patch_size": 2, "deepstack_visual_indexes": [0],
            "num_position_embeddings": 16}  # fmt: skip
    text = {**TEXT, "rope_parameters": {**_ROPE, "mrope_interleaved": True}}
    config = tf.Qwen3VLConfig(vision_config=eyes, text_config=text, **_qwen_parts(tokenizer))
    return tf.Qwen3VLForConditionalGeneration(config), processor


FAMILIES: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    "llava": llava,
    "llava_next": llava_next,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
}


def save(made: tuple[Any, Any], folder: Path) -> Path:
    """As a user has it on disk."""
    model, processor = made
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
