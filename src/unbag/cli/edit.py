"""`unbag edit`: hard negatives and hard positives of a file of captions, or of one caption."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import CAPTION_FILES, add_command, add_device, add_server, positive
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.data.captions import Source
    from unbag.edits.jobs.run import EditJob, EditSummary
    from unbag.edits.kinds import EditParts, Kind
    from unbag.registry import Commands
    from unbag.reports.table import Table

_ABOUT = """\
Make hard negatives and hard positives of the captions of a collection, or of one caption. A job
that was stopped goes on when the same command is given again.
"""

_EXAMPLES = """\
examples:
  unbag edit --try "A black dog sits to the left of a small child."
  unbag edit --captions captions.jsonl --out edits.jsonl --workers 8
  unbag edit --captions coco.json --kinds neg_clip_fixed --out train.tsv --format negclip
  unbag edit --captions "shards/{000000..000099}.tar" --kinds negatives --out edited

kinds:
  `unbag list edits` shows all; groups are default, negatives, positives, all, neg_clip_fixed ...
"""

_FORMS = (*CAPTION_FILES, "shards")

_LONG = 60
"""Characters of reasons in the table; the summary has all."""

_OF_COLLECTIONS = (
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
"""Options that one caption has no use for; where they were not given they are empty."""


def add(commands: Commands) -> None:
    """A collection or one caption, kinds, and what the kinds need."""
    text = "hard negatives and hard positives of captions"
    edit = add_command(commands, "edit", text=text, about=_ABOUT, examples=_EXAMPLES)
    edit.add_argument("--try", dest="tried", metavar="CAPTION", help="print edits of one caption")
    _add_files(edit)
    _add_edits(edit)
    text = "processes; the output is the same for any number (default: 1)"
    edit.add_argument("--workers", type=positive, metavar="N", help=text)
    text = "a Ray cluster that does the work instead: host:port, auto, or local"
    edit.add_argument("--ray", default="", metavar="ADDRESS", help=text)


def start(options: argparse.Namespace) -> int:
    """Edit a collection, or try one caption."""
    from unbag.cli.console import output, print_lines, shown
    from unbag.edits.jobs.run import run_edit
    from unbag.edits.kinds import find_kinds

    if options.tried is not None:
        return _try(options)
    summary = run_edit(_job(options), progress=shown())
    output().print(_table(summary, find_kinds(options.kinds)))
    print_lines(_lines(summary))
    return 0


def _add_files(edit: argparse.ArgumentParser) -> None:
    text = "a file of captions; for shards also a folder or a pattern"
    edit.add_argument("--captions", metavar="FILE", help=text)
    edit.add_argument("--out", type=Path, metavar="FILE", help="for shards a folder")
    text = "of --captions: {} (default: by its ending)".format(", ".join(_FORMS))
    edit.add_argument("--captions-format", choices=_FORMS, metavar="F", help=text)
    text = "of --out: the same, or negclip (default: by its ending)"
    edit.add_argument("--format", choices=(*_FORMS, "negclip"), metavar="F", help=text)
    text = "column or field of captions (default: caption, title or text)"
    edit.add_argument("--caption-column", default="", metavar="C", help=text)
    text = "column or field that names the image (default: filepath, image or url)"
    edit.add_argument("--picture-column", default="", metavar="C", help=text)
    edit.add_argument("--limit", type=positive, metavar="N", help="only the first N captions")
    edit.add_argument(
        "--bad-lines",
        choices=("error", "skip"),
        help="broken lines: stop before anything is computed (default), or leave them out",
    )
    text = "nearest images, for --format negclip: lines of {image, neighbours}"
    edit.add_argument("--neighbours", type=Path, metavar="FILE", help=text)


def _add_edits(edit: argparse.ArgumentParser) -> None:
    text = "kinds of edits or groups of them (default: default)"
    edit.add_argument("--kinds", nargs="+", default=["default"], metavar="K", help=text)
    text = "edits of each kind for a caption (default: 1)"
    edit.add_argument("--per-kind", type=positive, default=1, metavar="N", help=text)
    edit.add_argument("--seed", type=int, default=0, help="decides what is drawn (default: 0)")
    text = "besides those always on: fluency:PATH, meaning:PATH, package.module:NAME"
    edit.add_argument("--filters", nargs="+", default=[], metavar="F", help=text)
    text = "a language model that tries to tell edits from originals, by kind"
    edit.add_argument("--leak", default="", metavar="PATH", help=text)
    text = "spaCy pipeline by name or folder (default: auto, the first installed)"
    edit.add_argument("--pipeline", default="auto", metavar="P", help=text)
    text = "folder with WordNet (default: auto, where it is usually installed)"
    edit.add_argument("--wordnet", default="auto", metavar="DIR", help=text)
    text = "language model for kinds that fill in words: folder or name"
    edit.add_argument("--fill", default="", metavar="M", help=text)
    text = "chat model for kinds that rewrite: hf:FOLDER or server:MODEL@URL"
    edit.add_argument("--rewrite", default="", metavar="M", help=text)
    add_device(edit)
    text = "where answers of a server are kept between runs"
    edit.add_argument("--cache", type=Path, metavar="DIR", help=text)
    add_server(edit)


def _job(options: argparse.Namespace) -> EditJob:
    from unbag.data.captions import Source
    from unbag.data.readers import form_of
    from unbag.edits.jobs.run import EditJob

    if not options.captions or not options.out:
        raise UnbagError(
            "--captions and --out were not both given",
            expected="a file of captions and where the edits go",
            hint='for a single caption: unbag edit --try "a caption"',
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
        form=options.format or _form(options.out, source),
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


def _form(out: Path, source: Source) -> str:
    """Of the output: its ending says it; a name without one is a folder, if shards are edited."""
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
        budget=options.budget,
    )


def _table(summary: EditSummary, kinds: Sequence[Kind]) -> Table:
    """A row a kind: how many captions have a place for it, and what became of it."""
    from unbag.edits.editor import KindTally
    from unbag.reports.formatting import percent_text
    from unbag.reports.table import Table

    names = ["kind", "places", "captions", "share", "edits", "rejected"]
    rows = []
    for kind in kinds:
        of = summary.tally.kinds.get(kind.name) or KindTally()
        rejected = ", ".join(f"{reason} {count:,}" for reason, count in of.rejected.most_common())
        cells = [
            f"{kind.name} {'+' if kind.is_positive else '-'}",
            f"{of.places:,}",
            f"{of.captions:,}",
            percent_text(of.captions, summary.tally.captions),
            f"{of.edits:,}",
            rejected if len(rejected) <= _LONG else f"{rejected[:_LONG]}...",
        ]
        if leak := summary.leaks.get(kind.name):
            cells.append(percent_text(leak.preferred, 1, digits=0))
        rows.append(cells)
    names += ["original likelier"] if summary.leaks else []
    return replace(Table.of(names, rows, right=(1, 2, 3, 4, 6)), look="plain")


def _lines(summary: EditSummary) -> list[str]:
    """What is said below the table."""
    from unbag.reports.formatting import percent_text

    tally = summary.tally
    lines = [
        f"{tally.captions:,} captions: {tally.edited:,} edited "
        f"({percent_text(tally.edited, tally.captions)}), {tally.without_edit:,} without an edit, "
        f"{tally.skipped.total():,} skipped"
    ]
    lines += [f"  skipped: {reason}: {count:,}" for reason, count in tally.skipped.most_common()]
    lines += [f"  failed: {named}" for named in summary.failures_named]
    lines += [f"  left out: {named}" for named in summary.bad_named]
    if summary.bad > len(summary.bad_named):
        lines.append(f"  left out: {summary.bad:,} broken lines in all")
    lines += [f"note: {note}" for note in summary.notes]
    return [*lines, f"edits: {summary.out}", f"summary: {summary.path(summary.out)}"]


def _try(options: argparse.Namespace) -> int:
    from unbag.cli.console import output
    from unbag.edits.editor import make_editor
    from unbag.edits.filters import make_filters
    from unbag.models.loading import check_device
    from unbag.reports.table import Column, Table
    from unbag.types import Given

    if idle := [name for name in _OF_COLLECTIONS if getattr(options, name) not in (None, "")]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise UnbagError(
            f"--try was given with {flags}",
            expected="one caption, whose edits are only printed, or a collection",
            hint=f"leave out {flags}; or, for a collection, --try",
        )
    check_device(options.device)
    editor = make_editor(
        options.kinds,
        parts=_parts(options),
        filters=make_filters(options.filters, device=options.device),
        seed=options.seed,
        per_kind=options.per_kind,
    )
    [found], _ = editor([Given(options.tried, options.tried)])
    print(found.text)
    if found.skipped:
        print(f"skipped: {found.skipped}")
        return 0
    rows = [("+" if e.is_positive else "-", e.kind, e.text) for e in found.edits]
    output().print(Table((Column(),) * 3, rows, has_head=False, look="plain"))
    made = {edit.kind for edit in found.edits}
    if none := [kind.name for kind in editor.kinds if kind.name not in made]:
        print(f"no edit of: {', '.join(none)}")
    return 0
