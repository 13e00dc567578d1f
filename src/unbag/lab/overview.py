"""Claims and results come in; the overview goes out: claim by claim, with verdict and numbers.

    python -m unbag.lab.overview

Verdicts are about the built-in world, or the photographs of a run, and no more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from unbag.lab.claims import all_claims
from unbag.lab.run_folder import results_in
from unbag.lab.script import run_script
from unbag.lab.shipped import shipped_results
from unbag.lab.verdict import Tested, Verdict, judge_claims
from unbag.lab.wording import effect_text


def overview(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown, a row for each prediction."""
    lines = [
        "| claim | prediction | effect [95 %], bases | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for verdict in verdicts:
        for place, one in enumerate(verdict.tested):
            name = f"`{verdict.claim.name}`" if place == 0 else ""
            why = f" ({verdict.why})" if verdict.why and place == 0 else ""
            word = f"{verdict.said}{why}" if place == 0 else ""
            lines.append(f"| {name} | {one.prediction.says} | {_effect(one)} | {word} |")
    return "\n".join(lines)


def _effect(one: Tested) -> str:
    return f"{effect_text(one)}, {len(one.effects)}" if one.effects else effect_text(one)


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    text = "folders or files with results; those that ship with the package if none is named"
    parser.add_argument("found", type=Path, nargs="*", help=text)
    options = parser.parse_args()
    named = [result for path in options.found for result in results_in(path)]
    results = named if options.found else shipped_results()
    print(overview(judge_claims(all_claims(), results)))


if __name__ == "__main__":
    run_script(main)
