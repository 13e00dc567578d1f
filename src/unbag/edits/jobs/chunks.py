"""The folder OUT.parts of a job that is under way: what was asked, and every chunk that is done."""

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
"""Failures that are named; more are counted."""


@dataclass(frozen=True)
class Survey:
    """What a collection holds."""

    captions: int
    images: int
    """Entries: captions without an image are one each."""
    nameless: int
    """Captions without an image."""
    come_back: int
    """Images that come again after others: their captions are not checked against each other."""
    bad: int
    """Broken lines that are left out."""
    bad_named: tuple[str, ...]


@dataclass(frozen=True)
class JobFolder:
    """Reads and writes the folder of one job."""

    folder: Path

    @classmethod
    def of(cls, out: Path) -> JobFolder:
        """The folder that belongs to an output."""
        return cls(out.with_name(f"{out.name}.parts"))

    def begin(self, run: RunFolder, identity: RunIdentity, survey: Callable[[], Survey]) -> Survey:
        """Start, or resume the same job; the survey is made once.

        Where no chunk is done there is nothing to protect, so another job may start.
        """
        if not self._files():
            (self.folder / RUN_FILE).unlink(missing_ok=True)
        if found := run.earlier(identity):
            return from_json(Survey, found.get("survey"), "survey")
        try:
            made = survey()
        except UnbagError:
            self.remove()
            raise
        run.begin(identity, {"survey": to_json(made)})
        return made

    def save(self, finished: EditedChunk) -> None:
        """Keep a chunk."""
        write_text(self.folder / f"{finished.index:06}.jsonl", finished.text)

    def done(self) -> dict[int, int]:
        """Chunks that are done, with their number of captions."""
        return {int(path.stem): _head(path).captions for path in self._files()}

    def tally(self) -> tuple[EditTally, list[str], int]:
        """Over all chunks: what was counted, the first failures, and how many there were."""
        total, named, failures = EditTally(), list[str](), 0
        for path in self._files():
            head = _head(path)
            total.add(head.tally)
            failures += len(head.failures)
            named += head.failures[: NAMED - len(named)]
        return total, named, failures

    def edited(self) -> Iterator[Edited]:
        """Every caption, in order."""
        for path in self._files():
            try:
                edited = read_edited(path.read_text(encoding="utf-8"))
            except (ValueError, UnbagError) as error:
                raise _damaged(path) from error
            yield from edited

    def remove(self) -> None:
        """Everything is in the output."""
        rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"), key=lambda path: int(path.stem))


@dataclass(frozen=True)
class JobEntries:
    """Entries of the source with the edits of all chunks (`unbag.data.captions.EditedEntries`)."""

    source: Source
    kept: JobFolder
    advance: Advance = lambda steps: None

    def __iter__(self) -> Iterator[EditedEntry]:
        """Both are read side by side, so that neither need fit in memory."""
        flow = self.kept.edited()
        for entry in entries(self.source):
            some = tuple(islice(flow, len(entry.captions)))
            if [one.id for one in some] != [caption.id for caption in entry.captions]:
                raise UnbagError(
                    f"the captions changed while they were edited, or a chunk of "
                    f"{self.kept.folder} is missing",
                    expected="the same captions from beginning to end",
                    hint=f"delete {self.kept.folder} and start anew",
                )
            self.advance(len(some))
            yield EditedEntry(entry, some)


def surveyed(source: Source) -> Survey:
    """Read all of it; raises UnbagError for what is broken, missing or there twice."""
    bad = Bad(source.skips_bad)
    ids, images = array("Q"), array("Q")
    nameless = count = 0
    before = ""
    for entry in entries(source, bad):
        count += 1
        ids.extend(_hash(caption.id) for caption in entry.captions)
        if not entry.image:
            nameless += len(entry.captions)
        elif entry.image != before:
            images.append(_hash(entry.image))
        before = entry.image
    if not ids:
        raise UnbagError(
            f"{source.name} holds no captions"
            + (f", only {bad.count} broken lines, first {bad.named[0]}" if bad.count else ""),
            expected="at least one",
        )
    # Two captions must not have one id: it decides what is drawn for them.
    if repeated := _repeated(ids):
        name, first, second = _places(entries(source), repeated)
        raise UnbagError(
            f"two captions have the id {name!r}: {first} and {second}",
            expected="an id for each caption",
            hint="mend the ids; without a field or column id they are made from the line",
        )
    back = len(_repeated(images))
    return Survey(len(ids), count, nameless, back, bad.count, tuple(bad.named))


def _places(found: Iterable[Entry], repeated: set[int]) -> tuple[str, str, str]:
    seen: dict[str, str] = {}
    for entry in found:
        for caption in entry.captions:
            if caption.id in seen:
                return caption.id, seen[caption.id], caption.where
            if _hash(caption.id) in repeated:
                seen[caption.id] = caption.where
    raise UnbagError("the captions changed while they were read", hint="try again")


def _repeated(hashes: array[int]) -> set[int]:
    # Eight bytes a caption and a sort: a set of names would not fit for a hundred million.
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
        hint="delete it and give the same command again: it is made anew",
    )
