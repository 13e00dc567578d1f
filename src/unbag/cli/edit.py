"""`unbag edit`: generate hard negatives and positives for a caption file or one caption."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    CAPTION_FILES,
    add_command,
    add_config,
    add_device,
    add_seed,
    add_server,
    positive,
)
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.data.captions import Source
    from unbag.edits.jobs.run import EditJob, EditSummary
    from unbag.edits.kinds import EditParts, Kind
    from unbag.registry import Commands
    from unbag.reports.table import Table

_ABOUT = """\
Generate hard negatives and hard positives for a caption file, or for one caption. Run the same
command again to resume an interrupted job.
"""

_EXAMPLES = """\
examples:
  unbag edit --try "A black dog sits to the left of a small child."
  unbag edit --captions captions.jsonl --out edits.jsonl --workers 8
  unbag edit --captions coco.json --kinds neg_clip_fixed --out train.tsv --format negclip
  unbag edit --captions "shards/{000000..000099}.tar" --kinds negatives --out edited

kinds:
  `unbag list edits` lists them; groups are default, negatives, positives, all, neg_clip_fixed ...
"""

_FORMS = (*CAPTION_FILES, "shards")

_LONG = 60
"""Largest number of characters of reasons in the table; summary.json has all of them."""

_FILE_OPTIONS = (
    "captions",
    "out",
    "captions_format",
    "format",
    "caption_column",
    "image_column",
    "limit",
    "bad_lines",
    "neighbours",
    "leak",
    "workers",
    "ray",
)
"""Options of caption files, which --try rejects; empty or None unless given."""


def add(commands: Commands) -> None:
    """Add the options: a caption file or one caption, kinds of edits, and models."""
    text = "generate hard negatives and hard positives of captions"
    edit = add_command(commands, "edit", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "print the edits of one caption"
    edit.add_argument("--try", dest="tried", metavar="CAPTION", help=text)
    add_config(edit)
    _add_files(edit.add_argument_group("files"))
    _add_edits(edit.add_argument_group("edits"))
    _add_models(edit.add_argument_group("models and machine"))


def start(options: argparse.Namespace) -> int:
    """Edit a caption file or one caption."""
    from unbag.cli.console import output, print_lines, terminal_progress
    from unbag.edits.jobs.run import run_edit
    from unbag.edits.kinds import find_kinds

    if options.tried is not None:
        return _try(options)
    summary = run_edit(_job(options), progress=terminal_progress())
    output().print(_table(summary, find_kinds(options.kinds)))
    print_lines(_lines(summary))
    return 0


def _add_files(files: argparse._ArgumentGroup) -> None:
    text = "caption file; for webdataset shards also a folder or a glob pattern"
    files.add_argument("--captions", metavar="FILE", help=text)
    text = "output file, or a folder for shards"
    files.add_argument("--out", type=Path, metavar="FILE", help=text)
    text = "format of --captions (default: by its file extension)"
    files.add_argument("--captions-format", choices=_FORMS, help=text)
    text = "format of --out (default: by its file extension)"
    files.add_argument("--format", choices=(*_FORMS, "negclip"), help=text)
    text = "column or field with the caption (default: caption, title or text)"
    files.add_argument("--caption-column", default="", metavar="C", help=text)
    text = "column or field with the image path (default: filepath, image or url)"
    files.add_argument("--image-column", default="", metavar="C", help=text)
    text = "edit only the first N captions"
    files.add_argument("--limit", type=positive, metavar="N", help=text)
    text = "malformed lines: stop before editing, or skip them (default: error)"
    files.add_argument("--bad-lines", choices=("error", "skip"), help=text)
    text = "nearest images, as written by `unbag nearest`, for --format negclip"
    files.add_argument("--neighbours", type=Path, metavar="FILE", help=text)


def _add_edits(edits: argparse._ArgumentGroup) -> None:
    text = "kinds of edits or groups of kinds (default: the group default)"
    edits.add_argument("--kinds", nargs="+", default=["default"], metavar="K", help=text)
    text = "number of edits per kind and caption"
    edits.add_argument("--per-kind", type=positive, default=1, metavar="N", help=text)
    add_seed(edits, "of the edits")
    text = "additional filters: fluency:PATH, meaning:PATH, package.module:NAME"
    edits.add_argument("--filters", nargs="+", default=[], metavar="F", help=text)
    text = (
        "language model that measures how often the original is more likely than its edit, by kind"
    )
    edits.add_argument("--leak", default="", metavar="PATH", help=text)


def _add_models(models: argparse._ArgumentGroup) -> None:
    text = "spaCy pipeline by name or folder; auto is the first installed one"
    models.add_argument("--pipeline", default="auto", metavar="P", help=text)
    text = "WordNet folder; auto searches the standard locations"
    models.add_argument("--wordnet", default="auto", metavar="DIR", help=text)
    text = "masked or causal language model for kinds that fill in words: a folder or name"
    models.add_argument("--fill", default="", metavar="M", help=text)
    text = "chat model for kinds that rewrite captions: hf:FOLDER or server:MODEL@URL"
    models.add_argument("--rewrite", default="", metavar="M", help=text)
    add_device(models)
    text = "cache folder for server responses (default: $XDG_CACHE_HOME/unbag or ~/.cache/unbag)"
    models.add_argument("--cache", type=Path, metavar="DIR", help=text)
    add_server(models)
    text = "worker processes; the output is the same for any number (default: 1)"
    models.add_argument("--workers", type=positive, metavar="N", help=text)
    text = "run on a Ray cluster instead: host:port, auto, or local"
    models.add_argument("--ray", default="", metavar="ADDRESS", help=text)


def _job(options: argparse.Namespace) -> EditJob:
    from unbag.data.captions import Source
    from unbag.data.readers import form_of
    from unbag.edits.jobs.run import EditJob

    if not options.captions or not options.out:
        raise UnbagError(
            "--captions and --out were not both given",
            expected="a caption file and an output file",
            hint='for one caption: unbag edit --try "a caption"',
        )
    source = Source(
        options.captions,
        options.captions_format or form_of(options.captions, "--captions-format"),
        caption_column=options.caption_column,
        image_column=options.image_column,
        skips_bad=options.bad_lines == "skip",
        limit=options.limit,
    )
    return EditJob(
        source,
        options.out,
        form=options.format or _output_format(options.out, source),
        kinds=tuple(options.kinds),
        parts=_parts(options),
        filters=tuple(options.filters),
        seed=options.seed,
        per_kind=options.per_kind,
        workers=options.workers or 1,
        ray=options.ray,
        leak=options.leak,
        neighbours=options.neighbours,
    )


def _output_format(out: Path, source: Source) -> str:
    """Return the output format by extension; a name without one is a folder of shards."""
    from unbag.data.readers import form_of

    return "shards" if source.form == "shards" and not out.suffix else form_of(str(out), "--format")


def _parts(options: argparse.Namespace) -> EditParts:
    from unbag.edits.kinds import EditParts
    from unbag.runs.cache import default_cache

    return EditParts(
        pipeline=options.pipeline,
        wordnet=options.wordnet,
        fill=options.fill,
        rewrite=options.rewrite,
        device=options.device,
        cache=str(options.cache or default_cache()),
        concurrency=options.concurrency,
        budget=options.max_requests,
    )


def _table(summary: EditSummary, kinds: Sequence[Kind]) -> Table:
    """Return a table with a row per kind: candidate places, captions, edits and rejections."""
    from unbag.edits.editor import KindTally
    from unbag.reports.formatting import percent_text
    from unbag.reports.table import Table

    names = ["kind", "places", "captions", "share", "edits", "rejected"]
    rows = []
    for kind in kinds:
        tally = summary.tally.kinds.get(kind.name) or KindTally()
        rejected = ", ".join(
            f"{reason} {count:,}" for reason, count in tally.rejected.most_common()
        )
        cells = [
            f"{kind.name} {'+' if kind.is_positive else '-'}",
            f"{tally.places:,}",
            f"{tally.captions:,}",
            percent_text(tally.captions, summary.tally.captions),
            f"{tally.edits:,}",
            rejected if len(rejected) <= _LONG else f"{rejected[:_LONG]}...",
        ]
        if leak := summary.leaks.get(kind.name):
            cells.append(percent_text(leak.preferred, 1, digits=0))
        rows.append(cells)
    names += ["original more likely"] if summary.leaks else []
    return replace(Table.of(names, rows, right=(1, 2, 3, 4, 6)), look="plain")


def _lines(summary: EditSummary) -> list[str]:
    """Return the lines below the table."""
    from unbag.reports.formatting import percent_text

    tally = summary.tally
    lines = [
        f"{tally.captions:,} captions: {tally.edited:,} edited "
        f"({percent_text(tally.edited, tally.captions)}), {tally.without_edit:,} without edits, "
        f"{tally.skipped.total():,} skipped"
    ]
    lines += [f"  skipped: {reason}: {count:,}" for reason, count in tally.skipped.most_common()]
    lines += [f"  failed: {named}" for named in summary.failures_named]
    lines += [f"  malformed: {named}" for named in summary.bad_named]
    if summary.bad > len(summary.bad_named):
        lines.append(f"  malformed: {summary.bad:,} lines in total")
    lines += [f"note: {note}" for note in summary.notes]
    return [*lines, f"edits: {summary.out}", f"summary: {summary.path(summary.out)}"]


def _try(options: argparse.Namespace) -> int:
    from unbag.cli.console import output
    from unbag.edits.editor import make_editor
    from unbag.edits.filters import make_filters
    from unbag.models.loading import check_device
    from unbag.reports.table import Column, Table
    from unbag.types import Given

    if ignored := [name for name in _FILE_OPTIONS if getattr(options, name) not in (None, "")]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in ignored)
        raise UnbagError(
            f"--try was given with {flags}",
            expected="either one caption (--try) or a file of captions (--captions, --out)",
            hint=f"remove {flags}, or remove --try",
        )
    check_device(options.device)
    editor = make_editor(
        options.kinds,
        parts=_parts(options),
        filters=make_filters(options.filters, device=options.device),
        seed=options.seed,
        per_kind=options.per_kind,
    )
    [edited], _ = editor([Given(options.tried, options.tried)])
    print(edited.text)
    if edited.skipped:
        print(f"skipped: {edited.skipped}")
        return 0
    rows = [("+" if e.is_positive else "-", e.kind, e.text) for e in edited.edits]
    output().print(Table((Column(),) * 3, rows, has_head=False, look="plain"))
    kinds = {edit.kind for edit in edited.edits}
    if without_edits := [kind.name for kind in editor.kinds if kind.name not in kinds]:
        print(f"no edits of kind: {', '.join(without_edits)}")
    return 0
