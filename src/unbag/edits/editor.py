"""Edits captions: every kind proposes changes, filters reject some, and a tally counts both.

Every kind proposes changes for all captions of a batch. The filters then run in rounds: each round
has one proposal per caption and kind, and a rejected one is replaced in the next round. So filters
with a model see batches. The result depends on seed, caption and kinds, not on the batch.
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
"""Proposals of one kind that are tried per caption and requested edit."""
MAX_WORDS = 80
"""Longer texts are articles, not captions, and mostly parsed wrongly."""
MAX_LETTERS = 60
"""No common English word is longer: such a token is an id, a key or a typing error."""
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
    """Edit one caption: return hard negatives and hard positives of the given kinds.

    Parsers and word lists are loaded once and reused. For many captions `make_editor` is faster.

    Args:
        caption: An English caption of two to eighty words.
        kinds: Names or groups as in `list_edits`, one or several.
        seed: Seed of the choice among possible edits.
        per_kind: Maximum number of edits of each kind.
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
            expected="one caption, a string",
            hint="call it for each caption, or edit a file of many with `unbag edit --captions`",
        )
    cached = cached_editor(kinds if isinstance(kinds, str) else tuple(kinds), parts or EditParts())
    editor = replace(cached, seed=seed, per_kind=per_kind)
    [edited], _ = editor([Given(caption, caption)])
    if edited.skipped:
        raise UnbagError(
            f"the caption {caption[:80]!r} cannot be edited: {edited.skipped}",
            expected="an English caption of two to eighty words",
        )
    return list(edited.edits)


def make_editor(
    kinds: Sequence[str] = ("default",),
    *,
    parts: EditParts | None = None,
    filters: Sequence[Filter] = ALWAYS,
    seed: int = 0,
    per_kind: int = 1,
) -> CaptionEditor:
    """Make an editor; loads a pipeline and, for some kinds, WordNet or a language model."""
    parts = parts or EditParts()
    all_kinds = find_kinds(kinds)
    editors = tuple(kind.editor(parts) for kind in all_kinds)
    parser = find_parser(parts.pipeline)
    return CaptionEditor(parser, all_kinds, editors, tuple(filters), seed, per_kind)


@lru_cache(maxsize=4)
def cached_editor(kinds: str | tuple[str, ...], parts: EditParts) -> CaptionEditor:
    """The editor of `edit` for these kinds and parts."""
    all_kinds = find_kinds(kinds)
    editors = tuple(kind.editor(parts) for kind in all_kinds)
    return CaptionEditor(cached_parser(parts.pipeline), all_kinds, editors)


@lru_cache(maxsize=1)
def cached_parser(pipeline: str) -> Parser:
    """The parser of `edit`."""
    return find_parser(pipeline)


@dataclass(frozen=True, eq=False)
class CaptionEditor:
    """Edits captions with a parser, an editor for each kind, and filters, all loaded once."""

    parser: Parser
    kinds: tuple[Kind, ...]
    editors: tuple[Editor, ...]
    filters: tuple[Filter, ...] = ALWAYS
    seed: int = 0
    per_kind: int = 1
    """Maximum number of edits of each kind per caption."""

    def __call__(self, given: Sequence[Given]) -> tuple[list[Edited], EditTally]:
        """Edit captions; returns one result for each, in order."""
        tally = EditTally()
        texts = [cleaned(caption.text) for caption in given]
        reasons = [skip_reason(text) for text in texts]
        editable = [i for i, reason in enumerate(reasons) if not reason]
        parsed = dict(zip(editable, self.parser([texts[i] for i in editable]), strict=True))
        work = [_CaptionWork(given[i], parsed[i]) for i in editable]
        pending = [
            proposals
            for kind, editor in zip(self.kinds, self.editors, strict=True)
            for proposals in self._propose(kind, editor, work, tally)
        ]
        while pending:
            pending = self._round(pending, tally)
        # In the order of the kinds, whatever round an edit came from.
        order = {kind.name: i for i, kind in enumerate(self.kinds)}
        edits = {
            i: tuple(sorted(caption.edits, key=lambda edit: order[edit.kind]))
            for i, caption in zip(editable, work, strict=True)
        }
        results = [
            Edited(caption.id, texts[i], edits.get(i, ()), reasons[i])
            for i, caption in enumerate(given)
        ]
        tally.count_captions(results)
        return results, tally

    @cached_property
    def _kind_filters(self) -> tuple[Filter, ...]:
        """The filters of the kinds, each once."""
        return tuple(dict.fromkeys(check for kind in self.kinds for check in kind.filters))

    def _propose(
        self, kind: Kind, editor: Editor, work: Sequence[_CaptionWork], tally: EditTally
    ) -> Iterator[_Pending]:
        draws = [partial(_random, self.seed, caption.given.id, kind.name) for caption in work]
        for caption, changes in zip(work, editor([c.parsed for c in work], draws), strict=True):
            tally.count_places(kind.name, bool(changes))
            if changes:
                yield _Pending(caption, kind, list(changes[: TRIES * self.per_kind]), self.per_kind)

    def _round(self, pending: Sequence[_Pending], tally: EditTally) -> list[_Pending]:
        proposals = [each.next() for each in pending]
        passed = [True] * len(pending)
        own = [(check, False) for check in self._kind_filters]
        for check, is_for_all in (*own, *((check, True) for check in self.filters)):
            indices = [
                i
                for i, is_in in enumerate(passed)
                if is_in and (is_for_all or check in pending[i].kind.filters)
            ]
            for i, verdict in zip(indices, check([proposals[i] for i in indices]), strict=True):
                passed[i] = verdict
                if not verdict:
                    tally.count_rejected(pending[i].kind.name, check.reason)
        for each, proposal, is_in in zip(pending, proposals, passed, strict=True):
            if is_in and not each.add(proposal.edit):
                tally.count_rejected(each.kind.name, REPEATED)
        return [each for each in pending if each.is_open]


@dataclass(eq=False)
class _CaptionWork:
    """A caption while it is edited."""

    given: Given
    parsed: Parsed
    edits: list[Edit] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    """The normalised texts of the edits."""


@dataclass(eq=False)
class _Pending:
    """The proposals of one kind for one caption."""

    work: _CaptionWork
    kind: Kind
    changes: list[Changes]
    missing: int
    """Number of edits still to be found."""
    tried: int = 0

    @property
    def is_open(self) -> bool:
        return self.missing > 0 and self.tried < len(self.changes)

    def next(self) -> Proposal:
        """The next proposal."""
        parsed = self.work.parsed
        changes = finished(parsed, self.changes[self.tried])
        self.tried += 1
        span = (changes[0].start, changes[-1].end) if changes else (0, 0)
        text = apply(parsed.text, changes)
        edit = Edit(text, self.kind.name, self.kind.is_positive, span, changes)
        return Proposal(parsed, edit, self.kind, self.work.given.others)

    def add(self, edit: Edit) -> bool:
        """Add an edit; False if the caption already has an edit with this text."""
        text = normalised(edit.text)
        if text in self.work.texts:
            return False
        self.work.texts.add(text)
        self.work.edits.append(edit)
        self.missing -= 1
        return True


def _random(seed: int, caption: str, kind: str) -> Random:
    digest = blake2b(f"{seed}\0{caption}\0{kind}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


def cleaned(caption: str) -> str:
    """The caption on one line with single spaces, as it is parsed, edited and written."""
    return " ".join(caption.replace("\0", " ").split())


def skip_reason(caption: str) -> str:
    """The reason why a cleaned caption is not edited; empty if it can be edited."""
    words = caption.split()
    if not any(letter.isalpha() for letter in caption):
        return "no letters" if words else "empty"
    # English has nearly no accents. Checked before words, which some scripts do not separate.
    letters = [letter for letter in caption if letter.isalpha()]
    if sum(letter.isascii() for letter in letters) < 0.8 * len(letters):
        return "not English"
    if len(words) == 1:
        return "one word"
    if len(words) > MAX_WORDS:
        return f"more than {MAX_WORDS} words"
    if _MARKUP.search(caption) or _ADDRESS.search(caption):
        return "markup or web address"
    if any(len(word) > MAX_LETTERS for word in words):
        return f"a word of more than {MAX_LETTERS} letters"
    # Common words of other languages must not outnumber the English ones; "Las Vegas" passes.
    plain = [word.strip(_EDGES).lower() for word in words]
    foreign = sum(word in _FOREIGN for word in plain)
    doubtful = sum(word in _FOREIGN_OR_NAMES for word in plain)
    if not foreign and doubtful < 2:
        return ""
    return "not English" if foreign + doubtful > sum(word in _COMMON for word in plain) else ""


@dataclass(eq=False)
class EditTally:
    """Counts over all captions of a job, or of a part of it."""

    captions: int = 0
    edited: int = 0
    """Captions with at least one edit."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Captions that were skipped, by reason."""
    kinds: dict[str, KindTally] = field(default_factory=dict)

    @property
    def without_edit(self) -> int:
        """Captions that were tried but got no edit."""
        return self.captions - self.edited - self.skipped.total()

    def count_places(self, kind: str, has_place: bool) -> None:
        """Count a caption that a kind looked at."""
        self._kind_tally(kind).places += has_place

    def count_rejected(self, kind: str, reason: str) -> None:
        """Count a rejected proposal."""
        self._kind_tally(kind).rejected[reason] += 1

    def count_captions(self, captions: Iterable[Edited]) -> None:
        """Count finished captions."""
        for caption in captions:
            self.captions += 1
            self.edited += bool(caption.edits)
            if caption.skipped:
                self.skipped[caption.skipped] += 1
            by_kind = Counter(edit.kind for edit in caption.edits)
            for kind, edits in by_kind.items():
                self._kind_tally(kind).captions += 1
                self._kind_tally(kind).edits += edits

    def add(self, other: EditTally) -> None:
        """Add the counts of another part."""
        self.captions += other.captions
        self.edited += other.edited
        self.skipped.update(other.skipped)
        for name, theirs in other.kinds.items():
            ours = self._kind_tally(name)
            ours.places += theirs.places
            ours.captions += theirs.captions
            ours.edits += theirs.edits
            ours.rejected.update(theirs.rejected)

    def _kind_tally(self, kind: str) -> KindTally:
        if kind not in self.kinds:
            self.kinds[kind] = KindTally()
        return self.kinds[kind]


@dataclass(eq=False)
class KindTally:
    """Counts of one kind."""

    places: int = 0
    """Captions for which the kind proposed something."""
    captions: int = 0
    """Captions with an edit of the kind."""
    edits: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Rejected proposals, by the reason of the filter."""
