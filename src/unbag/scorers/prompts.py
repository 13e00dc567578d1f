"""The prompts of each chat-model protocol.

Published tables often show the best of several prompts, chosen on the test set itself. Here each
protocol has a fixed set that was written before any model was run. All of them are reported, and
the one closest to the published prompt is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unbag.errors import UnbagError, unknown_name

PUBLISHED = "published"


@dataclass(frozen=True)
class Prompt:
    """One wording. Placeholders such as {text} are replaced literally, so braces are safe."""

    name: str
    caption: str
    """For items without a question: {text} is the caption, {options} all captions."""
    question: str
    """For items with a question: {question}, and {text} or {options} for its answers."""

    @property
    def is_published(self) -> bool:
        """Return whether its results can be compared with published ones."""
        return self.name == PUBLISHED


def choose_prompts(prompts: Sequence[Prompt], choice: str = "all") -> list[Prompt]:
    """Return all prompts, the published one first, or the one with a name."""
    names = [prompt.name for prompt in prompts]
    if len(set(names)) != len(names) or PUBLISHED not in names:
        raise UnbagError(
            f"prompts named {', '.join(names)}",
            expected=f"each name once, and one of them {PUBLISHED!r}",
        )
    if choice == "all":
        return sorted(prompts, key=lambda prompt: not prompt.is_published)
    if choice not in names:
        raise unknown_name("prompt", choice, ["all", *names])
    return [prompt for prompt in prompts if prompt.name == choice]


def filled(template: str, **values: str) -> str:
    """Replace the placeholders of a template, never inside the text of another one."""
    parts = [template]
    for placeholder, text in values.items():
        replaced: list[str] = []
        for i, part in enumerate(parts):
            pieces = part.split("{" + placeholder + "}") if i % 2 == 0 else [part]
            for j, piece in enumerate(pieces):
                replaced += [text, piece] if j else [piece]
        parts = replaced
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
"""Prompts by protocol."""
