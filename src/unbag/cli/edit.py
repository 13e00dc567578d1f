"""`unbag edit`: a file of captions or one caption in; their edits and a table of them out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unbag.cli.console import Shown, output
from unbag.data.captions import Source
from unbag.data.readers import form_of
from unbag.edits.editor import KindTally, make_editor
from unbag.edits.filters import make_filters
from unbag.edits.jobs.run import EditJob, Summary, run_edit
from unbag.edits.kinds import Kind, Parts, find_kinds
from unbag.errors import UserError
from unbag.models.loading import check_device
from unbag.runs.cache import default_cache
from unbag.types import Edited, Given

_LONG = 60
"""Characters of reasons in the table; the summary has all."""
_OF_COLLECTIONS = (
    "captions",
    "out",
    "captions_format",
    "format",
    "caption_column",
    "picture_column",
    "limit",
    "bad_lines",
    "neighbours",
    "leak",
    "workers",
    "ray",
)
"""Options that one caption has no use for; where they were not given they are empty."""


def edit_command(options: argparse.Namespace) -> int:
    """Edit a collection, or try one caption."""
    if options.tried is not None:
        return _try(options)
    summary = run_edit(_job(options), progress=Shown(Console(stderr=True)))
    console = output()
    kinds = find_kinds(options.kinds)
    console.print(as_table(summary, kinds))
    for line in said(summary):
        console.print(line, highlight=False, markup=False)
    return 0


def as_table(summary: Summary, kinds: Sequence[Kind]) -> Table:
    """A row a kind: how many captions have a place for it, and what became of it."""
    table = Table(box=None, header_style="", pad_edge=False, padding=(0, 2))
    for name in ("kind", "places", "captions", "share", "edits", "rejected"):
        table.add_column(Text(name), justify="left" if name in ("kind", "rejected") else "right")
    if summary.leaks:
        table.add_column(Text("original likelier"), justify="right")
    for kind in kinds:
        table.add_row(*map(Text, _cells(summary, kind)))
    return table


def said(summary: Summary) -> list[str]:
    """The lines below the table."""
    tally = summary.tally
    lines = [
        f"{tally.captions:,} captions: {tally.edited:,} edited "
        f"({_share(tally.edited, tally.captions)}), {tally.without_edit:,} without an edit, "
        f"{tally.skipped.total():,} skipped"
    ]
    lines += [f"  skipped: {reason}: {count:,}" for reason, count in tally.skipped.most_common()]
    lines += [f"  failed: {named}" for named in summary.failures_named]
    lines += [f"  left out: {named}" for named in summary.bad_named]
    if summary.bad > len(summary.bad_named):
        lines.append(f"  left out: {summary.bad:,} broken lines in all")
    lines += [f"note: {note}" for note in summary.notes]
    return [*lines, f"edits: {summary.out}", f"summary: {Summary.path(summary.out)}"]


def _cells(summary: Summary, kind: Kind) -> list[str]:
    of = summary.tally.kinds.get(kind.name) or KindTally()
    rejected = ", ".join(f"{reason} {count:,}" for reason, count in of.rejected.most_common())
    cells = [
        f"{kind.name} {'+' if kind.keeps_meaning else '-'}",
        f"{of.places:,}",
        f"{of.captions:,}",
        _share(of.captions, summary.tally.captions),
        f"{of.edits:,}",
        rejected if len(rejected) <= _LONG else f"{rejected[:_LONG]}...",
    ]
    if summary.leaks:
        leak = summary.leaks.get(kind.name)
        cells.append(f"{100 * leak['preferred']:.0f} %" if leak else "")
    return cells


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _job(options: argparse.Namespace) -> EditJob:
    if not options.captions or not options.out:
        raise UserError(
            "--captions and --out were not both given",
            expected="a file of captions and where the edits go",
            way_out='for a single caption: unbag edit --try "a caption"',
        )
    source = Source(
        options.captions,
        options.captions_format or form_of(options.captions, "--captions-format"),
        caption_column=options.caption_column,
        picture_column=options.picture_column,
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
    return "shards" if source.form == "shards" and not out.suffix else form_of(str(out), "--format")


def _parts(options: argparse.Namespace) -> Parts:
    return Parts(
        pipeline=options.pipeline,
        wordnet=options.wordnet,
        fill=options.fill,
        rewrite=options.rewrite,
        device=options.device,
        cache=str(options.cache or default_cache()),
        concurrency=options.concurrency,
        budget=options.budget,
    )


def _try(options: argparse.Namespace) -> int:
    if idle := [name for name in _OF_COLLECTIONS if getattr(options, name) not in (None, "")]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise UserError(
            f"--try was given with {flags}",
            expected="one caption, whose edits are only printed, or a collection",
            way_out=f"leave out {flags}; or, for a collection, --try",
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
    output().print(_tried(found))
    made = {edit.kind for edit in found.edits}
    if none := [kind.name for kind in editor.kinds if kind.name not in made]:
        print(f"no edit of: {', '.join(none)}")
    return 0


def _tried(found: Edited) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    for edit in found.edits:
        sign = "+" if edit.keeps_meaning else "-"
        table.add_row(Text(sign), Text(edit.kind), Text(edit.text))
    return table
