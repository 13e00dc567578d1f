"""Repair a model on photographs with captions, and measure the gain and the cost.

    python examples/repair_on_photos.py captions.jsonl out/ [--images photos/]
        [--model photo:mini] [--recipe hard_positive] [--set epochs=5 learning_rate=5e-5]

The captions can have any format that `unbag edit` reads. Without --model, heads are trained first,
on encoders that install by name (pip install "unbag[photo]"). A tenth of the photographs is held
out: both models are evaluated on it, with edits of all kinds. Run the same command again to resume.
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
"""One photograph in APART is held out for evaluation."""
HEADS = ("epochs=20", "learning_rate=1e-3", "warmup_steps=50")
REPAIR = ("epochs=5", "learning_rate=5e-5", "warmup_steps=50")


def main() -> None:
    """Edit, train heads if no model is given, repair, evaluate, print the table."""
    arguments = _asked()
    console = Console(stderr=True)
    try:
        edited = edit_captions(arguments, TerminalProgress(console))
        train, test = split(edited, arguments)
        benchmarks = measured_on(test)
        first = arguments.model or str(
            build_heads(arguments, train, benchmarks, TerminalProgress(console))
        )
        recipe = make_recipe(arguments.recipe, [*REPAIR, *arguments.set])
        repaired = trained(
            first, recipe, "repaired", arguments, train, benchmarks, TerminalProgress(console)
        )
    except ub.UnbagError as error:
        sys.exit(str(error))
    if repaired.comparison is None:
        sys.exit("stopped; run the same command to resume")
    output().print(before_after_table(repaired.comparison))
    for note in repaired.comparison.notes:
        print(f"note: {note}")
    print(f"page:  {repaired.comparison.folder / 'report.html'}")
    print(f"model: {model_name(str(arguments.out / 'repaired'))}")


def edit_captions(arguments: argparse.Namespace, progress: TerminalProgress) -> Pairs:
    """Hard negatives and positives of every kind that needs no language model."""
    source = Source(arguments.captions, form_of(arguments.captions, "the captions file"))
    out = arguments.out / "edits.jsonl"
    run_edit(EditJob(source, out, seed=arguments.seed), progress=progress)
    root = arguments.images or source.file.parent
    return open_pairs(str(out), images=root, skips_missing=arguments.missing == "skip")


def split(pairs: Pairs, arguments: argparse.Namespace) -> tuple[Path, tuple[Pair, ...]]:
    """Split into a training file and held-out pairs, by a hash of the name.

    Contents are compared, so that one image under two names is never on both sides.
    """
    all_pairs = [pairs[place] for place in range(len(pairs))]
    test_keys = {pair.image.key for pair in all_pairs if _hashed(pair.id) % APART == 0}
    # Two entries of one image would tie in retrieval; the first is used.
    test = tuple({p.image.key: p for p in reversed(all_pairs) if p.image.key in test_keys}.values())
    train = [pair for pair in all_pairs if pair.image.key not in test_keys]
    if not test or len(train) < 2:
        raise ub.UnbagError(
            f"{len(all_pairs)} photographs are too few to hold some out",
            expected="at least a few dozen, better thousands",
        )
    path: Path = arguments.out / "train.jsonl"
    write_text(path, "".join(json.dumps(_row(pair)) + "\n" for pair in train))
    return path, test


def build_heads(
    arguments: argparse.Namespace,
    train: Path,
    benchmarks: Sequence[Benchmark],
    progress: TerminalProgress,
) -> Path:
    """Train heads on both installed encoders with CLIP's loss."""
    recipe = replace(make_recipe("clip_ft", HEADS), batch_size=1_024, freeze=Freeze("part", "part"))
    trained("photo:random", recipe, "heads", arguments, train, benchmarks, progress)
    folder: Path = arguments.out / "heads"
    return folder


def trained(
    name: str,
    recipe: Recipe,
    step: str,
    arguments: argparse.Namespace,
    train: Path,
    benchmarks: Sequence[Benchmark],
    progress: TerminalProgress,
) -> Repaired:
    """Train and evaluate before and after; a finished run is not repeated."""
    rows = len(train.read_text(encoding="utf-8").splitlines())
    if "freeze" not in " ".join(arguments.set) and recipe.freeze == Freeze():
        # Its features are then computed once, and a small dataset cannot degrade it.
        recipe = replace(recipe, freeze=Freeze(image="part"))
    batch = min(recipe.batch_size, rows)
    warmup_steps = min(recipe.warmup_steps, recipe.epochs * (rows // batch) // 10)
    recipe = replace(recipe, batch_size=batch, warmup_steps=warmup_steps)
    progress.say(f"{step}: {recipe.name} from {Path(name).name}, {rows:,} photographs")
    return ub.train(
        name,
        pairs=DataConfig(str(train), images=arguments.images or Path(arguments.captions).parent),
        recipe=recipe,
        out=arguments.out / step,
        seed=arguments.seed,
        benchmarks=benchmarks,
        while_training=False,
        device=arguments.device,
        precision="float32",
        cache_dir=arguments.cache,
        progress=progress,
    )


def measured_on(pairs: Sequence[Pair]) -> tuple[Benchmark, ...]:
    """Benchmarks: hard negatives, hard negatives with a hard positive, and retrieval."""
    negatives, triples = [], []
    for pair in pairs:
        for i, (caption, edits) in enumerate(zip(pair.captions, pair.edits, strict=True)):
            positives = [edit for edit in edits if edit.is_positive]
            for edit in (other for other in edits if not other.is_positive):
                name = f"{pair.id}#{i}/{edit.kind}/{_hashed(edit.text)}"
                negatives.append(_item(name, pair, caption, edit))
                if positives:
                    positive = positives[_hashed(edit.text) % len(positives)]
                    triples.append(_item(name, pair, caption, edit, positive))
    benchmarks = [
        _benchmark("your-negatives", _once(negatives), Choice(), "accuracy"),
        _benchmark("your-triples", _once(triples), Triples(), "augmented"),
        _benchmark("your-retrieval", [_gallery(pairs)], Recall((1, 5)), "text_to_image@1"),
    ]
    return tuple(other for other in benchmarks if other.load(None))


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
    about = "held-out photographs"
    return Benchmark(name, about, lambda _: items, (metric,), headline)  # type: ignore[arg-type]


def _once(items: Iterable[Item]) -> list[Item]:
    """Two captions of one image may have the same edit."""
    return list({item.id: item for item in items}.values())


def _row(pair: Pair) -> dict[str, object]:
    edits = [
        [{"text": e.text, "kind": e.kind, "is_positive": e.is_positive} for e in group]
        for group in pair.edits
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
