"""Finds the part-of-speech tagger that some shuffles need: a spaCy pipeline or the user's own.

Two of the four shuffles of ARO move words by their part of speech. The published numbers were made
with spaCy's en_core_web_sm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from unbag.edits.parsing import HOW_TO, find_installed, load_pipeline, name_of
from unbag.edits.shuffles import Tagged, Tagger, spaced
from unbag.errors import IncompleteWarning, UnbagError
from unbag.registry import find, names
from unbag.types import Benchmark, Item

if TYPE_CHECKING:
    from spacy.language import Language


_UNUSED = ("parser", "ner", "lemmatizer", "senter")
_BATCH = 256


def find_tagger(choice: str = "auto") -> Tagger | None:
    """A spaCy pipeline by name or path, package.module:NAME of a tagger of yours, none, or auto.

    `auto` takes the first that is installed of en_core_web_sm, _md, _lg and the packaged
    en_core_web_md, and gives None where there is none.
    """
    if choice == "none":
        return None
    if choice == "auto":
        installed = find_installed()
        if installed is None:
            return None
        choice = installed
    elif choice in names("tagger") or (":" in choice and not Path(choice).exists()):
        found = find("tagger", choice)
        if not isinstance(found, Tagger):
            raise UnbagError(
                f"the tagger {choice!r} is a {type(found).__name__} without a name, or not "
                "callable",
                expected="a callable from captions to tokens with their tags, with a `name`",
                hint="docs/extending.md shows one",
            )
        return found
    return SpacyTagger(load_pipeline(choice, without=_UNUSED, needs=("tagger",), what="tagger"))


@dataclass(frozen=True, eq=False)
class SpacyTagger:
    """A spaCy pipeline."""

    pipeline: Language

    @property
    def name(self) -> str:
        """Such as "spaCy en_core_web_md 3.8.0"."""
        return name_of(self.pipeline)

    def __call__(self, captions: Sequence[str]) -> Iterator[Tagged]:
        """Many at once; spaces are no tokens."""
        texts = (spaced(caption) for caption in captions)
        for document in self.pipeline.pipe(texts, batch_size=_BATCH):
            yield [(token.text, token.tag_) for token in document]


def with_tagger(benchmark: Benchmark, tagger: Tagger | None) -> Benchmark:
    """The benchmark with this tagger, which its `about` then names; others stay as they are."""
    load, errata = benchmark.load, benchmark.errata
    if tagger is None or not isinstance(load, TakesTagger):
        return benchmark
    if errata is not None and isinstance(errata.load, TakesTagger):
        errata = replace(errata, load=errata.load.with_tagger(tagger))
    about = f"{benchmark.about} Parts of speech: {tagger.name}."
    return replace(benchmark, load=load.with_tagger(tagger), errata=errata, about=about)


def tagged(
    benchmarks: Sequence[Benchmark],
    choice: str = "auto",
    *,
    say: Callable[[str], None] | None = None,
) -> list[Benchmark]:
    """Give a tagger to those that shuffle by part of speech; look for it only if one does."""
    if not any(isinstance(one.load, TakesTagger) for one in benchmarks):
        return list(benchmarks)
    tagger = find_tagger(choice)
    if tagger is not None and say is not None:
        say(f"part-of-speech tagger: {tagger.name}")
    return [with_tagger(one, tagger) for one in benchmarks]


@runtime_checkable
class TakesTagger(Protocol):
    """A loader that makes captions by part of speech."""

    def with_tagger(self, tagger: Tagger | None) -> TakesTagger:
        """The same with another tagger."""

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """As any loader."""


def tags_of(tagger: Tagger, captions: Sequence[str]) -> list[Tagged]:
    """What the tagger says of each caption, if it is of the right number and shape."""
    given: object = tagger(captions)
    found = list(given) if isinstance(given, Iterable) else []
    if len(found) != len(captions):
        raise UnbagError(
            f"the tagger {tagger.name!r} gave {len(found)} results for {len(captions)} captions",
            expected="one for each caption, in their order",
            hint="mend the tagger; docs/extending.md shows one",
        )
    for caption, tagged in zip(captions, found, strict=True):
        if not _is_tagged(tagged):
            raise UnbagError(
                f"the tagger {tagger.name!r} gave {repr(tagged)[:80]} for {caption!r}",
                expected='a list of words with their tags, as in [("red", "JJ"), ("cat", "NN")]',
                hint="mend the tagger; docs/extending.md shows one",
            )
    return found


def _is_tagged(given: object) -> bool:
    return isinstance(given, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], str)
        for pair in given
    )


def warn_untagged(consequence: str) -> None:
    """Say that the two shuffles by part of speech are left out, and how to have them."""
    warnings.warn(
        IncompleteWarning(
            "no tagger, so the two shuffles by part of speech are not asked; "
            f"{consequence}; {HOW_TO}, or name a pipeline with --tagger"
        ),
        stacklevel=3,
    )
