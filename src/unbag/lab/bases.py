"""A seed and a size come in; the base model that every claim shares goes out, as a file.

Beside the weights of a base stands how it was made. The first one of full size is `tiny:base`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path

from unbag.errors import UserError
from unbag.lab.arm_result import Size
from unbag.lab.base_names import named
from unbag.lab.experiment import Say
from unbag.lab.pretrain import Settings, pretrain
from unbag.lab.pretrain_kept import Kept
from unbag.lab.run_folder import base_path
from unbag.models.tiny import TinyConfig, read, write
from unbag.runs.files import write_atomically, write_text
from unbag.version import __version__
from unbag.world.grammar import words

_SECONDS = 100.0
"""That one base takes on one H200."""


@dataclass(frozen=True)
class Made:
    """How a base was made."""

    settings: Mapping[str, object]
    """Of its network and training, flat, by dotted name."""
    fingerprint: str
    """Of its weights."""
    version: str
    """Of the package that made it; for people."""


def base_names(seeds: int) -> tuple[str, ...]:
    """As many as there are seeds."""
    return tuple(map(named, range(seeds)))


def seed_of(base: Path) -> int:
    """The number at the end of a base's name, for experiments that read nothing else of it."""
    found = re.search(r"(\d+)$", base.stem)
    if found is None:
        raise UserError(
            f"the base {base.stem!r} names no seed",
            expected="a number at the end, as in tiny-0",
            way_out="nothing else is read of a base here: tiny-0, tiny-1 ... will do",
        )
    return int(found[1])


def missing_bases(out: Path, names: Sequence[str], *, size: Size) -> dict[str, float]:
    """Those still to be made, with seconds on one H200; one that was made otherwise is refused."""
    there = [name for name in names if base_path(out, name).exists()]
    for name in there:
        _check(base_path(out, name), size=size)
    return {
        name: 0.0 if size == "small" or is_shipped(name, size=size) else _SECONDS
        for name in names
        if name not in there
    }


def is_shipped(name: str, *, size: Size) -> bool:
    """Whether it comes with the package, as `tiny:base`."""
    return size == "full" and name == "tiny-0"


def make_base(
    out: Path, name: str, *, size: Size, device: str, workers: int, say: Say = print
) -> None:
    """Train it, or copy the one that ships; the weights appear last and whole."""
    path = base_path(out, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings, config = _wanted(name, size)
    kept = Kept(path.with_suffix(".kept"), json.dumps(_flat(name, size)))

    def fill(temporary: Path) -> None:
        if is_shipped(name, size=size):
            with as_file(files("unbag.models") / "weights" / "tiny-base.safetensors") as shipped:
                shutil.copyfile(shipped, temporary)
        else:
            towers = pretrain(settings, config, device=device, workers=workers, kept=kept, say=say)
            write(towers, temporary)
        made = Made(_flat(name, size), read(temporary, name=name).fingerprint, __version__)
        write_text(path.with_suffix(".json"), json.dumps(asdict(made), indent=1))

    write_atomically(path, fill)
    kept.path.unlink(missing_ok=True)


def _wanted(name: str, size: Size) -> tuple[Settings, TinyConfig]:
    seed = seed_of(Path(name))
    if size == "full":
        return Settings(seed=seed), TinyConfig(words=words())
    return Settings(seed=seed, steps=4, batch=64, warm_up=1), small_config()


def small_config() -> TinyConfig:
    """Of towers that are enough to show that code runs, and no more."""
    return TinyConfig(
        patch=16,
        picture_width=16,
        picture_depth=1,
        caption_width=16,
        caption_depth=1,
        joint=16,
        heads=2,
        words=words(),
    )


def _flat(name: str, size: Size) -> dict[str, object]:
    """Every setting by its name, as JSON would give it back; the vocabulary by its hash."""
    settings, config = _wanted(name, size)
    said = json.loads(json.dumps(asdict(settings)))
    vocabulary = blake2b(" ".join(config.words).encode(), digest_size=6).hexdigest()
    network = config.as_json() | {"words": vocabulary}
    return dict(_leaves({**said, "network": network}, ""))


def _leaves(said: Mapping[str, object], start: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in said.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{start}{key}.")
        else:
            found.append((start + key, value))
    return found


def _check(path: Path, *, size: Size) -> None:
    """Refuse a base of other settings, with both, or one that is not what its record says."""
    made, wanted = _made(path), _flat(path.stem, size)
    apart = [
        f"{key} {made.settings.get(key)}, not {wanted.get(key)}"
        for key in sorted({*made.settings, *wanted})
        if made.settings.get(key) != wanted.get(key)
    ]
    if apart:
        raise UserError(
            f"the base {path} was made with other settings: {'; '.join(apart)}",
            expected=f"those of this unbag ({__version__}); the base is of {made.version}",
            way_out="name another folder with --out: a base with new settings needs new results",
        )
    if (found := _fingerprint(path)) != made.fingerprint:
        raise UserError(
            f"the base {path} has the fingerprint {found}",
            expected=f"{made.fingerprint}, as {path.with_suffix('.json').name} beside it says",
            way_out="put the file back that belongs there, or name another folder with --out",
        )


def _fingerprint(path: Path) -> str:
    try:
        return read(path, name=path.stem).fingerprint
    except UserError as error:
        raise UserError(
            error.found,
            expected="the base that `unbag lab run` made there",
            way_out="move it away to have it made again, or name another folder with --out",
        ) from error


def _made(path: Path) -> Made:
    record = path.with_suffix(".json")
    try:
        return Made(**json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"how the base {path} was made is not known: {record} cannot be read ({error})",
            expected="the record that `unbag lab run` writes beside each base",
            way_out="move the base away to have it made again, or name another folder with --out",
        ) from error
