"""Open captions in any supported format, as entries to edit or as training pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from unbag.data.captions import Bad, EditedEntries, Entry, Source, expand, limited
from unbag.data.formats import (
    read_coco,
    read_json_lines,
    read_table,
    write_coco,
    write_json_lines,
    write_table,
)
from unbag.data.negclip import is_negclip, negclip_rows, read_neighbours
from unbag.data.pairs import PairRow, Pairs, PairsOrigin, pack
from unbag.data.parquet import read_parquet, write_parquet
from unbag.data.webdataset import open_shards, read_shards, write_shards
from unbag.errors import UnbagError, unknown_name


@dataclass(frozen=True)
class Form:
    """A file format of captions."""

    endings: tuple[str, ...]
    about: str
    read: Callable[[Source, Bad], Iterator[Entry]]
    write: Callable[[EditedEntries, Path], None]
    takes_all: bool = True
    """Whether captions from another format can be written in it."""


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "jsonl": Form((".jsonl", ".ndjson"), "JSON lines", read_json_lines, write_json_lines),
        "tsv": Form((".tsv",), "a table with tabs", read_table, partial(write_table, form="tsv")),
        "csv": Form((".csv",), "a table with commas", read_table, partial(write_table, form="csv")),
        "parquet": Form((".parquet",), "Parquet", read_parquet, write_parquet),
        "json": Form(
            (".json",), "COCO's or Karpathy's JSON", read_coco, write_coco, takes_all=False
        ),
        "shards": Form((".tar",), "webdataset shards", read_shards, write_shards, takes_all=False),
    }
)
NEGCLIP = "negclip"
"""Name of the format that edit jobs only write."""
FOLDERS = "folders"
OPENED = (*FORMS, NEGCLIP, FOLDERS)
"""Names of the formats that `open_pairs` reads."""
TEMPLATE = "a photo of a {}."
"""The first of CLIP's prompt templates."""
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"}
)


def entries(source: Source, bad: Bad | None = None) -> Iterator[Entry]:
    """Read the entries of a source, up to its limit."""
    entries_read = FORMS[source.form].read(source, bad or Bad(source.skips_bad))
    return limited(entries_read, source.limit)


def form_of(path: str, option: str) -> str:
    """Return the format by file extension; a folder holds shards."""
    ending = Path(path).suffix.lower()
    if Path(path).is_dir():
        return "shards"
    for name, form in FORMS.items():
        if ending in form.endings:
            return name
    known = ", ".join(ending for form in FORMS.values() for ending in form.endings)
    raise UnbagError(
        f"the extension of {path} is not that of a known format",
        expected=f"one of {known}, or a folder of shards",
        hint=f"give the format with {option}",
    )


def check_written(source: Source, form: str) -> None:
    """Raise UnbagError if captions of this source cannot be written in this format."""
    if form in (NEGCLIP, source.form) or FORMS[form].takes_all:
        return
    raise UnbagError(
        f"captions of {source.name} cannot be written as {FORMS[form].about}",
        expected=f"the format {form} only for captions read from it",
        hint="write .jsonl, .tsv, .csv or .parquet",
    )


def open_pairs(
    path: str,
    *,
    form: str | None = None,
    images: Path | None = None,
    neighbours: Path | None = None,
    caption_column: str = "",
    image_column: str = "",
    skips_missing: bool = False,
    skips_bad: bool = False,
) -> Pairs:
    """Read captions and edits; images are checked to exist, and opened later.

    Args:
        path: A file, a folder of shards or of classes, or a pattern of shards.
        form: One of `OPENED`; None decides by the file extension.
        images: Folder that image paths are relative to; None is that of the file.
        neighbours: The file that `unbag nearest` writes, for hard images.
        caption_column: Field or column with the caption; empty for the default names.
        image_column: Likewise for the image.
        skips_missing: Skip missing images, instead of raising UnbagError.
        skips_bad: Skip malformed lines and samples.
    """
    if not Path(path).is_dir() and not expand(path):
        raise UnbagError(
            f"there is no file {path}",
            expected="images with captions: a file, a folder, or a pattern of shards",
            hint="check the path given with --pairs",
        )
    form = form or pairs_form(path)
    if form not in OPENED:
        raise unknown_name(
            "form of pairs", form, OPENED, hint="docs/how-to/training-data.md has all"
        )
    near = read_neighbours(neighbours) if neighbours else None
    source = Source(path, form, caption_column, image_column, skips_bad=skips_bad, keeps_edits=True)
    if form == "shards":
        return open_shards(source, neighbours=near)
    if form == FOLDERS:
        origin = PairsOrigin(f"class folders {source.name}", images or Path(path), skips_missing)
        return pack(folder_rows(Path(path)), origin, neighbours=near)
    about = "NegCLIP's TSV" if form == NEGCLIP else FORMS[form].about
    root = images or source.file.parent
    origin = PairsOrigin(f"{about} {source.name}", root, skips_missing)
    if form == NEGCLIP:
        return pack(negclip_rows(source), origin, neighbours=near)
    bad = Bad(source.skips_bad)
    try:
        pairs = pack(entry_rows(source, bad), origin, neighbours=near)
    except UnbagError as error:
        # The readers' hints name options of `unbag edit`.
        hint = error.hint.replace("--captions-format", "--pairs-format")
        raise UnbagError(error.message, expected=error.expected, hint=hint) from error
    left_out = f", {bad.count:,} malformed lines left out" if bad.count else ""
    return replace(pairs, about=pairs.about + left_out)


def pairs_form(path: str) -> str:
    """Return the format of a path: a folder holds shards or classes, a TSV may be NegCLIP's."""
    if Path(path).is_dir() and not expand(path):
        return FOLDERS
    form = form_of(path, "--pairs-format")
    return NEGCLIP if form == "tsv" and is_negclip(path) else form


def entry_rows(source: Source, bad: Bad) -> Iterator[PairRow]:
    """Yield one row per image, with its non-empty captions."""
    for entry in entries(source, bad):
        texts = [" ".join(caption.text.split()) for caption in entry.captions]
        non_empty = [i for i, text in enumerate(texts) if text]
        if not entry.image:
            bad(
                UnbagError(
                    f"{entry.captions[0].where} has no image",
                    expected="an image for each caption, in a field such as image",
                    hint="name the field or column with --image-column",
                )
            )
        elif non_empty:
            edits = tuple(entry.edits[i] for i in non_empty) if entry.edits else ()
            yield PairRow(entry.image, entry.image, tuple(texts[i] for i in non_empty), edits)


def folder_rows(root: Path) -> Iterator[PairRow]:
    """Yield one row per image, sorted by name; the caption names the class, the folder name."""
    classes = sorted(
        folder for folder in root.iterdir() if folder.is_dir() and folder.name[0] != "."
    )
    if not classes:
        raise UnbagError(
            f"{root} contains neither shards nor class folders",
            expected="files that end in .tar, or folders named after classes",
            hint="give the caption file itself",
        )
    for folder in classes:
        caption = TEMPLATE.format(folder.name.replace("_", " "))
        names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)
        if not names:
            raise UnbagError(
                f"the class folder {folder} contains no images",
                expected=f"files that end in {', '.join(sorted(IMAGE_SUFFIXES))}",
                hint="add images, or remove it",
            )
        for name in names:
            yield PairRow(f"{folder.name}/{name}", f"{folder.name}/{name}", (caption,))
