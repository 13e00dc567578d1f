"""What was asked for comes in; what can be run without photographs, or with them, goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unbag.errors import UserError
from unbag.lab.claim import Claim
from unbag.lab.photos_experiment import NAME
from unbag.lab.plan import Wish
from unbag.lab.where import PHOTOGRAPHS

CAPTIONS = "captions.jsonl"


def without_photographs(wish: Wish, names: Sequence[str]) -> tuple[Wish, tuple[Claim, ...]]:
    """The wish without claims about photographs, which may not be among the names, and those."""
    apart = tuple(one for one in wish.claims if one.where == PHOTOGRAPHS)
    named = [one for one in names if one == NAME or one in {claim.name for claim in apart}]
    if named:
        raise UserError(
            f"{', '.join(named)}: no photographs were named",
            expected="a folder of your own, with captions: none come with the package",
            way_out="--photos FOLDER; docs/lab.md has its form. --size small needs none",
        )
    claims = tuple(one for one in wish.claims if one not in apart)
    return replace(wish, claims=claims, arms=tuple(a for a in wish.arms if a[0] != NAME)), apart


def edits_folder(out: Path) -> Path:
    """Where a run folder keeps the edits of its photographs' captions."""
    return out / "photographs"


def captions_file(given: Path) -> Path:
    """The file of captions in a folder, or the file that was named itself."""
    file = given / CAPTIONS if given.is_dir() else given
    if not file.is_file():
        raise UserError(
            f"there is no file {file}",
            expected=f"a folder with {CAPTIONS}, or a file of captions beside its pictures",
            way_out="check the path given with --photos; docs/lab.md has the form of a line",
        )
    return file
