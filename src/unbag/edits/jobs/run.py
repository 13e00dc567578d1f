"""Runs an edit job: its captions are read, edited chunk by chunk, and written.

Every finished chunk is saved, so an interrupted job resumes when the same command runs again. The
output is put together at the end, in the order of the source.
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
from unbag.edits.jobs.chunks import EDITING, JobEntries, JobFolder, Survey, surveyed
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
    """Edit a collection; a job that is done already is not done again.

    Args:
        job: What to edit, and how.
        progress: Shows how far it is.
        runner: Does the work; by default processes of this machine, as the job says.
    """
    progress = progress or Silent()
    job.check()
    asked = job.asked()
    kept = JobFolder.of(job.out)
    if found := _finished(job, asked, kept, progress):
        return found
    runner = runner or _runner(job)
    make_folder(job.out.parent, what="folder", hint="choose another place with --out")
    try:
        with open_run_folder(
            kept.folder, EDITING, resumes="it resumes after the last chunk that was saved"
        ) as run:
            try:
                # Another process may have ended since the first look: loading takes seconds.
                summary = _finished(job, asked, kept, progress)
            except UnbagError:
                # The folder may have been made for its lock only.
                if not kept.done():
                    kept.remove()
                raise
            if summary is None:
                identity = RunIdentity(**asked)
                survey = kept.begin(run, identity, lambda: _surveyed(job, progress))
                _edit(job, kept, survey, progress, runner)
                summary = _written(job, asked, kept, survey, progress)
    except KeyboardInterrupt:
        progress.say(f"stopped; the same command goes on with what is in {kept.folder}")
        raise
    kept.remove()
    return summary


@dataclass(frozen=True)
class EditJob:
    """A collection to edit, and how."""

    source: Source
    out: Path
    form: str = "jsonl"
    """In which `out` is written; see `unbag.data.readers`."""
    kinds: tuple[str, ...] = ("default",)
    parts: EditParts = field(default_factory=EditParts)
    filters: tuple[str, ...] = ()
    seed: int = 0
    per_kind: int = 1
    workers: int = 1
    """Processes; the output is the same for any number."""
    ray: str = ""
    """Address of a Ray cluster, which does the work instead."""
    leak: str = ""
    """A language model that tries to tell edits from originals; for the summary."""
    neighbours: Path | None = None
    """For NegCLIP's TSV: JSON lines of {"image", "neighbours"}."""
    chunk: int = 512
    """Captions that are edited and saved together."""

    @property
    def settings(self) -> EditSettings:
        """What a worker needs to know."""
        return EditSettings(self.kinds, self.parts, self.filters, self.seed, self.per_kind)

    def check(self) -> None:
        """What can be said before anything is read."""
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
            # It is asked in this process, when all else is done.
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
        """That models which are named are there; they are loaded later."""
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

    def asked(self) -> dict[str, Any]:
        """All that decides the output, as plain values: a job that says the same is the same.

        What was found stands for "auto", which may find something else another day.
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
    """Of a finished job."""

    out: Path
    asked: dict[str, Any]
    """See `EditJob.asked`."""
    tally: EditTally
    bad: int
    """Broken lines that were left out."""
    bad_named: tuple[str, ...]
    failures: int
    """Captions that the editor failed on."""
    failures_named: tuple[str, ...]
    notes: tuple[str, ...]
    leaks: Mapping[str, Leak] = field(default_factory=dict)
    """By kind, where a language model was asked."""

    @staticmethod
    def path(out: Path) -> Path:
        """Where the summary of an output is."""
        return out.with_name(f"{out.name}.summary.json")

    def write(self) -> None:
        """Beside the output."""
        tally = to_json(self.tally)
        said = {
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
            "asked": self.asked,
        }
        write_text(self.path(self.out), json.dumps(said, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, out: Path) -> EditSummary | None:
        """That of an output; None where there is none that can be read."""
        try:
            said = json.loads(cls.path(out).read_text(encoding="utf-8"))
            bad, failures = said["bad_lines"], said["failures"]
            return cls(
                out,
                said["asked"],
                from_json(EditTally, said, "summary"),
                bad["count"],
                tuple(bad["first"]),
                failures["count"],
                tuple(failures["first"]),
                tuple(said["notes"]),
                from_json(dict[str, Leak], said["leaks"], "leaks"),
            )
        except (OSError, ValueError, KeyError, TypeError, UnbagError):
            return None


def _finished(
    job: EditJob, asked: dict[str, object], kept: JobFolder, progress: Progress
) -> EditSummary | None:
    if not job.out.exists():
        return None
    found = EditSummary.read(job.out)
    different = "nothing says how it was made"
    if found:
        deciding = {name: value for name, value in found.asked.items() if name != "leak"}
        different = "; ".join(differences(deciding, asked))
    if found and not different and job.leak and found.asked.get("leak") != job.leak:
        different = f"its leak was not measured with {job.leak}, which is done with the edits"
    if different:
        raise UnbagError(
            f"{job.out} exists already: {different}",
            expected="an output that is not there yet, or one of the same job",
            hint="delete it, or choose another place with --out",
        )
    kept.remove()
    progress.say(f"{job.out} is done already; nothing was computed")
    return found


def _surveyed(job: EditJob, progress: Progress) -> Survey:
    found = surveyed(job.source)
    if job.form == NEGCLIP and found.nameless:
        raise UnbagError(
            f"{found.nameless} of {found.captions} captions of {job.source.name} have no image",
            expected="an image for each caption: NegCLIP's TSV names it",
            hint="name the column or field with --image-column",
        )
    progress.say(f"{found.captions:,} captions of {found.images:,} images in {job.source.name}")
    if found.bad:
        progress.say(f"{found.bad:,} broken lines are left out, first {found.bad_named[0]}")
    if found.come_back:
        progress.say(
            f"{found.come_back:,} images come back after others: sorted by image, their "
            "captions would be checked against each other"
        )
    return found


def _runner(job: EditJob) -> Runner:
    """Made before anything is read, so that a mistake is reported at once.

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


def _edit(
    job: EditJob, kept: JobFolder, survey: Survey, progress: Progress, runner: Runner
) -> None:
    done = kept.done()
    if done:
        progress.say(f"going on: {sum(done.values()):,} of {survey.captions:,} captions are done")
    todo = (one for one in chunks(entries(job.source), job.chunk) if one.index not in done)
    with progress.task("edit", survey.captions - sum(done.values())) as advance:
        for finished in runner(todo, job.settings):
            kept.save(finished)
            advance(finished.captions)


def _written(
    job: EditJob, asked: dict[str, object], kept: JobFolder, survey: Survey, progress: Progress
) -> EditSummary:
    """The output, made in the folder of the parts and moved when it is whole.

    The summary goes first: where there is an output, there is what says how it was made.
    """
    tally, named, failures = kept.tally()
    made = kept.folder / "output"
    with progress.task("write", tally.captions) as advance:
        notes = _write(job, JobEntries(job.source, kept, advance), made)
    summary = EditSummary(
        job.out,
        asked | {"leak": job.leak},
        tally,
        survey.bad,
        survey.bad_named,
        failures,
        tuple(named),
        tuple(notes),
        leaks(kept.edited(), job.leak, device=job.parts.device) if job.leak else {},
    )
    summary.write()
    made.rename(job.out)
    return summary


def _write(job: EditJob, pairs: JobEntries, made: Path) -> list[str]:
    """Gives what a reader must know of the output."""
    if job.form == NEGCLIP:
        near = negclip.read_neighbours(job.neighbours) if job.neighbours else None
        without: list[int] = []
        write_atomically(made, lambda path: without.append(negclip.write(pairs, path, near)))
        return negclip.notes(without[0], near is not None)
    write = FORMS[job.form].write
    if job.form != "shards":
        write_atomically(made, lambda path: write(pairs, path))
        return []
    rmtree(made, ignore_errors=True)
    try:
        write(pairs, made)
    except OSError:
        rmtree(made, ignore_errors=True)
        raise
    return []
