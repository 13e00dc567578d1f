"""Export a dual encoder as folders that open_clip and transformers load, with a model card.

Each form is loaded again by its library and compared with the encoder before the folder gets its
name. A form that a library does not support is left out with the reason.
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
from unbag.training.export.check import ReloadedModel, agreement, read_open_clip, read_transformers
from unbag.training.export.clip import ODD, ORDINARY, NoOtherFormError
from unbag.training.export.formats import (
    is_clips_own,
    joined_contents,
    photo_contents,
    trained_parts,
    write_open_clip_from,
    write_own_open_clip,
    write_own_transformers,
    write_transformers_from,
)
from unbag.types import DualEncoder

JOINED, PHOTO, TINY = "joined", "photo.safetensors", "tiny.safetensors"
FORMAT = "unbag-export-1"
MIN_COSINE = 0.999
"""Cosine of image vectors below which a note mentions the difference in resizing."""
_LIBRARIES: tuple[Library, ...] = ("open_clip", "transformers")
_TABLE_CAPTIONS = 8
"""Captions of a table on which an export is checked."""
_OWN_ARCHITECTURE = "the {} encoder is an architecture of unbag's own"
_Forms = tuple[tuple[LibraryForm, ...], tuple[LeftOut, ...]]


def export(encoder: DualEncoder, out: Path, *, card: Card) -> Exported:
    """Write all forms of the model, its card and unbag.json; `out` must be new or empty."""
    if not isinstance(encoder, OpenClip | HfDual | Tiny | Photo | JoinedEncoder):
        raise UnbagError(
            f"{encoder.name} is a {type(encoder).__name__}",
            expected="a dual encoder loaded as open_clip:, hf:, photo:, tiny: or joined:",
            hint="save a model of your own with your own code",
        )
    if isinstance(encoder, JoinedEncoder):
        text = encoder.text.module.state_dict()
        state = encoder.own_weights() | {f"text.{name}": weight for name, weight in text.items()}
    else:
        module: Any = encoder.network if isinstance(encoder, Tiny | Photo) else encoder.model
        state = module.state_dict()
    dtypes = sorted({str(v.dtype) for v in state.values() if v.is_floating_point()})
    if dtypes not in ([], ["torch.float32"]):
        raise UnbagError(
            f"the weights of {encoder.name} are {', '.join(dtypes)}",
            expected="torch.float32: weights of lower precision are rounded",
            hint="load the model with dtype float32",
        )
    check_finite(state, source=encoder.name)
    with _new_folder(out) as folder:
        if isinstance(encoder, Tiny | Photo | JoinedEncoder):
            written, left_out = _write_own_form(encoder, folder)
        else:
            written, left_out = _write_forms(encoder, folder)
        exported = Exported(
            out,
            encoder.name,
            encoder.fingerprint,
            encoder.scale,
            encoder.bias,
            written,
            left_out,
            tuple(_notes(encoder, written)),
        )
        record = {"format": FORMAT, **exported.as_json(), "card": asdict(card)}
        record_text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / RECORD).write_text(record_text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(render_card(card, exported), encoding="utf-8")
    return exported


def _write_forms(encoder: OpenClip | HfDual, folder: Path) -> _Forms:
    """Write a form for each library, that of the model's own library first."""
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
    own: ReloadedModel | None = None
    for library, write in writers:
        form_folder = folder / library
        form_folder.mkdir()
        try:
            write(form_folder)
        except NoOtherFormError as error:
            shutil.rmtree(form_folder)
            left_out.append(LeftOut(library, str(error)))
            continue
        if library == "open_clip":
            reloaded = read_open_clip(form_folder, device=device)
        else:
            reloaded = read_transformers(form_folder, device=device, is_clip=is_clip)
        own = own or reloaded
        agrees = agreement(encoder, reloaded, own=own, what=library)
        kind = "CLIPModel" if is_clip and library == "transformers" else "AutoModel"
        written.append(LibraryForm(library, library, agrees, _checksums(form_folder, folder), kind))
    return tuple(written), tuple(left_out)


def _write_own_form(encoder: Tiny | Photo | JoinedEncoder, folder: Path) -> _Forms:
    """Write a model of unbag's own in full precision; the models in the package have half of it."""
    library: Library
    reloaded: Tiny | Photo | JoinedEncoder
    captions: Sequence[str] = ORDINARY
    name, device = encoder.name, encoder.device
    if isinstance(encoder, JoinedEncoder):
        library, path = "joined", folder / JOINED
        path.mkdir()
        write_joined(encoder, path)
        reloaded = read_joined(path, name=name, device=device)
        # A table of features has only its own captions.
        rows: Mapping[str, int] | None = getattr(encoder.text.reads, "row_of", None)
        captions = ORDINARY if rows is None else list(rows)[:_TABLE_CAPTIONS]
    elif isinstance(encoder, Photo):
        library, path = "photo", folder / PHOTO
        # Parts that equal those of the installed packages are left out.
        photo.write(encoder.network, path, parts=trained_parts(encoder), dtype=torch.float32)
        reloaded = photo.read(path, name=name, device=device)
    else:
        library, path = "tiny", folder / TINY
        tiny.write(encoder.network, path, dtype=torch.float32)
        reloaded = tiny.read(path, name=name, device=device)
    agrees = agreement(encoder, reloaded, own=reloaded, what="unbag", captions=captions)
    form = LibraryForm(library, path.name, agrees, _checksums(path, folder))
    return (form,), tuple(LeftOut(other, _OWN_ARCHITECTURE.format(library)) for other in _LIBRARIES)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out` when complete, and removed on an error."""
    is_free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not is_free:
        raise UnbagError(
            f"{out} exists" + (" and is an export" if (out / RECORD).is_file() else ""),
            expected="a new or empty folder: two exports are never mixed",
            hint="name another with --out, or remove this one",
        )
    target = out.absolute()
    temporary = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        # All files get the default permissions of new files in this folder.
        mode_probe = temporary / ".mode"
        mode = mode_of_new(mode_probe)
        mode_probe.unlink()
        for path in temporary.rglob("*"):
            if path.is_file():
                settle(path, mode)
        if out.exists():
            out.rmdir()
        temporary.rename(out)
    except (OSError, SafetensorError) as error:
        raise UnbagError(
            f"the export {out} cannot be written: {said_by(error)}",
            expected="a folder that can be written, with space for the weights twice",
            hint="free some space or name another folder; nothing is left behind",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _checksums(path: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    return tuple((file.relative_to(folder).as_posix(), _checksum(file)) for file in files)


def _checksum(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _notes(
    encoder: OpenClip | HfDual | Tiny | Photo | JoinedEncoder, written: tuple[LibraryForm, ...]
) -> Iterator[str]:
    if isinstance(encoder, Photo | JoinedEncoder):
        yield photo_contents(encoder) if isinstance(encoder, Photo) else joined_contents(encoder)
        return
    libraries = {form.library for form in written}
    has_bias = (
        not isinstance(encoder, Tiny) and getattr(encoder.model, "logit_bias", None) is not None
    )
    is_clip = any(form.kind == "CLIPModel" for form in written)
    if has_bias and "transformers" in libraries and is_clip:
        yield (
            f"The bias of the sigmoid loss, {encoder.bias:.4f}, has no place in transformers' "
            "CLIPModel: its vectors and cosines are the same, its logits lack it."
        )
    if libraries == set(_LIBRARIES) and _cleans_captions(encoder):
        yield (
            "open_clip cleans captions before tokenizing, and transformers does not: "
            f"{', '.join(f'`{text}`' for text in ODD)} and the like become other tokens there. "
            "Ordinary captions have the same tokens."
        )
    for form in written:
        if form.agreement.cosine < MIN_COSINE:
            yield (
                f"Images prepared by {form.library} get different vectors (cosine down to "
                f"{form.agreement.cosine:.4f}), mostly where an odd number of columns or rows is "
                "cropped, which the two libraries do one pixel apart. Results of both forms differ."
            )


def _cleans_captions(encoder: OpenClip | HfDual | Tiny) -> bool:
    if isinstance(encoder, OpenClip):
        return isinstance(encoder.tokenize, ClipTokenizer)
    return isinstance(encoder, HfDual) and is_clips_own(encoder)
