"""Numbers of photo arms, by seed and with intervals, and their tables.

    python -m unbag_lab photos-table runs/photos --val val-edits.jsonl --out arms.json
    python -m unbag_lab photos-table arms.json

An interval is a bootstrap over photographs of the mean over seeds; a difference is paired within
seeds and has Student's interval over them. Dimensions: N photographs, S seeds, T triples.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from safetensors.numpy import load_file

from unbag.data.readers import open_pairs
from unbag.metrics.intervals import bootstrap, generator
from unbag.metrics.triples import judge_triples
from unbag.types import FloatArray, IntArray
from unbag_lab.experiments.photos_training import (
    SEEN_KINDS,
    SEEN_POSITIVE_KINDS,
    PhotoQuestions,
    make_questions,
    opened,
)
from unbag_lab.experiments.repair_training import CONTROL, PUBLISHED_REPAIRS
from unbag_lab.pages import table
from unbag_lab.verdict import interval

FEWEST = 20
"""Triples of a group, below which its numbers are not shown."""
ARMS = tuple(name for name in PUBLISHED_REPAIRS if name != CONTROL)
LOCKED = {
    "": "All open",
    "-locked": "Picture part locked",
    "-heads": "Both parts locked, heads open",
}
RECALLS = ("text to image R@1", "text to image R@5", "image to text R@1", "image to text R@5")
SHOWN = (
    "text to image R@1", "image to text R@1", "swap, seen: original", "swap, seen: augmented",
    "swap, seen: brittleness", "replace, seen: original", "replace, seen: augmented",
    "replace, seen: brittleness", "unseen: original", "unseen: augmented", "unseen: brittleness",
)  # fmt: skip
"""Columns of the tables, in percent."""


def photos_table_script() -> None:
    """Print the tables of the photo experiment: numbers by seed, with intervals."""
    parser = argparse.ArgumentParser(description=photos_table_script.__doc__)
    parser.add_argument("results", type=Path, help="folder of arms, or the file made of it")
    parser.add_argument("--val", help="what the arms were asked about")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.results.is_dir():
        pairs = opened(open_pairs(given.val, pictures=given.pictures))
        place = {pair.picture.name: at for at, pair in enumerate(pairs)}
        numbers = _measured(given.results, owners_of(make_questions(pairs, place)))
    else:
        numbers = read_numbers(given.results)
    if given.out:
        write_numbers(numbers, given.out)
    print(tables(numbers))


def _measured(folder: Path, owners: Owners) -> list[ArmNumber]:
    found = []
    for stage in ("build", "repair"):
        seeds = sorted((folder / stage).iterdir(), key=lambda path: int(path.name))
        arms = [path.stem for path in sorted(seeds[0].glob("*.answers"))]
        for arm in arms:
            answers = [load_file(seed / f"{arm}.answers") for seed in seeds]
            found += numbers_of(arm, answers, owners)
    return found


@dataclass(frozen=True)
class ArmNumber:
    """One metric of one arm."""

    arm: str
    metric: str
    by_seed: tuple[float, ...]
    low: float
    """Over photographs, of the mean over seeds."""
    high: float
    n: int
    """Units: captions, photographs or triples."""

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.by_seed)


@dataclass(frozen=True, eq=False)
class Owners:
    """Who owns what among the answers."""

    owner_Q: IntArray
    photo_T: IntArray
    kinds: tuple[tuple[str, str], ...]
    photographs: int


def owners_of(asked: PhotoQuestions) -> Owners:
    """Of the answers to these questions."""
    photo_T = asked.triple_T4[:, 0].numpy()
    return Owners(asked.owner_Q.numpy(), photo_T, asked.kinds, len(asked.place_N))


def numbers_of(
    arm: str,
    answers: Sequence[Mapping[str, FloatArray]],
    owners: Owners,
    *,
    only: Container[str] | None = None,
) -> list[ArmNumber]:
    """Everything that is shown of an arm, or only some metrics, from the answers of its seeds."""
    found = []
    everyone = np.arange(owners.photographs)
    for k in (1, 5):
        for name, key, owner in (
            ("text to image", "caption_rank", owners.owner_Q),
            ("image to text", "picture_rank", everyone),
        ):
            if only is None or f"{name} R@{k}" in only:
                rank = [np.asarray(one[key] < k, dtype=float) for one in answers]
                found.append(number_of(arm, f"{name} R@{k}", rank, owner))
    scores = [one["scores"].astype(float) for one in answers]
    return found + triple_numbers(arm, scores, owners, only=only)


def triple_numbers(
    arm: str, scores: Sequence[FloatArray], owners: Owners, *, only: Container[str] | None = None
) -> list[ArmNumber]:
    """By kind of edit, from scores [T, 3] of each seed: caption, negative, positive."""
    return [
        number_of(arm, f"{group}: {metric}", value, owners.photo_T[is_in_T])
        for group, is_in_T in groups_of(owners).items()
        for metric, value in judged(scores, is_in_T).items()
        if only is None or f"{group}: {metric}" in only
    ]


def groups_of(owners: Owners) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Triples with a positive, by whether their edits are of kinds that arms were trained on."""
    negative = np.array([kind for kind, _ in owners.kinds])
    has_both = np.array([bool(positive) for _, positive in owners.kinds])
    is_seen = np.isin(negative, list(SEEN_KINDS))
    is_swap = np.char.startswith(negative, "swap")
    knows_p = np.isin([positive for _, positive in owners.kinds], list(SEEN_POSITIVE_KINDS))
    groups = {
        "all": has_both,
        "seen": has_both & is_seen,
        "swap, seen": has_both & is_seen & is_swap,
        "replace, seen": has_both & is_seen & ~is_swap,
        "unseen": has_both & ~is_seen,
        "positive seen": has_both & knows_p,
        "positive unseen": has_both & ~knows_p,
    }
    kinds = {f"kind {kind}": has_both & (negative == kind) for kind in sorted(set(negative))}
    return {name: is_in for name, is_in in (groups | kinds).items() if is_in.sum() >= FEWEST}


METRICS = {
    "original": "original",
    "augmented": "augmented",
    "brittleness": "brittleness",
    "mean c": "mean_original",
    "mean n": "mean_negative",
    "mean p": "mean_positive",
}
"""As tables name them, and as `unbag.metrics.triples` does."""
_IS_TRUE = np.array([True, False, True])
"""Of caption, negative, positive."""


def judged(
    scores: Sequence[FloatArray], is_in_T: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> dict[str, list[FloatArray]]:
    """By metric, the values of some triples for each seed; a tie is wrong."""
    found = [judge_triples(one[is_in_T], np.tile(_IS_TRUE, (is_in_T.sum(), 1))) for one in scores]
    return {name: [one[metric].value_N for one in found] for name, metric in METRICS.items()}


def number_of(arm: str, metric: str, values: Sequence[FloatArray], owner_U: IntArray) -> ArmNumber:
    """Units of one photograph are resampled together."""
    mean_U = np.mean(values, axis=0)
    low, high, _ = bootstrap(
        mean_U,
        clusters=[str(owner) for owner in owner_U.tolist()],
        resamples=5_000,
        rng=generator(0, metric),
    )
    by_seed = tuple(round(float(one.mean()), 6) for one in values)
    return ArmNumber(arm, metric, by_seed, round(low, 6), round(high, 6), len(mean_U))


def difference(one: ArmNumber, control: ArmNumber) -> tuple[float, float]:
    """Mean and half the interval of the paired difference over seeds."""
    apart = [a - b for a, b in zip(one.by_seed, control.by_seed, strict=True)]
    return interval(apart)


def write_numbers(numbers: Sequence[ArmNumber], path: Path) -> None:
    """A line each."""
    rows = [json.dumps(asdict(one)) for one in numbers]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def read_numbers(path: Path) -> list[ArmNumber]:
    """What `write_numbers` wrote."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [ArmNumber(**(row | {"by_seed": tuple(row["by_seed"])})) for row in rows]


def tables(numbers: Sequence[ArmNumber]) -> str:
    """Building, repair, and differences to plain fine-tuning with the same lock, in Markdown."""
    of = {(one.arm, one.metric): one for one in numbers}
    arms = list(dict.fromkeys(one.arm for one in numbers))
    built = [arm for arm in ("heads", "text", "both") if arm in arms]
    seeds = len(numbers[0].by_seed)
    parts = [
        f"Retrieval among the photographs of val, {seeds} seeds; in brackets 95 % intervals over "
        "photographs.",
        _table(built, RECALLS, lambda arm, metric: _absolute(of[arm, metric])),
    ]
    for suffix, about in LOCKED.items():
        control = f"{CONTROL}{suffix}"
        mine = [f"{name}{suffix}" for name in ARMS if f"{name}{suffix}" in arms]
        if control not in arms:
            continue
        parts += [
            f"**{about}.** Means over {seeds} seeds:",
            _table(
                ["heads", control, *mine], SHOWN, lambda arm, metric: _absolute(of[arm, metric])
            ),
            f"Difference to `{control}`, paired within seeds: mean [95 % t interval over seeds, "
            f"n = {seeds}]:",
            _table(mine, SHOWN, partial(_apart, of=of, control=control)),
        ]
    return "\n\n".join(parts)


def _table(arms: Sequence[str], metrics: Sequence[str], cell: Callable[[str, str], str]) -> str:
    rows = [[f"`{arm}`", *(cell(arm, metric) for metric in metrics)] for arm in arms]
    return table(["arm", *metrics], rows).rstrip()


def _absolute(one: ArmNumber) -> str:
    return f"{100 * one.mean:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _apart(arm: str, metric: str, *, of: Mapping[tuple[str, str], ArmNumber], control: str) -> str:
    mean, half = difference(of[arm, metric], of[control, metric])
    return f"{100 * mean:+.1f} [{100 * (mean - half):+.1f}, {100 * (mean + half):+.1f}]"
