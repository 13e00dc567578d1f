"""Loading of models of open_clip with weights, config, tokenizer and image preparation."""

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
    ModelSpec,
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
"""Part of the fingerprint: increase it whenever a change here alters a result."""
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
    """Load a model by tag, file, folder or hub name; `parse` documents the forms."""
    source = find_source(parse(name))
    model = _with_weights(source)
    tokenizer = load_tokenizer(source.tokenizer, source.arch)
    _check_tokenizer(model, tokenizer, source.arch)
    preparation = full_preparation(source.preparation, model.visual.image_size)
    torch_dtype: torch.dtype = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    encoder = OpenClip(
        model,
        name=source.name,
        fingerprint=fingerprint_of(model, source.config, preparation, tokenizer, torch_dtype),
        tokenizer=tokenizer,
        prepare=make_transform(preparation),
        device=device,
        dtype=torch_dtype,
        compiles=compiles,
        trained_on=source.trained_on,
        config=source.config,
        preparation=preparation,
    )
    notes = [*source.notes]
    if reason := encoder.text.whole_because:
        notes.append(
            f"{encoder.name}: captions are padded to {encoder.context} tokens, since {reason}"
        )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return encoder


@dataclass(frozen=True)
class OpenClipSource:
    """All files and settings of a model."""

    name: str
    arch: str
    config: dict[str, Any]
    weights: Path
    tokenizer: str
    """Name for open_clip.get_tokenizer."""
    preparation: dict[str, Any] = field(default_factory=dict)
    """Preparation of images where it differs from open_clip's default."""
    trained_on: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user about unexpected settings."""
    hint: str = ""
    """Hint if the weights do not fit."""


def find_source(spec: ModelSpec) -> OpenClipSource:
    """Find the files and settings of a model by tag, file, folder or hub name."""
    if spec.tag:
        return _by_tag(spec)
    if spec.hub:
        return _by_hub(spec)
    if spec.path is not None and spec.has_config:
        name = folder_name(spec.path.resolve())
        return _by_folder(spec.path, find_weights(spec.path), name)
    if spec.path is not None:
        return _by_file(spec, find_weights(spec.path))
    raise AssertionError("library.parse sets one of tag, hub and path")


def _by_tag(spec: ModelSpec) -> OpenClipSource:
    arch, tag = spec.arch, spec.tag
    config = architecture(arch)
    pretrained_config = library().get_pretrained_cfg(arch, tag)
    if not pretrained_config:
        base_arch = arch.removesuffix(QUICK)
        if arch != base_arch and library().get_pretrained_cfg(base_arch, tag):
            raise UnbagError(
                f"{base_arch}/{tag} was trained with GELU, and {arch} uses QuickGELU",
                expected="the activation the weights were trained with: the scores would be wrong",
                hint=f"write open_clip:{base_arch}/{tag}",
            )
        raise nearest(f"weights of {arch}", tag, library().list_pretrained_tags_by_model(arch))
    note = check_tag_activation(
        arch, tag, config, is_tag_quick=bool(pretrained_config.get("quick_gelu"))
    )
    return OpenClipSource(
        name=f"{arch}/{tag}{_pin(spec)}",
        arch=arch,
        config=config,
        weights=Path(_downloaded(lambda: _download(pretrained_config, spec.revision), spec.text)),
        tokenizer=tokenizer_name(arch),
        preparation={key: pretrained_config[key] for key in PARTS if key in pretrained_config},
        trained_on=trained_on(tag),
        notes=(note,) if note else (),
    )


def _download(pretrained_config: Mapping[str, Any], revision: str | None) -> str:
    hub, _, file = str(pretrained_config.get("hf_hub", "")).rpartition("/")
    if revision is None or not hub:
        return str(library().download_pretrained(dict(pretrained_config)))
    return str(
        library().pretrained.download_pretrained_from_hf(hub, file or None, revision=revision)
    )


def _by_hub(spec: ModelSpec) -> OpenClipSource:
    def fetch(file: str | None) -> str:
        get = library().pretrained.download_pretrained_from_hf
        return str(get(spec.hub, file, revision=spec.revision))

    def fetch_tokenizer() -> str:
        from huggingface_hub import snapshot_download

        allowed = [CONFIG, *_TOKENIZER_FILES]
        return str(snapshot_download(spec.hub, revision=spec.revision, allow_patterns=allowed))

    config = Path(_downloaded(lambda: fetch(CONFIG), spec.text))
    weights = Path(_downloaded(lambda: fetch(None), spec.text))
    source = _by_folder(config.parent, weights, spec.hub)
    # The tokenizer of the same revision; open_clip itself always uses the newest.
    tokenizer_name_in_config = source.config["text_cfg"].get("hf_tokenizer_name")
    if spec.revision is None or tokenizer_name_in_config not in (None, "", spec.hub):
        tokenizer = f"hf-hub:{spec.hub}"
    elif not tokenizer_name_in_config:
        tokenizer = f"local-dir:{config.parent}"
    else:
        tokenizer = f"local-dir:{_downloaded(fetch_tokenizer, spec.text)}"
    return replace(source, name=f"{spec.hub}{_pin(spec)}", tokenizer=tokenizer)


def _pin(spec: ModelSpec) -> str:
    """Return the suffix of a revision for the name."""
    return f"@{spec.revision}" if spec.revision else ""


def _downloaded(fetch: Callable[[], str], text: str) -> str:
    """Download, and convert any error to a UnbagError."""
    try:
        with quiet_hub():
            return fetch()
    except Exception as error:
        # The hub client, urllib and open_clip raise different errors.
        raise UnbagError(
            f"the weights of open_clip:{text} could not be downloaded: {said_by(error, most=400)}",
            expected="a network, or the weights in the cache (HF_HOME); HF_HUB_OFFLINE=1 uses "
            "only the cache",
            hint="download them on a machine with a network and use the file: open_clip:ARCH@PATH",
        ) from error


def _by_folder(folder: Path, weights: Path, name: str) -> OpenClipSource:
    content = read_config(folder)
    if content is None:
        raise UnbagError(
            f"the folder {folder} has no {CONFIG}",
            expected="a folder as open_clip exports it",
            hint="name the architecture instead: open_clip:ARCH@PATH",
        )
    return OpenClipSource(
        name=name,
        arch=name,
        config=content["model_cfg"],
        weights=weights,
        tokenizer=f"local-dir:{folder}",
        preparation=preparation_of_config(content),
        hint=f"its {CONFIG} does not describe these weights: export the model again",
    )


def _by_file(spec: ModelSpec, weights: Path) -> OpenClipSource:
    arch = spec.arch
    config = architecture(arch)
    path_text = str(spec.path)
    content = read_config(weights.parent)
    if content is None:
        notes = [check_file_activation(arch, config, weights, path_text), note_on_preparation(arch)]
        preparation = usual_preparation(arch)
    else:
        _check_config(arch, config, content["model_cfg"], path_text)
        notes, preparation = [], preparation_of_config(content)
    trained_arch = trainer_parameters(weights).get("model", "")
    return OpenClipSource(
        name=f"{arch}@{label_of_file(weights)}",
        arch=arch,
        config=config,
        weights=weights,
        tokenizer=tokenizer_name(arch),
        preparation=preparation,
        notes=tuple(note for note in notes if note),
        hint=f"the trainer's params.txt says model: {trained_arch}" if trained_arch else "",
    )


def read_config(folder: Path) -> dict[str, Any] | None:
    """Read the config that open_clip exports with weights; None if there is none."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        config = content["model_cfg"]
        _ = (config["vision_cfg"], config["text_cfg"], config["embed_dim"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnbagError(
            f"{path} is no config of open_clip: {type(error).__name__} {error}",
            expected="model_cfg with embed_dim, vision_cfg and text_cfg",
        ) from error
    return dict(content)


def _check_config(arch: str, ours: dict[str, Any], theirs: dict[str, Any], path_text: str) -> None:
    quick = is_quick(ours)
    if is_quick(theirs) != quick and has_activation_choice(ours):
        reason = f"the {CONFIG} beside the file has {activation_name(not quick)}"
        raise wrong_activation(arch, quick, Evidence(not quick, reason), path_text)
    for key in _TOKENIZER_KEYS:
        own_value, value = ours["text_cfg"].get(key), theirs["text_cfg"].get(key)
        if (own_value or None) != (value or None):
            raise UnbagError(
                f"the {CONFIG} beside {path_text} has {key} {value!r}, {arch} has {own_value!r}",
                expected="the tokenizer the weights were trained with: the scores would be wrong",
                hint="open_clip:local-dir:FOLDER uses architecture and tokenizer of the folder",
            )


def label_of_file(weights: Path) -> str:
    """Return the name of a file, with its folder if the name is generic."""
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
            "transformers load their config from the hub or its cache (HF_HOME)",
            hint="run it once with a network, or set hf_model_name to a folder",
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
    preparation: Mapping[str, Any],
    tokenizer: Tokenizer,
    dtype: torch.dtype,
) -> str:
    """Fingerprint of a model before it is moved or converted."""
    hf_config = getattr(getattr(model, "text", None), "config", None)
    return fingerprint(
        "open_clip",
        model.state_dict(),
        json.dumps(config, sort_keys=True, default=str),
        hf_config.to_json_string() if hf_config is not None else "",
        json.dumps(preparation, sort_keys=True, default=str),
        tokenizer.identity,
        str(dtype),
        _VERSION,
    )
