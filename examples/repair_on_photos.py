"""Repair a model on photographs with captions, and measure what that gained and cost.

    python examples/repair_on_photos.py captions.jsonl out/ [--images photos/]
        [--model photo:mini] [--recipe hard_positive] [--set epochs=5 learning_rate=5e-5]

Any form of captions that `unbag edit` reads will do. Without --model, heads are built first, on
parts that install by name (pip install "unbag[photo]"). A tenth of the photographs is kept apart:
both models are measured on it, with edits of all kinds. Give the same command again after a stop:
what was done is kept, and the work goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
from rich.console import Console

import unbag as ub
from unbag.cli.console import TerminalProgress, output
from unbag.data.captions import Source
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import form_of, open_pairs
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.metrics.choice import Choice
from unbag.metrics.retrieval import Recall
from unbag.metrics.triples import Triples
from unbag.models.loading import model_name
from unbag.runs.cache import default_cache
from unbag.runs.files import write_text
from unbag.training.before_after import before_after_table
from unbag.training.recipes import Freeze, Recipe, make_recipe
from unbag.training.repair import DataConfig, Repaired
from unbag.types import Benchmark, Edit, Item, Sparse

APART = 10
"""One photograph of so many is kept for measuring."""
HEADS = ("epochs=20", "learning_rate=1e-3", "warmup_steps=50")
REPAIR = ("epochs=5", "learning_rate=5e-5", "warmup_steps=50")


def main() -> None:
    """Edit, build heads if there is no model, repair, measure, print the table."""
    asked = _asked()
    console = Console(stderr=True)
    try:
        edited = edit_captions(asked, TerminalProgress(console))
        train, test = split(edited, asked)
        benchmarks = measured_on(test)
        first = asked.model or str(build_heads(asked, train, benchmarks, TerminalProgress(console)))
        recipe = make_recipe(asked.recipe, [*REPAIR, *asked.set])
        found = trained(
            first, recipe, "repaired", asked, train, benchmarks, TerminalProgress(console)
        )
    except ub.UnbagError as error:
        sys.exit(str(error))
    if found.comparison is None:
        sys.exit("stopped; the same command goes on from there")
    output().print(before_after_table(found.comparison))
    for note in found.comparison.notes:
        print(f"note: {note}")
    print(f"page:  {found.comparison.folder / 'report.html'}")
    print(f"model: {model_name(str(asked.out / 'repaired'))}")


def edit_captions(asked: argparse.Namespace, progress: TerminalProgress) -> Pairs:
    """Hard negatives and positives of every kind that needs no language model."""
    source = Source(asked.captions, form_of(asked.captions, "the captions file"))
    out = asked.out / "edits.jsonl"
    run_edit(EditJob(source, out, seed=asked.seed), progress=progress)
    root = asked.images or source.file.parent
    return open_pairs(str(out), images=root, skips_missing=asked.missing == "skip")


def split(pairs: Pairs, asked: argparse.Namespace) -> tuple[Path, tuple[Pair, ...]]:
    """What is trained on, as a file, and what is measured on; a hash of the name decides.

    One image under two names must not fall on both sides, so contents are compared.
    """
    every = [pairs[place] for place in range(len(pairs))]
    apart = {pair.image.key for pair in every if _hashed(pair.id) % APART == 0}
    # Two entries of one image would tie in a search; the first counts.
    test = tuple({p.image.key: p for p in reversed(every) if p.image.key in apart}.values())
    train = [pair for pair in every if pair.image.key not in apart]
    if not test or len(train) < 2:
        raise ub.UnbagError(
            f"{len(every)} photographs are too few to keep some apart",
            expected="a few dozen at least, better thousands",
        )
    path: Path = asked.out / "train.jsonl"
    write_text(path, "".join(json.dumps(_row(pair)) + "\n" for pair in train))
    return path, test


def build_heads(
    asked: argparse.Namespace,
    train: Path,
    benchmarks: Sequence[Benchmark],
    progress: TerminalProgress,
) -> Path:
    """Heads on both parts as they are installed, by CLIP's loss alone."""
    recipe = replace(make_recipe("clip_ft", HEADS), batch_size=1_024, freeze=Freeze("part", "part"))
    trained("photo:random", recipe, "heads", asked, train, benchmarks, progress)
    found: Path = asked.out / "heads"
    return found


def trained(
    name: str,
    recipe: Recipe,
    step: str,
    asked: argparse.Namespace,
    train: Path,
    benchmarks: Sequence[Benchmark],
    progress: TerminalProgress,
) -> Repaired:
    """One training run, measured before and after; what was done before is not done again."""
    rows = len(train.read_text(encoding="utf-8").splitlines())
    if "locks" not in " ".join(asked.set) and recipe.freeze == Freeze():
        # Its features are then computed once, and a small collection cannot spoil it.
        recipe = replace(recipe, freeze=Freeze(image="part"))
    batch = min(recipe.batch_size, rows)
    warmup_steps = min(recipe.warmup_steps, recipe.epochs * (rows // batch) // 10)
    recipe = replace(recipe, batch_size=batch, warmup_steps=warmup_steps)
    progress.say(f"{step}: {recipe.name} from {Path(name).name}, {rows:,} photographs")
    return ub.train(
        name,
        pairs=DataConfig(str(train), images=asked.images or Path(asked.captions).parent),
        recipe=recipe,
        out=asked.out / step,
        seed=asked.seed,
        benchmarks=benchmarks,
        while_training=False,
        device=asked.device,
        precision="float32",
        cache_dir=asked.cache,
        progress=progress,
    )


def measured_on(pairs: Sequence[Pair]) -> tuple[Benchmark, ...]:
    """A caption against each hard negative; the same with a hard positive; finding images."""
    negatives, triples = [], []
    for pair in pairs:
        for at, (caption, edits) in enumerate(zip(pair.captions, pair.edits, strict=True)):
            kept = [edit for edit in edits if edit.is_positive]
            for edit in (one for one in edits if not one.is_positive):
                name = f"{pair.id}#{at}/{edit.kind}/{_hashed(edit.text)}"
                negatives.append(_item(name, pair, caption, edit))
                if kept:
                    positive = kept[_hashed(edit.text) % len(kept)]
                    triples.append(_item(name, pair, caption, edit, positive))
    found = [
        _benchmark("your-negatives", _once(negatives), Choice(), "accuracy"),
        _benchmark("your-triples", _once(triples), Triples(), "augmented"),
        _benchmark("your-retrieval", [_gallery(pairs)], Recall((1, 5)), "text_to_image@1"),
    ]
    return tuple(one for one in found if one.load(None))


def _item(
    name: str, pair: Pair, caption: str, negative: Edit, positive: Edit | None = None
) -> Item:
    captions = (caption, negative.text, *([positive.text] if positive else []))
    kinds = ("original", negative.kind, *([positive.kind] if positive else []))
    truth = np.array([[True, False, True][: len(captions)]])
    tags = {"kind": negative.kind}
    return Item(name, (pair.image,), captions, truth, group=pair.id, tags=tags, kinds=kinds)


def _gallery(pairs: Sequence[Pair]) -> Item:
    rows = [row for row, pair in enumerate(pairs) for _ in pair.captions]
    captions = tuple(caption for pair in pairs for caption in pair.captions)
    truth = Sparse((len(pairs), len(captions)), np.array(rows), np.arange(len(captions)))
    return Item("gallery", tuple(pair.image for pair in pairs), captions, truth)


def _benchmark(name: str, items: Sequence[Item], metric: object, headline: str) -> Benchmark:
    about = "photographs that were kept apart"
    return Benchmark(name, about, lambda _: items, (metric,), headline)  # type: ignore[arg-type]


def _once(items: Iterable[Item]) -> list[Item]:
    """Two captions of one image may have the same edit."""
    return list({item.id: item for item in items}.values())


def _row(pair: Pair) -> dict[str, object]:
    edits = [
        [{"text": e.text, "kind": e.kind, "is_positive": e.is_positive} for e in some]
        for some in pair.edits
    ]
    return {"image": pair.id, "captions": pair.captions, "edits": edits}


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captions", help="images with captions, as `unbag edit` reads them")
    parser.add_argument("out", type=Path, help="folder for all that is made")
    parser.add_argument("--images", type=Path, help="where they are; default: beside the file")
    parser.add_argument("--model", help="any dual encoder; default: heads that are built first")
    parser.add_argument("--recipe", default="hard_positive", help="`unbag list recipes`")
    parser.add_argument("--set", nargs="+", default=[], metavar="K=V", help="of the recipe")
    parser.add_argument("--missing", choices=("stop", "skip"), default="stop")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cache", type=Path, default=default_cache())
    return parser.parse_args()


if __name__ == "__main__":
    main()
