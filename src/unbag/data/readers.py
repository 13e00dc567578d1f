"""A file or folder that the user names comes in; pairs to train on go out, whatever its form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from unbag.data import formats as coco
from unbag.data import formats as json_lines
from unbag.data import formats as tables
from unbag.data import parquet
from unbag.data import webdataset as shards
from unbag.data.captions import Bad, Entry, Pairs, Source, expand, limited
from unbag.data.negclip import ABOUT as ABOUT_NEGCLIP
from unbag.data.negclip import is_negclip, negclip_rows, read_neighbours
from unbag.data.pairs import Origin, PackedPairs, Row, pack
from unbag.data.pairs import Pairs as PairsPairs
from unbag.data.webdataset import open_shards
from unbag.errors import UserError, unknown_name

# Forms of collections by name or by the ending of a file: how each is read and written.


@dataclass(frozen=True)
class Form:
    """How captions are kept in files."""

    endings: tuple[str, ...]
    about: str
    read: Callable[[Source, Bad], Iterator[Entry]]
    write: Callable[[Pairs, Path], None]
    takes_all: bool = True
    """Whether captions that come from another form can be written in it."""


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "jsonl": Form(
            (".jsonl", ".ndjson"),
            "JSON lines",
            json_lines.json_lines_read,
            json_lines.json_lines_write,
        ),
        "tsv": Form((".tsv",), "a table with tabs", tables.tables_read, tables.write_tsv),
        "csv": Form((".csv",), "a table with commas", tables.tables_read, tables.write_csv),
        "parquet": Form((".parquet",), "Parquet", parquet.read, parquet.write),
        "json": Form(
            (".json",),
            "COCO's or Karpathy's JSON",
            coco.coco_read,
            coco.coco_write,
            takes_all=False,
        ),
        "shards": Form((".tar",), "webdataset shards", shards.read, shards.write, takes_all=False),
    }
)
NEGCLIP = "negclip"
"""A form that is written only."""
READ = tuple(FORMS)
WRITTEN = (*FORMS, NEGCLIP)


def form_of(path: str, option: str) -> str:
    """The form that a file's ending says; a folder holds shards."""
    ending = Path(path).suffix.lower()
    if Path(path).is_dir():
        return "shards"
    for name, form in FORMS.items():
        if ending in form.endings:
            return name
    known = ", ".join(ending for form in FORMS.values() for ending in form.endings)
    raise UserError(
        f"the ending of {path} says nothing about its form",
        expected=f"one of {known}, or a folder of shards",
        way_out=f"say which it is with {option}",
    )


def check_written(source: Source, form: str) -> None:
    """Whether captions of this source can be written in this form."""
    if form in (NEGCLIP, source.form) or FORMS[form].takes_all:
        return
    raise UserError(
        f"captions of {source.name} cannot be written as {FORMS[form].about}",
        expected=f"the form {form} only where the captions come from it",
        way_out="write .jsonl, .tsv, .csv or .parquet",
    )


def entries(source: Source, bad: Bad | None = None) -> Iterator[Entry]:
    """What the source holds, as far as it is wanted."""
    found = FORMS[source.form].read(source, bad or Bad(source.skips_bad))
    return limited(found, source.limit)


def entry_rows(source: Source, bad: Bad) -> Iterator[Row]:
    """One row a picture, with the captions that say anything."""
    for entry in entries(source, bad):
        row = _row(entry)
        if not row.picture:
            bad(_no_picture(entry))
        elif row.captions:
            yield row


def _row(entry: Entry) -> Row:
    texts = [" ".join(caption.text.split()) for caption in entry.captions]
    kept = [at for at, text in enumerate(texts) if text]
    edits = tuple(entry.edits[at] for at in kept) if entry.edits else ()
    return Row(entry.picture, entry.picture, tuple(texts[at] for at in kept), edits)


def _no_picture(entry: Entry) -> UserError:
    return UserError(
        f"{entry.captions[0].where} names no picture",
        expected="a picture for each caption, such as the field image",
        way_out="name the field or column with --picture-column",
    )


FOLDERS = "folders"
ABOUT = "class folders"
TEMPLATE = "a photo of a {}."
"""The first of CLIP's templates."""
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})


def folder_rows(root: Path) -> Iterator[Row]:
    """One row a picture, in the order of names; the name of a folder is that of its class."""
    classes = sorted(one for one in root.iterdir() if one.is_dir() and one.name[0] != ".")
    if not classes:
        raise UserError(
            f"{root} holds neither shards nor a folder for each class",
            expected="files that end in .tar, or folders named after classes",
            way_out="name the file of captions itself",
        )
    for one in classes:
        caption = TEMPLATE.format(one.name.replace("_", " "))
        names = sorted(p.name for p in one.iterdir() if p.suffix.lower() in _PICTURES)
        if not names:
            raise UserError(
                f"the class folder {one} holds no pictures",
                expected=f"files that end in {', '.join(sorted(_PICTURES))}",
                way_out="fill it, or remove it",
            )
        for name in names:
            yield Row(f"{one.name}/{name}", f"{one.name}/{name}", (caption,))


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
) -> PairsPairs:
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
        origin = Origin(f"{ABOUT} {source.name}", pictures or Path(path), skips_missing)
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
