"""Loads models and their parts from a folder or from the Hugging Face hub.

`load` reads the configuration to see which kind of model it is; the readers below are shared by all
that use transformers, and a language model may also be a .gguf file. Nothing of a checkpoint is
executed: weights are safetensors or loaded with `weights_only`, and code that a repository brings
along is never run.
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
_SHOWN = 4
"""Names of weights that a message lists."""
_LONGEST_NAME = 96
_HUB_NAME = re.compile(
    r"(?=.{1,96}$)[A-Za-z0-9_]([\w.-]*\w)?(/[A-Za-z0-9_]([\w.-]*\w)?)?", re.ASCII
)
"""As the hub checks names."""
_VOLATILE = frozenset({"_name_or_path", "transformers_version", "dtype", "torch_dtype"})
"""Where a checkpoint lay, who saved it and how: no number depends on it."""
Pooling = Literal["mean", "cls", "lasttoken"]
POOL_OF: Mapping[Pooling, Pool] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""How tokens are pooled to a sentence, by the names of sentence-transformers."""


def load(
    name: str, *, device: str = "cpu", dtype: str = "auto", compiles: bool = False
) -> DualEncoder | Generator | Scorer:
    """A dual encoder, a matching head or a chat model: the configuration says which."""
    need_transformers(f"hf:{name}")
    source = parse_source(name)
    config = read_config(source)
    heads = config.architectures or []
    if not isinstance(heads, list) or not all(isinstance(head, str) for head in heads):
        raise UnbagError(
            f"{source.path}: the configuration says architectures: {heads!r}",
            expected="a list of names of classes, as `save_pretrained` writes it",
            hint="mend config.json, or take the one that came with the weights",
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
        hint="docs/extending.md shows how to bring a model of another kind",
    )


def _is_dual(config: Any) -> bool:
    from transformers import MODEL_MAPPING

    from unbag.models.huggingface.dual import EXCLUDED

    if config.model_type in EXCLUDED or type(config) not in MODEL_MAPPING:
        return False
    kind = MODEL_MAPPING[type(config)]
    return hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features")


@dataclass(frozen=True)
class HfSource:
    """Where a checkpoint comes from."""

    path: str
    """A folder, or a name on the hub."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""

    @property
    def name(self) -> str:
        """The last part, with the revision, so that two revisions are two models."""
        if self.is_folder:
            return folder_name(Path(self.path))
        return Path(self.path).name + (f"@{self.revision}" if self.revision else "")

    @property
    def is_folder(self) -> bool:
        """On this disk."""
        return Path(self.path).is_dir()


def parse_source(text: str) -> HfSource:
    """`NAME_OR_PATH[@REVISION]`; what exists on disk is a path, whatever it looks like."""
    place = on_disk(text)
    if place is not None and not (place / "config.json").is_file():
        is_file = place.is_file()
        raise UnbagError(
            f"{place} is a file" if is_file else f"the folder {place} has no config.json",
            expected="a folder with config.json, as `save_pretrained` writes it",
            hint="give its folder; a checkpoint of OpenCLIP is open_clip:ARCH@FILE"
            if is_file
            else "check the path; the checkpoint may lie in a folder below",
        )
    if place is not None:
        return HfSource(str(place))
    path, at, revision = text.rpartition("@")
    if not at:
        path, revision = text, ""
    if on_disk(path) is not None:
        raise UnbagError(
            f"{path} is on disk, and {revision!r} is a revision",
            expected="a revision only with a name on the hub",
            hint="leave the revision out, or give the folder that holds it",
        )
    if not path or (at and not revision) or _looks_local(path):
        raise UnbagError(
            f"there is no folder {text!r}",
            expected="a folder with config.json, or a name on the hub (owner/name[@revision])",
            hint="check the path",
        )
    if not _HUB_NAME.fullmatch(path) or ".." in path or "--" in path:
        shown = path if len(path) <= _LONGEST_NAME else f"{path[:40]}... ({len(path)} characters)"
        raise UnbagError(
            f"{shown!r} is no folder, and no name that the hub can have",
            expected="owner/name of letters, digits, '-', '_' and '.', at most 96 characters",
            hint="check the name, or the path of the folder",
        )
    return HfSource(path, revision or None)


def on_disk(text: str) -> Path | None:
    """The path, if something is there; a name may be too long for a path, or of no user (~x)."""
    try:
        place = Path(text).expanduser()
        return place if text and place.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _looks_local(path: str) -> bool:
    """Not `name` or `owner/name`, as the hub writes them."""
    return path.startswith((".", "~", os.sep)) or path.count("/") > 1


def read_config(source: HfSource) -> Any:
    """The configuration, by the class of its kind."""
    from transformers import AutoConfig

    return _read(source, "its configuration", AutoConfig.from_pretrained)


def read_tokenizer(source: HfSource) -> Any:
    """The tokenizer of a checkpoint."""
    from transformers import AutoTokenizer

    return _read(source, "its tokenizer", AutoTokenizer.from_pretrained)


def read_processor(source: HfSource) -> Any:
    """The processor of a chat model: images, words and chat template together."""
    from transformers import AutoProcessor

    return _read(source, "its processor", AutoProcessor.from_pretrained)


def read_image_processor(source: HfSource) -> Any:
    """What turns an image into the numbers the model was trained on."""
    from transformers import AutoImageProcessor

    return _read(source, "its image processor", AutoImageProcessor.from_pretrained)


def read_encoders(made: Callable[..., Loaded], source: HfSource, kind: Any, **where: Any) -> Loaded:
    """`made` of weights of class `kind`, tokenizer and image processor."""
    parts = read_weights(source, kind), read_tokenizer(source), read_image_processor(source)
    return made(*parts, name=source.name, **where)


def read_weights(source: HfSource, kind: Any, *, unused: tuple[str, ...] = ()) -> Any:
    """A model of class `kind`, every weight of it from the checkpoint, ready to be asked.

    transformers fills what is missing with random numbers and continues; here that is an error, but
    for weights whose names begin with one of `unused`.
    """

    def load(path: str, **where: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = kind.from_pretrained(
            path, output_loading_info=True, ignore_mismatched_sizes=True, **where
        )
        return found

    model, info = _read(source, "its weights", load)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(unused))
    odd = sorted(
        f"{name} {tuple(found)} for {tuple(wanted)}"
        for name, found, wanted in info["mismatched_keys"]
    )
    if missing or odd or info["error_msgs"]:
        strange = len(info["unexpected_keys"])
        said = [_listed(missing, "missing"), _listed(odd, "of another shape")]
        said += [f"{strange} not known to it"] if strange else []
        said += [str(one) for one in info["error_msgs"]]
        raise UnbagError(
            f"the weights of {source.path} do not fill {type(model).__name__}: "
            + "; ".join(one for one in said if one),
            expected="a checkpoint of this architecture; the rest would be random numbers",
            hint="take the whole model, not one encoder or a part of it, with its own config.json",
        )
    check_finite(model.state_dict(), source=source.path)
    return model.eval().requires_grad_(False)


def _listed(names: list[str], what: str) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} {what} ({', '.join(names[:_SHOWN])}{more})"


def _read(source: HfSource, what: str, load: Callable[..., Loaded]) -> Loaded:
    where = {"revision": source.revision} if source.revision else {}
    try:
        with quietly():
            return load(source.path, trust_remote_code=False, **where)
    except UnbagError:
        raise
    except Exception as error:
        # Readers of damaged files raise anything: KeyError, struct.error, SafetensorError ...
        is_of_hub = isinstance(error, OSError) and not source.is_folder
        # Who meant a folder need not look for what is wrong with a connection.
        hub = "there is no such folder, and the hub's client says: " if is_of_hub else ""
        # Some list every kind that there is.
        lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
        raise UnbagError(
            f"{source.path}: {what} cannot be read: {hub}{said_by(ValueError(' '.join(lines)))}",
            expected="config.json, weights, tokenizer and image processor, as `save_pretrained` "
            "writes them",
            hint=_hint(source, what, error),
        ) from error


def _hint(source: HfSource, what: str, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the package that is named above"
    said = str(error)
    if isinstance(error, json.JSONDecodeError) or "not a valid JSON" in said:
        return "that file is no JSON: take it again from where the model came from"
    if "does not recognize this architecture" in said or "Unrecognized model" in said:
        return "check model_type in config.json; a newer version of transformers may know the kind"
    if "Unrecognized configuration class" in said:
        return "its config.json is of another kind of model: take one of the kind asked for"
    if what == "its weights" and source.is_folder and "no file named" not in said:
        return "the file of the weights is damaged or not whole: copy or download it again"
    if source.is_folder:
        return "check that the folder is complete; save the processor or tokenizer there too"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set: only downloaded models are found; unset it, or give a folder"
    if "/" in source.path and Path(source.path).parent.is_dir():
        return f"if a folder is meant: {Path(source.path).parent} has no {Path(source.path).name}"
    return (
        "check the name, the revision and the connection; a model that needs permission wants "
        "`hf auth login`; a folder on disk works without a network"
    )


def checkpoint_file(source: HfSource, name: str) -> Any:
    """A JSON file of the checkpoint; empty if it has none."""
    from transformers.utils.hub import cached_file

    place: str | None = str(Path(source.path) / name)
    if not source.is_folder:
        with quietly():
            place = cached_file(
                source.path,
                name,
                revision=source.revision,
                _raise_exceptions_for_missing_entries=False,
            )
    if place is None or not Path(place).is_file():
        return {}
    return json.loads(Path(place).read_text(encoding="utf-8"))


def sentence_pooling(source: HfSource) -> Pooling:
    """How a sentence encoder pools, by its modules.json; `mean` where there is none."""
    modules = [
        str(one["type"]).rpartition(".")[2] for one in checkpoint_file(source, "modules.json") or []
    ]
    settings = checkpoint_file(source, "1_Pooling/config.json")
    modes = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    modes = [mode.removesuffix("_token").removesuffix("_tokens") for mode in modes]
    modes = [m for m in modes if m != "include_prompt"] or [settings.get("pooling_mode", "mean")]
    odd = sorted({*modules} - {"Transformer", "Pooling", "Normalize"})
    if odd or len(modes) > 1 or modes[0] not in ("mean", "cls", "lasttoken"):
        raise UnbagError(
            f"{source.path} pools tokens by {' and '.join([*modes, *odd])}",
            expected="mean, cls or lasttoken, and no layers after it",
            hint="take another sentence encoder",
        )
    return cast(Pooling, modes[0])


def read_language_model(path: str, *, device: str = "cpu") -> tuple[Any, Any]:
    """A causal language model in float32 with its tokenizer: a folder, a .gguf file or a name."""
    need_transformers("a language model")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any
    source = find_language_model(path)
    if isinstance(source, Path):
        # Weights of few bits are written out in full.
        where = {"gguf_file": source.name, "trust_remote_code": False}
        try:
            with quietly():
                model = AutoModelForCausalLM.from_pretrained(str(source.parent), **where)
                tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **where)
        except Exception as error:
            # Readers of weights raise anything on a damaged file: struct.error, KeyError ...
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnbagError(
                f"{source} cannot be read as a language model: {first}",
                expected="a whole GGUF file of a kind that transformers reads",
                hint="pip install gguf accelerate"
                if isinstance(error, ImportError)
                else "copy or download the file again, or take a folder with config.json",
            ) from error
    else:
        model, tokenizer = read_weights(source, AutoModelForCausalLM), read_tokenizer(source)
    # Some versions refuse `.float()` on what came from a GGUF file.
    return model.to(device, torch.float32).eval().requires_grad_(False), tokenizer


def find_language_model(path: str) -> Path | HfSource:
    """Where a language model is: a .gguf file, a folder or a name; nothing is loaded."""
    place = on_disk(path)
    if place is None and (not path or path.endswith(".gguf") or _looks_local(path)):
        raise _nothing_at(path, hint="check the path; a folder that save_pretrained wrote will do")
    if place is not None and place.is_file():
        if place.suffix == ".gguf":
            return place
        raise _nothing_at(path, why=": it is a file", hint="give the folder that it lies in")
    source = parse_source(path)
    owner = Path(source.path).parent
    if not source.is_folder and owner.name and owner.is_dir() and not _is_downloaded(source):
        # FOLDER/NAME is written as OWNER/NAME of the hub is, and the folder is here.
        raise _nothing_at(
            path,
            why=f": the folder {owner} has no {Path(source.path).name}",
            hint="check the path; if a model of the hub is meant, get it first: "
            f"hf download {source.path}",
        )
    return source


def _is_downloaded(source: HfSource) -> bool:
    """Whether the hub's client has it on this disk."""
    try:
        hub: Any = import_module("huggingface_hub")
    except ImportError:
        return False
    found = hub.try_to_load_from_cache(source.path, "config.json", revision=source.revision)
    return isinstance(found, str)


def _nothing_at(path: str, *, why: str = "", hint: str) -> UnbagError:
    return UnbagError(
        f"there is no language model at {path!r}{why}",
        expected="a folder of transformers, a .gguf file, or a name on the hub",
        hint=hint,
    )


def torch_dtype(name: str) -> torch.dtype:
    """By name; auto is float32, since benchmarks turn on differences of a thousandth."""
    import torch

    found = getattr(torch, "float32" if name == "auto" else name)
    assert isinstance(found, torch.dtype)
    return found


def plain_config(config: Any) -> str:
    """All that a configuration decides, as JSON, for a fingerprint."""

    def stable(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: stable(v) for k, v in value.items() if k not in _VOLATILE}
        return value

    return json.dumps(stable(config.to_dict()), sort_keys=True, default=str)


def tokenizer_rules(tokenizer: Any) -> str:
    """All that decides how a text becomes tokens, for a fingerprint; empty without a tokenizer."""
    if tokenizer is None:
        return ""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return str(backend.to_str() if backend else repr(sorted(tokenizer.get_vocab().items())))


def need_transformers(spec: str) -> None:
    """A clear word where the package is not installed."""
    try:
        import_module("transformers")
    except ImportError as error:
        raise UnbagError(
            f"{spec} needs the package 'transformers' ({error})",
            hint="pip install 'unbag[transformers]'",
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings, reports and bars of transformers; what matters is checked by us.

    Bars of downloads stay: they take minutes.
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
