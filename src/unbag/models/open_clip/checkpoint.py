"""Checkpoints of open_clip: which file it is, its tensors, and whether they fit the model.

No checkpoint is unpickled, since that can run code. An activation needs care of its own: OpenAI's
CLIP and some later models were trained with QuickGELU, x * sigmoid(1.702 x), most others with GELU.
Their weights have the same names and shapes, load without a word under the wrong one, and give
numbers a few points too low. Nothing in the tensors tells the two apart, so what was written beside
them decides: open_clip's table for a tag; for a file its config, the trainer's parameters and its
name. Where nothing decides, a note names the activation that was used.
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

_INSIDE = ("state_dict", "model_state_dict", "model")
"""Where trainers keep the weights, beside optimizer and epoch."""
_WRAPPERS = ("module.", "_orig_mod.")
"""Put before every name by distributed training and by torch.compile."""
_USUAL_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)
_FILE_ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
_CUT_SHORT = "its end is missing"
_PARTS = re.compile(r"(\d+)")
_EXPECTED = "a checkpoint: .safetensors, or .pt with a state dict, as open_clip's trainer writes"
_SHOWN = 3
"""Names of tensors in a message."""
_TEXT_ENCODER = (
    "text_projection",
    "positional_embedding",
    "token_embedding",
    "transformer.",
    "ln_final",
)

# Sizes OpenAI kept among the tensors: no weights.
_NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size")
POSITIONS = ".embeddings.position_ids"
"""Kept among the weights by older versions of transformers; they are only 0, 1, 2 ..."""


def find_weights(path: Path) -> Path:
    """The file itself, or the only (or usually named) one of a folder."""
    if path.is_file():
        return path
    if not path.exists():
        raise UnbagError(f"no checkpoint at {path}", expected=_EXPECTED, hint="check the path")
    inside = _checkpoints(path)
    usual = [path / name for name in _USUAL_FILES if path / name in inside]
    if _is_of_transformers(path):
        raise UnbagError(
            f"{path} is a model of transformers, not of OpenCLIP",
            expected=_EXPECTED,
            hint=f"write hf:{path}",
        )
    if len(inside) == 1 or usual:
        return usual[0] if usual else inside[0]
    # The trainer's are one folder below.
    below = path / "checkpoints"
    if not inside and below.is_dir() and _checkpoints(below):
        path, inside = below, _checkpoints(below)
    listed = ", ".join(p.name for p in inside[-6:]) or "none"
    raise UnbagError(
        f"the folder {path} holds {len(inside)} checkpoints: {listed}",
        expected=f"one, or one called {_USUAL_FILES[0]}",
        hint=f"name the file, as in ...@{inside[-1]}" if inside else "check the path",
    )


def _checkpoints(folder: Path) -> list[Path]:
    """Files that may be one; epoch_10 after epoch_9."""
    found = [p for p in folder.iterdir() if p.suffix in _FILE_ENDINGS and p.is_file()]
    return sorted(found, key=lambda p: [int(n) if n.isdigit() else n for n in _PARTS.split(p.name)])


def _is_of_transformers(folder: Path) -> bool:
    """Its config names a kind, and nothing there is of open_clip."""
    if any(folder.glob("open_clip*")):
        return False
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and "model_type" in said


def read_state(path: Path) -> dict[str, Tensor]:
    """The state dict of a file, without the wrappers of distributed training."""
    import torch

    content = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    for key in _INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    is_state = isinstance(content, Mapping) and content
    if not is_state or not all(isinstance(value, torch.Tensor) for value in content.values()):
        found = ", ".join(map(str, content)) if isinstance(content, Mapping) else type(content)
        raise UnbagError(
            f"{path} holds no state dict: {str(found)[:200] or 'nothing'}", expected=_EXPECTED
        )
    state = {str(name): value for name, value in content.items()}
    for wrapper in _WRAPPERS * 2:
        if all(name.startswith(wrapper) for name in state):
            state = {name.removeprefix(wrapper): value for name, value in state.items()}
    return state


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, said_by(error)) from error


def _pickled(path: Path) -> Any:
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
        # A pickle (of PyTorch before 1.6), an archive that is cut, or neither.
        with path.open("rb") as file:
            start = file.read(2)
        if start == b"PK":
            raise _unreadable(path, _CUT_SHORT)
        if not start.startswith(b"\x80"):
            what = "it is no file of PyTorch" if start else "it is empty"
            raise _unreadable(path, what, hint="check the path and how the file was made")
    try:
        with catch_warnings():
            # Of pickles in another form, which then cannot be read.
            simplefilter("ignore")
            # Mapped, so that the optimizer's tensors, twice as many, are never read.
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except UnpicklingError as error:
        # The rest of PyTorch's words is advice to run the code in it.
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise UnbagError(
            f"{path} holds more than weights: {named[1] if named else 'a pickle of other things'}",
            expected=_EXPECTED,
            hint="nothing is unpickled here, since that runs code; load it where you trust it "
            "and save model.state_dict() as .safetensors",
        ) from error
    except EOFError as error:
        raise _unreadable(path, _CUT_SHORT) from error
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise _unreadable(path, said_by(error)) from error


def _unreadable(path: Path, why: str, *, hint: str = "copy or download it again") -> UnbagError:
    return UnbagError(
        f"{path} cannot be read as a checkpoint: {why}", expected=_EXPECTED, hint=hint
    )


def build(config: Mapping[str, Any], *, has_bias: bool) -> Any:
    """The untrained model of a config, as open_clip's factory makes it, without a download.

    The factory itself says "no pretrained weights loaded" of every model whose weights come later.
    """
    said = deepcopy(dict(config))
    text = said["text_cfg"]
    is_custom = bool(said.pop("custom_text", False)) or bool(text.get("hf_model_name"))
    if text.get("hf_model_name"):
        text["hf_model_pretrained"] = False
    if said["vision_cfg"].get("timm_model_name"):
        said["vision_cfg"]["timm_model_pretrained"] = False
    if has_bias:
        # Trained with the sigmoid loss: the trainer adds a bias to any architecture.
        said.setdefault("init_logit_bias", 0.0)
    names = ("CoCa" if "multimodal_cfg" in said else "CustomTextCLIP") if is_custom else "CLIP"
    model = getattr(library(), names)(**said)
    if names == "CoCa":
        # open_clip leaves it as the memory was: equal seeds would give different fingerprints.
        model.text_decoder.text_projection.detach().zero_()
    return model


def load_state(
    model: Any, state: Mapping[str, Tensor], *, source: str, arch: str, hint: str = ""
) -> None:
    """Load all of it, or raise; positions and vocabularies are never resized to fit."""
    wanted: dict[str, Tensor] = model.state_dict()
    state = _renamed(model, dict(state), wanted)
    missing = [name for name in wanted if name not in state]
    unexpected = sorted(name for name in state if name not in wanted)
    shaped = [n for n in wanted if n in state and wanted[n].shape != state[n].shape]
    # Another vocabulary or context means another tokenizer: said before all else.
    for ending, what in (("token_embedding.weight", "words"), ("positional_embedding", "places")):
        for name in shaped:
            is_text = name in (ending, f"text.{ending}")
            if is_text and wanted[name].shape[1:] == state[name].shape[1:]:
                raise UnbagError(
                    f"the text encoder of {source} has {len(state[name])} {what}; the tokenizer "
                    f"of {arch} gives {len(wanted[name])}",
                    expected="weights trained with this tokenizer: the scores would be wrong",
                    hint="name the architecture it was trained with before the @",
                )
    if missing or unexpected or shaped:
        sizes = [f"{n} is {tuple(state[n].shape)}, not {tuple(wanted[n].shape)}" for n in shaped]
        parts = (("missing", missing), ("not part of it", unexpected), ("of another shape", sizes))
        listed = []
        for what, names in parts:
            more = " ..." if len(names) > _SHOWN else ""
            listed += [f"{len(names)} {what} ({', '.join(names[:_SHOWN])}{more})"] if names else []
        raise UnbagError(
            f"{source} does not fit {arch}: {'; '.join(listed)}",
            expected=f"all {len(wanted)} tensors of {arch}, and no others",
            hint=hint or "name the architecture it was trained with before the @",
        )
    check_finite(state, source=source)
    model.load_state_dict(state)


def _renamed(
    model: Any, state: dict[str, Tensor], wanted: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Other spellings of the same weights, as open_clip's own reader accepts them."""
    from open_clip.convert import convert_state_dict  # type: ignore[import-untyped, unused-ignore]

    state = convert_state_dict(model, state)
    for name in [n for n in state if n in _NO_WEIGHTS or n.endswith(POSITIONS)]:
        if name not in wanted:
            del state[name]
    # The text encoder stands at the top in the first form of CLIP, and below `text.` in the second.
    if "text.token_embedding.weight" in wanted and "token_embedding.weight" in state:
        state = {f"text.{n}" if n.startswith(_TEXT_ENCODER) else n: v for n, v in state.items()}
    elif "token_embedding.weight" in wanted and "text.token_embedding.weight" in state:
        state = {n.removeprefix("text."): v for n, v in state.items()}
    for name in ("logit_scale", "logit_bias"):
        if name in state and name in wanted and state[name].numel() == 1:
            state[name] = state[name].reshape(wanted[name].shape)
    return state


def check_tag_activation(arch: str, tag: str, config: dict[str, Any], *, is_tag_quick: bool) -> str:
    """Checks, and for OpenAI's own weights sets, the activation; gives what must be said, or ""."""
    if is_tag_quick == is_quick(config) or not has_activation_choice(config):
        return ""
    if is_tag_quick and tag.lower() == "openai":
        # This name meant QuickGELU in every open_clip before 3, and in every paper.
        config["quick_gelu"] = True
        return (
            f"{arch}/{tag}: OpenAI's weights were trained with QuickGELU, so it is used; open_clip "
            f"since version 3 would compute {arch} with GELU"
        )
    if not is_tag_quick:
        return (
            f"{arch}/{tag}: open_clip's table does not say QuickGELU and its architecture does; "
            "computed with QuickGELU, as the architecture says"
        )
    raise UnbagError(
        f"{arch}/{tag} was trained with QuickGELU, and {arch} computes with GELU",
        expected="the activation the weights were trained with: the scores would be wrong",
        hint=f"write open_clip:{other_activation(arch)}/{tag}",
    )


def check_file_activation(arch: str, config: Mapping[str, Any], weights: Path, written: str) -> str:
    """Checks the activation of a checkpoint; gives what must be said if nothing tells it."""
    if not has_activation_choice(config):
        return ""
    quick = is_quick(config)
    of_trainer = _evidence_of_trainer(arch, weights)
    found = [] if of_trainer is None else [of_trainer]
    # Files that open_clip published carry it in their name.
    if "quickgelu" in weights.name.lower().replace("_", "").replace("-", ""):
        found.append(Evidence(True, f"the name of {weights.name} says QuickGELU"))
    against = next((e for e in found if e.is_quick != quick), None)
    if against is not None:
        raise wrong_activation(arch, quick, against, written)
    tags = library().list_pretrained_tags_by_model
    is_always_gelu = tags(arch) and not tags(arch + QUICK)
    if found or arch.endswith(QUICK) or is_always_gelu:
        return ""
    return (
        f"{arch}@{weights.name}: nothing beside the file says its activation; computed with "
        f"{activation_name(quick)}, as {arch} is. If the weights come from OpenAI's, DFN's or "
        f"MetaCLIP's, write open_clip:{other_activation(arch)}@{written}"
    )


def _evidence_of_trainer(arch: str, weights: Path) -> Evidence | None:
    """What the trainer of open_clip wrote: params.txt, beside its folder of checkpoints."""
    written = trainer_parameters(weights)
    trained = written.get("model", "")
    is_same = trained.removesuffix(QUICK) == arch.removesuffix(QUICK)
    if not is_same or library().get_model_config(trained) is None:
        # Weights of another architecture do not fit, and then that is said.
        return None
    if written.get("force_quick_gelu") == "True":
        return Evidence(True, "the trainer's params.txt says force_quick_gelu")
    quick = is_quick(architecture(trained))
    if written.get("pretrained", "").lower() == "openai" and not quick:
        # Before version 3 the trainer took QuickGELU for these weights, since then GELU.
        return None
    return Evidence(
        quick, f"the trainer's params.txt says model: {trained} ({activation_name(quick)})"
    )


def trainer_parameters(weights: Path) -> dict[str, str]:
    """The trainer's params.txt, if there is one."""
    for folder in (weights.parent, weights.parent.parent):
        try:
            lines = (folder / "params.txt").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        return {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    return {}


def wrong_activation(arch: str, quick: bool, evidence: Evidence, written: str) -> UnbagError:
    """The error for a checkpoint whose activation is known to be the other one."""
    return UnbagError(
        f"{arch} computes with {activation_name(quick)}, and {evidence.because}",
        expected="the activation the weights were trained with: the scores would be wrong",
        hint=f"write open_clip:{other_activation(arch)}@{written}",
    )


def is_quick(config: Mapping[str, Any]) -> bool:
    """Whether a model of this config computes with QuickGELU."""
    return bool(config.get("quick_gelu", False))


def has_activation_choice(config: Mapping[str, Any]) -> bool:
    """False if both encoders come from other libraries, which bring their own activation."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    own_image = not vision.get("timm_model_name") and not isinstance(vision.get("layers"), list)
    return bool(own_image or not text.get("hf_model_name"))


def activation_name(quick: bool) -> str:
    """As a sentence calls it."""
    return "QuickGELU" if quick else "GELU"


def other_activation(arch: str) -> str:
    """The same architecture with the other activation."""
    return arch.removesuffix(QUICK) if arch.endswith(QUICK) else arch + QUICK


@dataclass(frozen=True)
class Evidence:
    """That weights were trained with (or without) QuickGELU, and how that is known."""

    is_quick: bool
    because: str
