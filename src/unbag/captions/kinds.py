"""What a kind of edit is: its name, whether it keeps the meaning, and the editor that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from unbag.captions.parsed import Parsed
from unbag.errors import UserError, unknown_name
from unbag.registry import find, names
from unbag.types import Change

if TYPE_CHECKING:
    from unbag.captions.filters import Filter

Changes: TypeAlias = tuple[Change, ...]
Draw: TypeAlias = Callable[[], Random]
"""Randomness of one caption and kind, made when it is wanted: most captions need none."""
Rule: TypeAlias = Callable[[Parsed], Sequence[Changes]]
"""All edits of one kind that a caption allows, in a fixed order; empty where there is none."""


class Editor(Protocol):
    """Proposes edits of one kind for many captions at once."""

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> Sequence[Sequence[Changes]]:
        """For each caption the changes to try, the first first; none where there is no place.

        Every caption has randomness of its own, which depends on seed, caption and kind only.
        """


@dataclass(frozen=True)
class Parts:
    """Names of what some kinds and filters need. Plain data: each worker loads its own."""

    pipeline: str = "auto"
    """A spaCy pipeline by name or folder."""
    wordnet: str = "auto"
    """A folder with WordNet in NLTK's format."""
    fill: str = ""
    """A language model for fills: a masked or a causal one of transformers, folder or name."""
    rewrite: str = ""
    """A chat model: hf:FOLDER or server:MODEL@URL."""
    device: str = "auto"
    cache: str = ""
    """Folder in which answers of a server are kept; without one they are lost with the process."""
    concurrency: int = 8
    """Requests to a server at a time."""
    budget: int | None = None
    """Most requests to a server, for each worker; answers that are kept cost none."""


@dataclass(frozen=True)
class Kind:
    """A kind of edit, as `--kinds` names it."""

    name: str
    keeps_meaning: bool
    """A hard positive; otherwise a hard negative."""
    about: str
    """One line, with an example."""
    source: str
    """The paper or project whose idea it is, or "ours"."""
    editor: Callable[[Parts], Editor]
    keeps_words: bool = False
    """A swap: the words stay the same (articles and verb agreement aside), their places change."""
    is_default: bool = True
    """Whether it is made when no kinds are named: off where it was judged too often wrong."""
    filters: tuple[Filter, ...] = ()
    """Filters that only its edits go through, before all others."""
    is_published: bool = False
    """A paper's rule as it was published: filters that ask whether a negative is false leave its
    edits alone."""

    @property
    def promises_false(self) -> bool:
        """Whether its edits are to be false of the picture, and are checked for that."""
        return not self.keeps_meaning and not self.is_published


@dataclass(frozen=True)
class ByRule:
    """An editor made of a rule: one that needs the parsed caption and nothing else."""

    rule: Rule

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """All the rule allows, in a drawn order."""
        return [self._drawn(caption, draw) for caption, draw in zip(captions, draws, strict=True)]

    def _drawn(self, caption: Parsed, draw: Draw) -> Sequence[Changes]:
        found = list(self.rule(caption))
        if len(found) > 1:
            draw().shuffle(found)
        return found


def by_rule(rule: Rule) -> Callable[[Parts], Editor]:
    """What a kind without further parts has as its editor."""
    return _Ruled(ByRule(rule))


@dataclass(frozen=True)
class _Ruled:
    editor: Editor

    def __call__(self, parts: Parts) -> Editor:
        return self.editor


GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "neg_clip": ("neg_clip_swap",),
        "neg_clip_fixed": (
            "swap_nouns",
            "swap_adjectives",
            "swap_verbs",
            "swap_adverbs",
            "swap_phrases",
            "swap_words",
        ),
        "svlc_fixed": (
            "replace_colour",
            "replace_material",
            "replace_size",
            "replace_state",
            "replace_action",
        ),
        "crepe_fixed": (
            "replace_noun",
            "replace_attribute",
            "replace_relation",
            "swap_attributes",
            "swap_arguments",
            "negate",
        ),
        "spatial": ("left_right", "above_below", "front_behind", "inside_outside", "near_far"),
        "ce_clip_fixed": ("swap_nouns", "fill_attribute", "fill_object", "fill_action"),
        "fills": ("fill_attribute", "fill_object", "fill_action", "fill_relation"),
        "rewrites": ("rewrite_replace", "rewrite_swap"),
    }
)
"""Names for several kinds; besides these: default, negatives, positives and all. A paper's name
alone means its published rule; `_fixed` are our checked kinds of the same types."""


def find_kinds(wanted: Sequence[str]) -> tuple[Kind, ...]:
    """Kinds by name, by group, or as package.module:NAME; each once. A plain text is one name.

    Groups: default, negatives and positives (those on by default), all, and those of GROUPS.
    """
    if not wanted:
        raise UserError(
            "no kinds of edits were named",
            expected="at least one, or a group such as default",
            way_out="`unbag list edits` shows every kind",
        )
    found: dict[str, Kind] = {}
    # A text is a sequence of texts too, its letters.
    for name in (wanted,) if isinstance(wanted, str) else wanted:
        for kind in _kinds_of(name):
            found.setdefault(kind.name, kind)
    return tuple(found.values())


def _kinds_of(name: str) -> list[Kind]:
    registered = list(names("edit"))
    if name in GROUPS:
        return [_kind(one) for one in GROUPS[name]]
    if name in ("default", "negatives", "positives", "all"):
        every = [_kind(one) for one in registered]
        if name == "all":
            return every
        every = [kind for kind in every if kind.is_default]
        wanted = {"default": (True, False), "positives": (True,), "negatives": (False,)}[name]
        return [kind for kind in every if kind.keeps_meaning in wanted]
    if ":" not in name and name not in registered:
        groups = ("default", "negatives", "positives", "all", *GROUPS)
        raise unknown_name(
            "kind of edit",
            name,
            [*registered, *groups],
            way_out="`unbag list edits` shows every kind; package.module:NAME works too",
        )
    return [_kind(name)]


def _kind(name: str) -> Kind:
    found = find("edit", name)
    if not isinstance(found, Kind):
        raise UserError(
            f"the edit {name!r} is a {type(found).__name__}",
            expected="a Kind of unbag.captions.kinds",
            way_out="docs/edits.md shows how to add one",
        )
    return found
