"""MMVP and MMVP-VLM: pairs of images that CLIP confuses, with questions or with statements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from unbag.benchmarks.files import FIRST_OF_2, MATCHING_2, SECOND_OF_2, Folder, Record, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Groups, JoinedPairs, Relaxed
from unbag.types import MICRO, Aggregate, Benchmark, Errata, Item, Question

ERRATA: Mapping[int, str] = MappingProxyType({99: "b", 100: "a", 279: "b", 280: "a"})
"""Answers that readers report as wrong (tsb0601/MMVP, issues 14 and 30): both of each pair
exchanged. For 99 and 279 a later audit (lmms-eval, issue 1018) finds the official answer right."""
PROMPT = "a photo of "


def load(root: Path | None, *, is_corrected: bool = False) -> Sequence[Item]:
    """Load one item per question; two consecutive ones form a group. Images count from 1."""
    folder = Folder.of(root, "mmvp")
    images = folder.image_folder("MMVP Images", "images")
    items = []
    rows = folder.table("Questions.csv", columns=("Question", "Options", "Correct Answer"))
    _check_even(rows, "Questions.csv of mmvp")
    for number, record in enumerate(rows, start=1):
        options = _options(record)
        answer = _answer(record)
        if is_corrected:
            answer = ERRATA.get(number, answer)
        items.append(
            Item(
                id=f"question/{number}",
                images=(folder.image(images, f"{number}.jpg", record.where),),
                captions=options,
                truth=FIRST_OF_2 if answer == "a" else SECOND_OF_2,
                question=Question(
                    record.caption("Question"), (f"(a) {options[0]}", f"(b) {options[1]}")
                ),
                group=f"pair/{(number + 1) // 2}",
            )
        )
    return items


load_corrected = partial(load, is_corrected=True)
"""Like `load`, with the corrected answers of ERRATA."""


def load_vlm(root: Path | None) -> Sequence[Item]:
    """Load one item per pair of statements: consecutive rows with an odd and an even id."""
    folder = Folder.of(root, "mmvp_vlm")
    images = folder.image_folder("MLLM_VLM Images", "images")
    rows = folder.table("Questions.csv", columns=("Question ID", "Type", "Statement"))
    _check_even(rows, "Questions.csv of mmvp_vlm")
    items = []
    for pair in zip(rows[0::2], rows[1::2], strict=True):
        numbers = [_number(record) for record in pair]
        pattern = pair[0].caption("Type")
        if (
            numbers[0] % 2 != 1
            or numbers[1] != numbers[0] + 1
            or pair[1].caption("Type") != pattern
        ):
            raise not_official(
                f"{pair[0].where} and the next have ids {numbers[0]} and {numbers[1]}, types "
                f"{pattern!r} and {pair[1].caption('Type')!r}",
                "an odd id and the next one, of one type",
            )
        items.append(
            Item(
                id=f"pair/{numbers[0]}-{numbers[1]}",
                images=tuple(
                    folder.image(images, f"{pattern}/{number}.jpg", record.where)
                    for number, record in zip(numbers, pair, strict=True)
                ),
                captions=tuple(PROMPT + record.caption("Statement") for record in pair),
                truth=MATCHING_2,
                tags={"pattern": pattern},
            )
        )
    return items


def _check_even(rows: Sequence[Record], name: str) -> None:
    if len(rows) % 2:
        raise UnbagError(
            f"{name} has {len(rows)} rows",
            expected="pairs of rows",
            hint="download it again",
        )


def _options(record: Record) -> tuple[str, str]:
    text = record.caption("Options")
    match = re.fullmatch(r"\s*\(a\)\s*(\S.*?)\s*\(b\)\s*(\S.*?)\s*", text, flags=re.DOTALL)
    if not match:
        raise not_official(f"{record.where}: Options is {text!r}", "'(a) ... (b) ...'")
    return match[1], match[2]


def _answer(record: Record) -> str:
    text = record.caption("Correct Answer").strip()
    if text not in ("(a)", "(b)"):
        raise not_official(f"{record.where}: Correct Answer is {text!r}", "(a) or (b)")
    return text[1]


def _number(record: Record) -> int:
    text = record.text("Question ID")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise not_official(f"{record.where}: Question ID is {text!r}", "a whole number")
    return int(text)


MMVP = Benchmark(
    **benchmark_fields("mmvp"),
    load=load,
    errata=Errata(
        "answers",
        "Readers report the answers of questions 99, 100, 279 and 280 as exchanged "
        "(tsb0601/MMVP, issues 14 and 30; a later audit, lmms-eval issue 1018, finds 99 and 279 "
        "right as they are).",
        load_corrected,
    ),
    metrics=(Choice(), JoinedPairs(), Relaxed()),
    headline="pair",
    files=("Questions.csv",),
)
MMVP_VLM = Benchmark(
    **benchmark_fields("mmvp_vlm"),
    load=load_vlm,
    metrics=(Groups(), Relaxed()),
    headline="image",
    aggregates=(Aggregate(by=("pattern",)), MICRO),
    # A softmax above .5 is needed for the first image, so a tie goes to the second.
    official_ties="argmax_last",
    files=("Questions.csv",),
)
