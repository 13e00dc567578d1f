"""The folder of a trained decoder: written, read, and joined with the encoder it was trained on.

config.json says all that is needed to ask it, connector.safetensors and language/ hold weights, the
latter as transformers saves them. Of a decoder that was trained further, a folder may hold the
change alone, beside the folder of the first. Nothing is unpickled.

Dimensions of a change: O outputs, I inputs, K of them, R rank.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbag.errors import UnbagError, said_by
from unbag.models.huggingface.loading import quietly
from unbag.models.shipped import find_shipped, shipped_like
from unbag.models.weights import check_finite, fingerprint
from unbag.readouts.decoder.language import read_language, saved_language
from unbag.readouts.decoder.lessons import DecoderSettings, Pretrained, WordLevel, Words
from unbag.readouts.decoder.model import DecoderNet, Made, PatchDecoder, patch_decoder
from unbag.readouts.reader import check_encoder, check_finished
from unbag.runs.files import settle, write_atomically, write_text
from unbag.training.encoders.lora import merged
from unbag.training.settings import with_current_names, with_first_names
from unbag.types import DualEncoder
from unbag.version import __version__

CONFIG = "config.json"
CONNECTOR, LANGUAGE, CHANGE = "connector.safetensors", "language", "change.safetensors"
_KIND = "unbag_decoder"
_VERSION = "1"
"""Of the forward pass and the form of prompts: part of the fingerprint."""
_TOGETHER = "put a copy of the decoder it changes beside it"
_HOLDS = f"{CONFIG}, {CONNECTOR} and {LANGUAGE}/, as `unbag train --readout decoder` writes them"
_TRAIN = (
    "check the path; `unbag train --readout decoder --model MODEL --pairs world --out FOLDER` "
    "makes one: docs/decoder.md"
)
_TALL, _WIDE, _WHOLE = ".tall_OR", ".wide_RI", ".whole"
State: TypeAlias = dict[str, Tensor]


def save_decoder(folder: Path, made: Made, origin: DecoderOrigin) -> None:
    """Write it; the config comes last, so that a folder with one is whole."""
    state = made.net.state_dict()
    check_finite(state, source="the decoder")
    whole = merged(made.net.language) if made.settings.lora else made.net.language
    (folder / CONFIG).unlink(missing_ok=True)
    with quietly():
        whole.save_pretrained(folder / LANGUAGE)
    for weights in (folder / LANGUAGE).glob("*.safetensors"):
        settle(weights, (folder / LANGUAGE / "config.json").stat().st_mode)
    if isinstance(made.words, Pretrained):
        made.words.tokenizer.save_pretrained(folder / LANGUAGE)
    connector = {
        k: v.detach().cpu().contiguous() for k, v in made.net.connector.state_dict().items()
    }
    write_atomically(folder / CONNECTOR, lambda temporary: save_file(connector, temporary))
    _write_config(folder, made, origin)


def save_change(folder: Path, made: Made, origin: DecoderOrigin, *, base: Path, rank: int) -> None:
    """Write what makes it of the decoder in the folder `base`, in half precision.

    Each matrix changes by one of this rank, so that what is read again is near what was made, not
    the same. The folder belongs beside that of the base.
    """
    first = read_decoder(base).made.net
    change = factored(first.state_dict(), made.net.state_dict(), rank=rank)
    check_finite(change, source="the decoder")
    half = {name: value.half() for name, value in change.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CHANGE, lambda temporary: save_file(half, temporary))
    _write_config(
        folder, made, origin, change_of=asdict(_BaseDecoder(base.name, _weights_fingerprint(first)))
    )


def _write_config(folder: Path, made: Made, origin: DecoderOrigin, **more: object) -> None:
    words = made.words
    said = {
        "kind": _KIND,
        "version": __version__,
        "origin": asdict(origin),
        "settings": asdict(made.settings),
        "places": made.places,
        "context": made.context,
        "embeds": made.embeds,
        "words": list(words.words) if isinstance(words, WordLevel) else None,
        **more,
    }
    write_text(folder / CONFIG, json.dumps(said, indent=2))


@dataclass(frozen=True)
class DecoderOrigin:
    """The encoder that a decoder was trained on."""

    spec: str
    """As `--model` names it."""
    name: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class SavedDecoder:
    """What the folder of a decoder holds."""

    made: Made
    origin: DecoderOrigin


@dataclass(frozen=True)
class _BaseDecoder:
    """The decoder that a change belongs to."""

    folder: str
    """Its name; it lies beside."""
    fingerprint: str


def read_decoder(
    folder: Path, *, read: Callable[[Path], Any] = saved_language, hint: str = _TRAIN
) -> SavedDecoder:
    """What `save_decoder` wrote; raises UnbagError for anything else, with this hint.

    `read` makes a language model of weights alone, where words are those of the config.
    """
    refused = partial(_refused, folder, hint=hint)
    said = read_config(folder, kind=_KIND, refused=refused)
    try:
        settings, origin = (
            DecoderSettings(**with_current_names(said["settings"])),
            DecoderOrigin(**said["origin"]),
        )
        places, context, known = int(said["places"]), int(said["context"]), said["words"]
        embeds = bool(said.get("embeds", False))
        base = _BaseDecoder(**said["change_of"]) if "change_of" in said else None
    except (KeyError, TypeError, ValueError) as error:
        raise refused(wrong_config(error)) from error
    if base:
        refused = partial(refused, holds=f"{CONFIG} and {CHANGE}", hint=_TOGETHER)
    held = _weights(folder, CHANGE if base else CONNECTOR, refused)
    words: Words
    if base:
        first = _beside(folder, base, read).made
        net, words = first.net, first.words
        _change(net, held, base, folder)
    else:
        if known is None:
            language = read_language(str(folder / LANGUAGE), asks=settings.asks)
            model, words = language.model, language.words
        else:
            model, words = read(folder / LANGUAGE), WordLevel(tuple(known), settings.asks)
        net = DecoderNet(model, width=held["0.weight"].shape[1])
        _fill(net, held, folder)
    check_finite(net.state_dict(), source=str(folder))
    return SavedDecoder(Made(net.eval(), words, settings, places, context, embeds), origin)


def _weights(folder: Path, file: str, refused: Callable[[str], UnbagError]) -> State:
    """Of one file; whether it has what it should is seen when it is put to use."""
    if not (folder / file).is_file():
        raise refused(f"it has no {file}")
    if file == CONNECTOR and not (folder / LANGUAGE).is_dir():
        # A name that is no folder would be looked for on a hub.
        raise refused(f"it has no {LANGUAGE}/, the weights of its language model")
    try:
        held = load_file(folder / file)
    except (OSError, SafetensorError) as error:
        raise refused(f"its {file} cannot be read: {said_by(error)}") from error
    if file == CONNECTOR and getattr(held.get("0.weight"), "ndim", 0) != 2:
        raise refused(f"its {file} has no matrix 0.weight")
    return held


def _fill(net: DecoderNet, connector: dict[str, torch.Tensor], folder: Path) -> None:
    """Put the connector's weights where they belong; those of another decoder are refused."""
    own = {name: tuple(value.shape) for name, value in net.connector.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in connector.items()}
    apart = [name for name in {**own, **found} if own.get(name) != found.get(name)]
    if apart:
        first = apart[0]
        raise UnbagError(
            f"{folder / CONNECTOR} does not fit its language model: {first} is "
            f"{found.get(first, 'not there')}",
            expected=f"{own.get(first, 'no such weight')}",
            hint="copy both from one folder of `unbag train --readout decoder`",
        )
    net.connector.load_state_dict(connector)


def _beside(folder: Path, base: _BaseDecoder, read: Callable[[Path], Any]) -> SavedDecoder:
    """The decoder that a folder changes, which holds its weights itself."""
    place = folder.absolute().parent / base.folder
    if not place.exists() and folder in shipped_like(folder.name):
        # What ships with the study may change what ships with the tool.
        place = find_shipped(base.folder) or place
    if place == folder.absolute() or not (place / LANGUAGE).is_dir():
        raise UnbagError(
            f"{folder} is a change of the decoder {base.folder}/, and beside it is none with "
            "weights of its own",
            expected=f"both folders in {place.parent}",
            hint=_TOGETHER,
        )
    return read_decoder(place, read=read)


def _change(net: DecoderNet, change: State, base: _BaseDecoder, folder: Path) -> None:
    """Make of the decoder beside it what the folder is about; any other is refused."""
    if _weights_fingerprint(net) != base.fingerprint:
        raise UnbagError(
            f"{folder} changes a decoder that is not the one in {base.folder}/ beside it",
            expected=f"weights with the fingerprint {base.fingerprint}",
            hint=_TOGETHER,
        )
    try:
        apply_change(net.state_dict(), change)
    except (KeyError, RuntimeError) as error:
        raise UnbagError(
            f"{folder / CHANGE} does not fit {base.folder}/ beside it: {said_by(error)}",
            expected="a change of every weight, as it came with it",
            hint=_TOGETHER,
        ) from error


def _refused(folder: Path, why: str, *, hint: str, holds: str = _HOLDS) -> UnbagError:
    return UnbagError(
        f"{folder} is not a decoder: {why}", expected=f"a folder with {holds}", hint=hint
    )


def on_encoder(
    kept: SavedDecoder, encoder: DualEncoder, folder: Path, *, name: str
) -> PatchDecoder:
    """Ready to be asked; an encoder that it was not trained on is refused."""
    trained = kept.origin
    check_encoder(
        folder, encoder, spec=trained.spec, fingerprint=trained.fingerprint, kind="decoder"
    )
    return patch_decoder(encoder, kept.made, name=name, fingerprint=print_of(kept.made, encoder))


def print_of(made: Made, encoder: DualEncoder) -> str:
    """Of encoder, weights, vocabulary and settings."""
    words = made.words
    if isinstance(words, WordLevel):
        known = repr(words.words)
    else:
        # All that a tokenizer does to a text.
        backend = getattr(words.tokenizer, "backend_tokenizer", None)
        known = str(backend.to_str() if backend else sorted(words.tokenizer.get_vocab().items()))
    # Said only where it is so: folders of before keep their fingerprints.
    embeds = {"embeds": True} if made.embeds else {}
    said = json.dumps(
        with_first_names(asdict(made.settings)) | {"language": "", "places": made.places} | embeds
    )
    return fingerprint("decoder", _widened(made.net), encoder.fingerprint, said, known, _VERSION)


def _widened(net: DecoderNet) -> State:
    """Weights have one fingerprint, whatever precision they are kept in."""
    return {name: value.to(torch.float32) for name, value in net.state_dict().items()}


def _weights_fingerprint(net: DecoderNet) -> str:
    return fingerprint("decoder-weights", _widened(net))


def factored(before: Mapping[str, Tensor], after: Mapping[str, Tensor], *, rank: int) -> State:
    """For each matrix the best two of this rank, by least squares; what is no matrix as it is."""
    found: State = {}
    for name in _once(after):
        change = after[name].float() - before[name].float()
        if change.ndim != 2 or rank * sum(change.shape) >= change.numel():
            found[name + _WHOLE] = change
            continue
        left_OK, strength_K, right_KI = torch.linalg.svd(change, full_matrices=False)
        root_R = strength_K[:rank].sqrt()
        found[name + _TALL] = (left_OK[:, :rank] * root_R).contiguous()
        found[name + _WIDE] = (root_R[:, None] * right_KI[:rank]).contiguous()
    return found


def apply_change(before: Mapping[str, Tensor], change: Mapping[str, Tensor]) -> None:
    """Add it to the weights in their place.

    A KeyError or RuntimeError if it is not one of all these weights, before any has changed.
    """
    added: State = {}
    for name in _once(before):
        whole = change.get(name + _WHOLE)
        if whole is None:
            whole = change[name + _TALL].float() @ change[name + _WIDE].float()
        if whole.shape != before[name].shape:
            raise KeyError(f"{name} of the shape {tuple(whole.shape)}")
        added[name] = whole.float()
    for name, value in added.items():
        before[name].add_(value)


def _once(weights: Mapping[str, Tensor]) -> list[str]:
    """Names; of a weight that stands under two, the first."""
    found: dict[int, str] = {}
    for name, value in weights.items():
        found.setdefault(value.data_ptr(), name)
    return list(found.values())


def read_config(folder: Path, *, kind: str, refused: Callable[[str], UnbagError]) -> dict[str, Any]:
    """Of a folder of this kind; `refused` makes the error for any other, from what is wrong."""
    if not folder.is_dir():
        raise refused("it is a file" if folder.exists() else "there is no such folder")
    file = folder / CONFIG
    check_finished(folder, file)
    if not file.is_file():
        raise refused(f"it has no {CONFIG}")
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refused(f"its {CONFIG} cannot be read: {said_by(error)}") from error
    found = said.get("kind") if isinstance(said, dict) else None
    if found is None:
        raise refused(f"its {CONFIG} is of something else")
    if found != kind:
        raise refused(f"its {CONFIG} is of the kind {found!r}")
    return dict(said)


def wrong_config(error: Exception) -> str:
    """What is wrong with one that is of the right kind, for people."""
    if isinstance(error, KeyError):
        return f"its {CONFIG} has no {said_by(error)}"
    return f"its {CONFIG} is not as training writes it: {said_by(error)}"
