"""The reader of one's own on its page is trained and scores, as it is printed."""

import re
import sys
from pathlib import Path

import pytest

from unbag.api import make_scorers
from unbag.cli import main
from unbag.models.tiny import load
from unbag.registry import names

PAGE = (Path(__file__).parents[2] / "docs" / "readouts.md").read_text(encoding="utf-8")


def test_a_read_out_of_ones_own_by_module_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = re.search(r'^```python title="my_reader.py"\n(.*?)^```', PAGE, re.M | re.S)
    assert found is not None
    (tmp_path / "my_reader.py").write_text(found[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    words = ["train", "--model", "tiny:base", "--readout", "my_reader:BILINEAR", "--pairs", "world"]
    words += ["--set", "steps=2", "scenes=20", "batch_size=4", "--out", str(out), "--device", "cpu"]
    assert main([*words, "--workers", "0"]) == 0
    said = capsys.readouterr().out
    assert "captions above all their hard negatives" in said
    assert f"unbag run --model tiny:base --scorer my_reader:BILINEAR@{out}" in said
    (scorer,) = make_scorers(load("base"), f"my_reader:BILINEAR@{out}")
    assert (scorer.name, scorer.scoring) == ("tiny:base+bilinear", "bilinear")
    monkeypatch.delitem(sys.modules, "my_reader")


def test_the_page_names_every_read_out() -> None:
    (table,) = re.findall(r"^## All of them\n(.*?)^## ", PAGE, re.M | re.S)
    assert [name for name in names("readout") if f"`{name}`" not in table] == []
