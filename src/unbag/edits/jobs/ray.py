"""Edits chunks on a Ray cluster, by Ray Data.

The main process reads the captions and writes the results. Workers of the cluster need unbag, spaCy
and a pipeline, but no shared disk. Ray replaces a worker that dies and repeats its chunk; since an
edit depends on seed and caption only, the output is the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from logging import ERROR, getLogger
from typing import TYPE_CHECKING

from unbag.data.captions import Chunk
from unbag.edits.jobs.workers import EditedChunk, EditSettings, Worker, make_worker
from unbag.errors import UnbagError
from unbag.types.json import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW = 64
"""Chunks per worker that are handed to Ray together: few enough for memory, and enough that loading
the pipeline again for each window does not matter."""
STARTS = 3
"""Number of attempts to start a local cluster."""
LOCAL = "local"
"""The address that starts a cluster on this machine for the duration of the job."""


@dataclass(frozen=True)
class RayRunner:
    """Edits chunks on a cluster."""

    address: str
    """The address for `ray.init`: "auto", "ray://host:10001", "host:6379"; or "local"."""
    workers: int

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        """Edit the chunks; yields each when it is finished."""
        with _connected(self.address, self.workers):
            while first := list(islice(chunks, 1)):
                window = chain(first, islice(chunks, WINDOW * self.workers - 1))
                yield from self._edit(list(window), settings)

    def _edit(self, chunks: list[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        import ray

        rows = [{"chunk": json.dumps(to_json(chunk))} for chunk in chunks]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        edited = data.map_batches(
            _RayWorker,
            fn_constructor_args=(settings,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(rows))),
            num_cpus=1,
        )
        try:
            for row in edited.iter_rows():
                result = json.loads(row["done"])
                if "error" in result:
                    message, expected, hint = result["error"]
                    raise UnbagError(message, expected=expected, hint=hint)
                yield from_json(EditedChunk, result, "chunk")
        except ray.exceptions.RayError as error:
            raise _refused(self.address, error) from error


class _RayWorker:
    """A worker process of the cluster."""

    def __init__(self, settings: EditSettings) -> None:
        # Several workers share a machine, so each uses one thread.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.problem: UnbagError | None = None
        try:
            self.worker: Worker = make_worker(settings)
        except UnbagError as error:
            self.problem = error

    def __call__(self, batch: dict[str, Iterable[str]]) -> dict[str, list[str]]:
        """Edit one chunk; errors for the user are returned, not raised."""
        return {"done": [self._edit(chunk) for chunk in batch["chunk"]]}

    def _edit(self, chunk: str) -> str:
        try:
            if self.problem is not None:
                raise self.problem
            edited = self.worker(from_json(Chunk, json.loads(str(chunk)), "chunk"))
        except UnbagError as error:
            return json.dumps({"error": [error.message, error.expected, error.hint]})
        return json.dumps(to_json(edited))


@contextmanager
def _connected(address: str, workers: int) -> Iterator[None]:
    if find_spec("ray") is None:
        raise UnbagError(
            f"editing on the cluster {address!r} needs Ray, which is not installed",
            hint="install the extra unbag[cluster], or use --workers on this machine",
        )
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(address, workers)
    context = ray.data.DataContext.get_current()
    # The job has its own progress bar.
    progress_bars, level = context.enable_progress_bars, getLogger("ray.data").level
    context.enable_progress_bars = False
    getLogger("ray.data").setLevel(ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = progress_bars
        getLogger("ray.data").setLevel(level)
        if is_ours:
            ray.shutdown()


def _connect(address: str, workers: int) -> None:
    import ray

    is_local = address == LOCAL
    for attempts_left in reversed(range(STARTS if is_local else 1)):
        try:
            ray.init(
                address=None if is_local else address,
                num_cpus=workers if is_local else None,
                include_dashboard=False if is_local else None,
                logging_level=ERROR,
                log_to_driver=False,
            )
        # If the cluster does not start in 30 seconds, Ray raises a bare Exception.
        except Exception as error:
            ray.shutdown()
            if not attempts_left:
                raise _refused(address, error) from error
        else:
            return


def _refused(address: str, error: Exception) -> UnbagError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return UnbagError(
        f"the Ray cluster {address!r}: {reason}",
        expected='a cluster that runs, such as "auto", "ray://host:10001" or "local"',
        hint="check with `ray status` that it runs and that unbag is installed on its machines; "
        "finished chunks are saved, and the same command resumes",
    )
