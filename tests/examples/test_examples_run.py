"""Every example runs as its first lines say, and prints what it promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageDraw

EXAMPLES = Path(__file__).parents[2] / "examples"
CHECKED = {
    "measure_your_model.py",
    "compare_two_models.py",
    "blind_scores.py",
    "judge_edits.py",
    "make_composites.py",
    # In test_examples_photos.py and test_examples_patch_readout.py.
    "repair_on_photos.py",
    "patch_readout.py",
}


def run(name: str, out: Path, *more: str, first: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *first, str(out), *more],
        capture_output=True,
        text=True,
        check=False,
        cwd=out.parent,
        timeout=300,
        # Tests run side by side; threads of one would only stand in the way of the others.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == CHECKED


def test_measure_your_model(tmp_path: Path) -> None:
    printed = run("measure_your_model.py", tmp_path / "page.html")
    assert "only replaced colours: 98.8" in printed
    assert "group: 0.0 [0.0, 3.7], n=100, ties=100, chance=16.7" in printed
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "colour-words" in page
    assert "world-binding" in page


def test_compare_two_models(tmp_path: Path) -> None:
    printed = run("compare_two_models.py", tmp_path / "run")
    assert "world-swap: tiny:random minus tiny:base = -49.5 points" in printed
    assert "world-relation: tiny:random minus tiny:base = +0.4 points" in printed
    assert "no difference shown" in printed
    assert (tmp_path / "run" / "report.html").exists()


def test_blind_scores(tmp_path: Path) -> None:
    for name, rows in (("one", 1), ("two", 3)):
        pairs = [[n, "a dog on the left", "a dog far to the right"] for n in range(rows)]
        (tmp_path / "coco_spatial").mkdir(exist_ok=True)
        (tmp_path / f"coco_spatial/coco_qa_{name}_obj.json").write_text(json.dumps(pairs))
    printed = run("blind_scores.py", tmp_path, "coco_spatial", "sugarcrepe").splitlines()
    assert len(printed) == 3
    cells = [cell.strip() for cell in printed[2].strip("|").split("|")]
    # A coin for each image comes between the constant and the lengths.
    assert cells[:5] == ["`coco_spatial`", "`accuracy`, macro(objects)", "4", "50.0", "0.0"]
    assert cells[6:] == ["100.0", "0.0", "100.0"]


def test_judge_edits(tmp_path: Path) -> None:
    captions = ["a dog sits on a sofa", "a man holds a cup near a window"]
    row = {"image": "one.jpg", "captions": captions}
    (tmp_path / "captions.jsonl").write_text(json.dumps(row) + "\n")
    sheets = tmp_path / "sheets"
    drawn = run(
        "judge_edits.py",
        tmp_path / "captions.jsonl",
        str(sheets),
        *("--kinds", "swap_nouns"),
        first=("draw",),
    )
    assert drawn.splitlines() == ["swap_nouns             has a place in 100.0% of 2 captions"]
    blank = (sheets / "sheet.tsv").read_text()
    assert "swap_nouns" not in blank
    lines = blank.splitlines()
    filled = [lines[0], *(line.rstrip("\t") + "\tfalse\tyes" for line in lines[1:])]
    (tmp_path / "first.tsv").write_text("\n".join(filled) + "\n")
    filled[1] = filled[1].replace("\tfalse\t", "\tunclear\t")
    (tmp_path / "second.tsv").write_text("\n".join(filled) + "\n")
    judged = tmp_path / "judgements.tsv"
    sheet = [str(tmp_path / name) for name in ("first.tsv", "second.tsv")]
    printed = run("judge_edits.py", sheets, *sheet, str(judged), first=("count",))
    assert "swap_nouns               2  75.0%" in printed
    assert "50.0%" in printed
    rows = judged.read_text().splitlines()
    assert rows[0].split("\t") == [
        *("kind", "caption", "changes"),
        *("truth_1", "grammatical_1", "truth_2", "grammatical_2"),
    ]
    assert len(rows) == 3
    assert not any(caption in judged.read_text() for caption in captions)


def test_make_composites(tmp_path: Path) -> None:
    cutouts = tmp_path / "cutouts"
    cutouts.mkdir()
    for name, box in (("cup", (8, 8, 56, 56)), ("ball", (20, 4, 44, 60))):
        thing = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
        ImageDraw.Draw(thing).rectangle(box, fill=(200, 60, 40, 255))
        thing.save(cutouts / f"{name}.png")
    printed = run(
        "make_composites.py",
        tmp_path / "made",
        *("--count", "3", "--side", "64", "--kinds", "spatial"),
        first=(str(cutouts), "-"),
    )
    assert "6 images of 2 objects" in printed
    lines = (tmp_path / "made" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    first, opposite = (json.loads(line) for line in lines[:2])
    assert first["captions"][0] == opposite["edits"][0][0]["text"]
    assert (tmp_path / "made" / first["image"]).exists()
