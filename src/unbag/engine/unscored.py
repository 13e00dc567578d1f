"""What a scorer raised comes in; a line for the end of the run and a file with the rest go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import format_exception

from unbag.engine.atomic import write_text
from unbag.engine.progress import Progress
from unbag.errors import UserError, said_by

FILE = "tracebacks.txt"


@dataclass
class Unscored:
    """The scorers of a run that failed; those of an earlier process are tried again."""

    folder: Path
    progress: Progress
    problems: list[str] = field(default_factory=list)
    """What became of each, for a user."""
    _tracebacks: str = ""

    def __post_init__(self) -> None:
        """Nothing has failed yet."""
        (self.folder / FILE).unlink(missing_ok=True)

    def add(self, scorer: str, benchmarks: Sequence[str], error: Exception) -> None:
        """Say it at once, and keep it; the error itself is let go, with the memory it holds."""
        self.progress.say(f"{scorer} failed ({_in_a_line(error)}); going on without it")
        what = str(error) if isinstance(error, UserError) else self._written(scorer, error)
        self.problems.append(_whole(f"{scorer} on {', '.join(benchmarks)}: {what}"))

    def _written(self, scorer: str, error: Exception) -> str:
        self._tracebacks += _whole(f"{scorer}\n\n{''.join(format_exception(error))}\n")
        write_text(self.folder / FILE, self._tracebacks)
        return (
            f"it failed with {_in_a_line(error)}; its traceback is in {self.folder / FILE}, and "
            "the same command again tries only what is missing"
        )


def _in_a_line(error: Exception) -> str:
    if isinstance(error, UserError):
        return error.found.partition("\n")[0]
    kind, said = type(error).__name__, said_by(error)
    return said if said == kind else f"{kind}: {said}"


def _whole(text: str) -> str:
    """Without half characters, which no file could hold."""
    return text.encode(errors="backslashreplace").decode()
