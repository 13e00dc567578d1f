"""The folder of a run: what was asked, how far it is, and everything that came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

from unbag.engine.atomic import locked_folder, make_folder, remove_leftovers, write_text
from unbag.engine.embed import Grid
from unbag.engine.store import ScoreStore
from unbag.errors import UserError
from unbag.types import EvalProtocol, RunContents, RunRecord
from unbag.types.as_json import (
    comparison_from_json,
    comparison_to_json,
    failure_from_json,
    failure_to_json,
    record_from_json,
    record_to_json,
    result_from_json,
    result_to_json,
)
from unbag.types.reference_json import reference_from_json, reference_to_json

State = Literal["running", "stopped", "failed", "done"]
"""Of a failed run some scores are missing; the same command again tries those."""


@dataclass(frozen=True)
class Asked:
    """What makes two runs the same run, so that the second may continue the first."""

    scorers: Mapping[str, str]
    """Name to fingerprint."""
    benchmarks: Mapping[str, str]
    """Name to fingerprint of its items."""
    errata: Mapping[str, str]
    """Benchmark to the name of what is mended in it."""
    protocol: EvalProtocol
    seed: int
    batch: int
    version: str
    """Of unbag: scores of two versions do not belong in one run."""

    def as_json(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self)


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        """Creates the folder if it is not there."""
        self.path = make_folder(path, what="run folder", way_out="choose another with --out")

    @property
    def scores(self) -> Path:
        """Scores of every item."""
        return self.path / "scores.parquet"

    def scores_of(self, rank: int) -> Path:
        """Scores of a process that helps; the leader takes them over."""
        return self.path / f"scores.{rank}.parquet"

    @property
    def vectors(self) -> Path:
        """Where processes that share the work leave vectors, if there is no cache."""
        return self.path / "vectors"

    def take_over(self, store: ScoreStore) -> None:
        """What other processes scored, now or before they were stopped, into the run's own file."""
        found = sorted(self.path.glob("scores.*.parquet"))
        for path in found:
            store.take_over(path)
        store.save()
        for path in found:
            path.unlink(missing_ok=True)

    def remove_vectors(self) -> None:
        """Delete what `vectors` holds: it served this run only."""
        rmtree(self.vectors, ignore_errors=True)

    @property
    def outcomes(self) -> Path:
        """Credit of every unit under every metric."""
        return self.path / "outcomes.parquet"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process may write a run; the system drops the lock if that process dies."""
        taken = UserError(
            f"another process is writing the run folder {self.path}",
            way_out="wait for it, or choose another folder with --out",
        )
        with locked_folder(self.path, taken):
            yield

    def begin(self, asked: Asked, record: RunRecord) -> tuple[dict[str, Grid], RunRecord]:
        """Start, or continue what an earlier process left.

        Gives the batches that were planned then, and the record with what was found then.
        """
        remove_leftovers(self.path)
        file = self.path / "run.json"
        if file.exists():
            record = self._continued(_read_json(file), asked, record)
        elif any(not p.name.startswith(".") for p in self.path.iterdir()):
            raise UserError(
                f"the folder {self.path} is not empty and holds no run",
                expected="an empty or new folder, or the folder of a run to continue",
                way_out="choose another with --out",
            )
        self.write_state("running", asked, record)
        grids = self.path / "batches.json"
        return (_read_json(grids) if grids.exists() else {}), record

    def save_batches(self, grids: Mapping[str, Grid]) -> None:
        """Keep the make-up of the batches, so that continuing computes the same bits."""
        write_text(self.path / "batches.json", json.dumps(grids))

    def write_state(self, state: State, asked: Asked, record: RunRecord) -> None:
        """Write run.json."""
        content = {"state": state, "asked": asked.as_json(), "record": record_to_json(record)}
        write_text(self.path / "run.json", _dump(content))

    def write_contents(self, contents: RunContents) -> None:
        """Write results, comparisons, failures, published numbers, problems and warnings."""
        write_text(self.path / "problems.json", _dump(list(contents.problems)))
        write_text(self.path / "warnings.json", _dump(list(contents.warnings)))
        write_text(self.path / "results.json", _dump([result_to_json(r) for r in contents.results]))
        compared = [comparison_to_json(c) for c in contents.comparisons]
        write_text(self.path / "comparisons.json", _dump(compared))
        beside = [reference_to_json(r) for r in contents.references]
        write_text(self.path / "references.json", _dump(beside))
        failed = [failure_to_json(f) for f in contents.failures]
        write_text(self.path / "failures.json", _dump(failed))

    def _continued(self, found: Any, asked: Asked, record: RunRecord) -> RunRecord:
        """The new record with the old findings, if the run is the same."""
        earlier = found.get("asked", {}) if isinstance(found, dict) else {}
        now = json.loads(json.dumps(asked.as_json()))
        for field, value in now.items():
            if earlier.get(field) != value:
                raise UserError(
                    f"the folder {self.path} holds another run: its {field} differ\n"
                    f"  there:    {_short(earlier.get(field))}\n  now:      {_short(value)}",
                    expected="the same models, benchmarks and settings, to continue that run",
                    way_out="choose another folder with --out, or delete this one",
                )
        before = record_from_json(found["record"])
        return replace(
            record,
            started=before.started,
            damaged=before.damaged,
            truncated=before.truncated,
        )


def read_contents(path: Path) -> RunContents:
    """What a finished run left behind; nothing is computed."""
    if not path.is_dir():
        raise UserError(
            f"there is no folder {path}",
            expected="a run folder, as `unbag run --out` makes it",
            way_out="check the path",
        )
    for needed in ("run.json", "results.json"):
        if not (path / needed).exists():
            raise UserError(
                f"{path} has no {needed}",
                expected="the folder of a finished run",
                way_out=_way_to_run(path),
            )
    record = record_from_json(_read_json(path / "run.json").get("record"))
    return RunContents(
        record=record,
        results=tuple(result_from_json(r, run=record) for r in _read_json(path / "results.json")),
        comparisons=tuple(
            comparison_from_json(c) for c in _read_json(path / "comparisons.json", [])
        ),
        failures=tuple(failure_from_json(f) for f in _read_json(path / "failures.json", [])),
        problems=tuple(map(str, _read_json(path / "problems.json", []))),
        references=tuple(reference_from_json(r) for r in _read_json(path / "references.json", [])),
        warnings=tuple(map(str, _read_json(path / "warnings.json", []))),
    )


def _way_to_run(path: Path) -> str:
    if (path / "run.json").exists():
        return "give the command of the run again to finish it"
    # Training, merging and verifying keep their runs in folders of their own below.
    if below := sorted(file.parent for file in path.glob("*/run.json")):
        return f"give a run below it: {', '.join(map(str, below[:3]))}"
    return "check the path; `unbag run --out` makes such folders"


def _read_json(path: Path, default: Any = None) -> Any:
    if default is not None and not path.exists():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read: {error}",
            expected="JSON written by unbag",
            way_out="give the command of the run again, or restore the file",
        ) from error


def _dump(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
