"""The folder OUT.parts of an unfinished job: its identity and its finished chunks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from shutil import rmtree

import numpy as np

from unbag.data.captions import Bad, EditedEntry, Entry, Source
from unbag.data.readers import entries
from unbag.edits.editor import EditTally
from unbag.edits.jobs.workers import ChunkHead, EditedChunk, read_edited, read_head
from unbag.errors import UnbagError
from unbag.runs.files import RUN_FILE, RunFolder, write_text
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Advance
from unbag.types import Edited
from unbag.types.json import from_json, to_json

EDITING = "edit job"
"""The kind of a folder of chunks."""
NAMED = 20
"""Failures that are listed; further ones are only counted."""


@dataclass(frozen=True)
class Survey:
    """The contents of a collection."""

    captions: int
    images: int
    """Number of entries; each caption without an image is an entry."""
    nameless: int
    """Captions without an image."""
    come_back: int
    """Images that recur after others, so that their captions are not compared with each other."""
    bad: int
    """Number of malformed lines, which are skipped."""
    bad_named: tuple[str, ...]


@dataclass(frozen=True)
class JobFolder:
    """Reads and writes the folder of one job."""

    folder: Path

    @classmethod
    def of(cls, out: Path) -> JobFolder:
        """The folder of an output."""
        return cls(out.with_name(f"{out.name}.parts"))

    def begin(self, run: RunFolder, identity: RunIdentity, survey: Callable[[], Survey]) -> Survey:
        """Start a job or resume the same one; the survey is made once.

        Without finished chunks nothing can be lost, so a different job may start.
        """
        if not self._files():
            (self.folder / RUN_FILE).unlink(missing_ok=True)
        if earlier := run.earlier(identity):
            return from_json(Survey, earlier.get("survey"), "survey")
        try:
            result = survey()
        except UnbagError:
            self.remove()
            raise
        run.begin(identity, {"survey": to_json(result)})
        return result

    def save(self, finished: EditedChunk) -> None:
        """Save a chunk."""
        write_text(self.folder / f"{finished.index:06}.jsonl", finished.text)

    def done(self) -> dict[int, int]:
        """The finished chunks, with their numbers of captions."""
        return {int(path.stem): _head(path).captions for path in self._files()}

    def tally(self) -> tuple[EditTally, list[str], int]:
        """The tally of all chunks, the first failures, and the number of failures."""
        total, listed, failures = EditTally(), list[str](), 0
        for path in self._files():
            head = _head(path)
            total.add(head.tally)
            failures += len(head.failures)
            listed += head.failures[: NAMED - len(listed)]
        return total, listed, failures

    def edited(self) -> Iterator[Edited]:
        """All edited captions, in order."""
        for path in self._files():
            try:
                edited = read_edited(path.read_text(encoding="utf-8"))
            except (ValueError, UnbagError) as error:
                raise _damaged(path) from error
            yield from edited

    def remove(self) -> None:
        """Remove the folder once the output is complete."""
        rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"), key=lambda path: int(path.stem))


@dataclass(frozen=True)
class JobEntries:
    """Entries of the source with the edits of all chunks (`unbag.data.captions.EditedEntries`)."""

    source: Source
    job_folder: JobFolder
    advance: Advance = lambda steps: None

    def __iter__(self) -> Iterator[EditedEntry]:
        """Read both in parallel, so that neither has to fit in memory."""
        all_edited = self.job_folder.edited()
        for entry in entries(self.source):
            edited = tuple(islice(all_edited, len(entry.captions)))
            if [each.id for each in edited] != [caption.id for caption in entry.captions]:
                raise UnbagError(
                    f"the captions changed while they were edited, or a chunk of "
                    f"{self.job_folder.folder} is missing",
                    expected="the same captions from beginning to end",
                    hint=f"delete {self.job_folder.folder} and start again",
                )
            self.advance(len(edited))
            yield EditedEntry(entry, edited)


def survey_source(source: Source) -> Survey:
    """Read a whole collection; raises UnbagError for malformed lines and duplicate ids."""
    bad = Bad(source.skips_bad)
    ids, images = array("Q"), array("Q")
    nameless = count = 0
    previous_image = ""
    for entry in entries(source, bad):
        count += 1
        ids.extend(_hash(caption.id) for caption in entry.captions)
        if not entry.image:
            nameless += len(entry.captions)
        elif entry.image != previous_image:
            images.append(_hash(entry.image))
        previous_image = entry.image
    if not ids:
        raise UnbagError(
            f"{source.name} holds no captions"
            + (f", only {bad.count} malformed lines, first {bad.named[0]}" if bad.count else ""),
            expected="at least one",
        )
    # Ids must be unique: they seed the random generators of the captions.
    if repeated := _repeated(ids):
        name, first, second = _locate_repeated(entries(source), repeated)
        raise UnbagError(
            f"two captions have the id {name!r}: {first} and {second}",
            expected="an id for each caption",
            hint="make the ids unique; without a field or column id they are made from the line",
        )
    recurring = len(_repeated(images))
    return Survey(len(ids), count, nameless, recurring, bad.count, tuple(bad.named))


def _locate_repeated(all_entries: Iterable[Entry], repeated: set[int]) -> tuple[str, str, str]:
    seen: dict[str, str] = {}
    for entry in all_entries:
        for caption in entry.captions:
            if caption.id in seen:
                return caption.id, seen[caption.id], caption.where
            if _hash(caption.id) in repeated:
                seen[caption.id] = caption.where
    raise UnbagError("the captions changed while they were read", hint="try again")


def _repeated(hashes: array[int]) -> set[int]:
    # Hashes of eight bytes and a sort: a set of ids of a hundred million captions would not fit.
    sorted_N = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    return set(np.unique(sorted_N[1:][sorted_N[1:] == sorted_N[:-1]]).tolist())


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _head(path: Path) -> ChunkHead:
    with path.open(encoding="utf-8") as file:
        try:
            return read_head(file)
        except (ValueError, UnbagError) as error:
            raise _damaged(path) from error


def _damaged(path: Path) -> UnbagError:
    return UnbagError(
        f"{path} is damaged",
        expected="a file as it was written",
        hint="delete it and run the same command again, which computes it again",
    )
