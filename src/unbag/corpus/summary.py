"""What came of a job: counts by kind and reason, what to know of the output; kept beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbag.captions.tally import Tally
from unbag.engine.atomic import write_text


@dataclass(frozen=True, eq=False)
class Summary:
    """Of a finished job."""

    out: Path
    asked: dict[str, Any]
    """See `EditJob.asked`."""
    tally: Tally
    bad: int
    """Broken lines that were left out."""
    bad_named: tuple[str, ...]
    failures: int
    """Captions that the editor failed on."""
    failures_named: tuple[str, ...]
    notes: tuple[str, ...]
    leaks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By kind, where a language model was asked: pairs, preferred, low, high."""

    @staticmethod
    def path(out: Path) -> Path:
        """Where the summary of an output is."""
        return out.with_name(f"{out.name}.summary.json")

    def write(self) -> None:
        """Beside the output."""
        said = {
            "out": self.out.name,
            **self.tally.as_json(),
            "bad_lines": {"count": self.bad, "first": list(self.bad_named)},
            "failures": {"count": self.failures, "first": list(self.failures_named)},
            "notes": list(self.notes),
            "leaks": dict(self.leaks),
            "asked": self.asked,
        }
        write_text(self.path(self.out), json.dumps(said, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, out: Path) -> Summary | None:
        """That of an output; None where there is none that can be read."""
        try:
            said = json.loads(cls.path(out).read_text(encoding="utf-8"))
            bad, failures = said["bad_lines"], said["failures"]
            return cls(
                out,
                said["asked"],
                Tally.from_json(said),
                bad["count"],
                tuple(bad["first"]),
                failures["count"],
                tuple(failures["first"]),
                tuple(said["notes"]),
                said["leaks"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
