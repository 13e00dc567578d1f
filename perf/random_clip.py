"""Create a ViT-B/32 with random weights, captions and images.

Speed does not depend on the weights. The model is saved and loaded as a user's would be. If
open_clip is not installed, CLIP of transformers is the same model.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import normalize

from unbag.data.images import _file_digest
from unbag.models.loading import Placement, choose_device, load_model
from unbag.types import DualEncoder

ARCH = "ViT-B-32-quickgelu"
CONTEXT = 77
COMMON = (
    "a man woman dog horse child bus table street kitchen beach field train bench cat girl boy "
    "red blue old small white wooden large wet standing sitting riding holding next to on in "
    "with behind under near of the and two three some people plate pizza umbrella ball sign "
    "grass water snow while looking eating wearing parked front window chair laptop phone"
)
WORDS = tuple(COMMON.split())
# Tokens of SugarCrepe's 11,844 captions, start and end included: 14.7 on average, 52 at most.
LENGTHS = (10, 11, 12, 13, 13, 13, 14, 14, 14, 14, 15, 15, 16, 16, 16, 17, 18, 20, 25)


def options(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--library", choices=("open_clip", "transformers"), default="open_clip")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--rounds", type=int, default=2, help="repetitions; the fastest counts")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: seconds of one thread, for a machine without a GPU that others use too",
    )
    return parser


def clock(arguments: argparse.Namespace) -> Callable[[], float]:
    """Return a clock of wall time or of processor time."""
    if arguments.clock == "wall":
        return perf_counter
    # Threads that wait for each other count as computing.
    torch.set_num_threads(1)
    return process_time


def make(arguments: argparse.Namespace, folder: Path) -> DualEncoder:
    """Save a random model and load it by name."""
    torch.manual_seed(0)
    spec = _open_clip(folder) if arguments.library == "open_clip" else _transformers(folder)
    placement = Placement(choose_device(arguments.device), arguments.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load_model(spec, placement=placement)
    assert isinstance(model, DualEncoder)
    return model


def _open_clip(folder: Path) -> str:
    from safetensors.torch import save_file

    from unbag.models.open_clip.checkpoint import build
    from unbag.models.open_clip.library import architecture

    state = build(architecture(ARCH), has_bias=False).state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "b32.safetensors")
    return f"open_clip:{ARCH}@{folder / 'b32.safetensors'}"


def _transformers(folder: Path) -> str:
    """CLIP with its original sizes and a tokenizer of our words, without a download."""
    import transformers as tf
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    start, end = len(WORDS), len(WORDS) + 1
    vocabulary = {**{w: i for i, w in enumerate(WORDS)}, "<start>": start, "<end>": end}
    words = Tokenizer(models.WordLevel({**vocabulary, "<unk>": end + 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", start), ("<end>", end)]
    )
    wrap: Any = tf.PreTrainedTokenizerFast
    wrap(
        tokenizer_object=words,
        bos_token="<start>",
        eos_token="<end>",
        pad_token="<end>",
        unk_token="<unk>",
        model_max_length=CONTEXT,
    ).save_pretrained(folder)
    config = tf.CLIPConfig(text_config={"eos_token_id": end, "bos_token_id": start})
    tf.CLIPModel(config).save_pretrained(folder)
    tf.CLIPImageProcessor().save_pretrained(folder)
    return f"hf:{folder}"


def captions(count: int, *, seed: int = 0) -> list[str]:
    """Different captions with the lengths of SugarCrepe's; a common word is one token."""
    chance = np.random.default_rng(seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        length = LENGTHS[len(texts) % len(LENGTHS)] - 2
        texts[" ".join(WORDS[i] for i in chance.integers(0, len(WORDS), length))] = None
    return list(texts)


def save_images(folder: Path, count: int) -> list[Path]:
    """JPEG files of COCO's size and about its weight, each different."""
    chance = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for n in range(count):
        coarse = Image.fromarray(chance.integers(0, 256, (60, 80, 3), dtype=np.uint8))
        image = coarse.resize((640, 480), Image.Resampling.BICUBIC)
        image.save(folder / f"{n}.jpg", quality=90)
        paths.append(folder / f"{n}.jpg")
    return paths


def forget(model: Any) -> None:
    """Clear the memory of tokenized captions and file hashes of earlier rounds."""
    if hasattr(model, "tokenize"):
        model.tokenize._split.cache_clear()
    else:
        model.captions.known.clear()
    _file_digest.cache_clear()


def tokens(model: Any, texts: Sequence[str], *, length: int | None = None) -> dict[str, Any]:
    """Inputs of the text encoder on the device, padded to `length`, or to the longest."""
    if hasattr(model, "tokenize"):
        inputs = {"text": model.tokenize.inner(list(texts))}
        return {name: value.to(model.device) for name, value in inputs.items()}
    inputs = model.captions.tokenizer(
        list(texts),
        padding="max_length" if length else "longest",
        max_length=length,
        truncation=bool(length),
        return_tensors="pt",
    )
    return dict(inputs.to(model.device))


@torch.inference_mode()
def encoder(model: Any, inputs: dict[str, Any], *, is_cut: bool = False) -> torch.Tensor:
    """The text encoder alone; the result stays on the device."""
    if hasattr(model, "tokenize"):
        run = model.text.pooled if is_cut else model.model.encode_text
        output = run(inputs["text"])
    else:
        output = model.model.get_text_features(**inputs)
        output = getattr(output, "pooler_output", output)
    vector_ND: torch.Tensor = output
    return vector_ND


def plain_captions(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """As in the library's examples: padded to 77 tokens."""
    vector_ND = encoder(model, tokens(model, texts, length=CONTEXT))
    return normalize(vector_ND.float(), dim=-1).cpu()


@cache
def _open_clip_transform(size: tuple[int, int]) -> Any:
    from unbag.models.open_clip.library import library

    return library().image_transform(size, is_train=False)


def plain_prepare(model: Any, image: Image.Image) -> torch.Tensor:
    """As in the library's examples: to float32 on the processor."""
    if hasattr(model, "tokenize"):
        prepared = _open_clip_transform(tuple(model.model.visual.image_size))(image)
    else:
        prepared = model.images.processor(images=image, return_tensors="pt")["pixel_values"][0]
    pixels: torch.Tensor = prepared
    return pixels


@torch.inference_mode()
def plain_images(model: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Forward pass of a batch wherever it lies; the result stays on the device."""
    dtype = next(model.model.parameters()).dtype
    pixels = pixels.to(device=model.device, dtype=dtype)
    if hasattr(model, "tokenize"):
        output = model.model.encode_image(pixels)
    else:
        output = model.model.get_image_features(pixel_values=pixels)
        output = getattr(output, "pooler_output", output)
    vector_ND: torch.Tensor = normalize(output.float(), dim=-1)
    return vector_ND
