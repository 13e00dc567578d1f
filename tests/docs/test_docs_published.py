"""The page of published numbers lists exactly the inconsistencies that the code finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from unbag.published.lookup import tables

DOCS = Path(__file__).parents[2] / "docs"


NAMED = {
    "Li et al. 2024 (erroneous agreements)": "erroneous agreements",
    "Li et al. (chat models against CLIP), slides": "Li et al. (chat models against CLIP)",
    "mertyg/vision-language-models-are-bows": "Yuksekgonul et al. 2023 (ARO)",
    "tsb0601/MMVP": "repositories of MMVP",
    "nightingal3/winoground-project": "Winoground's score matrix",
    "IMirandaM/BiVLC": "BiVLC",
    "Hessel et al. 2021 (CLIPScore)": "CLIPScore",
}
"""Sources that the page calls otherwise than the tables do."""


@pytest.mark.parametrize("paper", sorted({table.paper for table in tables()}))
def test_every_source_is_named(paper: str) -> None:
    page = (DOCS / "published.md").read_text(encoding="utf-8").split("## How they are compared")[0]
    assert NAMED.get(paper, paper) in page


def test_the_lists_are_those_of_the_data() -> None:
    """Writing the page again changes nothing; else run: python docs/make_published.py."""
    before = (DOCS / "published.md").read_text(encoding="utf-8")
    code = (
        "import runpy, pathlib; m = runpy.run_path('make_published.py'); "
        "page = pathlib.Path('published.md').read_text(encoding='utf-8'); "
        "assert m['renewed'](page) == page"
    )
    subprocess.run([sys.executable, "-c", code], cwd=DOCS, check=True)
    assert (DOCS / "published.md").read_text(encoding="utf-8") == before
