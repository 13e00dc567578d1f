"""Read and write the folder of an evaluation: its identity, state, scores and results.

All scores are in one Parquet file, which is replaced atomically.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from unbag.errors import UnbagError
from unbag.evaluation.embedding import BatchPlan
from unbag.runs.files import RUN_FILE, RunFolder, write_atomically, write_text
from unbag.runs.identity import RunIdentity
from unbag.types import (
    Comparison,
    Failure,
    FloatArray,
    Item,
    Ranks,
    Reference,
    Result,
    RunContents,
    RunRecord,
    Scores,
    Sparse,
)
from unbag.types.json import from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
EVALUATION = "evaluation"
"""The kind of run folder."""
_CONTENTS = ("problems", "warnings", "results", "comparisons", "references", "failures")
"""Fields of `RunContents` that have a file of their own."""
_MAX_CAPTIONS = 16
"""Captions are stored only for items with at most this many: classification would otherwise repeat
its class names in every row."""
_BOUNDED = b"bounded"
"""Metadata key of the counts of upper bounds."""
_SORTED = json.JSONEncoder(sort_keys=True)
"""A shared encoder, because `json.dumps` creates one per call."""
_RANKS = {
    "greater": "greater_Q",
    "equal": "equal_Q",
    "true_equal": "true_equal_Q",
    "true": "true_Q",
    "top": "top_QK",
    "top_score": "top_score_QK",
}
"""Columns of ranks -> fields of `Ranks`."""
State = Literal["running", "stopped", "failed", "done"]
"""In a failed run some scores are missing; running the same command again computes them."""


@dataclass(frozen=True)
class EvaluationFolder:
    """Reads and writes the files of one evaluation."""

    run: RunFolder

    @property
    def path(self) -> Path:
        """The folder."""
        return self.run.path

    @property
    def scores(self) -> Path:
        """File with the scores of every item."""
        return self.path / "scores.parquet"

    def scores_of(self, rank: int) -> Path:
        """File with the scores of a helper process, which the leader imports."""
        return self.path / f"scores.{rank}.parquet"

    @property
    def vectors(self) -> Path:
        """Folder in which several processes exchange vectors if there is no cache."""
        return self.path / "vectors"

    def take_over(self, store: ScoreStore) -> None:
        """Import the scores of helper processes, also of earlier ones, and delete their files."""
        paths = sorted(self.path.glob("scores.*.parquet"))
        for path in paths:
            store.take_over(path)
        store.save()
        for path in paths:
            path.unlink(missing_ok=True)

    def remove_vectors(self) -> None:
        """Delete the `vectors` folder, which only this run needs."""
        rmtree(self.vectors, ignore_errors=True)

    @property
    def outcomes(self) -> Path:
        """File with the credit of every unit under every metric."""
        return self.path / "outcomes.parquet"

    @property
    def report(self) -> Path:
        """File of the HTML report."""
        return self.path / "report.html"

    def begin(
        self, identity: RunIdentity, record: RunRecord
    ) -> tuple[dict[str, BatchPlan], RunRecord]:
        """Start the run, or resume an earlier one.

        Returns the batches planned earlier, and the record with the findings of the earlier run.
        """
        if earlier := self.run.earlier(identity):
            earlier_record = from_json(RunRecord, earlier.get("record"), "record")
            record = replace(
                record,
                started=earlier_record.started,
                damaged=earlier_record.damaged,
                truncated=earlier_record.truncated,
            )
        self.run.begin(identity, {"record": to_json(record)})
        return _read_json(self.path / "batches.json", {}), record

    def save_batches(self, batch_plans: Mapping[str, BatchPlan]) -> None:
        """Save the planned batches, so that a resumed run computes the same bits."""
        write_text(self.path / "batches.json", json.dumps(batch_plans))

    def write_state(self, state: State, record: RunRecord) -> None:
        """Write run.json."""
        self.run.set_state(state, record=to_json(record))

    def write_contents(self, contents: RunContents) -> None:
        """Write results, comparisons, failures, published numbers, problems and warnings."""
        for name in _CONTENTS:
            content = to_json(getattr(contents, name))
            text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
            write_text(self.path / f"{name}.json", text + "\n")


def read_contents(path: Path) -> RunContents:
    """Read the contents of a finished run."""
    if not path.is_dir():
        raise UnbagError(
            f"there is no folder {path}",
            expected="a run folder, as `unbag run --out` makes it",
            hint="check the path",
        )
    for file in (RUN_FILE, "results.json"):
        if not (path / file).exists():
            raise UnbagError(
                f"{path} has no {file}",
                expected="the folder of a finished run",
                hint=_run_hint(path),
            )
    record = from_json(RunRecord, _read_json(path / RUN_FILE).get("record"), "record")

    def read(name: str, kind: type[T]) -> tuple[T, ...]:
        rows = _read_json(path / f"{name}s.json", [])
        return tuple(from_json(kind, row, name) for row in rows)

    return RunContents(
        record,
        results=tuple(replace(row, run=record) for row in read("result", Result)),
        comparisons=read("comparison", Comparison),
        failures=read("failure", Failure),
        problems=read("problem", str),
        references=read("reference", Reference),
        warnings=read("warning", str),
    )


def _run_hint(path: Path) -> str:
    # Training, merging and verifying write their evaluations into subfolders.
    if below := sorted(file.parent for file in path.glob(f"*/{RUN_FILE}")):
        return f"give a run below it: {', '.join(map(str, below[:3]))}"
    if (path / RUN_FILE).exists():
        return "give the command of the run again to finish it"
    return "check the path; `unbag run --out` makes such folders"


def _read_json(path: Path, default: Any = None) -> Any:
    if default is not None and not path.exists():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnbagError(
            f"{path} cannot be read: {error}",
            expected="JSON written by unbag",
            hint="give the command of the run again, or restore the file",
        ) from error


@dataclass(frozen=True)
class Key:
    """Identifies the scores of one scorer on one benchmark."""

    benchmark: str
    scorer: str


class ScoreStore:
    """Scores in memory and on disk, including those of an earlier run."""

    def __init__(self, path: Path, *, min_seconds: float = 5.0) -> None:
        """Read the file if it exists."""
        self.path = path
        self._rows: dict[Key, dict[str, dict[str, Any]]] = {}
        self._scores: dict[Key, dict[str, Scores]] = {}
        self._bounded: dict[Key, dict[str, int]] = {}
        self._is_saved = True
        self._min_seconds = min_seconds
        self._next_save = time.monotonic() + min_seconds
        if path.exists():
            self.take_over(path)
            self._is_saved = True

    def get(self, key: Key) -> dict[str, Scores]:
        """Scores of a scorer on a benchmark, by item id."""
        return dict(self._scores.get(key, {}))

    @property
    def bounded(self) -> dict[Key, int]:
        """Number of probabilities that are only upper bounds, for scores that have any."""
        return {key: sum(counts.values()) for key, counts in self._bounded.items()}

    def add(self, key: Key, pairs: Sequence[tuple[Item, Scores]], *, bounded: int = 0) -> None:
        """Add scores; the file is saved from time to time."""
        if bounded:
            # Keyed by the first item, so that scoring or reading it again does not count twice.
            self._bounded.setdefault(key, {})[pairs[0][0].id] = bounded
        for item, scores in pairs:
            self._rows.setdefault(key, {})[item.id] = _row(key, item, scores)
            self._scores.setdefault(key, {})[item.id] = scores
            self._is_saved = False
        if time.monotonic() >= self._next_save:
            self.save()

    def save(self) -> None:
        """Write all scores; the old file stays until the new one is complete."""
        if self._is_saved:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        start = time.monotonic()
        rows = [row for rows_of_key in self._rows.values() for row in rows_of_key.values()]
        table = pa.Table.from_pylist(rows, schema=_schema())
        # In the same file, so that a kill cannot separate the counts from their scores.
        counts = [
            [key.benchmark, key.scorer, item, count]
            for key, rows_of_key in self._bounded.items()
            for item, count in rows_of_key.items()
        ]
        table = table.replace_schema_metadata({_BOUNDED: json.dumps(counts)})

        def write(to: Path) -> None:
            pq.write_table(table, to, compression="zstd", write_page_checksum=True)

        write_atomically(self.path, write)
        self._is_saved = True
        spent = time.monotonic() - start
        self._next_save = time.monotonic() + max(self._min_seconds, 20 * spent)

    def take_over(self, path: Path) -> None:
        """Add the scores in a file that another process wrote."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path, schema=_schema(), page_checksum_verification=True)
            counts = json.loads((pq.read_schema(path).metadata or {}).get(_BOUNDED, b"[]"))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnbagError(
                f"{path} cannot be read: {error}",
                expected="the scores of an earlier run, as they were written",
                hint="move the file away; scores are computed again, mostly from the cache",
            ) from error
        for benchmark, scorer, item, count in counts:
            self._bounded.setdefault(Key(benchmark, scorer), {})[item] = count
        # Values stay arrays: as Python numbers those of a classification benchmark need too much
        # memory.
        values = [v.values.to_numpy() if v.is_valid else None for v in table["values"]]
        rows = table.drop_columns(["values"]).to_pylist()
        for row, value in zip(rows, values, strict=True):
            row["values"] = value
            key = Key(row["benchmark"], row["scorer"])
            self._rows.setdefault(key, {})[row["item"]] = row
            self._scores.setdefault(key, {})[row["item"]] = _scores(row)
        self._is_saved = False


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    texts, numbers, values = pa.list_(text), pa.list_(number), pa.list_(pa.float64())
    counts = [(name, numbers) for name in ("greater", "equal", "true_equal", "true")]
    top: list[tuple[str, pa.DataType]] = [
        ("top", pa.list_(numbers)),
        ("top_score", pa.list_(values)),
    ]
    ranks = pa.struct([*counts, ("gallery", number), *top])
    return pa.schema(
        {
            **dict.fromkeys(("benchmark", "scorer", "item", "group", "tags"), text),
            **dict.fromkeys(("pictures", "captions"), texts),
            **dict.fromkeys(("shape", "true"), numbers),
            **dict.fromkeys(("values", "caption_values"), values),
            **dict.fromkeys(("text_to_image", "image_to_text"), ranks),
            "answers": texts,
            "order_logprobs": pa.list_(values),
            "unparsed": number,
        }
    )


def _row(key: Key, item: Item, scores: Scores) -> dict[str, Any]:
    is_small = len(item.captions) <= _MAX_CAPTIONS
    names = [c if isinstance(c, str) else c.name for c in item.captions] if is_small else None
    return {
        "benchmark": key.benchmark,
        "scorer": key.scorer,
        "item": item.id,
        "group": item.group,
        "tags": _SORTED.encode(dict(item.tags)),
        "pictures": [p.name for p in item.images] if len(item.images) <= 16 else None,
        "captions": names,
        "shape": [len(item.images), len(item.captions)],
        "true": _true_cells(item),
        "values": None if scores.values is None else scores.values.ravel(),
        "caption_values": None if scores.caption_CC is None else scores.caption_CC.ravel().tolist(),
        "text_to_image": _ranks_row(scores.text_to_image),
        "image_to_text": _ranks_row(scores.image_to_text),
        "answers": list(scores.answers),
        "order_logprobs": [list(order) for order in scores.order_logprobs],
        "unparsed": scores.unparsed,
    }


def _true_cells(item: Item) -> list[int] | None:
    """Flat indices of the true cells; None for ratings."""
    if isinstance(item.truth, Sparse):
        flat = item.truth.row_T * item.truth.shape[1] + item.truth.column_T
        return list(map(int, flat))
    if item.truth.dtype != np.bool_:
        return None
    cells: list[int] = np.flatnonzero(item.truth).tolist()
    return cells


def _ranks_row(ranks: Ranks | None) -> dict[str, Any] | None:
    if ranks is None:
        return None
    columns = {name: getattr(ranks, field).tolist() for name, field in _RANKS.items()}
    return {**columns, "gallery": ranks.gallery}


def _scores(row: dict[str, Any]) -> Scores:
    def matrix(values: Sequence[float] | None, shape: Sequence[int]) -> FloatArray | None:
        return None if values is None else np.array(values, dtype=np.float64).reshape(shape)

    captions = row["shape"][1]
    return Scores(
        item=row["item"],
        values=matrix(row["values"], row["shape"]),
        caption_CC=matrix(row["caption_values"], (captions, captions)),
        text_to_image=_ranks(row["text_to_image"]),
        image_to_text=_ranks(row["image_to_text"]),
        answers=tuple(row["answers"]),
        order_logprobs=tuple(tuple(order) for order in row["order_logprobs"]),
        unparsed=row["unparsed"],
    )


def _ranks(row: dict[str, Any] | None) -> Ranks | None:
    if row is None:
        return None
    columns: dict[str, Any] = {
        field: np.array(row[name], dtype=np.float64 if name == "top_score" else np.int64)
        for name, field in _RANKS.items()
    }
    return Ranks(gallery=row["gallery"], **columns)
