"""NaturalBench: two questions about two photographs, with opposite answers, for chat models.

Four consecutive rows are a group: question 0 about image 0 and 1, then question 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from unbag.benchmarks.files import (
    FIRST_OF_2,
    SECOND_OF_2,
    Folder,
    Record,
    not_official,
    with_field_names,
)
from unbag.benchmarks.sources import benchmark_fields
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import Joined
from unbag.types import Benchmark, Item, Question

FILE = "test_set.json"
ANSWERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"yes_no": ("Yes", "No"), "mcq": ("A", "B")}
)


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per row. Questions are used unchanged; they say how to answer."""
    folder = Folder.of(root, "naturalbench")
    images = folder.image_folder("images")
    records = [
        with_field_names(row, ["question", "image", "answer", "type"])
        for row in folder.records(FILE)
    ]
    if len(records) % 4:
        raise UnbagError(
            f"{FILE} of naturalbench has {len(records)} rows",
            expected="groups of four rows",
            hint="download it again",
        )
    items = []
    for start in range(0, len(records), 4):
        group = records[start : start + 4]
        _check_group(group)
        items += [_item(folder, images, record, start // 4) for record in group]
    return items


def _item(folder: Folder, images: Path, record: Record, group: int) -> Item:
    kind, answer = record.text("type"), record.text("answer")
    answers = ANSWERS.get(kind)
    if answers is None or answer not in answers:
        raise not_official(
            f"{record.where}: answer {answer!r} of a question of type {kind!r}",
            "Yes or No for yes_no, A or B for mcq",
        )
    return Item(
        id=f"{FILE}/{record.key}",
        images=(folder.image(images, record.caption("image"), record.where),),
        captions=answers,
        truth=FIRST_OF_2 if answer == answers[0] else SECOND_OF_2,
        question=Question(record.caption("question"), answers if kind == "mcq" else ()),
        group=f"group/{group}",
        tags={"type": kind},
    )


def _check_group(group: Sequence[Record]) -> None:
    """Check that four rows are two questions x two images, in this order."""
    questions = [record.caption("question") for record in group]
    images = [record.caption("image") for record in group]
    fits = questions[0] == questions[1] != questions[2] == questions[3]
    if not fits or not (images[0] == images[2] != images[1] == images[3]):
        raise UnbagError(
            f"{group[0].where} and the next three are not a group",
            expected="question 0 about image 0 and 1, then question 1 about image 0 and 1",
            hint="check that it is the official file, in its order",
        )


NATURALBENCH = Benchmark(
    **benchmark_fields("naturalbench"),
    load=load,
    metrics=(Joined(), Choice()),
    headline="all_four",
    files=(FILE,),
)
