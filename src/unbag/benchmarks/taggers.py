"""Find the part-of-speech tagger that some shuffles need: a spaCy pipeline or the user's own.

Two of ARO's four shuffles move words by their part of speech. The published numbers used spaCy's
en_core_web_sm.
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
    """The tagger for a choice: a spaCy pipeline (name or path), package.module:NAME, none or auto.

    `auto` takes the first installed one of en_core_web_sm, _md, _lg and the packaged
    en_core_web_md, or None if there is none.
    """
    if choice == "none":
        return None
    if choice == "auto":
        installed = find_installed()
        if installed is None:
            return None
        choice = installed
    elif choice in names("tagger") or (":" in choice and not Path(choice).exists()):
        tagger = find("tagger", choice)
        if not isinstance(tagger, Tagger):
            raise UnbagError(
                f"the tagger {choice!r} is a {type(tagger).__name__} without a name, or not "
                "callable",
                expected="a callable from captions to tokens with their tags, with a `name`",
                hint="docs/how-to/extend.md shows one",
            )
        return tagger
    return SpacyTagger(load_pipeline(choice, without=_UNUSED, needs=("tagger",), what="tagger"))


@dataclass(frozen=True, eq=False)
class SpacyTagger:
    """A spaCy pipeline as a tagger."""

    pipeline: Language

    @property
    def name(self) -> str:
        """Such as "spaCy en_core_web_md 3.8.0"."""
        return name_of(self.pipeline)

    def __call__(self, captions: Sequence[str]) -> Iterator[Tagged]:
        """Tag captions in batches; whitespace is not a token."""
        texts = (spaced(caption) for caption in captions)
        for document in self.pipeline.pipe(texts, batch_size=_BATCH):
            yield [(token.text, token.tag_) for token in document]


def with_tagger(benchmark: Benchmark, tagger: Tagger | None) -> Benchmark:
    """The benchmark with this tagger, named in its `about`; unchanged if it uses no tagger."""
    load, errata = benchmark.load, benchmark.errata
    if tagger is None or not isinstance(load, TakesTagger):
        return benchmark
    if errata is not None and isinstance(errata.load, TakesTagger):
        errata = replace(errata, load=errata.load.with_tagger(tagger))
    about = f"{benchmark.about} Parts of speech: {tagger.name}."
    return replace(benchmark, load=load.with_tagger(tagger), errata=errata, about=about)


def add_tagger(
    benchmarks: Sequence[Benchmark],
    choice: str = "auto",
    *,
    say: Callable[[str], None] | None = None,
) -> list[Benchmark]:
    """Give a tagger to the benchmarks that shuffle by part of speech, if there are any."""
    if not any(isinstance(benchmark.load, TakesTagger) for benchmark in benchmarks):
        return list(benchmarks)
    tagger = find_tagger(choice)
    if tagger is not None and say is not None:
        say(f"part-of-speech tagger: {tagger.name}")
    return [with_tagger(benchmark, tagger) for benchmark in benchmarks]


@runtime_checkable
class TakesTagger(Protocol):
    """A loader that needs a part-of-speech tagger."""

    def with_tagger(self, tagger: Tagger | None) -> TakesTagger:
        """Return a copy with this tagger."""

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load the items."""


def tag_captions(tagger: Tagger, captions: Sequence[str]) -> list[Tagged]:
    """Tag captions, and check the number and the form of the results."""
    output: object = tagger(captions)
    results = list(output) if isinstance(output, Iterable) else []
    if len(results) != len(captions):
        raise UnbagError(
            f"the tagger {tagger.name!r} gave {len(results)} results for {len(captions)} captions",
            expected="one for each caption, in their order",
            hint="fix the tagger; docs/how-to/extend.md shows one",
        )
    for caption, tokens in zip(captions, results, strict=True):
        if not _is_tagged(tokens):
            raise UnbagError(
                f"the tagger {tagger.name!r} gave {repr(tokens)[:80]} for {caption!r}",
                expected='a list of words with their tags, as in [("red", "JJ"), ("cat", "NN")]',
                hint="fix the tagger; docs/how-to/extend.md shows one",
            )
    return results


def _is_tagged(tokens: object) -> bool:
    return isinstance(tokens, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], str)
        for pair in tokens
    )


def warn_untagged(consequence: str) -> None:
    """Warn that the two shuffles by part of speech are left out, and say how to enable them."""
    warnings.warn(
        IncompleteWarning(
            "no tagger, so the two shuffles by part of speech are not asked; "
            f"{consequence}; {HOW_TO}, or name a pipeline with --tagger"
        ),
        stacklevel=3,
    )
