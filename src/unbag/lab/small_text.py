"""A folder comes in; a text model of random weights that knows the world's words goes out in it.

It stands for MiniLM in small runs, which show that the code runs and need no download.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbag.models.huggingface.loading import quietly
from unbag.models.weights import seeded
from unbag.world.grammar import words as words_of_world

_UNKNOWN = "[UNK]"
_CONTEXT = 32


def write_small_text(folder: Path, *, seed: int = 0) -> Path:
    """An encoder of one layer with a tokenizer of words, as transformers saves them."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    library: Any = transformers
    known = {word: at for at, word in enumerate((_UNKNOWN, *words_of_world()))}
    words = Tokenizer(models.WordLevel(known, unk_token=_UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    config = library.BertConfig(
        vocab_size=len(known),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=_CONTEXT,
    )
    with quietly(), seeded(seed):
        library.PreTrainedTokenizerFast(
            tokenizer_object=words, model_max_length=_CONTEXT, pad_token=_UNKNOWN
        ).save_pretrained(folder)
        library.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
