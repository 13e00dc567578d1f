"""`hf:NAME_OR_PATH[@REVISION]` comes in; the model of that folder or name goes out, by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unbag.errors import UserError

if TYPE_CHECKING:
    from unbag.models.hf_source import Source
    from unbag.types import DualEncoder, Generator, Scorer

SUPPORTED = (
    "dual encoders (CLIP, SigLIP, SigLIP 2, ALIGN, Chinese-CLIP, AltCLIP, MetaCLIP 2 ...), "
    "matching heads (BlipForImageTextRetrieval, Blip2ForImageTextRetrieval) and chat models"
)


def load(
    name: str, *, device: str = "cpu", dtype: str = "auto", compiles: bool = False
) -> DualEncoder | Generator | Scorer:
    """A dual encoder, a matching head or a chat model: the configuration says which."""
    from unbag.models.hf_source import need_transformers, parse_source, read_config

    need_transformers(f"hf:{name}")
    source = parse_source(name)
    config = read_config(source)
    heads = _heads(config, source)
    if any(head in ("BlipForImageTextRetrieval", "Blip2ForImageTextRetrieval") for head in heads):
        from unbag.models.hf_match import load_match

        return load_match(source, heads[0], device=device, dtype=dtype, compiles=compiles)
    if _is_dual(config):
        return _load_dual(source, device=device, dtype=dtype, compiles=compiles)
    if _is_chat(config):
        return _load_chat(source, device=device, dtype=dtype, compiles=compiles)
    raise UserError(
        f"{source.path} is a {config.model_type!r} ({', '.join(heads) or 'no architecture named'})",
        expected=SUPPORTED,
        way_out="docs/extending.md shows how to bring a model of another kind",
    )


def _heads(config: Any, source: Source) -> list[str]:
    found = config.architectures or []
    if isinstance(found, list) and all(isinstance(head, str) for head in found):
        return found
    raise UserError(
        f"{source.path}: the configuration says architectures: {found!r}",
        expected="a list of names of classes, as `save_pretrained` writes it",
        way_out="mend config.json, or take the one that came with the weights",
    )


def _load_dual(source: Source, *, device: str, dtype: str, compiles: bool) -> DualEncoder:
    from transformers import AutoModel

    from unbag.models.hf_dual import HfDual
    from unbag.models.hf_source import read_image_processor, read_tokenizer, read_weights

    return HfDual(
        read_weights(source, AutoModel),
        read_tokenizer(source),
        read_image_processor(source),
        name=source.name,
        device=device,
        dtype=dtype,
        compiles=compiles,
    )


def _load_chat(source: Source, *, device: str, dtype: str, compiles: bool) -> Generator:
    from unbag.models.hf_chat import load_chat

    found: Generator = load_chat(
        source.path, revision=source.revision, device=device, dtype=dtype, compiles=compiles
    )
    return found


def _is_dual(config: Any) -> bool:
    from transformers import MODEL_MAPPING

    from unbag.models.hf_kinds import EXCLUDED

    if config.model_type in EXCLUDED or type(config) not in MODEL_MAPPING:
        return False
    kind = MODEL_MAPPING[type(config)]
    return hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features")


def _is_chat(config: Any) -> bool:
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    return type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
