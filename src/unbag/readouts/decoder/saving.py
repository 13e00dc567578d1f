"""Save decoders in folders, load them, and join them with the encoder they were trained on.

A folder has config.json, and weights in connector.safetensors and language/, the latter as
transformers saves them. For a decoder that was trained further, a folder may have only the change,
next to the folder of the first. Nothing is unpickled.

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
from unbag.readouts.decoder.model import DecoderNet, DecoderParts, PatchDecoder, patch_decoder
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
"""Version of the forward pass and of the prompt format: part of the fingerprint."""
_COPY_BASE = "copy the decoder that it changes next to it"
_HOLDS = f"{CONFIG}, {CONNECTOR} and {LANGUAGE}/, as `unbag train --readout decoder` writes them"
_TRAIN = (
    "check the path, or train one: `unbag train --readout decoder --model MODEL --pairs world "
    "--out FOLDER`; see docs/background/decoder.md"
)
_TALL, _WIDE, _WHOLE = ".tall_OR", ".wide_RI", ".whole"
State: TypeAlias = dict[str, Tensor]


def save_decoder(folder: Path, made: DecoderParts, origin: DecoderOrigin) -> None:
    """Write a decoder; the config comes last, so that a folder with one is complete."""
    state = made.net.state_dict()
    check_finite(state, source="the decoder")
    language = merged(made.net.language) if made.settings.lora else made.net.language
    (folder / CONFIG).unlink(missing_ok=True)
    with quietly():
        language.save_pretrained(folder / LANGUAGE)
    for weights in (folder / LANGUAGE).glob("*.safetensors"):
        settle(weights, (folder / LANGUAGE / "config.json").stat().st_mode)
    if isinstance(made.words, Pretrained):
        made.words.tokenizer.save_pretrained(folder / LANGUAGE)
    connector = {
        k: v.detach().cpu().contiguous() for k, v in made.net.connector.state_dict().items()
    }
    write_atomically(folder / CONNECTOR, lambda temporary: save_file(connector, temporary))
    _write_config(folder, made, origin)


def save_change(
    folder: Path, made: DecoderParts, origin: DecoderOrigin, *, base: Path, rank: int
) -> None:
    """Write the change from the decoder in the folder `base`, in half precision.

    The change of each matrix is approximated by one of rank `rank`. The folder must be next to that
    of the base.
    """
    base_net = read_decoder(base).made.net
    change = factored(base_net.state_dict(), made.net.state_dict(), rank=rank)
    check_finite(change, source="the decoder")
    half = {name: value.half() for name, value in change.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CHANGE, lambda temporary: save_file(half, temporary))
    _write_config(
        folder,
        made,
        origin,
        change_of=asdict(_BaseDecoder(base.name, _weights_fingerprint(base_net))),
    )


def _write_config(folder: Path, made: DecoderParts, origin: DecoderOrigin, **extra: object) -> None:
    words = made.words
    config = {
        "kind": _KIND,
        "version": __version__,
        "origin": asdict(origin),
        "settings": asdict(made.settings),
        "places": made.places,
        "context": made.context,
        "embeds": made.embeds,
        "words": list(words.words) if isinstance(words, WordLevel) else None,
        **extra,
    }
    write_text(folder / CONFIG, json.dumps(config, indent=2))


@dataclass(frozen=True)
class DecoderOrigin:
    """The encoder that a decoder was trained on."""

    spec: str
    """Name for `--model`."""
    name: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class SavedDecoder:
    """The content of a decoder's folder."""

    made: DecoderParts
    origin: DecoderOrigin


@dataclass(frozen=True)
class _BaseDecoder:
    """The decoder to which a change applies."""

    folder: str
    """Name of its folder, next to that of the change."""
    fingerprint: str


def read_decoder(
    folder: Path, *, read: Callable[[Path], Any] = saved_language, hint: str = _TRAIN
) -> SavedDecoder:
    """Load a folder of `save_decoder`; raise UnbagError with `hint` for anything else.

    `read` loads a language model whose vocabulary is in the config.
    """
    refused = partial(_refused, folder, hint=hint)
    config = read_config(folder, kind=_KIND, refused=refused)
    try:
        settings, origin = (
            DecoderSettings(**with_current_names(config["settings"])),
            DecoderOrigin(**config["origin"]),
        )
        places, context, vocabulary = int(config["places"]), int(config["context"]), config["words"]
        embeds = bool(config.get("embeds", False))
        base = _BaseDecoder(**config["change_of"]) if "change_of" in config else None
    except (KeyError, TypeError, ValueError) as error:
        raise refused(wrong_config(error)) from error
    if base:
        refused = partial(refused, holds=f"{CONFIG} and {CHANGE}", hint=_COPY_BASE)
    weights = _load_weights(folder, CHANGE if base else CONNECTOR, refused)
    words: Words
    if base:
        base_parts = _load_base(folder, base, read).made
        net, words = base_parts.net, base_parts.words
        _apply_to_base(net, weights, base, folder)
    else:
        if vocabulary is None:
            language = read_language(str(folder / LANGUAGE), asks=settings.asks)
            model, words = language.model, language.words
        else:
            model, words = read(folder / LANGUAGE), WordLevel(tuple(vocabulary), settings.asks)
        net = DecoderNet(model, width=weights["0.weight"].shape[1])
        _load_connector(net, weights, folder)
    check_finite(net.state_dict(), source=str(folder))
    return SavedDecoder(DecoderParts(net.eval(), words, settings, places, context, embeds), origin)


def _load_weights(folder: Path, file: str, refused: Callable[[str], UnbagError]) -> State:
    """Load the weights of a file; their names and shapes are checked later."""
    if not (folder / file).is_file():
        raise refused(f"it has no {file}")
    if file == CONNECTOR and not (folder / LANGUAGE).is_dir():
        # transformers would look for a missing folder on the hub.
        raise refused(f"it has no {LANGUAGE}/, the weights of its language model")
    try:
        weights = load_file(folder / file)
    except (OSError, SafetensorError) as error:
        raise refused(f"its {file} cannot be read: {said_by(error)}") from error
    if file == CONNECTOR and getattr(weights.get("0.weight"), "ndim", 0) != 2:
        raise refused(f"its {file} has no matrix 0.weight")
    return weights


def _load_connector(net: DecoderNet, connector: dict[str, torch.Tensor], folder: Path) -> None:
    """Load the connector's weights; raise UnbagError if they do not fit."""
    expected = {name: tuple(value.shape) for name, value in net.connector.state_dict().items()}
    shapes = {name: tuple(value.shape) for name, value in connector.items()}
    different = [name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name)]
    if different:
        first = different[0]
        raise UnbagError(
            f"{folder / CONNECTOR} does not fit its language model: {first} is "
            f"{shapes.get(first, 'missing')}",
            expected=f"{expected.get(first, 'no such weight')}",
            hint="copy both from the same folder of `unbag train --readout decoder`",
        )
    net.connector.load_state_dict(connector)


def _load_base(folder: Path, base: _BaseDecoder, read: Callable[[Path], Any]) -> SavedDecoder:
    """Load the decoder that a folder changes; it must have weights of its own."""
    path = folder.absolute().parent / base.folder
    if not path.exists() and folder in shipped_like(folder.name):
        # The base of a decoder shipped with the study may be shipped with the tool.
        path = find_shipped(base.folder) or path
    if path == folder.absolute() or not (path / LANGUAGE).is_dir():
        raise UnbagError(
            f"{folder} is a change of the decoder {base.folder}/, which is not next to it with "
            "weights of its own",
            expected=f"both folders in {path.parent}",
            hint=_COPY_BASE,
        )
    return read_decoder(path, read=read)


def _apply_to_base(net: DecoderNet, change: State, base: _BaseDecoder, folder: Path) -> None:
    """Apply the change of a folder to its base; raise UnbagError if the base is another."""
    if _weights_fingerprint(net) != base.fingerprint:
        raise UnbagError(
            f"{folder} changes another decoder than the one in {base.folder}/ next to it",
            expected=f"weights with the fingerprint {base.fingerprint}",
            hint=_COPY_BASE,
        )
    try:
        apply_change(net.state_dict(), change)
    except (KeyError, RuntimeError) as error:
        raise UnbagError(
            f"{folder / CHANGE} does not fit {base.folder}/ next to it: {said_by(error)}",
            expected="a change of every weight of that decoder",
            hint=_COPY_BASE,
        ) from error


def _refused(folder: Path, why: str, *, hint: str, holds: str = _HOLDS) -> UnbagError:
    return UnbagError(
        f"{folder} is not a decoder: {why}", expected=f"a folder with {holds}", hint=hint
    )


def on_encoder(
    saved: SavedDecoder, encoder: DualEncoder, folder: Path, *, name: str
) -> PatchDecoder:
    """Return the chat model on an encoder; raise UnbagError if it was trained on another."""
    origin = saved.origin
    check_encoder(folder, encoder, spec=origin.spec, fingerprint=origin.fingerprint, kind="decoder")
    return patch_decoder(
        encoder, saved.made, name=name, fingerprint=decoder_fingerprint(saved.made, encoder)
    )


def decoder_fingerprint(made: DecoderParts, encoder: DualEncoder) -> str:
    """Return a fingerprint of encoder, weights, vocabulary and settings."""
    words = made.words
    if isinstance(words, WordLevel):
        vocabulary = repr(words.words)
    else:
        # The whole behaviour of a tokenizer.
        backend = getattr(words.tokenizer, "backend_tokenizer", None)
        vocabulary = str(
            backend.to_str() if backend else sorted(words.tokenizer.get_vocab().items())
        )
    # Added only if True, so that earlier folders keep their fingerprints.
    embeds = {"embeds": True} if made.embeds else {}
    settings = json.dumps(
        with_first_names(asdict(made.settings)) | {"language": "", "places": made.places} | embeds
    )
    return fingerprint(
        "decoder", _float32_weights(made.net), encoder.fingerprint, settings, vocabulary, _VERSION
    )


def _float32_weights(net: DecoderNet) -> State:
    """Return weights in float32: the fingerprint does not depend on precision."""
    return {name: value.to(torch.float32) for name, value in net.state_dict().items()}


def _weights_fingerprint(net: DecoderNet) -> str:
    return fingerprint("decoder-weights", _float32_weights(net))


def factored(before: Mapping[str, Tensor], after: Mapping[str, Tensor], *, rank: int) -> State:
    """Factor the change of each matrix at a rank by least squares; keep other changes whole."""
    factors: State = {}
    for name in _distinct_names(after):
        change = after[name].float() - before[name].float()
        if change.ndim != 2 or rank * sum(change.shape) >= change.numel():
            factors[name + _WHOLE] = change
            continue
        left_OK, strength_K, right_KI = torch.linalg.svd(change, full_matrices=False)
        root_R = strength_K[:rank].sqrt()
        factors[name + _TALL] = (left_OK[:, :rank] * root_R).contiguous()
        factors[name + _WIDE] = (root_R[:, None] * right_KI[:rank]).contiguous()
    return factors


def apply_change(before: Mapping[str, Tensor], change: Mapping[str, Tensor]) -> None:
    """Add a change to weights in place.

    Raises KeyError or RuntimeError, before changing any weight, if it does not fit all of them.
    """
    added: State = {}
    for name in _distinct_names(before):
        change_of_weight = change.get(name + _WHOLE)
        if change_of_weight is None:
            change_of_weight = change[name + _TALL].float() @ change[name + _WIDE].float()
        if change_of_weight.shape != before[name].shape:
            raise KeyError(f"{name} of the shape {tuple(change_of_weight.shape)}")
        added[name] = change_of_weight.float()
    for name, value in added.items():
        before[name].add_(value)


def _distinct_names(weights: Mapping[str, Tensor]) -> list[str]:
    """Return the names of weights; of a shared weight, only the first."""
    name_of: dict[int, str] = {}
    for name, value in weights.items():
        name_of.setdefault(value.data_ptr(), name)
    return list(name_of.values())


def read_config(folder: Path, *, kind: str, refused: Callable[[str], UnbagError]) -> dict[str, Any]:
    """Read the config of a folder of a kind; `refused` makes the error from what is wrong."""
    if not folder.is_dir():
        raise refused("it is a file" if folder.exists() else "there is no such folder")
    file = folder / CONFIG
    check_finished(folder, file)
    if not file.is_file():
        raise refused(f"it has no {CONFIG}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refused(f"its {CONFIG} cannot be read: {said_by(error)}") from error
    found_kind = config.get("kind") if isinstance(config, dict) else None
    if found_kind is None:
        raise refused(f"its {CONFIG} has no kind")
    if found_kind != kind:
        raise refused(f"its {CONFIG} has the kind {found_kind!r}")
    return dict(config)


def wrong_config(error: Exception) -> str:
    """Describe what is wrong with a config of the right kind."""
    if isinstance(error, KeyError):
        return f"its {CONFIG} has no {said_by(error)}"
    return f"its {CONFIG} is not as training writes it: {said_by(error)}"
