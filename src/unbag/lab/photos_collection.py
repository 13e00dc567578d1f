"""A folder of photographs with captions comes in; what arms learn from and are asked goes out.

    FOLDER/captions.jsonl: {"image": "images/1.jpg", "captions": ["...", "..."]}

Captions are edited once, and a tenth of the photographs is kept to ask about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from unbag.data.captions import Source
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import form_of, open_pairs
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.errors import UserError
from unbag.lab.experiment import Say
from unbag.lab.photos_table import SEEN_KINDS, SEEN_POSITIVE_KINDS
from unbag.lab.photos_wanted import captions_file
from unbag.models.photo import check_parts, load
from unbag.runs.progress import Silent
from unbag.training.towers.cached_features import Features, caption_table, picture_table

APART = 10
"""One photograph of so many is kept to ask about."""
_EDITS = "edits.jsonl"


@dataclass(frozen=True, eq=False)
class Listed:
    """Pairs in memory; see `unbag.data.pairs.Pairs`."""

    pairs: tuple[Pair, ...]
    about: str
    fingerprint: str
    has_edits: bool = True

    def __len__(self) -> int:
        """Pictures."""
        return len(self.pairs)

    def __getitem__(self, place: int) -> Pair:
        """By place."""
        return self.pairs[place]


@dataclass(frozen=True, eq=False)
class Collection:
    """Photographs with edited captions, in two parts."""

    train: Listed
    asked: Listed


@dataclass(frozen=True, eq=False)
class Seen:
    """What both parts make of a collection."""

    pictures: Features
    captions: Features


def collection_of(given: Path, folder: Path, *, say: Say) -> Collection:
    """Edit what was given, a folder or a file of captions, into `folder`; then share it out."""
    check_parts()
    file = captions_file(given)
    say(f"edits of {file.name}")
    pairs = edited_pairs(file, folder)
    every = tuple(pairs[place] for place in range(len(pairs)))
    return shared_out(every, about=pairs.about, fingerprint=pairs.fingerprint)


def check_collection(given: Path, folder: Path) -> None:
    """Refuse other captions than those whose edits are in `folder`, if any are."""
    if (folder / _EDITS).exists():
        edited_pairs(captions_file(given), folder)


def edited_pairs(file: Path, folder: Path) -> Pairs:
    """Edits that are there already are only read."""
    edits = folder / _EDITS
    try:
        run_edit(EditJob(Source(str(file), form_of(str(file), "the captions file")), edits))
        return open_pairs(str(edits), pictures=file.parent)
    except UserError as error:
        # Readers speak of the options of other commands.
        way_out = error.way_out
        if "--out" in way_out:
            way_out = f"name another folder with --out, or remove {folder} if no arm was run yet"
        elif "--" in way_out or not way_out:
            way_out = f"mend {file}; docs/lab.md has the form of a line"
        expected = error.expected.partition(", or the name of another field")[0]
        raise UserError(error.found, expected=expected, way_out=way_out) from error


def shared_out(pairs: Sequence[Pair], *, about: str, fingerprint: str) -> Collection:
    """By a hash of the pixels' file: one picture under two names falls on one side."""
    apart = [_is_apart(pair) for pair in pairs]
    parts = [
        tuple(pair for pair, is_in in zip(pairs, apart, strict=True) if is_in is wanted)
        for wanted in (False, True)
    ]
    train, asked = (Listed(part, about, fingerprint) for part in parts)
    return Collection(train, asked)


def check_size(collection: Collection, batch: int) -> None:
    """Refuse what makes no batch, or leaves nothing to ask."""
    if len(collection.train) < batch or not collection.asked.pairs:
        every = len(collection.train) + len(collection.asked)
        raise UserError(
            f"{every:,} photographs are too few: {len(collection.train):,} are left to learn from",
            expected=f"at least {batch:,} of these, better thousands",
            way_out="name a larger collection with --photos",
        )


def look(collection: Collection, *, cache: Path | None, device: str, say: Say) -> Seen:
    """Run both parts over everything that an arm may draw or is asked; kept in the cache folder."""
    model = load("random", device=device)
    both = (*collection.train.pairs, *collection.asked.pairs)
    texts = dict.fromkeys(_texts(collection))
    say(f"features of {len(both):,} photographs and {len(texts):,} captions and edits")
    pictures = picture_table(model, [pair.picture for pair in both], cache, Silent())
    return Seen(pictures, caption_table(model, tuple(texts), cache, Silent()))


def _texts(collection: Collection) -> Iterator[str]:
    kinds = SEEN_KINDS | SEEN_POSITIVE_KINDS
    for pair in collection.train.pairs:
        yield from pair.captions
        edits = (edit for some in pair.edits for edit in some)
        yield from (edit.text for edit in edits if edit.kind in kinds)
    for pair in collection.asked.pairs:
        yield from pair.captions
        yield from (edit.text for some in pair.edits for edit in some)


def _is_apart(pair: Pair) -> bool:
    digest = blake2b(pair.picture.key.encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") % APART == 0
