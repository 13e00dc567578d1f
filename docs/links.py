"""Hook of both mkdocs.yml: links between the documentation of the tool and that of the study.

In the pages they are paths of the repository, so that they work where the repository is read; in
the built site the study lies under lab/, so they are rewritten here, those to images too. A link to
a file that is on neither site, such as CONTRIBUTING, becomes plain text. A dead link is an error.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from posixpath import relpath
from typing import Any

ROOT = Path(__file__).parents[1]
TOOL, STUDY = ROOT / "docs", ROOT / "lab" / "docs"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+\.md)(#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!\w+:)([^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Check images, and rewrite what leaves the pages of this site."""
    docs = Path(config["docs_dir"])
    file = docs / page.file.src_uri

    def address(path: str) -> str | None:
        """In the built site, from this page; None for what lies in this site."""
        target = (file.parent / path).resolve()
        if not target.is_file():
            raise FileNotFoundError(f"{page.file.src_uri} names {path}, which is no file")
        if target.is_relative_to(docs):
            return None
        return relpath(_place(target), Path(_place(file)).parent.as_posix())

    def link(match: re.Match[str]) -> str:
        target = (file.parent / match[2]).resolve()
        if not (target.is_relative_to(TOOL) or target.is_relative_to(STUDY)):
            return match[1]
        href = address(match[2])
        return f'<a href="{href}{match[3] or ""}">{match[1]}</a>' if href else match[0]

    def image(match: re.Match[str]) -> str:
        source = address(match[2])
        return f'<img alt="{escape(match[1])}" src="{source}">' if source else match[0]

    return LINK.sub(link, IMAGE.sub(image, markdown))


def _place(file: Path) -> str:
    """Where a page or an image lies in the built site."""
    file = file.with_suffix(".html") if file.suffix == ".md" else file
    if file.is_relative_to(STUDY):
        return f"lab/{file.relative_to(STUDY).as_posix()}"
    return file.relative_to(TOOL).as_posix()
