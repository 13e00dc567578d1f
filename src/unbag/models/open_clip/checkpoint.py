"""Checkpoints of open_clip: finding the file, reading its tensors, and loading them into a model.

No checkpoint is unpickled, since that can run code. The activation needs care: OpenAI's CLIP and
some later models were trained with QuickGELU, x * sigmoid(1.702 x), most others with GELU. Weights
of both have the same names and shapes, load without an error with the wrong activation, and then
score a few points too low. The tensors do not show the activation, so metadata decide: open_clip's
table for a tag; for a file its config, the trainer's parameters and its name. If these decide
nothing, a note names the activation that was used.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from unbag.errors import UnbagError, said_by
from unbag.models.open_clip.library import QUICK, architecture, library
from unbag.models.weights import check_finite

if TYPE_CHECKING:
    from torch import Tensor

_STATE_KEYS = ("state_dict", "model_state_dict", "model")
"""Keys under which trainers save the weights."""
_WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes of names from distributed training and torch.compile."""
_USUAL_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)
_FILE_ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
_TRUNCATED = "its end is missing"
_NUMBERS = re.compile(r"(\d+)")
_EXPECTED = "a checkpoint: .safetensors, or .pt with a state dict, as open_clip's trainer writes"
_MAX_LISTED = 3
"""Number of tensor names in a message."""
_TEXT_ENCODER = (
    "text_projection",
    "positional_embedding",
    "token_embedding",
    "transformer.",
    "ln_final",
)

# Sizes that OpenAI saved among the tensors.
_NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size")
POSITIONS = ".embeddings.position_ids"
"""Saved with the weights by old versions of transformers: just 0, 1, 2 ..."""


def find_weights(path: Path) -> Path:
    """Return the file itself, or the only one or the one with a usual name in a folder."""
    if path.is_file():
        return path
    if not path.exists():
        raise UnbagError(f"no checkpoint at {path}", expected=_EXPECTED, hint="check the path")
    files = _checkpoints(path)
    usual_files = [path / name for name in _USUAL_FILES if path / name in files]
    if _is_transformers_model(path):
        raise UnbagError(
            f"{path} is a model of transformers, not of OpenCLIP",
            expected=_EXPECTED,
            hint=f"write hf:{path}",
        )
    if len(files) == 1 or usual_files:
        return usual_files[0] if usual_files else files[0]
    # The trainer saves them in a subfolder.
    subfolder = path / "checkpoints"
    if not files and subfolder.is_dir() and _checkpoints(subfolder):
        path, files = subfolder, _checkpoints(subfolder)
    listed = ", ".join(p.name for p in files[-6:]) or "none"
    raise UnbagError(
        f"the folder {path} holds {len(files)} checkpoints: {listed}",
        expected=f"one, or one called {_USUAL_FILES[0]}",
        hint=f"name the file, as in ...@{files[-1]}" if files else "check the path",
    )


def _checkpoints(folder: Path) -> list[Path]:
    """List files that may be checkpoints, in numeric order."""
    files = [p for p in folder.iterdir() if p.suffix in _FILE_ENDINGS and p.is_file()]
    return sorted(
        files, key=lambda p: [int(n) if n.isdigit() else n for n in _NUMBERS.split(p.name)]
    )


def _is_transformers_model(folder: Path) -> bool:
    """Return whether the config is of transformers and no file is of open_clip."""
    if any(folder.glob("open_clip*")):
        return False
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "model_type" in config


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the state dict of a file, without the prefixes of wrappers."""
    import torch

    content = _safetensors_file(path) if path.suffix == ".safetensors" else _torch_file(path)
    for key in _STATE_KEYS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    is_state = isinstance(content, Mapping) and content
    if not is_state or not all(isinstance(value, torch.Tensor) for value in content.values()):
        keys = ", ".join(map(str, content)) if isinstance(content, Mapping) else type(content)
        raise UnbagError(
            f"{path} holds no state dict: {str(keys)[:200] or 'nothing'}", expected=_EXPECTED
        )
    state = {str(name): value for name, value in content.items()}
    for prefix in _WRAPPERS * 2:
        if all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _safetensors_file(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, said_by(error)) from error


def _torch_file(path: Path) -> Any:
    import torch

    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            is_script = any(name.endswith("constants.pkl") for name in archive.namelist())
        if is_script:
            raise UnbagError(
                f"{path} is a TorchScript archive, as OpenAI published them",
                expected=_EXPECTED,
                hint="the same weights by tag, as in open_clip:ViT-B-32-quickgelu/openai",
            )
    else:
        # A pickle (of PyTorch before 1.6), a truncated archive, or another file.
        with path.open("rb") as file:
            start = file.read(2)
        if start == b"PK":
            raise _unreadable(path, _TRUNCATED)
        if not start.startswith(b"\x80"):
            reason = "it is no file of PyTorch" if start else "it is empty"
            raise _unreadable(path, reason, hint="check the path and how the file was made")
    try:
        with catch_warnings():
            # Warnings about pickles of another form, which then cannot be read.
            simplefilter("ignore")
            # Memory-mapped, so that the larger optimizer state is not read.
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except UnpicklingError as error:
        # The rest of PyTorch's message is advice to run the code.
        match = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise UnbagError(
            f"{path} holds more than weights: {match[1] if match else 'a pickle of other things'}",
            expected=_EXPECTED,
            hint="it is not unpickled, since that runs code; if you trust it, load it yourself "
            "and save model.state_dict() as .safetensors",
        ) from error
    except EOFError as error:
        raise _unreadable(path, _TRUNCATED) from error
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise _unreadable(path, said_by(error)) from error


def _unreadable(path: Path, reason: str, *, hint: str = "copy or download it again") -> UnbagError:
    return UnbagError(
        f"{path} cannot be read as a checkpoint: {reason}", expected=_EXPECTED, hint=hint
    )


def build(config: Mapping[str, Any], *, has_bias: bool) -> Any:
    """Make the untrained model of a config, as open_clip's factory does, without a download.

    The factory itself would warn of missing weights, which are loaded later here.
    """
    arguments = deepcopy(dict(config))
    text = arguments["text_cfg"]
    is_custom = bool(arguments.pop("custom_text", False)) or bool(text.get("hf_model_name"))
    if text.get("hf_model_name"):
        text["hf_model_pretrained"] = False
    if arguments["vision_cfg"].get("timm_model_name"):
        arguments["vision_cfg"]["timm_model_pretrained"] = False
    if has_bias:
        # For the sigmoid loss, the trainer adds a bias to any architecture.
        arguments.setdefault("init_logit_bias", 0.0)
    class_name = (
        ("CoCa" if "multimodal_cfg" in arguments else "CustomTextCLIP") if is_custom else "CLIP"
    )
    model = getattr(library(), class_name)(**arguments)
    if class_name == "CoCa":
        # open_clip leaves it uninitialized, so that equal seeds would give different fingerprints.
        model.text_decoder.text_projection.detach().zero_()
    return model


def load_state(
    model: Any, state: Mapping[str, Tensor], *, source: str, arch: str, hint: str = ""
) -> None:
    """Load the complete state or raise UnbagError; positions and vocabularies are not resized."""
    expected: dict[str, Tensor] = model.state_dict()
    state = _rename_tensors(model, dict(state), expected)
    missing = [name for name in expected if name not in state]
    unexpected = sorted(name for name in state if name not in expected)
    mismatched = [n for n in expected if n in state and expected[n].shape != state[n].shape]
    # Another vocabulary or context means another tokenizer, so it is reported first.
    for ending, what in (("token_embedding.weight", "words"), ("positional_embedding", "places")):
        for name in mismatched:
            is_text = name in (ending, f"text.{ending}")
            if is_text and expected[name].shape[1:] == state[name].shape[1:]:
                raise UnbagError(
                    f"the text encoder of {source} has {len(state[name])} {what}; the tokenizer "
                    f"of {arch} gives {len(expected[name])}",
                    expected="weights trained with this tokenizer: the scores would be wrong",
                    hint="name the architecture it was trained with before the @",
                )
    if missing or unexpected or mismatched:
        sizes = [
            f"{n} is {tuple(state[n].shape)}, not {tuple(expected[n].shape)}" for n in mismatched
        ]
        parts = (("missing", missing), ("not part of it", unexpected), ("of another shape", sizes))
        listed = []
        for what, names in parts:
            more = " ..." if len(names) > _MAX_LISTED else ""
            listed += (
                [f"{len(names)} {what} ({', '.join(names[:_MAX_LISTED])}{more})"] if names else []
            )
        raise UnbagError(
            f"{source} does not fit {arch}: {'; '.join(listed)}",
            expected=f"all {len(expected)} tensors of {arch}, and no others",
            hint=hint or "name the architecture it was trained with before the @",
        )
    check_finite(state, source=source)
    model.load_state_dict(state)


def _rename_tensors(
    model: Any, state: dict[str, Tensor], expected: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Convert other names of the same weights, as open_clip's reader does."""
    from open_clip.convert import convert_state_dict  # type: ignore[import-untyped, unused-ignore]

    state = convert_state_dict(model, state)
    for name in [n for n in state if n in _NO_WEIGHTS or n.endswith(POSITIONS)]:
        if name not in expected:
            del state[name]
    # The text encoder is at the top level in the class CLIP, and below `text.` in others.
    if "text.token_embedding.weight" in expected and "token_embedding.weight" in state:
        state = {f"text.{n}" if n.startswith(_TEXT_ENCODER) else n: v for n, v in state.items()}
    elif "token_embedding.weight" in expected and "text.token_embedding.weight" in state:
        state = {n.removeprefix("text."): v for n, v in state.items()}
    for name in ("logit_scale", "logit_bias"):
        if name in state and name in expected and state[name].numel() == 1:
            state[name] = state[name].reshape(expected[name].shape)
    return state


def check_tag_activation(arch: str, tag: str, config: dict[str, Any], *, is_tag_quick: bool) -> str:
    """Check the activation, or set it for OpenAI's weights; return a note for the user, or ""."""
    if is_tag_quick == is_quick(config) or not has_activation_choice(config):
        return ""
    if is_tag_quick and tag.lower() == "openai":
        # This name meant QuickGELU in open_clip before version 3, and means it in papers.
        config["quick_gelu"] = True
        return (
            f"{arch}/{tag}: OpenAI's weights were trained with QuickGELU, so it is used; open_clip "
            f"since version 3 would compute {arch} with GELU"
        )
    if not is_tag_quick:
        return (
            f"{arch}/{tag}: QuickGELU is used, since its architecture states it, although "
            "open_clip's table does not"
        )
    raise UnbagError(
        f"{arch}/{tag} was trained with QuickGELU, and {arch} computes with GELU",
        expected="the activation the weights were trained with: the scores would be wrong",
        hint=f"write open_clip:{other_activation(arch)}/{tag}",
    )


def check_file_activation(arch: str, config: Mapping[str, Any], weights: Path, written: str) -> str:
    """Check the activation of a checkpoint; return a note for the user if it is unknown."""
    if not has_activation_choice(config):
        return ""
    quick = is_quick(config)
    trainer_evidence = _trainer_evidence(arch, weights)
    evidence = [] if trainer_evidence is None else [trainer_evidence]
    # Files published by open_clip have it in their name.
    if "quickgelu" in weights.name.lower().replace("_", "").replace("-", ""):
        evidence.append(Evidence(True, f"the name of {weights.name} contains QuickGELU"))
    contradiction = next((e for e in evidence if e.is_quick != quick), None)
    if contradiction is not None:
        raise wrong_activation(arch, quick, contradiction, written)
    tags = library().list_pretrained_tags_by_model
    is_always_gelu = tags(arch) and not tags(arch + QUICK)
    if evidence or arch.endswith(QUICK) or is_always_gelu:
        return ""
    return (
        f"{arch}@{weights.name}: no metadata states the activation; computed with "
        f"{activation_name(quick)}, as in {arch}. If the weights come from OpenAI's, DFN's or "
        f"MetaCLIP's, write open_clip:{other_activation(arch)}@{written}"
    )


def _trainer_evidence(arch: str, weights: Path) -> Evidence | None:
    """Return the activation in params.txt, which the trainer writes beside its checkpoints."""
    parameters = trainer_parameters(weights)
    model = parameters.get("model", "")
    is_same = model.removesuffix(QUICK) == arch.removesuffix(QUICK)
    if not is_same or library().get_model_config(model) is None:
        # Weights of another architecture fail to load with an error of their own.
        return None
    if parameters.get("force_quick_gelu") == "True":
        return Evidence(True, "the trainer's params.txt says force_quick_gelu")
    quick = is_quick(architecture(model))
    if parameters.get("pretrained", "").lower() == "openai" and not quick:
        # The trainer used QuickGELU for these weights before version 3, and GELU since.
        return None
    return Evidence(
        quick, f"the trainer's params.txt says model: {model} ({activation_name(quick)})"
    )


def trainer_parameters(weights: Path) -> dict[str, str]:
    """Read the trainer's params.txt, if there is one."""
    for folder in (weights.parent, weights.parent.parent):
        try:
            lines = (folder / "params.txt").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        return {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
    return {}


def wrong_activation(arch: str, quick: bool, evidence: Evidence, written: str) -> UnbagError:
    """Return the error for a checkpoint that was trained with the other activation."""
    return UnbagError(
        f"{arch} computes with {activation_name(quick)}, and {evidence.because}",
        expected="the activation the weights were trained with: the scores would be wrong",
        hint=f"write open_clip:{other_activation(arch)}@{written}",
    )


def is_quick(config: Mapping[str, Any]) -> bool:
    """Return whether a config uses QuickGELU."""
    return bool(config.get("quick_gelu", False))


def has_activation_choice(config: Mapping[str, Any]) -> bool:
    """Return False if both encoders are of other libraries, which set their activation."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    own_image = not vision.get("timm_model_name") and not isinstance(vision.get("layers"), list)
    return bool(own_image or not text.get("hf_model_name"))


def activation_name(quick: bool) -> str:
    """Return the name of an activation."""
    return "QuickGELU" if quick else "GELU"


def other_activation(arch: str) -> str:
    """Return the architecture with the other activation."""
    return arch.removesuffix(QUICK) if arch.endswith(QUICK) else arch + QUICK


@dataclass(frozen=True)
class Evidence:
    """Evidence that weights were trained with or without QuickGELU."""

    is_quick: bool
    because: str
