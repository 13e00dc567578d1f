"""The fixed set of prompts of each protocol by which chat models are asked.

Published tables often show the best of several prompts, chosen on the test itself. Here every
protocol has a fixed set, written before any model was run: all of them are reported, and the one
that is closest to what was published is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unbag.errors import UnbagError, unknown_name

PUBLISHED = "published"


@dataclass(frozen=True)
class Prompt:
    """One way to ask. Marks such as {text} are replaced as they stand, so braces do no harm."""

    name: str
    caption: str
    """Where only a caption is at hand: {text} is the caption, {options} all of them."""
    question: str
    """Where the item has a question: {question}, and {text} or {options} for its answers."""

    @property
    def is_published(self) -> bool:
        """The one whose numbers can stand beside published ones."""
        return self.name == PUBLISHED


def chosen(prompts: Sequence[Prompt], asked: str = "all") -> list[Prompt]:
    """All of them, the published one, or one by name."""
    names = [prompt.name for prompt in prompts]
    if len(set(names)) != len(names) or PUBLISHED not in names:
        raise UnbagError(
            f"prompts named {', '.join(names)}",
            expected=f"each name once, and one of them {PUBLISHED!r}",
        )
    if asked == "all":
        return sorted(prompts, key=lambda prompt: not prompt.is_published)
    if asked not in names:
        raise unknown_name("prompt", asked, ["all", *names])
    return [prompt for prompt in prompts if prompt.name == asked]


def filled(template: str, **marks: str) -> str:
    """The template with its marks replaced, each once and none inside another's text."""
    parts = [template]
    for mark, text in marks.items():
        found: list[str] = []
        for at, part in enumerate(parts):
            pieces = part.split("{" + mark + "}") if at % 2 == 0 else [part]
            for number, piece in enumerate(pieces):
                found += [text, piece] if number else [piece]
        parts = found
    return "".join(parts)


YES = (
    Prompt(
        PUBLISHED,
        'Does this figure show "{text}"? Please answer yes or no.',
        '{question} Is the answer "{text}"? Please answer yes or no.',
    ),
    Prompt(
        "true-of",
        'Is "{text}" true of this picture? Answer yes or no.',
        'Question: {question} Proposed answer: "{text}". Is it right? Answer yes or no.',
    ),
    Prompt(
        "describes",
        'Does the sentence "{text}" describe this picture correctly? Answer with yes or no only.',
        'The question is: {question} Would "{text}" be correct? Answer with yes or no only.',
    ),
    Prompt(
        "look-first",
        'Look closely at the picture. Caption: "{text}". Does the caption fit? Yes or no?',
        'Look closely at the picture. {question} Somebody says "{text}". Yes or no?',
    ),
)
LETTERS = (
    Prompt(
        PUBLISHED,
        "Which caption fits the picture?\n{options}\n"
        "Answer with the option's letter from the given choices directly.",
        "{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
    ),
    Prompt(
        "letter-only",
        "Only one of these sentences is true of the picture.\n{options}\n"
        "Reply with its letter and nothing else.",
        "{question}\n{options}\nReply with the letter of the right answer and nothing else.",
    ),
    Prompt(
        "options-first",
        "Options:\n{options}\nWhich option describes the picture? Give the letter.",
        "Options:\n{options}\n{question} Give the letter.",
    ),
)
OPTIONS = (
    Prompt(PUBLISHED, "Describe the picture in one sentence.", "{question} {options}"),
    Prompt("caption", "Write a short caption for this picture.", "{question}\n{options}\nAnswer:"),
    Prompt("what", "What does the picture show?", "Choose one. {question} {options}"),
)
ANSWER = (
    Prompt(PUBLISHED, "{question}", "{question}"),
    Prompt("short", "{question} Reply in as few words as possible.",
           "{question} Reply in as few words as possible."),
    Prompt("look-first", "Look closely at the picture, then answer. {question}",
           "Look closely at the picture, then answer. {question}"),
)  # fmt: skip
PROMPTS: Mapping[str, tuple[Prompt, ...]] = MappingProxyType(
    {"yes": YES, "letters": LETTERS, "options": OPTIONS, "answer": ANSWER}
)
"""Every protocol and its prompts."""
