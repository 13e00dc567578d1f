"""Edited captions come in; how far a reader that never sees a picture tells them apart goes out.

    python -m unbag.lab.photos_blind --train train-edits.jsonl --val val-edits.jsonl

The reader of `unbag.training.before_after` on MiniLM's frozen features, told of kinds of edits that
photo arms are trained on. What it reaches on other photographs can be had by reading alone.
Dimensions: N pairs of texts, F features.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from unbag.data.readers import open_pairs
from unbag.lab.photos_table import SEEN_KINDS
from unbag.lab.script import run_script
from unbag.metrics.intervals import bootstrap, generator
from unbag.models.photo import load
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.types import FloatArray

"""Edited captions come in; how far a reader that never sees a picture tells them apart goes out.

    python -m unbag.lab.photos_blind --train train-edits.jsonl --val val-edits.jsonl

The reader of `unbag.training.before_after` on MiniLM's frozen features, told of kinds of edits that
photo arms are trained on. What it reaches on other photographs can be had by reading alone.
Dimensions: N pairs of texts, F features.
"""


def edited(
    path: str, pictures: Path | None, *, limit: int | None = None, needs_positive: bool = False
) -> list[Contrast]:
    """Negatives of all captions, or of those that have a positive too, as tables count them."""
    pairs, found = open_pairs(path, pictures=pictures), []
    for at in range(min(len(pairs), limit or len(pairs))):
        pair = pairs[at]
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            if not needs_positive or any(edit.keeps_meaning for edit in edits):
                negatives = [edit for edit in edits if not edit.keeps_meaning]
                found += [Contrast(at, caption, edit.text, edit.kind) for edit in negatives]
    return found


def share(right_N: FloatArray, rows: Sequence[Contrast], name: str) -> str:
    """Percent with an interval over photographs."""
    low, high, _ = bootstrap(
        right_N,
        clusters=[str(row.picture) for row in rows],
        resamples=5_000,
        rng=generator(0, name),
    )
    shown = f"{100 * right_N.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{name} ({len(rows):,}): {shown}"


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--pictures", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--limit", type=int, default=1_500, help="photographs to train on")
    given = parser.parse_args()
    read = load("random").caption_features
    train = edited(given.train, given.pictures, limit=given.limit)
    train = [row for row in train if row.kind in SEEN_KINDS]
    weight_F = fit_reader(differences(read, train), [row.picture for row in train])
    val = edited(given.val, given.pictures, needs_positive=True)
    right_N = (differences(read, val) @ weight_F > 0).double().numpy()
    groups = {
        "swap, seen": [r.kind in SEEN_KINDS and r.kind.startswith("swap") for r in val],
        "replace, seen": [r.kind in SEEN_KINDS and not r.kind.startswith("swap") for r in val],
        "unseen": [r.kind not in SEEN_KINDS for r in val],
        "all": [True] * len(val),
    }
    for name, is_in in groups.items():
        print(share(right_N[is_in], [r for r, keep in zip(val, is_in, strict=True) if keep], name))


if __name__ == "__main__":
    run_script(main)
