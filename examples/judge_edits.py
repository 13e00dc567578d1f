"""How often are edits right? Draw some from your captions, have readers judge them, count.

python examples/judge_edits.py draw captions.jsonl out/      writes sheet.tsv and key.jsonl
(two readers fill the columns truth and grammatical of their own copy of the sheet)
python examples/judge_edits.py count out/ first.tsv second.tsv judgements.tsv

The captions file has lines {"image": ..., "captions": [...]}. The judgements name captions by id
and quote only what was put in their place.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from unbag.edits.editor import CaptionEditor, EditTally, make_editor
from unbag.edits.kinds import EditParts
from unbag.edits.quality import (
    TRUTHS,
    EditCase,
    EditVerdict,
    Truth,
    is_right,
    kappa,
    make_cases,
    precision_of,
)
from unbag.metrics.intervals import generator
from unbag.types import Change, Edit, Given
from unbag.types.json import to_json

EACH = 40
MOST = 12_000


def read_captions(path: Path, max_captions: int, seed: int) -> list[Given]:
    """In an order drawn by the seed, not by the file."""
    captions: list[Given] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for i, text in enumerate(row["captions"]):
            others = tuple(c for i, c in enumerate(row["captions"]) if i != i)
            captions.append(Given(f"{row['image']}#{i}", text, others))
    order = generator(seed, "judge").permutation(len(captions))
    return [captions[i] for i in order[:max_captions]]


def draw(captions: Sequence[Given], out: Path, editor: CaptionEditor) -> None:
    """Write a sheet without kinds, and the key to it."""
    edits: dict[str, list[tuple[str, str, Edit]]] = {kind.name: [] for kind in editor.kinds}
    tally = EditTally()
    for start in range(0, len(captions), 512):
        edited_captions, counted = editor(captions[start : start + 512])
        tally.add(counted)
        for caption in edited_captions:
            for edit in caption.edits:
                edits[edit.kind].append((caption.id, caption.text, edit))
        print(f"{tally.captions:,} of {len(captions):,} captions", file=sys.stderr)
    for kind, kind_tally in tally.kinds.items():
        share = kind_tally.places / tally.captions
        print(f"{kind:<22} has a place in {share:6.1%} of {tally.captions:,} captions")
    chosen = [caption for group in edits.values() for caption in group[:EACH]]
    out.mkdir(parents=True, exist_ok=True)
    cases = make_cases(chosen, seed=editor.seed)
    with (out / "sheet.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["id", "caption", "changed", "truth", "grammatical"])
        writer.writerows([case.id, case.caption, case.edit.text, "", ""] for case in cases)
    with (out / "key.jsonl").open("w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(_key(case)) + "\n")
    (out / "tally.json").write_text(json.dumps(to_json(tally), indent=1))


def count(folder: Path, first: Path, second: Path, out: Path) -> None:
    """Join two filled sheets with the key; print precision and write the judgements."""
    cases = list(_cases(folder / "key.jsonl"))
    readers = (_verdicts(first), _verdicts(second))
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        columns = [f"{what}_{n}" for n in (1, 2) for what in ("truth", "grammatical")]
        writer.writerow(["kind", "caption", "changes", *columns])
        for case in sorted(cases, key=lambda case: (case.edit.kind, case.id)):
            changes = json.dumps(case.edit.changes, ensure_ascii=False)
            verdicts = [v for r in readers for v in (r[case.id][0], _yes(r[case.id][1]))]
            writer.writerow([case.edit.kind, case.caption_id, changes, *verdicts])
    print(f"{'kind':<22}   n  right  [95 %]          meaning  grammar  agreement")
    for kind in dict.fromkeys(case.edit.kind for case in cases):
        p = precision_of(kind, cases, readers)
        print(
            f"{kind:<22} {p.n:3}  {p.right:5.1%}  [{p.low:.1%}, {p.high:.1%}]  "
            f"{p.meaning:7.1%}  {p.grammar:7.1%}  {p.agreement:9.1%}"
        )
    first_right, second_right = (
        [is_right(c.edit.is_positive, r[c.id]) for c in cases] for r in readers
    )
    print(f"agreement beyond chance (Cohen's kappa): {kappa(first_right, second_right):.2f}")


def _key(case: EditCase) -> dict[str, object]:
    edit = case.edit
    return {
        "id": case.id,
        "caption_id": case.caption_id,
        "caption": case.caption,
        "text": edit.text,
        "kind": edit.kind,
        "is_positive": edit.is_positive,
        "changes": edit.changes,
    }


def _cases(path: Path) -> Iterator[EditCase]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        changes = tuple(Change(*change) for change in row["changes"])
        span = (changes[0].start, changes[-1].end)
        edit = Edit(row["text"], row["kind"], row["is_positive"], span, changes)
        yield EditCase(row["id"], row["caption_id"], row["caption"], edit)


def _verdicts(path: Path) -> dict[str, EditVerdict]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    wrong = [r["id"] for r in rows if r["truth"] not in TRUTHS]
    wrong += [r["id"] for r in rows if r["grammatical"] not in ("yes", "no")]
    if wrong:
        sys.exit(f"{path}: {len(wrong)} rows without a verdict, such as {wrong[0]}")
    return {r["id"]: EditVerdict(_truth(r["truth"]), r["grammatical"] == "yes") for r in rows}


def _truth(word: str) -> Truth:
    return next(truth for truth in TRUTHS if truth == word)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def main() -> None:
    """Draw or count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("captions", type=Path)
    drawing.add_argument("out", type=Path)
    drawing.add_argument("--kinds", nargs="+", default=["default"])
    drawing.add_argument("--most", type=int, default=MOST, help="captions to edit at most")
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--fill", default="", help="a language model, for kinds that need one")
    drawing.add_argument("--rewrite", default="", help="a chat model, for kinds that need one")
    counting = commands.add_parser("count")
    for name in ("folder", "first", "second", "out"):
        counting.add_argument(name, type=Path)
    options = parser.parse_args()
    if options.command == "draw":
        parts = EditParts(fill=options.fill, rewrite=options.rewrite)
        editor = make_editor(options.kinds, parts=parts, seed=options.seed)
        draw(read_captions(options.captions, options.most, options.seed), options.out, editor)
    else:
        count(options.folder, options.first, options.second, options.out)


if __name__ == "__main__":
    main()
