"""What a user names (a benchmark, a file, a folder) comes in; material for probes goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unbag.captions.kinds import Parts
from unbag.corpus.patterns import expand
from unbag.engine.evaluate import find_benchmarks
from unbag.engine.loading import load_items
from unbag.engine.missing import without_missing
from unbag.engine.progress import Progress, Silent
from unbag.errors import UserError, unknown_name
from unbag.probes.material import Material
from unbag.probes.material_items import items_material, world_material
from unbag.probes.material_pairs import CAPTIONS, ENDINGS, MOST, folder_material, pairs_material
from unbag.registry import names
from unbag.train.open_pairs import open_pairs
from unbag.train.pairs import Pairs
from unbag.types import Benchmark, Item

WORLD = "world"
MOST_ROWS = 2_000
"""Rows and pairs of benchmarks, which have up to a hundred thousand, unless more are wanted."""
_NAMES = "`unbag list benchmarks` shows every name; a file or folder of pictures works too"

# Readers speak of options of `unbag train` and `unbag edit`, which a diagnosis does not have.
_OTHER_FIELD = ", or the name of another field with --caption-column"
_MEND = "mend it; broken lines are left out as long as others are whole"


def find_material(
    data: str | None = None,
    *,
    root: Path | None = None,
    pictures: Path | None = None,
    kinds: Sequence[str] = ("default",),
    parts: Parts | None = None,
    most: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Material:
    """Material by name or by path.

    Args:
        data: None or `world`; a benchmark, or a family of them such as `whatsup`; a file or folder
            that `unbag train` reads pairs from; a folder of pictures without captions.
        root: Holds one folder for each benchmark that is read from files.
        pictures: Folder that names of pictures in a file of captions start from.
        kinds: Edits that are made of a user's own captions.
        parts: What these kinds need.
        most: Pictures of the user, or rows of benchmarks; None is 500 or 2,000.
        seed: Of edits and of what is chosen.
        progress: Is told what the loaders of benchmarks say.
    """
    if data is None or data == WORLD:
        return world_material()
    is_there = bool(data) and (Path(data).exists() or bool(expand(data)))
    if data in names("benchmark") or (not is_there and _is_benchmark(data)):
        rows = MOST_ROWS if most is None else most
        return benchmark_material([data], root, most=rows, seed=seed, progress=progress)
    if not is_there:
        raise _nothing(data)
    wanted = MOST if most is None else most
    folder = _without_captions(Path(data))
    if folder is not None:
        return folder_material(folder, most=wanted, seed=seed)
    found = _opened(data, pictures)
    return pairs_material(found, kinds=kinds, parts=parts, most=wanted, seed=seed)


def benchmark_material(
    asked: Sequence[str],
    root: Path | None = None,
    *,
    most: int | None = MOST_ROWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Material:
    """Benchmarks by name or family, from `root` as `unbag run --data` has it.

    Items whose pictures are missing are left out, with a note.
    """
    benchmarks = find_benchmarks(asked)
    told = Silent()
    items = {}
    for one in benchmarks:
        every = _loaded(one, root, told)
        items[one.name] = without_missing(one.name, every, missing="skip", progress=told)
        if not items[one.name]:
            raise UserError(
                f"none of the {len(every):,} items of {one.name!r} has its pictures there",
                expected="at least some of them",
                way_out=f"complete the folder; see `unbag data check {one.name} --data DIR`",
            )
    for note in told.said:
        (progress or Silent()).say(note)
    about = ", ".join(one.name for one in benchmarks)
    is_world = all(one.name.startswith("world-") for one in benchmarks)
    found = items_material(benchmarks, items, about=about, is_world=is_world, most=most, seed=seed)
    if not found.rows and not found.pairs and found.gallery is None:
        raise UserError(
            f"{about}: nothing that probes can use; {'; '.join(found.notes)}",
            expected="captions with hard negatives, pairs of pictures, or retrieval",
            way_out="take sugarcrepe, whatsup, your own pictures or the built-in world",
        )
    return replace(found, notes=(*told.said, *found.notes))


def _loaded(benchmark: Benchmark, root: Path | None, told: Progress) -> Sequence[Item]:
    try:
        return load_items(benchmark, root, progress=told)
    except UserError as error:
        # What is --data of `unbag run` is --root where --data says what is looked at.
        way_out = error.way_out
        for begin in ("say with", "check"):
            if way_out.startswith(f"{begin} --data"):
                way_out = way_out.replace("--data", "--root", 1)
        raise UserError(error.found, expected=error.expected, way_out=way_out) from error


def _nothing(data: str) -> UserError:
    if Path(data).suffix or len(Path(data).parts) > 1:
        return UserError(
            f"there is no file or folder {data}",
            expected="pictures with captions, a folder of pictures, or the name of a benchmark",
            way_out="check the path",
        )
    return unknown_name("data", data, [WORLD, *names("benchmark")], way_out=_NAMES)


def _opened(data: str, pictures: Path | None) -> Pairs:
    """Without pictures that are not there and lines that are broken; their number is told."""
    try:
        return open_pairs(data, pictures=pictures, skips_missing=True, skips_bad=True)
    except UserError as nothing_left:
        error = _first_fault(data, pictures) or nothing_left
        expected = error.expected.replace(_OTHER_FIELD, "")
        way_out = error.way_out.replace("say which it is with --form", "rename it")
        way_out = way_out.replace("mend it, or leave such lines out with --bad-lines skip", _MEND)
        if "-column" in way_out:
            way_out = "rename it: captions are looked for in caption, pictures in image"
        raise UserError(error.found, expected=expected, way_out=way_out) from error


def _first_fault(data: str, pictures: Path | None) -> UserError | None:
    """What is wrong with the first broken line: if all are, their number does not tell."""
    try:
        open_pairs(data, pictures=pictures, skips_missing=True)
    except UserError as error:
        return error
    return None


def _is_benchmark(data: str) -> bool:
    """A family, one made of another (two_way:NAME), or package.module:NAME."""
    is_family = any(name.startswith((f"{data}-", f"{data}_")) for name in names("benchmark"))
    return bool(data) and (is_family or ":" in data)


def _without_captions(path: Path) -> Path | None:
    """The folder of pictures that a path is, or that is alone in it; None if it has captions."""
    if path.is_file() and path.suffix.lower() in ENDINGS:
        raise UserError(
            f"{path} is a single picture",
            expected="pictures with captions, or a folder of pictures: models are asked to tell "
            "pictures apart",
            way_out="name a folder; without one, the built-in world is asked about",
        )
    if not path.is_dir() or expand(str(path)):
        return None
    inside = sorted(one for one in path.iterdir() if not one.name.startswith("."))
    if any(one.suffix.lower() in ENDINGS for one in inside):
        return path
    captions = [one for one in inside if one.suffix.lower() in CAPTIONS]
    if captions:
        raise UserError(
            f"the folder {path} holds {', '.join(one.name for one in captions[:3])}",
            expected="the file of captions itself",
            way_out=f"name {captions[0]}",
        )
    folders = [one for one in inside if one.is_dir()]
    if not folders:
        raise UserError(
            f"the folder {path} holds neither pictures nor captions",
            expected="pictures, a file of captions, shards (.tar), or a folder for each class",
            way_out="name the folder that holds the pictures, or the file of captions itself",
        )
    return folders[0] if len(folders) == 1 else None
