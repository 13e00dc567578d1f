"""Pages of the study, made from claims and results: Markdown with figures in SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

START, END = "<!-- {}: start -->\n", "<!-- {}: end -->\n"


def renewed(page: str, parts: Mapping[str, str]) -> str:
    """The page with every generated part, which stands between marks, as it is now."""
    for name, text in parts.items():
        start, end = START.format(name), END.format(name)
        before, _, rest = page.partition(start)
        page = before + start + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    safe = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in safe) + "\n"
