"""Write the pages of the claims, their figures, and the tables of index.md and cost.md.

    python lab/docs/make_lab.py

Nothing on these pages is typed by hand but the notes in claims/notes, which hold no number of a
result. The first line of a note names the verdict that it was written for, or `any`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean

from unbag.reports.formatting import DASH, number_text
from unbag_lab.claims import NAMES, Claim, all_claims
from unbag_lab.pages import renewed, table
from unbag_lab.pages.claim_page import claim_page, has_run, span
from unbag_lab.pages.curves import threshold_figure
from unbag_lab.pages.figures import MANY, claim_figure, overview_figure
from unbag_lab.plan import EXPERIMENTS, find_experiment
from unbag_lab.results import ArmResult, in_order, shipped_results
from unbag_lab.verdict import (
    FAILED,
    HOLDS,
    NONE_COUNTS,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    Verdict,
    absent,
    all_absent,
    compute_verdicts,
    controls_at_chance,
    effect_text,
    tally,
)

HERE = Path(__file__).parent
TIMED = HERE / "timed_runs.tsv"
"""Runs on one H200: what they were, results, minutes estimated and taken."""
HEAD = ("what is claimed, and predicted", "effect [95 %], bases", "holds")
MARKS = {REPRODUCED: "◆", FAILED: "✕", UNDECIDED: "○"}
"""As in the images."""
OTHER = "Other"
"""Where claims stand whose paper has no short name."""
SILENT = {
    NOT_RUN: "not run yet",
    NONE_COUNTS: "with no base on which the readers could learn what they were shown",
}
HEADLINES = (
    ("world-relation", "original"),
    ("world-relation", "augmented"),
    ("world-relation", "brittleness"),
    ("world-swap", "original"),
    ("world-replace", "original"),
    ("world-pairs-a", "individual"),
    ("world-pairs-a", "pair"),
    ("world-count", "group"),
    ("world-retrieval", "text_to_image@1"),
    ("photos-retrieval", "text_to_image@1"),
    ("photos-retrieval", "image_to_text@1"),
)
"""Shown of every arm that has them."""


def main() -> None:
    """Write what is made, and remove what is no longer."""
    files = made(all_claims(), shipped_results())
    for folder, ending in (("claims", "*.md"), ("images/claims", "*.svg")):
        (HERE / folder).mkdir(exist_ok=True)
        for path in (HERE / folder).glob(ending):
            if path.relative_to(HERE).as_posix() not in files:
                path.unlink()
    for name, text in files.items():
        (HERE / name).write_text(text, encoding="utf-8")


def made(claims: Sequence[Claim], results: Sequence[ArmResult]) -> dict[str, str]:
    """Every file by its path below this folder."""
    verdicts = compute_verdicts(claims, results)
    parts = parts_of(verdicts, results)
    files = {
        "index.md": renewed(_read("index.md"), parts),
        "cost.md": renewed(_read("cost.md"), {"cost": _cost(results), "timed": timed_table()}),
        "claims/arms.md": arms_page(results, claims),
        "images/claims/overview.svg": overview_figure(papers(verdicts)),
    }
    together = sum(not one.missing for verdict in verdicts for one in verdict.tested)
    for verdict in verdicts:
        name, note = verdict.claim.name, note_of(verdict)
        files[f"claims/{name}.md"] = claim_page(verdict, results, together=together, note=note)
        if has_run(verdict):
            files[f"images/claims/{name}.svg"] = claim_figure(verdict)
    if thresholds := threshold_figure(results):
        files["images/claims/thresholds.svg"] = thresholds
    return files


def parts_of(verdicts: Sequence[Verdict], results: Sequence[ArmResult]) -> dict[str, str]:
    """What stands between the marks of index.md, by mark."""
    tables = []
    for paper, some in papers(verdicts).items():
        rows = [row for one in some for row in _rows(one, results)]
        tables.append(f"### {paper}\n\n{table(HEAD, rows)}")
    return {
        "standing": _standing(verdicts, results),
        "papers": "\n".join(tables),
        "settings": _settings(results),
    }


def _standing(verdicts: Sequence[Verdict], results: Sequence[ArmResult]) -> str:
    found = []
    for where in dict.fromkeys(one.claim.where for one in verdicts):
        some = [one for one in verdicts if one.claim.where == where]
        found.append(_standing_on(where.name, some, results))
    return "\n".join(found)


def _standing_on(where: str, verdicts: Sequence[Verdict], results: Sequence[ArmResult]) -> str:
    count = {word: sum(one.word == word for one in verdicts) for word in (REPRODUCED, FAILED)}
    silent = [all_absent(one, results) for one in verdicts]
    whys = [f"{silent.count(why)} {said}" for why, said in SILENT.items() if why in silent]
    rest = len(verdicts) - sum(count.values())
    said = (
        f"Of {len(verdicts)} claims about {where}, {count[REPRODUCED]} "
        f"{_are(count[REPRODUCED])} reproduced there, {count[FAILED]} {_are(count[FAILED])} not, "
        f"and {rest} {_are(rest)} undecided"
    )
    why = f" ({'; '.join(whys)})" if whys else ""
    return f"{said}{why}.\n"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def papers(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """By paper, in the order of the claims; those without one come last."""
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        paper = one.claim.paper or OTHER
        found.setdefault(f"{paper[:1].upper()}{paper[1:]}", []).append(one)
    other = found.pop(OTHER, None)
    return found if other is None else {**found, OTHER: other}


def _rows(verdict: Verdict, results: Sequence[ArmResult]) -> list[tuple[str, ...]]:
    """The claim, then its predictions; one row alone where nothing was run."""
    name, count = verdict.claim.name, len(verdict.tested)
    first = (
        f"[`{name}`](claims/{name}.md) {MARKS[verdict.word]} **{verdict.text}**<br>"
        f"*{verdict.claim.statement}*"
    )
    if controls_at_chance(verdict.claim, results):
        first += "<br>Mind: brittleness is compared with that of a coin, which could only fall."
    if why_none := all_absent(verdict, results):
        return [(first, why_none, "")]
    if count > MANY:
        return [(f"{first} ({count} predictions)", "", tally(verdict))]
    found: list[tuple[str, ...]] = [(first, "", "")]
    for one in verdict.tested:
        effect = effect_text(one, absent(one.prediction, verdict.claim, results))
        bases = f", {len(one.effects)}" if one.effects else ""
        found.append((one.prediction.says, f"{effect}{bases}", HOLDS[verdict.word_of(one)]))
    return found


def _settings(results: Sequence[ArmResult]) -> str:
    rows = []
    for name, some in experiments(results).items():
        bases = in_order(one.base for one in some)
        trained = [one for one in some if one.steps]
        rows.append(
            (
                f"`{name}`",
                about(name),
                f"{len({one.arm for one in some})}",
                f"{len(bases)}",
                span(one.steps for one in trained),
                span(one.batch_size for one in trained),
                span(one.times for one in some),
            )
        )
    head = (
        "experiment",
        "what is done",
        "arms",
        "bases",
        "steps",
        "batch",
        "items, times the usual",
    )
    return table(head, rows)


def about(name: str) -> str:
    """What an experiment does to a base."""
    try:
        return find_experiment(name).about
    except ImportError:
        return DASH


def _cost(results: Sequence[ArmResult]) -> str:
    rows: list[tuple[str, ...]] = []
    for name, some in experiments(results).items():
        experiment = find_experiment(name)
        if experiment.on_processor:
            seconds = sum(one.seconds or 0.0 for one in some)
            clock = "measured, one core of a CPU"
        else:
            seconds = sum(experiment.seconds(one.arm) for one in some)
            clock = "by the length of single steps, alone on one H200"
        rows.append((f"`{name}`", f"{len(some):,}", f"{seconds / 60:.0f}", clock))
    return table(("experiment", "arms on bases", "minutes", "how they are known"), rows)


def experiments(results: Sequence[ArmResult]) -> dict[str, list[ArmResult]]:
    """Results by experiment, in the order in which those are registered."""
    names = [*EXPERIMENTS, *sorted({one.experiment for one in results} - set(EXPERIMENTS))]
    found = {name: [one for one in results if one.experiment == name] for name in names}
    return {name: some for name, some in found.items() if some}


def timed_table() -> str:
    """Runs that were timed, with their share of the estimate, and all together."""
    head, *lines = (line.split("\t") for line in TIMED.read_text(encoding="utf-8").splitlines())
    numbers = [[float(cell) for cell in line[1:]] for line in lines]
    total = [f"{sum(column):g}" for column in zip(*numbers, strict=True)]
    rows = [*lines, ["all", *total]]
    shares = [f"{100 * float(row[3]) / float(row[2]):.0f} %" for row in rows]
    shown = ([*row, share] for row, share in zip(rows, shares, strict=True))
    return table([*head, "of the estimate"], shown)


def arms_page(results: Sequence[ArmResult], claims: Sequence[Claim]) -> str:
    """The whole grid: every arm with means over bases."""
    parts = [
        "# Every arm of the lab\n\nMeans over bases, lowest and highest in brackets, in points. "
        "All numbers of all bases are in files of `unbag_lab.results`. [All claims](../index.md)\n"
    ]
    for name, some in experiments(results).items():
        asked = [n for claim in claims for p in claim.predictions for n in p.numbers
                 if n.key(claim.experiment)[0] == name]  # fmt: skip
        more = dict.fromkeys((n.benchmark, n.metric) for n in asked)
        columns = [HEADLINES, [one for one in more if one not in HEADLINES]]
        tables = [_arms_table(some, which) for which in columns]
        parts.append("\n".join([f"## `{name}`\n", *filter(None, tables)]))
    return "\n".join(parts)


def _arms_table(some: Sequence[ArmResult], columns: Sequence[tuple[str, str]]) -> str:
    shown = [(b, m) for b, m in columns if any(m in one.numbers.get(b, {}) for one in some)]
    rows = []
    for arm in dict.fromkeys(one.arm for one in some):
        of = [one for one in some if one.arm == arm]
        cells = [_mean([one.numbers.get(b, {}).get(m) for one in of]) for b, m in shown]
        if set(cells) != {DASH}:
            rows.append((f"`{arm}`", f"{len(of)}", *cells))
    heads = [f"{b.removeprefix('world-')} {m}" for b, m in shown]
    return table(("arm", "bases", *heads), rows) if shown else ""


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None and isfinite(value)]
    if not known:
        return DASH
    low, mean, high = (number_text(v) for v in (min(known), fmean(known), max(known)))
    return f"{mean} [{low}, {high}]"


def note_of(verdict: Verdict, folder: Path = HERE / "claims" / "notes") -> str:
    """What was written by hand, unless for another verdict; names of claims become links.

    The page stands one folder above the note, and links go on from there.
    """
    path = folder / f"{verdict.claim.name}.md"
    if not path.exists():
        return ""
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    if first.removeprefix("for: ") not in ("any", verdict.word):
        return ""
    for name in NAMES:
        text = text.replace(f"`{name}`", f"[`{name}`]({name}.md)")
    return text.replace("](../../", "](../").strip() + "\n"


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
