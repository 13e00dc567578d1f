"""Hook of both mkdocs.yml: links between the documentation of the tool and that of the study.

In the pages they are paths of the repository, so that they work where the repository is read; in
the built site the study lies under lab/, so they are rewritten here, and a dead one is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import Any

ROOT = Path(__file__).parents[1]
TOOL, STUDY = ROOT / "docs", ROOT / "lab" / "docs"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\.md(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite links that leave the pages of this site."""
    docs = Path(config["docs_dir"])
    file = docs / page.file.src_uri

    def rewritten(match: re.Match[str]) -> str:
        target = (file.parent / f"{match[2]}.md").resolve()
        if target.is_relative_to(docs):
            return match[0]
        if not target.is_file():
            raise FileNotFoundError(f"{page.file.src_uri} links to {match[2]}.md, which is no file")
        href = relpath(_place(target), Path(_place(file)).parent.as_posix())
        return f'<a href="{href}{match[3] or ""}">{match[1]}</a>'

    return LINK.sub(rewritten, markdown)


def _place(file: Path) -> str:
    """Where a page lies in the built site."""
    if file.is_relative_to(STUDY):
        return f"lab/{file.relative_to(STUDY).with_suffix('.html').as_posix()}"
    return file.relative_to(TOOL).with_suffix(".html").as_posix()
