"""A small frozen encoder, images, facts about them, and decoders on top, made in milliseconds."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from unbag.data import PixelImage
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.readouts.decoder.lessons import DecoderFact, DecoderSettings
from unbag.readouts.decoder.model import PatchDecoder, image_tokens, patch_decoder, view_of
from unbag.readouts.decoder.saving import decoder_fingerprint
from unbag.readouts.decoder.training import DecoderData, PreparedTraining, prepare_training

# Without its types, which follow every field of every configuration.
tf: Any = import_module("transformers")
SMALL = DecoderSettings(
    width=32, depth=2, heads=2, batch_size=16, steps=4, warmup_steps=1, context=64
)
COLOURS, SHAPES = ("red", "green", "blue", "gray"), ("star", "moon", "ring", "cube")


def encoder(seed: int = 0) -> Tiny:
    """Four patches of 16 numbers."""
    config = TinyConfig(
        pixels=16, patch=8, picture_width=16, picture_depth=2, caption_width=16, caption_depth=1,
        joint=8, heads=2, words=(*COLOURS, *SHAPES, "a", "left", "right", "of"),
    )  # fmt: skip
    return Tiny(untrained(config, seed=seed), name="small")


def images(count: int) -> list[PixelImage]:
    """Of noise, each another."""
    rng = np.random.default_rng(1)
    return [PixelImage(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)) for _ in range(count)]


def facts(count: int) -> tuple[DecoderFact, ...]:
    """Two things an image: the negatives exchange colours, or the relation."""
    rng = np.random.default_rng(2)
    found = []
    for n in range(count):
        a, b = (COLOURS[i] for i in rng.permutation(4)[:2])
        c, d = (SHAPES[i] for i in rng.permutation(4)[:2])
        said = f"a {a} {c} left of a {b} {d}"
        found.append(
            DecoderFact(n, said, (f"a {b} {c} left of a {a} {d}", said.replace("left", "right")))
        )
    return tuple(found)


def material(settings: DecoderSettings, count: int = 20, *, of: Tiny | None = None) -> DecoderData:
    """Features of noise by the small encoder."""
    own = of or encoder()
    pixels = torch.stack([own.prepare(one.open()) for one in images(count)])
    seen_NLV = image_tokens(view_of(settings).encode_images(own, pixels), settings)
    return DecoderData(seen_NLV, facts(count), count, "noise", "noise-1")


def begun(settings: DecoderSettings = SMALL, count: int = 20, *, seed: int = 0) -> PreparedTraining:
    """Before the first step."""
    return prepare_training(material(settings, count), settings, seed=seed)


def decoder(settings: DecoderSettings = SMALL, *, of: Tiny | None = None) -> PatchDecoder:
    """Untrained, ready to be asked."""
    own, made = of or encoder(), begun(settings).made
    return patch_decoder(own, made, name="decoder", fingerprint=decoder_fingerprint(made, own))


def language_folder(folder: Path, *, ends: bool = True, context: int = 128) -> Path:
    """A language model as transformers saves it: random Llama, byte-level tokenizer."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["</s>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(_CORPUS, trainer)
    named = {"eos_token": "</s>"} if ends else {}
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=made, **named)
    tokenizer.save_pretrained(folder)
    config = tf.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=context, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    tf.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


_CORPUS: Sequence[str] = (
    'USER: Does this figure show "a red star left of a blue moon"? Please answer yes or no. '
    "ASSISTANT: Yes No A B Describe the picture in one sentence.",
) * 4
