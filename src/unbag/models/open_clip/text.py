"""Token ids come in; caption and word vectors go out, at the captions' real length where exact.

A caption is padded to the tower's context, and most of the work is spent on padding. It can be cut
off where no token that counts can see it: in a causal tower that pools at the end token, and in
towers that mask their padding. It cannot where tokens look at padding (SigLIP) or where the vector
is read from the last place; these run whole, and the model says so.

Dimensions: N captions, L tokens, W tower width, D joint space, B heads x captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from unbag.errors import UserError
from unbag.models.layers import blocks_of, laid_out, recorded
from unbag.models.open_clip.layers import through
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


class TextTower(Protocol):
    """A text tower of any kind."""

    @property
    def whole_because(self) -> str:
        """Why captions run at full length; "" if they run at their real length."""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """One vector a caption, [N, D], not normalised."""

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """One vector for each of the first `length` tokens, [N, L, D], not normalised."""

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """What stands after each layer, for as many tokens as `real_NL` has columns."""


@dataclass(frozen=True, eq=False)
class Native:
    """open_clip's own transformer without a class token: CLIP's, and SigLIP's."""

    tower: Any
    pool: str
    end: int
    """The id of the end token, for pool eos."""

    @property
    def whole_because(self) -> str:
        """Whether padding reaches the vector."""
        if self.tower.attn_mask is None:
            return "its text tower looks at padding"
        return "its text tower reads the last place" if self.pool == "last" else ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """The projected token at the end of each caption."""
        length = token_NL.shape[1]
        if not self.whole_because:
            length = int(self._places(token_NL).max()) + 1
        return self.pooled_as_given(token_NL[:, :length])

    def pooled_as_given(self, token_NL: Tensor) -> Tensor:
        """The same for ids that were cut before, so that no device is asked for a length."""
        return project(self.tower, self._read(self._hidden(token_NL), token_NL))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Every token, projected as the pooled one is."""
        run = token_NL if self.whole_because else token_NL[:, :length]
        return project(self.tower, self._hidden(run)[:, :length])

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Every token, and the one that is read out."""
        length = real_NL.shape[1]
        run = token_NL if self.whole_because else token_NL[:, :length]
        hidden = through(self.tower.transformer, *self._entering(run))
        hidden.append(self.tower.ln_final(hidden[-1]))
        pooled = [self._read(one, run) for one in hidden]
        return laid_out([one[:, :length] for one in hidden], pooled, real_NL)

    def _read(self, hidden_NLW: Tensor, token_NL: Tensor) -> Tensor:
        place_N = self._places(token_NL)
        return hidden_NLW[torch.arange(len(place_N), device=place_N.device), place_N]

    def _places(self, token_NL: Tensor) -> Tensor:
        """Where each caption's vector is read."""
        if self.pool == "argmax":
            return token_NL.argmax(dim=-1)
        if self.pool == "eos":
            return (token_NL == self.end).int().argmax(dim=-1)
        place = 0 if self.pool == "first" else token_NL.shape[1] - 1
        return torch.full((len(token_NL),), place, device=token_NL.device)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_LL = self._entering(token_NL)
        hidden: Tensor = self.tower.ln_final(self.tower.transformer(hidden_NLW, attn_mask=mask_LL))
        return hidden

    def _entering(self, token_NL: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the first block is given, and the mask of all."""
        tower, length = self.tower, token_NL.shape[1]
        dtype = tower.transformer.get_cast_dtype()
        hidden_NLW = tower.token_embedding(token_NL).to(dtype)
        hidden_NLW = hidden_NLW + tower.positional_embedding[:length].to(dtype)
        mask = tower.attn_mask
        return hidden_NLW, None if mask is None else mask[:length, :length].to(dtype)


@dataclass(frozen=True, eq=False)
class Classed:
    """CoCa's tower: a class token after the padding, at the last place, with padding masked."""

    tower: Any
    whole_because: str = ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """The class token; its own place is kept when the padding before it goes."""
        return project(self.tower, self.tower.ln_final(self._hidden(token_NL)[:, -1]))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Every token but the class token."""
        return project(self.tower, self.tower.ln_final(self._hidden(token_NL)[:, :length]))

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Every token but the class token, which is read out."""
        hidden = through(self.tower.transformer, *self._entering(token_NL))
        hidden.append(self.tower.ln_final(hidden[-1]))
        words = [one[:, : real_NL.shape[1]] for one in hidden]
        return laid_out(words, [one[:, -1] for one in hidden], real_NL)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_BKK = self._entering(token_NL)
        hidden: Tensor = self.tower.transformer(hidden_NLW, attn_mask=mask_BKK)
        return hidden

    def _entering(self, token_NL: Tensor) -> tuple[Tensor, Tensor]:
        """What the first block is given, and the mask of all."""
        tower, count = self.tower, len(token_NL)
        dtype = tower.transformer.get_cast_dtype()
        kept_K = self._kept(token_NL)
        word_NLW = tower.token_embedding(token_NL[:, kept_K[:-1]]).to(dtype)
        class_NLW = tower.cls_emb.to(dtype).expand(count, 1, -1)
        hidden_NLW = torch.cat([word_NLW, class_NLW], dim=1)
        hidden_NLW = hidden_NLW + tower.positional_embedding[kept_K].to(dtype)
        return hidden_NLW, self._mask(token_NL, kept_K)

    def _kept(self, token_NL: Tensor) -> Tensor:
        """Places that some caption needs, and the class token's."""
        real_L = (token_NL != self.tower.pad_id).any(dim=0).nonzero()
        # One more than the longest: the mask of published CoCa weights is off by one place.
        last = int(real_L.max()) + 1 if len(real_L) else 0
        length = token_NL.shape[1]
        return torch.tensor([*range(min(last + 1, length)), length], device=token_NL.device)

    def _mask(self, token_NL: Tensor, kept_K: Tensor) -> Tensor:
        """Padding hidden as open_clip hides it, and the future where the tower is causal, [B,K,K].

        The full mask is made first, so that leaving out places is all that differs.
        """
        tower, size = self.tower, len(kept_K)
        real_NL = token_NL != tower.pad_id
        always = real_NL.new_ones(len(real_NL), 1)
        is_right = getattr(tower, "correct_cls_mask", False)
        seen_NK = torch.cat([real_NL, always] if is_right else [always, real_NL], dim=1)[:, kept_K]
        dtype = tower.transformer.get_cast_dtype()
        mask_NKK = torch.zeros(len(token_NL), size, size, dtype=dtype, device=token_NL.device)
        mask_NKK.masked_fill_(~seen_NK[:, None, :], float("-inf"))
        if tower.attn_mask is not None:
            mask_NKK = mask_NKK + tower.attn_mask[kept_K][:, kept_K].to(dtype)
        return mask_NKK.repeat_interleave(tower.heads, dim=0)


@dataclass(frozen=True, eq=False)
class Masked:
    """A tower of transformers: padding is masked in attention and in pooling."""

    tower: Any

    @property
    def whole_because(self) -> str:
        """Poolers that leave padding out are known by name."""
        known = ("MeanPooler", "ClsPooler", "ClsLastHiddenStatePooler")
        pooler = type(self.tower.pooler).__name__
        return "" if pooler in known else f"its text tower pools with {pooler}"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """As open_clip pools and projects."""
        found = self.tower(self._cut(token_NL))
        vector: Tensor = found[0] if isinstance(found, tuple) else found
        return vector

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Last hidden states, projected; refused where pooling is more than a choice or a mean."""
        if getattr(self.tower.transformer, "pooler", None) is not None:
            raise UserError(
                "this text tower has a layer of its own for the pooled vector",
                expected="a tower whose words can be projected as the caption is",
                way_out="use the caption vector",
            )
        token_NL = self._cut(token_NL)
        mask_NL = (token_NL != self.tower.config.pad_token_id).long()
        found = self.tower.transformer(input_ids=token_NL, attention_mask=mask_NL)
        vector_NLD: Tensor = self.tower.proj(found.last_hidden_state[:, :length])
        return vector_NLD

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Every token; the first is read out, or nothing before the last layer."""
        tower, blocks = self.tower, blocks_of(self.tower.transformer)
        if not blocks:
            raise _no_layers(type(tower.transformer).__name__)
        token_NL = self._cut(token_NL)
        mask_NL = (token_NL != tower.config.pad_token_id).long()
        found, hidden = recorded(
            blocks, lambda: tower.transformer.forward(input_ids=token_NL, attention_mask=mask_NL)
        )
        has_class = type(tower.pooler).__name__.startswith("Cls")
        pooled = [one[:, 0] if has_class else None for one in hidden]
        words = [one[:, : real_NL.shape[1]] for one in (*hidden, found.last_hidden_state)]
        return laid_out(words, [*pooled, tower.pooler(found, mask_NL)], real_NL)

    def _cut(self, token_NL: Tensor) -> Tensor:
        if self.whole_because:
            return token_NL
        real_L = (token_NL != self.tower.config.pad_token_id).any(dim=0).nonzero()
        return token_NL[:, : int(real_L.max()) + 1] if len(real_L) else token_NL


@dataclass(frozen=True, eq=False)
class Unknown:
    """A tower we know nothing about: run as open_clip runs it."""

    model: Any
    whole_because: str = "its text tower is of an unknown kind"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """At full length."""
        vector_ND: Tensor = self.model.encode_text(token_NL, normalize=False)
        return vector_ND

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Never."""
        raise UserError(
            "word vectors of this text tower are not known",
            way_out="use the caption vector",
        )

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Never."""
        raise _no_layers(f"text tower that runs whole, since {self.whole_because}")


def _no_layers(kind: str) -> UserError:
    return UserError(
        f"layers of a {kind} are not known",
        expected="open_clip's own text transformer, or one of transformers with a list of blocks",
        way_out="use the caption vector",
    )


def project(tower: Any, hidden: Tensor) -> Tensor:
    """Into the joint space, as the tower projects what it pools."""
    projection = tower.text_projection
    if projection is None:
        return hidden
    found: Tensor = (
        projection(hidden) if isinstance(projection, torch.nn.Linear) else hidden @ projection
    )
    return found


def text_tower(model: Any) -> TextTower:
    """The kind of a model's text tower."""
    text = getattr(model, "text", None)
    if text is None:
        return Native(model, model.text_pool_type, int(getattr(model, "text_eos_id", None) or 0))
    if hasattr(text, "pooler") and hasattr(text, "config"):
        return Masked(text)
    if not hasattr(text, "positional_embedding") or getattr(text, "use_pad_mask", False):
        return Unknown(model)
    if text.cls_emb is not None:
        return Classed(text)
    return Native(text, text.pool_type, int(getattr(text, "eos_id", None) or 0))
