"""`unbag verify` from the command line, on small files in the official layout."""

import json
from pathlib import Path

import pytest
from PIL import Image

from unbag.benchmarks.sugarcrepe import KINDS
from unbag.benchmarks.whatsup import A
from unbag.cli import main
from unbag.evaluation.store import read_contents
from unbag.reports.exports import to_csv, to_json, to_markdown

NOT_RUN = ("not run: valse", "unbag data get valse")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """SugarCrepe of 21 records and What'sUp A of two sets, with the pillow."""
    root = tmp_path / "sugarcrepe"
    (root / "val2017").mkdir(parents=True)
    for i, kind in enumerate(KINDS):
        records = {}
        for j in range(3):
            Image.new("RGB", (64, 64), (40 * i, 80 * j, 9)).save(root / f"val2017/{i}{j}.jpg")
            texts = {"caption": "a red circle", "negative_caption": "a blue square"}
            records[str(j)] = {"filename": f"{i}{j}.jpg", **texts}
        (root / f"{kind}.json").write_text(json.dumps(records))
    folder = tmp_path / "whatsup_a" / A.images
    folder.mkdir(parents=True)
    rows = []
    for first, second in (("pillow", "chair"), ("mug", "plate")):
        captions = [f"A {first} {relation} a {second}" for relation in A.relations]
        for i, relation in enumerate(A.relations):
            name = f"{first}_{relation}_{second}.jpeg"
            Image.new("RGB", (64, 64), (60 * i, len(first) * 20, 99)).save(folder / name)
            options = [captions[i], *captions[:i], *captions[i + 1 :]]
            rows.append({"image_path": f"data/{A.images}/{name}", "caption_options": options})
    (tmp_path / "whatsup_a" / A.file).write_text(json.dumps(rows))
    return tmp_path


def verify(data: Path, *more: str) -> int:
    words = ["verify", "--model", "tiny:base", "--data", str(data), "--device", "cpu"]
    return main([*words, "--no-cache", "--out", str(data / "out"), *more])


def test_published_numbers_next_to_ours(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["sugarcrepe", "whatsup_a", "valse"]
    code = verify(data, "--as", "CLIP ViT-L/14 (openai)", "--bench", *names)
    printed = capsys.readouterr()
    assert code in (0, 3)
    assert (code == 3) == ("outside" in printed.out)
    for expected in NOT_RUN:
        assert expected in printed.err
    assert "94.07" in printed.out
    assert "macro(family)" in printed.out
    assert "Oh et al. 2024 (ytaek-oh/vl_compo), individual_results.csv" in printed.out
    assert "CLIP ViT-L/14 (openai): " in printed.out
    assert (data / "out/report.html").is_file()
    plain, mended = (read_contents(data / "out" / name) for name in ("as-is", "mended"))
    assert {r.benchmark for r in plain.results} == {"sugarcrepe", "whatsup_a"}
    assert {r.benchmark for r in mended.results} == {"whatsup_a"}
    assert {r.protocol.errata for r in mended.results} == {"pillow"}
    assert {r.protocol.ties for r in mended.results[:1]} == {"right"}


def test_a_second_run_prints_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = verify(data, "--as", "NegCLIP", "--bench", "sugarcrepe")
    before = capsys.readouterr().out
    assert verify(data, "--as", "NegCLIP", "--bench", "sugarcrepe") == first
    assert capsys.readouterr().out == before


def test_a_model_without_published_numbers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(data) == 1
    printed = capsys.readouterr().err
    assert "no published number of 'tiny:base' is known" in printed
    assert "    CLIP ViT-B/32 (openai)\n" in printed
    assert "--as" in printed


def test_without_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(tmp_path, "--as", "NegCLIP", "--bench", "winoground") == 1
    printed = capsys.readouterr().err
    assert "not run: winoground: there is no folder" in printed
    assert "no published number of 'NegCLIP' could be reproduced" in printed


def test_a_run_exports_published_numbers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "tiny:base", "--bench", "sugarcrepe", "--data", str(data)]
    more = ["--trained-on", "COCO", "--device", "cpu", "--no-cache", "--out", str(data / "run")]
    assert main([*words, *more]) == 0
    assert "warning: tiny:base was trained on COCO" in capsys.readouterr().out
    contents = read_contents(data / "run")
    assert contents.references
    assert {r.scorer for r in contents.references} == {"tiny:base"}
    assert len(json.loads(to_json(contents))["references"]) == len(contents.references)
    assert "CE-CLIP+,cosine,macro7,,,,,accuracy,0.875," in to_csv(contents)
    assert "## sugarcrepe: published numbers" in to_markdown(contents)
    page = (data / "run/report.html").read_text()
    assert "<h4>Published numbers</h4>" in page
    assert "Warning:" in page
    assert main(["report", str(data / "run")]) == 0
    assert "warning: tiny:base was trained on COCO" in capsys.readouterr().out
