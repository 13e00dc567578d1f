"""Hard negatives with a word that a language model chose (CE-CLIP, SVLC).

What may stand there is decided by the rules of other kinds: words that exclude the word that stood
there. The model says which of them make a likely caption: a masked language model names words
itself, a causal one judges those it is offered. A fill is never the word that stood there, its
lemma, a synonym, a more general or more special word, nor any other word of the caption; and it is
of the same part of speech and form.

Dimensions: N blanks of a batch, L tokens, V vocabulary, W whole words of it, K likeliest words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from unbag.edits.generated.batches import by_length, padded
from unbag.edits.kinds import Changes, Draw, EditParts, Kind, Rule, apply, finished
from unbag.edits.lexicon import is_near
from unbag.edits.negatives.replace import replace_action, replace_attribute, replace_relation
from unbag.edits.negatives.wordnet import NounRule
from unbag.edits.parsed import VERB_TAGS, Parsed, Word
from unbag.edits.parsing import Parser, find_parser
from unbag.edits.wordnet import Pos, WordNet, find_wordnet
from unbag.errors import UnbagError
from unbag.models.baselines import Likelihood, load_likelihood
from unbag.models.huggingface.loading import (
    HfSource,
    need_transformers,
    parse_source,
    read_config,
    read_tokenizer,
    read_weights,
)
from unbag.models.loading import choose_device
from unbag.types import Change

TOP = 200
"""Words that a masked model names for a blank; few of them pass what is asked of a fill."""
_CAUSAL = ("ForCausalLM", "LMHeadModel")
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
Gains: TypeAlias = Mapping[str, float]
"""Words with how much likelier (in nats) they make the caption; below 0 for less likely ones."""


class FillPlace(NamedTuple):
    """Words of a caption that others may replace."""

    start: int
    """The first character that is replaced."""
    end: int
    options: Mapping[str, Changes]
    """By the new words, what is to be changed."""
    word: int | None
    """The word that stands there, if it is one and nothing else has to change with it."""
    is_open: bool = False
    """Whether other words of its sort may stand there too, if WordNet says that they exclude it."""


FillPlaces: TypeAlias = Callable[[Parsed], Sequence[FillPlace]]


@dataclass(frozen=True)
class ByRules:
    """Places at which rules change something, with all that they would put there."""

    rules: tuple[Rule, ...]
    fits: Callable[[Parsed, FillPlace], bool] = lambda parsed, place: True
    is_open: bool = False

    def __call__(self, parsed: Parsed) -> list[FillPlace]:
        """In the order in which the rules find them."""
        found: dict[tuple[tuple[int, int], ...], dict[str, Changes]] = {}
        for changes in (c for rule in self.rules for c in rule(parsed)):
            spans = tuple((change.start, change.end) for change in changes)
            found.setdefault(spans, {})[" ".join(change.new for change in changes)] = changes
        word_at = {(word.start, word.end): at for at, word in enumerate(parsed.words)}
        places = []
        for spans, options in found.items():
            word = word_at.get(spans[0]) if len(spans) == 1 else None
            is_open = self.is_open and word is not None
            places.append(FillPlace(*spans[0], options, word, is_open=is_open))
        return [place for place in places if self.fits(parsed, place)]


def _is_verb(parsed: Parsed, place: FillPlace) -> bool:
    return place.word is not None and parsed.words[place.word].tag in VERB_TAGS


ATTRIBUTES = ByRules((replace_attribute,))
ACTIONS = ByRules((replace_action, replace_relation), _is_verb)
RELATIONS = ByRules((replace_relation,), lambda parsed, place: not _is_verb(parsed, place))


def _objects(parts: EditParts) -> ByRules:
    return ByRules((NounRule(find_wordnet(parts.wordnet)),), is_open=True)


def _kind(name: str, about: str, places: Callable[[EditParts], FillPlaces]) -> Kind:
    return Kind(
        name=name,
        is_positive=False,
        about=f"a language model's {about}",
        source="CE-CLIP, SVLC",
        # WordNet is found or missed before a model is loaded.
        editor=lambda parts: Fills(places=places(parts), tools=_tools(parts)),
        is_default=False,
    )


FILL_ATTRIBUTE = _kind(
    "fill_attribute", "adjective: a red bus -> a blue bus", lambda parts: ATTRIBUTES
)
FILL_OBJECT = _kind("fill_object", "noun: a dog on a bed -> a cat on a bed", _objects)
FILL_ACTION = _kind(
    "fill_action", "verb: a man is sitting -> a man is dancing", lambda parts: ACTIONS
)
FILL_RELATION = _kind(
    "fill_relation", "preposition: a cat on a car -> a cat under a car", lambda parts: RELATIONS
)


@dataclass(frozen=True, eq=False)
class Tools:
    """What all kinds of fills share."""

    filler: Filler
    parser: Parser
    wordnet: WordNet | None


@lru_cache(maxsize=1)
def _tools(parts: EditParts) -> Tools:
    """Loaded once for all kinds of fills."""
    if not parts.fill:
        raise UnbagError(
            "fills need a language model, and none was named",
            expected="a masked or a causal model of transformers: a folder, a .gguf file or a name",
            hint="name it with --fill, or leave the kinds fill_... out",
        )
    filler = load_filler(parts.fill, device=choose_device(parts.device))
    parser = find_parser(parts.pipeline)
    try:
        return Tools(filler, parser, find_wordnet(parts.wordnet))
    except UnbagError:
        # Only nouns need WordNet: without it our own tables say what is related.
        if parts.wordnet != "auto":
            raise
        return Tools(filler, parser, None)


@dataclass(frozen=True, eq=False)
class Fills:
    """Draws places, asks the model for all of them together, and proposes what may stand there."""

    tools: Tools
    places: FillPlaces

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
        if fill in one.place.options or not one.place.is_open or net is None:
            return fill in one.place.options
        # Both must be things to see, of one sort, by their commonest sense.
        sort = net.field_of(old.lemma, "n")
        return sort in _PICTURABLE and net.field_of(lemma, "n") == sort

    def _same_form(self, found: Sequence[tuple[_Open, str]]) -> Iterator[tuple[_Open, str]]:
        """Of words that no rule offered, those that the parser reads as it read the old word."""
        is_new = [fill not in one.place.options for one, fill in found]
        texts = [one.text(fill) for (one, fill), new in zip(found, is_new, strict=True) if new]
        again = iter(self.tools.parser(texts))
        for (one, fill), new in zip(found, is_new, strict=True):
            if not new or _is_alike(one, next(again)):
                yield one, fill


class _Open(NamedTuple):
    """A place of one caption while it is filled."""

    caption: int
    parsed: Parsed
    place: FillPlace

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


def _is_alike(one: _Open, again: Parsed) -> bool:
    at, words = one.place.word, one.parsed.words
    is_same_length = len(again.words) == len(words)
    return at is not None and is_same_length and again.words[at].tag == words[at].tag


@lru_cache(maxsize=4096)
def _lemma(word: str, tag: str) -> str:
    from lemminflect import getLemma  # type: ignore[import-untyped, unused-ignore]

    kind = _UPOS.get(tag[0])
    found = getLemma(word, upos=kind) if kind else ()
    return str(found[0]) if found else word


class Filler(Protocol):
    """Finds words for blanks, many at once."""

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """For each blank, words with their gain; none where the model cannot read it."""


def load_filler(path: str, *, device: str = "cpu") -> Filler:
    """By its kind: a masked model, or a causal one (a .gguf file too)."""
    if path.endswith(".gguf"):
        return CausalFiller(load_likelihood(path, device=device))
    need_transformers("a language model for fills")
    source = parse_source(path)
    kinds = tuple(read_config(source).architectures or ())
    if any(kind.endswith("ForMaskedLM") for kind in kinds):
        return _masked(source, device)
    if any(kind.endswith(_CAUSAL) for kind in kinds):
        return CausalFiller(load_likelihood(path, device=device))
    raise UnbagError(
        f"{path} is a {' or '.join(kinds) or 'model of unknown kind'}, which fills no blanks",
        expected="a masked language model (such as distilroberta-base) or a causal one",
        hint="a sentence encoder such as all-MiniLM has lost that part: take the model that it "
        "was made from",
    )


class Blank(NamedTuple):
    """A caption, the characters of one of its words, and captions with another word there."""

    text: str
    start: int
    end: int
    offered: tuple[tuple[str, str], ...]
    """Words, each with the caption that it makes, articles mended."""


@dataclass(frozen=True, eq=False)
class CausalFiller:
    """Judges the words that are offered by the log-probability of the whole caption.

    The gain is that against the caption as it was.
    """

    model: Likelihood

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """All captions of all blanks together, each computed once."""
        texts = [blank.text for blank in blanks]
        texts += [text for blank in blanks for _, text in blank.offered]
        likely = dict(zip(texts, self.model.of(texts), strict=True))
        return [
            {
                word: likely[text] - likely[blank.text]
                for word, text in blank.offered
                if not math.isnan(likely[text] - likely[blank.text])
            }
            for blank in blanks
        ]


@dataclass(frozen=True, eq=False)
class MaskedFiller:
    """Names the likeliest whole words for a blank, whatever is offered.

    Words of several tokens are never named: with one mask a model cannot say them. The gain is that
    against the likeliest word of all, since the word that stood there may be of several tokens.
    """

    model: Any
    tokenizer: Any
    context: int

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """Batches of nearly the same length; equal blanks are computed once."""
        tokens = {blank[:3]: self._tokens(blank) for blank in blanks}
        found = by_length({key: some for key, some in tokens.items() if some}, self._run)
        return [found.get(blank[:3], {}) for blank in blanks]

    @cached_property
    def words(self) -> dict[int, str]:
        """Tokens that are whole words in lower case, as they stand after a space."""
        ids = sorted(set(self.tokenizer.get_vocab().values()))
        texts = [str(self.tokenizer.decode([i])).strip() for i in ids]
        plain = [
            (i, text)
            for i, text in zip(ids, texts, strict=True)
            if len(text) > 1 and text.isascii() and text.isalpha() and text.islower()
        ]
        if not plain:
            return {}
        again = self.tokenizer([f" {text}" for _, text in plain], add_special_tokens=False)
        return {
            i: text
            for (i, text), tokens in zip(plain, again["input_ids"], strict=True)
            if tokens == [i]
        }

    def _tokens(self, blank: Blank) -> list[int]:
        """Empty where there is not exactly one mask, or the caption is too long."""
        text = blank.text[: blank.start] + self.tokenizer.mask_token + blank.text[blank.end :]
        found: list[int] = self.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        is_good = found.count(self.tokenizer.mask_token_id) == 1 and len(found) <= self.context
        return found if is_good else []

    def _run(self, batch: Sequence[list[int]]) -> list[Gains]:
        import torch

        token_NL, mask_NL = padded(batch, self.tokenizer.pad_token_id, side="right")
        device = self.model.device
        with torch.inference_mode():
            logit_NLV = self.model(
                input_ids=token_NL.to(device), attention_mask=mask_NL.to(device)
            ).logits
        at_N = torch.tensor([t.index(self.tokenizer.mask_token_id) for t in batch])
        logit_NV = logit_NLV[torch.arange(len(batch)), at_N.to(device)]
        ids = list(self.words)
        log_NV = logit_NV.float().log_softmax(dim=-1).cpu()
        value_NK, at_NK = log_NV[:, ids].topk(min(TOP, len(ids)), dim=-1)
        best_N = log_NV.amax(dim=-1)
        return [
            {self.words[ids[i]]: value - best for i, value in zip(at_K, value_K, strict=True)}
            for at_K, value_K, best in zip(
                at_NK.tolist(), value_NK.double().tolist(), best_N.double().tolist(), strict=True
            )
        ]


def _masked(source: HfSource, device: str) -> MaskedFiller:
    from transformers import AutoModelForMaskedLM

    tokenizer = read_tokenizer(source)
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise UnbagError(
            f"the tokenizer of {source.path} has no mask or no padding",
            expected="the tokenizer that the masked model was trained with",
            hint="save that tokenizer into the model's folder",
        )
    model = read_weights(source, AutoModelForMaskedLM, unused=("bert.pooler.",))
    most = getattr(model.config, "max_position_embeddings", None) or math.inf
    # RoBERTa counts positions from the padding token on.
    offset = tokenizer.pad_token_id + 1 if "roberta" in model.config.model_type else 0
    context = min(most - offset, tokenizer.model_max_length)
    return MaskedFiller(model.float().to(device), tokenizer, int(min(context, 1_000_000)))
