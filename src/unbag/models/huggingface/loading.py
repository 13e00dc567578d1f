"""Loading of models and their parts from a folder or from the Hugging Face hub.

`load` chooses the kind of model by its configuration. The other functions read parts of models of
transformers; a language model may also be a .gguf file. No code of a checkpoint is executed:
weights are safetensors or loaded with `weights_only`, and code in repositories is never run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from warnings import catch_warnings, simplefilter

from unbag.errors import UnbagError, said_by
from unbag.models.loading import folder_name, quiet_hub
from unbag.models.weights import check_finite

if TYPE_CHECKING:
    import torch

    from unbag.models.layers import Pool
    from unbag.types import DualEncoder, Generator, Scorer

SUPPORTED = (
    "dual encoders (CLIP, SigLIP, SigLIP 2, ALIGN, Chinese-CLIP, AltCLIP, MetaCLIP 2 ...), "
    "matching heads (BlipForImageTextRetrieval, Blip2ForImageTextRetrieval) and chat models"
)
Loaded = TypeVar("Loaded")
_MAX_LISTED = 4
"""Number of weight names in a message."""
_MAX_NAME_LENGTH = 96
_HUB_NAME = re.compile(
    r"(?=.{1,96}$)[A-Za-z0-9_]([\w.-]*\w)?(/[A-Za-z0-9_]([\w.-]*\w)?)?", re.ASCII
)
"""Valid names on the hub."""
_IRRELEVANT_KEYS = frozenset({"_name_or_path", "transformers_version", "dtype", "torch_dtype"})
"""Configuration keys that do not affect results."""
Pooling = Literal["mean", "cls", "lasttoken"]
POOL_OF: Mapping[Pooling, Pool] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""Pooling of tokens by its name in sentence-transformers."""


def load(
    name: str, *, device: str = "cpu", dtype: str = "auto", compiles: bool = False
) -> DualEncoder | Generator | Scorer:
    """Load a dual encoder, a matching head or a chat model, according to the configuration."""
    need_transformers(f"hf:{name}")
    source = parse_source(name)
    config = read_config(source)
    heads = config.architectures or []
    if not isinstance(heads, list) or not all(isinstance(head, str) for head in heads):
        raise UnbagError(
            f"{source.path}: the configuration has architectures: {heads!r}",
            expected="a list of names of classes, as `save_pretrained` writes it",
            hint="correct config.json, or use the one that came with the weights",
        )
    if any(head in ("BlipForImageTextRetrieval", "Blip2ForImageTextRetrieval") for head in heads):
        from unbag.models.huggingface.blip import load_match

        return load_match(source, heads[0], device=device, dtype=dtype, compiles=compiles)
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoModel

    if _is_dual(config):
        from unbag.models.huggingface.dual import HfDual

        return read_encoders(
            HfDual, source, AutoModel, device=device, dtype=dtype, compiles=compiles
        )
    if type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        from unbag.models.huggingface.chat import load_chat

        return load_chat(
            source.path, revision=source.revision, device=device, dtype=dtype, compiles=compiles
        )
    raise UnbagError(
        f"{source.path} is a {config.model_type!r} ({', '.join(heads) or 'no architecture named'})",
        expected=SUPPORTED,
        hint="docs/how-to/extend.md shows how to add a model of another kind",
    )


def _is_dual(config: Any) -> bool:
    from transformers import MODEL_MAPPING

    from unbag.models.huggingface.dual import EXCLUDED

    if config.model_type in EXCLUDED or type(config) not in MODEL_MAPPING:
        return False
    model_class = MODEL_MAPPING[type(config)]
    return hasattr(model_class, "get_image_features") and hasattr(model_class, "get_text_features")


@dataclass(frozen=True)
class HfSource:
    """The location of a checkpoint."""

    path: str
    """A folder, or a name on the hub."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""

    @property
    def name(self) -> str:
        """The last part of the path, with the revision, so that revisions differ."""
        if self.is_folder:
            return folder_name(Path(self.path))
        return Path(self.path).name + (f"@{self.revision}" if self.revision else "")

    @property
    def is_folder(self) -> bool:
        """Whether the path is a local folder."""
        return Path(self.path).is_dir()


def parse_source(text: str) -> HfSource:
    """Parse `NAME_OR_PATH[@REVISION]`; anything that exists on disk is a path."""
    local = on_disk(text)
    if local is not None and not (local / "config.json").is_file():
        is_file = local.is_file()
        raise UnbagError(
            f"{local} is a file" if is_file else f"the folder {local} has no config.json",
            expected="a folder with config.json, as `save_pretrained` writes it",
            hint="name its folder; a checkpoint of OpenCLIP is open_clip:ARCH@FILE"
            if is_file
            else "check the path; the checkpoint may be in a subfolder",
        )
    if local is not None:
        return HfSource(str(local))
    path, at, revision = text.rpartition("@")
    if not at:
        path, revision = text, ""
    if on_disk(path) is not None:
        raise UnbagError(
            f"{path} is on disk, and {revision!r} is a revision",
            expected="a revision only with a name on the hub",
            hint="leave the revision out, or name a folder of that revision",
        )
    if not path or (at and not revision) or _looks_local(path):
        raise UnbagError(
            f"there is no folder {text!r}",
            expected="a folder with config.json, or a name on the hub (owner/name[@revision])",
            hint="check the path",
        )
    if not _HUB_NAME.fullmatch(path) or ".." in path or "--" in path:
        shown = (
            path if len(path) <= _MAX_NAME_LENGTH else f"{path[:40]}... ({len(path)} characters)"
        )
        raise UnbagError(
            f"{shown!r} is no folder, and no valid name on the hub",
            expected="owner/name of letters, digits, '-', '_' and '.', at most 96 characters",
            hint="check the name, or the path of the folder",
        )
    return HfSource(path, revision or None)


def on_disk(text: str) -> Path | None:
    """Return the path if it exists; names may be too long for a path, or of no user (~x)."""
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _looks_local(path: str) -> bool:
    """Return whether it is neither `name` nor `owner/name`, as on the hub."""
    return path.startswith((".", "~", os.sep)) or path.count("/") > 1


def read_config(source: HfSource) -> Any:
    """Read the configuration."""
    from transformers import AutoConfig

    return _read(source, "its configuration", AutoConfig.from_pretrained)


def read_tokenizer(source: HfSource) -> Any:
    """Read the tokenizer."""
    from transformers import AutoTokenizer

    return _read(source, "its tokenizer", AutoTokenizer.from_pretrained)


def read_processor(source: HfSource) -> Any:
    """Read the processor of a chat model: image processor, tokenizer and chat template."""
    from transformers import AutoProcessor

    return _read(source, "its processor", AutoProcessor.from_pretrained)


def read_image_processor(source: HfSource) -> Any:
    """Read the image processor."""
    from transformers import AutoImageProcessor

    return _read(source, "its image processor", AutoImageProcessor.from_pretrained)


def read_encoders(
    make: Callable[..., Loaded], source: HfSource, kind: Any, **options: Any
) -> Loaded:
    """Call `make` with weights of class `kind`, tokenizer and image processor."""
    parts = read_weights(source, kind), read_tokenizer(source), read_image_processor(source)
    return make(*parts, name=source.name, **options)


def read_weights(source: HfSource, kind: Any, *, unused: tuple[str, ...] = ()) -> Any:
    """Load a model of class `kind` with all its weights from the checkpoint.

    transformers initializes missing weights randomly; here they are an error, unless their names
    begin with one of `unused`.
    """

    def load(path: str, **options: Any) -> tuple[Any, Any]:
        loaded: tuple[Any, Any] = kind.from_pretrained(
            path, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
        return loaded

    model, info = _read(source, "its weights", load)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(unused))
    mismatched = sorted(
        f"{name} {tuple(found)} for {tuple(expected)}"
        for name, found, expected in info["mismatched_keys"]
    )
    if missing or mismatched or info["error_msgs"]:
        unexpected = len(info["unexpected_keys"])
        problems = [_summarize(missing, "missing"), _summarize(mismatched, "of another shape")]
        problems += [f"{unexpected} unknown to it"] if unexpected else []
        problems += [str(problem) for problem in info["error_msgs"]]
        raise UnbagError(
            f"the weights of {source.path} do not fill {type(model).__name__}: "
            + "; ".join(problem for problem in problems if problem),
            expected="a checkpoint of this architecture; missing weights would be random",
            hint="use the complete model, not one encoder or part of it, with its config.json",
        )
    check_finite(model.state_dict(), source=source.path)
    return model.eval().requires_grad_(False)


def _summarize(names: list[str], what: str) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{len(names)} {what} ({', '.join(names[:_MAX_LISTED])}{more})"


def _read(source: HfSource, what: str, load: Callable[..., Loaded]) -> Loaded:
    options = {"revision": source.revision} if source.revision else {}
    try:
        with quietly():
            return load(source.path, trust_remote_code=False, **options)
    except UnbagError:
        raise
    except Exception as error:
        # Readers raise any error on damaged files: KeyError, struct.error, SafetensorError ...
        is_from_hub = isinstance(error, OSError) and not source.is_folder
        # Users who meant a folder should not look for connection problems.
        prefix = "there is no such folder, and the hub client reports: " if is_from_hub else ""
        # Some messages list every known kind.
        lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
        raise UnbagError(
            f"{source.path}: {what} cannot be read: {prefix}{said_by(ValueError(' '.join(lines)))}",
            expected="config.json, weights, tokenizer and image processor, as `save_pretrained` "
            "writes them",
            hint=_hint(source, what, error),
        ) from error


def _hint(source: HfSource, what: str, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the package that is named above"
    message = str(error)
    if isinstance(error, json.JSONDecodeError) or "not a valid JSON" in message:
        return "that file is not valid JSON: download it again"
    if "does not recognize this architecture" in message or "Unrecognized model" in message:
        return "check model_type in config.json; a newer version of transformers may support it"
    if "Unrecognized configuration class" in message:
        return "its config.json is of another kind of model; use a model of the required kind"
    if what == "its weights" and source.is_folder and "no file named" not in message:
        return "the file of the weights is damaged or incomplete: copy or download it again"
    if source.is_folder:
        return "check that the folder is complete; save the processor or tokenizer there too"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set: only downloaded models are found; unset it, or name a folder"
    if "/" in source.path and Path(source.path).parent.is_dir():
        return f"if a folder is meant: {Path(source.path).parent} has no {Path(source.path).name}"
    return (
        "check the name, the revision and the connection; a gated model needs `hf auth login`; "
        "a folder on disk works without a network"
    )


def checkpoint_file(source: HfSource, name: str) -> Any:
    """Read a JSON file of the checkpoint; empty if there is none."""
    from transformers.utils.hub import cached_file

    path: str | None = str(Path(source.path) / name)
    if not source.is_folder:
        with quietly():
            path = cached_file(
                source.path,
                name,
                revision=source.revision,
                _raise_exceptions_for_missing_entries=False,
            )
    if path is None or not Path(path).is_file():
        return {}
    return json.loads(Path(path).read_text(encoding="utf-8"))


def sentence_pooling(source: HfSource) -> Pooling:
    """Return the pooling of a sentence encoder by its modules.json; `mean` if there is none."""
    modules = [
        str(module["type"]).rpartition(".")[2]
        for module in checkpoint_file(source, "modules.json") or []
    ]
    settings = checkpoint_file(source, "1_Pooling/config.json")
    modes = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    modes = [mode.removesuffix("_token").removesuffix("_tokens") for mode in modes]
    modes = [m for m in modes if m != "include_prompt"] or [settings.get("pooling_mode", "mean")]
    unsupported = sorted({*modules} - {"Transformer", "Pooling", "Normalize"})
    if unsupported or len(modes) > 1 or modes[0] not in ("mean", "cls", "lasttoken"):
        raise UnbagError(
            f"{source.path} pools tokens by {' and '.join([*modes, *unsupported])}",
            expected="mean, cls or lasttoken, and no layers after it",
            hint="use another sentence encoder",
        )
    return cast(Pooling, modes[0])


def read_language_model(path: str, *, device: str = "cpu") -> tuple[Any, Any]:
    """Load a causal language model in float32 and its tokenizer: a folder, .gguf file or name."""
    need_transformers("a language model")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any
    source = find_language_model(path)
    if isinstance(source, Path):
        # Quantized weights are expanded.
        options = {"gguf_file": source.name, "trust_remote_code": False}
        try:
            with quietly():
                model = AutoModelForCausalLM.from_pretrained(str(source.parent), **options)
                tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **options)
        except Exception as error:
            # Readers raise any error on a damaged file: struct.error, KeyError ...
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnbagError(
                f"{source} cannot be read as a language model: {line}",
                expected="an intact GGUF file of a kind that transformers supports",
                hint="pip install gguf accelerate"
                if isinstance(error, ImportError)
                else "copy or download the file again, or use a folder with config.json",
            ) from error
    else:
        model, tokenizer = read_weights(source, AutoModelForCausalLM), read_tokenizer(source)
    # Some versions do not support `.float()` on models from GGUF files.
    return model.to(device, torch.float32).eval().requires_grad_(False), tokenizer


def find_language_model(path: str) -> Path | HfSource:
    """Find a language model: a .gguf file, a folder or a name; nothing is loaded."""
    local = on_disk(path)
    if local is None and (not path or path.endswith(".gguf") or _looks_local(path)):
        raise _no_language_model(
            path, hint="check the path; it can be a folder written by save_pretrained"
        )
    if local is not None and local.is_file():
        if local.suffix == ".gguf":
            return local
        raise _no_language_model(path, reason=": it is a file", hint="name its folder")
    source = parse_source(path)
    owner = Path(source.path).parent
    if not source.is_folder and owner.name and owner.is_dir() and not _is_downloaded(source):
        # FOLDER/NAME looks like OWNER/NAME of the hub, and the folder exists.
        raise _no_language_model(
            path,
            reason=f": the folder {owner} has no {Path(source.path).name}",
            hint="check the path; to use a model of the hub, download it first: "
            f"hf download {source.path}",
        )
    return source


def _is_downloaded(source: HfSource) -> bool:
    """Return whether the hub client has it in its cache."""
    try:
        hub: Any = import_module("huggingface_hub")
    except ImportError:
        return False
    path = hub.try_to_load_from_cache(source.path, "config.json", revision=source.revision)
    return isinstance(path, str)


def _no_language_model(path: str, *, reason: str = "", hint: str) -> UnbagError:
    return UnbagError(
        f"there is no language model at {path!r}{reason}",
        expected="a folder of transformers, a .gguf file, or a name on the hub",
        hint=hint,
    )


def torch_dtype(name: str) -> torch.dtype:
    """Return a dtype by name; auto is float32, since small differences decide results."""
    import torch

    dtype = getattr(torch, "float32" if name == "auto" else name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def plain_config(config: Any) -> str:
    """Return the relevant part of a configuration as JSON, for a fingerprint."""

    def relevant(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: relevant(v) for k, v in value.items() if k not in _IRRELEVANT_KEYS}
        return value

    return json.dumps(relevant(config.to_dict()), sort_keys=True, default=str)


def tokenizer_rules(tokenizer: Any) -> str:
    """Return the rules of a tokenizer for a fingerprint; empty without a tokenizer."""
    if tokenizer is None:
        return ""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return str(backend.to_str() if backend else repr(sorted(tokenizer.get_vocab().items())))


def need_transformers(spec: str) -> None:
    """Raise UnbagError if transformers is not installed."""
    try:
        import_module("transformers")
    except ImportError as error:
        raise UnbagError(
            f"{spec} needs the package 'transformers' ({error})",
            hint="pip install 'unbag[transformers]'",
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence warnings, logs and progress bars of transformers.

    Bars of downloads stay, since these take minutes.
    """
    logging: Any = import_module("transformers.utils.logging")
    hub: Any = import_module("huggingface_hub.utils")
    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    shows_downloads = not hub.are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if shows_downloads:
        hub.enable_progress_bars()
    try:
        with catch_warnings(), quiet_hub():
            simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()
