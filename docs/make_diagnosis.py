"""Make docs/data/diagnosis.json from folders of diagnoses, and tables of it for docs/make.py.

unbag diagnose --model tiny:base --out d/base          (and so on for the other MODELS)
unbag diagnose --model tiny:hard_negative --against tiny:base --probes transplant --out d/parts-1
unbag diagnose --model tiny:ce_clip_fixed --against tiny:base --probes transplant --out d/parts-2
python docs/make_diagnosis.py d/* && python docs/make.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from unbag_lab.pages import table

HERE = Path(__file__).parent
FILE = HERE / "data" / "diagnosis.json"
MODELS = ("tiny:base", "tiny:hard_negative", "tiny:ce_clip_fixed", "tiny:random")
ROWS = (
    ("order", "order precision, swaps", "image prefers caption to a swap"),
    ("order", "order precision, swaps: swap_arguments", "the same, things exchanged"),
    ("order", "retention, all_words, text to image", "retention with all words shuffled"),
    ("agreement", "merged, same things", "images of the same things that are merged"),
    ("agreement", "merged, left/right", "the same, left/right"),
    ("agreement", "merged, swap_attributes", "the same, colours exchanged"),
    ("extract", "left/right, projected, linear", "left/right, classifier on the embedding"),
    ("extract", "left/right, patches by quarter, linear", "left/right, classifier on patches"),
    ("extract", "left/right, own score", "left/right, by cosine"),
    ("extract", "binding, projected, linear", "binding of colours, classifier on the embedding"),
    (
        "extract_text",
        "order, projected, linear",
        "thing named first, from the text embedding",
    ),
    (
        "extract_text",
        "negation, projected, linear",
        "thing denied, from the text embedding",
    ),
    ("conditions", "beyond a bag", "rate of conditions that no bag of words meets"),
    ("superposition", "sum, centred", "cosine with the sum, centred"),
    ("superposition", "other pair, centred", "cosine with the sum of another pair"),
    ("superposition", "colours exchanged", "cosine of images with exchanged colours"),
    ("sensitivity", "auc, same words", "auc: negative costs more than positive, same words"),
    ("sensitivity", "auc, other words", "the same, other words"),
    (
        "sensitivity",
        "rho, same words",
        "rho: cost of a positive to a negative, same words",
    ),
    ("stability", "right, same words", "preferences that are right, same words"),
    ("stability", "angle, same words", "degrees of rotation that reverse these"),
    ("stability", "flipped at 10 %, same words", "share of these that 10 % noise flips"),
    ("profile", "relations", "relations right"),
    ("profile", "objects 2", "the same, 2 things in the scene"),
    ("profile", "objects 3", "3 things"),
    ("profile", "objects 4", "4 things"),
    ("profile", "objects 5", "5 things"),
    ("profile", "binding", "bindings right"),
)
"""Probe, quantity, and what the table calls it."""
PARTS = (
    ("none", "the base"),
    ("image encoder", "with its image encoder"),
    ("text encoder", "with its text encoder"),
    ("read-out", "with its read-out"),
    ("image encoder + text encoder", "with both encoders"),
    ("all", "the repaired model"),
)
SCOPE = "swap_arguments"


def collected(folders: list[Path]) -> dict[str, Any]:
    """What the tables need, in the precision that they show."""
    found = [json.loads((one / "diagnosis.json").read_text(encoding="utf-8")) for one in folders]
    assert {(one["seed"], one["is_whole"]) for one in found} == {(0, True)}
    whole = {one["model"]["name"]: one for one in found if one["against"] is None}
    other = {one["model"]["name"]: one for one in found if one["against"] is not None}
    return {
        "material": found[0]["material"],
        "seed": 0,
        "models": {name: _answers(whole[name], {(p, q) for p, q, _ in ROWS}) for name in MODELS},
        "parts": {
            name: _answers(one, {("transplant", f"{SCOPE}: {part}") for part, _ in PARTS})
            for name, one in sorted(other.items(), key=lambda pair: MODELS.index(pair[0]))
        },
    }


def _answers(diagnosis: dict[str, Any], wanted: set[tuple[str, str]]) -> dict[str, Any]:
    return {
        f"{answer['probe']}: {one['name']}": {
            key: one[key] for key in ("value", "low", "high", "n", "is_rate")
        }
        for answer in diagnosis["answers"]
        for one in answer["quantities"]
        if (answer["probe"], one["name"]) in wanted
    }


def models_table() -> str:
    """A row for each quantity, a column for each model."""
    numbers = _numbers()
    rows, before = [], ""
    for probe, quantity, words in ROWS:
        cells = [_shown(numbers["models"][name].get(f"{probe}: {quantity}")) for name in MODELS]
        rows.append([f"`{probe}`" if probe != before else "", words, *cells])
        before = probe
    return table(["probe", "quantity", *(f"`{name}`" for name in MODELS)], rows)


def parts_table() -> str:
    """A row for each combination, a column for each repair."""
    numbers = _numbers()
    names = list(numbers["parts"])
    head = ["`tiny:base` and parts of", *(f"`{name}`" for name in names)]
    rows = []
    for part, words in PARTS:
        values = (numbers["parts"][name].get(f"transplant: {SCOPE}: {part}") for name in names)
        rows.append([words, *map(_shown, values)])
    return table(head, rows)


def _shown(one: dict[str, Any] | None) -> str:
    if one is None or one["value"] is None:
        return "–"
    scale, digits = (100, 1) if one["is_rate"] else (1, 3)
    value, low, high = (
        "–" if one[key] is None else f"{round(scale * one[key], digits) + 0.0:.{digits}f}"
        for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}]"


def _numbers() -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return numbers


if __name__ == "__main__":
    numbers = collected([Path(folder) for folder in sys.argv[1:]])
    FILE.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
