"""Items come in; how close each caption is to the item's others, picture unseen, goes out.

Dimensions: N texts of a batch, C captions of an item, L tokens, H hidden, D vector.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UserError, unknown_name
from unbag.models.huggingface.inputs import Captions, make_captions
from unbag.models.huggingface.loading import (
    Source,
    need_transformers,
    on_disk,
    parse_source,
    plain_config,
    quietly,
    read_config,
    read_tokenizer,
    read_weights,
)
from unbag.models.weights import fingerprint
from unbag.types import Caption, FloatArray, Item, Picture, Query, Scores, Sparse

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.layers import Pool

# Caption-only scorers, the blind baselines: what can be had without looking at the picture.
#
# Dimensions: P pictures, C captions, Q queries.

Blind: TypeAlias = "CaptionOnly | Coin | Likelihood | Sentence"


@dataclass(frozen=True)
class CaptionOnly:
    """Scores a caption by a rule on its text alone."""

    name: str
    rule: Callable[[str], float]
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """The name says it all: the rules are fixed."""
        return f"{self.name}-2"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """The rule, caption by caption."""
        return [self.rule(text_of(query.caption)) for query in queries]

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[P, C]; all rows are equal."""
        import torch

        score_C = torch.tensor([self.rule(text_of(c)) for c in captions], dtype=torch.float64)
        return score_C.expand(len(pictures), len(captions))


@dataclass(frozen=True)
class Coin:
    """A random number for each pair of picture and caption, the same in every run.

    It depends on the seed, the file name of the picture, the caption and the question; not on the
    folder that the data lie in, and not on any pixel, which would mean to open the picture. A pair
    that several items share has one number in all of them, as with every scorer; the captions of
    one item have independent ones, so each item is a fair draw.
    """

    name: str
    seed: int = 0
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """Of the seed and the way numbers are made."""
        return f"caption:random-{self.seed}-1"

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Numbers in [0, 1)."""
        picture_Q = _hashes([_file_name(query.picture) for query in queries])
        caption_Q = _hashes([_asked(query) for query in queries])
        return self._uniform(picture_Q, caption_Q)

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[P, C]: the same numbers as pair by pair."""
        import torch

        picture_P = _hashes([_file_name(picture) for picture in pictures])
        caption_C = _hashes([_asked(Query(pictures[0], caption)) for caption in captions])
        return torch.from_numpy(self._uniform(picture_P[:, None], caption_C[None, :]))

    def _uniform(self, one: NDArray[np.uint64], other: NDArray[np.uint64]) -> FloatArray:
        seed = _hashes([str(self.seed)])
        mixed = _mix(_mix(one + seed) ^ other)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


def text_of(caption: Caption) -> str:
    """A caption as one string; an ensemble is known by its name."""
    return caption if isinstance(caption, str) else caption.name


def _file_name(picture: Picture) -> str:
    return PurePath(picture.name).name


def _asked(query: Query) -> str:
    question = query.question.text if query.question else ""
    return f"{question}\0{text_of(query.caption)}"


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    joined = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on every bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _between_0_and_1(caption: str) -> float:
    """Tells captions of one length apart, so that a blind guess reads as chance, not as a tie."""
    return int.from_bytes(blake2b(caption.encode(), digest_size=6).digest(), "big") / 2**48


# Many published negatives are longer than the truth: preferring the shorter caption alone scores
# about 71 % on SugarCrepe.
_RULES: dict[str, Callable[[str], float]] = {
    "constant": lambda caption: 0.0,
    "short": lambda caption: _between_0_and_1(caption) - len(caption),
    "long": lambda caption: _between_0_and_1(caption) + len(caption),
}
ALL = ("caption:constant", "caption:random", "caption:short", "caption:long")
"""What `--blind all` means: every baseline that needs no model."""


def load(name: str, *, device: str = "cpu") -> Blind:
    """`short`, `long`, `constant`, `random[:SEED]`, `[mean-]likelihood:PATH`, `sentence:PATH`."""
    kind, _, rest = name.partition(":")
    if kind in ("likelihood", "mean-likelihood"):
        return load_likelihood(rest, is_mean=kind == "mean-likelihood", device=device)
    if kind == "sentence":
        return load_sentence(rest, device=device)
    if kind == "random":
        return Coin(f"caption:{name}", _seed(rest)) if rest else Coin("caption:random")
    if name not in _RULES:
        models = ("likelihood", "mean-likelihood", "sentence")
        known = [*ALL, *(f"caption:{model}:PATH" for model in models)]
        raise unknown_name("model", f"caption:{name}", known)
    return CaptionOnly(f"caption:{name}", _RULES[name])


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UserError(
            f"caption:random:{text}: {text!r} is no seed",
            expected="a whole number, as in caption:random:7",
        )
    return int(text)


# Dimensions: N texts of a batch, L tokens, V vocabulary.

CAPTION_LIKELIHOOD_BATCH = 64
"""Texts run together, of nearly the same length."""
_CAPTION_LIKELIHOOD_REMEMBERED = 1 << 17
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
        if len(self._known) > _CAPTION_LIKELIHOOD_REMEMBERED:
            self._known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = {text: self._tokens(text) for text in new}
        new.sort(key=lambda text: len(tokens[text][0]))
        for at in range(0, len(new), CAPTION_LIKELIHOOD_BATCH):
            some = new[at : at + CAPTION_LIKELIHOOD_BATCH]
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


Pooling = Literal["mean", "cls", "lasttoken"]
POOL_OF: Mapping[Pooling, Pool] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""By the names of sentence-transformers."""
CAPTION_SENTENCE_BATCH = 64
"""Texts run together, of nearly the same length."""
_CAPTION_SENTENCE_REMEMBERED = 1 << 16
"""Vectors that `vectors` keeps, so that memory stays flat over millions of captions."""
_KEPT = 16
"""Captions up to which their similarities are kept with the scores."""
_VERSION = "caption-sentence-1"
"""Raise it whenever the code here changes a number."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """Prefers the caption that is most like the item's other captions: the odd one out is false.

    The score is the mean cosine of its sentence vector with those of the others. It needs three
    captions or more: of two, each is as close to the other, which is a tie; one alone has no score.
    A benchmark that can be had this way shows which caption was made from the others.
    """

    name: str
    model: Any
    captions: Captions
    pooling: Pooling
    fingerprint: str
    device: str = "cpu"
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included; longer ones are cut."""
        return self.captions.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Refused: a caption alone has nothing to be compared with."""
        raise UserError(
            f"{self.name} compares the captions of an item with each other",
            expected="whole items, by score_items",
            way_out="use `unbag run` or `unbag score`, which show it all captions together",
        )

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """The same row for every picture of an item."""
        for item in items:
            if isinstance(item.truth, Sparse):
                raise UserError(
                    f"{self.name} cannot rank the gallery {item.id!r}",
                    expected="items whose captions belong together",
                    way_out="leave the retrieval benchmarks out for this baseline",
                )
        self._learn([text for item in items for c in item.captions for text in _prompts(c)])
        return [self._scores(item) for item in items]

    def vectors(self, captions: Sequence[str]) -> FloatArray:
        """[N, D]: a vector of length 1 for each caption alone."""
        if len(self._known) > _CAPTION_SENTENCE_REMEMBERED:
            self._known.clear()
        self._learn(captions)
        return np.stack([self._vector(caption) for caption in captions])

    def _scores(self, item: Item) -> Scores:
        vector_CD = np.stack([self._vector(caption) for caption in item.captions])
        cosine_CC = vector_CD @ vector_CD.T
        # A product of matrices need not be symmetric to the last bit, and ties must be ties.
        cosine_CC = (cosine_CC + cosine_CC.T) / 2
        others = len(vector_CD) - 1
        # A score of its own, 1 but for rounding, would not always cancel out.
        other_CC = np.where(np.eye(others + 1, dtype=np.bool_), 0.0, cosine_CC)
        score_C = other_CC.sum(axis=1) / others if others else np.full(1, np.nan)
        return Scores(
            item.id,
            np.tile(score_C, (len(item.pictures), 1)),
            caption_CC=cosine_CC if len(vector_CD) <= _KEPT else None,
        )

    def _vector(self, caption: Caption) -> FloatArray:
        mean: FloatArray = np.mean([self._known[text] for text in _prompts(caption)], axis=0)
        return mean / np.linalg.norm(mean)

    def _learn(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        counts = dict(zip(new, self.captions.count(new), strict=True)) if new else {}
        new.sort(key=lambda text: (counts[text], text))
        for at in range(0, len(new), CAPTION_SENTENCE_BATCH):
            some = new[at : at + CAPTION_SENTENCE_BATCH]
            vectors = self._encode(some).double().cpu().numpy()
            self._known.update(zip(some, vectors, strict=True))

    def _encode(self, texts: Sequence[str]) -> Tensor:
        import torch
        from torch.nn.functional import normalize

        from unbag.models.layers import pool_words

        inputs = {name: value.to(self.device) for name, value in self.captions(texts).items()}
        mask_NL = inputs["attention_mask"]
        with torch.inference_mode():
            hidden_NLH = self.model(**inputs).last_hidden_state
            found: Tensor = normalize(
                pool_words(hidden_NLH, mask_NL, POOL_OF[self.pooling]), dim=-1
            )
        return found


def load_sentence(path: str, *, device: str = "cpu") -> Sentence:
    """From a folder of sentence-transformers or transformers, or a name on the hub."""
    need_transformers("caption:sentence")
    from transformers import AutoModel

    source = parse_source(path)
    config = read_config(source)
    if hasattr(config, "vision_config") or config.is_encoder_decoder:
        raise UserError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder of sentences, such as all-MiniLM-L6-v2",
            way_out="take one of sentence-transformers",
        )
    pooling = sentence_pooling(source)
    longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
    captions = make_captions(
        config, read_tokenizer(source), is_padded=False, has_mask=True, most=longest
    )
    # The pooler of BERT is left out of many such checkpoints and never asked here.
    model = read_weights(source, AutoModel, unused=("pooler.",)).float().to(device)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("pooler.")}
    said = (plain_config(config), captions.said, pooling, _VERSION)
    return Sentence(
        name=f"caption:sentence:{source.name}",
        model=model,
        captions=captions,
        pooling=pooling,
        fingerprint=fingerprint("caption:sentence", state, *said),
        device=device,
    )


def sentence_pooling(source: Source) -> Pooling:
    """As modules.json says; the mean of all tokens where there is none."""
    modules = [
        str(one["type"]).rpartition(".")[2] for one in checkpoint_file(source, "modules.json") or []
    ]
    settings = checkpoint_file(source, "1_Pooling/config.json")
    modes = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    modes = [mode.removesuffix("_token").removesuffix("_tokens") for mode in modes]
    modes = [m for m in modes if m != "include_prompt"] or [settings.get("pooling_mode", "mean")]
    odd = sorted({*modules} - {"Transformer", "Pooling", "Normalize"})
    if odd or len(modes) > 1 or modes[0] not in ("mean", "cls", "lasttoken"):
        raise UserError(
            f"{source.path} pools tokens by {' and '.join([*modes, *odd])}",
            expected="mean, cls or lasttoken, and no layers after it",
            way_out="take another sentence encoder",
        )
    return cast(Pooling, modes[0])


def checkpoint_file(source: Source, name: str) -> Any:
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


def _prompts(caption: Caption) -> tuple[str, ...]:
    return (caption,) if isinstance(caption, str) else caption.prompts
