"""Loads models of open_clip: finds their weights, config, tokenizer and image preparation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from unbag.errors import UnbagError, said_by
from unbag.models.loading import folder_name, quiet_hub
from unbag.models.open_clip.checkpoint import (
    Evidence,
    activation_name,
    build,
    check_file_activation,
    check_tag_activation,
    find_weights,
    has_activation_choice,
    is_quick,
    load_state,
    read_state,
    trainer_parameters,
    wrong_activation,
)
from unbag.models.open_clip.encoder import (
    PARTS,
    OpenClip,
    full_preparation,
    make_transform,
    note_on_preparation,
    preparation_of_config,
    usual_preparation,
)
from unbag.models.open_clip.library import (
    QUICK,
    WantedWeights,
    architecture,
    library,
    nearest,
    parse,
    tokenizer_name,
    trained_on,
)
from unbag.models.open_clip.text import (
    Classed,
    Masked,
    Native,
    Tokenizer,
    check_fit,
    load_tokenizer,
    text_network,
)
from unbag.models.weights import fingerprint

_VERSION = "open_clip-1"
"""Of the forward pass and of `prepare`: raised whenever either changes a number."""
CONFIG = "open_clip_config.json"
_GENERIC_NAMES = ("epoch_", "open_clip_", "pytorch_model", "model", "checkpoint", "latest", "best")
_TOKENIZER_FILES = ("*token*", "vocab*", "merges*", "spiece*", "sentencepiece*")
_TOKENIZER_KEYS = ("hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs")


def load(
    name: str,
    *,
    device: str = "cpu",
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    compiles: bool = False,
) -> OpenClip:
    """A model by tag, file, folder or hub name; `parse` has the forms."""
    source = find_source(parse(name))
    model = _with_weights(source)
    tokenizer = load_tokenizer(source.tokenizer, source.arch)
    _check_tokenizer(model, tokenizer, source.arch)
    prepared = full_preparation(source.preparation, model.visual.image_size)
    kind: torch.dtype = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    encoder = OpenClip(
        model,
        name=source.name,
        fingerprint=fingerprint_of(model, source.config, prepared, tokenizer, kind),
        tokenizer=tokenizer,
        prepare=make_transform(prepared),
        device=device,
        dtype=kind,
        compiles=compiles,
        trained_on=source.trained_on,
        config=source.config,
        preparation=prepared,
    )
    notes = [*source.notes]
    if why := encoder.text.whole_because:
        notes.append(f"{encoder.name}: captions run at all {encoder.context} tokens, since {why}")
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return encoder


@dataclass(frozen=True)
class OpenClipSource:
    """Everything of a model but the model."""

    name: str
    arch: str
    config: dict[str, Any]
    weights: Path
    tokenizer: str
    """As open_clip.get_tokenizer takes it."""
    preparation: dict[str, Any] = field(default_factory=dict)
    """Of images, where it is not open_clip's default."""
    trained_on: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a user must know and may not have expected."""
    hint: str = ""
    """Way out if the weights do not fit."""


def find_source(wanted: WantedWeights) -> OpenClipSource:
    """By tag, by file, by folder or from the hub."""
    if wanted.tag:
        return _by_tag(wanted)
    if wanted.hub:
        return _by_hub(wanted)
    if wanted.path is not None and wanted.has_config:
        name = folder_name(wanted.path.resolve())
        return _by_folder(wanted.path, find_weights(wanted.path), name)
    if wanted.path is not None:
        return _by_file(wanted, find_weights(wanted.path))
    raise AssertionError("library.parse sets one of tag, hub and path")


def _by_tag(wanted: WantedWeights) -> OpenClipSource:
    arch, tag = wanted.arch, wanted.tag
    config = architecture(arch)
    known = library().get_pretrained_cfg(arch, tag)
    if not known:
        plain = arch.removesuffix(QUICK)
        if arch != plain and library().get_pretrained_cfg(plain, tag):
            raise UnbagError(
                f"{plain}/{tag} was trained with GELU, and {arch} computes with QuickGELU",
                expected="the activation the weights were trained with: the scores would be wrong",
                hint=f"write open_clip:{plain}/{tag}",
            )
        raise nearest(f"weights of {arch}", tag, library().list_pretrained_tags_by_model(arch))
    note = check_tag_activation(arch, tag, config, is_tag_quick=bool(known.get("quick_gelu")))
    return OpenClipSource(
        name=f"{arch}/{tag}{_pin(wanted)}",
        arch=arch,
        config=config,
        weights=Path(_downloaded(lambda: _download(known, wanted.revision), wanted.text)),
        tokenizer=tokenizer_name(arch),
        preparation={key: known[key] for key in PARTS if key in known},
        trained_on=trained_on(tag),
        notes=(note,) if note else (),
    )


def _download(known: Mapping[str, Any], revision: str | None) -> str:
    hub, _, file = str(known.get("hf_hub", "")).rpartition("/")
    if revision is None or not hub:
        return str(library().download_pretrained(dict(known)))
    return str(
        library().pretrained.download_pretrained_from_hf(hub, file or None, revision=revision)
    )


def _by_hub(wanted: WantedWeights) -> OpenClipSource:
    def fetch(file: str | None) -> str:
        get = library().pretrained.download_pretrained_from_hf
        return str(get(wanted.hub, file, revision=wanted.revision))

    def fetch_tokenizer() -> str:
        from huggingface_hub import snapshot_download

        allowed = [CONFIG, *_TOKENIZER_FILES]
        return str(snapshot_download(wanted.hub, revision=wanted.revision, allow_patterns=allowed))

    config = Path(_downloaded(lambda: fetch(CONFIG), wanted.text))
    weights = Path(_downloaded(lambda: fetch(None), wanted.text))
    found = _by_folder(config.parent, weights, wanted.hub)
    # The tokenizer of the same revision; open_clip itself always takes the newest of the hub.
    named = found.config["text_cfg"].get("hf_tokenizer_name")
    if wanted.revision is None or named not in (None, "", wanted.hub):
        tokenizer = f"hf-hub:{wanted.hub}"
    elif not named:
        tokenizer = f"local-dir:{config.parent}"
    else:
        tokenizer = f"local-dir:{_downloaded(fetch_tokenizer, wanted.text)}"
    return replace(found, name=f"{wanted.hub}{_pin(wanted)}", tokenizer=tokenizer)


def _pin(wanted: WantedWeights) -> str:
    """Two revisions are two models."""
    return f"@{wanted.revision}" if wanted.revision else ""


def _downloaded(fetch: Callable[[], str], text: str) -> str:
    """Whatever a download raises, said as something a user can mend."""
    try:
        with quiet_hub():
            return fetch()
    except Exception as error:
        # The hub's client, urllib and open_clip each raise kinds of their own.
        raise UnbagError(
            f"the weights of open_clip:{text} could not be had: {said_by(error, most=400)}",
            expected="a network, or the weights in the cache (HF_HOME); HF_HUB_OFFLINE=1 looks "
            "only there",
            hint="download them on a machine with a network and name the file: open_clip:ARCH@PATH",
        ) from error


def _by_folder(folder: Path, weights: Path, name: str) -> OpenClipSource:
    said = read_config(folder)
    if said is None:
        raise UnbagError(
            f"the folder {folder} has no {CONFIG}",
            expected="a folder as open_clip exports it",
            hint="name the architecture instead: open_clip:ARCH@PATH",
        )
    return OpenClipSource(
        name=name,
        arch=name,
        config=said["model_cfg"],
        weights=weights,
        tokenizer=f"local-dir:{folder}",
        preparation=preparation_of_config(said),
        hint=f"its {CONFIG} does not describe these weights: export the model again",
    )


def _by_file(wanted: WantedWeights, weights: Path) -> OpenClipSource:
    arch = wanted.arch
    config = architecture(arch)
    written = str(wanted.path)
    said = read_config(weights.parent)
    if said is None:
        notes = [check_file_activation(arch, config, weights, written), note_on_preparation(arch)]
        preparation = usual_preparation(arch)
    else:
        _check_config(arch, config, said["model_cfg"], written)
        notes, preparation = [], preparation_of_config(said)
    trained = trainer_parameters(weights).get("model", "")
    return OpenClipSource(
        name=f"{arch}@{label_of_file(weights)}",
        arch=arch,
        config=config,
        weights=weights,
        tokenizer=tokenizer_name(arch),
        preparation=preparation,
        notes=tuple(note for note in notes if note),
        hint=f"the trainer's params.txt says model: {trained}" if trained else "",
    )


def read_config(folder: Path) -> dict[str, Any] | None:
    """What open_clip writes beside weights it exports, if it is there."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        config = said["model_cfg"]
        _ = (config["vision_cfg"], config["text_cfg"], config["embed_dim"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnbagError(
            f"{path} is no config of open_clip: {type(error).__name__} {error}",
            expected="model_cfg with embed_dim, vision_cfg and text_cfg",
        ) from error
    return dict(said)


def _check_config(arch: str, ours: dict[str, Any], theirs: dict[str, Any], written: str) -> None:
    quick = is_quick(ours)
    if is_quick(theirs) != quick and has_activation_choice(ours):
        because = f"the {CONFIG} beside the file says {activation_name(not quick)}"
        raise wrong_activation(arch, quick, Evidence(not quick, because), written)
    for key in _TOKENIZER_KEYS:
        mine, said = ours["text_cfg"].get(key), theirs["text_cfg"].get(key)
        if (mine or None) != (said or None):
            raise UnbagError(
                f"the {CONFIG} beside {written} says {key} {said!r}, and {arch} has {mine!r}",
                expected="the tokenizer the weights were trained with: the scores would be wrong",
                hint="open_clip:local-dir:FOLDER takes architecture and tokenizer from there",
            )


def label_of_file(weights: Path) -> str:
    """The file's name; with its folder's if every run calls its files so."""
    path = weights.resolve()
    if not path.stem.lower().startswith(_GENERIC_NAMES):
        return weights.stem
    folders = [
        p for p in path.parent.parts[::-1] if p.lower() not in ("checkpoints", "weights", "/")
    ]
    return f"{folders[0]}/{weights.stem}" if folders else weights.stem


def _with_weights(source: OpenClipSource) -> Any:
    state = read_state(source.weights)
    try:
        model = build(source.config, has_bias="logit_bias" in state)
    except (OSError, RuntimeError, TypeError, KeyError, ValueError) as error:
        raise UnbagError(
            f"open_clip cannot build {source.arch}: {said_by(error)}",
            expected="a config of open_clip whose encoders are on this machine; encoders of "
            "transformers take their config from the hub or its cache (HF_HOME)",
            hint="run it once with a network, or name a folder as hf_model_name",
        ) from error
    load_state(model, state, source=source.weights.name, arch=source.arch, hint=source.hint)
    return model


def _check_tokenizer(model: Any, tokenizer: Tokenizer, arch: str) -> None:
    text = text_network(model)
    if isinstance(text, Masked):
        check_fit(tokenizer, arch=arch, rows=int(text.encoder.config.vocab_size), pool="", end=None)
    elif isinstance(text, Native | Classed):
        rows = int(text.encoder.token_embedding.num_embeddings)
        pool, end = (text.pool, text.end) if isinstance(text, Native) else ("class", None)
        check_fit(tokenizer, arch=arch, rows=rows, pool=pool, end=end)


def fingerprint_of(
    model: Any,
    config: Mapping[str, Any],
    prepared: Mapping[str, Any],
    tokenizer: Tokenizer,
    dtype: torch.dtype,
) -> str:
    """Of all that decides a number; the model before it is moved or rounded."""
    hub = getattr(getattr(model, "text", None), "config", None)
    return fingerprint(
        "open_clip",
        model.state_dict(),
        json.dumps(config, sort_keys=True, default=str),
        hub.to_json_string() if hub is not None else "",
        json.dumps(prepared, sort_keys=True, default=str),
        tokenizer.identity,
        str(dtype),
        _VERSION,
    )
