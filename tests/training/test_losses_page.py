"""The page of the losses has each of them, and its code prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

from unbag.registry import names

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")


def test_the_page_has_exactly_the_losses_of_the_code() -> None:
    headings = re.findall(r"^### `(\w+)`$", PAGE, flags=re.MULTILINE)
    assert sorted(headings) == sorted(names("loss"))


def test_each_says_where_it_is_from_and_what_happens_without_edits() -> None:
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        text = re.split(r"^## ", part, flags=re.MULTILINE)[0]
        assert "Source: " in text
        assert re.search(r"^Without (negatives|positives): ", text, flags=re.MULTILINE)


def test_the_example_prints_what_the_page_shows() -> None:
    ((code, shown),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.M | re.S)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == shown
