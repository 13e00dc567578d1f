"""Pages with generated parts between marks: replace the parts, leave the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping

START, END = "<!-- {}: start -->\n", "<!-- {}: end -->\n"


def renewed(page: str, parts: Mapping[str, str]) -> str:
    """The page with every part as it is now; all else stays."""
    for name, text in parts.items():
        start, end = START.format(name), END.format(name)
        before, _, rest = page.partition(start)
        page = before + start + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page
