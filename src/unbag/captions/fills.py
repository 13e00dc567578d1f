"""Parsed captions come in; captions with a word that a language model chose go out (CE-CLIP, SVLC).

A fill is never the word that stood there, its lemma, a synonym, a more general or more special
word, nor any other word of the caption; and it is of the same part of speech and form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from unbag.captions.changes import apply, finished
from unbag.captions.fill_model import Blank, Filler, Gains, load_filler
from unbag.captions.fill_places import ACTIONS, ATTRIBUTES, RELATIONS, ByRules, Place, Places
from unbag.captions.kinds import Changes, Draw, Editor, Kind, Parts
from unbag.captions.parse import Parser, find_parser
from unbag.captions.parsed import Parsed, Word
from unbag.captions.word_lists import is_near
from unbag.captions.wordnet import WordNet, find_wordnet
from unbag.captions.wordnet_edits import NounRule
from unbag.captions.wordnet_files import Pos
from unbag.errors import UserError
from unbag.models.device import choose_device
from unbag.types import Change

PLACES = 2
"""Words of a caption that are tried, drawn among all."""
BEST = 3
"""Fills of a place that are proposed: the likeliest, in a drawn order."""
DROP = 6.0
"""Nats that a caption may lose by a fill: of those that rules offer, SmolLM2-135M finds about one
in six less likely."""
_PICTURABLE = frozenset(("noun.animal", "noun.artifact", "noun.food", "noun.plant", "noun.object"))
_POS: Mapping[str, Pos] = MappingProxyType({"N": "n", "V": "v", "J": "a"})
_UPOS = MappingProxyType({"N": "NOUN", "V": "VERB", "J": "ADJ"})


class _Open(NamedTuple):
    """A place of one caption while it is filled."""

    caption: int
    parsed: Parsed
    place: Place

    @property
    def old(self) -> Word | None:
        return None if self.place.word is None else self.parsed.words[self.place.word]

    def changes(self, fill: str) -> Changes:
        plain = (Change(self.place.start, self.place.end, fill),)
        return finished(self.parsed, self.place.options.get(fill, plain))

    def text(self, fill: str) -> str:
        return apply(self.parsed.text, self.changes(fill))

    @property
    def blank(self) -> Blank:
        """In lower case if the caption is in capitals, which models hardly know."""
        said = str.lower if self.parsed.is_upper else str
        offered = tuple((fill, said(self.text(fill))) for fill in self.place.options)
        return Blank(said(self.parsed.text), self.place.start, self.place.end, offered)


@dataclass(frozen=True, eq=False)
class Tools:
    """What all kinds of fills share."""

    filler: Filler
    parser: Parser
    wordnet: WordNet | None


@dataclass(frozen=True, eq=False)
class Fills:
    """Draws places, asks the model for all of them together, and proposes what may stand there."""

    tools: Tools
    places: Places

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """Fills in a drawn order; none where no word may be replaced."""
        randoms: dict[int, Random] = {}
        work: list[_Open] = []
        for at, (caption, draw) in enumerate(zip(captions, draws, strict=True)):
            places = self.places(caption)
            if places:
                randoms[at] = draw()
                drawn = randoms[at].sample(places, min(PLACES, len(places)))
                work += [_Open(at, caption, place) for place in drawn]
        gains = self.tools.filler([one.blank for one in work]) if work else []
        found: list[list[Changes]] = [[] for _ in captions]
        for one, fill in self._same_form(list(self._best(work, gains))):
            found[one.caption].append(one.changes(fill))
        for at, random in randoms.items():
            random.shuffle(found[at])
        return [*found]

    def _best(self, work: Sequence[_Open], gains: Sequence[Gains]) -> Iterator[tuple[_Open, str]]:
        for one, gain in zip(work, gains, strict=True):
            likely = (fill for fill in gain if gain[fill] >= -DROP)
            best = sorted(likely, key=lambda fill: (-gain[fill], fill))
            allowed = (fill for fill in best if self._may(one, fill))
            yield from ((one, fill) for fill in islice(allowed, BEST))

    def _may(self, one: _Open, fill: str) -> bool:
        """Whether it excludes what stood there, and is not in the caption already."""
        old, net = one.old, self.tools.wordnet
        if old is None:
            return fill in one.place.options
        lemma = _lemma(fill, old.tag)
        said = {*one.parsed.lower, *(word.lemma.lower() for word in one.parsed.words)}
        if fill in said or lemma in said or is_near(old.lemma, lemma):
            return False
        pos = _POS.get(old.tag[0])
        if net is not None and pos is not None and net.are_related(old.lemma, lemma, pos):
            return False
        if fill in one.place.options:
            return True
        return one.place.is_open and net is not None and _is_sister(net, old.lemma, lemma)

    def _same_form(self, found: Sequence[tuple[_Open, str]]) -> Iterator[tuple[_Open, str]]:
        """Of words that no rule offered, those that the parser reads as it read the old word."""
        is_new = [fill not in one.place.options for one, fill in found]
        texts = [one.text(fill) for (one, fill), new in zip(found, is_new, strict=True) if new]
        again = iter(self.tools.parser(texts))
        for (one, fill), new in zip(found, is_new, strict=True):
            if not new or _is_alike(one, next(again)):
                yield one, fill


def _is_alike(one: _Open, again: Parsed) -> bool:
    at, words = one.place.word, one.parsed.words
    is_same_length = len(again.words) == len(words)
    return at is not None and is_same_length and again.words[at].tag == words[at].tag


def _is_sister(net: WordNet, old: str, new: str) -> bool:
    """Whether both are things to see, of one sort, by their commonest sense."""
    sort = net.field_of(old, "n")
    return sort in _PICTURABLE and net.field_of(new, "n") == sort


@lru_cache(maxsize=4096)
def _lemma(word: str, tag: str) -> str:
    from lemminflect import getLemma  # type: ignore[import-untyped, unused-ignore]

    kind = _UPOS.get(tag[0])
    found = getLemma(word, upos=kind) if kind else ()
    return str(found[0]) if found else word


@lru_cache(maxsize=1)
def _tools(parts: Parts) -> Tools:
    """Loaded once for all kinds of fills."""
    if not parts.fill:
        raise UserError(
            "fills need a language model, and none was named",
            expected="a masked or a causal model of transformers: a folder, a .gguf file or a name",
            way_out="name it with --fill, or leave the kinds fill_... out",
        )
    filler = load_filler(parts.fill, device=choose_device(parts.device))
    return Tools(filler, find_parser(parts.pipeline), _wordnet(parts.wordnet))


def _wordnet(choice: str) -> WordNet | None:
    """Wanted, but needed for nouns only: without it our own tables say what is related."""
    try:
        return find_wordnet(choice)
    except UserError:
        if choice != "auto":
            raise
        return None


def _editor(places: Places, parts: Parts) -> Editor:
    return Fills(_tools(parts), places)


def _object_editor(parts: Parts) -> Editor:
    rule = NounRule(find_wordnet(parts.wordnet))
    return Fills(_tools(parts), ByRules((rule,), is_open=True))


def _kind(name: str, about: str, editor: Callable[[Parts], Editor]) -> Kind:
    return Kind(
        name=name,
        keeps_meaning=False,
        about=f"a language model's {about}",
        source="CE-CLIP, SVLC",
        editor=editor,
        is_default=False,
    )


FILL_ATTRIBUTE = _kind(
    "fill_attribute", "adjective: a red bus -> a blue bus", partial(_editor, ATTRIBUTES)
)
FILL_OBJECT = _kind("fill_object", "noun: a dog on a bed -> a cat on a bed", _object_editor)
FILL_ACTION = _kind(
    "fill_action", "verb: a man is sitting -> a man is dancing", partial(_editor, ACTIONS)
)
FILL_RELATION = _kind(
    "fill_relation", "preposition: a cat on a car -> a cat under a car", partial(_editor, RELATIONS)
)
