"""VQAScore with the image shared between its captions, against one pair a pass, in one run.

python perf/vqascore.py [--device cuda] [--dtype bfloat16] [--size large]

A LLaVA-shaped model with random weights: a CLIP encoder with 576 patches and a Llama. Tokens after
the image are those of real prompts; the tokenizer is trained here on a few captions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from unbag.data import PixelImage
from unbag.models.huggingface.chat import ChatModel, load_chat
from unbag.scorers import make_scorer
from unbag.types import Query

tf: Any = import_module("transformers")
TARGET = {2: 1.6, 5: 3.0}
WORDS = "a red blue large small dog cat cup table bench to the left right of on under in front"
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}USER: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %} "
    "{% else %}ASSISTANT: {{ m['content'][0]['text'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """Widths and depths of encoder and language model."""

    eyes: int
    eye_layers: int
    words: int
    word_layers: int


SIZES = {"small": Size(256, 4, 384, 6), "large": Size(1024, 23, 2048, 16)}


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<s>", "</s>", "<pad>", "<image>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    prompt = 'USER: Does this figure show "{}"? Please answer yes or no. ASSISTANT: Yes No'
    made.train_from_iterator([prompt.replace("{}", WORDS)] * 4, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def write(folder: Path, size: Size) -> Path:
    words = tokenizer()
    eyes = tf.CLIPVisionConfig(
        hidden_size=size.eyes, intermediate_size=4 * size.eyes, num_hidden_layers=size.eye_layers,
        num_attention_heads=size.eyes // 64, image_size=336, patch_size=14,
    )  # fmt: skip
    text = tf.LlamaConfig(
        hidden_size=size.words, intermediate_size=11 * size.words // 4, vocab_size=32000,
        num_hidden_layers=size.word_layers, num_attention_heads=size.words // 64,
        num_key_value_heads=size.words // 64, max_position_embeddings=2048,
    )  # fmt: skip
    config = tf.LlavaConfig(
        vision_config=eyes, text_config=text,
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    torch.manual_seed(0)
    tf.LlavaForConditionalGeneration(config).save_pretrained(folder)
    image = tf.CLIPImageProcessor(
        size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}
    )
    tf.LlavaProcessor(
        image, words, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def queries(images: int, captions: int) -> list[Query]:
    rng = np.random.default_rng(0)
    words = WORDS.split()
    return [
        Query(image, " ".join(rng.choice(words, size=12)))
        for image in (
            PixelImage(rng.integers(0, 255, (240, 320, 3), dtype=np.uint8)) for _ in range(images)
        )
        for _ in range(captions)
    ]


def timed(score: Callable[[], Any], *, device: str) -> tuple[float, Any]:
    start = perf_counter()
    scores = np.asarray(score())
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return perf_counter() - start, scores


def compare(model: ChatModel, captions: int, images: int, rounds: int) -> None:
    pairs = queries(images, captions)
    shared = make_scorer(model, "yes")
    apart = make_scorer(replace(model, runner=replace(model.runner, is_shared=False)), "yes")
    ways: dict[str, Callable[[], Any]] = {
        "one pair a pass": lambda: [float(np.asarray(apart.score([q]))[0]) for q in pairs],
        "pairs in batches": lambda: apart.score(pairs),
        "image shared": lambda: shared.score(pairs),
    }
    # Libraries are loaded and memory is taken before anything is timed.
    shared.score(pairs[: 2 * captions])
    apart.score(pairs[:2])
    best: dict[str, tuple[float, Any]] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds, scores = timed(way, device=model.device)
            if name not in best or seconds < best[name][0]:
                best[name] = (seconds, scores)
    first, plain = best["one pair a pass"]
    print(f"\n{images} images, {captions} captions each")
    for name, (seconds, scores) in best.items():
        apart_by = np.abs(scores - plain).max() / np.abs(plain).max()
        target = f" (target: {TARGET[captions]:g})" if name == "image shared" else ""
        print(
            f"{name:<18}{len(pairs) / seconds:9.1f} pairs/s  {first / seconds:5.2f} times{target}"
            f"  largest difference {apart_by:.0e} of the largest score"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--images", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    tf.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
        path = write(Path(folder) / "llava", SIZES[arguments.size])
        model = load_chat(str(path), device=arguments.device, dtype=arguments.dtype)
    print(f"LLaVA-shaped, {arguments.size}, 576 patches, {arguments.device}, {arguments.dtype}")
    for captions in (2, 5):
        compare(model, captions, arguments.images, arguments.rounds)


if __name__ == "__main__":
    main()
