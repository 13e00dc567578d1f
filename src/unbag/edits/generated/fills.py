"""Hard negatives with a word that a language model chose (CE-CLIP, SVLC).

The rules of other kinds give the allowed words: those that exclude the old word. The model decides
which of them make a likely caption: a masked language model proposes words itself, a causal one
scores the words of the rules. A fill is never the old word, its lemma, synonym, hypernym or
hyponym, nor another word of the caption, and it has the same part of speech and form.

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
"""Number of words that a masked model proposes for a blank; most of them are not allowed."""
_CAUSAL = ("ForCausalLM", "LMHeadModel")
PLACES = 2
"""Number of places that are tried per caption, drawn at random."""
BEST = 3
"""Number of likeliest fills that are proposed per place, in random order."""
DROP = 6.0
"""Maximum loss of log-probability of the caption in nats. With SmolLM2-135M about one in six fills
of the rules loses more."""
_VISIBLE = frozenset(("noun.animal", "noun.artifact", "noun.food", "noun.plant", "noun.object"))
_POS: Mapping[str, Pos] = MappingProxyType({"N": "n", "V": "v", "J": "a"})
_UPOS = MappingProxyType({"N": "NOUN", "V": "VERB", "J": "ADJ"})
Gains: TypeAlias = Mapping[str, float]
"""For each word the change of the log-probability of the caption, in nats."""


class FillPlace(NamedTuple):
    """A place in a caption whose words may be replaced."""

    start: int
    """Position of the first replaced character."""
    end: int
    options: Mapping[str, Changes]
    """The allowed new words, with their changes."""
    word: int | None
    """Index of the old word, if it is a single word and nothing else has to change."""
    is_open: bool = False
    """Whether other words are allowed too, if WordNet says that they exclude the old word."""


FillPlaces: TypeAlias = Callable[[Parsed], Sequence[FillPlace]]


@dataclass(frozen=True)
class ByRules:
    """The places that rules change, with all their replacements."""

    rules: tuple[Rule, ...]
    fits: Callable[[Parsed, FillPlace], bool] = lambda parsed, place: True
    is_open: bool = False

    def __call__(self, parsed: Parsed) -> list[FillPlace]:
        """Return the places in the order of the rules."""
        by_spans: dict[tuple[tuple[int, int], ...], dict[str, Changes]] = {}
        for changes in (edit for rule in self.rules for edit in rule(parsed)):
            spans = tuple((change.start, change.end) for change in changes)
            by_spans.setdefault(spans, {})[" ".join(change.new for change in changes)] = changes
        word_at = {(word.start, word.end): i for i, word in enumerate(parsed.words)}
        places = []
        for spans, options in by_spans.items():
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
        # A missing WordNet is reported before a model is loaded.
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
    """The models that all kinds of fills share."""

    filler: Filler
    parser: Parser
    wordnet: WordNet | None


@lru_cache(maxsize=1)
def _tools(parts: EditParts) -> Tools:
    """Load the models once for all kinds of fills."""
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
        # Only nouns need WordNet; without it our own tables give related words.
        if parts.wordnet != "auto":
            raise
        return Tools(filler, parser, None)


@dataclass(frozen=True, eq=False)
class Fills:
    """Draws places, runs the model on all of them in batches, and proposes the allowed words."""

    tools: Tools
    places: FillPlaces

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """Return fills in random order; none where no word may be replaced."""
        randoms: dict[int, Random] = {}
        work: list[_Place] = []
        for i, (caption, draw) in enumerate(zip(captions, draws, strict=True)):
            places = self.places(caption)
            if places:
                randoms[i] = draw()
                drawn = randoms[i].sample(places, min(PLACES, len(places)))
                work += [_Place(i, caption, place) for place in drawn]
        gains = self.tools.filler([spot.blank for spot in work]) if work else []
        fills: list[list[Changes]] = [[] for _ in captions]
        for spot, fill in self._same_form(list(self._best_fills(work, gains))):
            fills[spot.caption].append(spot.changes(fill))
        for i, random in randoms.items():
            random.shuffle(fills[i])
        return [*fills]

    def _best_fills(
        self, work: Sequence[_Place], gains: Sequence[Gains]
    ) -> Iterator[tuple[_Place, str]]:
        for spot, gain in zip(work, gains, strict=True):
            likely = (fill for fill in gain if gain[fill] >= -DROP)
            best = sorted(likely, key=lambda fill: (-gain[fill], fill))
            allowed = (fill for fill in best if self._is_allowed(spot, fill))
            yield from ((spot, fill) for fill in islice(allowed, BEST))

    def _is_allowed(self, spot: _Place, fill: str) -> bool:
        """Whether a fill excludes the old word and is not in the caption already."""
        old, wordnet = spot.old, self.tools.wordnet
        if old is None:
            return fill in spot.place.options
        lemma = _lemma(fill, old.tag)
        words = {
            *spot.parsed.lower,
            *(word.lemma.lower() for word in spot.parsed.words),
        }
        if fill in words or lemma in words or is_near(old.lemma, lemma):
            return False
        pos = _POS.get(old.tag[0])
        if wordnet is not None and pos is not None and wordnet.are_related(old.lemma, lemma, pos):
            return False
        if fill in spot.place.options or not spot.place.is_open or wordnet is None:
            return fill in spot.place.options
        # Both must be visible things of one sort, by their most common sense.
        sort = wordnet.field_of(old.lemma, "n")
        return sort in _VISIBLE and wordnet.field_of(lemma, "n") == sort

    def _same_form(self, fills: Sequence[tuple[_Place, str]]) -> Iterator[tuple[_Place, str]]:
        """Drop words that no rule gave and that the parser tags unlike the old word."""
        added = [fill not in spot.place.options for spot, fill in fills]
        texts = [
            spot.text(fill) for (spot, fill), is_added in zip(fills, added, strict=True) if is_added
        ]
        reparsed = iter(self.tools.parser(texts))
        for (spot, fill), is_added in zip(fills, added, strict=True):
            if not is_added or _is_alike(spot, next(reparsed)):
                yield spot, fill


class _Place(NamedTuple):
    """A place to fill in one caption."""

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
        """The blank for the model; a caption in capitals is put in lower case."""
        case = str.lower if self.parsed.is_upper else str
        offered = tuple((fill, case(self.text(fill))) for fill in self.place.options)
        return Blank(case(self.parsed.text), self.place.start, self.place.end, offered)


def _is_alike(spot: _Place, reparsed: Parsed) -> bool:
    word, words = spot.place.word, spot.parsed.words
    is_same_length = len(reparsed.words) == len(words)
    return word is not None and is_same_length and reparsed.words[word].tag == words[word].tag


@lru_cache(maxsize=4096)
def _lemma(word: str, tag: str) -> str:
    from lemminflect import getLemma  # type: ignore[import-untyped, unused-ignore]

    kind = _UPOS.get(tag[0])
    lemmas = getLemma(word, upos=kind) if kind else ()
    return str(lemmas[0]) if lemmas else word


class Filler(Protocol):
    """Finds words for blanks, many at once."""

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """Return words with their gain for each blank; none where the model cannot read it."""


def load_filler(path: str, *, device: str = "cpu") -> Filler:
    """Load a masked or a causal language model (also a .gguf file)."""
    if path.endswith(".gguf"):
        return CausalFiller(load_likelihood(path, device=device))
    need_transformers("a language model for fills")
    source = parse_source(path)
    kinds = tuple(read_config(source).architectures or ())
    if any(kind.endswith("ForMaskedLM") for kind in kinds):
        return _load_masked(source, device)
    if any(kind.endswith(_CAUSAL) for kind in kinds):
        return CausalFiller(load_likelihood(path, device=device))
    raise UnbagError(
        f"{path} is a {' or '.join(kinds) or 'model of unknown kind'}, which fills no blanks",
        expected="a masked language model (such as distilroberta-base) or a causal one",
        hint="a sentence encoder such as all-MiniLM has no language-model head: use the model "
        "that it was trained from",
    )


class Blank(NamedTuple):
    """A caption, the character span of a word, and captions with another word there."""

    text: str
    start: int
    end: int
    offered: tuple[tuple[str, str], ...]
    """The words of rules, each with the resulting caption (with corrected articles)."""


@dataclass(frozen=True, eq=False)
class CausalFiller:
    """Scores the words of rules by the log-probability of the whole caption.

    The gain is relative to the original caption.
    """

    model: Likelihood

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """Score all captions of all blanks in batches, each once."""
        texts = [blank.text for blank in blanks]
        texts += [text for blank in blanks for _, text in blank.offered]
        score = dict(zip(texts, self.model.of(texts), strict=True))
        return [
            {
                word: score[text] - score[blank.text]
                for word, text in blank.offered
                if not math.isnan(score[text] - score[blank.text])
            }
            for blank in blanks
        ]


@dataclass(frozen=True, eq=False)
class MaskedFiller:
    """Proposes the likeliest whole words for a blank, independent of the words of rules.

    Words of several tokens are never proposed, since there is one mask. The gain is relative to the
    likeliest word, since the old word may have several tokens.
    """

    model: Any
    tokenizer: Any
    context: int

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """Run blanks in batches of nearly the same length; equal blanks run once."""
        tokens = {blank[:3]: self._tokens(blank) for blank in blanks}
        gains = by_length({key: ids for key, ids in tokens.items() if ids}, self._run)
        return [gains.get(blank[:3], {}) for blank in blanks]

    @cached_property
    def words(self) -> dict[int, str]:
        """The tokens that are whole lower-case words after a space."""
        ids = sorted(set(self.tokenizer.get_vocab().values()))
        texts = [str(self.tokenizer.decode([i])).strip() for i in ids]
        plain = [
            (i, text)
            for i, text in zip(ids, texts, strict=True)
            if len(text) > 1 and text.isascii() and text.isalpha() and text.islower()
        ]
        if not plain:
            return {}
        reencoded = self.tokenizer([f" {text}" for _, text in plain], add_special_tokens=False)
        return {
            i: text
            for (i, text), tokens in zip(plain, reencoded["input_ids"], strict=True)
            if tokens == [i]
        }

    def _tokens(self, blank: Blank) -> list[int]:
        """The tokens of the blank; empty if they have not exactly one mask or are too many."""
        text = blank.text[: blank.start] + self.tokenizer.mask_token + blank.text[blank.end :]
        tokens: list[int] = self.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        is_valid = tokens.count(self.tokenizer.mask_token_id) == 1 and len(tokens) <= self.context
        return tokens if is_valid else []

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


def _load_masked(source: HfSource, device: str) -> MaskedFiller:
    from transformers import AutoModelForMaskedLM

    tokenizer = read_tokenizer(source)
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise UnbagError(
            f"the tokenizer of {source.path} has no mask or no padding",
            expected="the tokenizer that the masked model was trained with",
            hint="save that tokenizer into the model's folder",
        )
    model = read_weights(source, AutoModelForMaskedLM, unused=("bert.pooler.",))
    max_positions = getattr(model.config, "max_position_embeddings", None) or math.inf
    # RoBERTa counts positions from the padding token on.
    offset = tokenizer.pad_token_id + 1 if "roberta" in model.config.model_type else 0
    context = min(max_positions - offset, tokenizer.model_max_length)
    return MaskedFiller(model.float().to(device), tokenizer, int(min(context, 1_000_000)))
