"""Runs an edit job: reads captions, edits them chunk by chunk, and writes the output.

Every finished chunk is saved, so an interrupted job resumes when the same command runs again. The
output is written at the end, in the order of the source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

from unbag.data import negclip
from unbag.data.captions import Source, chunks
from unbag.data.readers import FORMS, NEGCLIP, check_written, entries
from unbag.edits import parsing, wordnet
from unbag.edits.editor import EditTally
from unbag.edits.filters import make_filters
from unbag.edits.jobs.chunks import EDITING, JobEntries, JobFolder, Survey, survey_source
from unbag.edits.jobs.ray import RayRunner
from unbag.edits.jobs.workers import EditSettings, InProcess, Processes, Runner, make_worker
from unbag.edits.kinds import EditParts, find_kinds
from unbag.edits.quality import Leak, leaks
from unbag.errors import UnbagError
from unbag.models.huggingface.loading import find_language_model
from unbag.models.loading import check_device, choose_device
from unbag.registry import names
from unbag.runs.files import make_folder, open_run_folder, write_atomically, write_text
from unbag.runs.identity import RunIdentity, differences
from unbag.runs.progress import Progress, Silent
from unbag.types.json import from_json, to_json
from unbag.version import __version__


def run_edit(
    job: EditJob, *, progress: Progress | None = None, runner: Runner | None = None
) -> EditSummary:
    """Edit a collection; a finished job is not repeated.

    Args:
        job: What to edit, and how.
        progress: Reports progress.
        runner: Edits the chunks; by default processes of this machine, as set in the job.
    """
    progress = progress or Silent()
    job.check()
    identity = job.identity()
    job_folder = JobFolder.of(job.out)
    if finished := _finished(job, identity, job_folder, progress):
        return finished
    runner = runner or _runner(job)
    make_folder(job.out.parent, what="folder", hint="choose another place with --out")
    try:
        with open_run_folder(
            job_folder.folder, EDITING, resumes="it resumes after the last chunk that was saved"
        ) as run:
            try:
                # Another process may have finished since the first check: loading takes seconds.
                summary = _finished(job, identity, job_folder, progress)
            except UnbagError:
                # The folder may exist only because of its lock.
                if not job_folder.done():
                    job_folder.remove()
                raise
            if summary is None:
                survey = job_folder.begin(
                    run, RunIdentity(**identity), lambda: _survey(job, progress)
                )
                _edit(job, job_folder, survey, progress, runner)
                summary = _finish(job, identity, job_folder, survey, progress)
    except KeyboardInterrupt:
        progress.say(f"stopped; the same command resumes from {job_folder.folder}")
        raise
    job_folder.remove()
    return summary


@dataclass(frozen=True)
class EditJob:
    """A collection to edit, and the settings."""

    source: Source
    out: Path
    form: str = "jsonl"
    """The format of `out`; see `unbag.data.readers`."""
    kinds: tuple[str, ...] = ("default",)
    parts: EditParts = field(default_factory=EditParts)
    filters: tuple[str, ...] = ()
    seed: int = 0
    per_kind: int = 1
    workers: int = 1
    """Number of processes; the output does not depend on it."""
    ray: str = ""
    """Address of a Ray cluster to use instead of processes."""
    leak: str = ""
    """A language model to measure the leak with, for the summary."""
    neighbours: Path | None = None
    """For the NegCLIP TSV: JSON lines of {"image", "neighbours"}."""
    chunk: int = 512
    """Number of captions that are edited and saved together."""

    @property
    def settings(self) -> EditSettings:
        """The settings of a worker."""
        return EditSettings(self.kinds, self.parts, self.filters, self.seed, self.per_kind)

    def check(self) -> None:
        """Check everything that can be checked before captions are read."""
        if self.chunk < 1 or self.per_kind < 1 or self.workers < 1:
            raise UnbagError(
                f"chunk {self.chunk}, per_kind {self.per_kind}, workers {self.workers}",
                expected="whole numbers above 0",
            )
        self.source.files()
        if self.out.is_dir() and {self.form, self.source.form} != {"shards"}:
            raise UnbagError(
                f"{self.out} is a folder",
                expected="a file for the edits",
                hint=f"name one with --out, such as {self.out / 'edits.jsonl'}",
            )
        check_written(self.source, self.form)
        find_kinds(self.kinds)
        check_device(self.parts.device)
        self._check_models()
        if self.leak:
            # The leak is measured in this process after the edits.
            choose_device(self.parts.device)
        place = parsing.find_installed() if self.parts.pipeline == "auto" else self.parts.pipeline
        if place is None or not parsing.is_there(place):
            parsing.find_parser(self.parts.pipeline)
        if self.neighbours and self.form != NEGCLIP:
            raise UnbagError(
                f"neighbours are given, but the form is {self.form}",
                expected="the form negclip, the only one that holds near images",
                hint="add --format negclip, or leave --neighbours out",
            )
        if self.neighbours:
            negclip.read_neighbours(self.neighbours)

    def _check_models(self) -> None:
        """Check that the named models exist; they are loaded later."""
        kind, _, place = self.parts.rewrite.partition(":")
        for path in (self.leak, self.parts.fill, place if kind == "hf" else ""):
            if path:
                find_language_model(path)
        for name in self.filters:
            kind, _, place = name.partition(":")
            if kind in names("filter") and place:
                find_language_model(place)
            else:
                make_filters([name])

    def identity(self) -> dict[str, Any]:
        """Everything that determines the output, as plain values.

        "auto" is replaced by what it finds, since it may find something else later.
        """
        source, parts = self.source, self.parts
        near = Source(str(self.neighbours), "jsonl").fingerprint() if self.neighbours else ""
        return {
            "captions": source.fingerprint(),
            "captions_form": source.form,
            "caption_column": source.caption_column,
            "image_column": source.image_column,
            "bad_lines": "skip" if source.skips_bad else "error",
            "limit": source.limit,
            "format": self.form,
            "kinds": [kind.name for kind in find_kinds(self.kinds)],
            "pipeline": parsing.described(parts.pipeline),
            "wordnet": wordnet.described(parts.wordnet),
            "fill": parts.fill,
            "rewrite": parts.rewrite,
            "device": parts.device,
            "filters": list(self.filters),
            "seed": self.seed,
            "per_kind": self.per_kind,
            "neighbours": near,
            "chunk": self.chunk,
            "version": __version__,
        }


@dataclass(frozen=True, eq=False)
class EditSummary:
    """The result of a finished job."""

    out: Path
    identity: dict[str, Any]
    """See `EditJob.identity`."""
    tally: EditTally
    bad: int
    """Number of malformed lines, which were skipped."""
    bad_named: tuple[str, ...]
    failures: int
    """Number of captions that the editor failed on."""
    failures_named: tuple[str, ...]
    notes: tuple[str, ...]
    leaks: Mapping[str, Leak] = field(default_factory=dict)
    """Leak by kind, if a language model was named."""

    @staticmethod
    def path(out: Path) -> Path:
        """The path of the summary of an output."""
        return out.with_name(f"{out.name}.summary.json")

    def write(self) -> None:
        """Write the summary next to the output."""
        tally = to_json(self.tally)
        record = {
            "out": self.out.name,
            "captions": tally["captions"],
            "edited": tally["edited"],
            "without_edit": self.tally.without_edit,
            "skipped": tally["skipped"],
            "kinds": tally["kinds"],
            "bad_lines": {"count": self.bad, "first": list(self.bad_named)},
            "failures": {"count": self.failures, "first": list(self.failures_named)},
            "notes": list(self.notes),
            "leaks": to_json(self.leaks),
            "asked": self.identity,
        }
        write_text(self.path(self.out), json.dumps(record, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, out: Path) -> EditSummary | None:
        """Read the summary of an output; None if it is missing or unreadable."""
        try:
            record = json.loads(cls.path(out).read_text(encoding="utf-8"))
            bad, failures = record["bad_lines"], record["failures"]
            return cls(
                out,
                record["asked"],
                from_json(EditTally, record, "summary"),
                bad["count"],
                tuple(bad["first"]),
                failures["count"],
                tuple(failures["first"]),
                tuple(record["notes"]),
                from_json(dict[str, Leak], record["leaks"], "leaks"),
            )
        except (OSError, ValueError, KeyError, TypeError, UnbagError):
            return None


def _finished(
    job: EditJob, identity: dict[str, object], job_folder: JobFolder, progress: Progress
) -> EditSummary | None:
    if not job.out.exists():
        return None
    summary = EditSummary.read(job.out)
    difference = "its summary is missing or unreadable"
    if summary:
        deciding = {name: value for name, value in summary.identity.items() if name != "leak"}
        difference = "; ".join(differences(deciding, identity))
    if summary and not difference and job.leak and summary.identity.get("leak") != job.leak:
        difference = f"its leak was not measured with {job.leak}"
    if difference:
        raise UnbagError(
            f"{job.out} exists already: {difference}",
            expected="an output that is not there yet, or one of the same job",
            hint="delete it, or choose another place with --out",
        )
    job_folder.remove()
    progress.say(f"{job.out} is done already; nothing was computed")
    return summary


def _survey(job: EditJob, progress: Progress) -> Survey:
    survey = survey_source(job.source)
    if job.form == NEGCLIP and survey.nameless:
        raise UnbagError(
            f"{survey.nameless} of {survey.captions} captions of {job.source.name} have no image",
            expected="an image for each caption: NegCLIP's TSV names it",
            hint="name the column or field with --image-column",
        )
    progress.say(f"{survey.captions:,} captions of {survey.images:,} images in {job.source.name}")
    if survey.bad:
        progress.say(f"{survey.bad:,} malformed lines are skipped, first {survey.bad_named[0]}")
    if survey.come_back:
        progress.say(
            f"{survey.come_back:,} images recur after others: sort by image to compare their "
            "captions with each other"
        )
    return survey


def _runner(job: EditJob) -> Runner:
    """Make the runner before captions are read, so that mistakes are reported at once.

    Other processes load their own models; loading them here as well would cost memory and time.
    """
    names_models = job.parts.fill or job.parts.rewrite or job.filters
    if job.workers == 1 and not job.ray:
        worker = make_worker(job.settings)
        return InProcess(lambda settings: worker)
    if not names_models:
        for kind in find_kinds(job.kinds):
            kind.editor(job.parts)
    return RayRunner(job.ray, job.workers) if job.ray else Processes(job.workers)


def _edit(
    job: EditJob, job_folder: JobFolder, survey: Survey, progress: Progress, runner: Runner
) -> None:
    done = job_folder.done()
    if done:
        progress.say(f"resuming: {sum(done.values()):,} of {survey.captions:,} captions are done")
    todo = (chunk for chunk in chunks(entries(job.source), job.chunk) if chunk.index not in done)
    with progress.task("edit", survey.captions - sum(done.values())) as advance:
        for finished in runner(todo, job.settings):
            job_folder.save(finished)
            advance(finished.captions)


def _finish(
    job: EditJob,
    identity: dict[str, object],
    job_folder: JobFolder,
    survey: Survey,
    progress: Progress,
) -> EditSummary:
    """Write the output in the job folder and move it when it is complete.

    The summary is written first, so that every output has one.
    """
    tally, listed, failures = job_folder.tally()
    output = job_folder.folder / "output"
    with progress.task("write", tally.captions) as advance:
        notes = _write_output(job, JobEntries(job.source, job_folder, advance), output)
    summary = EditSummary(
        job.out,
        identity | {"leak": job.leak},
        tally,
        survey.bad,
        survey.bad_named,
        failures,
        tuple(listed),
        tuple(notes),
        leaks(job_folder.edited(), job.leak, device=job.parts.device) if job.leak else {},
    )
    summary.write()
    output.rename(job.out)
    return summary


def _write_output(job: EditJob, pairs: JobEntries, output: Path) -> list[str]:
    """Write the edits in the form of the job; returns notes about the output."""
    if job.form == NEGCLIP:
        near = negclip.read_neighbours(job.neighbours) if job.neighbours else None
        without: list[int] = []
        write_atomically(output, lambda path: without.append(negclip.write(pairs, path, near)))
        return negclip.notes(without[0], near is not None)
    write = FORMS[job.form].write
    if job.form != "shards":
        write_atomically(output, lambda path: write(pairs, path))
        return []
    rmtree(output, ignore_errors=True)
    try:
        write(pairs, output)
    except OSError:
        rmtree(output, ignore_errors=True)
        raise
    return []
