"""Batches from pairs, with edits from files or made while training."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.training.data.batch import Batch, Share
from unbag.training.data.checks import ready_batches
from unbag.training.data.pairs import Columns, OnlineEdits, PairBatches, make_online_edits, order_of
from unbag.training.recipes import Recipe, Slot

from .pair_files import ARTICLE, SWAP, Bytes, image, lines, negative, numbered, recipe, spoken


def batches(
    pairs: Pairs, config: Recipe, *, seed: int = 0, share: Share | None = None
) -> PairBatches:
    return PairBatches(pairs, config, Bytes(), seed, share or Share())


def test_an_epoch_shows_each_image_once_and_drops_the_rest(tmp_path: Path) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 11)))
    whole = batches(pairs, recipe(batch_size=4, epochs=3))
    assert (whole.per_epoch, len(whole)) == (2, 6)
    first = [shade for step in (0, 1) for shade, *_ in spoken(whole[step])]
    assert len(set(first)) == 8
    assert first == order_of(pairs, seed=0, epoch=0)[:8].tolist()
    second = [shade for step in (2, 3) for shade, *_ in spoken(whole[step])]
    assert second == order_of(pairs, seed=0, epoch=1)[:8].tolist() != first


def test_a_caption_comes_with_its_own_edit(tmp_path: Path) -> None:
    whole = batches(open_pairs(str(numbered(tmp_path, 8))), recipe(epochs=4))
    seen = set()
    for step in range(len(whole)):
        for shade, caption, negatives, _ in spoken(whole[step]):
            expected = {
                f"dog {shade} on mat": f"mat {shade} on dog",
                f"mat {shade} under dog": f"dog {shade} under mat",
            }
            assert negatives == [expected[caption]]
            seen.add(caption)
    assert len(seen) > 8, "both captions of an image are drawn in some epoch"


def test_two_shares_are_the_whole_batch_in_order(tmp_path: Path) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 9)))
    for config in (recipe(), recipe(hard_images=True)):
        whole = batches(pairs, config)
        halves = [batches(pairs, config, share=Share(rank, 2)) for rank in (0, 1)]
        assert {half.fingerprint for half in halves} == {whole.fingerprint}
        for step in range(len(whole)):
            assert spoken(halves[0][step]) + spoken(halves[1][step]) == spoken(whole[step])
            joined = {
                key: torch.cat([half[step].code[key] for half in halves])
                for key in ("caption", "picture", "negative")
            }
            assert all(torch.equal(joined[key], code) for key, code in whole[step].code.items())


def test_a_step_is_the_same_whenever_it_is_asked_for(tmp_path: Path) -> None:
    path = str(numbered(tmp_path, 9))
    whole = batches(open_pairs(path), recipe())
    in_order = [spoken(whole[step]) for step in range(len(whole))]
    resumed = batches(open_pairs(path), recipe())
    assert spoken(resumed[3]) == in_order[3]
    assert spoken(resumed[0]) == in_order[0]
    other = batches(open_pairs(path), recipe(), seed=1)
    assert [spoken(other[step]) for step in range(len(other))] != in_order
    assert other.fingerprint != whole.fingerprint
    with pytest.raises(IndexError):
        whole[len(whole)]


def test_workers_make_the_same_batches(tmp_path: Path) -> None:
    whole = batches(open_pairs(str(numbered(tmp_path, 8))), recipe())
    expected = [spoken(whole[step]) for step in range(len(whole))]
    flow: Any = whole
    loader: DataLoader[Batch] = DataLoader(flow, batch_size=None, shuffle=False, num_workers=2)
    assert [spoken(batch) for batch in loader] == expected
    # What a worker gets where processes are started anew.
    sent: PairBatches = pickle.loads(pickle.dumps(whole))
    assert [spoken(sent[step]) for step in range(len(sent))] == expected
    assert sent.fingerprint == whole.fingerprint


def test_hard_images_stand_after_those_that_brought_them(tmp_path: Path) -> None:
    path = numbered(tmp_path, 6)
    near = lines(
        tmp_path / "near.jsonl",
        *(
            {"image": f"{n}.png", "neighbours": [f"{(n + 1) % 6}.png", "gone.png"]}
            for n in range(5)
        ),
    )
    pairs = open_pairs(str(path), neighbours=near)
    assert pairs[2].nearest == (3,)
    whole = batches(pairs, recipe(batch_size=3, hard_images=True))
    for step in range(len(whole)):
        shades = [shade for shade, *_ in spoken(whole[step])]
        assert len(whole[step]) == 6
        for own, brought in zip(shades[::2], shades[1::2], strict=True):
            assert brought == own + 1 or own == 5, "one without neighbours brings any"


def test_a_column_without_an_edit_is_masked(tmp_path: Path) -> None:
    image(tmp_path / "a.png", 1)
    image(tmp_path / "b.png", 2)
    path = lines(
        tmp_path / "p.jsonl",
        {"image": "a.png", "caption": "a dog on a mat", "edits": [negative("a mat on a dog")]},
        {"image": "b.png", "caption": "A cup.", "edits": [negative("a cup", "mine")]},
    )
    config = recipe(
        batch_size=2, negatives=(Slot("swap", ("neg_clip_fixed",)), Slot("mine", ("mine",)))
    )
    whole = batches(open_pairs(str(path)), replace(config, positives=(ARTICLE,)))
    texts = sorted(spoken(whole[0]))
    assert texts == [
        (1, "a dog on a mat", ["a mat on a dog", None], [None]),
        # A negative that says what the caption says is none.
        (2, "A cup.", [None, None], [None]),
    ]


def test_one_edit_fills_one_column(tmp_path: Path) -> None:
    twice = (Slot("one", ("swap_nouns",)), Slot("two", ("swap_nouns", "replace_noun")))
    whole = batches(open_pairs(str(numbered(tmp_path, 4))), recipe(negatives=twice))
    assert all(negatives[1] is None for _, _, negatives, _ in spoken(whole[0]))


def test_equal_captions_are_no_negatives(tmp_path: Path) -> None:
    for shade, name in enumerate("abc"):
        image(tmp_path / f"{name}.png", shade)
    path = lines(
        tmp_path / "p.jsonl",
        {"image": "a.png", "caption": "A dog  on a mat.", "edits": [negative("a mat on a dog")]},
        {"image": "b.png", "caption": "a dog on a mat", "edits": []},
        {"image": "c.png", "caption": "a mat on a dog", "edits": [negative("a dog on a mat")]},
        {"image": "b.png", "caption": "another one", "edits": []},
    )
    whole = batches(open_pairs(str(path)), recipe(batch_size=4))
    batch = whole[0]
    find = whole.find_truth
    assert find is not None
    truth = find(batch.code)
    captions = [caption for _, caption, *_ in spoken(batch)]
    order = np.array(
        [
            captions.index(one)
            for one in ("A dog on a mat.", "a dog on a mat", "a mat on a dog", "another one")
        ]
    )
    also = truth.also_true_BB[order][:, order]
    assert also.tolist() == [
        [False, True, False, False],
        [True, False, False, True],
        [False, False, False, False],
        [False, True, False, False],
    ]
    assert truth.negative_true_BBK is not None
    assert truth.negative_true_BBK[order][:, order, 0].tolist() == [
        [False, False, True, False],
        [False, False, True, False],
        [True, False, False, False],
        [False, False, False, False],
    ]
    unmasked = batches(open_pairs(str(path)), recipe(masks_equal=False))
    assert unmasked.find_truth is None
    assert not unmasked[0].code


def test_a_batch_of_one(tmp_path: Path) -> None:
    whole = batches(open_pairs(str(numbered(tmp_path, 2))), recipe(batch_size=1, epochs=1))
    assert [len(whole[step]) for step in (0, 1)] == [1, 1]
    find = whole.find_truth
    assert find is not None
    assert not find(whole[0].code).also_true_BB.any()


def test_fewer_pairs_than_a_batch(tmp_path: Path) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 3)))
    with pytest.raises(UnbagError, match="3 pairs make no batch of 4") as caught:
        batches(pairs, recipe())
    assert caught.value.hint == "--set batch_size=3, or fewer"
    with pytest.raises(UnbagError, match="a batch of 3 cannot be shared by 2 processes"):
        batches(pairs, recipe(batch_size=3), share=Share(0, 2))


def test_a_damaged_image_is_replaced_by_the_next(tmp_path: Path) -> None:
    path = numbered(tmp_path, 6)
    whole = batches(open_pairs(str(path)), recipe(batch_size=6))
    before = [shade for shade, *_ in spoken(whole[0])]
    assert whole[0].skipped == 0
    for broken in (2, 3):
        (tmp_path / f"{broken}.png").write_bytes(b"no image")
    # Files changed after the check before training: their pairs stay in the order.
    batch = whole[0]
    assert batch.skipped == 3, "2 tries 3 and takes 4, 3 takes 4"
    assert {name for name, _ in batch.unread} == {
        str(tmp_path / "2.png"),
        str(tmp_path / "3.png"),
    }
    assert all("a format unknown to Pillow" in why for _, why in batch.unread)
    expected = [4 if shade in (2, 3) else shade for shade in before]
    assert [shade for shade, *_ in spoken(batch)] == expected
    find = whole.find_truth
    assert find is not None
    also = find(batch.code).also_true_BB
    assert also.sum() == 6, "three times the same image: no negatives of each other"


def test_no_image_opens(tmp_path: Path) -> None:
    path = numbered(tmp_path, 4)
    whole = batches(open_pairs(str(path)), recipe())
    for n in range(4):
        (tmp_path / f"{n}.png").write_bytes(b"")
    with pytest.raises(UnbagError, match="4 consecutive pairs cannot be read") as caught:
        whole[0]
    assert "the file is empty" in caught.value.message


CAPTIONS = (
    "a dog and a cat on a red sofa",
    "a man on a brown horse",
    "a cup under a green table",
    "two",
)
REPLACE = Slot("replace", ("replace_noun", "swap_nouns"))


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    pytest.importorskip("spacy")
    for shade in range(4):
        image(tmp_path / f"{shade}.png", shade)
    records = ({"image": f"{n}.png", "caption": text} for n, text in enumerate(CAPTIONS))
    return open_pairs(str(lines(tmp_path / "p.jsonl", *records)))


def test_edits_are_made_in_the_worker(pairs: Pairs) -> None:
    config = recipe(batch_size=4, epochs=3, negatives=(SWAP, REPLACE), positives=(ARTICLE,))
    whole, surveyed = ready_batches(pairs, config, Bytes(), seed=0)
    assert whole.online_edits is not None
    assert whole.online_edits.per_kind == 2, "two columns take swaps of nouns"
    assert whole.about.endswith("4 images, 4 captions, edits made while training")
    by_shade = {shade: rest for shade, *rest in spoken(whole[0])}
    assert by_shade[1] == [
        "a man on a brown horse",
        ["a horse on a brown man", *by_shade[1][1][1:]],
        by_shade[1][2],
    ]
    assert by_shade[3] == ["two", [None, None], [None]]
    assert surveyed.shares["swap"] == pytest.approx(0.75)
    assert surveyed.captions == 4
    assert not surveyed.is_estimated
    halves = [ready_batches(pairs, config, Bytes(), seed=0, share=Share(r, 2))[0] for r in (0, 1)]
    for step in range(3):
        assert spoken(halves[0][step]) + spoken(halves[1][step]) == spoken(whole[step])
    epochs = [{shade: rest[1] for shade, *rest in spoken(whole[step])}[0] for step in range(3)]
    assert len({str(edits) for edits in epochs}) > 1, "another epoch, other edits"


def test_each_process_loads_its_own(pairs: Pairs) -> None:
    online = OnlineEdits(("swap_nouns",), 0)
    online.load()
    sent: OnlineEdits = pickle.loads(pickle.dumps(online))
    assert sent.editor is None
    assert sent.fingerprint == online.fingerprint
    assert [e.text for e in sent([pairs[1]], [0], epoch=0)[0]] == ["a horse on a brown man"]


FILL = Slot("action", ("fill_action",))


@pytest.mark.parametrize(
    ("negatives", "parts", "message", "hint"),
    [
        ((SWAP,), EditParts(pipeline="no-such-pipeline"), "no-such-pipeline", ""),
        ((Slot("swap", ("swap_nowns",)),), None, "unknown kind of edit 'swap_nowns'", ""),
        # Edits that need a model have to be made before.
        ((SWAP, FILL), None, "cannot be made while training: fills need a language model",
         "make them first with `unbag edit --kinds swap_nouns fill_action --fill M`"),
    ],
)  # fmt: skip
def test_edits_that_cannot_be_made_are_refused_before_training(
    pairs: Pairs, negatives: tuple[Slot, ...], parts: EditParts | None, message: str, hint: str
) -> None:
    with pytest.raises(UnbagError, match=message) as caught:
        ready_batches(pairs, recipe(negatives=negatives), Bytes(), seed=0, parts=parts)
    assert caught.value.hint.startswith(hint)


def test_kinds_of_all_columns_are_made_once() -> None:
    columns = Columns((frozenset({"b", "a"}), frozenset({"a"})), (frozenset({"c"}),))
    assert make_online_edits(columns, seed=1).kinds == ("a", "b", "c")
    assert make_online_edits(columns, seed=1).per_kind == 2
