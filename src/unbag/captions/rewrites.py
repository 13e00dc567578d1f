"""Parsed captions come in; captions that a chat model said anew go out: hard positives.

The prompts are ours. What the model answers is tidied, then goes through filters of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unbag.captions.changes import difference
from unbag.captions.filters_rewrite import EXCHANGED, REPLACED
from unbag.captions.kinds import Changes, Draw, Editor, Kind, Parts
from unbag.captions.parsed import Parsed
from unbag.captions.rewrite_models import Writer, load_writer

REPLACE_PROMPT = """\
Replace exactly one word of the following caption by a synonym, so that the caption still says the \
same about the picture. Leave all other words, their order and the punctuation as they are. Do not \
explain anything. Answer with the changed caption only.

{caption}"""

SWAP_PROMPT = """\
Each sentence below has two parts joined by "and". Exchange the two parts, so that what stood \
after "and" stands before it, and change nothing else: the meaning stays the same. Answer with the \
sentence only.

Sentence: A red cup and a green plate are on the table.
Answer: A green plate and a red cup are on the table.

Sentence: two goats and an old farmer by a gate
Answer: an old farmer and two goats by a gate

Sentence: A child is sitting and drawing.
Answer: A child is drawing and sitting.

Sentence: The wall is tall and grey.
Answer: The wall is grey and tall.

Sentence: A lamp stands on a desk with pens and a small clock.
Answer: A lamp stands on a desk with a small clock and pens.

Sentence: {caption}
Answer:"""

REPLACE_TOKENS, SWAP_TOKENS = 30, 20
"""Longest answers."""
SWAP_WORDS = 15
"""Captions for exchanging have fewer words."""
REPLACE_WORDS = 24
"""Captions for replacing have fewer words: of longer ones the answer would be cut."""
_LABEL = re.compile(r"[A-Z][A-Za-z ]{0,30}:\s*")
_MARKS = re.compile(r"\*+|__+|`+|~~+|(?<!\w)_|_(?!\w)")
_LEAD = re.compile(r"(?:(?:#{1,6}|[-+•>]|\d{1,2}[.)])\s+)+")
"""Of Markdown: emphasis and code; a heading, a quotation or an entry of a list."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}
_STOPS = ".!"


@dataclass(frozen=True, eq=False)
class Rewriter:
    """Asks for captions that fit, all of a batch together."""

    writer: Writer
    prompt: str
    longest: int
    fits: Callable[[Parsed], bool]

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """One proposal for each caption that fits: the model always answers the same."""
        at = [i for i, caption in enumerate(captions) if self.fits(caption)]
        prompts = [self.prompt.format(caption=captions[i].text) for i in at]
        answers = self.writer(prompts, longest=self.longest) if prompts else []
        found: list[Sequence[Changes]] = [()] * len(captions)
        for i, answer in zip(at, answers, strict=True):
            text = captions[i].text
            found[i] = [difference(text, tidied(answer, text))]
        return found


def tidied(answer: str, caption: str) -> str:
    """The answer without label and quotes, with the first capital and last stop of the caption.

    Capitals and stops that only rewritten captions have would tell them from others.
    """
    text = _without_marks(answer, caption)
    first, newline, rest = text.partition("\n")
    if newline and first.rstrip().endswith(":") and rest.strip():
        text = _without_lead(rest.strip(), caption)
    label = _LABEL.match(text)
    if label and ":" not in caption:
        text = _without_lead(text[label.end() :], caption)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] != caption[:1]:
        text = text[1:-1].strip()
    if caption[-1:] not in _STOPS:
        text = text.rstrip(_STOPS)
    elif text and text[-1].isalnum():
        text += caption[-1]
    first = text.partition(" ")[0]
    is_plain = first[1:] == first[1:].lower() and first not in ("I", "")
    if is_plain and caption[:1].isupper() != text[:1].isupper():
        text = text[0].swapcase() + text[1:]
    return text


def _without_marks(answer: str, caption: str) -> str:
    """Without Markdown, unless the caption has such marks itself."""
    text = answer.strip()
    if not caption.startswith("* "):
        text = text.removeprefix("* ")
    if not _MARKS.search(caption):
        text = _MARKS.sub("", text).strip()
    return _without_lead(text, caption)


def _without_lead(text: str, caption: str) -> str:
    lead = _LEAD.match(text)
    return text if lead is None or _LEAD.match(caption) else text[lead.end() :]


def fits_replace(caption: Parsed) -> bool:
    """Not too long for the answer."""
    return len(caption.text.split()) < REPLACE_WORDS


def fits_swap(caption: Parsed) -> bool:
    """Something is joined by "and", and the caption is short."""
    return "and" in caption.lower and len(caption.text.split()) < SWAP_WORDS


def _replacing(parts: Parts) -> Editor:
    return Rewriter(load_writer(parts), REPLACE_PROMPT, REPLACE_TOKENS, fits_replace)


def _swapping(parts: Parts) -> Editor:
    return Rewriter(load_writer(parts), SWAP_PROMPT, SWAP_TOKENS, fits_swap)


REWRITE_REPLACE = Kind(
    name="rewrite_replace",
    keeps_meaning=True,
    about="a chat model replaces a word by a synonym: a boat on the sea -> a ship on the sea",
    source="Hard Positives",
    editor=_replacing,
    is_default=False,
    filters=REPLACED,
)
REWRITE_SWAP = Kind(
    name="rewrite_swap",
    keeps_meaning=True,
    about='a chat model exchanges what "and" joins: a cup and a plate -> a plate and a cup',
    source="Hard Positives",
    editor=_swapping,
    is_default=False,
    filters=EXCHANGED,
)
