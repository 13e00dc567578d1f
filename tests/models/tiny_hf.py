"""Real architectures of transformers at tiny sizes with random weights, saved to disk.

Configurations, tokenizers and image processors are those of the released models, only smaller.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

WORDS = ("a", "red", "blue", "cube", "ball", "left", "of", "is", "and", "dog", "horse", "eats")
SIDE = 32
TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2}  # fmt: skip
EYES = {**TEXT, "image_size": SIDE, "patch_size": 8}
Parts = tuple[Any, Any, Any]
"""Model, tokenizer and image processor."""


def save(kind: str, folder: Path) -> None:
    """A model of this kind, with tokenizer and image processor, as `save_pretrained` does it."""
    import torch

    logging = _tf().utils.logging
    # A shard is written with a bar, which is not under test.
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model, tokenizer, processor = _MAKE[kind]()
        # Released weights are far from zero; so are these, for differences to be seen.
        for name, value in model.named_parameters():
            if value.ndim > 1 or "bias" in name:
                torch.nn.init.normal_(value, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    logging.enable_progress_bar()


def _tf() -> Any:
    """Late, so that tests without such a model do not wait for it; untyped, as much of it is."""
    return import_module("transformers")


def _characters() -> list[str]:
    return sorted({c for word in WORDS for c in word} | set("0123456789xyz.,"))


def _clip_words() -> Any:
    pieces = [c + end for c in _characters() for end in ("", "</w>")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    vocabulary |= {"re": len(vocabulary), "red</w>": len(vocabulary) + 1}
    vocabulary |= {"<|startoftext|>": len(vocabulary)}
    vocabulary |= {"<|endoftext|>": len(vocabulary)}
    merges = [("r", "e"), ("re", "d</w>")]
    return _tf().CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=30)


def _bert_words(**options: Any) -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *WORDS, *_characters(), *[f"##{c}" for c in _characters()]]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    return _tf().BertTokenizer(vocab=vocabulary, **options)


def _roberta_words() -> Any:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *[f"▁{w}" for w in WORDS], "▁", *_characters()]
    vocabulary = [(piece, -float(i)) for i, piece in enumerate(dict.fromkeys(pieces))]
    return _tf().XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)], model_max_length=77)


def _gemma_words() -> Any:
    """As SigLIP 2 has it: no start token, an end token, no mask, padding on the right."""
    from tokenizers import processors

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *_characters()]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    words = _tf().GemmaTokenizer(
        vocab=vocabulary, merges=[], padding_side="right", model_input_names=["input_ids"]
    )
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[("<eos>", 1)]
    )
    return words


def _pixels(name: str, **options: Any) -> Any:
    side = {"height": SIDE, "width": SIDE}
    return getattr(_tf(), name)(**({"size": side, "crop_size": side} | options))


def _clip(end: int | None = None) -> Parts:
    words = _clip_words()
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 30}
    ends = {"eos_token_id": words.eos_token_id if end is None else end, "bos_token_id": 1}
    config = _tf().CLIPConfig(text_config=text | ends, vision_config=EYES, projection_dim=12)
    pixels = _pixels("CLIPImageProcessor", size={"shortest_edge": SIDE})
    return _tf().CLIPModel(config), words, pixels


def _metaclip() -> Parts:
    words = _roberta_words()
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 77, "eos_token_id": 2}
    config = _tf().MetaClip2Config(text_config=text, vision_config=EYES, projection_dim=12)
    return _tf().MetaClip2Model(config), words, _pixels("CLIPImageProcessor")


def _siglip() -> Parts:
    words = _gemma_words()
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 64, "projection_size": 16}
    config = _tf().SiglipConfig(text_config=text, vision_config=EYES)
    return _tf().SiglipModel(config), words, _pixels("SiglipImageProcessor")


def _siglip2() -> Parts:
    words = _gemma_words()
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 64, "projection_size": 16}
    eyes = TEXT | {"patch_size": 8, "num_patches": 16}
    config = _tf().Siglip2Config(text_config=text, vision_config=eyes)
    pixels = _tf().Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    return _tf().Siglip2Model(config), words, pixels


def _align() -> Parts:
    words = _bert_words(model_max_length=100)
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 100}
    eyes = {
        "image_size": SIDE, "kernel_sizes": [3, 3], "in_channels": [32, 16],
        "out_channels": [16, 16], "hidden_dim": 16, "strides": [1, 2], "num_block_repeats": [1, 1],
        "expand_ratios": [1, 2], "depthwise_padding": [], "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
    }  # fmt: skip
    config = _tf().AlignConfig(text_config=text, vision_config=eyes, projection_dim=16)
    return _tf().AlignModel(config), words, _pixels("EfficientNetImageProcessor")


def _bert_clip(name: str, words: Any, **more: Any) -> Parts:
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 77,
                   "pad_token_id": words.pad_token_id} | more  # fmt: skip
    config = getattr(_tf(), f"{name}Config")(
        text_config=text, vision_config=EYES, projection_dim=12
    )
    return getattr(_tf(), f"{name}Model")(config), words, _pixels("CLIPImageProcessor")


def _vision_text() -> Parts:
    words = _bert_words()
    text = _tf().BertConfig(**TEXT, vocab_size=len(words), max_position_embeddings=40)
    eyes = _tf().CLIPVisionConfig(**EYES)
    both = _tf().VisionTextDualEncoderConfig
    config = both.from_vision_text_configs(eyes, text, projection_dim=12)
    return _tf().VisionTextDualEncoderModel(config), words, _pixels("CLIPImageProcessor")


def _blip() -> Parts:
    words = _bert_words()
    text = TEXT | {"vocab_size": len(words), "max_position_embeddings": 40,
                   "encoder_hidden_size": 16, "pad_token_id": 0, "bos_token_id": 2,
                   "sep_token_id": 3}  # fmt: skip
    config = _tf().BlipConfig(text_config=text, vision_config=EYES, image_text_hidden_size=12)
    return _tf().BlipForImageTextRetrieval(config), words, _pixels("BlipImageProcessor")


def _blip2() -> Parts:
    words = _bert_words()
    reader = TEXT | {"vocab_size": len(words), "max_position_embeddings": 40,
                     "encoder_hidden_size": 16, "use_qformer_text_input": True}  # fmt: skip
    config = _tf().Blip2Config(
        qformer_config=reader, vision_config=EYES, num_query_tokens=4, image_text_hidden_size=12
    )
    return _tf().Blip2ForImageTextRetrieval(config), words, _pixels("BlipImageProcessor")


def _sentence() -> Parts:
    words = _bert_words()
    config = _tf().BertConfig(**TEXT, vocab_size=len(words), max_position_embeddings=40)
    return _tf().BertModel(config), words, None


_MAKE: dict[str, Callable[[], Parts]] = {
    "clip": _clip,
    "clip-legacy": lambda: _clip(2),
    "metaclip_2": _metaclip,
    "siglip": _siglip,
    "siglip2": _siglip2,
    "align": _align,
    "chinese_clip": lambda: _bert_clip("ChineseCLIP", _bert_words()),
    "altclip": lambda: _bert_clip("AltCLIP", _roberta_words(), project_dim=16),
    "vision-text-dual-encoder": _vision_text,
    "blip": _blip,
    "blip-2": _blip2,
    "sentence": _sentence,
}
