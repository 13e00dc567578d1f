"""Names of pictures that cannot be read come in, with reasons; lines for the user go out."""

from __future__ import annotations

from collections.abc import Mapping

from unbag.reports.wording import count_text

MOST = 100
"""Names that a run remembers: a collection with a million dead links must not fill a checkpoint."""
_SHOWN = 5


def with_names(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Names and reasons of both, the first `MOST`."""
    return dict(list({**known, **more}.items())[:MOST])


def left_out_lines(found: Mapping[str, str], *, is_all: bool = True) -> list[str]:
    """How many, the first by name and reason, and how many more; `is_all` if none was forgotten."""
    if not found:
        return []
    least = "" if is_all else "at least "
    verb = "is" if len(found) == 1 and is_all else "are"
    pictures = count_text(len(found), "picture")
    lines = [f"{least}{pictures} cannot be read and {verb} left out"]
    lines += [f"  left out: {name}: {why}" for name, why in list(found.items())[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {least}{len(found) - _SHOWN:,} more")
    return lines
