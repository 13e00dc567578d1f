"""Tokens of CLIP: those of open_clip for any text, with counts before cutting."""

from __future__ import annotations

from functools import cache

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unbag.models.open_clip.library import library
from unbag.models.open_clip.text import ClipTokenizer, Tokenizer, load_tokenizer

ASCII = st.text(st.characters(max_codepoint=127), max_size=60)


@cache
def both() -> tuple[Tokenizer, object]:
    return load_tokenizer("ViT-B-32", "ViT-B-32"), library().get_tokenizer("ViT-B-32")


@settings(max_examples=200, deadline=None)
@given(caption=st.one_of(ASCII, st.text(max_size=40)))
@example(caption="A dog's bowl -- isn't it?  THE END...")
@example(caption="'stop' they'll say ''s")
@example(caption="&lt;b&gt; caf\u00e9 \u201cquoted\u201d \u00e2\u20ac\u2122")
@example(caption="<end_of_text> a <start_of_text>")
@example(caption="1920x1080 @#$% !!! ~")
@example(caption="a\tb\nc\x1b[31mred")
def test_tokens_equal_open_clip(caption: str) -> None:
    ours, plain = both()
    token_NL, real_NL = ours([caption])
    assert callable(plain)
    assert torch.equal(token_NL, plain([caption]))
    assert int(real_NL.sum()) == min(77, ours.count([caption])[0])


def test_long_caption_keeps_its_end_token() -> None:
    ours, plain = both()
    text = "red dog " * 60
    assert callable(plain)
    assert torch.equal(ours([text])[0], plain([text]))
    assert ours.count([text]) == [122]
    assert ours([text])[1].all()
    assert isinstance(ours, ClipTokenizer)
    assert int(ours([text])[0][0, -1]) == ours.end == 49407
