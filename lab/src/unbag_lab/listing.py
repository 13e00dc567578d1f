"""`unbag lab list` and `unbag lab show`: print claims with their verdicts.

Effects are in points: hundredths of a fraction or of a cosine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from unbag.errors import unknown_name
from unbag.reports.formatting import count_text
from unbag.version import __version__
from unbag_lab.claims import FEWEST_BASES, NAMES, PHOTOGRAPHS, ArmKey, all_claims
from unbag_lab.pages.claim_page import arm_name, numbers_beside
from unbag_lab.results import ArmResult, results_in, shipped_results
from unbag_lab.verdict import (
    FAILED,
    REPRODUCED,
    UNDECIDED,
    Tested,
    Verdict,
    absent,
    all_absent,
    compute_verdicts,
    effect_text,
    found_text,
    inequality,
    reading_notes,
    reason,
    seen_text,
    tally,
)

_WIDTH = 100


def list_claims(folder: Path | None) -> int:
    """Print every claim, grouped by paper."""
    results = _results(folder)
    verdicts = compute_verdicts(all_claims(), results)
    papers: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        claim = verdict.claim
        papers.setdefault(claim.paper or claim.source.partition(",")[0], []).append(verdict)
    for paper, paper_verdicts in papers.items():
        print(paper)
        for verdict in paper_verdicts:
            print(verdict_line(verdict, results))
            print(block(verdict.claim.statement, indent=6))
        print()
    count = Counter(verdict.text for verdict in verdicts)
    words = (REPRODUCED, FAILED, UNDECIDED)
    labels = dict.fromkeys(verdict.about(word) for word in words for verdict in verdicts)
    counts = ", ".join(f"{count[label]} {label}" for label in labels if count[label])
    print(f"{len(verdicts)} claims: {counts}")
    print(f"{_source(folder)}; of single predictions the effect [95 % interval], in points.")
    print(
        f"A verdict needs {FEWEST_BASES} bases, and is about no more than it names: the built-in "
        "world, or some photographs. More: unbag lab show CLAIM"
    )
    return 0


def show_claim(name: str, folder: Path | None) -> int:
    """Print everything about one claim; p-values are corrected over all claims, as in the list."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES, hint="`unbag lab` lists every claim")
    results = _results(folder)
    verdicts = compute_verdicts(all_claims(), results)
    verdict = next(verdict for verdict in verdicts if verdict.claim.name == name)
    claim = verdict.claim
    why = f" ({verdict.why})" if verdict.why else ""
    print(f"{name}: {verdict.text}{why}\n")
    for note_text in reading_notes(claim, results):
        print(f"{block(note_text.replace('`', ''), indent=0)}\n")
    about = {
        "statement": claim.statement,
        "source": claim.source,
        "arms": _arms(claim.arms),
        "beside": _arms(claim.arms_beside),
        "controls": claim.controls,
        "knobs": claim.knobs,
        "seen": seen_text(claim),
    }
    for heading, text in about.items():
        if text:
            print(block(text, indent=10, first=f"{heading:<10}"))
    together = sum(not tested.missing for verdict in verdicts for tested in verdict.tested)
    for tested in verdict.tested:
        print(f"\n{_shown(tested, verdict, results, together=together)}")
    if metrics := numbers_beside(claim, results):
        print("\nbeside: means in points (bases); what no prediction names decides nothing")
        for metric in metrics:
            means = ", ".join(f"{arm_name(key, claim)} {metric.text(key)}" for key in metric.values)
            text = f"{metric.benchmark} {metric.metric}: {means}".replace("`", "")
            print(block(text, indent=12, first="  "))
    if claim.must_fit:
        print(f"\n{_fitting(verdict, results)}")
    run_options = " --photos FOLDER" if claim.where == PHOTOGRAPHS else ""
    run_options += f" --seeds {claim.seeds}" if claim.seen else ""
    print(f"\n{_source(folder)}; effects in points. Run it: unbag lab run {name}{run_options}")
    return 0


def verdict_line(verdict: Verdict, results: Sequence[ArmResult]) -> str:
    """Return name, verdict, and how many predictions hold, or the effect of a single one."""
    outcome = all_absent(verdict, results)
    if not outcome:
        several = len(verdict.tested) > 1
        outcome = f"predictions: {tally(verdict)}" if several else effect_text(verdict.tested[0])
        outcome += f", {count_text(min(len(tested.effects) for tested in verdict.tested), 'base')}"
    return f"  {verdict.claim.name:<26} {verdict.text:<35} {outcome}"


def _results(folder: Path | None) -> list[ArmResult]:
    return shipped_results() if folder is None else results_in(folder)


def _shown(tested: Tested, verdict: Verdict, results: Sequence[ArmResult], *, together: int) -> str:
    claim = verdict.claim
    why_none = absent(tested.prediction, claim, results)
    lines = [
        block(tested.prediction.says, indent=12, first="prediction  "),
        block(inequality(tested.prediction, claim.experiment).replace("`", ""), indent=12),
        f"  effect    {effect_text(tested, why_none)}",
    ]
    if tested.effects:
        effects = ", ".join(
            f"{base} {found_text(tested.prediction, value)}"
            for base, value in tested.effects.items()
        )
        lines.append(block(effects, indent=12, first="  by base   "))
    if verdict.is_small:
        verdict_text = f"{verdict.word}. {verdict.why.capitalize()}."
    else:
        verdict_text = (
            f"{verdict.about(tested.word)}. {reason(tested, together=together, why_none=why_none)}"
        )
    return "\n".join([*lines, block(verdict_text, indent=12, first="  verdict   ")])


def _arms(keys: Sequence[ArmKey]) -> str:
    arms: dict[str, list[str]] = {}
    for experiment, arm in keys:
        arms.setdefault(experiment, []).append(arm)
    return "; ".join(f"{experiment}: {', '.join(names)}" for experiment, names in arms.items())


def _fitting(verdict: Verdict, results: Sequence[ArmResult]) -> str:
    """Return a sentence about the bases that were measured but do not count."""
    claim = verdict.claim
    arms_by_base: dict[str, set[str]] = {}
    for result in results:
        if result.experiment == claim.experiment and result.arm in claim.must_fit:
            arms_by_base.setdefault(result.base, set()).add(result.arm)
    whole = {base for base, arms in arms_by_base.items() if arms.issuperset(claim.must_fit)}
    left_out = sorted(whole.difference(claim.seen, *(tested.effects for tested in verdict.tested)))
    text = (
        f"A base counts only if {', '.join(claim.must_fit)} can learn a few fixed examples; "
        f"left out: {', '.join(left_out) or 'none'}."
    )
    return block(text, indent=0)


def _source(folder: Path | None) -> str:
    return f"From {folder or f'the results that ship with unbag {__version__}'}"


def block(text: str, *, indent: int, first: str | None = None) -> str:
    """Wrap a text to the width of a terminal."""
    start = " " * indent
    lines = wrap(
        text,
        _WIDTH,
        initial_indent=first or start,
        subsequent_indent=start,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
