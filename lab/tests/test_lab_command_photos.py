"""`unbag lab run` and claims about photographs, which none come with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.errors import UnbagError
from unbag_lab.claims import PHOTOGRAPHS, all_claims
from unbag_lab.experiments.photos import edited_pairs
from unbag_lab.results import opened

NAMES = tuple(claim.name for claim in all_claims() if claim.where == PHOTOGRAPHS)


@pytest.fixture(autouse=True)
def _plans_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag_lab.running._goes_on", lambda options: False)


def run(out: Path, *words: str) -> int:
    return main(["lab", "run", *words, "--device", "cpu", "--out", str(out)])


def test_all_leaves_them_out_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "all") == 0
    said = capsys.readouterr().out
    first, _, rest = said.partition("\n")
    assert first == (f"left out, since they need photographs (--photos FOLDER): {', '.join(NAMES)}")
    assert "  default: " in rest
    assert "photos: " not in rest


@pytest.mark.parametrize("name", ["photos", "photos_negatives"])
def test_named_without_a_folder_they_say_what_to_give(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, name, "negatives_open") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{name}: no photographs were named" in said
    assert "a folder of your own, with captions: none come with the package" in said
    assert "--photos FOLDER" in said


def test_a_folder_without_captions_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "out", "all", "--photos", str(tmp_path)) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"there is no file {tmp_path / 'captions.jsonl'}" in said
    assert "a folder with captions.jsonl, or a file of captions beside its images" in said
    assert "check the path given with --photos" in said


def test_their_price_is_that_of_a_processor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "captions.jsonl").touch()
    out = tmp_path / "out"
    assert run(out, "photos_negatives", "--photos", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "left out" not in said
    assert "  photos: 25 results on all bases, about " in said
    assert "    heads, blind, clip_ft, neg_clip, hard_negative\n" in said
    assert " of one core of a CPU, and before that minutes for features" in said
    assert "H200" not in said
    assert run(out, "photos_negatives", "negatives_open", "--photos", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert " of one H200, in one process" in said
    assert " of one core of a CPU" in said


def test_probes_are_priced_as_a_processor_and_need_no_repairs_if_only_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "order_free_retrieval", "--judged-only", "--seeds", "1") == 0
    said = capsys.readouterr().out
    assert "  probes: 1 result on all bases, about " in said
    assert "probes: about " in said
    assert "H200" not in said
    assert run(tmp_path, "order_free_retrieval", "--seeds", "1") == 0
    said = capsys.readouterr().out
    assert " of one H200, in one process" in said
    # Before the repairs and after them: two parts of the plan, one price.
    assert said.count("  probes: ") == 2
    assert said.count("\nprobes: about ") == 1


def test_captions_that_cannot_be_read_are_told_with_what_this_command_can_do(
    tmp_path: Path,
) -> None:
    """Readers name options of `unbag edit` and `unbag train`, which are not there."""
    pytest.importorskip("spacy")
    file, folder = tmp_path / "captions.jsonl", tmp_path / "out" / "photographs"
    for line, found in (
        ("not JSON", "captions.jsonl, line 1 is not JSON"),
        ('{"image": "1.jpg"}', "line 1 has neither caption nor captions, only image"),
        ("", "captions.jsonl holds no captions"),
        ('{"image": "1.jpg", "captions": ["a red dog"]}', "edits.jsonl are missing: 1.jpg"),
    ):
        file.write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(UnbagError, match=found) as told:
            edited_pairs(file, folder)
        assert "--" not in told.value.expected
        assert told.value.hint == f"mend {file}; lab/docs/index.md has the form of a line"


def test_a_run_folder_of_other_photographs_is_refused_though_nothing_is_left_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("spacy")
    out = tmp_path / "out"
    for name, caption in (("one", "a red dog"), ("other", "a blue cat")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").touch()
        text = json.dumps({"image": "1.jpg", "captions": [caption]}) + "\n"
        (tmp_path / name / "captions.jsonl").write_text(text, encoding="utf-8")
    with opened(out, size="full"):
        edited_pairs(tmp_path / "one" / "captions.jsonl", out / "photographs")
    assert run(out, "photos_negatives", "--photos", str(tmp_path / "one")) == 0
    capsys.readouterr()
    assert run(out, "photos_negatives", "--photos", str(tmp_path / "other")) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "edits.jsonl exists already: captions" in said
    assert "name another folder with --out, or remove " in said


def test_a_claim_about_them_is_shown_with_the_option_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lab", "show", "photos_negatives"]) == 0
    assert capsys.readouterr().out.endswith("unbag lab run photos_negatives --photos FOLDER\n")


def test_a_small_run_needs_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "photos_positives", "--size", "small", "--seeds", "2") == 0
    said = capsys.readouterr().out
    assert "  photos: 6 results on all bases\n    heads, hard_negative, hard_positive\n" in said
