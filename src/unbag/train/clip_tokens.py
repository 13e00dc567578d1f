"""open_clip's byte pairs come in; a tokenizer of transformers goes out, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbag.models.open_clip.library import library

ROWS = 49_408
"""Of the vocabulary that OpenAI's CLIP and nearly all later ones have."""
ORDINARY = (
    "a red cube",
    "",
    "A Dog, eating the horse's hay!",
    "the horse eats the grass; the grass doesn't eat the horse",
    "two dogs, 3 cats & 1,000 birds (left of a 50% grey wall)",
    "café au lait, naïve, über, 日本 😀",
    "several   spaces\tand\nlines",
    "a small brown dog sleeps to the left of a large white cat " * 9,
)
"""Captions on which two tokenizers must give the same ids; the last is longer than any context."""
ODD = ("Tom &amp; Jerry", "“curly quotes”", "a ﬁne ligature", "schÃ¶n broken letters")
"""Texts that open_clip mends before it splits them and transformers does not."""
_SPECIAL = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}


def clip_tokenizer(context: int) -> Any:
    """CLIP's tokenizer for transformers, from the file that open_clip ships."""
    from transformers import CLIPTokenizer

    inner = library().tokenizer.SimpleTokenizer(context_length=context)
    ranks: Any = inner.bpe_ranks
    return CLIPTokenizer(
        vocab={_SPECIAL.get(piece, piece): number for piece, number in inner.encoder.items()},
        merges=sorted(ranks, key=ranks.__getitem__),
        model_max_length=context,
    )


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Every file that some version of transformers looks for."""
    tokenizer.save_pretrained(folder)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and type(tokenizer).__name__.startswith("CLIPTokenizer"):
        # Version 5 writes one file; version 4 without the fast tokenizers reads these two.
        backend.model.save(str(folder))


def differing(simple: Any, tokenizer: Any, captions: Sequence[str], *, context: int) -> list[str]:
    """Captions of which open_clip's tokenizer and one of transformers make other ids."""
    return [c for c in captions if _simple_ids(simple, c) != _ids(tokenizer, c, context)]


def simple_tokenizer(context: int) -> Any:
    """open_clip's own."""
    return library().tokenizer.SimpleTokenizer(context_length=context)


def _ids(tokenizer: Any, caption: str, context: int) -> list[int]:
    found: list[int] = tokenizer(caption, truncation=True, max_length=context)["input_ids"]
    return found


def _simple_ids(simple: Any, caption: str) -> list[int]:
    """Without the zeros after the end token, which is the largest id."""
    row = simple([caption])[0]
    ids: list[int] = row[: int(row.argmax()) + 1].tolist()
    return ids
