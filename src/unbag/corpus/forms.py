"""Forms of collections by name or by the ending of a file: how each is read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from unbag.corpus import coco, json_lines, parquet, shards, tables
from unbag.corpus.entries import Entry, limited
from unbag.corpus.source import Bad, Source
from unbag.corpus.written import Pairs
from unbag.errors import UserError


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
        "jsonl": Form((".jsonl", ".ndjson"), "JSON lines", json_lines.read, json_lines.write),
        "tsv": Form((".tsv",), "a table with tabs", tables.read, tables.write_tsv),
        "csv": Form((".csv",), "a table with commas", tables.read, tables.write_csv),
        "parquet": Form((".parquet",), "Parquet", parquet.read, parquet.write),
        "json": Form(
            (".json",),
            "COCO's or Karpathy's JSON",
            coco.read,
            coco.write,
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
