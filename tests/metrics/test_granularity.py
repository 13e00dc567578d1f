"""Published tables (methods.md 10.5-10.8) against the facts found in them (11.2, 11.4)."""

import pytest

from unbag.metrics import Cell, averages, check_average, counts, fits

# What'sUp two-way: individual and pair of A left/right, A on/under, B left/right, B front/behind.
WHATSUP = """
49.0 1.9 61.7 23.3 54.9 10.8 51.5 7.8
96.6 93.2 76.2 52.4 98.5 97.1 76.0 52.9
97.6 95.1 78.6 58.3 100 100 61.8 26.5
98.1 96.1 81.1 64.1 100 100 73.0 47.1
84.5 68.9 76.2 52.4 89.2 78.4 86.3 72.5
44.2 8.7 54.4 8.7 49.0 4.9 53.9 12.7
47.6 9.7 52.9 10.7 52.9 9.8 51.5 6.9
54.9 22.3 46.1 13.6 52.0 20.6 45.6 12.7
48.1 0.0 50.0 2.9 50.0 6.9 48.0 7.8
50.5 10.7 48.5 6.8 50.0 15.7 53.9 21.6
49.5 1.0 58.7 17.4 49.0 1.0 55.4 14.7
97.1 95.1 68.0 35.9 100 100 60.8 22.5
49.5 0.0 50.5 1.9 46.6 2.0 50.5 1.0
99.0 98.1 80.1 60.2 100 100 98.5 97.1
90.3 80.6 57.8 20.4 71.1 46.1 69.1 41.2
100 100 85.4 70.9 100 100 56.9 13.7
50.0 1.9 93.7 87.4 50.0 0.0 50.0 5.9
50.0 1.0 56.8 13.6 50.0 0.0 51.5 11.8
"""


def misfits(sets_a: int, sets_b: int) -> list[str]:
    """Values that no count gives; 100 is printed without its decimal and read as 100.0."""
    result = []
    for row in WHATSUP.split("\n"):
        for column, text in enumerate(row.split()):
            sets = sets_a if column < 4 else sets_b
            printed = text if "." in text else f"{text}.0"
            if not fits(printed, sets * (1 if column % 2 else 2)):
                result.append(text)
    return result


def test_whatsup_has_103_sets_in_a_and_102_in_b() -> None:
    assert len(WHATSUP.split()) == 144
    assert misfits(103, 102) == ["17.4"]
    assert len(misfits(102, 103)) == 79


@pytest.mark.parametrize(
    ("printed", "n"),
    [("17.4", 103), ("50.1", 204), ("2.0", 103), ("12.8", 102), ("3.0", 204), ("28.4", 206)],
)
def test_the_six_published_values_that_fit_no_count(printed: str, n: int) -> None:
    assert not fits(printed, n)


@pytest.mark.parametrize(
    ("printed", "n", "expected"),
    [
        ("17.5", 103, (18,)),
        ("50.0", 204, (102,)),
        ("1.9", 103, (2,)),
        ("12.7", 102, (13,)),
        ("2.9", 204, (6,)),
        ("28.2", 206, (58,)),
        ("28.6", 206, (59,)),
        ("50", 4, (2,)),
        ("50", 1000, tuple(range(495, 506))),
        ("100.0", 3, (3,)),
        ("0.0", 3, (0,)),
        # Exactly between: 1/16 is 6.25 % and prints as 6.2 or 6.3.
        ("6.2", 16, (1,)),
        ("6.3", 16, (1,)),
    ],
)
def test_counts(printed: str, n: int, expected: tuple[int, ...]) -> None:
    assert counts(printed, n) == expected


VALSE = ["ex", "pl", "co", "sp", "ar", "as", "cs", "cc", "fo"]
VALSE_ROWS = {
    "BLIP": "86.3 73.2 68.1 71.5 77.2 61.1 53.8 48.2 93.8 70.0",
    "BEIT3": "77.4 74.6 68.8 74.0 86.7 65.2 50.0 44.2 96.0 70.4",
    "BLIP2": "55.5 71.5 66.0 62.4 83.6 51.6 48.6 51.9 95.9 65.4",
    "MiniGPT-4": "65.5 72.5 67.4 68.4 83.2 58.8 52.6 51.0 95.8 68.4",
    "XVLM-coco": "83.0 75.6 67.5 70.2 73.8 68.6 46.4 49.6 94.8 69.5",
    "CE-XVLM": "83.5 72.8 72.1 68.7 71.8 69.1 51.0 46.8 93.8 70.8",
    "CLIP": "68.7 57.1 61.0 65.4 77.8 71.8 54.1 51.0 89.8 65.3",
    "CyCLIP": "69.3 58.3 61.0 66.4 78.1 72.0 53.2 51.6 88.8 65.5",
    "NegCLIP": "76.8 71.7 65.0 72.9 81.6 84.7 58.6 53.8 91.9 71.6",
    "CE-CLIP": "78.6 77.7 64.4 74.4 81.2 88.6 54.7 54.8 93.7 72.5",
    "CE-CLIP+": "84.5 79.2 67.8 76.4 83.4 89.4 56.7 57.8 94.7 76.7",
}


def valse(model: str) -> tuple[list[Cell], float]:
    *values, printed = (float(text) for text in VALSE_ROWS[model].split())
    cells = zip(VALSE, values, strict=True)
    return [Cell(n, v, parts=3 if n == "co" else 1) for n, v in cells], printed


def test_valse_averages() -> None:
    eleven = {"CLIP": 65.34, "CyCLIP": 65.52, "NegCLIP": 71.55, "CE-CLIP": 72.45, "BLIP": 69.95}
    eleven |= {"BEIT3": 70.41, "BLIP2": 65.36, "XVLM-coco": 69.50, "CE-CLIP+": 75.05}
    for model, expected in eleven.items():
        assert averages(valse(model)[0])["macro11"] == pytest.approx(expected, abs=0.006)
    assert averages(valse("CE-CLIP+")[0])["macro9"] == pytest.approx(76.66, abs=0.006)


def test_valse_rows_mix_two_rules() -> None:
    matched = {model: check_average(*valse(model)) for model in VALSE_ROWS}
    assert [model for model, rules in matched.items() if rules == ("macro9",)] == [
        "MiniGPT-4",
        "CE-CLIP+",
    ]
    assert [model for model, rules in matched.items() if not rules] == ["CE-XVLM"]
    others = set(VALSE_ROWS) - {"MiniGPT-4", "CE-CLIP+", "CE-XVLM"}
    assert all("macro11" in matched[model] for model in others)


# VL-CheckList: five attributes and their average, two objects, two relations, overall.
CHECKLIST = {
    "ALBEF": "81.7 84.2 87.3 69.5 72.08 79.3 81.7 80.5 81.1 70.5 64.6 66.5 75.6",
    "UNITER": "72.6 76.2 75.8 63.5 68.1 71.3 82.4 81.5 81.9 69.2 61.5 64.7 72.6",
    "BLIP": "79.5 83.2 84.7 59.8 68.8 75.2 83.0 81.3 82.2 59.5 75.7 70.5 75.7",
    "BEIT3": "79.6 78.5 80.1 63 68.4 73.9 85.2 83.8 84.5 76.6 62.3 69.4 75.3",
    "BLIP2": "81.0 86.2 90.3 61.7 70.1 77.8 85.4 84.3 84.9 84.9 56.2 70.6 77.8",
    "XVLM-coco": "80.4 81.1 83.1 60.3 70.8 75.1 86.3 85.3 85.8 79.0 61.8 70.4 76.5",
    "CE-XVLM": "80.5 76.0 80.6 67.2 69.8 74.8 87.3 86.6 86.9 80.8 78.6 79.7 78.6",
    "CLIP": "70.5 69.4 69.5 60.7 67 67.4 80.2 79.7 80.0 72.2 53.8 63.0 69.2",
    "NegCLIP": "72.1 75.7 78.1 61.3 67.3 70.9 84.4 83.8 84.1 80.7 57.1 68.9 73.4",
    "CE-CLIP": "75.6 72.7 79.7 65.3 69.8 72.6 84.8 84.5 84.6 78.5 65.0 71.8 75.1",
    "CE-CLIP+": "78.5 83.5 85.2 65.8 70.8 76.7 86.7 85.9 86.3 81.0 68.4 74.7 78.4",
}


def checklist(model: str) -> tuple[dict[str, list[Cell]], dict[str, float], float]:
    """Cells and printed average of every group, and the printed overall average."""
    values = [float(text) for text in CHECKLIST[model].split()]
    parts = {"attribute": values[:5], "object": values[6:8], "relation": values[9:11]}
    cells = {g: [Cell(f"{g} {i}", v, g) for i, v in enumerate(vs)] for g, vs in parts.items()}
    return cells, dict(zip(parts, (values[5], values[8], values[11]), strict=True)), values[12]


def test_checklist_group_averages_that_are_not_means_of_their_cells() -> None:
    doubtful = []
    for model in CHECKLIST:
        cells, printed, _ = checklist(model)
        doubtful += [(model, g) for g in cells if not check_average(cells[g], printed[g])]
    assert doubtful == [
        ("ALBEF", "attribute"),
        ("ALBEF", "relation"),
        ("UNITER", "relation"),
        ("BLIP", "relation"),
    ]


def test_checklist_overall_averages() -> None:
    rules = {}
    for model in CHECKLIST:
        cells, printed, overall = checklist(model)
        all_cells = [cell for group in cells.values() for cell in group]
        rules[model] = check_average(all_cells, overall, group_averages=printed)
    assert rules["ALBEF"] == rules["UNITER"] == ("macro3 (printed groups)",)
    assert rules["BLIP"] == ()
    assert all("macro9" in rules[m] for m in CHECKLIST if m not in ("ALBEF", "UNITER", "BLIP"))


def test_checklist_means_by_hand() -> None:
    nine = {"ALBEF": 76.90, "UNITER": 72.31}
    for model, expected in nine.items():
        cells = [cell for group in checklist(model)[0].values() for cell in group]
        assert averages(cells)["macro9"] == pytest.approx(expected, abs=0.006)


SUGARCREPE = {
    "CLIP": ("90.9 80 69.2 61.4 64 77.2 68.2", "80.2 62.7 72.7", 73.1),
    "NegCLIP": ("92.7 85.9 76.5 75.2 75.4 88.8 82.8", "85.0 75.3 85.8", None),
    "CE-CLIP": ("93.1 88.8 79 72.8 77 92.4 93.4", "87.0 74.9 92.9", 85.2),
    "CE-CLIP+": ("93.8 90.8 83.2 76.8 79.3 93.8 94.9", "89.3 78.0 94.4", 87.5),
}
FAMILIES = ("replace",) * 3 + ("swap",) * 2 + ("add",) * 2


def test_sugarcrepe_averages_that_do_not_follow() -> None:
    doubtful = []
    for model, (row, printed, overall) in SUGARCREPE.items():
        cells = [
            Cell(f"{family} {i}", float(text), family)
            for i, (family, text) in enumerate(zip(FAMILIES, row.split(), strict=True))
        ]
        for family, text in zip(("replace", "swap", "add"), printed.split(), strict=True):
            if not check_average([c for c in cells if c.group == family], float(text)):
                doubtful.append(f"{model} {family}")
        if overall is not None and not check_average(cells, overall):
            doubtful.append(f"{model} overall")
    assert doubtful == ["CLIP replace", "CLIP overall"]


def test_sugarcrepe_means() -> None:
    cells = [
        Cell(f"{family} {i}", float(text), family)
        for i, (family, text) in enumerate(
            zip(FAMILIES, SUGARCREPE["CLIP"][0].split(), strict=True)
        )
    ]
    result = averages(cells)
    assert result == pytest.approx({"macro7": 72.99, "macro3": 71.81}, abs=0.005)
