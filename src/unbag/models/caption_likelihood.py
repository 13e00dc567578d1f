"""Captions come in; how probable a language model finds each, picture unseen, goes out.

Dimensions: N texts of a batch, L tokens, V vocabulary.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from unbag.errors import UserError
from unbag.models.caption_only import text_of
from unbag.models.fingerprint import fingerprint
from unbag.models.hf_source import (
    Source,
    need_transformers,
    on_disk,
    parse_source,
    quietly,
    read_tokenizer,
    read_weights,
)
from unbag.types import Caption, Picture, Query

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 64
"""Texts run together, of nearly the same length."""
_REMEMBERED = 1 << 17
"""Texts whose number is kept, so that memory stays flat over millions of captions."""
Text: TypeAlias = tuple[str, str]
"""What comes before (the question of an item, or nothing), and the caption."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-probability of a caption under a causal language model, after the question if any.

    The whole caption's by default, which is what makes a sentence plausible and is larger for
    shorter ones; with `is_mean` its average over tokens, which length does not move.
    """

    name: str
    model: Any
    tokenizer: Any
    start: int
    """The token before the first, so that the first has a probability too."""
    fingerprint: str
    is_mean: bool = False
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[Text, float] = field(default_factory=dict, repr=False)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """One number a query; a caption that was asked before is not computed again."""
        texts = [(q.question.text if q.question else "", text_of(q.caption)) for q in queries]
        self._learn(texts)
        return [self._known[text] for text in texts]

    def of(self, captions: Sequence[str]) -> list[float]:
        """The same for captions alone; NaN for one that is empty or longer than the context."""
        texts = [("", caption) for caption in captions]
        self._learn([text for text in dict.fromkeys(texts) if self._fits(text)])
        return [self._known.get(text, math.nan) for text in texts]

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[pictures, captions]; all rows are equal."""
        import torch

        texts = [("", text_of(caption)) for caption in captions]
        self._learn(texts)
        score_C = torch.tensor([self._known[text] for text in texts], dtype=torch.float64)
        return score_C.expand(len(pictures), len(captions))

    def _learn(self, texts: Sequence[Text]) -> None:
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = {text: self._tokens(text) for text in new}
        new.sort(key=lambda text: len(tokens[text][0]))
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            self._known.update(zip(some, self._run([tokens[t] for t in some]), strict=True))

    def _fits(self, text: Text) -> bool:
        most = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        return text in self._known or 0 < len(self._encode(text[1])) < most

    def _tokens(self, text: Text) -> tuple[list[int], int]:
        """Start token, question and caption; and where the caption begins."""
        before, caption = text
        prompt = self._encode(before) if before else []
        whole = self._encode(f"{before} {caption}" if before else caption)
        shared = 0
        while shared < min(len(prompt), len(whole) - 1) and prompt[shared] == whole[shared]:
            shared += 1
        most = getattr(self.model.config, "max_position_embeddings", None) or len(whole) + 1
        if not whole or len(whole) + 1 > most:
            raise UserError(
                f"{self.name}: {caption!r} has {len(whole)} tokens",
                expected=f"between 1 and {most - 1}",
                way_out="take a language model with a longer context, or leave this baseline out",
            )
        return [self.start, *whole], shared + 1

    def _encode(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]

    def _run(self, batch: Sequence[tuple[list[int], int]]) -> list[float]:
        import torch

        longest = max(len(tokens) for tokens, _ in batch)
        # A causal model never looks to the right, so what pads a text on that side is no matter.
        token_NL = torch.tensor([t + [self.start] * (longest - len(t)) for t, _ in batch])
        mask_NL = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t, _ in batch])
        device = self.model.device
        with torch.inference_mode():
            logit_NLV = self.model(
                input_ids=token_NL.to(device), attention_mask=mask_NL.to(device)
            ).logits
            log_NLV = logit_NLV[:, :-1].float().log_softmax(-1)
            next_NL = token_NL[:, 1:].to(device)
            log_NL = log_NLV.gather(-1, next_NL[..., None])[..., 0].double().cpu()
        sums = [
            float(log_NL[n, first - 1 : len(tokens) - 1].sum())
            for n, (tokens, first) in enumerate(batch)
        ]
        if not self.is_mean:
            return sums
        return [s / (len(t) - first) for s, (t, first) in zip(sums, batch, strict=True)]


def load_likelihood(path: str, *, is_mean: bool = False, device: str = "cpu") -> Likelihood:
    """From a folder of transformers, a GGUF file, or a name on the hub."""
    model, tokenizer = read_causal(path, device=device)
    start = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), -1)
    if start < 0:
        raise UserError(
            f"the tokenizer of {path} has no first token",
            expected="a bos or an eos token, so that the first word of a caption has a probability",
            way_out="take another language model",
        )
    kind = "mean-likelihood" if is_mean else "likelihood"
    return Likelihood(
        name=f"caption:{kind}:{Path(path).stem if path.endswith('.gguf') else Path(path).name}",
        model=model,
        tokenizer=tokenizer,
        start=start,
        fingerprint=fingerprint(f"caption:{kind}", model.state_dict(), _words(tokenizer), "1"),
        is_mean=is_mean,
    )


def read_causal(path: str, *, device: str = "cpu") -> tuple[Any, Any]:
    """A causal language model in float32 with its tokenizer: a folder, a .gguf file or a name."""
    need_transformers("a language model")
    import torch
    from transformers import AutoModelForCausalLM

    source = find_model(path)
    if isinstance(source, Path):
        model, tokenizer = _read_gguf(source)
    else:
        model, tokenizer = read_weights(source, AutoModelForCausalLM), read_tokenizer(source)
    # Some versions refuse `.float()` on what came from a GGUF file.
    return model.to(device, torch.float32).eval().requires_grad_(False), tokenizer


def find_model(path: str) -> Path | Source:
    """Where a language model is: a .gguf file, a folder or a name; nothing is loaded."""
    place = on_disk(path)
    if place is None and (not path or _looks_local(path)):
        raise _nothing_at(
            path, way_out="check the path; a folder that save_pretrained wrote will do"
        )
    if place is not None and place.is_file():
        if place.suffix == ".gguf":
            return place
        raise _nothing_at(path, why=": it is a file", way_out="give the folder that it lies in")
    source = parse_source(path)
    owner = Path(source.path).parent
    if not source.is_folder and owner.name and owner.is_dir() and not _is_downloaded(source):
        # FOLDER/NAME is written as OWNER/NAME of the hub is, and the folder is here.
        raise _nothing_at(
            path,
            why=f": the folder {owner} has no {Path(source.path).name}",
            way_out="check the path; if a model of the hub is meant, get it first: "
            f"hf download {source.path}",
        )
    return source


def _is_downloaded(source: Source) -> bool:
    """Whether the hub's client has it on this disk."""
    try:
        hub: Any = import_module("huggingface_hub")
    except ImportError:
        return False
    found = hub.try_to_load_from_cache(source.path, "config.json", revision=source.revision)
    return isinstance(found, str)


def _nothing_at(path: str, *, why: str = "", way_out: str) -> UserError:
    return UserError(
        f"there is no language model at {path!r}{why}",
        expected="a folder of transformers, a .gguf file, or a name on the hub",
        way_out=way_out,
    )


def _read_gguf(file: Path) -> tuple[Any, Any]:
    """Weights of few bits are written out in full."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": file.name, "trust_remote_code": False}
    try:
        with quietly():
            model: Any = AutoModelForCausalLM.from_pretrained(str(file.parent), **where)
            return model, AutoTokenizer.from_pretrained(str(file.parent), **where)
    except Exception as error:
        # Readers of weights raise anything on a damaged file: struct.error, KeyError ...
        raise UserError(
            f"{file} cannot be read as a language model: {_first_line(error)}",
            expected="a whole GGUF file of a kind that transformers reads",
            way_out="pip install gguf accelerate"
            if isinstance(error, ImportError)
            else "copy or download the file again, or take a folder with config.json",
        ) from error


def _looks_local(path: str) -> bool:
    """Not `name` or `owner/name`, as the hub writes them."""
    return path.startswith((".", "~", os.sep)) or path.endswith(".gguf") or path.count("/") > 1


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _words(tokenizer: Any) -> str:
    """All that decides how a text becomes tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return str(backend.to_str()) if backend else repr(sorted(tokenizer.get_vocab().items()))
