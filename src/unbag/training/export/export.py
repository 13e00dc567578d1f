"""Export a dual encoder as folders that open_clip and transformers load, with a model card.

Each form is read again by its plain library and compared with the encoder before anything gets its
name; a form that a library cannot have is left out with the reason.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError

from unbag.errors import UnbagError, said_by
from unbag.models import photo, tiny
from unbag.models.huggingface.dual import HfDual
from unbag.models.joined import JoinedEncoder, read_joined, write_joined
from unbag.models.loading import RECORD
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.open_clip.text import ClipTokenizer
from unbag.models.photo import Photo
from unbag.models.tiny import Tiny
from unbag.models.weights import check_finite
from unbag.reports.cards import Card, Exported, LeftOut, Library, LibraryForm, render_card
from unbag.runs.files import mode_of_new, settle
from unbag.training.export.check import Again, agreement, read_open_clip, read_transformers
from unbag.training.export.clip import ODD, ORDINARY, NoOtherFormError
from unbag.training.export.formats import (
    is_clips_own,
    said_of_joined,
    said_of_parts,
    trained_parts,
    write_open_clip_from,
    write_own_open_clip,
    write_own_transformers,
    write_transformers_from,
)
from unbag.types import DualEncoder

JOINED, PHOTO, TINY = "joined", "photo.safetensors", "tiny.safetensors"
FORMAT = "unbag-export-1"
FAR = 0.999
"""Cosine below which another way of resizing is said to change an image's vector."""
_BOTH: tuple[Library, ...] = ("open_clip", "transformers")
_TRIED = 8
"""Captions of a table that an export is tried on."""
_OURS = "the {} encoder is an architecture of unbag's own"
_Written = tuple[tuple[LibraryForm, ...], tuple[LeftOut, ...]]


def export(encoder: DualEncoder, out: Path, *, card: Card) -> Exported:
    """Write all forms that the model can have, its card and unbag.json; `out` must be new."""
    if not isinstance(encoder, OpenClip | HfDual | Tiny | Photo | JoinedEncoder):
        raise UnbagError(
            f"{encoder.name} is a {type(encoder).__name__}",
            expected="a dual encoder loaded as open_clip:, hf:, photo:, tiny: or joined:",
            hint="a model of your own is saved by your own code",
        )
    if isinstance(encoder, JoinedEncoder):
        text = encoder.text.module.state_dict()
        state = encoder.own_weights() | {f"text.{name}": weight for name, weight in text.items()}
    else:
        module: Any = encoder.network if isinstance(encoder, Tiny | Photo) else encoder.model
        state = module.state_dict()
    odd = sorted({str(v.dtype) for v in state.values() if v.is_floating_point()})
    if odd not in ([], ["torch.float32"]):
        raise UnbagError(
            f"the weights of {encoder.name} are {', '.join(odd)}",
            expected="torch.float32, since rounded weights would be handed on",
            hint="load the model with dtype float32",
        )
    check_finite(state, source=encoder.name)
    with _new_folder(out) as folder:
        if isinstance(encoder, Tiny | Photo | JoinedEncoder):
            written, left_out = _write_ours(encoder, folder)
        else:
            written, left_out = _write_forms(encoder, folder)
        found = Exported(
            out,
            encoder.name,
            encoder.fingerprint,
            encoder.scale,
            encoder.bias,
            written,
            left_out,
            tuple(_notes(encoder, written)),
        )
        record = {"format": FORMAT, **found.as_json(), "card": asdict(card)}
        said = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / RECORD).write_text(said + "\n", encoding="utf-8")
        (folder / "README.md").write_text(render_card(card, found), encoding="utf-8")
    return found


def _write_forms(encoder: OpenClip | HfDual, folder: Path) -> _Written:
    """The form of the library that the model is from first."""
    device = encoder.device
    is_clip = isinstance(encoder, OpenClip) or encoder.model_type == "clip"
    writers: list[tuple[Library, Callable[[Path], None]]]
    if isinstance(encoder, OpenClip):
        writers = [
            ("open_clip", partial(write_own_open_clip, encoder)),
            ("transformers", partial(write_transformers_from, encoder)),
        ]
    else:
        writers = [
            ("transformers", partial(write_own_transformers, encoder)),
            ("open_clip", partial(write_open_clip_from, encoder)),
        ]
    written: list[LibraryForm] = []
    left_out: list[LeftOut] = []
    own: Again | None = None
    for library, write in writers:
        place = folder / library
        place.mkdir()
        try:
            write(place)
        except NoOtherFormError as error:
            shutil.rmtree(place)
            left_out.append(LeftOut(library, str(error)))
            continue
        if library == "open_clip":
            again = read_open_clip(place, device=device)
        else:
            again = read_transformers(place, device=device, is_clip=is_clip)
        own = own or again
        agrees = agreement(encoder, again, own=own, what=library)
        kind = "CLIPModel" if is_clip and library == "transformers" else "AutoModel"
        written.append(LibraryForm(library, library, agrees, _sums(place, folder), kind))
    return tuple(written), tuple(left_out)


def _write_ours(encoder: Tiny | Photo | JoinedEncoder, folder: Path) -> _Written:
    """In full precision: what is shipped with unbag is half of it, to be small."""
    library: Library
    again: Tiny | Photo | JoinedEncoder
    captions: Sequence[str] = ORDINARY
    name, device = encoder.name, encoder.device
    if isinstance(encoder, JoinedEncoder):
        library, path = "joined", folder / JOINED
        path.mkdir()
        write_joined(encoder, path)
        again = read_joined(path, name=name, device=device)
        # A table of features has only its own captions.
        rows: Mapping[str, int] | None = getattr(encoder.text.reads, "row_of", None)
        captions = ORDINARY if rows is None else list(rows)[:_TRIED]
    elif isinstance(encoder, Photo):
        library, path = "photo", folder / PHOTO
        # A part as it is installed is left out.
        photo.write(encoder.network, path, parts=trained_parts(encoder), dtype=torch.float32)
        again = photo.read(path, name=name, device=device)
    else:
        library, path = "tiny", folder / TINY
        tiny.write(encoder.network, path, dtype=torch.float32)
        again = tiny.read(path, name=name, device=device)
    agrees = agreement(encoder, again, own=again, what="unbag", captions=captions)
    found = LibraryForm(library, path.name, agrees, _sums(path, folder))
    return (found,), tuple(LeftOut(other, _OURS.format(library)) for other in _BOTH)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` that gets its name when all is there, and goes away if it is not."""
    is_free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not is_free:
        raise UnbagError(
            f"{out} exists" + (" and is an export" if (out / RECORD).is_file() else ""),
            expected="a folder that is new or empty: an export is never mixed with another",
            hint="name another with --out, or remove this one",
        )
    whole = out.absolute()
    temporary = whole.with_name(f".{whole.name}.{uuid4().hex[:8]}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        # What others may read of files made here, they may read of all of them.
        probe = temporary / ".mode"
        mode = mode_of_new(probe)
        probe.unlink()
        for path in temporary.rglob("*"):
            if path.is_file():
                settle(path, mode)
        if out.exists():
            out.rmdir()
        temporary.rename(out)
    except (OSError, SafetensorError) as error:
        raise UnbagError(
            f"the export {out} cannot be written: {said_by(error)}",
            expected="a folder that can be written, with room for the weights twice",
            hint="free some space or name another folder; nothing is left behind",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sums(place: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    files = [place] if place.is_file() else sorted(place.glob("*.safetensors"))
    return tuple((path.relative_to(folder).as_posix(), _sum(path)) for path in files)


def _sum(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _notes(
    encoder: OpenClip | HfDual | Tiny | Photo | JoinedEncoder, written: tuple[LibraryForm, ...]
) -> Iterator[str]:
    if isinstance(encoder, Photo | JoinedEncoder):
        yield said_of_parts(encoder) if isinstance(encoder, Photo) else said_of_joined(encoder)
        return
    libraries = {one.library for one in written}
    has_bias = (
        not isinstance(encoder, Tiny) and getattr(encoder.model, "logit_bias", None) is not None
    )
    is_clip = any(one.kind == "CLIPModel" for one in written)
    if has_bias and "transformers" in libraries and is_clip:
        yield (
            f"The bias of the sigmoid loss, {encoder.bias:.4f}, has no place in transformers' "
            "CLIPModel: its vectors and cosines are the same, its logits lack it."
        )
    if libraries == set(_BOTH) and _mends(encoder):
        yield (
            "open_clip mends captions before it splits them, and transformers does not: "
            f"{', '.join(f'`{text}`' for text in ODD)} and the like become other tokens there. "
            "Ordinary captions are the same."
        )
    for one in written:
        if one.agreement.cosine < FAR:
            yield (
                f"Images prepared by {one.library} get other vectors (cosine down to "
                f"{one.agreement.cosine:.4f}), mostly where an odd number of columns or rows is "
                "cut off, a pixel apart by the two libraries. Numbers of both forms differ by it."
            )


def _mends(encoder: OpenClip | HfDual | Tiny) -> bool:
    if isinstance(encoder, OpenClip):
        return isinstance(encoder.tokenize, ClipTokenizer)
    return isinstance(encoder, HfDual) and is_clips_own(encoder)
