"""Edits that are made while training: the same for a seed and an epoch, loaded by each worker."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.training.data.batch import Share
from unbag.training.data.checks import ready_batches
from unbag.training.data.pairs import Columns, OnlineEdits, make_online_edits
from unbag.training.recipes import Slot

from .pair_files import ARTICLE, SWAP, Bytes, image, lines, recipe, spoken

pytest.importorskip("spacy")
CAPTIONS = (
    "a dog and a cat on a red sofa",
    "a man on a brown horse",
    "a cup under a green table",
    "two",
)
REPLACE = Slot("replace", ("replace_noun", "swap_nouns"))


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    for shade in range(4):
        image(tmp_path / f"{shade}.png", shade)
    records = ({"image": f"{n}.png", "caption": one} for n, one in enumerate(CAPTIONS))
    return open_pairs(str(lines(tmp_path / "p.jsonl", *records)))


def test_edits_are_made_in_the_worker(pairs: Pairs) -> None:
    said = recipe(batch_size=4, epochs=3, negatives=(SWAP, REPLACE), positives=(ARTICLE,))
    made, found = ready_batches(pairs, said, Bytes(), seed=0)
    assert made.online_edits is not None
    assert made.online_edits.per_kind == 2, "two columns take swaps of nouns"
    assert made.about.endswith("4 images, 4 captions, edits made while training")
    by_shade = {shade: rest for shade, *rest in spoken(made[0])}
    assert by_shade[1] == [
        "a man on a brown horse",
        ["a horse on a brown man", *by_shade[1][1][1:]],
        by_shade[1][2],
    ]
    assert by_shade[3] == ["two", [None, None], [None]]
    assert found.shares["swap"] == pytest.approx(0.75)
    assert found.captions == 4
    assert not found.is_estimated
    halves = [ready_batches(pairs, said, Bytes(), seed=0, share=Share(r, 2))[0] for r in (0, 1)]
    for step in range(3):
        assert spoken(halves[0][step]) + spoken(halves[1][step]) == spoken(made[step])
    epochs = [{shade: rest[1] for shade, *rest in spoken(made[step])}[0] for step in range(3)]
    assert len({str(one) for one in epochs}) > 1, "another epoch, other edits"


def test_each_process_loads_its_own(pairs: Pairs) -> None:
    made = OnlineEdits(("swap_nouns",), 0)
    made.load()
    sent: OnlineEdits = pickle.loads(pickle.dumps(made))
    assert sent.editor is None
    assert sent.fingerprint == made.fingerprint
    assert [e.text for e in sent([pairs[1]], [0], epoch=0)[0]] == ["a horse on a brown man"]


def test_a_missing_pipeline_is_told_before_training(pairs: Pairs) -> None:
    with pytest.raises(UnbagError, match="no-such-pipeline"):
        ready_batches(
            pairs, recipe(), Bytes(), seed=0, parts=EditParts(pipeline="no-such-pipeline")
        )


def test_a_kind_that_does_not_exist_is_told_before_training(pairs: Pairs) -> None:
    said = recipe(negatives=(Slot("swap", ("swap_nouns", "swap_nowns")),))
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_nowns'"):
        ready_batches(pairs, said, Bytes(), seed=0)


def test_kinds_of_all_columns_are_made_once() -> None:
    columns = Columns((frozenset({"b", "a"}), frozenset({"a"})), (frozenset({"c"}),))
    assert make_online_edits(columns, seed=1).kinds == ("a", "b", "c")
    assert make_online_edits(columns, seed=1).per_kind == 2


def test_edits_that_only_a_model_can_make_are_made_before(pairs: Pairs) -> None:
    fill = Slot("action", ("fill_action",))
    with pytest.raises(UnbagError) as caught:
        ready_batches(pairs, recipe(batch_size=4, negatives=(SWAP, fill)), Bytes(), seed=0)
    assert caught.value.message.startswith("the edits of ")
    assert "cannot be made while training: fills need a language model" in caught.value.message
    kinds = " ".join((*SWAP.kinds, *fill.kinds))
    assert caught.value.hint == (
        f"make them first with `unbag edit --kinds {kinds} --fill M` and name its output with "
        "--pairs"
    )
