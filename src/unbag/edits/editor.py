"""Edits captions: proposals of every kind, filters, and a tally of what was rejected.

Every kind proposes changes for all captions of a batch, then they go through the filters in rounds:
one proposal a caption and kind, and where it was rejected the next one in the next round. So
filters that run a model see batches. What comes out depends on seed, caption and kinds, never on
the batch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from random import Random

from unbag.edits.filters import ALWAYS, REPEATED, Filter, Proposal
from unbag.edits.kinds import (
    Changes,
    Editor,
    EditParts,
    Kind,
    apply,
    find_kinds,
    finished,
    normalised,
)
from unbag.edits.lexicon import word_lists
from unbag.edits.parsed import Parsed
from unbag.edits.parsing import Parser, find_parser
from unbag.errors import UnbagError
from unbag.types import Edit, Edited, Given

TRIES = 8
"""Proposals of one kind that are tried for one caption, for each edit that is wanted."""
MOST_WORDS = 80
"""Longer texts are articles, not captions; parsing them wrongly is the rule."""
MOST_LETTERS = 60
"""No English word in use has so many: such a run is an id, a key or a slip."""
_MARKUP = re.compile(r"</?[a-z][^>]*>|&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);", re.I)
_ADDRESS = re.compile(r"https?://|www\.", re.I)
_EDGES = ".,;:!?\"'()“”‘’"
_COMMON = word_lists("languages").words("english")
_FOREIGN = word_lists("languages").words("foreign")
_FOREIGN_OR_NAMES = word_lists("languages").words("foreign_or_names")


def edit(
    caption: str,
    kinds: Sequence[str] = ("default",),
    *,
    seed: int = 0,
    per_kind: int = 1,
    parts: EditParts | None = None,
) -> list[Edit]:
    """Edit one caption: hard negatives and hard positives of the kinds that are asked for.

    Parsers and word lists are loaded once and reused. For many captions `make_editor` is faster.

    Args:
        caption: An English caption of two to eighty words.
        kinds: Names or groups as in `list_edits`, one or several.
        seed: Seed of the choice among possible edits.
        per_kind: Largest number of edits of each kind.
        parts: The spaCy pipeline, and the language models of kinds that need one.

    Raises:
        UnbagError: The caption cannot be edited, such as an empty one.

    Examples:
        >>> import unbag as ub
        >>> [edit] = ub.edit("a red cube left of a blue ball", kinds=["left_right"], seed=0)
        >>> edit.text, edit.kind, edit.is_positive
        ('a red cube right of a blue ball', 'left_right', False)
    """
    if not isinstance(caption, str):
        raise UnbagError(
            f"the caption to edit is a {type(caption).__name__}",
            expected="one caption, as a text",
            hint="call it for each caption, or edit a file of many with `unbag edit --captions`",
        )
    kept = cached_editor(kinds if isinstance(kinds, str) else tuple(kinds), parts or EditParts())
    editor = replace(kept, seed=seed, per_kind=per_kind)
    [found], _ = editor([Given(caption, caption)])
    if found.skipped:
        raise UnbagError(
            f"the caption {caption[:80]!r} cannot be edited: {found.skipped}",
            expected="an English caption of two to eighty words",
        )
    return list(found.edits)


def make_editor(
    kinds: Sequence[str] = ("default",),
    *,
    parts: EditParts | None = None,
    filters: Sequence[Filter] = ALWAYS,
    seed: int = 0,
    per_kind: int = 1,
) -> CaptionEditor:
    """Load what the kinds need: a pipeline, and for some kinds WordNet or a language model."""
    parts = parts or EditParts()
    found = find_kinds(kinds)
    editors = tuple(kind.editor(parts) for kind in found)
    parser = find_parser(parts.pipeline)
    return CaptionEditor(parser, found, editors, tuple(filters), seed, per_kind)


@lru_cache(maxsize=4)
def cached_editor(kinds: str | tuple[str, ...], parts: EditParts) -> CaptionEditor:
    """The editor for calls of `edit` with these kinds and parts."""
    found = find_kinds(kinds)
    editors = tuple(kind.editor(parts) for kind in found)
    return CaptionEditor(cached_parser(parts.pipeline), found, editors)


@lru_cache(maxsize=1)
def cached_parser(pipeline: str) -> Parser:
    """The parser for calls of `edit`."""
    return find_parser(pipeline)


@dataclass(frozen=True, eq=False)
class CaptionEditor:
    """Everything that is loaded once: parser, an editor for each kind, filters."""

    parser: Parser
    kinds: tuple[Kind, ...]
    editors: tuple[Editor, ...]
    filters: tuple[Filter, ...] = ALWAYS
    seed: int = 0
    per_kind: int = 1
    """Edits of each kind that are wanted for a caption."""

    def __call__(self, given: Sequence[Given]) -> tuple[list[Edited], EditTally]:
        """One result for each caption, in their order."""
        tally = EditTally()
        texts = [cleaned(one.text) for one in given]
        reasons = [why_not(text) for text in texts]
        wanted = [at for at, reason in enumerate(reasons) if not reason]
        parsed = dict(zip(wanted, self.parser([texts[at] for at in wanted]), strict=True))
        work = [_CaptionWork(given[at], parsed[at]) for at in wanted]
        pending = [
            one
            for kind, editor in zip(self.kinds, self.editors, strict=True)
            for one in self._proposed(kind, editor, work, tally)
        ]
        while pending:
            pending = self._round(pending, tally)
        # By kind, as they were asked for, whatever round they came from.
        order = {kind.name: at for at, kind in enumerate(self.kinds)}
        edits = {
            at: tuple(sorted(one.kept, key=lambda edit: order[edit.kind]))
            for at, one in zip(wanted, work, strict=True)
        }
        found = [
            Edited(one.id, texts[at], edits.get(at, ()), reasons[at])
            for at, one in enumerate(given)
        ]
        tally.count_captions(found)
        return found, tally

    @cached_property
    def _of_kinds(self) -> tuple[Filter, ...]:
        """Filters that belong to some of the kinds, each once."""
        return tuple(dict.fromkeys(keeps for kind in self.kinds for keeps in kind.filters))

    def _proposed(
        self, kind: Kind, editor: Editor, work: Sequence[_CaptionWork], tally: EditTally
    ) -> Iterator[_Pending]:
        draws = [partial(_random, self.seed, one.given.id, kind.name) for one in work]
        for one, changes in zip(work, editor([w.parsed for w in work], draws), strict=True):
            tally.count_places(kind.name, bool(changes))
            if changes:
                yield _Pending(one, kind, list(changes[: TRIES * self.per_kind]), self.per_kind)

    def _round(self, pending: Sequence[_Pending], tally: EditTally) -> list[_Pending]:
        proposals = [one.next() for one in pending]
        stays = [True] * len(pending)
        own = [(keeps, False) for keeps in self._of_kinds]
        for keeps, is_for_all in (*own, *((keeps, True) for keeps in self.filters)):
            at = [
                i
                for i, is_in in enumerate(stays)
                if is_in and (is_for_all or keeps in pending[i].kind.filters)
            ]
            for i, verdict in zip(at, keeps([proposals[i] for i in at]), strict=True):
                stays[i] = verdict
                if not verdict:
                    tally.count_rejected(pending[i].kind.name, keeps.reason)
        for one, proposal, is_in in zip(pending, proposals, stays, strict=True):
            if is_in and not one.keep(proposal.edit):
                tally.count_rejected(one.kind.name, REPEATED)
        return [one for one in pending if one.is_open]


@dataclass(eq=False)
class _CaptionWork:
    """A caption while it is edited."""

    given: Given
    parsed: Parsed
    kept: list[Edit] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    """What was kept, normalised."""


@dataclass(eq=False)
class _Pending:
    """Proposals of one kind for one caption that are still to be tried."""

    work: _CaptionWork
    kind: Kind
    changes: list[Changes]
    wanted: int
    tried: int = 0

    @property
    def is_open(self) -> bool:
        return self.wanted > 0 and self.tried < len(self.changes)

    def next(self) -> Proposal:
        """The next one as an edit."""
        parsed = self.work.parsed
        changes = finished(parsed, self.changes[self.tried])
        self.tried += 1
        span = (changes[0].start, changes[-1].end) if changes else (0, 0)
        text = apply(parsed.text, changes)
        edit = Edit(text, self.kind.name, self.kind.is_positive, span, changes)
        return Proposal(parsed, edit, self.kind, self.work.given.others)

    def keep(self, edit: Edit) -> bool:
        """Keep it unless an equal one was kept before."""
        text = normalised(edit.text)
        if text in self.work.said:
            return False
        self.work.said.add(text)
        self.work.kept.append(edit)
        self.wanted -= 1
        return True


def _random(seed: int, caption: str, kind: str) -> Random:
    digest = blake2b(f"{seed}\0{caption}\0{kind}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


def cleaned(caption: str) -> str:
    """One line with single spaces: the form in which it is parsed, edited and written."""
    return " ".join(caption.replace("\0", " ").split())


def why_not(caption: str) -> str:
    """Why a cleaned caption is left alone; empty if it can be edited."""
    words = caption.split()
    if not any(letter.isalpha() for letter in caption):
        return "no letters" if words else "empty"
    # Nearly all letters have no accents; asked before words, which some scripts do not part.
    letters = [letter for letter in caption if letter.isalpha()]
    if sum(letter.isascii() for letter in letters) < 0.8 * len(letters):
        return "not English"
    if len(words) == 1:
        return "one word"
    if len(words) > MOST_WORDS:
        return f"more than {MOST_WORDS} words"
    if _MARKUP.search(caption) or _ADDRESS.search(caption):
        return "markup or web address"
    if any(len(word) > MOST_LETTERS for word in words):
        return f"a word of more than {MOST_LETTERS} letters"
    # Common words of other languages must not outnumber the English ones; "Las Vegas" is none.
    plain = [word.strip(_EDGES).lower() for word in words]
    foreign = sum(word in _FOREIGN for word in plain)
    doubtful = sum(word in _FOREIGN_OR_NAMES for word in plain)
    if not foreign and doubtful < 2:
        return ""
    return "not English" if foreign + doubtful > sum(word in _COMMON for word in plain) else ""


@dataclass(eq=False)
class EditTally:
    """Of all captions of a job, or of a part of it."""

    captions: int = 0
    edited: int = 0
    """Captions with at least one edit."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Captions that were not tried, by reason."""
    kinds: dict[str, KindTally] = field(default_factory=dict)

    @property
    def without_edit(self) -> int:
        """Captions that were tried in vain."""
        return self.captions - self.edited - self.skipped.total()

    def count_places(self, kind: str, has_place: bool) -> None:
        """A caption was looked at by a kind."""
        self._of(kind).places += has_place

    def count_rejected(self, kind: str, reason: str) -> None:
        """A proposal did not pass."""
        self._of(kind).rejected[reason] += 1

    def count_captions(self, found: Iterable[Edited]) -> None:
        """Captions are done."""
        for one in found:
            self.captions += 1
            self.edited += bool(one.edits)
            if one.skipped:
                self.skipped[one.skipped] += 1
            by_kind = Counter(edit.kind for edit in one.edits)
            for kind, edits in by_kind.items():
                self._of(kind).captions += 1
                self._of(kind).edits += edits

    def add(self, other: EditTally) -> None:
        """Count another part as well."""
        self.captions += other.captions
        self.edited += other.edited
        self.skipped.update(other.skipped)
        for name, of in other.kinds.items():
            mine = self._of(name)
            mine.places += of.places
            mine.captions += of.captions
            mine.edits += of.edits
            mine.rejected.update(of.rejected)

    def _of(self, kind: str) -> KindTally:
        found = self.kinds.get(kind)
        if found is None:
            found = self.kinds[kind] = KindTally()
        return found


@dataclass(eq=False)
class KindTally:
    """Of one kind."""

    places: int = 0
    """Captions in which the kind found a place."""
    captions: int = 0
    """Captions that got an edit of it."""
    edits: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Proposals, by the reason of the filter."""
