"""The folder or hub name of a chat model comes in; the model, ready to be asked, goes out."""

from __future__ import annotations

from typing import Any
from warnings import warn

from unbag.errors import UserError
from unbag.models.fingerprint import fingerprint
from unbag.models.fitting import Fitting
from unbag.models.hf_chat_blip import BlipRunner
from unbag.models.hf_chat_inputs import Preparer
from unbag.models.hf_chat_model import ChatModel
from unbag.models.hf_chat_prompt import Prompts
from unbag.models.hf_chat_run import CausalRunner
from unbag.models.hf_source import (
    Source,
    parse_source,
    plain_config,
    read_processor,
    read_weights,
)

__all__ = ["ChatModel", "load_chat"]

_VERSION = "2"
"""Of this code: part of the fingerprint."""


def load_chat(
    path: str,
    *,
    revision: str | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    compiles: bool = False,
    rows: int | None = None,
) -> ChatModel:
    """From a folder or the hub; `auto` is bfloat16 on CUDA, else float32.

    `rows` are the sequences run at once, halved where they do not fit into memory.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    source = Source(path, revision) if revision else parse_source(path)
    processor = read_processor(source)
    model = read_weights(source, AutoModelForImageTextToText)
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    model = model.to(dtype=getattr(torch, dtype))
    prompts = _prompts(source.name, model, processor)
    image_token_id = _image_token_id(source.name, model, processor)
    ends = _ends(model, prompts)
    said = _said(model, prompts, ends, image_token_id)
    print_ = fingerprint("hf-chat", model.state_dict(), *said, dtype)
    model = model.to(device)
    if compiles:
        model.compile(dynamic=True)
    return ChatModel(
        name=source.name,
        fingerprint=print_,
        device=device,
        preparer=Preparer(prompts, image_token_id),
        runner=_runner(model, processor, device),
        fitting=Fitting(
            source.name,
            lambda text: warn(text, stacklevel=2),
            most=rows or (64 if device.startswith("cuda") else 16),
        ),
        ends=ends,
        context=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        scores_ends=prompts.own_end is not None,
    )


def _prompts(name: str, model: Any, processor: Any) -> Prompts:
    reads_apart = not getattr(model.config, "use_decoder_only_language_model", True)
    if not hasattr(processor, "tokenizer"):
        raise UserError(
            f"{name} has no tokenizer beside its picture preparation",
            expected="the processor of a chat model",
            way_out="save its processor into the same folder (processor.save_pretrained)",
        )
    image_token = getattr(processor, "image_token", "")
    return Prompts(name, model.config.model_type, processor, str(image_token), reads_apart)


def _runner(model: Any, processor: Any, device: str) -> CausalRunner | BlipRunner:
    pad = processor.tokenizer.pad_token_id
    pad = int(pad if pad is not None else processor.tokenizer.eos_token_id or 0)
    if model.config.model_type == "instructblip":
        return BlipRunner(model, processor.qformer_tokenizer, device, pad)
    if model.config.is_encoder_decoder:
        raise UserError(
            f"{model.config.model_type!r} reads with an encoder and answers with a decoder",
            expected="a model that reads picture and prompt as one sequence, or an InstructBLIP",
            way_out="docs/models.md lists the kinds that are supported",
        )
    return CausalRunner(model, model.config.model_type, device, pad)


def _image_token_id(name: str, model: Any, processor: Any) -> int:
    places = ((model.config, "image_token_id"), (model.config, "image_token_index"),
              (processor, "image_token_id"))  # fmt: skip
    for thing, attribute in places:
        found = getattr(thing, attribute, None)
        if isinstance(found, int):
            return found
    raise UserError(
        f"{name} names no token that stands for a picture",
        expected="image_token_id in its config or processor",
        way_out="take the config and processor that belong to this model",
    )


def _ends(model: Any, prompts: Prompts) -> frozenset[int]:
    found = getattr(model.generation_config, "eos_token_id", None)
    several = found if isinstance(found, list) else [found]
    own = [prompts.tokenizer.eos_token_id]
    own += [prompts.own_end] if prompts.template is not None else []
    return frozenset(int(i) for i in (*several, *own) if i is not None)


def _said(
    model: Any, prompts: Prompts, ends: frozenset[int], image_token_id: int
) -> tuple[str, ...]:
    """All besides the weights and their precision that decides a number."""
    processor, tokenizer = prompts.processor, prompts.tokenizer
    ids = (tokenizer.bos_token_id, tokenizer.pad_token_id, image_token_id, prompts.own_end)
    parts: tuple[Any, ...] = (processor, getattr(processor, "image_processor", None))
    return (
        plain_config(model.config),
        *(one.to_json_string() if hasattr(one, "to_json_string") else "" for one in parts),
        prompts.template or prompts.family,
        _words(tokenizer),
        _words(getattr(processor, "qformer_tokenizer", None)),
        repr((sorted(ends), ids)),
        _VERSION,
    )


def _words(tokenizer: Any) -> str:
    """All that a tokenizer does to a text."""
    if tokenizer is None:
        return ""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return str(backend.to_str() if backend else repr(sorted(tokenizer.get_vocab().items())))
