"""Hard positives that a chat model wrote: a synonym, or the parts around "and" exchanged.

The prompts are ours. Answers are cleaned, then pass filters of their own, one for each reason, so
that a summary shows the errors of the chat model.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from unbag.edits.filters import Differs, Filter, KeepsLength, Proposal
from unbag.edits.generated.batches import by_length, padded
from unbag.edits.kinds import Changes, Draw, EditParts, Kind, difference, normalised
from unbag.edits.parsed import Parsed
from unbag.edits.truth_filter import KeepsTruth
from unbag.errors import UnbagError
from unbag.models import server
from unbag.models.huggingface.loading import read_language_model
from unbag.models.loading import choose_device
from unbag.models.server import (
    CHECK_AFTER,
    GarbageError,
    RefusedError,
    Reply,
    Request,
    ServerClient,
    UnansweredError,
)

CUT = " …"
"""Marks an answer that was cut at the maximum number of tokens."""
REFUSED, UNANSWERED, TOO_LONG = "\ue000", "\ue001", "\ue002"
"""Placeholders for missing answers: the server refused the prompt, gave no reply, or the prompt is
too long for the model. Private characters that no text has."""
PROBE = "Answer with one word: yes."
"""Sent after prompts without an answer, to check that the server answers at all."""
REPLACE_PROMPT = """\
Replace exactly one word of the following caption by a synonym, so that the caption still says the \
same about the image. Leave all other words, their order and the punctuation as they are. Do not \
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
"""Maximum number of tokens of an answer."""
SWAP_WORDS = 15
"""Captions to exchange must have fewer words."""
REPLACE_WORDS = 24
"""Captions to replace a word in must have fewer words; longer answers would be cut."""
LEAST_OVERLAP = 0.5
"""Minimum share of common words of caption and rewrite, relative to the longer text."""
_LABEL = re.compile(r"[A-Z][A-Za-z ]{0,30}:\s*")
_MARKS = re.compile(r"\*+|__+|`+|~~+|(?<!\w)_|_(?!\w)")
_LEAD = re.compile(r"(?:(?:#{1,6}|[-+•>]|\d{1,2}[.)])\s+)+")
"""Markdown: emphasis and code; headings, quotations and list items."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}
_STOPS = ".!"
_CHATTER = re.compile(
    r"""
    \b(?:i(?:['’]m|\ am)?\ (?:sorry|afraid|cannot|can['’]?t|can\ not|unable|apologi[sz]e|have|will|
        would|think|hope|replaced|changed|understand|do\ not|don['’]t)|
    as\ an?\ (?:ai|language|assistant)|language\ model|
    (?:here(?:['’]s|\ is|\ are)\ (?:the|a|an|your|my|one|another)\b|here\ you\ go)|
    sure[,!.]|certainly[,!.]|of\ course[,!.]|okay[,!.]|no\ problem|
    (?:the|this|your|original|new|rewritten|revised|following|given)\ (?:sentence|caption|text|
        word|phrase)|
    synonym|paraphras|rewrit|rephras|revised|let\ me\ know|note\ that|please|hope\ this|
    in\ this\ (?:case|version)|instruction)
    """,
    re.I | re.X,
)
_MARKDOWN = "*_`#~|<>[]{}\\→"
_SENTENCE_END = re.compile(r"[.!?]+(?=\s+\S)")
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class PassesTest:
    """A filter that passes proposals for which a test on caption and rewrite holds."""

    reason: str
    test: Callable[[Parsed, str], bool]

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Test each proposal."""
        return [self.test(p.caption, p.edit.text) for p in proposals]


def is_something(caption: Parsed, text: str) -> bool:
    """Whether the text has any letter."""
    return any(letter.isalpha() for letter in text)


def is_whole(caption: Parsed, text: str) -> bool:
    """Whether the text was not cut."""
    return not text.endswith(CUT)


def is_no_chatter(caption: Parsed, text: str) -> bool:
    """Whether the text adds no refusal and no remark about the task."""
    in_caption = {match.group().lower() for match in _CHATTER.finditer(caption.text)}
    return all(match.group().lower() in in_caption for match in _CHATTER.finditer(text))


def is_plain(caption: Parsed, text: str) -> bool:
    """Whether the text adds no Markdown and no arrows."""
    return all(text.count(mark) <= caption.text.count(mark) for mark in _MARKDOWN)


def is_one_piece(caption: Parsed, text: str) -> bool:
    """Whether the text is one line with no more sentences and labels than the caption."""
    if "\n" in text or text.count(":") > caption.text.count(":"):
        return False
    return len(_SENTENCE_END.findall(text)) <= len(_SENTENCE_END.findall(caption.text))


def overlaps(caption: Parsed, text: str) -> bool:
    """Whether the text shares enough words with the caption."""
    before, after = Counter(normalised(caption.text).split()), Counter(normalised(text).split())
    longer = max(before.total(), after.total())
    return (before & after).total() >= LEAST_OVERLAP * longer


def is_exchange(caption: Parsed, text: str) -> bool:
    """Whether exactly the two sides of an "and" were exchanged."""
    words_of_text = [_plain(match.group()) for match in _WORD.finditer(text)]
    return any(exchange == words_of_text for exchange in _exchanges(caption))


def _exchanges(caption: Parsed) -> Iterator[list[str]]:
    """All exchanges around an "and", as lists of words.

    The joined words by the parser change sides: in "a man in a hat and a woman" that is the man,
    never the hat alone.
    """
    matches = list(_WORD.finditer(caption.text))
    words = [_plain(match.group()) for match in matches]
    starts = [match.start() for match in matches]
    for and_at, joining in enumerate(caption.words):
        if joining.dep != "cc" or joining.text.lower() != "and":
            continue
        joined = (c for c in caption.children[joining.head] if caption.words[c].dep == "conj")
        second = next((c for c in joined if c > and_at), None)
        if second is None:
            continue
        middle, left_head, right_head = (
            bisect(starts, caption.words[i].start) - 1 for i in (and_at, joining.head, second)
        )
        for first, last in product(range(left_head + 1), range(right_head, len(words))):
            left, right = words[first:middle], words[middle + 1 : last + 1]
            yield [*words[:first], *right, "and", *left, *words[last + 1 :]]


def _plain(word: str) -> str:
    return "a" if word.lower() == "an" else word.lower()


REPLACE_FILTERS: tuple[Filter, ...] = (
    PassesTest("the server refused the caption", lambda caption, text: text != REFUSED),
    PassesTest("no answer from the server", lambda caption, text: text != UNANSWERED),
    PassesTest("too long for the chat model", lambda caption, text: text != TOO_LONG),
    PassesTest("empty answer", is_something),
    PassesTest("answer cut off", is_whole),
    PassesTest("refusal or chatter", is_no_chatter),
    PassesTest("Markdown", is_plain),
    PassesTest("more than a sentence", is_one_piece),
    Differs(),
    KeepsLength(),
    PassesTest("overlap", overlaps),
    KeepsTruth(),
)
SWAP_FILTERS: tuple[Filter, ...] = (
    *REPLACE_FILTERS,
    PassesTest("no exchange around and", is_exchange),
)


@dataclass(frozen=True, eq=False)
class Rewriter:
    """Sends suitable captions of a batch to the chat model."""

    writer: Writer
    prompt: str
    longest: int
    fits: Callable[[Parsed], bool]

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """Return one proposal per suitable caption: the model is deterministic."""
        suitable = [i for i, caption in enumerate(captions) if self.fits(caption)]
        prompts = [self.prompt.format(caption=captions[i].text) for i in suitable]
        answers = self.writer(prompts, longest=self.longest) if prompts else []
        proposals: list[Sequence[Changes]] = [()] * len(captions)
        for i, answer in zip(suitable, answers, strict=True):
            text = captions[i].text
            proposals[i] = [difference(text, clean_answer(answer, text))]
        return proposals


def fits_replace(caption: Parsed) -> bool:
    """Whether the caption is short enough for the answer."""
    return len(caption.text.split()) < REPLACE_WORDS


def fits_swap(caption: Parsed) -> bool:
    """Whether the caption is short and has an "and"."""
    return "and" in caption.lower and len(caption.text.split()) < SWAP_WORDS


def clean_answer(answer: str, caption: str) -> str:
    """The answer without label and quotes, with capitalization and final stop like the caption.

    Otherwise capitals and stops would distinguish rewrites from originals.
    """
    text = answer.strip()
    # Remove Markdown, unless the caption has such marks itself.
    if not caption.startswith("* "):
        text = text.removeprefix("* ")
    if not _MARKS.search(caption):
        text = _MARKS.sub("", text).strip()
    text = _without_lead(text, caption)
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


def _without_lead(text: str, caption: str) -> str:
    lead = _LEAD.match(text)
    return text if lead is None or _LEAD.match(caption) else text[lead.end() :]


class Writer(Protocol):
    """A chat model: prompts to answers."""

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """Answer each prompt greedily with at most `longest` tokens.

        Prompts without an answer give REFUSED, UNANSWERED or TOO_LONG.
        """


@lru_cache(maxsize=1)
def load_writer(parts: EditParts) -> Writer:
    """Load the chat model once for all kinds."""
    kind, _, rest = parts.rewrite.partition(":")
    if kind == "server":
        cache = Path(parts.cache) if parts.cache else None
        loaded = server.load(rest, concurrency=parts.concurrency, budget=parts.budget, cache=cache)
        return ServerWriter(loaded.model, loaded.client)
    if kind == "hf" and rest:
        return _load_local(rest, choose_device(parts.device))
    raise UnbagError(
        f"rewriting needs a chat model, and {parts.rewrite!r} names none",
        expected="hf:FOLDER (or a .gguf file) for one on disk, or server:MODEL@URL",
        hint="name it with --rewrite, or leave the kinds rewrite_replace and rewrite_swap out",
    )


REWRITE_REPLACE = Kind(
    name="rewrite_replace",
    is_positive=True,
    about="a chat model replaces a word by a synonym: a boat on the sea -> a ship on the sea",
    source="Hard Positives",
    editor=lambda parts: Rewriter(load_writer(parts), REPLACE_PROMPT, REPLACE_TOKENS, fits_replace),
    is_default=False,
    filters=REPLACE_FILTERS,
)
REWRITE_SWAP = Kind(
    name="rewrite_swap",
    is_positive=True,
    about='a chat model exchanges what "and" joins: a cup and a plate -> a plate and a cup',
    source="Hard Positives",
    editor=lambda parts: Rewriter(load_writer(parts), SWAP_PROMPT, SWAP_TOKENS, fits_swap),
    is_default=False,
    filters=SWAP_FILTERS,
)


@dataclass(frozen=True, eq=False)
class LocalWriter:
    """A causal language model of transformers with a chat template."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    """Tokens that end an answer."""

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """Answer prompts; equal ones only once."""
        tokens = {prompt: self._tokens(prompt) for prompt in dict.fromkeys(prompts)}
        needed = {prompt: len(ids) + longest for prompt, ids in tokens.items()}
        context = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        fitting = [prompt for prompt in tokens if needed[prompt] <= context]
        if not fitting and len(tokens) >= CHECK_AFTER:
            raise UnbagError(
                f"a prompt with its answer has {min(needed.values())} tokens or more, and the chat "
                f"model reads {context}",
                expected="a chat model with a context of about a thousand tokens",
                hint="take another one",
            )
        answers = by_length(
            {prompt: tokens[prompt] for prompt in fitting},
            lambda batch: self._answer(batch, longest),
        )
        return [answers.get(prompt, TOO_LONG) for prompt in prompts]

    def _tokens(self, prompt: str) -> list[int]:
        messages = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        # The template already contains the first token.
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def _answer(self, batch: Sequence[list[int]], longest: int) -> list[str]:
        import torch
        import transformers

        # Answers continue at the right end, so padding is on the left.
        token_NL, mask_NL = padded(batch, self.ends[0], side="left")
        config: Any = transformers.GenerationConfig
        # A new configuration: that of the checkpoint may sample or penalize repetition.
        greedy = config(
            max_new_tokens=longest,
            do_sample=False,
            eos_token_id=list(self.ends),
            pad_token_id=self.ends[0],
        )
        with torch.inference_mode():
            answer_NL = self.model.generate(
                token_NL.to(self.model.device),
                attention_mask=mask_NL.to(self.model.device),
                generation_config=greedy,
            )
        answers: list[list[int]] = answer_NL[:, token_NL.shape[1] :].tolist()
        return [self._text(tokens) for tokens in answers]

    def _text(self, tokens: list[int]) -> str:
        end = next((i for i, token in enumerate(tokens) if token in self.ends), None)
        text = str(self.tokenizer.decode(tokens[:end], skip_special_tokens=True)).strip()
        return text if end is not None else text + CUT


def _load_local(path: str, device: str) -> LocalWriter:
    model, tokenizer = read_language_model(path, device=device)
    if not getattr(tokenizer, "chat_template", None):
        raise UnbagError(
            f"{path} has no chat template",
            expected="a language model that was trained to follow instructions",
            hint="take the instruction-tuned version of this model",
        )
    eos = getattr(model.generation_config, "eos_token_id", None)
    ends = [eos] if isinstance(eos, int) else list(eos or ())
    ends += [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    if not ends:
        raise UnbagError(
            f"the tokenizer of {path} has no token that ends an answer",
            expected="an eos token",
            hint="take another chat model",
        )
    return LocalWriter(model, tokenizer, tuple(dict.fromkeys(ends)))


@dataclass(frozen=True, eq=False)
class ServerWriter:
    """A chat model behind an OpenAI-compatible server, with cached replies."""

    model: str
    """The name of the model on the server."""
    client: ServerClient

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """Send several requests at a time; equal prompts only once."""
        requests = [self._request(prompt, longest) for prompt in prompts]
        probe = self._request(PROBE, longest)
        replies = self.client.ask_each(requests, check=_check, probe=probe)
        failed = [reply for reply in replies if isinstance(reply, UnansweredError)]
        if len(failed) == len(replies) >= CHECK_AFTER:
            raise failed[0]
        return [_answer(reply) for reply in replies]

    def _request(self, prompt: str, longest: int) -> Request:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "seed": 0,
            "max_tokens": longest,
        }


def _answer(reply: Reply | UnansweredError) -> str:
    if isinstance(reply, UnansweredError):
        return REFUSED if isinstance(reply, RefusedError) else UNANSWERED
    choice = reply["choices"][0]
    text = str(choice["message"]["content"] or "").strip()
    return text + CUT if choice.get("finish_reason") == "length" else text


def _check(reply: Reply) -> None:
    """Check that a reply has an answer, possibly an empty one."""
    try:
        _answer(reply)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise GarbageError(f"{type(error).__name__} {error}"[:200]) from error
