"""Captions come in; in which columns of a map their functional words stand goes out (7.1).

Dimensions: N captions, L columns of a map.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias
from warnings import warn

import numpy as np

from unbag.readouts.features import Parts, View, joint_captions, joint_pictures
from unbag.types import DualEncoder, IntArray, PaddedEncoder

if TYPE_CHECKING:
    from torch import Tensor

# Nothing is asked of a tokenizer but how many pieces a text has, so that this works for all.

_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Placed:
    """A word and the columns of its pieces."""

    word: str
    start: int
    stop: int


def ends(count: int, once: Sequence[int], twice: Sequence[int]) -> list[tuple[int, int]] | None:
    """Where the pieces of each word begin and end; None where that does not add up.

    One special piece is the end, two are start and end; that is so in all tokenizers of CLIP's
    kind, of SentencePiece and of BERT.

    Args:
        count: Pieces of the whole text.
        once: Pieces of each word alone.
        twice: Pieces of each word said twice: the difference is its own, the rest special ones.
    """
    pieces = [b - a for a, b in zip(once, twice, strict=True)]
    special = {a - piece for a, piece in zip(once, pieces, strict=True)}
    if len(special) != 1 or min(pieces) < 0 or not special <= {0, 1, 2}:
        return None
    extra = special.pop()
    if sum(pieces) + extra != count:
        return None
    stops = (np.cumsum(pieces) + (1 if extra == 2 else 0)).tolist()
    return [(stop - piece, stop) for stop, piece in zip(stops, pieces, strict=True)]


def placed_words(encoder: DualEncoder, captions: Sequence[str]) -> list[tuple[Placed, ...] | None]:
    """The words of each caption with their columns; None where pieces do not add up.

    Signs are set apart from words where the tokenizer does so too; else "left," is one word.
    """
    ways = [(_WORD_OR_SIGN.findall(caption), caption.split()) for caption in captions]
    known = _counted(encoder, ways)
    found = []
    for count, way in zip(encoder.count_tokens(captions), ways, strict=True):
        tried = (_placed(words, count, known) for words in way)
        found.append(next((one for one in tried if one is not None), None))
    return found


def _counted(
    encoder: DualEncoder, ways: Sequence[tuple[list[str], list[str]]]
) -> Mapping[str, tuple[int, int]]:
    """Pieces of every word, said once and twice; a word is asked for once."""
    words = list(dict.fromkeys(word for way in ways for said in way for word in said))
    once = encoder.count_tokens(words)
    twice = encoder.count_tokens([f"{word} {word}" for word in words])
    return dict(zip(words, zip(once, twice, strict=True), strict=True))


def _placed(
    words: Sequence[str], count: int, known: Mapping[str, tuple[int, int]]
) -> tuple[Placed, ...] | None:
    counts = [known[word] for word in words]
    found = ends(count, [once for once, _ in counts], [twice for _, twice in counts])
    if found is None:
        return None
    return tuple(Placed(word, *both) for word, both in zip(words, found, strict=True))


Align: TypeAlias = Literal["token", "word_index"]
FUNCTIONAL = (
    "above",
    "below",
    "left",
    "right",
    "small",
    "big",
    "not",
    "no",
    "without",
    "but",
    "absent",
)
"""Mark k is the k-th of them, from 1 on; 0 is none."""
END = 16
"""Added to the mark of the column where a caption ends."""
_MARK_OF = {word: at for at, word in enumerate(FUNCTIONAL, start=1)}


@dataclass(frozen=True, eq=False)
class Marks:
    """Where functional words stand, and how many captions there was something to say about."""

    mark_NL: IntArray
    cut: int
    """Captions beyond the last column."""
    plain: int
    """Captions with no functional word in sight; fine, their map is of cosines alone."""
    unplaced: int
    """Captions with such words whose pieces do not add up, so that none was marked."""


def marks(encoder: DualEncoder, captions: Sequence[str], *, align: Align, length: int) -> Marks:
    """The first occurrence of each functional word, and the end of each caption."""
    mark_NL = np.zeros((len(captions), length), dtype=np.int64)
    count_N = np.array(encoder.count_tokens(captions), dtype=np.int64)
    columns = by_token(encoder, captions) if align == "token" else by_word_index(captions)
    # A caption that is cut ends in the last column, whatever word would have stood there.
    room_N = length - ((count_N > length) & (align == "token"))
    unplaced = 0
    for row, found in enumerate(columns):
        unplaced += found is None
        for mark, column in found or ():
            if column < room_N[row]:
                mark_NL[row, column] = mark
    plain = int((mark_NL == 0).all(axis=1).sum()) - unplaced
    mark_NL[np.arange(len(captions)), np.minimum(count_N, length) - 1] += END
    return Marks(mark_NL, int((count_N > length).sum()), plain, unplaced)


def by_word_index(captions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """As released: number k of the words between single spaces marks column k.

    Column 0 is the start token where a model has one, so this is off by one, and more behind a
    word of several pieces. Words are compared as they are written.
    """
    return [list(_first(enumerate(caption.split(" ")))) for caption in captions]


def by_token(encoder: DualEncoder, captions: Sequence[str]) -> list[list[tuple[int, int]] | None]:
    """The columns of a word's own pieces, capitals and signs beside it aside.

    None where such a word is there and its pieces cannot be found.
    """
    asked = [at for at, caption in enumerate(captions) if _has_any(caption)]
    found: list[list[tuple[int, int]] | None] = [[] for _ in captions]
    for at, placed in zip(asked, placed_words(encoder, [captions[i] for i in asked]), strict=True):
        if placed is None:
            found[at] = None
            continue
        first = dict(_first((n, _bare(one.word)) for n, one in enumerate(placed)))
        found[at] = [
            (mark, column)
            for mark, n in first.items()
            for column in range(placed[n].start, placed[n].stop)
        ]
    return found


def _first(words: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int]]:
    """Mark and place of each functional word that is met for the first time."""
    met: set[str] = set()
    for place, word in words:
        if word in _MARK_OF and word not in met:
            met.add(word)
            yield _MARK_OF[word], place


def _bare(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()[]")


def _has_any(caption: str) -> bool:
    return any(_bare(word) in _MARK_OF for word in caption.replace("-", " ").split())


# Dimensions: N captions, L columns of a map, K columns that the encoder shows, D joint space.


@dataclass
class Tally:
    """What was met on the way, for people."""

    captions: int = 0
    cut: int = 0
    """Beyond the columns of the map."""
    plain: int = 0
    """Without a functional word."""
    unplaced: int = 0
    """With functional words whose columns could not be found."""


@dataclass(eq=False)
class MapCaptions:
    """Reads captions into so many columns each; `mark_NL` says where functional words stand."""

    align: Align
    length: int
    padding: Literal["kept", "zero"]
    tally: Tally = field(default_factory=Tally)
    _said: set[str] = field(default_factory=set, repr=False)

    @property
    def view(self) -> View:
        """Patches as every reader of the joint space sees them, and captions by columns."""
        how = self.align.replace("_", "-")
        return View(f"dcsm-{how}-{self.length}-{self.padding}", joint_pictures, self)

    def __call__(self, encoder: DualEncoder, captions: Sequence[str]) -> Parts:
        """Always [N, length, D]; the mask is True wherever there is a vector, of padding too."""
        import torch

        vector_NKD, mask_NK, pooled_ND = self._vectors(encoder, captions)
        found = marks(encoder, captions, align=self.align, length=self.length)
        self._count(encoder, len(captions), found.cut, found.plain, found.unplaced)
        part_NLD = _to_length(vector_NKD, self.length)
        mask_NL = _to_length(mask_NK[..., None], self.length)[..., 0]
        return Parts(part_NLD, mask_NL, pooled_ND, torch.from_numpy(found.mark_NL))

    def _vectors(
        self, encoder: DualEncoder, captions: Sequence[str]
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.padding == "zero" or not isinstance(encoder, PaddedEncoder):
            found = joint_captions(encoder, captions)
            if self.padding == "kept":
                self._say(
                    f"{encoder.name} shows no vectors at padding: columns behind the end of a "
                    "caption are zero"
                )
            return found.part_NLW, found.mask_NL, found.pooled_NW
        tokens = encoder.encode_padded(captions, length=self.length)
        vector_NKD = tokens.vector_NLD.float()
        pooled_ND = encoder.encode_captions(captions).float()
        return vector_NKD, (vector_NKD != 0).any(dim=-1), pooled_ND

    def _count(
        self, encoder: DualEncoder, captions: int, cut: int, plain: int, unplaced: int
    ) -> None:
        tally = self.tally
        tally.captions += captions
        tally.cut += cut
        tally.plain += plain
        tally.unplaced += unplaced
        if cut:
            self._say(
                f"captions of {encoder.name} with more than {self.length} tokens are cut: a map "
                f"has {self.length} columns"
            )
        if unplaced:
            self._say(
                f"{encoder.name}: words and pieces of some captions do not add up, so their "
                "functional words are not marked"
            )

    def _say(self, said: str) -> None:
        if said not in self._said:
            self._said.add(said)
            warn(said, stacklevel=4)


def _to_length(tensor_NKD: Tensor, length: int) -> Tensor:
    from torch.nn import functional

    rest = length - tensor_NKD.shape[1]
    return tensor_NKD[:, :length] if rest <= 0 else functional.pad(tensor_NKD, (0, 0, 0, rest))
