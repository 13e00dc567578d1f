"""A file or folder that the user names comes in; pairs to train on go out, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unbag.corpus.forms import FORMS, NEGCLIP, form_of
from unbag.corpus.negclip import read_neighbours
from unbag.corpus.patterns import expand
from unbag.corpus.source import Bad, Source
from unbag.errors import UserError, unknown_name
from unbag.train.packed import Origin, PackedPairs, pack
from unbag.train.pairs import Pairs
from unbag.train.pairs_entries import entry_rows
from unbag.train.pairs_folders import ABOUT as ABOUT_FOLDERS
from unbag.train.pairs_folders import FOLDERS, folder_rows
from unbag.train.pairs_negclip import ABOUT as ABOUT_NEGCLIP
from unbag.train.pairs_negclip import is_negclip, negclip_rows
from unbag.train.pairs_shards import open_shards

OPENED = (*FORMS, NEGCLIP, FOLDERS)
"""Forms by name."""


def open_pairs(
    path: str,
    *,
    form: str | None = None,
    pictures: Path | None = None,
    neighbours: Path | None = None,
    caption_column: str = "",
    picture_column: str = "",
    skips_missing: bool = False,
    skips_bad: bool = False,
) -> Pairs:
    """Read captions and edits; pictures are looked for, and opened later.

    Args:
        path: A file, a folder of shards or of classes, or a pattern of shards.
        form: One of `OPENED`; None decides by the ending.
        pictures: Folder that names of pictures start from; None is that of the file.
        neighbours: What `unbag nearest` wrote, for hard pictures.
        caption_column: Field or column with the caption; empty for the usual names.
        picture_column: Likewise for the picture.
        skips_missing: Leave pictures out that are not there, instead of raising UserError.
        skips_bad: Leave broken lines and samples out.
    """
    _check_there(path)
    form = form or pairs_form(path)
    if form not in OPENED:
        raise unknown_name("form of pairs", form, OPENED, way_out="docs/training-data.md has all")
    near = read_neighbours(neighbours) if neighbours else None
    source = Source(
        path, form, caption_column, picture_column, skips_bad=skips_bad, keeps_edits=True
    )
    if form == "shards":
        return open_shards(source, neighbours=near)
    if form == FOLDERS:
        origin = Origin(f"{ABOUT_FOLDERS} {source.name}", pictures or Path(path), skips_missing)
        return pack(folder_rows(Path(path)), origin, neighbours=near)
    root = pictures or source.file.parent
    if form == NEGCLIP:
        origin = Origin(f"{ABOUT_NEGCLIP} {source.name}", root, skips_missing)
        return pack(negclip_rows(source), origin, neighbours=near)
    origin = Origin(f"{FORMS[form].about} {source.name}", root, skips_missing)
    return _packed_entries(source, origin, near)


def _packed_entries(
    source: Source, origin: Origin, near: Mapping[str, Sequence[str]] | None
) -> PackedPairs:
    bad = Bad(source.skips_bad)
    try:
        pairs = pack(entry_rows(source, bad), origin, neighbours=near)
    except UserError as error:
        # Readers speak of the options of `unbag edit`.
        way_out = error.way_out.replace("--captions-format", "--form")
        raise UserError(error.found, expected=error.expected, way_out=way_out) from error
    if not bad.count:
        return pairs
    return replace(pairs, about=f"{pairs.about}, {bad.count:,} broken lines left out")


def _check_there(path: str) -> None:
    if not Path(path).is_dir() and not expand(path):
        raise UserError(
            f"there is no file {path}",
            expected="pictures with captions: a file, a folder, or a pattern of shards",
            way_out="check the path given with --pairs",
        )


def pairs_form(path: str) -> str:
    """The form that a path says: a folder holds shards or classes, a TSV may be NegCLIP's."""
    if Path(path).is_dir() and not expand(path):
        return FOLDERS
    form = form_of(path, "--form")
    return NEGCLIP if form == "tsv" and is_negclip(path) else form
