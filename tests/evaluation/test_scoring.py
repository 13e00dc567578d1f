"""Scores: the same by vectors and by queries, and every way a scorer can misbehave."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.embedding import embed
from unbag.evaluation.loading import Job
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import run
from unbag.evaluation.scoring import QueryScoring, score_by_vectors
from unbag.evaluation.store import Key, ScoreStore
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item, Query, Scores, Sparse

from .stub import Odd


def by_vectors(encoder: Any, items: list[Item]) -> dict[str, Scores]:
    plan = make_plan({"toy": items})
    vectors = embed(
        encoder,
        plan,
        cache=None,
        batch_plans={},
        save_batch_plans=lambda: None,
        batch_size=8,
        progress=Silent(),
    )
    chunks = score_by_vectors(Cosine(encoder), items, plan.rows["toy"], vectors)
    return {scores.item: scores for chunk in chunks for scores in chunk}


def gallery(items: list[Item]) -> Item:
    images = tuple(item.images[0] for item in items[:6])
    captions = tuple(str(item.captions[0]) for item in items[:3])
    rows, columns = np.arange(6), np.arange(6) % 3
    return Item("gallery", images, captions, Sparse((6, 3), rows, columns))


def test_vectors_and_queries_agree(encoder: Any, items: list[Item]) -> None:
    known = by_vectors(encoder, items)
    asked = {s.item: s for s in QueryScoring(Cosine(encoder)).chunk(items)}
    for item in items:
        first, second = known[item.id].values, asked[item.id].values
        assert first is not None
        assert second is not None
        assert np.allclose(first, second, atol=1e-7)


def test_large_items_keep_ranks_not_the_matrix(encoder: Any, items: list[Item]) -> None:
    item = gallery(items)
    for scores in (
        by_vectors(encoder, [item])["gallery"],
        *QueryScoring(Cosine(encoder)).chunk([item]),
    ):
        assert scores.values is None
        assert scores.image_to_text is not None
        assert scores.text_to_image is not None
        assert scores.image_to_text.greater_Q.tolist() == [0] * 6
        assert scores.text_to_image.true_Q.tolist() == [2, 2, 2]


def test_equal_queries_are_asked_once(items: list[Item]) -> None:
    odd = Odd(lambda queries: [1.0] * len(queries))
    repeated = [
        Item(f"i{n}", items[0].images, ("a", "b"), np.array([[True, False]])) for n in range(9)
    ]
    QueryScoring(odd).chunk(repeated)
    assert odd.asked == [2]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0.1] * 59, r"scorer 'odd' returned too few numbers: shape \(59,\) for 60 queries"),
        ([0.1] * 61, r"scorer 'odd' returned too many numbers: shape \(61,\) for 60 queries"),
        (np.zeros((60, 1)), r"shape \(60, 1\) for 60 queries"),
    ],
)
def test_the_wrong_number_of_numbers(items: list[Item], numbers: Any, message: str) -> None:
    one_each = [
        Item(i.id, i.images, (f"{i.id} a", f"{i.id} b"), np.array([[True, False]])) for i in items
    ]
    with pytest.raises(UnbagError, match=message):
        QueryScoring(Odd(numbers)).chunk(one_each)


def test_nan_passes_and_is_counted_later(items: list[Item]) -> None:
    (scores,) = QueryScoring(Odd([float("nan"), 1.0])).chunk(items[:1])
    assert scores.values is not None
    assert np.isnan(scores.values[0, 0])
    assert scores.values[0, 1] == 1.0


def test_a_damaged_image_costs_only_its_own_items(items: list[Item], tmp_path: Path) -> None:
    bad = tmp_path / "pictures" / "1.png"
    bad.write_bytes(b"junk")

    def looks(queries: Sequence[Query]) -> list[float]:
        return [float(np.asarray(query.image.open()).mean()) for query in queries]

    asking = QueryScoring(Odd(looks))
    scores = {s.item: s.values for s in asking.chunk(items[:6])}
    invalid = [name for name, values in scores.items() if values is None or np.isnan(values).any()]
    assert invalid == ["item1"]
    assert list(asking.damaged) == [str(bad)]


def test_a_scorer_with_a_bug_is_not_mistaken_for_damage(items: list[Item]) -> None:
    def broken(queries: Sequence[Query]) -> list[float]:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        QueryScoring(Odd(broken)).chunk(items[:2])


def test_too_large_a_gallery_for_a_pair_scorer(items: list[Item]) -> None:
    wide = Item(
        "wide",
        items[0].images * 1001,
        tuple(str(i) for i in range(1000)),
        Sparse((1001, 1000), np.array([0]), np.array([0])),
    )
    with pytest.raises(UnbagError, match="odd scores pairs one by one, and 'wide' has 1001 x 1000"):
        QueryScoring(Odd([])).chunk([wide])


def test_the_store_gives_back_what_it_was_given(
    encoder: Any, items: list[Item], tmp_path: Path
) -> None:
    key, path = Key("toy", "colours"), tmp_path / "scores.parquet"
    large = gallery(items)
    known = by_vectors(encoder, [*items, large])
    chat = Scores(
        "item0", np.array([[0.5, np.nan]]), answers=("A",), order_logprobs=((-1.0, -2.0),)
    )
    store = ScoreStore(path)
    store.add(key, [(item, known[item.id]) for item in [*items, large]])
    store.add(Key("toy", "chat"), [(items[0], chat)])
    store.save()
    again = ScoreStore(path)
    for item in items:
        assert np.array_equal(again.get(key)[item.id].values, known[item.id].values)  # type: ignore[arg-type]
    ranks, expected = again.get(key)["gallery"].text_to_image, known["gallery"].text_to_image
    assert ranks is not None
    assert expected is not None
    assert np.array_equal(ranks.top_score_QK, expected.top_score_QK)
    back = again.get(Key("toy", "chat"))["item0"]
    assert (back.answers, back.order_logprobs) == (("A",), ((-1.0, -2.0),))
    assert back.values is not None
    assert np.isnan(back.values[0, 1])


def test_the_store_is_an_open_table(items: list[Item], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    store = ScoreStore(tmp_path / "scores.parquet")
    store.add(Key("toy", "odd"), [(items[0], Scores("item0", np.array([[0.25, 0.75]])))])
    store.save()
    (row,) = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    assert row["captions"] == list(items[0].captions)
    assert (row["true"], row["values"], row["shape"]) == ([0], [0.25, 0.75], [1, 2])
    assert row["tags"] == '{"colour": "red"}'


def test_a_damaged_store_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    path.write_bytes(b"PAR1 junk")
    with pytest.raises(UnbagError, match="cannot be read") as error:
        ScoreStore(path)
    assert "move the file away" in str(error.value)


def test_a_flipped_bit_of_a_score_is_told(items: list[Item], tmp_path: Path) -> None:
    """A file without checksums, as it was written before, is read as it is."""
    import pyarrow.parquet as pq

    path, values = tmp_path / "scores.parquet", np.array([[0.1234567, 0.7654321]])
    store = ScoreStore(path)
    store.add(Key("toy", "odd"), [(items[0], Scores("item0", values))])
    store.save()
    content = bytearray(path.read_bytes())
    pq.write_table(pq.read_table(path), path, compression="zstd")
    older = ScoreStore(path).get(Key("toy", "odd"))["item0"].values
    assert np.array_equal(older, values)  # type: ignore[arg-type]
    content[content.index(values.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnbagError, match=r"scores\.parquet cannot be read: .* CRC") as caught:
        ScoreStore(path)
    assert caught.value.expected == "the scores of an earlier run, as they were written"
    assert "move the file away" in caught.value.hint


def test_captions_are_compared_with_each_other_where_a_benchmark_asks(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    """The cosines of the encoder's own vectors, kept in the folder and read back."""
    run(Job([Cosine(encoder)], [replace(toy, compares_captions=True)], tmp_path / "run"))
    kept = ScoreStore(tmp_path / "run" / "scores.parquet").get(Key("toy", "colours"))
    for item in toy.load(None):
        vectors = encoder.encode_texts([str(c) for c in item.captions]).double().numpy()
        caption_CC = kept[item.id].caption_CC
        assert caption_CC is not None
        np.testing.assert_allclose(caption_CC, vectors @ vectors.T, atol=1e-6)
    run(Job([Cosine(encoder)], [toy], tmp_path / "plain"))
    plain = ScoreStore(tmp_path / "plain" / "scores.parquet").get(Key("toy", "colours"))
    assert all(scores.caption_CC is None for scores in plain.values())


class Whole(Odd):
    """A scorer of whole items that gives each a number and its answer."""

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        self.asked.append(len(items))
        for item in items:
            item.images[0].open()
        made = [Scores(i.id, np.ones(i.truth.shape), answers=("A",), unparsed=1) for i in items]
        return self.answer(made) if self.answer else made


def test_a_scorer_of_whole_items_is_asked_for_items(items: list[Item]) -> None:
    scorer = Whole()
    found = QueryScoring(scorer).chunk(items)
    assert scorer.asked == [len(items)]
    assert [s.item for s in found] == [item.id for item in items]
    assert {(s.answers, s.unparsed) for s in found} == {(("A",), 1)}


def test_items_with_a_damaged_image_are_invalid_and_the_others_are_asked(
    items: list[Item], tmp_path: Path
) -> None:
    broken = FileImage(tmp_path / "broken.png")
    broken.path.write_bytes(b"no image")
    damaged = replace(items[1], images=(broken,))
    asking = QueryScoring(Whole())
    first, second = asking.chunk([items[0], damaged])
    assert first.values is not None
    assert first.values.tolist() == [[1.0, 1.0]]
    assert second.values is not None
    assert np.isnan(second.values).all()
    assert list(asking.damaged) == [broken.name]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda made: made[:-1], "returned nothing as number 30 of 29"),
        (lambda made: made[::-1], r"returned \('item29', \(1, 2\)\) as number 1 of 30"),
        (lambda made: [*made, made[0]], "as number 31 of 31"),
    ],
)
def test_scores_of_other_items_are_refused(items: list[Item], answer: Any, said: str) -> None:
    with pytest.raises(UnbagError, match=said):
        QueryScoring(Whole(answer)).chunk(items)
