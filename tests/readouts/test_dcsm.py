"""DCSM: worked numbers of 7.1, functional words, what a score depends on, loss, controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.features import Placed, ends, joint_texts, placed_words
from unbag.models.tiny import load
from unbag.readouts.base import find_readout, train_readout
from unbag.readouts.dcsm import (
    END,
    FUNCTIONAL,
    Align,
    Dcsm,
    DcsmSettings,
    MapCaptions,
    MapCnn,
    MapMlp,
    Only,
    cosine_maps,
    functional_rows,
    map_statistics,
    marks,
    replace_functional_columns,
    standardise,
)
from unbag.readouts.reader import ReaderBatch, Sizes, contrast
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.types import DualEncoder, Query, TokenFeatures
from unbag.world.benchmarks import triple_items

SIZES = Sizes(patches=9, picture_width=8, caption_width=8)
FIXED = DcsmSettings(length=6)
RELEASED = replace(FIXED, align="word_index", norm="batch")


def unit(*shape: int, seed: int) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


def images(count: int, seed: int = 0, patches: int = 9) -> TokenFeatures:
    mask_NL = torch.ones((count, patches), dtype=torch.bool)
    return TokenFeatures(unit(count, patches, 8, seed=seed), mask_NL, unit(count, 8, seed=seed + 1))


def captions(count: int, seed: int = 100) -> TokenFeatures:
    mark_NL = torch.zeros((count, 6), dtype=torch.int64)
    mark_NL[:, 2] = torch.arange(count) % 4
    mark_NL[:, 4] += END
    mask_NL = torch.ones((count, 6), dtype=torch.bool)
    return TokenFeatures(
        unit(count, 6, 8, seed=seed), mask_NL, unit(count, 8, seed=seed + 1), mark_NL
    )


def reader(settings: DcsmSettings = FIXED, seed: int = 0) -> Dcsm:
    torch.manual_seed(seed)
    return Dcsm(settings, SIZES).eval()


def test_the_worked_map() -> None:
    """7.1: two patches, three tokens; then the middle column replaced."""
    image = torch.tensor([[[1.0, 0], [0, 1]]])
    caption = torch.tensor([[[1.0, 0], [0.6, 0.8], [0, 1]]])
    found = cosine_maps(image, caption, calls=1)
    assert found.shape == (1, 1, 1, 2, 3)
    np.testing.assert_allclose(found[0, 0, 0], [[1, 0.6, 0], [0, 0.8, 1]], atol=1e-6)
    standard = standardise(found, map_statistics(found, None, by="map"), None)
    expected = [[0.935276, 0.071944, -1.223053], [-1.223053, 0.503610, 0.935276]]
    np.testing.assert_allclose(standard[0, 0, 0], expected, atol=1e-6)
    row_TR = torch.zeros((11, 2))
    row_TR[3] = torch.tensor([0.34, 0.33])
    said = replace_functional_columns(found, torch.tensor([[0, 4, END]]), row_TR)
    standard = standardise(said, map_statistics(said, None, by="map"), None)
    expected = [[1.219059, -0.230633, -0.977444], [-0.977444, -0.252598, 1.219059]]
    np.testing.assert_allclose(standard[0, 0, 0], expected, atol=1e-6)


def test_functional_rows_are_a_third_with_small_deviations() -> None:
    row_TR = functional_rows(197, seed=0)
    assert row_TR.shape == (11, 197)
    np.testing.assert_allclose(row_TR.mean(), 1 / 3, atol=0.005)
    # A unit vector of 197 entries has entries of about 1 / sqrt(197) = 0.071; a third of that.
    np.testing.assert_allclose(row_TR.std(), 0.0237, atol=0.001)
    np.testing.assert_allclose((row_TR * 3 - 1).norm(dim=1), 1, atol=1e-5)
    assert torch.equal(row_TR, functional_rows(197, seed=0))
    assert not torch.equal(row_TR, functional_rows(197, seed=1))


def test_the_networks_have_the_published_sizes() -> None:
    assert sum(w.numel() for w in MapCnn(197, 30).parameters()) == 3_026_365
    # 5,910 x 64 + 64, 64 x 32 + 32, 32 + 1
    assert sum(w.numel() for w in MapMlp(197, 30).parameters()) == 378_304 + 2_080 + 33
    assert MapCnn(5, 4)(torch.zeros(3, 5, 4)).shape == MapMlp(5, 4)(torch.zeros(3, 5, 4)).shape


def test_cls_is_the_first_row_and_words_replace_their_column() -> None:
    made = reader(replace(FIXED, functional_words=False))
    image, caption = images(2), captions(2)
    row_NRW = torch.cat([image.pooled[:, None], image.vector_NLW], dim=1)
    plain = row_NRW @ caption.vector_NLW.transpose(1, 2)
    expected = (plain - plain.mean((1, 2), keepdim=True)) / plain.std((1, 2), keepdim=True)
    torch.testing.assert_close(made.maps(image, caption), expected, atol=1e-5, rtol=0)
    marked = reader()
    plain[1, :, 2] = marked.functional_TR[0].detach()
    expected = (plain - plain.mean((1, 2), keepdim=True)) / plain.std((1, 2), keepdim=True)
    torch.testing.assert_close(marked.maps(image, caption), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("net", ["cnn", "mlp"])
def test_a_fixed_score_does_not_depend_on_the_other_candidates(net: Literal["cnn", "mlp"]) -> None:
    """13.8, first half."""
    made = reader(replace(FIXED, net=net))
    image, caption = images(4), captions(4)
    whole = made.compare(image, caption)
    for at in range(4):
        one = made.compare(image.rows(slice(at, at + 1)), caption.rows(slice(at, at + 1)))
        torch.testing.assert_close(one, whole[at : at + 1], atol=1e-5, rtol=0)
    torch.testing.assert_close(made.compare_all(image, caption).diagonal(), whole)
    assert not made.depends_on_call


def test_a_released_score_depends_on_the_other_candidates() -> None:
    """13.8, second half."""
    made = reader(RELEASED)
    image, caption = images(1), captions(4)
    two = made.compare_all(image, caption.rows(slice(0, 2)))
    four = made.compare_all(image, caption)
    assert made.depends_on_call
    assert (two - four[:, :2]).abs().min() > 1e-4
    assert (made.compare(images(4), caption)[:1] - two[0, :1]).abs() > 1e-4


@pytest.mark.parametrize("only", ["all", "cls", "eos", "cls_eos"])
@pytest.mark.parametrize("norm", ["map", "batch"])
def test_a_matrix_is_the_same_in_blocks(
    only: Only, norm: Literal["map", "batch"], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reader(replace(FIXED, only=only, norm=norm))
    image, caption = images(5), captions(3)
    at = torch.arange(15)
    rows = made.compare(image.rows(at // 3), caption.rows(at % 3)).view(5, 3)
    torch.testing.assert_close(made.compare_all(image, caption), rows, atol=1e-5, rtol=0)
    monkeypatch.setattr("unbag.readouts.reader.MOST_NUMBERS", 2_000)
    torch.testing.assert_close(made.compare_all(image, caption), rows, atol=1e-5, rtol=0)


def batch(size: int, negatives: int, seed: int = 0) -> ReaderBatch:
    also_BB = torch.zeros((size, size), dtype=torch.bool)
    also_BB[0, 1] = True
    mask_BK = torch.ones((size, negatives), dtype=torch.bool)
    mask_BK[1, :1] = False
    negative = captions(size * negatives, seed=50) if negatives else None
    return ReaderBatch(images(size, seed), captions(size), negative, mask_BK, also_BB)


@pytest.mark.parametrize("settings", [FIXED, RELEASED])
@pytest.mark.parametrize("contrast_size", [2, 4, 6, 100])
def test_with_negatives_the_loss_is_the_contrast_of_all_readers(
    settings: DcsmSettings, contrast_size: int
) -> None:
    made = reader(settings)
    found = made.loss(batch(6, 2), contrast_size=contrast_size)
    torch.testing.assert_close(found, contrast(made, batch(6, 2), contrast_size=contrast_size))


@pytest.mark.parametrize("settings", [FIXED, RELEASED])
def test_without_negatives_the_loss_is_the_papers(settings: DcsmSettings) -> None:
    """2B x 2B logits, rows plus columns, no half; an order of rows changes nothing."""
    made = reader(settings)
    given = replace(batch(6, 0), also_true_BB=torch.zeros((6, 6), dtype=torch.bool))
    logit = made.compare_all(given.image, given.caption)
    own = torch.arange(6)
    entropy = torch.nn.functional.cross_entropy
    expected = entropy(logit, own) + entropy(logit.T, own)
    torch.testing.assert_close(made.loss(given, contrast_size=6), expected)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    mixed = replace(given, image=given.image.rows(order), caption=given.caption.rows(order))
    torch.testing.assert_close(made.loss(mixed, contrast_size=6), expected)
    # Smaller crowds: the mean of the parts.
    parts = [logit_of(made, given, slice(at, at + 2)) for at in (0, 2, 4)]
    torch.testing.assert_close(made.loss(given, contrast_size=2), torch.stack(parts).mean())


def logit_of(made: Dcsm, given: ReaderBatch, part: slice) -> Tensor:
    logit = made.compare_all(given.image.rows(part), given.caption.rows(part))
    own = torch.arange(len(logit))
    entropy = torch.nn.functional.cross_entropy
    return entropy(logit, own) + entropy(logit.T, own)


@pytest.mark.parametrize("learned", [False, True])
def test_functional_rows_are_learned_only_if_asked(learned: bool) -> None:
    made = reader(replace(FIXED, learn_functional_rows=learned))
    made.loss(batch(4, 1), contrast_size=4).backward()  # type: ignore[no-untyped-call]
    assert (made.functional_TR.grad is not None) is learned
    assert made.net.get_parameter("out.weight").grad is not None


def test_shuffled_each_loses_where_patches_lay_and_same_does_not() -> None:
    image, caption = images(3), captions(3)
    moved = replace(image, vector_NLW=image.vector_NLW.roll(4, dims=1))
    ways: dict[Literal["no", "same", "each"], bool] = {"no": False, "same": False, "each": True}
    for shuffle, is_lost in ways.items():
        made = reader(replace(FIXED, shuffle_patches=shuffle))
        apart = (made.compare(image, caption) - made.compare(moved, caption)).abs()
        assert apart.max() < 1e-6 if is_lost else apart.min() > 1e-5
    plain, same = reader(), reader(replace(FIXED, shuffle_patches="same"))
    rows = same.order_L
    there = replace(image, vector_NLW=image.vector_NLW[:, rows])
    torch.testing.assert_close(plain.compare(there, caption), same.compare(image, caption))


def test_only_cls_and_eos_see_nothing_else() -> None:
    image, caption = images(1), captions(1)
    others = replace(image, vector_NLW=images(1, seed=9).vector_NLW)
    words = replace(caption, vector_NLW=caption.vector_NLW.clone())
    words.vector_NLW[:, [0, 1, 3, 5]] = captions(1, seed=7).vector_NLW[:, [0, 1, 3, 5]]
    same = pytest.approx
    ways: dict[Only, tuple[bool, bool]] = {
        "cls": (False, True),
        "eos": (True, False),
        "cls_eos": (True, True),
    }
    for only, (sees_patches, sees_words) in ways.items():
        made = reader(replace(FIXED, only=only))
        own = made.compare(image, caption).item()
        assert (made.compare(others, caption).item() == same(own, abs=1e-6)) is not sees_patches
        assert (made.compare(image, words).item() == same(own, abs=1e-6)) is not sees_words
    kept = reader(replace(FIXED, only="cls_eos")).maps(image, caption)[0]
    expected = torch.zeros(10, 6, dtype=torch.bool)
    expected[0], expected[:, 4] = True, True
    assert torch.equal(kept != 0, expected)
    np.testing.assert_allclose(kept[expected].mean().item(), 0, atol=1e-6)
    np.testing.assert_allclose(kept[expected].std().item(), 1, atol=1e-5)


def test_constant_maps_and_half_precision_are_finite() -> None:
    same = TokenFeatures(
        torch.ones(2, 9, 8) / 8**0.5, torch.ones(2, 9, dtype=torch.bool), torch.ones(2, 8) / 8**0.5
    )
    words = replace(captions(2), vector_NLW=torch.ones(2, 6, 8) / 8**0.5)
    words = replace(words, mark_NL=torch.zeros(2, 6, dtype=torch.int64))
    for settings in (FIXED, RELEASED):
        made = reader(settings)
        assert made.maps(same, words).abs().max() < 1
        assert made.compare_all(same, words).isfinite().all()
    image, caption = images(3), captions(3)
    made = reader()
    half = made.compare(image.to("cpu", torch.float16), caption.to("cpu", torch.float16))
    torch.testing.assert_close(half, made.compare(image, caption), atol=0.01, rtol=0)
    assert half.dtype == torch.float32


def test_bad_input_is_told() -> None:
    made = reader()
    with pytest.raises(UnbagError, match="images of 4 patches") as error:
        made.compare(images(2, patches=4), captions(2))
    assert error.value.expected == "9, as this dcsm_fixed was trained"
    assert "a reader trained for these" in error.value.hint
    with pytest.raises(ValueError, match="not encoded by the view dcsm-token-6-kept"):
        made.compare(images(2), replace(captions(2), mark_NL=None))
    with pytest.raises(UnbagError, match="length=1") as error:
        replace(FIXED, length=1)
    assert error.value.expected == "at least 2"
    with pytest.raises(UnbagError, match=r"dropout=1\.0") as error:
        replace(FIXED, dropout=1.0)
    assert error.value.expected == "at least 0 and below 1"


def test_what_decides_an_order_survives_half_precision() -> None:
    made = reader(replace(FIXED, shuffle_patches="each"))
    assert torch.equal(made.towards_W.half().float(), made.towards_W)
    assert made.max_tokens == 6


@pytest.mark.parametrize(("rows", "columns"), [(10, 6), (2, 2), (5, 3)])
def test_convolutions_as_products_of_matrices_give_the_same(rows: int, columns: int) -> None:
    # What a GPU computes; here on a processor, in double precision.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = MapCnn(rows, columns).double()
    map_NRL = unit(4, rows, columns, seed=1).double().requires_grad_()
    learned = (map_NRL, *net.parameters())
    found = {
        form: (score_N, torch.autograd.grad(score_N.square().sum(), learned))
        for form, score_N in (("plain", net(map_NRL)), ("products", net.by_products(map_NRL)))
    }
    torch.testing.assert_close(found["products"], found["plain"])


def test_gradients_of_products_are_not_asked_for_theirs() -> None:
    """Windows have a gradient of their own making, and no second one: better told than wrong."""
    net = MapCnn(3, 2)
    score_N = net.by_products(unit(2, 3, 2, seed=1).requires_grad_())
    (gradient,) = torch.autograd.grad(score_N.sum(), [net.first.weight], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()  # type: ignore[no-untyped-call]


@dataclass
class Pieces:
    """Counts as CLIP's tokenizer does, with pieces of three letters and signs by themselves."""

    special: int = 2
    odd: bool = False

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [self._count(caption) for caption in captions]

    def _count(self, caption: str) -> int:
        words = caption.replace(",", " , ").split()
        pieces = sum(-(-len(word) // 3) for word in words)
        return self.special + pieces + (1 if self.odd and len(words) > 2 else 0)


def like_clip(special: int = 2, *, odd: bool = False) -> DualEncoder:
    return cast(DualEncoder, Pieces(special, odd))


def found(encoder: DualEncoder, caption: str, align: Align, length: int = 12) -> dict[int, str]:
    """Column to word, without the end."""
    mark_L = marks(encoder, [caption], align=align, length=length).mark_NL[0] % END
    return {at: FUNCTIONAL[mark - 1] for at, mark in enumerate(mark_L.tolist()) if mark}


def test_the_columns_of_a_word_are_those_of_its_own_pieces() -> None:
    # start | a | mug | lef t | of | a | cup | end: "left" has two pieces.
    assert found(like_clip(), "a mug left of a cup", "token") == {3: "left", 4: "left"}
    assert found(like_clip(special=1), "a mug left of a cup", "token") == {2: "left", 3: "left"}
    # The comma is a piece of its own, and capitals are the same word.
    assert found(like_clip(), "a mug Not, a cup", "token") == {3: "not"}


def test_word_index_is_off_by_the_start_token_and_by_split_words() -> None:
    """13.8: the released rule marks column k for word k; column 0 is the start token."""
    assert found(like_clip(), "a mug not a cup", "token") == {3: "not"}
    assert found(like_clip(), "a mug not a cup", "word_index") == {2: "not"}
    # "bottle" has two pieces: the released column stays where it was, the right one moves.
    assert found(like_clip(), "a bottle not a cup", "token") == {4: "not"}
    assert found(like_clip(), "a bottle not a cup", "word_index") == {2: "not"}
    # Without a start token and with whole words both are the same.
    tiny = load("base")
    for align in ("token", "word_index"):
        assert found(tiny, "a star left of a cup", align) == {2: "left"}


def test_only_the_first_occurrence_is_marked() -> None:
    caption = "no cup but no big mug"
    expected = {0: "no", 2: "but", 4: "big"}
    assert found(like_clip(), caption, "word_index") == expected
    assert found(like_clip(special=0), caption, "token") == expected


def test_the_released_rule_takes_words_as_they_are_written() -> None:
    assert found(like_clip(), "a cup Left, left a", "word_index") == {3: "left"}
    # Single spaces: an empty word counts.
    assert found(like_clip(), "a  not", "word_index") == {2: "not"}


def test_what_is_beyond_the_last_column_is_not_marked() -> None:
    given = like_clip()
    every = marks(given, ["a a a a not", "a not", "a cup"], align="token", length=5)
    assert (every.cut, every.plain, every.unplaced) == (1, 2, 0)
    assert (every.mark_NL % END).tolist() == [[0] * 5, [0, 0, 7, 0, 0], [0] * 5]
    # The end: cut at the last column, else at the last token.
    assert (every.mark_NL >= END).nonzero()[1].tolist() == [4, 3, 3]
    # Where "not" would have stood is the end now, which must not be replaced by a word.
    fixed, released = (
        marks(given, ["a a a not a a"], align=align, length=5).mark_NL[0].tolist()
        for align in ("token", "word_index")
    )
    assert fixed == [0, 0, 0, 0, END]
    assert released == [0, 0, 0, 7, END]


def test_pieces_that_do_not_add_up_mark_nothing_and_are_counted() -> None:
    odd = marks(like_clip(odd=True), ["a cup not", "a mug cup"], align="token", length=8)
    assert (odd.unplaced, odd.plain) == (1, 1)
    assert not (odd.mark_NL % END).any()


def test_words_are_placed_with_signs_apart_or_together() -> None:
    placed = placed_words(like_clip(), ["mug, cup", ""])
    assert placed[0] == (Placed("mug", 1, 2), Placed(",", 2, 3), Placed("cup", 3, 4))
    assert placed[1] is None
    # The tiny model drops signs: they have no pieces.
    assert placed_words(load("base"), ["star, cup"])[0] == (
        Placed("star", 0, 1),
        Placed(",", 1, 1),
        Placed("cup", 1, 2),
    )


def test_ends_need_one_number_of_special_pieces() -> None:
    assert ends(5, [3, 3, 3], [4, 4, 4]) == [(1, 2), (2, 3), (3, 4)]
    assert ends(6, [3, 3, 3], [4, 4, 4]) is None
    assert ends(5, [3, 4, 3], [4, 4, 4]) is None


def test_the_view_keeps_what_the_encoder_makes_of_padding() -> None:
    tiny = load("base")
    kept = MapCaptions("token", 12, "kept")
    zero = MapCaptions("token", 12, "zero")
    captions = ["a star left of a cup", "a red cup"]
    padded, plain = kept(tiny, captions), zero(tiny, captions)
    joint = joint_texts(tiny, captions)
    assert padded.vector_NLW.shape == plain.vector_NLW.shape == (2, 12, 128)
    for row, count in enumerate(tiny.count_tokens(captions)):
        for parts in (padded, plain):
            torch.testing.assert_close(
                parts.vector_NLW[row, :count], joint.vector_NLW[row, :count], atol=1e-6, rtol=0
            )
        assert not plain.vector_NLW[row, count:].any()
        # Padding is read by itself, and does not depend on the other captions.
        norm = padded.vector_NLW[row, count:].norm(dim=-1)
        torch.testing.assert_close(norm, torch.ones(12 - count))
    alone = kept(tiny, captions[1:])
    torch.testing.assert_close(alone.vector_NLW[0], padded.vector_NLW[1], atol=1e-6, rtol=0)
    assert padded.mask_NL.all()
    assert plain.mask_NL.sum(dim=1).tolist() == tiny.count_tokens(captions)
    assert (kept.view.name, zero.view.name) == ("dcsm-token-12-kept", "dcsm-token-12-zero")


def test_captions_beyond_the_map_are_cut_counted_and_said_once() -> None:
    tiny = load("base")
    view = MapCaptions("word_index", 4, "kept")
    with pytest.warns(
        UserWarning, match="tiny:base with more than 4 tokens are truncated: a map has 4"
    ):
        found = view(tiny, ["a red cup and a star", "a cup"])
    view(tiny, ["a cup and a star"])
    every = ["a red cup and a star", "a cup", "a cup and a star"]
    counted = marks(tiny, every, align="word_index", length=4)
    assert (counted.cut, counted.plain) == (2, 3)
    # The end token stays, as a tokenizer that cuts at 4 has it.
    short = tiny.encode_padded(["a red cup"], length=4)
    torch.testing.assert_close(found.vector_NLW[0], short.vector_NLW[0], atol=1e-6, rtol=0)
    # The caption's own vector is that of all of it.
    torch.testing.assert_close(found.pooled[:1], tiny.encode_texts(["a red cup and a star"]))


def test_more_columns_than_an_encoder_has_places_are_zero() -> None:
    tiny = load("base")
    found = MapCaptions("token", 40, "kept")(tiny, ["a red cup"])
    assert found.vector_NLW.shape[1] == 40
    assert found.vector_NLW[0, :32].norm(dim=-1).min() > 0.99
    assert not found.vector_NLW[0, 32:].any()
    assert found.mask_NL[0].tolist() == [True] * 32 + [False] * 8


def test_a_model_that_hides_its_padding_is_told() -> None:
    class Hides:
        name = "a model"

        def __init__(self) -> None:
            self.inner = load("base")
            for shown in ("count_tokens", "encode_texts", "encode_tokens", "encode_patches"):
                setattr(self, shown, getattr(self.inner, shown))
            self.fingerprint = self.device = ""
            self.scale = self.bias = self.context = 1
            self.prepare = self.encode_images = self.inner.encode_images

    view = MapCaptions("token", 8, "kept")
    with pytest.warns(UserWarning, match="a model returns no vectors of padding"):
        found = view(cast(DualEncoder, Hides()), ["a red cup"])
    assert found.mask_NL.sum() == 4


def test_a_model_without_parts_is_refused() -> None:
    class OneVector:
        name = "one vector"

        def count_tokens(self, captions: Sequence[str]) -> list[int]:
            return [3 for _ in captions]

    with pytest.raises(UnbagError, match="one vector shows one vector for an image") as error:
        MapCaptions("token", 8, "kept")(cast(DualEncoder, OneVector()), ["a cup"])
    assert error.value.expected.startswith("a model with patches and tokens")


SMALL = (


    "steps=3", "scenes=40", "batch_size=16", "contrast_size=8", "length=12", "net=mlp",
    "warmup_steps=0",


)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [("dcsm_fixed", ("opposites=true", "negatives=false")), ("dcsm", ())],
)
def test_a_reader_is_trained_and_scores(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    tiny = load("base")
    before = {key: value.clone() for key, value in tiny.network.state_dict().items()}
    trained = train_readout(name, tiny, "world", tmp_path, settings=(*SMALL, *more))
    assert trained.is_done
    assert all(torch.equal(value, before[key]) for key, value in tiny.network.state_dict().items())
    (scorer,) = find_readout(name).scorers(tiny, tmp_path)
    items = triple_items(("relation",), n=3)[:6]
    if name == "dcsm":
        # The candidates of an item are one call.
        assert isinstance(scorer, ItemReaderScorer)
        found, alone = scorer.score_items(items)[0].values, scorer.score_items(items[:1])[0].values
        assert found is not None
        assert alone is not None
        np.testing.assert_allclose(found, alone, atol=1e-6)
        said = scorer.score([Query(items[0].images[0], items[0].captions[0])])
        assert abs(float(said[0]) - found[0, 0]) > 1e-6
    else:
        assert isinstance(scorer, ReaderScorer)
        assert not isinstance(scorer, ItemReaderScorer)
        queries = [Query(i.images[0], c) for i in items for c in i.captions]
        whole = torch.as_tensor(scorer.score(queries))
        some = torch.as_tensor(scorer.score(queries[4:5]))
        torch.testing.assert_close(some, whole[4:5], atol=1e-5, rtol=0)
    with pytest.raises(UnbagError, match=tiny.fingerprint) as error:
        find_readout(name).scorers(load("random"), tmp_path)
    assert load("random").fingerprint in error.value.message


def test_settings_that_make_no_map_are_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="the setting only=patches"):
        train_readout("dcsm_fixed", load("base"), "world", tmp_path, settings=("only=patches",))
    with pytest.raises(UnbagError, match="length=1"):
        train_readout("dcsm", load("base"), "world", tmp_path, settings=("length=1", "scenes=4"))
