"""Captions become the numbers that the tokenizer itself gives, and are tokenized once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unbag.models.huggingface import inputs as hf_captions
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.inputs import Captions
from unbag.models.huggingface.loading import load

pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
LONG = "a red cube is left of a dog " * 20
CAPTIONS = ("a red cube", "a", LONG, "", "a dog eats a horse", "a")


def captions_of(folder: Path) -> Captions:
    found = load(str(folder))
    assert isinstance(found, HfDual)
    return found.captions


class Counting:
    """A tokenizer that notes what it is asked."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.pad_token_id = inner.pad_token_id
        self.asked: list[str] = []

    def __call__(self, captions: Any, **options: Any) -> Any:
        self.asked += [captions] if isinstance(captions, str) else captions
        return self.inner(captions, **options)


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("kind", ["clip", "metaclip_2", "siglip2", "align", "chinese_clip"])
def test_ids_and_mask_equal_the_tokenizer(kind: str, is_padded: bool, hf_folder: HfFolder) -> None:
    captions = captions_of(hf_folder(kind))
    captions = Captions(captions.tokenizer, captions.context, captions.vocabulary, is_padded, True)
    for some in (CAPTIONS, CAPTIONS[:2]):
        found = captions(some)
        expected = captions.tokenizer(
            list(some),
            truncation=True,
            max_length=captions.context,
            padding="max_length" if is_padded else "longest",
            return_attention_mask=True,
            return_tensors="pt",
        )
        assert list(found) == ["input_ids", "attention_mask"]
        for name, value in found.items():
            assert torch.equal(value, expected[name]), name


def test_each_caption_is_tokenized_once(hf_folder: HfFolder) -> None:
    captions = captions_of(hf_folder("clip"))
    counting = Counting(captions.tokenizer)
    captions = Captions(counting, 30, captions.vocabulary, False, True)
    counts = captions.count(CAPTIONS)
    assert sorted(counting.asked) == sorted(set(CAPTIONS))
    assert counts[1] == counts[5] == 3
    captions(CAPTIONS[:2])
    captions.padded()(CAPTIONS[:2])
    assert len(counting.asked) == len(set(CAPTIONS))
    # One that is too long is cut by the tokenizer, which knows what must stay.
    captions([LONG])
    assert counting.asked[-1] == LONG


def test_cache_is_limited(hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_captions, "_MAX_CACHED", 2)
    monkeypatch.setattr(hf_captions, "_TOKENIZER_BATCH", 2)
    captions = captions_of(hf_folder("clip"))
    expected = [len(captions.tokenizer(one)["input_ids"]) for one in CAPTIONS[:2]]
    assert captions.count(CAPTIONS)[:2] == expected
    assert captions.count(CAPTIONS[:2]) == expected
    assert set(captions.known) == set(CAPTIONS[:2])
    assert captions.count([]) == []
