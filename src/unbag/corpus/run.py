"""A job comes in; its captions are read, edited chunk by chunk, and written: the story of a job.

Every chunk is kept when it is done, so a job that was stopped goes on when it is given again. The
output is put together at the end, in the order of the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

from unbag.captions.kinds import find_kinds
from unbag.corpus import negclip
from unbag.corpus.entries import Chunk, chunks
from unbag.corpus.forms import FORMS, NEGCLIP, entries
from unbag.corpus.job import EditJob
from unbag.corpus.kept import Joined, Kept, differences, full_disk_told
from unbag.corpus.leaks import leaks
from unbag.corpus.local import InProcess, Processes
from unbag.corpus.ray_runner import RayRunner
from unbag.corpus.runner import Runner
from unbag.corpus.summary import Summary
from unbag.corpus.survey import Survey, surveyed
from unbag.corpus.work import make_worker
from unbag.engine.atomic import make_folder, write_atomically
from unbag.engine.progress import Progress, Silent
from unbag.errors import UserError


def run_edit(
    job: EditJob, *, progress: Progress | None = None, runner: Runner | None = None
) -> Summary:
    """Edit a collection; a job that is done already is not done again.

    Args:
        job: What to edit, and how.
        progress: Shows how far it is.
        runner: Does the work; by default processes of this machine, as the job says.
    """
    progress = progress or Silent()
    job.check()
    asked = job.asked()
    kept = Kept.of(job.out)
    if found := _finished(job, asked, kept, progress):
        return found
    runner = runner or _runner(job)
    make_folder(job.out.parent, what="folder", way_out="choose another place with --out")
    try:
        with kept.locked(), full_disk_told(kept):
            # Another process may have ended since the first look: loading takes seconds.
            summary = _finished_since(job, asked, kept, progress)
            if summary is None:
                survey = kept.begin(asked, lambda: _surveyed(job, progress))
                _edit(job, kept, survey, progress, runner)
                summary = _written(job, asked, kept, survey, progress)
    except KeyboardInterrupt:
        progress.say(f"stopped; the same command goes on with what is in {kept.folder}")
        raise
    kept.remove()
    return summary


def _finished(
    job: EditJob, asked: dict[str, object], kept: Kept, progress: Progress
) -> Summary | None:
    if not job.out.exists():
        return None
    found = Summary.read(job.out)
    different = differences(_deciding(found), asked) if found else "nothing says how it was made"
    if found and not different and job.leak and found.asked.get("leak") != job.leak:
        different = f"its leak was not measured with {job.leak}, which is done with the edits"
    if different:
        raise UserError(
            f"{job.out} exists already: {different}",
            expected="an output that is not there yet, or one of the same job",
            way_out="delete it, or choose another place with --out",
        )
    kept.remove()
    progress.say(f"{job.out} is done already; nothing was computed")
    return found


def _finished_since(
    job: EditJob, asked: dict[str, object], kept: Kept, progress: Progress
) -> Summary | None:
    """As `_finished`, for who holds the lock; a folder made only to hold it goes away."""
    try:
        return _finished(job, asked, kept, progress)
    except UserError:
        if not kept.done():
            kept.remove()
        raise


def _deciding(found: Summary) -> dict[str, object]:
    return {name: value for name, value in found.asked.items() if name != "leak"}


def _surveyed(job: EditJob, progress: Progress) -> Survey:
    found = surveyed(job.source)
    if job.form == NEGCLIP and found.nameless:
        raise UserError(
            f"{found.nameless} of {found.captions} captions of {job.source.name} have no picture",
            expected="a picture for each caption: NegCLIP's TSV names it",
            way_out="name the column or field with --picture-column",
        )
    progress.say(f"{found.captions:,} captions of {found.pictures:,} pictures in {job.source.name}")
    if found.bad:
        progress.say(f"{found.bad:,} broken lines are left out, first {found.bad_named[0]}")
    if found.come_back:
        progress.say(
            f"{found.come_back:,} pictures come back after others: sorted by picture, their "
            "captions would be checked against each other"
        )
    return found


def _runner(job: EditJob) -> Runner:
    """Made before anything is read, so that a mistake is told at once.

    Other processes load models of their own; one more of each here would take their memory, and a
    pipeline as much time as they all take to start.
    """
    names_models = job.parts.fill or job.parts.rewrite or job.filters
    if job.workers == 1 and not job.ray:
        worker = make_worker(job.settings)
        return InProcess(lambda settings: worker)
    if not names_models:
        for kind in find_kinds(job.kinds):
            kind.editor(job.parts)
    return RayRunner(job.ray, job.workers) if job.ray else Processes(job.workers)


def _edit(job: EditJob, kept: Kept, survey: Survey, progress: Progress, runner: Runner) -> None:
    done = kept.done()
    if done:
        progress.say(f"going on: {sum(done.values()):,} of {survey.captions:,} captions are done")
    with progress.task("edit", survey.captions - sum(done.values())) as advance:
        for finished in runner(_todo(job, done), job.settings):
            kept.save(finished)
            advance(finished.captions)


def _todo(job: EditJob, done: dict[int, int]) -> Iterator[Chunk]:
    return (c for c in chunks(entries(job.source), job.chunk) if c.index not in done)


def _written(
    job: EditJob, asked: dict[str, object], kept: Kept, survey: Survey, progress: Progress
) -> Summary:
    """The output, made in the folder of the parts and moved when it is whole.

    The summary goes first: where there is an output, there is what says how it was made.
    """
    tally, named, failures = kept.tally()
    made = kept.folder / "output"
    with progress.task("write", tally.captions) as advance:
        notes = _write(job, Joined(job.source, kept, advance), made)
    told = leaks(kept.edited(), job.leak, device=job.parts.device) if job.leak else {}
    summary = Summary(
        job.out,
        asked | {"leak": job.leak},
        tally,
        survey.bad,
        survey.bad_named,
        failures,
        tuple(named),
        tuple(notes),
        {kind: leak.as_json() for kind, leak in told.items()},
    )
    summary.write()
    made.rename(job.out)
    return summary


def _write(job: EditJob, pairs: Joined, made: Path) -> list[str]:
    """Gives what a reader must know of the output."""
    if job.form == "shards":
        rmtree(made, ignore_errors=True)
        try:
            FORMS[job.form].write(pairs, made)
        except OSError:
            rmtree(made, ignore_errors=True)
            raise
        return []
    if job.form != NEGCLIP:
        write_atomically(made, lambda path: FORMS[job.form].write(pairs, path))
        return []
    near = negclip.read_neighbours(job.neighbours) if job.neighbours else None
    without: list[int] = []
    write_atomically(made, lambda path: without.append(negclip.write(pairs, path, near)))
    return negclip.notes(without[0], near is not None)
